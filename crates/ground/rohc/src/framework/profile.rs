//! Profiles, packet types and modes: the names of things.

/// A compression profile (RFC 3095 5.1.2; the number is its IANA identifier).
///
/// IR packets carry the low octet; the high one is the version. A channel has one version of each (RFC 5795 5.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum Profile {
    /// 0x0000: the packet as it is behind a CID (RFC 3095 5.10).
    Uncompressed = 0,
    /// 0x0001: RTP/UDP/IP (RFC 3095 5.7).
    Rtp = 1,
    /// 0x0002: UDP/IP (RFC 3095 5.11).
    Udp = 2,
    /// 0x0003: ESP/IP (RFC 3095 5.12).
    Esp = 3,
    /// 0x0004: IP only, any number of IP headers (RFC 3843).
    Ip = 4,
    /// 0x0006: TCP/IP (RFC 6846).
    Tcp = 6,
    /// 0x0007: RTP/UDP-Lite/IP (RFC 4019).
    RtpUdpLite = 7,
    /// 0x0008: UDP-Lite/IP (RFC 4019).
    UdpLite = 8,
    /// 0x0101: RTP/UDP/IP, version 2 (RFC 5225).
    RtpV2 = 0x0101,
    /// 0x0102: UDP/IP, version 2 (RFC 5225).
    UdpV2 = 0x0102,
    /// 0x0103: ESP/IP, version 2 (RFC 5225).
    EspV2 = 0x0103,
    /// 0x0104: IP only, version 2 (RFC 5225).
    IpV2 = 0x0104,
    /// 0x0107: RTP/UDP-Lite/IP, version 2 (RFC 5225).
    RtpUdpLiteV2 = 0x0107,
    /// 0x0108: UDP-Lite/IP, version 2 (RFC 5225).
    UdpLiteV2 = 0x0108,
}

impl Profile {
    /// Every profile, by number.
    pub const ALL: [Self; 14] = [
        Self::Uncompressed,
        Self::Rtp,
        Self::Udp,
        Self::Esp,
        Self::Ip,
        Self::Tcp,
        Self::RtpUdpLite,
        Self::UdpLite,
        Self::RtpV2,
        Self::UdpV2,
        Self::EspV2,
        Self::IpV2,
        Self::RtpUdpLiteV2,
        Self::UdpLiteV2,
    ];

    /// The IANA identifier.
    pub const fn id(self) -> u16 {
        self as u16
    }

    /// Returns the profile with the IANA identifier `id`.
    pub fn from_id(id: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.id() == id)
    }

    /// Returns the profile that the octet of an IR packet names, among `profiles`.
    pub fn from_octet(octet: u8, profiles: Profiles) -> Option<Self> {
        let named = |version: u16| Self::from_id(version << 8 | u16::from(octet));
        [1, 0].into_iter().filter_map(named).find(|&profile| profiles.contains(profile))
    }

    /// Returns the version of ROHC that defines the profile: 1 or 2.
    pub const fn version(self) -> u8 {
        (self.id() >> 8) as u8 + 1
    }

    /// Returns the profile of version 1 for the same headers.
    pub(crate) const fn headers(self) -> Self {
        match self {
            Self::RtpV2 => Self::Rtp,
            Self::UdpV2 => Self::Udp,
            Self::EspV2 => Self::Esp,
            Self::IpV2 => Self::Ip,
            Self::RtpUdpLiteV2 => Self::RtpUdpLite,
            Self::UdpLiteV2 => Self::UdpLite,
            profile => profile,
        }
    }

    /// Returns the bit of the profile in [`Profiles`].
    const fn bit(self) -> u32 {
        1 << ((self.id() >> 8) * 16 + (self.id() & 0x0f))
    }

    /// Returns `true` if the header chain ends with RTP.
    pub(crate) const fn has_rtp(self) -> bool {
        matches!(self.headers(), Self::Rtp | Self::RtpUdpLite)
    }

    /// Returns `true` if the header chain contains UDP-Lite.
    pub(crate) const fn has_udp_lite(self) -> bool {
        matches!(self.headers(), Self::UdpLite | Self::RtpUdpLite)
    }

    /// Returns the name of the headers that the profile compresses, and its version if 2.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uncompressed => "Uncompressed",
            Self::Rtp => "RTP",
            Self::Udp => "UDP",
            Self::Esp => "ESP",
            Self::Ip => "IP",
            Self::Tcp => "TCP",
            Self::RtpUdpLite => "RTP/UDP-Lite",
            Self::UdpLite => "UDP-Lite",
            Self::RtpV2 => "RTP (v2)",
            Self::UdpV2 => "UDP (v2)",
            Self::EspV2 => "ESP (v2)",
            Self::IpV2 => "IP (v2)",
            Self::RtpUdpLiteV2 => "RTP/UDP-Lite (v2)",
            Self::UdpLiteV2 => "UDP-Lite (v2)",
        }
    }
}

impl core::fmt::Display for Profile {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.name())
    }
}

/// The profiles that a channel may use (the channel parameter PROFILES, RFC 3095 5.1.1). Uncompressed is always in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profiles(u32);

impl Profiles {
    /// Every profile of this crate, of both versions. No channel has all of them.
    pub const ALL: Self = Self(Self::V1.0 | Self::V2.0);
    /// Every profile of version 1 (RFC 3095, 3843, 4019 and 6846).
    pub const V1: Self = Self(0b1_1101_1111);
    /// Every profile of version 2 (RFC 5225), and TCP, of which there is one version.
    pub const V2: Self = Self(0b1_1001_1110 << 16 | 0b100_0001);
    /// Set of Uncompressed alone.
    pub const NONE: Self = Self(1);

    /// Returns this set and `profile`.
    #[must_use]
    pub const fn with(self, profile: Profile) -> Self {
        Self(self.0 | profile.bit())
    }

    /// Returns this set without `profile`. Uncompressed stays.
    #[must_use]
    pub const fn without(self, profile: Profile) -> Self {
        Self(self.0 & !profile.bit() | 1)
    }

    /// Returns the profiles in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the profiles in both sets, each in its highest version.
    ///
    /// IR packets carry the low octet of a profile's number only, so that no channel has two versions of one profile
    /// (RFC 5795 5.1.2).
    #[must_use]
    pub const fn negotiated(self, other: Self) -> Self {
        self.and(other).highest_versions()
    }

    /// Returns the highest version of each profile only.
    #[must_use]
    pub const fn highest_versions(self) -> Self {
        Self(self.0 & !(self.0 >> 16))
    }

    /// Returns `true` if `profile` may be used.
    #[inline]
    pub const fn contains(self, profile: Profile) -> bool {
        self.0 & profile.bit() != 0
    }

    /// Returns `true` if there are profiles of version 2.
    #[inline]
    pub(crate) const fn has_v2(self) -> bool {
        self.0 >> 16 != 0
    }
}

impl core::fmt::Display for Profiles {
    /// Writes the names, separated by commas.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut names = Profile::ALL.into_iter().filter(|&profile| self.contains(profile)).map(Profile::name);
        names.next().map_or(Ok(()), |first| f.write_str(first))?;
        names.try_for_each(|name| write!(f, ", {name}"))
    }
}

/// A mode of operation (RFC 3095 4.4); the numbers are those of the Mode field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Mode {
    /// No feedback, periodic refreshes.
    #[default]
    Unidirectional = 1,
    /// Feedback for errors, sparse acknowledgements, optimistic compressor.
    Optimistic = 2,
    /// Only acknowledged values are references.
    Reliable = 3,
}

impl Mode {
    /// The mode that a Mode field means; 0 is reserved, or "cancel" (RFC 3843 3.4).
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            1 => Some(Self::Unidirectional),
            2 => Some(Self::Optimistic),
            3 => Some(Self::Reliable),
            _ => None,
        }
    }
}

/// State of a compressor's context (RFC 3095 4.3.1): what it still has to signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CompressorState {
    /// IR: everything.
    Initialization,
    /// FO: changes.
    FirstOrder,
    /// SO: nothing that does not follow from the context.
    SecondOrder,
}

impl CompressorState {
    /// The RFC's abbreviation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Initialization => "IR",
            Self::FirstOrder => "FO",
            Self::SecondOrder => "SO",
        }
    }

    /// IR if `static_part` is due, FO if something else is.
    pub(crate) const fn of(static_part: bool, changes: bool) -> Self {
        match (static_part, changes) {
            (true, _) => Self::Initialization,
            (false, true) => Self::FirstOrder,
            (false, false) => Self::SecondOrder,
        }
    }
}

macro_rules! packet_types {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// The type of a ROHC packet, without its extension.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "the variants are the RFCs' own names")]
        pub enum PacketType {
            $($(#[$doc])* $variant,)*
        }

        impl PacketType {
            /// Every packet type, in declaration order.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name in the RFCs.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

packet_types! {
    /// Static and usually dynamic part of a context (RFC 3095 5.2.3).
    Ir = "IR",
    /// Dynamic part of a context (RFC 3095 5.2.4).
    IrDyn = "IR-DYN",
    /// A context replicated from another (RFC 6846 7.2).
    IrCr = "IR-CR",
    /// A packet of the Uncompressed profile (RFC 3095 5.10.2).
    Normal = "Normal",
    Uo0 = "UO-0",
    Uo1 = "UO-1",
    Uo1Id = "UO-1-ID",
    Uo1Ts = "UO-1-TS",
    R0 = "R-0",
    R0Crc = "R-0-CRC",
    R1 = "R-1",
    R1Id = "R-1-ID",
    R1Ts = "R-1-TS",
    Uor2 = "UOR-2",
    Uor2Id = "UOR-2-ID",
    Uor2Ts = "UOR-2-TS",
    CoCommon = "co_common",
    Rnd1 = "rnd_1",
    Rnd2 = "rnd_2",
    Rnd3 = "rnd_3",
    Rnd4 = "rnd_4",
    Rnd5 = "rnd_5",
    Rnd6 = "rnd_6",
    Rnd7 = "rnd_7",
    Rnd8 = "rnd_8",
    Seq1 = "seq_1",
    Seq2 = "seq_2",
    Seq3 = "seq_3",
    Seq4 = "seq_4",
    Seq5 = "seq_5",
    Seq6 = "seq_6",
    Seq7 = "seq_7",
    Seq8 = "seq_8",
    CoRepair = "co_repair",
    Pt0Crc3 = "pt_0_crc3",
    Pt0Crc7 = "pt_0_crc7",
    Pt1Rnd = "pt_1_rnd",
    Pt1SeqId = "pt_1_seq_id",
    Pt1SeqTs = "pt_1_seq_ts",
    Pt2Rnd = "pt_2_rnd",
    Pt2SeqId = "pt_2_seq_id",
    Pt2SeqTs = "pt_2_seq_ts",
    Pt2SeqBoth = "pt_2_seq_both",
}

impl core::fmt::Display for PacketType {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_has_one_version_of_each_profile() {
        let both = Profiles::ALL.negotiated(Profiles::ALL);
        assert_eq!(both, Profiles::V2);
        assert_eq!(Profiles::ALL.negotiated(Profiles::V1), Profiles::V1);
        let mixed = Profiles::ALL.negotiated(Profiles::ALL.without(Profile::RtpV2));
        assert!(mixed.contains(Profile::Rtp) && mixed.contains(Profile::UdpV2));
        assert!(!mixed.contains(Profile::Udp) && !mixed.contains(Profile::RtpV2));
        assert_eq!(Profile::from_octet(1, mixed), Some(Profile::Rtp));
        assert_eq!(Profile::from_octet(2, mixed), Some(Profile::UdpV2));
        assert_eq!(Profile::from_octet(5, Profiles::ALL), None);
    }

    #[test]
    fn sets_name_their_profiles() {
        use std::string::ToString;
        let set = Profiles::NONE.with(Profile::RtpV2).with(Profile::Tcp);
        assert_eq!(set.to_string(), "Uncompressed, TCP, RTP (v2)");
        assert_eq!(Profiles::NONE.to_string(), "Uncompressed");
    }

    #[test]
    fn sets_have_a_bit_for_each_profile() {
        let sum = |profiles: Profiles| Profile::ALL.into_iter().filter(|&one| profiles.contains(one)).count();
        assert_eq!((sum(Profiles::ALL), sum(Profiles::V1), sum(Profiles::V2)), (14, 8, 8));
        for profile in Profile::ALL {
            assert!(Profiles::NONE.with(profile).contains(profile));
            assert_eq!(Profile::from_id(profile.id()), Some(profile));
        }
    }
}
