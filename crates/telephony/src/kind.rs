//! Traffic of SIP calls.

use bentpipe_site::{End, FlowAt, FlowEnds, FlowGround, FlowTakes, Problem, TrafficKind};
use bentpipe_wire::ip::Protocol;

use crate::{Callee, Caller, Config};

impl TrafficKind for Config {
    fn takes(&self) -> FlowTakes {
        FlowTakes { answers: true, ..FlowTakes::default() }
    }

    fn plan(&self, at: &FlowAt<'_>, ground: &mut FlowGround<'_, '_>) -> Result<FlowEnds, Problem> {
        let pair = ground.pair(at, Protocol::UDP)?;
        let caller = Caller::new(self, (pair.local, pair.remote), at.start, at.stop);
        let caller = caller.map_err(|error| at.impossible("", &error))?;
        Ok(FlowEnds {
            sender: End::new(caller, pair.sender),
            receivers: vec![End::new(Callee::new(self, pair.remote), pair.receiver)],
            judge: None,
        })
    }
}
