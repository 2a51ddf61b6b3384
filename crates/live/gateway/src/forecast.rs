//! `bentpipe gateway check`: what a site would make, and what its carrier carries.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use bentpipe_dvb::{self as dvb, ChannelProfiles, Encapsulation, Encapsulator, Pdu, RohcVersion};
use bentpipe_record::{Cell, Table};
use bentpipe_units::Time;
use bentpipe_wire::checksum::Pseudo;
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::ts::PACKET_LEN;
use bentpipe_wire::{bbframe, ethernet, rtp, udp};

use crate::{Config, Framing, InputConfig, LanKind, Nulls, OutputConfig, Remote};

/// Kinds of traffic that the forecast puts through a real encapsulator. Each is a stream of packets.
const TRAFFIC: [(&str, Load); 6] = [
    ("GSM call: 33 B of RTP each 20 ms, IPv4", GSM),
    ("the same, IDs counted on from call to call", Load { shares_ids: true, ..GSM }),
    ("GSM call: 33 B of RTP each 20 ms, IPv6", Load { is_v6: true, ..GSM }),
    ("G.711 call: 160 B of RTP each 20 ms, IPv4", Load { payload_len: 160, ..GSM }),
    ("512 B over UDP, IPv4", Load { has_rtp: false, payload_len: 512, ..GSM }),
    ("1472 B over UDP, IPv4", Load { has_rtp: false, payload_len: 1472, ..GSM }),
];

/// Packets of each stream. Refreshes are among them, as they are in the long run.
const ROUNDS: u32 = 1700;
/// Calls at a time, as far as there are contexts for them.
const CALLS: u32 = 300;

/// Stream of a GSM call.
const GSM: Load = Load { is_v6: false, has_rtp: true, payload_len: 33, shares_ids: false };
/// Packets of a call per second.
const CALL_RATE: f64 = 50.0;

#[derive(Clone, Copy)]
struct Load {
    is_v6: bool,
    has_rtp: bool,
    payload_len: usize,
    /// Set if one counter gives the IDs of all streams.
    ///
    /// Linux has one for each destination.
    shares_ids: bool,
}

impl Load {
    /// Returns the number of simultaneous streams.
    fn streams(self, stream: &dvb::Config) -> u32 {
        let contexts = stream.rohc.as_ref().map_or(CALLS, |rohc| rohc.contexts.into());
        if self.has_rtp { contexts.clamp(1, CALLS) } else { 1 }
    }

    /// The `n`-th packet of one of `streams`.
    fn packet(self, (stream, streams): (u32, u32), n: u32) -> Vec<u8> {
        let ident = if self.shares_ids { n * streams + stream } else { n } as u16;
        let mut payload = vec![0; self.payload_len + if self.has_rtp { rtp::HEADER_LEN } else { 0 }];
        if self.has_rtp {
            rtp::Repr::new(3, n as u16, n * 160, 0x6265_6e74 + stream).emit(&mut payload);
        }
        let (src, dst) = if self.is_v6 {
            ("2001:db8:1::1".parse().expect("an address"), "2001:db8:2::1".parse().expect("an address"))
        } else {
            ([192, 0, 2, 1].into(), [198, 51, 100, 1].into())
        };
        let udp = udp::Repr {
            src_port: 20_000 + 2 * stream as u16,
            dst_port: 40_000 + 2 * stream as u16,
            payload_len: payload.len(),
        };
        let mut header = ip::Repr::new(src, dst, Protocol::UDP, udp::HEADER_LEN + payload.len());
        if let ip::Repr::V4(v4) = &mut header {
            v4.ident = ident;
        }
        let mut bytes = vec![0; header.buffer_len() + udp::HEADER_LEN];
        header.emit(&mut bytes);
        udp.emit(&mut bytes[header.buffer_len()..]);
        bytes.extend(payload);
        let pseudo = Pseudo::new(src, dst, Protocol::UDP);
        udp::Datagram::new_unchecked(&mut bytes[header.buffer_len()..]).fill_checksum(&pseudo);
        bytes
    }
}

/// Describes the forecast of the site's traffic.
pub fn forecast(title: &str, config: &Config) -> String {
    let mut text = format!("{title}\n\n");
    lan(config, &mut text);
    carrier(config, &mut text);
    for output in &config.outputs {
        let _ = writeln!(text, "output: {}", output_text(output));
    }
    for input in &config.inputs {
        let _ = writeln!(text, "input: {}", input_text(input));
    }
    for remote in &config.remotes {
        let _ = write!(text, "\n{}", remote_text(config, remote));
    }
    for path in config.inputs.iter().filter_map(open_file) {
        let _ = writeln!(
            text,
            "\nwarning: any user of this machine can write to {} and inject packets into this site; take that right away: chmod o-w",
            path.display()
        );
    }
    for input in config.inputs.iter().filter_map(open_input) {
        let _ = writeln!(
            text,
            "\nwarning: any sender that reaches UDP at {input} can inject packets into this site; set `from` to the senders' addresses"
        );
    }
    text
}

/// Returns the address of an input that takes datagrams of any sender.
fn open_input(input: &InputConfig) -> Option<SocketAddr> {
    match input {
        InputConfig::Udp { listen, .. } if listen.from.is_empty() && !listen.at.ip().is_loopback() => {
            Some(listen.at)
        }
        _ => None,
    }
}

/// Returns the path of an input that every user may write.
fn open_file(input: &InputConfig) -> Option<&Path> {
    match input {
        InputConfig::File(path, _) => {
            let mode = path.metadata().ok()?.permissions().mode();
            (mode & 0o002 != 0).then_some(path.as_path())
        }
        _ => None,
    }
}

fn lan(config: &Config, text: &mut String) {
    let lan = &config.lan;
    let kind = match &lan.kind {
        LanKind::Router => "TUN, a router".to_owned(),
        LanKind::Bridge { master: Some(master), .. } => format!("TAP, in the bridge {master}"),
        LanKind::Bridge { master: None, .. } => "TAP, a bridge".to_owned(),
    };
    let addresses: Vec<String> =
        lan.addresses.iter().map(|(address, len)| format!("{address}/{len}")).collect();
    let addresses = if addresses.is_empty() { "no addresses".to_owned() } else { addresses.join(", ") };
    let _ = writeln!(text, "device: {} ({kind}), MTU {} B, {addresses}", lan.device, lan.mtu_bytes);
    for (remote, network) in
        config.remotes.iter().flat_map(|remote| remote.networks.iter().map(move |network| (remote, network)))
    {
        let _ = writeln!(text, "route: {network} through {}, to {}", lan.device, remote.name);
    }
}

fn carrier(config: &Config, text: &mut String) {
    let carrier = &config.carrier;
    let rate = carrier.rate.map_or("without limit".to_owned(), |rate| rate.to_string());
    let queue = carrier.queue;
    match &carrier.framing {
        Framing::Ts { packets, nulls, tables } => {
            let nulls = match nulls {
                Nulls::Never => "no NULL packets".to_owned(),
                Nulls::Group(group) => format!("NULL packets to complete groups of {group}"),
                Nulls::Fill => "NULL packets wherever nothing waits".to_owned(),
            };
            let tables = if tables.is_some() { ", PAT and PMT" } else { "" };
            let _ = writeln!(
                text,
                "carrier: transport stream, {rate}, {packets} packets a datagram, {nulls}{tables}, {queue} may wait for each site"
            );
            if let Some(rate) = carrier.rate {
                let slot_us = (8 * PACKET_LEN) as f64 / rate.as_bps() as f64 * 1e6;
                let datagrams = 1e6 / slot_us / *packets as f64;
                let on_wire = datagrams * 8.0 * ethernet::wire_len(14 + 20 + 8 + packets * PACKET_LEN) as f64;
                let _ = writeln!(
                    text,
                    "         {slot_us:.1} us a packet, {datagrams:.0} datagrams/s, {:.3} Mbit/s on an Ethernet; at 183 B a packet nothing is wasted by a packing threshold of {:.3} ms",
                    on_wire / 1e6,
                    183.0 * 8.0 / rate.as_bps() as f64 * 1e3
                );
            }
        }
        Framing::Frames { modcod, size, has_adaptation } => {
            let len = modcod.data_field_len(*size).unwrap_or(0) + bbframe::HEADER_LEN;
            let adaptation = if *has_adaptation { " behind mode adaptation headers" } else { "" };
            let _ = writeln!(
                text,
                "carrier: baseband frames of {modcod}, {len} B each{adaptation}, {rate}, {queue} may wait for each site"
            );
        }
    }
}

fn output_text(output: &OutputConfig) -> String {
    match output {
        OutputConfig::Udp { send, rtp, fec } => {
            let to: Vec<String> = send.to.iter().map(ToString::to_string).collect();
            let fec = fec.map_or(String::new(), |matrix| format!(", {matrix}"));
            format!("UDP{} to {}{fec}", if *rtp { " with RTP" } else { "" }, to.join(", "))
        }
        OutputConfig::File(path) => format!("file {}", path.display()),
        OutputConfig::Program(words) => format!("program {}", words.join(" ")),
    }
}

fn input_text(input: &InputConfig) -> String {
    match input {
        InputConfig::Udp { listen, rtp, reorder, fec } => {
            let group = if listen.at.ip().is_multicast() { ", a group that is joined" } else { "" };
            let from: Vec<String> = listen.from.iter().map(ToString::to_string).collect();
            let from =
                if from.is_empty() { String::new() } else { format!(", only from {}", from.join(", ")) };
            let rtp = if *rtp { format!(" with RTP, reordered within {reorder}") } else { String::new() };
            let fec = if *fec { ", repaired by parity" } else { "" };
            format!("UDP{rtp}{fec} at {}{group}{from}", listen.at)
        }
        InputConfig::File(path, rate) => {
            let rate = rate.map_or(String::new(), |rate| format!(", played at {rate}"));
            format!("file {}{rate}", path.display())
        }
        InputConfig::Program(words) => format!("program {}", words.join(" ")),
    }
}

/// PIDs, encapsulation, and what it makes of some kinds of traffic.
fn remote_text(config: &Config, remote: &Remote) -> String {
    let stream = &remote.stream;
    let (encapsulation, noun) = match stream.encapsulation {
        Encapsulation::Ule => ("ULE", "PID"),
        Encapsulation::Mpe => ("MPE", "PID"),
        Encapsulation::Gse => ("GSE", "input stream"),
    };
    let packing =
        stream.packing.map_or("padding".to_owned(), |threshold| format!("packing, at most {threshold}"));
    let rohc = stream.rohc.as_ref().map_or("no header compression".to_owned(), |rohc| {
        let version = if rohc.profiles == ChannelProfiles::Version(RohcVersion::V2) { "v2" } else { "" };
        let mode = format!("{:?}", rohc.mode).to_lowercase();
        format!("ROHC{version}, {mode} mode, {} contexts", rohc.contexts)
    });
    let receive: Vec<String> = remote.receive.iter().map(|pid| format!("{pid:#x}")).collect();
    let receive =
        if receive.is_empty() { "nothing".to_owned() } else { format!("{noun} {}", receive.join(", ")) };
    let mut text = format!(
        "{}: sent on {noun} {:#x}, received on {receive}; {encapsulation}, {packing}, {rohc}\n",
        remote.name, remote.send
    );
    let head = [
        "traffic, one kind alone, many streams",
        "B on the carrier a packet",
        "efficiency",
        "packets/s",
        "streams",
    ];
    let rows = TRAFFIC.iter().filter_map(|&(what, load)| {
        let bytes = carried(config, stream, load)?;
        let ip_len = load.packet((0, 1), 0).len() as f64;
        let per_s = config.carrier.rate.map(|rate| rate.as_bps() as f64 / 8.0 / bytes);
        let number =
            |value: Option<f64>| Cell::Number(value.map_or("-".to_owned(), |value| format!("{value:.0}")));
        Some(vec![
            Cell::Text(what.to_owned()),
            Cell::Number(format!("{bytes:.1}")),
            Cell::Number(format!("{:.1} %", 100.0 * ip_len / bytes)),
            number(per_s),
            number(per_s.filter(|_| load.has_rtp).map(|per_s| (per_s / CALL_RATE).floor())),
        ])
    });
    let table =
        Table { caption: String::new(), head: head.map(str::to_owned).to_vec(), rows: rows.collect() };
    text.push_str(&table.to_text(false));
    if config.carrier.rate.is_some() {
        let _ = writeln!(
            text,
            "with that number of streams a packet waits up to {:.0} ms for those of the others, and the packing threshold",
            1e3 / CALL_RATE
        );
    }
    text
}

/// Returns the carrier bytes per packet of a load that keeps the carrier busy. It puts packets through a real
/// encapsulator.
fn carried(config: &Config, stream: &dvb::Config, load: Load) -> Option<f64> {
    let mut encapsulator = Encapsulator::new(stream).ok()?;
    let is_bridge = matches!(config.lan.kind, LanKind::Bridge { .. });
    let capacity = match &config.carrier.framing {
        Framing::Ts { .. } => 0,
        Framing::Frames { modcod, size, .. } => modcod.data_field_len(*size)?,
    };
    let (mut bytes, mut field, now) = (0, Vec::new(), Time::ZERO);
    let streams = load.streams(stream);
    for number in 0..streams * ROUNDS {
        let packet = load.packet((number % streams, streams), number / streams);
        let pushed = if is_bridge {
            let ethertype = if load.is_v6 { ethernet::EtherType::IPV6 } else { ethernet::EtherType::IPV4 };
            let mut frame = vec![0; ethernet::HEADER_LEN];
            let mac = |last| ethernet::MacAddr([2, 0, 0, 0, 0, last]);
            ethernet::Repr::new(mac(1), mac(2), ethertype).emit(&mut frame);
            frame.extend(packet);
            encapsulator.push(now, &Pdu::ethernet(&frame))
        } else {
            encapsulator.push(now, &Pdu::ip(&packet))
        };
        pushed.ok()?;
        while encapsulator.pop(now).is_some() {
            bytes += PACKET_LEN;
        }
        while capacity > 0 && encapsulator.fill(now, capacity, &mut field).is_some() {
            bytes += bbframe::HEADER_LEN + capacity;
            field.clear();
        }
    }
    // What is packed still waits: the part of a frame that it takes counts.
    bytes += encapsulator.waiting_len();
    Some(bytes as f64 / f64::from(streams * ROUNDS))
}
