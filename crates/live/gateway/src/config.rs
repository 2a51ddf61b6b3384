//! Configuration of a site: LAN, carrier, outputs, inputs, and remote sites.

use std::net::IpAddr;

use bentpipe_dvb as dvb;
use bentpipe_units::{Bytes, Rate, Span};
use bentpipe_wire::bbframe::{FrameSize, Modcod};
use bentpipe_wire::ethernet::MacAddr;
use bentpipe_wire::ts::Pid;

use super::input::InputConfig;
use super::output::OutputConfig;
use super::routes::Prefix;
use super::tap::CaptureConfig;
use super::udlr::UdlrConfig;

/// Site.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// LAN of this site.
    pub lan: Lan,
    /// Carrier of this site.
    pub carrier: Carrier,
    /// Outputs, each with the whole carrier.
    pub outputs: Vec<OutputConfig>,
    /// Inputs, with the other sites' carriers.
    pub inputs: Vec<InputConfig>,
    /// Remote sites.
    pub remotes: Vec<Remote>,
    /// Captures. Default: none.
    pub capture: Option<CaptureConfig>,
}

/// LAN of a site: a routed device of the kernel, or a bridge port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lan {
    /// Name of the device.
    pub device: String,
    /// Router or bridge.
    pub kind: LanKind,
    /// Addresses of the device with their prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// MTU of the device in bytes.
    pub mtu_bytes: u32,
}

/// Kind of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LanKind {
    /// TUN: IP packets, routed by their destination.
    Router,
    /// TAP: Ethernet frames, bridged by what was learnt of stations.
    Bridge {
        /// Bridge of the kernel that the device becomes a port of.
        master: Option<String>,
        /// Maximum number of stations in the table.
        stations: usize,
        /// Time after which a silent station is removed.
        ageing: Span,
    },
}

/// Carrier of a site.
#[derive(Clone, Debug, PartialEq)]
pub struct Carrier {
    /// Rate of TS packets or BBFRAMEs. Default: no limit.
    pub rate: Option<Rate>,
    /// Framing.
    pub framing: Framing,
    /// Maximum backlog of each remote site.
    pub queue: Bytes,
}

/// Framing of a carrier.
#[derive(Clone, Debug, PartialEq)]
pub enum Framing {
    /// Transport stream.
    Ts {
        /// TS packets in a datagram.
        packets: usize,
        /// Use of NULL packets.
        nulls: Nulls,
        /// PAT and PMT.
        tables: Option<Tables>,
    },
    /// DVB-S2 baseband frames, one in a datagram.
    Frames {
        /// MODCOD, which determines their length.
        modcod: Modcod,
        /// Size of the FECFRAME.
        size: FrameSize,
        /// Enables mode adaptation headers L.3.
        has_adaptation: bool,
    },
}

/// Use of NULL packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// Never.
    Never,
    /// Completion of groups of this many TS packets, as a modulator card may need.
    Group(usize),
    /// Every slot without data: the rate of the carrier is constant.
    Fill,
}

/// Contents of PAT and PMT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    /// transport_stream_id.
    pub stream_id: u16,
    /// Number of the programme.
    pub programme: u16,
    /// PID of the PMT.
    pub map_pid: Pid,
    /// Interval of repetition.
    pub interval: Span,
}

/// Remote site.
#[derive(Clone, Debug, PartialEq)]
pub struct Remote {
    /// Name.
    pub name: String,
    /// PID to it, or input stream identifier of its BBFRAMEs.
    pub send: u16,
    /// PIDs, or input stream identifiers, of its carrier.
    pub receive: Vec<u16>,
    /// Networks behind it, for a router.
    pub networks: Vec<Prefix>,
    /// Encapsulation, filter and header compression, but for the PID.
    pub stream: dvb::Config,
    /// Addresses of this site that it sends to; all if empty.
    pub own_addresses: Vec<MacAddr>,
    /// Return of a one-way carrier in a tunnel. Default: none.
    pub udlr: Option<UdlrConfig>,
    /// Name of a device of its own. Default: that of the LAN.
    pub device: Option<String>,
}

impl Remote {
    /// Returns `true` if everything is equal that a stream cannot change while it runs.
    pub(crate) fn keeps_contexts(&self, other: &Remote) -> bool {
        let fixed = |remote: &Remote| dvb::Config {
            filter: dvb::Filter::default(),
            packing: None,
            ..remote.stream.clone()
        };
        self.send == other.send
            && self.receive == other.receive
            && self.own_addresses == other.own_addresses
            && self.udlr == other.udlr
            && fixed(self) == fixed(other)
    }
}
