//! A remote site: the stream towards it, and the streams from it.

use bentpipe_net::Impossible;
use bentpipe_net::dvb::{self, DataPid, Decapsulator, Encapsulator, Event, Pdu, RohcMode};
use bentpipe_units::Time;
use bentpipe_wire::ethernet;
use bentpipe_wire::ts::PACKET_LEN;

use super::config::Remote as Config;

/// A remote site's streams.
#[derive(Debug)]
pub(super) struct Remote {
    pub(super) config: Config,
    encapsulator: Encapsulator,
    decapsulators: Vec<Decapsulator>,
    feedback: Vec<u8>,
    queue_bytes: usize,
    /// Packets dropped because as much waited as may.
    pub(super) overflowed: u64,
    /// Packets dropped because they came back to where they are from.
    pub(super) looped: u64,
}

/// What is received: a TS packet, or the data field of a baseband frame.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece<'a> {
    Packet(&'a [u8; PACKET_LEN]),
    Field(&'a [u8]),
}

impl Remote {
    pub(super) fn new(config: &Config, queue_bytes: usize) -> Result<Remote, Impossible> {
        let stream = |pid: u16| {
            let pid = DataPid::new(pid).unwrap_or(config.stream.pid);
            dvb::Config { pid, ..config.stream.clone() }
        };
        let addresses = if config.own_addresses.is_empty() {
            ethernet::Filter::All
        } else {
            ethernet::Filter::Only(config.own_addresses.clone())
        };
        let decapsulator = |(n, &pid): (usize, &u16)| {
            let mut stream = stream(pid);
            // There is one way back, so only one decompressor can be heard.
            if let Some(rohc) = stream.rohc.as_mut().filter(|_| n > 0) {
                rohc.mode = RohcMode::Unidirectional;
            }
            Decapsulator::new(&stream, addresses.clone())
        };
        Ok(Remote {
            encapsulator: Encapsulator::new(&stream(config.send))?,
            decapsulators: config.receive.iter().enumerate().map(decapsulator).collect::<Result<_, _>>()?,
            config: config.clone(),
            feedback: Vec::new(),
            queue_bytes,
            overflowed: 0,
            looped: 0,
        })
    }

    /// Takes new settings that keep the contexts.
    pub(super) fn change(&mut self, config: &Config, queue_bytes: usize) {
        // A configuration with an impossible value was refused when it was read.
        let _ = self.encapsulator.set(&config.stream);
        self.config = config.clone();
        self.queue_bytes = queue_bytes;
    }

    /// Sends a packet, unless too much waits already. It is compressed only if it will be sent.
    pub(super) fn push(&mut self, now: Time, pdu: &Pdu<'_>) {
        if self.waiting_bytes() >= self.queue_bytes {
            self.overflowed += 1;
        } else {
            // Why it was refused is counted there.
            let _ = self.encapsulator.push(now, pdu);
        }
    }

    /// What waits to be sent, in whole TS packets or in GSE's packets.
    pub(super) fn waiting_bytes(&self) -> usize {
        let packets = self.encapsulator.filled() - self.encapsulator.sent().frames;
        packets as usize * PACKET_LEN + self.encapsulator.waiting_len()
    }

    /// The next TS packet, if one is full or due.
    pub(super) fn pop(&mut self, now: Time) -> Option<[u8; PACKET_LEN]> {
        self.encapsulator.pop(now)
    }

    /// The next data field, if one is full or due: appended to `out`, its length.
    pub(super) fn fill(&mut self, now: Time, capacity: usize, out: &mut Vec<u8>) -> Option<usize> {
        self.encapsulator.fill(now, capacity, out)
    }

    /// When there is something to send next, as far as is known now.
    pub(super) fn due(&self, now: Time, capacity: usize) -> Time {
        if self.encapsulator.is_ready(now, capacity) {
            now
        } else {
            self.encapsulator.due().unwrap_or(Time::NEVER)
        }
    }

    /// Takes what came on the `n`-th of its PIDs, calls `sink` with what comes of it, and exchanges feedback.
    pub(super) fn receive(&mut self, now: Time, n: usize, piece: Piece<'_>, sink: impl FnMut(Event<'_>)) {
        let Some(decapsulator) = self.decapsulators.get_mut(n) else { return };
        match piece {
            Piece::Packet(packet) => decapsulator.push(now, packet, sink),
            Piece::Field(field) => decapsulator.push_field(now, field, sink),
        }
        if self.config.stream.rohc.is_none() {
            return;
        }
        self.feedback.clear();
        if decapsulator.take_received_feedback(&mut self.feedback) {
            self.encapsulator.feedback(&self.feedback);
            self.feedback.clear();
        }
        if n == 0 && decapsulator.take_feedback(&mut self.feedback) {
            self.encapsulator.send_feedback(now, &self.feedback);
        }
    }

    pub(super) fn encapsulator(&self) -> &Encapsulator {
        &self.encapsulator
    }

    /// Receiving ends with their PIDs.
    pub(super) fn decapsulators(&self) -> impl Iterator<Item = (u16, &Decapsulator)> {
        self.config.receive.iter().copied().zip(&self.decapsulators)
    }
}
