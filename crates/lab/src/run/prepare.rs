//! Building the network of a point.

use std::path::Path;

use super::{CapturePoint, CarrierPoint, Prepared};
use crate::build::Built;
use crate::plan::Point;
use crate::scenario::Document;

/// Builds a point's network; what is wrong is said at its place in the file.
///
/// # Errors
/// What cannot be built, as a text.
pub fn prepare(document: &Document, folder: &Path, point: &Point, seed: u64) -> Result<Prepared, String> {
    let built = Built::new(&point.scenario, seed, folder);
    let built = built.map_err(|problem| document.refusal(&problem.key, problem.problem).to_string())?;
    let carriers = CarrierPoint::of(&built);
    Ok(Prepared { captures: CapturePoint::of(&built.captures), carriers, network: built.network })
}
