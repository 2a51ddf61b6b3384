//! Traffic of a capture file's packets.

use std::path::{Path, PathBuf};

use bentpipe_site::{
    Copies, End, FlowAt, FlowEnds, FlowGround, FlowTakes, Opened, Problem, Recorded, TrafficKind,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::capture;
use super::{Replay, ReplaySink};

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

    fn recorded(
        &self,
        open: &mut dyn FnMut(&Path) -> Result<Opened, String>,
    ) -> Option<Result<Recorded, String>> {
        Some(open(&self.file).and_then(|opened| capture::recorded(opened, self.times)))
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
        // Several captures may arrive at one node, with the same addresses and ports.
        let account = ground.nodes().node(from).account_of(sender_port);
        ground.nodes().node(to).bind_account(receiver_port, account);
        ground.nodes().node(to).bind_rest(receiver_port);
        let sender = Replay::new(captured.packets, at.start);
        let sender = sender.map_err(|error| Problem::impossible(&key, &error))?;
        let receiver = ReplaySink::of(&sender);
        Ok(FlowEnds {
            sender: End::new(sender, (from, sender_port)),
            receivers: vec![End::new(receiver, (to, receiver_port))],
            judges: Vec::new(),
        })
    }
}
