//! Feedback of the TCP profile (RFC 6846 8.3). Unknown options are skipped; repeated and contradictory ones discard it.

use crate::framework::feedback::option;
pub(super) use crate::framework::feedback::sealed::{Feedback, reject, send};

/// Parses the field `field`, the end of `data`. `None` when it is to be discarded.
pub(super) fn parse(data: &[u8], field: &[u8]) -> Option<Feedback> {
    Feedback::parse(data, field, read)
}

fn read(feedback: &mut Feedback, kind: u8, value: &[u8], seen: u16) -> Option<()> {
    // Each at most once, and the MSN is not both valid and not.
    let is_msn = matches!(kind, option::SN | option::SN_NOT_VALID);
    let conflicts = if is_msn { 1 << option::SN | 1 << option::SN_NOT_VALID } else { 1 << kind };
    let is_known = is_msn || matches!(kind, option::REJECT | option::CONTEXT_MEMORY);
    if is_known && seen & conflicts != 0 {
        return None;
    }
    match (kind, value) {
        (option::REJECT, _) => feedback.reject = true,
        (option::SN_NOT_VALID, _) => feedback.number = None,
        (option::SN, [more]) => {
            feedback.number = feedback.number.map(|(msn, _)| (msn << 2 | u16::from(more >> 6), 16));
        }
        (option::CONTEXT_MEMORY, _) => feedback.context_memory = true,
        _ => {}
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framework::feedback::sealed::tests::{check_what_is_sent, parse_options};

    #[test]
    fn what_is_sent_is_understood_and_protected() {
        check_what_is_sent(&[None], parse);
    }

    #[test]
    fn contradictory_and_repeated_options_discard_the_element() {
        let parse = |options: &[u8]| parse_options(options, parse);
        assert_eq!(parse(&[0x41, 0x80]).and_then(|feedback| feedback.number), Some((0x11 << 2 | 2, 16)));
        assert!(parse(&[0x20]).is_some_and(|feedback| feedback.reject));
        assert!(parse(&[0x90, 0xf2, 1, 2]).is_some_and(|feedback| feedback.context_memory));
        for discarded in [&[0x20, 0x20][..], &[0x30, 0x41, 0], &[0x41, 0, 0x30], &[0x90, 0x90], &[0x41]] {
            assert_eq!(parse(discarded), None, "{discarded:02x?}");
        }
    }
}
