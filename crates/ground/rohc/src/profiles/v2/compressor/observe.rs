//! Changes since the packet before.

use alloc::vec::Vec;

use super::{Compressor, Group, Place, Set, Step, View, WINDOW, coverage_after};
use crate::framework::profile::Profile;
use crate::profiles::tcp::extension::{same_static, sequence_at};
use crate::profiles::tcp::ip::{IpId, df, ip_id, same_static as same_static_ip, tos, ttl, u16_at, u32_at};
use crate::profiles::tcp::kind::Kind;
use crate::profiles::v2::chain::Chain;
use crate::profiles::v2::control::Coverage;
use crate::profiles::v2::{Job, control, extension, transport};

/// Steps of an IP-ID that count as counting, per packet.
const MOST_STEP: u16 = 16;
/// Packets in a row that contradict a behaviour before it is given up.
const VOTES_AGAINST: u8 = 3;
/// Packets in a row that count before a random IP-ID is taken to.
const VOTES_FOR_COUNTING: u8 = 8;
/// Packets in a row with another stride before it is taken.
const VOTES_FOR_STRIDE: u8 = 2;

/// Packets in a row whose IP-ID behaved otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IdWatch(u8);

impl IdWatch {
    /// Returns the behaviour that a step of the IP-ID from `last` to `id` suggests.
    #[inline]
    pub(super) fn see(last: u16, id: u16) -> IpId {
        let counts = |one: u16, two: u16| (1..=MOST_STEP).contains(&two.wrapping_sub(one));
        if counts(last, id) {
            IpId::Sequential
        } else if counts(last.swap_bytes(), id.swap_bytes()) {
            IpId::Swapped
        } else if (last, id) == (0, 0) {
            IpId::Zero
        } else {
            IpId::Random
        }
    }

    /// Returns the behaviour after a step of the IP-ID from `last` to `id`. A change costs nothing if it `is_free`.
    pub(super) fn judge(&mut self, present: IpId, last: u16, id: u16, is_free: bool) -> IpId {
        let seen = Self::see(last, id);
        if seen == present {
            self.0 = 0;
            return present;
        }
        self.0 = self.0.saturating_add(1);
        let needed = if present == IpId::Random { VOTES_FOR_COUNTING } else { VOTES_AGAINST };
        let must = present == IpId::Zero && id != 0;
        if must || is_free || self.0 >= needed {
            self.0 = 0;
            return seen;
        }
        present
    }
}

/// Another stride, and how often it was seen in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StrideWatch {
    seen: u32,
    votes: u8,
}

impl StrideWatch {
    /// Returns the stride after a step that the present one does not explain.
    fn judge(&mut self, present: u32, step: u32, packets: i32, is_free: bool) -> u32 {
        let Ok(packets) = u32::try_from(packets) else { return present };
        if packets == 0 || step == 0 || !step.is_multiple_of(packets) || step.cast_signed() < 0 {
            return present;
        }
        let stride = step / packets;
        self.votes = if stride == self.seen { self.votes + 1 } else { 1 };
        self.seen = stride;
        if is_free || self.votes >= VOTES_FOR_STRIDE {
            self.votes = 0;
            return stride;
        }
        present
    }
}

/// Sequence numbers of AH and GRE in the last packets.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    /// Ring of packets, each with its numbers.
    values: Vec<u32>,
    per_packet: usize,
    packets: usize,
    next: usize,
}

impl Sequences {
    fn of<'a>(chain: &'a Chain, headers: &'a [u8]) -> impl Iterator<Item = u32> + 'a {
        chain.links.iter().filter_map(|link| {
            let header = &headers[link.range()];
            Some(u32_at(header, sequence_at(link.kind, header)?))
        })
    }

    pub(super) fn begin(&mut self, chain: &Chain, headers: &[u8]) {
        self.per_packet = Self::of(chain, headers).count();
        self.values.clear();
        self.values.resize(self.per_packet * WINDOW, 0);
        (self.packets, self.next) = (0, 0);
    }

    pub(super) fn push(&mut self, chain: &Chain, headers: &[u8], width: usize) {
        if self.per_packet == 0 {
            return;
        }
        let places = self.values[self.next * self.per_packet..].iter_mut();
        places.zip(Self::of(chain, headers)).for_each(|(place, value)| *place = value);
        self.next = (self.next + 1) % WINDOW;
        self.packets = (self.packets + 1).min(width);
    }

    /// Returns `Some(true)` if one needs 31 bits, `None` if one needs more.
    pub(super) fn are_long(&self, chain: &Chain, headers: &[u8]) -> Option<bool> {
        let mut long = false;
        for back in 1..=self.packets {
            let slot = (self.next + WINDOW - back) % WINDOW;
            let references = self.values[slot * self.per_packet..].iter();
            for (&reference, value) in references.zip(Self::of(chain, headers)) {
                long |= extension::sequence_is_long(reference, value)?;
            }
        }
        Some(long)
    }
}

impl Compressor {
    /// Records the changes of a packet; returns the place of its number.
    pub(super) fn observe(&mut self, job: &Job<'_>, view: &View<'_>, number: u32) -> Step {
        let width = Self::width(job.config);
        let last_number = self.control.number;
        self.control.number = number;
        let mut changed = self.chain_changes(view).and(self.transport_changes(view));
        if self.control.reorder != job.config.reorder {
            self.control.reorder = job.config.reorder;
            changed = changed.with_if(Group::Reorder, true);
        }
        let mut step = Step::Ahead;
        if self.window.newest().is_some() {
            changed = changed.and(self.number_changes(view, last_number));
            let changed_by_step;
            (step, changed_by_step) = self.step_to(number);
            changed = changed.and(changed_by_step);
        } else {
            self.place = Place::at(number);
        }
        if self.sequences.are_long(&self.chain, view.headers).is_none() {
            changed = changed.with_if(Group::Dynamic, true);
        }
        // What comes behind others is not adopted: the next packet ahead of them is the first to bring the change.
        let first = if step == Step::Behind { self.place.highest().wrapping_add(1) } else { number };
        self.groups.changed(changed, first as u16, width);
        step
    }

    fn chain_changes(&mut self, view: &View<'_>) -> Set {
        let mut changed = Set::NONE;
        for index in 0..self.chain.links.len() {
            let is_inner = self.chain.is_inner(index);
            let link = &mut self.chain.links[index];
            let (old, new) = (&self.headers[link.range()], &view.headers[link.range()]);
            changed = changed.and(match link.kind {
                Kind::Ipv4 | Kind::Ipv6 if is_inner => inner_changes(old, new),
                Kind::Ipv4 | Kind::Ipv6 => {
                    let begins_to_vary = link.ip_id == IpId::Zero && ip_id(new) != 0;
                    if begins_to_vary {
                        link.ip_id = IpId::Random;
                    }
                    Set::NONE
                        .with_if(Group::Static, !same_static_ip(old, new))
                        .with_if(Group::Dynamic, begins_to_vary || df(old) != df(new))
                        .with_if(Group::Outer, (tos(old), ttl(old)) != (tos(new), ttl(new)))
                }
                kind => {
                    let is_option = matches!(kind, Kind::HopByHop | Kind::Destination);
                    Set::NONE
                        .with_if(Group::Static, !same_static(kind, old, new))
                        .with_if(Group::Dynamic, is_option && old != new)
                }
            });
        }
        changed
    }

    fn transport_changes(&mut self, view: &View<'_>) -> Set {
        let at = view.transport_at;
        let (old, new) = (&self.headers[at..], view.transport());
        let mut changed = Set::NONE;
        if self.profile.headers() == Profile::Ip {
            return changed;
        }
        changed = changed.with_if(Group::Static, old[..4] != new[..4]);
        if matches!(self.profile.headers(), Profile::Udp | Profile::Rtp) {
            let is_zero = |transport: &[u8]| transport[6..8] == [0, 0];
            changed = changed.with_if(Group::Dynamic, is_zero(old) != is_zero(new));
        }
        if self.profile.has_udp_lite() {
            let coverage = coverage_after(
                if self.window.len() == 0 {
                    first_coverage(new, view.len - at)
                } else {
                    self.control.coverage
                },
                u16_at(old, 4),
                u16_at(new, 4),
                view.len - at,
            );
            changed = changed.with_if(Group::Coverage, coverage != self.control.coverage);
            self.control.coverage = coverage;
        }
        if !self.profile.has_rtp() {
            return changed;
        }
        let (old_rtp, new_rtp) = (&old[transport::RTP..], view.rtp());
        let bits = transport::padding_and_extension;
        changed
            .with_if(Group::Static, old_rtp[8..12] != new_rtp[8..12])
            .with_if(Group::PayloadType, old_rtp[1] & 0x7f != new_rtp[1] & 0x7f)
            .with_if(Group::RtpBits, bits(old_rtp) != bits(new_rtp))
            .with_if(Group::List, old[transport::RTP_LEN..] != new[transport::RTP_LEN..])
    }

    /// Compares numbers, timestamp and IP-ID with those of the last packet.
    fn number_changes(&mut self, view: &View<'_>, last_number: u32) -> Set {
        let number = self.control.number;
        let ahead = control::distance(self.profile, last_number, number);
        self.number_run = if ahead > 0 { self.number_run.saturating_add(1) } else { 0 };
        let mut changed = Set::NONE;
        if self.profile.has_rtp() {
            changed = changed.with_if(Group::TsStride, self.observe_ts(view, ahead));
        }
        let link = *self.chain.inner();
        if link.kind == Kind::Ipv4 {
            changed = changed.with_if(Group::Flags, self.observe_id(view, last_number));
        }
        changed
    }

    /// Moves on to `number`; returns its place and the groups that it calls for.
    ///
    /// Numbers that fall back begin again. Where they pass one that left the window, all but the static part does.
    fn step_to(&mut self, number: u32) -> (Step, Set) {
        let highest = self.place.highest();
        let step = self.place.step(self.profile, number);
        let is_reference = || self.window.iter().any(|reference| reference.number == highest);
        let changed = match step {
            Step::Back => Set::ALL,
            Step::Ahead if !is_reference() => Set::ALL.without(Group::Static),
            _ => Set::NONE,
        };
        (step, changed)
    }

    /// Returns `true` if the stride is another one.
    fn observe_ts(&mut self, view: &View<'_>, ahead: i32) -> bool {
        let last = transport::timestamp(&self.headers[view.transport_at + transport::RTP..]);
        let step = transport::timestamp(view.rtp()).wrapping_sub(last);
        let stride = self.control.ts_stride;
        if step == (ahead as u32).wrapping_mul(stride) {
            self.ts_run = self.ts_run.saturating_add(1);
            self.stride_watch = StrideWatch::default();
            return false;
        }
        self.ts_run = 0;
        let is_free = self.groups.due().has(Group::Static) || self.groups.due().has(Group::Dynamic);
        let is_scalable = stride != 0 && step.cast_signed().unsigned_abs().is_multiple_of(stride);
        if is_scalable && !is_free {
            return false;
        }
        self.control.ts_stride = self.stride_watch.judge(stride, step, ahead, is_free);
        if self.control.ts_stride != stride {
            self.ts_run = u8::from(step == (ahead as u32).wrapping_mul(self.control.ts_stride));
        }
        self.control.ts_stride != stride
    }

    /// Returns `true` if the IP-ID behaves otherwise.
    fn observe_id(&mut self, view: &View<'_>, last_number: u32) -> bool {
        let link = *self.chain.inner();
        let (last, id) = (ip_id(&self.headers[link.range()]), ip_id(&view.headers[link.range()]));
        let due = self.groups.due();
        let is_free = due.has(Group::Static) || due.has(Group::Dynamic) || due.has(Group::Flags);
        let behavior = self.id_watch.judge(link.ip_id, last, id, is_free);
        let offset = |id: u16, number: u32| behavior.counter(id).wrapping_sub(number as u16);
        let goes_on = offset(last, last_number) == offset(id, self.control.number);
        self.id_run = if goes_on && behavior == link.ip_id { self.id_run.saturating_add(1) } else { 0 };
        self.chain.inner_mut().ip_id = behavior;
        behavior != link.ip_id
    }
}

/// Returns the behaviour that the first datagram suggests.
fn first_coverage(transport: &[u8], len: usize) -> Coverage {
    if usize::from(u16_at(transport, 4)) == len { Coverage::Inferred } else { Coverage::Static }
}

fn inner_changes(old: &[u8], new: &[u8]) -> Set {
    Set::NONE
        .with_if(Group::Static, !same_static_ip(old, new))
        .with_if(Group::Flags, df(old) != df(new))
        .with_if(Group::Tos, tos(old) != tos(new))
        .with_if(Group::Ttl, ttl(old) != ttl(new))
}
