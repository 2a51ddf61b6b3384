//! Arguments of the commands that the feature `tools` has.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::CaptureArguments;
use crate::common::{Common, Inputs};
use crate::{campaign, channel, dtn, gateway, pep, phone, rohc, rtp, traffic, ts, video, voice};

/// Scenarios in real time.
#[derive(Debug, Subcommand)]
pub(crate) enum RealTime {
    /// Run a scenario in real time between real programs (needs root, or CAP_NET_ADMIN and CAP_SYS_ADMIN)
    #[command(after_help = "\
Examples:
  bentpipe emulate scenarios/geo.toml                        until Ctrl-C; prints how to use it
  bentpipe emulate scenarios/geo.toml -- ping -c 5 10.0.0.4  a command at the first real host
  bentpipe emulate geo.toml --on client -- ping -c 5 10.0.0.1
  bentpipe emulate geo.toml --background client='iperf3 -s -1' -- iperf3 -c 10.0.0.4 -t 5
  bentpipe emulate geo.toml --cut satellite --part client --join 192.0.2.2:7700 --key join.key
  bentpipe emulate scenarios/geo.toml --real-flows --set duration='8 s'
  bentpipe shell client                                      in another terminal
  bentpipe set link.satellite.delay='300 ms'                 while it runs

It leaves the folder and report of `bentpipe run`, with the lateness of packets.")]
    Emulate(Box<EmulateArguments>),
    /// Open a shell or run a command at a real host of a running emulation
    #[command(after_help = "\
Examples:
  bentpipe shell client
  bentpipe shell client -- iperf3 -c 10.0.0.1 -C reno")]
    Shell {
        /// The host
        host: String,
        /// Process ID of the emulation, if several are running
        #[arg(long, value_name = "PID")]
        emulation: Option<u32>,
        /// A command instead of a shell
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Change a running emulation: rates, delays, queues, shapers and channels of its links
    #[command(after_help = set_help())]
    Set(SetArguments),
    /// Wait for the end of an emulation, and clean up if it was killed
    #[command(hide = true)]
    Survive {
        /// Process ID of the emulation
        process: u32,
    },
}

/// Arguments of `set`.
#[derive(Debug, Args)]
pub(crate) struct SetArguments {
    /// Keys of the scenario and their new values, set at one instant: all or none
    #[arg(value_name = "KEY=VALUE", required_unless_present_any = ["file", "show"])]
    pub(crate) assignments: Vec<String>,
    /// Also set the lines KEY=VALUE of a file; # begins a comment
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Print the present value of a key, or the whole scenario, as JSON
    #[arg(long, value_name = "KEY", num_args = 0..=1, default_missing_value = "",
          conflicts_with_all = ["assignments", "file"])]
    pub(crate) show: Option<String>,
    /// Process ID of the emulation, if several are running
    #[arg(long, value_name = "PID")]
    pub(crate) emulation: Option<u32>,
}

/// Campaigns, studies, and work on files, sockets and devices.
#[derive(Debug, Subcommand)]
pub(crate) enum Tool {
    /// Run sweeps that are too long for one command or one machine
    #[command(
        subcommand,
        after_help = "\
Examples:
  bentpipe campaign plan geo.toml --seeds 8 --set duration='5 s' --out campaign
  bentpipe campaign run campaign
  bentpipe campaign status campaign
  bentpipe campaign gather campaign

The folder is all that the parts share: any number of processes, on any machines that see it, may
run them."
    )]
    Campaign(campaign::Command),
    /// Reproduce published studies and compare the results; exit code 1 if a value is missed
    #[command(after_help = "\
Examples:
  bentpipe reproduce                 all studies
  bentpipe reproduce koreasat        one
  bentpipe reproduce --quick         shorter runs, one seed
  bentpipe reproduce koreasat --emulate    also the kernel's TCP, in real time (root, iperf3)
  bentpipe reproduce wimax-voip --quick --emulate    also voice of real programs, over a cell")]
    Reproduce(ReproduceArguments),
    /// Compress and decompress headers of captures with ROHC, and estimate its savings
    #[command(
        subcommand,
        after_help = "\
Examples:
  bentpipe rohc stats capture.pcap
  bentpipe rohc compress voice.pcap voice.rohc.pcap"
    )]
    Rohc(Box<rohc::Command>),
    /// Fit loss models to traces and captures, and generate traces
    #[command(
        subcommand,
        after_help = "\
Examples:
  bentpipe channel fit office.trace
  bentpipe channel generate bistable --burst 3 --gap 27 bistable.trace"
    )]
    Channel(channel::Command),
    /// Describe rates of captures, streams and sources, and draw time-sequence graphs
    #[command(
        subcommand,
        after_help = "\
Examples:
  bentpipe traffic describe video.ts
  bentpipe traffic describe --report lan.html lan.pcapng"
    )]
    Traffic(traffic::Command),
    /// Encapsulate and inspect IP in transport streams and DVB-S2 frames: ULE, MPE, GSE, multiplexing
    #[command(
        subcommand,
        after_help = "\
Examples:
  bentpipe ts encap voice.pcap voice.ts
  bentpipe ts inspect voice.ts"
    )]
    Ts(ts::Command),
    /// Send and receive voice packet streams on real sockets, with statistics
    #[command(
        subcommand,
        after_help = "\
Examples:
  bentpipe rtp receive 5004 --idle '2 s'
  bentpipe rtp send 10.0.0.2:5004 --streams 311 --duration '60 s'"
    )]
    Rtp(rtp::Command),
    /// Analyse contact plans, and send and receive bundles on real sockets
    #[command(
        subcommand,
        after_help = "\
Examples:
  bentpipe dtn plan mission.ionrc --from 1 --to 5
  bentpipe dtn receive 4556 --node ipn:2.0"
    )]
    Dtn(dtn::Command),
    /// Run a proxy that splits TCP connections over a satellite (needs root, or CAP_NET_ADMIN)
    #[command(after_help = "\
Examples:
  bentpipe pep --ground lan0 --satellite sat0 --controller bbr
  bentpipe pep --ground lan0 --satellite sat0 --rate '9 Mbit/s' --buffer '4 MB' --drain '30 s'
  bentpipe pep --ground lan0 --satellite sat0 --print-rules

The machine is a router between both interfaces. docs/how-to/run-a-pep.md shows it in namespaces.")]
    Pep(pep::PepArgs),
    /// Place SIP calls on real sockets, and measure set-up times
    #[command(after_help = "\
Examples:
  bentpipe call sip:bob@127.0.0.1:5060
  bentpipe call sip:bob@127.0.0.1:5060 --calls 10000 --rate 500 --hold '60 s' --json calls.json
  bentpipe call sip:bob@127.0.0.1 --proxy 127.0.0.1:5070 --transport tcp --codec g729

Signalling only: no media is sent. The exit status is 1 if a call failed, 2 for a bad command.")]
    Call(phone::CallArgs),
    /// Answer SIP calls on real sockets, over UDP and TCP
    #[command(after_help = "\
Examples:
  bentpipe answer                                  at 127.0.0.1:5060, until Ctrl-C
  bentpipe answer 5070 --ring '3 s' --hold '60 s'
  bentpipe answer 10.0.0.1:5060 --calls 100

The exit status is 1 if a call was not established, 2 for a bad command.")]
    Answer(phone::AnswerArgs),
    /// Send real MPEG-2 transport streams through ATM and measure the picture quality
    #[command(
        subcommand,
        after_help = "\
Examples:
  bentpipe video card card.ts
  bentpipe video carry card.ts received.ts --loss 1e-4 --quality"
    )]
    Video(video::Command),
    /// Carry real speech through calls, and show what compression saves
    #[command(
        subcommand,
        after_help = "\
Examples:
  bentpipe voice savings scenarios/voice-geo.toml"
    )]
    Voice(voice::Command),
    /// Run one site of a satellite mesh on real packets
    ///
    /// It connects a TUN or TAP device with a DVB carrier over UDP.
    #[command(after_help = "\
Examples:
  bentpipe gateway check gateway/site-a.toml   forecast efficiency and capacity of its carrier
  bentpipe gateway gateway/site-a.toml         run it until Ctrl-C (root, or CAP_NET_ADMIN)
  bentpipe gateway reload gateway/site-a.toml  in another terminal: read the file again
  bentpipe gateway statistics gateway/site-a.toml

docs/tutorial/two-gateways.md runs two sites on one machine.")]
    Gateway(gateway::Arguments),
}

/// Files for those who package the program.
#[derive(Debug, Subcommand)]
pub(crate) enum Packaging {
    /// Print completions for a shell
    #[command(after_help = "\
Examples:
  bentpipe completions bash > ~/.local/share/bash-completion/completions/bentpipe
  bentpipe completions fish > ~/.config/fish/completions/bentpipe.fish")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual pages of all commands, for packages
    #[command(hide = true)]
    Man {
        /// Folder to write to
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct EmulateArguments {
    /// Scenario file
    pub(crate) scenario: PathBuf,
    /// Set a key of the scenario, as KEY=VALUE; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    #[command(flatten)]
    pub(crate) files: Inputs,
    /// Seed, instead of the scenario's
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) captures: CaptureArguments,
    /// End after the scenario's duration instead of running until Ctrl-C or the command's end
    #[arg(long)]
    pub(crate) timed: bool,
    /// Maximum lateness of 99 % of the packets; beyond it the report is marked unreliable
    #[arg(long, alias = "late", value_name = "TIME", default_value = "1 ms")]
    pub(crate) max_lateness: bentpipe_units::Span,
    /// Waiting strategy. "low-power" sleeps: packets are 0.6 ms late at the 99th percentile, at most 1.1 ms seen
    #[arg(long, value_enum, default_value_t = PaceName::Precise)]
    pub(crate) pace: PaceName,
    /// Time for packets in flight after the end of the programs [default: one round trip]
    #[arg(long, value_name = "TIME")]
    pub(crate) linger: Option<bentpipe_units::Span>,
    /// The real host that the command runs at; the first if not given
    #[arg(long, value_name = "HOST")]
    pub(crate) on: Option<String>,
    /// Shell command to run at another real host, as HOST=COMMAND (repeatable). Without a command after `--` the emulation ends
    /// when all of these have
    #[arg(long, alias = "at", value_name = "HOST=COMMAND")]
    pub(crate) background: Vec<String>,
    /// Run iperf3, ping, voice and calls in the place of the flows between real hosts
    ///
    /// They run for the scenario's duration. Their figures become the flows' measures, and their output is in the folder
    /// `programs` of the results.
    #[arg(long, conflicts_with_all = ["background", "command", "on", "linger", "timed"])]
    pub(crate) real_flows: bool,
    /// Attach an interface or network namespace in the place of a host, as HOST=TARGET; repeatable. Targets are eth1, eth1.7 (a VLAN),
    /// tap0, netns:NAME and netns:PID. With ",dhcp" after an interface the machine there gets the host's address by DHCP
    #[arg(long, value_name = "HOST=TARGET")]
    pub(crate) attach: Vec<bentpipe_emulation::Attachment>,
    /// Serve metrics for Prometheus, and the live view as a page. The address is on loopback: 127.0.0.1:9189
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) prometheus: Option<std::net::SocketAddr>,
    #[command(flatten)]
    pub(crate) join: JoinArguments,
    /// Append the progress to a file, a JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) progress: Option<PathBuf>,
    /// Append samples to a file, a JSON object a line
    #[arg(long, value_name = "FILE", requires = "progress")]
    pub(crate) live: Option<PathBuf>,
    /// Folder for the results
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    pub(crate) out: PathBuf,
    /// Show no live view
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Command to run at a real host; its exit code ends the emulation
    #[arg(last = true)]
    pub(crate) command: Vec<String>,
}

/// Part of a scenario, and the machine that emulates the other part.
#[derive(Debug, Args)]
pub(crate) struct JoinArguments {
    /// Link at which the scenario is cut; another machine emulates the other part
    #[arg(long, value_name = "LINK", requires_all = ["part", "join", "key"])]
    pub(crate) cut: Option<String>,
    /// A node of the part that is emulated here
    #[arg(long, value_name = "NODE", requires = "cut")]
    pub(crate) part: Option<String>,
    /// UDP address of the other machine, such as 192.0.2.2:7700
    #[arg(long, value_name = "ADDRESS", requires = "cut")]
    pub(crate) join: Option<std::net::SocketAddr>,
    /// Own UDP address [default: any, with the port of the other machine]
    #[arg(long, value_name = "ADDRESS", requires = "cut")]
    pub(crate) bind: Option<std::net::SocketAddr>,
    /// File with the key of both machines: 64 hexadecimal digits, for its owner only
    #[arg(long, value_name = "FILE", requires = "cut")]
    pub(crate) key: Option<PathBuf>,
    /// Time to wait for the other machine
    #[arg(long, value_name = "TIME", default_value = "60 s")]
    pub(crate) max_wait: bentpipe_units::Span,
    /// Error of this machine's clock for tests, as SECONDS,PPM
    #[arg(long, value_name = "SECONDS,PPM", value_parser = skew, hide = true, allow_hyphen_values = true)]
    pub(crate) clock_skew: Option<bentpipe_emulation::Skew>,
}

impl JoinArguments {
    /// Returns the part and the other machine, if the scenario is cut.
    pub(crate) fn join(&self) -> Option<bentpipe_emulation::Join> {
        let (link, node) = (self.cut.clone()?, self.part.clone()?);
        let (peer, key) = (self.join?, self.key.clone()?);
        let any: std::net::IpAddr = match peer {
            std::net::SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            std::net::SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        let bind = self.bind.unwrap_or_else(|| (any, peer.port()).into());
        let (max_wait, skew) = (self.max_wait, self.clock_skew.unwrap_or_default());
        Some(bentpipe_emulation::Join { link, node, bind, peer, key, max_wait, skew })
    }
}

fn skew(text: &str) -> Result<bentpipe_emulation::Skew, String> {
    let expected = || "expected SECONDS,PPM".to_owned();
    let (seconds, ppm) = text.split_once(',').ok_or_else(expected)?;
    let seconds: f64 = seconds.parse().map_err(|_| expected())?;
    let drift_ppm: f64 = ppm.parse().map_err(|_| expected())?;
    if !(seconds.abs() <= 1e8 && drift_ppm.abs() <= 1e4) {
        return Err("expected at most 1e8 s and 1e4 ppm".to_owned());
    }
    Ok(bentpipe_emulation::Skew { offset_ns: (seconds * 1e9) as i64, drift_ppm })
}

/// Waiting strategy of an emulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PaceName {
    Precise,
    LowPower,
}

#[derive(Debug, Args)]
pub(crate) struct ReproduceArguments {
    /// Studies, by their folder's name; all if none is given
    pub(crate) study: Vec<String>,
    /// Shorter runs with fewer seeds, as the study specifies
    #[arg(long)]
    pub(crate) quick: bool,
    /// Also run real programs: the kernel's TCP, voice and flows; needs root, iperf3
    #[arg(long)]
    pub(crate) emulate: bool,
    /// Keep the results with each study, in `results.json` of its folder
    #[arg(long, conflicts_with_all = ["quick", "confine"])]
    pub(crate) write: bool,
    /// Folder that holds the studies
    #[arg(long, value_name = "FOLDER", default_value = "studies")]
    pub(crate) studies: PathBuf,
    /// Append the progress to a file, a JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) progress: Option<PathBuf>,
    /// Append samples to a file during the runs, a JSON object a line
    #[arg(long, value_name = "FILE", requires = "progress")]
    pub(crate) live: Option<PathBuf>,
    /// Confine the process to writing below its working folder
    ///
    /// It changes nothing of the system.
    ///
    /// It reads the system's programs and libraries, and the folder of --studies (Landlock, seccomp). Root becomes the owner of the
    /// working folder.
    #[arg(long, conflicts_with = "emulate")]
    pub(crate) confine: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Returns the examples of `bentpipe set`, and the keys that can change.
fn set_help() -> String {
    let keys = bentpipe_scenario::catalogue::changeable().join("\n  ");
    format!(
        "\
Examples:
  bentpipe set link.satellite.forward.rate='2 Mbit/s'
  bentpipe set link.satellite.channel='{{ kind = \"packet-errors\", loss = 0.01 }}'
  bentpipe set link.satellite.channel=none
  bentpipe set link.satellite.forward.queue.bytes='50 kB' link.satellite.return.delay='300 ms'
  bentpipe set --show link.satellite

The scenario of the examples is scenarios/geo.toml. Keys that can change, with all that is in
them; a link's also in its `forward` or `return`:
  {keys}

Packets in flight are not affected."
    )
}
