//! Traffic of SIP and IAX2 calls.

use bentpipe_net::InvalidConfig;
use bentpipe_site::{End, FlowAt, FlowEnds, FlowGround, FlowTakes, Problem, TrafficKind};
use bentpipe_wire::ip::Protocol as Transport;

use crate::config::Calls;
use crate::protocol::{Iax, Protocol, Sip};
use crate::{Callee, Caller, Config, IaxConfig};

impl TrafficKind for Config {
    fn takes(&self) -> FlowTakes {
        FlowTakes { answers: true, ..FlowTakes::default() }
    }

    fn plan(&self, at: &FlowAt<'_>, ground: &mut FlowGround<'_, '_>) -> Result<FlowEnds, Problem> {
        plan::<Sip>((at, ground), &self.calls(), self.settings(), self.ensure())
    }
}

impl TrafficKind for IaxConfig {
    fn takes(&self) -> FlowTakes {
        FlowTakes { answers: true, ..FlowTakes::default() }
    }

    fn plan(&self, at: &FlowAt<'_>, ground: &mut FlowGround<'_, '_>) -> Result<FlowEnds, Problem> {
        plan::<Iax>((at, ground), &self.calls(), self.settings(), self.ensure())
    }
}

/// Creates both ends of a flow.
fn plan<P: Protocol>(
    (at, ground): (&FlowAt<'_>, &mut FlowGround<'_, '_>),
    calls: &Calls,
    settings: P::Settings,
    checked: Result<(), InvalidConfig>,
) -> Result<FlowEnds, Problem> {
    let pair = ground.pair(at, Transport::UDP)?;
    let caller = checked.and_then(|()| {
        Caller::<P>::new(calls, settings.clone(), (pair.local, pair.remote), at.start, at.stop)
    });
    let caller = caller.map_err(|error| at.impossible("", &error))?;
    let callee = Callee::<P>::new(calls, settings, pair.remote);
    Ok(FlowEnds {
        sender: End::of_calls(caller, pair.sender),
        receivers: vec![End::new(callee, pair.receiver)],
        judges: Vec::new(),
    })
}
