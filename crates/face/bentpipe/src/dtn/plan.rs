//! `bentpipe dtn plan`.

use std::io::Write;
use std::path::{Path, PathBuf};

use bentpipe_bundles::forecast::{self, Forecast, Question};
use bentpipe_dtn::plan::Plan;
use bentpipe_record::{ContactPlan, PlannedContact, write_whole};
use bentpipe_report::contact_chart;
use bentpipe_units::{Bytes, Span};
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
    /// Write a Gantt chart of the contacts
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
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
        let (text, rounded) = if is_json { plan.to_hdtn() } else { (plan.to_ion(), 0) };
        if rounded > 0 {
            note(&format!(
                "{rounded} contacts rounded to whole seconds, as HDTN's form has no fractions: shorter, with longer light times"
            ));
        }
        write_whole(path, |file| file.write_all(text.as_bytes())).map_err(|error| error.to_string())?;
    }
    if let Some(path) = &args.svg {
        let chart = contact_chart(&named(&plan));
        let chart = chart.ok_or("--svg: expected a plan of 1 to 60 pairs of nodes")?;
        write_whole(path, |file| file.write_all(chart.as_bytes())).map_err(|error| error.to_string())?;
    }
    match (args.from, args.to) {
        (Some(from), Some(to)) => routes(args, plan, from, to),
        _ => {
            out(&forecast::pairs(&plan));
            Ok(0)
        }
    }
}

/// Returns the plan with the numbers of nodes as their names.
fn named(plan: &Plan) -> ContactPlan {
    let contacts = plan.contacts.iter().map(|contact| PlannedContact {
        from: contact.from.to_string(),
        to: contact.to.to_string(),
        start_s: contact.start.as_secs_f64(),
        end_s: contact.end.as_secs_f64(),
        bps: contact.rate.as_bps() as f64,
        light_s: contact.light_time.map(Span::as_secs_f64),
    });
    ContactPlan { name: String::new(), contacts: contacts.collect() }
}

fn routes(args: &PlanArgs, plan: Plan, from: u64, to: u64) -> Result<u8, String> {
    let question = Question { from, to, size: args.size, at: args.at, routes: args.routes.into() };
    match forecast::routes(plan, &question) {
        Forecast::NoRoute => note(&format!("no route from {from} to {to} at {} s", args.at.as_secs_f64())),
        Forecast::NoFit(text) => out(&text),
        Forecast::Arrival(text) => {
            out(&text);
            return Ok(0);
        }
    }
    Ok(1)
}
