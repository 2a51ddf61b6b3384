//! What a site is told: its network, its carrier, and the other sites.

use std::net::IpAddr;

use bentpipe_net::dvb;
use bentpipe_units::{Bytes, Rate, Span};
use bentpipe_wire::bbframe::{FrameSize, Modcod};
use bentpipe_wire::ethernet::MacAddr;
use bentpipe_wire::ts::Pid;

use super::input::InputConfig;
use super::output::OutputConfig;
use super::routes::Prefix;

/// A site.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The network here.
    pub lan: Lan,
    /// What this site sends.
    pub carrier: Carrier,
    /// Where its bytes go; each output gets all of them.
    pub outputs: Vec<OutputConfig>,
    /// Where the other sites' bytes come from.
    pub inputs: Vec<InputConfig>,
    /// The other sites.
    pub remotes: Vec<Remote>,
}

/// The network here: a device that the kernel routes to, or a port of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lan {
    /// The device's name.
    pub device: String,
    /// Router or bridge.
    pub kind: LanKind,
    /// The device's addresses with their prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The device's MTU in bytes.
    pub mtu_bytes: u32,
}

/// What kind of device it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LanKind {
    /// TUN: IP packets, routed by their destination.
    Router,
    /// TAP: Ethernet frames, bridged by what was learnt of stations.
    Bridge {
        /// The kernel's bridge that the device becomes a port of.
        master: Option<String>,
        /// How many stations are remembered.
        stations: usize,
        /// How long, after they were last heard.
        ageing: Span,
    },
}

/// What this site sends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Carrier {
    /// Its rate: of TS packets, or of baseband frames. Without one everything is sent at once.
    pub rate: Option<Rate>,
    /// How it is framed.
    pub framing: Framing,
    /// How much may wait for each remote site.
    pub queue: Bytes,
}

/// How a carrier is framed.
#[derive(Clone, Debug, PartialEq)]
pub enum Framing {
    /// A transport stream.
    Ts {
        /// TS packets in a datagram.
        packets: usize,
        /// When NULL packets are sent.
        nulls: Nulls,
        /// PAT and PMT.
        tables: Option<Tables>,
    },
    /// DVB-S2 baseband frames, one in a datagram.
    Frames {
        /// Their MODCOD, which says how long they are.
        modcod: Modcod,
        /// The FECFRAME's size.
        size: FrameSize,
        /// Whether each has a mode adaptation header L.3 in front.
        has_adaptation: bool,
    },
}

/// When NULL packets are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// Never.
    Never,
    /// To complete groups of so many TS packets, as a modulator card may need.
    Group(usize),
    /// Whenever nothing else waits: the carrier's rate is constant.
    Fill,
}

/// What a PAT and PMT say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    /// transport_stream_id.
    pub stream_id: u16,
    /// The programme's number.
    pub programme: u16,
    /// The PID of the PMT.
    pub map_pid: Pid,
    /// How often they are sent.
    pub interval: Span,
}

/// A remote site.
#[derive(Clone, Debug, PartialEq)]
pub struct Remote {
    /// What it is called.
    pub name: String,
    /// The PID to send to it on; the input stream identifier of GSE's baseband frames.
    pub send: u16,
    /// The PIDs, or input stream identifiers, that it sends on.
    pub receive: Vec<u16>,
    /// The networks behind it, for a router.
    pub networks: Vec<Prefix>,
    /// Encapsulation, filter and header compression, but for the PID.
    pub stream: dvb::Config,
    /// The addresses of this site that it sends to; all if empty.
    pub own_addresses: Vec<MacAddr>,
}

impl Remote {
    /// Whether all that an end of a stream cannot change while it runs is the same.
    pub(super) fn keeps_contexts(&self, other: &Remote) -> bool {
        let fixed = |remote: &Remote| dvb::Config {
            filter: dvb::Filter::default(),
            packing: None,
            ..remote.stream.clone()
        };
        self.send == other.send
            && self.receive == other.receive
            && self.own_addresses == other.own_addresses
            && fixed(self) == fixed(other)
    }
}
