//! Configuration of a stream: encapsulation, filter, header compression.

use std::time::Duration;

use bentpipe_rohc::{
    Channel, CidSpace, CompressorConfig, DecompressorConfig, Mode, Refresh, ReorderRatio, RtpRule,
};
use bentpipe_units::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use bentpipe_net::InvalidConfig;
use bentpipe_wire::ethernet::{self, EtherType, MacAddr};
use bentpipe_wire::{gse, mpe, section, ts, ule};

use super::filter::{ChannelProfiles, Filter};
use super::text::{Address, DataPid};

/// Encapsulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Encapsulation {
    /// Unidirectional Lightweight Encapsulation in TS packets (RFC 4326).
    #[default]
    Ule,
    /// Multiprotocol Encapsulation in TS packets (EN 301 192).
    Mpe,
    /// Generic Stream Encapsulation in DVB-S2 BBFRAMEs (TS 102 606).
    Gse,
}

/// Maximum packing threshold.
const MAX_PACKING: Span = Span::from_secs(10);

/// Stream of packets: encapsulation and compression. Both ends have the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// PID. GSE has none.
    pub pid: DataPid,
    /// Encapsulation.
    pub encapsulation: Encapsulation,
    /// Packing threshold: maximum wait of a partly filled TS packet or BBFRAME.
    ///
    /// Without it each packet is sent at once, with padding.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub packing: Option<Span>,
    /// Address of the receiver: NPA address of ULE, MAC address of MPE, label of GSE.
    ///
    /// Without it the D bit of ULE is set, and MPE and GSE broadcast. GSE streams that share frames then have labels of three bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub to: Option<Address>,
    /// Enables an LLC/SNAP header in every MPE section. Without it only ROHC packets have one.
    #[schemars(extend("x-change" = true))]
    pub llc: bool,
    /// Enables bridging: each IP packet is carried in an Ethernet frame. The frame is 14 bytes longer; its header is
    /// not compressed.
    ///
    /// MPE does not carry Ethernet frames.
    #[schemars(extend("x-change" = true))]
    pub bridged: bool,
    /// Rules for what is compressed. Default: everything.
    #[schemars(extend("x-change" = true))]
    pub filter: Filter,
    /// Header compression. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rohc: Option<Rohc>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            pid: DataPid::new(0x201).expect("a PID for data"),
            encapsulation: Encapsulation::Ule,
            packing: None,
            to: None,
            llc: false,
            bridged: false,
            filter: Filter::default(),
            rohc: None,
        }
    }
}

impl Config {
    /// Returns the bytes that an IP packet takes in TS packets or data fields, uncompressed.
    ///
    /// Padded packets take whole TS packets. Packed ones take their share of an endless sequence, rounded up.
    pub fn line_len(&self, packet_len: usize) -> Bytes {
        Bytes::new(self.octets(packet_len, EtherType::IPV4).ceil() as u64)
    }

    /// Returns the mean bytes of a packet in TS packets or data fields.
    pub(crate) fn octets(&self, packet_len: usize, kind: EtherType) -> f64 {
        let packet_len = packet_len + if self.bridged { ethernet::HEADER_LEN } else { 0 };
        let (sndu, pointers) = match self.encapsulation {
            Encapsulation::Ule => {
                let npa = if self.to.is_some() { ule::NPA_LEN } else { 0 };
                (packet_len + ule::BASE_HEADER_LEN + npa + ule::CRC_LEN, 1)
            }
            Encapsulation::Mpe => {
                let dst = self.to.map_or(MacAddr::BROADCAST, |to| to.0);
                let is_named = self.llc || kind == EtherType::ROHC;
                let repr = mpe::Repr { dst, ethertype: is_named.then_some(kind) };
                (repr.section_len(packet_len), repr.sections(packet_len))
            }
            Encapsulation::Gse => {
                let label = self.to.map_or(gse::Label::Broadcast, |to| gse::Label::Six(to.0));
                return gse::Repr::new(ule::Type(kind.0), label).packet_len(packet_len) as f64;
            }
        };
        let of_payload = |bytes: usize, room: usize| (bytes * ts::PACKET_LEN) as f64 / room as f64;
        match self.packing {
            None => {
                let longest = pointers - 1;
                let rest = ule::packets(sndu - longest * section::MAX_LEN);
                ((longest * section::packets(section::MAX_LEN) + rest) * ts::PACKET_LEN) as f64
            }
            // A pointer in every TS packet, or one for each SNDU or section.
            Some(_) if sndu < ts::PAYLOAD_LEN => of_payload(sndu, ts::PAYLOAD_LEN - 1),
            Some(_) => of_payload(sndu + pointers, ts::PAYLOAD_LEN),
        }
    }

    /// Checks the values.
    ///
    /// # Errors
    /// Returns the key whose value is not possible.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let is_short = self.packing.is_none_or(|packing| packing <= MAX_PACKING);
        InvalidConfig::ensure(is_short, "packing", "10 s or less")?;
        let has_profiles = |rule: &super::Rule| !rule.profiles.is_empty() || rule.cid.is_some();
        let is_compressing = self.rohc.is_some() || !self.filter.rules.iter().any(has_profiles);
        InvalidConfig::ensure(
            is_compressing,
            "rohc",
            "header compression, as rules of the filter name profiles or CIDs",
        )?;
        self.check_cids()?;
        self.filter.check()?;
        InvalidConfig::ensure(
            !self.llc || self.encapsulation == Encapsulation::Mpe,
            "llc",
            "false: only MPE has LLC/SNAP headers",
        )?;
        InvalidConfig::ensure(
            !self.bridged || self.encapsulation != Encapsulation::Mpe,
            "bridged",
            "false: MPE carries IP packets only",
        )?;
        self.rohc.as_ref().map_or(Ok(()), Rohc::check).map_err(|error| error.inside("rohc"))
    }
}

impl Config {
    /// Checks the CIDs of the filter. They are in range, have one rule each, and leave one for other flows.
    fn check_cids(&self) -> Result<(), InvalidConfig> {
        let contexts = self.rohc.as_ref().map_or(0, |rohc| rohc.contexts);
        let mut kept: Vec<u16> = self.filter.rules.iter().filter_map(|rule| rule.cid).collect();
        let count = kept.len();
        let are_there = kept.iter().all(|&cid| cid < contexts);
        InvalidConfig::ensure(are_there, "filter", "CIDs below the number of `rohc.contexts`")?;
        kept.sort_unstable();
        kept.dedup();
        InvalidConfig::ensure(kept.len() == count, "filter", "a CID in one rule, not in several")?;
        let is_one_left = kept.is_empty() || kept.len() < usize::from(contexts);
        InvalidConfig::ensure(
            is_one_left,
            "filter",
            "fewer CIDs than `rohc.contexts`: one for all other flows",
        )
    }
}

/// CIDs of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cid {
    /// CID 0 takes no byte, 1 to 15 take one.
    #[default]
    Small,
    /// CIDs 0 to 127 take one byte, those up to 16383 two.
    Large,
}

/// Mode that a decompressor brings contexts to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RohcMode {
    /// No feedback. Contexts are refreshed periodically.
    #[default]
    Unidirectional,
    /// Feedback for errors, and few acknowledgements.
    Optimistic,
    /// References to acknowledged values only.
    Reliable,
}

/// ROHC implementation at the other end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Compatibility {
    /// Any that follows the RFCs.
    #[default]
    Standard,
    /// librohc: avoids headers that its decompressor refuses, and expects no confirmations of it.
    Librohc,
}

impl Compatibility {
    fn is_standard(&self) -> bool {
        *self == Compatibility::Standard
    }
}

/// Share of the sequence numbers that version 2 keeps for late packets (RFC 5225 6.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reorder {
    /// Up to 1 packet late.
    #[default]
    None,
    /// Up to 3 packets late.
    Quarter,
    /// Up to 7 packets late.
    Half,
    /// Up to 11 packets late.
    ThreeQuarters,
}

impl Reorder {
    fn is_none(&self) -> bool {
        *self == Reorder::None
    }

    const fn ratio(self) -> ReorderRatio {
        match self {
            Reorder::None => ReorderRatio::None,
            Reorder::Quarter => ReorderRatio::Quarter,
            Reorder::Half => ReorderRatio::Half,
            Reorder::ThreeQuarters => ReorderRatio::ThreeQuarters,
        }
    }
}

/// Header compression (RFC 3095, RFC 5225, RFC 6846).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rohc {
    /// Profiles of the channel: a version, or a list of version 1. Uncompressed is always one. Default: "v1".
    #[serde(skip_serializing_if = "ChannelProfiles::is_default")]
    pub profiles: ChannelProfiles,
    /// Mode. Optimistic and reliable need a feedback channel.
    pub mode: RohcMode,
    /// ROHC implementation at the other end. Default: standard.
    #[serde(skip_serializing_if = "Compatibility::is_standard")]
    pub compatibility: Compatibility,
    /// Reordering that profiles of version 2 allow for. A change is repeated in as many more packets. Default: none.
    #[serde(skip_serializing_if = "Reorder::is_none")]
    pub reorder: Reorder,
    /// Size of CIDs.
    pub cid: Cid,
    /// Number of contexts: at most 16 with small CIDs, 16384 with large ones.
    #[schemars(range(min = 1, max = 16384))]
    pub contexts: u16,
    /// Packets between IR refreshes of a context in unidirectional mode; 0: no limit.
    pub refresh: u32,
    /// Time between refreshes of all of it; "0 s": no limit.
    pub refresh_interval: Span,
    /// Packets between refreshes of the dynamic part (IR-DYN, FO), in unidirectional mode; 0: no limit.
    pub dynamic_refresh: u32,
    /// Time between refreshes of the dynamic part; "0 s": no limit.
    pub dynamic_refresh_interval: Span,
    /// Repetitions of a change that is not acknowledged.
    #[schemars(range(min = 1, max = 16))]
    pub repeats: u8,
    /// Consecutive packets of a refresh.
    #[schemars(range(min = 1, max = 16))]
    pub refresh_repeats: u8,
    /// Packets of a context between two with CRC-7, which confirm it after losses. 0: none. Some of TCP resend all
    /// values. The decompressor expects the same of its peer, so both ends need the same. Default: 8.
    #[schemars(range(min = 0, max = 32))]
    pub confirm: u8,
    /// Enables spreading of refreshes. It keeps contexts of equal age from refreshing at the same time.
    pub spread: bool,
    /// Enables first refreshes at exponentially growing distances.
    pub slow_start: bool,
    /// Restricts packets to IR and type 0.
    pub only_ir_and_so: bool,
    /// Length above which packets go through the profile Uncompressed. Default: none.
    #[serde(alias = "below", skip_serializing_if = "Option::is_none")]
    pub max_packet: Option<Bytes>,
    /// Destination ports of RTP; an empty list: none.
    ///
    /// Without it, packets that look like RTP: ports of 1024 and up, an even destination port, version 2, a payload type of RFC 3551.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtp_ports: Option<Vec<u16>>,
    /// Enables transport checksum verification in the decompressor.
    pub verify: bool,
    /// Enables context repair after loss or damage, by the CRC of the header.
    pub repair: bool,
    /// Packets held back by a decompressor in doubt after losses.
    pub caution: u8,
}

impl Default for Rohc {
    fn default() -> Rohc {
        let (compressor, decompressor) = (CompressorConfig::default(), DecompressorConfig::default());
        Rohc {
            profiles: ChannelProfiles::default(),
            mode: RohcMode::Unidirectional,
            compatibility: Compatibility::Standard,
            reorder: Reorder::None,
            cid: Cid::Small,
            contexts: 16,
            refresh: compressor.ir_refresh.packets,
            refresh_interval: Span::ZERO,
            dynamic_refresh: compressor.fo_refresh.packets,
            dynamic_refresh_interval: Span::ZERO,
            repeats: compressor.repeats,
            refresh_repeats: compressor.refresh_repeats,
            confirm: compressor.confirm,
            spread: compressor.spread_refreshes,
            slow_start: compressor.slow_start,
            only_ir_and_so: compressor.only_ir_and_so,
            max_packet: None,
            rtp_ports: None,
            verify: decompressor.verify,
            repair: decompressor.repair,
            caution: decompressor.caution,
        }
    }
}

impl Rohc {
    /// Checks the values.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let most = match self.cid {
            Cid::Small => 16,
            Cid::Large => 16_384,
        };
        let expected = "1 to 16 with small CIDs, 1 to 16384 with large ones (`cid = \"large\"`)";
        InvalidConfig::ensure((1..=most).contains(&self.contexts), "contexts", expected)?;
        InvalidConfig::ensure((1..=16).contains(&self.repeats), "repeats", "1 to 16")?;
        InvalidConfig::ensure((1..=16).contains(&self.refresh_repeats), "refresh_repeats", "1 to 16")?;
        InvalidConfig::ensure(self.confirm <= 32, "confirm", "0 to 32")?;
        let fits = self.max_packet.is_none_or(|most| u32::try_from(most.get()).is_ok_and(|most| most > 0));
        InvalidConfig::ensure(fits, "max_packet", "a length of packets, 1 B or more")
    }

    fn channel(&self) -> Channel {
        let max_cid = self.contexts.saturating_sub(1);
        let cids = match self.cid {
            Cid::Small => CidSpace::Small { max_cid: max_cid.min(15) as u8 },
            Cid::Large => CidSpace::Large { max_cid },
        };
        Channel { cids, profiles: self.profiles.set(), ..Channel::default() }
    }

    /// Returns the configuration of the compressor.
    pub fn compressor(&self) -> CompressorConfig {
        let interval = |span: Span| Duration::from_nanos(span.as_nanos());
        CompressorConfig {
            channel: self.channel(),
            rtp: self.rtp_ports.clone().map_or(RtpRule::Likely, RtpRule::Ports),
            repeats: self.repeats,
            refresh_repeats: self.refresh_repeats,
            confirm: self.confirm,
            ir_refresh: Refresh { packets: self.refresh, interval: interval(self.refresh_interval) },
            fo_refresh: Refresh {
                packets: self.dynamic_refresh,
                interval: interval(self.dynamic_refresh_interval),
            },
            slow_start: self.slow_start,
            spread_refreshes: self.spread,
            only_ir_and_so: self.only_ir_and_so,
            max_packet_bytes: self.max_packet.map_or(0, |most| most.get() as u32),
            reorder: self.reorder.ratio(),
            compatibility: match self.compatibility {
                Compatibility::Standard => bentpipe_rohc::Compatibility::Standard,
                Compatibility::Librohc => bentpipe_rohc::Compatibility::Librohc,
            },
            ..CompressorConfig::default()
        }
    }

    /// Returns the configuration of the decompressor.
    pub fn decompressor(&self) -> DecompressorConfig {
        DecompressorConfig {
            channel: self.channel(),
            mode: match self.mode {
                RohcMode::Unidirectional => Mode::Unidirectional,
                RohcMode::Optimistic => Mode::Optimistic,
                RohcMode::Reliable => Mode::Reliable,
            },
            verify: self.verify,
            repair: self.repair,
            repeats: self.repeats,
            caution: self.caution,
            peer_confirms: self.compatibility.is_standard() && self.compressor().confirms(),
            ..DecompressorConfig::default()
        }
    }
}
