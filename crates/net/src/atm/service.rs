//! What a virtual channel is given: its service category and what it carries.

use bentpipe_units::Rate;

use super::abr;

/// A virtual channel's service category (ATM Forum Traffic Management 4.0), and the rate that its source keeps to.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)
)]
pub enum Service {
    /// Constant bit rate: served before all others.
    Cbr {
        /// Peak cell rate, of cells with their headers. Default: what the line has.
        #[cfg_attr(feature = "serde", serde(default))]
        pcr: Option<Rate>,
    },
    /// Variable bit rate: served after CBR and before ABR.
    Vbr {
        /// Peak cell rate, of cells with their headers. Default: what the line has.
        #[cfg_attr(feature = "serde", serde(default))]
        pcr: Option<Rate>,
    },
    /// Available bit rate: the network says how fast.
    Abr(abr::Config),
    /// Unspecified bit rate: what is left.
    Ubr {
        /// Peak cell rate, of cells with their headers. Default: what the line has.
        #[cfg_attr(feature = "serde", serde(default))]
        pcr: Option<Rate>,
    },
}

impl Service {
    /// Its category.
    pub const fn class(&self) -> Class {
        match self {
            Service::Cbr { .. } => Class::Cbr,
            Service::Vbr { .. } => Class::Vbr,
            Service::Abr(_) => Class::Abr,
            Service::Ubr { .. } => Class::Ubr,
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
    /// All of them, in their order.
    pub const ALL: [Class; 4] = [Class::Cbr, Class::Vbr, Class::Abr, Class::Ubr];
}

/// How a packet is put into an AAL5 PDU (RFC 2684).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Encapsulation {
    /// Behind LLC and SNAP, 8 bytes.
    #[default]
    LlcSnap,
    /// By itself: the channel carries one protocol.
    VcMux,
}

/// What an end of a channel sends and receives.
#[derive(Default)]
pub enum Content {
    /// Packets in AAL5.
    Packets(Encapsulation),
    /// Packets of 48 bytes, each a cell's payload: another adaptation layer makes them.
    Payloads,
    /// Cells that nobody reads, at rates that hold for a time each; evenly spaced. Each item is one source.
    Streams(Vec<Rates>),
    /// Nothing is sent, and what comes is counted.
    #[default]
    Sink,
}

/// For how long the source holds which rate, of cells with their headers, one after the other. At its end the source
/// falls silent.
pub type Rates = Box<dyn Iterator<Item = (bentpipe_units::Span, Rate)> + Send>;
