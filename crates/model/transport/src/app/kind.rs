//! Traffic of UDP datagrams.

use std::net::{IpAddr, SocketAddr};

use bentpipe_net::Element;
use bentpipe_net::ledger::SubAccount;
use bentpipe_site::{
    Copies, Datagrams, End, FlowAt, FlowEnds, FlowGround, FlowTakes, IpVersion, PortNumbers, Problem,
    RealTraffic, Sample, Switch, TrafficKind, header_len,
};
use bentpipe_units::{Bytes, Rate, Span};
use bentpipe_wire::ip::Protocol;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::flow::{Endpoints, Header, Identification, RTP_CLOCK_HZ};
use super::refresh::Refresh;
use super::sink::{Sink, SinkConfig};
use super::source::{Pattern, Source, SourceConfig};

/// Port of both ends of samples: the first that flows have.
const SAMPLE_PORT: u16 = 1024;

/// UDP datagrams of one length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Udp {
    /// Timing of the datagrams.
    pub pattern: Pattern,
    /// The payload of each datagram, its own header (`header`) included, without UDP and IP.
    pub payload: Bytes,
    /// Header at the start of the payload, by which the receiver detects losses.
    #[serde(default)]
    pub header: Header,
    /// Random start of each copy in its first interval, instead of all at once.
    #[serde(default = "yes")]
    pub spread: bool,
    /// Most datagrams that each copy sends. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Differentiated services codepoint.
    #[serde(default)]
    #[schemars(range(min = 0, max = 63))]
    pub dscp: u8,
    /// IPv4's identification.
    #[serde(default)]
    pub identification: Identification,
    /// Enables shared ports: all copies have those of the first and differ by SSRC.
    ///
    /// RTP streams of one socket are of this form; needs `header = "rtp"`.
    #[serde(default)]
    pub shared_ports: bool,
    /// Larger refresh datagrams in place of some, as a header compressor in unidirectional mode sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<Refresh>,
}

impl Udp {
    /// Returns the configuration of a source element that sends `count` such flows from `start` on.
    pub fn source(&self, start: Span, stop: Option<Span>, count: u16) -> SourceConfig {
        SourceConfig {
            header: self.header,
            count,
            spread: self.spread,
            start,
            stop,
            packets: self.packets,
            dscp: self.dscp,
            identification: self.identification,
            shared_ports: self.shared_ports,
            refresh: self.refresh,
            ..SourceConfig::new(self.pattern, self.payload)
        }
    }
}

impl Udp {
    /// Returns the mean payload, with refreshes at their final distance.
    fn mean_payload(&self) -> Bytes {
        let Some(Refresh { payload, every }) = self.refresh else { return self.payload };
        let every = every.max(1);
        let all = u128::from(self.payload.get()) * u128::from(every - 1) + u128::from(payload.get());
        Bytes::new((all / u128::from(every)) as u64)
    }

    /// Returns the voice packets that `bentpipe rtp` sends in its place.
    fn real_voice(&self, interval: Span) -> Result<RealTraffic, &'static str> {
        let header = Header::Rtp.len_bytes() as u64;
        let inside = |payload: Bytes| payload.get().checked_sub(header).map(Bytes::new);
        let too_short = "RTP has a header of 12 B, which its payload has no room for";
        let payload = inside(self.payload).ok_or(too_short)?;
        let refresh = match self.refresh {
            Some(refresh) => Some((inside(refresh.payload).ok_or(too_short)?, refresh.every)),
            None => None,
        };
        Ok(RealTraffic::Voice {
            payload,
            interval,
            refresh,
            clock_hz: RTP_CLOCK_HZ,
            packets: self.packets,
            dscp: self.dscp,
            is_spread: self.spread,
            shares_port: self.shared_ports,
        })
    }
}

const fn yes() -> bool {
    true
}

impl TrafficKind for Udp {
    fn dscp(&self) -> Option<u8> {
        Some(self.dscp)
    }

    /// Copies that start together are one element at each end: cheaper, and nothing else differs.
    fn takes(&self) -> FlowTakes {
        FlowTakes { groups: true, copies: Copies::Together, ..FlowTakes::default() }
    }

    fn real(&self, ip: IpVersion) -> Result<RealTraffic, &'static str> {
        let packet = Bytes::new(self.payload.get() + header_len(ip, 8).get());
        let (interval, rate) = match self.pattern {
            Pattern::Constant { interval } => (interval, Rate::of(self.payload, interval)),
            Pattern::ConstantRate { rate } => {
                let [payload, whole] = [self.payload, packet].map(|len| u128::from(len.get()));
                let of_payload = u128::from(rate.as_bps()) * payload / whole.max(1);
                (rate.span_of(packet), Rate::from_bps(of_payload as u64))
            }
            Pattern::Poisson { .. } | Pattern::OnOff { .. } => {
                return Err("no program sends datagrams at random intervals");
            }
        };
        if self.header == Header::Rtp {
            return self.real_voice(interval);
        }
        if self.refresh.is_some() {
            return Err(
                "iperf3 sends datagrams of one length; `bentpipe rtp` has others with `header = \"rtp\"`",
            );
        }
        Ok(RealTraffic::Datagrams { payload: self.payload, rate, packets: self.packets, dscp: self.dscp })
    }

    /// Returns the mean length, refreshes counted.
    fn segment_len(&self) -> Option<u64> {
        Some(self.mean_payload().get() + self.header_len())
    }

    fn lasts(&self) -> Option<Span> {
        let packets = self.packets? as f64;
        let each = match self.pattern {
            Pattern::Constant { interval } => interval.as_secs_f64(),
            Pattern::Poisson { mean_interval } => mean_interval.as_secs_f64(),
            Pattern::ConstantRate { rate } => {
                let bits = 8 * (self.payload.get() + header_len(IpVersion::V4, self.header_len()).get());
                bits as f64 / rate.as_bps().max(1) as f64
            }
            Pattern::OnOff { interval, mean_on, mean_off, law } => {
                (mean_on + mean_off).as_secs_f64() / Pattern::packets_per_burst(interval, mean_on, law)
            }
        };
        Some(Span::from_secs_f64(packets * each))
    }

    fn offered(&self, packet: Bytes) -> Option<Rate> {
        let payload = self.mean_payload();
        Some(match self.pattern {
            Pattern::Constant { interval } => Rate::of(payload, interval),
            Pattern::ConstantRate { rate } => rate.mul_f64(payload.get() as f64 / packet.get().max(1) as f64),
            Pattern::Poisson { mean_interval } => Rate::of(payload, mean_interval),
            Pattern::OnOff { interval, mean_on, mean_off, law } => {
                let packets = Pattern::packets_per_burst(interval, mean_on, law);
                Rate::of(payload, mean_on + mean_off).mul_f64(packets)
            }
        })
    }

    fn sample(&self, ip: IpVersion, copies: u16) -> Option<Sample> {
        sample(&self.source(Span::ZERO, None, copies), ip)
    }

    fn plan(&self, at: &FlowAt<'_>, ground: &mut FlowGround<'_, '_>) -> Result<FlowEnds, Problem> {
        let count = u16::try_from(at.copies)
            .map_err(|_| Problem::new(at.key("count"), "more than 65535 UDP flows"))?;
        let ports = if self.shared_ports { 1 } else { count };
        let datagrams = ground.datagrams(at, Protocol::UDP, port_numbers(self.header, ports))?;
        ground.fit(at, &datagrams, (self.payload, self.header_len()), "payload")?;
        if let Some(refresh) = self.refresh {
            ground.fit(at, &datagrams, (refresh.payload, self.header_len()), "refresh.payload")?;
        }
        let source = Source::new(&self.source(at.start, at.stop, count), endpoints(&datagrams));
        let source = source.map_err(|error| at.impossible("", &error))?;
        let first_port = datagrams.destination.port();
        let sink = SinkConfig { first_port, count, header: self.header, shared_ports: self.shared_ports };
        let ends = counted_apart((source, sink), &datagrams, ground);
        let sender = End { switch: Some(Switch::of::<Source>()), ..ends.sender };
        Ok(FlowEnds { sender, ..ends })
    }
}

/// Returns the ends of datagrams. Copies that one element sends to one receiver have an account each.
fn counted_apart(
    (source, sink): (Source, SinkConfig),
    datagrams: &Datagrams,
    ground: &mut FlowGround<'_, '_>,
) -> FlowEnds {
    let ([receiver], true) = (&datagrams.receivers[..], sink.count > 1) else {
        return datagram_ends(source, sink, datagrams);
    };
    let each: Vec<SubAccount> = (0..sink.count).map(|_| SubAccount::default()).collect();
    let all = ground.account_of(datagrams.sender);
    FlowEnds {
        sender: End::new(source.with_accounts(all, each.clone()), datagrams.sender),
        receivers: vec![End::new(Sink::new(sink).with_accounts(each), *receiver)],
        judges: Vec::new(),
    }
}

/// Returns the packets of a source between example addresses; `None` if a value is impossible.
pub fn sample(config: &SourceConfig, ip: IpVersion) -> Option<Sample> {
    let addresses: [IpAddr; 2] = match ip {
        IpVersion::V4 => [[192, 0, 2, 1].into(), [192, 0, 2, 130].into()],
        IpVersion::V6 => [[0x2001, 0xdb8, 0, 1, 0, 0, 0, 1].into(), [0x2001, 0xdb8, 0, 2, 0, 0, 0, 2].into()],
    };
    let [source, destination] = addresses.map(|address| SocketAddr::new(address, SAMPLE_PORT));
    Some(Sample::new(Source::new(config, Endpoints { source, destination }).ok()?))
}

/// Returns the addresses of datagrams as their source has them.
pub fn endpoints(datagrams: &Datagrams) -> Endpoints {
    Endpoints { source: datagrams.source, destination: datagrams.destination }
}

/// Returns the port numbers of `count` flows whose packets have a header.
pub fn port_numbers(header: Header, count: u16) -> PortNumbers {
    PortNumbers { count, step: header.port_step() }
}

/// Returns the ends of datagrams: a source, and sinks that expect what it sends.
pub fn datagram_ends(source: impl Element + 'static, sink: SinkConfig, datagrams: &Datagrams) -> FlowEnds {
    let receivers = datagrams.receivers.iter().map(|at| End::new(Sink::new(sink), *at)).collect();
    FlowEnds { sender: End::new(source, datagrams.sender), receivers, judges: Vec::new() }
}
