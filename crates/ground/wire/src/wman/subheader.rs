//! Subheaders of MAC PDUs (802.16-2004, 6.3.2.2).

/// Fragmentation state of a part of an SDU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragment {
    /// Unfragmented SDU.
    #[default]
    Whole,
    /// Last fragment.
    Last,
    /// First fragment.
    First,
    /// Fragment between others.
    Middle,
}

impl Fragment {
    /// Returns the state of a part by its place in the SDU.
    pub fn at(is_first: bool, is_last: bool) -> Fragment {
        match (is_first, is_last) {
            (true, true) => Fragment::Whole,
            (true, false) => Fragment::First,
            (false, true) => Fragment::Last,
            (false, false) => Fragment::Middle,
        }
    }

    /// Returns the field of two bits.
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Returns the state of a field, of which the two lowest bits count.
    pub const fn from_bits(bits: u8) -> Fragment {
        match bits & 3 {
            0 => Fragment::Whole,
            1 => Fragment::Last,
            2 => Fragment::First,
            _ => Fragment::Middle,
        }
    }
}

/// Size of fragment sequence numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// 3 bits.
    #[default]
    Short,
    /// 11 bits, which ARQ needs.
    Extended,
}

impl Numbers {
    /// Returns the number of sequence numbers.
    pub const fn modulus(self) -> u16 {
        match self {
            Numbers::Short => 8,
            Numbers::Extended => 2048,
        }
    }

    /// Returns the length in bytes of a fragmentation subheader.
    pub const fn fragmentation_len(self) -> usize {
        match self {
            Numbers::Short => 1,
            Numbers::Extended => 2,
        }
    }

    /// Returns the length in bytes of a packing subheader.
    pub const fn packing_len(self) -> usize {
        match self {
            Numbers::Short => 2,
            Numbers::Extended => 3,
        }
    }

    /// Writes a fragmentation subheader.
    pub(super) fn emit_fragmentation(self, fragment: Fragment, number: u16, out: &mut [u8]) {
        let number = number % self.modulus();
        match self {
            Numbers::Short => out[0] = fragment.bits() << 6 | (number as u8) << 3,
            Numbers::Extended => {
                out[..2].copy_from_slice(&(u16::from(fragment.bits()) << 14 | number << 3).to_be_bytes());
            }
        }
    }

    /// Reads a fragmentation subheader that is there whole.
    pub(super) fn fragmentation(self, bytes: &[u8]) -> (Fragment, u16) {
        let fragment = Fragment::from_bits(bytes[0] >> 6);
        match self {
            Numbers::Short => (fragment, u16::from(bytes[0] >> 3 & 7)),
            Numbers::Extended => (fragment, u16::from_be_bytes([bytes[0], bytes[1]]) >> 3 & 0x7ff),
        }
    }

    /// Writes a packing subheader. `len` includes it.
    pub(super) fn emit_packing(self, fragment: Fragment, number: u16, len: u16, out: &mut [u8]) {
        let (fc, number) = (u32::from(fragment.bits()), u32::from(number % self.modulus()));
        let value = match self {
            Numbers::Short => (fc << 14 | number << 11 | u32::from(len)) << 8,
            Numbers::Extended => fc << 22 | number << 11 | u32::from(len),
        };
        let bytes = value.to_be_bytes();
        out[..self.packing_len()].copy_from_slice(&bytes[1..=self.packing_len()]);
    }

    /// Reads a packing subheader that is there whole: state, number, length with the subheader.
    pub(super) fn packing(self, bytes: &[u8]) -> (Fragment, u16, u16) {
        let fragment = Fragment::from_bits(bytes[0] >> 6);
        let field = |a: u8, b: u8| u16::from_be_bytes([a, b]) & 0x7ff;
        match self {
            Numbers::Short => (fragment, u16::from(bytes[0] >> 3 & 7), field(bytes[0], bytes[1])),
            Numbers::Extended => {
                (fragment, u16::from_be_bytes([bytes[0], bytes[1]]) >> 3 & 0x7ff, field(bytes[1], bytes[2]))
            }
        }
    }
}

/// Grant management subheader, whose meaning depends on the connection's service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// UGS: slip indicator and poll-me bit.
    Ugs {
        /// Set while the queue is longer than grants carry.
        slip: bool,
        /// Set to ask for a poll of another connection.
        poll_me: bool,
    },
    /// Piggyback request in bytes, of all other services.
    Piggyback(u16),
}

impl Grant {
    /// Length in bytes.
    pub const LEN: usize = 2;

    /// Returns the field.
    pub fn field(self) -> u16 {
        match self {
            Grant::Ugs { slip, poll_me } => u16::from(slip) << 15 | u16::from(poll_me) << 14,
            Grant::Piggyback(bytes) => bytes,
        }
    }

    /// Reads the field of a UGS connection.
    pub fn ugs(field: u16) -> Grant {
        Grant::Ugs { slip: field & 0x8000 != 0, poll_me: field & 0x4000 != 0 }
    }
}
