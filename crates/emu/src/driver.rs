//! The loop that runs a network against a clock.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_net::{Gate, Packet};
use bentpipe_sim::{ElementId, Network};
use bentpipe_units::{Span, Time};

use crate::{Clock, Lateness, Port};

/// Packets taken from one port before the others have their turn and what is due is run.
const BATCH: usize = 64;

/// The longest packet a port gives: the largest IP packet.
const MAX_PACKET: usize = 65_536;

/// Nearer deadlines than this are waited for by looking at the clock: the kernel wakes a sleeper some tens of
/// microseconds late, which is what the emulator's lateness would be.
const SPIN: Span = Span::from_micros(60);

/// The longest sleep, so that a stop is seen.
const LONGEST_SLEEP: Span = Span::from_millis(20);

struct Door {
    gate: ElementId,
    port: Box<dyn Port>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The end asked for was reached.
    AtEnd,
    /// Somebody set the stop flag.
    Stopped,
}

/// What one pass of the loop did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Packets taken from ports.
    pub read: usize,
    /// Packets given to ports.
    pub written: usize,
}

/// Runs a [`Network`] in real time.
pub struct Driver<C: Clock> {
    network: Network,
    clock: C,
    doors: Vec<Door>,
    lateness: Lateness,
    read_errors: u64,
    write_errors: u64,
    buffer: Vec<u8>,
    scratch: Vec<u8>,
}

impl<C: Clock> Driver<C> {
    /// A driver of `network`; the clock and the network are both at zero.
    pub fn new(network: Network, clock: C) -> Driver<C> {
        let (buffer, scratch) = (vec![0; MAX_PACKET], Vec::with_capacity(MAX_PACKET));
        let lateness = Lateness::default();
        Driver {
            network,
            clock,
            doors: Vec::new(),
            lateness,
            read_errors: 0,
            write_errors: 0,
            buffer,
            scratch,
        }
    }

    /// Opens a door: packets of `port` enter the network at `gate`, and what arrives there goes out at `port`.
    pub fn open(&mut self, gate: ElementId, port: impl Port + 'static) {
        self.doors.push(Door { gate, port: Box::new(port) });
    }

    /// The network, between passes.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// How late packets left.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// Errors of the devices while reading and writing. None stops the emulation.
    pub fn errors(&self) -> (u64, u64) {
        (self.read_errors, self.write_errors)
    }

    /// Runs until the clock is at `end` or `stop` is set.
    pub fn run(&mut self, end: Time, stop: &AtomicBool) -> Ended {
        loop {
            let pass = self.pass(end);
            if self.network.now() >= end {
                return Ended::AtEnd;
            }
            if stop.load(Ordering::Relaxed) {
                return Ended::Stopped;
            }
            if pass.read == 0 {
                self.wait(end);
            }
        }
    }

    /// Once: takes what waits at the ports, runs what is due, and sends out what left.
    pub fn pass(&mut self, end: Time) -> Pass {
        let now = self.clock.now().min(end);
        self.network.run_until(now);
        let read = (0..self.doors.len()).map(|door| self.drain(door)).sum();
        if read > 0 {
            self.network.run_until(now);
        }
        Pass { read, written: self.flush() }
    }

    fn drain(&mut self, door: usize) -> usize {
        let Door { gate, port } = &mut self.doors[door];
        for taken in 0..BATCH {
            match port.read(&mut self.buffer) {
                Ok(Some(len)) => {
                    self.network.inject(*gate, Gate::OUTSIDE, Packet::from_bytes(&self.buffer[..len]));
                }
                Ok(None) => return taken,
                Err(_) => {
                    self.read_errors += 1;
                    return taken;
                }
            }
        }
        BATCH
    }

    fn flush(&mut self) -> usize {
        let mut written = 0;
        for Door { gate, port } in &mut self.doors {
            while let Some((due, packet)) = self.network.element::<Gate>(*gate).and_then(Gate::take) {
                self.scratch.clear();
                packet.write_to(&mut self.scratch);
                self.write_errors += u64::from(port.write(&self.scratch).is_err());
                self.lateness.record(self.clock.now() - due);
                written += 1;
            }
            self.write_errors += u64::from(port.flush().is_err());
        }
        written
    }

    /// Waits for the next deadline or the next packet.
    fn wait(&self, end: Time) {
        let deadline = self.network.next_deadline().min(end);
        let fds: Vec<BorrowedFd<'_>> = self.doors.iter().filter_map(|door| door.port.fd()).collect();
        if fds.is_empty() {
            return self.clock.pass_until(deadline);
        }
        let left = (deadline - self.clock.now()).min(LONGEST_SLEEP);
        if left > SPIN {
            // An interrupted or failed wait only means that the loop comes round early.
            let _ = poll(&fds, left - SPIN);
        }
    }
}

/// Waits until one of the descriptors can be read, at most `timeout`.
fn poll(fds: &[BorrowedFd<'_>], timeout: Span) -> io::Result<()> {
    let entry = |fd: &BorrowedFd<'_>| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut entries: Vec<libc::pollfd> = fds.iter().map(entry).collect();
    let nanos = timeout.as_nanos();
    let timeout = libc::timespec {
        tv_sec: (nanos / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanos % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the array and the timespec live for the call, its length is passed with it, and a null signal mask
    // means none.
    let result = unsafe {
        libc::ppoll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, &timeout, std::ptr::null())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
