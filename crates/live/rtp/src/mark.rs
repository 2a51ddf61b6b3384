//! The head of a payload that says when it was sent, and on which machine.

use std::fs;

/// Time of sending and the machine whose clock it is of. A receiver on the same machine takes the one-way delay from
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    machine: u32,
    /// Nanoseconds since 1970 by the machine's clock.
    pub sent_ns: u64,
}

impl Mark {
    /// Bytes of payload that it takes. A shorter payload has a short one.
    pub const LEN: usize = 12;
    /// Bytes of a short mark: the time alone. It counts in a stream that had a whole one.
    pub const SHORT_LEN: usize = 4;
    /// Greatest difference between the time in another machine's mark and the arrival.
    const MOST_APART_NS: u64 = 60_000_000_000;

    /// A mark of this machine, `machine` as [`machine()`] gives it.
    pub const fn new(machine: u32, sent_ns: u64) -> Mark {
        Mark { machine, sent_ns }
    }

    /// Writes it at the head of a payload.
    ///
    /// Room for less than a whole mark has a short one.
    pub fn emit(self, payload: &mut [u8]) {
        if let Some(head) = payload.first_chunk_mut::<{ Mark::LEN }>() {
            head[..4].copy_from_slice(&self.machine.to_be_bytes());
            head[4..].copy_from_slice(&self.sent_ns.to_be_bytes());
        } else if let Some(head) = payload.first_chunk_mut::<{ Mark::SHORT_LEN }>() {
            *head = ((self.sent_ns / 1000) as u32).to_be_bytes();
        }
    }

    /// Returns the time in a short mark, as the last one before `at_ns`.
    ///
    /// It has microseconds modulo 2^32, which is more than an hour.
    pub fn parse_short(payload: &[u8], at_ns: u64) -> Option<u64> {
        let is_short = payload.len() < Mark::LEN;
        let sent = u32::from_be_bytes(*payload.first_chunk::<{ Mark::SHORT_LEN }>().filter(|_| is_short)?);
        let at_us = at_ns / 1000;
        let since = (at_us as u32).wrapping_sub(sent);
        at_us.checked_sub(u64::from(since))?.checked_mul(1000)
    }

    /// Returns the mark of a payload that any machine sent.
    ///
    /// Its time is up to a minute from `at_ns`. Payloads without a mark, of other programs, hardly have such a time.
    pub fn parse_any(payload: &[u8], at_ns: u64) -> Option<Mark> {
        let mark = Mark::parse(payload, u32::from_be_bytes(*payload.first_chunk()?))?;
        (mark.sent_ns.abs_diff(at_ns) <= Mark::MOST_APART_NS).then_some(mark)
    }

    /// The mark of a payload that was sent on the machine `machine`.
    pub fn parse(payload: &[u8], machine: u32) -> Option<Mark> {
        let (head, rest) = payload.split_first_chunk::<4>()?;
        let sent_ns = u64::from_be_bytes(*rest.first_chunk()?);
        (u32::from_be_bytes(*head) == machine).then_some(Mark { machine, sent_ns })
    }
}

/// Returns an identifier of this machine since its start. It is the same in all namespaces and containers, and
/// differs between machines but for one chance in 2^32.
pub fn machine() -> u32 {
    let id = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // FNV-1a: any hash that mixes the whole text does.
    id.iter().fold(0x811c_9dc5, |hash: u32, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_on_its_machine_only() {
        let mut payload = [0; 33];
        Mark::new(7, 123_456_789).emit(&mut payload);
        assert_eq!(Mark::parse(&payload, 7), Some(Mark::new(7, 123_456_789)));
        assert_eq!(Mark::parse(&payload, 8), None);
        assert_eq!(Mark::parse(&payload[..11], 7), None);
        assert_eq!(Mark::parse_any(&payload, 5), Some(Mark::new(7, 123_456_789)));
        assert_eq!(Mark::parse_any(&payload, 61_000_000_000), None, "more than a minute ago");
        assert_eq!(Mark::parse_any(&payload[..11], 5), None);
        let mut none = [1; 3];
        Mark::new(7, 1).emit(&mut none);
        assert_eq!(none, [1; 3]);
        assert_eq!(Mark::parse_short(&none, 5), None);
    }

    #[test]
    fn a_short_mark_has_the_time_alone() {
        let sent_ns = (7 << 32) * 1000 - 5_000_000;
        let mut payload = [1; 5];
        Mark::new(7, sent_ns).emit(&mut payload);
        assert_eq!(payload[4], 1);
        // The microseconds begin anew between sending and arrival.
        assert_eq!(Mark::parse_short(&payload, sent_ns + 40_000_000), Some(sent_ns));
        assert_eq!(Mark::parse_short(&[0; 12], sent_ns), None, "a whole mark has its own time");
        assert_eq!(Mark::parse_short(&u32::MAX.to_be_bytes(), 5000), None, "before 1970");
    }

    #[test]
    fn a_machine_is_itself() {
        assert_eq!(machine(), machine());
        assert_ne!(machine(), 0x811c_9dc5, "the kernel has a boot id");
    }
}
