//! Cells, stations and service flows as scenarios have them.

use bentpipe_net::InvalidConfig;
use bentpipe_net::queue::Discipline;
use bentpipe_units::{Bytes, Span};
use bentpipe_wire::wman::phs::{INDEX_LEN, MAX_SIZE};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::air::Record;
use super::phy::{Bandwidth, Guard, Phy, Profile};

/// Duplexing of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Duplex {
    /// Downlink and uplink at the same time on two frequencies.
    #[default]
    Fdd,
    /// Downlink, then uplink, on one frequency.
    Tdd,
}

/// Scheduler of a cell, among connections of the same service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// Equal shares of the frame, at least one packet each in turn, then the rest.
    #[default]
    RoundRobin,
    /// Largest ratio of the profile's rate to the rate served until now first.
    ProportionalFair,
    /// Earliest deadline first: arrival or request plus `latency`.
    Deadline,
}

/// Convergence sublayer: form of a packet in the MAC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Convergence {
    /// IP packets as they are.
    #[default]
    Ip,
    /// Ethernet frames with header and FCS, padded to 64 bytes.
    Ethernet,
    /// Ethernet frames without their FCS.
    EthernetWithoutFcs,
}

impl Convergence {
    /// Returns the length in bytes of the SDU of an IP packet.
    pub const fn sdu_len(self, packet: usize) -> usize {
        let padded = if packet < 46 { 46 } else { packet };
        match self {
            Convergence::Ip => packet,
            Convergence::Ethernet => padded + 18,
            Convergence::EthernetWithoutFcs => padded + 14,
        }
    }

    /// Returns the SDU of an IP packet. Frames of Ethernet have zeros for addresses, padding and FCS.
    pub(super) fn sdu(self, packet: &[u8]) -> Vec<u8> {
        let mut sdu = Vec::with_capacity(self.sdu_len(packet.len()));
        if self != Convergence::Ip {
            let is_version_6 = packet.first().is_some_and(|first| first >> 4 == 6);
            sdu.extend([0; 12]);
            sdu.extend(if is_version_6 { [0x86, 0xdd] } else { [0x08, 0x00] });
        }
        sdu.extend_from_slice(packet);
        sdu.resize(self.sdu_len(packet.len()), 0);
        sdu
    }
}

/// Cell: a base station's channel, its frame and its MAC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Cell {
    /// Channel bandwidth. Default: 3.5 MHz.
    pub bandwidth: Bandwidth,
    /// Guard time of a symbol. Default: a quarter.
    pub guard: Guard,
    /// Duration of a frame: 2.5, 4, 5, 8, 10, 12.5 or 20 ms. Default: 5 ms.
    pub frame: Span,
    /// Duplexing.
    pub duplex: Duplex,
    /// Share of the symbols of a TDD frame that are downlink. Default: a half.
    #[schemars(range(min = 0.05, max = 0.95))]
    pub downlink_share: f64,
    /// Gap between the downlink and the uplink of a TDD frame, and after it. Default: 100 us.
    pub gap: Span,
    /// Burst profile of the FCH's first burst, which has maps and descriptors.
    pub map_profile: Profile,
    /// Interval of the channel descriptors. Default: 3 s.
    pub descriptor_interval: Span,
    /// Symbols for initial ranging in each uplink frame. Default: 8.
    #[schemars(range(max = 500))]
    pub ranging_symbols: u32,
    /// Contention slots for requests in each uplink frame, of two symbols. Default: 4.
    #[schemars(range(min = 1, max = 200))]
    pub request_slots: u32,
    /// First and last window of the requests' backoff, as powers of two. Default: 3 and 6.
    pub request_backoff: [u8; 2],
    /// Number of requests by contention after which a packet is dropped. Default: 16.
    #[schemars(range(min = 1))]
    pub request_attempts: u32,
    /// Wait for a grant after a request (T16). Default: 100 ms.
    pub grant_timeout: Span,
    /// Enables piggyback requests in uplink bursts.
    pub piggyback: bool,
    /// Enables fragments of packets.
    pub fragmentation: bool,
    /// Enables several packets in a PDU.
    pub packing: bool,
    /// Enables the CRC-32 of PDUs.
    pub crc: bool,
    /// Convergence sublayer.
    pub convergence: Convergence,
    /// Scheduler of downlink and uplink.
    pub scheduler: Scheduler,
    /// Margins in dB above a profile's SNR threshold, to enter and to leave it. Default: 2 and 1.
    pub margins: [f64; 2],
    /// Frames to be recorded: a capture of their bursts and a picture of their maps. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<Record>,
}

impl Default for Cell {
    fn default() -> Cell {
        Cell {
            bandwidth: Bandwidth::kilohertz(3500),
            guard: Guard::Quarter,
            frame: Span::from_millis(5),
            duplex: Duplex::Fdd,
            downlink_share: 0.5,
            gap: Span::from_micros(100),
            map_profile: Profile::Bpsk12,
            descriptor_interval: Span::from_secs(3),
            ranging_symbols: 8,
            request_slots: 4,
            request_backoff: [3, 6],
            request_attempts: 16,
            grant_timeout: Span::from_millis(100),
            piggyback: true,
            fragmentation: true,
            packing: false,
            crc: true,
            convergence: Convergence::Ip,
            scheduler: Scheduler::RoundRobin,
            margins: [2.0, 1.0],
            record: None,
        }
    }
}

impl Cell {
    /// Checks the values and returns the arithmetic of the channel.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn phy(&self) -> Result<Phy, InvalidConfig> {
        let phy = Phy::new(self.bandwidth, self.guard, self.frame)?;
        let ensure = InvalidConfig::ensure;
        ensure((0.05..=0.95).contains(&self.downlink_share), "downlink_share", "0.05 to 0.95")?;
        ensure(self.gap * 2 < self.frame, "gap", "less than half a frame")?;
        ensure((1..=200).contains(&self.request_slots), "request_slots", "1 to 200")?;
        ensure(self.ranging_symbols <= 500, "ranging_symbols", "at most 500")?;
        let [first, last] = self.request_backoff;
        ensure(first <= last && last <= 15, "request_backoff", "two powers of two in order, at most 15")?;
        ensure(self.request_attempts > 0, "request_attempts", "at least 1")?;
        ensure(!self.descriptor_interval.is_zero(), "descriptor_interval", "more than zero")?;
        self.record.map_or(Ok(()), |record| record.check())?;
        ensure(self.margins.iter().all(|margin| margin.is_finite()), "margins", "two numbers")?;
        Ok(phy)
    }
}

/// Service of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// Unsolicited grants of `sdu` each `interval`.
    Ugs,
    /// Unsolicited grants whose size follows requests.
    ErtPs,
    /// Polls for requests each `interval`.
    RtPs,
    /// Polls each `interval`, and contention.
    NrtPs,
    /// Contention.
    #[default]
    Be,
}

impl Service {
    /// Returns `true` if the base station grants or polls without being asked.
    pub const fn is_periodic(self) -> bool {
        !matches!(self, Service::Be)
    }

    /// Returns `true` if requests may use contention slots.
    pub const fn contends(self) -> bool {
        matches!(self, Service::Be | Service::NrtPs)
    }
}

/// Content of a UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Payload {
    /// RTP: version 2, and no type of RTCP.
    Rtp,
    /// RTCP: version 2, and a type from 192 to 223.
    Rtcp,
}

/// Service flow: a connection, and the packets that it takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServiceFlow {
    /// Service.
    pub service: Service,
    /// Interval of grants or polls. Default: 20 ms, of nrtPS 1 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Span>,
    /// IP packet that a grant of UGS carries; initial grant of ertPS. Default: 200 B.
    pub sdu: Bytes,
    /// Slip indicator of UGS: a queue that grows gets up to 1 % more grants. Default: false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub slip_indicator: bool,
    /// Latency aim, which the deadline scheduler uses. Default: 100 ms.
    pub latency: Span,
    /// DSCPs of its packets. Default: all packets that no flow before it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<Vec<u8>>,
    /// Ranges of UDP and TCP ports, as [first, last]. One of them has either port of a packet. Default: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<[u16; 2]>>,
    /// RTP or RTCP, by the first two bytes of a UDP datagram. Default: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
    /// Payload header suppression. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phs: Option<Phs>,
    /// Robust header compression of IP packets. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rohc: Option<Rohc>,
    /// Automatic repeat request. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arq: Option<Arq>,
}

impl Default for ServiceFlow {
    fn default() -> ServiceFlow {
        let (service, latency) = (Service::Be, Span::from_millis(100));
        ServiceFlow {
            service,
            interval: None,
            sdu: Bytes::new(200),
            slip_indicator: false,
            latency,
            dscp: None,
            ports: None,
            payload: None,
            phs: None,
            rohc: None,
            arq: None,
        }
    }
}

impl ServiceFlow {
    /// Returns the interval of grants or polls.
    pub fn interval(&self) -> Span {
        let usual = if self.service == Service::NrtPs { Span::from_secs(1) } else { Span::from_millis(20) };
        self.interval.unwrap_or(usual)
    }

    /// Checks the values.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        InvalidConfig::ensure(self.interval() >= Span::from_millis(1), "interval", "at least 1 ms")?;
        InvalidConfig::ensure((1..=2000).contains(&self.sdu.get()), "sdu", "1 to 2000 bytes")?;
        let has_grants = self.service == Service::Ugs || !self.slip_indicator;
        InvalidConfig::ensure(
            has_grants,
            "slip_indicator",
            "false: other services than \"ugs\" ask for more",
        )?;
        let fits = self.dscp.iter().flatten().all(|dscp| *dscp < 64);
        InvalidConfig::ensure(fits, "dscp", "DSCPs from 0 to 63")?;
        let ordered = self.ports.iter().flatten().all(|[first, last]| first <= last);
        InvalidConfig::ensure(ordered, "ports", "ranges of ports like [16384, 16385]")?;
        self.phs.iter().try_for_each(|phs| phs.check().map_err(|error| error.inside("phs")))?;
        InvalidConfig::ensure(self.phs.is_none() || self.rohc.is_none(), "rohc", "none, or `phs` left out")?;
        self.rohc.iter().try_for_each(|rohc| rohc.check().map_err(|error| error.inside("rohc")))?;
        self.arq.iter().try_for_each(|arq| arq.check().map_err(|error| error.inside("arq")))
    }

    /// Returns the length in bytes of an SDU on the air, its header suppressed.
    pub(super) fn sent_len(&self, sdu: usize) -> usize {
        self.phs.as_ref().map_or(sdu, |phs| phs.sent_len(sdu))
    }
}

/// Payload header suppression: bytes that are not sent, as the other end knows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Phs {
    /// Ranges of suppressed bytes of the SDU in order, by first and last byte.
    pub bytes: Vec<[u8; 2]>,
    /// Maximum number of rules, each for one value of those bytes. Default: 16.
    #[serde(default = "most_rules")]
    #[schemars(range(min = 1))]
    pub rules: u8,
}

const fn most_rules() -> u8 {
    16
}

impl Phs {
    /// Checks the values.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let mut next = 0;
        let ordered = self.bytes.iter().all(|[first, last]| {
            let fits = usize::from(*first) >= next && last >= first && usize::from(*last) < MAX_SIZE;
            next = usize::from(*last) + 1;
            fits
        });
        let expected = "ranges like [12, 19], in order, without overlap and below byte 255";
        InvalidConfig::ensure(ordered && !self.bytes.is_empty(), "bytes", expected)?;
        InvalidConfig::ensure(self.rules > 0, "rules", "at least 1 rule")
    }

    /// Returns the length in bytes of the header that rules describe.
    pub(super) fn size(&self) -> usize {
        self.bytes.last().map_or(0, |[_, last]| usize::from(*last) + 1)
    }

    /// Returns the number of bytes that a rule suppresses.
    fn saved(&self) -> usize {
        self.bytes.iter().map(|[first, last]| usize::from(last.saturating_sub(*first)) + 1).sum()
    }

    /// Returns the length in bytes of index and SDU. A rule matches if the header is whole.
    pub(super) fn sent_len(&self, sdu: usize) -> usize {
        let saved = if sdu < self.size() { 0 } else { self.saved() };
        INDEX_LEN + sdu.saturating_sub(saved)
    }
}

/// Automatic repeat request: blocks that are sent again until the receiver has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Arq {
    /// Length of a block: 16 to 1024 B. The last one of a packet may be shorter. Default: 64 B.
    pub block: Bytes,
    /// Number of blocks that may be without acknowledgement: 1 to 1024. Default: 512.
    #[schemars(range(min = 1, max = 1024))]
    pub window: u16,
    /// Wait for an acknowledgement before a block is sent again. Default: 100 ms.
    pub retry: Span,
    /// Time from the first transmission after which a packet is given up; 0: never. Default: 1 s.
    pub lifetime: Span,
    /// Enables delivery in the order of sending: packets wait for those before them. Default: true.
    pub in_order: bool,
}

impl Default for Arq {
    fn default() -> Arq {
        Arq {
            block: Bytes::new(64),
            window: 512,
            retry: Span::from_millis(100),
            lifetime: Span::from_secs(1),
            in_order: true,
        }
    }
}

impl Arq {
    /// Checks the values.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let ensure = InvalidConfig::ensure;
        ensure((16..=1024).contains(&self.block.get()), "block", "16 to 1024 bytes")?;
        ensure((1..=1024).contains(&self.window), "window", "1 to 1024 blocks")?;
        // Timers have 16 bits in units of 10 us.
        let most = Span::from_micros(655_350);
        ensure(!self.retry.is_zero() && self.retry <= most, "retry", "more than zero, at most 655.35 ms")?;
        let fits = self.lifetime.is_zero() || self.lifetime >= self.retry;
        ensure(fits && self.lifetime <= Span::from_secs(60), "lifetime", "0, or `retry` to 60 s")
    }
}

/// Robust header compression of a service flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rohc {
    /// Mode. Feedback goes with the first service flow of the other direction that has `rohc`. Default: "unidirectional".
    pub mode: RohcMode,
    /// Number of contexts, one for each flow of packets: 1 to 16384. More than 16 take large CIDs. Default: 16.
    #[schemars(range(min = 1, max = 16384))]
    pub contexts: u16,
    /// Number of packets in which a change is repeated. Default: 4.
    #[schemars(range(min = 1, max = 16))]
    pub repeats: u8,
    /// Number of packets after which a header is sent whole, unidirectional. Default: 1700.
    #[schemars(range(min = 1))]
    pub refresh: u32,
    /// Version of the profiles. Default: "v1".
    pub version: RohcVersion,
}

/// Mode of header compression (RFC 3095, section 4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RohcMode {
    /// No feedback: headers are refreshed.
    #[default]
    Unidirectional,
    /// Feedback of errors, and acknowledgements now and then.
    Optimistic,
    /// Acknowledgements of each change.
    Reliable,
}

/// Version of the profiles of header compression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RohcVersion {
    /// RFC 3095 and its successors.
    #[default]
    V1,
    /// RFC 5225, and TCP.
    V2,
}

impl Default for Rohc {
    fn default() -> Rohc {
        let (mode, version) = (RohcMode::default(), RohcVersion::default());
        Rohc { mode, contexts: 16, repeats: 4, refresh: 1700, version }
    }
}

impl Rohc {
    /// Checks the values.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let ensure = InvalidConfig::ensure;
        ensure((1..=16_384).contains(&self.contexts), "contexts", "1 to 16384")?;
        ensure((1..=16).contains(&self.repeats), "repeats", "1 to 16")?;
        ensure(self.refresh > 0, "refresh", "at least 1 packet")
    }
}

/// Radio of a subscriber station.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Radio {
    /// SNR of downlink and uplink in dB. Default: 30 dB each, on which nothing is lost.
    #[schemars(extend("x-change" = true))]
    pub snr: [f64; 2],
    /// Burst profiles of downlink and uplink. Default: by SNR.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<[Profile; 2]>,
    /// Fading. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fading: Option<Fading>,
    /// Packets per second that the station forwards in each direction. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub packet_rate: Option<u32>,
    /// Packets that wait for the station's processor before others are dropped. Default: 256.
    #[schemars(range(min = 1))]
    pub ring: u32,
}

impl Default for Radio {
    fn default() -> Radio {
        Radio { snr: [30.0, 30.0], profile: None, fading: None, packet_rate: None, ring: 256 }
    }
}

impl Radio {
    /// Checks the values.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let ensure = InvalidConfig::ensure;
        ensure(self.snr.iter().all(|snr| (-30.0..=80.0).contains(snr)), "snr", "two values of -30 to 80 dB")?;
        let rate = self.packet_rate.is_none_or(|rate| (1..=10_000_000).contains(&rate));
        ensure(rate, "packet_rate", "1 to 10000000 packets/s")?;
        ensure(self.ring > 0, "ring", "at least 1 packet")?;
        let carried = self.profile.iter().flat_map(|profiles| profiles.iter().zip(self.snr));
        let fits = carried.into_iter().all(|(profile, snr)| profile.block_error(snr) <= 0.5);
        ensure(fits, "profile", "profiles that the SNR carries: half of their blocks would be lost")?;
        self.fading.iter().try_for_each(|fading| fading.check().map_err(|error| error.inside("fading")))
    }
}

/// Flat Rician fading, the same for both directions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fading {
    /// Ratio of the constant to the scattered power. 0 is Rayleigh fading.
    #[schemars(range(min = 0.0, max = 1000.0))]
    pub k: f64,
    /// Doppler spread in Hz: 0.2 to 2.5 for fixed stations.
    #[schemars(range(min = 0.01, max = 100.0))]
    pub doppler: f64,
}

impl Fading {
    fn check(&self) -> Result<(), InvalidConfig> {
        InvalidConfig::ensure((0.0..=1000.0).contains(&self.k), "k", "0 to 1000")?;
        InvalidConfig::ensure((0.01..=100.0).contains(&self.doppler), "doppler", "0.01 to 100 Hz")
    }
}

/// Direction of a link of a cell. Packets enter and leave at its port.
#[derive(Clone, Debug)]
pub struct PathConfig {
    /// Path under which counters are reported: "link/roof/forward".
    pub name: String,
    /// Number of the subscriber station, from 0.
    pub station: usize,
    /// Set if the base station sends.
    pub is_downlink: bool,
    /// Radio of the station.
    pub radio: Radio,
    /// Service flows; without any, all packets are best effort.
    pub flows: Vec<ServiceFlow>,
    /// Queue of each service flow.
    pub queue: Discipline,
    /// Propagation delay.
    pub delay: Span,
    /// Longest IP packet.
    pub mtu: Bytes,
}
