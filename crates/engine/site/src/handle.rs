//! Numbered elements of a direction of a link.

use bentpipe_net::Port;
use bentpipe_sim::ElementId;
use bentpipe_units::{Rate, Span};

use crate::{Installed, Part, Way};

/// Direction of a link, with its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkHandle {
    /// Number of the link.
    pub link: usize,
    /// Name of the link.
    pub name: String,
    /// Direction.
    pub way: Way,
    /// Name of the node that sends into it.
    pub from: String,
    /// Name of the node that receives from it.
    pub to: String,
    /// Input for packets.
    pub input: (ElementId, Port),
    /// Output of packets.
    pub output: (ElementId, Port),
    /// Stages, the nearest to the medium first.
    pub stages: Vec<StageHandle>,
    /// Line, or the sending end of the medium; of a shared medium all of it.
    pub line: ElementId,
    /// Input and output of `line` that this direction has.
    pub port: Port,
    /// Set if `line` reports counters under the direction's path.
    pub is_observed: bool,
    /// Faults, in the order that packets meet them.
    pub channels: Vec<ElementId>,
    /// Receiving end of the medium.
    pub receiver: Option<ElementId>,
    /// Line rate, or the medium's equivalent.
    pub rate: Rate,
    /// Nominal delay.
    pub delay: Span,
}

impl LinkHandle {
    /// Returns the path of its counters: "link/satellite/forward".
    pub fn path(&self) -> String {
        format!("link/{}/{}", self.name, self.way.name())
    }
}

/// Installed stage; `E` numbers elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageHandle<E = ElementId> {
    /// Row of its kind.
    pub row: usize,
    /// Element in front of the medium.
    pub front: E,
    /// Partner behind the medium.
    pub behind: Option<E>,
}

impl StageHandle<Part> {
    /// Returns the stage with the numbers of its elements.
    pub fn numbered(self, installed: &Installed) -> StageHandle {
        let StageHandle { row, front, behind } = self;
        let behind = behind.map(|part| installed.element(part));
        StageHandle { row, front: installed.element(front), behind }
    }
}
