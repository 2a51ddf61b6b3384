//! Voice of calls on each leg of their way, by arithmetic alone, for budgets.
//!
//! *Models*: the mean number of calls at a time (Erlang), with the lines of phones and the limits of dial plans by Erlang's loss
//! formula; the legs of a call from phone to phone, or by way of exchanges; RTP, and mini and trunk frames of IAX2.
//! *Does not model*: signalling; the time before as many calls are up as end; calls that fail.

use std::collections::BTreeMap;

use bentpipe_site::{IpVersion, Sample, TrafficKind};
use bentpipe_units::Span;
use bentpipe_voice::Config as VoiceConfig;
use bentpipe_wire::rtp;

use crate::config::Calls;
use crate::pabx::{Conference, Exchanges, MAX_HOPS, Step, TrunkProtocol};
use crate::protocol::Voice;
use crate::{Config, IaxConfig};

/// Interval of voice packets in seconds.
const INTERVAL_S: f64 = 0.02;
/// Header of mini frames (RFC 5456, section 8.1.2).
const MINI_HEADER: f64 = 4.0;
/// Header of trunk frames, and of each call in them (RFC 5456, section 8.1.3.2).
const TRUNK_HEADER: f64 = 8.0;
const TRUNK_ENTRY: f64 = 6.0;
/// Maximum bytes of the calls in a trunk frame, as its endpoint has it.
const TRUNK_BYTES: f64 = bentpipe_signalling::iax::TRUNK_BYTES as f64;
/// Maximum number of steps of Erlang's recursion.
const MAX_SERVERS: u32 = 1_000_000;

/// Calls of a flow.
#[derive(Clone, Copy, Debug)]
pub struct FlowCalls<'a> {
    /// Traffic.
    pub traffic: CallTraffic<'a>,
    /// Nodes of the caller and of the callee.
    pub ends: [&'a str; 2],
    /// Number of copies of the flow.
    pub copies: u32,
}

/// Traffic of calls, of either protocol.
#[derive(Clone, Copy, Debug)]
pub enum CallTraffic<'a> {
    /// SIP.
    Sip(&'a Config),
    /// IAX2.
    Iax(&'a IaxConfig),
    /// Link of a conference of an exchange to another, while it has members.
    Link(&'a str, &'a Conference),
}

/// Form of voice on a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// RTP, a packet for each frame.
    Rtp,
    /// Mini frames of IAX2, one for each frame of voice.
    Mini,
    /// Trunk frames of IAX2, which gather the voice of all calls between two exchanges.
    Trunk,
}

impl Form {
    /// Returns the words for it.
    pub fn words(self) -> &'static str {
        match self {
            Form::Rtp => "RTP",
            Form::Mini => "IAX2 mini frames",
            Form::Trunk => "IAX2 trunk frames",
        }
    }
}

/// Voice of one copy of a flow in one direction of a leg.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VoiceStream {
    /// Form.
    pub form: Form,
    /// Packets per second. Of a trunk frame each flow has the part of its calls.
    pub packets_per_s: f64,
    /// Mean UDP payload in bytes.
    pub len: f64,
    /// Bytes of speech in it.
    pub speech_len: f64,
}

/// Part of a call's way whose voice is of one form.
#[derive(Clone, Debug, PartialEq)]
pub struct VoiceLeg {
    /// Node on the caller's side, and node on the callee's side.
    pub ends: [String; 2],
    /// Codec.
    pub voice: Voice,
    /// Mean number of calls at a time, of one copy of the flow.
    pub calls: f64,
    /// Voice from the caller's side to the other, and back.
    pub ways: [VoiceStream; 2],
}

impl VoiceLeg {
    /// Returns the packets of `copies` calls, if they are RTP.
    pub fn sample(&self, ip: IpVersion, copies: u16) -> Option<Sample> {
        let is_rtp = self.ways[0].form == Form::Rtp;
        is_rtp.then(|| VoiceConfig::new(self.voice.codec()).sample(ip, copies)).flatten()
    }
}

/// Returns the voice of flows, leg by leg, in the order of the flows.
///
/// A flow without voice has no leg.
pub fn voice_legs(exchanges: &Exchanges, flows: &[FlowCalls<'_>]) -> Vec<Vec<VoiceLeg>> {
    let mut all = flows.to_vec();
    let mut owners: Vec<usize> = (0..flows.len()).collect();
    for (name, exchange) in &exchanges.0 {
        for (place, conference) in exchange.conferences.iter().enumerate() {
            // The link is with the first flow of its conference.
            let is_here = |flow: &FlowCalls<'_>| flow.route(exchanges).is_of(name, place);
            let owner = flows.iter().position(is_here).filter(|_| conference.linked.is_some());
            if let Some(owner) = owner {
                all.push(FlowCalls {
                    traffic: CallTraffic::Link(name, conference),
                    ends: [name; 2],
                    copies: 1,
                });
                owners.push(owner);
            }
        }
    }
    let mut legs = vec![Vec::new(); flows.len()];
    for (owner, of_flow) in owners.into_iter().zip(legs_of_all(exchanges, &all)) {
        legs[owner].extend(of_flow);
    }
    legs
}

fn legs_of_all(exchanges: &Exchanges, flows: &[FlowCalls<'_>]) -> Vec<Vec<VoiceLeg>> {
    let routes: Vec<Route<'_>> = flows.iter().map(|flow| flow.route(exchanges)).collect();
    let mut busy: Vec<Busy> = flows.iter().map(FlowCalls::busy).collect();
    let limits = |exchange: &str, place: Place| {
        let exchange = exchanges.0.get(exchange)?;
        match place {
            Place::Rule(rule) => exchange.dial.get(rule)?.calls,
            Place::Conference(place) => Some(exchange.conferences.get(place)?.members),
        }
    };
    limit(flows, &routes, limits, &mut busy);
    let members = occupants(flows, &routes, &busy);
    let of_speech =
        |(flow, busy): (&FlowCalls<'_>, &Busy)| Busy { occupied: busy.occupied * flow.activity(), ..*busy };
    let sending: Vec<Busy> = flows.iter().zip(&busy).map(of_speech).collect();
    let sending = occupants(flows, &routes, &sending);
    let of_conference = |at: &str, place: usize| {
        let conference = exchanges.0.get(at)?.conferences.get(place)?;
        let place = &(at, Place::Conference(place));
        let of = |all: &BTreeMap<(&str, Place), f64>| all.get(place).copied().unwrap_or_default();
        // A linked bridge sends without pauses.
        let linked = f64::from(u8::from(conference.linked.is_some()));
        let (members, sending) = (of(&members) + linked, of(&sending) + linked);
        Some(conference.sources(members, if members > 0.0 { sending / members } else { 0.0 }))
    };
    let sources = |n: usize| {
        let there = match flows[n].traffic {
            CallTraffic::Link(name, conference) => exchanges.0.get(name).and_then(|exchange| {
                let place = exchange.conferences.iter().position(|other| other == conference)?;
                of_conference(name, place)
            }),
            CallTraffic::Sip(_) | CallTraffic::Iax(_) => None,
        };
        let back = match &routes[n].end {
            End::Conference(at, place) => of_conference(at, *place),
            End::Extension(_) | End::None => None,
        };
        [there, back]
    };
    let trunks = Trunks::new(exchanges, flows, &routes, &busy);
    let legs = |n: usize| flows[n].legs(&routes[n], (busy[n].talking(), sources(n), &trunks));
    (0..flows.len()).map(legs).collect()
}

/// Hop from an exchange to the next.
#[derive(Clone, Debug)]
struct Hop<'a> {
    from: &'a str,
    to: String,
    protocol: TrunkProtocol,
    rule: usize,
    voice: Voice,
}

/// Way of calls through exchanges.
#[derive(Clone, Debug, Default)]
struct Route<'a> {
    hops: Vec<Hop<'a>>,
    end: End,
}

/// End of the way: exchange and what the number is there.
#[derive(Clone, Debug, Default)]
enum End {
    /// Extension.
    Extension(String),
    /// Conference, by its place.
    Conference(String, usize),
    /// No exchange, or no such number.
    #[default]
    None,
}

/// Calls of one copy of a flow at a time, in Erlang.
#[derive(Clone, Copy, Debug)]
struct Busy {
    /// Calls that ring or talk.
    occupied: f64,
    /// Share of that time in which they talk.
    talks: f64,
    /// Set if their number is a fixed one, and not random.
    is_fixed: bool,
}

impl Busy {
    fn new(calls: &Calls, lines: Option<u16>) -> Busy {
        let (ring, hold) = (calls.ring.as_secs_f64(), calls.hold.as_secs_f64());
        let offered = (ring + hold) / calls.interval.as_secs_f64().max(1e-9);
        let occupied = lines.map_or(offered, |lines| carried(offered, lines.into()));
        let is_fixed = calls.calls.is_some_and(|most| (most as f64) < occupied);
        let occupied = calls.calls.map_or(occupied, |most| occupied.min(most as f64));
        let is_answered = calls.ring < calls.ring_limit && hold > 0.0;
        // The first of few calls ring but once.
        let talks = if is_fixed { 1.0 } else { hold / (ring + hold).max(1e-9) };
        Busy { occupied, talks: if is_answered { talks } else { 0.0 }, is_fixed }
    }

    fn talking(&self) -> f64 {
        self.occupied * self.talks
    }
}

/// Returns the mean number of busy servers of a group without queue (Erlang's loss formula).
fn carried(offered: f64, servers: u32) -> f64 {
    let (mut blocking, mut n) = (1.0, 0);
    while n < servers.min(MAX_SERVERS) && blocking > 0.0 {
        n += 1;
        blocking = offered * blocking / (f64::from(n) + offered * blocking);
    }
    offered * (1.0 - blocking)
}

/// Place of an exchange that has a limited number of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Rule(usize),
    Conference(usize),
}

impl Route<'_> {
    /// Returns `true` if it ends at a conference of an exchange.
    fn is_of(&self, name: &str, conference: usize) -> bool {
        matches!(&self.end, End::Conference(at, place) if at == name && *place == conference)
    }

    /// Returns the places that calls occupy.
    fn places(&self) -> impl Iterator<Item = (&str, Place)> {
        let hops = self.hops.iter().map(|hop| (hop.from, Place::Rule(hop.rule)));
        let end = match &self.end {
            End::Conference(at, place) => Some((&**at, Place::Conference(*place))),
            End::Extension(_) | End::None => None,
        };
        hops.chain(end)
    }
}

/// Returns the mean number of calls at each place.
fn occupants<'r>(
    flows: &[FlowCalls<'_>],
    routes: &'r [Route<'_>],
    busy: &[Busy],
) -> BTreeMap<(&'r str, Place), f64> {
    let mut all = BTreeMap::new();
    for ((flow, route), busy) in flows.iter().zip(routes).zip(busy) {
        for place in route.places() {
            *all.entry(place).or_insert(0.0) += busy.occupied * f64::from(flow.copies);
        }
    }
    all
}

/// Lowers the calls of flows to what the limits of exchanges let through.
fn limit(
    flows: &[FlowCalls<'_>],
    routes: &[Route<'_>],
    limits: impl Fn(&str, Place) -> Option<u32>,
    busy: &mut [Busy],
) {
    let offered = occupants(flows, routes, busy);
    for (route, busy) in routes.iter().zip(busy) {
        for place in route.places() {
            let Some((limit, offered)) = limits(place.0, place.1).zip(offered.get(&place)) else { continue };
            let let_in = if busy.is_fixed { offered.min(f64::from(limit)) } else { carried(*offered, limit) };
            busy.occupied *= if *offered > 0.0 { let_in / offered } else { 0.0 };
        }
    }
}

/// Numbers of speaking parties that share trunk frames.
///
/// They are by the exchanges from which and to which the frames go.
struct Trunks<'a> {
    exchanges: &'a Exchanges,
    /// Mean number, and the probability of none.
    speaking: BTreeMap<(&'a str, &'a str), (f64, f64)>,
}

impl<'a> Trunks<'a> {
    fn new(
        exchanges: &'a Exchanges,
        flows: &[FlowCalls<'_>],
        routes: &'a [Route<'_>],
        busy: &[Busy],
    ) -> Trunks<'a> {
        let mut speaking: BTreeMap<(&str, &str), (f64, f64)> = BTreeMap::new();
        for ((flow, route), busy) in flows.iter().zip(routes).zip(busy) {
            for hop in route.hops.iter().filter(|hop| hop.protocol == TrunkProtocol::Iax) {
                let calls = busy.talking() * f64::from(flow.copies);
                let back = if matches!(route.end, End::Conference(..)) { 1.0 } else { flow.activity() };
                for (between, active) in
                    [((hop.from, &*hop.to), flow.activity()), ((&hop.to, hop.from), back)]
                {
                    let (sum, none) = speaking.entry(between).or_insert((0.0, 1.0));
                    *sum += calls * active;
                    *none *= idle(calls * active, busy.is_fixed && active >= 1.0);
                }
            }
        }
        Trunks { exchanges, speaking }
    }

    /// Returns the voice that an exchange sends to another for a number of speaking parties.
    fn stream(&self, between: (&str, &str), voice: Voice, speaking: f64) -> VoiceStream {
        let period = self.exchanges.0.get(between.0).and_then(|exchange| exchange.trunk_period);
        let all = self.speaking.get(&between).copied().unwrap_or((speaking, idle(speaking, false)));
        iax(voice, period, speaking, all)
    }
}

/// Returns the probability that no call is up.
fn idle(calls: f64, is_fixed: bool) -> f64 {
    if is_fixed { (1.0 - calls).max(0.0) } else { (-calls).exp() }
}

fn in_rtp(voice: Voice, (calls, activity): (f64, f64)) -> VoiceStream {
    let speech_len = voice.frame_len() as f64;
    let len = rtp::HEADER_LEN as f64 + speech_len;
    VoiceStream { form: Form::Rtp, packets_per_s: activity * calls / INTERVAL_S, len, speech_len }
}

/// Returns the voice of `calls` over IAX2, which are some of `all` between two endpoints.
fn iax(voice: Voice, period: Option<Span>, calls: f64, (all, none): (f64, f64)) -> VoiceStream {
    let frame = voice.frame_len() as f64;
    let Some(period) = period else {
        let packets_per_s = calls / INTERVAL_S;
        return VoiceStream { form: Form::Mini, packets_per_s, len: MINI_HEADER + frame, speech_len: frame };
    };
    let is_busy = 1.0 - none;
    let at_a_time = if is_busy > 0.0 { all / is_busy } else { 0.0 };
    let frames = is_busy * trunk_frames_per_s(at_a_time, period.as_secs_f64(), TRUNK_ENTRY + frame);
    let gathered = if frames > 0.0 { all / INTERVAL_S / frames } else { 1.0 };
    VoiceStream {
        form: Form::Trunk,
        packets_per_s: if all > 0.0 { frames * calls / all } else { 0.0 },
        len: TRUNK_HEADER + gathered * (TRUNK_ENTRY + frame),
        speech_len: gathered * frame,
    }
}

/// Returns the rate of trunk frames for calls whose packets come at random phases.
///
/// The first packet opens a frame, which leaves a period later, or when it is full.
fn trunk_frames_per_s(calls: f64, period_s: f64, entry: f64) -> f64 {
    if calls <= 0.0 {
        return 0.0;
    }
    // After whole intervals the call that opened the frame opens the next one too.
    let intervals = period_s / INTERVAL_S;
    let left = 1.0 - (intervals - (intervals + 1e-9).floor()).max(0.0);
    let gap = if left >= 1.0 - 1e-9 { 0.0 } else { (1.0 - (1.0 - left).powf(calls)) / calls };
    let by_time = 1.0 / (period_s + gap * INTERVAL_S);
    let by_size = calls / INTERVAL_S / (TRUNK_BYTES / entry).floor().max(1.0);
    by_time.max(by_size)
}

impl<'a> FlowCalls<'a> {
    /// Returns the first exchange, and the number that it gets.
    fn dialled(&self) -> Option<(String, String)> {
        match self.traffic {
            CallTraffic::Sip(config) => config.pabx.as_ref().map(|line| (line.at.clone(), line.dial.clone())),
            CallTraffic::Iax(_) => None,
            CallTraffic::Link(name, conference) => Some((name.to_owned(), conference.linked.clone()?)),
        }
    }

    /// Returns the share of intervals in which a call has a packet.
    fn activity(&self) -> f64 {
        match self.traffic {
            CallTraffic::Sip(config) => config.media.map_or(1.0, |media| media.activity()),
            CallTraffic::Iax(_) | CallTraffic::Link(..) => 1.0,
        }
    }

    fn busy(&self) -> Busy {
        match self.traffic {
            CallTraffic::Sip(config) => Busy::new(&config.calls(), config.media.map(|media| media.lines)),
            CallTraffic::Iax(config) => Busy::new(&config.calls(), None),
            CallTraffic::Link(..) => Busy { occupied: 1.0, talks: 1.0, is_fixed: true },
        }
    }

    fn route(&self, exchanges: &'a Exchanges) -> Route<'a> {
        let Some((mut at, mut number)) = self.dialled() else { return Route::default() };
        let mut hops = Vec::new();
        while hops.len() < MAX_HOPS {
            let Some((from, exchange)) = exchanges.0.get_key_value(&at) else { break };
            match exchange.step(&number) {
                Step::Trunk { to, protocol, number: there, rule } => {
                    hops.push(Hop { from, to: to.clone(), protocol, rule, voice: exchange.codec });
                    (at, number) = (to, there);
                }
                Step::Extension => return Route { hops, end: End::Extension(at) },
                Step::Conference(place) => return Route { hops, end: End::Conference(at, place) },
                Step::Unknown => break,
            }
        }
        Route { hops, end: End::None }
    }

    fn legs(
        &self,
        route: &Route<'_>,
        (calls, sources, trunks): (f64, [Option<f64>; 2], &Trunks<'_>),
    ) -> Vec<VoiceLeg> {
        let leg =
            |ends: [&str; 2], voice, ways| VoiceLeg { ends: ends.map(str::to_owned), voice, calls, ways };
        let (media, exchange) = match self.traffic {
            CallTraffic::Iax(config) => {
                let stream = iax(config.codec, config.trunk, calls, (calls, idle(calls, false)));
                return vec![leg(self.ends, config.codec, [stream; 2])];
            }
            CallTraffic::Sip(config) => (config.media, config.pabx.as_ref().map(|line| &*line.at)),
            CallTraffic::Link(name, _) => (None, Some(name)),
        };
        // Mixes of a bridge have no pauses.
        let active = self.activity();
        let active = [active, if sources[1].is_some() { 1.0 } else { active }];
        let both = |voice| active.map(|active| in_rtp(voice, (calls, active)));
        let of_phone = |ends| media.map(|media| leg(ends, media.codec, both(media.codec)));
        let Some(at) = exchange else { return of_phone(self.ends).into_iter().collect() };
        let of_hop = |hop: &Hop<'_>| {
            let ways = match hop.protocol {
                TrunkProtocol::Sip => both(hop.voice),
                TrunkProtocol::Iax => [
                    trunks.stream((hop.from, &hop.to), hop.voice, calls * active[0]),
                    trunks.stream((&hop.to, hop.from), hop.voice, calls * active[1]),
                ],
            };
            leg([hop.from, &hop.to], hop.voice, ways)
        };
        let first = of_phone([self.ends[0], at]);
        let last = match &route.end {
            End::Extension(last) => of_phone([last, self.ends[1]]),
            End::Conference(..) | End::None => None,
        };
        let mut legs: Vec<VoiceLeg> =
            first.into_iter().chain(route.hops.iter().map(of_hop)).chain(last).collect();
        // The leg next to a bridge has contributing sources in RTP.
        let [there, back] = sources.map(|sources| 4.0 * sources.unwrap_or(0.0));
        let add = |(way, len): (Option<&mut VoiceStream>, f64)| {
            way.filter(|way| way.form == Form::Rtp).into_iter().for_each(|way| way.len += len);
        };
        add((legs.first_mut().map(|leg| &mut leg.ways[0]), there));
        add((legs.last_mut().map(|leg| &mut leg.ways[1]), back));
        legs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Erlang's tables: 10 E on 10 lines block 21.458 %, 5 E on 10 lines 1.838 %.
    #[test]
    fn lines_carry_what_erlang_says() {
        for (offered, servers, blocking) in [(10.0, 10, 0.214_58), (5.0, 10, 0.018_38), (1.0, 1, 0.5)] {
            let lost = 1.0 - carried(offered, servers) / offered;
            assert!((lost - blocking).abs() < 1e-5, "{offered} on {servers}: {lost}");
        }
        assert!((carried(1e9, 32) - 32.0).abs() < 1e-3);
        assert_eq!(carried(3.0, u32::MAX), 3.0);
    }

    #[test]
    fn trunk_frames_are_at_most_those_of_mini_frames() {
        // A call alone opens each frame; many share one, up to its size.
        assert!((trunk_frames_per_s(1.0, 0.02, 39.0) - 50.0).abs() < 1e-9);
        assert!((trunk_frames_per_s(1.0, 0.005, 39.0) - 50.0).abs() < 1e-9);
        assert!((trunk_frames_per_s(1.0, 0.03, 39.0) - 25.0).abs() < 1e-9);
        assert!((trunk_frames_per_s(20.0, 0.02, 39.0) - 50.0).abs() < 1e-9);
        assert!((trunk_frames_per_s(90.0, 0.02, 39.0) - 150.0).abs() < 1e-9);
        assert_eq!(trunk_frames_per_s(0.0, 0.02, 39.0), 0.0);
    }

    #[test]
    fn calls_that_nobody_answers_have_no_voice() {
        let config = Config { ring: Span::from_secs(70), ..Config::default() };
        assert_eq!(Busy::new(&config.calls(), None).talking(), 0.0);
        let few = Config { calls: Some(3), ..Config::default() };
        assert_eq!(Busy::new(&few.calls(), None).talking(), 3.0);
        let usual = Busy::new(&Config::default().calls(), None);
        assert!((usual.talking() - 12.0).abs() < 1e-9);
    }
}
