//! Traffic of a capture file's packets.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bentpipe_dvb::Rohc;
use bentpipe_site::{
    Copies, End, FlowAt, FlowEnds, FlowGround, FlowTakes, Opened, Problem, Recorded, TrafficKind,
};
use bentpipe_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::both::Both;
use super::capture::{self, Captured};
use super::direction::Direction;
use super::{Replay, ReplaySink};

/// A capture file whose packets are sent again, with their spacing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct ReplayConfig {
    /// A pcap or pcapng file; a relative path starts at the scenario file's folder.
    pub file: PathBuf,
    /// Packets that are sent: "data", "both", "all", or those from a source address. Default: "data".
    ///
    /// With "data", of each two addresses the direction with more bytes is sent, and the other one is left out; with "both" the receiver sends
    /// it, at the times of the capture. An address is at one end then, and packets for it are sent by the other. With "all" the sender sends both.
    #[serde(default)]
    #[schemars(with = "String")]
    pub direction: Direction,
    /// Number of repetitions in succession.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000000))]
    pub times: u32,
    /// Header compression of the capture, whose records are ROHC packets. Default: they are IP packets.
    ///
    /// The IP packets are sent that a decompressor of these settings restores. `bentpipe rohc compress` writes such captures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rohc: Option<Rohc>,
}

const fn one() -> u32 {
    1
}

impl ReplayConfig {
    /// Returns the packets of the file, which flows with the same settings have in common.
    fn captured(&self, ground: &FlowGround<'_, '_>) -> Result<Arc<Captured>, String> {
        let made = ground.common(&format!("{self:?}"), &mut || {
            let opened = ground.open(&self.file)?;
            let captured = capture::read(opened, self.times, &self.direction, self.rohc.as_ref())?;
            Ok(Arc::new(captured))
        })?;
        // The key has the name of the type.
        made.downcast().map_err(|_| "another kind of traffic has its key".to_owned())
    }
}

impl TrafficKind for ReplayConfig {
    fn takes(&self) -> FlowTakes {
        FlowTakes { copies: Copies::None, ..FlowTakes::default() }
    }

    fn recorded(
        &self,
        open: &mut dyn FnMut(&Path) -> Result<Opened, String>,
        until: Span,
    ) -> Option<Result<Recorded, String>> {
        let mut open = || open(&self.file);
        let how = (self.times, &self.direction);
        Some(capture::recorded(&mut open, how, self.rohc.as_ref(), until))
    }

    /// Plans the replay. Packets pass from node to node with any addresses: the nodes of the path get routes
    /// for them.
    fn plan(&self, at: &FlowAt<'_>, ground: &mut FlowGround<'_, '_>) -> Result<FlowEnds, Problem> {
        let key = at.key("traffic.file");
        let checked = self.rohc.as_ref().map_or(Ok(()), Rohc::check);
        checked.map_err(|error| Problem::impossible(&at.key("traffic.rohc"), &error))?;
        let captured = self.captured(ground).map_err(|problem| Problem::new(&key, problem))?;
        let Captured { halves: [there, back], left_out } = &*captured;
        // What the capture has behind the flow's stop is not offered.
        let lasts = at.stop.map_or(Span::MAX, |stop| stop.saturating_sub(at.start));
        let [sent, answers] = [there, back].map(|half| half.within(lasts));
        for address in &there.destinations {
            ground.lead(at, *address)?;
        }
        for address in &back.destinations {
            ground.lead_back(at, *address)?;
        }
        let (from, to) = (at.from, at.receivers[0]);
        let [sender_port, receiver_port] = [from, to].map(|node| ground.nodes().node(node).add_endpoint());
        // Several captures may arrive at one node, with the same addresses and ports.
        let account = ground.nodes().node(from).account_of(sender_port);
        ground.nodes().node(to).bind_account(receiver_port, account);
        ground.nodes().node(to).bind_rest(receiver_port);
        let impossible = |error| Problem::impossible(&key, &error);
        let sender = Replay::new(sent, at.start).map_err(impossible)?.leaving_out(*left_out);
        let receiver = ReplaySink::of(&sender);
        let (sender, receiver) = (((from, sender_port), sender), ((to, receiver_port), receiver));
        if answers.is_empty() {
            let [sender, receivers] = [End::new(sender.1, sender.0), End::new(receiver.1, receiver.0)];
            return Ok(FlowEnds { sender, receivers: vec![receivers], judges: Vec::new() });
        }
        let account = ground.nodes().node(to).account_of(receiver_port);
        ground.nodes().node(from).bind_account(sender_port, account);
        ground.nodes().node(from).bind_rest(sender_port);
        let answers = Replay::new(answers, at.start).map_err(impossible)?;
        let answered = ReplaySink::of(&answers);
        Ok(FlowEnds {
            sender: End::new(Both::new(sender.1, answered), sender.0),
            receivers: vec![End::new(Both::new(answers, receiver.1), receiver.0)],
            judges: Vec::new(),
        })
    }
}
