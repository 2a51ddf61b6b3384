//! Values of studies that need more than a measure of a run: what `code = "name"` in a `study.toml` refers to.

mod koreasat;

use crate::published::StudyRuns;

/// Computes a value of a row, in the row's unit, or says why it cannot.
pub type Code = fn(&StudyRuns) -> Result<f64, String>;

/// Every function by its name.
const CODES: &[(&str, Code)] = &[
    ("koreasat-padding", koreasat::padding),
    ("koreasat-efficiency", koreasat::efficiency),
    ("koreasat-ceiling", koreasat::ceiling),
    ("koreasat-first-loss", koreasat::first_loss),
    ("koreasat-second-slow-start", koreasat::second_slow_start),
];

/// The function of that name.
pub fn code(name: &str) -> Option<Code> {
    CODES.iter().find(|(known, _)| *known == name).map(|(_, code)| *code)
}
