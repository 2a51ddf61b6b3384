//! Values of Python as values of TOML.

use bentpipe_scenario::Document;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};

use crate::errors;

/// Maximum depth of nested lists and tables.
const MAX_DEPTH: usize = 16;

/// Returns the text that `--set KEY=` takes for a value.
///
/// A text is passed as it is, so "300 ms" and "[1, 2]" mean the same as on the command line.
pub(crate) fn assigned(value: &Bound<'_, PyAny>) -> PyResult<String> {
    match value.cast::<PyString>() {
        Ok(text) => Ok(text.to_str()?.to_owned()),
        Err(_) => Ok(toml(value, MAX_DEPTH)?.to_string()),
    }
}

/// Returns a document with a key set.
pub(crate) fn with(
    py: Python<'_>,
    document: &Document,
    (option, assignment): (&str, &str),
) -> PyResult<Document> {
    let mut document = document.clone();
    document.set_by(option, assignment).map_err(|error| errors::scenario(py, &error))?;
    Ok(document)
}

/// Returns a value of TOML.
fn toml(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<toml::Value> {
    let unknown = || {
        let name = value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!("expected a text, number, bool, list or dict, got {name}"))
    };
    let deeper = depth.checked_sub(1).ok_or_else(|| PyTypeError::new_err("expected fewer nested lists"))?;
    if let Ok(truth) = value.cast::<PyBool>() {
        Ok(toml::Value::Boolean(truth.is_true()))
    } else if value.is_instance_of::<PyInt>() {
        Ok(toml::Value::Integer(value.extract()?))
    } else if let Ok(number) = value.cast::<PyFloat>() {
        Ok(toml::Value::Float(number.value()))
    } else if let Ok(text) = value.cast::<PyString>() {
        Ok(toml::Value::String(text.to_str()?.to_owned()))
    } else if let Ok(table) = value.cast::<PyDict>() {
        let entry = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            Ok((key.extract::<String>()?, toml(&value, deeper)?))
        };
        Ok(toml::Value::Table(table.iter().map(entry).collect::<PyResult<_>>()?))
    } else if let Ok(items) = value.try_iter() {
        Ok(toml::Value::Array(items.map(|item| toml(&item?, deeper)).collect::<PyResult<_>>()?))
    } else if let Ok(number) = value.extract::<i64>() {
        // Integers of numpy.
        Ok(toml::Value::Integer(number))
    } else {
        value.extract::<f64>().map(toml::Value::Float).map_err(|_| unknown())
    }
}
