//! Arguments of `bentpipe video`.

use std::path::PathBuf;

use bentpipe_offline::video::{
    Carry, Demux, MakeCard, MakeModel, Model, Mux, Overrides, Pack, Pictures, Quality, RateConfig, Unpack,
};
use bentpipe_scenario::{Adaptation, Card, FramePacking};
use bentpipe_units::{Rate, Span};
use clap::{Args, Subcommand, ValueEnum};

use crate::common::share;
use crate::intake::{IntakeArgs, LegsArgs};

/// Real MPEG-2 transport streams through ATM.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a test card with moving parts and a tone, by ffmpeg
    #[command(after_help = CARD_EXAMPLES)]
    Card(CardArgs),
    /// Make a modelled stream: a video source's rate, with clock references and time stamps
    #[command(after_help = MODEL_EXAMPLES)]
    Model(ModelArgs),
    /// Carry a transport stream in ATM cells over an impaired link
    #[command(after_help = CARRY_EXAMPLES)]
    Carry(CarryArgs),
    /// Multiplex the first programmes of several transport streams into one
    #[command(after_help = MUX_EXAMPLES)]
    Mux(MuxArgs),
    /// Take a transport stream apart into its programmes
    #[command(after_help = DEMUX_EXAMPLES)]
    Demux(DemuxArgs),
    /// Code the videos of both eyes in one picture, by ffmpeg
    #[command(after_help = PACK_EXAMPLES)]
    Pack(PackArgs),
    /// Take both eyes out of the pictures of a stream, by ffmpeg
    #[command(after_help = UNPACK_EXAMPLES)]
    Unpack(UnpackArgs),
    /// Decode two streams by ffmpeg and compare their pictures
    #[command(after_help = QUALITY_EXAMPLES)]
    Quality(QualityArgs),
}

const CARD_EXAMPLES: &str = "\
Examples:
  bentpipe video card card.ts
  bentpipe video card --width 1920 --height 1080 --rate '18 Mbit/s' --length '10 s' hd.ts
  bentpipe video card --eyes 2 stereo.ts         both eyes, multiplexed into one stream
  bentpipe video card --eyes 2 --frame side-by-side stereo.ts      both eyes in one picture
  bentpipe video card --rate '2 Mbit/s' --source source.mkv card.ts";

const MODEL_EXAMPLES: &str = "\
Examples:
  bentpipe video model video.ts
  bentpipe video model --rate '6 Mbit/s' --deviation '2 Mbit/s' --length '1 min' --seed 7 video.ts
  bentpipe video model --group 0 video.ts            rates that change every 20 to 100 ms
  bentpipe video model --sizes card.ts video.ts      picture sizes of a stream

Sizes may also be a table of lines such as \"I,24000\". Pictures have time stamps and headers of
MPEG-2 video, and no content.";

const CARRY_EXAMPLES: &str = "\
Examples:
  bentpipe video carry card.ts received.ts --loss 1e-4 --quality
  bentpipe video carry card.ts received.ts --adaptation aal1-fec --loss 1e-3 --misinsertion 1e-5
  bentpipe video carry card.ts received.ts --jitter '2 ms'
  bentpipe video carry card.ts received.ts --scenario video.toml \\
      --set atm.line.satellite.delay='300 ms'

The stream received is written with any losses. The exit status is 2 for a bad command or file, or
if --quality finds no ffmpeg.";

const MUX_EXAMPLES: &str = "\
Examples:
  bentpipe video mux left.ts right.ts both.ts
  bentpipe video mux --rate '40 Mbit/s' left.ts right.ts both.ts";

const DEMUX_EXAMPLES: &str = "\
Examples:
  bentpipe video demux both.ts left.ts right.ts";

const PACK_EXAMPLES: &str = "\
Examples:
  bentpipe video pack left.ts right.ts packed.ts
  bentpipe video pack --frame top-and-bottom --rate '18 Mbit/s' left.ts right.ts packed.ts";

const UNPACK_EXAMPLES: &str = "\
Examples:
  bentpipe video unpack received.ts left.mkv right.mkv";

const QUALITY_EXAMPLES: &str = "\
Examples:
  bentpipe video quality card.ts received.ts
  bentpipe video quality --programme 2 both.ts arrived.ts
  bentpipe video quality --source source.mkv card.ts received.ts
  bentpipe video quality --frame side-by-side both.ts received.ts          each eye by itself";

#[derive(Debug, Args)]
pub(crate) struct CardArgs {
    /// File to write
    out: PathBuf,
    /// Width in pixels
    #[arg(long, default_value_t = 1280, value_parser = clap::value_parser!(u32).range(64..=1920))]
    width: u32,
    /// Height in pixels
    #[arg(long, default_value_t = 720, value_parser = clap::value_parser!(u32).range(64..=1088))]
    height: u32,
    /// Duration
    #[arg(long, default_value = "5 s")]
    length: Span,
    /// Constant rate of each transport stream
    #[arg(long, default_value = "12 Mbit/s")]
    rate: Rate,
    /// Number of views: 1, or 2 for both eyes, multiplexed or by --frame together
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    eyes: u8,
    /// Put both eyes into one picture, coded in one stream
    #[arg(long, value_enum)]
    frame: Option<FrameName>,
    /// Also write the first eye's pictures before coding, as Matroska
    #[arg(long, value_name = "FILE")]
    source: Option<PathBuf>,
    /// Also write the second eye's
    #[arg(long, value_name = "FILE")]
    source_right: Option<PathBuf>,
}

/// Arrangement of both eyes in one picture.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FrameName {
    /// Left eye in the left half, each with half of its columns
    SideBySide,
    /// Left eye in the upper half, each with half of its lines
    TopAndBottom,
}

impl FrameName {
    const fn packing(self) -> FramePacking {
        match self {
            FrameName::SideBySide => FramePacking::SideBySide,
            FrameName::TopAndBottom => FramePacking::TopAndBottom,
        }
    }
}

impl CardArgs {
    pub(super) fn job(&self) -> MakeCard {
        let CardArgs { width, height, length, rate, eyes, .. } = *self;
        let frame = self.frame.map(FrameName::packing);
        let card = Card { width, height, length, rate, eyes, frame };
        let (source, source_right) = (self.source.clone(), self.source_right.clone());
        MakeCard { card, out: self.out.clone(), source, source_right }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// File to write
    out: PathBuf,
    /// Mean rate of the transport stream
    #[arg(long, default_value = "4 Mbit/s", conflicts_with = "sizes")]
    rate: Rate,
    /// Standard deviation of the rate
    #[arg(long, value_name = "RATE", default_value = "1 Mbit/s", conflicts_with = "sizes")]
    deviation: Rate,
    /// Pictures in a group; 0 for rates that change every 20 to 100 ms
    #[arg(long, value_name = "N", default_value_t = 12, conflicts_with = "sizes")]
    group: u8,
    /// Distance of I and P pictures
    #[arg(long, value_name = "N", default_value_t = 3, conflicts_with = "sizes")]
    distance: u8,
    /// Take picture sizes from a table, a transport stream or MPEG-2 video
    #[arg(long, value_name = "FILE")]
    sizes: Option<PathBuf>,
    /// Time between pictures
    #[arg(long, value_name = "TIME", default_value = "40 ms")]
    interval: Span,
    /// Duration
    #[arg(long, value_name = "TIME", default_value = "10 s")]
    length: Span,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl ModelArgs {
    pub(super) fn job(&self) -> MakeModel {
        let ModelArgs { interval, group, distance, length, seed, .. } = *self;
        let pictures = (group > 0).then(|| Pictures { interval, group, distance, ..Pictures::default() });
        let rate = RateConfig { pictures, ..RateConfig::new(self.rate, self.deviation) };
        let model = Model {
            rate: self.sizes.is_none().then_some(rate),
            sizes: self.sizes.clone(),
            interval: self.sizes.is_some().then_some(interval),
            length,
        };
        MakeModel { model, seed, out: self.out.clone() }
    }
}

#[derive(Debug, Args)]
pub(crate) struct CarryArgs {
    /// Transport stream to send
    input: PathBuf,
    /// File for what is received
    out: PathBuf,
    /// Adaptation layer
    #[arg(long, value_enum)]
    adaptation: Option<Carrier>,
    /// Number of TS packets per AAL5 PDU
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=300))]
    ts_packets: Option<u16>,
    /// Pass on AAL5 PDUs of the right length whose CRC is wrong
    #[arg(long)]
    deliver_errored: bool,
    /// Share of cells of other connections that reach the receiver
    #[arg(long, value_name = "SHARE", value_parser = share)]
    misinsertion: Option<f64>,
    /// Cell loss ratio
    #[arg(long, value_name = "SHARE", conflicts_with = "scenario", value_parser = share)]
    loss: Option<f64>,
    /// Bit error ratio, in headers and payload of cells
    #[arg(long, value_name = "SHARE", conflicts_with = "scenario", value_parser = share)]
    ber: Option<f64>,
    /// Delay variation: maximum extra delay of a cell, in order
    #[arg(long, value_name = "TIME", conflicts_with = "scenario")]
    jitter: Option<Span>,
    /// A scenario with a flow of `kind = "stream"`, whose link the cells go over
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Set a key of the scenario, as KEY=VALUE; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seed, instead of the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Decode both streams by ffmpeg and compare
    #[arg(long)]
    quality: bool,
    #[command(flatten)]
    intake: IntakeArgs,
    #[command(flatten)]
    legs: LegsArgs,
}

/// Carriage of a transport stream.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Carrier {
    /// Datagrams, lost as a whole if damaged
    Udp,
    /// AAL5: PDUs with a CRC; corrupt PDUs are dropped whole
    Aal5,
    /// Numbered cells
    Aal1,
    /// Numbered cells with a Reed-Solomon code and interleaving
    Aal1Fec,
}

impl CarryArgs {
    pub(super) fn job(&self) -> Carry {
        let overrides = Overrides {
            adaptation: self.adaptation.map(Carrier::adaptation),
            ts_packets: self.ts_packets,
            deliver_errored: self.deliver_errored,
            misinsertion: self.misinsertion,
            loss: self.loss,
            ber: self.ber,
            jitter: self.jitter,
        };
        Carry {
            input: self.input.clone(),
            out: self.out.clone(),
            scenario: self.scenario.clone(),
            set: self.set.clone(),
            overrides,
            seed: self.seed,
            quality: self.quality,
            intake: self.legs.with(self.intake.intake()),
        }
    }
}

impl Carrier {
    fn adaptation(self) -> Adaptation {
        match self {
            Carrier::Udp => Adaptation::Udp,
            Carrier::Aal5 => Adaptation::Aal5,
            Carrier::Aal1 => Adaptation::Aal1,
            Carrier::Aal1Fec => Adaptation::Aal1Fec,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct MuxArgs {
    /// Transport streams, their clocks starting together
    #[arg(required = true)]
    inputs: Vec<PathBuf>,
    /// File to write
    #[arg(required = true)]
    out: PathBuf,
    /// Constant rate of the multiplex; by default what the inputs need
    #[arg(long)]
    rate: Option<Rate>,
    #[command(flatten)]
    intake: IntakeArgs,
    #[command(flatten)]
    legs: LegsArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DemuxArgs {
    /// Transport stream
    input: PathBuf,
    /// A file for each programme, in the order of the PAT
    #[arg(required = true)]
    outputs: Vec<PathBuf>,
    #[command(flatten)]
    intake: IntakeArgs,
    #[command(flatten)]
    legs: LegsArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PackArgs {
    /// Video of the left eye, any file that ffmpeg reads; its sound is taken
    left: PathBuf,
    /// Video of the right eye, of the same size
    right: PathBuf,
    /// Transport stream to write
    out: PathBuf,
    /// Arrangement
    #[arg(long, value_enum, default_value_t = FrameName::SideBySide)]
    frame: FrameName,
    /// Constant rate of the stream
    #[arg(long, default_value = "12 Mbit/s")]
    rate: Rate,
}

#[derive(Debug, Args)]
pub(crate) struct UnpackArgs {
    /// Transport stream whose pictures have both eyes
    input: PathBuf,
    /// File for the left eye, as Matroska
    left: PathBuf,
    /// File for the right eye
    right: PathBuf,
    /// Arrangement
    #[arg(long, value_enum, default_value_t = FrameName::SideBySide)]
    frame: FrameName,
}

impl PackArgs {
    pub(super) fn job(&self) -> Pack {
        let eyes = [self.left.clone(), self.right.clone()];
        Pack { eyes, out: self.out.clone(), frame: self.frame.packing(), rate: self.rate }
    }
}

impl UnpackArgs {
    pub(super) fn job(&self) -> Unpack {
        let eyes = [self.left.clone(), self.right.clone()];
        Unpack { input: self.input.clone(), eyes, frame: self.frame.packing() }
    }
}

#[derive(Debug, Args)]
pub(crate) struct QualityArgs {
    /// Original stream
    original: PathBuf,
    /// Received stream
    received: PathBuf,
    /// Compare this programme of both
    #[arg(long, value_name = "NUMBER")]
    programme: Option<u16>,
    /// Compare with the pictures that the original was coded from
    #[arg(long, value_name = "FILE")]
    source: Option<PathBuf>,
    /// Pictures that the right eye was coded from, with --frame
    #[arg(long, value_name = "FILE")]
    source_right: Option<PathBuf>,
    /// Both eyes share the pictures: judge each by itself
    #[arg(long, value_enum)]
    frame: Option<FrameName>,
}

impl MuxArgs {
    pub(super) fn job(&self) -> Mux {
        let (inputs, out) = (self.inputs.clone(), self.out.clone());
        Mux { inputs, out, rate: self.rate, intake: self.legs.with(self.intake.intake()) }
    }
}

impl DemuxArgs {
    pub(super) fn job(&self) -> Demux {
        let (input, outputs) = (self.input.clone(), self.outputs.clone());
        Demux { input, outputs, intake: self.legs.with(self.intake.intake()) }
    }
}

impl QualityArgs {
    pub(super) fn job(&self) -> Quality {
        let (original, received) = (self.original.clone(), self.received.clone());
        Quality {
            original,
            received,
            programme: self.programme,
            source: self.source.clone(),
            source_right: self.source_right.clone(),
            frame: self.frame.map(FrameName::packing),
        }
    }
}
