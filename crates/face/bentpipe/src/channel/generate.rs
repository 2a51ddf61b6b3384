//! `bentpipe channel generate`.

use std::path::PathBuf;

use bentpipe_net::channel::loss::Model;
use bentpipe_net::channel::{Fit, SyntheticTrace};
use bentpipe_offline::channel::{Generate, Source};
use clap::{Args, Subcommand, ValueEnum};

use crate::common::share;

/// Source of the trace.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Independent losses
    #[command(after_help = "\
Examples:
  bentpipe channel generate bernoulli --loss 0.01 random.trace")]
    Bernoulli {
        /// The probability of loss, 0 to 1
        #[arg(long, value_parser = share)]
        loss: f64,
        #[command(flatten)]
        out: Out,
    },
    /// Loss bursts and loss-free gaps, both of geometrically distributed length
    #[command(after_help = "\
Examples:
  bentpipe channel generate bistable --burst 3 --gap 27 bistable.trace")]
    Bistable {
        /// Mean length of runs of lost frames
        #[arg(long, value_parser = length)]
        burst: f64,
        /// Mean length of runs of received frames
        #[arg(long, value_parser = length)]
        gap: f64,
        #[command(flatten)]
        out: Out,
    },
    /// Two states with a probability of loss each
    #[command(after_help = "\
Examples:
  bentpipe channel generate gilbert-elliott --p 0.01 --r 0.3 --loss-bad 0.8 made.trace")]
    GilbertElliott {
        /// The probability of going from good to bad after a frame
        #[arg(long, value_parser = share)]
        p: f64,
        /// The probability of going from bad to good after a frame
        #[arg(long, value_parser = share)]
        r: f64,
        /// The probability of loss in the good state
        #[arg(long, value_parser = share, default_value = "0")]
        loss_good: f64,
        /// The probability of loss in the bad state
        #[arg(long, value_parser = share, default_value = "1")]
        loss_bad: f64,
        #[command(flatten)]
        out: Out,
    },
    /// A semi-Markov process in place of a measured trace: `bentpipe describe synthetic`
    #[command(
        alias = "stand-in",
        after_help = "\
Examples:
  bentpipe channel generate synthetic --loss 0.05 office.trace
  bentpipe channel generate synthetic --loss 0.05 --frames 100000 --seed 7 -"
    )]
    Synthetic {
        /// The rate of loss over all time
        #[arg(long, value_parser = loss_of_synthetic)]
        loss: f64,
        /// Standard deviation of the quality, in dB
        #[arg(long, default_value = "3", value_parser = deviation)]
        deviation_db: f64,
        /// Mean number of frames that a quality holds for
        #[arg(long, default_value = "600", value_parser = hold)]
        hold: f64,
        /// Exponent of the Pareto law of that number
        #[arg(long, default_value = "1.5", value_parser = shape)]
        shape: f64,
        #[command(flatten)]
        out: Out,
    },
    /// A model fitted to another trace
    #[command(
        alias = "like",
        after_help = "\
Examples:
  bentpipe channel generate fitted office.trace --fit gilbert-elliott made.trace"
    )]
    Fitted {
        /// The other trace
        trace: PathBuf,
        /// Model
        #[arg(long, value_enum)]
        fit: Fitted,
        #[command(flatten)]
        out: Out,
    },
}

/// The models that can be fitted.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "kebab-case")]
pub(crate) enum Fitted {
    Bernoulli,
    BernoulliByBursts,
    BernoulliByGaps,
    Bistable,
    Gilbert,
    GilbertElliott,
}

#[derive(Debug, Args)]
pub(crate) struct Out {
    /// The file to write; "-" for standard output
    file: PathBuf,
    /// Number of frames
    #[arg(long, value_name = "N", default_value_t = 400_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    frames: u64,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl Command {
    /// Returns the job.
    pub(super) fn job(&self) -> Generate {
        let (source, out) = match self {
            Command::Bernoulli { loss, out } => {
                (Source::Model(Model::bernoulli(*loss), "independent losses"), out)
            }
            Command::Bistable { burst, gap, out } => {
                (Source::Model(Model::bistable(1.0 / gap, 1.0 / burst), "bistable"), out)
            }
            Command::GilbertElliott { p, r, loss_good, loss_bad, out } => {
                let model = Model { p: *p, r: *r, loss_good: *loss_good, loss_bad: *loss_bad };
                (Source::Model(model, "Gilbert-Elliott"), out)
            }
            Command::Synthetic { loss, deviation_db, hold, shape, out } => {
                let (deviation_db, hold, shape) = (*deviation_db, *hold, *shape);
                let config =
                    SyntheticTrace { loss: *loss, deviation_db, hold, shape, ..SyntheticTrace::default() };
                (Source::Synthetic(config), out)
            }
            Command::Fitted { trace, fit, out } => {
                (Source::Fitted { trace: trace.clone(), fit: fit.fit() }, out)
            }
        };
        Generate { source, file: out.file.clone(), frames: out.frames, seed: out.seed }
    }
}

impl Fitted {
    fn fit(self) -> Fit {
        match self {
            Fitted::Bernoulli => Fit::Bernoulli,
            Fitted::BernoulliByBursts => Fit::BernoulliByBursts,
            Fitted::BernoulliByGaps => Fit::BernoulliByGaps,
            Fitted::Bistable => Fit::Bistable,
            Fitted::Gilbert => Fit::Gilbert,
            Fitted::GilbertElliott => Fit::GilbertElliott,
        }
    }
}

fn within(text: &str, low: f64, high: f64, what: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| (low..=high).contains(value));
    value.ok_or_else(|| format!("expected {what} from {low} to {high}"))
}

fn length(text: &str) -> Result<f64, String> {
    within(text, 1.0, 1e9, "a number of frames")
}

fn loss_of_synthetic(text: &str) -> Result<f64, String> {
    within(text, 1e-4, 0.95, "a share")
}

fn deviation(text: &str) -> Result<f64, String> {
    within(text, 0.0, 20.0, "a number of dB")
}

fn hold(text: &str) -> Result<f64, String> {
    within(text, 1.0, 1e6, "a number of frames")
}

fn shape(text: &str) -> Result<f64, String> {
    within(text, 1.05, 20.0, "a number")
}
