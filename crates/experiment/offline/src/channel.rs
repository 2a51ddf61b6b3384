//! Loss models of traces and captures, and traces of models.

mod measured;

use std::path::{Path, PathBuf};

use bentpipe_net::channel::loss::{self, Counts, Model, SequenceField};
use bentpipe_net::channel::{Fit as FitKind, SyntheticTrace, Trace};
use bentpipe_report::losses;
use bentpipe_units::RandomStream;
use serde_json::Value;

use crate::capture::check_files;
use crate::{Error, Intake, Outcome, Session, Unattended};
use measured::Measured;

/// Comparison of loss models fitted to a trace, or to the gaps of a capture.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Trace (0 received, 1 lost), or with `sequence` a capture of received packets.
    pub trace: PathBuf,
    /// Place of the sequence numbers in the packets of a capture.
    pub sequence: Option<SequenceField>,
    /// Choice of the packets of a capture, and a file for the rest.
    pub intake: Intake,
    /// Number of transmissions per packet by a link layer, for the residual loss.
    pub attempts: u32,
    /// JSON file with the figures.
    pub json: Option<PathBuf>,
    /// SVG file with the lengths of loss bursts.
    pub plot: Option<PathBuf>,
    /// HTML page with all figures and plots.
    pub report: Option<PathBuf>,
    /// File for the trace that was found in a capture.
    pub trace_out: Option<PathBuf>,
}

impl Fit {
    /// Runs the job, and returns the comparison as text.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written, or has no trace.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        let outputs = [&self.json, &self.plot, &self.report, &self.trace_out].map(Option::as_deref);
        crate::capture::check_apart(&self.trace, outputs, &self.intake)?;
        let measured = self.measured(session).map_err(Error::Usage)?;
        let has_damage = measured.has_damage;
        let text = self.compare(measured).map_err(Error::Usage)?;
        Ok(Outcome::new(text, session, has_damage))
    }

    /// Returns the figures as JSON; writes nothing.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or has no trace.
    pub fn figures(&self) -> Result<String, Error> {
        let Measured { trace, account, .. } = self.measured(&Unattended).map_err(Error::Usage)?;
        let comparison = loss::comparison(&trace, self.attempts);
        json(&comparison, account).map(|value| value.to_string()).map_err(Error::Usage)
    }

    /// Returns the trace, and a remark on its measurement.
    fn measured(&self, session: &dyn Session) -> Result<Measured, String> {
        match self.sequence {
            Some(numbers) => measured::of_capture(&self.trace, numbers, &self.intake, session),
            None => {
                let (trace, about) = (measured::trace(&self.trace)?, String::new());
                Ok(Measured { trace, about, has_damage: false, account: None })
            }
        }
    }

    fn compare(&self, measured: Measured) -> Result<String, String> {
        let Measured { trace, about, account, .. } = measured;
        let comparison = loss::comparison(&trace, self.attempts);
        let title = format!("Loss models of {}", self.trace.display());
        let page = losses::page(&title, &about, &trace, &comparison);
        if let Some(path) = &self.json {
            measured::write(path, &format!("{:#}\n", json(&comparison, account)?))?;
        }
        if let Some(path) = &self.plot {
            measured::write(path, &losses::bursts_plot(&trace, &comparison).to_svg())?;
        }
        if let Some(path) = &self.report {
            measured::write(path, &page.to_html())?;
        }
        if let Some(path) = &self.trace_out {
            measured::write(path, &trace.to_text(&about))?;
        }
        let mut text = about;
        if !text.is_empty() {
            text.push('\n');
        }
        text += &format!("{} frames, {} lost\n\n", comparison.frames, comparison.losses);
        text += &losses::table(&comparison).to_text(false);
        Ok(text)
    }
}

/// Describes a comparison as JSON, with the account of a capture.
fn json(comparison: &loss::Comparison, account: Option<Value>) -> Result<Value, String> {
    let mut value = serde_json::to_value(comparison).map_err(|error| error.to_string())?;
    if let (Some(all), Some(account)) = (value.as_object_mut(), account) {
        all.insert("intake".to_owned(), account);
    }
    Ok(value)
}

/// Source of a generated trace.
#[derive(Clone, Debug)]
pub enum Source {
    /// Chain of two states; the text names it.
    Model(Model, &'static str),
    /// Synthetic trace, with length and seed of [`Generate`].
    Synthetic(SyntheticTrace),
    /// Model fitted to another trace.
    Fitted {
        /// The other trace.
        trace: PathBuf,
        /// The model.
        fit: FitKind,
    },
}

/// Generation of a loss trace.
#[derive(Clone, Debug)]
pub struct Generate {
    /// Source of the trace.
    pub source: Source,
    /// File to write; "-" returns the trace as the job's text.
    pub file: PathBuf,
    /// Number of frames.
    pub frames: u64,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Generate {
    /// Runs the job, and returns a description of the trace, or the trace itself.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written, or the model cannot be fitted.
    pub fn run(&self) -> Result<String, Error> {
        let inputs = match &self.source {
            Source::Fitted { trace, .. } => vec![&**trace],
            Source::Model(..) | Source::Synthetic(_) => Vec::new(),
        };
        check_files(&inputs, [&*self.file])?;
        self.generate().map_err(Error::Usage)
    }

    fn generate(&self) -> Result<String, String> {
        match &self.source {
            Source::Model(model, about) => self.of_model(*model, about),
            Source::Synthetic(config) => self.of_synthetic(config),
            Source::Fitted { trace, fit } => {
                let measured = measured::trace(trace)?;
                let fitted = loss::fit(*fit, &measured, &Counts::of(&measured));
                let fitted = fitted.map_err(|problem| format!("{}: {problem}", trace.display()))?;
                self.of_model(fitted.model, &format!("fitted to {}", trace.display()))
            }
        }
    }

    fn of_synthetic(&self, config: &SyntheticTrace) -> Result<String, String> {
        let config = SyntheticTrace { frames: self.frames, seed: self.seed, ..*config };
        let SyntheticTrace { deviation_db, hold, shape, .. } = config;
        let about = format!(
            "a synthetic trace: semi-Markov, mean quality {:.3} dB, deviation {deviation_db} dB, \
             hold {hold} frames (Pareto, shape {shape})",
            config.mean_db()
        );
        self.write(config.trace(), &about)
    }

    fn of_model(&self, model: Model, about: &str) -> Result<String, String> {
        let Model { p, r, loss_good, loss_bad } = model;
        let about = format!("{about}: p {p}, r {r}, loss {loss_good} in good and {loss_bad} in bad times");
        self.write(model.trace(self.frames, &mut RandomStream::new(self.seed, "generate")), &about)
    }

    fn write(&self, trace: Option<Trace>, about: &str) -> Result<String, String> {
        let trace = trace.ok_or("no frame to write")?;
        let text = trace.to_text(&format!("bentpipe channel generate\n{about}\nseed {}", self.seed));
        if self.file == Path::new("-") {
            return Ok(text);
        }
        measured::write(&self.file, &text)?;
        Ok(format!("{}: {} frames, {} lost\n", self.file.display(), trace.frames(), trace.losses()))
    }
}
