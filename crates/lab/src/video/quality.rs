//! Picture quality of a received stream, compared with the original's.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use bentpipe_assemble::ffmpeg::Decoded;

use super::{Failure, Ffmpeg, Scratch};

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

/// The pictures of an original, by the time when they are to be shown.
#[derive(Debug)]
pub struct Reference {
    size: (usize, usize),
    pictures: Vec<(i64, Vec<u8>)>,
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
}

impl Reference {
    /// Decodes the first video of a file.
    ///
    /// # Errors
    /// If ffmpeg cannot, or there are no pictures or too many to keep.
    pub fn of(file: &Path, ffmpeg: Ffmpeg) -> Result<Reference, Problem> {
        let scratch = Scratch::new()?;
        let size = ffmpeg.size(file, scratch.path())?;
        let decoded = ffmpeg.decode(file, size, scratch.path())?;
        let mut pictures = Vec::new();
        for_each(&decoded, |time, luma| pictures.push((time, luma.to_vec())))?;
        if pictures.is_empty() {
            return Err(Problem::Original("the original has no pictures"));
        }
        Ok(Reference { size, pictures })
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
        let decoded = ffmpeg.decode(file, self.size, scratch.path())?;
        let mut comparison = Comparison::new(self);
        for_each(&decoded, |time, luma| comparison.show(time, luma))?;
        Ok(comparison.end())
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
}

impl<'a> Comparison<'a> {
    fn new(reference: &'a Reference) -> Comparison<'a> {
        let (width, height) = reference.size;
        let pictures = reference.pictures.len() as u64;
        let quality = Quality { pictures, lost: 0, identical: 0, psnr_db: 0.0 };
        Comparison { reference, next: 0, shown: vec![BLACK; width * height], quality, squares: 0 }
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
        self.next += 1;
    }

    fn end(mut self) -> Quality {
        while self.due().is_some() {
            self.quality.lost += 1;
            self.count();
        }
        let pixels = self.quality.pictures as f64 * self.shown.len() as f64;
        self.quality.psnr_db = psnr_db(self.squares as f64 / pixels);
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
        Reference { size: (4, 2), pictures: levels.iter().enumerate().map(picture).collect() }
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
        assert_eq!(all, Quality { pictures: 4, lost: 0, identical: 4, psnr_db: IDENTICAL_DB });
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
}
