//! Command-line arguments.

#[cfg(feature = "tools")]
pub(crate) mod tools;

use std::path::PathBuf;

use bentpipe_record::{CaptureLimits, RingSize};
use bentpipe_units::Bytes;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::common::{Changes, Common, Inputs};
use crate::{left_out, results};

const EXAMPLES: &str = "\
Examples:
  bentpipe run scenarios/first-look.toml       run, and write a report
  bentpipe check scenarios/first-look.toml     analyse it without running
  bentpipe list                                names of everything
  bentpipe describe link                       keys of a link";

/// A satellite-network laboratory: one scenario file, from simulation to report.
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = left_out::help(EXAMPLES)
)]
pub(crate) struct Arguments {
    /// Command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a scenario and write a folder with its results and report.html
    #[command(after_help = "\
Examples:
  bentpipe run scenarios/first-look.toml
  bentpipe run geo.toml --set link.satellite.rate='8 Mbit/s' --set duration='60 s'
  bentpipe run sweep.toml --seeds 10 --jobs 4
  bentpipe run geo.toml --pcap server:lan --snap-len 128
  bentpipe run geo.toml --pcap server:lan --capture-ring '10 MB,4'

Finished runs are skipped: repeat the command to resume after Ctrl-C.")]
    Run(RunArguments),
    // Without a doc comment, which would be that of the first command.
    #[cfg(feature = "tools")]
    #[command(flatten)]
    RealTime(tools::RealTime),
    /// Analyse a scenario without running it: capacities, round-trip times, windows and buffers
    #[command(after_help = "\
Examples:
  bentpipe check scenarios/first-look.toml
  bentpipe check geo.toml --set link.satellite.framing=aal5-llc-snap
  bentpipe check geo.toml --pcap server:lan     size to expect of the capture")]
    Check {
        /// Scenario file
        scenario: PathBuf,
        /// Set a key of the scenario, as KEY=VALUE; repeatable
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
        #[command(flatten)]
        files: Inputs,
        #[command(flatten)]
        captures: CaptureArguments,
    },
    /// Compare two folders of results, or two points of a sweep, over their common seeds
    #[command(after_help = "\
Examples:
  bentpipe compare runs/before runs/after
  bentpipe compare runs/sweep#0 runs/sweep#1 --measure goodput

A difference is marked as clear if its 95 % confidence interval leaves out zero. The page has the
plots of both side by side, over the same axes.")]
    Compare {
        /// Folder of results; #N after it chooses a point of a sweep
        first: String,
        /// Another, or another point
        second: String,
        /// Show only measures whose names have this text
        #[arg(long, value_name = "TEXT")]
        measure: Option<String>,
        /// Form of the table
        #[arg(long, value_enum, default_value_t = results::Format::Text)]
        format: results::Format,
        /// Write a page with both side by side
        #[arg(long, value_name = "FILE")]
        page: Option<PathBuf>,
    },
    /// Write the series of all runs of a folder of results as one CSV table
    #[command(after_help = "\
Examples:
  bentpipe series runs/sweep                                      all that vary
  bentpipe series runs/sweep --select 'flow.*.cwnd' --wide --out cwnd.csv
  bentpipe series runs/sweep --select 'link.*.queue*' --select '*.delivered-bytes'

Rows have the point, its settings and the seed in front. A pattern is of SUBJECT.METRIC, as in
metrics.json; * stands for any characters.")]
    Series {
        /// Folder of results
        results: PathBuf,
        /// Pattern of the columns; repeatable [default: all]
        #[arg(long, value_name = "PATTERN")]
        select: Vec<String>,
        /// Write a column for each metric instead of a row for each sample
        #[arg(long)]
        wide: bool,
        /// Keep columns that have one value in all runs
        #[arg(long)]
        constant: bool,
        /// File, instead of standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Print and write tables of a folder of results
    #[command(
        subcommand,
        after_help = "\
Examples:
  bentpipe results tables runs/sweep --point 1 --format latex
  bentpipe results percentiles runs/sweep --select 'flow.*.cwnd' --out cwnd.csv
  bentpipe results fairness runs/sweep --select 'flow.*.receiver.delivered-bytes'
  bentpipe results distributions runs/sweep --out delays.csv
  bentpipe results convergence runs/sweep flow.bulk.goodput --within '1 %'"
    )]
    Results(results::Command),
    /// Find the last value of a key with which conditions on measures hold
    #[command(after_help = "\
Examples:
  bentpipe search scenarios/marked-calls.toml --set node.hub.role.rules.0.mark=46 \\
      --over flow.calls-in.count='1 to 60 by 1' --while 'flow.calls-in.loss <= 1 %'

Conditions are expected to hold for the first values and to fail from some value on. With several
seeds the end of the confidence interval is compared. Exit code 1 if the first value fails.")]
    Search(SearchArguments),
    #[cfg(feature = "tools")]
    #[command(flatten)]
    Tool(Box<tools::Tool>),
    /// Run the test controller: web pages and an API over scenarios, jobs and users
    #[cfg(feature = "serve")]
    #[command(after_help = "\
Examples:
  bentpipe serve init                        make the data folder and the first administrator
  bentpipe serve                             at http://127.0.0.1:8080, until Ctrl-C
  bentpipe serve --listen 0.0.0.0:8443 --host lab.example.org --self-signed
  bentpipe serve --listen 127.0.0.1:9000 --host lab.example.org --behind-tls
  bentpipe serve backup lab.sqlite           copy the database while it is in use

Running jobs go on after Ctrl-C; the next server adopts them.")]
    Serve(crate::serve::ServeArguments),
    /// Use a controller: a command for each operation of its API
    #[cfg(feature = "serve")]
    #[command(after_help = "\
Examples:
  bentpipe remote list-scenarios
  bentpipe remote add-scenario --name geo --text scenarios/geo.toml
  bentpipe remote launch-job --scenario 1 --seeds 5 --header idempotency-key=nightly
  bentpipe remote follow-job 1
  bentpipe remote get-artifact 1 0 --output report.html

The environment variable BENTPIPE_TOKEN holds the token, made on the page \"Account\".")]
    Remote(crate::remote::RemoteArguments),
    /// Run tasks of a controller's jobs on this machine, as its own file permits
    #[cfg(feature = "serve")]
    #[command(after_help = "\
Examples:
  bentpipe site enrol --controller https://lab.example.org:8443 bpe_..._...
  bentpipe site --allow /etc/bentpipe/site.toml        until Ctrl-C

It dials out to the controller; nothing listens. Running tasks go on after Ctrl-C; the next
`bentpipe site` reports them.")]
    Site(crate::site::SiteArguments),
    /// List scenarios, studies, elements and congestion controllers
    #[command(after_help = "\
Examples:
  bentpipe list")]
    List,
    /// Describe a section, element, controller or key: every field with its unit, default and meaning
    #[command(after_help = "\
Examples:
  bentpipe describe link
  bentpipe describe red
  bentpipe describe flow.traffic.receive_buffer")]
    Describe {
        /// Name of the item; `bentpipe list` shows all names
        name: String,
    },
    /// Print the JSON Schema of scenario files or of results, for editors
    #[command(after_help = "\
Examples:
  bentpipe schema > scenario.schema.json
  bentpipe schema outcome")]
    Schema {
        /// File whose schema is printed
        #[arg(value_enum, default_value_t)]
        of: SchemaOf,
    },
    #[cfg(feature = "tools")]
    #[command(flatten)]
    Packaging(tools::Packaging),
}

/// File that has a schema.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum SchemaOf {
    /// A scenario file
    #[default]
    Scenario,
    /// summary.json
    Summary,
    /// outcome.json
    Outcome,
    /// manifest.json
    Manifest,
    /// metrics.json
    Metrics,
}

// Without a doc comment, which would be that of the command.
#[derive(Debug, Args)]
pub(crate) struct CaptureArguments {
    /// Capture packets at a point, as NODE:LINK; repeatable
    #[arg(long, value_name = "POINT")]
    pub(crate) pcap: Vec<String>,
    /// Truncate captured packets to BYTES
    #[arg(long, value_name = "BYTES", default_value_t = 262_144)]
    pub(crate) snap_len: usize,
    /// Make each capture a ring of files: length of one in bytes, and number
    ///
    /// The oldest is used again for the latest packets. The files are NODE-LINK-1.pcap and so on.
    #[arg(long, value_name = "BYTES,FILES", value_parser = ring_size)]
    pub(crate) capture_ring: Option<RingSize>,
}

impl CaptureArguments {
    /// Returns the limits of packets and files.
    pub(crate) fn limits(&self) -> CaptureLimits {
        CaptureLimits { snap_len: self.snap_len, ring: self.capture_ring }
    }
}

/// Parses the length and number of the files of a ring, such as "10 MB,4".
fn ring_size(text: &str) -> Result<RingSize, String> {
    let expected = "expected the length of a file and the number of files, such as \"10 MB,4\"";
    let (len, files) = text.split_once(',').ok_or(expected)?;
    let len: Bytes = len.trim().parse().map_err(|error| format!("{error}; {expected}"))?;
    let files = files.trim().parse().map_err(|_| expected)?;
    RingSize::new(len.get(), files).map_err(|error| error.to_string())
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// Scenario file
    pub(crate) scenario: PathBuf,
    #[command(flatten)]
    pub(crate) changes: Changes,
    #[command(flatten)]
    pub(crate) files: Inputs,
    #[command(flatten)]
    pub(crate) captures: CaptureArguments,
    /// Record each packet of a flow in packets.parquet ("*": of all); repeatable
    #[arg(long, value_name = "FLOW")]
    pub(crate) packets: Vec<String>,
    /// Also write each run's samples as series.csv, with a column for each metric
    #[arg(long)]
    pub(crate) csv: bool,
    /// Append the progress to a file, a JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) progress: Option<PathBuf>,
    /// Append samples to a file during the run, a JSON object a line
    #[arg(long, value_name = "FILE", requires = "progress")]
    pub(crate) live: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct SearchArguments {
    /// Scenario file
    pub(crate) scenario: PathBuf,
    /// Key and its values in the order of the search, as KEY=RANGE or KEY=[LIST]
    #[arg(long, value_name = "KEY=RANGE")]
    pub(crate) over: String,
    /// Condition, as MEASURE <= VALUE or MEASURE >= VALUE; repeatable
    #[arg(long = "while", value_name = "CONDITION", required = true)]
    pub(crate) conditions: Vec<String>,
    #[command(flatten)]
    pub(crate) changes: Changes,
    #[command(flatten)]
    pub(crate) files: Inputs,
    /// Append the progress to a file, a JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) progress: Option<PathBuf>,
    /// Append samples to a file during the runs, a JSON object a line
    #[arg(long, value_name = "FILE", requires = "progress")]
    pub(crate) live: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[cfg(test)]
mod tests;
