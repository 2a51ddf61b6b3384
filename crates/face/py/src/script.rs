//! Objects of Python that the engine calls: elements and traffic sources.
//!
//! The engine calls them from the thread of a run, which takes the interpreter's lock for each call. An exception leaves the engine as a
//! panic with the exception as its payload; [`watched`](crate::watch::watched) raises it again.

use std::panic::resume_unwind;

use bentpipe_units::{RandomStream, Time};
use pyo3::intern;
use pyo3::prelude::*;

use crate::errors;

/// Object with the function that reads its state after a call.
///
/// Without an object, it has the exception of the constructor.
pub(crate) struct Object(Result<(Py<PyAny>, Py<PyAny>), Option<PyErr>>);

/// State of an object after a call.
///
/// Sent packets or payloads, number of dropped packets, time of the wake-up, and value.
pub(crate) type Left<T> = (Vec<T>, u64, Option<f64>, Option<f64>);

impl Object {
    /// Creates an object. No run can be ended here: the first call raises what the constructor raised.
    pub(crate) fn new(make: impl FnOnce(Python<'_>) -> PyResult<Py<PyAny>>) -> Object {
        let made = Python::attach(|py| {
            let module = py.import(intern!(py, "bentpipe._custom"))?;
            Ok((make(py)?, module.getattr(intern!(py, "left"))?.unbind()))
        });
        Object(made.map_err(Some))
    }

    /// Calls a method and passes on what it left. An exception ends the run.
    pub(crate) fn call(
        &mut self,
        method: impl FnOnce(Python<'_>, &Py<PyAny>) -> PyResult<Py<PyAny>>,
        take: impl FnOnce(Bound<'_, PyAny>) -> PyResult<()>,
    ) {
        let result = match &mut self.0 {
            Ok((object, left)) => Python::attach(|py| {
                method(py, object)?;
                take(left.bind(py).call1((&*object,))?)
            }),
            Err(error) => error.take().map_or(Ok(()), Err),
        };
        if let Err(error) = result {
            resume_unwind(Box::new(error));
        }
    }
}

/// Seeds the random numbers of an object from its element's own stream.
pub(crate) fn seed(py: Python<'_>, object: &Py<PyAny>, stream: &mut RandomStream) -> PyResult<()> {
    // A stream has numbers of 53 bits as shares of one.
    let number = (stream.unit() * (1_u64 << 53) as f64) as u64;
    object.getattr(py, intern!(py, "random"))?.call_method1(py, intern!(py, "seed"), (number,)).map(drop)
}

/// Returns the instant of a wake-up that an object asks for.
///
/// # Errors
/// Returns an error if it is not a number, or before `least`.
pub(crate) fn instant(wake_s: Option<f64>, least: Time) -> PyResult<Time> {
    let Some(wake_s) = wake_s else { return Ok(Time::NEVER) };
    let wake_ns = (wake_s * 1e9).round();
    if wake_ns >= u64::MAX as f64 {
        return Ok(Time::NEVER);
    }
    if wake_ns >= least.as_nanos() as f64 {
        return Ok(Time::from_nanos(wake_ns as u64));
    }
    let least_s = least.as_secs_f64();
    // As Python writes them.
    let wake = if wake_s.is_nan() { "nan".to_owned() } else { format!("{wake_s:?}") };
    Err(errors::value(format!("wake_at is {wake}: expected None, or seconds from {least_s} on")))
}

/// Returns the first instant after `now`.
pub(crate) fn after(now: Time) -> Time {
    Time::from_nanos(now.as_nanos().saturating_add(1))
}
