//! Site file.
//!
//! These declarations are the format: reading, checking and messages are made from them and from their doc comments.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use crate::CapturePoint as Point;
use crate::Prefix;
use bentpipe_dvb::{Address, Encapsulation, Filter, Rohc};
use bentpipe_units::{Bytes, Rate, Span};
use bentpipe_wire::pcap::MAX_RECORD_LEN;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

/// Site: LAN, carrier, outputs, inputs, and remote sites.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// Title of the site.
    pub title: String,
    /// LAN of this site.
    pub lan: Lan,
    /// Carrier of this site.
    #[serde(default)]
    pub carrier: Carrier,
    /// Outputs, each with the whole carrier.
    #[serde(default)]
    pub output: Vec<Output>,
    /// Inputs, with the carriers of the other sites.
    #[serde(default)]
    pub input: Vec<Input>,
    /// Remote sites, by their names.
    pub remote: BTreeMap<String, Remote>,
    /// Statistics and log.
    #[serde(default)]
    pub statistics: Statistics,
    /// Captures. Default: none.
    pub capture: Option<Capture>,
}

/// Connection of the gateway to the LAN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LanKind {
    /// TUN device, to which the kernel routes the networks of remote sites.
    #[default]
    Router,
    /// TAP device, through which all sites are one Ethernet.
    Bridge,
}

/// LAN of a site.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lan {
    /// Connection of the gateway. Default: "router".
    #[serde(default)]
    pub kind: LanKind,
    /// Name of the device, 1 to 15 characters.
    #[serde(default = "default_device")]
    pub device: String,
    /// Addresses of the device with their prefix lengths.
    #[serde(default)]
    pub addresses: Vec<Text<Interface>>,
    /// Maximum length of an IP packet.
    #[serde(default = "default_mtu")]
    pub mtu: Bytes,
    /// Bridge of the kernel that the device of a bridge is put into.
    pub bridge: Option<String>,
    /// Maximum number of stations in the table of a bridge.
    #[serde(default = "default_stations")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub stations: usize,
    /// Time after which a bridge removes a silent station.
    #[serde(default = "default_ageing")]
    pub ageing: Span,
}

fn default_device() -> String {
    "bent0".to_owned()
}

const fn default_mtu() -> Bytes {
    Bytes::new(1500)
}

const fn default_stations() -> usize {
    4096
}

const fn default_ageing() -> Span {
    Span::from_secs(300)
}

/// Use of NULL packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Nulls {
    /// Never. The rate is a limit.
    #[default]
    Never,
    /// Completion of groups of `group` TS packets, as a modulator card may need.
    Group,
    /// Every slot without data. The rate is constant, as a modulator needs.
    Fill,
}

/// Carrier of a site.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Carrier {
    /// Rate of TS packets or BBFRAMEs. Default: no limit.
    pub rate: Option<Rate>,
    /// Use of NULL packets.
    pub nulls: Nulls,
    /// Number of TS packets in a group.
    #[schemars(range(min = 1, max = 1024))]
    pub group: usize,
    /// TS packets in a datagram.
    #[schemars(range(min = 1, max = 7))]
    pub packets: usize,
    /// Maximum backlog of each remote site. Default: 0.25 s at the rate of the carrier, or 1 MB.
    pub queue: Option<Bytes>,
    /// PAT and PMT, which name the PIDs of the data. Default: none.
    pub tables: Option<Tables>,
    /// MODCOD of GSE's BBFRAMEs, such as "QPSK 3/4".
    pub modcod: Option<String>,
    /// Enables short FECFRAMEs instead of normal ones.
    pub short: bool,
    /// Enables mode adaptation headers L.3 of BBFRAMEs, sent and received.
    pub adaptation: bool,
}

impl Default for Carrier {
    fn default() -> Carrier {
        Carrier {
            rate: None,
            nulls: Nulls::Never,
            group: 6,
            packets: 7,
            queue: None,
            tables: None,
            modcod: None,
            short: false,
            adaptation: false,
        }
    }
}

/// PAT and PMT.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tables {
    /// transport_stream_id.
    pub stream: u16,
    /// Number of the programme.
    #[schemars(range(min = 1))]
    pub programme: u16,
    /// PID of the PMT.
    pub pid: Text<Pid>,
    /// Interval of repetition.
    pub interval: Span,
}

impl Default for Tables {
    fn default() -> Tables {
        Tables { stream: 1, programme: 1, pid: Text(Pid(0x20)), interval: Span::from_millis(100) }
    }
}

/// Output of the carrier.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Output {
    /// UDP datagrams, unicast or multicast.
    Udp(UdpOutput),
    /// File, or a FIFO that exists.
    File(FileOutput),
    /// Standard input of a program, such as a modulator.
    Program(Program),
}

/// UDP datagrams out.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UdpOutput {
    /// Receivers or multicast groups with their ports. Each gets each datagram.
    #[schemars(length(min = 1, max = 64))]
    pub to: Vec<Text<SocketAddr>>,
    /// Enables an RTP header in front of each datagram.
    #[serde(default)]
    pub rtp: bool,
    /// Parity for forward error correction, sent to the ports 2 and 4 above. It needs `rtp`. Default: none.
    pub fec: Option<Fec>,
    /// Interface of outgoing multicast.
    pub interface: Option<String>,
    /// Maximum number of routers that multicast crosses.
    #[serde(default = "default_ttl")]
    #[schemars(range(min = 1))]
    pub ttl: u8,
    /// Differentiated services codepoint.
    #[serde(default)]
    #[schemars(range(max = 63))]
    pub dscp: u8,
}

const fn default_ttl() -> u8 {
    1
}

/// Matrices of datagrams whose columns, and rows if asked for, have parity (SMPTE 2022-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fec {
    /// Number of columns: the longest burst of lost datagrams that is repaired.
    #[schemars(range(min = 1, max = 20))]
    pub columns: u8,
    /// Number of rows: one parity packet is sent for as many datagrams. The matrix has 100 datagrams at most.
    #[schemars(range(min = 4, max = 20))]
    pub rows: u8,
    /// Enables parity of rows too, one packet for each row.
    #[serde(default)]
    pub row_parity: bool,
}

/// Output to a file.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileOutput {
    /// Path of the file, relative to the folder of the site file.
    pub path: PathBuf,
}

/// Program.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Program and its arguments.
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
}

/// Input with carriers of other sites.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Input {
    /// UDP datagrams, unicast or multicast.
    Udp(UdpInput),
    /// File, or a FIFO that exists.
    File(FileInput),
    /// Standard output of a program, such as a demodulator.
    Program(Program),
}

/// UDP datagrams in.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UdpInput {
    /// Address and port to listen at. The address is one of this machine, 0.0.0.0, [::], or a multicast group.
    pub listen: Text<SocketAddr>,
    /// Senders whose datagrams are taken; all if empty.
    #[serde(default)]
    pub from: Vec<Text<IpAddr>>,
    /// Set if each datagram has an RTP header in front.
    #[serde(default)]
    pub rtp: bool,
    /// Maximum time that an RTP datagram waits for an earlier one. "0 s" disables reordering. Default: 10 ms; 250 ms with `fec`.
    pub reorder: Option<Span>,
    /// Enables repair of lost datagrams by parity, received at the ports 2 and 4 above. It needs `rtp`.
    #[serde(default)]
    pub fec: bool,
    /// Interface on which a group is joined.
    pub interface: Option<String>,
}

/// Input from a file.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileInput {
    /// Path of the file, relative to the folder of the site file.
    pub path: PathBuf,
    /// Rate at which a file is read. Default: no limit.
    pub rate: Option<Rate>,
}

/// Remote site.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Remote {
    /// PID to it; with GSE an input stream identifier, 0 to 255.
    ///
    /// With GSE, remote sites with the same one share BBFRAMEs, and need an `address` each.
    pub send: Text<Pid>,
    /// PIDs, or input stream identifiers, of its carrier to this site. Feedback is sent for the first.
    pub receive: Vec<Text<Pid>>,
    /// Networks behind it, for a router.
    #[serde(default)]
    pub networks: Vec<Text<Prefix>>,
    /// Encapsulation. Default: "ule".
    #[serde(default)]
    pub encapsulation: Encapsulation,
    /// Packing threshold: maximum wait of a partly filled TS packet or BBFRAME.
    ///
    /// Without it each packet is sent at once, with padding.
    pub packing: Option<Span>,
    /// Address of the remote site. It is the NPA address of ULE, the MAC address of MPE, the label of GSE.
    pub address: Option<Address>,
    /// Addresses of this site that it sends to; all if empty.
    #[serde(default)]
    pub own_addresses: Vec<Address>,
    /// Enables an LLC/SNAP header in every MPE section.
    #[serde(default)]
    pub llc: bool,
    /// Rules that compress, carry unchanged, or drop packets. The first that matches applies.
    #[serde(default)]
    pub filter: Filter,
    /// Header compression, which the remote site has to have with the same keys. Without it there is none.
    pub rohc: Option<Rohc>,
    /// Return of a one-way carrier in a tunnel over an IPv4 network (RFC 3077). Default: none.
    pub udlr: Option<Udlr>,
    /// Name of a device for this remote site alone, 1 to 15 characters. Default: that of the LAN.
    ///
    /// The device is of the LAN's kind and MTU, and has the routes to `networks`. Its addresses are left to the machine.
    pub device: Option<String>,
}

/// Return of a one-way carrier in a tunnel.
///
/// Packets go as Ethernet frames in GRE to an address that the feed announces on the carrier. A running gateway without privileges does not open another one at a reload.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "role", rename_all = "kebab-case")]
pub enum Udlr {
    /// Sender on the carrier, to which the remote site returns in the tunnel.
    Feed(UdlrFeed),
    /// Receiver of the carrier, which returns in the tunnel.
    Receiver(UdlrReceiver),
}

/// Feed of a one-way carrier.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UdlrFeed {
    /// IPv4 address of this machine to which tunnelled packets come (FBIP).
    pub address: Text<Ipv4Addr>,
    /// IPv4 address from which the remote site's tunnelled packets come.
    pub receiver: Text<Ipv4Addr>,
    /// Address of this site on the carrier, by which receivers know it (FUIP).
    pub feed_address: Text<Ipv4Addr>,
    /// Interval of HELLOs, in whole seconds up to 255. Default: "5 s".
    #[serde(default = "default_hello_interval")]
    pub hello_interval: Span,
}

const fn default_hello_interval() -> Span {
    Span::from_secs(5)
}

/// Receiver of a one-way carrier.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UdlrReceiver {
    /// IPv4 address of this machine from which tunnelled packets go.
    pub address: Text<Ipv4Addr>,
    /// Address of the feed on the carrier (FUIP).
    pub feed_address: Text<Ipv4Addr>,
    /// Number of intervals without HELLO after which the tunnel is forgotten. Default: 3.
    #[serde(default = "default_hello_intervals")]
    #[schemars(range(min = 1, max = 255))]
    pub hello_intervals: u8,
}

const fn default_hello_intervals() -> u8 {
    3
}

/// Statistics and log of a running site.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Statistics {
    /// File for a line of JSON each second; "-" is standard output.
    pub json: Option<PathBuf>,
    /// Address and port on loopback for Prometheus.
    pub prometheus: Option<Text<SocketAddr>>,
    /// File for the log of anomalies. Default: standard error.
    pub log: Option<PathBuf>,
}

/// Captures of a running site, each a ring of files.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    /// Start of the files' paths, relative to the folder of the site file.
    ///
    /// "air" makes air-lan-1.pcap, air-sent-1.pcap and so on.
    pub path: PathBuf,
    /// Maximum length of a file. Default: 10 MB.
    #[serde(default = "default_capture_size")]
    pub size: Bytes,
    /// Number of files at each point, 2 to 100. The oldest is used again. Default: 4.
    #[serde(default = "default_capture_files")]
    #[schemars(range(min = 2, max = 100))]
    pub files: usize,
    /// Points of capture. Default: all.
    #[serde(default = "default_points")]
    #[schemars(length(min = 1, max = 3))]
    pub points: Vec<Point>,
    /// Maximum number of bytes of each packet. Default: 262,144 B.
    #[serde(default = "default_snap_len")]
    pub snap_len: Bytes,
}

const fn default_capture_size() -> Bytes {
    Bytes::new(10_000_000)
}

const fn default_capture_files() -> usize {
    4
}

fn default_points() -> Vec<Point> {
    Point::ALL.to_vec()
}

const fn default_snap_len() -> Bytes {
    Bytes::new(MAX_RECORD_LEN as u64)
}

/// Value in text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<T>(pub T);

impl<'de, T: FromStr<Err: std::fmt::Display> + Example> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text<T>, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        let wrong = |error: T::Err| match T::EXAMPLE {
            "" => de::Error::custom(error),
            example => de::Error::custom(format!("\"{text}\" is none: expected {example}")),
        };
        text.parse().map(Text).map_err(wrong)
    }
}

impl<T> JsonSchema for Text<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// Expected form, where the error of the type does not state it.
pub trait Example {
    /// Expected form, with an example; empty if the error of the type itself says it.
    const EXAMPLE: &'static str;
}

impl Example for SocketAddr {
    const EXAMPLE: &'static str =
        "an address and a port such as \"192.0.2.2:5004\" or \"[2001:db8::2]:5004\"";
}

impl Example for Ipv4Addr {
    const EXAMPLE: &'static str = "an IPv4 address such as \"192.0.2.2\"";
}

impl Example for IpAddr {
    const EXAMPLE: &'static str = "an address such as \"192.0.2.2\" or \"2001:db8::2\"";
}

impl Example for Prefix {
    const EXAMPLE: &'static str = "";
}

/// Address of an interface with its prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface(pub IpAddr, pub u8);

impl FromStr for Interface {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Interface, &'static str> {
        let (address, len) = text.split_once('/').ok_or("no prefix length")?;
        let (address, len): (IpAddr, u8) =
            address.parse().ok().zip(len.parse().ok()).ok_or("neither IPv4 nor IPv6")?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        if len > width { Err("the prefix is too long") } else { Ok(Interface(address, len)) }
    }
}

impl Example for Interface {
    const EXAMPLE: &'static str =
        "an address with its prefix length such as \"10.0.1.1/24\" or \"fd00:1::1/64\"";
}

/// PID, or input stream identifier, in decimal or hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pid(pub u16);

impl FromStr for Pid {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Pid, &'static str> {
        let number = match text.strip_prefix("0x") {
            Some(hex) => u16::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        };
        number.filter(|&number| number < 0x1fff).map(Pid).ok_or("no PID")
    }
}

impl Example for Pid {
    const EXAMPLE: &'static str = "a PID such as \"0x101\" or \"257\"";
}

impl std::fmt::Display for Pid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
