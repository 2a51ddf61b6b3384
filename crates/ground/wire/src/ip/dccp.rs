//! DCCP (RFC 4340): packet headers, options of CCID 3 (RFC 4342) and Quick-Start (RFC 5634).
//!
//! Read are both lengths of sequence numbers; written is the long one. Options are read and written as types with their
//! data, and those of TFRC as values. Not here: feature negotiation beyond carrying its options, acknowledgement
//! vectors, loss intervals, and any state.

use crate::bytes::{be16, be32, put16, put32};
use crate::ip::checksum::Pseudo;
use crate::{Error, Layer};

mod options;

pub use options::{Item, Items, Options, kind};

/// Length in bytes of the generic header with long sequence numbers.
pub const HEADER_LEN: usize = 16;
/// Length in bytes of the generic header with short sequence numbers.
pub const SHORT_HEADER_LEN: usize = 12;
/// The longest header, in bytes.
pub const MAX_HEADER_LEN: usize = 1020;
/// Sequence and acknowledgement numbers have 48 bits.
pub const NUMBER_MASK: u64 = 0xffff_ffff_ffff;

/// Offsets of the fields.
mod field {
    pub(super) const SRC_PORT: usize = 0;
    pub(super) const DST_PORT: usize = 2;
    pub(super) const DATA_OFFSET: usize = 4;
    pub(super) const CCVAL_CSCOV: usize = 5;
    pub(super) const CHECKSUM: usize = 6;
    pub(super) const TYPE: usize = 8;
}

/// Packet types (RFC 4340, section 5.1, table 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the RFC's")]
pub enum Type {
    Request,
    Response,
    Data,
    Ack,
    DataAck,
    CloseReq,
    Close,
    Reset,
    Sync,
    SyncAck,
}

impl Type {
    const ALL: [Type; 10] = [
        Type::Request,
        Type::Response,
        Type::Data,
        Type::Ack,
        Type::DataAck,
        Type::CloseReq,
        Type::Close,
        Type::Reset,
        Type::Sync,
        Type::SyncAck,
    ];

    /// Returns `true` if it has an acknowledgement number.
    pub const fn acknowledges(self) -> bool {
        !matches!(self, Type::Request | Type::Data)
    }

    /// Returns `true` if its sequence number may be short.
    const fn may_be_short(self) -> bool {
        matches!(self, Type::Data | Type::Ack | Type::DataAck)
    }

    /// Bytes after the acknowledgement number: service code or reset code.
    const fn extra_len(self) -> usize {
        match self {
            Type::Request | Type::Response | Type::Reset => 4,
            _ => 0,
        }
    }
}

/// View of a DCCP packet. IP determines its length, so the view covers all it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
    elided: usize,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Returns a view of a packet that is all of `buffer`.
    ///
    /// # Errors
    /// Returns the errors of [`Packet::new_elided`].
    pub fn new_checked(buffer: T) -> Result<Packet<T>, Error> {
        Packet::new_elided(buffer, 0)
    }

    /// Creates a view of a packet that fills `buffer`, followed by `elided` zero bytes.
    ///
    /// # Errors
    /// Returns an error if the header is truncated, its type is reserved, its data offset is inside the
    /// header or beyond the bytes that are there, or its sequence number is short where it must not be (RFC
    /// 4340, section 5.1). The checksum is not looked at.
    pub fn new_elided(buffer: T, elided: usize) -> Result<Packet<T>, Error> {
        let have = buffer.as_ref().len();
        if have < SHORT_HEADER_LEN {
            return Err(Error::truncated(Layer::Dccp, 0, SHORT_HEADER_LEN, have));
        }
        let packet = Packet { buffer, elided };
        let raw = packet.bytes()[field::TYPE] >> 1 & 0xf;
        let Some(&kind) = Type::ALL.get(usize::from(raw)) else {
            return Err(Error::unsupported(Layer::Dccp, field::TYPE, "reserved packet type"));
        };
        if !packet.is_long() && !kind.may_be_short() {
            return Err(Error::malformed(
                Layer::Dccp,
                field::TYPE,
                "short sequence number in a packet of this type",
            ));
        }
        let (least, header_len) = (packet.options_start(), packet.header_len());
        if have < least {
            return Err(Error::truncated(Layer::Dccp, 0, least, have));
        }
        if header_len < least {
            return Err(Error::malformed(Layer::Dccp, field::DATA_OFFSET, "data offset inside the header"));
        }
        if header_len > have {
            return Err(Error::truncated(Layer::Dccp, field::DATA_OFFSET, header_len, have));
        }
        Ok(packet)
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    fn is_long(&self) -> bool {
        self.bytes()[field::TYPE] & 1 != 0
    }

    fn generic_len(&self) -> usize {
        if self.is_long() { HEADER_LEN } else { SHORT_HEADER_LEN }
    }

    fn ack_len(&self) -> usize {
        match (self.kind().acknowledges(), self.is_long()) {
            (false, _) => 0,
            (true, true) => 8,
            (true, false) => 4,
        }
    }

    fn options_start(&self) -> usize {
        self.generic_len() + self.ack_len() + self.kind().extra_len()
    }

    /// Returns the source port.
    pub fn src_port(&self) -> u16 {
        be16(self.bytes(), field::SRC_PORT)
    }

    /// Returns the destination port.
    pub fn dst_port(&self) -> u16 {
        be16(self.bytes(), field::DST_PORT)
    }

    /// Returns the header's length in bytes, options included.
    pub fn header_len(&self) -> usize {
        4 * usize::from(self.bytes()[field::DATA_OFFSET])
    }

    /// Returns four bits of the congestion control: CCID 3's window counter.
    pub fn ccval(&self) -> u8 {
        self.bytes()[field::CCVAL_CSCOV] >> 4
    }

    /// Returns the maximum number of covered data bytes; `None` for all (section 9.2).
    pub fn coverage(&self) -> Option<usize> {
        match self.bytes()[field::CCVAL_CSCOV] & 0xf {
            0 => None,
            words => Some(4 * (usize::from(words) - 1)),
        }
    }

    /// Returns the checksum as it stands there.
    pub fn checksum(&self) -> u16 {
        be16(self.bytes(), field::CHECKSUM)
    }

    /// Returns the packet type.
    pub fn kind(&self) -> Type {
        Type::ALL[usize::from(self.bytes()[field::TYPE] >> 1 & 0xf) % Type::ALL.len()]
    }

    /// Returns the sequence number: its low 24 bits if it is short.
    pub fn sequence(&self) -> u64 {
        if self.is_long() { long(self.bytes(), 10) } else { u64::from(be32(self.bytes(), 8) & 0xff_ffff) }
    }

    /// Returns the acknowledgement number, if the packet has one. Its low 24 bits if it is short.
    pub fn ack(&self) -> Option<u64> {
        match self.ack_len() {
            0 => None,
            4 => Some(u64::from(be32(self.bytes(), SHORT_HEADER_LEN) & 0xff_ffff)),
            _ => Some(long(self.bytes(), HEADER_LEN + 2)),
        }
    }

    /// Returns the service code of a request or response, or a reset's code and data. The reset code is in
    /// the first byte.
    pub fn extra(&self) -> Option<u32> {
        let at = self.generic_len() + self.ack_len();
        (self.kind().extra_len() > 0).then(|| be32(self.bytes(), at))
    }

    /// Returns the options.
    pub fn options(&self) -> Items<'_> {
        Items::new(&self.bytes()[self.options_start()..self.header_len()], self.options_start())
    }

    /// Returns the data's bytes that are there.
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[self.header_len()..]
    }

    /// Returns the data's length in bytes, elided ones included.
    pub fn payload_len(&self) -> usize {
        self.payload().len().saturating_add(self.elided)
    }

    /// Checks the checksum over the bytes it covers.
    ///
    /// # Errors
    /// `Checksum` if it does not match; `Malformed` if it covers more than there is (section 9.2).
    pub fn verify_checksum(&self, pseudo: &Pseudo) -> Result<(), Error> {
        if self.coverage().is_some_and(|covered| covered > self.payload_len()) {
            return Err(Error::malformed(Layer::Dccp, field::CCVAL_CSCOV, "coverage beyond the packet"));
        }
        let covered = self.coverage().map_or(usize::MAX, |data| self.header_len() + data);
        let bytes = &self.bytes()[..covered.min(self.bytes().len())];
        let len = self.bytes().len().saturating_add(self.elided);
        if pseudo.sum(len).add_bytes(bytes).is_valid() {
            Ok(())
        } else {
            Err(Error::checksum(Layer::Dccp, field::CHECKSUM))
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Writes the checksum over the whole packet; elided bytes count as zeros.
    pub fn fill_checksum(&mut self, pseudo: &Pseudo) {
        let (elided, buffer) = (self.elided, self.buffer.as_mut());
        put16(buffer, field::CHECKSUM, 0);
        let checksum = pseudo.datagram(buffer, elided).checksum();
        put16(buffer, field::CHECKSUM, checksum);
    }
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(be16(bytes, at)) << 32 | u64::from(be32(bytes, at + 2))
}

fn put_long(bytes: &mut [u8], at: usize, number: u64) {
    put16(bytes, at, (number >> 32) as u16);
    put32(bytes, at + 2, number as u32);
}

/// A DCCP header as values, with long sequence numbers and a checksum over everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Packet type.
    pub kind: Type,
    /// CCID 3's window counter: 0 to 15.
    pub ccval: u8,
    /// Sequence number: 48 bits.
    pub sequence: u64,
    /// Acknowledgement number: 48 bits; only in packets of a kind that has one.
    pub ack: u64,
    /// Service code of a request or response, or code and data of a reset. The reset code is the highest
    /// byte.
    pub extra: u32,
    /// Options.
    pub options: Options,
}

impl Repr {
    /// Reads the header of a checked packet. The checksum is not looked at.
    ///
    /// # Errors
    /// Returns an error if an option is truncated, or there are more bytes of options than [`Options`] holds.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr, Error> {
        let mut options = Options::default();
        for item in packet.options() {
            let item = item?;
            if !options.push(item.kind, item.data) {
                return Err(Error::unsupported(Layer::Dccp, HEADER_LEN, "too many options"));
            }
        }
        Ok(Repr {
            src_port: packet.src_port(),
            dst_port: packet.dst_port(),
            kind: packet.kind(),
            ccval: packet.ccval(),
            sequence: packet.sequence(),
            ack: packet.ack().unwrap_or(0),
            extra: packet.extra().unwrap_or(0),
            options,
        })
    }

    /// Returns the header's length in bytes: a multiple of four.
    pub fn buffer_len(&self) -> usize {
        let ack = if self.kind.acknowledges() { 8 } else { 0 };
        HEADER_LEN + ack + self.kind.extra_len() + self.options.as_bytes().len().next_multiple_of(4)
    }

    /// Writes the header, its checksum zero: see [`Packet::fill_checksum`].
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Repr::buffer_len`], or a field does not hold its value.
    pub fn emit(&self, buffer: &mut [u8]) {
        let buffer = &mut buffer[..self.buffer_len()];
        assert!(self.ccval < 16, "a window counter has four bits");
        assert!(self.sequence <= NUMBER_MASK && self.ack <= NUMBER_MASK, "numbers have 48 bits");
        buffer.fill(0);
        put16(buffer, field::SRC_PORT, self.src_port);
        put16(buffer, field::DST_PORT, self.dst_port);
        buffer[field::DATA_OFFSET] = (buffer.len() / 4) as u8;
        buffer[field::CCVAL_CSCOV] = self.ccval << 4;
        buffer[field::TYPE] = (self.kind as u8) << 1 | 1;
        put_long(buffer, 10, self.sequence);
        let mut at = HEADER_LEN;
        if self.kind.acknowledges() {
            put_long(buffer, at + 2, self.ack);
            at += 8;
        }
        if self.kind.extra_len() > 0 {
            put32(buffer, at, self.extra);
            at += 4;
        }
        // The rest of the last word stays zero, which is the padding option (section 5.8.1).
        let options = self.options.as_bytes();
        buffer[at..at + options.len()].copy_from_slice(options);
    }
}

#[cfg(test)]
mod tests;
