//! Options of `bentpipe rohc`.

use std::path::PathBuf;
use std::time::Duration;

use crate::intake::CountedArgs;
use bentpipe_offline::Error;
use bentpipe_offline::rohc::link::{icv, key};
use bentpipe_offline::rohc::text::{
    RTP_PORTS, Refreshes, burst, duration, mtu, profiles, refreshes, reservation, rtp_ports, threshold,
};
use bentpipe_offline::rohc::{
    ImpairmentConfig, Outputs, Reservation, RohcLink, Scheme, SchemeConfig, Sending,
};
use bentpipe_rohc::{
    Channel, CidSpace, Compatibility, CompressorConfig, DecompressorConfig, Mode, Profiles, ReorderRatio,
    RtpRule,
};
use bentpipe_wire::rohc::esp::Icv;
use bentpipe_wire::rohc::pdcp::SnLen;
use clap::{Args, ValueEnum};

use crate::common::share;

/// Parameters agreed on by both ends of a channel.
#[derive(Debug, Args)]
pub(crate) struct ChannelArgs {
    /// CID space: small CIDs take no octet or one, large CIDs one or two
    #[arg(long, value_enum, default_value_t = Cid::Small)]
    cid: Cid,
    /// Number of contexts [default: 16 for small CIDs, 16384 for large]
    #[arg(long, value_name = "N", conflicts_with = "max_cid")]
    contexts: Option<u16>,
    /// Highest CID, the earlier form of --contexts less one
    #[arg(long, value_name = "N", hide = true)]
    max_cid: Option<u16>,
    /// Profiles: v1, v2, or a list of names or numbers such as "rtp,udp,0x0006"
    #[arg(long, value_name = "LIST", default_value = "v1", value_parser = profiles)]
    profiles: Profiles,
    /// Largest unit that is reassembled from segments, in bytes with its CRC-32; 0: no segmentation
    #[arg(long, value_name = "N", default_value_t = 0)]
    mrru: u32,
    /// Mode that contexts are brought to; u, o and r for short
    #[arg(long, value_enum, default_value_t = ModeName::Unidirectional)]
    mode: ModeName,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Cid {
    Small,
    Large,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeName {
    #[value(alias = "u")]
    Unidirectional,
    #[value(alias = "o")]
    Optimistic,
    #[value(alias = "r")]
    Reliable,
}

impl ChannelArgs {
    /// The channel.
    ///
    /// # Errors
    /// If the highest CID does not fit the CID space.
    pub(super) fn channel(&self) -> Result<Channel, String> {
        let space = if matches!(self.cid, Cid::Small) { CidSpace::SMALL } else { CidSpace::LARGE };
        let highest = space.max_cid();
        if let Some(contexts) = self.contexts.filter(|contexts| !(1..=highest + 1).contains(contexts)) {
            return Err(format!("--contexts: expected 1 to {} with these CIDs, got {contexts}", highest + 1));
        }
        let max_cid = self.contexts.map(|contexts| contexts - 1).or(self.max_cid).unwrap_or(highest);
        if max_cid > highest {
            return Err(format!("--max-cid {max_cid} is above {highest}, the highest CID of this CID space"));
        }
        let cids = match self.cid {
            Cid::Small => CidSpace::Small { max_cid: max_cid as u8 },
            Cid::Large => CidSpace::Large { max_cid },
        };
        Ok(Channel { cids, profiles: self.profiles, mrru_bytes: self.mrru })
    }

    pub(super) fn mode(&self) -> Mode {
        match self.mode {
            ModeName::Unidirectional => Mode::Unidirectional,
            ModeName::Optimistic => Mode::Optimistic,
            ModeName::Reliable => Mode::Reliable,
        }
    }
}

/// Scheme before ROHC.
#[derive(Debug, Args)]
pub(crate) struct SchemeArgs {
    /// Scheme before ROHC, in frames of PPP. Of the options for ROHC it has --contexts [default: 256]
    #[arg(long, value_enum)]
    pub(super) scheme: Option<SchemeName>,
    /// Maximum number of compressed headers between full ones of IPHC and CRTP
    #[arg(long, value_name = "N", default_value_t = 256, requires = "scheme", value_parser = clap::value_parser!(u16).range(1..))]
    max_period: u16,
    /// Maximum time between full headers of IPHC and CRTP
    #[arg(long, value_name = "TIME", default_value = "5 s", requires = "scheme", value_parser = duration)]
    max_time: Duration,
}

/// Scheme before ROHC by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SchemeName {
    /// Van Jacobson's: TCP over IPv4 (RFC 1144)
    Vj,
    /// IP header compression: TCP, UDP and IP (RFC 2507)
    Iphc,
    /// Compressed RTP: IP, UDP and RTP, and TCP as with IPHC (RFC 2508)
    Crtp,
}

/// Options of ROHC's channel, by what they are called in clap.
pub(super) const CHANNEL_OF_ROHC: [&str; 5] = ["cid", "max_cid", "profiles", "mrru", "mode"];

impl SchemeArgs {
    /// Returns the settings of both ends, if a scheme before ROHC was given.
    ///
    /// # Errors
    /// Returns an error if there are to be no contexts.
    pub(super) fn config(&self, channel: &ChannelArgs) -> Result<Option<SchemeConfig>, Error> {
        let Some(scheme) = self.scheme else { return Ok(None) };
        let scheme = match scheme {
            SchemeName::Vj => Scheme::VanJacobson,
            SchemeName::Iphc => Scheme::Iphc,
            SchemeName::Crtp => Scheme::Crtp,
        };
        let most = if matches!(scheme, Scheme::VanJacobson) { 256 } else { u16::MAX };
        let contexts = channel.contexts.unwrap_or(256);
        if !(1..=most).contains(&contexts) {
            let expected = format!("--contexts: expected 1 to {most} with this scheme, got {contexts}");
            return Err(Error::Usage(expected));
        }
        Ok(Some(SchemeConfig {
            tcp_contexts: contexts.min(256),
            contexts,
            max_period: self.max_period,
            max_time: self.max_time,
            ..SchemeConfig::new(scheme)
        }))
    }
}

/// Link layer of ROHC packets, and their integrity check.
#[derive(Debug, Args)]
pub(crate) struct LinkArgs {
    /// Link layer of the ROHC packets. Frames of PPP are read without it
    #[arg(long, value_enum, default_value_t = LinkName::User0)]
    link: LinkName,
    /// Key of the integrity check value behind each ROHC packet, in hexadecimal (RFC 5858, HMAC-SHA-256)
    #[arg(long, value_name = "HEX", value_parser = IcvKey::parse, conflicts_with = "mrru")]
    icv_key: Option<IcvKey>,
    /// Length of that value in bytes
    #[arg(long, value_name = "N", default_value_t = 16, requires = "icv_key", value_parser = clap::value_parser!(u16).range(1..=16))]
    icv_len: u16,
}

#[derive(Clone)]
struct IcvKey(Vec<u8>);

impl IcvKey {
    fn parse(text: &str) -> Result<Self, String> {
        key(text).map(Self)
    }
}

impl std::fmt::Debug for IcvKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IcvKey")
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LinkName {
    /// A record is a ROHC packet, of link type USER0
    User0,
    /// Frames of PPP (RFC 3241)
    Ppp,
    /// PDUs of PDCP with sequence numbers of 12 bits, of link type USER0
    Pdcp12,
    /// PDUs of PDCP with sequence numbers of 18 bits, of link type USER0
    Pdcp18,
}

impl LinkArgs {
    pub(super) fn link(&self) -> RohcLink {
        match self.link {
            LinkName::User0 => RohcLink::User0,
            LinkName::Ppp => RohcLink::Ppp,
            LinkName::Pdcp12 => RohcLink::Pdcp(SnLen::Twelve),
            LinkName::Pdcp18 => RohcLink::Pdcp(SnLen::Eighteen),
        }
    }

    pub(super) fn icv(&self) -> Option<Icv> {
        self.icv_key.as_ref().map(|IcvKey(key)| icv(key, self.icv_len))
    }
}

/// Options of the decompressor, except [`DecompressorConfig::verify`].
#[derive(Debug, Args)]
pub(crate) struct DecompressorArgs {
    /// Correct packets required before delivery resumes after losses that may hide a change; 0: none. With 255, or with
    /// a compressor that confirms, only CRC-7 and CRC-8 count
    #[arg(long, value_name = "N", default_value_t = DecompressorConfig::default().caution)]
    caution: u8,
    /// Treat gaps in RTP and ESP numbers, and RTP pauses, as losses of this channel
    #[arg(long)]
    gaps_are_losses: bool,
    /// Maximum number of contexts. Beyond it those of idle flows give way, in U-mode the one unused for longest; in O-
    /// and R-mode further flows go uncompressed where none is idle. 0: as many as CIDs
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_contexts: u16,
    /// Report the longest loss and, with timers, the largest jitter (not in U-mode)
    #[arg(long)]
    report_path: bool,
    /// Do not repair contexts after CRC failures
    #[arg(long)]
    no_repair: bool,
    /// Context damage threshold: K CRC failures among N packets
    #[arg(long, value_name = "K,N", default_value = "3,8", value_parser = threshold)]
    damage_threshold: (u8, u8),
    /// Minimum failing packets between NACKs of a context
    #[arg(long, value_name = "N", default_value_t = DecompressorConfig::default().nack_spacing_packets)]
    nack_spacing: u8,
    /// Resolution of the clock to announce for timer-based RTP timestamps; 0: none (not in U-mode)
    #[arg(long, value_name = "TIME", default_value = "0 ms", value_parser = duration)]
    clock: Duration,
    /// Extensions of UO-1-ID update nothing but sequence number, timestamp and IP-ID (RFC 4815 6.2)
    #[arg(long)]
    strict_uo1id: bool,
}

impl DecompressorArgs {
    /// Returns the configuration of a decompressor for the compressor `peer`. It checks transport checksums if
    /// `verify`.
    ///
    /// # Errors
    /// Returns an error if the highest CID does not fit the CID space.
    pub(super) fn config(
        &self,
        channel: &ChannelArgs,
        peer: Peer,
        verify: bool,
    ) -> Result<DecompressorConfig, Error> {
        Ok(DecompressorConfig {
            repeats: peer.repeats,
            peer_confirms: peer.confirms,
            gaps_are_losses: self.gaps_are_losses,
            channel: channel.channel().map_err(Error::Usage)?,
            mode: channel.mode(),
            verify,
            caution: self.caution,
            max_contexts: self.max_contexts,
            report_path: self.report_path,
            repair: !self.no_repair,
            damage_threshold: self.damage_threshold,
            nack_spacing_packets: self.nack_spacing,
            clock_resolution: self.clock,
            strict_uo1id: self.strict_uo1id,
        })
    }
}

/// Properties of the compressor that its decompressor is configured with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// Number of times a change is sent.
    pub(super) repeats: u8,
    /// Set if it confirms.
    pub(super) confirms: bool,
}

/// Local configuration of the compressor.
#[derive(Debug, Args)]
pub(crate) struct CompressorArgs {
    /// UDP destination ports of RTP: a list such as "5004,16384-32767", "all", "none" or "likely" (heuristic)
    #[arg(long, value_name = "LIST", default_value = RTP_PORTS, value_parser = rtp_ports)]
    rtp_ports: RtpRule,
    /// Refresh periods IR,FO in U-mode, in packets or times ("5 s,1 s"); 0: never
    #[arg(long, value_name = "IR,FO", default_value = "1700,700", value_parser = refreshes)]
    refresh: Refreshes,
    /// Number of times that a change is sent in U- and O-mode, 1 to 16
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=16))]
    repeats: u8,
    /// Number of packets per refresh, 1 to 16
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    refresh_repeats: u8,
    /// Packets between CRC-7 confirmations of the context, up to 32; 0: none
    #[arg(long, value_name = "N", default_value_t = CompressorConfig::default().confirm, value_parser = clap::value_parser!(u8).range(0..=32))]
    confirm: u8,
    /// Lateness of packets that version 2 allows for: 1, 3, 7 or 11
    #[arg(long, value_enum, default_value_t = Reorder::None)]
    reorder: Reorder,
    /// ROHC implementation at the other end; "librohc" avoids headers that librohc refuses
    #[arg(long, alias = "peer", value_enum, default_value_t = PeerName::Standard)]
    compatibility: PeerName,
    /// Send first IR refreshes at growing gaps (1, 2, 4 ... packets)
    #[arg(long)]
    slow_start: bool,
    /// Contexts refresh at different times, not in unison
    #[arg(long)]
    spread: bool,
    /// Only IR packets and those of type 0
    #[arg(long, alias = "only-ir-so")]
    only_ir_and_so: bool,
    /// Send packets longer than N bytes uncompressed; 0: no limit
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    max_packet: u32,
    /// Maximum path jitter for timer-based RTP timestamps, once --clock is announced; 0: never
    #[arg(long, value_name = "TIME", default_value = "0 ms", value_parser = duration)]
    timer_jitter: Duration,
    /// Keep a CID for the flow of the capture's packet NUMBER (repeatable)
    #[arg(long, value_name = "CID=NUMBER", value_parser = reservation)]
    reserve: Vec<Reservation>,
    /// Send constant IP-IDs of RTP, UDP and ESP as random ones (RFC 3095)
    #[arg(long)]
    strict_ip_id: bool,
    /// No context replication (IR-CR) for TCP
    #[arg(long)]
    no_replication: bool,
    /// Maximum length of ROHC segments in bytes; needs --mrru
    #[arg(long, value_name = "BYTES", requires = "mrru", value_parser = mtu)]
    mtu: Option<usize>,
}

/// Share of the sequence numbers that version 2 keeps for late packets.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Reorder {
    None,
    Quarter,
    Half,
    ThreeQuarters,
}

impl Reorder {
    const fn ratio(self) -> ReorderRatio {
        match self {
            Reorder::None => ReorderRatio::None,
            Reorder::Quarter => ReorderRatio::Quarter,
            Reorder::Half => ReorderRatio::Half,
            Reorder::ThreeQuarters => ReorderRatio::ThreeQuarters,
        }
    }
}

/// Implementation at the other end.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum PeerName {
    #[value(alias = "any")]
    Standard,
    Librohc,
}

impl CompressorArgs {
    /// Returns what the decompressor of the same channel is configured with.
    pub(super) fn peer(&self) -> Peer {
        Peer { repeats: self.repeats, confirms: self.config(Channel::default()).confirms() }
    }

    /// Returns the sending end of `channel`.
    pub(super) fn sending(&self, channel: Channel) -> Sending {
        let (mtu_bytes, reservations) = (self.mtu, self.reserve.clone());
        Sending { compressor: self.config(channel), mtu_bytes, reservations }
    }

    fn config(&self, channel: Channel) -> CompressorConfig {
        CompressorConfig {
            channel,
            rtp: self.rtp_ports.clone(),
            repeats: self.repeats,
            ir_refresh: self.refresh.ir,
            fo_refresh: self.refresh.fo,
            refresh_repeats: self.refresh_repeats,
            confirm: self.confirm,
            slow_start: self.slow_start,
            spread_refreshes: self.spread,
            only_ir_and_so: self.only_ir_and_so,
            max_packet_bytes: self.max_packet,
            timer_jitter: self.timer_jitter,
            constant_id_everywhere: !self.strict_ip_id,
            replication: !self.no_replication,
            reorder: self.reorder.ratio(),
            compatibility: match self.compatibility {
                PeerName::Standard => Compatibility::Standard,
                PeerName::Librohc => Compatibility::Librohc,
            },
            ..CompressorConfig::default()
        }
    }
}

/// Outputs in addition to the capture.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Write a row for each packet
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Plot the header size over time
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// List the flows with the most header bytes: 20, or N
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "20")]
    flows: Option<usize>,
    /// No effect: records of other protocols, such as ARP, never make the exit status 1
    #[arg(long, hide = true)]
    skip_other: bool,
    /// No table at the end
    #[arg(long, short)]
    pub(super) quiet: bool,
    #[command(flatten)]
    intake: CountedArgs,
}

impl OutputArgs {
    pub(super) fn outputs(&self) -> Outputs {
        Outputs {
            csv: self.csv.clone(),
            plot: self.plot.clone(),
            flows: self.flows,
            intake: self.intake.intake(),
        }
    }
}

/// Impairments of the path between the ends.
#[derive(Debug, Args)]
pub(crate) struct ImpairmentArgs {
    /// Share of ROHC packets that are lost, such as 0.05 or 5 %
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    loss: f64,
    /// Share of feedback that is lost [default: as --loss]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    feedback_loss: Option<f64>,
    /// Time from a packet to the arrival of its feedback (round trip)
    #[arg(long, value_name = "TIME", default_value = "0 ms", value_parser = duration)]
    feedback_delay: Duration,
    /// Mean number of packets lost in a row; without it losses are independent
    #[arg(long, value_name = "PACKETS", value_parser = burst)]
    burst: Option<f64>,
    /// Share of ROHC packets in whose header one bit is flipped
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    damage: f64,
    /// Seed of the random losses and errors
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl ImpairmentArgs {
    pub(super) fn config(&self) -> ImpairmentConfig {
        ImpairmentConfig {
            loss: self.loss,
            feedback_loss: self.feedback_loss.unwrap_or(self.loss),
            feedback_delay: self.feedback_delay,
            burst_packets: self.burst,
            corruption: self.damage,
            seed: self.seed,
        }
    }
}
