//! `bentpipe ts decap`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bentpipe_rohc::{Decompressor, DecompressorConfig};
use bentpipe_wire::ethernet::{EtherType, Filter};
use bentpipe_wire::pcap::LinkType;
use bentpipe_wire::ts::{PACKET_LEN, Packet, Pid};
use bentpipe_wire::{bbframe, gse, ip, link, mpe, ule};
use clap::Args;

use super::files::{Stream, Unit};
use super::inspect::{gse_errors, mpe_errors, ule_errors};
use super::survey::{Role, Survey, name};
use super::{Format, pid};
use crate::rohc::capture::Output;
use crate::rohc::{Error, Verdict, is_interrupted};
use crate::show;

#[derive(Debug, Args)]
pub(crate) struct DecapArgs {
    /// TS packets, bare or in a capture, or a capture of baseband frames; "-" for standard input
    input: PathBuf,
    /// Capture to write: IP packets (link type RAW), or with --bridge Ethernet frames; "-" for standard output
    output: PathBuf,
    /// Read only this PID; may be given several times
    #[arg(long, value_name = "PID", value_parser = pid)]
    pid: Vec<Pid>,
    /// Encapsulation of the PIDs [default: as the PMT says or the CRCs bear out]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Decompress ROHC packets, small CIDs, U-mode
    #[arg(long)]
    rohc: bool,
    /// Write the bridged frames
    #[arg(long)]
    bridge: bool,
}

/// Takes the packets out of a stream, which is read twice: to know what is in it, and for that.
pub(super) fn run(args: &DecapArgs) -> Result<Verdict, Error> {
    let stream = Stream::read(&args.input)?;
    let mut survey = Survey::new();
    stream.for_each(|_, unit| {
        survey.add(unit);
        Ok(())
    })?;
    let mut decap = Decap::new(args, &survey)?;
    stream.for_each(|time, unit| decap.unit(time.unwrap_or(0), unit))?;
    let mut wrong = decap.sink.finish()?;
    wrong += decap.receivers.keys().map(|&pid| errors(&survey, pid)).sum::<u64>();
    wrong += gse_errors(&survey) + survey.frame_errors;
    if wrong > 0 {
        show::note(&format!("{wrong} errors; bentpipe ts inspect {} says where", args.input.display()));
    }
    Ok(match wrong {
        _ if is_interrupted() => Verdict::Interrupted,
        0 => Verdict::Clean,
        _ => Verdict::Failed,
    })
}

/// What went wrong on a PID.
fn errors(survey: &Survey, pid: Pid) -> u64 {
    let Some(stream) = survey.streams.get(&pid) else { return 0 };
    let damaged = stream.continuity_errors + stream.transport_errors + stream.scrambled;
    damaged
        + if survey.role(pid) == Role::Data(Format::Mpe) { mpe_errors(stream) } else { ule_errors(stream) }
}

enum Receiver {
    Ule(ule::Receiver),
    Mpe(mpe::Receiver),
}

struct Decap {
    receivers: BTreeMap<Pid, Receiver>,
    gse: gse::Receiver,
    sink: Sink,
}

impl Decap {
    fn new(args: &DecapArgs, survey: &Survey) -> Result<Decap, Error> {
        let receivers = receivers(args, survey)?;
        let gse = gse::Receiver::new(gse::Filter::All);
        Ok(Decap { receivers, gse, sink: Sink::new(args, &args.input)? })
    }

    fn unit(&mut self, time_ns: u64, unit: Unit<'_>) -> Result<(), Error> {
        let sink = &mut self.sink;
        sink.time_ns = time_ns;
        match unit {
            Unit::Frame(frame) => {
                if let Ok((_, field)) = bbframe::parse(frame) {
                    self.gse.push(field, |pdu| sink.payload(None, &pdu.payload));
                }
            }
            Unit::Ts(bytes) => packet(&mut self.receivers, bytes, sink),
        }
        sink.failed.take().map_or(Ok(()), Err)
    }
}

fn packet(receivers: &mut BTreeMap<Pid, Receiver>, bytes: &[u8; PACKET_LEN], sink: &mut Sink) {
    let Ok(packet) = Packet::new_checked(bytes) else { return };
    let pid = packet.pid();
    match receivers.get_mut(&pid) {
        Some(Receiver::Ule(receiver)) => receiver.push(bytes, |sndu| sink.payload(Some(pid), &sndu.payload)),
        Some(Receiver::Mpe(receiver)) => {
            receiver.push(bytes, |found| {
                sink.payload(Some(pid), &ule::Payload::Pdu(found.ethertype, found.bytes))
            });
        }
        None => {}
    }
}

/// A receiver for each PID that was asked for, or that carries data.
fn receivers(args: &DecapArgs, survey: &Survey) -> Result<BTreeMap<Pid, Receiver>, Error> {
    let all = survey.streams.keys().copied();
    let asked: Vec<Pid> = if args.pid.is_empty() { all.collect() } else { args.pid.clone() };
    let mut found = BTreeMap::new();
    for pid in asked {
        let format = match (args.format, survey.role(pid)) {
            (Some(format), _) if !args.pid.is_empty() => format,
            (None, Role::Data(format)) => format,
            (Some(wanted), Role::Data(format)) if wanted == format => format,
            _ if args.pid.is_empty() => continue,
            _ => {
                return Err(Error::Usage(format!(
                    "--pid {pid}: no ULE or MPE found there; --format says which it is"
                )));
            }
        };
        let receiver = match format {
            Format::Ule => Receiver::Ule(ule::Receiver::new(pid, Filter::All)),
            Format::Mpe => Receiver::Mpe(mpe::Receiver::new(pid, Filter::All)),
            Format::Gse => return Err(Error::Usage("--pid: GSE has no PIDs".into())),
        };
        found.insert(pid, receiver);
    }
    if found.is_empty() && survey.frames == 0 {
        return Err(Error::Usage(format!("{}: no PID carries ULE or MPE", args.input.display())));
    }
    Ok(found)
}

/// What is done with PDUs.
struct Sink {
    output: Output,
    bridge: bool,
    rohc: bool,
    /// One for each PID; that of GSE has none.
    decompressors: BTreeMap<Option<Pid>, Decompressor>,
    ip: Vec<u8>,
    time_ns: u64,
    /// PDUs that are not written, by what they are.
    skipped: BTreeMap<String, u64>,
    refused: u64,
    failed: Option<Error>,
}

impl Sink {
    fn new(args: &DecapArgs, input: &Path) -> Result<Sink, Error> {
        let link_type = if args.bridge { LinkType::ETHERNET } else { LinkType::RAW };
        Ok(Sink {
            output: Output::create(&args.output, link_type, input)?,
            bridge: args.bridge,
            rohc: args.rohc,
            decompressors: BTreeMap::new(),
            ip: Vec::new(),
            time_ns: 0,
            skipped: BTreeMap::new(),
            refused: 0,
            failed: None,
        })
    }

    fn payload(&mut self, pid: Option<Pid>, payload: &ule::Payload<'_>) {
        match *payload {
            ule::Payload::Bridged(frame) if self.bridge => self.write(frame),
            ule::Payload::Bridged(frame) => match link::network(LinkType::ETHERNET, frame) {
                Ok(network) => self.pdu(pid, network.ethertype, network.bytes),
                Err(_) => self.skip("bridged frames without IP"),
            },
            ule::Payload::Pdu(ethertype, bytes) => self.pdu(pid, ethertype, bytes),
            ule::Payload::Pdus(pdus) => pdus.payloads().for_each(|payload| match payload {
                Ok(payload) => self.payload(pid, &payload),
                Err(_) => self.refused += 1,
            }),
            ule::Payload::Ts(_) => self.skip("TS-Concat"),
            ule::Payload::Test(_) => {}
        }
    }

    fn pdu(&mut self, pid: Option<Pid>, ethertype: EtherType, bytes: &[u8]) {
        match ethertype {
            _ if self.bridge => self.skip("PDUs that are no bridged frames"),
            EtherType::IPV4 | EtherType::IPV6 => match ip::Packet::new_checked(bytes) {
                Ok(packet) => self.write(&bytes[..packet.total_len().min(bytes.len())]),
                Err(_) => self.write(bytes),
            },
            EtherType::ROHC if self.rohc => self.decompress(pid, bytes),
            EtherType::ROHC => self.skip("ROHC packets, which --rohc decompresses"),
            other => self.skip(&format!("PDUs of type {}", name(other))),
        }
    }

    fn decompress(&mut self, pid: Option<Pid>, rohc: &[u8]) {
        let new = || Decompressor::new(DecompressorConfig::default());
        let decompressor = self.decompressors.entry(pid).or_insert_with(new);
        let mut ip = std::mem::take(&mut self.ip);
        ip.clear();
        match decompressor.decompress(Duration::from_nanos(self.time_ns), rohc, &mut ip) {
            Ok(Some(_)) => self.write(&ip),
            Ok(None) => {}
            Err(_) => self.refused += 1,
        }
        self.ip = ip;
    }

    fn skip(&mut self, what: &str) {
        *self.skipped.entry(what.to_owned()).or_default() += 1;
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.output.write(self.time_ns, bytes, bytes.len()).err();
        }
    }

    /// Ends the file and says what was not written; how many PDUs could not be read.
    fn finish(self) -> Result<u64, Error> {
        show::note(&format!("{} packets written", self.output.records));
        for (what, count) in &self.skipped {
            show::note(&format!("{count} left out: {what}"));
        }
        if self.refused > 0 {
            show::note(&format!(
                "{} refused: ROHC packets without context, or damaged concatenations",
                self.refused
            ));
        }
        self.output.finish()?;
        Ok(self.refused)
    }
}
