//! The configurations of elements, as files write them: those of the crates that have the elements, and what is made
//! from the flow's own keys.

pub use crate::video::Stream;
pub use bentpipe_cc::Choice as Controller;
pub use bentpipe_net::Framing;
use bentpipe_net::app::{Header, Identification, Pattern};
pub use bentpipe_net::channel::Config as Fault;
pub use bentpipe_net::dama::Config as Carrier;
use bentpipe_net::dama::Contract;
pub use bentpipe_net::dvb::Line as DvbLine;
use bentpipe_net::dvb::{Config as DvbConfig, Modcod};
pub use bentpipe_net::queue::Discipline as Queue;
pub use bentpipe_net::quick_start::Config as QuickStart;
pub use bentpipe_net::shaper::Config as Shaper;
pub use bentpipe_net::tcp::{Config as Tcp, Source as Application};
pub use bentpipe_net::tfrc::Config as Tfrc;
pub use bentpipe_net::video::SourceConfig as Video;
pub use bentpipe_net::wifi::Config as Wifi;
use bentpipe_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a channel does to packets: one fault, or several one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Channel {
    /// One fault.
    One(Fault),
    /// Several, in the order that packets meet them.
    Several(Vec<Fault>),
}

impl Channel {
    /// The faults in the order that packets meet them.
    pub fn faults(&self) -> &[Fault] {
        match self {
            Channel::One(fault) => std::slice::from_ref(fault),
            Channel::Several(faults) => faults,
        }
    }
}

/// A terminal: its carriers, and what it may get of them. The sum of constant, asked and free capacity is what it sends
/// with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Dama {
    /// The carriers that it shares.
    pub carrier: String,
    /// What it may get.
    #[serde(flatten)]
    pub contract: Contract,
}

/// A stream of packets in a transport stream, or in the frames of DVB-S2.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Dvb {
    /// The line that it is sent on.
    pub line: String,
    /// The MODCOD of its frames, where streams have their own (VCM): only with GSE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modcod: Option<Modcod>,
    /// Encapsulation and compression.
    #[serde(flatten)]
    pub stream: DvbConfig,
}

/// UDP datagrams of one length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Udp {
    /// When datagrams are sent.
    pub pattern: Pattern,
    /// The payload of each datagram, its own header (`header`) included, without UDP and IP.
    pub payload: Bytes,
    /// What the payload starts with, so that the receiver can tell lost packets.
    #[serde(default)]
    pub header: Header,
    /// Whether each copy starts at a random instant of its first interval instead of all at once.
    #[serde(default = "yes")]
    pub spread: bool,
    /// How many datagrams each copy sends at most; without it there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Differentiated services codepoint.
    #[serde(default)]
    #[schemars(range(min = 0, max = 63))]
    pub dscp: u8,
    /// IPv4's identification.
    #[serde(default)]
    pub identification: Identification,
    /// Whether all copies have the ports of the first and differ by their SSRC alone, as RTP streams of one socket do;
    /// needs `header = "rtp"`.
    #[serde(default)]
    pub shared_ports: bool,
}

const fn yes() -> bool {
    true
}
