//! Loss traces: measured losses, frame by frame.
//!
//! The text form is a file of the characters `0` (received) and `1` (lost), one per frame, in the order they
//! were sent. White space may be anywhere; a line that begins with `#` is a comment.

use std::fmt;
use std::sync::Arc;

use bentpipe_units::{RandomStream, Span, Time};

/// The most frames that a trace may have.
pub const MAX_FRAMES: u64 = 1 << 28;

/// Frames of a line in the text form.
const LINE: u64 = 100;

/// Loss indication of each frame in turn.
#[derive(Clone, PartialEq, Eq)]
pub struct Trace {
    /// A bit a frame, the first the least significant; one if it was lost.
    lost: Vec<u64>,
    frames: u64,
}

/// Error returned when bytes are not a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A character that means nothing.
    #[error(
        "line {line}: byte {byte:#04x} at offset {offset}: expected 0 (received), 1 (lost) or a comment after #"
    )]
    Character {
        /// The byte.
        byte: u8,
        /// Offset of the byte, from 0.
        offset: usize,
        /// Line of the byte, from 1.
        line: usize,
    },
    /// More frames than a trace may have.
    #[error("more than {MAX_FRAMES} frames")]
    TooLong,
    /// No frame.
    #[error("no frame in it: expected 0 (received) and 1 (lost), a character a frame")]
    Empty,
}

impl Trace {
    /// Parses the text form.
    ///
    /// # Errors
    /// Returns an error if the text has no frame, too many, or an invalid character.
    pub fn parse(text: &[u8]) -> Result<Trace, TraceError> {
        let mut trace = Trace { lost: Vec::new(), frames: 0 };
        let (mut line, mut in_comment, mut at_start) = (1, false, true);
        for (offset, &byte) in text.iter().enumerate() {
            match byte {
                b'\n' => (line, in_comment, at_start) = (line + 1, false, true),
                _ if in_comment => {}
                b'#' if at_start => in_comment = true,
                b' ' | b'\t' | b'\r' => {}
                b'0' | b'1' => {
                    at_start = false;
                    trace.push(byte == b'1')?;
                }
                _ => return Err(TraceError::Character { byte, offset, line }),
            }
        }
        if trace.frames == 0 { Err(TraceError::Empty) } else { Ok(trace) }
    }

    /// Creates a trace of these frames, up to [`MAX_FRAMES`]. Returns `None` without frames.
    pub fn from_losses(losses: impl IntoIterator<Item = bool>) -> Option<Trace> {
        let mut trace = Trace { lost: Vec::new(), frames: 0 };
        losses.into_iter().try_for_each(|lost| trace.push(lost)).ok();
        (trace.frames > 0).then_some(trace)
    }

    fn push(&mut self, lost: bool) -> Result<(), TraceError> {
        if self.frames >= MAX_FRAMES {
            return Err(TraceError::TooLong);
        }
        if self.frames.is_multiple_of(64) {
            self.lost.push(0);
        }
        if let Some(last) = self.lost.last_mut() {
            *last |= u64::from(lost) << (self.frames % 64);
        }
        self.frames += 1;
        Ok(())
    }

    /// Returns the number of frames, which is never zero.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Returns the number of lost frames.
    pub fn losses(&self) -> u64 {
        self.lost.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Returns `true` if frame `number` was lost. After the last frame the trace starts again.
    #[inline]
    pub fn is_lost(&self, number: u64) -> bool {
        let number = if number < self.frames { number } else { number % self.frames };
        self.lost[(number / 64) as usize] >> (number % 64) & 1 == 1
    }

    /// Returns the frames in turn, `true` for a lost one.
    pub fn iter(&self) -> impl Iterator<Item = bool> + '_ {
        (0..self.frames).map(|number| self.is_lost(number))
    }

    /// Returns the text form, after `comment`, each line of which becomes one of the file's.
    pub fn to_text(&self, comment: &str) -> String {
        let mut text: String = comment.lines().map(|line| format!("# {line}\n")).collect();
        text.reserve(self.frames as usize + self.frames as usize / LINE as usize + 1);
        for number in 0..self.frames {
            text.push(if self.is_lost(number) { '1' } else { '0' });
            if number % LINE == LINE - 1 || number == self.frames - 1 {
                text.push('\n');
            }
        }
        text
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({} of {} lost)", self.losses(), self.frames)
    }
}

/// Cursor over a trace, from a random frame on. After the last frame the trace starts again.
#[derive(Debug)]
pub struct Reader {
    trace: Arc<Trace>,
    /// Time that each frame holds; `None` if each frame sent advances the cursor.
    step: Option<Span>,
    /// Number of the next frame; `None` before the first frame.
    next: Option<u64>,
}

impl Reader {
    pub fn new(trace: Arc<Trace>, step: Option<Span>) -> Reader {
        Reader { trace, step, next: None }
    }

    /// Returns `true` if a frame sent at `at` is lost.
    #[inline]
    pub fn loses(&mut self, at: Time, stream: &mut RandomStream) -> bool {
        let frames = self.trace.frames;
        let next = self.next.unwrap_or_else(|| (stream.unit() * frames as f64) as u64 % frames);
        match self.step {
            None => {
                self.next = Some(if next + 1 == frames { 0 } else { next + 1 });
                self.trace.is_lost(next)
            }
            Some(step) => {
                self.next = Some(next);
                self.trace.is_lost(next + at.as_nanos() / step.as_nanos().max(1) % frames)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_and_written() {
        let trace = Trace::parse(b"# a comment with 1s\n0010\n 11 0\r\n#\n1").expect("a trace");
        let lost: Vec<bool> = trace.iter().collect();
        assert_eq!(lost, [false, false, true, false, true, true, false, true]);
        assert_eq!((trace.frames(), trace.losses(), trace.is_lost(10)), (8, 4, true));
        assert_eq!(trace.to_text("two\nlines"), "# two\n# lines\n00101101\n");
        let long = Trace::from_losses((0..250).map(|n| n % 7 == 0)).expect("frames");
        assert_eq!(Trace::parse(long.to_text("").as_bytes()), Ok(long));
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_place() {
        assert_eq!(Trace::parse(b"# nothing\n\n"), Err(TraceError::Empty));
        assert_eq!(Trace::from_losses([]), None);
        let wrong = Trace::parse(b"01\n0x1");
        assert_eq!(wrong, Err(TraceError::Character { byte: b'x', offset: 4, line: 2 }));
        // A comment has a separate line.
        assert!(Trace::parse(b"01 # lost").is_err());
    }

    #[test]
    fn frames_are_taken_in_turn_or_by_the_clock() {
        let trace = Arc::new(Trace::parse(b"0001").expect("a trace"));
        let mut stream = RandomStream::new(1, "trace");
        let mut by_frame = Reader::new(Arc::clone(&trace), None);
        let fates: Vec<bool> = (0..40).map(|_| by_frame.loses(Time::ZERO, &mut stream)).collect();
        assert_eq!(fates.iter().filter(|lost| **lost).count(), 10);
        assert!(fates.windows(5).all(|five| five[0] == five[4]));
        let mut by_clock = Reader::new(trace, Some(Span::from_millis(5)));
        let fates: Vec<bool> =
            (0..40).map(|ms| by_clock.loses(Time::from_nanos(ms * 1_000_000), &mut stream)).collect();
        assert_eq!(fates.iter().filter(|lost| **lost).count(), 10);
        assert!(fates.chunks(5).all(|chunk| chunk.iter().all(|lost| *lost == chunk[0])));
    }
}
