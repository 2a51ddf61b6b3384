//! The ATM network of a scenario: switches, lines, and streams of cells that nobody reads.

pub use bentpipe_net::atm::fault::Config as CellFault;
pub use bentpipe_net::atm::receive::Config as ReceiveBuffer;
pub use bentpipe_net::atm::switch::Config as AtmSwitch;
pub use bentpipe_net::atm::vsvd::Config as VirtualSource;
pub use bentpipe_net::atm::{Encapsulation, Service};
use bentpipe_net::video::RateConfig;
use bentpipe_units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::named::Named;

/// A network of ATM switches. Links with `vc` and streams are led through it, over the lines of least delay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Atm {
    /// Switches.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub switch: Named<AtmSwitch>,
    /// Virtual sources and destinations (VS/VD): boxes between two lines, where ABR's loops end and new ones begin.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub vs_vd: Named<VirtualSource>,
    /// Lines of cells between switches, or between a node and a switch; a box takes the place of either.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub line: Named<AtmLine>,
    /// Cells from one node to another that carry no packets: other traffic, such as video.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub stream: Named<AtmStream>,
}

impl Atm {
    /// Whether cells pass what has this name, as no node lets them pass.
    pub(crate) fn passes(&self, name: &str) -> bool {
        self.switch.contains_key(name) || self.vs_vd.contains_key(name)
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Atm::default()
    }
}

/// A line of cells, the same in both directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AtmLine {
    /// The two switches, or the node and the switch; or a box of `vs_vd` for one of them.
    #[schemars(length(min = 2, max = 2))]
    pub between: [String; 2],
    /// Line rate.
    pub rate: Rate,
    /// Whether the rate is that of an SDH or SONET line, of which cells get 260 of 270 columns: 149.76 of 155.52 Mbit/s.
    /// Otherwise all of it is the cells'.
    #[serde(default)]
    pub sdh: bool,
    /// One-way propagation delay.
    #[serde(default)]
    pub delay: Span,
    /// What happens to cells, the same in both directions: loss, bit errors, misinsertion, delay variation. Without it,
    /// nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<CellChannel>,
}

/// What happens to cells: one fault, or several one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CellChannel {
    /// One fault.
    One(CellFault),
    /// Several, in the order that cells meet them.
    Several(Vec<CellFault>),
}

impl CellChannel {
    /// The faults in the order that cells meet them.
    pub fn faults(&self) -> &[CellFault] {
        match self {
            CellChannel::One(fault) => std::slice::from_ref(fault),
            CellChannel::Several(faults) => faults,
        }
    }
}

impl AtmLine {
    /// The rate that cells get.
    pub fn cell_rate(&self) -> Rate {
        super::elements::Framing::Aal5LlcSnap { sdh: self.sdh }.usable(self.rate)
    }
}

/// What a virtual channel is given, in each of its directions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VirtualChannel {
    /// The service category. Unspecified bit rate if it is not said.
    pub service: Service,
    /// How packets are put into AAL5.
    pub encapsulation: Encapsulation,
    /// How many cells may wait at each end to be sent; a packet beyond is dropped. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// How fast the host at each end takes what it receives, and how many cells may wait for it. Default: at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive: Option<ReceiveBuffer>,
}

/// Cells on a channel of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AtmStream {
    /// The node that sends.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// The service category: not ABR. Variable bit rate if it is not said.
    #[serde(default = "variable")]
    pub service: Service,
    /// At what rate cells are sent.
    pub source: CellSource,
}

fn variable() -> Service {
    Service::Vbr { pcr: None }
}

/// The rate of a stream of cells, their headers included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum CellSource {
    /// Always the same.
    Constant {
        /// The rate.
        rate: Rate,
    },
    /// A rate and silence in turn.
    OnOff {
        /// The rate while it is on.
        rate: Rate,
        /// How long it is on.
        on: Span,
        /// How long it is off, afterwards.
        off: Span,
    },
    /// MPEG-2 transport streams (ATM Forum 97-0177), each sending by itself.
    Video(RateConfig),
}
