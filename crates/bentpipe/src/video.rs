//! `bentpipe video`: real MPEG-2 transport streams through ATM, and what is left of the picture.

mod args;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_lab::report::{Cell, Table};
use bentpipe_lab::run::write_whole;
use bentpipe_lab::scenario::{Document, Refusal, Scenario};
use bentpipe_lab::video::quality::{Quality, Reference};
use bentpipe_lab::video::{
    Adaptation, Arrived, ClockJitter, Ffmpeg, Original, Scratch, TransportStream, journey, mux, stream_of,
};
use indicatif::ProgressBar;

use crate::{interrupt, show};
pub(crate) use args::Command;
use args::{CardArgs, CarryArgs, DemuxArgs, MuxArgs, QualityArgs};

/// The way if no scenario describes another: an STM-1's cells over a GEO satellite.
const SCENARIO: &str = r#"
title = "A transport stream over satellite ATM"
duration = "1 h"
node.studio = {}
node.station = {}
[link.satellite]
between = ["studio", "station"]
rate = "149.76 Mbit/s"
delay = "270 ms"
[flow.television]
from = "studio"
to = "station"
stream = {}
"#;

static STOPPED: AtomicBool = AtomicBool::new(false);

/// Runs a command and says how it went; the exit code.
pub(crate) fn run(command: &Command) -> u8 {
    interrupt::watch(|| STOPPED.store(true, Ordering::Relaxed));
    let done = match command {
        Command::Card(args) => card(args),
        Command::Carry(args) => carry(args),
        Command::Mux(args) => multiplex(args),
        Command::Demux(args) => demultiplex(args),
        Command::Quality(args) => quality(args),
    };
    match done {
        Ok(()) if STOPPED.load(Ordering::Relaxed) => interrupt::INTERRUPTED,
        Ok(()) => 0,
        Err(problem) => {
            show::error(&problem);
            2
        }
    }
}

fn card(args: &CardArgs) -> Result<(), String> {
    let card = args.card();
    if let Some((key, expected)) = card.problem() {
        return Err(format!("--{key}: expected {expected}"));
    }
    let progress = spinner("making the test card");
    let original = Original::card(&card, ffmpeg()?)?;
    progress.finish_and_clear();
    write(&args.out, &original.whole)
}

fn carry(args: &CarryArgs) -> Result<(), String> {
    let scenario = scenario(args)?;
    let adaptation = stream_of(&scenario).map(|(.., setup)| setup.adaptation).unwrap_or_default();
    args.check(adaptation)?;
    let stream = load(&args.input)?;
    stream.times().map_err(|problem| format!("{}: {problem}", args.input.display()))?;
    let journey = journey(&scenario, &stream, args.seed.unwrap_or(scenario.seed))?;
    let progress = ProgressBar::new(100);
    let arrived = journey.run(|share| {
        progress.set_position((share * 100.0) as u64);
        !STOPPED.load(Ordering::Relaxed)
    });
    progress.finish_and_clear();
    let received = arrived.stream();
    write(&args.out, &received)?;
    let mut rows = carried(&stream, &arrived, &received, adaptation);
    if args.quality {
        rows.extend(judged(&compare(&args.input, &args.out, None)?));
    }
    show::out(&show::table(&table(rows)));
    Ok(())
}

/// The scenario asked for, or the usual way with the faults asked for.
fn scenario(args: &CarryArgs) -> Result<Scenario, String> {
    let mut document = match &args.scenario {
        Some(path) => Document::read(path).map_err(|error| error.to_string())?,
        None => Document::parse("satellite", SCENARIO.as_bytes()).map_err(|refusal| refusal.to_string())?,
    };
    let said = |refusal: Refusal| refusal.to_string();
    args.set.iter().try_for_each(|assignment| document.set(assignment)).map_err(said)?;
    let scenario = document.scenario().map_err(said)?;
    let Some((name, ..)) = stream_of(&scenario) else {
        let problem = "no flow has `stream`: expected one, which says how the transport stream is carried";
        return Err(document.refusal("flow", problem).to_string());
    };
    args.assignments(name)
        .iter()
        .try_for_each(|(option, assignment)| document.set_by(option, assignment))
        .map_err(said)?;
    document.scenario().map_err(said)
}

/// What is to be said of a stream that arrived.
fn carried(
    sent: &TransportStream,
    arrived: &Arrived,
    received: &TransportStream,
    adaptation: Adaptation,
) -> Vec<(&'static str, String)> {
    let stats = arrived.received.stats;
    let mut rows = vec![
        ("cells sent", arrived.cells_sent.to_string()),
        ("cells arrived, strangers included", stats.cells.to_string()),
        ("cells with a bad header", stats.bad_headers.to_string()),
    ];
    if adaptation == Adaptation::Aal5 {
        rows.push(("PDUs received", stats.good_pdus.to_string()));
        rows.push(("PDUs with a bad CRC or length", stats.bad_pdus.to_string()));
    } else {
        rows.push(("cells lost, by their numbers", stats.aal1.lost.to_string()));
        rows.push(("cells found misinserted", stats.aal1.misinserted.to_string()));
    }
    if adaptation == Adaptation::Aal1Fec {
        rows.push(("octets corrected", stats.aal1.corrected.to_string()));
        rows.push(("code words not correctable", stats.aal1.failed_rows.to_string()));
    }
    rows.push(("TS packets sent", sent.len().to_string()));
    rows.push(("TS packets received", received.len().to_string()));
    rows.push(("of these marked as damaged", stats.marked.to_string()));
    rows.push(("packets that came through intact", format!("{:.4} %", 100.0 * mux::same(sent, received))));
    if let Some(jitter) = ClockJitter::of(received, &arrived.received.times) {
        rows.push(("PCR jitter, s.d.", format!("{:.1} \u{b5}s", jitter.deviation_s * 1e6)));
        rows.push(("PCR jitter, peak to peak", format!("{:.1} \u{b5}s", jitter.peak_to_peak_s * 1e6)));
    }
    rows
}

fn judged(quality: &Quality) -> Vec<(&'static str, String)> {
    vec![
        ("pictures of the original", quality.pictures.to_string()),
        ("pictures lost", quality.lost.to_string()),
        ("pictures identical", quality.identical.to_string()),
        ("PSNR of the luma", format!("{:.2} dB", quality.psnr_db)),
    ]
}

fn multiplex(args: &MuxArgs) -> Result<(), String> {
    let inputs = args.inputs.iter().map(|path| load(path)).collect::<Result<Vec<_>, _>>()?;
    let multiplex = mux::multiplex(&inputs, args.rate).map_err(|error| error.to_string())?;
    write(&args.out, &multiplex)
}

fn demultiplex(args: &DemuxArgs) -> Result<(), String> {
    let stream = load(&args.input)?;
    let numbers = stream.programmes();
    if args.outputs.len() > numbers.len() {
        let (input, files) = (args.input.display(), args.outputs.len());
        return Err(format!(
            "{input}: {files} files for the programmes {numbers:?}: expected one for each at most"
        ));
    }
    for (path, number) in args.outputs.iter().zip(numbers) {
        let programme = mux::demultiplex(&stream, number).map_err(|error| error.to_string())?;
        write(path, &programme)?;
    }
    Ok(())
}

fn quality(args: &QualityArgs) -> Result<(), String> {
    let quality = compare(&args.original, &args.received, args.programme)?;
    show::out(&show::table(&table(judged(&quality))));
    Ok(())
}

/// Decodes both files, or one programme of each, and compares.
fn compare(original: &Path, received: &Path, programme: Option<u16>) -> Result<Quality, String> {
    let ffmpeg = ffmpeg()?;
    let progress = spinner("decoding and comparing");
    let scratch = Scratch::new().map_err(|error| error.to_string())?;
    let chosen = |path: &Path, name: &str| -> Result<PathBuf, String> {
        let Some(number) = programme else { return Ok(path.to_owned()) };
        let chosen = mux::demultiplex(&load(path)?, number).map_err(|error| error.to_string())?;
        let path = scratch.path().join(name);
        write(&path, &chosen)?;
        Ok(path)
    };
    let reference =
        Reference::of(&chosen(original, "original.ts")?, ffmpeg).map_err(|error| error.to_string())?;
    let quality = reference.compare(&chosen(received, "received.ts")?, ffmpeg);
    progress.finish_and_clear();
    let quality = quality.map_err(|error| error.to_string())?;
    if quality.lost == quality.pictures {
        show::note(&format!(
            "{}: no picture could be decoded that has the time of one in {}: all count as lost",
            received.display(),
            original.display()
        ));
    }
    Ok(quality)
}

fn ffmpeg() -> Result<Ffmpeg, String> {
    Ffmpeg::find().map_err(|failure| failure.to_string())
}

fn spinner(what: &'static str) -> ProgressBar {
    let progress = ProgressBar::new_spinner().with_message(what);
    progress.enable_steady_tick(std::time::Duration::from_millis(120));
    progress
}

/// Reads a stream, and says what of the file is none.
fn load(path: &Path) -> Result<TransportStream, String> {
    let stream = TransportStream::load(path)?;
    if let Some(remark) = stream.remark() {
        show::note(&format!("{}: {remark}", path.display()));
    }
    Ok(stream)
}

fn write(path: &Path, stream: &TransportStream) -> Result<(), String> {
    write_whole(path, |file| file.write_all(&stream.to_bytes())).map_err(|error| error.to_string())
}

fn table(rows: Vec<(&str, String)>) -> Table {
    let rows = rows.into_iter().map(|(what, value)| vec![Cell::Text(what.to_owned()), Cell::Number(value)]);
    Table { caption: String::new(), head: vec![String::new(), "value".to_owned()], rows: rows.collect() }
}
