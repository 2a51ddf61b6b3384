//! Traffic of SIP and IAX2 calls.

use bentpipe_net::InvalidConfig;
use bentpipe_site::{End, FlowAt, FlowEnds, FlowGround, FlowTakes, Problem, TrafficKind};
use bentpipe_wire::ip::Protocol as Transport;

use crate::config::Calls;
use crate::protocol::{Iax, Phone, Protocol, Sip};
use crate::{Callee, Caller, Config, IaxConfig};

impl TrafficKind for Config {
    fn takes(&self) -> FlowTakes {
        FlowTakes { answers: true, ..FlowTakes::default() }
    }

    fn plan(&self, at: &FlowAt<'_>, ground: &mut FlowGround<'_, '_>) -> Result<FlowEnds, Problem> {
        let phones = self.pabx.as_ref().map(|line| Ok((line, line.phones(at, ground)?))).transpose()?;
        let [caller, callee] = match phones {
            None => [None, None],
            Some((line, phones)) => {
                let dials = Some(line.dial.clone());
                let [of_caller, of_callee] = phones.passwords;
                let (exchange, number) = (phones.caller_at, line.number.clone());
                let caller = Phone { exchange, number, dials, password: of_caller };
                let (exchange, number) = (phones.callee_at, phones.callee);
                let callee = Phone { exchange, number, dials: None, password: of_callee };
                [Some(caller), Some(callee)]
            }
        };
        let settings = [self.settings(caller), self.settings(callee)];
        plan::<Sip>((at, ground), &self.calls(), settings, self.ensure())
    }
}

impl TrafficKind for IaxConfig {
    fn takes(&self) -> FlowTakes {
        FlowTakes { answers: true, ..FlowTakes::default() }
    }

    fn plan(&self, at: &FlowAt<'_>, ground: &mut FlowGround<'_, '_>) -> Result<FlowEnds, Problem> {
        plan::<Iax>((at, ground), &self.calls(), [self.settings(); 2], self.ensure())
    }
}

/// Creates both ends of a flow.
fn plan<P: Protocol>(
    (at, ground): (&FlowAt<'_>, &mut FlowGround<'_, '_>),
    calls: &Calls,
    [of_caller, of_callee]: [P::Settings; 2],
    checked: Result<(), InvalidConfig>,
) -> Result<FlowEnds, Problem> {
    let pair = ground.pair(at, Transport::UDP)?;
    let caller = checked
        .and_then(|()| Caller::<P>::new(calls, of_caller, (pair.local, pair.remote), at.start, at.stop));
    let caller = caller.map_err(|error| at.impossible("", &error))?;
    let callee = Callee::<P>::new(calls, of_callee, pair.remote);
    Ok(FlowEnds {
        sender: End::of_calls(caller, pair.sender),
        receivers: vec![End::new(callee, pair.receiver)],
        judges: Vec::new(),
    })
}
