//! UDP sources: constant, Poisson and on-off traffic, many flows in one element.

use std::any::Any;

use bentpipe_net::InvalidConfig;
use bentpipe_net::ledger::{AccountNumber, SubAccount};
use bentpipe_net::{Cx, Element, Observer, Packet, Port};
use bentpipe_site::Switchable;
use bentpipe_units::{Bytes, RandomStream, Rate, Serialiser, Span, Time};
use bentpipe_wire::ipv4;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::flow::{Endpoints, Header, Identification, Template};
use super::refresh::Refresh;
use super::timetable::Timetable;
use crate::app::metrics;

/// UDP traffic of one or many like flows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceConfig {
    /// Timing of the packets. No default.
    pub pattern: Pattern,
    /// The payload of each packet in bytes, its header included, without UDP and IP. No default.
    pub payload: Bytes,
    /// Header at the start of the payload, by which the sink detects losses. Default: "sequence".
    #[serde(default)]
    pub header: Header,
    /// Number of flows. Ports rise by 1 from flow to flow, or by 2 with RTP. Default: 1.
    #[serde(default = "one")]
    pub count: u16,
    /// Enables a random start of each flow within its first interval or mean cycle. Default: true.
    #[serde(default = "yes")]
    pub spread: bool,
    /// Start of the first flow, from the start of the run. Default: "0 s".
    #[serde(default)]
    pub start: Span,
    /// End of sending, from the start of the run. Default: never.
    #[serde(default)]
    pub stop: Option<Span>,
    /// Maximum number of packets of each flow. Default: no limit.
    #[serde(default)]
    pub packets: Option<u64>,
    /// Differentiated services codepoint, 0 to 63. Default: 0.
    #[serde(default)]
    pub dscp: u8,
    /// IPv4's identification. Default: "zero".
    #[serde(default)]
    pub identification: Identification,
    /// Enables shared ports: the flows differ only by SSRC, as RTP streams of one socket. Default: false.
    #[serde(default)]
    pub shared_ports: bool,
    /// Larger refresh packets, as a header compressor sends. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<Refresh>,
}

fn one() -> u16 {
    1
}

fn yes() -> bool {
    true
}

impl SourceConfig {
    /// Creates the configuration of one such flow, with defaults elsewhere.
    pub fn new(pattern: Pattern, payload: Bytes) -> SourceConfig {
        SourceConfig {
            pattern,
            payload,
            header: Header::default(),
            count: 1,
            spread: true,
            start: Span::ZERO,
            stop: None,
            packets: None,
            dscp: 0,
            identification: Identification::Zero,
            shared_ports: false,
            refresh: None,
        }
    }
}

/// Least distance of the packets of all copies of a flow.
const SHORTEST: Span = Span::from_nanos(10);

/// Timing of a flow's packets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pattern {
    /// Single packets at a fixed interval.
    Constant {
        /// Time from packet to packet, 10 ns at least for each copy. No default.
        interval: Span,
    },
    /// Packets evenly spaced to make a rate.
    ConstantRate {
        /// Rate of IP packets, their headers counted. No default.
        rate: Rate,
    },
    /// Independent, exponentially distributed intervals.
    Poisson {
        /// Mean time from packet to packet, 10 ns at least for each copy. No default.
        mean_interval: Span,
    },
    /// Bursts and silences of random length. A packet starts each burst, and one follows per interval.
    OnOff {
        /// Time from packet to packet in a burst. No default.
        interval: Span,
        /// Mean length of bursts. No default.
        mean_on: Span,
        /// Mean length of silences. No default.
        mean_off: Span,
        /// Distribution of the lengths. Default: exponential.
        #[serde(default)]
        law: Law,
    },
}

impl Pattern {
    /// Returns the mean number of packets in a burst, whose lengths have a mean. The first is sent with its start.
    pub(super) fn packets_per_burst(interval: Span, mean_on: Span, law: Law) -> f64 {
        1.0 + law.longer_than_multiples(mean_on.as_secs_f64() / interval.as_secs_f64().max(f64::MIN_POSITIVE))
    }

    /// Returns the key of the distance of packets.
    fn key(self) -> &'static str {
        match self {
            Pattern::Constant { .. } | Pattern::OnOff { .. } => "interval",
            Pattern::ConstantRate { .. } => "rate",
            Pattern::Poisson { .. } => "mean_interval",
        }
    }
}

/// A distribution of positive lengths with a given mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Law {
    /// Exponential.
    #[default]
    Exponential,
    /// Pareto: heavy tails, and for a shape under 2 long-range dependence of many flows together.
    Pareto {
        /// The exponent of the tail, above 1. No default.
        #[schemars(range(min = 1.01, max = 100))]
        shape: f64,
    },
}

/// Terms of a series that are added one by one.
const TERMS: u32 = 64;

impl Law {
    /// Returns the mean number of whole positive units below a length. Its mean is given.
    fn longer_than_multiples(self, mean: f64) -> f64 {
        match self {
            // The sum of exp(-k / mean).
            Law::Exponential => 1.0 / libm::expm1(1.0 / mean.max(f64::MIN_POSITIVE)),
            Law::Pareto { shape } => {
                let scale = mean * (shape - 1.0) / shape;
                let below = scale.floor();
                let part = |k: f64| libm::pow(scale / k, shape);
                let terms = (1..=TERMS).map(|k| part(below + f64::from(k))).sum::<f64>();
                // Behind those the integral, and the next terms of Euler and Maclaurin.
                let next = below + f64::from(TERMS) + 1.0;
                below + terms + part(next) * (next / (shape - 1.0) + 0.5 + shape / (12.0 * next))
            }
        }
    }

    #[inline]
    fn draw(self, mean: Span, stream: &mut RandomStream) -> Span {
        match self {
            Law::Exponential => exponential(mean, stream),
            Law::Pareto { shape } => {
                let scale = (shape - 1.0) / shape;
                mean.mul_f64(scale * libm::pow(1.0 - stream.unit(), -1.0 / shape))
            }
        }
    }
}

#[inline]
fn exponential(mean: Span, stream: &mut RandomStream) -> Span {
    mean.mul_f64(-libm::log(1.0 - stream.unit()))
}

/// Source of UDP flows: sends at port 0 and ignores received packets.
#[derive(Debug)]
pub struct Source {
    template: Template,
    clock: Clock,
    config: SourceConfig,
    flows: Vec<Flow>,
    timetable: Timetable,
    is_set_up: bool,
    /// Time at which the flows are over that have ended.
    over: Time,
    sent: u64,
    /// Clear while the source is turned off: packets that are due are left out.
    is_active: bool,
    /// Refresh packets, and how many were sent.
    refreshes: Option<(Refresh, Template)>,
    refreshed: u64,
    /// Account of all flows, and one within it for each.
    accounts: Option<(AccountNumber, Vec<SubAccount>)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    number: u64,
    /// End of the present burst; on-off only.
    burst_end: Time,
}

impl Source {
    /// Creates a source whose first flow goes between `endpoints`.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn new(config: &SourceConfig, endpoints: Endpoints) -> Result<Source, InvalidConfig> {
        InvalidConfig::ensure(config.count > 0, "count", "at least 1")?;
        let last = if config.shared_ports {
            0
        } else {
            (config.count - 1).saturating_mul(config.header.port_step())
        };
        let ports = endpoints.source.port().max(endpoints.destination.port());
        InvalidConfig::ensure(ports.checked_add(last).is_some(), "count", "ports up to 65535")?;
        let are_distinguishable = !config.shared_ports || config.header == Header::Rtp;
        InvalidConfig::ensure(
            are_distinguishable,
            "shared_ports",
            "false, or `header = \"rtp\"` with its SSRC",
        )?;
        let payload = usize::try_from(config.payload.get()).unwrap_or(usize::MAX);
        let template = Template::new(endpoints, payload, config.header, config.dscp)?;
        let template = template.sharing_ports(config.shared_ports);
        let refreshes = config.refresh.map(|refresh| refreshes(config, refresh, endpoints)).transpose()?;
        Ok(Source {
            clock: Clock::new(config.pattern, template.packet_len(), config.count)
                .map_err(|error| error.inside("pattern"))?,
            template,
            config: *config,
            flows: vec![Flow::default(); config.count.into()],
            timetable: Timetable::heap(Vec::new()),
            is_set_up: false,
            over: Time::ZERO,
            sent: 0,
            is_active: true,
            refreshes,
            refreshed: 0,
            accounts: None,
        })
    }

    /// Sets the account of all flows, and one within it for each.
    #[must_use]
    pub fn with_accounts(self, all: AccountNumber, each: Vec<SubAccount>) -> Source {
        Source { accounts: Some((all, each)), ..self }
    }

    /// Schedules the first packet of each flow.
    fn set_up(&mut self, stream: &mut RandomStream) {
        let is_none = self.config.packets == Some(0);
        let flows = u32::from(self.config.count);
        let first = |flow| {
            let at = self.first_instant(stream);
            let at = self.end(at);
            (if is_none { Time::NEVER } else { at }, flow)
        };
        let slots: Vec<(Time, u32)> = (0..flows).map(first).collect();
        self.timetable = match self.config.pattern {
            Pattern::Constant { .. } | Pattern::ConstantRate { .. } => Timetable::ring(slots),
            Pattern::Poisson { .. } | Pattern::OnOff { .. } => Timetable::heap(slots),
        };
        self.is_set_up = true;
    }

    fn first_instant(&self, stream: &mut RandomStream) -> Time {
        let within = if self.config.spread { self.clock.cycle() } else { Span::ZERO };
        Time::ZERO + self.config.start + within.mul_f64(stream.unit())
    }

    /// Returns `next`, or never if sending is over by then.
    #[inline]
    fn end(&mut self, next: Time) -> Time {
        match self.config.stop {
            Some(stop) if next >= Time::ZERO + stop => {
                // One that has sent all its packets before is not over any later.
                if !next.is_never() {
                    self.over = self.over.max(Time::ZERO + stop);
                }
                Time::NEVER
            }
            _ => next,
        }
    }

    /// Leaves out a packet, which is not numbered.
    fn skip(&mut self, due: Time, index: u32, cx: &mut Cx<'_>) {
        let next = self.clock.next(due, &mut self.flows[index as usize], cx.stream());
        let next = self.end(next);
        self.timetable.advance(next);
    }

    #[inline]
    fn send(&mut self, due: Time, index: u32, cx: &mut Cx<'_>) {
        let flow = &mut self.flows[index as usize];
        let mut template = &self.template;
        if let Some((_, larger)) = self.refreshes.as_ref().filter(|(refresh, _)| refresh.is_due(flow.number))
        {
            template = larger;
            self.refreshed += 1;
        }
        let mut packet = template.packet(index, flow.number, cx.now());
        match self.config.identification {
            Identification::Zero => {}
            Identification::Flow => identify(&mut packet, flow.number as u16),
            Identification::Host => identify(&mut packet, self.sent as u16),
        }
        if let Some((all, each)) = &self.accounts
            && let Some(own) = each.get(index as usize)
        {
            cx.offer_apart(&mut packet, all, own);
        }
        cx.emit(Port(0), packet);
        self.sent += 1;
        flow.number += 1;
        let next = match self.config.packets {
            Some(limit) if flow.number >= limit => {
                self.over = self.over.max(cx.now());
                Time::NEVER
            }
            _ => self.clock.next(due, flow, cx.stream()),
        };
        let next = self.end(next);
        self.timetable.advance(next);
    }
}

/// Returns the template of refresh packets.
fn refreshes(
    config: &SourceConfig,
    refresh: Refresh,
    endpoints: Endpoints,
) -> Result<(Refresh, Template), InvalidConfig> {
    refresh.check()?;
    let payload = usize::try_from(refresh.payload.get()).unwrap_or(usize::MAX);
    let template = Template::new(endpoints, payload, config.header, config.dscp);
    let template = template.map_err(|error| error.inside("refresh"))?;
    Ok((refresh, template.sharing_ports(config.shared_ports)))
}

/// Numbers an IPv4 packet; IPv6 has no identification.
fn identify(packet: &mut Packet, ident: u16) {
    let len = packet.len();
    let header = packet.header_mut();
    let elided = len - header.len();
    if let Ok(mut ip) = ipv4::Packet::new_elided(header, elided) {
        ip.update_ident(ident);
    }
}

impl Switchable for Source {
    /// The times of later packets are those that they would have had.
    fn set_active(&mut self, _now: Time, active: bool) {
        self.is_active = active;
    }
}

impl Element for Source {
    fn receive(&mut self, _port: Port, _packet: Packet, _cx: &mut Cx<'_>) -> Time {
        self.timetable.first().0
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        if !self.is_set_up {
            self.set_up(cx.stream());
            self.accounts.iter().flat_map(|(_, each)| each).for_each(|account| account.set_first(0));
        }
        loop {
            let (due, flow) = self.timetable.first();
            if due > cx.now() {
                return due;
            }
            if self.is_active {
                self.send(due, flow, cx);
            } else {
                self.skip(due, flow, cx);
            }
        }
    }

    fn forwards(&self, _from: Port, _to: Port) -> bool {
        false
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::SENT, self.sent);
        let larger = self.refreshes.as_ref().map_or(0, |(_, larger)| larger.packet_len()) as u64;
        let usual = (self.sent - self.refreshed) * self.template.packet_len() as u64;
        observer.counter(&metrics::SENT_BYTES, usual + self.refreshed * larger);
        let is_over = self.is_set_up && self.timetable.first().0.is_never();
        metrics::observe_end(is_over.then_some(self.over), now, observer);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Draws the distances between a flow's packets.
#[derive(Debug)]
struct Clock {
    pattern: Pattern,
    /// Distance after packet `lap`, for a given rate; the same for all flows.
    lap: Lap,
}

#[derive(Debug)]
struct Lap {
    number: u64,
    step: Span,
    serialiser: Serialiser,
    packet_len: Bytes,
}

impl Clock {
    fn new(pattern: Pattern, packet_len: usize, copies: u16) -> Result<Clock, InvalidConfig> {
        check(pattern)?;
        let rate = if let Pattern::ConstantRate { rate } = pattern { rate } else { Rate::from_bps(1) };
        let packet_len = Bytes::new(packet_len as u64);
        // No packet has this number: one that is left out first has a distance too.
        let lap = Lap { number: u64::MAX, step: Span::ZERO, serialiser: Serialiser::new(rate), packet_len };
        let clock = Clock { pattern, lap };
        let is_possible = clock.distance() >= SHORTEST * u64::from(copies);
        InvalidConfig::ensure(
            is_possible,
            pattern.key(),
            "at least \"10 ns\" from packet to packet of all copies",
        )?;
        Ok(clock)
    }

    /// Returns the mean distance of the packets of a flow, or of its bursts.
    fn distance(&self) -> Span {
        match self.pattern {
            Pattern::OnOff { interval, .. } => interval,
            _ => self.cycle(),
        }
    }

    /// Returns the span over which the first packets are spread.
    fn cycle(&self) -> Span {
        match self.pattern {
            Pattern::Constant { interval } => interval,
            Pattern::ConstantRate { rate } => rate.span_of(self.lap.packet_len),
            Pattern::Poisson { mean_interval } => mean_interval,
            Pattern::OnOff { mean_on, mean_off, .. } => mean_on + mean_off,
        }
    }

    /// Returns the time of the flow's next packet after the one due at `due`.
    ///
    /// `flow.number` is that of the next one.
    #[inline]
    fn next(&mut self, due: Time, flow: &mut Flow, stream: &mut RandomStream) -> Time {
        match self.pattern {
            Pattern::Constant { interval } => due + interval,
            Pattern::ConstantRate { .. } => due + self.lap.step(flow.number),
            Pattern::Poisson { mean_interval } => due + exponential(mean_interval, stream),
            Pattern::OnOff { interval, mean_on, mean_off, law } => {
                if flow.number == 1 {
                    flow.burst_end = due + law.draw(mean_on, stream);
                }
                if due + interval < flow.burst_end {
                    return due + interval;
                }
                let next = flow.burst_end + law.draw(mean_off, stream);
                flow.burst_end = next + law.draw(mean_on, stream);
                next.max(due)
            }
        }
    }
}

impl Lap {
    #[inline]
    fn step(&mut self, number: u64) -> Span {
        if number != self.number {
            (self.number, self.step) = (number, self.serialiser.transmit(self.packet_len));
        }
        self.step
    }
}

/// Rejects patterns that would send indefinitely at one instant.
fn check(pattern: Pattern) -> Result<(), InvalidConfig> {
    const POSITIVE: &str = "more than zero";
    match pattern {
        Pattern::Constant { interval } => InvalidConfig::ensure(!interval.is_zero(), "interval", POSITIVE),
        Pattern::ConstantRate { rate } => {
            let is_possible = (1..=1_000_000_000_000).contains(&rate.as_bps());
            InvalidConfig::ensure(is_possible, "rate", "more than zero, at most \"1000 Gbit/s\"")
        }
        Pattern::Poisson { mean_interval } => InvalidConfig::ensure(
            mean_interval >= Span::from_nanos(10),
            "mean_interval",
            "at least \"10 ns\"",
        ),
        Pattern::OnOff { interval, mean_on, mean_off, law } => {
            InvalidConfig::ensure(!interval.is_zero(), "interval", POSITIVE)?;
            InvalidConfig::ensure(
                mean_on + mean_off >= Span::from_nanos(10),
                "mean_off",
                "at least \"10 ns\"",
            )?;
            let has_mean = !matches!(law, Law::Pareto { shape } if shape.is_nan() || shape <= 1.0);
            InvalidConfig::ensure(has_mean, "shape", "more than 1, so that there is a mean")
                .map_err(|error| error.inside("law"))
        }
    }
}

#[cfg(test)]
mod tests;
