//! `bentpipe voice`: arguments.

use std::path::PathBuf;

use bentpipe_units::Span;
use clap::{Args, Subcommand};

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
    /// Set a key of the scenario, as KEY=VALUE; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// First seed, instead of the scenario's
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Number of seeds, in place of the scenario's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) seeds: Option<u32>,
    /// Folder for the results
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    pub(crate) out: PathBuf,
    /// Number of concurrent runs [default: number of processors]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true,
          value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub(crate) jobs: u16,
    /// Repeat finished runs
    #[arg(long)]
    pub(crate) force: bool,
    /// Print only the path of the report
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
