//! Receiving side of one call.

use bentpipe_net::Histogram;
use bentpipe_net::ledger::{SubAccount, Tallies};
use bentpipe_units::{Span, Time};

use super::config::Settings;
use super::rating::Delays;
use crate::losses::{Losses, Outcome};
use crate::playout::{Arrival, Buffer};

/// Number of packets whose outcome may still change.
const WINDOW: u32 = 64;
/// Sequence numbers by which a packet may be ahead or behind (RFC 3550, appendix A.1).
const MAX_DROPOUT: i16 = 3000;

/// RTP packet as a receiver sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    pub(super) seq: u16,
    pub(super) timestamp: u32,
    pub(super) ssrc: u32,
    pub(super) marker: bool,
    pub(super) is_speech: bool,
    /// Equipment impairment of its rate, if that may change.
    pub(super) ie: f64,
    pub(super) created_at: Time,
    /// Time from then until the packet was sent, at a bridge.
    pub(super) wait: Span,
    pub(super) now: Time,
}

/// Source that a receiver follows.
#[derive(Clone, Copy, Debug)]
struct Source {
    ssrc: u32,
    first: u64,
    highest: u64,
    /// Bit i is set if number `highest` - i was played, or was late.
    played: u64,
    late: u64,
    /// Number of numbers whose outcome may still change.
    held: u32,
    /// Time stamp of the highest number, extended, and as it came.
    ticks: i64,
    timestamp: u32,
    /// Transit time of the last packet in ticks.
    transit: i64,
    last_was_speech: bool,
}

/// Counts of a receiver that are not in its losses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Bytes of packets without duplicates.
    pub(super) arrived_bytes: u64,
    pub(super) duplicates: u64,
    pub(super) reordered: u64,
}

/// Losses and delays at an instant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) losses: Losses,
    pub(super) delays: Delays,
}

impl Figures {
    fn since(&self, earlier: &Figures) -> Figures {
        Figures { losses: self.losses.since(&earlier.losses), delays: self.delays.since(&earlier.delays) }
    }
}

/// Receiving side of one call: losses, jitter, playout, delays.
///
/// Each packet accesses all but the figures of windows, which are apart.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Receiver {
    /// End of the present window.
    window_end: Time,
    jitter_ticks: f64,
    pub(super) counts: Counts,
    pub(super) last_delay: Option<Span>,
    source: Option<Source>,
    buffer: Buffer,
    delays: Delays,
    /// Outcomes that do not change any more.
    settled: Losses,
    /// Place of the first packet sent in the window of measures.
    boundary: u64,
    windows: Box<Windows>,
}

/// Figures of windows of time.
#[derive(Clone, Debug, Default)]
struct Windows {
    /// Figures at the start of the present window.
    start: Figures,
    /// Figures of the last whole window.
    last: Figures,
    /// Delays at the end of the warm-up, and the packets until then.
    warm_delays: Delays,
    warm_packets: u64,
    /// Final outcomes of packets that were sent in the warm-up.
    warm_losses: Option<Losses>,
    /// Number of packets that the sender sent in front of the first one that arrived.
    before_first: u64,
    /// Account of what the sender sends, and what is known of it.
    account: Option<SubAccount>,
    tallies: Option<Tallies>,
}

impl Receiver {
    pub(super) fn new(settings: &Settings, start: Time) -> Receiver {
        Receiver {
            source: None,
            buffer: Buffer::new(settings.config.playout),
            settled: Losses::default(),
            delays: Delays::default(),
            jitter_ticks: 0.0,
            counts: Counts::default(),
            last_delay: None,
            window_end: start + settings.config.window,
            boundary: 0,
            windows: Box::default(),
        }
    }

    /// Counts a packet of `len` payload bytes, and returns the playout time of speech. Packets of another source, or far from
    /// the last, are refused.
    pub(super) fn receive(
        &mut self,
        settings: &Settings,
        packet: &Received,
        len: usize,
        network: &mut Histogram,
    ) -> Result<Option<Time>, ()> {
        self.turn_windows(settings, packet.now);
        let ahead = self.place(packet)?;
        let from_mouth = packet.now.since(packet.created_at);
        let delay = from_mouth.saturating_sub(packet.wait);
        self.counts.packets += 1;
        self.counts.bytes += len as u64;
        self.last_delay = Some(delay);
        self.delays.arrived += 1;
        self.delays.network_ns += u128::from(delay.as_nanos());
        network.record(delay);
        let begins_spurt = self.begins_spurt(settings, packet, ahead);
        let ticks = self.extend_ticks(packet, ahead);
        self.measure_jitter(settings, packet.now, ticks);
        let (outcome, played) = self.play(settings, packet, (ticks, begins_spurt), from_mouth);
        if self.note(packet.seq, ahead, outcome) {
            self.counts.arrived_bytes += len as u64;
        }
        Ok(played)
    }

    /// Sets the account of what the sender sends.
    ///
    /// What was dropped counts as lost then, and not what is missing by its number alone.
    pub(super) fn set_account(&mut self, account: SubAccount) {
        self.windows.account = Some(account);
    }

    /// Returns the account of what the sender sends.
    pub(super) fn account(&self) -> Option<&SubAccount> {
        self.windows.account.as_ref()
    }

    /// Notes what is known of that account.
    pub(super) fn settle(&mut self, tallies: Tallies) {
        self.windows.tallies = Some(tallies);
    }

    /// Returns the distance of a packet's number from the highest one. The first packet makes the source.
    fn place(&mut self, packet: &Received) -> Result<i64, ()> {
        let Some(source) = &self.source else {
            let first_sent = self.windows.account.as_ref().and_then(SubAccount::first);
            let before = first_sent.map_or(0, |first| packet.seq.wrapping_sub(first));
            self.windows.before_first = before.into();
            let first = 1 << 16 | u64::from(packet.seq);
            self.source = Some(Source {
                ssrc: packet.ssrc,
                first,
                highest: first,
                played: 0,
                late: 0,
                held: 1,
                ticks: 0,
                timestamp: packet.timestamp,
                transit: 0,
                last_was_speech: false,
            });
            return Ok(0);
        };
        let ahead = packet.seq.wrapping_sub(source.highest as u16) as i16;
        let is_near = (-MAX_DROPOUT..=MAX_DROPOUT).contains(&ahead);
        let is_source = source.ssrc == packet.ssrc && source.highest as i64 + i64::from(ahead) >= 0;
        if is_near && is_source { Ok(ahead.into()) } else { Err(()) }
    }

    /// Returns `true` if marker or time stamp begin a spurt.
    fn begins_spurt(&self, settings: &Settings, packet: &Received, ahead: i64) -> bool {
        let Some(source) = self.source.filter(|_| self.counts.packets > 1) else { return packet.is_speech };
        let ticks = i64::from(packet.timestamp.wrapping_sub(source.timestamp) as i32);
        let gap = ahead > 0 && ticks > ahead * i64::from(settings.step_ticks);
        packet.is_speech && ahead > 0 && (packet.marker || gap || !source.last_was_speech)
    }

    /// Returns the time stamp of a packet, extended.
    fn extend_ticks(&mut self, packet: &Received, ahead: i64) -> i64 {
        let Some(source) = &mut self.source else { return 0 };
        let step = i64::from(packet.timestamp.wrapping_sub(source.timestamp) as i32);
        let ticks = source.ticks.saturating_add(step);
        if ahead >= 0 {
            (source.ticks, source.timestamp) = (ticks, packet.timestamp);
            source.last_was_speech = packet.is_speech;
        }
        ticks
    }

    /// Updates the interarrival jitter (RFC 3550, section 6.4.1).
    fn measure_jitter(&mut self, settings: &Settings, now: Time, ticks: i64) {
        let arrival = settings.format.ticks(now.since(Time::ZERO)) as i64;
        let transit = arrival.saturating_sub(ticks);
        let Some(source) = &mut self.source else { return };
        if self.counts.packets > 1 {
            let difference = transit.abs_diff(source.transit) as f64;
            self.jitter_ticks += (difference - self.jitter_ticks) / 16.0;
        }
        source.transit = transit;
    }

    /// Plays a speech packet, or discards it for being late. Returns its playout time with the outcome.
    fn play(
        &mut self,
        settings: &Settings,
        packet: &Received,
        (ticks, begins_spurt): (i64, bool),
        delay: Span,
    ) -> (Outcome, Option<Time>) {
        if !packet.is_speech {
            return (Outcome::Played, None);
        }
        let stamp = i128::from(ticks) * 1_000_000_000 / i128::from(settings.format.clock_hz);
        let stamp = stamp.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        let at = packet.now.as_nanos().min(i64::MAX as u64) as i64;
        let played = self.buffer.arrive(Arrival { stamp, at, begins_spurt });
        let instant = Time::from_nanos(played.max(0) as u64);
        if at > played {
            return (Outcome::Late, Some(instant));
        }
        let buffered = played.saturating_sub(at) as u64;
        self.delays.played += 1;
        self.delays.buffered_ns += u128::from(buffered);
        let ear = settings.held + delay + Span::from_nanos(buffered);
        self.delays.mouth_to_ear_ns += u128::from(ear.as_nanos());
        self.delays.ie += packet.ie;
        (Outcome::Played, Some(instant))
    }

    /// Returns `true` if a packet, whose outcome it notes, came for the first time.
    ///
    /// It is `ahead` of the highest number.
    fn note(&mut self, seq: u16, ahead: i64, outcome: Outcome) -> bool {
        let Some(source) = &mut self.source else { return false };
        debug_assert_eq!(seq, (source.highest as i64 + ahead) as u16);
        if ahead > 0 {
            self.advance(ahead as u64);
        }
        let Some(source) = &mut self.source else { return false };
        let back = if ahead > 0 { 0 } else { ahead.unsigned_abs() };
        let is_reordered = ahead < 0;
        if back >= u64::from(source.held) {
            // Its number is settled as lost, or is before the first.
            self.counts.reordered += 1;
            let (number, before) = (source.highest - back, self.windows.before_first);
            if outcome == Outcome::Late && number >= source.first {
                self.settled.revise();
                let is_of_window = before + number - source.first >= self.boundary;
                self.windows.warm_losses.iter_mut().filter(|_| !is_of_window).for_each(Losses::revise);
            }
            return true;
        }
        let bit = 1 << back;
        if (source.played | source.late) & bit != 0 {
            self.counts.duplicates += 1;
            return false;
        }
        self.counts.reordered += u64::from(is_reordered);
        match outcome {
            Outcome::Late => source.late |= bit,
            _ => source.played |= bit,
        }
        true
    }

    /// Advances the highest number. Where the outcomes that do not change any more reach the window of measures, they are kept.
    fn advance(&mut self, by: u64) {
        let Receiver { source: Some(source), settled, windows, boundary, .. } = self else { return };
        // The place of the first number whose outcome may change.
        let open = windows.before_first + source.settled();
        if *boundary < open || *boundary > open + by {
            return source.advance(by, settled);
        }
        for _ in 0..by {
            if windows.before_first + source.settled() == *boundary {
                windows.warm_losses = Some(*settled);
            }
            source.advance(1, settled);
        }
    }

    /// Returns all outcomes up to the highest number.
    pub(super) fn losses(&self) -> Losses {
        self.losses_before(u64::MAX)
    }

    /// Returns the outcomes of numbers up to the highest, and below `end`.
    fn losses_before(&self, end: u64) -> Losses {
        let mut losses = self.settled;
        if let Some(source) = &self.source {
            source.settle(end, &mut losses);
        }
        losses
    }

    /// Returns what the numbers of packets say up to now.
    ///
    /// It is all that a receiver knows, and can report to the sender.
    pub(super) fn numbered(&self) -> Figures {
        Figures { losses: self.losses(), delays: self.delays }
    }

    /// Returns the losses and delays of the whole run.
    pub(super) fn figures(&self) -> Figures {
        let mut losses = self.losses();
        if let Some(tallies) = &self.windows.tallies {
            losses.lose_first(self.windows.before_first);
            losses.lose_last(self.behind(tallies.all().sent, 0), tallies.all().lost());
        }
        Figures { losses, delays: self.delays }
    }

    /// Returns the losses and delays since the end of the warm-up.
    ///
    /// Losses are of packets sent since, delays of packets that arrived since. What did not arrive is lost once its account has it dropped,
    /// also behind the last packet that arrived.
    pub(super) fn measured(&self) -> Figures {
        let windows = &self.windows;
        let mut losses = self.losses().since(&self.warm_losses());
        if let Some(tallies) = &windows.tallies {
            let sent = tallies.all().sent;
            losses.lose_first(windows.before_first.saturating_sub(self.boundary).min(sent));
            losses.lose_last(self.behind(sent, self.boundary), tallies.window.lost());
        }
        Figures { losses, delays: self.delays.since(&windows.warm_delays) }
    }

    /// Returns the outcomes of packets that were sent in the warm-up.
    fn warm_losses(&self) -> Losses {
        let (Some(source), Some(seen)) = (&self.source, self.boundary.checked_sub(self.windows.before_first))
        else {
            return Losses::default();
        };
        self.windows.warm_losses.unwrap_or_else(|| self.losses_before(source.first + seen))
    }

    /// Returns the packets that were sent behind the highest number, from a place on.
    fn behind(&self, sent: u64, from: u64) -> u64 {
        let until = |source: &Source| self.windows.before_first + source.highest + 1 - source.first;
        sent.saturating_sub(self.source.as_ref().map_or(0, until).max(from))
    }

    /// Returns the packets received since the end of the warm-up.
    pub(super) fn measured_packets(&self) -> u64 {
        self.counts.packets - self.windows.warm_packets
    }

    /// Notes the end of the warm-up.
    ///
    /// What is sent from now on is of the window. Without an account of it, that is what is behind the highest number.
    pub(super) fn end_warm_up(&mut self) {
        let sent = self.windows.tallies.map(|tallies| tallies.all().sent);
        let until = self.source.as_ref().map_or(0, |source| source.highest + 1 - source.first);
        self.boundary = sent.unwrap_or(until);
        self.windows.warm_losses = None;
        self.windows.warm_delays = self.delays;
        self.windows.warm_packets = self.counts.packets;
    }

    /// Ends the windows that are over by `now`.
    pub(super) fn turn_windows(&mut self, settings: &Settings, now: Time) {
        while self.window_end <= now && !self.window_end.is_never() {
            let figures = self.numbered();
            self.windows.last = figures.since(&self.windows.start);
            self.windows.start = figures;
            let over = now.since(self.window_end).as_nanos() / settings.config.window.as_nanos();
            // Windows without any packet are alike: one stands for all but the last.
            let skipped = over.saturating_sub(1);
            self.window_end += settings.config.window * (1 + skipped);
        }
    }

    /// Returns the figures of the last whole window.
    pub(super) fn window(&self) -> Figures {
        self.windows.last
    }

    pub(super) fn ssrc(&self) -> Option<u32> {
        self.source.map(|source| source.ssrc)
    }

    /// Returns the highest number, and that of its cycles in the upper half.
    pub(super) fn highest_seq(&self) -> u32 {
        self.source.map_or(0, |source| (source.highest - (1 << 16)) as u32)
    }

    /// Returns the numbers of packets expected and received, duplicates included.
    ///
    /// RFC 3550, appendix A.3, has them.
    pub(super) fn expected_and_received(&self) -> (u64, u64) {
        let expected = self.source.map_or(0, |source| source.highest - source.first + 1);
        (expected, self.counts.packets)
    }

    /// Returns the interarrival jitter in ticks of the RTP clock.
    pub(super) fn jitter_ticks(&self) -> f64 {
        self.jitter_ticks
    }

    /// Returns the jitter in seconds; NaN before the second packet.
    pub(super) fn jitter_s(&self, settings: &Settings) -> f64 {
        if self.counts.packets > 1 {
            self.jitter_ticks / f64::from(settings.format.clock_hz)
        } else {
            f64::NAN
        }
    }
}

impl Source {
    /// Returns the number of outcomes that do not change any more.
    fn settled(&self) -> u64 {
        self.highest + 1 - self.first - u64::from(self.held)
    }

    /// Advances the highest number by `by`, and settles outcomes that leave the window.
    fn advance(&mut self, by: u64, settled: &mut Losses) {
        for _ in 0..by.min(u64::from(WINDOW)) {
            if self.held == WINDOW {
                settled.push(self.outcome(WINDOW - 1));
                self.held -= 1;
            }
            (self.played, self.late, self.held) = (self.played << 1, self.late << 1, self.held + 1);
        }
        settled.push_run(Outcome::Lost, by.saturating_sub(WINDOW.into()));
        self.highest += by;
    }

    /// Counts the outcomes of numbers below `end` that may still change.
    ///
    /// Runs of played packets count at once.
    fn settle(&self, end: u64, losses: &mut Losses) {
        let mut left = self.held;
        // The number behind those that may change is the next one to arrive.
        let last = (self.highest + 1).saturating_sub(end).min(left.into()) as u32;
        while left > last {
            // The number `left` - 1 below the highest is the next; shifted, it is the top bit.
            let played = (self.played << (WINDOW - left)).leading_ones().min(left - last);
            losses.push_run(Outcome::Played, played.into());
            left -= played;
            if left > last {
                left -= 1;
                losses.push(self.outcome(left));
            }
        }
    }

    /// Returns the outcome of the number that is `back` below the highest.
    fn outcome(&self, back: u32) -> Outcome {
        match (self.played >> back & 1, self.late >> back & 1) {
            (1, _) => Outcome::Played,
            (_, 1) => Outcome::Late,
            _ => Outcome::Lost,
        }
    }
}
