//! Judges of received speech: PESQ (ITU-T P.862) and ViSQOL, each a Python package.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use bentpipe_assemble::scratch::Scratch;

/// Rate of wide-band speech.
const WIDE_HZ: u32 = 16_000;

/// Script of PESQ.
///
/// It reads a line with rate and two files for each pair, and answers with a score or a reason.
const PESQ: &str = "\
import sys
import numpy
from pesq import pesq
for line in sys.stdin:
    rate, original, received = line.rstrip('\\n').split('\\t')
    signals = [numpy.fromfile(name, dtype='<i2') for name in (original, received)]
    try:
        score = pesq(int(rate), *signals, 'wb' if int(rate) == 16000 else 'nb')
        print('score', float(score), flush=True)
    except Exception as error:
        print('error', type(error).__name__, str(error).replace('\\n', ' ')[:200], flush=True)
";

/// Script of ViSQOL in its speech mode, with the mapping by a lattice.
const VISQOL: &str = "\
import math
import sys
import numpy
from scipy.signal import resample_poly
from visqol import VisqolApi
judge = VisqolApi()
judge.create(mode='speech', use_lattice_model=True)
for line in sys.stdin:
    rate, original, received = line.rstrip('\\n').split('\\t')
    step = math.gcd(int(rate), 16000)
    signals = [numpy.fromfile(name, dtype='<i2') / 32768 for name in (original, received)]
    signals = [resample_poly(signal, 16000 // step, int(rate) // step) for signal in signals]
    try:
        score = judge.measure_from_arrays(*signals, 16000).moslqo
        print('score', float(score), flush=True)
    except Exception as error:
        print('error', type(error).__name__, str(error).replace('\\n', ' ')[:200], flush=True)
";

/// Measure of received speech.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    Pesq,
    Visqol,
}

impl Measure {
    /// Returns its name, script, and packages.
    const fn parts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Measure::Pesq => ("PESQ", PESQ, "numpy pesq"),
            Measure::Visqol => ("ViSQOL", VISQOL, "'visqol-python[lattice]'"),
        }
    }
}

/// Judges of received speech.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judge {
    /// Python with the packages `numpy`, `pesq` and `visqol-python[lattice]`; `None`: nothing is judged.
    pub python: Option<PathBuf>,
}

impl Default for Judge {
    fn default() -> Judge {
        Judge { python: Some("python3".into()) }
    }
}

/// Files of speech that was sent, and that was received.
pub(super) struct Pair {
    rate_hz: u32,
    files: [PathBuf; 2],
}

impl Pair {
    /// Writes the samples of a pair.
    ///
    /// # Errors
    /// Returns an error if the files cannot be written.
    pub(super) fn write(
        scratch: &Scratch,
        number: usize,
        rate_hz: u32,
        samples: [&[i16]; 2],
    ) -> Result<Pair, String> {
        let files = ["original", "received"].map(|what| scratch.path().join(format!("{what}-{number}.raw")));
        for (path, samples) in files.iter().zip(samples) {
            let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
            std::fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(Pair { rate_hz, files })
    }
}

impl Judge {
    /// Returns each pair's score by a measure, or the reason for its absence.
    pub(super) fn scores(&self, measure: Measure, pairs: &[Pair]) -> Vec<Result<f64, String>> {
        let (name, ..) = measure.parts();
        let text = self.run(measure, pairs);
        let mut lines = text.as_deref().unwrap_or_default().lines();
        let absent = || match &text {
            Err(why) => why.clone(),
            Ok(_) => format!("{name}: no answer"),
        };
        let score = |line| score(name, line);
        pairs.iter().map(|_| lines.next().map_or_else(|| Err(absent()), score)).collect()
    }

    fn run(&self, measure: Measure, pairs: &[Pair]) -> Result<String, String> {
        let (name, script, packages) = measure.parts();
        let Some(python) = &self.python else { return Err(String::new()) };
        let missing = |why: String| {
            format!(
                "{} does not judge by {name}: {why}; help: pip install {packages}, and name its Python with --python",
                python.display()
            )
        };
        let mut command = Command::new(python);
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| missing(error.to_string()))?;
        let lines: String = pairs
            .iter()
            .map(|Pair { rate_hz, files: [original, received] }| {
                format!("{rate_hz}\t{}\t{}\n", original.display(), received.display())
            })
            .collect();
        if let Some(mut input) = child.stdin.take() {
            // A script that has failed reads nothing; its error follows.
            let _ = input.write_all(lines.as_bytes());
        }
        let output = child.wait_with_output().map_err(|error| missing(error.to_string()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(missing(
                said.lines().last().unwrap_or("no reason given").chars().take(200).collect(),
            ));
        }
        String::from_utf8(output.stdout).map_err(|_| missing("its answer is not text".to_owned()))
    }
}

/// Reads a line of the script.
fn score(name: &str, line: &str) -> Result<f64, String> {
    let score = line.strip_prefix("score ").and_then(|score| score.parse::<f64>().ok());
    score
        .filter(|score| score.is_finite())
        .ok_or_else(|| format!("{name}: {}", line.trim_start_matches("error ")))
}

/// Returns the name of the judge's scale.
pub(super) fn scale(is_wide: bool) -> &'static str {
    if is_wide { "PESQ wide band" } else { "PESQ" }
}

/// Returns `true` for the rate of wide-band speech.
pub(super) fn is_wide(rate_hz: u32) -> bool {
    rate_hz == WIDE_HZ
}
