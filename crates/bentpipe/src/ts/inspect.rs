//! `bentpipe ts inspect`.

use std::io::Write;
use std::path::{Path, PathBuf};

use bentpipe_lab::report::{Cell, Table};
use bentpipe_lab::run::WholeFile;
use bentpipe_wire::ts::{PACKET_LEN, Pid};
use clap::Args;
use serde_json::{Value, json};

use super::files;
use super::survey::{Carried, Kinds, Role, Stream, Survey};
use super::{Format, percent};
use crate::rohc::{Error, Verdict, is_interrupted};
use crate::show;

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// TS packets, bare or in a capture, or a capture of baseband frames; "-" for standard input
    input: PathBuf,
    /// Write a line for each PID, as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write everything as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Prints what a stream has.
pub(super) fn run(args: &InspectArgs) -> Result<Verdict, Error> {
    let mut survey = Survey::new();
    let skipped = files::Stream::read(&args.input)?.for_each(|_, unit| {
        survey.add(unit);
        Ok(())
    })?;
    if let Some(path) = &args.csv {
        write(path, &csv(&survey))?;
    }
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&json(&survey, skipped)).expect("figures are JSON");
        write(path, &(text + "\n"))?;
    }
    show::out(&text(&survey));
    for (count, what) in [(skipped, "bytes that are no packet"), (survey.malformed, "malformed TS packets")] {
        if count > 0 {
            show::note(&format!("{count} {what}"));
        }
    }
    Ok(if is_interrupted() { Verdict::Interrupted } else { Verdict::Clean })
}

fn text(survey: &Survey) -> String {
    let mut text = String::new();
    if survey.packets > 0 {
        text.push_str(&show::table(&packets(survey)));
        text.push_str(&programmes(survey));
    }
    if survey.frames > 0 {
        text.push_str(&show::table(&frames(survey)));
    }
    text
}

const PID_HEAD: [&str; 11] =
    ["PID", "what", "packets", "share", "bytes", "gaps", "damaged", "units", "types", "wrong", "efficiency"];

fn packets(survey: &Survey) -> Table {
    let rows = survey.streams.iter().map(|(&pid, stream)| row(survey, pid, stream)).collect();
    Table { caption: String::new(), head: PID_HEAD.map(String::from).to_vec(), rows }
}

/// What is known of a PID.
struct Figures<'a> {
    role: Role,
    bytes: u64,
    /// SNDUs, or sections.
    units: Option<u64>,
    carried: Option<&'a Carried>,
    damaged: u64,
    wrong: u64,
}

impl<'a> Figures<'a> {
    fn of(survey: &Survey, pid: Pid, stream: &'a Stream) -> Figures<'a> {
        let role = survey.role(pid);
        let (units, carried, wrong) = match role {
            Role::Data(Format::Ule) => {
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

fn row(survey: &Survey, pid: Pid, stream: &Stream) -> Vec<Cell> {
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

/// One PID; its keys in this order are the columns of the CSV.
fn pid_json(survey: &Survey, pid: Pid, stream: &Stream) -> Value {
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

/// A line for each PID.
fn csv(survey: &Survey) -> String {
    let mut text = "pid,what,packets,bytes,continuity_errors,duplicates,damaged,units,wrong_units,pdu_bytes,\
                    efficiency,types\n"
        .to_owned();
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
        text += &(cells.collect::<Vec<_>>().join(",") + "\n");
    }
    text
}

/// Everything.
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

/// SNDUs and packets that went wrong other than by gaps and damage, which have columns of their own.
fn ule_errors(stream: &Stream) -> u64 {
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

/// As [`ule_errors`], of sections.
fn mpe_errors(stream: &Stream) -> u64 {
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
        Role::Data(Format::Ule) => "ULE".into(),
        Role::Data(_) => "MPE".into(),
        Role::Elementary(kind) => elementary(*kind),
        Role::Unknown => "?".into(),
    }
}

/// Names of stream types (ISO/IEC 13818-1, table 2-34).
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

/// A line for each programme.
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

/// PDUs and packets that went wrong in GSE.
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
