//! `bentpipe voice`: arguments.

use std::path::PathBuf;

use bentpipe_offline::voice::{Carry, Codec, Concealment, Judge, codec};
use bentpipe_units::{Rate, Span};
use clap::{Args, Subcommand, ValueEnum};

use crate::common::{Changes, Common, share};
use crate::session::Terminal;

/// Work on voice.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what header compression and aggregation save on a link, alone and together
    #[command(after_help = "\
Examples:
  bentpipe voice savings scenarios/voice-geo.toml
  bentpipe voice savings scenarios/voice-geo.toml --calls 1,5,20 --period '40 ms'
  bentpipe voice savings scenarios/voice-geo.toml --link satellite --seeds 3

A DVB carrier compresses by its own ROHC. A line sends PPP frames, with ROHC or several packets in
one. Other media carry both in a tunnel, whose headers are 25 B. Of a sweep, the first point is
taken.")]
    Savings(SavingsArgs),
    /// Carry real speech through a call of a scenario, and judge what arrives
    #[command(after_help = CARRY_HELP)]
    Carry(Box<CarryArgs>),
}

const CARRY_HELP: &str = "\
Examples:
  bentpipe voice carry speech.wav received.wav --codec gsm --loss '3 %'
  bentpipe voice carry speech.wav received.wav --codec g711a,opus --loss 0,0.03,0.1 \\
      --seeds 5 --svg scores.svg
  bentpipe voice carry speech.wav received.wav --scenario scenarios/voice-geo.toml \\
      --codec g711u --set flow.calls.count=2

Codecs: g711a, g711u, g722, g723.1, g726, gsm, opus and speex. G.711 is coded here, the others by
ffmpeg. Files other than WAV with 16 bits and the codec's 8 or 16 kHz are converted by ffmpeg. The
columns: R and MOS are the E-model's for the conversation, \"listening\" its MOS without delay,
\"PESQ\" is by the Python package pesq. Several runs number their files: received-1.wav and so on.
The exit status is 2 for a bad command or file, or a missing ffmpeg.";

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

#[derive(Debug, Args)]
pub(crate) struct CarryArgs {
    /// Speech to send, up to 10 minutes
    input: PathBuf,
    /// WAV file for the speech that is received
    out: PathBuf,
    /// Codecs in place of the scenario's
    #[arg(long, value_name = "CODEC", value_delimiter = ',', value_parser = codec)]
    codec: Vec<Codec>,
    /// Rate of the codec
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// Frames per packet
    #[arg(long, value_name = "N")]
    frames: Option<u32>,
    /// Packet loss ratios of the default path
    #[arg(long, value_name = "SHARE", value_delimiter = ',', conflicts_with = "scenario", value_parser = share)]
    loss: Vec<f64>,
    /// Scenario with a flow of voice, whose first call has the speech
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Set a key of the scenario, as KEY=VALUE; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// First seed, instead of the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Number of seeds, instead of the scenario's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: Option<u32>,
    /// Concealment of lost packets
    #[arg(long, value_enum, default_value_t = Conceal::Repeat)]
    conceal: Conceal,
    /// Python with the packages numpy, pesq and visqol-python[lattice]
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,
    /// Do not judge what is received
    #[arg(long, conflicts_with = "python")]
    no_judge: bool,
    /// Write a plot of the scores over the loss
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Concealment of lost packets.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Conceal {
    /// Repetition of the pitch period; for Opus the decoder's own
    Repeat,
    /// Silence
    Silence,
}

impl CarryArgs {
    fn job(&self) -> Carry {
        Carry {
            input: self.input.clone(),
            out: self.out.clone(),
            scenario: self.scenario.clone(),
            set: self.set.clone(),
            codecs: self.codec.clone(),
            rate: self.rate,
            frames: self.frames,
            losses: self.loss.clone(),
            seed: self.seed,
            seeds: self.seeds,
            concealment: match self.conceal {
                Conceal::Repeat => Concealment::Repeat,
                Conceal::Silence => Concealment::Silence,
            },
            judge: Judge { python: (!self.no_judge).then(|| self.python.clone()) },
            svg: self.svg.clone(),
        }
    }
}

/// Carries speech, prints the table, and returns the exit code.
pub(crate) fn carry(arguments: &CarryArgs) -> u8 {
    let session = Terminal::new("note");
    let result = arguments.job().run(&session);
    session.end(result, false)
}
