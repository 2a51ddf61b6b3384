//! Capture files of packets that pass an input: as IP packets, or as the AAL5 PDUs that they are on a virtual channel.

use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bentpipe_net::atm::{self, Vc};
use bentpipe_net::dama::{self, Encapsulation};
use bentpipe_net::dvb::Unit;
use bentpipe_net::{Body, Packet};
use bentpipe_units::Time;
use bentpipe_wire::bbframe::{self, Adaptation, FrameSize};
use bentpipe_wire::ethernet::EtherType;
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::pcap::{LinkType, Writer};
use bentpipe_wire::{aal5, erf, ipv4, llc, udp};

use super::multiplex::{Merge, Multiplex};
use crate::run::WholeFile;

/// The virtual channel that packets pass, and how it puts them into AAL5.
pub type PduOf = (Vc, atm::Encapsulation);

/// A pcap file being written: raw IP, the MPEG cells of bursts, TS packets, baseband frames, or ERF records of AAL5 PDUs;
/// stamps in nanoseconds from the start of the run.
///
/// It is a [`WholeFile`]: there once [`Capture::finish`] is done; dropped before, it is gone.
pub struct Capture {
    form: Form,
    path: PathBuf,
    state: Arc<Mutex<State>>,
}

/// What packets are where they are captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// IP packets.
    #[default]
    Ip,
    /// A terminal's bursts, one in each record: its MPEG cells, its GSE packets as the data field of a baseband frame behind a
    /// mode adaptation header L.3, in UDP, or its frame PDU of RLE as DLT_USER0, which has no number of its own.
    Bursts(Encapsulation),
    /// TS packets.
    TransportStream,
    /// Baseband frames, behind mode adaptation headers L.3, in UDP.
    Frames,
    /// IP packets that are to be written as the AAL5 PDUs that they are in a virtual channel.
    Pdus(PduOf),
}

impl Form {
    /// What a file of it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Form::Ip => "ip",
            Form::Bursts(_) => "bursts",
            Form::TransportStream => "ts",
            Form::Frames => "frames",
            Form::Pdus(_) => "pdus",
        }
    }
}

struct State {
    /// None once writing has failed.
    writer: Option<Writer<WholeFile>>,
    failed: Option<io::Error>,
    packets: u64,
    merge: Option<Merge>,
}

impl Capture {
    /// Starts the file that will be at `path`. Of each packet the first `snap_len` bytes are kept.
    ///
    /// # Errors
    /// As the file system gives.
    pub fn start(path: &Path, form: Form, snap_len: usize) -> io::Result<Capture> {
        let link_type = match form {
            Form::Ip | Form::Frames | Form::Bursts(Encapsulation::Gse) => LinkType::RAW,
            Form::Bursts(Encapsulation::Rle | Encapsulation::RleCrc) => LinkType::USER0,
            Form::Bursts(_) | Form::TransportStream => LinkType::MPEG_2_TS,
            Form::Pdus(_) => LinkType::ERF,
        };
        let writer = Writer::with_snap_len(WholeFile::create(path)?, link_type, snap_len)?;
        let state = State { writer: Some(writer), failed: None, packets: 0, merge: None };
        Ok(Capture { form, path: path.to_owned(), state: Arc::new(Mutex::new(state)) })
    }

    /// Lets what the inputs get be written as the multiplex that it is a part of.
    #[must_use]
    pub fn of_multiplex(self, multiplex: Option<Multiplex>) -> Capture {
        self.lock().merge = multiplex.map(Merge::new);
        self
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to tap an input with. Several inputs may share a file.
    pub fn tap(&self) -> impl FnMut(Time, &Packet) + Send + use<> {
        let (state, form) = (Arc::clone(&self.state), self.form);
        move |now, packet| state.lock().unwrap_or_else(PoisonError::into_inner).write(now, packet, form)
    }

    /// Whether writing has failed: the disk may be full.
    pub fn has_failed(&self) -> bool {
        self.lock().failed.is_some()
    }

    /// Completes the file and says how many packets are in it.
    ///
    /// # Errors
    /// The first that happened since the start, with the file's name. No file is left then.
    pub fn finish(self) -> io::Result<u64> {
        let mut state = self.lock();
        state.merge(true);
        let written = match (state.failed.take(), state.writer.take()) {
            (Some(error), _) => Err(error),
            (None, Some(writer)) => writer.into_inner().finish(),
            (None, None) => Ok(()),
        };
        written.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.path.display())))?;
        let packets = state.packets;
        drop(state);
        Ok(packets)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // Taps may outlive it.
        self.lock().writer = None;
    }
}

impl State {
    fn write(&mut self, now: Time, packet: &Packet, form: Form) {
        let Some(writer) = &mut self.writer else { return };
        if let Form::Pdus(channel) = form {
            let Some(record) = in_erf(now, &packet.to_vec(), channel) else { return };
            let written = writer.write(now.as_nanos(), &record, 0);
            return self.note(written);
        }
        let cells = dama::cells_of(packet);
        let written = match packet.body() {
            // A request has none.
            _ if matches!(form, Form::Bursts(_)) && cells.is_empty() => return,
            _ if form == Form::Bursts(Encapsulation::Gse) => {
                writer.write(now.as_nanos(), &in_baseband_frame(cells, self.packets as u8), 0)
            }
            _ if matches!(form, Form::Bursts(_)) => writer.write(now.as_nanos(), cells, 0),
            Body::Zeros(count) => writer.write(now.as_nanos(), packet.header(), *count as usize),
            Body::Bytes(_) => writer.write(now.as_nanos(), &packet.to_vec(), 0),
            Body::Unit(unit) => match &mut self.merge {
                Some(merge) => {
                    merge.add(now, unit);
                    return self.merge(false);
                }
                None => return self.unit(now, unit),
            },
            Body::Cells(_) => return,
        };
        self.note(written);
    }

    /// Writes what of the multiplex is certain.
    fn merge(&mut self, is_end: bool) {
        while self.writer.is_some()
            && let Some((time, unit)) = self.merge.as_mut().and_then(|merge| merge.pop(is_end))
        {
            self.unit(time, &unit);
        }
    }

    fn unit(&mut self, now: Time, unit: &Unit) {
        let Some(writer) = &mut self.writer else { return };
        let written = match &unit.adaptation {
            Some(adaptation) => writer.write(now.as_nanos(), &in_udp(adaptation, &unit.bytes), 0),
            None => writer.write(now.as_nanos(), &unit.bytes, 0),
        };
        self.note(written);
    }

    fn note(&mut self, written: io::Result<()>) {
        match written {
            Ok(()) => self.packets += 1,
            Err(error) => {
                self.failed = Some(error);
                self.writer = None;
            }
        }
    }
}

/// The port of baseband frames in UDP, where `bentpipe ts` writes them too.
const FRAME_PORT: u16 = 7001;

/// GSE packets as a baseband frame in UDP; return links know no MODCOD.
fn in_baseband_frame(field: &[u8], number: u8) -> Vec<u8> {
    let mut frame = vec![0; bbframe::HEADER_LEN];
    bbframe::Repr::gse(field.len()).emit(&mut frame);
    frame.extend_from_slice(field);
    let size = FrameSize::Normal;
    in_udp(&Adaptation { modcod: None, size, has_pilots: false, carrier_to_noise: 0, number }, &frame)
}

/// A baseband frame behind its mode adaptation header, filled up to what its MODCOD takes, in UDP.
fn in_udp(adaptation: &Adaptation, frame: &[u8]) -> Vec<u8> {
    let bits = adaptation.modcod.and_then(|modcod| modcod.bbframe_bits(adaptation.size));
    let frame_len = bits.map_or(frame.len(), |bits| bits as usize / 8);
    let len = bbframe::ADAPTATION_LEN + frame_len;
    let udp = udp::Repr { src_port: FRAME_PORT, dst_port: FRAME_PORT, payload_len: len };
    let here = Ipv4Addr::LOCALHOST;
    let ip = ipv4::Repr::new(here, here, Protocol::UDP, udp::HEADER_LEN + len);
    let mut bytes = vec![0; ip.buffer_len() + udp::HEADER_LEN + len];
    ip.emit(&mut bytes);
    let rest = &mut bytes[ip.buffer_len()..];
    udp.emit(rest);
    let rest = &mut rest[udp::HEADER_LEN..];
    adaptation.emit(rest);
    rest[bbframe::ADAPTATION_LEN..][..frame.len()].copy_from_slice(frame);
    bytes
}

/// An IP packet as an ERF record of its AAL5 PDU; none if it is too long for one.
fn in_erf(now: Time, packet: &[u8], (vc, encapsulation): PduOf) -> Option<Vec<u8>> {
    let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
    let header = llc::Repr::Routed(if is_v6 { EtherType::IPV6 } else { EtherType::IPV4 });
    let header_len = if encapsulation == atm::Encapsulation::LlcSnap { header.buffer_len() } else { 0 };
    let pdu = aal5::Repr::new(header_len + packet.len());
    let content = erf::Content::Aal5(erf::AtmHeader { vpi: 0, vci: vc.vci() });
    let record = erf::Repr::new(now.as_nanos(), content, pdu.buffer_len());
    if packet.is_empty() || record.buffer_len() + pdu.buffer_len() > usize::from(u16::MAX) {
        return None;
    }
    let mut bytes = vec![0; record.buffer_len() + pdu.buffer_len()];
    record.emit(&mut bytes);
    let payload = &mut bytes[record.buffer_len()..];
    if header_len > 0 {
        header.emit(payload);
    }
    payload[header_len..pdu.payload_len].copy_from_slice(packet);
    pdu.emit(payload);
    Some(bytes)
}
