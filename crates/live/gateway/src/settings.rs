//! Conversion of a site file to a gateway's settings, with checks across keys.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use crate::{
    CaptureConfig, Carrier, Config, Framing, InputConfig, Lan, LanKind, Listen, Nulls, OutputConfig, Remote,
    Send, Tables, UdlrConfig, UdlrRole,
};
use bentpipe_dvb::{self as dvb, Encapsulation, RohcMode};
use bentpipe_record::{RingSize, RingSizeError};
use bentpipe_scenario::{ScenarioError, Settings};
use bentpipe_units::{Bytes, Rate, Span};
use bentpipe_wire::bbframe::{FrameSize, Modcod};
use bentpipe_wire::ts;

use super::fec::{InvalidMatrix, Matrix};
use super::file::{self, Site, Text};

/// Longest packet in bytes that every encapsulation carries. It is a bridged frame in an SNDU of 15 bits length.
const MAX_MTU: u64 = 32_000;

/// Default of the time that a datagram of RTP waits for an earlier one.
const DEFAULT_REORDER: Span = Span::from_millis(10);
/// Default of that time with repair by parity. A matrix of 100 datagrams at 4.2 Mbit/s lasts as long.
const DEFAULT_REPAIR: Span = Span::from_millis(250);
/// Maximum of that time.
const MAX_REORDER: Span = Span::from_secs(1);

/// A problem and the key that has it.
type Problem = (String, String);

/// Error returned when a site file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// The file cannot be read, or its keys or values are wrong.
    #[error(transparent)]
    File(#[from] bentpipe_scenario::Error),
    /// Contradiction between keys.
    #[error(transparent)]
    Refused(#[from] ScenarioError),
}

/// A site file that was read.
pub type SiteSettings = Settings<Site>;

/// Reads a site file, and returns it with the gateway's configuration.
///
/// # Errors
/// Returns everything that is wrong with it, with line, key and expected value.
pub fn read(path: &Path) -> Result<(SiteSettings, Config), SiteError> {
    let settings = bentpipe_paths::settings::<Site>(path)?;
    let config = config(&settings)?;
    Ok((settings, config))
}

/// Parses a site file that was read elsewhere.
///
/// # Errors
/// As [`read`].
pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<(SiteSettings, Config), SiteError> {
    let settings = Settings::<Site>::of_file(path, bytes)?;
    let config = config(&settings)?;
    Ok((settings, config))
}

/// The gateway's settings that a file asks for.
///
/// # Errors
/// What does not go together.
pub fn config(settings: &Settings<Site>) -> Result<Config, ScenarioError> {
    let site = settings.value();
    let mut problems = Problems::default();
    let remotes = remotes(site, &mut problems);
    let carrier = carrier(site, &mut problems);
    check_pids(site, &mut problems);
    check_networks(site, &mut problems);
    check_ends(site, &mut problems);
    check_lan(site, &mut problems);
    check_devices(site, &mut problems);
    check_statistics(site, &mut problems);
    check_capture(site, &mut problems);
    match carrier {
        Some(carrier) if problems.0.is_empty() => Ok(Config {
            lan: lan(&site.lan),
            carrier,
            outputs: site.output.iter().map(|output| self::output(output, settings.folder())).collect(),
            inputs: site.input.iter().map(|input| self::input(input, settings.folder())).collect(),
            remotes,
            capture: site.capture.as_ref().and_then(|capture| self::capture(capture, settings.folder()).ok()),
        }),
        _ => Err(settings.refusal(problems.0)),
    }
}

#[derive(Default)]
struct Problems(Vec<Problem>);

impl Problems {
    /// Notes a problem of `key` unless it `holds`.
    fn unless(&mut self, holds: bool, key: impl Into<String>, problem: impl Into<String>) {
        if !holds {
            self.0.push((key.into(), problem.into()));
        }
    }
}

/// Expected form of a device's name.
const NO_DEVICE: &str = "expected 1 to 15 characters without blanks and slashes";

/// Returns `true` for a possible name of a device.
fn is_device(name: &str) -> bool {
    let is_bad = |c: char| c == '/' || c.is_whitespace() || c.is_control();
    (1..=15).contains(&name.len()) && !name.chars().any(is_bad)
}

/// Checks the devices of remote sites.
fn check_devices(site: &Site, problems: &mut Problems) {
    let mut taken = vec![(site.lan.device.as_str(), "lan.device".to_owned())];
    for (name, remote) in &site.remote {
        let Some(device) = &remote.device else { continue };
        let key = format!("remote.{name}.device");
        problems.unless(is_device(device), &key, NO_DEVICE);
        if let Some((_, other)) = taken.iter().find(|(taken, _)| taken == device) {
            problems.unless(false, &key, format!("{device} is taken by {other}: expected another name"));
        }
        taken.push((device, key));
    }
}

fn lan(lan: &file::Lan) -> Lan {
    let kind = match lan.kind {
        file::LanKind::Router => LanKind::Router,
        file::LanKind::Bridge => {
            LanKind::Bridge { master: lan.bridge.clone(), stations: lan.stations, ageing: lan.ageing }
        }
    };
    Lan {
        device: lan.device.clone(),
        kind,
        addresses: lan.addresses.iter().map(|Text(file::Interface(address, len))| (*address, *len)).collect(),
        mtu_bytes: lan.mtu.get() as u32,
    }
}

fn check_lan(site: &Site, problems: &mut Problems) {
    let lan = &site.lan;
    problems.unless(is_device(&lan.device), "lan.device", NO_DEVICE);
    let has_v6 = lan.addresses.iter().any(|Text(interface)| interface.0.is_ipv6());
    let least = if has_v6 { 1280 } else { 68 };
    problems.unless(
        (least..=MAX_MTU).contains(&lan.mtu.get()),
        "lan.mtu",
        format!("expected {least} B to {MAX_MTU} B: what IP asks for, and what the encapsulation carries"),
    );
    problems.unless(
        lan.bridge.is_none() || lan.kind == file::LanKind::Bridge,
        "lan.bridge",
        "only the device of a bridge can be put into one: expected `kind = \"bridge\"` with it",
    );
}

fn carrier(site: &Site, problems: &mut Problems) -> Option<Carrier> {
    let carrier = &site.carrier;
    let rate_is_right = carrier.rate.is_none_or(|rate| (1000..=10_000_000_000).contains(&rate.as_bps()));
    problems.unless(rate_is_right, "carrier.rate", "expected 1 kbit/s to 10 Gbit/s");
    let has_gse = site.remote.values().any(|remote| remote.encapsulation == Encapsulation::Gse);
    let framing = if has_gse { frames(site, problems) } else { Some(transport_stream(carrier, problems)) };
    let queue = carrier.queue.unwrap_or_else(|| default_queue(carrier.rate));
    problems.unless(queue.get() >= 1500, "carrier.queue", "expected 1500 B or more: a packet at least");
    framing.map(|framing| Carrier { rate: carrier.rate, framing, queue })
}

/// A quarter of a second.
fn default_queue(rate: Option<Rate>) -> Bytes {
    let bytes = rate.map_or(1_000_000, |rate| (rate.as_bytes_per_sec() / 4.0) as u64);
    Bytes::new(bytes.max(16_384))
}

fn transport_stream(carrier: &file::Carrier, problems: &mut Problems) -> Framing {
    problems.unless(
        carrier.nulls != file::Nulls::Fill || carrier.rate.is_some(),
        "carrier.nulls",
        "there is no rate to fill: expected `rate` next to it, or \"group\" or \"never\"",
    );
    for (key, is_given) in [
        ("carrier.modcod", carrier.modcod.is_some()),
        ("carrier.short", carrier.short),
        ("carrier.adaptation", carrier.adaptation),
    ] {
        problems.unless(!is_given, key, "only GSE is in baseband frames: expected `encapsulation = \"gse\"` of the remote sites, or not this key");
    }
    let nulls = match carrier.nulls {
        file::Nulls::Never => Nulls::Never,
        file::Nulls::Group => Nulls::Group(carrier.group),
        file::Nulls::Fill => Nulls::Fill,
    };
    let tables = carrier.tables.as_ref().map(|tables| {
        let is_right = (0x20..0x1fff).contains(&tables.pid.0.0);
        problems.unless(is_right, "carrier.tables.pid", "expected a PID from 0x20 to 0x1ffe");
        let is_soon = tables.interval >= Span::from_millis(10);
        problems.unless(is_soon, "carrier.tables.interval", "expected 10 ms or more");
        Tables {
            stream_id: tables.stream,
            programme: tables.programme,
            map_pid: ts::Pid::new(tables.pid.0.0).unwrap_or(ts::Pid::NULL),
            interval: tables.interval,
        }
    });
    Framing::Ts { packets: carrier.packets, nulls, tables }
}

fn frames(site: &Site, problems: &mut Problems) -> Option<Framing> {
    let carrier = &site.carrier;
    for (name, remote) in &site.remote {
        problems.unless(
            remote.encapsulation == Encapsulation::Gse,
            format!("remote.{name}.encapsulation"),
            "another remote site has GSE, and baseband frames and transport streams do not mix: expected \"gse\" here too",
        );
    }
    let is_udp = |output: &file::Output| matches!(output, file::Output::Udp(output) if !output.rtp);
    for (n, _) in site.output.iter().enumerate().filter(|(_, output)| !is_udp(output)) {
        problems.unless(
            false,
            format!("output.{n}"),
            "baseband frames leave by UDP: expected `kind = \"udp\"` without `rtp`",
        );
    }
    let is_udp = |input: &file::Input| matches!(input, file::Input::Udp(input) if !input.rtp);
    for (n, _) in site.input.iter().enumerate().filter(|(_, input)| !is_udp(input)) {
        problems.unless(
            false,
            format!("input.{n}"),
            "baseband frames come by UDP: expected `kind = \"udp\"` without `rtp`",
        );
    }
    problems.unless(
        carrier.nulls == file::Nulls::Never,
        "carrier.nulls",
        "baseband frames have no NULL packets: expected \"never\"",
    );
    problems.unless(
        carrier.tables.is_none(),
        "carrier.tables",
        "baseband frames have no tables: expected not this key",
    );
    let Some(name) = &carrier.modcod else {
        problems.unless(
            false,
            "carrier",
            "`modcod` is missing, which says how long GSE's baseband frames are: expected \"QPSK 3/4\", say",
        );
        return None;
    };
    let size = if carrier.short { FrameSize::Short } else { FrameSize::Normal };
    match name.parse::<Modcod>() {
        Ok(modcod) => {
            let fits = modcod.data_field_len(size).is_some();
            problems.unless(fits, "carrier.short", format!("{modcod} has no short FECFRAME: expected false"));
            Some(Framing::Frames { modcod, size, has_adaptation: carrier.adaptation })
        }
        Err(error) => {
            problems.unless(false, "carrier.modcod", error.to_string());
            None
        }
    }
}

fn remotes(site: &Site, problems: &mut Problems) -> Vec<Remote> {
    problems.unless(!site.remote.is_empty(), "remote", "expected one remote site at least: [remote.NAME]");
    let is_bridge = site.lan.kind == file::LanKind::Bridge;
    let remote = |(name, remote): (&String, &file::Remote)| {
        let key = |key: &str| format!("remote.{name}.{key}");
        let stream = stream(remote);
        if let Err(why) = stream.check() {
            problems.unless(false, key(&why.path()), format!("expected {}", why.expected));
        }
        problems.unless(
            !(is_bridge && remote.encapsulation == Encapsulation::Mpe),
            key("encapsulation"),
            "MPE carries no Ethernet frames: expected \"ule\" or \"gse\" for a bridge",
        );
        let mode = remote.rohc.as_ref().map_or(RohcMode::Unidirectional, |rohc| rohc.mode);
        problems.unless(
            mode == RohcMode::Unidirectional || !remote.receive.is_empty(),
            key("rohc.mode"),
            "nothing is received from it that could bring feedback: expected \"unidirectional\", or a PID in `receive`",
        );
        problems.unless(
            is_bridge || !remote.networks.is_empty(),
            format!("remote.{name}"),
            "`networks` is missing, without which a router sends nothing there: expected [\"10.0.2.0/24\"], say",
        );
        problems.unless(
            !is_bridge || remote.networks.is_empty(),
            key("networks"),
            "a bridge learns where stations are: expected not this key, or `lan.kind = \"router\"`",
        );
        Remote {
            name: name.clone(),
            send: remote.send.0.0,
            receive: remote.receive.iter().map(|pid| pid.0.0).collect(),
            networks: remote.networks.iter().map(|Text(network)| *network).collect(),
            stream,
            own_addresses: remote.own_addresses.iter().map(|address| address.0).collect(),
            device: remote.device.clone(),
            udlr: remote.udlr.as_ref().and_then(|udlr| tunnel(name, remote, udlr, problems)),
        }
    };
    site.remote.iter().map(remote).collect()
}

/// Returns the tunnelled return of a remote site; `None` after a problem.
fn tunnel(
    name: &str,
    remote: &file::Remote,
    udlr: &file::Udlr,
    problems: &mut Problems,
) -> Option<UdlrConfig> {
    let key = |key: &str| format!("remote.{name}.{key}");
    match udlr {
        file::Udlr::Feed(feed) => {
            problems.unless(
                remote.receive.is_empty(),
                key("receive"),
                "the remote site returns in a tunnel (`udlr`): expected no PID",
            );
            let receiver = feed.receiver.0;
            for (n, Text(network)) in remote.networks.iter().enumerate() {
                problems.unless(
                    !network.contains(receiver.into()),
                    key(&format!("networks.{n}")),
                    format!(
                        "{network} has the receiver {receiver} of the tunnel: expected networks without it"
                    ),
                );
            }
            let seconds = feed.hello_interval.as_nanos() / 1_000_000_000;
            let is_whole = Span::from_secs(seconds) == feed.hello_interval && seconds > 0;
            let interval = u8::try_from(seconds).ok().filter(|_| is_whole);
            problems.unless(
                interval.is_some(),
                key("udlr.hello_interval"),
                "expected 1 to 255 whole seconds",
            );
            let role = UdlrRole::Feed { receiver, interval_s: interval? };
            Some(UdlrConfig { role, address: feed.address.0, feed_address: feed.feed_address.0 })
        }
        file::Udlr::Receiver(receiver) => {
            problems.unless(
                !remote.receive.is_empty(),
                key("receive"),
                "nothing is received from the feed (`udlr`): expected a PID",
            );
            let intervals = receiver.hello_intervals;
            problems.unless(intervals > 0, key("udlr.hello_intervals"), "expected 1 to 255, got 0");
            let role = UdlrRole::Receiver { intervals };
            Some(UdlrConfig { role, address: receiver.address.0, feed_address: receiver.feed_address.0 })
        }
    }
}

fn stream(remote: &file::Remote) -> dvb::Config {
    dvb::Config {
        encapsulation: remote.encapsulation,
        packing: remote.packing,
        to: remote.address,
        llc: remote.llc,
        filter: remote.filter.clone(),
        rohc: remote.rohc.clone(),
        ..dvb::Config::default()
    }
}

/// No PID may mean two things.
fn check_pids(site: &Site, problems: &mut Problems) {
    let mut meanings: HashMap<u16, String> = HashMap::new();
    if let Some(tables) = &site.carrier.tables {
        meanings.insert(tables.pid.0.0, "the PMT".to_owned());
    }
    for (name, remote) in &site.remote {
        let is_gse = remote.encapsulation == Encapsulation::Gse;
        let receive = remote.receive.iter().enumerate().map(|(n, pid)| (format!("receive.{n}"), pid));
        for (key, Text(pid)) in [("send".to_owned(), &remote.send)].into_iter().chain(receive) {
            let key = format!("remote.{name}.{key}");
            let (least, most, what) =
                if is_gse { (0, 0xff, "input stream identifier") } else { (0x20, 0x1ffe, "PID") };
            let is_right = (least..=most).contains(&pid.0);
            problems.unless(
                is_right,
                &key,
                format!("expected a {what} from \"{least:#x}\" to \"{most:#x}\""),
            );
            let other = meanings.get(&pid.0).filter(|other| !(is_gse && share_frames(site, &key, other)));
            if let Some(other) = other {
                let expected = if is_gse && [&key, other].iter().all(|key| key.ends_with(".send")) {
                    "expected another, or an `address` of its own for each, by which receivers of shared frames go"
                } else {
                    "expected another"
                };
                problems.unless(false, &key, format!("{pid} is taken by {other}: {expected}"));
            }
            meanings.insert(pid.0, key);
        }
    }
}

/// Returns `true` if two keys are the `send` of remote sites that may share frames. Their addresses differ.
fn share_frames(site: &Site, one: &str, two: &str) -> bool {
    let address = |key: &str| {
        let name = key.strip_prefix("remote.")?.strip_suffix(".send")?;
        site.remote.get(name)?.address.map(|address| address.0)
    };
    matches!((address(one), address(two)), (Some(one), Some(two)) if one != two)
}

/// No network may be at two sites, or on the way of what carries it.
fn check_networks(site: &Site, problems: &mut Problems) {
    let mut places: HashMap<String, &str> = HashMap::new();
    for (name, remote) in &site.remote {
        for (n, Text(network)) in remote.networks.iter().enumerate() {
            let key = format!("remote.{name}.networks.{n}");
            let before = places.insert(network.to_string(), name).filter(|_| !network.is_multicast());
            if let Some(other) = before {
                problems.unless(
                    false,
                    &key,
                    format!("{network} is behind {other} already: expected another network"),
                );
            }
            for Text(to) in destinations(site).filter(|to| !to.0.ip().is_multicast()) {
                problems.unless(
                    !network.contains(to.ip()),
                    &key,
                    format!("{network} has the receiver {to}, so what is sent would be sent through itself: expected networks without it"),
                );
            }
        }
    }
}

fn destinations(site: &Site) -> impl Iterator<Item = &Text<SocketAddr>> {
    site.output.iter().flat_map(|output| match output {
        file::Output::Udp(output) => &output.to[..],
        file::Output::File(_) | file::Output::Program(_) => &[],
    })
}

fn check_ends(site: &Site, problems: &mut Problems) {
    let has_end = !site.output.is_empty() || !site.input.is_empty();
    problems.unless(has_end, "", "neither `output` nor `input`: expected [[output]] or [[input]], or both");
    for (n, input) in site.input.iter().enumerate() {
        let file::Input::Udp(input) = input else { continue };
        let is_port = input.listen.0.port() != 0;
        problems.unless(is_port, format!("input.{n}.listen"), "expected a port from 1 to 65535");
        let is_bounded = input.reorder.is_none_or(|reorder| reorder <= MAX_REORDER);
        problems.unless(is_bounded, format!("input.{n}.reorder"), "expected 1 s or less");
        let has_numbers = input.rtp || input.reorder.is_none();
        problems.unless(
            has_numbers,
            format!("input.{n}.reorder"),
            "datagrams without RTP have no numbers: expected `rtp = true`, or not this key",
        );
        let has_ports = input.listen.0.port() <= u16::MAX - 4;
        check_fec(input.fec, input.rtp, has_ports, &format!("input.{n}.fec"), problems);
        let same = |from: &Text<IpAddr>| from.0.is_ipv6() == input.listen.0.is_ipv6();
        let of_family = input.from.iter().all(same);
        problems.unless(of_family, format!("input.{n}.from"), "expected addresses of the family of `listen`");
    }
    for (n, output) in site.output.iter().enumerate() {
        let file::Output::Udp(output) = output else { continue };
        let key = format!("output.{n}.fec");
        let has_ports = output.to.iter().all(|to| to.0.port() <= u16::MAX - 4);
        check_fec(output.fec.is_some(), output.rtp, has_ports, &key, problems);
        if let Some(Err(error)) = output.fec.map(matrix) {
            problems.unless(false, key, error.to_string());
        }
    }
    let rates = site.input.iter().enumerate().filter_map(|(n, input)| match input {
        file::Input::File(input) => input.rate.map(|rate| (n, rate)),
        _ => None,
    });
    for (n, rate) in rates {
        problems.unless(rate.as_bps() >= 1000, format!("input.{n}.rate"), "expected 1 kbit/s or more");
    }
}

/// Parity needs sequence numbers, and two more ports.
fn check_fec(is_on: bool, has_rtp: bool, has_ports: bool, key: &str, problems: &mut Problems) {
    problems.unless(
        !is_on || has_rtp,
        key,
        "datagrams without RTP have no numbers: expected `rtp = true` next to it",
    );
    problems.unless(
        !is_on || has_ports,
        key,
        "parity has the ports 2 and 4 above: expected a port up to 65531",
    );
}

fn matrix(fec: file::Fec) -> Result<Matrix, InvalidMatrix> {
    Matrix::new(fec.columns, fec.rows, fec.row_parity)
}

fn check_statistics(site: &Site, problems: &mut Problems) {
    let at = site.statistics.prometheus.as_ref();
    problems.unless(
        at.is_none_or(|at| at.0.ip().is_loopback()),
        "statistics.prometheus",
        "anybody could read there: expected an address of loopback such as \"127.0.0.1:9188\"",
    );
}

fn check_capture(site: &Site, problems: &mut Problems) {
    let Some(capture) = &site.capture else { return };
    if let Err(error) = self::capture(capture, Path::new("")) {
        problems.unless(false, "capture", error.to_string());
    }
    problems.unless(
        capture.path.file_name().is_some(),
        "capture.path",
        "expected the start of files' names such as \"captures/air\"",
    );
    let is_repeated = |n: usize| capture.points[..n].contains(&capture.points[n]);
    for n in (0..capture.points.len()).filter(|n| is_repeated(*n)) {
        problems.unless(
            false,
            format!("capture.points.{n}"),
            "the point is in the list already: expected each once",
        );
    }
    problems.unless(capture.snap_len.get() > 0, "capture.snap_len", "expected 1 B or more");
}

fn capture(capture: &file::Capture, folder: &Path) -> Result<CaptureConfig, RingSizeError> {
    Ok(CaptureConfig {
        path: folder.join(&capture.path),
        size: RingSize::new(capture.size.get(), capture.files)?,
        snap_len: capture.snap_len.get() as usize,
        points: capture.points.clone(),
    })
}

fn output(output: &file::Output, folder: &Path) -> OutputConfig {
    match output {
        file::Output::Udp(output) => OutputConfig::Udp {
            send: Send {
                to: output.to.iter().map(|Text(to)| *to).collect(),
                interface: output.interface.clone(),
                ttl: output.ttl,
                dscp: output.dscp,
            },
            rtp: output.rtp,
            fec: output.fec.and_then(|fec| matrix(fec).ok()),
        },
        file::Output::File(output) => OutputConfig::File(folder.join(&output.path)),
        file::Output::Program(program) => OutputConfig::Program(program.command.clone()),
    }
}

fn input(input: &file::Input, folder: &Path) -> InputConfig {
    match input {
        file::Input::Udp(input) => InputConfig::Udp {
            listen: Listen {
                at: input.listen.0,
                interface: input.interface.clone(),
                from: input.from.iter().map(|Text(from)| *from).collect(),
            },
            rtp: input.rtp,
            reorder: input.reorder.unwrap_or(if input.fec { DEFAULT_REPAIR } else { DEFAULT_REORDER }),
            fec: input.fec,
        },
        file::Input::File(input) => InputConfig::File(folder.join(&input.path), input.rate),
        file::Input::Program(program) => InputConfig::Program(program.command.clone()),
    }
}
