//! Role `sensor-gateway` of a node, and traffic of queries.

use bentpipe_dtn::kind::endpoint;
use bentpipe_net::{Element, InvalidConfig};
use bentpipe_site::{
    Artefact, Attach, End, FlowAt, FlowEnds, FlowGround, FlowTakes, Ground, Problem, Review, RoleAt,
    RoleKind, TrafficKind,
};
use bentpipe_units::Span;
use bentpipe_wire::dtn::bundle::{Bundle, Payload, Primary, Timestamp};
use bentpipe_wire::dtn::eid::Eid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::element::{Collection, Console, Gateway, Log, Relay, Start, describe};
use crate::field::Fields;
use crate::message::Message;
use crate::query::Query;
use crate::samples::Samples;

/// Word of the role.
const ROLE: &str = "sensor-gateway";

/// Gateway of a sensor field: its base station, and the motes around it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Kind {
    /// Field: `[field.NAME]`.
    pub field: String,
    /// Query that the gateway runs from the start, in addition to those of flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Place where that query runs. Default: "in-network".
    #[serde(default)]
    pub collection: Collection,
}

impl RoleKind for Kind {
    type Shared = Fields;

    fn check(&self, at: &RoleAt<'_>, fields: &Fields, review: &mut Review<'_>) {
        review.ensure_named(&fields.0, "sensor field", &format!("{}.field", at.key), &self.field);
        if let (Some(field), Some(query)) = (fields.0.get(&self.field), &self.query)
            && let Err(error) = field.parse(query)
        {
            review.refuse(&format!("{}.query", at.key), error.to_string());
        }
    }

    fn plan(&self, fields: &Fields, ground: &mut Ground<'_, '_>) -> Result<Box<dyn Element>, Problem> {
        let start = self.query.clone().map(|text| Start { text, collection: self.collection });
        let field = fields.0[&self.field].clone();
        let samples = match &field.samples {
            Some(path) => {
                let wrong = |problem: String| Problem::new(format!("field.{}.samples", self.field), problem);
                let opened = ground.open(path).map_err(wrong)?;
                Some(Samples::read(opened.bytes, &opened.shown, field.layout.motes()).map_err(wrong)?)
            }
            None => None,
        };
        let mut gateway = Gateway::new(field, samples, start);
        if let Some(log) = gateway.record() {
            ground.leave(Artefact {
                file: format!("field-{}.pcap", self.field),
                taps: Vec::new(),
                write: Box::new(move |out| log.write_capture(out)),
            });
        }
        Ok(Box::new(gateway))
    }
}

/// Query to a sensor field as a bundle, with its rows as bundles.
///
/// The sender has the role `dtn`, the receiver the roles `dtn` and `sensor-gateway`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Queries {
    /// Query: `SELECT .. FROM sensors [WHERE ..] [GROUP BY ..] SAMPLE PERIOD .. [FOR ..]`.
    pub query: String,
    /// Place where the query runs. Default: "in-network".
    #[serde(default)]
    pub collection: Collection,
    /// Time for which rows are collected in one bundle. Default: 0 s, a bundle for the rows of an instant.
    #[serde(default)]
    pub collect: Span,
    /// Lifetime of bundles. Default: 1 d.
    #[serde(default = "day")]
    pub lifetime: Span,
}

/// Most queries of a field. Each takes some kilobytes before it is asked.
const MAX_QUERIES: u16 = 10_000;

const fn day() -> Span {
    Span::from_secs(86_400)
}

impl Queries {
    fn template(&self, [source, destination]: [Eid; 2]) -> Bundle {
        let lifetime = self.lifetime.as_nanos() / 1_000_000;
        let primary = Primary::new(source, destination, Timestamp::default(), lifetime);
        Bundle { primary, blocks: vec![], payload: Payload::elided(0) }
    }
}

impl TrafficKind for Queries {
    fn takes(&self) -> FlowTakes {
        FlowTakes::default()
    }

    fn check(&self, key: &str, review: &mut Review<'_>) {
        // The field has the columns of joined tables: `plan` looks at them.
        if let Err(error) = Query::parse_anywhere(&self.query) {
            review.refuse(&format!("{key}.query"), error.to_string());
        }
    }

    fn unknown_rate(&self) -> Option<&'static str> {
        Some("rows of sensors decide what it carries")
    }

    fn plan(&self, at: &FlowAt<'_>, ground: &mut FlowGround<'_, '_>) -> Result<FlowEnds, Problem> {
        let to = at.receivers[0];
        InvalidConfig::ensure(at.from != to, "to", "another node")
            .map_err(|error| at.impossible("", &error))?;
        let [own, other] = [ground.client(at, at.from, "dtn")?, ground.client(at, to, "dtn")?];
        let field = ground.client(at, to, ROLE)?;
        if field.port().0 >= MAX_QUERIES {
            return Err(Problem::new(
                at.key("count"),
                format!("expected at most {MAX_QUERIES} queries of a field"),
            ));
        }
        let gateway = ground.role(to, ROLE).and_then(|role| role.as_any().downcast_ref::<Gateway>());
        let query = gateway
            .map_or_else(|| Query::parse_anywhere(&self.query), |gateway| gateway.field().parse(&self.query));
        let query = query.map_err(|error| Problem::new(at.key("traffic.query"), error.to_string()))?;
        let [here, there] = [endpoint(at.from, own.port().0), endpoint(to, other.port().0)];
        let log = Log::new(describe(&self.query, &query, self.collection));
        let message = Message::Query {
            number: 0,
            ships_everything: self.collection == Collection::Everything,
            text: self.query.clone(),
        };
        let template = self.template([here.clone(), there.clone()]);
        let console = Console::new(template, message, (at.start, query.period), log.clone());
        let relay = Relay::new(self.template([there, here]), self.collect, log.clone());
        Ok(FlowEnds {
            sender: End::attached(console, Attach::Role(own)),
            receivers: vec![End::attached(relay, Attach::Role(other)).joined(field)],
            judges: vec![(None, Box::new(log))],
        })
    }
}
