//! A station: the frame it has in hand, and its backoff.

use bentpipe_net::Packet;
use bentpipe_units::{RandomStream, Span, Time};

use super::path::Path;
use super::phy::Timing;

/// A frame until it is acknowledged or dropped.
#[derive(Debug)]
pub(super) struct Frame {
    /// The direction that it belongs to.
    pub(super) path: usize,
    pub(super) packet: Packet,
    failures: u32,
}

/// Station of a BSS.
#[derive(Debug)]
pub(super) struct Station {
    /// The directions in which it sends, served in turn.
    paths: Vec<usize>,
    turn: usize,
    frame: Option<Frame>,
    /// The direction of the frame that it has or had last.
    path: usize,
    /// Since when it has that frame.
    ready: Time,
    /// Slots that are still to pass.
    backoff: u32,
    cw: u32,
    /// Idle time of the medium before the first slot.
    pub(super) ifs: Span,
    /// Set while one of its frames is being sent.
    is_sending: bool,
    /// Set while it has no frame, and a queue holds packets back.
    is_holding: bool,
}

impl Station {
    pub(super) fn new(paths: Vec<usize>, timing: &Timing) -> Station {
        Station {
            paths,
            turn: 0,
            frame: None,
            path: 0,
            ready: Time::ZERO,
            backoff: 0,
            cw: timing.cw_min,
            ifs: timing.difs,
            is_sending: false,
            is_holding: false,
        }
    }

    #[cfg(test)]
    pub(super) fn reset(&mut self, timing: &Timing) {
        (self.cw, self.ifs) = (timing.cw_min, timing.difs);
    }

    pub(super) fn frame(&self) -> Option<&Frame> {
        self.frame.as_ref()
    }

    /// Accepts a packet as the next frame.
    pub(super) fn take(&mut self, path: usize, packet: Packet, at: Time) {
        self.frame = Some(Frame { path, packet, failures: 0 });
        (self.path, self.ready, self.is_holding) = (path, at, false);
    }

    /// Draws a backoff for a packet that arrived while the medium was busy.
    ///
    /// A backoff that still runs after the last frame is kept.
    pub(super) fn defer(&mut self, stream: &mut RandomStream) {
        if self.frame.is_none() && self.backoff == 0 && !self.is_sending {
            self.draw(stream);
        }
    }

    /// Returns the time of its transmission if the medium stays idle from `since` on. `None` without a frame.
    #[inline]
    pub(super) fn access(&self, since: Time, timing: &Timing) -> Option<Time> {
        self.frame.as_ref().map(|_| self.free(since, timing).max(self.ready))
    }

    /// Returns the end of its backoff.
    #[inline]
    fn free(&self, since: Time, timing: &Timing) -> Time {
        since + self.ifs + timing.slot * u64::from(self.backoff)
    }

    /// Returns a lower bound of its next frame's arrival, or `None` without a frame.
    pub(super) fn earliest(&self, since: Time, paths: &[Path], timing: &Timing) -> Option<Time> {
        match &self.frame {
            Some(frame) => {
                let access = self.free(since, timing).max(self.ready);
                Some(access + paths[frame.path].least(&frame.packet))
            }
            None => self.paths.iter().any(|n| paths[*n].is_backlogged).then(|| self.free(since, timing)),
        }
    }

    /// Counts down the backoff slots of the idle time from `since` to `at`.
    #[inline]
    pub(super) fn count_down(&mut self, since: Time, at: Time, timing: &Timing) {
        let idle = at.since(since).saturating_sub(self.ifs);
        if self.backoff > 0 && !idle.is_zero() {
            let slots = idle.as_nanos() / timing.slot.as_nanos();
            self.backoff -= slots.min(u64::from(self.backoff)) as u32;
        }
    }

    pub(super) fn begin(&mut self) {
        self.is_sending = true;
    }

    /// Fetches the next frame if it has none, as the medium became idle.
    pub(super) fn take_next(&mut self, paths: &mut [Path], at: Time) {
        let has_sent = std::mem::take(&mut self.is_sending);
        if self.frame.is_some() {
            return;
        }
        if has_sent {
            paths[self.path].free_since = at;
        }
        self.is_holding = false;
        for _ in 0..self.paths.len() {
            let path = self.paths[self.turn];
            self.turn = if self.turn + 1 == self.paths.len() { 0 } else { self.turn + 1 };
            if let Some(packet) = paths[path].dequeue(at) {
                return self.take(path, packet, at);
            }
            self.note_held(&paths[path]);
        }
    }

    /// Notes that the queue of a path holds packets back, if it does. The station has no frame.
    pub(super) fn note_held(&mut self, path: &Path) {
        self.is_holding |= path.held_until().is_some();
    }

    /// Returns the instant at which it gets a frame that a queue holds back.
    pub(super) fn held_until(&self, paths: &[Path]) -> Option<Time> {
        let held = || self.paths.iter().filter_map(|n| paths[*n].held_until()).min();
        if self.is_holding { held() } else { None }
    }

    /// Fetches a frame that a queue held back until `at`, while the medium is idle.
    pub(super) fn release(&mut self, paths: &mut [Path], at: Time) {
        for n in &self.paths {
            if paths[*n].held_until().is_some_and(|until| until <= at) {
                paths[*n].release();
            }
        }
        self.take_next(paths, at);
    }

    /// Completes its frame.
    pub(super) fn finish(&mut self, timing: &Timing, stream: &mut RandomStream) -> Option<Frame> {
        self.cw = timing.cw_min;
        self.draw(stream);
        self.frame.take()
    }

    /// Handles a missing ACK of its frame. Gives it up after `limit` attempts.
    pub(super) fn fail(&mut self, limit: u32, timing: &Timing, stream: &mut RandomStream) -> Option<Frame> {
        let frame = self.frame.as_mut()?;
        frame.failures += 1;
        if frame.failures >= limit {
            return self.finish(timing, stream);
        }
        self.cw = (self.cw * 2 + 1).min(timing.cw_max);
        self.draw(stream);
        None
    }

    fn draw(&mut self, stream: &mut RandomStream) {
        self.backoff = (stream.unit() * f64::from(self.cw + 1)) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::super::phy::Standard;
    use super::*;
    use bentpipe_net::testing::packet;

    #[test]
    fn the_window_doubles_with_each_failure_and_falls_back() {
        let timing = Timing::of(Standard::B);
        let mut stream = RandomStream::new(1, "station");
        let mut station = Station::new(vec![0], &timing);
        let mut windows = Vec::new();
        station.take(0, packet(100), Time::ZERO);
        for _ in 0..7 {
            assert!(station.fail(8, &timing, &mut stream).is_none());
            assert!(station.backoff <= station.cw);
            windows.push(station.cw);
        }
        assert_eq!(windows, [63, 127, 255, 511, 1023, 1023, 1023]);
        assert!(station.fail(8, &timing, &mut stream).is_some());
        assert_eq!(station.cw, 31);
    }

    #[test]
    fn backoffs_are_uniform_and_freeze() {
        let timing = Timing::of(Standard::B);
        let mut stream = RandomStream::new(2, "station");
        let mut station = Station::new(vec![0], &timing);
        let mut seen = [0_u32; 32];
        for _ in 0..32_000 {
            station.draw(&mut stream);
            seen[station.backoff as usize] += 1;
        }
        // Chi-square with 31 degrees of freedom: 61.1 is its 99.9 % point.
        let chi_square: f64 = seen.iter().map(|&n| (f64::from(n) - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi_square < 61.1, "{chi_square}");
        station.backoff = 10;
        let us = |us| Time::ZERO + Span::from_micros(us);
        // Within DIFS nothing counts, then each whole slot.
        for (at, left) in [(50, 10), (69, 10), (70, 9), (50 + 3 * 20, 6), (5000, 0)] {
            station.count_down(us(0), us(at), &timing);
            assert_eq!(station.backoff, left);
        }
    }
}
