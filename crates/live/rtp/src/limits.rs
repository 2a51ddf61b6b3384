//! Conditions that end a reception.

use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bentpipe_units::Span;

use crate::Receiver;

/// Conditions that end a reception; the first one that holds ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Time from the start.
    pub duration: Option<Span>,
    /// Number of packets of all streams.
    pub packets: Option<u64>,
    /// Time without a packet, once the first has come.
    pub idle: Option<Span>,
}

impl Limits {
    /// Returns `true` if the amount to receive is given.
    pub fn is_bounded(&self) -> bool {
        self.duration.is_some() || self.packets.is_some()
    }
}

/// Progress of a reception against its limits.
struct Progress {
    limits: Limits,
    started: Instant,
    /// Number of packets, and the time of its last change.
    seen: (u64, Instant),
}

impl Progress {
    fn is_over(&mut self, now: Instant, packets: u64) -> bool {
        if packets != self.seen.0 {
            self.seen = (packets, now);
        }
        let over = |limit: Option<Span>, since: Instant| {
            limit.is_some_and(|limit| now - since >= Duration::from_nanos(limit.as_nanos()))
        };
        over(self.limits.duration, self.started)
            || packets > 0 && over(self.limits.idle, self.seen.1)
            || self.limits.packets.is_some_and(|enough| packets >= enough)
    }
}

impl Receiver {
    /// Receives until one of `limits` is reached or `stop` is set. `watch` is called every few milliseconds with the number of
    /// packets.
    ///
    /// # Errors
    /// Returns an error if waiting for the sockets fails.
    pub fn run_until(
        &mut self,
        limits: Limits,
        stop: &AtomicBool,
        mut watch: impl FnMut(u64),
    ) -> io::Result<()> {
        let started = Instant::now();
        let mut progress = Progress { limits, started, seen: (0, started) };
        self.run(stop, &mut |reception| {
            watch(reception.packets());
            match progress.is_over(Instant::now(), reception.packets()) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_limit_ends_a_reception() {
        let started = Instant::now();
        let at = |ms: u64| started + Duration::from_millis(ms);
        let over = |limits: Limits, looks: &[(u64, u64)]| -> Vec<bool> {
            let mut progress = Progress { limits, started, seen: (0, started) };
            looks.iter().map(|&(ms, packets)| progress.is_over(at(ms), packets)).collect()
        };
        let second = Some(Span::from_secs(1));
        let none = Limits::default();
        assert_eq!(over(none, &[(0, 0), (1_000_000, 9)]), [false, false]);
        assert_eq!(over(Limits { packets: Some(3), ..none }, &[(0, 2), (1, 4)]), [false, true]);
        assert_eq!(over(Limits { duration: second, ..none }, &[(999, 0), (1000, 0)]), [false, true]);
        let idle = Limits { idle: second, ..none };
        assert_eq!(over(idle, &[(5000, 0), (5001, 1), (6000, 1), (6001, 1)]), [false, false, false, true]);
        assert!(!idle.is_bounded() && Limits { duration: second, ..none }.is_bounded());
    }
}
