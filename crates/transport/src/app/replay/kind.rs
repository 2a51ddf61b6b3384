//! Traffic of a capture file's packets.

use std::path::PathBuf;

use bentpipe_site::{Copies, End, FlowAt, FlowEnds, FlowGround, FlowTakes, Problem, TrafficKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Replay;
use super::capture;
use crate::app::arrivals::Arrivals;

/// A capture file whose packets are sent again, with their spacing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct ReplayConfig {
    /// A pcap file; a relative path starts at the scenario file's folder.
    pub file: PathBuf,
    /// Number of repetitions in succession.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000000))]
    pub times: u32,
}

const fn one() -> u32 {
    1
}

impl TrafficKind for ReplayConfig {
    fn takes(&self) -> FlowTakes {
        FlowTakes { copies: Copies::None, ..FlowTakes::default() }
    }

    /// Plans the replay. Packets pass from node to node with any addresses: the nodes of the path get routes
    /// for them.
    fn plan(&self, at: &FlowAt<'_>, ground: &mut FlowGround<'_, '_>) -> Result<FlowEnds, Problem> {
        let key = at.key("traffic.file");
        let opened = ground.open(&self.file).map_err(|problem| Problem::new(&key, problem))?;
        let captured = capture::read(opened, self.times).map_err(|problem| Problem::new(&key, problem))?;
        for address in &captured.destinations {
            ground.lead(at, *address)?;
        }
        let (from, to) = (at.from, at.receivers[0]);
        let [sender_port, receiver_port] = [from, to].map(|node| ground.nodes().node(node).add_endpoint());
        ground.nodes().node(to).bind_rest(receiver_port);
        let sender = Replay::new(captured.packets, at.start);
        let sender = sender.map_err(|error| Problem::impossible(&key, &error))?;
        Ok(FlowEnds {
            sender: End::new(sender, (from, sender_port)),
            receivers: vec![End::new(Arrivals::new(), (to, receiver_port))],
            judges: Vec::new(),
        })
    }
}
