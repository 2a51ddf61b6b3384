//! Header of parity packets, after their RTP header.

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 16;

/// Extension bit, which is always set.
const EXTENSION: u8 = 0x80;
/// Direction bit: set for rows.
const ROW: u8 = 0x40;
/// Bits of extension, type and index, which are zero for XOR.
const TYPE: u8 = 0xbf;

/// Header of a parity packet.
///
/// ```text
/// | SN base (16)  | length recovery (16)          |
/// |E| PT recovery (7) | mask (24), zero           |
/// | timestamp recovery (32)                       |
/// |N|D|type (3)|index (3)| offset (8) | NA (8) | SN base, upper (8) |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Sequence number of the first protected datagram.
    pub base: u16,
    /// XOR of the lengths of the payloads.
    pub len: u16,
    /// XOR of the payload types.
    pub payload_type: u8,
    /// XOR of the timestamps.
    pub timestamp: u32,
    /// Set for parity of a row.
    pub is_row: bool,
    /// Distance of the protected sequence numbers.
    pub offset: u8,
    /// Number of protected datagrams.
    pub count: u8,
}

impl Header {
    /// Parses the start of the payload of a parity packet. Returns `None` if it is truncated, not XOR, or protects nothing.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let header: &[u8; HEADER_LEN] = bytes.first_chunk()?;
        let [b0, b1, l0, l1, pt, m0, m1, m2, t0, t1, t2, t3, kind, offset, count, upper] = *header;
        let is_xor = kind & TYPE == 0 && [m0, m1, m2, upper] == [0; 4];
        (is_xor && pt & EXTENSION != 0 && offset > 0 && count > 0).then(|| Header {
            base: u16::from_be_bytes([b0, b1]),
            len: u16::from_be_bytes([l0, l1]),
            payload_type: pt & !EXTENSION,
            timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
            is_row: kind & ROW != 0,
            offset,
            count,
        })
    }

    /// Returns the bytes of the header.
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let ([b0, b1], [l0, l1]) = (self.base.to_be_bytes(), self.len.to_be_bytes());
        let [t0, t1, t2, t3] = self.timestamp.to_be_bytes();
        let kind = if self.is_row { ROW } else { 0 };
        let pt = EXTENSION | self.payload_type;
        [b0, b1, l0, l1, pt, 0, 0, 0, t0, t1, t2, t3, kind, self.offset, self.count, 0]
    }

    /// Returns the protected sequence numbers.
    pub fn protected(&self) -> impl Iterator<Item = u16> + use<> {
        let Header { base, offset, .. } = *self;
        (0..u16::from(self.count)).map(move |n| base.wrapping_add(n * u16::from(offset)))
    }

    /// Returns `true` if it protects a sequence number.
    pub fn protects(&self, seq: u16) -> bool {
        let (ahead, offset) = (seq.wrapping_sub(self.base), u16::from(self.offset));
        ahead.is_multiple_of(offset) && ahead / offset < u16::from(self.count)
    }
}
