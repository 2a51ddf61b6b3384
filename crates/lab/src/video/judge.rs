//! Steps after the run of a network with transport streams.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bentpipe_record::Measure;
use bentpipe_site::{Judge, Judged};

use super::quality::{Quality, Reference};
use super::{Ffmpeg, Scratch};

/// Step after a run: may write into its folder, and returns further measures.
pub type Finish = Box<dyn FnOnce(&Path) -> Result<Vec<Measure>, String> + Send>;

/// Width of each half of a picture for a report, in pixels.
const HALF_WIDTH: u32 = 480;
/// Number of originals whose pictures are kept for the next run.
const KEPT: usize = 4;

/// Returns the step that judges flows, if there are any to judge. `keeps_files`: what arrived stays in the folder.
pub fn finish(judges: Vec<(String, Box<dyn Judge>)>, keeps_files: bool) -> Option<Finish> {
    if judges.is_empty() {
        return None;
    }
    Some(Box::new(move |folder: &Path| {
        let several = judges.len() > 1;
        let mut measures = Vec::new();
        for (flow, mut judge) in judges {
            let prefix = if several { format!("{flow}-") } else { String::new() };
            let Judged { measures: mut found, videos, files, .. } = judge.judge();
            for (name, content) in files {
                let path = folder.join(format!("{flow}-{name}"));
                std::fs::write(&path, content).map_err(|error| format!("{}: {error}", path.display()))?;
            }
            if !videos.is_empty() {
                found.extend(pictures_measures(&compared(&videos, folder, keeps_files.then_some(&prefix))?));
            }
            let measure = |(name, unit, value): (&str, &str, f64)| {
                Measure::new(format!("flow.{flow}.{name}"), unit, value)
            };
            measures.extend(found.into_iter().filter_map(measure));
        }
        Ok(measures)
    }))
}

/// Decodes and compares what was sent and what arrived. With a prefix, leaves what arrived and a picture in `folder`.
fn compared(videos: &[[Vec<u8>; 2]], folder: &Path, prefix: Option<&String>) -> Result<Vec<Quality>, String> {
    let ffmpeg = Ffmpeg::find().map_err(|error| error.to_string())?;
    let scratch = Scratch::new().map_err(|error| error.to_string())?;
    let (mut files, mut qualities, mut pictures) = (Vec::new(), Vec::new(), 0);
    for (n, [sent, received]) in videos.iter().enumerate() {
        let reference = reference(sent, ffmpeg)?;
        let home = prefix.map_or(scratch.path(), |_| folder);
        let file = home.join(format!("{}received-{}.ts", prefix.map_or("", String::as_str), n + 1));
        std::fs::write(&file, received).map_err(|error| format!("{}: {error}", file.display()))?;
        qualities.push(reference.compare(&file, ffmpeg).map_err(|error| error.to_string())?);
        files.push(file);
        pictures = reference.pictures();
    }
    if let Some(prefix) = prefix {
        let out = folder.join(format!("{prefix}pictures.png"));
        draw(&videos[0][0], &files, (pictures, &scratch), &out, ffmpeg)?;
    }
    Ok(qualities)
}

/// Draws both eyes, or the picture sent next to the one that arrived.
fn draw(
    sent: &[u8],
    files: &[PathBuf],
    (pictures, scratch): (usize, &Scratch),
    out: &Path,
    ffmpeg: Ffmpeg,
) -> Result<(), String> {
    let original = scratch.path().join("sent.ts");
    std::fs::write(&original, sent).map_err(|error| error.to_string())?;
    let [left, right] = if let [left, right] = files { [left, right] } else { [&original, &files[0]] };
    let middle_s = pictures as f64 / 25.0 / 2.0;
    // A stream too damaged for a picture leaves none.
    let _ = ffmpeg.side_by_side([left, right], middle_s, HALF_WIDTH, out);
    Ok(())
}

/// Returns the pictures of what was sent; decoded once for all runs.
fn reference(sent: &[u8], ffmpeg: Ffmpeg) -> Result<Arc<Reference>, String> {
    static DECODED: Mutex<Vec<(Vec<u8>, Arc<Reference>)>> = Mutex::new(Vec::new());
    let mut decoded = DECODED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, reference)) = decoded.iter().find(|(known, _)| known == sent) {
        return Ok(Arc::clone(reference));
    }
    let scratch = Scratch::new().map_err(|error| error.to_string())?;
    let path = scratch.path().join("original.ts");
    std::fs::write(&path, sent).map_err(|error| error.to_string())?;
    let reference = Arc::new(Reference::of(&path, ffmpeg).map_err(|error| error.to_string())?);
    decoded.insert(0, (sent.to_vec(), Arc::clone(&reference)));
    decoded.truncate(KEPT);
    Ok(reference)
}

/// Returns the measures of all parts' pictures together.
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
