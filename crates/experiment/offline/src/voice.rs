//! Real speech through a scenario.
//!
//! Speech is coded, carried packet by packet, decoded with concealment of losses, and judged.

mod carriage;
mod coder;
mod judge;
mod listener;
mod table;

use std::io::Write;
use std::path::{Path, PathBuf};

use bentpipe_assemble::scratch::Scratch;
use bentpipe_lab::plan::{Point, Points, Seeds};
use bentpipe_paths::read_at_most;
use bentpipe_record::write_whole;
use bentpipe_scenario::{Access, Document, Scenario, ScenarioError, Traffic};
use bentpipe_units::{Rate, Span};
pub use bentpipe_voice::Codec;
use bentpipe_voice::call::{Config, Score, Settings};
use bentpipe_wire::wav;

use crate::capture::check_files;
use crate::{Error, Outcome, Session};
use coder::{Coded, Coder};
pub use judge::Judge;

/// Path without a scenario: a line over a geostationary satellite that loses packets at random.
const SCENARIO: &str = r#"
title = "Speech over a geostationary satellite"
duration = "1 h"
node.speaker = {}
node.listener = {}
[link.satellite]
between = ["speaker", "listener"]
rate = "2 Mbit/s"
delay = "260 ms"
channel = { kind = "packet-errors", loss = 0.0 }
[flow.call]
from = "speaker"
to = "listener"
traffic = { kind = "voice", codec = "g711a", silence_suppression = false }
"#;

const NO_VOICE: &str = "no flow is \"voice\": expected one, in whose first call the speech is sent";

/// Longest speech that is carried.
const LONGEST: Span = Span::from_secs(600);
/// Maximum number of runs.
const MAX_RUNS: usize = 1000;
/// Longest file of speech in bytes: `LONGEST` at 192 kHz with two channels.
const LONGEST_FILE: u64 = 600 * 192_000 * 4;

/// Substitute for lost packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Concealment {
    /// Repetition of the pitch period; the codec's own for Opus.
    #[default]
    Repeat,
    /// Silence.
    Silence,
}

/// Carriage of real speech through a scenario.
#[derive(Clone, Debug, Default)]
pub struct Carry {
    /// Speech to send.
    pub input: PathBuf,
    /// File for the speech that is played. Several runs number theirs.
    pub out: PathBuf,
    /// Scenario with a flow whose traffic is "voice". Default: a line over a geostationary satellite.
    pub scenario: Option<PathBuf>,
    /// Assignments of scenario keys, KEY=VALUE.
    pub set: Vec<String>,
    /// Codecs in place of the scenario's.
    pub codecs: Vec<Codec>,
    /// Rate of the codec.
    pub rate: Option<Rate>,
    /// Frames per packet.
    pub frames: Option<u32>,
    /// Packet loss ratios of the default path.
    pub losses: Vec<f64>,
    /// First seed. Default: the scenario's.
    pub seed: Option<u64>,
    /// Number of seeds. Default: the scenario's.
    pub seeds: Option<u32>,
    /// Concealment of losses.
    pub concealment: Concealment,
    /// Judge of received speech.
    pub judge: Judge,
    /// File for a plot of the scores by the E-model and by the judge.
    pub svg: Option<PathBuf>,
}

/// Speech that was carried once.
#[derive(Clone, Debug)]
struct Carried {
    codec: String,
    rate_hz: u32,
    /// Number of the point of codec, loss and sweep, and its settings.
    place: usize,
    point: String,
    seed: u64,
    /// Packets sent, lost, and late.
    counts: [u64; 3],
    mouth_to_ear: Option<Span>,
    score: Option<Score>,
    /// Scores by PESQ and ViSQOL, or the reason why there is none.
    judged: [Result<f64, String>; 2],
}

/// Speech to send: samples at the rate of the codec, and their packets.
struct Sent {
    samples: Vec<i16>,
    headers: Vec<Vec<u8>>,
    payloads: Vec<Vec<u8>>,
    coder: Coder,
}

impl Carry {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written, the scenario is wrong, or the codec cannot be coded here.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        let inputs = [Some(&*self.input), self.scenario.as_deref()].into_iter().flatten();
        let outputs = [Some(&*self.out), self.svg.as_deref()].into_iter().flatten();
        check_files(&inputs.collect::<Vec<_>>(), outputs)?;
        let carried = self.carry(session);
        session.progress_finished();
        let carried = carried.map_err(Error::Usage)?;
        if let Some(path) = &self.svg {
            let plot = table::plot(&carried).to_svg();
            write_whole(path, |file| file.write_all(plot.as_bytes()))
                .map_err(|error| Error::Usage(error.to_string()))?;
        }
        table::remarks(&carried).iter().for_each(|remark| session.note(remark));
        Ok(Outcome::new(table::table(&carried).to_text(false), session, false))
    }

    fn carry(&self, session: &dyn Session) -> Result<Vec<Carried>, String> {
        let scratch = Scratch::new().map_err(|error| error.to_string())?;
        let (points, access) = self.points()?;
        let runs: usize = points.iter().map(|point| point.seeds.len()).sum();
        if runs > MAX_RUNS {
            return Err(format!("{runs} runs: expected at most {MAX_RUNS}"));
        }
        let (mut carried, mut pairs, mut last) = (Vec::new(), Vec::new(), None::<(Config, Sent)>);
        let each = |(place, point): (usize, &'_ Point)| -> Vec<(usize, u64)> {
            point.seeds.iter().map(|seed| (place, *seed)).collect()
        };
        if runs > 1 {
            let outputs: Vec<PathBuf> = (1..=runs).map(|number| numbered(&self.out, number)).collect();
            let outputs = outputs.iter().map(PathBuf::as_path).chain(self.svg.as_deref());
            check_files(&[&self.input], outputs).map_err(|error| error.to_string())?;
        }
        for (place, seed) in points.iter().enumerate().flat_map(each) {
            let point = &points[place];
            if session.is_interrupted() {
                break;
            }
            let (name, config) = voice_of(&point.scenario).ok_or(NO_VOICE)?;
            let settings = config.settings().map_err(|error| error.to_string())?;
            // Points that differ in the network alone share what is sent.
            let sent = match last.take() {
                Some((known, sent)) if known == config => sent,
                _ => self.code(&settings, &config, &scratch)?,
            };
            session.progress("carrying", Some(carried.len() as f64 / runs as f64));
            let network = carriage::Network { scenario: &point.scenario, access: &access, flow: name, seed };
            let reception = network.carry(&settings, &sent, session)?;
            let played = listener::play(&settings, &sent, &reception.packets, self.concealment, &scratch)?;
            let (number, rate_hz) = (carried.len() + 1, sent.coder.rate_hz);
            write(&if runs == 1 { self.out.clone() } else { numbered(&self.out, number) }, rate_hz, &played)?;
            pairs.push(judge::Pair::write(&scratch, number, rate_hz, [&sent.samples, &played])?);
            carried.push(Carried {
                codec: sent.coder.title(),
                rate_hz,
                place,
                point: point.label(),
                seed,
                counts: reception.counts(),
                mouth_to_ear: reception.mouth_to_ear,
                score: settings.score(&reception.losses, reception.mouth_to_ear),
                judged: [const { Err(String::new()) }; 2],
            });
            last = Some((config, sent));
        }
        session.progress_finished();
        session.progress("judging", None);
        for (number, measure) in [judge::Measure::Pesq, judge::Measure::Visqol].into_iter().enumerate() {
            for (one, judged) in carried.iter_mut().zip(self.judge.scores(measure, &pairs)) {
                one.judged[number] = judged;
            }
        }
        Ok(carried)
    }

    /// Returns the points: codecs, losses and the scenario's sweep.
    fn points(&self) -> Result<(Vec<Point>, Access), String> {
        let mut document = crate::document(self.scenario.as_deref(), SCENARIO, &self.set)?;
        let text = |refusal: ScenarioError| refusal.to_string();
        let scenario = document.scenario().map_err(text)?;
        let Some((name, _)) = voice_of(&scenario) else {
            return Err(document.refusal("flow", NO_VOICE).to_string());
        };
        let key = format!("flow.{name}.traffic");
        if let Some(rate) = self.rate {
            document.set_by("--rate", &format!("{key}.rate=\"{rate}\"")).map_err(text)?;
        }
        if let Some(frames) = self.frames {
            document.set_by("--frames", &format!("{key}.frames={frames}")).map_err(text)?;
        }
        let seeds = Seeds { first: self.seed, count: self.seeds };
        let mut all = Vec::new();
        for document in self.variants(&document, &key).map_err(text)? {
            bentpipe_assemble::checked(&document).map_err(text)?;
            let mut points = Points::new(&document, seeds);
            let count = points.len();
            if all.len() + count > MAX_RUNS {
                return Err(format!("{} points: expected at most {MAX_RUNS}", all.len() + count));
            }
            for index in 0..count {
                all.push(points.at(index).map_err(text)?);
            }
        }
        Ok((all, document.access().clone()))
    }

    /// Returns the scenario with each codec and loss asked for.
    fn variants(&self, document: &Document, key: &str) -> Result<Vec<Document>, ScenarioError> {
        let mut variants = vec![document.clone()];
        for (option, values) in [
            ("--codec", self.codecs.iter().map(|codec| format!("{key}.codec={}", word(*codec))).collect()),
            (
                "--loss",
                self.losses
                    .iter()
                    .map(|loss| format!("link.satellite.channel.loss={loss:?}"))
                    .collect::<Vec<_>>(),
            ),
        ] {
            if values.is_empty() {
                continue;
            }
            let mut changed = Vec::new();
            for variant in &variants {
                for value in &values {
                    let mut variant = variant.clone();
                    variant.set_by(option, value)?;
                    changed.push(variant);
                }
            }
            variants = changed;
        }
        Ok(variants)
    }

    /// Reads and codes the speech.
    fn code(&self, settings: &Settings, config: &Config, scratch: &Scratch) -> Result<Sent, String> {
        let coder = Coder::new(settings, config)?;
        let samples = read(&self.input, coder.rate_hz, scratch)?;
        let Coded { headers, payloads } = coder.encode(&samples, scratch)?;
        if let Some(wrong) = payloads.iter().find(|payload| payload.len() != settings.payload_len() as usize)
        {
            return Err(format!(
                "the encoder of {} gives packets of {} B: expected {} B",
                coder.title(),
                wrong.len(),
                settings.payload_len()
            ));
        }
        Ok(Sent { samples, headers, payloads, coder })
    }
}

/// Returns the name of the first flow of voice, and its configuration.
fn voice_of(scenario: &Scenario) -> Option<(&str, Config)> {
    scenario.flow.iter().find_map(|(name, flow)| match &flow.traffic {
        Traffic::Voice(config) => Some((&name[..], *config)),
        _ => None,
    })
}

/// Parses a codec's name in scenarios.
///
/// # Errors
/// Returns the names expected.
pub fn codec(text: &str) -> Result<Codec, String> {
    let known = || Codec::ALL.iter().map(|codec| word(*codec).trim_matches('"').to_owned());
    let found = Codec::ALL.into_iter().zip(known()).find(|(_, name)| name == text);
    found
        .map(|(codec, _)| codec)
        .ok_or_else(|| format!("expected one of {}", known().collect::<Vec<_>>().join(", ")))
}

/// Returns a codec as scenarios write it.
fn word(codec: Codec) -> String {
    serde_json::to_string(&codec).unwrap_or_default()
}

/// Returns a file's name with the number of a run: "received-2.wav".
fn numbered(path: &Path, number: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().map(|ending| format!(".{}", ending.to_string_lossy())).unwrap_or_default();
    path.with_file_name(format!("{stem}-{number}{ending}"))
}

fn write(path: &Path, rate_hz: u32, samples: &[i16]) -> Result<(), String> {
    let file = wav::Repr { rate_hz, channels: 1, samples: samples.to_vec() };
    write_whole(path, |out| out.write_all(&file.to_bytes())).map_err(|error| error.to_string())
}

/// Reads speech as samples of one channel at a rate. A WAV file that has them is read without ffmpeg.
fn read(path: &Path, rate_hz: u32, scratch: &Scratch) -> Result<Vec<i16>, String> {
    let wrong = |problem: String| format!("{}: {problem}", path.display());
    let bytes = read_at_most(path, LONGEST_FILE).map_err(|error| wrong(error.to_string()))?;
    let samples = match wav::Repr::parse(&bytes) {
        Ok(file) if (file.rate_hz, file.channels) == (rate_hz, 1) => file.samples,
        _ => coder::convert(path, rate_hz, scratch).map_err(wrong)?,
    };
    let most = LONGEST.as_secs_f64() * f64::from(rate_hz);
    if samples.len() as f64 > most {
        return Err(wrong(format!("longer than {LONGEST}: expected at most that")));
    }
    if samples.iter().all(|sample| *sample == 0) {
        return Err(wrong("expected speech, found silence".to_owned()));
    }
    Ok(samples)
}
