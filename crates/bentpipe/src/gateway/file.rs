//! The site file. These declarations are the format: reading, checking and the messages about mistakes are made from them
//! and from their doc comments.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use bentpipe_emu::gateway::Prefix;
use bentpipe_net::dvb::{Address, Encapsulation, Filter, Rohc};
use bentpipe_units::{Bytes, Rate, Span};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

/// A site: the network here, what it sends, where that goes, where the others' comes from, and the others.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Site {
    /// What the site is called.
    pub(super) title: String,
    /// The network here.
    pub(super) lan: Lan,
    /// What this site sends.
    #[serde(default)]
    pub(super) carrier: Carrier,
    /// Where that goes; each output gets all of it.
    #[serde(default)]
    pub(super) output: Vec<Output>,
    /// Where the other sites' carriers come from.
    #[serde(default)]
    pub(super) input: Vec<Input>,
    /// The other sites, by their names.
    pub(super) remote: BTreeMap<String, Remote>,
    /// What is told of it while it runs.
    #[serde(default)]
    pub(super) statistics: Statistics,
}

/// How the gateway is connected to the network here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum LanKind {
    /// A TUN device, to which the kernel routes the remote sites' networks.
    #[default]
    Router,
    /// A TAP device, through which all sites are one Ethernet.
    Bridge,
}

/// The network here.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Lan {
    /// How the gateway is connected to it.
    #[serde(default)]
    pub(super) kind: LanKind,
    /// The name of the device that is made, 1 to 15 characters.
    #[serde(default = "default_device")]
    pub(super) device: String,
    /// The device's addresses with their prefix lengths.
    #[serde(default)]
    pub(super) addresses: Vec<Text<Interface>>,
    /// The longest IP packet.
    #[serde(default = "default_mtu")]
    pub(super) mtu: Bytes,
    /// The kernel's bridge that the device of a bridge is put into.
    pub(super) bridge: Option<String>,
    /// How many stations a bridge remembers.
    #[serde(default = "default_stations")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(super) stations: usize,
    /// How long a bridge remembers a station that is silent.
    #[serde(default = "default_ageing")]
    pub(super) ageing: Span,
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

/// When NULL packets are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Nulls {
    /// Never: the rate is a limit.
    #[default]
    Never,
    /// To complete groups of `group` TS packets, as a modulator card may need.
    Group,
    /// Whenever nothing else waits: the rate is constant, as a modulator needs.
    Fill,
}

/// What this site sends.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Carrier {
    /// The rate of TS packets, or of baseband frames. Without it everything is sent at once.
    pub(super) rate: Option<Rate>,
    /// When NULL packets are sent.
    pub(super) nulls: Nulls,
    /// How many TS packets make a group.
    #[schemars(range(min = 1, max = 1024))]
    pub(super) group: usize,
    /// TS packets in a datagram.
    #[schemars(range(min = 1, max = 7))]
    pub(super) packets: usize,
    /// How much may wait for each remote site. Without it a quarter of a second at the carrier's rate, or 1 MB.
    pub(super) queue: Option<Bytes>,
    /// PAT and PMT, which name the PIDs of the data. Without it there are none.
    pub(super) tables: Option<Tables>,
    /// The MODCOD of GSE's baseband frames, such as "QPSK 3/4".
    pub(super) modcod: Option<String>,
    /// Short FECFRAMEs instead of normal ones.
    pub(super) short: bool,
    /// A mode adaptation header L.3 in front of each baseband frame, also of those that are received.
    pub(super) adaptation: bool,
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
pub(super) struct Tables {
    /// transport_stream_id.
    pub(super) stream: u16,
    /// The programme's number.
    #[schemars(range(min = 1))]
    pub(super) programme: u16,
    /// The PID of the PMT.
    pub(super) pid: Text<Pid>,
    /// How often they are sent.
    pub(super) interval: Span,
}

impl Default for Tables {
    fn default() -> Tables {
        Tables { stream: 1, programme: 1, pid: Text(Pid(0x20)), interval: Span::from_millis(100) }
    }
}

/// Where what this site sends goes.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Output {
    /// UDP datagrams, unicast or multicast.
    Udp(UdpOutput),
    /// A file, or a FIFO that is there already.
    File(FileOutput),
    /// A program's standard input: a modulator, say.
    Program(Program),
}

/// UDP datagrams out.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UdpOutput {
    /// Receivers or multicast groups with their ports. Each gets each datagram.
    #[schemars(length(min = 1, max = 64))]
    pub(super) to: Vec<Text<SocketAddr>>,
    /// An RTP header in front of each datagram.
    #[serde(default)]
    pub(super) rtp: bool,
    /// The interface that multicast leaves by.
    pub(super) interface: Option<String>,
    /// How many routers multicast may cross.
    #[serde(default = "default_ttl")]
    #[schemars(range(min = 1))]
    pub(super) ttl: u8,
    /// Differentiated services codepoint.
    #[serde(default)]
    #[schemars(range(max = 63))]
    pub(super) dscp: u8,
}

const fn default_ttl() -> u8 {
    1
}

/// A file out.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FileOutput {
    /// The file; a relative path starts at the site file's folder.
    pub(super) path: PathBuf,
}

/// A program.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Program {
    /// The program and its arguments.
    #[schemars(length(min = 1))]
    pub(super) command: Vec<String>,
}

/// Where the others' carriers come from.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Input {
    /// UDP datagrams, unicast or multicast.
    Udp(UdpInput),
    /// A file, or a FIFO that is there already.
    File(FileInput),
    /// A program's standard output: a demodulator, say.
    Program(Program),
}

/// UDP datagrams in.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UdpInput {
    /// The address and port to listen at: one of this machine's, 0.0.0.0 or [::], or a multicast group, which is joined.
    pub(super) listen: Text<SocketAddr>,
    /// Whose datagrams are taken; everybody's if empty.
    #[serde(default)]
    pub(super) from: Vec<Text<IpAddr>>,
    /// Whether each datagram has an RTP header in front.
    #[serde(default)]
    pub(super) rtp: bool,
    /// The interface on which a group is joined.
    pub(super) interface: Option<String>,
}

/// A file in.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FileInput {
    /// The file; a relative path starts at the site file's folder.
    pub(super) path: PathBuf,
    /// The rate at which a file is read. Without it, as fast as it goes.
    pub(super) rate: Option<Rate>,
}

/// A remote site.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Remote {
    /// The PID to send to it on; of GSE the input stream identifier, 0 to 255.
    pub(super) send: Text<Pid>,
    /// The PIDs, or input stream identifiers, that it sends to this site on. Feedback is given for the first.
    pub(super) receive: Vec<Text<Pid>>,
    /// The networks behind it, which a router leads there.
    #[serde(default)]
    pub(super) networks: Vec<Text<Prefix>>,
    /// The encapsulation.
    #[serde(default)]
    pub(super) encapsulation: Encapsulation,
    /// How long a partly filled TS packet, or baseband frame, waits for more at the longest (the packing threshold).
    /// Without it each packet is sent at once, the rest of the TS packet being padding.
    pub(super) packing: Option<Span>,
    /// The remote site's address: NPA address of ULE, MAC address of MPE, label of GSE.
    pub(super) address: Option<Address>,
    /// The addresses of this site that it sends to. All are taken if empty.
    #[serde(default)]
    pub(super) own_addresses: Vec<Address>,
    /// An LLC/SNAP header in every MPE section.
    #[serde(default)]
    pub(super) llc: bool,
    /// What of the traffic is compressed, carried as it is, or dropped: rules, of which the first that matches counts.
    #[serde(default)]
    pub(super) filter: Filter,
    /// Header compression, which the remote site has to have with the same keys. Without it there is none.
    pub(super) rohc: Option<Rohc>,
}

/// What is told while it runs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Statistics {
    /// A file to which a line of JSON is added each second; "-" for standard output.
    pub(super) json: Option<PathBuf>,
    /// The address and port, on loopback, at which Prometheus may ask.
    pub(super) prometheus: Option<Text<SocketAddr>>,
    /// A file to which troubles are added; standard error without it.
    pub(super) log: Option<PathBuf>,
}

/// A value that is written as a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Text<T>(pub(super) T);

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

/// What to expect, where the type's own error does not say it.
pub(super) trait Example {
    const EXAMPLE: &'static str;
}

impl Example for SocketAddr {
    const EXAMPLE: &'static str =
        "an address and a port such as \"192.0.2.2:5004\" or \"[2001:db8::2]:5004\"";
}

impl Example for IpAddr {
    const EXAMPLE: &'static str = "an address such as \"192.0.2.2\" or \"2001:db8::2\"";
}

impl Example for Prefix {
    const EXAMPLE: &'static str = "";
}

/// An address of an interface with the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interface(pub(super) IpAddr, pub(super) u8);

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

/// A PID, or an input stream identifier, in decimal or hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pid(pub(super) u16);

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
