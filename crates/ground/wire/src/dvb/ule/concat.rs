//! Several TS packets or PDUs in one SNDU (RFC 5163, sections 3.1 and 3.2).

use crate::bytes::be16;
use crate::dvb::ts::PACKET_LEN;
use crate::{Error, Layer};

use super::{Extensions, Payload, Type};

/// Length in bytes of the common type of the PDUs, and of each length field.
const FIELD_LEN: usize = 2;
/// The bit in front of each PDU's length, which a receiver ignores.
const RESERVED: u16 = 0x8000;
/// RFC 5163 section 3.2: each PDU is shorter than 32,758 bytes.
const MAX_PDU_LEN: usize = 32_757;

/// Returns the TS packets, at least one. Any other content is an error.
pub(super) fn ts_packets(bytes: &[u8], offset: usize) -> Result<&[[u8; PACKET_LEN]], Error> {
    match bytes.as_chunks() {
        ([], _) | (_, [_, ..]) => Err(Error::malformed(Layer::Ule, offset, "TS-Concat size mismatch")),
        (packets, []) => Ok(packets),
    }
}

/// PDUs of one type in one SNDU, whose lengths were checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concatenation<'a> {
    kind: Type,
    bytes: &'a [u8],
}

impl<'a> Concatenation<'a> {
    /// Reads the common type and checks that the PDUs' lengths make up the rest.
    pub(super) fn parse(bytes: &'a [u8], offset: usize) -> Result<Concatenation<'a>, Error> {
        let Some((kind, rest)) = bytes.split_first_chunk::<FIELD_LEN>() else {
            return Err(Error::truncated(Layer::Ule, offset, offset + FIELD_LEN, offset + bytes.len()));
        };
        let concat = Concatenation { kind: Type(u16::from_be_bytes(*kind)), bytes: rest };
        if concat.kind == Type::PDU_CONCAT {
            return Err(Error::malformed(Layer::Ule, offset, "PDU-Concat in PDU-Concat"));
        }
        let len: usize = concat.pdus().map(|pdu| FIELD_LEN + pdu.len()).sum();
        if rest.is_empty() || len != rest.len() {
            return Err(Error::malformed(Layer::Ule, offset + FIELD_LEN, "PDU-Concat size mismatch"));
        }
        Ok(concat)
    }

    /// The PDUs' common type.
    pub const fn kind(&self) -> Type {
        self.kind
    }

    /// Returns the PDUs, with the extension headers that an unusual common type gives them.
    pub fn pdus(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || {
            let (len, behind) = rest.split_first_chunk::<FIELD_LEN>()?;
            let (pdu, behind) = behind.split_at_checked((u16::from_be_bytes(*len) & !RESERVED).into())?;
            rest = behind;
            Some(pdu)
        })
    }

    /// Returns the content of each PDU. An invalid one does not affect the others.
    pub fn payloads(&self) -> impl Iterator<Item = Result<Payload<'a>, Error>> + use<'a> {
        let kind = self.kind;
        self.pdus().map(move |pdu| {
            let (extensions, kind) = Extensions::parse(kind, pdu, 0)?;
            let at = extensions.buffer_len();
            match kind {
                Type::PDU_CONCAT => Err(Error::malformed(Layer::Ule, at, "PDU-Concat in PDU-Concat")),
                kind => Payload::parse(kind, &pdu[at..], at),
            }
        })
    }
}

/// Collector of PDUs of one type for one SNDU. Send it with [`Type::PDU_CONCAT`] and [`Concat::bytes`] for
/// its PDU. The caller decides how long to wait for more (PDU packing threshold of RFC 5163).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concat {
    bytes: Vec<u8>,
}

impl Concat {
    /// Creates a collector of PDUs of a type.
    ///
    /// # Panics
    /// If the type is itself [`Type::PDU_CONCAT`].
    pub fn new(kind: Type) -> Concat {
        assert!(kind != Type::PDU_CONCAT, "PDUs are not concatenated twice");
        Concat { bytes: kind.0.to_be_bytes().to_vec() }
    }

    /// Returns `true` if all PDUs, the added one included, are at most `max_len` bytes.
    pub fn push(&mut self, pdu: &[u8], max_len: usize) -> bool {
        let fits = pdu.len() <= MAX_PDU_LEN && self.bytes.len() + FIELD_LEN + pdu.len() <= max_len;
        if fits {
            self.bytes.extend((pdu.len() as u16).to_be_bytes());
            self.bytes.extend(pdu);
        }
        fits
    }

    /// Returns `true` if there is no PDU.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == FIELD_LEN
    }

    /// Returns the content of the SNDU: the type, and each PDU after its length.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets the PDUs.
    pub fn clear(&mut self) {
        self.bytes.truncate(FIELD_LEN);
    }

    /// The PDUs' common type.
    pub fn kind(&self) -> Type {
        Type(be16(&self.bytes, 0))
    }
}
