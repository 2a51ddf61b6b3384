//! The loop that runs a network against a clock.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use bentpipe_net::{Cut, ExternalPort, Packet};
use bentpipe_sim::{ElementId, Network};
use bentpipe_units::{Span, Time};

use crate::realtime::{Urgency, set_min_timer_slack};
use crate::{Clock, Joint, Lateness, Port, poll};

/// Maximum number of packets taken from one port before others are served.
const BATCH: usize = 64;

/// The longest packet a port gives: the largest IP packet.
const MAX_PACKET: usize = 65_536;

/// Time to a deadline below which the driver spins. The kernel wakes a sleeper some tens of microseconds late, which
/// would be the emulator's lateness.
const SPIN: Span = Span::from_micros(60);

/// Time for which a busy thread lets packets gather.
const REST: Span = Span::from_micros(50);

/// Minimum sleep in microseconds for low power.
const NAP_US: u64 = 500;

/// The longest sleep, so that a stop is seen.
const LONGEST_SLEEP: Span = Span::from_millis(20);

/// A device that gives this many errors in a row, and nothing else, is gone.
const MAX_ERRORS_IN_A_ROW: u32 = 16;

/// Waiting strategy of a driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// Reads the clock during the last microseconds before a deadline.
    #[default]
    Precise,
    /// Sleeps until deadlines, at least [`Pace::NAP`] each time, so that packets gather.
    LowPower,
}

impl Pace {
    /// Minimum sleep of [`Pace::LowPower`].
    pub const NAP: Span = Span::from_micros(NAP_US);
}

struct Door {
    gate: ElementId,
    port: Box<dyn Port>,
    errors_in_a_row: u32,
}

/// A port that was given up: its device is gone, with its network namespace perhaps.
#[derive(Debug)]
pub struct Lost {
    /// The gate that it stood at.
    pub gate: ElementId,
    /// Time on the driver's clock.
    pub at: Time,
    /// Last error of the device.
    pub error: io::Error,
}

/// Reason for the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The end asked for was reached.
    AtEnd,
    /// The stop flag was set.
    Stopped,
    /// Every port was lost (see [`Driver::lost`]).
    AllLost,
}

/// Work of one pass of the loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Packets taken from ports.
    pub read: usize,
    /// Packets given to ports.
    pub written: usize,
}

/// Error counts of the ports. No error stops the emulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// Reads that failed.
    pub read: u64,
    /// Packets out of the network that a port refused, as invalid or without room.
    pub write: u64,
}

type Change = Box<dyn FnOnce(&mut Network) + Send>;

/// Changes a network that is being run, from another thread.
#[derive(Clone, Debug)]
pub struct Control(Sender<Change>);

impl Control {
    /// Returns `true` if a change will be applied within [`Control::DELAY`], between two passes. The driver is
    /// still there to do it.
    ///
    /// What the change does to an element takes effect at the instant of the pass; poke the element after it.
    pub fn apply(&self, change: impl FnOnce(&mut Network) + Send + 'static) -> bool {
        self.0.send(Box::new(change)).is_ok()
    }

    /// The longest time until a change is made while the driver runs.
    pub const DELAY: Span = LONGEST_SLEEP;
}

/// Runs a [`Network`] in real time.
pub struct Driver<C: Clock> {
    network: Network,
    clock: C,
    doors: Vec<Door>,
    /// Cut of the network, and the joint with the other machine there.
    joint: Option<(ElementId, Joint)>,
    lost: Vec<Lost>,
    lateness: Lateness,
    errors: Errors,
    changes: Receiver<Change>,
    control: Sender<Change>,
    buffer: Vec<u8>,
    scratch: Vec<u8>,
    urgency: Option<Urgency>,
    pace: Pace,
}

impl<C: Clock> Driver<C> {
    /// A driver of `network`; the clock and the network are both at zero.
    pub fn new(network: Network, clock: C) -> Driver<C> {
        let (control, changes) = mpsc::channel();
        Driver {
            network,
            clock,
            doors: Vec::new(),
            joint: None,
            lost: Vec::new(),
            lateness: Lateness::default(),
            errors: Errors::default(),
            changes,
            control,
            buffer: vec![0; MAX_PACKET],
            scratch: Vec::with_capacity(MAX_PACKET),
            urgency: None,
            pace: Pace::Precise,
        }
    }

    /// Requests real-time priority (`SCHED_FIFO`) for the calling thread, which runs the driver. It is given up while
    /// the thread takes a processor nearly whole: then the kernel would stop it for 50 ms of each second.
    ///
    /// # Errors
    /// If the process may not: it lacks `CAP_SYS_NICE`.
    pub fn request_realtime_priority(&mut self) -> io::Result<()> {
        self.urgency = Some(Urgency::take(self.clock.now())?);
        Ok(())
    }

    /// Sets the waiting strategy.
    pub fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// Connects `port` with `gate`: its packets enter there, and arrivals leave by it.
    pub fn open(&mut self, gate: ElementId, port: impl Port + 'static) {
        self.doors.push(Door { gate, port: Box::new(port), errors_in_a_row: 0 });
    }

    /// Joins the network at a cut with that of another machine.
    pub fn join(&mut self, cut: ElementId, joint: Joint) {
        self.joint = Some((cut, joint));
    }

    /// Returns the joint with another machine, if there is one.
    pub fn joint(&self) -> Option<&Joint> {
        self.joint.as_ref().map(|(_, joint)| joint)
    }

    /// Returns the handle by which other threads change the network.
    pub fn control(&self) -> Control {
        Control(self.control.clone())
    }

    /// The network, between passes.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// The network, to look at.
    pub fn network_ref(&self) -> &Network {
        &self.network
    }

    /// Returns the lateness of the packets that left.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// Errors of the devices while reading and writing.
    pub fn errors(&self) -> Errors {
        self.errors
    }

    /// Ports that were given up. The others go on.
    pub fn lost(&self) -> &[Lost] {
        &self.lost
    }

    /// Runs until the clock is at `end` or `stop` is set. May be called again to go on.
    pub fn run(&mut self, end: Time, stop: &AtomicBool) -> Ended {
        set_min_timer_slack();
        loop {
            let pass = self.pass(end);
            if self.network.now() >= end {
                return Ended::AtEnd;
            }
            if stop.load(Ordering::Relaxed) {
                return Ended::Stopped;
            }
            if self.doors.is_empty() && !self.lost.is_empty() {
                return Ended::AllLost;
            }
            match pass.read {
                0..BATCH if self.pace == Pace::LowPower => self.nap(end),
                0 => self.wait(end),
                1..BATCH if !self.is_awake() => self.rest(end),
                _ => {}
            }
        }
    }

    fn is_awake(&self) -> bool {
        self.urgency.as_ref().is_none_or(Urgency::is_awake)
    }

    /// Waits for several packets, so that a busy thread takes them at once. Due work is not delayed.
    fn rest(&self, end: Time) {
        let left = self.network.next_deadline().min(end) - self.clock.now();
        if left > Span::ZERO {
            let _ = poll::wait([], left.min(REST));
        }
    }

    /// Sleeps until the next deadline or packet, but at least for [`Pace::NAP`].
    fn nap(&self, end: Time) {
        let left = (end - self.clock.now()).min(Pace::NAP);
        let _ = poll::wait([], left);
        let deadline = self.network.next_deadline().min(end);
        let left = (deadline - self.clock.now()).min(LONGEST_SLEEP);
        if left > Span::ZERO {
            let _ = poll::wait(self.fds(), left);
        }
    }

    /// Runs what is due, applies changes, and moves packets in and out, once.
    pub fn pass(&mut self, end: Time) -> Pass {
        let clock = self.clock.now();
        if let Some(urgency) = &mut self.urgency {
            urgency.keep(clock);
        }
        let now = clock.min(end);
        self.network.run_until(now);
        let changed = self.make_changes();
        // What comes after the end belongs to the next run.
        let read =
            if clock < end { (0..self.doors.len()).map(|door| self.drain(door, end)).sum() } else { 0 };
        let now = self.network.now();
        let came = self.receive(now);
        if read + came > 0 || changed {
            self.network.run_until(now);
        }
        let written = self.flush() + self.send();
        self.give_up_lost();
        Pass { read: read + came, written }
    }

    fn make_changes(&mut self) -> bool {
        let changes = self.changes.try_iter().map(|change| change(&mut self.network));
        changes.count() > 0
    }

    /// Reads the packets that wait at a door, at most [`BATCH`]. Each enters at the instant at which it was read.
    ///
    /// The instant of the pass is older, by what the pass has done since and by any time for which the thread was not run: a
    /// packet that came in between would leave early by that much (4 of 25,000 by up to 0.2 ms on a busy machine).
    fn drain(&mut self, door: usize, end: Time) -> usize {
        let Door { gate, port, errors_in_a_row } = &mut self.doors[door];
        for taken in 0..BATCH {
            match port.read(&mut self.buffer) {
                Ok(Some(len)) => {
                    *errors_in_a_row = 0;
                    let read_at = self.clock.now().min(end);
                    if self.network.now() < read_at {
                        self.network.run_until(read_at);
                    }
                    self.network.inject(
                        *gate,
                        ExternalPort::OUTSIDE,
                        Packet::from_bytes(&self.buffer[..len]),
                    );
                }
                Ok(None) => {
                    *errors_in_a_row = 0;
                    return taken;
                }
                Err(error) => {
                    self.errors.read += 1;
                    *errors_in_a_row += 1;
                    if *errors_in_a_row == MAX_ERRORS_IN_A_ROW {
                        self.lost.push(Lost { gate: *gate, at: self.network.now(), error });
                    }
                    return taken;
                }
            }
        }
        BATCH
    }

    /// Receives packets from the other machine.
    fn receive(&mut self, now: Time) -> usize {
        let Some((cut, joint)) = &mut self.joint else { return 0 };
        let Some(element) = self.network.element::<Cut>(*cut) else { return 0 };
        let came = joint.receive(now).map(|(number, due, packet)| element.schedule(now, number, due, packet));
        let came = came.count();
        if came > 0 {
            self.network.poke(*cut);
        }
        came
    }

    /// Sends packets to the other machine.
    fn send(&mut self) -> usize {
        let Some((cut, joint)) = &mut self.joint else { return 0 };
        let Some(cut) = self.network.element::<Cut>(*cut) else { return 0 };
        let mut sent = 0;
        while let Some((due, packet)) = cut.take() {
            self.scratch.clear();
            packet.write_to(&mut self.scratch);
            joint.send(due, &self.scratch);
            sent += 1;
        }
        joint.flush();
        sent
    }

    fn flush(&mut self) -> usize {
        let mut written = 0;
        for Door { gate, port, .. } in &mut self.doors {
            let Some(gate) = self.network.element::<ExternalPort>(*gate) else { continue };
            while let Some((due, packet)) = gate.take() {
                self.scratch.clear();
                packet.write_to(&mut self.scratch);
                self.errors.write += u64::from(port.write(&self.scratch).is_err());
                self.lateness.record(self.clock.now() - due);
                written += 1;
            }
            self.errors.write += u64::from(port.flush().is_err());
        }
        written
    }

    /// Closes the doors whose devices are gone, which a wait would find ready indefinitely.
    fn give_up_lost(&mut self) {
        if !self.lost.is_empty() {
            self.doors.retain(|door| door.errors_in_a_row < MAX_ERRORS_IN_A_ROW);
        }
    }

    /// Returns the descriptors to wait for.
    fn fds(&self) -> impl Iterator<Item = std::os::fd::BorrowedFd<'_>> {
        let joint = self.joint.iter().map(|(_, joint)| std::os::fd::AsFd::as_fd(joint.socket()));
        self.doors.iter().filter_map(|door| door.port.fd()).chain(joint)
    }

    /// Waits for the next deadline or the next packet.
    fn wait(&self, end: Time) {
        let deadline = self.network.next_deadline().min(end);
        let mut fds = self.fds().peekable();
        if fds.peek().is_none() {
            return self.clock.pass_until(deadline);
        }
        let left = (deadline - self.clock.now()).min(LONGEST_SLEEP);
        let spin = if self.is_awake() { SPIN } else { Span::ZERO };
        if left > spin {
            // An interrupted or failed wait only means that the loop comes round early.
            let _ = poll::wait(fds, left - spin);
        }
    }
}
