//! Payload header suppression (802.16-2004, 5.2.3.1 and 11.13.19.3.7).
//!
//! A rule names bytes at the start of an SDU that need not be sent. An index of one byte in front of the SDU says which
//! rule the sender used; 0 is none.
//!
//! *Reference*: the standard's text was not available. Numbers of the elements are those that Wireshark's dissector names.

use super::channel::{Tlv, Tlvs};
use super::need;
use crate::{Error, Layer};

/// Length in bytes of the index in front of an SDU.
pub const INDEX_LEN: usize = 1;

/// Longest header that a rule describes, in bytes.
pub const MAX_SIZE: usize = 255;

/// Rule by which sender and receiver of a connection suppress and restore bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Index (PHSI), at least 1.
    pub index: u8,
    /// Bytes of the header (PHSF); its length is the size (PHSS).
    pub field: Vec<u8>,
    /// Mask (PHSM): one bit for each byte of the header, most significant first. Set bits are suppressed.
    pub mask: Vec<u8>,
    /// Set if the sender compares bytes before it suppresses them (PHSV, which is then 0).
    pub verifies: bool,
}

impl Rule {
    const INDEX: u8 = 1;
    const FIELD: u8 = 2;
    const MASK: u8 = 3;
    const SIZE: u8 = 4;
    const VERIFY: u8 = 5;

    /// Creates a rule that verifies, for the bytes of `field` whose number is in `suppressed`.
    ///
    /// Numbers beyond the field are ignored.
    pub fn new(index: u8, field: &[u8], suppressed: impl IntoIterator<Item = usize>) -> Rule {
        let mut mask = vec![0; field.len().div_ceil(8)];
        for byte in suppressed.into_iter().filter(|byte| *byte < field.len()) {
            mask[byte / 8] |= 0x80 >> (byte % 8);
        }
        Rule { index, field: field.to_vec(), mask, verifies: true }
    }

    /// Returns `true` if a byte of the header is suppressed.
    pub fn suppresses(&self, byte: usize) -> bool {
        byte < self.field.len() && self.mask.get(byte / 8).is_some_and(|bits| bits << (byte % 8) & 0x80 != 0)
    }

    /// Returns the number of bytes that the rule suppresses.
    pub fn saved(&self) -> usize {
        (0..self.field.len()).filter(|byte| self.suppresses(*byte)).count()
    }

    /// Returns `true` if the sender may suppress bytes of an SDU.
    ///
    /// The SDU must have the whole header. Of a rule that verifies, its suppressed bytes must be those of the field.
    pub fn matches(&self, sdu: &[u8]) -> bool {
        let same = |n: usize| !self.suppresses(n) || sdu[n] == self.field[n];
        sdu.len() >= self.field.len() && (!self.verifies || (0..self.field.len()).all(same))
    }

    /// Returns index and SDU without its suppressed bytes. `None` if the rule does not match.
    pub fn suppress(&self, sdu: &[u8]) -> Option<Vec<u8>> {
        if !self.matches(sdu) {
            return None;
        }
        let mut out = Vec::with_capacity(INDEX_LEN + sdu.len());
        out.push(self.index);
        let kept = sdu.iter().enumerate().filter(|(n, _)| !self.suppresses(*n));
        out.extend(kept.map(|(_, byte)| *byte));
        Some(out)
    }

    /// Returns the SDU of what follows an index.
    ///
    /// # Errors
    /// Returns an error if the bytes end within the header.
    pub fn restore(&self, rest: &[u8]) -> Result<Vec<u8>, Error> {
        let kept = self.field.len() - self.saved();
        need(rest, kept)?;
        let (mut header, payload) = rest.split_at(kept);
        let mut sdu = Vec::with_capacity(self.field.len() + payload.len());
        for (n, known) in self.field.iter().enumerate() {
            match header.split_first() {
                Some((byte, behind)) if !self.suppresses(n) => {
                    sdu.push(*byte);
                    header = behind;
                }
                _ => sdu.push(*known),
            }
        }
        sdu.extend_from_slice(payload);
        Ok(sdu)
    }

    /// Appends the elements of a message that sets up a service flow.
    ///
    /// # Panics
    /// Panics if the header has more than 255 bytes.
    pub fn emit(&self, out: &mut Vec<u8>) {
        assert!(self.field.len() <= MAX_SIZE, "a header of {} bytes", self.field.len());
        let size = self.field.len() as u8;
        let fields: [(u8, &[u8]); 5] = [
            (Rule::INDEX, &[self.index]),
            (Rule::FIELD, &self.field),
            (Rule::MASK, &self.mask),
            (Rule::SIZE, &[size]),
            (Rule::VERIFY, &[u8::from(!self.verifies)]),
        ];
        fields.into_iter().for_each(|(kind, value)| Tlv { kind, value }.emit(out));
    }

    /// Parses the elements of a rule. Others are skipped.
    ///
    /// # Errors
    /// Returns an error if an element is wrong or missing, the lengths of field, mask and size differ, or the index is 0.
    /// Without an element for it, the sender verifies.
    pub fn parse(bytes: &[u8]) -> Result<Rule, Error> {
        let wrong = |what| Error::malformed(Layer::Wman, 0, what);
        let (mut index, mut field, mut mask, mut size, mut verifies) = (0, None, None, None, true);
        for tlv in Tlvs::new(bytes) {
            let Tlv { kind, value } = tlv?;
            match (kind, value) {
                (Rule::INDEX, [only]) => index = *only,
                (Rule::FIELD, _) => field = Some(value.to_vec()),
                (Rule::MASK, _) => mask = Some(value.to_vec()),
                (Rule::SIZE, [only]) => size = Some(usize::from(*only)),
                (Rule::VERIFY, [only @ (0 | 1)]) => verifies = *only == 0,
                (Rule::INDEX | Rule::SIZE | Rule::VERIFY, _) => return Err(wrong("element of a PHS rule")),
                _ => {}
            }
        }
        let (Some(field), Some(mask), Some(size)) = (field, mask, size) else {
            return Err(wrong("PHS rule without field, mask or size"));
        };
        if index == 0 {
            return Err(wrong("PHS rule without an index"));
        }
        if field.len() != size || mask.len() != size.div_ceil(8) {
            return Err(wrong("PHS rule whose field or mask does not have its size"));
        }
        Ok(Rule { index, field, mask, verifies })
    }
}

/// Returns index and SDU, suppressed by the first rule that matches.
pub fn suppress(rules: &[Rule], sdu: &[u8]) -> Vec<u8> {
    let suppressed = rules.iter().find_map(|rule| rule.suppress(sdu));
    suppressed.unwrap_or_else(|| [&[0], sdu].concat())
}

/// Returns the SDU of an index and what follows it.
///
/// # Errors
/// Returns an error if the rule is unknown, or the bytes end early.
pub fn restore(rules: &[Rule], bytes: &[u8]) -> Result<Vec<u8>, Error> {
    need(bytes, INDEX_LEN)?;
    let (index, rest) = (bytes[0], &bytes[INDEX_LEN..]);
    if index == 0 {
        return Ok(rest.to_vec());
    }
    let unknown = || Error::malformed(Layer::Wman, 0, "index without a PHS rule");
    rules.iter().find(|rule| rule.index == index).ok_or_else(unknown)?.restore(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule() -> Rule {
        Rule::new(3, &[0x45, 0, 0, 80, 7, 7, 0x40, 0, 64, 17], [0, 1, 6, 7, 8, 9])
    }

    #[test]
    fn suppressed_bytes_are_exactly_those_of_the_mask() {
        let rule = rule();
        assert_eq!(rule.mask, [0b1100_0011, 0b1100_0000]);
        assert_eq!(rule.saved(), 6);
        let sdu = [0x45, 0, 1, 2, 3, 4, 0x40, 0, 64, 17, 9, 9];
        let sent = rule.suppress(&sdu).expect("it matches");
        assert_eq!(sent, [3, 1, 2, 3, 4, 9, 9]);
        assert_eq!(restore(&[rule], &sent).expect("restored"), sdu);
    }

    #[test]
    fn a_sender_that_verifies_sends_others_whole() {
        let rule = rule();
        let other = [0x46, 0, 1, 2, 3, 4, 0x40, 0, 64, 17];
        let rules = [rule.clone()];
        assert_eq!(suppress(&rules, &other)[0], 0);
        assert_eq!(restore(&rules, &suppress(&rules, &other)).expect("whole"), other);
        assert_eq!(suppress(&rules, &other[..9])[0], 0, "shorter than the header");
        // Without verification the receiver puts the field in place of what was sent.
        let blind = Rule { verifies: false, ..rule };
        let blind = [blind];
        let restored = restore(&blind, &suppress(&blind, &other)).expect("restored");
        assert_eq!((restored[0], &restored[1..]), (0x45, &other[1..]));
    }

    #[test]
    fn elements_of_a_rule_have_their_bytes() {
        let mut bytes = Vec::new();
        Rule::new(1, &[0x45, 0], [0]).emit(&mut bytes);
        assert_eq!(bytes, [1, 1, 1, 2, 2, 0x45, 0, 3, 1, 0x80, 4, 1, 2, 5, 1, 0]);
        assert_eq!(Rule::parse(&bytes), Ok(Rule::new(1, &[0x45, 0], [0])));
        bytes[9 + 3] = 3;
        assert!(Rule::parse(&bytes).is_err(), "another size");
        assert!(Rule::parse(&[]).is_err());
        assert!(Rule::parse(&[1, 1, 0, 2, 0, 3, 0, 4, 1, 0]).is_err(), "index 0");
    }

    #[test]
    fn unknown_indices_and_short_headers_are_errors() {
        assert!(restore(&[rule()], &[4, 0]).is_err());
        assert!(restore(&[rule()], &[3, 0, 0, 0]).is_err());
        assert!(restore(&[], &[]).is_err());
    }

    proptest! {
        #[test]
        fn what_is_suppressed_is_restored(
            field in prop::collection::vec(any::<u8>(), 0..=MAX_SIZE),
            bits in prop::collection::vec(any::<bool>(), MAX_SIZE),
            kept in any::<u8>(),
            payload in prop::collection::vec(any::<u8>(), 0..50),
        ) {
            let suppressed = (0..field.len()).filter(|n| bits[*n]);
            let rule = Rule::new(200, &field, suppressed);
            let mut sdu = field.clone();
            (0..field.len()).filter(|n| !bits[*n]).for_each(|n| sdu[n] = kept);
            sdu.extend(&payload);
            let sent = rule.suppress(&sdu).expect("it matches");
            prop_assert_eq!(sent.len(), INDEX_LEN + sdu.len() - rule.saved());
            prop_assert_eq!(restore(std::slice::from_ref(&rule), &sent).expect("restored"), sdu);
            let mut elements = Vec::new();
            rule.emit(&mut elements);
            prop_assert_eq!(Rule::parse(&elements), Ok(rule));
        }
    }
}
