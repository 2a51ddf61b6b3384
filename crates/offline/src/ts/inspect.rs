//! Description of a stream's contents.

use std::io::Write;
use std::path::{Path, PathBuf};

use bentpipe_dvb::Encapsulation;
use bentpipe_record::WholeFile;
use bentpipe_report::{Cell, Table};
use bentpipe_wire::ts::{PACKET_LEN, Pid};
use serde_json::{Value, json};

use super::files::{Stream, Unit};
use super::measurement::{self, Clock, Indicator, Measurement};
use super::percent;
use super::survey::{Carried, Kinds, PidStream, Role, Survey};
use crate::{Error, Outcome, Session};

/// Description of a stream's contents as text, CSV and JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspect {
    /// Input: TS packets, bare or captured, or captured BBFRAMEs; "-" for standard input.
    pub input: PathBuf,
    /// CSV file with a line per PID.
    pub csv: Option<PathBuf>,
    /// JSON file with everything.
    pub json: Option<PathBuf>,
    /// Enables the measurements of TR 101 290.
    pub measure: bool,
    /// Enables ANSI colours in the text.
    pub colours: bool,
}

impl Inspect {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written, or has no stream.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        let (mut survey, mut measurement) = (Survey::new(), Measurement::default());
        let stream = Stream::read(&self.input, session)?;
        let skipped = stream.for_each(session, |time_ns, unit| {
            survey.add(unit);
            if let Unit::Ts(packet) = unit {
                measurement.survey(time_ns, packet);
            }
            Ok(())
        })?;
        let measured = if self.measure { Some(measure(measurement, &stream, session)?) } else { None };
        if let Some(path) = &self.csv {
            write(path, &csv(&survey))?;
        }
        if let Some(path) = &self.json {
            let mut value = json(&survey, skipped);
            if let (Some((indicators, clocks)), Some(all)) = (&measured, value.as_object_mut()) {
                all.insert("tr_101_290".to_owned(), measurement::json(indicators, clocks));
            }
            let text = serde_json::to_string_pretty(&value).expect("figures are JSON");
            write(path, &(text + "\n"))?;
        }
        let remarks = [(skipped, "bytes outside packets"), (survey.malformed, "malformed TS packets")];
        for (count, what) in remarks.iter().filter(|(count, _)| *count > 0) {
            session.note(&format!("{count} {what}"));
        }
        let mut text = text(&survey, self.colours);
        for table in measured.iter().flat_map(|(indicators, clocks)| measurement::tables(indicators, clocks))
        {
            text += &format!("\n{}", table.to_text(self.colours));
        }
        Ok(Outcome::new(text, session, false))
    }
}

/// Measures a stream in a second pass.
fn measure(
    mut measurement: Measurement,
    stream: &Stream,
    session: &dyn Session,
) -> Result<(Vec<Indicator>, Vec<Clock>), Error> {
    measurement.choose_clock();
    let skipped = stream.for_each(session, |time_ns, unit| {
        if let Unit::Ts(packet) = unit {
            measurement.add(time_ns, packet);
        }
        Ok(())
    })?;
    Ok((measurement.indicators(skipped), measurement.clocks()))
}

fn text(survey: &Survey, colours: bool) -> String {
    let mut text = String::new();
    if survey.packets > 0 {
        text.push_str(&packets(survey).to_text(colours));
        text.push_str(&programmes(survey));
    }
    if survey.frames > 0 {
        text.push_str(&frames(survey).to_text(colours));
    }
    text
}

const PID_HEAD: [&str; 11] =
    ["PID", "what", "packets", "share", "bytes", "gaps", "damaged", "units", "types", "wrong", "efficiency"];

fn packets(survey: &Survey) -> Table {
    let rows = survey.streams.iter().map(|(&pid, stream)| row(survey, pid, stream)).collect();
    Table { caption: String::new(), head: PID_HEAD.map(String::from).to_vec(), rows }
}

/// Figures of a PID.
struct Figures<'a> {
    role: Role,
    bytes: u64,
    /// Number of SNDUs or sections.
    units: Option<u64>,
    carried: Option<&'a Carried>,
    damaged: u64,
    wrong: u64,
}

impl<'a> Figures<'a> {
    fn of(survey: &Survey, pid: Pid, stream: &'a PidStream) -> Figures<'a> {
        let role = survey.role(pid);
        let (units, carried, wrong) = match role {
            Role::Data(Encapsulation::Ule) => {
                (Some(stream.ule.counts().sndus), Some(&stream.as_ule), ule_errors(stream))
            }
            Role::Data(_) => (Some(stream.mpe.counts().datagrams), Some(&stream.as_mpe), mpe_errors(stream)),
            Role::Pat | Role::Pmt => (Some(stream.mpe.section_counts().sections), None, 0),
            _ => (None, None, 0),
        };
        let damaged = stream.transport_errors + stream.scrambled;
        Figures { role, bytes: stream.packets * PACKET_LEN as u64, units, carried, damaged, wrong }
    }
}

fn row(survey: &Survey, pid: Pid, stream: &PidStream) -> Vec<Cell> {
    let Figures { role, bytes, units, carried, damaged, wrong } = Figures::of(survey, pid, stream);
    let number = |count: u64| Cell::Number(count.to_string());
    let errors = |count: u64| if count == 0 { number(0) } else { Cell::Bad(count.to_string()) };
    vec![
        Cell::Text(pid.to_string()),
        Cell::Text(what(&role)),
        number(stream.packets),
        Cell::Number(percent(stream.packets, survey.packets)),
        number(bytes),
        errors(stream.continuity_errors),
        errors(damaged),
        units.map_or(Cell::Number(String::new()), number),
        Cell::Text(carried.map_or(String::new(), |carried| kinds(&carried.kinds))),
        errors(wrong),
        Cell::Number(carried.map_or(String::new(), |carried| percent(carried.pdu_bytes, bytes))),
    ]
}

/// Describes one PID as JSON. Its keys are the columns of the CSV, in order.
fn pid_json(survey: &Survey, pid: Pid, stream: &PidStream) -> Value {
    let Figures { role, bytes, units, carried, damaged, wrong } = Figures::of(survey, pid, stream);
    json!({
        "pid": pid.number(),
        "what": what(&role),
        "packets": stream.packets,
        "bytes": bytes,
        "continuity_errors": stream.continuity_errors,
        "duplicates": stream.duplicates,
        "damaged": damaged,
        "units": units,
        "wrong_units": wrong,
        "pdu_bytes": carried.map(|carried| carried.pdu_bytes),
        "efficiency": carried.map(|carried| carried.pdu_bytes as f64 / bytes.max(1) as f64),
        "types": carried.map(|carried| &carried.kinds),
    })
}

/// Writes one line per PID as CSV.
fn csv(survey: &Survey) -> String {
    let mut lines = csv::Writer::from_writer(Vec::new());
    let in_memory = "writing to memory does not fail";
    lines.write_record(COLUMNS).expect(in_memory);
    for (&pid, stream) in &survey.streams {
        let value = pid_json(survey, pid, stream);
        let cells = value.as_object().into_iter().flatten().map(|(_, value)| match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            Value::Object(types) => {
                types.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join("; ")
            }
            value => value.to_string(),
        });
        lines.write_record(cells).expect(in_memory);
    }
    String::from_utf8(lines.into_inner().expect(in_memory)).expect("cells are UTF-8")
}

/// Columns of the CSV.
const COLUMNS: [&str; 12] = [
    "pid",
    "what",
    "packets",
    "bytes",
    "continuity_errors",
    "duplicates",
    "damaged",
    "units",
    "wrong_units",
    "pdu_bytes",
    "efficiency",
    "types",
];

/// Describes everything as JSON.
fn json(survey: &Survey, skipped_bytes: u64) -> Value {
    let pids = survey.streams.iter().map(|(&pid, stream)| pid_json(survey, pid, stream));
    let programmes = survey.pat.iter().flat_map(|pat| &pat.programmes).map(|programme| {
        let streams = survey
            .map_at(programme.map)
            .map(|pmt| pmt.streams.iter().map(|stream| stream.pid.number()).collect::<Vec<_>>());
        json!({ "number": programme.number, "pmt_pid": programme.map.number(), "streams": streams })
    });
    let (gse, as_gse) = (survey.gse.counts(), &survey.as_gse);
    json!({
        "packets": survey.packets,
        "malformed_packets": survey.malformed,
        "skipped_bytes": skipped_bytes,
        "pids": pids.collect::<Vec<_>>(),
        "programmes": programmes.collect::<Vec<_>>(),
        "frames": {
            "frames": survey.frames,
            "unreadable": survey.frame_errors,
            "bytes": survey.frame_bytes,
            "gse_packets": gse.packets,
            "pdus": gse.pdus,
            "wrong_pdus": gse_errors(survey),
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
    let counts = stream.ule.counts();
    counts.pointer_errors
        + counts.reassembly_errors
        + counts.delimiting_errors
        + counts.length_errors
        + counts.crc_errors
        + counts.type_errors
        + counts.concat_errors
        + counts.adaptations
}

/// Returns the number of MPE errors, as [`ule_errors`].
fn mpe_errors(stream: &PidStream) -> u64 {
    let (counts, sections) = (stream.mpe.counts(), stream.mpe.section_counts());
    let framing = sections.pointer_errors + sections.delimiting_errors + sections.length_errors;
    let parts = counts.orphans + counts.abandoned;
    counts.length_errors + counts.crc_errors + counts.unsupported + parts + framing
}

fn what(role: &Role) -> String {
    match role {
        Role::Pat => "PAT".into(),
        Role::Pmt => "PMT".into(),
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

/// Lists the programmes, one a line.
fn programmes(survey: &Survey) -> String {
    let Some(pat) = &survey.pat else { return "  no PAT\n".into() };
    let mut text = String::new();
    for programme in &pat.programmes {
        let state = match survey.map_at(programme.map) {
            Some(pmt) => {
                pmt.streams.iter().map(|stream| stream.pid.to_string()).collect::<Vec<_>>().join(", ")
            }
            None => "no PMT".into(),
        };
        text.push_str(&format!("  programme {}: PMT {}, streams {state}\n", programme.number, programme.map));
    }
    text
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
    let counts = survey.gse.counts();
    counts.length_errors
        + counts.label_errors
        + counts.orphans
        + counts.abandoned
        + counts.total_length_errors
        + counts.crc_errors
        + counts.type_errors
        + counts.concat_errors
}
