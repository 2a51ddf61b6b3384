//! Steps after the run of a network with transport streams.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bentpipe_record::Measure;
use bentpipe_scenario::Card;
use bentpipe_site::{Judge, Judged};

use super::quality::{Quality, Reference};
use super::{Ffmpeg, Scratch, View};

/// Step after a run: may write into its folder, and returns further measures.
pub type Finish = Box<dyn FnOnce(&Path) -> Result<Vec<Measure>, String> + Send>;

/// Width of each half of a picture for a report, in pixels.
const HALF_WIDTH: u32 = 480;
/// Number of originals whose pictures are kept for the next run.
const KEPT: usize = 6;

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
            let Judged { measures: mut found, videos, files, card, .. } = judge.judge();
            for (name, content) in files {
                let path = folder.join(format!("{flow}-{name}"));
                std::fs::write(&path, content).map_err(|error| format!("{}: {error}", path.display()))?;
            }
            if !videos.is_empty() {
                let card = card.and_then(|card| serde_json::from_value(card).ok());
                let (sent, before) =
                    compared(&videos, card.as_ref(), folder, keeps_files.then_some(&prefix))?;
                found.extend(pictures_measures(&sent));
                found.extend(source_measures(&before));
                found.extend(eyes_measures(&sent, &before));
            }
            let measure = |(name, unit, value): (&str, &str, f64)| {
                Measure::new(format!("flow.{flow}.{name}"), unit, value)
            };
            measures.extend(found.into_iter().filter_map(measure));
        }
        Ok(measures)
    }))
}

/// Decodes and compares what was sent and what arrived, each eye by itself. With a test card it also compares with the
/// pictures before coding. With a prefix, leaves what arrived and a picture in `folder`.
fn compared(
    videos: &[[Vec<u8>; 2]],
    card: Option<&Card>,
    folder: &Path,
    prefix: Option<&String>,
) -> Result<(Vec<Quality>, Vec<Quality>), String> {
    let ffmpeg = Ffmpeg::find().map_err(|error| error.to_string())?;
    let scratch = Scratch::new().map_err(|error| error.to_string())?;
    let (mut files, mut qualities, mut before, mut pictures) = (Vec::new(), Vec::new(), Vec::new(), 0);
    let frame = card.and_then(|card| card.frame);
    let views = frame.map_or_else(|| vec![View::Whole], |frame| View::eyes(frame).to_vec());
    for (n, [sent, received]) in videos.iter().enumerate() {
        let home = prefix.map_or(scratch.path(), |_| folder);
        let file = home.join(format!("{}received-{}.ts", prefix.map_or("", String::as_str), n + 1));
        std::fs::write(&file, received).map_err(|error| format!("{}: {error}", file.display()))?;
        for (eye, view) in (n as u8..).zip(&views) {
            let reference = reference(sent, *view, None, ffmpeg)?;
            qualities.push(reference.compare(&file, ffmpeg).map_err(|error| error.to_string())?);
            if let Some(card) = card {
                let source = self::reference(sent, *view, Some((card, eye)), ffmpeg)?;
                before.push(source.compare(&file, ffmpeg).map_err(|error| error.to_string())?);
            }
            files.push((file.clone(), *view));
            pictures = reference.pictures();
        }
    }
    if let Some(prefix) = prefix {
        let out = folder.join(format!("{prefix}pictures.png"));
        draw(&videos[0][0], &files, (pictures, &scratch), &out, ffmpeg)?;
    }
    Ok((qualities, before))
}

/// Draws both eyes, or the picture sent next to the one that arrived.
fn draw(
    sent: &[u8],
    files: &[(PathBuf, View)],
    (pictures, scratch): (usize, &Scratch),
    out: &Path,
    ffmpeg: Ffmpeg,
) -> Result<(), String> {
    let original = scratch.path().join("sent.ts");
    std::fs::write(&original, sent).map_err(|error| error.to_string())?;
    let sent = (original, View::Whole);
    let both = if let [left, right] = files { [left, right] } else { [&sent, &files[0]] };
    let middle_s = pictures as f64 / 25.0 / 2.0;
    let Ok((width, height)) = ffmpeg.size(&sent.0, scratch.path()) else { return Ok(()) };
    let height = (height as u32 * HALF_WIDTH / width as u32).next_multiple_of(2);
    // A stream too damaged for a picture leaves none.
    let both = both.map(|(file, view)| (&**file, *view));
    let _ = ffmpeg.side_by_side(both, middle_s, (HALF_WIDTH, height), out);
    Ok(())
}

/// Stream sent, its part, and its decoded pictures. With an eye they are a test card's before coding.
type Known = (Vec<u8>, View, Option<u8>, Arc<Reference>);

/// Returns the pictures of what was sent, or those before coding. They are decoded once for all runs.
fn reference(
    sent: &[u8],
    view: View,
    source: Option<(&Card, u8)>,
    ffmpeg: Ffmpeg,
) -> Result<Arc<Reference>, String> {
    static DECODED: Mutex<Vec<Known>> = Mutex::new(Vec::new());
    let eye = source.map(|(_, eye)| eye);
    let find = || {
        let decoded = DECODED.lock().unwrap_or_else(PoisonError::into_inner);
        let known = decoded.iter().find(|known| known.0 == sent && (known.1, known.2) == (view, eye));
        known.map(|known| Arc::clone(&known.3))
    };
    if let Some(known) = find() {
        return Ok(known);
    }
    let scratch = Scratch::new().map_err(|error| error.to_string())?;
    let path = scratch.path().join("original.ts");
    let made = match source {
        None => {
            std::fs::write(&path, sent).map_err(|error| error.to_string())?;
            Reference::of_view(&path, view, ffmpeg)
        }
        Some((card, eye)) => {
            ffmpeg.source(card, eye, &path).map_err(|error| error.to_string())?;
            reference(sent, view, None, ffmpeg)?.before_coding(&path, ffmpeg)
        }
    };
    let made = Arc::new(made.map_err(|error| error.to_string())?);
    let mut decoded = DECODED.lock().unwrap_or_else(PoisonError::into_inner);
    decoded.insert(0, (sent.to_vec(), view, eye, Arc::clone(&made)));
    decoded.truncate(KEPT);
    Ok(made)
}

/// Returns the measures of all parts' pictures together.
fn pictures_measures(qualities: &[Quality]) -> Vec<(&'static str, &'static str, f64)> {
    let sum = |of: fn(&Quality) -> u64| qualities.iter().map(of).sum::<u64>() as f64;
    let pictures = sum(|quality| quality.pictures);
    let mut all = vec![
        ("psnr", "dB", psnr_db(qualities)),
        ("ssim", "ratio", ssim(qualities)),
        ("pictures", "count", pictures),
        ("pictures-lost", "ratio", sum(|quality| quality.lost) / pictures),
        ("pictures-damaged", "ratio", 1.0 - sum(|quality| quality.identical) / pictures),
    ];
    let frames = sum(|quality| quality.sound.frames);
    if frames > 0.0 {
        all.extend([
            ("sound-lost", "ratio", sum(|quality| quality.sound.lost) / frames),
            ("sound-damaged", "ratio", sum(|quality| quality.sound.damaged) / frames),
        ]);
    }
    all
}

/// Returns the measures against the pictures before coding, if they are known.
fn source_measures(qualities: &[Quality]) -> Vec<(&'static str, &'static str, f64)> {
    if qualities.is_empty() {
        return Vec::new();
    }
    vec![("psnr-source", "dB", psnr_db(qualities)), ("ssim-source", "ratio", ssim(qualities))]
}

/// Returns the measures of each of two eyes.
fn eyes_measures(sent: &[Quality], before: &[Quality]) -> Vec<(&'static str, &'static str, f64)> {
    let mut all = Vec::new();
    if let [left, right] = sent {
        all.extend([("psnr-left", "dB", left.psnr_db), ("psnr-right", "dB", right.psnr_db)]);
        all.extend([("ssim-left", "ratio", left.ssim), ("ssim-right", "ratio", right.ssim)]);
    }
    if let [left, right] = before {
        all.extend([("psnr-source-left", "dB", left.psnr_db), ("psnr-source-right", "dB", right.psnr_db)]);
        all.extend([("ssim-source-left", "ratio", left.ssim), ("ssim-source-right", "ratio", right.ssim)]);
    }
    all
}

/// Returns the PSNR of all parts' pictures together.
fn psnr_db(qualities: &[Quality]) -> f64 {
    let mean_square = |quality: &Quality| 10_f64.powf(-quality.psnr_db / 10.0);
    let mean = qualities.iter().map(mean_square).sum::<f64>() / qualities.len() as f64;
    -10.0 * mean.log10()
}

/// Returns the mean structural similarity of all parts.
fn ssim(qualities: &[Quality]) -> f64 {
    qualities.iter().map(|quality| quality.ssim).sum::<f64>() / qualities.len() as f64
}
