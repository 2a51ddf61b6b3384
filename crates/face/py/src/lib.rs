//! Python extension `bentpipe._native`: scenarios, runs and results.
//!
//! Each function calls the library functions that the command line calls; nothing is computed here. Work runs on a thread of its own
//! without the interpreter's lock, while the calling thread shows progress and looks for signals ([`watch`]). Tables are passed by the
//! Arrow PyCapsule interface ([`frame`]). The package around it is in `python/bentpipe`.

mod build;
mod bundle;
mod campaign;
mod controller;
mod element;
mod errors;
mod frame;
mod offline;
mod results;
mod rohc;
mod scenario;
mod script;
mod source;
mod values;
mod watch;

use pyo3::prelude::*;

/// Extension module.
#[pymodule]
mod _native {
    use super::*;

    #[pymodule_export]
    use super::bundle::{decode_bundle, encode_bundle};
    #[pymodule_export]
    use super::campaign::Campaign;
    #[pymodule_export]
    use super::controller::{Ack, Connection, Loss, register_controller};
    #[pymodule_export]
    use super::element::{Ahead, Packet, register_element};
    #[pymodule_export]
    use super::frame::Frame;
    #[pymodule_export]
    use super::offline::{fit_losses, rohc_stats, ts_decap, ts_encap, ts_inspect};
    #[pymodule_export]
    use super::results::Results;
    #[pymodule_export]
    use super::rohc::{Compressor, Decompressor};
    #[pymodule_export]
    use super::scenario::Scenario;
    #[pymodule_export]
    use super::source::{Path, register_source};

    /// Returns the version, and an identifier of the build that changes with the program.
    #[pyfunction]
    fn build_info(py: Python<'_>) -> PyResult<(String, String)> {
        Ok((bentpipe_record::VERSION.to_owned(), build::identity(py)?.to_owned()))
    }

    /// Reads a scenario file.
    #[pyfunction]
    fn load(py: Python<'_>, path: std::path::PathBuf) -> PyResult<Scenario> {
        Scenario::read(py, &path)
    }

    /// Parses the text of a scenario file. Relative paths in it start at `folder`.
    #[pyfunction]
    #[pyo3(signature = (text, name = "scenario.toml", folder = None))]
    fn parse(
        py: Python<'_>,
        text: &str,
        name: &str,
        folder: Option<std::path::PathBuf>,
    ) -> PyResult<Scenario> {
        Scenario::parse(py, text, name, folder)
    }

    /// Opens a folder of results.
    #[pyfunction]
    fn open(py: Python<'_>, path: std::path::PathBuf) -> PyResult<Results> {
        Results::read(py, &path)
    }

    /// Returns a table as a LaTeX `tabular`.
    #[pyfunction]
    fn latex(head: Vec<String>, rows: Vec<Vec<String>>) -> String {
        bentpipe_record::latex(&head, &rows)
    }

    /// Returns the description of a scenario key, controller, medium or traffic.
    #[pyfunction]
    fn describe(name: &str) -> PyResult<String> {
        let found = bentpipe_scenario::catalogue::describe(name).map_err(errors::value)?;
        Ok(found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }
}
