//! Encapsulation of captured packets in a transport stream, or by GSE in BBFRAMEs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bentpipe_dvb::{Config, Decapsulator, Encapsulation, Encapsulator, Pdu, RohcMode};
use bentpipe_intake::{Reason, Refusal};
use bentpipe_net::InvalidConfig;
use bentpipe_units::Time;
use bentpipe_wire::bbframe::{self, Adaptation, FrameSize, Modcod};
use bentpipe_wire::ethernet::Filter;
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::pcap::LinkType;
use bentpipe_wire::psi::{Elementary, Pat, Pmt, Programme};
use bentpipe_wire::ts::{Method, PACKET_LEN, Pid};
use bentpipe_wire::{ipv4, section, udp};
use serde_json::{Value, json};

use super::files::{Sink, is_bare};
use super::percent;
use crate::capture::{Capture, Output, Packet, Wanted, write_counts};
use crate::{Error, Intake, Outcome, Session};

/// Interval of PAT and PMT.
const TABLE_INTERVAL_NS: u64 = 100_000_000;

/// Encapsulation of captured packets in a transport stream, or by GSE in BBFRAMEs.
///
/// In ROHC's O-mode and R-mode a receiver that loses nothing gives feedback.
#[derive(Clone, Debug)]
pub struct Encap {
    /// Capture of IP packets, or of Ethernet frames to bridge; "-" for standard input.
    pub input: PathBuf,
    /// Output file: bare TS packets for ".ts" and "-", otherwise a capture.
    pub output: PathBuf,
    /// Sending end: encapsulation, PID, packing, address, header compression.
    pub stream: Config,
    /// Enables bridging: whole Ethernet frames are carried (ULE and GSE).
    pub bridges: bool,
    /// PID of the PMT; without it there are no tables.
    pub map_pid: Option<Pid>,
    /// MODCOD of GSE's frames.
    pub modcod: Modcod,
    /// Size of GSE's FECFRAMEs.
    pub frame_size: FrameSize,
    /// Choice of packets, and a file for the records that are left out.
    pub intake: Intake,
}

impl Encap {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written, or settings contradict one another.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        self.check()?;
        crate::capture::check_apart(&self.input, [Some(&*self.output)], &self.intake)?;
        let content = if self.bridges { Wanted::Ethernet } else { Wanted::Ip };
        // What is written to a pipe is for a reader that waits for it.
        let open = match self.output == Path::new("-") {
            true => Capture::open_as_it_comes,
            false => Capture::open,
        };
        let mut input = open(&self.input, content, &self.intake, session)?;
        let mut encap = Writer::new(self)?;
        input.for_each_used(|packet| {
            if packet.is_cut() {
                return Ok(Err((Reason::Cut, "that the capture cut".into())));
            }
            Ok(encap.packet(packet)?.map(|()| !session.is_interrupted()))
        })?;
        input.check_found()?;
        let totals = encap.finish()?;
        session.note(&input.remark());
        totals.report(session);
        write_counts(&self.intake, totals.json(), input.json())?;
        Ok(Outcome::new(String::new(), session, input.account().has_damage()))
    }

    fn check(&self) -> Result<(), Error> {
        if self.bridges && self.stream.encapsulation == Encapsulation::Mpe {
            return Err(Error::Usage("--bridge: MPE carries no Ethernet frames; ULE and GSE do".into()));
        }
        match self.map_pid {
            Some(pid) if self.stream.pid.pid() == pid && !self.is_gse() => {
                Err(Error::Usage(format!("--pid {pid}: the PMT is there: expected another, or --pmt-pid")))
            }
            _ => Ok(()),
        }
    }

    fn is_gse(&self) -> bool {
        self.stream.encapsulation == Encapsulation::Gse
    }
}

#[derive(Debug, Default)]
struct Totals {
    packets: u64,
    packet_bytes: u64,
    /// Bytes of TS packets, those of tables not among them, or of frames.
    written: u64,
    refused: u64,
    /// Reasons of refusals.
    reasons: BTreeMap<String, u64>,
}

impl Totals {
    fn json(&self) -> Value {
        json!({
            "packets": self.packets,
            "packet_bytes": self.packet_bytes,
            "written_bytes": self.written,
            "refused": self.refused,
            "refused_by": self.reasons,
        })
    }

    fn report(&self, session: &dyn Session) {
        let efficiency = percent(self.packet_bytes, self.written);
        let of = match self.packet_bytes > self.written {
            true => "of the bytes that packets had before compression",
            false => "of them packets",
        };
        let Totals { packets, packet_bytes, written, refused, .. } = self;
        session.note(&format!(
            "{packets} packets of {packet_bytes} bytes in {written} bytes: {efficiency} {of}; {refused} refused"
        ));
        for (why, count) in &self.reasons {
            session.note(&format!("{count} refused: {why}"));
        }
    }
}

/// Destination of the output.
enum Carrier {
    Ts(Sink),
    Frames(Frames),
}

struct Writer<'a> {
    job: &'a Encap,
    encapsulator: Encapsulator,
    /// Receiver that gives feedback, which ROHC's modes but the unidirectional one need.
    peer: Option<Decapsulator>,
    carrier: Carrier,
    tables: Option<Tables>,
    totals: Totals,
}

impl<'a> Writer<'a> {
    fn new(job: &'a Encap) -> Result<Writer<'a>, Error> {
        let wrong = |impossible: InvalidConfig| {
            Error::Usage(format!("--{}: expected {}", impossible.key, impossible.expected))
        };
        let encapsulator = Encapsulator::new(&job.stream).map_err(wrong)?;
        let has_feedback = job.stream.rohc.as_ref().is_some_and(|rohc| rohc.mode != RohcMode::Unidirectional);
        let peer = has_feedback.then(|| Decapsulator::new(&job.stream, Filter::All)).transpose();
        let peer = peer.map_err(wrong)?;
        let carrier = match job.is_gse() {
            false => Carrier::Ts(Sink::create(&job.output, &job.input)?),
            true => Carrier::Frames(Frames::new(job)?),
        };
        let tables = job.map_pid.filter(|_| !job.is_gse()).map(|map| Tables::new(&job.stream, map));
        Ok(Writer { job, encapsulator, peer, carrier, tables, totals: Totals::default() })
    }

    /// Encapsulates a packet, or returns the reason for which the encapsulation refuses it.
    fn packet(&mut self, packet: &Packet<'_>) -> Result<Result<(), Refusal>, Error> {
        let now = Time::from_nanos(packet.time_ns);
        if let Some(due) = self.encapsulator.due().filter(|due| *due <= now) {
            self.send(due)?;
        }
        self.send_tables(packet.time_ns)?;
        let pdu = if self.job.bridges { Pdu::ethernet(packet.bytes) } else { Pdu::ip(packet.bytes) };
        let pushed = self.encapsulator.push(now, &pdu).map_err(|why| {
            self.totals.refused += 1;
            *self.totals.reasons.entry(why.to_string()).or_default() += 1;
            (Reason::Refused, format!("refused: {why}").into())
        });
        if pushed.is_ok() {
            self.totals.packets += 1;
            self.totals.packet_bytes += packet.bytes.len() as u64;
        }
        self.send(now)?;
        Ok(pushed)
    }

    /// Writes packets and frames that are full or overdue.
    fn send(&mut self, now: Time) -> Result<(), Error> {
        match &mut self.carrier {
            Carrier::Ts(sink) => {
                while let Some(packet) = self.encapsulator.pop(now) {
                    sink.write(now.as_nanos(), &packet)?;
                    self.totals.written += PACKET_LEN as u64;
                    self.peer.iter_mut().for_each(|peer| peer.push(now, &packet, |_| {}));
                }
            }
            Carrier::Frames(frames) => {
                let mut field = Vec::with_capacity(frames.capacity);
                while let Some(len) = self.encapsulator.fill(now, frames.capacity, &mut field) {
                    self.peer.iter_mut().for_each(|peer| peer.push_field(now, &field[..len], |_| {}));
                    self.totals.written += frames.send(now.as_nanos(), len, &mut field)?;
                    field.clear();
                }
            }
        }
        let mut feedback = Vec::new();
        if self.peer.as_mut().is_some_and(|peer| peer.take_feedback(&mut feedback)) {
            self.encapsulator.feedback(&feedback);
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

    fn finish(mut self) -> Result<Totals, Error> {
        if let Some(due) = self.encapsulator.due() {
            self.send(due)?;
        }
        match self.carrier {
            Carrier::Ts(sink) => sink.finish()?,
            Carrier::Frames(frames) => frames.output.finish()?,
        }
        Ok(self.totals)
    }
}

/// PAT and PMT with their interval.
struct Tables {
    sections: [(section::Encapsulator, Vec<u8>); 2],
    due: u64,
}

impl Tables {
    fn new(stream: &Config, map: Pid) -> Tables {
        let number = 1;
        let pat = Pat { stream_id: 1, programmes: vec![Programme { number, map }], ..Pat::default() };
        let stream = match stream.encapsulation {
            Encapsulation::Ule => Elementary::ule(stream.pid.pid()),
            _ => Elementary::mpe(stream.pid.pid()),
        };
        let pmt =
            Pmt { number, version: 0, clock: Pid::NULL, descriptors: Vec::new(), streams: vec![stream] };
        let encapsulator = |pid| section::Encapsulator::new(pid, Method::Padding);
        let sections = [(encapsulator(Pid::PAT), pat.to_section()), (encapsulator(map), pmt.to_section())];
        Tables { sections, due: 0 }
    }

    fn push(&mut self, now: u64, out: &mut Vec<u8>) {
        if now >= self.due {
            self.sections.iter_mut().for_each(|(encapsulator, section)| encapsulator.push(section, out));
            self.due = now + TABLE_INTERVAL_NS;
        }
    }
}

/// Baseband frames after mode adaptation headers, in UDP over IPv4.
struct Frames {
    output: Output,
    modcod: Modcod,
    size: FrameSize,
    /// Bytes of a data field.
    capacity: usize,
    number: u8,
}

impl Frames {
    fn new(job: &Encap) -> Result<Frames, Error> {
        if is_bare(&job.output) {
            return Err(Error::Usage(
                "GSE is not in TS packets: write a capture, such as frames.pcap".into(),
            ));
        }
        let size = job.frame_size;
        let capacity = job.modcod.data_field_len(size);
        let capacity =
            capacity.ok_or_else(|| Error::Usage(format!("--short: {} has no short FECFRAME", job.modcod)))?;
        let output = Output::create(&job.output, LinkType::RAW, &job.input)?;
        Ok(Frames { output, modcod: job.modcod, size, capacity, number: 0 })
    }

    /// Writes a frame with a data field of `len` bytes and returns the frame length.
    fn send(&mut self, now: u64, len: usize, field: &mut Vec<u8>) -> Result<u64, Error> {
        // The rest of the data field that the FEC needs is padding.
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
    let udp = udp::Repr {
        src_port: bbframe::CAPTURE_PORT,
        dst_port: bbframe::CAPTURE_PORT,
        payload_len: payload.len(),
    };
    let (src, dst) = ([127, 0, 0, 1].into(), [127, 0, 0, 1].into());
    let ip = ipv4::Repr::new(src, dst, Protocol::UDP, udp::HEADER_LEN + payload.len());
    let mut bytes = vec![0; ip.buffer_len() + udp::HEADER_LEN];
    ip.emit(&mut bytes);
    udp.emit(&mut bytes[ip.buffer_len()..]);
    bytes.extend(payload);
    bytes
}
