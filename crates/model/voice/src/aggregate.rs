//! Aggregation of small packets of several flows in front of a medium.
//!
//! *Models*: subframes with lengths (PPP multiplexing, RFC 3153) in L2TPv3 over IPv4 (RFC 3931), the idea of RFC 4170;
//! a period and a size as limits; header compression of each packet before it is aggregated (ROHC, unidirectional, or its
//! predecessors RFC 1144, 2507 and 2508); PPP frames without the tunnel on a line of its own (RFC 1661, 3241, 3544).
//! Feedback of header compression goes with the packets of the other direction.
//! *Does not model*: set-up of the tunnel and of PPP, priorities between packets.
//!
//! The outer addresses are link-local ones, as only the partner behind the medium reads them.

use std::any::Any;
use std::net::Ipv4Addr;
use std::time::Duration;

use bentpipe_hc as hc;
use bentpipe_net::{Body, Cx, Element, InvalidConfig, Observer, Origin, Packet, Port, Why, ledger};
use bentpipe_rohc::{
    Channel, CidSpace, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode, Profiles,
};
use bentpipe_site::{Ahead, Stage, StageElements};
use bentpipe_units::{Bytes, Span, Time};
use bentpipe_wire::ip::{Protocol, TrafficClass};
use bentpipe_wire::ipv4;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use subframes::{Origins, Subframes};

pub mod metrics;
mod subframes;

/// Output of both elements.
const OUT: Port = Port(0);
/// Feedback to be sent: output of a separator, input of the other direction's aggregator.
const TO_SEND: Port = Port(1);
/// Feedback that came: output of a separator, input of the other direction's aggregator.
const CAME: Port = Port(2);
/// Bits of explicit congestion notification in a traffic class.
const ECN: u8 = 3;
/// L2TPv3 over IP (RFC 3931, section 4.1.1).
const L2TP: Protocol = Protocol(115);
/// Session of the only tunnel.
const SESSION: u32 = 1;
/// PPP protocol field of multiplexed frames (RFC 3153).
const MULTIPLEXED: u16 = 0x59;
/// PPP protocol fields of subframes: IPv4, IPv6, ROHC with large CIDs (RFC 3241).
const IPV4: u16 = 0x21;
const IPV6: u16 = 0x57;
const ROHC: u16 = 0x05;
/// Length of outer IP header, session and protocol field.
const OUTER_LEN: usize = ipv4::HEADER_LEN + 4 + 1;
/// Flags of a subframe: a protocol field follows, and the length has two bytes.
const HAS_PROTOCOL: u8 = 0x80;
const IS_LONG: u8 = 0x40;
/// Maximum length of a subframe: 14 bits.
const MAX_SUBFRAME: usize = 0x3fff;

/// Aggregation of small packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Config {
    /// Maximum time that a packet waits for others. Default: 20 ms.
    #[serde(default = "usual_period")]
    pub period: Span,
    /// Maximum length of an aggregate with its outer header. Default: 1400 B.
    #[serde(default = "usual_size")]
    pub size: Bytes,
    /// Maximum length of packets that are aggregated; longer ones pass alone. Default: 256 B.
    #[serde(default = "usual_packet")]
    pub max_packet: Bytes,
    /// Enables header compression of each packet (ROHC in U-mode) before it is aggregated. Default: false.
    #[serde(default)]
    pub rohc: bool,
    /// Version of the profiles of ROHC. Default: "v1".
    #[serde(default, skip_serializing_if = "RohcVersion::is_first")]
    pub rohc_version: RohcVersion,
    /// Header compression of each packet by a scheme before ROHC, in place of `rohc`. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Scheme>,
    /// Enables feedback of header compression by way of the other direction, which needs it too. It is CONTEXT_STATE of
    /// IPHC and CRTP, and optimistic mode of ROHC. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub feedback: bool,
    /// Headers in front of the packets. Default: "l2tp".
    #[serde(default, skip_serializing_if = "Outer::is_tunnel")]
    pub outer: Outer,
}

/// Scheme of header compression before ROHC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Scheme {
    /// Van Jacobson's: TCP over IPv4 (RFC 1144).
    Vj,
    /// IP header compression: TCP, UDP and IP (RFC 2507).
    Iphc,
    /// Compressed RTP: IP, UDP and RTP, and TCP as with IPHC (RFC 2508).
    Crtp,
}

impl Scheme {
    /// Returns the settings of both ends: as many contexts as identifiers of 8 bits have.
    const fn config(self) -> hc::Config {
        let scheme = match self {
            Scheme::Vj => hc::Scheme::VanJacobson,
            Scheme::Iphc => hc::Scheme::Iphc,
            Scheme::Crtp => hc::Scheme::Crtp,
        };
        hc::Config { tcp_contexts: 256, contexts: 256, ..hc::Config::new(scheme) }
    }
}

/// Headers in front of aggregated packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Outer {
    /// IPv4 and L2TPv3, 25 B with the protocol field: any medium carries them.
    #[default]
    L2tp,
    /// PPP protocol field, 1 B, in front of all packets: only for a line. A packet that is alone is sent without a length.
    Ppp,
}

impl Outer {
    fn is_tunnel(&self) -> bool {
        *self == Outer::L2tp
    }

    /// Returns the length of the headers.
    const fn len(self) -> usize {
        match self {
            Outer::L2tp => OUTER_LEN,
            Outer::Ppp => 1,
        }
    }
}

/// Version of ROHC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum RohcVersion {
    /// RFC 3095 and its successors.
    #[default]
    V1,
    /// RFC 5225, and TCP.
    V2,
}

impl RohcVersion {
    fn is_first(&self) -> bool {
        *self == RohcVersion::V1
    }
}

const fn usual_period() -> Span {
    Span::from_millis(20)
}

const fn usual_size() -> Bytes {
    Bytes::new(1400)
}

const fn usual_packet() -> Bytes {
    Bytes::new(256)
}

impl Default for Config {
    fn default() -> Config {
        Config {
            period: usual_period(),
            size: usual_size(),
            max_packet: usual_packet(),
            rohc: false,
            rohc_version: RohcVersion::V1,
            scheme: None,
            feedback: false,
            outer: Outer::L2tp,
        }
    }
}

impl Config {
    /// Returns the channel of ROHC at both ends.
    fn channel(&self) -> Channel {
        let profiles = match self.rohc_version {
            RohcVersion::V1 => Profiles::V1,
            RohcVersion::V2 => Profiles::V2,
        };
        Channel { cids: CidSpace::LARGE, profiles, ..Channel::default() }
    }
}

impl Stage for Config {
    fn check(&self) -> Result<(), InvalidConfig> {
        InvalidConfig::ensure(self.period <= Span::from_secs(10), "period", "at most \"10 s\"")?;
        let size = (64..=9000).contains(&self.size.get());
        InvalidConfig::ensure(size, "size", "64 to 9000 B")?;
        let packet = (1..=self.size.get()).contains(&self.max_packet.get());
        InvalidConfig::ensure(packet, "max_packet", "1 B to `size`")?;
        InvalidConfig::ensure(self.scheme.is_none() || !self.rohc, "scheme", "none, or `rohc` left out")?;
        let has_feedback = self.rohc || matches!(self.scheme, Some(Scheme::Iphc | Scheme::Crtp));
        let expected = "false, or `rohc`, or `scheme` of \"iphc\" or \"crtp\"";
        InvalidConfig::ensure(has_feedback || !self.feedback, "feedback", expected)
    }

    fn has_feedback(&self) -> bool {
        self.feedback
    }

    fn remakes(&self) -> bool {
        true
    }

    fn elements(&self, _: &Ahead) -> Result<StageElements, InvalidConfig> {
        self.check()?;
        let behind: Box<dyn Element> = Box::new(Separator::new(self));
        Ok(StageElements { front: Box::new(Aggregator::new(*self)), behind: Some(behind) })
    }
}

/// Element that aggregates packets. Input and output 0.
#[derive(Debug)]
pub struct Aggregator {
    config: Config,
    compressor: Option<Compressor>,
    scheme: Option<hc::Compressor>,
    subframes: Vec<u8>,
    origins: Vec<Origin>,
    arrived_at: Vec<Time>,
    last_protocol: u16,
    /// Traffic class of the aggregate: that of its packets, or 0 if they differ.
    class: TrafficClass,
    deadline: Time,
    packets: u64,
    passed: u64,
    aggregates: u64,
    feedback: u64,
    bytes_in: u64,
    bytes_out: u64,
    waited_ns: u128,
    /// Totals at the end of the warm-up.
    warm: Totals,
}

/// Totals that means are made of.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    sent: u64,
    bytes: [u64; 2],
    waited_ns: u128,
}

impl Aggregator {
    /// Creates an aggregator without packets.
    pub fn new(config: Config) -> Aggregator {
        let rohc =
            || Compressor::new(CompressorConfig { channel: config.channel(), ..CompressorConfig::default() });
        let compressor = config.rohc.then(rohc);
        Aggregator {
            config,
            compressor,
            scheme: config.scheme.map(|scheme| hc::Compressor::new(scheme.config())),
            subframes: Vec::new(),
            origins: Vec::new(),
            arrived_at: Vec::new(),
            last_protocol: 0,
            class: TrafficClass(0),
            deadline: Time::NEVER,
            packets: 0,
            passed: 0,
            aggregates: 0,
            feedback: 0,
            bytes_in: 0,
            bytes_out: 0,
            waited_ns: 0,
            warm: Totals::default(),
        }
    }

    fn totals(&self) -> Totals {
        let sent = self.packets - self.origins.len() as u64;
        Totals { sent, bytes: [self.bytes_in, self.bytes_out], waited_ns: self.waited_ns }
    }

    /// Adds a packet to the aggregate, which is sent first if it is full.
    fn add(&mut self, packet: &mut Packet, cx: &mut Cx<'_>) {
        let bytes = packet.to_vec();
        let (protocol, content) = self.content(&bytes, cx.now());
        self.append(protocol, &content, class_of(&bytes), packet.take_origin(), cx);
        self.packets += 1;
        self.bytes_in += bytes.len() as u64;
    }

    /// Adds a subframe.
    fn append(
        &mut self,
        protocol: u16,
        content: &[u8],
        class: TrafficClass,
        origin: Origin,
        cx: &mut Cx<'_>,
    ) {
        let len = content.len() + 2 + field(protocol).len();
        if self.config.outer.len() + self.subframes.len() + len > self.config.size.get() as usize {
            self.flush(cx);
        }
        if self.origins.is_empty() {
            self.deadline = cx.now() + self.config.period;
            self.class = class;
        } else if class != self.class {
            self.class = TrafficClass(0);
        }
        self.put(protocol, content);
        self.origins.push(origin);
        self.arrived_at.push(cx.now());
    }

    /// Sends feedback of the decompressor at this end, with the packets that wait.
    fn send_feedback(&mut self, content: &[u8], cx: &mut Cx<'_>) {
        let protocol = if self.scheme.is_some() { hc::Kind::ContextState.ppp() } else { ROHC };
        let class = if self.origins.is_empty() { TrafficClass(0) } else { self.class };
        self.append(protocol, content, class, Origin::at(cx.now()), cx);
        self.feedback += 1;
        self.flush(cx);
    }

    /// Passes feedback of the other end to the compressor.
    fn apply_feedback(&mut self, content: &[u8]) {
        if let Some(compressor) = &mut self.scheme {
            compressor.context_state(content);
        } else if let Some(compressor) = &mut self.compressor {
            compressor.feedback(content);
        }
    }

    /// Returns protocol field and bytes of a subframe.
    fn content(&mut self, bytes: &[u8], now: Time) -> (u16, Vec<u8>) {
        let mut compressed = Vec::new();
        let now = Duration::from_nanos(now.as_nanos());
        if let Some(compressor) = &mut self.scheme {
            let sent = compressor.compress(now, bytes, &mut compressed);
            return (sent.kind.ppp(), compressed);
        }
        if let Some(compressor) = &mut self.compressor
            && compressor.compress(now, bytes, &mut compressed).is_ok()
        {
            return (ROHC, compressed);
        }
        (protocol_of(bytes), bytes.to_vec())
    }

    /// Writes a subframe. Its protocol field is left out if it is that of the one before.
    fn put(&mut self, protocol: u16, content: &[u8]) {
        let is_new = self.origins.is_empty() || protocol != self.last_protocol;
        self.last_protocol = protocol;
        let field = field(protocol);
        let len = content.len() + if is_new { field.len() } else { 0 };
        let flag = if is_new { HAS_PROTOCOL } else { 0 };
        if len < usize::from(IS_LONG) {
            self.subframes.push(flag | len as u8);
        } else {
            self.subframes.extend([flag | IS_LONG | (len >> 8) as u8, len as u8]);
        }
        if is_new {
            self.subframes.extend_from_slice(&field);
        }
        self.subframes.extend_from_slice(content);
    }

    /// Sends what waits.
    fn flush(&mut self, cx: &mut Cx<'_>) {
        self.deadline = Time::NEVER;
        let Some(first) = self.origins.first().map(|origin| origin.created_at) else { return };
        let waits = self.arrived_at.drain(..).map(|at| u128::from(cx.now().since(at).as_nanos()));
        self.waited_ns += waits.sum::<u128>();
        let mut bytes = std::mem::take(&mut self.subframes);
        let origins = std::mem::take(&mut self.origins);
        let mut packet = match (self.config.outer, origins.len()) {
            (Outer::L2tp, _) => outer(bytes.len(), self.class),
            (Outer::Ppp, 1) => take_alone(&mut bytes),
            (Outer::Ppp, _) => frame(MULTIPLEXED),
        };
        packet.set_created_at(first);
        let number = self.aggregates;
        let packet = packet.with_body(Body::Carried(Box::new(Subframes { bytes, origins, number })));
        self.aggregates += 1;
        self.bytes_out += packet.len() as u64;
        cx.emit(OUT, packet);
    }
}

/// Returns the bytes of a PPP protocol field, compressed if possible (RFC 1661 6.5).
fn field(protocol: u16) -> Vec<u8> {
    let [high, low] = protocol.to_be_bytes();
    let mut field = Vec::with_capacity(2);
    if high > 0 {
        field.push(high);
    }
    field.push(low);
    field
}

/// Returns the PPP protocol field in front of `bytes`, and what follows it.
fn split_field(bytes: &[u8]) -> Option<(u16, &[u8])> {
    match bytes {
        [low, rest @ ..] if low & 1 == 1 => Some((u16::from(*low), rest)),
        [high, low, rest @ ..] => Some((u16::from_be_bytes([*high, *low]), rest)),
        _ => None,
    }
}

/// Returns the PPP protocol field of an IP packet.
fn protocol_of(header: &[u8]) -> u16 {
    if header.first().is_some_and(|first| first >> 4 == 6) { IPV6 } else { IPV4 }
}

/// Returns the traffic class of an IP packet without ECN, for the outer header.
fn class_of(bytes: &[u8]) -> TrafficClass {
    let class = match bytes {
        [first, class, ..] if first >> 4 == 4 => *class,
        [first, second, ..] if first >> 4 == 6 => first << 4 | second >> 4,
        _ => 0,
    };
    TrafficClass(class & !ECN)
}

/// Returns a packet of a PPP protocol field.
fn frame(protocol: u16) -> Packet {
    Packet::from_bytes(&field(protocol))
}

/// Leaves the content of the only subframe, and returns a packet of its protocol field.
fn take_alone(subframes: &mut Vec<u8>) -> Packet {
    let len_bytes = if subframes[0] & IS_LONG == 0 { 1 } else { 2 };
    let field_len = if subframes[len_bytes] & 1 == 1 { 1 } else { 2 };
    let field = Packet::from_bytes(&subframes[len_bytes..len_bytes + field_len]);
    subframes.drain(..len_bytes + field_len);
    field
}

/// Returns a packet of the headers in front of subframes.
fn outer(subframes_len: usize, traffic_class: TrafficClass) -> Packet {
    let mut packet = Packet::new(OUTER_LEN, 0);
    let ends = [1, 2].map(|last| Ipv4Addr::new(169, 254, 0, last));
    let ip = ipv4::Repr::new(ends[0], ends[1], L2TP, OUTER_LEN - ipv4::HEADER_LEN + subframes_len);
    let ip = ipv4::Repr { traffic_class, ..ip };
    let header = packet.header_mut();
    ip.emit(header);
    header[ipv4::HEADER_LEN..OUTER_LEN - 1].copy_from_slice(&SESSION.to_be_bytes());
    header[OUTER_LEN - 1] = MULTIPLEXED as u8;
    packet
}

impl Element for Aggregator {
    fn receive(&mut self, port: Port, mut packet: Packet, cx: &mut Cx<'_>) -> Time {
        match port {
            TO_SEND => {
                self.send_feedback(&packet.to_vec(), cx);
                return self.deadline;
            }
            CAME => {
                self.apply_feedback(&packet.to_vec());
                return self.deadline;
            }
            _ => {}
        }
        let is_small = packet.len() as u64 <= self.config.max_packet.get();
        if is_small && packet.carried::<Subframes>().is_none() {
            self.add(&mut packet, cx);
            packet.recycle();
            if self.config.period.is_zero() {
                self.flush(cx);
            }
        } else {
            // What waits goes first, so that order is kept.
            self.flush(cx);
            self.passed += 1;
            if self.config.outer == Outer::Ppp {
                let protocol = protocol_of(packet.header());
                packet.prepend_header(&[protocol as u8]);
            }
            cx.emit(OUT, packet);
        }
        self.deadline
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        if self.deadline <= cx.now() {
            self.flush(cx);
        }
        self.deadline
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::AGGREGATED, self.packets);
        observer.counter(&metrics::AGGREGATES, self.aggregates);
        observer.counter(&metrics::PASSED, self.passed);
        if self.config.feedback {
            observer.counter(&metrics::FEEDBACK, self.feedback);
        }
        observer.counter(&metrics::BYTES_IN, self.bytes_in);
        observer.counter(&metrics::BYTES_OUT, self.bytes_out);
        let (now, warm) = (self.totals(), self.warm);
        let waited_s = (now.waited_ns - warm.waited_ns) as f64 / 1e9;
        observer.gauge(&metrics::WAIT, waited_s / (now.sent - warm.sent) as f64);
        let [bytes_in, bytes_out] = [0, 1].map(|at| (now.bytes[at] - warm.bytes[at]) as f64);
        observer.gauge(&metrics::SAVED, 1.0 - bytes_out / bytes_in);
        if observer.starts_window() {
            self.warm = now;
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Partner of an aggregator: takes the packets out of aggregates. Input and output 0.
#[derive(Debug)]
pub struct Separator {
    outer: Outer,
    decompressor: Option<Decompressor>,
    scheme: Option<hc::Decompressor>,
    has_feedback: bool,
    /// Number of the next frame.
    next: u64,
    packets: u64,
    malformed: u64,
    not_decompressed: u64,
}

impl Separator {
    /// Creates the partner of an aggregator with the same configuration.
    pub fn new(config: &Config) -> Separator {
        let rohc = || {
            Decompressor::new(DecompressorConfig {
                channel: config.channel(),
                mode: if config.feedback { Mode::Optimistic } else { Mode::Unidirectional },
                ..DecompressorConfig::default()
            })
        };
        let decompressor = config.rohc.then(rohc);
        let scheme = config.scheme.map(|scheme| hc::Decompressor::new(scheme.config()));
        Separator {
            outer: config.outer,
            decompressor,
            scheme,
            has_feedback: config.feedback,
            next: 0,
            packets: 0,
            malformed: 0,
            not_decompressed: 0,
        }
    }

    /// Reports frames that are missing before this one to the decompressor.
    fn note(&mut self, number: u64) {
        if number != self.next
            && let Some(decompressor) = &mut self.scheme
        {
            decompressor.frame_lost();
        }
        self.next = number + 1;
    }

    /// Sends the packets of an aggregate of `bytes`.
    fn separate(&mut self, bytes: &[u8], mut origins: Origins, cx: &mut Cx<'_>) {
        let (mut rest, mut protocol) = (bytes, 0);
        while let [flags, after @ ..] = rest {
            let Some((subframe, next)) = subframe(*flags, after) else {
                self.malformed += 1;
                return;
            };
            let content = match split_field(subframe) {
                Some((given, content)) if flags & HAS_PROTOCOL != 0 => {
                    protocol = given;
                    content
                }
                _ => subframe,
            };
            origins.begin();
            self.deliver(protocol, content, &mut origins, cx);
            rest = next;
        }
    }

    /// Sends the packets of an aggregate in IP, and others as they are.
    fn take_aggregate(&mut self, mut packet: Packet, cx: &mut Cx<'_>) {
        if !is_aggregate(packet.header()) {
            return cx.emit(OUT, packet);
        }
        let origins = Origins::of(&mut packet);
        match packet.carried::<Subframes>() {
            Some(subframes) => {
                self.note(subframes.number);
                self.separate(&subframes.bytes, origins, cx);
            }
            // A medium that rebuilds packets from their bytes leaves no times.
            None => self.separate(&packet.to_vec()[OUTER_LEN..], origins, cx),
        }
    }

    /// Sends the packets of a PPP frame.
    fn take_frame(&mut self, mut packet: Packet, cx: &mut Cx<'_>) {
        let protocol = split_field(packet.header()).map(|(protocol, _)| protocol);
        let mut origins = Origins::of(&mut packet);
        if let Some(subframes) = packet.carried::<Subframes>() {
            self.note(subframes.number);
        }
        match (protocol, packet.carried::<Subframes>()) {
            (Some(MULTIPLEXED), Some(subframes)) => {
                self.separate(&subframes.bytes, origins, cx);
            }
            (Some(protocol), Some(alone)) => {
                // The frame has its time, of the only packet.
                origins.begin();
                self.deliver(protocol, &alone.bytes, &mut origins, cx);
            }
            (Some(IPV4 | IPV6), None) => {
                packet.trim_front(1);
                cx.emit(OUT, packet);
            }
            (_, None) => {
                let bytes = packet.to_vec();
                match split_field(&bytes) {
                    Some((MULTIPLEXED, content)) => self.separate(content, origins, cx),
                    Some((protocol, content)) => self.deliver(protocol, content, &mut origins, cx),
                    None => self.malformed += 1,
                }
            }
            (None, Some(_)) => self.malformed += 1,
        }
    }

    fn deliver(&mut self, protocol: u16, content: &[u8], origins: &mut Origins, cx: &mut Cx<'_>) {
        let mut restored = Vec::new();
        let now = Duration::from_nanos(cx.now().as_nanos());
        let kind = self.scheme.as_ref().and_then(|_| hc::Kind::of_ppp(protocol));
        if kind == Some(hc::Kind::ContextState) && self.has_feedback {
            cx.emit(CAME, Packet::from_bytes(content));
            return;
        }
        let is_restored = match (protocol, kind, &mut self.scheme, &mut self.decompressor) {
            (_, Some(kind), Some(decompressor), _) => {
                decompressor.decompress(kind, content, &mut restored).is_ok()
            }
            (IPV4 | IPV6, ..) => {
                restored.extend_from_slice(content);
                true
            }
            (ROHC, _, _, Some(decompressor)) => {
                match decompressor.decompress(now, content, &mut restored) {
                    Ok(Some(_)) => true,
                    // Feedback alone.
                    Ok(None) if self.has_feedback => return self.pass_feedback(now, cx),
                    _ => false,
                }
            }
            _ => {
                self.malformed += 1;
                return;
            }
        };
        if is_restored {
            self.emit(Packet::from_bytes(&restored), origins.take(), cx);
        } else {
            self.not_decompressed += 1;
            origins.take().lose(Why::Restoration);
        }
        self.pass_feedback(now, cx);
    }

    /// Passes feedback to the aggregator of the other direction.
    fn pass_feedback(&mut self, now: Duration, cx: &mut Cx<'_>) {
        if !self.has_feedback {
            return;
        }
        let mut feedback = Vec::new();
        if let Some(decompressor) = &mut self.scheme {
            let states = decompressor.take_context_states(now);
            states.iter().for_each(|state| cx.emit(TO_SEND, Packet::from_bytes(state)));
        } else if let Some(decompressor) = &mut self.decompressor {
            if decompressor.take_received_feedback(&mut feedback) {
                cx.emit(CAME, Packet::from_bytes(&feedback));
                feedback.clear();
            }
            if decompressor.take_feedback(&mut feedback) {
                cx.emit(TO_SEND, Packet::from_bytes(&feedback));
            }
        }
    }

    fn emit(&mut self, mut packet: Packet, origin: Origin, cx: &mut Cx<'_>) {
        packet.set_origin(origin);
        self.packets += 1;
        cx.emit(OUT, packet);
    }
}

/// Returns the content of a subframe, and the bytes after it.
fn subframe(flags: u8, after: &[u8]) -> Option<(&[u8], &[u8])> {
    let low = usize::from(flags & (IS_LONG - 1));
    let (len, after) = match after.split_first() {
        Some((second, after)) if flags & IS_LONG != 0 => (low << 8 | usize::from(*second), after),
        _ if flags & IS_LONG != 0 => return None,
        _ => (low, after),
    };
    (len <= MAX_SUBFRAME && len <= after.len()).then(|| after.split_at(len))
}

/// Returns `true` if a header is that of an aggregate.
fn is_aggregate(header: &[u8]) -> bool {
    let session = header.get(ipv4::HEADER_LEN..OUTER_LEN - 1);
    header.first() == Some(&0x45)
        && header.get(9) == Some(&L2TP.0)
        && session == Some(&SESSION.to_be_bytes()[..])
        && header.get(OUTER_LEN - 1) == Some(&(MULTIPLEXED as u8))
}

impl Element for Separator {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        // What is destroyed on the way out of a frame is not restored.
        ledger::dropping(Why::Restoration, || match self.outer {
            Outer::Ppp => self.take_frame(packet, cx),
            Outer::L2tp => self.take_aggregate(packet, cx),
        });
        Time::NEVER
    }

    fn wake(&mut self, _cx: &mut Cx<'_>) -> Time {
        Time::NEVER
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::SEPARATED, self.packets);
        observer.counter(&metrics::MALFORMED, self.malformed);
        observer.counter(&metrics::NOT_DECOMPRESSED, self.not_decompressed);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
