//! Bundles of the bundle protocol, version 7 (RFC 9171).

use bentpipe_wire::dtn::bundle::{Bundle, Content, Payload, Primary, Timestamp};
use bentpipe_wire::dtn::eid::Eid;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors;

fn endpoint(key: &str, text: &str) -> PyResult<Eid> {
    text.parse().map_err(|error| errors::value(format!("{key} {text:?}: {error}")))
}

/// Returns the bytes of a bundle with CRCs.
#[pyfunction]
pub(crate) fn encode_bundle<'py>(
    py: Python<'py>,
    ends: (String, String),
    payload: Vec<u8>,
    timestamp: (u64, u64),
    lifetime_ms: u64,
    age_ms: Option<u64>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (source, destination) = (endpoint("source", &ends.0)?, endpoint("destination", &ends.1)?);
    let timestamp = Timestamp { time: timestamp.0, sequence: timestamp.1 };
    let primary = Primary::new(source, destination, timestamp, lifetime_ms);
    let mut bundle = Bundle { primary, blocks: Vec::new(), payload: Payload::new(payload) };
    if let Some(age_ms) = age_ms {
        bundle.set(Content::Age(age_ms));
    }
    bundle.check().map_err(errors::value)?;
    Ok(PyBytes::new(py, &bundle.to_vec()))
}

/// Returns the fields of a bundle, whose CRCs are checked.
#[pyfunction]
pub(crate) fn decode_bundle<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyDict>> {
    let bundle = Bundle::parse(bytes).map_err(errors::value)?;
    bundle.check_received().map_err(errors::value)?;
    let (fields, primary) = (PyDict::new(py), &bundle.primary);
    fields.set_item("source", primary.source.to_string())?;
    fields.set_item("destination", primary.destination.to_string())?;
    fields.set_item("report_to", primary.report_to.to_string())?;
    fields.set_item("flags", primary.flags.0)?;
    fields.set_item("time_ms", primary.timestamp.time)?;
    fields.set_item("sequence", primary.timestamp.sequence)?;
    fields.set_item("lifetime_ms", primary.lifetime)?;
    fields.set_item("fragment", primary.fragment.map(|fragment| (fragment.offset, fragment.total)))?;
    fields.set_item("age_ms", bundle.age())?;
    fields.set_item("hops", bundle.hop_count().map(|hops| (hops.count, hops.limit)))?;
    fields.set_item("previous_node", bundle.previous_node().map(|eid| eid.to_string()))?;
    fields.set_item(
        "block_types",
        bundle.blocks.iter().map(|block| block.content.code()).collect::<Vec<_>>(),
    )?;
    fields.set_item("payload", PyBytes::new(py, &bundle.payload.to_vec()))?;
    Ok(fields)
}
