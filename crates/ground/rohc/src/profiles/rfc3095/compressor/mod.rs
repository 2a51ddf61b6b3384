//! The compressor of the RFC 3095 family.
//!
//! A packet is read into [`Current`], compared with the last one (what changed must reach the decompressor, see
//! [`Repeat`]) and with every value that the decompressor may hold as reference ([`Spans`]); then the shortest packet
//! that carries everything is written.

mod acknowledge;
mod choose;
mod confirm;
mod emit;
mod formats;
mod id;
mod initialize;
mod lists;
mod repeat;
mod steady;
mod timer;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use self::confirm::Confirm;
use self::id::Watch;
use self::lists::{Encoder, Lists};
use self::repeat::Repeat;
pub(crate) use self::steady::Chain;
use self::steady::Steady;
pub(in crate::profiles) use self::steady::{MAX_HEADER_LEN, fixed_ip_sum};
use self::timer::Timer;
use super::Job;
use super::header::{IpChanging, Numbering};
use crate::framework::arrival::ArrivalTiming;
use crate::framework::config::CompressorConfig;
use crate::framework::context::{Built, Unfit};
use crate::framework::lsb::Window;
use crate::framework::packet::{Level, Packet};
use crate::framework::profile::{Mode, PacketType, Profile};
use crate::framework::refresh::{self, RefreshClock};

/// References that the decompressor may hold, at most.
const WINDOW: usize = 16;
/// Packets with a new timestamp step after which it becomes the stride.
const BELIEVE_STRIDE: u8 = 2;
/// Packets whose coverage could have been predicted after which it is no longer sent.
const BELIEVE_COVERAGE: u8 = 8;

/// Growth of an IP-ID offset between neighbours of a reference that can be dropped.
const MAX_DRIFT: u16 = 0x1000;

/// NBO and RND among the flags of extension 3.
const ID_FLAGS: u8 = 0x06;
/// TOS, TTL, NBO and RND among the flags of extension 3.
const IP_FIELDS: u8 = 0xc0 | ID_FLAGS;

/// Values of an updating packet.
#[derive(Clone, Copy, Debug, Default)]
struct Reference {
    sn: u32,
    /// IP-ID offsets of outer and inner header.
    offsets: [u16; 2],
    ts: u32,
    /// `ts / stride` and `ts % stride`.
    scaled: u32,
    residue: u32,
    arrival_ms: u32,
}

/// Values of one packet's header.
#[derive(Clone, Copy, Debug, Default)]
struct Current {
    sn: u32,
    ip: [IpChanging; 2],
    rtp: RtpFields,
    ts: u32,
    marker: bool,
    /// Checksum of UDP or UDP-Lite.
    checksum: u16,
    coverage: u16,
    /// Length of the UDP-Lite datagram.
    rest_len: u32,
    header_len: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RtpFields {
    padding: bool,
    extension: bool,
    payload_type: u8,
}

/// The timestamp's stride as both sides know it.
#[derive(Clone, Copy, Debug)]
struct Stride {
    /// The decompressor's initial value is 1 (RFC 3095 5.7.5.2).
    value: u32,
    pending: Repeat,
    /// A step that was seen, and how often in a row.
    candidate: u32,
    seen: u8,
    /// The decompressor may have another one, from the flow that had the CID before.
    unannounced: bool,
}

/// The coverage of UDP-Lite as the decompressor has it (RFC 4019 5.1).
#[derive(Clone, Copy, Debug, Default)]
struct CoverageState {
    value: u16,
    present: bool,
    inferred: bool,
    /// CCE(ON) or CCE(OFF) is being sent.
    change: Repeat,
    /// Packets in a row that sending differently would have suited.
    misfits: u8,
    /// Set if consecutive IR and IR-DYN packets differ, so that the context is uncertain.
    uncertain: bool,
}

/// The context.
#[derive(Debug)]
pub(crate) struct Compressor {
    profile: Profile,
    mode: Mode,
    started: bool,
    last: Current,
    window: Window<Reference, WINDOW>,
    depth: u8,
    /// Set if outer and inner IP header are IPv4.
    ipv4: [bool; 2],
    watches: [Watch; 2],
    ir: Repeat,
    ir_dyn: Repeat,
    ip: [Repeat; 2],
    /// Changes of TOS, TTL, and NBO or RND, as flags of extension 3.
    ip_fields: [u8; 2],
    rtp: Repeat,
    /// The mode is announced until a packet with it is acknowledged (C_TRANS = P).
    mode_change: Repeat,
    /// The first of the packets, without a break since, that carried the mode.
    mode_since: Option<u32>,
    stride: Stride,
    coverage: CoverageState,
    timer: Timer,
    lists: Option<Box<Lists>>,
    /// CRC-3 and CRC-7 after the static octets, while they are the same.
    static_crcs: Option<(u8, u8)>,
    steady: Steady,
    confirm: Confirm,
    timing: ArrivalTiming,
    ir_clock: RefreshClock,
    fo_clock: RefreshClock,
    /// No periodic refresh was due yet: its phase is still to be spread.
    spreading: bool,
    /// Packets to the next IR of the slow start; 0: over.
    slow_start_gap: u32,
    /// R-mode: packets since the last updating one.
    since_update: u8,
    /// The longest run of lost packets that the decompressor reported (LOSS option).
    longest_loss: u8,
    /// The CID was used before: the decompressor may hold values of the last flow.
    reused: bool,
    /// Sequence number of the flow's first packet.
    first_sn: u32,
    /// First sequence number whose acknowledgement confirms this flow's static part. Until then, on a CID used
    /// before, IR takes the place of IR-DYN, whose CRC does not cover the static part: a decompressor that missed
    /// every IR would give the packet the last flow's addresses.
    unconfirmed_from: Option<u32>,
}

impl Compressor {
    pub(crate) fn new(job: &Job<'_>) -> Self {
        Self {
            profile: job.profile,
            mode: Mode::Unidirectional,
            started: false,
            last: Current::default(),
            window: Window::new(),
            depth: 0,
            ipv4: [false; 2],
            watches: [Watch::default(); 2],
            ir: Repeat::default(),
            ir_dyn: Repeat::default(),
            ip: [Repeat::default(); 2],
            ip_fields: [0; 2],
            rtp: Repeat::default(),
            mode_change: Repeat::default(),
            mode_since: None,
            stride: Stride {
                value: 1,
                pending: Repeat::default(),
                candidate: 0,
                seen: 0,
                unannounced: false,
            },
            coverage: CoverageState::default(),
            timer: Timer::default(),
            lists: None,
            static_crcs: None,
            steady: Steady::default(),
            confirm: Confirm::starting(job.config),
            timing: ArrivalTiming::default(),
            ir_clock: RefreshClock::default(),
            fo_clock: RefreshClock::default(),
            spreading: false,
            slow_start_gap: 0,
            since_update: 0,
            longest_loss: 0,
            reused: job.is_reused,
            first_sn: 0,
            unconfirmed_from: None,
        }
    }

    /// The CID goes to another flow. With the same profile the mode is inherited (RFC 4815 7.2.1).
    pub(crate) fn renew(&mut self, job: &Job<'_>) {
        let fresh = (Mode::Unidirectional, Repeat::default());
        let (mode, mode_change) =
            if self.profile == job.profile { (self.mode, self.mode_change) } else { fresh };
        let sn = self.last.sn;
        let mut window = core::mem::replace(&mut self.window, Window::new());
        window.clear();
        *self = Self { mode, mode_change, window, ..Self::new(job) };
        // Numbers go on, so that a stale packet of the last flow does not count as one of this.
        self.last.sn = sn;
        self.stride.unannounced = true;
    }

    fn begin(&mut self, job: &Job<'_>, sn: u32) {
        let config = job.config;
        self.ir.start(if config.slow_start { 1 } else { Self::repeats(config) }, sn);
        self.slow_start_gap = u32::from(config.slow_start);
        self.first_sn = sn;
        self.unconfirmed_from = self.reused.then_some(sn);
        self.spreading = config.spread_refreshes;
    }

    /// Starts counting towards the next refreshes, the first time from the context's phase.
    fn restart_clocks(&mut self, job: &Job<'_>, ir: bool) {
        if !ir {
            return self.fo_clock.restart(job.now);
        }
        let is_spread = self.spreading && self.slow_start_gap == 0;
        let phase = if is_spread { refresh::phase(job.cid.cid) } else { 0 };
        self.ir_clock.restart_at(phase, job.config.ir_refresh, job.now);
        self.fo_clock.restart_at(phase, job.config.fo_refresh, job.now);
    }

    #[inline]
    fn numbering(&self) -> Numbering {
        Numbering::of(self.profile)
    }

    /// Levels in use of `ip` and `last.ip`.
    fn used(&self) -> core::ops::Range<usize> {
        2 - usize::from(self.depth)..2
    }

    /// Returns the number of repeats, at least one.
    fn repeats(config: &CompressorConfig) -> u8 {
        config.repeats.clamp(1, WINDOW as u8)
    }

    /// Returns the number of times the present packet's change is sent. What the second packet of a flow shows (how its
    /// IP-ID and timestamp behave) goes with the remaining IR packets: one packet more for that alone gains little.
    fn times(&self, config: &CompressorConfig) -> u8 {
        let repeats = Self::repeats(config);
        if self.ir.is_active() && self.mode != Mode::Reliable {
            repeats.saturating_sub(1).max(1)
        } else {
            repeats
        }
    }

    /// Compresses one packet.
    #[inline]
    pub(crate) fn compress(&mut self, job: &Job<'_>, out: &mut Vec<u8>) -> Result<Built, Unfit> {
        let mut current = self.read(job.packet);
        self.forget_template();
        if !self.started {
            self.begin(job, current.sn);
        }
        self.observe(job, &mut current)?;
        let kind = self.write(job, &current, out);
        self.last = current;
        self.started = true;
        self.set_template(job);
        Ok(Built { kind, header_in: current.header_len as usize })
    }

    /// Reads the header.
    #[inline]
    fn read(&mut self, packet: &Packet<'_>) -> Current {
        let levels = packet.levels();
        let mut current = Current { ip: self.last.ip, ..Current::default() };
        self.depth = levels.len().clamp(1, 2) as u8;
        for (index, level) in self.used().zip(levels) {
            self.ipv4[index] = level.version == 4;
            current.ip[index] = IpChanging::of(packet.bytes, level, &self.last.ip[index]);
        }
        let at = packet.transport_at();
        let transport = &packet.bytes[at..];
        let word =
            |at: usize| transport.get(at..at + 2).map_or(0, |word| u16::from_be_bytes([word[0], word[1]]));
        let long = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
        current.rest_len = (packet.len - at) as u32;
        current.header_len = at as u32;
        match self.profile {
            Profile::Esp => {
                current.header_len = at as u32 + 8;
                current.sn = long(4);
                return current;
            }
            Profile::Ip => {}
            _ => {
                current.header_len = at as u32 + 8;
                current.coverage = word(4);
                current.checksum = word(6);
            }
        }
        current.sn = self.last.sn.wrapping_add(1) & 0xffff;
        if self.profile.has_rtp() {
            let (first, second) = (transport[8], transport[9]);
            current.header_len = at as u32 + 20 + 4 * u32::from(first & 0x0f);
            current.sn = u32::from(word(10));
            current.ts = long(12);
            current.marker = second & 0x80 != 0;
            current.rtp = RtpFields {
                padding: first & 0x20 != 0,
                extension: first & 0x10 != 0,
                payload_type: second & 0x7f,
            };
        }
        current
    }

    /// Notes what differs from the last packet and must be sent.
    #[inline]
    fn observe(&mut self, job: &Job<'_>, current: &mut Current) -> Result<(), Unfit> {
        let repeats = self.times(job.config);
        let distance = self.numbering().distance(self.last.sn, current.sn);
        self.refresh(job, current.sn);
        for index in self.used() {
            self.observe_ip(index, job, current, repeats);
        }
        if self.profile.has_rtp() {
            self.observe_rtp(job, current, distance, repeats);
        }
        if job.packet.levels().iter().any(|level| level.extensions_len > 0)
            || (self.profile.has_rtp() && job.packet.bytes[job.packet.transport_at() + 8] & 0x0f != 0)
            || self.lists.is_some()
        {
            self.observe_lists(job, current, distance, repeats)?;
        }
        let checksum_changed = matches!(self.profile, Profile::Udp | Profile::Rtp)
            && (self.last.checksum == 0) != (current.checksum == 0);
        if checksum_changed && self.started {
            self.ir_dyn.start(repeats, current.sn);
        }
        if self.profile.has_udp_lite() {
            self.observe_coverage(current, repeats);
        }
        Ok(())
    }

    /// Periodic refreshes, in U-mode only (RFC 3095 5.3.1.1.2).
    #[inline]
    fn refresh(&mut self, job: &Job<'_>, sn: u32) {
        if self.mode != Mode::Unidirectional {
            return;
        }
        let config = job.config;
        let due = self.ir_clock.is_due(config.ir_refresh, job.now);
        let slow_due = self.slow_start_gap > 0 && self.ir_clock.packets > self.slow_start_gap;
        if due {
            (self.spreading, self.slow_start_gap) = (false, 0);
        }
        let times = config.refresh_repeats.clamp(1, WINDOW as u8);
        if due || slow_due {
            self.ir.ensure(if due { times } else { 1 }, sn);
        }
        if slow_due {
            let period = config.ir_refresh.packets;
            self.slow_start_gap = self.slow_start_gap.saturating_mul(2);
            if period != 0 && self.slow_start_gap >= period {
                self.slow_start_gap = 0;
            }
        }
        if self.fo_clock.is_due(config.fo_refresh, job.now) {
            self.ir_dyn.ensure(times, sn);
            // Where only IR may carry it, that is the period that contexts refresh apart by.
            self.spreading &= !config.only_ir_and_so || self.slow_start_gap > 0;
        }
    }

    #[inline]
    fn observe_ip(&mut self, index: usize, job: &Job<'_>, current: &mut Current, repeats: u8) {
        let last = self.last.ip[index];
        let changing = &mut current.ip[index];
        if self.ipv4[index] {
            let constant_allowed = job.config.constant_id_everywhere
                || matches!(self.profile, Profile::Ip | Profile::UdpLite | Profile::RtpUdpLite);
            let behaviour = if self.started {
                self.watches[index].step(&last, changing.id, constant_allowed, self.ir.is_active())
            } else {
                Watch::first(changing, constant_allowed)
            };
            behaviour.mark(changing);
        }
        if !self.started {
            return;
        }
        if changing.sid != last.sid {
            // Only IR and IR-DYN can say so (RFC 3843 3.3).
            self.ir_dyn.start(repeats, current.sn);
        }
        let same = IpChanging { id: changing.id, sid: changing.sid, ..last };
        if *changing != same {
            let id_flags = changing.rnd != last.rnd || changing.nbo != last.nbo;
            let changed = u8::from(changing.tos != last.tos) << 7
                | u8::from(changing.ttl != last.ttl) << 6
                | if id_flags { ID_FLAGS } else { 0 };
            let is_pending = self.ip[index].is_active() || self.is_resending_changes();
            let pending = if is_pending { self.ip_fields[index] } else { 0 };
            self.ip_fields[index] = pending | changed;
            self.ip[index].start(repeats, current.sn);
            self.resend_changes_later(job.config);
            self.static_crcs = None;
        }
    }

    #[inline]
    fn observe_rtp(&mut self, job: &Job<'_>, current: &Current, distance: i32, repeats: u8) {
        if self.started && current.rtp != self.last.rtp {
            self.rtp.start(repeats, current.sn);
            self.static_crcs = None;
        }
        // librohc's decompressor does not derive a timestamp beyond the wrap.
        if job.config.is_for_librohc() && self.started && current.sn < self.last.sn {
            self.ir_dyn.ensure(repeats, current.sn);
        }
        self.observe_stride(current, distance, repeats);
        self.timer.observe(job, self.mode, current, self.stride.value, repeats);
    }

    /// Estimates the step of the timestamp (RFC 3095 4.5.3).
    fn observe_stride(&mut self, current: &Current, distance: i32, repeats: u8) {
        let step = current.ts.wrapping_sub(self.last.ts);
        if !self.started || distance < 1 || step == 0 || step > crate::framework::sdvl::MAX {
            return;
        }
        let stride = &mut self.stride;
        let packets = distance as u32;
        if (stride.value > 1
            && (step == stride.value.wrapping_mul(packets) || step.is_multiple_of(stride.value)))
            || !step.is_multiple_of(packets)
        {
            stride.seen = 0;
            return;
        }
        let candidate = step / packets;
        stride.seen = if candidate == stride.candidate { stride.seen.saturating_add(1) } else { 1 };
        stride.candidate = candidate;
        // Where none is known yet the first one will do.
        if candidate != stride.value && (stride.value == 1 || stride.seen >= BELIEVE_STRIDE) {
            stride.value = candidate;
            stride.seen = 0;
            stride.pending.start(repeats, current.sn);
            self.rescale();
        }
    }

    /// Converts the references to a new stride.
    fn rescale(&mut self) {
        let stride = self.stride.value.max(1);
        self.window.update(|reference| {
            (reference.scaled, reference.residue) = (reference.ts / stride, reference.ts % stride);
        });
    }

    fn observe_lists(
        &mut self,
        job: &Job<'_>,
        current: &Current,
        distance: i32,
        repeats: u8,
    ) -> Result<(), Unfit> {
        let levels = job.packet.levels();
        let used = self.used();
        let lists = self.lists.get_or_insert_default();
        let mut list = job.shared.borrow_mut();
        let mut changed = false;
        for (index, level) in used.zip(levels) {
            list.collect(job.packet.bytes, level).ok_or(Unfit)?;
            changed |= lists.observe(Some(index), &list, distance, repeats, current.sn);
        }
        if self.profile.has_rtp() {
            let at = job.packet.transport_at() + 20;
            list.clear();
            for csrc in job.packet.bytes[at..current.header_len as usize].chunks_exact(4) {
                list.push(csrc).ok_or(Unfit)?;
            }
            changed |= lists.observe(None, &list, distance, repeats, current.sn);
        }
        if changed || lists.has_counters() {
            self.static_crcs = None;
        }
        Ok(())
    }

    /// Updates the coverage and schedules its change (RFC 4019 5.4).
    fn observe_coverage(&mut self, current: &Current, repeats: u8) {
        let is_length = u32::from(current.coverage) == current.rest_len;
        let state = &mut self.coverage;
        if !self.started {
            return;
        }
        let predictable = is_length && u32::from(self.last.coverage) == self.last.rest_len
            || current.coverage == self.last.coverage && !is_length;
        if state.change.is_active() {
            // CCE(OFF) sets the context from every packet: all of them must set it alike.
            if !state.present && !predictable {
                state.present = true;
                state.change.start(repeats, current.sn);
            }
            return;
        }
        let follows = if state.inferred { is_length } else { current.coverage == state.value };
        let suits = if state.present { !predictable } else { follows };
        state.misfits = if suits { 0 } else { state.misfits.saturating_add(1) };
        let limit = if state.present { BELIEVE_COVERAGE } else { BELIEVE_STRIDE + 1 };
        if state.uncertain || state.misfits >= limit {
            (state.misfits, state.uncertain) = (0, false);
            state.present = !predictable;
            state.change.start(repeats, current.sn);
        }
    }

    /// The extension headers of an IP header, if it ever had any.
    fn extensions(&self, index: usize) -> Option<&Encoder> {
        self.lists.as_deref().and_then(|lists| lists.extension(index))
    }

    /// The CSRCs, if there ever were any.
    fn csrcs(&self) -> Option<&Encoder> {
        self.lists.as_deref().and_then(Lists::csrcs)
    }

    /// Returns the number of references to keep: all that the decompressor may hold.
    fn width(&self, config: &CompressorConfig) -> usize {
        if self.mode == Mode::Reliable {
            return WINDOW;
        }
        usize::from(Self::repeats(config).max(self.longest_loss + 1))
    }

    /// Records the packet as a reference, sent as the updating type `kind`.
    #[inline]
    fn remember(&mut self, current: &Current, config: &CompressorConfig, now: Duration) {
        let (scaled, residue) = self.scaled(current.ts);
        let reference = Reference {
            sn: current.sn,
            offsets: [current.ip[0].offset(current.sn), current.ip[1].offset(current.sn)],
            ts: current.ts,
            scaled,
            residue,
            arrival_ms: timer::milliseconds(now),
        };
        let width = self.width(config);
        if self.mode == Mode::Reliable && self.window.len() + 4 > WINDOW {
            self.thin(&reference, current);
        }
        if self.mode == Mode::Reliable && self.window.is_full() {
            // A reference that cannot be kept: absolute values only, until they are acknowledged.
            self.ir_dyn.ensure(1, current.sn);
        }
        self.window.push(reference, width);
    }

    /// Drops the newest reference if what fits its neighbours fits it. Identifications count where they are
    /// compressed; a change of how they behave sends them whole.
    fn thin(&mut self, next: &Reference, current: &Current) {
        let mut newest = self.window.iter().rev().copied();
        let (Some(last), Some(before)) = (newest.next(), newest.next()) else { return };
        drop(newest);
        let (stride, rtp) = (self.stride.value, self.profile.has_rtp());
        let used = self.used();
        let is_compressed = |index: usize| {
            let changing = &current.ip[index];
            used.contains(&index) && self.ipv4[index] && !changing.rnd && !changing.sid
        };
        let on_line = |one: &Reference, two: &Reference| {
            let step = two.sn.wrapping_sub(one.sn).wrapping_mul(stride);
            let grows = |index: usize| two.offsets[index].wrapping_sub(one.offsets[index]) < MAX_DRIFT;
            (0..2).all(|index| !is_compressed(index) || grows(index))
                && (!rtp || two.ts.wrapping_sub(one.ts) == step)
        };
        if on_line(&before, &last) && on_line(&last, next) {
            self.window.pop_newest();
        }
    }

    /// `ts / stride` and `ts % stride`, without a division where the last packet's help.
    #[inline]
    fn scaled(&self, ts: u32) -> (u32, u32) {
        let stride = self.stride.value.max(1);
        if let Some(newest) = self.window.newest() {
            if ts == newest.ts {
                return (newest.scaled, newest.residue);
            }
            if ts > newest.ts && ts - newest.ts == stride {
                return (newest.scaled + 1, newest.residue);
            }
        }
        (ts / stride, ts % stride)
    }
}

/// Levels beyond the second.
fn deeper(levels: &[Level]) -> &[Level] {
    levels.get(2..).unwrap_or_default()
}

/// Returns `true` if a type is 7 or 8 bits of CRC strong.
const fn is_strong(kind: PacketType) -> bool {
    matches!(
        kind,
        PacketType::Ir
            | PacketType::IrDyn
            | PacketType::Uor2
            | PacketType::Uor2Id
            | PacketType::Uor2Ts
            | PacketType::R0Crc
    )
}
