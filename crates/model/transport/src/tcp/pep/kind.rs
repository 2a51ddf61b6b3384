//! Role `pep` of a node.

use bentpipe_cc::ControllerConfig;
use bentpipe_net::Element;
use bentpipe_net::node::Divert;
use bentpipe_site::{Changes, Ground, Problem, Review, RoleAt, RoleHandle, RoleKind};
use bentpipe_units::{Bytes, Rate};
use bentpipe_wire::ip::Protocol;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NODE, Pep, PepConfig, PepState};
use crate::tcp::config::Config;

/// Performance-enhancing proxy that splits TCP connections (RFC 3135).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Kind {
    /// Link to the satellite. Connections of hosts whose packets arrive there with all others are split.
    pub link: String,
    /// TCP over the satellite.
    #[serde(default)]
    pub satellite: Box<Config>,
    /// TCP on the ground.
    #[serde(default)]
    pub ground: Box<Config>,
    /// Answer to a client. Default: "at-once".
    #[serde(default)]
    pub answer: Answer,
    /// Maximum number of split connections; more are forwarded as they are. Default: 2112.
    #[serde(default = "connections")]
    #[schemars(range(min = 1, max = 100_000))]
    pub connections: u32,
    /// State of the proxy. Default: "on".
    #[serde(default)]
    #[schemars(extend("x-change" = true))]
    pub state: PepState,
}

/// Answer of a proxy to a client's SYN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "PepAnswer")]
pub enum Answer {
    /// SYN-ACK before the server has answered. A client may write to a server that refuses.
    #[default]
    AtOnce,
    /// SYN-ACK after the server has answered.
    AfterServer,
}

const fn connections() -> u32 {
    2112
}

impl RoleKind for Kind {
    type Shared = ();

    fn check(&self, at: &RoleAt<'_>, (): &(), review: &mut Review<'_>) {
        let problem = "a host forwards no packets: expected a proxy at a router or satellite";
        review.ensure(at.forwards, &at.key, problem);
        if !at.links.contains(&self.link.as_str()) {
            review.refuse_name(&at.links, "link of this node", &format!("{}.link", at.key), &self.link);
        }
        for (side, config) in [("satellite", &self.satellite), ("ground", &self.ground)] {
            if let Err(error) = config.check() {
                review.ensure(false, &format!("{}.{side}", at.key), error.to_string());
            }
        }
    }

    fn plan(&self, (): &(), ground: &mut Ground<'_, '_>) -> Result<Box<dyn Element>, Problem> {
        let node = ground.divert(Divert { protocol: Some(Protocol::TCP), ..Divert::default() });
        debug_assert_eq!(node, NODE);
        let behind = ground.behind(&self.link)?;
        let mtu = |mtu: u64| (mtu < u64::MAX).then_some(Bytes::new(mtu));
        let config = PepConfig {
            satellite: (*self.satellite).clone(),
            ground: (*self.ground).clone(),
            answers_at_once: self.answer == Answer::AtOnce,
            satellite_mtu: mtu(behind.mtu),
            ground_mtu: mtu(behind.mtu_of_others),
            connections: self.connections as usize,
            half_open: None,
            idle: None,
            memory: None,
            behind_satellite: behind.addresses.into_iter().collect(),
            own: ground.addresses(ground.name()).into_iter().flatten().collect(),
            state: self.state,
        };
        let pep = Pep::new(config).map_err(|error| Problem::impossible(ground.key(), &error))?;
        Ok(Box::new(pep))
    }

    fn splits_at(&self) -> Option<&str> {
        (self.state == PepState::On).then_some(&self.link)
    }

    fn split_rate(&self) -> Option<Rate> {
        let rate = |config: &Config| match &config.controller {
            ControllerConfig::Fixed(fixed) => Some(fixed.rate),
            _ => None,
        };
        [rate(&self.satellite), rate(&self.ground)].into_iter().flatten().min()
    }

    fn change(&self, after: &Kind, at: &RoleHandle, to: &mut Changes) -> Result<(), Problem> {
        if (Kind { state: after.state, ..self.clone() }) != *after {
            let problem = "cannot be changed while it runs: expected another value of `state` alone";
            return Err(Problem::new(at.key.as_str(), problem));
        }
        to.set(at.element, format!("{}.state", at.key), after.state, |pep: &mut Pep, _, state| {
            pep.set_state(state);
            Ok(())
        });
        Ok(())
    }
}
