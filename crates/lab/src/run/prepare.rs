//! Building the network of a point.

use std::path::Path;

use super::{CapturePoint, CarrierPoint, Prepared};
use crate::build::{Built, Problem};
use crate::plan::Point;
use crate::scenario::Document;
use crate::video;

/// Builds a point's network; what is wrong is said at its place in the file.
///
/// # Errors
/// What cannot be built, as a text.
pub fn prepare(document: &Document, folder: &Path, point: &Point, seed: u64) -> Result<Prepared, String> {
    let (scenario, is_alone) = (&point.scenario, point.settings.is_empty() && point.seeds.len() == 1);
    let refused = |problem: Problem| document.refusal(&problem.key, problem.problem).to_string();
    if let Some(stream) = video::stream_of(scenario) {
        return video::prepare(point, stream, seed, folder, is_alone).map_err(refused);
    }
    let built = Built::new(&point.scenario, seed, folder);
    let built = built.map_err(refused)?;
    let carriers = CarrierPoint::of(&built);
    Ok(Prepared {
        captures: CapturePoint::of(&built.captures),
        carriers,
        network: built.network,
        finish: None,
    })
}
