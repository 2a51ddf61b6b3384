//! `bentpipe voice`: arguments.

use std::path::PathBuf;

use bentpipe_units::Span;
use clap::{Args, Subcommand};

use crate::common::{Changes, Common};

/// Work on voice.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what header compression and aggregation save on a link, alone and together
    #[command(after_help = "\
Examples:
  bentpipe voice savings scenarios/voice-geo.toml
  bentpipe voice savings scenarios/voice-geo.toml --calls 1,5,20 --period '40 ms'
  bentpipe voice savings scenarios/voice-geo.toml --link satellite --seeds 3

A DVB carrier compresses by its own ROHC. A line sends PPP frames, with ROHC or several packets in one. Other
media carry both in a tunnel, whose headers are 25 B. Of a sweep, the first point is taken.")]
    Savings(SavingsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SavingsArgs {
    /// Scenario file
    pub(crate) scenario: PathBuf,
    /// Link of both means. Default: the slowest one that voice passes
    #[arg(long, value_name = "LINK")]
    pub(crate) link: Option<String>,
    /// Numbers of calls of each flow of voice. Default: a quarter, half and all of the scenario's
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=32_000))]
    pub(crate) calls: Vec<u32>,
    /// Maximum time that a packet waits for others
    #[arg(long, value_name = "TIME", default_value = "20 ms")]
    pub(crate) period: Span,
    #[command(flatten)]
    pub(crate) changes: Changes,
    #[command(flatten)]
    pub(crate) common: Common,
}
