//! Feedback of the profiles (RFC 5225 6.9). Options that are unknown, repeated or of another length discard it.

use crate::framework::feedback::option;
pub(super) use crate::framework::feedback::sealed::{Feedback, reject, send};

/// Parses the field `field`, the end of `data`. `None` when it is to be discarded.
pub(super) fn parse(data: &[u8], field: &[u8]) -> Option<Feedback> {
    Feedback::parse(data, field, read)
}

fn read(feedback: &mut Feedback, kind: u8, value: &[u8], seen: u16) -> Option<()> {
    if seen >> kind & 1 == 1 {
        return None;
    }
    match (kind, value) {
        (option::REJECT, []) => feedback.reject = true,
        (option::SN_NOT_VALID, []) => feedback.number = None,
        (option::CONTEXT_MEMORY, []) => feedback.context_memory = true,
        (option::CLOCK_RESOLUTION, [clock]) => feedback.clock_ms = Some(*clock),
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framework::feedback::sealed::tests::{check_what_is_sent, parse_options};

    #[test]
    fn what_is_sent_is_understood_and_protected() {
        check_what_is_sent(&[None, Some(10), Some(0)], parse);
    }

    #[test]
    fn unknown_and_repeated_options_discard_the_element() {
        let parse = |options: &[u8]| parse_options(options, parse);
        assert!(parse(&[0x20]).is_some_and(|feedback| feedback.reject));
        assert!(parse(&[0x90, 0xa1, 7]).is_some_and(|feedback| feedback.clock_ms == Some(7)));
        for discarded in [&[0x20, 0x20][..], &[0x41, 0], &[0x10], &[0xf0], &[0xa0], &[0xa1], &[0x30, 0x30]] {
            assert_eq!(parse(discarded), None, "{discarded:02x?}");
        }
    }
}
