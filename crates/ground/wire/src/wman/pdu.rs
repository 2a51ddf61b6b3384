//! MAC PDUs: header, subheaders, parts of SDUs, CRC-32 (802.16-2004, 6.3.3).

use super::header::{Generic, HEADER_LEN, Header, MAX_PDU_LEN};
use super::subheader::{Fragment, Grant, Numbers};
use super::{Cid, need};
use crate::bytes::{array, be16};
use crate::crc32::Crc32;
use crate::{Error, Layer};

/// Length in bytes of the CRC-32.
pub const CRC_LEN: usize = 4;

/// Form of the CRC-32. 802.16-2004 specifies the first for OFDM, and the second for OFDMA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrcForm {
    /// That of Ethernet: bits reflected, least significant byte first.
    Ofdm,
    /// Unreflected, most significant byte first; Wireshark accepts only this one.
    #[default]
    Ofdma,
}

impl CrcForm {
    /// Returns the CRC-32 of bytes, as it is sent.
    pub fn of(self, bytes: &[u8]) -> [u8; CRC_LEN] {
        match self {
            CrcForm::Ofdma => Crc32::new().add_bytes(bytes).complement().to_be_bytes(),
            CrcForm::Ofdm => {
                let reflected: Vec<u8> = bytes.iter().map(|byte| byte.reverse_bits()).collect();
                Crc32::new().add_bytes(&reflected).complement().reverse_bits().to_le_bytes()
            }
        }
    }
}

/// Part of an SDU in a PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// Fragmentation state.
    pub fragment: Fragment,
    /// Fragment or block sequence number.
    pub number: u16,
    /// Bytes.
    pub bytes: &'a [u8],
}

/// Subheaders in front of parts of SDUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Unfragmented SDU without a subheader.
    #[default]
    Whole,
    /// Part behind a fragmentation subheader.
    Fragment,
    /// Parts, each behind a packing subheader.
    Packed,
}

impl Layout {
    /// Returns the bytes of subheaders of `parts` parts.
    pub const fn overhead(self, numbers: Numbers, parts: usize) -> usize {
        match self {
            Layout::Whole => 0,
            Layout::Fragment => numbers.fragmentation_len(),
            Layout::Packed => numbers.packing_len() * parts,
        }
    }
}

/// PDU as values, apart from its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Connection.
    pub cid: Cid,
    /// Grant management subheader (uplink).
    pub grant: Option<u16>,
    /// Subheaders of parts.
    pub layout: Layout,
    /// Size of sequence numbers.
    pub numbers: Numbers,
    /// Set if the payload is ARQ feedback.
    pub arq_feedback: bool,
    /// CRC-32.
    pub crc: Option<CrcForm>,
}

impl Repr {
    /// Creates the representation of a PDU of a connection, without subheaders and CRC.
    pub fn new(cid: Cid) -> Repr {
        let (layout, numbers) = (Layout::Whole, Numbers::Short);
        Repr { cid, grant: None, layout, numbers, arq_feedback: false, crc: None }
    }

    /// Returns the bytes of header, subheaders and CRC in front of and after `parts` parts.
    pub fn overhead(&self, parts: usize) -> usize {
        let grant = if self.grant.is_some() { Grant::LEN } else { 0 };
        let crc = if self.crc.is_some() { CRC_LEN } else { 0 };
        HEADER_LEN + grant + self.layout.overhead(self.numbers, parts) + crc
    }

    /// Returns the length of the PDU in bytes.
    pub fn buffer_len(&self, parts: &[Part<'_>]) -> usize {
        self.overhead(parts.len()) + parts.iter().map(|part| part.bytes.len()).sum::<usize>()
    }

    /// Appends the PDU.
    ///
    /// # Panics
    /// Panics if it exceeds [`MAX_PDU_LEN`], or its layout does not take that number of parts.
    pub fn emit(&self, parts: &[Part<'_>], out: &mut Vec<u8>) {
        let len = self.buffer_len(parts);
        assert!(len <= MAX_PDU_LEN, "a MAC PDU of {len} bytes");
        assert!(self.layout == Layout::Packed || parts.len() == 1, "{} parts unpacked", parts.len());
        let start = out.len();
        out.resize(start + HEADER_LEN, 0);
        self.header(len).emit(&mut out[start..]);
        out.extend(self.grant.iter().flat_map(|field| field.to_be_bytes()));
        parts.iter().for_each(|part| self.emit_part(part, out));
        if let Some(form) = self.crc {
            let crc = form.of(&out[start..]);
            out.extend(crc);
        }
    }

    fn header(&self, len: usize) -> Generic {
        Generic {
            arq_feedback: self.arq_feedback,
            extended: self.layout != Layout::Whole && self.numbers == Numbers::Extended,
            fragmentation: self.layout == Layout::Fragment,
            packing: self.layout == Layout::Packed,
            grant: self.grant.is_some(),
            crc: self.crc.is_some(),
            len: len as u16,
            cid: self.cid.0,
        }
    }

    fn emit_part(&self, part: &Part<'_>, out: &mut Vec<u8>) {
        let mut subheader = [0; 3];
        let len = self.layout.overhead(self.numbers, 1);
        match self.layout {
            Layout::Whole => {}
            Layout::Fragment => self.numbers.emit_fragmentation(part.fragment, part.number, &mut subheader),
            Layout::Packed => {
                let whole = (len + part.bytes.len()) as u16;
                self.numbers.emit_packing(part.fragment, part.number, whole, &mut subheader);
            }
        }
        out.extend_from_slice(&subheader[..len]);
        out.extend_from_slice(part.bytes);
    }
}

/// Checked view of a MAC PDU with payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pdu<'a> {
    /// Header.
    pub header: Generic,
    /// Grant management subheader.
    pub grant: Option<u16>,
    payload: &'a [u8],
}

impl<'a> Pdu<'a> {
    /// Parses the PDU at the start of a burst, all of its subheaders included. `crc` is the form of its CRC.
    ///
    /// # Errors
    /// Returns an error if the header is wrong or a request, the bytes end early, subheaders do not fit, or the CRC is wrong.
    pub fn new_checked(bytes: &'a [u8], crc: CrcForm) -> Result<Pdu<'a>, Error> {
        let Header::Generic(header) = Header::parse(bytes)? else {
            return Err(Error::malformed(Layer::Wman, 0, "bandwidth request in place of a PDU"));
        };
        let len = usize::from(header.len);
        need(bytes, len)?;
        let mut end = len;
        if header.crc {
            end = len.checked_sub(CRC_LEN).filter(|end| *end >= HEADER_LEN).ok_or(Error::malformed(
                Layer::Wman,
                1,
                "no room for the CRC",
            ))?;
            if crc.of(&bytes[..end]) != array::<CRC_LEN>(bytes, end) {
                return Err(Error::checksum(Layer::Wman, end));
            }
        }
        let mut start = HEADER_LEN;
        if header.grant {
            start += Grant::LEN;
        }
        let payload =
            bytes[..end].get(start..).ok_or(Error::truncated(Layer::Wman, HEADER_LEN, start, end))?;
        let pdu = Pdu { header, grant: header.grant.then(|| be16(bytes, HEADER_LEN)), payload };
        pdu.parts().try_for_each(|part| part.map(|_| ()))?;
        Ok(pdu)
    }

    /// Returns the length of the PDU in bytes.
    pub fn total_len(&self) -> usize {
        usize::from(self.header.len)
    }

    /// Returns the bytes after the grant management subheader, without the CRC.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Returns the parts of SDUs. A view has been checked, so none is an error.
    pub fn parts(&self) -> Parts<'a> {
        let numbers = if self.header.extended { Numbers::Extended } else { Numbers::Short };
        let layout = match (self.header.packing, self.header.fragmentation) {
            (true, _) => Layout::Packed,
            (false, true) => Layout::Fragment,
            (false, false) => Layout::Whole,
        };
        Parts { layout, numbers, rest: Some(self.payload) }
    }
}

/// Iterator over the parts of SDUs in a PDU.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    layout: Layout,
    numbers: Numbers,
    rest: Option<&'a [u8]>,
}

impl<'a> Parts<'a> {
    fn single(&mut self, rest: &'a [u8]) -> Result<Part<'a>, Error> {
        let len = self.layout.overhead(self.numbers, 1);
        need(rest, len)?;
        let (fragment, number) = match self.layout {
            Layout::Fragment => self.numbers.fragmentation(rest),
            Layout::Whole | Layout::Packed => (Fragment::Whole, 0),
        };
        Ok(Part { fragment, number, bytes: &rest[len..] })
    }

    fn packed(&mut self, rest: &'a [u8]) -> Result<Part<'a>, Error> {
        let start = self.numbers.packing_len();
        need(rest, start)?;
        let (fragment, number, len) = self.numbers.packing(rest);
        let len = usize::from(len);
        if len < start || len > rest.len() {
            return Err(Error::malformed(Layer::Wman, 0, "length of a packed SDU"));
        }
        let (part, behind) = rest.split_at(len);
        self.rest = (!behind.is_empty()).then_some(behind);
        Ok(Part { fragment, number, bytes: &part[start..] })
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Result<Part<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        Some(if self.layout == Layout::Packed { self.packed(rest) } else { self.single(rest) })
    }
}
