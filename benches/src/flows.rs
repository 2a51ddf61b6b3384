//! Workload G: 10,000 TCP transfers over one satellite link, from scenario to report.
//!
//! Each flow has 1 Mbit/s of the link, whose delay is 270 ms; all values are sampled each second.
//! `bentpipe-bench g`, or `g 1000` for another number of flows, prints the times of the network and of the
//! whole.

use std::fmt::Write as _;

use anyhow::{Result, anyhow};
use bentpipe_lab::plan::{Plan, Seeds};
use bentpipe_lab::run::{self, Assembled, Folder, Request, Silent};
use bentpipe_scenario::Document;

use crate::{Stopwatch, peak_mb};

/// Flows where no number is given.
const FLOWS: u32 = 10_000;

fn scenario(flows: u32) -> String {
    let mut text = String::from("title = \"Many flows\"\nduration = \"20 s\"\n[probe]\ninterval = \"1 s\"\n");
    let bytes = u64::from(flows) * 1_000_000 / 8;
    let _ = write!(
        text,
        "[node]\nwest = {{}}\neast = {{}}\n[link.satellite]\nbetween = [\"west\", \"east\"]\nrate = \"{flows} Mbit/s\"\n\
         delay = \"270 ms\"\nqueue = {{ kind = \"drop-tail\", bytes = \"{bytes} B\" }}\n\
         [flow.transfer]\nfrom = \"west\"\nto = \"east\"\ncount = {flows}\nstagger = \"100 us\"\n\
         traffic = {{ kind = \"tcp\", controller = \"cubic\", receive_buffer = \"100 kB\" }}\n"
    );
    text
}

/// Runs the workload once, and returns a line of JSON.
///
/// # Errors
/// Returns an error if the scenario does not run.
pub(crate) fn run(count: Option<u32>) -> Result<String> {
    let flows = count.unwrap_or(FLOWS);
    let whole = std::time::Instant::now();
    let document =
        Document::parse("flows", scenario(flows).as_bytes()).map_err(|error| anyhow!("{error}"))?;
    let plan = Plan::new(&document, Seeds::default()).map_err(|error| anyhow!("{error}"))?;
    let parent = std::env::temp_dir().join(format!("bentpipe-bench-{}", std::process::id()));
    let folder = Folder::new(&parent, "flows", &plan);
    let request = Request {
        document: &document,
        plan: &plan,
        folder,
        jobs: 1,
        force: true,
        captures: usize::MAX.into(),
        build: "bench",
        commit: None,
        command: &[],
    };
    let assembled = Assembled::new(&document, &plan).map_err(|error| anyhow!("{error}"))?;
    let prepare = |point: &_, seed| assembled.prepare(point, seed);
    let results = run::execute(&request, &prepare, &Silent).map_err(|error| anyhow!("{error}"))?;
    let page = bentpipe_report::results_page(&results.with_texts(&request));
    page.write(&results.folder.path().join("report.html"))?;
    let seconds = whole.elapsed().as_secs_f64();
    let peak_mb = peak_mb();
    let network_s = network_alone(&document)?;
    let bytes = size(&parent)?;
    std::fs::remove_dir_all(&parent)?;
    let outcome = &results.runs[0].outcome;
    let goodput = results.summary.points[0].measures["flows.goodput"].estimate.mean;
    Ok(serde_json::json!({
        "workload": "g",
        "flows": flows,
        "seconds": seconds,
        "undisturbed_s": seconds,
        "transmissions_per_s": outcome.deliveries as f64 / seconds,
        "transmissions_per_undisturbed_s": outcome.deliveries as f64 / seconds,
        "wakeups_per_s": outcome.wakeups as f64 / seconds,
        "network_s": network_s,
        "ns_per_delivery": seconds * 1e9 / outcome.deliveries as f64,
        "deliveries": outcome.deliveries,
        "goodput_bps": goodput,
        "fingerprint": outcome.fingerprint,
        "files_mb": bytes as f64 / 1e6,
        "peak_mb": peak_mb,
    })
    .to_string())
}

/// Returns the seconds that the engine takes alone.
fn network_alone(document: &Document) -> Result<f64> {
    let scenario = document.scenario().map_err(|error| anyhow!("{error}"))?;
    let built = bentpipe_assemble::Built::new(&scenario, scenario.seed, document.access());
    let mut network = built.map_err(|problem| anyhow!("{}: {}", problem.key, problem.problem))?.network;
    let clock = Stopwatch::start();
    network.run_until(bentpipe_units::Time::ZERO + scenario.duration);
    Ok(clock.seconds())
}

fn size(path: &std::path::Path) -> Result<u64> {
    if !path.is_dir() {
        return Ok(path.metadata()?.len());
    }
    std::fs::read_dir(path)?.map(|entry| size(&entry?.path())).sum()
}
