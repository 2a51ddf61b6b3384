//! `bentpipe ts decap`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bentpipe_net::dvb::{Config, DataPid, Decapsulator, Event, Rohc};
use bentpipe_units::Time;
use bentpipe_wire::ethernet::{EtherType, Filter};
use bentpipe_wire::pcap::LinkType;
use bentpipe_wire::ts::{PACKET_LEN, Packet, Pid};
use bentpipe_wire::{bbframe, ip, link};
use clap::Args;

use super::files::{Stream, Unit};
use super::survey::{Role, Survey};
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
    let wrong = decap.finish()? + survey.frame_errors;
    if wrong > 0 {
        show::note(&format!("{wrong} errors; bentpipe ts inspect {} says where", args.input.display()));
    }
    Ok(match wrong {
        _ if is_interrupted() => Verdict::Interrupted,
        0 => Verdict::Clean,
        _ => Verdict::Failed,
    })
}

struct Decap {
    receivers: BTreeMap<Pid, Decapsulator>,
    /// What is in frames without PIDs.
    gse: Decapsulator,
    sink: Sink,
}

impl Decap {
    fn new(args: &DecapArgs, survey: &Survey) -> Result<Decap, Error> {
        let receivers = receivers(args, survey)?;
        let gse = decapsulator(args, Config::default().pid, Format::Gse)?;
        Ok(Decap { receivers, gse, sink: Sink::new(args, &args.input)? })
    }

    fn unit(&mut self, time_ns: u64, unit: Unit<'_>) -> Result<(), Error> {
        let Decap { receivers, gse, sink } = self;
        sink.time_ns = time_ns;
        let now = Time::from_nanos(time_ns);
        match unit {
            Unit::Frame(frame) => {
                if let Ok((_, field)) = bbframe::parse(frame) {
                    gse.push_field(now, field, |event| sink.event(event));
                }
            }
            Unit::Ts(bytes) => packet(receivers, now, bytes, sink),
        }
        sink.failed.take().map_or(Ok(()), Err)
    }

    /// Ends the file, and says what was not written; how much went wrong.
    fn finish(self) -> Result<u64, Error> {
        let (mut wrong, mut unknown, mut refused) = (0, 0, 0);
        for receiver in self.receivers.values().chain([&self.gse]) {
            let received = receiver.received();
            wrong += received.damaged + received.continuity_errors + received.crc_errors;
            wrong += received.format_errors + received.rohc.refused;
            unknown += received.unknown;
            refused += received.rohc.refused;
        }
        self.sink.finish()?;
        let left_out = "left out: neither IP nor Ethernet nor, with --rohc, ROHC packets";
        for (count, what) in
            [(unknown, left_out), (refused, "ROHC packets refused: without context, or damaged")]
        {
            if count > 0 {
                show::note(&format!("{count} {what}"));
            }
        }
        Ok(wrong)
    }
}

fn packet(receivers: &mut BTreeMap<Pid, Decapsulator>, now: Time, bytes: &[u8; PACKET_LEN], sink: &mut Sink) {
    let Ok(packet) = Packet::new_checked(bytes) else { return };
    if let Some(receiver) = receivers.get_mut(&packet.pid()) {
        receiver.push(now, bytes, |event| sink.event(event));
    }
}

fn decapsulator(args: &DecapArgs, pid: DataPid, format: Format) -> Result<Decapsulator, Error> {
    let (encapsulation, rohc) = (format.encapsulation(), args.rohc.then(Rohc::default));
    let config = Config { pid, encapsulation, rohc, ..Config::default() };
    Decapsulator::new(&config, Filter::All).map_err(|impossible| Error::Usage(impossible.expected.to_owned()))
}

/// A receiver for each PID that was asked for, or that carries data.
fn receivers(args: &DecapArgs, survey: &Survey) -> Result<BTreeMap<Pid, Decapsulator>, Error> {
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
        if format == Format::Gse {
            return Err(Error::Usage("--pid: GSE has no PIDs".into()));
        }
        let Some(data) = DataPid::new(pid.number()) else {
            return Err(Error::Usage(format!("--pid {pid}: it is one of tables or NULL packets")));
        };
        let receiver = decapsulator(args, data, format)?;
        found.insert(pid, receiver);
    }
    if found.is_empty() && survey.frames == 0 {
        return Err(Error::Usage(format!("{}: no PID carries ULE or MPE", args.input.display())));
    }
    Ok(found)
}

/// The IP packet in an Ethernet frame, without what pads the frame.
fn ip_packet(frame: &[u8]) -> Option<&[u8]> {
    let network = link::network(LinkType::ETHERNET, frame).ok()?;
    let is_ip = [EtherType::IPV4, EtherType::IPV6].contains(&network.ethertype);
    let len = ip::Packet::new_checked(network.bytes).map_or(network.bytes.len(), |packet| packet.total_len());
    is_ip.then(|| &network.bytes[..len.min(network.bytes.len())])
}

/// What is done with packets.
struct Sink {
    output: Output,
    bridge: bool,
    time_ns: u64,
    /// What is not written, by what it is.
    skipped: BTreeMap<&'static str, u64>,
    failed: Option<Error>,
}

impl Sink {
    fn new(args: &DecapArgs, input: &Path) -> Result<Sink, Error> {
        let link_type = if args.bridge { LinkType::ETHERNET } else { LinkType::RAW };
        let output = Output::create(&args.output, link_type, input)?;
        Ok(Sink { output, bridge: args.bridge, time_ns: 0, skipped: BTreeMap::new(), failed: None })
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Ip(_) if self.bridge => self.skip("packets that are no bridged frames"),
            Event::Ip(packet) => self.write(packet),
            Event::Ethernet(frame) if self.bridge => self.write(frame),
            Event::Ethernet(frame) => match ip_packet(frame) {
                Some(packet) => self.write(packet),
                None => self.skip("bridged frames without IP, such as ARP's; --bridge writes them"),
            },
            // Counted by the receiver.
            Event::Trouble(_) => {}
        }
    }

    fn skip(&mut self, what: &'static str) {
        *self.skipped.entry(what).or_default() += 1;
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.output.write(self.time_ns, bytes, bytes.len()).err();
        }
    }

    fn finish(self) -> Result<(), Error> {
        show::note(&format!("{} packets written", self.output.records));
        for (what, count) in &self.skipped {
            show::note(&format!("{count} left out: {what}"));
        }
        self.output.finish()
    }
}
