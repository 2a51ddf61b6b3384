//! Exceptions, with the place of an error as attributes.

use std::fmt::Display;

use bentpipe_lab::check::PointError;
use bentpipe_lab::run::Failure;
use bentpipe_scenario::{Diagnostic, Error, Origin, ScenarioError};
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyValueError};
use pyo3::prelude::*;

/// Module of the package's exceptions.
const MODULE: &str = "bentpipe._errors";

/// Returns a `ValueError` with this text.
pub(crate) fn value(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Returns the exception `name` of the package, with this text.
pub(crate) fn named(py: Python<'_>, name: &str, text: impl Display) -> PyErr {
    made(py, name, (text.to_string(),))
}

fn made<'py>(py: Python<'py>, name: &str, arguments: impl pyo3::call::PyCallArgs<'py>) -> PyErr {
    let class = py.import(MODULE).and_then(|module| module.getattr(name));
    class.and_then(|class| class.call1(arguments)).map_or_else(|error| error, PyErr::from_value)
}

/// Returns a `ScenarioError` with its problems.
pub(crate) fn scenario(py: Python<'_>, error: &ScenarioError) -> PyErr {
    refused(py, error, error.to_string())
}

/// Returns a `ScenarioError` that names the point of the sweep.
pub(crate) fn point(py: Python<'_>, error: &PointError) -> PyErr {
    refused(py, &error.error, error.to_string())
}

/// Returns a `ScenarioError`, or an `OSError` if the file cannot be read.
pub(crate) fn read(py: Python<'_>, error: &Error) -> PyErr {
    match error {
        Error::Unreadable { path, source } => match source.raw_os_error() {
            // Python chooses the class by the number, such as `FileNotFoundError`.
            Some(number) => PyOSError::new_err((number, source.to_string(), path.clone())),
            None => PyOSError::new_err(error.to_string()),
        },
        Error::Refused(refusal) => scenario(py, refusal),
    }
}

/// Returns the exception for a request without results.
pub(crate) fn run(py: Python<'_>, failure: &Failure) -> PyErr {
    match failure {
        Failure::Interrupted { .. } => PyKeyboardInterrupt::new_err(failure.to_string()),
        Failure::Io(error) => PyOSError::new_err(error.to_string()),
        Failure::Build(_) | Failure::Record(_) => named(py, "RunError", failure),
    }
}

fn refused(py: Python<'_>, error: &ScenarioError, text: String) -> PyErr {
    let problems: Vec<_> = error.diagnostics().iter().map(|diagnostic| problem(error, diagnostic)).collect();
    made(py, "ScenarioError", (text, problems))
}

/// File, line, column, key and message.
type Problem = (Option<String>, Option<usize>, Option<usize>, String, String);

fn problem(error: &ScenarioError, diagnostic: &Diagnostic) -> Problem {
    let (key, message) = (diagnostic.key.clone(), diagnostic.problem.clone());
    match &diagnostic.origin {
        Origin::File(range) => {
            let (line, column) = error.position(range.start);
            (Some(error.file().to_owned()), Some(line), Some(column), key, message)
        }
        Origin::Override(_) => (None, None, None, key, message),
    }
}
