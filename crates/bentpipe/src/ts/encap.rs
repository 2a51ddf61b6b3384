//! `bentpipe ts encap`.

use std::path::PathBuf;
use std::time::Duration;

use bentpipe_rohc::{Compressor, CompressorConfig};
use bentpipe_units::Span;
use bentpipe_wire::bbframe::{self, Adaptation, FrameSize, Modcod};
use bentpipe_wire::ethernet::{EtherType, MacAddr};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::pcap::LinkType;
use bentpipe_wire::psi::{Elementary, Pat, Pmt, Programme};
use bentpipe_wire::ts::{Method, Pid};
use bentpipe_wire::{gse, ipv4, mpe, section, udp, ule};
use clap::Args;

use super::files::{Sink, is_bare};
use super::{Format, percent, pid};
use crate::rohc::capture::{Capture, Content, Output, Packet};
use crate::rohc::{Error, Verdict, is_interrupted};
use crate::show;

/// How often PAT and PMT are sent.
const TABLE_INTERVAL_NS: u64 = 100_000_000;
/// The UDP port that baseband frames are sent to.
const FRAME_PORT: u16 = 5001;

#[derive(Debug, Args)]
pub(crate) struct EncapArgs {
    /// Capture of IP packets, pcap or pcapng of any link type; "-" for standard input
    input: PathBuf,
    /// What to write: bare TS packets if it ends in ".ts" or is "-", a capture otherwise
    output: PathBuf,
    /// Encapsulation
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// PID of the data
    #[arg(long, value_name = "PID", default_value = "0x201", value_parser = pid)]
    pid: Pid,
    /// Let a partly filled TS packet or frame wait for more, for at most this long; without it each PDU is sent at once
    #[arg(long, value_name = "TIME")]
    packing: Option<Span>,
    /// The receiver's address: NPA address of ULE, MAC address of MPE, label of GSE [default: none, or broadcast]
    #[arg(long, value_name = "MAC", value_parser = mac)]
    to: Option<MacAddr>,
    /// Compress headers by ROHC, small CIDs, U-mode
    #[arg(long, conflicts_with = "bridge")]
    rohc: bool,
    /// Carry whole Ethernet frames (ULE and GSE)
    #[arg(long)]
    bridge: bool,
    /// Put an LLC/SNAP header into MPE sections, as ROHC needs anyway
    #[arg(long)]
    llc: bool,
    /// No PAT and PMT
    #[arg(long)]
    no_tables: bool,
    /// PID of the PMT
    #[arg(long, value_name = "PID", default_value = "0x200", value_parser = pid)]
    pmt_pid: Pid,
    /// MODCOD of the frames of GSE
    #[arg(long, value_name = "NAME", default_value = "QPSK 3/4")]
    modcod: Modcod,
    /// Short FECFRAMEs
    #[arg(long)]
    short: bool,
}

fn mac(text: &str) -> Result<MacAddr, String> {
    let bytes: Option<Vec<u8>> = text.split(':').map(|part| u8::from_str_radix(part, 16).ok()).collect();
    let address = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
    address
        .filter(|address| *address != [0; 6])
        .map(MacAddr)
        .ok_or_else(|| "expected an address such as 02:00:00:00:00:01".into())
}

/// Encapsulates a capture.
pub(super) fn run(args: &EncapArgs) -> Result<Verdict, Error> {
    let content = if args.bridge { Content::Ethernet } else { Content::Ip };
    if args.bridge && args.format == Format::Mpe {
        return Err(Error::Usage("--bridge: MPE carries no Ethernet frames; ULE and GSE do".into()));
    }
    let mut input = Capture::open(&args.input, content)?;
    let mut encap = Encap::new(args)?;
    input.for_each(|packet| {
        encap.packet(packet)?;
        Ok(!is_interrupted())
    })?;
    let tally = encap.finish()?;
    for (why, count) in &input.skipped {
        show::note(&format!("{count} records skipped: {why}"));
    }
    tally.show();
    Ok(match tally.refused {
        _ if is_interrupted() => Verdict::Interrupted,
        0 => Verdict::Clean,
        _ => Verdict::Failed,
    })
}

#[derive(Debug, Default)]
struct Tally {
    packets: u64,
    packet_bytes: u64,
    written: u64,
    refused: u64,
    cut: u64,
}

impl Tally {
    fn show(&self) {
        let efficiency = percent(self.packet_bytes, self.written);
        show::note(&format!(
            "{} packets of {} bytes in {} bytes: {efficiency} of them packets; {} refused",
            self.packets, self.packet_bytes, self.written, self.refused
        ));
        if self.cut > 0 {
            show::note(&format!("{} packets that the capture had cut were left out", self.cut));
        }
    }
}

/// One of the encapsulators, and where its output goes.
enum Carrier {
    Ule(ule::Encapsulator, Sink),
    Mpe(mpe::Encapsulator, Sink),
    Gse(gse::Encapsulator, Frames),
}

struct Encap<'a> {
    args: &'a EncapArgs,
    carrier: Carrier,
    compressor: Option<Compressor>,
    tables: Option<Tables>,
    /// Since when a partly filled TS packet or frame waits.
    waiting_since: Option<u64>,
    stream: Vec<u8>,
    compressed: Vec<u8>,
    tally: Tally,
}

impl<'a> Encap<'a> {
    fn new(args: &'a EncapArgs) -> Result<Encap<'a>, Error> {
        let method = if args.packing.is_some() { Method::Packing } else { Method::Padding };
        let sink = || Sink::create(&args.output, &args.input);
        let carrier = match args.format {
            Format::Ule => Carrier::Ule(ule::Encapsulator::new(args.pid, method), sink()?),
            Format::Mpe => Carrier::Mpe(mpe::Encapsulator::new(args.pid, method), sink()?),
            Format::Gse => Carrier::Gse(gse::Encapsulator::new().re_using_labels(), Frames::new(args)?),
        };
        let has_tables = args.format != Format::Gse && !args.no_tables;
        Ok(Encap {
            args,
            carrier,
            compressor: args.rohc.then(|| Compressor::new(CompressorConfig::default())),
            tables: has_tables.then(|| Tables::new(args)),
            waiting_since: None,
            stream: Vec::new(),
            compressed: Vec::new(),
            tally: Tally::default(),
        })
    }

    fn packet(&mut self, packet: &Packet<'_>) -> Result<(), Error> {
        if packet.is_cut() {
            self.tally.cut += 1;
            return Ok(());
        }
        let now = packet.time_ns;
        let threshold = self.args.packing.map_or(0, Span::as_nanos);
        if let Some(due) = self.waiting_since.map(|since| since + threshold).filter(|&due| due <= now) {
            self.flush(due)?;
        }
        self.send_tables(now)?;
        if self.push(packet).is_none() {
            self.tally.refused += 1;
            return Ok(());
        }
        self.tally.packets += 1;
        self.tally.packet_bytes += packet.bytes.len() as u64;
        self.write(now)
    }

    /// Encapsulates a packet; `None` if that cannot be done.
    fn push(&mut self, packet: &Packet<'_>) -> Option<()> {
        let pdu = match &mut self.compressor {
            None => packet.bytes,
            Some(compressor) => {
                self.compressed.clear();
                compressor
                    .compress(Duration::from_nanos(packet.time_ns), packet.bytes, &mut self.compressed)
                    .ok()?;
                &self.compressed
            }
        };
        let ethertype = if self.args.rohc { EtherType::ROHC } else { ethertype(packet.bytes) };
        let kind = if self.args.bridge { ule::Type::BRIDGED } else { ethertype.into() };
        match &mut self.carrier {
            Carrier::Ule(encapsulator, _) => {
                let repr = ule::Repr { npa: self.args.to, ..ule::Repr::new(kind) };
                encapsulator.push(&repr, pdu, &mut self.stream).ok()
            }
            Carrier::Mpe(encapsulator, _) => {
                let has_llc = self.args.llc || self.args.rohc;
                let dst = self.args.to.unwrap_or(MacAddr::BROADCAST);
                let repr = mpe::Repr { dst, ethertype: has_llc.then_some(ethertype) };
                encapsulator.push(&repr, pdu, &mut self.stream).ok()
            }
            Carrier::Gse(encapsulator, _) => {
                let label = self.args.to.map_or(gse::Label::Broadcast, gse::Label::Six);
                encapsulator.push(&gse::Repr::new(kind, label), pdu).ok()
            }
        }
    }

    /// Writes what became full, all of it if nothing is to wait.
    fn write(&mut self, now: u64) -> Result<(), Error> {
        let was_full = match &mut self.carrier {
            Carrier::Ule(_, sink) | Carrier::Mpe(_, sink) => {
                sink.write(now, &self.stream)?;
                self.tally.written += self.stream.len() as u64;
                !self.stream.is_empty()
            }
            Carrier::Gse(encapsulator, frames) => {
                let least = if self.args.packing.is_some() { frames.capacity } else { 1 };
                let before = self.tally.written;
                while encapsulator.waiting_len() >= least {
                    self.tally.written += frames.send(now, encapsulator)?;
                }
                self.tally.written != before
            }
        };
        self.stream.clear();
        self.waiting_since = match self.waiting_since {
            _ if !self.is_pending() => None,
            Some(since) if !was_full => Some(since),
            _ => Some(now),
        };
        Ok(())
    }

    fn is_pending(&self) -> bool {
        match &self.carrier {
            Carrier::Ule(encapsulator, _) => encapsulator.is_pending(),
            Carrier::Mpe(encapsulator, _) => encapsulator.is_pending(),
            Carrier::Gse(encapsulator, _) => !encapsulator.is_empty(),
        }
    }

    /// Sends what waits.
    fn flush(&mut self, now: u64) -> Result<(), Error> {
        match &mut self.carrier {
            Carrier::Ule(encapsulator, _) => encapsulator.flush(&mut self.stream),
            Carrier::Mpe(encapsulator, _) => encapsulator.flush(&mut self.stream),
            Carrier::Gse(encapsulator, frames) => {
                while !encapsulator.is_empty() {
                    self.tally.written += frames.send(now, encapsulator)?;
                }
            }
        }
        self.write(now)
    }

    fn send_tables(&mut self, now: u64) -> Result<(), Error> {
        if let Some(tables) = &mut self.tables {
            tables.push(now, &mut self.stream);
            if let Carrier::Ule(_, sink) | Carrier::Mpe(_, sink) = &mut self.carrier {
                sink.write(now, &self.stream)?;
            }
            self.stream.clear();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Tally, Error> {
        if let Some(since) = self.waiting_since {
            self.flush(since + self.args.packing.map_or(0, Span::as_nanos))?;
        }
        match self.carrier {
            Carrier::Ule(_, sink) | Carrier::Mpe(_, sink) => sink.finish()?,
            Carrier::Gse(_, frames) => frames.output.finish()?,
        }
        Ok(self.tally)
    }
}

fn ethertype(ip: &[u8]) -> EtherType {
    if ip.first().is_some_and(|first| first >> 4 == 6) { EtherType::IPV6 } else { EtherType::IPV4 }
}

/// PAT and PMT, now and then.
struct Tables {
    sections: [(section::Encapsulator, Vec<u8>); 2],
    due: u64,
}

impl Tables {
    fn new(args: &EncapArgs) -> Tables {
        let number = 1;
        let pat =
            Pat { stream_id: 1, programmes: vec![Programme { number, map: args.pmt_pid }], ..Pat::default() };
        let stream =
            if args.format == Format::Ule { Elementary::ule(args.pid) } else { Elementary::mpe(args.pid) };
        let pmt =
            Pmt { number, version: 0, clock: Pid::NULL, descriptors: Vec::new(), streams: vec![stream] };
        let encapsulator = |pid| section::Encapsulator::new(pid, Method::Padding);
        let sections =
            [(encapsulator(Pid::PAT), pat.to_section()), (encapsulator(args.pmt_pid), pmt.to_section())];
        Tables { sections, due: 0 }
    }

    fn push(&mut self, now: u64, out: &mut Vec<u8>) {
        if now >= self.due {
            self.sections.iter_mut().for_each(|(encapsulator, section)| encapsulator.push(section, out));
            self.due = now + TABLE_INTERVAL_NS;
        }
    }
}

/// Baseband frames behind mode adaptation headers, in UDP over IPv4.
struct Frames {
    output: Output,
    modcod: Modcod,
    size: FrameSize,
    /// Bytes of a data field.
    capacity: usize,
    number: u8,
}

impl Frames {
    fn new(args: &EncapArgs) -> Result<Frames, Error> {
        if is_bare(&args.output) {
            return Err(Error::Usage(
                "GSE is not in TS packets: write a capture, such as frames.pcap".into(),
            ));
        }
        let size = if args.short { FrameSize::Short } else { FrameSize::Normal };
        let capacity = args.modcod.data_field_len(size);
        let capacity = capacity
            .ok_or_else(|| Error::Usage(format!("--short: {} has no short FECFRAME", args.modcod)))?;
        let output = Output::create(&args.output, LinkType::RAW, &args.input)?;
        Ok(Frames { output, modcod: args.modcod, size, capacity, number: 0 })
    }

    /// Writes a frame with as much as it holds; the bytes of the frame.
    fn send(&mut self, now: u64, encapsulator: &mut gse::Encapsulator) -> Result<u64, Error> {
        let mut field = Vec::with_capacity(self.capacity);
        let len = encapsulator.fill(self.capacity, &mut field);
        // What the FEC needs beyond the data field is padding.
        field.resize(self.capacity, 0);
        let mut frame = vec![0; bbframe::ADAPTATION_LEN + bbframe::HEADER_LEN];
        let (modcod, size, number) = (Some(self.modcod), self.size, self.number);
        Adaptation { modcod, size, has_pilots: false, carrier_to_noise: 0, number }.emit(&mut frame);
        let repr = bbframe::Repr { is_constant: true, ..bbframe::Repr::gse(len) };
        repr.emit(&mut frame[bbframe::ADAPTATION_LEN..]);
        frame.extend(field);
        self.number = number.wrapping_add(1);
        let bytes = datagram(&frame);
        self.output.write(now, &bytes, bytes.len())?;
        Ok((frame.len() - bbframe::ADAPTATION_LEN) as u64)
    }
}

fn datagram(payload: &[u8]) -> Vec<u8> {
    let udp = udp::Repr { src_port: FRAME_PORT, dst_port: FRAME_PORT, payload_len: payload.len() };
    let (src, dst) = ([127, 0, 0, 1].into(), [127, 0, 0, 1].into());
    let ip = ipv4::Repr::new(src, dst, Protocol::UDP, udp::HEADER_LEN + payload.len());
    let mut bytes = vec![0; ip.buffer_len() + udp::HEADER_LEN];
    ip.emit(&mut bytes);
    udp.emit(&mut bytes[ip.buffer_len()..]);
    bytes.extend(payload);
    bytes
}
