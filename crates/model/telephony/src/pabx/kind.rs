//! Role `pabx`, and phones that call by way of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bentpipe_net::Element;
use bentpipe_site::{CallReader, FlowAt, FlowGround, Ground, IpVersion, Problem, Review, RoleAt, RoleKind};
use bentpipe_wire::ip::Protocol;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::element::{IAX, IAX_PORT, Pabx, RTP, SIP, SIP_PORT};
use super::media::RTP_PORT;
use super::number::Pattern;
use super::plan::{Exchange, Exchanges, MAX_HOPS, Rule, Step, TrunkProtocol};

/// Word of the role.
const ROLE: &str = "pabx";
/// UDP ports for relayed RTP: a pair for each leg.
const VOICE_PORTS: u16 = 4096;

/// Exchange of a site (PABX), whose dial plan is `[pabx.NODE]`: registrar, back-to-back user agent, trunks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline, rename = "PabxRole")]
pub struct Kind {}

impl RoleKind for Kind {
    type Shared = Exchanges;

    fn check(&self, at: &RoleAt<'_>, exchanges: &Exchanges, review: &mut Review<'_>) {
        let problem = format!("has no dial plan: expected a table `[pabx.{}]`", at.node);
        review.ensure(exchanges.0.contains_key(at.node), &at.key, problem);
    }

    fn plan(&self, exchanges: &Exchanges, ground: &mut Ground<'_, '_>) -> Result<Box<dyn Element>, Problem> {
        let name = ground.name();
        // A copy of a node has a name of its own, which no table has.
        let exchange = exchanges.0.get(name).cloned().ok_or_else(|| {
            Problem::new(
                ground.key(),
                "has no dial plan of its own: an exchange is one node, without `count`",
            )
        })?;
        let ports = [ground.bind_at(Protocol::UDP, SIP_PORT)?, ground.bind_at(Protocol::UDP, IAX_PORT)?];
        debug_assert_eq!(ports, [SIP, IAX]);
        let is_sip = |rule: &Rule| rule.protocol == TrunkProtocol::Sip;
        let is_called = |other: &Exchange| other.dial.iter().any(|rule| is_sip(rule) && rule.trunk == *name);
        if exchange.dial.iter().any(is_sip) || exchanges.0.values().any(is_called) {
            let port = ground.bind_at(Protocol::UDP, RTP_PORT)?;
            debug_assert_eq!(port, RTP);
        }
        let (voice, first) = ground.bind(Protocol::UDP, VOICE_PORTS)?;
        [SIP, IAX, RTP].into_iter().chain([voice]).for_each(|port| ground.fragment(port));
        ground.advertise(IpVersion::V4);
        let mut trunks = BTreeMap::new();
        for rule in &exchange.dial {
            ground.reach(&rule.trunk, IpVersion::V4)?;
            ground.set_path_mtus(&rule.trunk, IpVersion::V4);
            let addresses = ground.addresses(&rule.trunk);
            trunks.extend(addresses.map(|[v4, _]| (rule.trunk.clone(), v4)));
        }
        // Exchanges that call over SIP have no number here, and so no password.
        let callers = exchanges.0.iter().filter(|(_, other)| is_called(other));
        let trusted = callers.filter_map(|(other, _)| ground.addresses(other).map(|[v4, _]| v4)).collect();
        let [local, _] =
            ground.addresses(name).ok_or_else(|| Problem::new(ground.key(), "has no address"))?;
        let mut pabx = Pabx::new(exchange, local, trunks).with_trusted(trusted);
        for (from, other) in &exchanges.0 {
            for conference in &other.conferences {
                let way = exchanges.link_of(from, conference);
                let here = way.iter().flat_map(|way| &way.steps).filter(|(at, _)| *at == name);
                here.for_each(|(_, dialled)| pabx.add_relayed(&conference.number, dialled));
            }
        }
        Ok(Box::new(pabx.with_voice(voice, (first, VOICE_PORTS))))
    }

    fn calls(&self) -> Option<CallReader> {
        Some(CallReader::of::<Pabx>())
    }
}

/// Phones at exchanges, in place of two hosts that call each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PabxLine")]
pub struct Line {
    /// Exchange of the caller: a node with the role `pabx`.
    pub at: String,
    /// Number of the caller.
    pub number: String,
    /// Number that the caller dials. The receiver of the flow registers as what the dial plans make of it.
    ///
    /// If that is a conference, the receiver is the node of its exchange.
    pub dial: String,
    /// Password of the caller. Default: that of the exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
}

/// Both phones of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Phones {
    /// Exchange of the caller.
    pub(crate) caller_at: SocketAddr,
    /// Exchange and number of the callee. None: a conference.
    pub(crate) callee_at: SocketAddr,
    pub(crate) callee: Option<String>,
    /// Passwords of caller and callee.
    pub(crate) passwords: [Option<String>; 2],
}

impl Line {
    /// Returns both phones of a flow, the callee's by the dial plans.
    ///
    /// # Errors
    /// Returns an error if an exchange or the number does not exist, or the number is another flow's.
    pub(crate) fn phones(
        &self,
        at: &FlowAt<'_>,
        ground: &mut FlowGround<'_, '_>,
        has_voice: bool,
    ) -> Result<Phones, Problem> {
        let key = |key: &str| at.key(&format!("traffic.pabx.{key}"));
        if at.ip != IpVersion::V4 {
            return Err(Problem::new(at.key("ip"), "exchanges have IPv4: expected 4"));
        }
        for (name, number) in [("number", &self.number), ("dial", &self.dial)] {
            let is_number =
                number.chars().all(|digit| digit.is_ascii_digit()) && Pattern::parse(number).is_ok();
            if !is_number {
                return Err(Problem::new(key(name), format!("expected 1 to 32 digits, got \"{number}\"")));
            }
        }
        let own = self.exchange(&self.at, &key("at"), ground)?;
        if own.exchange().step(&self.number) != Step::Extension {
            let patterns = own.exchange().extensions.join(", ");
            let problem = format!(
                "\"{}\" is not an extension of \"{}\": expected one of {patterns}",
                self.number, self.at
            );
            return Err(Problem::new(key("number"), problem));
        }
        own.add_caller(&self.number);
        let (mut exchange, mut number) = (self.at.clone(), self.dial.clone());
        for _ in 0..MAX_HOPS {
            let here = self.exchange(&exchange, &key("dial"), ground)?;
            if has_voice {
                here.add_relayed(&self.number, &number);
            }
            match here.exchange().step(&number) {
                Step::Conference(_) => {
                    self.ensure_conference(at, (&exchange, &number), has_voice, ground)?;
                    return self.placed(at, (&exchange, None), ground);
                }
                Step::Trunk { to, number: there, .. } => (exchange, number) = (to, there),
                Step::Extension => {
                    here.add_phone(&number, at.name).map_err(|flow| {
                        let problem =
                            format!("\"{number}\" is the phone of flow \"{flow}\": expected another number");
                        Problem::new(key("dial"), problem)
                    })?;
                    return self.placed(at, (&exchange, Some(number)), ground);
                }
                Step::Unknown => {
                    let patterns = here.exchange().patterns();
                    let problem =
                        format!("\"{exchange}\" does not know \"{number}\": expected one of {patterns}");
                    return Err(Problem::new(key("dial"), problem));
                }
            }
        }
        Err(Problem::new(key("dial"), "passes more than 64 exchanges"))
    }

    /// Refuses a call to a conference without voice, or with a receiver elsewhere.
    fn ensure_conference(
        &self,
        at: &FlowAt<'_>,
        (exchange, number): (&str, &str),
        has_voice: bool,
        ground: &FlowGround<'_, '_>,
    ) -> Result<(), Problem> {
        if !has_voice {
            let problem = format!(
                "\"{number}\" is a conference, and the caller has no voice: expected `media = {{ }}`"
            );
            return Err(Problem::new(at.key("traffic.media"), problem));
        }
        if at.receivers.first().copied() != ground.number(exchange) {
            let problem = format!("\"{number}\" is a conference of \"{exchange}\": expected that node");
            return Err(Problem::new(at.key("to"), problem));
        }
        Ok(())
    }

    fn placed(
        &self,
        at: &FlowAt<'_>,
        (exchange, callee): (&str, Option<String>),
        ground: &mut FlowGround<'_, '_>,
    ) -> Result<Phones, Problem> {
        let mut address = |name: &str| {
            let unknown = || Problem::new(at.key("traffic.pabx.at"), format!("unknown node \"{name}\""));
            let node = ground.number(name).ok_or_else(unknown)?;
            ground.nodes().send_to(node, at.ip);
            Ok(SocketAddr::new(ground.nodes().address(node, at.ip), SIP_PORT))
        };
        let [caller_at, callee_at] = [address(&self.at)?, address(exchange)?];
        for (phone, exchange) in [(Some(&at.from), &self.at[..]), (at.receivers.first(), exchange)] {
            if let (Some(phone), Some(exchange)) = (phone, ground.number(exchange)) {
                ground.set_path_mtus([*phone, exchange], at.ip);
            }
        }
        let mut password = |name: &str| -> Result<Option<String>, Problem> {
            let pabx = self.exchange(name, &at.key("traffic.pabx.at"), ground)?;
            Ok(pabx.exchange().digest.as_ref().map(|digest| digest.password.clone()))
        };
        let (of_caller, of_callee) = (password(&self.at)?, password(exchange)?);
        let passwords = [self.password.clone().or(of_caller), of_callee];
        Ok(Phones { caller_at, callee_at, callee, passwords })
    }

    fn exchange<'g>(
        &self,
        name: &str,
        key: &str,
        ground: &'g mut FlowGround<'_, '_>,
    ) -> Result<&'g mut Pabx, Problem> {
        let problem =
            format!("node \"{name}\" has no role \"{ROLE}\": expected `node.{name}.role` of that kind");
        let node = ground.number(name);
        let element = node.and_then(|node| ground.role(node, ROLE));
        let pabx = element.and_then(|element| element.as_any().downcast_mut::<Pabx>());
        pabx.ok_or_else(|| Problem::new(key, problem))
    }
}
