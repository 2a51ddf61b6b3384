//! Opening a connection: SYNs, their options, their repetition (RFC 9293 3.5, 3.10.7.2 and 3.10.7.3).

use std::net::SocketAddr;

use bentpipe_cc::RttEstimator;
use bentpipe_net::{Cx, Packet};
use bentpipe_units::{Span, Time};
use bentpipe_wire::tcp::{Flags, Options, SeqNumber};
use rand::RngCore;

use super::{Agreed, Connection, Failure, Incoming, QuickStart, Receiver, Sender, State, Template, Timer};
use crate::tcp::config::Config;
use crate::tcp::segment::{Extras, Outgoing, largest_payload};
use crate::tcp::window::Buffer;

/// MSS of a peer that announced none (RFC 9293 3.7.1).
const DEFAULT_MSS: u16 = 536;
const TIMESTAMPS_LEN: u32 = 12;
/// Largest initial window in segments (RFC 5681 3.1).
const RFC5681_INITIAL_WINDOW: u32 = 4;

/// State that is needed only until the connection is established.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Handshake {
    /// Number of SYN retransmissions.
    repeats: u32,
    sent_at: Time,
    /// Timestamp of the first SYN.
    first_timestamp: Option<u32>,
    /// The timeout, backed off.
    rto: Option<Span>,
    /// Offer of the peer's SYN.
    offer: Option<Offer>,
}

/// The options of the peer's SYN.
#[derive(Clone, Copy, Debug)]
struct Offer {
    options: Options,
    ecn: bool,
}

impl Connection {
    /// Waits for a connection (RFC 9293 3.10.1, passive).
    pub fn listen(&mut self) {
        self.state = State::Listen;
    }

    /// Opens a connection to `remote` (RFC 9293 3.10.1, active).
    pub fn open(&mut self, remote: SocketAddr, cx: &mut Cx<'_>) {
        self.begin(remote, cx);
        if self.state != State::Closed {
            self.state = State::SynSent;
            self.send_syn(cx);
        }
    }

    fn begin(&mut self, remote: SocketAddr, cx: &mut Cx<'_>) {
        self.template = Template::new(self.local, remote);
        if self.template.is_none() {
            return self.fail(Failure::SynTimeout);
        }
        self.remote = Some(remote);
        self.iss = SeqNumber(self.config.initial_sequence.unwrap_or_else(|| cx.stream().next_u32()));
        self.receive_shift = Buffer::shift_for(&self.config.receive_buffer);
        (self.handshake, self.quick_start) = (Handshake::default(), QuickStart::default());
        self.state = State::Listen;
    }

    /// Sends the SYN, alone or as the answer to the peer's, and arms the timer.
    fn send_syn(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        let is_repeat = self.handshake.repeats > 0;
        let request = self.quick_start.ask(self.config.quick_start, is_repeat, cx.stream());
        let rto = self.handshake.rto.unwrap_or_else(|| self.syn_timeout());
        self.handshake.sent_at = now;
        self.timers.set(Timer::Retransmit, now + rto);
        self.tally.syns += 1;
        let options = self.syn_options(now);
        if !is_repeat {
            self.handshake.first_timestamp = options.timestamps.map(|(tsval, _)| tsval);
        }
        let answers = self.state == State::SynReceived;
        let window = Buffer::new(&self.config.receive_buffer, self.config.mss.get(), 0xffff).space(0);
        let syn = Outgoing {
            seq: self.iss,
            ack: answers.then(|| self.irs + 1),
            flags: Flags::SYN | self.ecn_flags(answers),
            window: window as u16,
            extras: Extras::Other(options),
            len: 0,
            ect: false,
        };
        self.emit_with(request.as_ref(), &syn, cx);
    }

    /// Offers, or what of the peer's offers is taken.
    fn syn_options(&mut self, now: Time) -> Options {
        let (config, offer) = (&self.config, self.handshake.offer);
        let offered = |has: fn(&Options) -> bool| offer.is_none_or(|offer| has(&offer.options));
        let timestamps = config.timestamps && offered(|options| options.timestamps.is_some());
        let scaling = config.window_scaling && offered(|options| options.window_scale.is_some());
        let sack_permitted = config.sack && offered(|options| options.sack_permitted);
        let mss = config.mss.get().min(u16::MAX.into()) as u16;
        let echo = offer.and_then(|offer| offer.options.timestamps).map_or(0, |(tsval, _)| tsval);
        let mut options = Options {
            mss: Some(mss),
            window_scale: scaling.then_some(self.receive_shift),
            sack_permitted,
            timestamps: timestamps.then(|| (self.clock.ticks(now), echo)),
            ..Options::NONE
        };
        self.quick_start.respond(&mut options);
        options
    }

    /// Returns the ECN flags of a SYN (RFC 3168 6.1.1).
    fn ecn_flags(&self, answers: bool) -> Flags {
        match (self.config.ecn, answers, self.handshake.offer) {
            (true, false, _) => Flags::ECE | Flags::CWR,
            (true, true, Some(offer)) if offer.ecn => Flags::ECE,
            _ => Flags::NONE,
        }
    }

    /// Repeats the SYN after a timeout.
    pub(super) fn repeat_syn(&mut self, cx: &mut Cx<'_>) {
        if self.handshake.repeats >= self.config.syn_retries {
            return self.fail(Failure::SynTimeout);
        }
        self.handshake.repeats += 1;
        let before = self.handshake.rto.unwrap_or(self.config.rto.initial);
        self.handshake.rto = Some((before * 2).min(self.config.rto.max));
        self.send_syn(cx);
    }

    /// Accepts a segment while listening.
    pub(super) fn on_listen(&mut self, segment: &Incoming, cx: &mut Cx<'_>) {
        if segment.has(Flags::RST) {
            return;
        }
        if segment.ack.is_some() {
            return self.refuse(segment, cx);
        }
        if segment.has(Flags::SYN) {
            self.begin(segment.src, cx);
            self.accept_syn(segment, cx);
        }
    }

    /// Accepts a segment in answer to the SYN.
    pub(super) fn on_syn_sent(&mut self, segment: &Incoming, cx: &mut Cx<'_>) {
        let acks_syn = segment.ack == Some(self.iss + 1);
        if segment.ack.is_some() && !acks_syn {
            return self.refuse(segment, cx);
        }
        if segment.has(Flags::RST) {
            match acks_syn && self.quick_start.is_asking() {
                // Perhaps the option caused the refusal (RFC 4782, section 4.7.2).
                true => self.repeat_syn(cx),
                false if acks_syn => self.fail(Failure::Refused),
                false => {}
            }
        } else if segment.has(Flags::SYN) && acks_syn {
            self.note_offer(segment, !segment.has(Flags::CWR));
            self.establish(segment, cx.now());
            self.receiver.ack_at_once();
        } else if segment.has(Flags::SYN) {
            self.accept_syn(segment, cx);
        }
    }

    /// Answers the peer's SYN with this end's.
    fn accept_syn(&mut self, segment: &Incoming, cx: &mut Cx<'_>) {
        if self.template.is_none() {
            return;
        }
        self.note_offer(segment, segment.has(Flags::CWR));
        self.state = State::SynReceived;
        self.receiver = Receiver::new(&self.config, self.config.mss.get(), 0);
        self.send_syn(cx);
    }

    /// Continues a handshake whose SYN was answered without a connection (RFC 4987, section 3.5).
    ///
    /// The configuration has the initial sequence number of that answer. It was sent first at `answered_at`, and `repeats` times more.
    pub(in crate::tcp) fn resume(
        &mut self,
        syn: &Packet,
        (answered_at, repeats): (Time, u32),
        cx: &mut Cx<'_>,
    ) {
        let Some(segment) = Incoming::parse(syn, self.local) else { return };
        self.begin(segment.src, cx);
        if self.template.is_none() {
            return;
        }
        self.note_offer(&segment, segment.has(Flags::CWR));
        self.state = State::SynReceived;
        self.receiver = Receiver::new(&self.config, self.config.mss.get(), 0);
        self.handshake.sent_at = answered_at;
        self.handshake.repeats = repeats.min(1);
        self.handshake.first_timestamp = self.syn_options(answered_at).timestamps.map(|(tsval, _)| tsval);
        self.timers.set(Timer::Retransmit, cx.now() + self.syn_timeout());
    }

    /// Answers a repeated SYN of the peer: the first answer was lost.
    pub(super) fn answer_again(&mut self, cx: &mut Cx<'_>) {
        // Once per instant is enough for any input.
        if cx.now() > self.handshake.sent_at {
            self.send_syn(cx);
        }
    }

    fn note_offer(&mut self, segment: &Incoming, ecn: bool) {
        self.irs = segment.seq;
        self.handshake.offer =
            Some(Offer { options: segment.options(), ecn: ecn && segment.has(Flags::ECE) });
        self.quick_start.store_request(segment.quick_start);
    }

    /// Establishes the connection: `segment` acknowledged the last SYN.
    pub(super) fn establish(&mut self, segment: &Incoming, now: Time) {
        let Some(offer) = self.handshake.offer else { return };
        self.agree(&offer);
        let mut rtt = RttEstimator::new(self.config.rto);
        let sample = self.handshake_sample(segment, now);
        if self.handshake.repeats > 0 {
            rtt.syn_repeated();
        }
        if let Some(sample) = sample {
            rtt.sample(sample);
        }
        self.sender = Sender::new(&self.config, self.agreed, self.initial_window(segment), rtt);
        self.receiver = Receiver::new(&self.config, self.announced_payload(), self.receive_shift);
        if let Some((tsval, _)) = offer.options.timestamps.filter(|_| self.agreed.timestamps) {
            self.receiver.start_timestamps(tsval, now);
        }
        let shift = if segment.has(Flags::SYN) { 0 } else { self.send_shift };
        self.settle();
        self.sender.set_window(1, 1, u64::from(segment.window) << shift);
        self.sender.on_established(now, sample);
        self.consider_quick_start(segment, sample);
        self.state = State::Established;
        self.timers.clear(Timer::Retransmit);
    }

    /// Returns the initial window in segments: one after lost SYNs.
    ///
    /// RFC 5681 3.1 has that after a single loss. A larger window than that RFC's is kept until the second (RFC 6928 2). An answer
    /// to the first SYN, by its timestamp, shows that none was lost: over 0.5 s one way each is repeated.
    fn initial_window(&self, answer: &Incoming) -> u32 {
        let window = self.config.initial_window.max(1);
        let echoed = answer.timestamps.filter(|_| self.agreed.timestamps).map(|(_, echoed)| echoed);
        if echoed.is_some() && echoed == self.handshake.first_timestamp {
            return window;
        }
        let tolerated = if window <= RFC5681_INITIAL_WINDOW { 0 } else { 1 };
        if self.handshake.repeats > tolerated { 1 } else { window }
    }

    /// Selects the fast path for segments of the usual form.
    fn settle(&mut self) {
        if let Some(template) = self.template.as_mut() {
            template.settle(self.agreed.timestamps);
        }
    }

    /// Returns the RTT of the SYN: by timestamps, or if it was sent once (Karn).
    fn handshake_sample(&mut self, segment: &Incoming, now: Time) -> Option<Span> {
        match segment.timestamps {
            Some((_, echoed)) if self.agreed.timestamps => self.clock.since(echoed, now),
            _ if self.handshake.repeats == 0 => Some(now.since(self.handshake.sent_at)),
            _ => None,
        }
    }

    /// Applies the offers of both ends.
    fn agree(&mut self, offer: &Offer) {
        let (config, options) = (&self.config, &offer.options);
        let timestamps = config.timestamps && options.timestamps.is_some();
        let scale = options.window_scale.filter(|_| config.window_scaling);
        // RFC 7323 2.3: a shift over 14 is used as 14.
        self.send_shift = scale.map_or(0, |shift| shift.min(14));
        if scale.is_none() {
            self.receive_shift = 0;
        }
        self.agreed = Agreed {
            smss: smss(config, self.local, options, timestamps),
            sack: config.sack && options.sack_permitted,
            timestamps,
            ecn: config.ecn && offer.ecn,
        };
    }

    /// Returns the payload of the largest segment that the peer will send.
    fn announced_payload(&self) -> u64 {
        let options = if self.agreed.timestamps { TIMESTAMPS_LEN } else { 0 };
        self.config.mss.get().saturating_sub(options.into()).max(1)
    }
}

/// Least segment size taken from a peer. One that announces less would get a flood of tiny segments (CVE-2019-11479), and any
/// host takes datagrams of 576 octets (RFC 1122 3.3.2).
const MIN_PEER_MSS: u64 = 88;

/// Returns the maximum data in a segment: the common limit less its options (RFC 6691).
fn smss(config: &Config, local: SocketAddr, options: &Options, timestamps: bool) -> u32 {
    let theirs = u64::from(options.mss.unwrap_or(DEFAULT_MSS)).max(MIN_PEER_MSS);
    let mss = theirs.min(config.mss.get()).min(largest_payload(local.ip())) as u32;
    mss.saturating_sub(if timestamps { TIMESTAMPS_LEN } else { 0 }).max(1)
}
