//! The SAR-PDU header (I.363.1, section 2.4.2.2): sequence number with CRC-3 and parity.
//!
//! CSI(1), sequence count(3), CRC-3(3), parity(1). The CRC's generator is x^3 + x + 1; the parity makes the octet even.

/// Decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SequenceNumber {
    /// The convergence sublayer's indication.
    pub csi: bool,
    /// The sequence count, 0 to 7.
    pub count: u8,
}

impl SequenceNumber {
    /// Returns the header octet.
    ///
    /// # Panics
    /// If the count is over 7.
    pub const fn header(self) -> u8 {
        assert!(self.count < 8, "a sequence count has three bits");
        let number = (self.csi as u8) << 3 | self.count;
        let octet = number << 4 | crc3(number << 3) << 1;
        octet | (octet.count_ones() & 1) as u8
    }

    const fn of(octet: u8) -> SequenceNumber {
        SequenceNumber { csi: octet & 0x80 != 0, count: octet >> 4 & 7 }
    }
}

/// Returns the remainder of seven bits.
const fn crc3(bits: u8) -> u8 {
    let mut register = bits;
    let mut at = 6;
    while at >= 3 {
        if register & 1 << at != 0 {
            register ^= 0b1011 << (at - 3);
        }
        at -= 1;
    }
    register
}

/// Header receiver that corrects a single wrong bit after a correct header. After an error it only detects,
/// as a second one is more likely to be a burst.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checker {
    /// Detection mode: an error is not corrected.
    is_wary: bool,
}

impl Checker {
    /// Returns the decoded header, or `None` if it is not reliable.
    pub fn check(&mut self, header: u8) -> Option<SequenceNumber> {
        let is_right = crc3(header >> 1) == 0 && header.count_ones().is_multiple_of(2);
        let was_wary = std::mem::replace(&mut self.is_wary, !is_right);
        match (is_right, was_wary) {
            (true, _) => Some(SequenceNumber::of(header)),
            (false, true) => None,
            (false, false) => corrected(header).map(SequenceNumber::of),
        }
    }
}

/// Returns the header with one bit corrected, if a single error explains it.
fn corrected(header: u8) -> Option<u8> {
    if header.count_ones().is_multiple_of(2) {
        // An even number of wrong bits, not none.
        return None;
    }
    (0..8).map(|bit| header ^ 1 << bit).find(|header| crc3(header >> 1) == 0)
}
