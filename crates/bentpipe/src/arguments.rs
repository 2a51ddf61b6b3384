//! What may be given on the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::{channel, gateway, rohc, rtp, ts, video};

/// A satellite-network laboratory: one scenario file, from simulation to report.
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "\
Examples:
  bentpipe run scenarios/first-look.toml       run, and leave a report
  bentpipe check scenarios/first-look.toml     what to expect of it before running
  bentpipe list                                what there is
  bentpipe describe link                       what may be said of a link"
)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a scenario and leave a folder with its results and report.html
    #[command(after_help = "\
Examples:
  bentpipe run scenarios/first-look.toml
  bentpipe run geo.toml --set link.satellite.rate='8 Mbit/s' --set duration='60 s'
  bentpipe run sweep.toml --seeds 10 --jobs 4
  bentpipe run geo.toml --pcap server:lan --snap-len 128

A run that is finished is not run again: after Ctrl-C the same command goes on where it stopped.")]
    Run(RunArguments),
    /// Run a scenario in real time with real programs at its ends (needs root, or CAP_NET_ADMIN and CAP_SYS_ADMIN)
    #[command(after_help = "\
Examples:
  bentpipe emulate scenarios/geo.toml                        until Ctrl-C; says how to use it
  bentpipe emulate scenarios/geo.toml -- ping -c 5 10.0.0.4  a command at the first real host
  bentpipe emulate geo.toml --on client -- ping -c 5 10.0.0.1
  bentpipe emulate geo.toml --background client='iperf3 -s -1' -- iperf3 -c 10.0.0.4 -t 5
  bentpipe shell client                                      in another terminal
  bentpipe set link.satellite.delay='300 ms'                 while it runs

It leaves the folder and report of `bentpipe run`, with how late packets were.")]
    Emulate(EmulateArguments),
    /// Open a shell or run a command at a real host of a running emulation
    #[command(after_help = "\
Examples:
  bentpipe shell client
  bentpipe shell client -- iperf3 -c 10.0.0.1 -C reno")]
    Shell {
        /// The host
        host: String,
        /// Which emulation, by its process, if several run
        #[arg(long, value_name = "PID")]
        emulation: Option<u32>,
        /// A command instead of a shell
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Change an emulation that runs: rates, delays, queues, shapers and channels of its links
    #[command(after_help = set_help())]
    Set {
        /// Keys of the scenario and their new values
        #[arg(value_name = "KEY=VALUE", required = true)]
        assignments: Vec<String>,
        /// Which emulation, by its process, if several run
        #[arg(long, value_name = "PID")]
        emulation: Option<u32>,
    },
    /// Say what to expect of a scenario: capacities after framing, round trips, windows and buffers needed
    #[command(after_help = "\
Examples:
  bentpipe check scenarios/first-look.toml
  bentpipe check geo.toml --set link.satellite.framing=aal5-llc-snap")]
    Check {
        /// Scenario file
        scenario: PathBuf,
        /// Set a key of the scenario, as KEY=VALUE; may be given several times
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// Compare two folders of results, or two points of a sweep, over their common seeds
    #[command(after_help = "\
Examples:
  bentpipe compare runs/before runs/after
  bentpipe compare runs/sweep#0 runs/sweep#1 --measure goodput

A difference is marked as clear if its 95 % confidence interval leaves out zero.")]
    Compare {
        /// Folder of results; #N after it chooses a point of a sweep
        first: String,
        /// Another, or another point
        second: String,
        /// Show only measures whose names have this text
        #[arg(long, value_name = "TEXT")]
        measure: Option<String>,
    },
    /// Run studies and hold the results against what was published; exit code 1 if a value is missed
    #[command(after_help = "\
Examples:
  bentpipe reproduce                 all studies
  bentpipe reproduce koreasat        one
  bentpipe reproduce --quick         shorter runs, one seed
  bentpipe reproduce koreasat --emulate    and the kernel's TCP beside ours, in real time (root, iperf3)")]
    Reproduce(ReproduceArguments),
    /// Robust Header Compression of captures, and what it would save
    #[command(
        subcommand,
        after_help = "\
Examples:
  bentpipe rohc stats capture.pcap
  bentpipe rohc compress voice.pcap voice.rohc.pcap"
    )]
    Rohc(rohc::Command),
    /// Models of lossy channels: fit them to traces and captures, and make traces
    #[command(subcommand)]
    Channel(channel::Command),
    /// IP in transport streams and DVB-S2 frames: ULE, MPE and GSE of captures, tables of what a stream has, multiplexing
    #[command(
        subcommand,
        after_help = "\
Examples:
  bentpipe ts encap voice.pcap voice.ts
  bentpipe ts inspect voice.ts"
    )]
    Ts(ts::Command),
    /// Streams of voice packets on real sockets, and the figures of those that came
    #[command(
        subcommand,
        after_help = "\
Examples:
  bentpipe rtp receive 5004 --idle '2 s'
  bentpipe rtp send 10.0.0.2:5004 --streams 311 --duration '60 s'"
    )]
    Rtp(rtp::Command),
    /// Real MPEG-2 transport streams through ATM, and what is left of the picture
    #[command(
        subcommand,
        after_help = "\
Examples:
  bentpipe video card card.ts
  bentpipe video carry card.ts received.ts --loss 1e-4 --quality"
    )]
    Video(video::Command),
    /// Run one site of a satellite mesh on real packets: TUN or TAP, ROHC, ULE, MPE or GSE, a transport stream over UDP
    #[command(after_help = "\
Examples:
  bentpipe gateway check gateway/site-a.toml       what it would make and what its carrier carries
  bentpipe gateway gateway/site-a.toml             run it, as root or with CAP_NET_ADMIN, until Ctrl-C
  bentpipe gateway reload gateway/site-a.toml      in another terminal: read the file again, keep ROHC contexts
  bentpipe gateway statistics gateway/site-a.toml

docs/tutorial/two-gateways.md runs two sites on one machine.")]
    Gateway(gateway::Arguments),
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
        /// What to describe; `bentpipe list` shows what there is
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
    /// Print completions for a shell
    #[command(after_help = "\
Examples:
  bentpipe completions bash > ~/.local/share/bash-completion/completions/bentpipe
  bentpipe completions fish > ~/.config/fish/completions/bentpipe.fish")]
    Completions {
        /// The shell
        shell: Shell,
    },
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

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// Scenario file
    pub(crate) scenario: PathBuf,
    /// Set a key of the scenario, as KEY=VALUE; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// First seed, instead of the scenario's
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// How many seeds to average over, instead of the scenario's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) seeds: Option<u32>,
    /// Capture packets at a point, as NODE:LINK; may be given several times
    #[arg(long, value_name = "POINT")]
    pub(crate) pcap: Vec<String>,
    /// Keep so many bytes of each captured packet
    #[arg(long, value_name = "BYTES", default_value_t = 262_144)]
    pub(crate) snap_len: usize,
    /// Also write each run's samples as series.csv, with a column for each metric
    #[arg(long)]
    pub(crate) csv: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct EmulateArguments {
    /// Scenario file
    pub(crate) scenario: PathBuf,
    /// Set a key of the scenario, as KEY=VALUE; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Seed, instead of the scenario's
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Capture packets at a point, as NODE:LINK; may be given several times
    #[arg(long, value_name = "POINT")]
    pub(crate) pcap: Vec<String>,
    /// Keep so many bytes of each captured packet
    #[arg(long, value_name = "BYTES", default_value_t = 262_144)]
    pub(crate) snap_len: usize,
    /// End after the scenario's duration instead of running until Ctrl-C or the command's end
    #[arg(long)]
    pub(crate) timed: bool,
    /// Lateness that more than 1 % of the packets must exceed for the report to be marked
    #[arg(long, alias = "late", value_name = "TIME", default_value = "1 ms")]
    pub(crate) max_lateness: bentpipe_units::Span,
    /// The real host that the command runs at; the first if not given
    #[arg(long, value_name = "HOST")]
    pub(crate) on: Option<String>,
    /// Shell command to run at another real host, as HOST=COMMAND (repeatable). Without a command after `--` the emulation ends
    /// when all of these have
    #[arg(long, alias = "at", value_name = "HOST=COMMAND")]
    pub(crate) background: Vec<String>,
    /// Where to put the folder of results
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    pub(crate) out: PathBuf,
    /// Show no live view
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// A command to run at a real host; the emulation ends with it, and with its exit code
    #[arg(last = true)]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ReproduceArguments {
    /// Studies, by their folder's name; all if none is given
    pub(crate) study: Vec<String>,
    /// Shorter runs and one seed, as the study says
    #[arg(long)]
    pub(crate) quick: bool,
    /// Send over the study's paths with the kernel's own TCP as well, emulated in real time; needs root and iperf3
    #[arg(long)]
    pub(crate) emulate: bool,
    /// Folder that holds the studies
    #[arg(long, value_name = "FOLDER", default_value = "studies")]
    pub(crate) studies: PathBuf,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// The most runs at a time: each has a thread of its own.
const MAX_JOBS: i64 = 1024;

#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Where to put the folder of results
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    pub(crate) out: PathBuf,
    /// How many runs at a time; one on each processor if not given
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true,
          value_parser = clap::value_parser!(u16).range(0..=MAX_JOBS))]
    pub(crate) jobs: u16,
    /// Run again what is finished
    #[arg(long)]
    pub(crate) force: bool,
    /// Print no progress and no table, only where the report is
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Returns the examples of `bentpipe set`, and the keys that can change.
fn set_help() -> String {
    let keys = bentpipe_scenario::catalogue::changeable().join("\n  ");
    format!(
        "\
Examples:
  bentpipe set link.satellite.forward.rate='2 Mbit/s'
  bentpipe set link.satellite.channel='{{ kind = \"packet-errors\", loss = 0.01 }}'
  bentpipe set link.satellite.forward.queue.bytes='50 kB' link.satellite.return.delay='300 ms'

The scenario of the examples is scenarios/geo.toml. Keys that can change, with all that is in
them; a link's also in its `forward` or `return`:
  {keys}

Packets in flight are not affected."
    )
}
