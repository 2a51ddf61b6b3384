//! Real MPEG-2 transport streams through ATM, and the quality of the received picture.

use std::io::Write;
use std::path::{Path, PathBuf};

use bentpipe_assemble::Built;
use bentpipe_lab::video::quality::{Quality as Judgement, Reference};
use bentpipe_lab::video::{self, Ffmpeg, Scratch, TransportStream, View, mux};
use bentpipe_mpeg::stream::MAX_LEN;
pub use bentpipe_mpeg::stream::Model;
pub use bentpipe_mpeg::{Pictures, RateConfig};
use bentpipe_paths::read_at_most;
use bentpipe_record::write_whole;
use bentpipe_report::{Cell, Table};
use bentpipe_scenario::{
    Access, Adaptation, Card, Document, Flow, FramePacking, Scenario, ScenarioError, Stream, Traffic,
};
use bentpipe_site::Judged;
use bentpipe_units::{RandomStream, Rate, Span, Time};

use crate::capture::check_files;
use crate::ts::{Loaded, load};
use crate::{Error, Intake, Outcome, Session};

/// Path without a scenario: an STM-1's cells over a GEO satellite.
const SCENARIO: &str = r#"
title = "A transport stream over satellite ATM"
duration = "1 h"
node.studio = {}
node.station = {}
[atm.line.satellite]
between = ["studio", "station"]
rate = "149.76 Mbit/s"
delay = "270 ms"
[link.satellite]
between = ["studio", "station"]
medium = "vc"
[flow.television]
from = "studio"
to = "station"
traffic = { kind = "stream", adaptation = "aal5" }
"#;

/// Production of a test card by ffmpeg.
#[derive(Clone, Debug)]
pub struct MakeCard {
    /// The test card.
    pub card: Card,
    /// File to write.
    pub out: PathBuf,
    /// File for the pictures of the first eye before they are coded.
    pub source: Option<PathBuf>,
    /// The same for the second eye.
    pub source_right: Option<PathBuf>,
}

impl MakeCard {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if a setting is out of range, there is no ffmpeg, or the file cannot be written.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        if let Some((key, expected)) = self.card.problem() {
            return Err(Error::Usage(format!("--{key}: expected {expected}")));
        }
        if self.source_right.is_some() && self.card.eyes < 2 {
            return Err(Error::Usage("--source-right: expected with --eyes 2".to_owned()));
        }
        let sources = [&self.source, &self.source_right].into_iter().filter_map(Option::as_deref);
        check_files(&[], [&*self.out].into_iter().chain(sources))?;
        session.progress("making the test card", None);
        let made = video::card(&self.card);
        let sources = [&self.source, &self.source_right].into_iter().zip(0..);
        let mut sources = sources.filter_map(|(out, eye)| Some((out.as_ref()?, eye)));
        let source = sources.try_for_each(|(out, eye)| video::source(&self.card, eye, out));
        session.progress_finished();
        source.map_err(Error::Usage)?;
        write(&self.out, &made.map_err(Error::Usage)?).map_err(Error::Usage)?;
        Ok(Outcome::new(String::new(), session, false))
    }
}

/// Production of a modelled stream.
#[derive(Clone, Debug)]
pub struct MakeModel {
    /// Model of the stream.
    pub model: Model,
    /// Seed of its random numbers.
    pub seed: u64,
    /// File to write.
    pub out: PathBuf,
}

impl MakeModel {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if a setting is out of range, or a file cannot be read or written.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        if let Some((key, expected)) = self.model.problem() {
            return Err(Error::Usage(format!("{key}: expected {expected}")));
        }
        let inputs: Vec<&Path> = self.model.sizes.iter().map(PathBuf::as_path).collect();
        check_files(&inputs, [&*self.out])?;
        let read = |path: &PathBuf| {
            read_at_most(path, MAX_LEN).map_err(|source| Error::Open { path: path.clone(), source })
        };
        let sizes = self.model.sizes.as_ref().map(read).transpose()?;
        let mut stream = RandomStream::new(self.seed, "model");
        let made = self.model.generate(sizes.as_deref(), &mut stream).map_err(|text| {
            let shown = self.model.sizes.as_ref().map(|path| format!("{}: ", path.display()));
            Error::Usage(shown.unwrap_or_default() + &text)
        })?;
        write(&self.out, &made).map_err(Error::Usage)?;
        Ok(Outcome::new(format!("{} packets\n", made.len()), session, false))
    }
}

/// Settings of a stream's way through ATM that override those of the scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overrides {
    /// Adaptation layer.
    pub adaptation: Option<Adaptation>,
    /// TS packets per AAL5 PDU.
    pub ts_packets: Option<u16>,
    /// Enables delivery of AAL5 PDUs of the right length whose CRC is wrong.
    pub deliver_errored: bool,
    /// Ratio of misinserted cells to cells.
    pub misinsertion: Option<f64>,
    /// Cell loss ratio of the default path.
    pub loss: Option<f64>,
    /// Bit error ratio of the default path.
    pub ber: Option<f64>,
    /// Maximum delay variation of the default path.
    pub jitter: Option<Span>,
}

impl Overrides {
    /// Refuses settings of AAL5 with another adaptation.
    fn check(&self, adaptation: Adaptation) -> Result<(), String> {
        let is_udp = adaptation == Adaptation::Udp;
        let given = [
            ("--ts-packets", self.ts_packets.is_some() && !is_udp),
            ("--deliver-errored", self.deliver_errored),
        ];
        match given.iter().find(|(_, is_given)| *is_given && adaptation != Adaptation::Aal5) {
            Some((option, _)) => Err(format!("{option}: expected with AAL5 only, as AAL1 has no PDUs")),
            None => Ok(()),
        }
    }

    /// Returns the scenario assignments for the stream of flow `name`, each with its option.
    fn assignments(&self, name: &str) -> Vec<(&'static str, String)> {
        let stream = |key: &str, value: String| format!("flow.{name}.traffic.{key}={value}");
        let mut all = Vec::new();
        let mut say = |option, key: &str, value: Option<String>| {
            all.extend(value.map(|value| (option, stream(key, value))));
        };
        say("--adaptation", "adaptation", self.adaptation.map(|it| format!("\"{}\"", key_of(it))));
        say("--ts-packets", "ts_packets", self.ts_packets.map(|packets| packets.to_string()));
        say("--misinsertion", "misinsertion", self.misinsertion.map(|share| format!("{share:?}")));
        say("--deliver-errored", "deliver_errored", self.deliver_errored.then(|| "true".to_owned()));
        let faults = [
            self.loss.map(|loss| format!("{{ kind = \"cell-loss\", ratio = {loss:?} }}")),
            self.ber.map(|ber| format!("{{ kind = \"bit-errors\", ber = {ber:?} }}")),
            self.jitter.map(|max| {
                format!("{{ kind = \"delay-variation\", law = {{ kind = \"uniform\", max = \"{max}\" }} }}")
            }),
        ];
        let faults: Vec<String> = faults.into_iter().flatten().collect();
        let channel = format!("atm.line.satellite.channel=[{}]", faults.join(", "));
        all.extend((!faults.is_empty()).then_some(("--loss, --ber, --jitter", channel)));
        all
    }
}

/// Returns the value of the key `adaptation`.
fn key_of(adaptation: Adaptation) -> &'static str {
    match adaptation {
        Adaptation::Udp => "udp",
        Adaptation::Aal5 => "aal5",
        Adaptation::Aal1 => "aal1",
        Adaptation::Aal1Fec => "aal1-fec",
    }
}

/// Transfer of a transport stream in ATM cells over an impaired link.
#[derive(Clone, Debug, Default)]
pub struct Carry {
    /// Transport stream to send.
    pub input: PathBuf,
    /// File for the received stream.
    pub out: PathBuf,
    /// Scenario with a flow whose traffic is a "stream". Default: cells of an STM-1 over a GEO satellite.
    pub scenario: Option<PathBuf>,
    /// Assignments of scenario keys, KEY=VALUE.
    pub set: Vec<String>,
    /// Settings of the stream and of the default path.
    pub overrides: Overrides,
    /// Seed. Default: the scenario's.
    pub seed: Option<u64>,
    /// Enables decoding and comparison of both streams by ffmpeg.
    pub quality: bool,
    /// Choice of the one stream of the input.
    pub intake: Intake,
}

impl Carry {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written, or the scenario is wrong.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        let inputs = [Some(&*self.input), self.scenario.as_deref()].into_iter().flatten();
        let outputs = [&*self.out].into_iter().chain(self.intake.left_out.as_deref());
        check_files(&inputs.collect::<Vec<_>>(), outputs)?;
        let (table, has_damage) = self.carry(session).map_err(Error::Usage)?;
        Ok(Outcome::new(table.to_text(false), session, has_damage))
    }

    fn carry(&self, session: &dyn Session) -> Result<(Table, bool), String> {
        let (document, flow_name) = self.document()?;
        let Loaded { stream, has_damage, is_plain, .. } = load(&self.input, &self.intake, session)?;
        let scratch = Scratch::new().map_err(|error| error.to_string())?;
        let mut input = self.input.clone();
        if !is_plain {
            // The flow and ffmpeg read bare packets.
            input = scratch.path().join("packets.ts");
            write(&input, &stream)?;
        }
        let (scenario, access) = with_stream(document, &flow_name, &input)?;
        let times = stream.times().map_err(|problem| format!("{}: {problem}", self.input.display()))?;
        let (_, flow, setup) = stream_of(&scenario).ok_or("no flow is a \"stream\"")?;
        let seed = self.seed.unwrap_or(scenario.seed);
        let built = Built::new(&scenario, seed, &access).map_err(|problem| problem.to_string())?;
        let end = flow.start + times.last().copied().unwrap_or_default() + built.longest_delay() + AFTER;
        let judged = run(built, end, session)?;
        session.progress_finished();
        write_whole(&self.out, |file| file.write_all(&judged.received)).map_err(|error| error.to_string())?;
        let mut rows = carried(&judged, setup.adaptation);
        if self.quality {
            let (original, received, view) = (&*input, &*self.out, View::Whole);
            let sent = Compared { original, received, programme: None, source: None, view };
            rows.extend(self::judged(view, &sent.compare(session)?));
        }
        Ok((table(rows), has_damage))
    }

    /// Returns the scenario with its faults, and the name of the flow of the stream.
    fn document(&self) -> Result<(Document, String), String> {
        let mut document = crate::document(self.scenario.as_deref(), SCENARIO, &self.set)?;
        let text = |refusal: ScenarioError| refusal.to_string();
        let scenario = document.scenario().map_err(text)?;
        let Some((name, _, setup)) = stream_of(&scenario) else {
            let problem =
                "no flow is a \"stream\": expected one, which says how the transport stream is carried";
            return Err(document.refusal("flow", problem).to_string());
        };
        self.overrides
            .assignments(name)
            .iter()
            .try_for_each(|(option, assignment)| document.set_by(option, assignment))
            .map_err(text)?;
        self.overrides.check(self.overrides.adaptation.unwrap_or(setup.adaptation))?;
        Ok((document, name.to_owned()))
    }
}

/// Returns the scenario with a file as the stream of a flow.
fn with_stream(mut document: Document, flow: &str, input: &Path) -> Result<(Scenario, Access), String> {
    let text = |refusal: ScenarioError| refusal.to_string();
    let input = std::path::absolute(input).map_err(|error| error.to_string())?;
    document.set(&format!("flow.{flow}.traffic.file={:?}", input.display().to_string())).map_err(text)?;
    let scenario = bentpipe_assemble::checked(&document).map_err(text)?;
    Ok((scenario, document.access().clone()))
}

/// Multiplexing of the first programmes of several transport streams.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mux {
    /// Transport streams, whose clocks start together.
    pub inputs: Vec<PathBuf>,
    /// File to write.
    pub out: PathBuf,
    /// Constant rate of the multiplex. Default: the rate that the inputs need.
    pub rate: Option<Rate>,
    /// Choice of the one stream of each input.
    pub intake: Intake,
}

impl Mux {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written, or the rate does not suffice.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        let inputs: Vec<&Path> = self.inputs.iter().map(PathBuf::as_path).collect();
        if self.inputs.len() > 1 && self.intake.left_out.is_some() {
            return Err(Error::Usage("--left-out: expected one input".to_owned()));
        }
        check_files(&inputs, [&*self.out].into_iter().chain(self.intake.left_out.as_deref()))?;
        let has_damage = self.multiplex(session).map_err(Error::Usage)?;
        Ok(Outcome::new(String::new(), session, has_damage))
    }

    fn multiplex(&self, session: &dyn Session) -> Result<bool, String> {
        let inputs = self
            .inputs
            .iter()
            .map(|path| load(path, &self.intake, session))
            .collect::<Result<Vec<_>, _>>()?;
        let has_damage = inputs.iter().any(|input| input.has_damage);
        let inputs: Vec<TransportStream> = inputs.into_iter().map(|input| input.stream).collect();
        let multiplex = mux::multiplex(&inputs, self.rate).map_err(|error| error.to_string())?;
        write(&self.out, &multiplex)?;
        Ok(has_damage)
    }
}

/// Separation of a transport stream into its programmes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Demux {
    /// Transport stream.
    pub input: PathBuf,
    /// File for each programme, in the order of the PAT.
    pub outputs: Vec<PathBuf>,
    /// Choice of the one stream of the input.
    pub intake: Intake,
}

impl Demux {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written, or there are more files than programmes.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        let outputs = self.outputs.iter().map(PathBuf::as_path).chain(self.intake.left_out.as_deref());
        check_files(&[&self.input], outputs)?;
        let has_damage = self.demultiplex(session).map_err(Error::Usage)?;
        Ok(Outcome::new(String::new(), session, has_damage))
    }

    fn demultiplex(&self, session: &dyn Session) -> Result<bool, String> {
        let Loaded { stream, has_damage, .. } = load(&self.input, &self.intake, session)?;
        let numbers = stream.programmes();
        if self.outputs.len() > numbers.len() {
            let (input, files) = (self.input.display(), self.outputs.len());
            return Err(format!(
                "{input}: {files} files for the programmes {numbers:?}: expected one for each at most"
            ));
        }
        for (path, number) in self.outputs.iter().zip(numbers) {
            let programme = mux::demultiplex(&stream, number).map_err(|error| error.to_string())?;
            write(path, &programme)?;
        }
        Ok(has_damage)
    }
}

/// Coding of the videos of both eyes in one picture, by ffmpeg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pack {
    /// Videos of the left and the right eye, of one size.
    pub eyes: [PathBuf; 2],
    /// Transport stream to write.
    pub out: PathBuf,
    /// Arrangement.
    pub frame: FramePacking,
    /// Constant rate of the stream.
    pub rate: Rate,
}

impl Pack {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if ffmpeg or a file fails, or the sizes do not fit.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        check_files(&self.eyes.each_ref().map(PathBuf::as_path), [&*self.out])?;
        self.pack(session).map_err(Error::Usage)?;
        Ok(Outcome::new(String::new(), session, false))
    }

    fn pack(&self, session: &dyn Session) -> Result<(), String> {
        let ffmpeg = ffmpeg()?;
        let scratch = Scratch::new().map_err(|error| error.to_string())?;
        let [left, right] = [0, 1].map(|eye| size(ffmpeg, &self.eyes[eye], &scratch));
        let (left, right) = (left?, right?);
        if left != right {
            let [one, other] = self.eyes.each_ref().map(|path| path.display());
            return Err(format!(
                "{other}: pictures of {} x {} pixels: expected {} x {}, as in {one}",
                right.0, right.1, left.0, left.1
            ));
        }
        let halved = if self.frame == FramePacking::SideBySide { left.0 } else { left.1 };
        if halved % 4 != 0 {
            return Err(format!(
                "pictures of {} x {} pixels: expected halves of an even size",
                left.0, left.1
            ));
        }
        session.progress("coding both eyes in one picture", None);
        let made = scratch.path().join("both.ts");
        let eyes = self.eyes.each_ref().map(PathBuf::as_path);
        let packed = ffmpeg.pack(eyes, self.frame, left, self.rate, &made);
        session.progress_finished();
        packed.map_err(|error| error.to_string())?;
        write(&self.out, &load(&made, &Intake::default(), session)?.stream)
    }
}

/// Separation of both eyes that share the pictures of a stream, by ffmpeg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpack {
    /// Transport stream.
    pub input: PathBuf,
    /// Files for the left and the right eye, without loss in Matroska.
    pub eyes: [PathBuf; 2],
    /// Arrangement.
    pub frame: FramePacking,
}

impl Unpack {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if ffmpeg or a file fails.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        check_files(&[&self.input], self.eyes.iter().map(PathBuf::as_path))?;
        self.unpack(session).map_err(Error::Usage)?;
        Ok(Outcome::new(String::new(), session, false))
    }

    fn unpack(&self, session: &dyn Session) -> Result<(), String> {
        let ffmpeg = ffmpeg()?;
        let scratch = Scratch::new().map_err(|error| error.to_string())?;
        let size = size(ffmpeg, &self.input, &scratch)?;
        session.progress("decoding", None);
        let mut eyes = View::eyes(self.frame).into_iter().zip(&self.eyes);
        let unpacked = eyes.try_for_each(|(view, out)| ffmpeg.unpack(&self.input, view, size, out));
        session.progress_finished();
        unpacked.map_err(|error| error.to_string())
    }
}

/// Returns the size of a file's pictures.
fn size(ffmpeg: Ffmpeg, path: &Path, scratch: &Scratch) -> Result<(usize, usize), String> {
    ffmpeg.size(path, scratch.path()).map_err(|error| format!("{}: {error}", path.display()))
}

/// Comparison of the pictures of two streams by ffmpeg.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quality {
    /// Stream that was sent.
    pub original: PathBuf,
    /// Stream that was received.
    pub received: PathBuf,
    /// Programme of both to compare. Default: the whole streams.
    pub programme: Option<u16>,
    /// Pictures that the original was coded from, to compare in place of the decoded original. With `frame`, those of the
    /// left eye.
    pub source: Option<PathBuf>,
    /// The same for the right eye.
    pub source_right: Option<PathBuf>,
    /// Arrangement of two eyes that share the pictures and are judged one by one. Default: none.
    pub frame: Option<FramePacking>,
}

impl Quality {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read, or there is no ffmpeg.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        let Quality { original, received, programme, .. } = self;
        let (programme, sources) = (*programme, [self.source.as_deref(), self.source_right.as_deref()]);
        let views = self.frame.map_or_else(|| vec![View::Whole], |frame| View::eyes(frame).to_vec());
        if sources[1].is_some() && (self.frame.is_none() || sources[0].is_none()) {
            let expected = "--source-right: expected with --frame, and with --source of the left eye";
            return Err(Error::Usage(expected.to_owned()));
        }
        if sources[0].is_some() && sources[1].is_none() && self.frame.is_some() {
            return Err(Error::Usage("--source: expected with --source-right, for both eyes".to_owned()));
        }
        let mut rows = Vec::new();
        for (view, source) in views.iter().zip(sources) {
            let compared = Compared { original, received, programme, source, view: *view };
            rows.extend(judged(*view, &compared.compare(session).map_err(Error::Usage)?));
        }
        if ffmpeg()
            .and_then(|ffmpeg| ffmpeg.has_vmaf().map_err(|error| error.to_string()))
            .map_err(Error::Usage)?
        {
            for (view, source) in views.iter().zip(sources) {
                let compared = Compared { original, received, programme, source, view: *view };
                rows.extend(compared.vmaf(session).map_err(Error::Usage)?);
            }
        } else {
            session.note("this ffmpeg is without the filter libvmaf: VMAF is left out");
        }
        Ok(Outcome::new(table(rows).to_text(false), session, false))
    }
}

/// Time for which queues and channels may still hold packets after the last was due.
const AFTER: Span = Span::from_secs(5);
/// Number of steps in which a run can be observed and stopped.
const STEPS: u64 = 200;

/// Returns the transport stream of a scenario: the flow's name, the flow, its configuration.
fn stream_of(scenario: &Scenario) -> Option<(&str, &Flow, &Stream)> {
    scenario.flow.iter().find_map(|(name, flow)| match &flow.traffic {
        Traffic::Stream(stream) => Some((&name[..], flow, stream)),
        _ => None,
    })
}

/// Runs a network until `end`, or until it is stopped, and judges what arrived.
fn run(mut built: Built, end: Span, session: &dyn Session) -> Result<Judged, String> {
    for n in 1..=STEPS {
        session.progress("carrying", Some((n - 1) as f64 / STEPS as f64));
        if session.is_interrupted() {
            break;
        }
        built.network.run_until(Time::ZERO + if n == STEPS { end } else { end / STEPS * n });
    }
    let judge = built.judges.first_mut().ok_or("no flow is judged")?;
    Ok(judge.1.judge())
}

/// Measures of a stream that arrived: names, labels, and the adaptations that have them.
const ROWS: [(&str, &str, &[Adaptation]); 21] = [
    ("cells-sent", "cells sent", &[]),
    ("cells-arrived", "cells arrived, misinserted ones included", &[]),
    ("good-pdus", "PDUs received", &[Adaptation::Aal5]),
    ("bad-pdus", "PDUs with a bad CRC or length", &[Adaptation::Aal5]),
    ("bad-datagrams", "datagrams with a bad checksum", &[]),
    ("cells-missing", "cells lost, by their numbers", &[Adaptation::Aal1, Adaptation::Aal1Fec]),
    ("misinserted-found", "cells found misinserted", &[Adaptation::Aal1, Adaptation::Aal1Fec]),
    ("octets-corrected", "octets corrected", &[Adaptation::Aal1Fec]),
    ("rows-failed", "code words not correctable", &[Adaptation::Aal1Fec]),
    ("cell-loss-ratio", "cell loss ratio (I.356)", &[]),
    ("cell-error-ratio", "cell error ratio", &[]),
    ("cells-misinserted", "cells misinserted", &[]),
    ("cell-delay-mean", "cell transfer delay, mean", &[]),
    ("cdv-two-point", "cell delay variation, 2-point", &[]),
    ("cdv-one-point", "cell delay variation, 1-point", &[]),
    ("ts-sent", "TS packets sent", &[]),
    ("ts-arrived", "TS packets received", &[]),
    ("ts-marked", "of these marked as damaged", &[]),
    ("intact", "packets that came through intact", &[]),
    ("pcr-jitter", "PCR jitter, s.d.", &[]),
    ("pcr-jitter-peak", "PCR jitter, peak to peak", &[]),
];

/// Describes a stream that arrived.
fn carried(judged: &Judged, adaptation: Adaptation) -> Vec<(&'static str, String)> {
    let own = ROWS.iter().filter(|(.., of)| of.is_empty() || of.contains(&adaptation));
    let row = |(name, label, _): &(&str, &'static str, _)| {
        let (_, unit, value) = judged.measures.iter().find(|(known, ..)| known == name)?;
        Some((*label, shown(unit, *value)))
    };
    own.filter_map(row).collect()
}

fn shown(unit: &str, value: f64) -> String {
    match unit {
        "ratio" => format!("{:.4} %", 100.0 * value),
        "s" => format!("{:.1} \u{b5}s", value * 1e6),
        _ => format!("{value:.0}"),
    }
}

fn judged(view: View, quality: &Judgement) -> Vec<(&'static str, String)> {
    let labels = match view {
        View::Whole => [
            "pictures of the original",
            "pictures lost",
            "pictures identical",
            "PSNR of the luma",
            "SSIM of the luma",
        ],
        View::Eye(_, 0) => [
            "left eye: pictures of the original",
            "left eye: pictures lost",
            "left eye: pictures identical",
            "left eye: PSNR of the luma",
            "left eye: SSIM of the luma",
        ],
        View::Eye(..) => [
            "right eye: pictures of the original",
            "right eye: pictures lost",
            "right eye: pictures identical",
            "right eye: PSNR of the luma",
            "right eye: SSIM of the luma",
        ],
    };
    let values = [
        quality.pictures.to_string(),
        quality.lost.to_string(),
        quality.identical.to_string(),
        format!("{:.2} dB", quality.psnr_db),
        format!("{:.4}", quality.ssim),
    ];
    let mut rows: Vec<_> = labels.into_iter().zip(values).collect();
    if !matches!(view, View::Eye(_, 1)) {
        rows.extend(sound_rows(quality));
    }
    rows
}

fn sound_rows(quality: &Judgement) -> Vec<(&'static str, String)> {
    vec![
        ("frames of sound in the original", quality.sound.frames.to_string()),
        ("frames of sound lost", quality.sound.lost.to_string()),
        ("frames of sound damaged", quality.sound.damaged.to_string()),
    ]
}

/// Files to decode and compare.
#[derive(Clone, Copy)]
struct Compared<'a> {
    original: &'a Path,
    received: &'a Path,
    programme: Option<u16>,
    source: Option<&'a Path>,
    /// Part of the pictures.
    view: View,
}

impl Compared<'_> {
    /// Returns the row of VMAF. It is empty if nothing could be decoded.
    fn vmaf(&self, session: &dyn Session) -> Result<Option<(&'static str, String)>, String> {
        session.progress("computing VMAF", None);
        let scratch = Scratch::new().map_err(|error| error.to_string())?;
        let [original, received] = self.streams(&scratch, session)?;
        let vmaf = ffmpeg()?.vmaf(&original, self.source, &received, self.view, scratch.path());
        session.progress_finished();
        let label = match self.view {
            View::Whole => "VMAF, mean",
            View::Eye(_, 0) => "left eye: VMAF, mean",
            View::Eye(..) => "right eye: VMAF, mean",
        };
        Ok(vmaf.map_err(|error| error.to_string())?.map(|score| (label, format!("{score:.2}"))))
    }

    /// Returns the files of the original and of what was received.
    ///
    /// If a programme is chosen, they are of that one.
    fn streams(&self, scratch: &Scratch, session: &dyn Session) -> Result<[PathBuf; 2], String> {
        let chosen = |path: &Path, name: &str| -> Result<PathBuf, String> {
            let Some(number) = self.programme else { return Ok(path.to_owned()) };
            let chosen = mux::demultiplex(&load(path, &Intake::default(), session)?.stream, number)
                .map_err(|error| error.to_string())?;
            let path = scratch.path().join(name);
            write(&path, &chosen)?;
            Ok(path)
        };
        Ok([chosen(self.original, "original.ts")?, chosen(self.received, "received.ts")?])
    }

    /// Decodes both files, or one programme of each, and compares.
    fn compare(&self, session: &dyn Session) -> Result<Judgement, String> {
        let ffmpeg = ffmpeg()?;
        session.progress("decoding and comparing", None);
        let scratch = Scratch::new().map_err(|error| error.to_string())?;
        let [original, received] = self.streams(&scratch, session)?;
        let said = |error: &dyn std::fmt::Display| error.to_string();
        let sent = Reference::of_view(&original, self.view, ffmpeg).map_err(|error| said(&error))?;
        let reference = match self.source {
            Some(source) => sent
                .before_coding(source, ffmpeg)
                .map_err(|error| format!("{}: {error}", source.display()))?,
            None => sent,
        };
        let quality = reference.compare(&received, ffmpeg);
        session.progress_finished();
        let quality = quality.map_err(|error| said(&error))?;
        if quality.lost == quality.pictures {
            session.note(&format!(
                "{}: no picture could be decoded that has the time of one in {}: all count as lost",
                self.received.display(),
                self.original.display()
            ));
        }
        Ok(quality)
    }
}

fn ffmpeg() -> Result<Ffmpeg, String> {
    Ffmpeg::find().map_err(|failure| failure.to_string())
}

fn write(path: &Path, stream: &TransportStream) -> Result<(), String> {
    write_whole(path, |file| file.write_all(&stream.to_bytes())).map_err(|error| error.to_string())
}

fn table(rows: Vec<(&str, String)>) -> Table {
    let rows = rows.into_iter().map(|(what, value)| vec![Cell::Text(what.to_owned()), Cell::Number(value)]);
    Table { caption: String::new(), head: vec![String::new(), "value".to_owned()], rows: rows.collect() }
}
