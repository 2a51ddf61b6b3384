//! Profiles, packet types and modes: the names of things.

/// A compression profile (RFC 3095 5.1.2; the number is its IANA identifier).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
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
}

impl Profile {
    /// Every profile, by number.
    pub const ALL: [Self; 8] = [
        Self::Uncompressed,
        Self::Rtp,
        Self::Udp,
        Self::Esp,
        Self::Ip,
        Self::Tcp,
        Self::RtpUdpLite,
        Self::UdpLite,
    ];

    /// The IANA identifier.
    pub const fn id(self) -> u16 {
        self as u16
    }

    /// Returns the profile that the octet of an IR or IR-DYN packet names.
    pub const fn from_octet(octet: u8) -> Option<Self> {
        match octet {
            0 => Some(Self::Uncompressed),
            1 => Some(Self::Rtp),
            2 => Some(Self::Udp),
            3 => Some(Self::Esp),
            4 => Some(Self::Ip),
            6 => Some(Self::Tcp),
            7 => Some(Self::RtpUdpLite),
            8 => Some(Self::UdpLite),
            _ => None,
        }
    }

    /// Returns `true` if the header chain ends with RTP.
    pub(crate) const fn has_rtp(self) -> bool {
        matches!(self, Self::Rtp | Self::RtpUdpLite)
    }

    /// Returns `true` if the header chain contains UDP-Lite.
    pub(crate) const fn has_udp_lite(self) -> bool {
        matches!(self, Self::UdpLite | Self::RtpUdpLite)
    }
}

/// The profiles that a channel may use (the channel parameter PROFILES, RFC 3095 5.1.1). Uncompressed is always in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profiles(u16);

impl Profiles {
    /// Every profile of this crate.
    pub const ALL: Self = Self(0b1_1101_1111);
    /// Set of Uncompressed alone.
    pub const NONE: Self = Self(1);

    /// Returns this set and `profile`.
    #[must_use]
    pub const fn with(self, profile: Profile) -> Self {
        Self(self.0 | 1 << profile as u8)
    }

    /// Returns this set without `profile`. Uncompressed stays.
    #[must_use]
    pub const fn without(self, profile: Profile) -> Self {
        Self(self.0 & !(1 << profile as u8) | 1)
    }

    /// Returns the profiles in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns `true` if `profile` may be used.
    pub const fn contains(self, profile: Profile) -> bool {
        self.0 >> profile as u8 & 1 == 1
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
}

impl core::fmt::Display for PacketType {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}
