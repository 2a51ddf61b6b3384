//! The last packets of a flow, and its last states.

use super::State;
use crate::framework::profile::Profile;
use crate::profiles::tcp::ip::{df, tos, ttl};
use crate::profiles::tcp::kind::Kind;
use crate::profiles::v2::{control, transport};
use alloc::vec::Vec;

/// Maximum number of packets remembered.
const POINTS: usize = 32;
/// Maximum number of earlier states remembered.
const STATES: usize = 4;
/// Packets behind the newest one that an IR packet may be late.
const LATE_REFRESH: i32 = 64;

/// Values that later packets are relative to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) number: u32,
    pub(super) ts: u32,
    /// Offset of the innermost IP-ID from the master sequence number.
    pub(super) offset: u16,
    pub(super) arrival_ms: u64,
}

/// Last packets and states.
#[derive(Debug, Default)]
pub(super) struct History {
    /// A ring.
    points: Vec<Point>,
    next: u8,
    /// Bit n: the packet n before the newest one arrived.
    arrived: u64,
    /// Earlier states, oldest first.
    states: Vec<State>,
    /// The last of `states` is the state before a packet that may have changed nothing.
    has_candidate: bool,
}

impl History {
    pub(super) fn forget(&mut self) {
        (self.next, self.arrived) = (0, 0);
        self.points.clear();
        self.states.clear();
    }

    /// Returns `true` if the packet `distance` from the newest one has arrived.
    pub(super) const fn has_arrived(&self, distance: i32) -> bool {
        let back = distance.unsigned_abs();
        back >= u64::BITS || self.arrived >> back & 1 == 1
    }

    /// Notes that a packet `distance` from the newest one came late.
    pub(super) const fn arrived(&mut self, distance: i32) {
        if let Some(bit) = 1u64.checked_shl(distance.unsigned_abs()) {
            self.arrived |= bit;
        }
    }

    /// Adds the newest packet, `distance` from the one before.
    #[inline]
    pub(super) fn push(&mut self, distance: i32, point: Point) {
        self.arrived =
            if distance > 0 { self.arrived.checked_shl(distance.unsigned_abs()).unwrap_or(0) } else { 0 } | 1;
        if self.points.len() < POINTS {
            self.points.truncate(usize::from(self.next));
            self.points.push(point);
        } else {
            self.points[usize::from(self.next)] = point;
        }
        self.next = (self.next + 1) % POINTS as u8;
    }

    /// Returns the newest packet.
    #[inline]
    pub(super) fn newest(&self) -> Option<&Point> {
        let before = usize::from(self.next).checked_sub(1).unwrap_or(POINTS - 1);
        self.points.get(before)
    }

    /// Returns the newest of the remembered packets up to `number`.
    pub(super) fn before(&self, profile: Profile, number: u32) -> Option<&Point> {
        let ahead = |point: &Point| control::distance(profile, point.number, number);
        self.points.iter().filter(|point| (0..=128).contains(&ahead(point))).min_by_key(|point| ahead(point))
    }

    /// Returns the earlier state that the packet `number` was sent in. `None`: in `present`.
    pub(super) fn state_of(&self, profile: Profile, present: &State, number: u32) -> Option<&State> {
        let is_before = |state: &State| control::distance(profile, state.since, number) < 0;
        if !is_before(present) {
            return None;
        }
        self.states.iter().rev().find(|state| !is_before(state))
    }

    /// Keeps `state`, which a packet changes.
    pub(super) fn keep(&mut self, state: &State) {
        self.keep_candidate(state);
        self.has_candidate = false;
    }

    /// Keeps `state` before a packet that may change it.
    pub(super) fn keep_candidate(&mut self, state: &State) {
        if self.states.len() < STATES {
            self.states.push(State::default());
        } else {
            self.states.rotate_left(1);
        }
        if let Some(last) = self.states.last_mut() {
            last.copy(state);
        }
        self.has_candidate = true;
    }

    /// Returns `true` if the packet after [`Self::keep_candidate`] changed the state; forgets the candidate otherwise.
    pub(super) fn confirm_candidate(&mut self, profile: Profile, present: &State) -> bool {
        let is_candidate = core::mem::take(&mut self.has_candidate);
        let changed = |last: &State| !present.has_same_slow_fields(profile, last);
        let has_changed = is_candidate && self.states.last().is_some_and(changed);
        if is_candidate && !has_changed {
            // It stays where it is, as the place for the next one.
            self.states.rotate_right(1);
            if let Some(first) = self.states.first_mut() {
                first.since = present.since;
            }
        }
        has_changed
    }

    /// Returns `true` if an IR packet with `state` only comes late.
    pub(super) fn is_late_refresh(
        &self,
        profile: Profile,
        present: &State,
        state: &State,
        distance: i32,
    ) -> bool {
        let is_close = (-LATE_REFRESH..=0).contains(&distance) && !self.has_arrived(distance);
        if !is_close || !present.is_like(state) || self.before(profile, state.control.number).is_none() {
            return false;
        }
        let sent_in = self.state_of(profile, present, state.control.number).unwrap_or(present);
        let ts = |state: &State| transport::timestamp(&state.headers[state.chain.len() + transport::RTP..]);
        let is_later = profile.has_rtp() && ts(state).wrapping_sub(ts(present)).cast_signed() > 0;
        state.has_same_slow_fields(profile, sent_in) && !is_later
    }
}

impl State {
    /// Returns `true` if all fields that change seldom are those of `other`.
    pub(super) fn has_same_slow_fields(&self, profile: Profile, other: &Self) -> bool {
        let control = |state: &Self| {
            let Self { control, .. } = state;
            (control.reorder, control.ts_stride, control.time_stride, control.coverage)
        };
        self.chain == other.chain
            && control(self) == control(other)
            && self.chain.links.iter().all(|link| {
                let (one, two) = (&self.headers[link.range()], &other.headers[link.range()]);
                match link.kind {
                    Kind::Ipv4 | Kind::Ipv6 => (tos(one), ttl(one), df(one)) == (tos(two), ttl(two), df(two)),
                    Kind::Ah | Kind::Gre => true,
                    _ => one == two,
                }
            })
            && self.has_same_transport(profile, other)
    }

    fn has_same_transport(&self, profile: Profile, other: &Self) -> bool {
        let (one, two) = (&self.headers[self.chain.len()..], &other.headers[other.chain.len()..]);
        let has_checksum = |transport: &[u8]| transport[6..8] != [0, 0];
        match profile.headers() {
            Profile::Ip | Profile::Esp | Profile::UdpLite => true,
            Profile::Udp => has_checksum(one) == has_checksum(two),
            _ => {
                let rtp =
                    |transport: &[u8]| (transport[transport::RTP], transport[transport::RTP + 1] & 0x7f);
                has_checksum(one) == has_checksum(two)
                    && rtp(one) == rtp(two)
                    && one[transport::RTP_LEN..] == two[transport::RTP_LEN..]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_remembered_in_a_ring() {
        let mut history = History::default();
        for number in 0..100 {
            history.push(1, Point { number, ..Point::default() });
            assert_eq!(history.newest().map(|point| point.number), Some(number));
        }
        let before = |number| history.before(Profile::RtpV2, number).map(|point| point.number);
        assert_eq!((before(99), before(80), before(67), before(100)), (Some(99), Some(80), None, Some(99)));
        assert!(history.has_arrived(0) && history.has_arrived(-63) && history.has_arrived(-64));
    }

    #[test]
    fn arrivals_leave_gaps_open() {
        let mut history = History::default();
        history.push(1, Point::default());
        history.push(3, Point { number: 3, ..Point::default() });
        assert_eq!([0, -1, -2, -3].map(|distance| history.has_arrived(distance)), [true, false, false, true]);
        history.arrived(-2);
        assert!(history.has_arrived(-2) && !history.has_arrived(-1));
    }
}
