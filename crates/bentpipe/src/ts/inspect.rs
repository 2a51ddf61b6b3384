//! `bentpipe ts inspect`.

use std::path::PathBuf;

use bentpipe_lab::report::{Cell, Table};
use bentpipe_wire::ts::{PACKET_LEN, Pid};
use clap::Args;

use super::files;
use super::survey::{Carried, Kinds, Role, Stream, Survey};
use super::{Format, percent};
use crate::rohc::{Error, Verdict, is_interrupted};
use crate::show;

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// TS packets, bare or in a capture, or a capture of baseband frames; "-" for standard input
    input: PathBuf,
}

/// Prints what a stream has.
pub(super) fn run(args: &InspectArgs) -> Result<Verdict, Error> {
    let mut survey = Survey::new();
    let skipped = files::Stream::read(&args.input)?.for_each(|_, unit| {
        survey.add(unit);
        Ok(())
    })?;
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

fn row(survey: &Survey, pid: Pid, stream: &Stream) -> Vec<Cell> {
    let role = survey.role(pid);
    let bytes = stream.packets * PACKET_LEN as u64;
    let (units, carried, wrong) = match role {
        Role::Data(Format::Ule) => {
            (Some(stream.ule.counts().sndus), Some(&stream.as_ule), ule_errors(stream))
        }
        Role::Data(_) => (Some(stream.mpe.counts().datagrams), Some(&stream.as_mpe), mpe_errors(stream)),
        Role::Pat | Role::Pmt => (Some(stream.mpe.section_counts().sections), None, 0),
        _ => (None, None, 0),
    };
    let number = |count: u64| Cell::Number(count.to_string());
    let errors = |count: u64| if count == 0 { number(0) } else { Cell::Bad(count.to_string()) };
    vec![
        Cell::Text(pid.to_string()),
        Cell::Text(what(&role)),
        number(stream.packets),
        Cell::Number(percent(stream.packets, survey.packets)),
        number(bytes),
        errors(stream.continuity_errors),
        errors(stream.transport_errors + stream.scrambled),
        units.map_or(Cell::Number(String::new()), number),
        Cell::Text(carried.map_or(String::new(), |carried| kinds(&carried.kinds))),
        errors(wrong),
        Cell::Number(carried.map_or(String::new(), |carried| percent(carried.pdu_bytes, bytes))),
    ]
}

/// SNDUs and packets that went wrong other than by gaps and damage, which have columns of their own.
pub(super) fn ule_errors(stream: &Stream) -> u64 {
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
pub(super) fn mpe_errors(stream: &Stream) -> u64 {
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
        let state = match survey.pmts.get(&programme.map) {
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
pub(super) fn gse_errors(survey: &Survey) -> u64 {
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
