//! Receiving side of one call.

use bentpipe_net::Histogram;
use bentpipe_net::ledger::{SubAccount, Tallies};
use bentpipe_transport::app::Missing;
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
    /// Final outcomes of packets of the warm-up, once `settled` has none.
    warm_losses: Option<Losses>,
    /// Packets that the sender sent in front of the first one that arrived.
    front: Front,
    /// Numbers that are settled as lost.
    missing: Missing,
    /// Account of what the sender sends, and what is known of it.
    account: Option<SubAccount>,
    tallies: Option<Tallies>,
    /// Packets lost behind the last one that arrived, where the sender's account does not reach.
    lost_behind: u64,
}

/// Returns an extended time stamp in nanoseconds.
fn stamp_of(settings: &Settings, ticks: i64) -> i64 {
    let stamp = i128::from(ticks) * 1_000_000_000 / i128::from(settings.format.clock_hz);
    stamp.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// Adds numbers that are settled as lost and may still arrive. Packets that far behind them are refused.
fn add_missing(missing: &mut Missing, (start, end): (u64, u64)) {
    missing.add((start, end), end.saturating_sub(MAX_DROPOUT as u64 + u64::from(WINDOW)));
}

/// Packets in front of the first one that arrived. Those of them that come later are not lost.
#[derive(Clone, Copy, Debug, Default)]
struct Front {
    /// Number of them.
    packets: u64,
    /// Outcomes of those next to the first.
    ///
    /// Bit i is set if the packet i + 1 in front of it was played, or was late.
    played: u64,
    late: u64,
    /// Packets further in front that came, of warm-up and window: played, late.
    far: [[u64; 2]; 2],
}

impl Front {
    /// Returns `true` if a packet came for the first time, and notes its outcome.
    ///
    /// It is `distance` in front of the first.
    fn note(&mut self, distance: u64, outcome: Outcome, is_of_window: bool) -> bool {
        let Some(bit) = 1_u64.checked_shl(distance.saturating_sub(1).min(64) as u32) else {
            self.far[usize::from(is_of_window)][usize::from(outcome == Outcome::Late)] += 1;
            return true;
        };
        if (self.played | self.late) & bit != 0 {
            return false;
        }
        *(if outcome == Outcome::Late { &mut self.late } else { &mut self.played }) |= bit;
        true
    }

    /// Returns `true` if the packet `distance` in front of the first came.
    fn has(&self, distance: u64) -> bool {
        distance <= 64 && (self.played | self.late) >> (distance - 1) & 1 == 1
    }

    /// Returns the outcomes of the last `packets` of them, of the window or in all.
    fn losses(&self, packets: u64, is_window: bool) -> Losses {
        let mut losses = Losses::default();
        let near = packets.min(64);
        losses.push_run(Outcome::Lost, packets - near);
        for place in (0..near).rev() {
            losses.push(match (self.played >> place & 1, self.late >> place & 1) {
                (1, _) => Outcome::Played,
                (_, 1) => Outcome::Late,
                _ => Outcome::Lost,
            });
        }
        for far in self.far.iter().skip(usize::from(is_window)) {
            (0..far[0]).for_each(|_| losses.revise(Outcome::Played));
            (0..far[1]).for_each(|_| losses.revise(Outcome::Late));
        }
        losses
    }
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
        let begins_spurt = self.begins_spurt(settings, packet, ahead);
        let ticks = self.extend_ticks(packet, ahead);
        self.measure_jitter(settings, packet.now, ticks);
        if self.is_known(ahead) {
            // The first arrival is the packet's. A later one is neither played nor delays it.
            self.counts.duplicates += 1;
            return Ok(None);
        }
        self.delays.arrived += 1;
        self.delays.network_ns += u128::from(delay.as_nanos());
        network.record(delay);
        let (outcome, played) = self.play(settings, packet, (ticks, begins_spurt), from_mouth);
        if self.note(packet.seq, ahead, outcome) {
            self.counts.arrived_bytes += len as u64;
        }
        Ok(played)
    }

    /// Returns `true` if the number that is `ahead` of the highest has arrived.
    fn is_known(&self, ahead: i64) -> bool {
        let Some(source) = self.source.filter(|_| self.counts.packets > 1 && ahead <= 0) else {
            return false;
        };
        let back = ahead.unsigned_abs();
        if back < u64::from(source.held) {
            return (source.played | source.late) >> back & 1 == 1;
        }
        let (number, front) = (source.highest - back, &self.windows.front);
        match source.first.checked_sub(number).filter(|distance| *distance > 0) {
            Some(distance) => distance <= front.packets && front.has(distance),
            None => !self.windows.missing.has(number),
        }
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
            self.windows.front.packets = before.into();
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

    /// Returns when the sound of a time stamp is played, as the present spurt is.
    pub(super) fn plays_at(&self, settings: &Settings, timestamp: u32) -> Option<Time> {
        let source = self.source.as_ref()?;
        let step = i64::from(timestamp.wrapping_sub(source.timestamp) as i32);
        let played = self.buffer.plays_at(stamp_of(settings, source.ticks.saturating_add(step)))?;
        Some(Time::from_nanos(played.max(0) as u64))
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
        let stamp = stamp_of(settings, ticks);
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
            let is_new = self.note_old(back, outcome);
            *(if is_new { &mut self.counts.reordered } else { &mut self.counts.duplicates }) += 1;
            return is_new;
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

    /// Returns `true` if an old packet came for the first time.
    ///
    /// Its number is settled as lost, or is in front of the first. Its outcome is noted.
    fn note_old(&mut self, back: u64, outcome: Outcome) -> bool {
        let Receiver { source: Some(source), settled, windows, boundary, .. } = self else { return false };
        let (front, number) = (&mut windows.front, source.highest - back);
        let Some(distance) = source.first.checked_sub(number).filter(|distance| *distance > 0) else {
            let Some((start, end)) = windows.missing.fill(number) else { return false };
            let place = front.packets + number - source.first;
            let losses = match &mut windows.warm_losses {
                Some(warm) if place < *boundary => warm,
                _ => settled,
            };
            losses.revise_in(end - start, number == start || number + 1 == end, outcome);
            return true;
        };
        let Some(place) = front.packets.checked_sub(distance) else { return true };
        front.note(distance, outcome, place >= *boundary)
    }

    /// Advances the highest number. Where the outcomes that do not change any more reach the window of measures, they begin there.
    fn advance(&mut self, by: u64) {
        let Receiver { source: Some(source), settled, windows, boundary, .. } = self else { return };
        // The place of the first number whose outcome may change.
        let open = windows.front.packets + source.settled();
        let is_in_front = *boundary <= windows.front.packets;
        if is_in_front || *boundary < open || *boundary > open + by {
            return source.advance(by, settled, &mut windows.missing);
        }
        for _ in 0..by {
            if windows.front.packets + source.settled() == *boundary {
                windows.warm_losses = Some(settled.cut());
            }
            source.advance(1, settled, &mut windows.missing);
        }
    }

    /// Returns all outcomes from the first number that arrived up to the highest.
    pub(super) fn losses(&self) -> Losses {
        let [warm, window] = self.parts();
        warm.followed_by(&window)
    }

    /// Returns these outcomes, of packets that were sent in the warm-up and in the window.
    fn parts(&self) -> [Losses; 2] {
        let mut losses = self.settled;
        let Some(source) = &self.source else { return [Losses::default(), losses] };
        if let Some(warm) = self.windows.warm_losses {
            source.settle((0, u64::MAX), &mut losses);
            return [warm, losses];
        }
        let seen = self.boundary.saturating_sub(self.windows.front.packets);
        let mut warm = Losses::default();
        if seen > 0 {
            source.settle((0, source.first + seen), &mut losses);
            warm = losses.cut();
        }
        source.settle((source.first + seen, u64::MAX), &mut losses);
        [warm, losses]
    }

    /// Returns what the numbers of packets say up to now.
    ///
    /// It is all that a receiver knows, and can report to the sender.
    pub(super) fn numbered(&self) -> Figures {
        Figures { losses: self.losses(), delays: self.delays }
    }

    /// Returns the losses and delays of the whole run.
    pub(super) fn figures(&self) -> Figures {
        let front = self.windows.front;
        let mut losses = front.losses(front.packets, false).followed_by(&self.losses());
        self.lose_behind(&mut losses, 0, |tallies| tallies.all().lost());
        Figures { losses, delays: self.delays }
    }

    /// Returns the losses and delays since the end of the warm-up.
    ///
    /// Losses are of packets sent since, delays of packets that arrived since. What did not arrive is lost once its account has it dropped,
    /// also behind the last packet that arrived. A run of losses over the end of the warm-up is one of those sent since.
    pub(super) fn measured(&self) -> Figures {
        let (windows, front) = (&self.windows, self.windows.front);
        let of_front = front.packets.saturating_sub(self.boundary);
        let mut losses = front.losses(of_front, true).followed_by(&self.parts()[1]);
        self.lose_behind(&mut losses, self.boundary, |tallies| tallies.window.lost());
        Figures { losses, delays: self.delays.since(&windows.warm_delays) }
    }

    /// Adds the lost packets behind the last arrival, from a place on.
    fn lose_behind(&self, losses: &mut Losses, from: u64, lost: impl FnOnce(&Tallies) -> u64) {
        match &self.windows.tallies {
            Some(tallies) => {
                let (behind, lost) = (self.behind(tallies.all().sent, from), lost(tallies));
                let on_their_way = losses.lost.saturating_sub(lost);
                losses.lose_last(behind, lost);
                self.take_back(losses, from, on_their_way);
            }
            None => losses.push_run(Outcome::Lost, self.windows.lost_behind),
        }
    }

    /// Removes the runs of the latest missing packets, which are on their way. `packets` is their number.
    fn take_back(&self, losses: &mut Losses, from: u64, packets: u64) {
        let Some(source) = self.source.filter(|_| packets > 0) else { return };
        let first = (source.first + from).saturating_sub(self.windows.front.packets);
        let (mut left, mut run, mut is_kept) = (packets, 0, false);
        let end_of_run = |losses: &mut Losses, run: &mut u64, is_kept: &mut bool| {
            if *run > 0 && !*is_kept {
                losses.remove_run(*run);
            }
            (*run, *is_kept) = (0, false);
        };
        let lowest = (source.highest + 1 - u64::from(source.held)).max(first);
        let mut number = source.highest + 1;
        while number > lowest {
            match source.outcome((source.highest + 1 - number) as u32) {
                Outcome::Lost if left > 0 => (run, left) = (run + 1, left - 1),
                Outcome::Played if left > 0 => end_of_run(losses, &mut run, &mut is_kept),
                Outcome::Played => break,
                // The rest of this run is lost or late.
                Outcome::Lost | Outcome::Late => is_kept = true,
            }
            number -= 1;
        }
        for (start, end) in self.windows.missing.latest().take_while(|(_, end)| *end > first) {
            if end != number {
                end_of_run(losses, &mut run, &mut is_kept);
            }
            if left == 0 {
                is_kept |= end == number;
                break;
            }
            let taken = (end - start.max(first)).min(left);
            (run, left, number) = (run + taken, left - taken, end - taken);
            is_kept |= number > start;
        }
        end_of_run(losses, &mut run, &mut is_kept);
    }

    /// Returns the packets that were sent behind the highest number, from a place on.
    fn behind(&self, sent: u64, from: u64) -> u64 {
        let until = |source: &Source| self.windows.front.packets + source.highest + 1 - source.first;
        sent.saturating_sub(self.source.as_ref().map_or(0, until).max(from))
    }

    /// Returns `true` if packets of the window arrived or are lost; `None` without an account.
    pub(super) fn has_window(&self) -> Option<bool> {
        self.windows.tallies.map(|tallies| tallies.window.has_ends())
    }

    /// Returns `true` if nothing arrived of what was sent in the window.
    pub(super) fn is_silent(&self) -> bool {
        match &self.windows.tallies {
            Some(tallies) => tallies.window.arrived() == 0,
            None => self.measured_packets() == 0,
        }
    }

    /// Sets the number of packets lost behind the last arrival, without an account.
    pub(super) fn set_lost_behind(&mut self, packets: u64) {
        self.windows.lost_behind = packets;
    }

    /// Returns the packets received since the end of the warm-up.
    fn measured_packets(&self) -> u64 {
        self.counts.packets - self.windows.warm_packets
    }

    /// Notes the end of the warm-up.
    ///
    /// What is sent from now on is of the window. Without an account of it, that is what is behind the highest number, and behind as
    /// many packets as are known to have been `sent_behind` that.
    pub(super) fn end_warm_up(&mut self, sent_behind: u64) {
        let sent = self.windows.tallies.map(|tallies| tallies.all().sent);
        let until = self.source.as_ref().map_or(0, |source| source.highest + 1 - source.first);
        self.boundary = sent.unwrap_or(until + sent_behind);
        if let Some(warm) = self.windows.warm_losses.take() {
            self.settled = warm.followed_by(&self.settled);
        }
        let [warm, window] = self.windows.front.far;
        self.windows.front.far = [[warm[0] + window[0], warm[1] + window[1]], [0; 2]];
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
    fn advance(&mut self, by: u64, settled: &mut Losses, missing: &mut Missing) {
        for step in 0..by.min(u64::from(WINDOW)) {
            if self.held == WINDOW {
                let outcome = self.outcome(WINDOW - 1);
                settled.push(outcome);
                self.held -= 1;
                if outcome == Outcome::Lost {
                    let number = self.highest + step + 1 - u64::from(WINDOW);
                    add_missing(missing, (number, number + 1));
                }
            }
            (self.played, self.late, self.held) = (self.played << 1, self.late << 1, self.held + 1);
        }
        let over = by.saturating_sub(WINDOW.into());
        settled.push_run(Outcome::Lost, over);
        if over > 0 {
            add_missing(missing, (self.highest + 1, self.highest + 1 + over));
        }
        self.highest += by;
    }

    /// Counts the outcomes of numbers from `begin` and below `end` that may still change.
    ///
    /// Runs of played packets count at once.
    fn settle(&self, (begin, end): (u64, u64), losses: &mut Losses) {
        // The number behind those that may change is the next one to arrive.
        let left_from = |number: u64| (self.highest + 1).saturating_sub(number).min(self.held.into()) as u32;
        let (mut left, last) = (left_from(begin), left_from(end));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_missing_arrives_once() {
        let mut missing = Missing::default();
        add_missing(&mut missing, (10, 11));
        add_missing(&mut missing, (11, 14));
        add_missing(&mut missing, (20, 21));
        let taken = [9, 12, 12, 10, 13, 14, 20, 20, 11].map(|number| missing.fill(number).is_some());
        assert_eq!(taken, [false, true, false, true, true, false, true, false, true]);
        assert_eq!(missing.latest().next(), None);
        (0..5000).for_each(|n| add_missing(&mut missing, (10 * n, 10 * n + 1)));
        assert!(missing.latest().count() < 320, "{}", missing.latest().count());
    }
}
