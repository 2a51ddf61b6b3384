//! Decapsulation of the packets of a stream.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bentpipe_dvb::{Config, DataPid, Decapsulator, Encapsulation, Event, Rohc};
use bentpipe_units::Time;
use bentpipe_wire::ethernet::{EtherType, Filter};
use bentpipe_wire::pcap::LinkType;
use bentpipe_wire::ts::{PACKET_LEN, Packet, Pid};
use bentpipe_wire::{bbframe, ip, link};
use serde_json::{Value, json};

use super::files::{Stream, Unit};
use super::survey::{Role, Survey, Surveys, beyond_room};
use super::{CUT_BY_END, by_cause};
use crate::capture::{Output, write_counts};
use crate::{Error, Intake, Outcome, Session};

/// Decapsulation of the packets of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decap {
    /// Input: TS packets, bare or captured, or captured BBFRAMEs; "-" for standard input.
    pub input: PathBuf,
    /// Capture to write: IP packets (link type RAW), or bridged frames; "-" for standard output.
    pub output: PathBuf,
    /// PIDs to read. Default: all that carry data.
    pub pids: Vec<Pid>,
    /// Encapsulation of the PIDs. Default: as the PMT names it or the CRCs bear it out.
    pub encapsulation: Option<Encapsulation>,
    /// Decompression of ROHC packets, as the sender's compression is set.
    pub rohc: Option<Rohc>,
    /// Enables bridging: whole Ethernet frames are written.
    pub bridges: bool,
    /// Choice of the streams. Those of several are taken out each by itself.
    pub intake: Intake,
}

impl Decap {
    /// Runs the job. The stream is read twice: for its contents, and for its packets.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written, or carries no data.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        crate::capture::check_apart(&self.input, [Some(&*self.output)], &self.intake)?;
        let stream = Stream::open(&self.input, &self.intake, session)?;
        let mut surveys = Surveys::default();
        let summary = stream.for_each(session, &mut |place, _, unit| {
            surveys.add(place, unit);
            Ok(())
        })?;
        let surveys = surveys.into_all(summary.entries.len());
        let beyond = beyond_room(&surveys);
        beyond.iter().for_each(|text| session.note(text));
        let mut reader = Reader::new(self, &surveys)?;
        stream.for_each(session, &mut |place, time, unit| reader.unit(place, time.unwrap_or(0), unit))?;
        let mut counts = reader.finish(session)?;
        counts.errors += surveys.iter().map(|survey| survey.frame_errors).sum::<u64>();
        if counts.packets == 0 && !session.is_interrupted() {
            return Err(Error::Usage(format!("{}: no packets{}", self.input.display(), counts.reasons())));
        }
        write_counts(&self.intake, counts.json(), summary.account)?;
        let errors = counts.errors;
        if errors > 0 {
            let causes = match by_cause(counts.causes) {
                causes if causes.is_empty() => causes,
                causes => format!(" ({causes})"),
            };
            let input = self.input.display();
            session.note(&format!("{errors} errors{causes}; bentpipe ts inspect {input} says where"));
        }
        let has_damage = errors > 0 || summary.has_damage || beyond.is_some();
        Ok(Outcome::new(String::new(), session, has_damage))
    }
}

/// Counts of the packets and of what is wrong.
struct Counts {
    packets: u64,
    left_out: BTreeMap<&'static str, u64>,
    errors: u64,
    causes: BTreeMap<&'static str, u64>,
}

impl Counts {
    /// Returns the reasons for which nothing is written, behind a colon.
    fn reasons(&self) -> String {
        let left_out = self.left_out.iter().map(|(what, count)| format!("{count} left out: {what}"));
        let causes = by_cause(self.causes.iter().map(|(cause, count)| (*cause, *count)));
        let errors = format!("{} errors{}{causes}", self.errors, if causes.is_empty() { "" } else { ": " });
        let errors = (self.errors > 0).then_some(errors);
        let all: Vec<String> = left_out.chain(errors).collect();
        if all.is_empty() { String::new() } else { format!(": {}", all.join("; ")) }
    }

    fn json(&self) -> Value {
        let causes: BTreeMap<_, _> = self.causes.iter().filter(|(_, count)| **count > 0).collect();
        json!({
            "packets": self.packets,
            "left_out": self.left_out,
            "errors": self.errors,
            "errors_by": causes,
        })
    }
}

/// Receivers of a stream.
struct Receivers {
    pids: BTreeMap<Pid, Decapsulator>,
    /// Receiver of frames, which have no PIDs.
    gse: Decapsulator,
}

struct Reader {
    /// Receivers by the place of their stream.
    streams: Vec<Receivers>,
    sink: Sink,
}

impl Reader {
    fn new(job: &Decap, surveys: &[Survey]) -> Result<Reader, Error> {
        let mut streams = Vec::new();
        let (mut has_any, mut problem) = (false, None);
        for survey in surveys {
            let gse = decapsulator(job, Config::default().pid, Encapsulation::Gse)?;
            let pids = match receivers(job, survey) {
                Ok(pids) => {
                    has_any = true;
                    pids
                }
                // Another stream may have what is asked for.
                Err(error) => {
                    problem.get_or_insert(error);
                    BTreeMap::new()
                }
            };
            streams.push(Receivers { pids, gse });
        }
        match problem.filter(|_| !has_any) {
            Some(problem) => Err(problem),
            None => Ok(Reader { streams, sink: Sink::new(job, &job.input)? }),
        }
    }

    fn unit(&mut self, place: usize, time_ns: u64, unit: Unit<'_>) -> Result<(), Error> {
        let Reader { streams, sink } = self;
        let Some(Receivers { pids, gse }) = streams.get_mut(place) else { return Ok(()) };
        sink.time_ns = time_ns;
        let now = Time::from_nanos(time_ns);
        match unit {
            Unit::Frame(frame) => {
                if let Ok((_, field)) = bbframe::parse(frame) {
                    gse.push_field(now, field, |event| sink.event(event));
                }
            }
            Unit::Ts(bytes) => packet(pids, now, bytes, sink),
            Unit::Missing(_) => {}
        }
        sink.failed.take().map_or(Ok(()), Err)
    }

    /// Ends the file and returns the counts. What was not written is noted.
    fn finish(self, session: &dyn Session) -> Result<Counts, Error> {
        let (mut wrong, mut unknown, mut refused, mut tables) = (0, 0, 0, 0);
        let mut causes: BTreeMap<&'static str, u64> = BTreeMap::new();
        let all = self.streams.iter().flat_map(|stream| stream.pids.values().chain([&stream.gse]));
        for receiver in all {
            let received = receiver.received();
            wrong += received.damaged + received.continuity_errors + received.crc_errors;
            wrong += received.format_errors + received.rohc.refused;
            unknown += received.unknown;
            refused += received.rohc.refused;
            tables += received.other_tables;
            receiver
                .causes()
                .into_iter()
                .for_each(|(cause, count)| *causes.entry(cause).or_default() += count);
            let cut = receiver.waiting();
            wrong += cut;
            *causes.entry(CUT_BY_END).or_default() += cut;
        }
        let (packets, mut left_out) = (self.sink.output.records, self.sink.skipped.clone());
        let neither = "left out: neither IP nor Ethernet nor, with --rohc, ROHC packets";
        let mut more = Vec::new();
        for (count, what) in [
            (unknown, neither),
            (tables, "left out: sections of other tables"),
            (refused, "ROHC packets refused: without context, or damaged"),
        ] {
            if count > 0 {
                more.push(format!("{count} {what}"));
                left_out.insert(what.trim_start_matches("left out: "), count);
            }
        }
        let counts = Counts { packets, left_out, errors: wrong, causes };
        // An output without packets is not left.
        if packets > 0 || session.is_interrupted() {
            self.sink.finish(session)?;
            more.iter().for_each(|text| session.note(text));
        }
        Ok(counts)
    }
}

fn packet(receivers: &mut BTreeMap<Pid, Decapsulator>, now: Time, bytes: &[u8; PACKET_LEN], sink: &mut Sink) {
    let Ok(packet) = Packet::new_checked(bytes) else { return };
    if let Some(receiver) = receivers.get_mut(&packet.pid()) {
        receiver.push(now, bytes, |event| sink.event(event));
    }
}

fn decapsulator(job: &Decap, pid: DataPid, encapsulation: Encapsulation) -> Result<Decapsulator, Error> {
    let config = Config { pid, encapsulation, rohc: job.rohc.clone(), ..Config::default() };
    Decapsulator::new(&config, Filter::All)
        .map_err(|impossible| Error::Usage(format!("--{}: expected {}", impossible.key, impossible.expected)))
}

/// Creates a receiver for each PID asked for, or that carries data.
fn receivers(job: &Decap, survey: &Survey) -> Result<BTreeMap<Pid, Decapsulator>, Error> {
    let all = survey.streams.keys().copied();
    let asked: Vec<Pid> = if job.pids.is_empty() { all.collect() } else { job.pids.clone() };
    let (mut found, roles) = (BTreeMap::new(), survey.roles());
    for pid in asked {
        let role = roles.get(&pid).cloned().unwrap_or_else(|| survey.role(pid));
        let format = match (job.encapsulation, role) {
            (Some(format), _) if !job.pids.is_empty() => format,
            (None, Role::Data(format)) => format,
            (Some(wanted), Role::Data(format)) if wanted == format => format,
            _ if job.pids.is_empty() => continue,
            _ => {
                return Err(Error::Usage(format!(
                    "--pid {pid}: no ULE or MPE found there; --format says which it is"
                )));
            }
        };
        if format == Encapsulation::Gse {
            return Err(Error::Usage("--pid: GSE has no PIDs".into()));
        }
        let Some(data) = DataPid::new(pid.number()) else {
            return Err(Error::Usage(format!("--pid {pid}: it is one of tables or NULL packets")));
        };
        let receiver = decapsulator(job, data, format)?;
        found.insert(pid, receiver);
    }
    if found.is_empty() && survey.frames == 0 {
        return Err(Error::Usage(format!("{}: no PID carries ULE or MPE", job.input.display())));
    }
    Ok(found)
}

/// Returns the IP packet in an Ethernet frame, without padding.
fn ip_packet(frame: &[u8]) -> Option<&[u8]> {
    let network = link::network(LinkType::ETHERNET, frame).ok()?;
    let is_ip = [EtherType::IPV4, EtherType::IPV6].contains(&network.ethertype);
    let len = ip::Packet::new_checked(network.bytes).map_or(network.bytes.len(), |packet| packet.total_len());
    is_ip.then(|| &network.bytes[..len.min(network.bytes.len())])
}

/// Destination of packets.
struct Sink {
    output: Output,
    bridge: bool,
    time_ns: u64,
    /// Number of packets not written, by kind.
    skipped: BTreeMap<&'static str, u64>,
    failed: Option<Error>,
}

impl Sink {
    fn new(job: &Decap, input: &Path) -> Result<Sink, Error> {
        let link_type = if job.bridges { LinkType::ETHERNET } else { LinkType::RAW };
        let output = Output::create(&job.output, link_type, input)?;
        Ok(Sink { output, bridge: job.bridges, time_ns: 0, skipped: BTreeMap::new(), failed: None })
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Ip(_) if self.bridge => self.skip("packets other than bridged frames"),
            Event::Ip(packet) => self.write(packet),
            Event::Ethernet(frame) if self.bridge => self.write(frame),
            Event::Ethernet(frame) => match ip_packet(frame) {
                Some(packet) => self.write(packet),
                None => self.skip("bridged frames without IP, such as ARP's; --bridge writes them"),
            },
            // Counted by the receiver.
            Event::Anomaly(_) => {}
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

    fn finish(self, session: &dyn Session) -> Result<(), Error> {
        session.note(&format!("{} packets written", self.output.records));
        for (what, count) in &self.skipped {
            session.note(&format!("{count} left out: {what}"));
        }
        self.output.finish()
    }
}
