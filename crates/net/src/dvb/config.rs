//! How packets are carried on a PID, or in the baseband frames of a generic stream.

use std::time::Duration;

use bentpipe_rohc::{Channel, CidSpace, CompressorConfig, DecompressorConfig, Mode, Refresh, RtpRule};
use bentpipe_units::{Bytes, Span};

use bentpipe_wire::ethernet::{EtherType, MacAddr};
use bentpipe_wire::{gse, mpe, section, ts, ule};

use super::filter::{Filter, ProfileName, profiles};
use super::text::{Address, DataPid};
use crate::Impossible;

/// An encapsulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Encapsulation {
    /// Unidirectional Lightweight Encapsulation in TS packets (RFC 4326).
    #[default]
    Ule,
    /// Multiprotocol Encapsulation in TS packets (EN 301 192).
    Mpe,
    /// Generic Stream Encapsulation in DVB-S2 baseband frames (TS 102 606).
    Gse,
}

/// A stream of packets: how it is encapsulated and compressed. Both ends have the same.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct Config {
    /// The PID; GSE has none.
    pub pid: DataPid,
    /// The encapsulation.
    pub encapsulation: Encapsulation,
    /// How long a partly filled TS packet, or baseband frame, waits for more at the longest (the packing threshold).
    /// Without it each packet is sent at once, the rest of the TS packet being padding.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub packing: Option<Span>,
    /// The receiver's address: NPA address of ULE (without it the D bit is set), MAC address of MPE (without it
    /// broadcast), label of GSE (without it broadcast).
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub to: Option<Address>,
    /// An LLC/SNAP header in every MPE section. Without it only ROHC packets have one.
    pub llc: bool,
    /// What of the traffic is compressed.
    pub filter: Filter,
    /// Header compression. Without it there is none.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
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
            filter: Filter::default(),
            rohc: None,
        }
    }
}

impl Config {
    /// The bytes of TS packets, or of data fields, that an IP packet takes if its headers are not compressed: whole TS
    /// packets where they are padded, its share of endless ones alike where they are packed, rounded up.
    pub fn line_len(&self, packet_len: usize) -> Bytes {
        let (sndu, pointers) = match self.encapsulation {
            Encapsulation::Ule => {
                let npa = if self.to.is_some() { ule::NPA_LEN } else { 0 };
                (packet_len + ule::BASE_HEADER_LEN + npa + ule::CRC_LEN, 1)
            }
            Encapsulation::Mpe => {
                let dst = self.to.map_or(MacAddr::BROADCAST, |to| to.0);
                let repr = mpe::Repr { dst, ethertype: self.llc.then_some(EtherType::IPV4) };
                (repr.section_len(packet_len), repr.sections(packet_len))
            }
            Encapsulation::Gse => {
                let label = self.to.map_or(gse::Label::Broadcast, |to| gse::Label::Six(to.0));
                return Bytes::new(gse::Repr::new(ule::Type::IPV4, label).packet_len(packet_len) as u64);
            }
        };
        let len = match self.packing {
            None => {
                let longest = pointers - 1;
                let rest = ule::packets(sndu - longest * section::MAX_LEN);
                (longest * section::packets(section::MAX_LEN) + rest) * ts::PACKET_LEN
            }
            // A pointer in every TS packet, or one for each SNDU or section.
            Some(_) if sndu < ts::PAYLOAD_LEN => (sndu * ts::PACKET_LEN).div_ceil(ts::PAYLOAD_LEN - 1),
            Some(_) => ((sndu + pointers) * ts::PACKET_LEN).div_ceil(ts::PAYLOAD_LEN),
        };
        Bytes::new(len as u64)
    }

    /// Checks what its form does not.
    ///
    /// # Errors
    /// The key whose value is impossible.
    pub fn check(&self) -> Result<(), Impossible> {
        let has_profiles = |rule: &super::Rule| !rule.profiles.is_empty() || rule.cid.is_some();
        let is_compressing = self.rohc.is_some() || !self.filter.rules.iter().any(has_profiles);
        Impossible::unless(
            is_compressing,
            "rohc",
            "header compression, as rules of the filter name profiles or CIDs",
        )?;
        self.check_cids()?;
        let codepoints = self.filter.rules.iter().all(|rule| rule.dscp.is_none_or(|dscp| dscp < 64));
        Impossible::unless(codepoints, "dscp", "a codepoint from 0 to 63")?;
        Impossible::unless(
            !self.llc || self.encapsulation == Encapsulation::Mpe,
            "llc",
            "false: only MPE has LLC/SNAP headers",
        )?;
        self.rohc.as_ref().map_or(Ok(()), Rohc::check)
    }
}

impl Config {
    /// Whether the CIDs that the filter keeps are there, one rule each, and one is left to other flows.
    fn check_cids(&self) -> Result<(), Impossible> {
        let contexts = self.rohc.as_ref().map_or(0, |rohc| rohc.contexts);
        let mut kept: Vec<u16> = self.filter.rules.iter().filter_map(|rule| rule.cid).collect();
        let count = kept.len();
        let are_there = kept.iter().all(|&cid| cid < contexts);
        Impossible::unless(are_there, "filter", "CIDs below the number of `rohc.contexts`")?;
        kept.sort_unstable();
        kept.dedup();
        Impossible::unless(kept.len() == count, "filter", "a CID in one rule, not in several")?;
        let is_one_left = kept.is_empty() || kept.len() < usize::from(contexts);
        Impossible::unless(is_one_left, "filter", "fewer CIDs than `rohc.contexts`: one for all other flows")
    }
}

/// The CIDs of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Cid {
    /// CID 0 takes no byte, 1 to 15 take one.
    #[default]
    Small,
    /// CIDs 0 to 127 take one byte, those up to 16383 two.
    Large,
}

/// The mode that a decompressor brings contexts to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum RohcMode {
    /// No feedback; contexts are refreshed now and then.
    #[default]
    Unidirectional,
    /// Feedback for errors, and few acknowledgements.
    Optimistic,
    /// Only what was acknowledged is referred to.
    Reliable,
}

/// Header compression (RFC 3095, RFC 6846).
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct Rohc {
    /// The profiles of the channel; Uncompressed is always one. Empty: all.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub profiles: Vec<ProfileName>,
    /// The mode. Optimistic and reliable need a way back for feedback.
    pub mode: RohcMode,
    /// How CIDs are written.
    pub cid: Cid,
    /// How many contexts there may be: 16 at most with small CIDs, 16384 with large ones.
    #[cfg_attr(feature = "serde", schemars(range(min = 1, max = 16384)))]
    pub contexts: u16,
    /// How many packets of a context come between refreshes of all of it (IR) in unidirectional mode; 0: no such limit.
    pub refresh: u32,
    /// How long it takes between them; "0 s": no such limit.
    pub refresh_interval: Span,
    /// How many packets come between refreshes of the part that changes (IR-DYN, FO) in unidirectional mode; 0: no such
    /// limit.
    pub dynamic_refresh: u32,
    /// How long it takes between those; "0 s": no such limit.
    pub dynamic_refresh_interval: Span,
    /// How often a change is sent where nothing is acknowledged.
    #[cfg_attr(feature = "serde", schemars(range(min = 1, max = 16)))]
    pub repeats: u8,
    /// How many packets in a row a refresh takes.
    #[cfg_attr(feature = "serde", schemars(range(min = 1, max = 16)))]
    pub refresh_repeats: u8,
    /// How many packets of a context come between those with a CRC of 7 bits, which confirm what losses put in doubt (of TCP some
    /// tell all again); 0: none.
    /// Not of TCP.
    #[cfg_attr(feature = "serde", schemars(range(min = 0, max = 32)))]
    pub confirm: u8,
    /// Whether the refreshes of different contexts are spread, so that contexts of the same age do not refresh in
    /// unison.
    pub spread: bool,
    /// Whether the first refreshes come at exponentially growing distances.
    pub slow_start: bool,
    /// Only IR packets and packets of type 0, nothing between.
    pub only_ir_and_so: bool,
    /// Packets longer than this go through the profile Uncompressed. Without it none does for its length.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub below: Option<Bytes>,
    /// The ports to which UDP packets are RTP; an empty list: none. Without it those that look like it: ports of 1024 and up,
    /// an even destination port, version 2, a payload type of RFC 3551.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub rtp_ports: Option<Vec<u16>>,
    /// Whether the decompressor checks transport checksums.
    pub verify: bool,
    /// Whether the decompressor repairs contexts after loss or damage, guided by the CRC of the header.
    pub repair: bool,
    /// How many packets the decompressor holds back when it is in doubt after losses.
    pub caution: u8,
}

impl Default for Rohc {
    fn default() -> Rohc {
        let (compressor, decompressor) = (CompressorConfig::default(), DecompressorConfig::default());
        Rohc {
            profiles: Vec::new(),
            mode: RohcMode::Unidirectional,
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
            below: None,
            rtp_ports: None,
            verify: decompressor.verify,
            repair: decompressor.repair,
            caution: decompressor.caution,
        }
    }
}

impl Rohc {
    fn check(&self) -> Result<(), Impossible> {
        let most = match self.cid {
            Cid::Small => 16,
            Cid::Large => 16_384,
        };
        let expected = "1 to 16 with small CIDs, 1 to 16384 with large ones (`cid = \"large\"`)";
        Impossible::unless((1..=most).contains(&self.contexts), "contexts", expected)?;
        Impossible::unless((1..=16).contains(&self.repeats), "repeats", "1 to 16")?;
        Impossible::unless((1..=16).contains(&self.refresh_repeats), "refresh_repeats", "1 to 16")?;
        Impossible::unless(self.confirm <= 32, "confirm", "0 to 32")?;
        let fits = self.below.is_none_or(|below| u32::try_from(below.get()).is_ok_and(|below| below > 0));
        Impossible::unless(fits, "below", "a length of packets, 1 B or more")
    }

    fn channel(&self) -> Channel {
        let max_cid = self.contexts.saturating_sub(1);
        let cids = match self.cid {
            Cid::Small => CidSpace::Small { max_cid: max_cid.min(15) as u8 },
            Cid::Large => CidSpace::Large { max_cid },
        };
        let all = Channel::default();
        let profiles = if self.profiles.is_empty() { all.profiles } else { profiles(&self.profiles) };
        Channel { cids, profiles, ..all }
    }

    /// What the compressor is built with.
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
            max_packet_bytes: self.below.map_or(0, |below| below.get() as u32),
            ..CompressorConfig::default()
        }
    }

    /// What the decompressor is built with.
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
            ..DecompressorConfig::default()
        }
    }
}
