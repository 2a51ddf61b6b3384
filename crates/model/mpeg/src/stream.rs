//! Real MPEG-2 transport streams as traffic: carried over UDP or in ATM cells, and judged.
//!
//! A [`TransportStream`] is the packets of a file with the times that its clock references give them. They go into UDP
//! datagrams on any path, or into the cells of AAL5 or AAL1 where the medium carries those. A [`Keeper`](keeper::Keeper) has
//! what arrives, and makes a stream of it when the network has run. [`mux`] makes one stream of two programmes and takes it
//! apart again. A [`Model`] makes the bytes of a modelled source, and a [`Recovery`] is the receiver's phase-locked loop.

mod assessment;
mod cells;
mod keeper;
mod kind;
mod model;
pub mod mux;
mod recovery;
mod sent;
mod sizes;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod transport;

use std::path::PathBuf;

use bentpipe_units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use cells::{Received, Stats};
pub use model::Model;
pub use recovery::{Recovered, Recovery};
pub use transport::{ClockJitter, MAX_LEN, TransportStream, Unreadable};

/// Real MPEG-2 transport stream: carried, received, decoded with ffmpeg, compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Stream {
    /// A file of 188-byte packets; a relative path starts at the scenario file's folder. Without it, ffmpeg makes a test
    /// card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Test card to generate, without a file.
    #[serde(default)]
    pub card: Card,
    /// Modelled stream, in place of a file or a test card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// Clock recovery of the receiver, whose lock time and jitter are measured. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// Carriage: UDP on any path, or cells on a link that is a virtual channel.
    #[serde(default)]
    pub adaptation: Adaptation,
    /// Number of transport stream packets per datagram or AAL5 PDU. Default: 7 in a datagram, 2 in a PDU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 300))]
    pub ts_packets: Option<u16>,
    /// Misinserted cells of other connections at the receiver, per cell of this one.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub misinsertion: f64,
    /// Enables delivery of PDUs with a wrong CRC, if they have the right length.
    #[serde(default)]
    pub deliver_errored: bool,
}

impl Stream {
    /// Creates the default: a test card over UDP.
    pub fn new() -> Stream {
        Stream {
            file: None,
            card: Card::default(),
            model: None,
            recovery: None,
            adaptation: Adaptation::default(),
            ts_packets: None,
            misinsertion: 0.0,
            deliver_errored: false,
        }
    }

    /// Returns the number of transport stream packets in a datagram or PDU.
    pub const fn packets(&self) -> u16 {
        match (self.ts_packets, self.adaptation) {
            (Some(packets), _) => packets,
            (None, Adaptation::Udp) => 7,
            (None, _) => 2,
        }
    }
}

impl Default for Stream {
    fn default() -> Stream {
        Stream::new()
    }
}

/// Carriage of a transport stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Adaptation {
    /// UDP: some packets in a datagram, lost as a whole if damaged.
    #[default]
    Udp,
    /// AAL5: some packets in a PDU with CRC, lost as a whole if damaged.
    Aal5,
    /// AAL1 without error correction: a packet in four cells, lost cells found by their numbers.
    Aal1,
    /// AAL1 with its Reed-Solomon code and interleaver: four lost cells of 128 are repaired.
    Aal1Fec,
}

impl Adaptation {
    /// Returns the name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Adaptation::Udp => "udp",
            Adaptation::Aal5 => "aal5",
            Adaptation::Aal1 => "aal1",
            Adaptation::Aal1Fec => "aal1-fec",
        }
    }
}

/// A moving test card with sound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Card {
    /// Width in pixels, even.
    #[schemars(range(min = 64, max = 1920))]
    pub width: u32,
    /// Height in pixels, even.
    #[schemars(range(min = 64, max = 1088))]
    pub height: u32,
    /// Duration.
    pub length: Span,
    /// The constant rate of each transport stream.
    pub rate: Rate,
    /// Number of views: one, or the left and the right eye in two multiplexed streams.
    #[schemars(range(min = 1, max = 2))]
    pub eyes: u8,
    /// Arrangement of both eyes in one picture, coded in one stream, in place of two. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame: Option<FramePacking>,
}

/// Arrangement of the left and the right eye in one picture (frame-compatible stereo).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum FramePacking {
    /// Left eye in the left half, each with half of its columns.
    SideBySide,
    /// Left eye in the upper half, each with half of its lines.
    TopAndBottom,
}

impl Default for Card {
    fn default() -> Card {
        let (length, rate) = (Span::from_secs(4), Rate::from_bps(4_000_000));
        Card { width: 640, height: 360, length, rate, eyes: 1, frame: None }
    }
}

impl Card {
    /// Returns the number of transport streams.
    pub fn streams(&self) -> u8 {
        if self.frame.is_some() { 1 } else { self.eyes }
    }

    /// Returns the key of an invalid value, with the expected one.
    pub fn problem(&self) -> Option<(&'static str, &'static str)> {
        let is_even = |size: u32| size.is_multiple_of(2);
        let has_halves = match self.frame {
            None => true,
            Some(FramePacking::SideBySide) => self.width.is_multiple_of(4),
            Some(FramePacking::TopAndBottom) => self.height.is_multiple_of(4),
        };
        let length_fits = (Span::from_millis(500)..=Span::from_secs(60)).contains(&self.length);
        let rate_fits = (800_000..=50_000_000).contains(&self.rate.as_bps());
        [
            (is_even(self.width), "width", "an even number"),
            (is_even(self.height), "height", "an even number"),
            (self.frame.is_none() || self.eyes == 2, "frame", "none, or `eyes` of 2"),
            (has_halves, "frame", "halves of an even size: a multiple of 4 pixels"),
            (length_fits, "length", "from \"500 ms\" to \"60 s\""),
            (rate_fits, "rate", "from \"800 kbit/s\" to \"50 Mbit/s\""),
        ]
        .into_iter()
        .find_map(|(holds, key, expected)| (!holds).then_some((key, expected)))
    }
}
