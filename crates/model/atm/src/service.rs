//! Service of a virtual channel: its category and its traffic.

use bentpipe_units::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::erica::Guarantee;
use super::{abr, line};

/// Service category of a virtual channel, with the source's rate (ATM Forum Traffic Management 4.0).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Service {
    /// Constant bit rate: served before all others.
    Cbr {
        /// Peak cell rate, of cells with their headers. Default: the rate of the line.
        #[serde(default)]
        pcr: Option<Rate>,
    },
    /// Variable bit rate: served after CBR and before ABR.
    Vbr {
        /// Peak cell rate, of cells with their headers. Default: the rate of the line.
        #[serde(default)]
        pcr: Option<Rate>,
    },
    /// Available bit rate: the network says how fast.
    Abr(abr::Config),
    /// Unspecified bit rate: capacity left by the other categories.
    Ubr {
        /// Peak cell rate, of cells with their headers. Default: the rate of the line.
        #[serde(default)]
        pcr: Option<Rate>,
    },
}

impl Service {
    /// Returns the category.
    pub const fn class(&self) -> Class {
        match self {
            Service::Cbr { .. } => Class::Cbr,
            Service::Vbr { .. } => Class::Vbr,
            Service::Abr(_) => Class::Abr,
            Service::Ubr { .. } => Class::Ubr,
        }
    }

    /// Returns the rate that the network guarantees: that of CBR, or the minimum of ABR.
    pub fn guaranteed(&self) -> Rate {
        match self {
            Service::Cbr { pcr } => pcr.unwrap_or_default(),
            Service::Abr(abr) => abr.mcr,
            Service::Vbr { .. } | Service::Ubr { .. } => Rate::default(),
        }
    }

    /// Returns the minimum rate and weight that switches share out capacity by.
    pub fn guarantee(&self) -> Guarantee {
        match self {
            Service::Abr(abr) => Guarantee { mcr: line::cells_per_second(abr.mcr), weight: abr.weight },
            _ => Guarantee::NONE,
        }
    }
}

impl Default for Service {
    fn default() -> Service {
        Service::Ubr { pcr: None }
    }
}

/// A service category, in the order that a switch serves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Constant bit rate.
    Cbr,
    /// Variable bit rate.
    Vbr,
    /// Available bit rate.
    Abr,
    /// Unspecified bit rate.
    Ubr,
}

impl Class {
    /// Categories in the order in which they are served.
    pub const ALL: [Class; 4] = [Class::Cbr, Class::Vbr, Class::Abr, Class::Ubr];
}

/// Encapsulation of a packet in an AAL5 PDU (RFC 2684).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Encapsulation {
    /// LLC/SNAP header, 8 bytes.
    #[default]
    LlcSnap,
    /// VC multiplexing: no header, one protocol per channel.
    VcMux,
}

/// Traffic of one end of a channel.
#[derive(Default)]
pub enum Content {
    /// Packets in AAL5.
    Packets(Encapsulation),
    /// Packets of 48 bytes, each a cell's payload: another adaptation layer makes them.
    Payloads,
    /// ATM cells: packets of a mark and a cell's payload. The mark is 1 in the last cell of a PDU.
    Cells,
    /// Cells without a receiver, evenly spaced at rates that hold for a time each. Each item is one source.
    Streams(Vec<Rates>),
    /// Receiver only: arriving cells are counted.
    #[default]
    Sink,
}

/// Sequence of times and rates of a source, of cells with their headers. The source falls silent at the end.
pub type Rates = Box<dyn Iterator<Item = (bentpipe_units::Span, Rate)> + Send>;
