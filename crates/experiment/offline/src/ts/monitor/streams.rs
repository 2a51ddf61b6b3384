//! Monitors of the streams of a live input.

use std::net::SocketAddr;

use bentpipe_intake::{Account, Select, StreamEntry, StreamId, Streams, Unit};
use bentpipe_units::Span;
use bentpipe_wire::ts::{PACKET_LEN, Pid};
use serde_json::{Value, json};

use super::{Alarm, Limits, Monitor, Second};
use crate::Error;

/// Most streams that are monitored at a time.
pub const MAX_MONITORS: usize = 32;

/// Callback invoked with the place of a stream and each alarm.
type Sink<'a> = &'a mut dyn FnMut(usize, &Alarm);

/// Units that a datagram completes.
#[derive(Debug, Default)]
struct Units {
    place: Option<usize>,
    packets: Vec<[u8; PACKET_LEN]>,
}

impl bentpipe_intake::Sink for Units {
    fn unit(&mut self, stream: usize, _: Option<u64>, unit: Unit<'_>) {
        self.place = Some(stream);
        if let Unit::Ts(packet) = unit {
            self.packets.push(*packet);
        }
    }
}

/// Monitors of the streams of a live input, each of its own stream.
pub struct Monitors {
    limits: Limits,
    streams: Streams,
    /// Monitors by the place of their stream. The first one waits for a stream.
    all: Vec<Monitor>,
    entries: Vec<StreamEntry>,
    units: Units,
    /// Packets of streams without a monitor.
    beyond: u64,
    /// PIDs whose alarms are raised. Empty: all.
    pids: Vec<Pid>,
}

impl Monitors {
    /// Creates monitors of selected streams that start at a time in nanoseconds since 1970.
    pub fn new(limits: Limits, select: Select, now_ns: u64) -> Monitors {
        let (all, entries) = (vec![Monitor::new(limits, now_ns)], vec![StreamEntry::default()]);
        let (streams, units) = (Streams::new(select), Units::default());
        Monitors { limits, streams, all, entries, units, beyond: 0, pids: Vec::new() }
    }

    /// Raises alarms of these PIDs, the tables and the whole stream alone.
    #[must_use]
    pub fn only(mut self, pids: &[Pid]) -> Monitors {
        self.pids = pids.to_vec();
        self.all = self.all.into_iter().map(|monitor| monitor.only(pids)).collect();
        self
    }

    /// Logs rates of the first stream to a file: see [`Monitor::log_rates`].
    ///
    /// # Errors
    /// Returns an error if the file cannot be written, or the interval is shorter than a microsecond.
    pub fn log_rates(&mut self, path: &std::path::Path, interval: Span) -> Result<(), Error> {
        self.all[0].log_rates(path, interval)
    }

    /// Handles a datagram by its source and destination.
    pub fn push(&mut self, at_ns: u64, ends: (SocketAddr, SocketAddr), bytes: &[u8], sink: Sink<'_>) {
        self.units.packets.clear();
        self.units.place = None;
        self.streams.live(at_ns, ends, bytes, &mut self.units);
        let Some((place, after)) =
            self.units.place.and_then(|place| Some((place, self.streams.entry(place)?)))
        else {
            return;
        };
        if place >= MAX_MONITORS {
            self.beyond += self.units.packets.len() as u64;
            return;
        }
        while self.all.len() <= place {
            self.all.push(Monitor::new(self.limits, at_ns).only(&self.pids));
            self.entries.push(StreamEntry::default());
        }
        let before = std::mem::replace(&mut self.entries[place], after);
        let monitor = &mut self.all[place];
        let mut sink = |alarm: &Alarm| sink(place, alarm);
        monitor.faults(at_ns, [before, after], &mut sink);
        self.units.packets.iter().for_each(|packet| monitor.packet(at_ns, packet, &mut sink));
    }

    /// Checks the timers, and calls `each` with each second that has ended.
    ///
    /// It gets the place of the stream too.
    pub fn tick(&mut self, now_ns: u64, sink: Sink<'_>, mut each: impl FnMut(usize, &Second)) {
        for (place, monitor) in self.all.iter_mut().enumerate() {
            if let Some(second) = monitor.tick(now_ns, &mut |alarm| sink(place, alarm)) {
                each(place, &second);
            }
        }
    }

    /// Returns the monitors, by the places of their streams.
    pub fn all(&self) -> &[Monitor] {
        &self.all
    }

    /// Returns the stream of a place, if there are several.
    pub fn name(&self, place: usize) -> Option<StreamId> {
        (self.all.len() > 1).then(|| self.streams.entry(place)).flatten().map(|entry| entry.id)
    }

    /// Returns the account of what was received.
    pub fn account(&self) -> &Account {
        self.streams.account()
    }

    /// Returns `true` once an alarm was raised.
    pub fn has_alarms(&self) -> bool {
        self.beyond > 0 || self.all.iter().any(Monitor::has_alarms)
    }

    /// Ends the input. A stream of which nothing came is an alarm.
    ///
    /// # Errors
    /// Returns an error if the log of rates cannot be written.
    pub fn finish(&mut self, now_ns: u64, sink: Sink<'_>) -> Result<(), Error> {
        self.streams.finish(&mut Units::default());
        for (place, monitor) in self.all.iter_mut().enumerate() {
            monitor.finish(now_ns, &mut |alarm| sink(place, alarm))?;
        }
        Ok(())
    }

    /// Returns the datagrams of a stream, plain and of RTP.
    fn datagrams(&self, place: usize) -> [u64; 2] {
        let entry = self.streams.entry(place).unwrap_or_default();
        match entry.id.ssrc {
            Some(_) => [0, entry.datagrams],
            None => [entry.datagrams, 0],
        }
    }

    /// Returns the datagrams of the input that are of no stream.
    fn foreign(&self) -> u64 {
        self.account().left_out_sum().records
    }

    /// Returns the summaries of all streams as text.
    pub fn summary(&self, colours: bool) -> String {
        let one = |(place, monitor): (usize, &Monitor)| {
            let name = self.name(place).map_or_else(String::new, |name| format!("{name}\n"));
            let [plain, rtp] = self.datagrams(place);
            let datagrams = format!("  datagrams: {plain} plain, {rtp} of RTP\n");
            name + &datagrams + &monitor.summary(colours)
        };
        let foreign = match self.foreign() {
            0 => String::new(),
            count => {
                format!("\n{count} datagrams of the input are of no stream: without packets, or left out\n")
            }
        };
        let beyond = match self.beyond {
            0 => String::new(),
            packets => format!("\n{packets} packets of more than {MAX_MONITORS} streams are not monitored\n"),
        };
        self.all.iter().enumerate().map(one).collect::<Vec<_>>().join("\n") + &foreign + &beyond
    }

    /// Returns the summaries as JSON, with the account of `input`. Several streams are a list.
    pub fn json(&self, input: &str) -> Value {
        let one = |(place, monitor): (usize, &Monitor)| {
            let entry = self.streams.entry(place);
            let mut json = monitor.json();
            json["stream"] = json!(entry.map(|entry| entry.id.to_string()));
            let [plain, rtp] = self.datagrams(place);
            json["datagrams"] = json!({ "plain": plain, "rtp": rtp });
            json["missing"] = json!(entry.map_or(0, |entry| entry.missing));
            json
        };
        let mut all: Vec<Value> = self.all.iter().enumerate().map(one).collect();
        let mut json = match all.len() {
            1 => all.remove(0),
            _ => json!({ "streams": all }),
        };
        json["datagrams_of_no_stream"] = json!(self.foreign());
        json["intake"] = self.account().json(input);
        json
    }
}
