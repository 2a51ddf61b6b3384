//! Tables for other packages: the Arrow C stream interface in PyCapsules.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt64Array};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, Field, Schema};
use bentpipe_record::{Frame as Table, FrameColumn, FrameValues};
use pyo3::exceptions::{PyKeyError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

/// Table of results with typed columns.
#[pyclass(frozen, module = "bentpipe._native")]
pub(crate) struct Frame(Arc<Table>);

impl From<Table> for Frame {
    fn from(table: Table) -> Frame {
        Frame(Arc::new(table))
    }
}

fn array(column: &FrameColumn) -> ArrayRef {
    match &column.values {
        FrameValues::Texts(texts) => Arc::new(StringArray::from_iter_values(texts)),
        FrameValues::Integers(numbers) => Arc::new(UInt64Array::from_iter_values(numbers.iter().copied())),
        FrameValues::Numbers(numbers) => {
            let present = numbers.iter().map(|number| Some(*number).filter(|number| !number.is_nan()));
            Arc::new(Float64Array::from_iter(present))
        }
    }
}

fn field(column: &FrameColumn) -> Field {
    let kind = match &column.values {
        FrameValues::Texts(_) => DataType::Utf8,
        FrameValues::Integers(_) => DataType::UInt64,
        FrameValues::Numbers(_) => DataType::Float64,
    };
    let field = Field::new(&column.title, kind, matches!(column.values, FrameValues::Numbers(_)));
    match &column.unit[..] {
        "" => field,
        unit => field.with_metadata([("unit".to_owned(), unit.to_owned())]),
    }
}

fn schema(table: &Table) -> Schema {
    Schema::new(table.columns.iter().map(field).collect::<Vec<_>>())
}

fn arrow(error: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

#[pymethods]
impl Frame {
    /// Exports the table as an Arrow stream (PyCapsule interface).
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The consumer casts, as the interface allows.
        let _ = requested_schema;
        let schema = Arc::new(schema(&self.0));
        let columns: Vec<ArrayRef> = py.detach(|| self.0.columns.iter().map(array).collect());
        let batch = RecordBatch::try_new(schema.clone(), columns).map_err(arrow)?;
        let stream = RecordBatchIterator::new([Ok(batch)], schema);
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(stream)), c"arrow_array_stream")
    }

    /// Exports the types of the columns (PyCapsule interface).
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&schema(&self.0)).map_err(arrow)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    fn __len__(&self) -> usize {
        self.0.rows()
    }

    /// Titles of the columns.
    #[getter]
    fn columns(&self) -> Vec<&str> {
        self.0.columns.iter().map(|column| &column.title[..]).collect()
    }

    /// Units of the columns that have one, by title.
    #[getter]
    fn units(&self) -> std::collections::BTreeMap<&str, &str> {
        let columns = self.0.columns.iter().filter(|column| !column.unit.is_empty());
        columns.map(|column| (&column.title[..], &column.unit[..])).collect()
    }

    /// Returns the values of a column; NaN where there is none.
    fn column<'py>(&self, py: Python<'py>, title: &str) -> PyResult<Bound<'py, PyList>> {
        match &self.0.column(title).ok_or_else(|| PyKeyError::new_err(title.to_owned()))?.values {
            FrameValues::Texts(texts) => PyList::new(py, texts.iter().map(|text| &**text)),
            FrameValues::Integers(numbers) => PyList::new(py, numbers),
            FrameValues::Numbers(numbers) => PyList::new(py, numbers),
        }
    }

    /// Returns the table as CSV.
    fn to_csv(&self, py: Python<'_>) -> PyResult<String> {
        let mut csv = Vec::new();
        py.detach(|| self.0.write_csv(&mut csv))?;
        Ok(String::from_utf8_lossy(&csv).into_owned())
    }
}
