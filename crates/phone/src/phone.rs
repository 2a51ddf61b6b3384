//! Agent, sockets and clock together.

use std::io;

use bentpipe_emu::{Clock, Monotonic, poll};
use bentpipe_signalling::agent::{Agent, Config, Event};
use bentpipe_units::{RandomStream, Span, Time};

use crate::sockets::{Arrival, Sockets};

/// Longest wait, so that a stop is seen.
const LONGEST_WAIT: Span = Span::from_millis(50);
/// Longest wait while bytes wait for a connection.
const STREAM_WAIT: Span = Span::from_millis(2);

/// User agent on real sockets.
pub struct Phone {
    agent: Agent,
    sockets: Sockets,
    clock: Monotonic,
}

impl Phone {
    /// Opens the sockets at the local address of the settings. Port 0 chooses a free port.
    ///
    /// The seed must be random where other machines can send: tags and branches depend on it.
    ///
    /// # Errors
    /// Returns an error if the address is taken or not local.
    pub fn open(mut config: Config, seed: u64) -> io::Result<Phone> {
        let sockets = Sockets::open(config.local)?;
        config.local = sockets.local();
        let agent = Agent::new(config, RandomStream::new(seed, "phone"));
        Ok(Phone { agent, sockets, clock: Monotonic::start() })
    }

    /// Returns the agent.
    pub fn agent(&mut self) -> &mut Agent {
        &mut self.agent
    }

    /// Returns the sockets.
    pub fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    /// Returns the time since the sockets were opened.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Sends what is due, waits until `until` at most, receives, and returns the events.
    pub fn turn(&mut self, until: Time) -> Vec<Event> {
        self.flush();
        let now = self.now();
        let longest = if self.sockets.is_waiting() { STREAM_WAIT } else { LONGEST_WAIT };
        let wait = (self.agent.deadline().min(until) - now).min(longest);
        // An interrupted wait is a short one.
        let _ = poll::wait(self.sockets.descriptors(), wait);
        for arrival in self.sockets.take() {
            let now = self.now();
            match arrival {
                Arrival::Datagram(from, bytes) => self.agent.receive(now, from, &bytes),
                Arrival::Message(from, message) => self.agent.receive_message(now, from, message),
                Arrival::Lost(peer) => self.agent.unreachable(now, peer),
            }
        }
        let now = self.now();
        self.agent.handle_timeout(now);
        self.flush();
        std::iter::from_fn(|| self.agent.poll_event()).collect()
    }

    /// Sends all messages of the agent.
    pub fn flush(&mut self) {
        while let Some(transmit) = self.agent.poll_transmit() {
            if let Err(peer) = self.sockets.send(&transmit) {
                let now = self.now();
                self.agent.unreachable(now, peer);
            }
        }
    }
}
