//! The study of TCP over ABR with video in the way: cell arithmetic, and efficiency against what video left.

use bentpipe_wire::{aal5, atm};

use crate::published::{At, StudyRuns, Value};

/// The line, as the publication has it: all of it is the cells', in Mbit/s.
const LINE_MBIT_S: f64 = 155.52;

/// The segment, in bytes.
const MSS: usize = 512;

/// What TCP gets of a line of cells: the payload of a segment with TCP, IP and LLC/SNAP headers, one cell in 32 an RM cell.
fn share() -> f64 {
    let cells = aal5::cells(MSS + 20 + 20 + 8);
    MSS as f64 / (cells * atm::CELL_LEN) as f64 * 31.0 / 32.0
}

/// What a segment takes on the line, in bytes.
pub(super) fn on_wire(_: &StudyRuns) -> Result<f64, String> {
    Ok(MSS as f64 / share())
}

/// What TCP can reach on the line, in Mbit/s.
pub(super) fn ceiling(_: &StudyRuns) -> Result<f64, String> {
    Ok(share() * LINE_MBIT_S)
}

/// Efficiency on the WAN with the first setting of the video.
pub(super) fn efficiency_low(runs: &StudyRuns) -> Result<f64, String> {
    efficiency(runs, "5 Mbit/s")
}

/// Efficiency on the WAN with the second setting of the video.
pub(super) fn efficiency_middle(runs: &StudyRuns) -> Result<f64, String> {
    efficiency(runs, "7.5 Mbit/s")
}

/// Efficiency on the WAN with the third setting of the video.
pub(super) fn efficiency_high(runs: &StudyRuns) -> Result<f64, String> {
    efficiency(runs, "10 Mbit/s")
}

/// TCP's throughput as a share of what it could have had where video of this mean left the rest, in percent.
fn efficiency(runs: &StudyRuns, mean: &str) -> Result<f64, String> {
    let at = At::from_iter([("mean".to_owned(), mean.to_owned())]);
    let value = |measure: &str| {
        let value = Value { run: "wan".to_owned(), measure: measure.to_owned(), at: at.clone() };
        runs.value(&value).map(|averaged| averaged.estimate.mean)
    };
    let run = runs.0.get("wan").ok_or("no run \"wan\"")?;
    let duration_s = run.plan.points.first().ok_or("no point")?.scenario.duration.as_secs_f64();
    let cell_bits = 8.0 * atm::CELL_LEN as f64;
    let video = value("line.trunk.forward.vbr-cells")? * cell_bits / duration_s;
    Ok(100.0 * value("flows.goodput")? / (share() * (LINE_MBIT_S * 1e6 - video)))
}
