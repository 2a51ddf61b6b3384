//! Configuration of one end of a TCP connection.

use bentpipe_cc::{Connection, ControllerConfig, rtt};
use bentpipe_net::InvalidConfig;
use bentpipe_site::Opener;
use bentpipe_units::{Bytes, Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Retransmission timer after partial ACKs in New Reno's fast recovery. RFC 6582, section 4. Not used with
/// SACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PartialAcks {
    /// Only the first restarts it. After many losses the timer fires, and slow start takes over.
    #[default]
    Impatient,
    /// Each restarts it: one loss is repaired in a round trip, however many there are.
    SlowButSteady,
}

/// Treatment of an unused congestion window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WindowValidation {
    /// The window is kept, and grows with every ACK, used or not.
    Keep,
    /// Idle for an RTO, it falls to the restart window (RFC 5681 4.1). It grows only when it was filled.
    #[default]
    Restart,
    /// The window is halved for every idle RTO (RFC 2861). It grows only when it was filled.
    Decay,
    /// The window is kept for 5 minutes, and grows only if half is used.
    ///
    /// After a loss the window starts from the part that was used (RFC 7661).
    Validate,
}

/// Relation of the receive buffer to the advertised window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ReceiveBuffer {
    /// Buffer of the given size, all of it advertised.
    Exact(Bytes),
    /// Linux's accounting of a socket buffer: see [`LinuxBuffer`].
    Linux(LinuxBuffer),
}

/// Linux's receive buffer. The memory is twice `SO_RCVBUF`, a part of it is advertised, and that part grows
/// as segments arrive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LinuxBuffer {
    /// The value given to `SO_RCVBUF`.
    pub rcvbuf: Bytes,
    /// `tcp_adv_win_scale`: all but 1/2^this of the memory is offered. 2 until Linux 2.6 and thereabouts, then 1.
    pub adv_win_scale: u8,
    /// Memory that one segment takes, its bookkeeping included; unset: no more than is accounted for. Where
    /// payload fills less of it than the offered part of the memory, the window stops growing early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment_memory: Option<Bytes>,
}

/// TCP endpoint, by default according to the RFCs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Config {
    /// Slow start and window law, by name or with parameters.
    pub controller: ControllerConfig,
    /// End that opens the connection.
    #[serde(skip_serializing_if = "is_default")]
    pub opened_by: Opener,
    /// Rate requested from routers with the SYN (Quick-Start, RFC 4782), with headers.
    ///
    /// It is rounded up to the next of the sixteen codes. The receiving end requests none. Default: no
    /// request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quick_start: Option<Rate>,
    /// Maximum segment size announced: the path's MTU less 40 (IPv4) or 60 (IPv6). With timestamps a segment
    /// carries 12 bytes less than that.
    pub mss: Bytes,
    /// Initial window in segments: 1 to 10 (RFC 5681, RFC 3390, RFC 6928).
    pub initial_window: u32,
    /// Slow start threshold at the start; unset: as high as can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_ssthresh: Option<Bytes>,
    /// Send buffer: maximum of written and unacknowledged bytes. It bounds the window too.
    pub send_buffer: Bytes,
    /// Receive buffer.
    pub receive_buffer: ReceiveBuffer,
    /// Offer window scaling (RFC 7323).
    pub window_scaling: bool,
    /// Offer timestamps (RFC 7323): an RTT sample with every ACK, and protection against wrapped numbers.
    pub timestamps: bool,
    /// Tick of the timestamp clock (RFC 7323: 1 ms to 1 s).
    pub timestamp_granularity: Span,
    /// Offer selective acknowledgements (RFC 2018); with them recovery is RFC 6675's, else RFC 6582's.
    pub sack: bool,
    /// Report duplicate data (RFC 2883).
    pub dsack: bool,
    /// Offer explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Hold a small segment back while data is outstanding (RFC 9293 3.7.4).
    pub nagle: bool,
    /// Number of segments per ACK (RFC 5681 4.2: 2).
    pub ack_every: u32,
    /// Longest time that an ACK waits for more data (RFC 9293: under 0.5 s).
    pub ack_delay: Span,
    /// Acknowledge each of the first segments, and those after a pause, as Linux does.
    pub quick_acks: bool,
    /// Retransmission timeout (RFC 6298).
    pub rto: rtt::Params,
    /// Weigh the RTT samples of a round trip as one (RFC 7323 appendix G).
    pub rtt_per_round: bool,
    /// Send a new segment for each of the first two duplicate ACKs (RFC 3042).
    pub limited_transmit: bool,
    /// Duplicate ACKs, or segments acknowledged above a hole, that indicate a loss (RFC 5681: 3).
    pub dup_ack_threshold: u32,
    /// Retransmission timer after partial ACKs, without SACK.
    pub partial_acks: PartialAcks,
    /// Treat all data well below the highest SACK as lost (FACK, Linux until 4.15).
    ///
    /// RFC 6675 requires enough SACKed data above it.
    pub fack: bool,
    /// Reduce the window in proportion to delivered data (RFC 6937), not in one step.
    pub prr: bool,
    /// Repeat a lost retransmission when later data is SACKed, as Linux does. Otherwise the timer repeats it.
    pub detect_lost_retransmissions: bool,
    /// Detect spurious timeouts by two new segments (F-RTO, RFC 5682), and undo them.
    pub frto: bool,
    /// Find out by timestamps whether a retransmission was spurious (Eifel, RFC 3522), and undo it.
    pub eifel: bool,
    /// Treatment of an unused congestion window.
    pub window_validation: WindowValidation,
    /// Most segments sent for one ACK; unset: as many as the window allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_burst: Option<u32>,
    /// Number of SYN retransmissions before the connection fails.
    pub syn_retries: u32,
    /// Number of retransmissions by the timer, or window probes, before the connection fails.
    pub retries: u32,
    /// Maximum segment lifetime; TIME-WAIT lasts two of them (RFC 9293 3.4.1).
    pub msl: Span,
    /// Initial sequence number; unset: random.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_sequence: Option<u32>,
}

fn is_default(opener: &Opener) -> bool {
    *opener == Opener::default()
}

/// The largest TCP window, 65535 shifted by 14 (RFC 7323 2.3), keeps sequence numbers unambiguous.
const MAX_BUFFER: u64 = 1 << 30;

impl Config {
    /// Returns the facts for a controller of a connection with segments of `smss` bytes.
    pub(super) fn connection(&self, smss: u32, initial_window: u32) -> Connection {
        Connection {
            smss,
            initial_window_segments: initial_window.max(1),
            initial_ssthresh: self.initial_ssthresh.map_or(u64::MAX, Bytes::get),
            max_window: self.send_buffer.get().max(u64::from(smss)),
        }
    }

    /// Checks that a connection can be built from the configuration.
    ///
    /// # Errors
    /// Returns an error that names the first invalid value.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let (mss, send_buffer) = (self.mss.get(), self.send_buffer.get());
        InvalidConfig::ensure((64..=65_495).contains(&mss), "mss", "64 B to 65495 B")?;
        InvalidConfig::ensure(
            (1..=1000).contains(&self.initial_window),
            "initial_window",
            "1 to 1000 segments",
        )?;
        InvalidConfig::ensure(
            send_buffer >= mss && send_buffer <= MAX_BUFFER,
            "send_buffer",
            "a segment to 1 GiB",
        )?;
        self.receive_buffer.check()?;
        let tick = self.timestamp_granularity;
        let ticks = Span::from_micros(1)..=Span::from_secs(1);
        InvalidConfig::ensure(ticks.contains(&tick), "timestamp_granularity", "1 us to 1 s")?;
        InvalidConfig::ensure(self.ack_every >= 1, "ack_every", "1 or more")?;
        InvalidConfig::ensure(self.dup_ack_threshold >= 1, "dup_ack_threshold", "1 or more")?;
        InvalidConfig::ensure(self.max_burst != Some(0), "max_burst", "1 or more")?;
        let rto = &self.rto;
        InvalidConfig::ensure(!rto.initial.is_zero() && rto.initial <= rto.max, "rto", "0 < initial <= max")
    }
}

impl ReceiveBuffer {
    fn check(&self) -> Result<(), InvalidConfig> {
        let (key, size, scale) = match self {
            ReceiveBuffer::Exact(size) => ("receive_buffer", *size, 1),
            ReceiveBuffer::Linux(linux) => ("receive_buffer.rcvbuf", linux.rcvbuf, linux.adv_win_scale),
        };
        InvalidConfig::ensure((1..=MAX_BUFFER).contains(&size.get()), key, "1 B to 1 GiB")?;
        InvalidConfig::ensure((1..=31).contains(&scale), "receive_buffer.adv_win_scale", "1 to 31")
    }
}

impl Default for LinuxBuffer {
    fn default() -> LinuxBuffer {
        LinuxBuffer { rcvbuf: Bytes::new(65_536), adv_win_scale: 2, segment_memory: None }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            controller: ControllerConfig::default(),
            opened_by: Opener::default(),
            quick_start: None,
            mss: Bytes::new(1460),
            initial_window: 10,
            initial_ssthresh: None,
            send_buffer: Bytes::new(16_000_000),
            receive_buffer: ReceiveBuffer::Exact(Bytes::new(16_000_000)),
            window_scaling: true,
            timestamps: true,
            timestamp_granularity: Span::from_millis(1),
            sack: true,
            dsack: false,
            ecn: false,
            nagle: true,
            ack_every: 2,
            ack_delay: Span::from_millis(200),
            quick_acks: false,
            rto: rtt::Params::RFC6298,
            rtt_per_round: false,
            limited_transmit: true,
            dup_ack_threshold: 3,
            partial_acks: PartialAcks::default(),
            fack: false,
            prr: false,
            detect_lost_retransmissions: false,
            frto: false,
            eifel: false,
            window_validation: WindowValidation::default(),
            max_burst: None,
            syn_retries: 6,
            retries: 15,
            msl: Span::from_secs(60),
            initial_sequence: None,
        }
    }
}
