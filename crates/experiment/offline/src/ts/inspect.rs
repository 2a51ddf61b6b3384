//! Description of a stream's contents.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use bentpipe_dvb::Encapsulation;
use bentpipe_intake::{Leg, StreamEntry};
use bentpipe_record::WholeFile;
use bentpipe_report::{Block, Cell, Page, Table};
use bentpipe_units::Span;
use bentpipe_wire::si::Description;
use bentpipe_wire::ts::{PACKET_LEN, Packet, Pid};
use serde_json::{Value, json};

use super::files::{Stream, Summary, Unit, legs_json, legs_text, streams};
use super::measurement::{self, MAX_REFERENCES, Measurement};
use super::rates::{RateFile, RateLog};
use super::stamps;
use super::survey::{Carried, Kinds, PidStream, Role, ServiceEntry, Survey, Surveys, beyond_room};
use super::{CUT_BY_END, by_cause, of, percent};
use crate::{Error, Intake, Outcome, Session};

/// Description of a stream's contents as text, CSV and JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inspect {
    /// Input: TS packets, bare or captured, or captured BBFRAMEs; "-" for standard input.
    pub input: PathBuf,
    /// CSV file with a line per PID.
    pub csv: Option<PathBuf>,
    /// JSON file with everything.
    pub json: Option<PathBuf>,
    /// Enables the measurements of TR 101 290.
    pub measure: bool,
    /// PIDs that are described. Empty: all. Tables are read of all.
    pub pids: Vec<Pid>,
    /// CSV file of rates over time.
    pub rates: Option<PathBuf>,
    /// HTML page with tables and the rates over time.
    pub report: Option<PathBuf>,
    /// Interval of the rates.
    pub interval: Span,
    /// Enables ANSI colours in the text.
    pub colours: bool,
    /// Choice of the streams. Several are described each by itself.
    pub intake: Intake,
}

impl Inspect {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written, or has no stream.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        let outputs = [&self.csv, &self.json, &self.rates, &self.report].map(Option::as_deref);
        crate::capture::check_apart(&self.input, outputs, &self.intake)?;
        let stream = Stream::open(&self.input, &self.intake, session)?;
        let (mut all, summary) = self.first_pass(&stream, session)?;
        if self.has_rates() {
            summary.one(&self.input)?;
        }
        for Described { survey, measurement } in &mut all {
            measurement.choose(&self.pids);
            measurement.choose_clock(clocks(survey));
            // Measurements have them as rows.
            let steps = measurement.steps().into_iter().filter(|_| !self.measure);
            steps.for_each(|step| session.note(&format!("{}: {step}", self.input.display())));
        }
        let logs = self.second_pass(&mut all, &stream, session)?;
        self.choose(&mut all, session);
        let parts: Vec<Part> =
            all.iter_mut().zip(&summary.entries).map(|(it, entry)| self.part(it, *entry)).collect();
        if let Some(path) = &self.csv {
            write(path, &csv(&all, &summary.entries))?;
        }
        if let Some(path) = &self.json {
            let value = whole_json(&parts, &summary);
            let text = serde_json::to_string_pretty(&value).expect("figures are JSON");
            write(path, &(text + "\n"))?;
        }
        for malformed in all.iter().map(|it| it.survey.malformed).filter(|count| *count > 0) {
            session.note(&format!("{malformed} malformed TS packets"));
        }
        let text = self.text(&parts, &summary);
        if let (Some(path), Some(part)) = (&self.report, parts.into_iter().next()) {
            write(path, &self.page(&all[0].survey, part.tables, (&logs[..], &summary)).to_html())?;
        }
        let is_cut = all.iter().any(|it| it.survey.beyond_room + it.survey.cut_by_end() > 0);
        let is_wrong = all.iter().any(|it| has_wrong_units(&it.survey));
        Ok(Outcome::new(text, session, summary.has_damage || is_cut || is_wrong))
    }

    /// Leaves the chosen PIDs alone.
    fn choose(&self, all: &mut [Described], session: &dyn Session) {
        if self.pids.is_empty() {
            return;
        }
        for pid in &self.pids {
            if all.iter().all(|it| !it.survey.streams.contains_key(pid)) {
                session.note(&format!("--pid {pid}: no packets"));
            }
        }
        all.iter_mut().for_each(|it| it.survey.choose(&self.pids));
    }

    fn has_rates(&self) -> bool {
        self.rates.is_some() || self.report.is_some()
    }

    /// Reads the stream for its contents and clock references.
    fn first_pass(
        &self,
        stream: &Stream<'_>,
        session: &dyn Session,
    ) -> Result<(Vec<Described>, Summary), Error> {
        let (mut surveys, mut measurements) = (Surveys::default(), Vec::new());
        let (mut room, is_measured) = (MAX_REFERENCES, self.has_rates() || self.measure);
        let summary = stream.for_each(session, &mut |place, time_ns, unit| {
            surveys.add(place, unit);
            if is_measured {
                let measurement: &mut Measurement = of(&mut measurements, place);
                match unit {
                    Unit::Ts(packet) => {
                        room -= usize::from(measurement.survey(time_ns, packet, room > 0));
                    }
                    Unit::Missing(packets) => measurement.miss(packets),
                    Unit::Frame(_) => {}
                }
            }
            Ok(())
        })?;
        if room == 0 {
            session.note(&format!("clock references behind the first {MAX_REFERENCES} are not measured"));
        }
        measurements.resize_with(summary.entries.len(), Measurement::default);
        let surveys = surveys.into_all(summary.entries.len());
        beyond_room(&surveys).iter().for_each(|text| session.note(text));
        let all = surveys.into_iter().zip(measurements);
        Ok((all.map(|(survey, measurement)| Described { survey, measurement }).collect(), summary))
    }

    /// Describes a stream.
    fn part(&self, Described { survey, measurement }: &mut Described, entry: StreamEntry) -> Part {
        let measured =
            self.measure.then(|| (measurement.indicators(entry.outside, entry.faults), measurement.clocks()));
        let mut value = json(survey, entry.outside);
        if let (Some((indicators, clocks)), Some(all)) = (&measured, value.as_object_mut()) {
            all.insert("tr_101_290".to_owned(), measurement::json(indicators, clocks, measurement));
        }
        let mut tables: Vec<Table> = measured
            .iter()
            .flat_map(|(indicators, clocks)| measurement::tables(indicators, clocks))
            .collect();
        if self.measure && measurement.stamps().next().is_some() {
            tables.push(stamps::table(measurement.stamps()));
        }
        Part { text: text(survey, self.colours), tables, json: value }
    }

    /// Returns the descriptions of all streams, behind a list of them if there are several.
    fn text(&self, parts: &[Part], summary: &Summary) -> String {
        let (is_one, Summary { entries, legs, .. }) = (parts.len() == 1, summary);
        let mut text = if is_one { String::new() } else { streams(entries, legs).to_text(self.colours) };
        for ((part, entry), legs) in parts.iter().zip(entries).zip(legs) {
            if !is_one {
                text += &format!("\n{}\n", entry.id);
            }
            text += &part.text;
            text += &legs_text(entry, legs);
            if is_one && legs.is_empty() && entry.missing > 0 {
                text += &format!("  {} RTP packets missing by their numbers\n", entry.missing);
            }
            if entry.restarts > 0 {
                let restarts = entry.restarts;
                text += &format!(
                    "  {restarts} restarts of the sender of RTP; losses around them are not known\n"
                );
            }
            part.tables.iter().for_each(|table| text += &format!("\n{}", table.to_text(self.colours)));
        }
        text
    }

    /// Reads the stream again for measurements and rates, if they are wanted.
    fn second_pass(
        &self,
        all: &mut [Described],
        stream: &Stream<'_>,
        session: &dyn Session,
    ) -> Result<Vec<RateLog>, Error> {
        let has_packets = all.iter().any(|it| it.survey.packets > 0);
        let has_rates = self.has_rates() && has_packets;
        if has_rates && self.interval < Span::from_micros(1) {
            return Err(Error::Usage("--interval: expected at least 1 us".to_owned()));
        }
        if !has_rates && !self.measure {
            return Ok(Vec::new());
        }
        let [mut by_clock, mut by_capture] =
            ["pcr", "capture"].map(|clock| RateLog::new(clock, self.interval));
        let mut file = self.rates.as_deref().filter(|_| has_rates).map(RateFile::create).transpose()?;
        let mut number = 0;
        stream.for_each(session, &mut |place, time_ns, unit| {
            let Described { survey, measurement } = &mut all[place];
            let packet = match unit {
                Unit::Ts(packet) => packet,
                Unit::Missing(packets) => {
                    measurement.miss(packets);
                    number += packets;
                    return Ok(());
                }
                Unit::Frame(_) => return Ok(()),
            };
            measurement.add(time_ns, packet, survey.describes(packet));
            if let (true, Ok(view)) = (has_rates, Packet::new_checked(packet)) {
                if let Some(at) = measurement.since_start(number) {
                    by_clock.add(at, view.pid(), file.as_mut())?;
                }
                if let Some(at) = time_ns.and_then(|time_ns| measurement.since_first(time_ns)) {
                    by_capture.add(at, view.pid(), file.as_mut())?;
                }
            }
            number += 1;
            Ok(())
        })?;
        let logs: Vec<RateLog> =
            [by_clock, by_capture].into_iter().filter(|log| log.intervals() > 0).collect();
        if has_rates && logs.is_empty() {
            let shown = self.input.display();
            let interval = self.interval;
            let text = format!(
                "{shown}: no rate over {interval}: expected clock references or times of a capture, and"
            );
            return Err(Error::Usage(format!("{text} a stream longer than --interval")));
        }
        let remark = file.map_or(Ok(None), RateFile::finish)?;
        remark.iter().for_each(|remark| session.note(remark));
        Ok(logs)
    }

    /// Returns the page of all tables and of the rates.
    fn page(&self, survey: &Survey, tables: Vec<Table>, (logs, summary): (&[RateLog], &Summary)) -> Page {
        let mut blocks = Vec::new();
        if survey.packets > 0 {
            blocks.extend([Block::Table(packets(survey)), Block::Verbatim(programmes(survey))]);
        }
        if survey.frames > 0 {
            blocks.push(Block::Table(frames(survey)));
        }
        blocks.extend(tables.into_iter().map(Block::Table));
        let roles = survey.roles();
        blocks.push(Block::Plots(logs.iter().map(|log| log.plot(&roles, what)).collect()));
        let title = format!("Transport stream {}", self.input.display());
        let stream = summary.entries.first().map_or_else(String::new, |entry| format!("{}. ", entry.id));
        Page { title, lead: stream + &summary.remark, facts: Vec::new(), blocks }
    }
}

/// Stream with its contents and measurements.
#[derive(Debug, Default)]
struct Described {
    survey: Survey,
    measurement: Measurement,
}

/// Description of a stream.
struct Part {
    text: String,
    tables: Vec<Table>,
    json: Value,
}

/// Describes all streams with the account: of one its own object, of several a list.
fn whole_json(parts: &[Part], summary: &Summary) -> Value {
    let with_stream = |((part, entry), legs): ((&Part, &StreamEntry), &Vec<Leg>)| {
        let mut value = part.json.clone();
        let stream = json!({
            "name": entry.id.to_string(),
            "interface": entry.id.link.interface,
            "vlans": entry.id.link.vlans.iter().flatten().collect::<Vec<_>>(),
            "source": entry.id.ends.map(|(from, _)| from.to_string()),
            "destination": entry.id.ends.map(|(_, to)| to.to_string()),
            "ssrc": entry.id.ssrc,
            "isi": entry.id.isi,
            "datagrams": entry.datagrams,
            "rtp_missing": entry.missing,
            "rtp_late": entry.late,
            "legs": legs_json(legs),
            "packet_bytes": entry.layout.map(|layout| layout.stride),
        });
        value
            .as_object_mut()
            .into_iter()
            .for_each(|all| drop(all.insert("stream".to_owned(), stream.clone())));
        value
    };
    let mut all: Vec<Value> =
        parts.iter().zip(&summary.entries).zip(&summary.legs).map(with_stream).collect();
    let mut value = match all.len() {
        1 => all.remove(0),
        _ => json!({ "streams": all }),
    };
    value
        .as_object_mut()
        .into_iter()
        .for_each(|all| drop(all.insert("intake".to_owned(), summary.account.clone())));
    value
}

/// Returns the clocks of elementary streams by PID.
fn clocks(survey: &Survey) -> BTreeMap<Pid, Pid> {
    survey.elementary_streams().into_iter().map(|(pid, (_, clock))| (pid, clock)).collect()
}

fn text(survey: &Survey, colours: bool) -> String {
    let mut text = String::new();
    if survey.packets > 0 {
        text.push_str(&packets(survey).to_text(colours));
        if survey.others > 0 {
            text += &format!("  {} packets of other PIDs\n", survey.others);
        }
        text.push_str(&programmes(survey));
    }
    if survey.frames > 0 {
        text.push_str(&frames(survey).to_text(colours));
    }
    text + &reasons(survey)
}

/// Lists the causes of errors by PID, and those of GSE.
fn reasons(survey: &Survey) -> String {
    let (roles, mut text) = (survey.roles(), String::new());
    for (pid, stream) in &survey.streams {
        match roles.get(pid) {
            Some(Role::Data(Encapsulation::Ule)) => {
                let cut = stream.cut_by_end(Encapsulation::Ule);
                text += &wrong_by(&format!("PID {pid}"), stream.ule.counts().causes(), cut);
            }
            Some(Role::Data(encapsulation)) => {
                let (counts, cut) = (stream.mpe.counts(), stream.cut_by_end(*encapsulation));
                text += &wrong_by(&format!("PID {pid}"), counts.causes(stream.mpe.section_counts()), cut);
                if counts.other_tables > 0 {
                    text +=
                        &format!("  PID {pid}: {} sections of other tables left out\n", counts.other_tables);
                }
            }
            _ => {}
        }
    }
    text + &wrong_by("GSE", survey.gse.counts().causes(), survey.gse.waiting() as u64)
}

/// Returns `true` if frames, GSE packets, or units of a PID are wrong.
fn has_wrong_units(survey: &Survey) -> bool {
    let roles = survey.roles();
    let mut streams = survey.streams.iter();
    survey.frame_errors > 0
        || survey.gse.counts().causes().iter().any(|(_, count)| *count > 0)
        || streams.any(|(pid, stream)| Figures::of(*pid, stream, &roles).wrong > 0)
}

/// Returns a line with the causes of what is wrong, if anything is.
fn wrong_by<const N: usize>(place: &str, causes: [(&'static str, u64); N], cut: u64) -> String {
    match by_cause(causes.into_iter().chain([(CUT_BY_END, cut)])) {
        causes if causes.is_empty() => causes,
        causes => format!("  {place}: wrong by {causes}\n"),
    }
}

const PID_HEAD: [&str; 12] = [
    "PID",
    "what",
    "packets",
    "share",
    "bytes",
    "gaps",
    "damaged",
    "scrambled",
    "units",
    "types",
    "wrong",
    "efficiency",
];

fn packets(survey: &Survey) -> Table {
    let roles = survey.roles();
    let rows = survey.streams.iter().map(|(&pid, stream)| row(survey, pid, stream, &roles)).collect();
    Table { caption: String::new(), head: PID_HEAD.map(String::from).to_vec(), rows }
}

/// Roles by PID.
type Roles = BTreeMap<Pid, Role>;

/// Figures of a PID.
struct Figures<'a> {
    role: Role,
    bytes: u64,
    /// Number of SNDUs or sections.
    units: Option<u64>,
    carried: Option<&'a Carried>,
    wrong: u64,
}

impl<'a> Figures<'a> {
    fn of(pid: Pid, stream: &'a PidStream, roles: &Roles) -> Figures<'a> {
        let role = roles.get(&pid).cloned().unwrap_or(Role::Unknown);
        let (units, carried, wrong) = match role {
            Role::Data(Encapsulation::Ule) => {
                (Some(stream.ule.counts().sndus), Some(&stream.as_ule), ule_errors(stream))
            }
            Role::Data(_) => (Some(stream.mpe.counts().datagrams), Some(&stream.as_mpe), mpe_errors(stream)),
            Role::Pat | Role::Pmt | Role::Sdt => (Some(stream.mpe.section_counts().sections), None, 0),
            _ => (None, None, 0),
        };
        Figures { role, bytes: stream.packets * PACKET_LEN as u64, units, carried, wrong }
    }
}

fn row(survey: &Survey, pid: Pid, stream: &PidStream, roles: &Roles) -> Vec<Cell> {
    let Figures { role, bytes, units, carried, wrong } = Figures::of(pid, stream, roles);
    let number = |count: u64| Cell::Number(count.to_string());
    let errors = |count: u64| if count == 0 { number(0) } else { Cell::Bad(count.to_string()) };
    vec![
        Cell::Text(pid.to_string()),
        Cell::Text(what(&role)),
        number(stream.packets),
        Cell::Number(percent(stream.packets, survey.packets)),
        number(bytes),
        errors(stream.continuity_errors),
        errors(stream.transport_errors),
        number(stream.scrambled),
        units.map_or(Cell::Number(String::new()), number),
        Cell::Text(carried.map_or(String::new(), |carried| kinds(&carried.kinds))),
        errors(wrong),
        Cell::Number(carried.map_or(String::new(), |carried| percent(carried.pdu_bytes, bytes))),
    ]
}

/// Describes one PID as JSON. Its keys are the columns of the CSV, in order.
fn pid_json(pid: Pid, stream: &PidStream, roles: &Roles) -> Value {
    let Figures { role, bytes, units, carried, wrong } = Figures::of(pid, stream, roles);
    json!({
        "pid": pid.number(),
        "what": what(&role),
        "packets": stream.packets,
        "bytes": bytes,
        "continuity_errors": stream.continuity_errors,
        "duplicates": stream.duplicates,
        "damaged": stream.transport_errors,
        "scrambled": stream.scrambled,
        "units": units,
        "wrong_units": wrong,
        "pdu_bytes": carried.map(|carried| carried.pdu_bytes),
        "efficiency": carried.map(|carried| carried.pdu_bytes as f64 / bytes.max(1) as f64),
        "types": carried.map(|carried| &carried.kinds),
    })
}

/// Returns the causes that have a count, as JSON.
fn causes_json<const N: usize>(causes: [(&str, u64); N]) -> Value {
    causes.into_iter().filter(|(_, count)| *count > 0).map(|(cause, count)| (cause, json!(count))).collect()
}

/// Writes one line per PID as CSV, of several streams with their names.
fn csv(all: &[Described], entries: &[StreamEntry]) -> String {
    let mut lines = csv::Writer::from_writer(Vec::new());
    let in_memory = "writing to memory does not fail";
    let is_one = all.len() == 1;
    let name = |name: &str| (!is_one).then(|| name.to_owned());
    lines.write_record(name("stream").into_iter().chain(COLUMNS.map(str::to_owned))).expect(in_memory);
    let surveys = all.iter().map(|it| (&it.survey, it.survey.roles())).zip(entries);
    let rows = surveys.flat_map(|((survey, roles), entry)| {
        survey.streams.iter().map(move |(&pid, stream)| (entry, pid_json(pid, stream, &roles)))
    });
    for (entry, value) in rows {
        let cells = value.as_object().into_iter().flatten().map(|(_, value)| match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            Value::Object(types) => {
                types.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join("; ")
            }
            value => value.to_string(),
        });
        lines.write_record(name(&entry.id.to_string()).into_iter().chain(cells)).expect(in_memory);
    }
    String::from_utf8(lines.into_inner().expect(in_memory)).expect("cells are UTF-8")
}

/// Columns of the CSV.
const COLUMNS: [&str; 13] = [
    "pid",
    "what",
    "packets",
    "bytes",
    "continuity_errors",
    "duplicates",
    "damaged",
    "scrambled",
    "units",
    "wrong_units",
    "pdu_bytes",
    "efficiency",
    "types",
];

/// Describes the services as JSON.
pub(super) fn services_json(survey: &Survey) -> Value {
    let services = survey.services.iter().map(|(number, service)| {
        let of = service.description.as_ref();
        json!({
            "number": number,
            "name": of.map(|of| &of.name),
            "provider": of.map(|of| &of.provider),
            "type": of.map(|of| of.kind),
            "running_status": service.running,
        })
    });
    services.collect()
}

/// Describes everything as JSON.
fn json(survey: &Survey, skipped_bytes: u64) -> Value {
    let roles = survey.roles();
    let pids = survey.streams.iter().map(|(&pid, stream)| pid_json(pid, stream, &roles));
    let programmes = survey.programmes().map(|programme| {
        let streams = survey
            .map_of(programme)
            .map(|pmt| pmt.streams.iter().map(|stream| stream.pid.number()).collect::<Vec<_>>());
        json!({ "number": programme.number, "pmt_pid": programme.map.number(), "streams": streams })
    });
    let (gse, as_gse) = (survey.gse.counts(), &survey.as_gse);
    json!({
        "packets": survey.packets,
        "malformed_packets": survey.malformed,
        "packets_of_other_pids": survey.others,
        "skipped_bytes": skipped_bytes,
        "pids": pids.collect::<Vec<_>>(),
        "programmes": programmes.collect::<Vec<_>>(),
        "services": services_json(survey),
        "frames": {
            "frames": survey.frames,
            "unreadable": survey.frame_errors,
            "bytes": survey.frame_bytes,
            "gse_packets": gse.packets,
            "pdus": gse.pdus,
            "wrong_pdus": gse_errors(survey),
            "causes": causes_json(gse.causes()),
            "cut_by_end": survey.gse.waiting(),
            "pdu_bytes": as_gse.pdu_bytes,
            "efficiency": as_gse.pdu_bytes as f64 / survey.frame_bytes.max(1) as f64,
            "types": as_gse.kinds,
        },
    })
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    let written = WholeFile::create(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.finish()
    });
    written.map_err(|source| Error::Write { path: path.into(), source })
}

/// Returns the number of ULE errors other than gaps and transmission errors.
fn ule_errors(stream: &PidStream) -> u64 {
    sum(&stream.ule.counts().causes())
}

/// Returns the number of MPE errors, as [`ule_errors`].
fn mpe_errors(stream: &PidStream) -> u64 {
    sum(&stream.mpe.counts().causes(stream.mpe.section_counts()))
}

fn what(role: &Role) -> String {
    match role {
        Role::Pat => "PAT".into(),
        Role::Pmt => "PMT".into(),
        Role::Sdt => "SDT".into(),
        Role::Null => "NULL".into(),
        Role::Data(Encapsulation::Ule) => "ULE".into(),
        Role::Data(_) => "MPE".into(),
        Role::Elementary(kind) => elementary(*kind),
        Role::Unknown => "?".into(),
    }
}

/// Returns the name of a stream type (ISO/IEC 13818-1, table 2-34).
fn elementary(kind: u8) -> String {
    match kind {
        0x01 | 0x02 => "MPEG-1/2 video".into(),
        0x03 | 0x04 => "MPEG-1/2 audio".into(),
        0x05 => "private sections".into(),
        0x06 => "private PES".into(),
        0x0f | 0x11 => "AAC audio".into(),
        0x1b => "H.264 video".into(),
        0x24 => "H.265 video".into(),
        other => format!("stream type {other:#04x}"),
    }
}

fn kinds(kinds: &Kinds) -> String {
    let all: Vec<String> = kinds.iter().map(|(name, count)| format!("{name} {count}")).collect();
    all.join(", ")
}

/// Lists the programmes with their services, one a line, and services without a programme.
pub(super) fn programmes(survey: &Survey) -> String {
    let mut text = String::new();
    if !survey.has_pat() {
        text.push_str("  no PAT\n");
    }
    let mut listed = BTreeSet::new();
    for programme in survey.programmes() {
        listed.insert(programme.number);
        let state = match survey.map_of(programme) {
            Some(pmt) => {
                pmt.streams.iter().map(|stream| stream.pid.to_string()).collect::<Vec<_>>().join(", ")
            }
            None => "no PMT".into(),
        };
        let name = survey.services.get(&programme.number).map(service).unwrap_or_default();
        text += &format!("  programme {}{name}: PMT {}, streams {state}\n", programme.number, programme.map);
    }
    for (number, entry) in survey.services.iter().filter(|(number, _)| !listed.contains(number)) {
        text += &format!("  service {number}{}: not in the PAT\n", service(entry));
    }
    text
}

/// Returns a service's name, provider, type and state.
fn service(entry: &ServiceEntry) -> String {
    let state = match entry.running {
        0 | 4 => "",
        1 => ", not running",
        2 => ", starts soon",
        3 => ", pausing",
        5 => ", off air",
        _ => ", unknown state",
    };
    let Some(Description { kind, provider, name }) = &entry.description else { return state.to_owned() };
    let kind = match kind {
        0x01 => "television".to_owned(),
        0x02 | 0x0a => "radio".to_owned(),
        0x0c => "data".to_owned(),
        0x11 | 0x19 => "HD television".to_owned(),
        0x16 => "SD television".to_owned(),
        0x1f | 0x20 => "HEVC television".to_owned(),
        other => format!("service type {other:#04x}"),
    };
    format!(" \"{name}\" of \"{provider}\" ({kind}{state})")
}

fn frames(survey: &Survey) -> Table {
    let head = ["frames", "unreadable", "bytes", "GSE packets", "PDUs", "types", "wrong", "efficiency"];
    let (counts, Carried { kinds: found, pdu_bytes }) = (survey.gse.counts(), &survey.as_gse);
    let number = |count: u64| Cell::Number(count.to_string());
    let wrong = gse_errors(survey);
    let row = vec![
        number(survey.frames),
        if survey.frame_errors == 0 { number(0) } else { Cell::Bad(survey.frame_errors.to_string()) },
        number(survey.frame_bytes),
        number(counts.packets),
        number(counts.pdus),
        Cell::Text(kinds(found)),
        if wrong == 0 { number(0) } else { Cell::Bad(wrong.to_string()) },
        Cell::Number(percent(*pdu_bytes, survey.frame_bytes)),
    ];
    Table { caption: String::new(), head: head.map(String::from).to_vec(), rows: vec![row] }
}

/// Returns the number of GSE errors.
fn gse_errors(survey: &Survey) -> u64 {
    sum(&survey.gse.counts().causes())
}

fn sum(causes: &[(&str, u64)]) -> u64 {
    causes.iter().map(|(_, count)| count).sum()
}
