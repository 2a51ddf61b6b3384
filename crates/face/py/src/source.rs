//! Traffic sources in Python.

use bentpipe_transport::app::custom::{self, Done, Facts};
use bentpipe_units::{RandomStream, Time};
use pyo3::intern;
use pyo3::prelude::*;

use crate::errors;
use crate::script::{Left, Object, after, instant, seed};

/// Path of a flow.
#[pyclass(frozen, get_all, module = "bentpipe._native")]
pub(crate) struct Path {
    /// Least payload of a datagram in bytes: its number.
    min_payload: u64,
    /// Longest payload in bytes that passes without fragmentation.
    max_payload: u64,
}

/// Registers a source: a function of Python that makes one for a flow.
#[pyfunction]
pub(crate) fn register_source(identity: &str, make: Py<PyAny>) {
    custom::register(identity, move |facts: &Facts| {
        let (min_payload, max_payload) = (facts.min_payload.get(), facts.max_payload.get());
        let path = Path { min_payload, max_payload };
        let object = Object::new(|py| make.call1(py, (path,)));
        Box::new(Scripted { object, payloads: (min_payload, max_payload) })
    });
}

/// Source in Python.
struct Scripted {
    object: Object,
    /// Least and greatest payload.
    payloads: (u64, u64),
}

impl Scripted {
    fn call(
        &mut self,
        now: Time,
        done: &mut Done,
        method: impl FnOnce(Python<'_>, &Py<PyAny>) -> PyResult<Py<PyAny>>,
    ) {
        let (least, most) = self.payloads;
        let take = |left: Bound<'_, PyAny>| {
            let (sent, _, wake_s, _): Left<u64> = left.extract()?;
            if let Some(wrong) = sent.iter().find(|payload| !(least..=most).contains(payload)) {
                return Err(errors::value(format!("send({wrong}): expected {least} to {most} bytes")));
            }
            (done.sent, done.wake) = (sent, instant(wake_s, after(now))?);
            Ok(())
        };
        self.object.call(method, take);
    }
}

impl custom::Script for Scripted {
    fn start(&mut self, now: Time, stream: &mut RandomStream, done: &mut Done) {
        self.call(now, done, |py, object| {
            seed(py, object, stream)?;
            object.call_method1(py, intern!(py, "on_start"), (now.as_secs_f64(),))
        });
    }

    fn wake(&mut self, now: Time, done: &mut Done) {
        self.call(now, done, |py, object| {
            object.setattr(py, intern!(py, "wake_at"), py.None())?;
            object.call_method1(py, intern!(py, "on_wake"), (now.as_secs_f64(),))
        });
    }
}
