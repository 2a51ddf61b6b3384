//! Congestion controllers in Python.
//!
//! The engine calls them from the thread of a run, which takes the interpreter's lock for each call. An exception leaves the engine as a
//! panic with the exception as its payload; [`watched`](crate::watch::watched) raises it again.

use std::panic::resume_unwind;

use bentpipe_cc::{self as cc, State, custom};
use bentpipe_units::{Rate, Span, Time};
use pyo3::intern;
use pyo3::prelude::*;

/// Connection of a controller.
#[pyclass(frozen, get_all, module = "bentpipe._native")]
pub(crate) struct Connection {
    /// Largest segment in bytes.
    smss: u32,
    /// Initial window in bytes.
    initial_window: u64,
    /// Slow start threshold in bytes at the start; infinite unless the scenario sets one.
    ssthresh: f64,
    /// Send buffer in bytes, which bounds the window.
    max_window: u64,
}

/// Acknowledgement with news. Times are in seconds, amounts in bytes.
#[pyclass(frozen, get_all, module = "bentpipe._native")]
pub(crate) struct Ack {
    /// Time of the event.
    now: f64,
    /// Bytes newly acknowledged cumulatively.
    acked: u64,
    /// Bytes newly known to be delivered, each once.
    delivered: u64,
    /// Bytes outstanding after it.
    flight: u64,
    /// Outstanding bytes estimated to be in the network.
    pipe: u64,
    /// Sample of the round trip that it gave.
    rtt: Option<f64>,
    /// Smoothed round trip.
    srtt: Option<f64>,
    /// Least round trip of the connection.
    min_rtt: Option<f64>,
    /// Set if the sender had filled the window.
    cwnd_limited: bool,
    /// Set in recovery.
    in_recovery: bool,
}

/// Detected loss, or a timeout. Times are in seconds, amounts in bytes.
#[pyclass(frozen, get_all, module = "bentpipe._native")]
pub(crate) struct Loss {
    /// Time of the event.
    now: f64,
    /// Bytes outstanding.
    flight: u64,
    /// Outstanding bytes estimated to be in the network.
    pipe: u64,
    /// Least round trip of the connection.
    min_rtt: Option<f64>,
}

fn seconds(span: Option<Span>) -> Option<f64> {
    span.map(Span::as_secs_f64)
}

impl From<&cc::Connection> for Connection {
    fn from(of: &cc::Connection) -> Connection {
        let ssthresh =
            if of.initial_ssthresh == u64::MAX { f64::INFINITY } else { of.initial_ssthresh as f64 };
        let initial_window = u64::from(of.smss) * u64::from(of.initial_window_segments);
        Connection { smss: of.smss, initial_window, ssthresh, max_window: of.max_window }
    }
}

impl From<&cc::Ack> for Ack {
    fn from(of: &cc::Ack) -> Ack {
        Ack {
            now: of.now.as_secs_f64(),
            acked: of.acked,
            delivered: of.delivered,
            flight: of.flight,
            pipe: of.pipe,
            rtt: seconds(of.rtt),
            srtt: seconds(of.srtt),
            min_rtt: seconds(of.min_rtt),
            cwnd_limited: of.cwnd_limited,
            in_recovery: of.in_recovery,
        }
    }
}

impl From<&cc::Loss> for Loss {
    fn from(of: &cc::Loss) -> Loss {
        let (now, min_rtt) = (of.now.as_secs_f64(), seconds(of.min_rtt));
        Loss { now, flight: of.flight, pipe: of.pipe, min_rtt }
    }
}

/// Registers a controller: a function of Python from a connection to its controller.
#[pyfunction]
pub(crate) fn register_controller(identity: &str, make: Py<PyAny>, wants_sent: bool) {
    custom::register(identity, move |connection| {
        let built = Python::attach(|py| {
            let object = make.call1(py, (Connection::from(connection),))?;
            let checked = py.import(intern!(py, "bentpipe._controllers"))?.getattr(intern!(py, "checked"))?;
            Scripted::new(object, checked.unbind(), connection, wants_sent).read(py)
        });
        // No run can be ended here: the first event of the connection ends it.
        Box::new(built.unwrap_or_else(|error| Scripted::failed(error, connection)))
    });
}

/// Controller in Python, with its numbers after the last call.
struct Scripted {
    /// The object, and the function that checks its numbers; or the exception of its constructor.
    object: Result<(Py<PyAny>, Py<PyAny>), Option<PyErr>>,
    wants_sent: bool,
    numbers: Numbers,
}

/// Numbers of a controller, and their bounds.
struct Numbers {
    smss: f64,
    max_window: f64,
    cwnd: f64,
    ssthresh: f64,
    /// Rate in bit/s; zero for none.
    pacing_bps: f64,
}

impl Numbers {
    fn of(connection: &cc::Connection) -> Numbers {
        let smss = f64::from(connection.smss.max(1));
        let max_window = (connection.max_window as f64).max(smss);
        Numbers { smss, max_window, cwnd: smss, ssthresh: f64::INFINITY, pacing_bps: 0.0 }
    }

    /// Reads the numbers of the object.
    fn read(&mut self, py: Python<'_>, object: &Py<PyAny>, checked: &Py<PyAny>) -> PyResult<()> {
        let (cwnd, ssthresh, pacing_bps): (f64, f64, f64) = checked.call1(py, (object,))?.extract(py)?;
        self.cwnd = cwnd.clamp(self.smss, self.max_window);
        (self.ssthresh, self.pacing_bps) = (ssthresh.max(0.0), pacing_bps);
        Ok(())
    }
}

impl Scripted {
    fn new(object: Py<PyAny>, checked: Py<PyAny>, connection: &cc::Connection, wants_sent: bool) -> Scripted {
        Scripted { object: Ok((object, checked)), wants_sent, numbers: Numbers::of(connection) }
    }

    fn failed(error: PyErr, connection: &cc::Connection) -> Scripted {
        Scripted { object: Err(Some(error)), wants_sent: false, numbers: Numbers::of(connection) }
    }

    fn read(mut self, py: Python<'_>) -> PyResult<Scripted> {
        if let Ok((object, checked)) = &self.object {
            self.numbers.read(py, object, checked)?;
        }
        Ok(self)
    }

    /// Calls a method and reads the numbers. An exception ends the run.
    fn call(&mut self, method: impl FnOnce(Python<'_>, &Py<PyAny>) -> PyResult<Py<PyAny>>) {
        let result = match &mut self.object {
            Ok((object, checked)) => Python::attach(|py| {
                method(py, object)?;
                self.numbers.read(py, object, checked)
            }),
            Err(error) => error.take().map_or(Ok(()), Err),
        };
        if let Err(error) = result {
            resume_unwind(Box::new(error));
        }
    }
}

impl cc::Controller for Scripted {
    fn name(&self) -> &'static str {
        "custom"
    }

    fn on_established(&mut self, now: Time, rtt: Option<Span>) {
        let arguments = (now.as_secs_f64(), seconds(rtt));
        self.call(|py, object| object.call_method1(py, intern!(py, "on_established"), arguments));
    }

    fn on_sent(&mut self, sent: &cc::Sent) {
        if self.wants_sent {
            let arguments = (sent.now.as_secs_f64(), sent.bytes, sent.flight);
            self.call(|py, object| object.call_method1(py, intern!(py, "on_sent"), arguments));
        }
    }

    fn on_ack(&mut self, ack: &cc::Ack) {
        self.call(|py, object| object.call_method1(py, intern!(py, "on_ack"), (Ack::from(ack),)));
    }

    fn on_loss(&mut self, loss: &cc::Loss) {
        self.call(|py, object| object.call_method1(py, intern!(py, "on_loss"), (Loss::from(loss),)));
    }

    fn on_recovered(&mut self, ack: &cc::Ack) {
        self.call(|py, object| object.call_method1(py, intern!(py, "on_recovered"), (Ack::from(ack),)));
    }

    fn on_timeout(&mut self, loss: &cc::Loss, first: bool) {
        let arguments = (Loss::from(loss), first);
        self.call(|py, object| object.call_method1(py, intern!(py, "on_timeout"), arguments));
    }

    fn on_spurious(&mut self) {
        self.call(|py, object| object.call_method0(py, intern!(py, "on_spurious")));
    }

    fn on_idle(&mut self, restart_window: u64) {
        self.call(|py, object| object.call_method1(py, intern!(py, "on_idle"), (restart_window,)));
    }

    fn window(&self) -> u64 {
        self.numbers.cwnd as u64
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let bps = self.numbers.pacing_bps;
        (bps > 0.0).then(|| Rate::from_bps((bps as u64).max(1)))
    }

    fn state(&self) -> State {
        State { cwnd: self.numbers.cwnd as u64, ssthresh: self.numbers.ssthresh as u64, bandwidth: None }
    }
}
