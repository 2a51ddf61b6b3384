//! Values of studies that need more than a measure of a run: what `code = "name"` in a `study.toml` refers to.

mod koreasat;
mod votos;

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
    ("votos-doubling", votos::doubling),
    ("votos-equivalent", votos::equivalent),
    ("votos-equivalent-unasked", votos::equivalent_unasked),
    ("votos-equivalent-ignored", votos::equivalent_ignored),
    ("votos-closed-form", votos::closed_form),
    ("votos-shortest-transient", votos::shortest_transient),
    ("votos-length-ratio", votos::length_ratio),
    ("votos-height-ratio", votos::height_ratio),
    ("votos-silence", votos::silence),
    ("votos-object-cra", votos::object_cra),
    ("votos-object-fca", votos::object_fca),
    ("votos-object-rbdc", votos::object_rbdc),
    ("votos-object-vbdc", votos::object_vbdc),
];

/// The function of that name.
pub fn code(name: &str) -> Option<Code> {
    CODES.iter().find(|(known, _)| *known == name).map(|(_, code)| *code)
}
