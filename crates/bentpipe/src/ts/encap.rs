//! `bentpipe ts encap`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bentpipe_net::dvb::{Address, Config, DataPid, Encapsulator, Pdu, Rohc};
use bentpipe_units::{Span, Time};
use bentpipe_wire::bbframe::{self, Adaptation, FrameSize, Modcod};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::pcap::LinkType;
use bentpipe_wire::psi::{Elementary, Pat, Pmt, Programme};
use bentpipe_wire::ts::{Method, PACKET_LEN, Pid};
use bentpipe_wire::{ipv4, section, udp};
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
    #[arg(long, value_name = "PID", default_value = "0x201")]
    pid: DataPid,
    /// Let a partly filled TS packet or frame wait for more, for at most this long; without it each PDU is sent at once
    #[arg(long, value_name = "TIME")]
    packing: Option<Span>,
    /// The receiver's address: NPA address of ULE, MAC address of MPE, label of GSE [default: none, or broadcast]
    #[arg(long, value_name = "MAC")]
    to: Option<Address>,
    /// Compress headers by ROHC, small CIDs, U-mode; of bridged frames those of the IP packets in them
    #[arg(long)]
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

impl EncapArgs {
    /// The stream's sending end.
    fn stream(&self) -> Config {
        Config {
            pid: self.pid,
            encapsulation: self.format.encapsulation(),
            packing: self.packing,
            to: self.to,
            llc: self.llc,
            rohc: self.rohc.then(Rohc::default),
            ..Config::default()
        }
    }
}

/// Encapsulates a capture.
pub(super) fn run(args: &EncapArgs) -> Result<Verdict, Error> {
    let content = if args.bridge { Content::Ethernet } else { Content::Ip };
    if args.bridge && args.format == Format::Mpe {
        return Err(Error::Usage("--bridge: MPE carries no Ethernet frames; ULE and GSE do".into()));
    }
    if args.pid.pid() == args.pmt_pid && !args.no_tables && args.format != Format::Gse {
        return Err(Error::Usage(format!(
            "--pid {}: the PMT is there: expected another, or --pmt-pid",
            args.pmt_pid
        )));
    }
    let mut input = Capture::open(&args.input, content)?;
    let mut encap = Encap::new(args)?;
    input.for_each(|packet| {
        encap.packet(packet)?;
        Ok(!is_interrupted())
    })?;
    let tally = encap.finish()?;
    input.remarks().iter().for_each(|remark| show::note(remark));
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
    /// Bytes of TS packets, those of tables not among them, or of frames.
    written: u64,
    refused: u64,
    /// Why.
    reasons: BTreeMap<String, u64>,
    cut: u64,
}

impl Tally {
    fn show(&self) {
        let efficiency = percent(self.packet_bytes, self.written);
        show::note(&format!(
            "{} packets of {} bytes in {} bytes: {efficiency} of them packets; {} refused",
            self.packets, self.packet_bytes, self.written, self.refused
        ));
        for (why, count) in &self.reasons {
            show::note(&format!("{count} refused: {why}"));
        }
        if self.cut > 0 {
            show::note(&format!("{} packets that the capture had cut were left out", self.cut));
        }
    }
}

/// Where output goes.
enum Carrier {
    Ts(Sink),
    Frames(Frames),
}

struct Encap<'a> {
    args: &'a EncapArgs,
    encapsulator: Encapsulator,
    carrier: Carrier,
    tables: Option<Tables>,
    tally: Tally,
}

impl<'a> Encap<'a> {
    fn new(args: &'a EncapArgs) -> Result<Encap<'a>, Error> {
        let encapsulator = Encapsulator::new(&args.stream()).map_err(|impossible| {
            Error::Usage(format!("--{}: expected {}", impossible.key, impossible.expected))
        })?;
        let carrier = match args.format {
            Format::Ule | Format::Mpe => Carrier::Ts(Sink::create(&args.output, &args.input)?),
            Format::Gse => Carrier::Frames(Frames::new(args)?),
        };
        let has_tables = args.format != Format::Gse && !args.no_tables;
        let tables = has_tables.then(|| Tables::new(args));
        Ok(Encap { args, encapsulator, carrier, tables, tally: Tally::default() })
    }

    fn packet(&mut self, packet: &Packet<'_>) -> Result<(), Error> {
        if packet.is_cut() {
            self.tally.cut += 1;
            return Ok(());
        }
        let now = Time::from_nanos(packet.time_ns);
        if let Some(due) = self.encapsulator.due().filter(|due| *due <= now) {
            self.send(due)?;
        }
        self.send_tables(packet.time_ns)?;
        let pdu = if self.args.bridge { Pdu::ethernet(packet.bytes) } else { Pdu::ip(packet.bytes) };
        match self.encapsulator.push(now, &pdu) {
            Ok(()) => {
                self.tally.packets += 1;
                self.tally.packet_bytes += packet.bytes.len() as u64;
            }
            Err(why) => {
                self.tally.refused += 1;
                *self.tally.reasons.entry(why.to_string()).or_default() += 1;
            }
        }
        self.send(now)
    }

    /// Writes what is full or overdue.
    fn send(&mut self, now: Time) -> Result<(), Error> {
        match &mut self.carrier {
            Carrier::Ts(sink) => {
                while let Some(packet) = self.encapsulator.pop(now) {
                    sink.write(now.as_nanos(), &packet)?;
                    self.tally.written += PACKET_LEN as u64;
                }
            }
            Carrier::Frames(frames) => {
                let mut field = Vec::with_capacity(frames.capacity);
                while let Some(len) = self.encapsulator.fill(now, frames.capacity, &mut field) {
                    self.tally.written += frames.send(now.as_nanos(), len, &mut field)?;
                    field.clear();
                }
            }
        }
        Ok(())
    }

    fn send_tables(&mut self, now: u64) -> Result<(), Error> {
        if let (Some(tables), Carrier::Ts(sink)) = (&mut self.tables, &mut self.carrier) {
            let mut stream = Vec::new();
            tables.push(now, &mut stream);
            sink.write(now, &stream)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Tally, Error> {
        if let Some(due) = self.encapsulator.due() {
            self.send(due)?;
        }
        match self.carrier {
            Carrier::Ts(sink) => sink.finish()?,
            Carrier::Frames(frames) => frames.output.finish()?,
        }
        Ok(self.tally)
    }
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
        let stream = if args.format == Format::Ule {
            Elementary::ule(args.pid.pid())
        } else {
            Elementary::mpe(args.pid.pid())
        };
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

    /// Writes a frame with this data field of `len` bytes; the bytes of the frame.
    fn send(&mut self, now: u64, len: usize, field: &mut Vec<u8>) -> Result<u64, Error> {
        // What the FEC needs beyond the data field is padding.
        field.resize(self.capacity, 0);
        let mut frame = vec![0; bbframe::ADAPTATION_LEN + bbframe::HEADER_LEN];
        let (modcod, size, number) = (Some(self.modcod), self.size, self.number);
        Adaptation { modcod, size, has_pilots: false, carrier_to_noise: 0, number }.emit(&mut frame);
        let repr = bbframe::Repr { is_constant: true, ..bbframe::Repr::gse(len) };
        repr.emit(&mut frame[bbframe::ADAPTATION_LEN..]);
        frame.extend_from_slice(field);
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
