//! Captures: points, formats and other files of a run.

use std::io;

use bentpipe_net::{Body, Packet, Port};
use bentpipe_sim::ElementId;
use bentpipe_units::Time;
use bentpipe_wire::pcap::LinkType;

/// Records of a capture file.
pub trait Records {
    /// Writes a record: its bytes, then `zeros` zero bytes.
    fn write(&mut self, at: Time, bytes: &[u8], zeros: usize);

    /// Returns `true` until writing has failed.
    fn is_open(&self) -> bool;
}

/// Format of a capture: records made of packets.
pub trait CaptureFormat: Send {
    /// Returns the link type of the file.
    fn link_type(&self) -> LinkType;

    /// Writes the records of a packet that passes a captured input.
    fn write(&mut self, now: Time, packet: &Packet, out: &mut dyn Records);

    /// Writes the held records, at the end.
    fn end(&mut self, _out: &mut dyn Records) {}
}

/// Raw IP packets.
pub struct RawIp;

impl CaptureFormat for RawIp {
    fn link_type(&self) -> LinkType {
        LinkType::RAW
    }

    fn write(&mut self, now: Time, packet: &Packet, out: &mut dyn Records) {
        match packet.body() {
            Body::Zeros(count) => out.write(now, packet.header(), *count as usize),
            Body::Bytes(_) => out.write(now, &packet.to_vec(), 0),
            Body::Carried(_) => {}
        }
    }
}

/// Point of a capture other than that of packets: `E` numbers elements.
pub struct CapturePoint<E> {
    /// Suffix of the file's name: "bursts".
    pub suffix: &'static str,
    /// Inputs whose packets are captured.
    pub inputs: Vec<E>,
    /// Format.
    pub format: Box<dyn CaptureFormat>,
}

impl<E> CapturePoint<E> {
    /// Returns the point with its inputs renumbered.
    pub fn map<F>(self, number: impl FnMut(E) -> F) -> CapturePoint<F> {
        let CapturePoint { suffix, inputs, format } = self;
        CapturePoint { suffix, inputs: inputs.into_iter().map(number).collect(), format }
    }
}

/// Callback invoked for each packet at a tapped input.
pub type Tap = Box<dyn FnMut(Time, &Packet) + Send>;

/// Callback that writes an artefact once the network has run.
pub type WriteArtefact = Box<dyn FnOnce(&mut dyn io::Write) -> io::Result<()> + Send>;

/// File of a medium left by a run, such as a burst time plan. `E` numbers elements.
pub struct Artefact<E> {
    /// Name of the file.
    pub file: String,
    /// Inputs to tap.
    pub taps: Vec<(E, Tap)>,
    /// Writer of the file.
    pub write: WriteArtefact,
}

impl<E> Artefact<E> {
    /// Returns the artefact with its inputs renumbered.
    pub fn map<F>(self, mut number: impl FnMut(E) -> F) -> Artefact<F> {
        let Artefact { file, taps, write } = self;
        let taps = taps.into_iter().map(|(at, tap)| (number(at), tap)).collect();
        Artefact { file, taps, write }
    }
}

/// Input of a numbered element.
pub type Input = (ElementId, Port);
