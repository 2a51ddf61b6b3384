//! The Koreasat study: AAL5's arithmetic, and what its sequence graph shows.

use bentpipe_wire::aal5;

use crate::published::StudyRuns;

/// The MSS that the publication computes with, in bytes.
const MSS: usize = 9100;

/// What AAL5 carries for one segment: LLC/SNAP, IPv4, IPv6 and TCP headers, and the data; in bytes.
const PAYLOAD: usize = 8 + 20 + 40 + 20 + MSS;

/// What is left of the OC-3 line for the payload of cells, as the publication rounds it, in Mbit/s.
const CELL_PAYLOAD_MBIT_S: f64 = 134.94;

/// Padding in bytes.
pub(super) fn padding(_: &StudyRuns) -> Result<f64, String> {
    Ok(aal5::pad_len(PAYLOAD) as f64)
}

/// TCP payload as a share of the cells' payload.
pub(super) fn efficiency(_: &StudyRuns) -> Result<f64, String> {
    Ok(MSS as f64 / aal5::pdu_len(PAYLOAD) as f64)
}

/// What TCP can reach, in Mbit/s.
pub(super) fn ceiling(runs: &StudyRuns) -> Result<f64, String> {
    Ok(CELL_PAYLOAD_MBIT_S * efficiency(runs)?)
}

/// TS packets lost for each lost cell, AAL5 with two of them in a PDU.
pub(super) fn packets_per_cell(runs: &StudyRuns) -> Result<f64, String> {
    let at =
        [("loss", "0.001"), ("adaptation", "aal5")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let points = runs.points("video-loss", &at.into_iter().collect())?;
    let value = |name: &str| {
        let value = points[0].value(&format!("flow.television.{name}")).map(|value| value.estimate.mean);
        value.ok_or_else(|| format!("no measure {name}"))
    };
    let cells = value("cells-sent")? - value("cells-arrived")?;
    Ok((value("ts-sent")? - value("ts-arrived")?) / cells)
}

/// When the router's buffer first overflowed, in seconds.
pub(super) fn first_loss(runs: &StudyRuns) -> Result<f64, String> {
    let dropped = column(runs, "link.satellite.forward", "dropped-queue")?;
    dropped.iter().find(|(_, total)| *total > 0.0).map(|(at, _)| *at).ok_or_else(|| "no loss".to_owned())
}

/// When the sender started from one segment again, in seconds: its first timeout.
pub(super) fn second_slow_start(runs: &StudyRuns) -> Result<f64, String> {
    let timeouts = column(runs, "flow.bulk.sender", "timeouts")?;
    timeouts.iter().find(|(_, total)| *total > 0.0).map(|(at, _)| *at).ok_or_else(|| "no timeout".to_owned())
}

/// A column of the run "router": time in seconds, and value.
fn column(runs: &StudyRuns, element: &str, name: &str) -> Result<Vec<(f64, f64)>, String> {
    column_of(runs, "router", 0, element, name)
}

/// A column of a point of a run, from its first seed: time in seconds, and value.
pub(super) fn column_of(
    runs: &StudyRuns,
    run: &str,
    point: usize,
    element: &str,
    name: &str,
) -> Result<Vec<(f64, f64)>, String> {
    let run = runs.0.get(run).ok_or_else(|| format!("no run \"{run}\""))?;
    let point = run.plan.points.get(point).ok_or("no such point")?;
    let seed = point.seeds.first().ok_or("no seed")?;
    let series = run.folder.series(point, *seed).map_err(|error| error.to_string())?;
    let found = series.columns.iter().find(|column| column.element == element && column.name == name);
    let column = found.ok_or_else(|| format!("no column {element}.{name}"))?;
    Ok(series.seconds().into_iter().zip(column.data.to_f64()).collect())
}
