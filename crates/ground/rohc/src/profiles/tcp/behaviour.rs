//! Estimates from past packets: IP-ID behaviour, acknowledgement stride, and use of ECN.

use super::ip::IpId;
use crate::framework::lsb;

/// Packets per jump at which a counting IP-ID costs as much as a random one. A jump costs a `co_common` for each
/// repeat, a random IP-ID two octets in every packet. The first is for jumps that eight bits can carry, the second
/// for longer ones.
const SHORT_JUMP_COST: u8 = 4;
const JUMP_COST: u8 = 12;
/// Cost of jumps at which an IP-ID is treated as random.
const PATIENCE: u8 = 24;
/// Steps of a counter that other connections share; larger ones are jumps.
const MAX_STEP: u16 = 13;
/// Steps in a row after which an IP-ID is taken to count.
const STEPS_TO_TRUST: u8 = 8;

/// Watches the IP-ID of the innermost header.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IpIdWatch {
    /// Recent cost of jumps in packets.
    jumps: u8,
    /// Steps in a row that fit the candidate.
    steps: u8,
    candidate: Option<IpId>,
}

impl IpIdWatch {
    /// Returns the behaviour to send `ip_id` by, after `previous`, where it was `now`. `free` is set if a change costs
    /// nothing, `said` if the packet states the behaviour in any case.
    pub(super) fn judge(&mut self, now: IpId, previous: u16, ip_id: u16, free: bool, said: bool) -> IpId {
        let seen = step(previous, ip_id);
        if seen.is_some() && seen == self.candidate {
            self.steps = self.steps.saturating_add(1);
        } else {
            self.steps = 1;
        }
        self.candidate = seen;
        self.jumps = if fits(now, previous, ip_id, 4) {
            self.jumps.saturating_sub(1)
        } else {
            let cost = if fits(now, previous, ip_id, 8) { SHORT_JUMP_COST } else { JUMP_COST };
            (self.jumps + cost).min(PATIENCE + JUMP_COST)
        };
        if said && now == IpId::Random && ip_id == 0 {
            // Segments that say so come at the ends of a connection: they are few.
            return IpId::Zero;
        }
        self.choose(now, ip_id, free && !fits(now, previous, ip_id, 4))
    }

    /// Returns the behaviour as [`IpIdWatch::judge`] does. `free` is set if a change costs nothing and `now` does not
    /// fit.
    fn choose(&self, now: IpId, ip_id: u16, free: bool) -> IpId {
        let trusted = free || self.steps >= STEPS_TO_TRUST;
        match (now, self.candidate) {
            (_, Some(candidate)) if trusted => candidate,
            (IpId::Zero, Some(candidate)) if ip_id != 0 => candidate,
            (IpId::Zero, None) if ip_id != 0 => IpId::Random,
            (IpId::Sequential | IpId::Swapped, None) if free || self.jumps > PATIENCE => IpId::Random,
            _ => now,
        }
    }
}

/// The behaviour that two IP-IDs in a row look like; `None` for random.
fn step(previous: u16, ip_id: u16) -> Option<IpId> {
    if previous == 0 && ip_id == 0 {
        return Some(IpId::Zero);
    }
    let counts = |behavior: &IpId| {
        let step = behavior.counter(ip_id).wrapping_sub(behavior.counter(previous));
        (1..=MAX_STEP).contains(&step)
    };
    [IpId::Sequential, IpId::Swapped].into_iter().find(counts)
}

/// Returns `true` if `bits` can carry the step.
fn fits(behavior: IpId, previous: u16, ip_id: u16, bits: u32) -> bool {
    match behavior {
        IpId::Sequential | IpId::Swapped => {
            let expected = u32::from(behavior.counter(previous).wrapping_add(1));
            lsb::fits(expected, u32::from(behavior.counter(ip_id)), bits, 3, 0xffff)
        }
        IpId::Zero => ip_id == 0,
        IpId::Random => true,
    }
}

/// Acknowledgements in a row that go by one stride before it is worth announcing.
const ACKS_TO_TRUST: u8 = 8;
/// Strides per packet that the scaled format can carry.
const MAX_STRIDES: u32 = 12;
/// Smaller ones are not the size of segments.
const MIN_STRIDE: u32 = 64;

/// Watches by how much acknowledgements go up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StrideWatch {
    candidate: u16,
    acks: u8,
}

impl StrideWatch {
    /// A stride worth announcing instead of `now`, after an acknowledgement that went up by `step`.
    pub(super) fn judge(&mut self, now: u16, step: u32) -> Option<u16> {
        if step == 0 || step > u32::from(u16::MAX) {
            return None;
        }
        let candidate = u32::from(self.candidate);
        let joint = gcd(candidate, step);
        if joint >= MIN_STRIDE && step / joint <= MAX_STRIDES && candidate / joint <= MAX_STRIDES {
            let refined = joint != candidate && candidate != 0;
            self.acks = if refined { 1 } else { self.acks.saturating_add(1) };
            self.candidate = joint as u16;
        } else {
            (self.candidate, self.acks) = (step as u16, 1);
        }
        (self.acks >= ACKS_TO_TRUST && self.candidate != now).then_some(self.candidate)
    }
}

fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Packets without a change after which ECN is taken out of the irregular chain.
const QUIET_PACKETS: u8 = 32;
const QUIET_PACKETS_IF_FREE: u8 = 4;

/// Watches the ECN bits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EcnWatch {
    quiet: u8,
}

impl EcnWatch {
    /// Returns `true` if ECN should be in the irregular chain. `now` is its present place, `changed` whether its bits
    /// did; `free` says that the packet needs a format that can say so anyway.
    pub(super) fn judge(&mut self, now: bool, changed: bool, free: bool) -> bool {
        self.quiet = if changed { 0 } else { self.quiet.saturating_add(1) };
        let enough = if free { QUIET_PACKETS_IF_FREE } else { QUIET_PACKETS };
        changed || (now && self.quiet < enough)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(ids: impl IntoIterator<Item = u16>, start: IpId, free_packets: usize) -> IpId {
        let (mut watch, mut now, mut previous) = (IpIdWatch::default(), start, None);
        for (index, id) in ids.into_iter().enumerate() {
            if let Some(previous) = previous {
                now = watch.judge(now, previous, id, index < free_packets, false);
            }
            previous = Some(id);
        }
        now
    }

    #[test]
    fn ip_id_behaviours_are_recognised() {
        let scattered = |n: u16| n.wrapping_mul(40_503).rotate_left(5) ^ 0x1234;
        assert_eq!(watch(65_530..=65_535, IpId::Sequential, 4), IpId::Sequential);
        assert_eq!(watch((10..40).map(u16::swap_bytes), IpId::Sequential, 4), IpId::Swapped);
        assert_eq!(watch((0..40).map(scattered), IpId::Sequential, 4), IpId::Random);
        assert_eq!(watch([0; 10], IpId::Sequential, 4), IpId::Zero);
        // Late changes.
        assert_eq!(watch((0..40).map(scattered), IpId::Sequential, 0), IpId::Random);
        assert_eq!(watch(100..140, IpId::Random, 0), IpId::Sequential);
        assert_eq!(watch([0, 0, 0, 0, 5, 6, 7], IpId::Zero, 0), IpId::Sequential);
    }

    #[test]
    fn one_jump_does_not_make_an_ip_id_random() {
        let ids = (0..100u16).map(|n| n + if n < 50 { 0 } else { 1000 });
        assert_eq!(watch(ids, IpId::Sequential, 4), IpId::Sequential);
    }

    #[test]
    fn strides_are_found_and_refined() {
        let mut watch = StrideWatch::default();
        let found = (0..8).filter_map(|_| watch.judge(0, 2920)).next();
        assert_eq!(found, Some(2920));
        let found =
            [1460, 2920, 4380].into_iter().cycle().take(12).filter_map(|step| watch.judge(2920, step)).next();
        assert_eq!(found, Some(1460));
        assert!((0..100).all(|n| watch.judge(1460, 1000 + n * 37).is_none()));
    }
}
