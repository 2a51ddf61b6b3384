//! Elements in Python.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bentpipe_net as net;
use bentpipe_net::custom::{self, Done};
use bentpipe_units::{RandomStream, Rate, Time};
use bentpipe_wire::ip::{self, Ecn, Protocol};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;
use crate::script::{Left, Object, after, instant, seed};

/// Longest IP packet.
const MAX_LEN: usize = 65_535;

/// Direction of a link that an element is in front of.
#[pyclass(frozen, get_all, module = "bentpipe._native")]
pub(crate) struct Ahead {
    /// Line rate in bit/s.
    rate: f64,
}

/// IP packet at an element, which passes it on, drops it or holds it.
#[pyclass(frozen, module = "bentpipe._native")]
pub(crate) struct Packet(Mutex<Option<net::Packet>>);

/// Returns what a header says, if it is one.
fn parsed<T>(packet: &net::Packet, read: impl FnOnce(&ip::Packet<&[u8]>) -> Option<T>) -> Option<T> {
    let header = packet.header();
    let packet = ip::Packet::new_elided(header, packet.len() - header.len()).ok()?;
    read(&packet)
}

/// Returns the ports of UDP, TCP and DCCP.
fn ports(packet: &ip::Packet<&[u8]>) -> Option<(u16, u16)> {
    let upper = packet.upper().ok()?;
    let has_ports = [Protocol::UDP, Protocol::TCP, Protocol::DCCP].contains(&upper.protocol);
    let bytes = upper.bytes.first_chunk::<4>().filter(|_| has_ports && !upper.is_fragment)?;
    let [a, b, c, d] = *bytes;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

impl Packet {
    fn new(packet: net::Packet) -> Packet {
        Packet(Mutex::new(Some(packet)))
    }

    fn locked(&self) -> MutexGuard<'_, Option<net::Packet>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the packet from the object.
    fn take(&self) -> PyResult<net::Packet> {
        self.locked().take().ok_or_else(gone)
    }

    fn read<T>(&self, read: impl FnOnce(&net::Packet) -> T) -> PyResult<T> {
        self.locked().as_ref().map(read).ok_or_else(gone)
    }
}

fn gone() -> PyErr {
    PyRuntimeError::new_err("the packet was sent before: send a copy() of a packet that is needed again")
}

#[pymethods]
impl Packet {
    /// Length of the IP packet in bytes.
    fn __len__(&self) -> PyResult<usize> {
        self.read(net::Packet::len)
    }

    /// Time at which the application sent it, in seconds.
    #[getter]
    fn created(&self) -> PyResult<f64> {
        self.read(|packet| packet.created_at().as_secs_f64())
    }

    /// Bytes of the IP packet, zeros written out.
    #[getter]
    fn bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.read(|packet| PyBytes::new(py, &packet.to_vec()))
    }

    /// Source address and port; `None` without ports.
    #[getter]
    fn source(&self) -> PyResult<Option<(String, u16)>> {
        self.read(|packet| parsed(packet, |ip| Some((ip.src().to_string(), ports(ip)?.0))))
    }

    /// Destination address and port; `None` without ports.
    #[getter]
    fn destination(&self) -> PyResult<Option<(String, u16)>> {
        self.read(|packet| parsed(packet, |ip| Some((ip.dst().to_string(), ports(ip)?.1))))
    }

    /// Number of the protocol above IP, such as 6 for TCP and 17 for UDP.
    #[getter]
    fn protocol(&self) -> PyResult<Option<u8>> {
        self.read(|packet| parsed(packet, |ip| Some(ip.upper().ok()?.protocol.0)))
    }

    /// Differentiated services codepoint.
    #[getter]
    fn dscp(&self) -> PyResult<Option<u8>> {
        self.read(|packet| parsed(packet, |ip| Some(ip.traffic_class().dscp())))
    }

    /// Set if its ends can handle marks of congestion (ECN).
    #[getter]
    fn is_ecn_capable(&self) -> PyResult<bool> {
        self.read(|packet| {
            parsed(packet, |ip| Some(ip.traffic_class().ecn() != Ecn::NotEct)).unwrap_or_default()
        })
    }

    /// Marks congestion (ECN). Returns false, and changes nothing, if the ends cannot handle it.
    fn mark(&self) -> PyResult<bool> {
        let mut packet = self.locked();
        let packet = packet.as_mut().ok_or_else(gone)?;
        let elided = packet.len() - packet.header().len();
        let ip = ip::Packet::new_elided(packet.header_mut(), elided).ok();
        let capable = ip.filter(|ip| ip.traffic_class().ecn() != Ecn::NotEct);
        Ok(capable.map(|mut ip| ip.mark_ecn(Ecn::Ce)).is_some())
    }

    /// Returns another packet that is the same.
    fn copy(&self) -> PyResult<Packet> {
        self.read(|packet| Packet::new(packet.copy()))
    }

    /// Returns a packet of other bytes and the same time of creation.
    fn with_bytes(&self, bytes: &[u8]) -> PyResult<Packet> {
        if !(1..=MAX_LEN).contains(&bytes.len()) {
            return Err(errors::value(format!(
                "{} bytes: expected an IP packet of 1 to {MAX_LEN}",
                bytes.len()
            )));
        }
        let mut packet = self.locked();
        let mut made = net::Packet::from_bytes(bytes);
        made.set_origin(packet.as_mut().ok_or_else(gone)?.take_origin());
        Ok(Packet::new(made))
    }

    fn __repr__(&self) -> String {
        let text = self.read(|packet| format!("<bentpipe.Packet of {} bytes>", packet.len()));
        text.unwrap_or_else(|_| "<bentpipe.Packet, sent>".to_owned())
    }
}

/// Registers an element: a function of Python that makes one for a link.
#[pyfunction]
pub(crate) fn register_element(identity: &str, make: Py<PyAny>) {
    custom::register(identity, move |rate: Rate| {
        let ahead = Ahead { rate: rate.as_bps() as f64 };
        Box::new(Scripted(Object::new(|py| make.call1(py, (ahead,)))))
    });
}

/// Element in Python.
struct Scripted(Object);

/// Notes what a call left. A wake-up has to be at `least` or later.
fn note(left: &Bound<'_, PyAny>, least: Time, done: &mut Done) -> PyResult<()> {
    let (sent, dropped, wake_s, value): Left<Bound<'_, Packet>> = left.extract()?;
    for packet in sent {
        done.sent.push(packet.get().take()?);
    }
    (done.dropped, done.wake) = (dropped, instant(wake_s, least)?);
    done.value = value.unwrap_or(f64::NAN);
    Ok(())
}

impl custom::Script for Scripted {
    fn start(&mut self, stream: &mut RandomStream, done: &mut Done) {
        let start = |py: Python<'_>, object: &Py<PyAny>| {
            seed(py, object, stream)?;
            object.call_method0(py, intern!(py, "on_start"))
        };
        self.0.call(start, |left| note(&left, Time::ZERO, done));
    }

    fn receive(&mut self, now: Time, packet: net::Packet, done: &mut Done) {
        let arguments = (now.as_secs_f64(), Packet::new(packet));
        self.0.call(
            |py, object| object.call_method1(py, intern!(py, "on_packet"), arguments),
            |left| note(&left, now, done),
        );
    }

    fn wake(&mut self, now: Time, done: &mut Done) {
        let wake = |py: Python<'_>, object: &Py<PyAny>| {
            object.setattr(py, intern!(py, "wake_at"), py.None())?;
            object.call_method1(py, intern!(py, "on_wake"), (now.as_secs_f64(),))
        };
        self.0.call(wake, |left| note(&left, after(now), done));
    }
}
