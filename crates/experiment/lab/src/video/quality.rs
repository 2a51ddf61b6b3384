//! Picture quality of a received stream, compared with the original's.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use bentpipe_assemble::ffmpeg::{Decoded, View};

use super::{Failure, Ffmpeg, Scratch, ssim};

/// PSNR assigned to identical pictures, in dB.
pub const IDENTICAL_DB: f64 = 100.0;
/// The most that the pictures of an original may take, in bytes of luma.
const MAX_LUMA: usize = 2 << 30;
/// Luma of a black picture.
const BLACK: u8 = 16;

/// Error returned when pictures cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// ffmpeg failed.
    #[error(transparent)]
    Ffmpeg(#[from] Failure),
    /// Files.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The original has no pictures, or too many.
    #[error("{0}")]
    Original(&'static str),
    /// The received file cannot be read.
    #[error("{}: {_1}", _0.display())]
    Received(PathBuf, io::Error),
}

/// Pictures of an original by their presentation times, and its sound.
#[derive(Debug)]
pub struct Reference {
    /// Part of the pictures that is compared.
    view: View,
    size: (usize, usize),
    pictures: Vec<(i64, Vec<u8>)>,
    /// Time and digest of each decoded frame of sound.
    sound: Vec<(i64, String)>,
}

/// Quality of a received video relative to its original.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// Pictures of the original.
    pub pictures: u64,
    /// Number of pictures that were not decoded; the previous picture stays on the screen.
    pub lost: u64,
    /// Number of identical pictures.
    pub identical: u64,
    /// Peak signal-to-noise ratio of the luma in dB, at most [`IDENTICAL_DB`]. It is taken over all pictures of the
    /// original.
    pub psnr_db: f64,
    /// Structural similarity of the luma, 1 for identical pictures. It is the mean over all pictures of the original.
    pub ssim: f64,
    /// Frames of sound.
    pub sound: Sound,
}

/// Frames of a sound track, of 1152 samples in MPEG-1 layer II.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sound {
    /// Frames of the original.
    pub frames: u64,
    /// Number of frames that were not decoded.
    pub lost: u64,
    /// Number of frames decoded with other samples.
    pub damaged: u64,
}

impl Sound {
    /// Compares decoded frames with the original's, by their times.
    fn compare(original: &[(i64, String)], received: &[(i64, String)]) -> Sound {
        let known: HashMap<i64, &String> = received.iter().map(|(time, digest)| (*time, digest)).collect();
        let mut sound = Sound { frames: original.len() as u64, ..Sound::default() };
        for (time, digest) in original {
            match known.get(time) {
                None => sound.lost += 1,
                Some(found) => sound.damaged += u64::from(*found != digest),
            }
        }
        sound
    }
}

impl Reference {
    /// Decodes the first video of a file.
    ///
    /// # Errors
    /// If ffmpeg cannot, or there are no pictures or too many to keep.
    pub fn of(file: &Path, ffmpeg: Ffmpeg) -> Result<Reference, Problem> {
        Reference::of_view(file, View::Whole, ffmpeg)
    }

    /// Decodes a part of a file's first video at the size of the whole.
    ///
    /// The left eye has the sound.
    ///
    /// # Errors
    /// Returns the errors of [`Reference::of`].
    pub fn of_view(file: &Path, view: View, ffmpeg: Ffmpeg) -> Result<Reference, Problem> {
        let scratch = Scratch::new()?;
        let size = ffmpeg.size(file, scratch.path())?;
        let decoded = ffmpeg.decode(file, view, size, scratch.path())?;
        let mut pictures = Vec::new();
        for_each(&decoded, |time, luma| pictures.push((time, luma.to_vec())))?;
        if pictures.is_empty() {
            return Err(Problem::Original("the original has no pictures"));
        }
        let has_sound = !matches!(view, View::Eye(_, 1));
        let sound = if has_sound { ffmpeg.sound(file, scratch.path())? } else { Vec::new() };
        Ok(Reference { view, size, pictures, sound })
    }

    /// Returns the pictures of `source`, from which this stream was coded. They have this stream's times.
    ///
    /// # Errors
    /// If ffmpeg cannot decode it, or it has another number of pictures.
    pub fn before_coding(&self, source: &Path, ffmpeg: Ffmpeg) -> Result<Reference, Problem> {
        let mut before = Reference::of(source, ffmpeg)?;
        if before.pictures.len() != self.pictures.len() || before.size != self.size {
            return Err(Problem::Original(
                "the source has pictures of another number or size than what was sent",
            ));
        }
        before.pictures.iter_mut().zip(&self.pictures).for_each(|(picture, (time, _))| picture.0 = *time);
        (before.sound, before.view) = (self.sound.clone(), self.view);
        Ok(before)
    }

    /// Returns the length in pictures.
    pub fn pictures(&self) -> usize {
        self.pictures.len()
    }

    /// Decodes a file that was received and compares.
    ///
    /// # Errors
    /// If ffmpeg does not start, or files cannot be read. What cannot be decoded is lost, and no error.
    pub fn compare(&self, file: &Path, ffmpeg: Ffmpeg) -> Result<Quality, Problem> {
        readable(file).map_err(|error| Problem::Received(file.to_owned(), error))?;
        let scratch = Scratch::new()?;
        let decoded = ffmpeg.decode(file, self.view, self.size, scratch.path())?;
        let mut comparison = Comparison::new(self);
        for_each(&decoded, |time, luma| comparison.show(time, luma))?;
        let sound = Sound::compare(&self.sound, &ffmpeg.sound(file, scratch.path())?);
        Ok(Quality { sound, ..comparison.end() })
    }
}

/// Checks that a file can be read. A failure of ffmpeg alone could also mean that nothing in the file can be decoded.
fn readable(file: &Path) -> io::Result<()> {
    if File::open(file)?.metadata()?.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(()) }
}

/// Calls `take` with the luma of each picture.
fn for_each(decoded: &Decoded, mut take: impl FnMut(i64, &[u8])) -> Result<(), Problem> {
    let (width, height) = decoded.size;
    if width * height * decoded.times.len() > MAX_LUMA {
        return Err(Problem::Original("more pictures than fit 2 GiB"));
    }
    if decoded.times.is_empty() {
        return Ok(());
    }
    let mut file = BufReader::new(File::open(&decoded.pictures)?);
    let mut picture = vec![0; width * height * 3 / 2];
    for time in &decoded.times {
        // A decoder that was stopped leaves less than it announced.
        if file.read_exact(&mut picture).is_err() {
            break;
        }
        take(*time, &picture[..width * height]);
    }
    Ok(())
}

/// Holds what is shown against the original, picture by picture.
struct Comparison<'a> {
    reference: &'a Reference,
    /// The next picture of the original.
    next: usize,
    shown: Vec<u8>,
    quality: Quality,
    squares: u64,
    similarity: f64,
}

impl<'a> Comparison<'a> {
    fn new(reference: &'a Reference) -> Comparison<'a> {
        let (width, height) = reference.size;
        let pictures = reference.pictures.len() as u64;
        let sound = Sound::default();
        let quality = Quality { pictures, lost: 0, identical: 0, psnr_db: 0.0, ssim: 0.0, sound };
        let shown = vec![BLACK; width * height];
        Comparison { reference, next: 0, shown, quality, squares: 0, similarity: 0.0 }
    }

    /// A picture is decoded; those of the original before it were not.
    fn show(&mut self, time: i64, luma: &[u8]) {
        while self.due().is_some_and(|due| due < time) {
            self.quality.lost += 1;
            self.count();
        }
        self.shown.copy_from_slice(luma);
        if self.due() == Some(time) {
            self.count();
        }
    }

    fn due(&self) -> Option<i64> {
        self.reference.pictures.get(self.next).map(|(time, _)| *time)
    }

    /// Compares what is shown with the original's next picture.
    fn count(&mut self) {
        let original = &self.reference.pictures[self.next].1;
        let square = |(a, b): (&u8, &u8)| u64::from(a.abs_diff(*b)).pow(2);
        let squares: u64 = original.iter().zip(&self.shown).map(square).sum();
        self.squares += squares;
        self.quality.identical += u64::from(squares == 0);
        let width = self.reference.size.0;
        self.similarity += if squares == 0 { 1.0 } else { ssim::of(original, &self.shown, width) };
        self.next += 1;
    }

    fn end(mut self) -> Quality {
        while self.due().is_some() {
            self.quality.lost += 1;
            self.count();
        }
        let pixels = self.quality.pictures as f64 * self.shown.len() as f64;
        self.quality.psnr_db = psnr_db(self.squares as f64 / pixels);
        self.quality.ssim = self.similarity / self.quality.pictures as f64;
        self.quality
    }
}

/// The ratio for a mean square error of samples up to 255.
fn psnr_db(mean_square: f64) -> f64 {
    if mean_square == 0.0 {
        return IDENTICAL_DB;
    }
    (10.0 * (255.0_f64.powi(2) / mean_square).log10()).min(IDENTICAL_DB)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(levels: &[u8]) -> Reference {
        let picture = |(n, level): (usize, &u8)| (10 + n as i64, vec![*level; 8]);
        let pictures = levels.iter().enumerate().map(picture).collect();
        Reference { view: View::Whole, size: (4, 2), pictures, sound: Vec::new() }
    }

    fn shown(reference: &Reference, pictures: &[(i64, u8)]) -> Quality {
        let mut comparison = Comparison::new(reference);
        pictures.iter().for_each(|(time, level)| comparison.show(*time, &[*level; 8]));
        comparison.end()
    }

    #[test]
    fn pictures_are_compared_by_their_time() {
        let reference = reference(&[100, 100, 100, 100]);
        let all = shown(&reference, &[(10, 100), (11, 100), (12, 100), (13, 100)]);
        let sound = Sound::default();
        assert_eq!(
            all,
            Quality { pictures: 4, lost: 0, identical: 4, psnr_db: IDENTICAL_DB, ssim: 1.0, sound }
        );
        // One off by 10: a mean square of 25, 34.15 dB.
        let off = shown(&reference, &[(10, 100), (11, 110), (12, 100), (13, 100)]);
        assert!((off.psnr_db - 34.151).abs() < 1e-3 && off.identical == 3, "{off:?}");
    }

    #[test]
    fn a_lost_picture_is_the_one_before() {
        let reference = reference(&[100, 110, 120, 130]);
        let lost = shown(&reference, &[(10, 100), (12, 120)]);
        assert_eq!((lost.lost, lost.identical), (2, 2));
        // Twice 10 off.
        assert!((lost.psnr_db - psnr_db(50.0)).abs() < 1e-9, "{lost:?}");
        assert_eq!(shown(&reference, &[]).lost, 4);
        // Pictures that the original does not have, before and behind it, change nothing but what is shown.
        assert_eq!(shown(&reference, &[(3, 100), (99, 0)]).lost, 4);
    }

    #[test]
    fn frames_of_sound_are_compared_by_their_time() {
        let frames = |list: &[(i64, &str)]| -> Vec<(i64, String)> {
            list.iter().map(|(time, digest)| (*time, (*digest).to_owned())).collect()
        };
        let original = frames(&[(0, "a"), (1152, "b"), (2304, "c")]);
        let sound = Sound::compare(&original, &frames(&[(0, "a"), (2304, "x"), (3456, "b")]));
        assert_eq!(sound, Sound { frames: 3, lost: 1, damaged: 1 });
    }
}
