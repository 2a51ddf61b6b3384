//! A source of video over UDP: transport stream packets in datagrams, at a variable rate.

use std::any::Any;

use bentpipe_net::{Cx, Element, InvalidConfig, Observer, Packet, Port};
use bentpipe_transport::app::Template;
use bentpipe_transport::app::metrics as app_metrics;
use bentpipe_transport::app::{Endpoints, Header};
use bentpipe_units::{Bytes, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rates::{RateConfig, Rates};

/// Length in bytes of a transport stream packet (ISO/IEC 13818-1).
pub(super) const TS_PACKET_LEN: u64 = 188;

/// MPEG-2 transport stream packets in UDP datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct SourceConfig {
    /// The rate of the transport stream, without UDP and IP. No default.
    pub rate: RateConfig,
    /// Number of transport stream packets of 188 bytes per datagram. Default: 7.
    #[serde(default = "seven")]
    pub ts_packets: u16,
    /// Header at the start of the payload, by which the receiver detects losses. Default: "rtp".
    #[serde(default = "rtp")]
    pub header: Header,
    /// Differentiated services codepoint, 0 to 63. Default: 0.
    #[serde(default)]
    pub dscp: u8,
}

fn seven() -> u16 {
    7
}

fn rtp() -> Header {
    Header::Rtp
}

impl SourceConfig {
    /// Creates the configuration of video of this rate, with defaults elsewhere.
    pub fn new(rate: RateConfig) -> SourceConfig {
        SourceConfig { rate, ts_packets: seven(), header: rtp(), dscp: 0 }
    }

    /// Returns the UDP payload of one datagram in bytes.
    pub fn payload(&self) -> Bytes {
        Bytes::new(TS_PACKET_LEN * u64::from(self.ts_packets) + self.header.len_bytes() as u64)
    }
}

/// Video source: sends a datagram at port 0 when its transport stream packets are earned. Received packets
/// are ignored.
#[derive(Debug)]
pub struct Source {
    template: Template,
    config: SourceConfig,
    start: Time,
    stop: Time,
    rates: Option<Rates>,
    next: Time,
    sent: u64,
}

impl Source {
    /// Creates a source between `endpoints` that sends from `start` to `stop`.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn new(
        config: &SourceConfig,
        endpoints: Endpoints,
        start: Span,
        stop: Option<Span>,
    ) -> Result<Source, InvalidConfig> {
        InvalidConfig::ensure(config.ts_packets > 0, "ts_packets", "at least 1")?;
        config.rate.check()?;
        let payload_len = config.payload().get() as usize;
        let template = Template::new(endpoints, payload_len, config.header, config.dscp)
            .map_err(|error| if error.key == "payload" { TOO_MANY } else { error })?;
        Ok(Source {
            template,
            config: *config,
            start: Time::ZERO + start,
            stop: stop.map_or(Time::NEVER, |stop| Time::ZERO + stop),
            rates: None,
            next: Time::NEVER,
            sent: 0,
        })
    }

    /// Returns the time of the next complete datagram, or never after the end.
    fn schedule(&mut self, cx: &mut Cx<'_>) -> Time {
        let unit = Bytes::new(TS_PACKET_LEN * u64::from(self.config.ts_packets));
        let next = self.rates.as_mut().map_or(Time::NEVER, |rates| rates.next_unit(unit, cx.stream()));
        if next < self.stop { next } else { Time::NEVER }
    }
}

const TOO_MANY: InvalidConfig = InvalidConfig::new("ts_packets", "at most 345");

impl Element for Source {
    fn receive(&mut self, _port: Port, _packet: Packet, _cx: &mut Cx<'_>) -> Time {
        self.next
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        if self.rates.is_none() {
            self.rates = Rates::new(&self.config.rate, self.start, cx.stream()).ok();
            self.next = self.schedule(cx);
        }
        while self.next <= cx.now() {
            cx.emit(Port(0), self.template.packet(0, self.sent, cx.now()));
            self.sent += 1;
            self.next = self.schedule(cx);
        }
        self.next
    }

    fn forwards(&self, _from: Port, _to: Port) -> bool {
        false
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        let is_on = now >= self.start && !self.next.is_never();
        let rate = self.rates.as_ref().filter(|_| is_on).map_or(0.0, |rates| rates.rate().as_bps() as f64);
        observer.counter(&app_metrics::SENT, self.sent);
        observer.counter(&app_metrics::SENT_BYTES, self.sent * self.template.packet_len() as u64);
        observer.gauge(&app_metrics::RATE, rate);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_net::testing::Harness;
    use bentpipe_units::Rate;

    fn ends() -> Endpoints {
        let address = |text: &str| text.parse().expect("an address");
        Endpoints { source: address("10.0.0.1:5000"), destination: address("10.0.0.2:6000") }
    }

    fn constant(mbit: u64) -> RateConfig {
        RateConfig::new(Rate::from_bps(mbit * 1_000_000), Rate::default())
    }

    #[test]
    fn a_constant_rate_is_kept_exactly() {
        let source = Source::new(&SourceConfig::new(constant(5)), ends(), Span::from_secs(1), None);
        let mut rig = Harness::new(source.expect("possible"));
        rig.run_until(11_000_000_000);
        // Datagram n is complete after n * 1316 * 8 bits at 5 Mbit/s.
        let due = |n: u64| 1_000_000_000 + (n * 1316 * 8 * 1000).div_ceil(5);
        let times: Vec<u64> = rig.times().iter().map(|(at, _)| *at).collect();
        assert_eq!(times, (1..=times.len() as u64).map(due).collect::<Vec<u64>>());
        assert_eq!(times.len(), 10 * 5_000_000 / (1316 * 8));
        assert!(rig.times().iter().all(|(_, len)| *len == 1316 + 12 + 28));
        assert_eq!(rig.value("rate"), 5e6);
    }

    #[test]
    fn sending_ends() {
        let rate = RateConfig {
            programmes: 4,
            ..RateConfig::new(Rate::from_bps(5_000_000), Rate::from_bps(5_000_000))
        };
        let source = Source::new(&SourceConfig::new(rate), ends(), Span::ZERO, Some(Span::from_secs(2)));
        let mut rig = Harness::new(source.expect("possible"));
        rig.run_until(5_000_000_000);
        let last = rig.times().last().expect("some").0;
        assert!(last < 2_000_000_000 && last > 1_950_000_000, "{last}");
        assert_eq!(rig.value("rate"), 0.0);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let key = |config: SourceConfig| {
            Source::new(&config, ends(), Span::ZERO, None).err().map(|error| error.key)
        };
        let fine = SourceConfig::new(constant(5));
        assert_eq!(key(fine), None);
        assert_eq!(key(SourceConfig { ts_packets: 0, ..fine }), Some("ts_packets"));
        assert_eq!(key(SourceConfig { ts_packets: 346, ..fine }), Some("ts_packets"));
        assert_eq!(key(SourceConfig { rate: constant(16), ..fine }), Some("mean"));
        assert_eq!(key(SourceConfig { rate: constant(0), ..fine }), Some("mean"));
        let far = RateConfig::new(Rate::from_bps(30_000_000), Rate::from_bps(5_000_000));
        assert_eq!(key(SourceConfig { rate: far, ..fine }), Some("mean"));
        assert_eq!(
            key(SourceConfig { rate: RateConfig { hurst: 1.0, ..constant(5) }, ..fine }),
            Some("hurst")
        );
        let short = RateConfig { longest: Span::from_millis(10), ..constant(5) };
        assert_eq!(key(SourceConfig { rate: short, ..fine }), Some("longest"));
    }
}
