//! The compressor's context of one flow (RFC 5225 5.1).

mod choose;
mod emit;
mod groups;
mod observe;
mod place;
mod reply;
mod steady;

use alloc::boxed::Box;
use alloc::vec::Vec;

use self::groups::{Group, Groups, Set};
use self::observe::{IdWatch, Sequences, StrideWatch};
use self::place::{Place, Step};
pub(super) use self::steady::Plain;
use self::steady::Steady;
use super::chain::Chain;
use super::control::{self, Control, Coverage};
use super::list::{Plan, Sender};
use super::{Job, transport};
use crate::framework::arrival::ArrivalTiming;
use crate::framework::config::{CompressorConfig, ReorderRatio};
use crate::framework::confirm::{BEHIND_CHANGES, ConfirmSchedule};
use crate::framework::context::{Built, Unfit};
use crate::framework::earlier::SentNumbers;
use crate::framework::lsb::Window;
use crate::framework::profile::{CompressorState, Mode, PacketType, Profile};
use crate::framework::refresh::{RefreshClock, phase};
use crate::profiles::tcp::ip::{IpId, ip_id, u16_at, u32_at};
use crate::profiles::tcp::kind::Kind;

/// Maximum number of references, and of repeats of a change.
const WINDOW: usize = 16;

/// Values of a packet that later ones may be relative to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ref {
    number: u32,
    ts: u32,
    /// Offset of the innermost IP-ID from the master sequence number.
    offset: u16,
}

/// Values and demands of a packet in order.
#[derive(Clone, Copy, Debug)]
struct Next {
    current: Ref,
    /// Place of the packets before.
    before: Place,
    is_strong_due: bool,
}

/// A packet, its headers found.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    /// Octets of the headers.
    headers: &'a [u8],
    transport_at: usize,
    len: usize,
}

impl<'a> View<'a> {
    /// Finds the headers of a packet of `len` octets in `octets`. `None` if `profile` cannot carry it.
    pub(super) fn parse(octets: &'a [u8], len: usize, profile: Profile, chain: &mut Chain) -> Option<Self> {
        chain.parse(octets, len)?;
        Self::at(octets, len, profile, chain)
    }

    fn at(octets: &'a [u8], len: usize, profile: Profile, chain: &Chain) -> Option<Self> {
        if transport::protocol_of(profile).is_some_and(|protocol| protocol != chain.next()) {
            return None;
        }
        let transport_at = chain.len();
        let rest = octets.get(transport_at..)?;
        let transport_len = transport::len(profile, rest)?;
        let is_inferable = transport::is_inferable(profile, rest, len - transport_at);
        let headers = octets.get(..transport_at + transport_len)?;
        is_inferable.then_some(Self { headers, transport_at, len })
    }

    fn transport(&self) -> &'a [u8] {
        &self.headers[self.transport_at..]
    }

    fn rtp(&self) -> &'a [u8] {
        &self.transport()[transport::RTP..]
    }

    fn csrcs(&self) -> &'a [u8] {
        &self.transport()[transport::RTP_LEN..]
    }
}

/// The compressor's context.
#[derive(Debug)]
pub(super) struct Compressor {
    profile: Profile,
    chain: Chain,
    /// Headers of the last packet.
    headers: Vec<u8>,
    control: Control,
    window: Window<Ref, WINDOW>,
    /// Packets in a row whose timestamp followed from the sequence number.
    ts_run: u8,
    /// Packets in a row whose IP-ID followed from the sequence number.
    id_run: u8,
    /// Packets in a row whose sequence number went on.
    number_run: u8,
    place: Place,
    groups: Groups,
    id_watch: IdWatch,
    stride_watch: StrideWatch,
    sequences: Sequences,
    csrcs: Option<Box<Sender>>,
    timing: ArrivalTiming,
    confirm: ConfirmSchedule,
    /// Packets with CRC-7 to come after the last change.
    behind_changes: u8,
    ir_clock: RefreshClock,
    fo_clock: RefreshClock,
    /// Packets between IR packets of a slow start; 0: there is none.
    slow_start_gap: u32,
    /// Feedback came, so that there is a way back.
    is_bidirectional: bool,
    /// Set if the last feedback took longer than the next CRC-7 would.
    is_feedback_late: bool,
    is_begun: bool,
    packets: u32,
    steady: Steady,
}

impl Compressor {
    /// Creates a context without a flow.
    pub(super) fn new(job: &Job<'_>) -> Self {
        Self {
            profile: job.profile,
            chain: Chain::default(),
            headers: Vec::new(),
            control: Control::default(),
            window: Window::new(),
            ts_run: 0,
            id_run: 0,
            number_run: 0,
            place: Place::default(),
            groups: Groups::default(),
            id_watch: IdWatch::default(),
            stride_watch: StrideWatch::default(),
            sequences: Sequences::default(),
            csrcs: None,
            timing: ArrivalTiming::default(),
            confirm: ConfirmSchedule::default(),
            behind_changes: 0,
            ir_clock: RefreshClock::default(),
            fo_clock: RefreshClock::default(),
            slow_start_gap: 0,
            is_bidirectional: false,
            is_feedback_late: false,
            is_begun: false,
            packets: 0,
            steady: Steady::default(),
        }
    }

    /// Restarts the context for another flow. A generated master sequence number goes on (RFC 5225 6.3.1).
    pub(super) fn renew(&mut self, job: &Job<'_>) {
        let number = if self.profile == job.profile { self.control.number } else { 0 };
        *self = Self::new(job);
        self.control.number = number;
    }

    pub(super) const fn mode(&self) -> Mode {
        if self.is_bidirectional { Mode::Optimistic } else { Mode::Unidirectional }
    }

    pub(super) fn state(&self) -> CompressorState {
        CompressorState::of(self.groups.due().has(Group::Static), self.groups.due() != Set::NONE)
    }

    pub(super) fn sent_numbers(&self) -> SentNumbers {
        SentNumbers::new(u32::from(self.control.msn()), self.packets)
    }

    /// Returns the number of packets that carry a change, and of references. It covers losses in a row, and packets that
    /// come late.
    #[inline]
    fn width(config: &CompressorConfig) -> u8 {
        let late = match config.reorder {
            ReorderRatio::None => 0,
            ratio => ratio.depth(SHORTEST_MSN_BITS) as u8,
        };
        (config.repeats.max(1).saturating_add(late)).min(WINDOW as u8)
    }

    /// Returns `true` if the profile takes its numbers from the packets.
    const fn has_own_numbers(&self) -> bool {
        self.profile.has_rtp() || matches!(self.profile, Profile::EspV2)
    }

    pub(super) fn compress(
        &mut self,
        job: &Job<'_>,
        spare: &mut Chain,
        out: &mut Vec<u8>,
    ) -> Result<Built, Unfit> {
        let (octets, len) = (job.packet.bytes, job.packet.len);
        self.steady.forget();
        let is_known = self.is_begun && self.chain.describes(octets, len).ok_or(Unfit)?;
        let view = if is_known {
            View::at(octets, len, self.profile, &self.chain).ok_or(Unfit)?
        } else {
            spare.set_bare(job.config.is_for_librohc());
            let view = View::parse(octets, len, self.profile, spare).ok_or(Unfit)?;
            core::mem::swap(&mut self.chain, spare);
            self.begin(job, &view);
            view
        };
        self.refresh(job);
        let number = self.number_of(&view);
        let before = self.place;
        let step = self.observe(job, &view, number);
        Ok(self.write(job, &view, before, step, out))
    }

    /// Begins with a new chain of headers.
    fn begin(&mut self, job: &Job<'_>, view: &View<'_>) {
        if !self.is_begun && !self.has_own_numbers() && self.control.number == 0 {
            // For want of randomness, the octets of the first packet.
            let hash = view
                .headers
                .iter()
                .fold(0x811c_9dc5u32, |hash, &octet| (hash ^ u32::from(octet)).wrapping_mul(0x0100_0193));
            self.control.number = hash & 0xffff;
        }
        for index in 0..self.chain.links.len() {
            let is_inner = self.chain.is_inner(index);
            let link = &mut self.chain.links[index];
            if link.kind == Kind::Ipv4 {
                link.ip_id = match ip_id(&view.headers[link.range()]) {
                    0 => IpId::Zero,
                    _ if is_inner => IpId::Sequential,
                    _ => IpId::Random,
                };
            }
        }
        self.control =
            Control { number: self.control.number, reorder: job.config.reorder, ..Control::default() };
        self.headers.clear();
        self.headers.extend_from_slice(view.headers);
        self.window.clear();
        (self.ts_run, self.id_run, self.number_run) = (0, 0, 0);
        (self.id_watch, self.stride_watch) = (IdWatch::default(), StrideWatch::default());
        self.sequences.begin(&self.chain, view.headers);
        self.csrcs.iter_mut().for_each(|csrcs| csrcs.reset());
        self.is_begun = true;
        self.packets = 0;
        self.timing = ArrivalTiming::starting(job.now);
        self.confirm = ConfirmSchedule::starting(job.config);
        self.start_irs(job);
    }

    /// Schedules IR packets: all at once, or at growing gaps.
    fn start_irs(&mut self, job: &Job<'_>) {
        let config = job.config;
        let irs = if config.slow_start { 1 } else { Self::width(config) };
        self.slow_start_gap = u32::from(config.slow_start);
        self.groups.changed(Set::ALL, self.control.msn(), irs);
        if config.spread_refreshes {
            self.ir_clock.restart_at(phase(job.cid.cid), config.ir_refresh, job.now);
            self.fo_clock.restart_at(phase(job.cid.cid), config.fo_refresh, job.now);
        } else {
            self.ir_clock.restart(job.now);
            self.fo_clock.restart(job.now);
        }
    }

    /// Schedules refreshes in unidirectional operation.
    fn refresh(&mut self, job: &Job<'_>) {
        let config = job.config;
        let irs = self.ir_clock.is_due(config.ir_refresh, job.now);
        let fos = self.fo_clock.is_due(config.fo_refresh, job.now);
        let due = self.groups.due();
        if self.is_bidirectional || due.has(Group::Static) {
            return;
        }
        let times = if config.slow_start { 1 } else { config.refresh_repeats.clamp(1, WINDOW as u8) };
        let msn = self.control.msn();
        if irs || self.slow_start_gap > 0 && self.ir_clock.packets > self.slow_start_gap {
            self.groups.changed(Set::ALL, msn, times);
        } else if fos && !due.has(Group::Dynamic) {
            self.groups.changed(Set::ALL.without(Group::Static), msn, times);
        }
    }

    /// Counts an IR packet, or another refresh.
    fn refreshed(&mut self, kind: PacketType, job: &Job<'_>) {
        if kind == PacketType::Ir {
            let is_repeated = self.groups.due().has(Group::Static);
            if self.slow_start_gap > 0 && !is_repeated && self.packets > 0 {
                self.slow_start_gap = self.slow_start_gap.saturating_mul(2);
            }
            let period = job.config.ir_refresh.packets;
            if self.is_bidirectional || period > 0 && self.slow_start_gap >= period {
                self.slow_start_gap = 0;
            }
            if !(job.config.spread_refreshes && self.packets == 0) {
                self.ir_clock.restart(job.now);
            }
        }
        if matches!(kind, PacketType::Ir | PacketType::CoRepair) && self.packets > 0 {
            self.fo_clock.restart(job.now);
        }
    }

    /// Returns the sequence number of the packet.
    fn number_of(&self, view: &View<'_>) -> u32 {
        match self.profile.headers() {
            Profile::Rtp | Profile::RtpUdpLite => u32::from(u16_at(view.rtp(), 2)),
            Profile::Esp => u32_at(view.transport(), 4),
            _ => self.control.number.wrapping_add(1) & 0xffff,
        }
    }

    /// Returns the values that later packets may be relative to.
    fn values(&self, view: &View<'_>, number: u32) -> Ref {
        let ts = if self.profile.has_rtp() { transport::timestamp(view.rtp()) } else { 0 };
        let link = self.chain.inner();
        let offset = match link.kind {
            Kind::Ipv4 => link.ip_id.counter(ip_id(&view.headers[link.range()])).wrapping_sub(number as u16),
            _ => 0,
        };
        Ref { number, ts, offset }
    }

    /// Writes the packet and remembers it.
    fn write(
        &mut self,
        job: &Job<'_>,
        view: &View<'_>,
        before: Place,
        step: Step,
        out: &mut Vec<u8>,
    ) -> Built {
        let current = self.values(view, self.control.number);
        let plan = self.plan(view);
        let kind = if step == Step::Behind {
            self.emit_whole(job, view, plan.as_ref(), out)
        } else {
            let next = Next { current, before, is_strong_due: self.must_confirm(job, &current) };
            self.emit(job, view, &next, plan.as_ref(), out)
        };
        if step != Step::Behind {
            self.carried(kind, plan.as_ref());
        }
        if let (Some(csrcs), Some(plan), PacketType::Ir) = (&mut self.csrcs, &plan, kind) {
            csrcs.keep(plan);
        }
        self.confirmed(kind, job.config);
        self.refreshed(kind, job);
        let width = usize::from(Self::width(job.config));
        self.window.push(current, width);
        self.sequences.push(&self.chain, view.headers, width);
        self.headers.clear();
        self.headers.extend_from_slice(view.headers);
        self.packets = self.packets.saturating_add(1);
        self.timing.note(job.now);
        self.set_template(job, view);
        Built { kind, header_in: view.headers.len() }
    }

    /// Notes that changes went out in a packet of this kind, which the decompressor adopts.
    fn carried(&mut self, kind: PacketType, plan: Option<&Plan>) {
        let is_list = kind != PacketType::CoCommon || self.groups.due().has(Group::List);
        if let (Some(csrcs), Some(plan), true) = (&mut self.csrcs, plan, is_list && is_updating(kind)) {
            csrcs.sent(plan);
        }
        self.groups.sent(kind);
    }

    /// Returns the indices of the CSRCs.
    fn plan(&mut self, view: &View<'_>) -> Option<Plan> {
        let csrcs = if self.profile.has_rtp() { view.csrcs() } else { &[] };
        if csrcs.is_empty() && self.csrcs.is_none() {
            return None;
        }
        Some(self.csrcs.get_or_insert_default().plan(csrcs))
    }

    /// Returns `true` if the packet must have a CRC-7.
    fn must_confirm(&self, job: &Job<'_>, current: &Ref) -> bool {
        let Some(last) = self.window.newest() else { return false };
        let ahead = control::distance(self.profile, last.number, current.number);
        let has_gap = !(1..=i32::from(job.config.repeats)).contains(&ahead);
        let is_late = self.timing.may_seem_late(job.now);
        job.config.confirms() && (self.confirm.is_due() || self.behind_changes > 0 || has_gap || is_late)
    }

    /// Counts a packet with or without CRC-7.
    #[inline]
    fn confirmed(&mut self, kind: PacketType, config: &CompressorConfig) {
        let is_strong = !matches!(
            kind,
            PacketType::Pt0Crc3 | PacketType::Pt1Rnd | PacketType::Pt1SeqId | PacketType::Pt1SeqTs
        );
        if !config.confirms() {
            return;
        }
        if is_updating(kind) {
            self.behind_changes = if self.is_bidirectional { 0 } else { BEHIND_CHANGES };
        } else if is_strong {
            self.behind_changes = self.behind_changes.saturating_sub(1);
        }
        if is_strong {
            self.confirm.plan(config, self.is_bidirectional && !self.is_feedback_late);
        }
        self.confirm.sent(is_strong);
    }
}

/// Bits of the sequence number in the shortest header.
const SHORTEST_MSN_BITS: u32 = 4;

/// Returns `true` if packets of this kind update more than numbers.
const fn is_updating(kind: PacketType) -> bool {
    matches!(kind, PacketType::Ir | PacketType::CoRepair | PacketType::CoCommon)
}

/// Returns the coverage behaviour after a datagram of `len` octets whose coverage is `coverage`.
fn coverage_after(behavior: Coverage, last: u16, coverage: u16, len: usize) -> Coverage {
    let is_inferred = usize::from(coverage) == len;
    match behavior {
        Coverage::Inferred if is_inferred => Coverage::Inferred,
        Coverage::Static if coverage == last => Coverage::Static,
        _ => Coverage::Irregular,
    }
}
