//! Values of studies that need more than a measure of a run: what `code = "name"` in a `study.toml` refers to.

use crate::published::StudyRuns;

/// Computes a value of a row, in the row's unit, or says why it cannot.
pub type Code = fn(&StudyRuns) -> Result<f64, String>;

/// Every function by its name.
const CODES: &[(&str, Code)] = &[];

/// The function of that name.
pub fn code(name: &str) -> Option<Code> {
    CODES.iter().find(|(known, _)| *known == name).map(|(_, code)| *code)
}
