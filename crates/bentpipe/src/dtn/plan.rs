//! `bentpipe dtn plan`.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use bentpipe_dtn::plan::Plan;
use bentpipe_dtn::route::{Demand, Graph, Ledger, Options, Route};
use bentpipe_units::{Bytes, Span, Time};
use clap::Args;

use crate::show::{note, out};

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// Contact plan in ION's form or HDTN's JSON
    plan: PathBuf,
    /// Node that sends
    #[arg(long, value_name = "NODE", requires = "to")]
    from: Option<u64>,
    /// Node that receives
    #[arg(long, value_name = "NODE", requires = "from")]
    to: Option<u64>,
    /// Length of the bundle
    #[arg(long, value_name = "BYTES", default_value = "1 kB")]
    size: Bytes,
    /// Time at which it is ready, from the plan's start
    #[arg(long, value_name = "TIME", default_value = "0 s")]
    at: Span,
    /// Number of candidate routes
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    routes: u16,
    /// Write the plan: HDTN's JSON for names ending in .json, else ION's form
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

/// Reads a plan whose absolute times count from the start of 2026.
fn read(path: &Path) -> Result<Plan, String> {
    let wrong = |problem: String| format!("{}: {problem}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    // 2026-01-01 00:00:00 UTC, as in scenarios.
    Plan::parse(&text, 1_767_225_600.0)
        .map_err(|error| format!("{}:{}: {}", path.display(), error.line, error.problem))
}

/// Prints the analysis and returns the exit code.
pub(super) fn run(args: &PlanArgs) -> Result<u8, String> {
    let plan = read(&args.plan)?;
    if let Some(path) = &args.write {
        let is_json = path.extension().is_some_and(|ending| ending == "json");
        let text = if is_json { plan.to_hdtn().map_err(|error| error.to_string())? } else { plan.to_ion() };
        super::wire::write(path, text.as_bytes())?;
    }
    match (args.from, args.to) {
        (Some(from), Some(to)) => routes(args, plan, (from, to)),
        _ => {
            out(&pairs(&plan));
            Ok(0)
        }
    }
}

/// Returns a table of all pairs.
fn pairs(plan: &Plan) -> String {
    let pairs: BTreeSet<(u64, u64)> =
        plan.contacts.iter().map(|contact| (contact.from, contact.to)).collect();
    let mut text = format!(
        "{:>6} {:>6} {:>9} {:>12} {:>14} {:>12}\n",
        "from", "to", "contacts", "open (s)", "capacity (B)", "light (s)"
    );
    for (from, to) in pairs {
        let open: f64 =
            plan.between(from, to).map(|contact| (contact.end - contact.start).as_secs_f64()).sum();
        let light = plan.between(from, to).find_map(|contact| contact.light_time);
        let light = light.map_or("-".to_owned(), |light| format!("{:.3}", light.as_secs_f64()));
        let (count, capacity) = (plan.between(from, to).count(), plan.capacity(from, to));
        let _ = writeln!(text, "{from:>6} {to:>6} {count:>9} {open:>12.1} {capacity:>14} {light:>12}");
    }
    let silent = plan.contacts.iter().filter(|contact| contact.light_time.is_none()).count();
    if silent > 0 {
        let _ = writeln!(text, "{silent} contacts have no range: no route uses them");
    }
    text
}

fn routes(args: &PlanArgs, plan: Plan, (from, to): (u64, u64)) -> Result<u8, String> {
    let graph = Graph::new(plan, Options { candidates: args.routes.into(), margin: 0.0 });
    let now = Time::ZERO + args.at;
    let routes = graph.routes(from, to, now, &|_| false);
    if routes.is_empty() {
        note(&format!("no route from {from} to {to} at {} s", args.at.as_secs_f64()));
        return Ok(1);
    }
    let mut text = format!("{:>12} {:>12} {:>9}  {}\n", "arrival (s)", "ends (s)", "contacts", "route");
    for route in &routes {
        let (arrival, end, count) =
            (route.arrival.as_secs_f64(), route.end.as_secs_f64(), route.contacts.len());
        let _ = writeln!(text, "{arrival:>12.3} {end:>12.3} {count:>9}  {}", path(&graph, route));
    }
    let demand = Demand { size: args.size.get(), priority: 1, may_fragment: false, expiry: Time::NEVER };
    let choice = graph.choose(&routes, &demand, &Ledger::new(&graph), now, &|_| 0);
    match choice {
        Some(choice) => {
            let path = path(&graph, &routes[choice.route]);
            let _ = writeln!(
                text,
                "a bundle of {} arrives at {:.3} s by {path}",
                args.size,
                choice.arrival.as_secs_f64()
            );
        }
        None => {
            let _ = writeln!(text, "a bundle of {} fits no route", args.size);
        }
    }
    out(&text);
    Ok(u8::from(choice.is_none()))
}

/// Returns the nodes of a route: "1-3-5".
fn path(graph: &Graph, route: &Route) -> String {
    let contacts = &graph.plan().contacts;
    let first = contacts[route.contacts[0]].from;
    let nodes = route.contacts.iter().map(|contact| contacts[*contact].to);
    std::iter::once(first).chain(nodes).map(|node| node.to_string()).collect::<Vec<_>>().join("-")
}
