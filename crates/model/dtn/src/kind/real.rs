//! Node of bundles as a daemon at a real host.

use std::collections::BTreeSet;
use std::fmt::Write;

use bentpipe_site::{Problem, RealAt, RealProgram};
use bentpipe_units::{Bytes, Rate, Span};
use bentpipe_wire::dtn::{BUNDLE_PORT, LTP_PORT};

use super::{Kind, endpoint};
use crate::blocks::Aggregation;
use crate::element::{Neighbour, session_limits};
use crate::network::{Layer, Network, Way};
use crate::node::Routing;
use crate::plan::Plan;

/// Name of the node file.
const NODE: &str = "node.toml";
/// Name of the contact plan.
const PLAN: &str = "plan.ionrc";
/// Longest datagram that a node file takes.
const MAX_DATAGRAM: Bytes = Bytes::new(65_000);
/// Name of the store.
const STORE: &str = "store";

/// Returns the daemon that stands for the role: `bentpipe dtn node`.
///
/// Its plan begins with it. Static routes do without the plan, as a node file has one or the other.
///
/// # Errors
/// Returns an error if the plan or a route names no node, or a neighbour has no address.
pub(super) fn daemon(kind: &Kind, network: &Network, at: &RealAt<'_>) -> Result<RealProgram, Problem> {
    let number = |name: &str| at.index(name).map(|node| node as u64 + 1);
    let own = number(at.node).ok_or_else(|| Problem::new(at.key.as_str(), "no such node"))?;
    let graph = network.graph(&kind.network, &number)?;
    let plan = graph.plan();
    let address = |number: u64| {
        let name = usize::try_from(number - 1).ok().and_then(|node| at.nodes.get(node));
        name.and_then(|name| (at.address)(name)).ok_or_else(|| {
            Problem::new(format!("dtn.{}.plan", kind.network), format!("node {number} has no IPv4 address"))
        })
    };
    let (layer, port) = match network.layer {
        Layer::Udp => ("udp", BUNDLE_PORT),
        Layer::Ltp | Layer::LtpGreen => ("ltp", LTP_PORT),
        Layer::Tcpcl => ("tcpcl", BUNDLE_PORT),
        Layer::Dccp => {
            let problem = "a real node has no DCCP: expected another layer, or nodes that are not `real`";
            return Err(Problem::new(format!("dtn.{}.layer", kind.network), problem));
        }
    };
    let near = neighbours(own, plan);
    let ends: Result<Vec<Neighbour>, Problem> = near
        .iter()
        .map(|near| Ok(Neighbour::new(own, near.number, [address(own)?, address(near.number)?], plan)))
        .collect();
    let [sending, _] = session_limits(&ends?, &network.ltp);
    let (eid, host) = (endpoint(own as usize - 1, 0), address(own)?);
    let mut text = format!(
        "eid = \"{eid}\"\nstore = \"{STORE}\"\nstorage = \"{}\"\nreports = {}\nltp_sessions = {}\n",
        kind.storage, kind.reports, sending,
    );
    let mut rest = String::new();
    let mut is_planned = true;
    match &network.routing {
        Way::ContactGraph => {}
        Way::Epidemic => rest += "[routing]\nkind = \"epidemic\"\n",
        Way::SprayAndWait { copies, binary } => {
            let _ =
                write!(rest, "[routing]\nkind = \"spray-and-wait\"\ncopies = {copies}\nbinary = {binary}\n");
        }
        Way::Static { .. } => {
            is_planned = false;
            if let Routing::Static { routes, default } =
                network.routing(&kind.network, (at.node, own), &graph, &number)?
            {
                let mut lines: Vec<String> =
                    routes.iter().map(|(to, via)| format!("{to} = {via}\n")).collect();
                lines.sort();
                lines.extend(default.map(|via| format!("default = {via}\n")));
                let _ = write!(rest, "[routes]\n{}", lines.concat());
            }
        }
    }
    if is_planned {
        let _ = writeln!(text, "plan = \"{PLAN}\"");
    }
    // The first is for applications of the host.
    let _ = write!(text, "[[listen]]\nlayer = \"tcpcl\"\nat = \"127.0.0.1:{BUNDLE_PORT}\"\n");
    let _ = write!(text, "[[listen]]\nlayer = \"{layer}\"\nat = \"{host}:{port}\"\n");
    for Near { number, rate, light_time } in near {
        let _ = write!(text, "[[neighbour]]\nnode = {number}\nlayer = \"{layer}\"\n");
        // As in a simulation, the lower number opens the connection.
        if network.layer != Layer::Tcpcl || own < number {
            let _ = writeln!(text, "at = \"{}:{port}\"", address(number)?);
        }
        if !network.reactive {
            text += "reactive = false\n";
        }
        if network.layer != Layer::Tcpcl {
            let datagram = network.datagram.min(MAX_DATAGRAM);
            let _ = write!(
                text,
                "rate = \"{rate}\"\nlight_time = \"{light_time}\"\nmargin = \"{}\"\ndatagram = \"{datagram}\"\nred = {}\n",
                network.ltp.margin,
                network.layer != Layer::LtpGreen,
            );
            if let Some(Aggregation { bytes, wait }) = network.ltp.aggregate {
                let _ = writeln!(text, "aggregate = {{ bytes = \"{bytes}\", wait = \"{wait}\" }}");
            }
        }
    }
    let mut files = vec![(NODE, text + &rest)];
    if is_planned {
        files.push((PLAN, plan.to_ion()));
    }
    let arguments = ["dtn", "node", NODE].map(str::to_owned).into();
    Ok(RealProgram { arguments, files, port: BUNDLE_PORT, scratch: STORE })
}

/// Neighbour of a node.
struct Near {
    number: u64,
    rate: Rate,
    light_time: Span,
}

/// Returns the neighbours of a node in order, by its contacts.
fn neighbours(own: u64, plan: &Plan) -> Vec<Near> {
    let ends = plan.contacts.iter().filter(|contact| contact.from == own || contact.to == own);
    let numbers: BTreeSet<u64> =
        ends.map(|contact| if contact.from == own { contact.to } else { contact.from }).collect();
    let near = |number: u64| {
        let rate = plan.between(own, number).map(|contact| contact.rate).max();
        let light_time = plan.between(own, number).find_map(|contact| contact.light_time);
        Near { number, rate: rate.unwrap_or(Rate::from_bps(1)), light_time: light_time.unwrap_or(Span::ZERO) }
    };
    numbers.into_iter().map(near).collect()
}
