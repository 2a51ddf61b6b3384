//! Exchange: registrar and back-to-back user agent of a site (PABX).

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use bentpipe_net::{Cx, Element, Observer, Packet, Port};
use bentpipe_signalling::agent::{Agent, Config as AgentConfig, Event, Failure};
use bentpipe_signalling::iax::{CallId as IaxId, Event as IaxEvent, Failure as IaxFailure};
use bentpipe_signalling::registrar::Registrar;
use bentpipe_signalling::sip::{SipUri, Transport, Uri};
use bentpipe_signalling::transaction::{Peer, Timers};
use bentpipe_site::{CallDetail, CallEnd, CallRecord, KeepsCalls};
use bentpipe_units::{RandomStream, Time};
use bentpipe_voice::conference::metrics as conference;

use super::leg::{Leg, Link, cause_of, codec_name, end_of, status_of};
use super::media::{self, Media, RTP_PORT};
use super::metrics;
use super::plan::{Exchange, Step, TrunkProtocol};
use super::relay::{Outgoing, Ports, Relay, iax_timestamp};
use crate::datagram::{self, Refusal};
use crate::metrics as calls;
use crate::protocol::{Iax, IaxSettings, Protocol, capabilities, host};

/// UDP ports.
pub(super) const SIP_PORT: u16 = 5060;
pub(super) const IAX_PORT: u16 = 4569;
/// Ports of the element.
pub(super) const SIP: Port = Port(0);
pub(super) const IAX: Port = Port(1);
pub(super) const RTP: Port = Port(2);
/// DSCP of signalling and of trunks with voice.
const SIP_DSCP: u8 = 24;
const IAX_DSCP: u8 = 46;
/// Status and cause of a call beyond the limit of its rule.
///
/// They are those of no free channel (RFC 3398, section 7.2.4.1).
const NO_CHANNEL: (u16, &str) = (503, "limit of the trunk");
/// Status and cause of a call to a conference that is full.
const FULL: (u16, &str) = (486, "conference is full");
/// Maximum number of calls with a record.
const MAX_RECORDS: usize = 500_000;

/// Exchange as an element of its node.
#[derive(Debug)]
pub struct Pabx {
    pub(super) exchange: Exchange,
    local: IpAddr,
    /// Addresses of the exchanges that trunks lead to.
    trunks: BTreeMap<String, IpAddr>,
    /// Numbers that a flow's phone has, with the flow.
    phones: BTreeMap<String, String>,
    /// Numbers of callers.
    callers: BTreeSet<String>,
    /// Addresses of exchanges whose calls need no password.
    trusted: Vec<IpAddr>,
    /// Pairs of caller and number dialled whose voice the exchange relays.
    relayed: BTreeSet<(String, String)>,
    /// Port of the element, and UDP ports of the legs of these calls.
    voice: Option<(Port, u16, u16)>,
    /// Answers of conferences.
    answers: VecDeque<Leg>,
    /// Protocols, from the start on.
    pub(super) state: Option<State>,
    pub(super) legs: BTreeMap<Leg, usize>,
    pub(super) calls: BTreeMap<usize, Bridge>,
    /// Links of conferences to those of other exchanges.
    pub(super) links: BTreeMap<usize, Link>,
    /// Number of present calls by each rule of the dial plan.
    by_rule: Vec<u32>,
    pub(super) next: usize,
    records: Vec<Record>,
    pub(super) counts: Counts,
}

#[derive(Debug)]
pub(super) struct State {
    sip: Agent,
    iax: Iax,
    media: Media,
    pub(super) relay: Relay,
    /// Time stamp of the first relayed voice in IAX2 calls.
    bases: BTreeMap<IaxId, u32>,
}

/// Second leg of a call.
struct Placed {
    leg: Leg,
    /// End of the path in records.
    to: String,
    rule: Option<usize>,
    /// Port of its RTP, if the exchange relays that.
    port: Option<u16>,
}

/// Call between two legs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bridge {
    pub(super) caller: Leg,
    pub(super) callee: Leg,
    record: usize,
    rule: Option<usize>,
    /// Set from its answer on.
    is_up: bool,
}

#[derive(Clone, Debug)]
struct Record {
    caller: String,
    callee: String,
    path: String,
    placed: Time,
    rang: Option<Time>,
    answered: Option<Time>,
    ended: Option<Time>,
    end: CallEnd,
    cause: String,
    codec: Option<String>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    local: u64,
    outgoing: u64,
    incoming: u64,
    refused: u64,
    not_admitted: u64,
    established: u64,
    failed: u64,
    pub(super) ended: u64,
    messages: u64,
    bytes: u64,
    frames: u64,
    frame_bytes: u64,
    bad_checksum: u64,
    unexpected: u64,
}

/// Event of a leg.
#[derive(Clone, Debug)]
enum Happened {
    Incoming { caller: String, number: String },
    Ringing,
    Answered(Option<String>),
    Ended,
    Failed { status: u16, cause: String },
}

impl Pabx {
    /// Creates an exchange at an address, with the addresses at the ends of its trunks.
    pub fn new(exchange: Exchange, local: IpAddr, trunks: BTreeMap<String, IpAddr>) -> Pabx {
        Pabx {
            by_rule: vec![0; exchange.dial.len()],
            exchange,
            local,
            trunks,
            phones: BTreeMap::new(),
            callers: BTreeSet::new(),
            trusted: Vec::new(),
            relayed: BTreeSet::new(),
            voice: None,
            answers: VecDeque::new(),
            state: None,
            legs: BTreeMap::new(),
            calls: BTreeMap::new(),
            links: BTreeMap::new(),
            next: 0,
            records: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Returns it with the addresses of exchanges whose calls need no password.
    #[must_use]
    pub fn with_trusted(self, trusted: Vec<IpAddr>) -> Pabx {
        Pabx { trusted, ..self }
    }

    /// Returns it with a port of the element for relayed voice.
    ///
    /// Its UDP ports are given by the first and their number.
    #[must_use]
    pub fn with_voice(self, port: Port, (first, count): (u16, u16)) -> Pabx {
        Pabx { voice: Some((port, first, count)), ..self }
    }

    /// Notes that the exchange relays the voice of calls between two numbers.
    ///
    /// The second is as callers dial it here.
    pub fn add_relayed(&mut self, caller: &str, dialled: &str) {
        self.relayed.insert((caller.to_owned(), dialled.to_owned()));
    }

    /// Notes the number of a caller. It has a password if the exchange asks for one.
    pub fn add_caller(&mut self, number: &str) {
        self.callers.insert(number.to_owned());
    }

    /// Returns the dial plan.
    pub fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// Notes the phone of an extension. Returns the flow that has it already.
    ///
    /// # Errors
    /// Returns the flow whose receiver has the number.
    pub fn add_phone(&mut self, number: &str, flow: &str) -> Result<(), String> {
        match self.phones.get(number) {
            Some(other) => Err(other.clone()),
            None => {
                self.phones.insert(number.to_owned(), flow.to_owned());
                Ok(())
            }
        }
    }

    fn start(&mut self, stream: &mut RandomStream) {
        let mut seed = || (stream.unit() * (1_u64 << 53) as f64) as u64;
        let timers = Timers { t1: self.exchange.t1, t2: self.exchange.t2, ..Timers::default() };
        let local = SocketAddr::new(self.local, SIP_PORT);
        let config = AgentConfig { timers, ..AgentConfig::new("pabx", local) };
        let mut sip = Agent::new(config, RandomStream::new(seed(), "sip"));
        let guard = self.exchange.digest.as_ref().map(|digest| {
            let secret = u128::from(seed()) << 64 | u128::from(seed());
            digest.guard(&host(local), secret, self.phones.keys().chain(&self.callers))
        });
        if let Some(guard) = &guard {
            sip.protect(guard.clone(), self.trusted.clone());
        }
        sip.serve(Registrar::new(vec![host(local)], guard));
        let (voice, trunk) = (self.exchange.codec, self.exchange.trunk_period);
        let settings = IaxSettings { voice, accepts_all: true, trunk };
        let iax = Iax::new(&settings, "pabx", SocketAddr::new(self.local, IAX_PORT), seed());
        let exchanges = self.trunks.values().chain(&self.trusted).copied().collect();
        let media = Media::new(exchanges, RandomStream::new(seed(), "rtp"));
        let conferences = (&self.exchange.conferences[..], self.exchange.rtcp);
        let ports = self.voice.map(|(_, first, count)| Ports::new(first, count)).unwrap_or_default();
        let relay = Relay::new(ports, conferences, RandomStream::new(seed(), "relay"));
        self.state = Some(State { sip, iax, media, relay, bases: BTreeMap::new() });
    }

    /// Acts on all events, sends, and returns the next time.
    fn turn(&mut self, cx: &mut Cx<'_>) -> Time {
        while let Some((leg, happened)) = self.event(cx.now()) {
            self.act(cx.now(), leg, happened);
            self.link(cx.now());
        }
        if self.links.values().any(|link| matches!(link, Link::Wait(at) if *at <= cx.now())) {
            self.link(cx.now());
        }
        self.send(cx);
        let Some(State { sip, iax, media, relay, .. }) = &mut self.state else { return Time::NEVER };
        let links = self.links.values().filter_map(|link| match link {
            Link::Wait(at) => Some(*at),
            Link::Call(_) => None,
        });
        let voice = media.deadline().min(relay.deadline()).min(links.min().unwrap_or(Time::NEVER));
        sip.deadline().min(iax.deadline()).min(voice).max(cx.now())
    }

    fn event(&mut self, now: Time) -> Option<(Leg, Happened)> {
        if let Some(leg) = self.answers.pop_front() {
            return Some((leg, Happened::Answered(None)));
        }
        let State { sip, iax, media, .. } = self.state.as_mut()?;
        std::iter::from_fn(|| sip.poll_event())
            .inspect(|event| media.note(now, event))
            .find_map(of_sip)
            .or_else(|| std::iter::from_fn(|| iax.poll_event()).find_map(of_iax))
    }

    fn act(&mut self, now: Time, leg: Leg, happened: Happened) {
        if let Happened::Incoming { caller, number } = happened {
            return self.place(now, leg, (&caller, &number));
        }
        let Some(number) = self.legs.get(&leg).copied() else { return };
        let Some(bridge) = self.calls.get(&number).copied() else { return };
        let other = if leg == bridge.caller { bridge.callee } else { bridge.caller };
        let is_callee = leg == bridge.callee;
        match happened {
            Happened::Ringing if is_callee => {
                self.ring(now, other);
                self.note(bridge, |record| record.rang = record.rang.or(Some(now)));
            }
            Happened::Answered(codec) if is_callee => {
                self.up(now, leg);
                self.answer(now, other);
                self.up(now, other);
                self.join(now, leg, other);
                let codec = codec.or_else(|| self.codec_of(leg, other));
                self.counts.established += 1;
                self.calls.entry(number).and_modify(|bridge| bridge.is_up = true);
                self.note(bridge, |record| {
                    (record.answered, record.end, record.codec) = (Some(now), CallEnd::Up, codec);
                });
            }
            Happened::Ended => {
                self.over(now, leg, bridge);
                self.hang_up(now, other);
                let by = if is_callee { "callee" } else { "caller" };
                let (count, end, how) = match bridge.is_up {
                    true => (&mut self.counts.ended, CallEnd::Ended, "normal"),
                    false => (&mut self.counts.failed, CallEnd::Cancelled, "before the answer"),
                };
                *count += 1;
                self.close(now, bridge, (end, format!("{how}, by the {by}")));
            }
            Happened::Failed { status, cause } => {
                self.over(now, leg, bridge);
                if is_callee {
                    self.reject(now, other, status)
                } else {
                    self.hang_up(now, other)
                }
                self.counts.failed += 1;
                self.close(now, bridge, (end_of(status), cause));
            }
            Happened::Ringing | Happened::Answered(_) | Happened::Incoming { .. } => {}
        }
    }

    /// Places the second leg of a call by the dial plan, or refuses it.
    pub(super) fn place(&mut self, now: Time, caller_leg: Leg, (caller, number): (&str, &str)) {
        let from = match caller_leg {
            Leg::Sip(_) => "sip",
            Leg::Iax(_) => "iax",
            Leg::Room { .. } => "conference",
        };
        self.counts.incoming += u64::from(matches!(caller_leg, Leg::Iax(_)));
        let placed = self.place_both(now, caller_leg, (caller, number));
        let (path, refusal) = match &placed {
            Ok(placed) => (format!("{from} - {}", placed.to), None),
            Err((status, cause)) => (from.to_owned(), Some((*status, (*cause).to_owned()))),
        };
        let record = Record {
            caller: caller.to_owned(),
            callee: number.to_owned(),
            path,
            placed: now,
            rang: None,
            answered: None,
            ended: refusal.as_ref().map(|_| now),
            end: if refusal.is_some() { CallEnd::Failed } else { CallEnd::Waiting },
            cause: refusal.as_ref().map(|(_, cause)| cause.clone()).unwrap_or_default(),
            codec: None,
        };
        let at = self.records.len();
        if at < MAX_RECORDS {
            self.records.push(record);
        }
        if let Err((status, cause)) = placed {
            let is_limit = (status, cause) == NO_CHANNEL;
            *(if is_limit { &mut self.counts.not_admitted } else { &mut self.counts.refused }) += 1;
            return self.reject(now, caller_leg, status);
        }
        let Ok(Placed { leg: callee, rule, .. }) = placed else { return };
        self.next += 1;
        rule.into_iter().for_each(|rule| self.by_rule[rule] += 1);
        self.legs.extend([(caller_leg, self.next), (callee, self.next)]);
        self.calls.insert(self.next, Bridge { caller: caller_leg, callee, record: at, rule, is_up: false });
    }

    /// Places the second leg, and connects the voice of both if the exchange relays it.
    fn place_both(
        &mut self,
        now: Time,
        caller_leg: Leg,
        (caller, number): (&str, &str),
    ) -> Result<Placed, (u16, &'static str)> {
        if !self.relayed.contains(&(caller.to_owned(), number.to_owned())) {
            return self.place_by(now, (caller, number), false);
        }
        let own = if matches!(caller_leg, Leg::Sip(_)) { Some(self.reserve()?) } else { None };
        let placed = self.place_by(now, (caller, number), true);
        let voice = self.exchange.codec;
        let Some(State { iax, media, relay, .. }) = &mut self.state else { return placed };
        match &placed {
            Err(_) => relay.give_back(own),
            Ok(placed) => {
                relay.connect(caller_leg, placed.leg, (own, voice));
                relay.connect(placed.leg, caller_leg, (placed.port, voice));
                for leg in [caller_leg, placed.leg] {
                    match leg {
                        Leg::Sip(call) => media.relay(call),
                        Leg::Iax(call) => iax.relay(call),
                        Leg::Room { .. } => {}
                    }
                }
            }
        }
        placed
    }

    /// Reserves a port for the RTP of a leg.
    fn reserve(&mut self) -> Result<u16, (u16, &'static str)> {
        self.state.as_mut().and_then(|state| state.relay.reserve()).ok_or((503, "no port for voice"))
    }

    /// Places a leg to a number. Returns a status and the cause if that is not possible.
    fn place_by(
        &mut self,
        now: Time,
        (caller, number): (&str, &str),
        is_relayed: bool,
    ) -> Result<Placed, (u16, &'static str)> {
        match self.exchange.step(number) {
            Step::Unknown => Err((404, "unknown number")),
            Step::Conference(conference) => {
                let Some(State { relay, .. }) = &self.state else { return Err((503, "not started")) };
                if !is_relayed {
                    return Err((488, "caller without voice"));
                }
                if !relay.has_room(conference) {
                    return Err(FULL);
                }
                self.counts.local += 1;
                let leg = Leg::Room { conference, member: self.next as u32 };
                self.answers.push_back(leg);
                Ok(Placed { leg, to: "conference".to_owned(), rule: None, port: None })
            }
            Step::Extension => {
                self.counts.local += 1;
                let local = SocketAddr::new(self.local, SIP_PORT);
                let address = SipUri::new(Some(number), &host(local));
                let State { sip, relay, .. } = self.state.as_mut().ok_or((503, "not started"))?;
                let contact =
                    sip.registrar().and_then(|registrar| registrar.lookup(now, &address).into_iter().next());
                let contact = contact.ok_or((480, "not registered"))?;
                let peer = Agent::peer_of(&contact).ok_or((480, "no address"))?;
                let port = if is_relayed { relay.reserve() } else { None };
                if is_relayed && port.is_none() {
                    return Err((503, "no port for voice"));
                }
                let audio = if is_relayed { media::accepted(local) } else { capabilities(local) };
                let leg = sip.call_as(now, caller, (&contact, peer), media::at_port(audio, port));
                let leg = leg.ok_or_else(|| {
                    relay.give_back(port);
                    (503, "no capacity")
                })?;
                Ok(Placed { leg: Leg::Sip(leg), to: "sip".to_owned(), rule: None, port })
            }
            Step::Trunk { to, protocol, number, rule } => {
                if self.exchange.dial[rule].calls.is_some_and(|most| self.by_rule[rule] >= most) {
                    return Err(NO_CHANNEL);
                }
                let address = self.trunks.get(&to).copied().ok_or((404, "no trunk"))?;
                let has_rtp = is_relayed && protocol == TrunkProtocol::Sip;
                let port = if has_rtp { Some(self.reserve()?) } else { None };
                self.counts.outgoing += 1;
                let leg = self.place_trunk(now, caller, (address, protocol, &number), port);
                let Some(leg) = leg else {
                    self.state.iter_mut().for_each(|state| state.relay.give_back(port));
                    return Err((503, "no capacity"));
                };
                Ok(Placed { leg, to: format!("{} {to}", protocol.word()), rule: Some(rule), port })
            }
        }
    }

    fn place_trunk(
        &mut self,
        now: Time,
        caller: &str,
        (address, protocol, number): (IpAddr, TrunkProtocol, &str),
        port: Option<u16>,
    ) -> Option<Leg> {
        let voice = self.exchange.codec;
        let State { sip, iax, .. } = self.state.as_mut()?;
        match protocol {
            TrunkProtocol::Iax => {
                iax.dial(now, SocketAddr::new(address, IAX_PORT), (caller, number)).map(Leg::Iax)
            }
            TrunkProtocol::Sip => {
                let remote = SocketAddr::new(address, SIP_PORT);
                let target: Uri = SipUri::new(Some(number), &host(remote)).into();
                let peer = Peer { transport: Transport::Udp, address: remote };
                let local = SocketAddr::new(self.local, SIP_PORT);
                let audio = media::at_port(media::offered(local, voice), port);
                sip.call_as(now, caller, (&target, peer), audio).map(Leg::Sip)
            }
        }
    }

    /// Starts to relay the voice of a leg that is up.
    fn up(&mut self, now: Time, leg: Leg) {
        let Some(State { sip, iax, relay, .. }) = &mut self.state else { return };
        match leg {
            Leg::Sip(call) => sip.media(call).into_iter().for_each(|media| relay.up(now, leg, media)),
            Leg::Iax(call) => relay.up_iax(leg, iax.voice_of(call)),
            Leg::Room { .. } => {}
        }
    }

    /// Joins a conference and the leg that called it, or that it called.
    fn join(&mut self, now: Time, callee: Leg, caller: Leg) {
        let (conference, member, leg) = match (callee, caller) {
            (Leg::Room { conference, member }, leg) | (leg, Leg::Room { conference, member }) => {
                (conference, member, leg)
            }
            _ => return,
        };
        self.state.iter_mut().for_each(|state| state.relay.join(now, leg, (conference, member)));
    }

    /// Returns the codec of a call over IAX2, or into a conference.
    fn codec_of(&self, callee: Leg, caller: Leg) -> Option<String> {
        match (callee, caller) {
            (Leg::Iax(call), _) => Some(self.state.as_ref()?.iax.voice_of(call).encoding().name),
            (Leg::Room { .. }, Leg::Sip(call)) | (Leg::Sip(call), Leg::Room { .. }) => {
                Some(self.state.as_ref()?.sip.media(call)?.codec.name.clone())
            }
            _ => None,
        }
    }

    fn ring(&mut self, now: Time, leg: Leg) {
        let Some(State { sip, iax, .. }) = &mut self.state else { return };
        match leg {
            Leg::Sip(call) => sip.ring(now, call),
            Leg::Iax(call) => iax.ring(now, call),
            Leg::Room { .. } => {}
        }
    }

    fn answer(&mut self, now: Time, leg: Leg) {
        let local = SocketAddr::new(self.local, SIP_PORT);
        let Some(State { sip, iax, relay, .. }) = &mut self.state else { return };
        match leg {
            Leg::Sip(call) => {
                let audio = media::at_port(media::accepted(local), relay.port(leg));
                sip.answer(now, call, audio);
            }
            Leg::Iax(call) => iax.answer(now, call),
            Leg::Room { .. } => {}
        }
    }

    pub(super) fn hang_up(&mut self, now: Time, leg: Leg) {
        let Some(State { sip, iax, media, .. }) = &mut self.state else { return };
        match leg {
            Leg::Sip(call) => {
                media.stop(call);
                sip.hang_up(now, call);
            }
            Leg::Iax(call) => iax.hang_up(now, call),
            Leg::Room { .. } => {}
        }
    }

    fn reject(&mut self, now: Time, leg: Leg, status: u16) {
        let Some(State { sip, iax, .. }) = &mut self.state else { return };
        match leg {
            Leg::Sip(call) => sip.reject(now, call, status),
            Leg::Iax(call) => iax.reject(now, call, cause_of(status)),
            Leg::Room { .. } => {}
        }
    }

    /// Forgets both legs of a call that is over.
    ///
    /// The end of the other one then changes nothing.
    pub(super) fn over(&mut self, now: Time, leg: Leg, bridge: Bridge) {
        if let Some(rule) =
            self.legs.get(&leg).and_then(|call| self.calls.remove(call)).and_then(|bridge| bridge.rule)
        {
            self.by_rule[rule] -= 1;
        }
        for leg in [bridge.caller, bridge.callee] {
            self.legs.remove(&leg);
            let Some(State { iax, relay, bases, .. }) = &mut self.state else { continue };
            relay.close(now, leg);
            if let Leg::Iax(call) = leg {
                iax.forget(call);
                bases.remove(&call);
            }
        }
    }

    fn note(&mut self, bridge: Bridge, change: impl FnOnce(&mut Record)) {
        if let Some(record) = self.records.get_mut(bridge.record) {
            change(record);
        }
    }

    pub(super) fn close(&mut self, now: Time, bridge: Bridge, (end, cause): (CallEnd, String)) {
        self.note(bridge, |record| (record.ended, record.end, record.cause) = (Some(now), end, cause));
    }

    fn send(&mut self, cx: &mut Cx<'_>) {
        let voice = self.voice.map(|(port, ..)| port);
        let Some(State { sip, iax, media, relay, bases }) = &mut self.state else { return };
        let now = cx.now();
        while let Some((call, timestamp, payload)) = iax.poll_voice() {
            relay.receive_iax(now, Leg::Iax(call), timestamp, payload.as_deref());
        }
        media.handle_timeout(now);
        relay.handle_timeout(now);
        let mut emit = |port: Port, (from, to): (u16, SocketAddr), dscp: u8, bytes: &[u8]| {
            let from = SocketAddr::new(self.local, from);
            let Some(mut packet) = datagram::packet(from, to, dscp, bytes) else { return };
            packet.set_created_at(cx.now());
            cx.emit(port, packet);
        };
        while let Some(transmit) = sip.poll_transmit() {
            self.counts.messages += 1;
            self.counts.bytes += transmit.bytes.len() as u64;
            emit(SIP, (SIP_PORT, transmit.to.address), SIP_DSCP, &transmit.bytes);
        }
        while let Some((to, bytes)) = media.transmit() {
            emit(RTP, (RTP_PORT, to), IAX_DSCP, &bytes);
        }
        while let Some(outgoing) = relay.transmit() {
            match (outgoing, voice) {
                (Outgoing::Rtp(from, to, bytes), Some(port)) => emit(port, (from, to), IAX_DSCP, &bytes),
                (Outgoing::Rtp(..), None) => {}
                (Outgoing::Iax(call, steps, voice), _) => {
                    let Some(elapsed) = iax.elapsed(now, call) else { continue };
                    let base = bases.entry(call);
                    let base = *base.or_insert_with(|| iax_timestamp(elapsed / 20 * 20, 0));
                    let timestamp = iax_timestamp(base, steps);
                    match voice {
                        Ok(payload) => iax.say(now, call, timestamp, payload),
                        Err(level) => iax.pause(now, call, timestamp, level),
                    }
                }
            }
        }
        while let Some((to, bytes)) = iax.transmit() {
            self.counts.frames += 1;
            self.counts.frame_bytes += bytes.len() as u64;
            emit(IAX, (IAX_PORT, to), IAX_DSCP, &bytes);
        }
    }

    fn take(&mut self, port: Port, packet: &Packet, now: Time) -> Result<(), Refusal> {
        let Some(State { sip, iax, media, relay, .. }) = &mut self.state else { return Ok(()) };
        let (from, number, bytes) = datagram::read(packet)?;
        let is_expected = match port {
            SIP => {
                sip.receive(now, Peer { transport: Transport::Udp, address: from }, &bytes);
                true
            }
            _ if self.voice.is_some_and(|(voice, ..)| voice == port) => {
                relay.receive(now, from, number, &bytes)
            }
            RTP => media.receive(from, &bytes),
            _ => {
                iax.receive(now, from, &bytes);
                true
            }
        };
        if is_expected { Ok(()) } else { Err(Refusal::Unexpected) }
    }
}

fn of_sip(event: Event) -> Option<(Leg, Happened)> {
    let user = |uri: &Uri| uri.as_sip().and_then(|uri| uri.user.clone()).unwrap_or_default();
    let (call, happened) = match event {
        Event::Incoming { call, from, to } => {
            (call, Happened::Incoming { caller: user(&from.uri), number: user(&to) })
        }
        Event::Progress { call, status: 180..=199 } => (call, Happened::Ringing),
        Event::Answered { call, media } => {
            (call, Happened::Answered(media.map(|media| media.codec.name.clone())))
        }
        Event::Ended { call, .. } => (call, Happened::Ended),
        Event::Failed { call, failure } => (call, failed(failure)),
        _ => return None,
    };
    Some((Leg::Sip(call), happened))
}

/// Returns the status for the other leg, and the cause in words.
fn failed(failure: Failure) -> Happened {
    let (status, cause) = match failure {
        Failure::Status(status) => (status, status.to_string()),
        Failure::TimedOut | Failure::Refused | Failure::Unreachable => (408, "no response".to_owned()),
        Failure::NotAcknowledged | Failure::NoPrack => (408, "answer not acknowledged".to_owned()),
        Failure::NoCodec => (488, "no codec in common".to_owned()),
        Failure::Encrypted => (488, "SRTP alone was offered".to_owned()),
        Failure::Cancelled => (487, "cancelled by the caller".to_owned()),
    };
    Happened::Failed { status, cause }
}

fn of_iax(event: IaxEvent) -> Option<(Leg, Happened)> {
    let (call, happened) = match event {
        IaxEvent::Incoming { call, number, caller, .. } => {
            (call, Happened::Incoming { caller: caller.unwrap_or_default(), number })
        }
        IaxEvent::Ringing { call } => (call, Happened::Ringing),
        IaxEvent::Answered { call } => (call, Happened::Answered(None)),
        IaxEvent::Ended { call, .. } => (call, Happened::Ended),
        IaxEvent::Failed { call, failure } => (call, failed_iax(failure)),
        _ => return None,
    };
    Some((Leg::Iax(call), happened))
}

fn failed_iax(failure: IaxFailure) -> Happened {
    let (status, cause) = match failure {
        IaxFailure::Rejected(Some(cause)) => (status_of(cause), format!("cause {cause}")),
        IaxFailure::Rejected(None) => (487, "cancelled by the caller".to_owned()),
        IaxFailure::TimedOut => (408, "no response".to_owned()),
        IaxFailure::Unknown => (481, "call unknown to the peer".to_owned()),
        IaxFailure::NoPassword => (403, "challenge without a password".to_owned()),
    };
    Happened::Failed { status, cause }
}

impl KeepsCalls for Pabx {
    fn calls(&self, _: Time) -> Vec<CallRecord> {
        let of = |record: &Record| CallRecord {
            protocol: "pabx",
            codec: record.codec.as_deref().map(codec_name),
            placed: record.placed,
            post_dial: record.rang.map(|rang| rang - record.placed),
            set_up: record.answered.map(|answered| answered - record.placed),
            ended: record.ended,
            end: record.end,
            quality: None,
            detail: Some(CallDetail {
                caller: record.caller.clone(),
                callee: record.callee.clone(),
                cause: record.cause.clone(),
                path: record.path.clone(),
            }),
        };
        self.records.iter().map(of).collect()
    }
}

impl Element for Pabx {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        match self.take(port, &packet, cx.now()) {
            Ok(()) => packet.recycle(),
            Err(refusal) => {
                *refusal.of(&mut self.counts.bad_checksum, &mut self.counts.unexpected) += 1;
                cx.refuse(packet, refusal.why());
            }
        }
        self.turn(cx)
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        match &mut self.state {
            Some(State { sip, iax, .. }) => {
                sip.handle_timeout(now);
                iax.handle_timeout(now);
            }
            None => self.start(cx.stream()),
        }
        self.turn(cx)
    }

    fn observe(&mut self, _: Time, observer: &mut dyn Observer) {
        let counts = self.counts;
        observer.counter(&metrics::LOCAL, counts.local);
        observer.counter(&metrics::OUTGOING, counts.outgoing);
        observer.counter(&metrics::INCOMING, counts.incoming);
        observer.counter(&metrics::REFUSED, counts.refused);
        observer.counter(&metrics::NOT_ADMITTED, counts.not_admitted);
        observer.counter(&calls::CALLS_ESTABLISHED, counts.established);
        observer.counter(&calls::CALLS_ENDED, counts.ended);
        observer.counter(&calls::CALLS_FAILED, counts.failed);
        let up = self.calls.values().filter(|bridge| bridge.is_up).count();
        observer.gauge(&calls::CALLS_UP, up as f64);
        observer.gauge(&calls::CALLS_WAITING, (self.calls.len() - up) as f64);
        observer.counter(&calls::MESSAGES, counts.messages);
        observer.counter(&calls::SIP_BYTES, counts.bytes);
        observer.counter(&calls::IAX_FRAMES, counts.frames);
        observer.counter(&calls::IAX_BYTES, counts.frame_bytes);
        observer.counter(&calls::DROPPED_BAD_CHECKSUM, counts.bad_checksum);
        observer.counter(&calls::DROPPED_UNEXPECTED, counts.unexpected);
        let voice = |state: &State| {
            let (sent, received) = state.iax.voice();
            let of_phones = state.relay.sent_and_received();
            (sent + state.media.sent + of_phones[0], received + state.media.received + of_phones[1])
        };
        let (sent, received) = self.state.as_ref().map_or((0, 0), voice);
        observer.counter(&calls::VOICE_SENT, sent);
        observer.counter(&calls::VOICE_RECEIVED, received);
        self.state.as_ref().map(|state| state.relay.control()).unwrap_or_default().observe(observer);
        if !self.exchange.conferences.is_empty() {
            let (members, counts) =
                self.state.as_ref().map(|state| state.relay.conferences()).unwrap_or_default();
            observer.gauge(&conference::MEMBERS, members as f64);
            observer.counter(&conference::MIXES, counts.mixes);
            observer.counter(&conference::CONCEALED, counts.concealed);
            observer.counter(&conference::LEFT_OUT, counts.left_out);
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
