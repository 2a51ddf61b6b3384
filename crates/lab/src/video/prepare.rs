//! A scenario's transport stream: its network, and what is measured of it when that has run.

use std::path::Path;
use std::sync::Arc;

use super::config::Stream;
use super::ffmpeg::Ffmpeg;
use super::journey::{Arrived, Journey, Receiving, Way};
use super::mux;
use super::original::Original;
use super::quality::Quality;
use super::scratch::Scratch;
use super::stream::{ClockJitter, TransportStream};
use crate::build;
use crate::build::direction;
use crate::measure::Measure;
use crate::plan::Point;
use crate::run::Prepared;
use crate::scenario::{Flow, Scenario};

/// Width of each half of a picture for a report, in pixels.
const HALF_WIDTH: u32 = 480;

/// The network of a scenario with a transport stream.
///
/// # Errors
/// The key of what cannot be, and why.
pub(crate) fn prepare(
    point: &Point,
    (name, flow, setup): (&str, &Flow, &Stream),
    seed: u64,
    folder: &Path,
    keeps_files: bool,
) -> Result<Prepared, build::Problem> {
    let key = format!("flow.{name}.stream");
    let original = Original::shared(setup, folder).map_err(|problem| build::Problem::new(&key, problem))?;
    let link = link(&point.scenario, flow)
        .ok_or_else(|| build::Problem::new(&key, "no link from `from` to `to`"))?;
    let way = Way { name, start: flow.start, link: &link, seed };
    let journey =
        Journey::new(&original.whole, setup, &way).map_err(|problem| build::Problem::new(&key, problem))?;
    let judge = Judge { name: name.to_owned(), original, receiving: journey.receiving(), keeps_files };
    let finish = Box::new(move |folder: &Path| judge.measures(folder));
    let (captures, carriers) = (Vec::new(), Vec::new());
    Ok(Prepared { network: journey.network, captures, carriers, finish: Some(finish) })
}

/// The transport stream of a scenario, if it has one: the flow's name, the flow, and what it says of the stream.
pub fn stream_of(scenario: &Scenario) -> Option<(&str, &Flow, &Stream)> {
    scenario.flow.iter().find_map(|(name, flow)| Some((&name[..], flow, flow.stream.as_ref()?)))
}

/// The way of a transport stream as a scenario describes it, ready to go.
///
/// # Errors
/// If the scenario has no transport stream, or the stream no clock, as a text.
pub fn journey(scenario: &Scenario, stream: &TransportStream, seed: u64) -> Result<Journey, String> {
    let (name, flow, setup) = stream_of(scenario).ok_or("the scenario has no flow with `stream`")?;
    let link = link(scenario, flow).ok_or("no link from `from` to `to`")?;
    Journey::new(stream, setup, &Way { name, start: flow.start, link: &link, seed })
}

/// The direction of the link that joins a flow's ends.
pub(crate) fn link(scenario: &Scenario, flow: &Flow) -> Option<crate::scenario::Direction> {
    let ends = [&flow.from, &flow.to];
    scenario.link.values().find_map(|link| {
        let [a, b] = &link.between;
        if ends == [a, b] {
            Some(direction(link, build::Way::Forward))
        } else {
            (ends == [b, a]).then(|| direction(link, build::Way::Return))
        }
    })
}

/// What is to be found out when the cells have arrived.
struct Judge {
    name: String,
    original: Arc<Original>,
    receiving: Receiving,
    keeps_files: bool,
}

impl Judge {
    fn measures(&self, folder: &Path) -> Result<Vec<Measure>, String> {
        let arrived = self.receiving.receive();
        let stream = arrived.stream();
        let mut found = self.carried(&arrived, &stream);
        let parts = self.parts(&stream);
        let same = self.original.parts.iter().zip(&parts).map(|(original, part)| mux::same(original, part));
        found.push(("intact", "ratio", same.sum::<f64>() / parts.len() as f64));
        found.extend(pictures_measures(&self.judged(&parts, folder)?));
        let measure = |(name, unit, value): (&str, &str, f64)| {
            Measure::new(format!("flow.{}.{name}", self.name), unit, value)
        };
        Ok(found.into_iter().filter_map(measure).collect())
    }

    /// The streams that were multiplexed, or the only one.
    fn parts(&self, stream: &TransportStream) -> Vec<TransportStream> {
        if self.original.parts.len() == 1 {
            return vec![stream.clone()];
        }
        let part =
            |number| mux::demultiplex(stream, number).unwrap_or_else(|_| TransportStream::of(Vec::new()));
        (1..=self.original.parts.len() as u16).map(part).collect()
    }

    fn carried(&self, arrived: &Arrived, stream: &TransportStream) -> Vec<(&'static str, &'static str, f64)> {
        let stats = arrived.received.stats;
        let sent = self.original.whole.len() as f64;
        let mut found = vec![
            ("cells-sent", "cells", arrived.cells_sent as f64),
            ("cells-arrived", "cells", stats.cells as f64),
            ("bad-headers", "cells", stats.bad_headers as f64),
            ("bad-pdus", "packets", stats.bad_pdus as f64),
            ("misinserted-found", "cells", stats.aal1.misinserted as f64),
            ("octets-corrected", "B", stats.aal1.corrected as f64),
            ("ts-sent", "packets", sent),
            ("ts-arrived", "packets", stream.len() as f64),
            ("ts-marked", "packets", stats.marked as f64),
            ("ts-loss", "ratio", 1.0 - (stream.len() as u64 - stats.marked) as f64 / sent),
        ];
        if let Some(jitter) = ClockJitter::of(stream, &arrived.received.times) {
            found.push(("pcr-jitter", "s", jitter.deviation_s));
            found.push(("pcr-jitter-peak", "s", jitter.peak_to_peak_s));
        }
        found
    }

    /// Decodes what arrived and compares; leaves a picture, and if asked for the streams, in `folder`.
    fn judged(&self, parts: &[TransportStream], folder: &Path) -> Result<Vec<Quality>, String> {
        let ffmpeg = Ffmpeg::find().map_err(|error| error.to_string())?;
        let scratch = Scratch::new().map_err(|error| error.to_string())?;
        let references = self.original.references(ffmpeg)?;
        let mut files = Vec::new();
        let mut qualities = Vec::new();
        for (n, (part, reference)) in parts.iter().zip(references).enumerate() {
            let home = if self.keeps_files { folder } else { scratch.path() };
            let file = home.join(format!("received-{}.ts", n + 1));
            std::fs::write(&file, part.to_bytes()).map_err(|error| format!("{}: {error}", file.display()))?;
            qualities.push(reference.compare(&file, ffmpeg).map_err(|error| error.to_string())?);
            files.push(file);
        }
        if self.keeps_files {
            // Both eyes, or what was sent beside what was received.
            let sent = scratch.path().join("sent.ts");
            std::fs::write(&sent, self.original.parts[0].to_bytes()).map_err(|error| error.to_string())?;
            let [left, right] =
                if let [left, right] = &files[..] { [left, right] } else { [&sent, &files[0]] };
            let middle_s = references[0].pictures() as f64 / 25.0 / 2.0;
            // A stream too damaged for a picture leaves none.
            let _ = ffmpeg.side_by_side([left, right], middle_s, HALF_WIDTH, &folder.join("pictures.png"));
        }
        Ok(qualities)
    }
}

/// All parts' pictures together.
fn pictures_measures(qualities: &[Quality]) -> Vec<(&'static str, &'static str, f64)> {
    let sum = |of: fn(&Quality) -> u64| qualities.iter().map(of).sum::<u64>() as f64;
    let pictures = sum(|quality| quality.pictures);
    let mean_square = |quality: &Quality| 10_f64.powf(-quality.psnr_db / 10.0);
    let mean = qualities.iter().map(mean_square).sum::<f64>() / qualities.len() as f64;
    vec![
        ("psnr", "dB", -10.0 * mean.log10()),
        ("pictures", "count", pictures),
        ("pictures-lost", "ratio", sum(|quality| quality.lost) / pictures),
        ("pictures-damaged", "ratio", 1.0 - sum(|quality| quality.identical) / pictures),
    ]
}
