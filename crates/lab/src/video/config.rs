//! What a scenario says of a transport stream.

use std::path::PathBuf;

use bentpipe_units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A real MPEG-2 transport stream in ATM cells over one link: carried, received, decoded with ffmpeg, compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// A file of 188-byte packets; a relative path starts at the scenario file's folder. Without it, ffmpeg makes a test
    /// card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The test card to make if there is no file.
    #[serde(default)]
    pub card: Card,
    /// What carries it in cells.
    #[serde(default)]
    pub adaptation: Adaptation,
    /// How many transport stream packets are in an AAL5 PDU: two fill eight cells.
    #[serde(default = "two")]
    #[schemars(range(min = 1, max = 300))]
    pub ts_packets: u16,
    /// How many cells of other connections reach the receiver for each cell of this one.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub misinsertion: f64,
    /// Whether PDUs whose CRC is wrong are passed on as they came, if they have the right length.
    #[serde(default)]
    pub deliver_errored: bool,
}

const fn two() -> u16 {
    2
}

impl Stream {
    /// A test card as by default, two packets in an AAL5 PDU.
    pub fn new() -> Stream {
        Stream {
            file: None,
            card: Card::default(),
            adaptation: Adaptation::default(),
            ts_packets: two(),
            misinsertion: 0.0,
            deliver_errored: false,
        }
    }
}

impl Default for Stream {
    fn default() -> Stream {
        Stream::new()
    }
}

/// How a transport stream is put into cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Adaptation {
    /// AAL5: some packets in a PDU with CRC; what is damaged is lost as a whole.
    #[default]
    Aal5,
    /// AAL1 without error correction: a packet in four cells, lost cells found by their numbers.
    Aal1,
    /// AAL1 with its Reed-Solomon code and interleaver: four lost cells of 128 are repaired.
    Aal1Fec,
}

impl Adaptation {
    /// As scenarios write it.
    pub const fn name(self) -> &'static str {
        match self {
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
    /// How long it is.
    pub length: Span,
    /// The constant rate of each transport stream.
    pub rate: Rate,
    /// One stream, or two, of the left and the right eye, multiplexed into one.
    #[schemars(range(min = 1, max = 2))]
    pub eyes: u8,
}

impl Default for Card {
    fn default() -> Card {
        let (length, rate) = (Span::from_secs(4), Rate::from_bps(4_000_000));
        Card { width: 640, height: 360, length, rate, eyes: 1 }
    }
}

impl Card {
    /// What is wrong with it: the key and what would be right.
    pub fn problem(&self) -> Option<(&'static str, &'static str)> {
        let is_even = |size: u32| size.is_multiple_of(2);
        let length_fits = (Span::from_millis(500)..=Span::from_secs(60)).contains(&self.length);
        let rate_fits = (800_000..=50_000_000).contains(&self.rate.as_bps());
        [
            (is_even(self.width), "width", "an even number"),
            (is_even(self.height), "height", "an even number"),
            (length_fits, "length", "from \"500 ms\" to \"60 s\""),
            (rate_fits, "rate", "from \"800 kbit/s\" to \"50 Mbit/s\""),
        ]
        .into_iter()
        .find_map(|(holds, key, expected)| (!holds).then_some((key, expected)))
    }
}
