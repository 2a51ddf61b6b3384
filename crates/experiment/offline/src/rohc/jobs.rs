//! Jobs: compression, decompression, round trip, statistics.

use std::path::{Path, PathBuf};

use bentpipe_intake as intake;
use bentpipe_rohc::{CidSpace, DecompressorConfig};
use bentpipe_wire::pcap::LinkType;
use bentpipe_wire::rohc::esp::Icv;

use super::comparison::{LikelyRtp, Predecessors, Versions};
use super::cost::Cost;
use super::ends::{Received, Receiver, Refusal, Sender, Sent, Unit};
use super::impairments::ImpairmentConfig;
use super::link::RohcLink;
use super::packet_log::{Entry, Outputs, PacketLog, entry};
use super::path::{PacketOutcome, Path as Channel};
use super::sending::{Sending, receiver, sizes_sent};
use super::totals::{Form, Method, Sizes};
use crate::capture::{Capture, Output, Packet, Wanted};
use crate::{Error, Outcome, Session};

/// Compression of a capture. In O-mode and R-mode a decompressor gives feedback.
#[derive(Clone, Debug)]
pub struct Compress {
    /// Capture of IP packets; "-" for standard input.
    pub input: PathBuf,
    /// Capture of ROHC packets to write; "-" for standard output.
    pub output: PathBuf,
    /// Link layer of what is written.
    pub link: RohcLink,
    /// Integrity check value behind each ROHC packet (RFC 5858 4.1).
    pub icv: Option<Icv>,
    /// Sending end.
    pub sending: Sending,
    /// Decompressor.
    pub decompressor: DecompressorConfig,
    /// Enables decompression of each packet, which must restore it.
    pub verify: bool,
    /// Capture of the feedback to write; the seconds of its times are the packet's number.
    pub feedback: Option<PathBuf>,
    /// Other files to write.
    pub outputs: Outputs,
}

/// Decompression of a capture of ROHC packets.
#[derive(Clone, Debug)]
pub struct Decompress {
    /// Capture of ROHC packets; "-" for standard input.
    pub input: PathBuf,
    /// Capture of IP packets to write; "-" for standard output.
    pub output: PathBuf,
    /// Link layer. Frames of PPP are known by the link type of their records.
    pub link: RohcLink,
    /// Integrity check value behind each ROHC packet (RFC 5858 4.1).
    pub icv: Option<Icv>,
    /// Decompressor.
    pub decompressor: DecompressorConfig,
    /// Capture of the feedback to write; the seconds of its times are the packet's number.
    pub feedback: Option<PathBuf>,
    /// Other files to write.
    pub outputs: Outputs,
}

/// Compression and decompression of a capture, with losses between the ends.
#[derive(Clone, Debug)]
pub struct RoundTrip {
    /// Capture of IP packets; "-" for standard input.
    pub input: PathBuf,
    /// Capture of the restored packets to write.
    pub output: Option<PathBuf>,
    /// Sending end.
    pub sending: Sending,
    /// Decompressor.
    pub decompressor: DecompressorConfig,
    /// Impairments of the path between the ends.
    pub impairments: ImpairmentConfig,
    /// Other files to write.
    pub outputs: Outputs,
}

/// Compression of a capture for the figures alone.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Capture of IP packets; "-" for standard input.
    pub input: PathBuf,
    /// Sending end.
    pub sending: Sending,
    /// Decompressor.
    pub decompressor: DecompressorConfig,
    /// Enables measurement of the processor time, by an index and by a linear search.
    pub cpu: bool,
    /// Other files to write.
    pub outputs: Outputs,
}

impl Compress {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written, or a setting does not fit.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        self.outputs.check_apart(&self.input, [Some(&*self.output), self.feedback.as_deref()])?;
        let mut input = Capture::open(&self.input, Wanted::Network, &self.outputs.intake, session)?;
        let mut channel = channel(&self.sending, &self.decompressor, self.verify)?;
        let mut log = PacketLog::new(&self.outputs, &self.input, session)?;
        let mut output = Output::create(&self.output, self.link.link_type(), &self.input)?;
        let mut back = feedback_file(self.feedback.as_deref(), &self.input)?;
        let goes_on = |used: Used| used.map(|()| !session.is_interrupted());
        let (cids, mut frame, mut code, mut number) =
            (self.decompressor.channel.cids, Vec::new(), Vec::new(), 0u32);
        input.for_each_used(|packet| {
            if self.icv.is_some() && packet.is_cut() {
                return record_carried(&mut log, packet, Err(Refusal::CutIcv), None, true).map(goes_on);
            }
            let mut carried = channel.carry(packet);
            if let (Some(icv), Ok((sent, _))) = (&self.icv, &mut carried) {
                code.clear();
                icv.seal(packet.bytes, &mut code);
                sent.len += code.len();
                sent.compressed.header_out += code.len();
            }
            for unit in channel.sender.units() {
                self.link.frame(cids, number, unit.bytes, &mut frame);
                let cut = unit.len - unit.bytes.len();
                frame.extend_from_slice(&code);
                output.write(packet.time_ns, &frame, frame.len() + cut)?;
                number = number.wrapping_add(1);
            }
            write_feedback(&mut back, packet, &self.link.feedback(&channel.feedback))?;
            let record = carried.is_ok().then_some(output.records);
            record_carried(&mut log, packet, carried, record, true).map(goes_on)
        })?;
        input.check_found()?;
        output.finish()?;
        back.map_or(Ok(()), Output::finish)?;
        end_sending(&channel, log, &input, session)
    }
}

impl RoundTrip {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written, or a setting does not fit.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        self.outputs.check_apart(&self.input, [self.output.as_deref(), None])?;
        let mut input = Capture::open(&self.input, Wanted::Network, &self.outputs.intake, session)?;
        let channel = channel(&self.sending, &self.decompressor, true)?;
        let mut channel = channel.with_impairments(&self.impairments);
        let mut log = PacketLog::new(&self.outputs, &self.input, session)?;
        let raw = |path: &Path| Output::create(path, LinkType::RAW, &self.input);
        let mut output = self.output.as_deref().map(raw).transpose()?;
        let is_ideal = self.impairments.is_ideal();
        let goes_on = |used: Used| used.map(|()| !session.is_interrupted());
        input.for_each_used(|packet| {
            let carried = channel.carry(packet);
            let is_restored = |outcome| matches!(outcome, PacketOutcome::Right | PacketOutcome::Wrong);
            if let (Some(output), Ok((_, true))) =
                (&mut output, carried.map(|(sent, outcome)| (sent, is_restored(outcome))))
            {
                output.write(packet.time_ns, channel.ip(), packet.len)?;
            }
            record_carried(&mut log, packet, carried, None, is_ideal).map(goes_on)
        })?;
        input.check_found()?;
        output.map_or(Ok(()), Output::finish)?;
        end_sending(&channel, log, &input, session)
    }
}

impl Stats {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written, or a setting does not fit.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        self.outputs.check_apart(&self.input, [None, None])?;
        let mut input = Capture::open(&self.input, Wanted::Distinct, &self.outputs.intake, session)?;
        let mut channel = channel(&self.sending, &self.decompressor, false)?;
        let mut log = PacketLog::new(&self.outputs, &self.input, session)?;
        let mut likely = LikelyRtp::new(&self.sending, &self.decompressor);
        let mut versions = Versions::new(&self.sending, &self.decompressor);
        let mut predecessors = Predecessors::new();
        let mut cost = self.cpu.then(|| Cost::new(&self.sending)).transpose()?;
        let goes_on = |used: Used| used.map(|()| !session.is_interrupted());
        input.for_each_used(|packet| {
            let carried = channel.carry(packet);
            likely.compare(packet, &carried);
            versions.compare(packet, &carried);
            predecessors.compare(packet, &carried);
            cost.iter_mut().for_each(|cost| cost.add(packet));
            record_carried(&mut log, packet, carried, None, true).map(goes_on)
        })?;
        likely.remark().iter().for_each(|remark| session.note(remark));
        let outcome = end_sending(&channel, log, &input, session)?;
        let cost = cost.map_or_else(String::new, Cost::text);
        Ok(Outcome { text: outcome.text + &versions.text() + &predecessors.text() + &cost, ..outcome })
    }
}

const OTHER_CHANNEL: &str =
    "no packet could be decompressed: are --cid, --contexts, --profiles and --mrru those of the compressor?";

impl Decompress {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        let has_large_cids = matches!(self.decompressor.channel.cids, CidSpace::Large { .. });
        let content = Wanted::Rohc { has_large_cids, pdcp: self.link.pdcp() };
        self.outputs.check_apart(&self.input, [Some(&*self.output), self.feedback.as_deref()])?;
        let mut input = Capture::open(&self.input, content, &self.outputs.intake, session)?;
        let mut receiver = Receiver::new(self.decompressor);
        let mut log = PacketLog::new(&self.outputs, &self.input, session)?.with_hint(OTHER_CHANNEL);
        let mut output = Output::create(&self.output, LinkType::RAW, &self.input)?;
        let mut back = feedback_file(self.feedback.as_deref(), &self.input)?;
        input.for_each(|packet| {
            let received = self.receive(&mut receiver, packet);
            if let Ok(Some(received)) = &received {
                output.write(packet.time_ns, receiver.ip(), received.len)?;
            }
            let status = match &received {
                Ok(Some(_)) => "ok".to_owned(),
                Ok(None) => "without a packet".to_owned(),
                Err(error) => format!("refused: {error}"),
            };
            let is_failure = received.is_err();
            let received = received.ok().flatten();
            let entry = Entry {
                record: Some(packet.number),
                frame: received.is_some().then_some(output.records),
                status: &status,
                ip: received.is_some().then(|| receiver.ip()),
                ip_len: received.map_or(0, |received| received.len),
                rohc_len: packet.len,
                flow: received.map(|it| (Some(it.decompressed.cid), sizes_received(&it, packet.len))),
                ..entry(packet, "", is_failure)
            };
            log.record(&entry)?;
            write_feedback(&mut back, packet, &self.link.feedback(receiver.take_feedback()))?;
            Ok(!session.is_interrupted())
        })?;
        input.check_found()?;
        output.finish()?;
        back.map_or(Ok(()), Output::finish)?;
        receiver.lack_of_contexts().iter().for_each(|remark| session.note(remark));
        end(log, &input)
    }
}

impl Decompress {
    /// Decompresses a packet, and checks its ICV if it has one.
    fn receive(&self, receiver: &mut Receiver, packet: &Packet<'_>) -> Result<Option<Received>, String> {
        let mut unit = Unit { len: packet.len, bytes: packet.bytes };
        let mut code: &[u8] = &[];
        if let Some(icv) = &self.icv {
            if packet.is_cut() {
                return Err("cut by the capture, so that its ICV is not there".to_owned());
            }
            let split = icv.split(packet.bytes).map_err(|_| "shorter than its ICV".to_owned())?;
            (unit.bytes, code) = split;
            unit.len = unit.bytes.len();
        }
        let mut received = receiver.receive(packet.at(), unit).map_err(|error| error.to_string())?;
        if let Some(received) = &mut received {
            received.decompressed.header_in += code.len();
        }
        match &self.icv {
            Some(icv) if received.is_some() && icv.check(receiver.ip(), code).is_err() => {
                Err("its ICV is another packet's".to_owned())
            }
            _ => Ok(received),
        }
    }
}

/// Creates both ends; the receiver only if it gives feedback or is compared.
fn channel(sending: &Sending, decompressor: &DecompressorConfig, compares: bool) -> Result<Channel, Error> {
    let sender = Sender::new(sending.compressor.clone(), sending.mtu_bytes);
    let sender = sender.with_reservations(&sending.reservations).map_err(Error::Usage)?;
    Ok(Channel::new(sender, receiver(decompressor, compares)))
}

/// Use of a packet, or the reason for which it is left out.
type Used = Result<(), intake::Refusal>;

/// Records a packet, or returns the reason for which it is left out.
fn record_carried(
    log: &mut PacketLog<'_>,
    packet: &Packet<'_>,
    carried: Result<(Sent, PacketOutcome), Refusal>,
    record: Option<u64>,
    is_ideal: bool,
) -> Result<Used, Error> {
    let (sent, outcome) = match carried {
        Ok((sent, outcome)) => (sent, outcome),
        Err(refusal) => {
            let status = format!("not compressed: {refusal}");
            log.record(&entry(packet, &status, true))?;
            return Ok(Err((intake::Reason::Refused, status.into())));
        }
    };
    let (status, is_failure) = match outcome {
        PacketOutcome::Sent | PacketOutcome::Right => ("ok".to_owned(), false),
        PacketOutcome::Lost => ("lost".to_owned(), false),
        PacketOutcome::Refused(error) => (format!("refused: {error}"), is_ideal),
        PacketOutcome::Nothing => ("without a packet".to_owned(), is_ideal),
        PacketOutcome::Wrong => ("wrong".to_owned(), true),
    };
    let flow = Some((Some(sent.compressed.cid), sizes_sent(&sent, packet)));
    let (rohc_len, state) = (sent.len, sent.state);
    log.record(&Entry { record, rohc_len, flow, state, ..entry(packet, &status, is_failure) })?;
    Ok(Ok(()))
}

fn sizes_received(received: &Received, rohc_len: usize) -> Sizes {
    Sizes {
        method: Method::Rohc(received.decompressed.profile),
        form: Form::Rohc(received.decompressed.packet_type),
        ip_len: received.len,
        ip_header: received.decompressed.header_out,
        kept: 0,
        rohc_len,
        rohc_header: received.decompressed.header_in,
    }
}

fn feedback_file(path: Option<&Path>, input: &Path) -> Result<Option<Output>, Error> {
    path.map(|path| Output::create(path, LinkType::USER0, input)).transpose()
}

fn write_feedback(file: &mut Option<Output>, packet: &Packet<'_>, feedback: &[u8]) -> Result<(), Error> {
    match file {
        Some(file) if !feedback.is_empty() => {
            file.write(packet.number * 1_000_000_000, feedback, feedback.len())
        }
        _ => Ok(()),
    }
}

/// Ends a job that compressed.
fn end_sending(
    channel: &Channel,
    log: PacketLog<'_>,
    input: &Capture,
    session: &dyn Session,
) -> Result<Outcome, Error> {
    let receiver = channel.receiver.as_ref();
    let remarks = [
        channel.sender.lack_of_cids(),
        channel.sender.lack_of_room(),
        receiver.and_then(Receiver::lack_of_contexts),
    ];
    remarks.iter().flatten().for_each(|remark| session.note(remark));
    end(log, input)
}

fn end(log: PacketLog<'_>, input: &Capture) -> Result<Outcome, Error> {
    input.check_found()?;
    log.finish(input)
}
