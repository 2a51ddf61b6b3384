//! 802.11b/g basic service set: stations that share a medium by the distributed coordination function.
//!
//! Modelled: DIFS, EIFS, slots, binary exponential backoff that freezes while the medium is busy,
//! post-backoff, collisions, ACKs and their timeout, retransmission up to a limit, RTS/CTS, CTS-to-self,
//! preambles, rates and their adaptation, errors of frames before retransmission. Not modelled: hidden
//! stations, capture, errors of control frames, fragments, beacons and association, power saving, 802.11e. A
//! frame is sensed without delay, so only stations whose backoff ends at the same instant collide.
//!
//! The coordination function is that of IEEE 802.11-2007 (clause 9.2), validated against Bianchi's formula;
//! errors and retransmission follow section 4.3 of the SatNEx platform paper.
//!
//! The element wakes, as a link does, at the delivery of a packet or at the choice of the next sender.
//! Everything in between is then processed late, each transmission at its own exact instant.

use std::any::Any;
use std::collections::VecDeque;

use bentpipe_net::queue::Discipline;
use bentpipe_net::{Busy, Cx, Element, InvalidConfig, Observer, Packet, Port, Why, channel};
use bentpipe_units::{Bytes, RandomStream, Rate, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod kind;
pub mod metrics;
mod path;
mod phy;
mod rate;
mod runs;
mod signal;
mod station;

pub use phy::{Exchange, OVERHEAD, Preamble, Standard};
pub use rate::{Adaptation, Steps};

use path::{Path, Sent};
use phy::Timing;
use station::Station;

/// Refusal of a change of a path that the cell does not have.
const NO_PATH: InvalidConfig = InvalidConfig::new("cell", "the cell of the path");

/// Configuration of a Wi-Fi link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Config {
    /// PHY standard.
    pub standard: Standard,
    /// The preamble of 802.11b frames.
    pub preamble: Preamble,
    /// Rate of data frames, one of the standard's; with rate adaptation the initial rate. Default: the
    /// highest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub rate: Option<Rate>,
    /// Rate adaptation.
    pub adaptation: Adaptation,
    /// Maximum number of transmissions of a frame before it is dropped.
    #[schemars(range(min = 1))]
    pub attempts: u32,
    /// Minimum length of an IP packet for RTS/CTS. Default: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rts: Option<Bytes>,
    /// Basic service set: links with the same name share a medium. Default: a medium of the link's two directions only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bss: Option<String>,
    /// Enables the report of run lengths, of lost and of acknowledged frames.
    pub runs: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            standard: Standard::B,
            preamble: Preamble::Long,
            rate: None,
            adaptation: Adaptation::None,
            attempts: 7,
            rts: None,
            bss: None,
            runs: false,
        }
    }
}

impl Config {
    /// Returns the rate of the first frame, as a number from the standard's lowest.
    ///
    /// # Errors
    /// Returns an error if the standard lacks the rate.
    fn rate_number(&self) -> Result<usize, InvalidConfig> {
        let rates = self.standard.rates();
        let number = self.rate.map_or(Some(rates.len() - 1), |rate| rates.iter().position(|r| *r == rate));
        let expected = match self.standard {
            Standard::B => "one of 1, 2, 5.5 and 11 Mbit/s",
            Standard::G | Standard::GMixed => "one of 6, 9, 12, 18, 24, 36, 48 and 54 Mbit/s",
        };
        number.ok_or(InvalidConfig::new("rate", expected))
    }

    /// Returns the rate of data frames; with rate adaptation the initial one.
    pub fn data_rate(&self) -> Rate {
        self.rate.or(self.standard.rates().last().copied()).unwrap_or_default()
    }

    /// Returns the exchange that carries an IP packet of that length.
    pub fn exchange(&self, packet_len: usize) -> Exchange {
        let rts = self.rts.is_some_and(|threshold| packet_len as u64 >= threshold.get());
        Exchange::of(self.standard, self.preamble, self.data_rate(), packet_len, rts)
    }

    /// Returns the exchange that carries an IP packet to a group.
    ///
    /// It is at the lowest rate, without an ACK.
    pub fn exchange_to_group(&self, packet_len: usize) -> Exchange {
        Exchange::to_group(self.standard, self.preamble, packet_len)
    }
}

/// Direction of a link in a BSS. Packets enter and leave at its port.
#[derive(Clone, Debug)]
pub struct PathConfig {
    /// Path under which counters are reported: "link/wlan/forward".
    pub name: String,
    /// The number of the station that sends, from 0.
    pub station: usize,
    /// Wi-Fi settings.
    pub wifi: Config,
    /// Queue of the station for this receiver.
    pub queue: Discipline,
    /// Errors of frames, before any retransmission.
    pub errors: Option<channel::LoadedFault>,
    /// Propagation delay, at most a slot.
    pub delay: Span,
    /// The longest IP packet.
    pub mtu: Bytes,
}

/// Error returned when a basic service set cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The number of the direction.
    pub path: usize,
    /// Part of the configuration: "wifi", "queue" or "channel". Empty for a key of the link.
    pub part: &'static str,
    /// Key and expected value.
    pub impossible: InvalidConfig,
}

/// State of the medium.
#[derive(Clone, Copy, Debug)]
enum Medium {
    Idle { since: Time },
    Busy { until: Time },
}

/// Basic service set (BSS). Input and output n belong to direction n.
pub struct Wifi {
    timing: Timing,
    paths: Vec<Path>,
    stations: Vec<Station>,
    medium: Medium,
    /// Packets that arrived, with when and where.
    pipe: VecDeque<(Time, Port, Packet)>,
    /// Senders of the next transmission, kept to avoid an allocation.
    senders: Vec<usize>,
    /// Set if a queue may hold packets back.
    may_hold: bool,
    collisions: u64,
    busy: Busy,
    /// Minimum time in which any packet passes, over all directions.
    lookahead: Span,
}

impl Wifi {
    /// Creates a BSS of these directions, with an idle medium.
    ///
    /// # Errors
    /// Returns an error that names the invalid part.
    pub fn new(paths: &[PathConfig]) -> Result<Wifi, Refusal> {
        let standard = paths.first().map_or(Standard::B, |path| path.wifi.standard);
        let timing = Timing::of(standard);
        let refusal = |path, part| move |impossible| Refusal { path, part, impossible };
        for (n, path) in paths.iter().enumerate() {
            let same = path.wifi.standard == standard;
            let expected = "the standard of the other links of its BSS";
            InvalidConfig::ensure(same, "standard", expected).map_err(refusal(n, "wifi"))?;
            let near = path.delay <= timing.slot;
            InvalidConfig::ensure(near, "delay", "at most a slot: 20 us, or 9 us").map_err(refusal(n, ""))?;
        }
        // Thousands are large: none has room that stays empty.
        let mut built = Vec::with_capacity(paths.len());
        for (n, path) in paths.iter().enumerate() {
            built.push(Path::new(path).map_err(|refusal| Refusal { path: n, ..refusal })?);
        }
        let stations = paths.iter().map(|path| path.station + 1).max().unwrap_or(0);
        let mut of_stations = vec![Vec::new(); stations];
        paths.iter().enumerate().for_each(|(n, path)| of_stations[path.station].push(n));
        Ok(Wifi {
            // Each input is asked for it when a network is built.
            lookahead: built.iter().map(Path::lookahead).min().unwrap_or(Span::ZERO),
            paths: built,
            stations: of_stations.into_iter().map(|paths| Station::new(paths, &timing)).collect(),
            timing,
            medium: Medium::Idle { since: Time::ZERO },
            pipe: VecDeque::new(),
            senders: Vec::new(),
            may_hold: paths.iter().any(|path| path.queue.may_hold()),
            collisions: 0,
            busy: Busy::default(),
        })
    }

    /// Sets other timing, for tests against theory.
    #[cfg(test)]
    fn with_timing(mut self, timing: Timing) -> Wifi {
        self.stations.iter_mut().for_each(|station| station.reset(&timing));
        self.timing = timing;
        self
    }

    /// Changes the rate of a direction's data frames from `now` on.
    ///
    /// # Errors
    /// The key whose value is impossible; then nothing is changed.
    pub fn set_rate(&mut self, now: Time, path: usize, wifi: &Config) -> Result<(), InvalidConfig> {
        self.paths.get_mut(path).ok_or(NO_PATH)?.set_rate(now, wifi)
    }

    /// Changes the errors of a direction from the next frame on.
    ///
    /// # Errors
    /// The key whose value is impossible; then nothing is changed.
    pub fn set_errors(&mut self, path: usize, errors: Option<&channel::Config>) -> Result<(), InvalidConfig> {
        self.paths.get_mut(path).ok_or(NO_PATH)?.set_errors(errors)
    }

    /// Changes the limits of a direction's queue from the next packet on.
    ///
    /// # Errors
    /// The key whose value is impossible; then nothing is changed.
    pub fn set_queue(
        &mut self,
        now: Time,
        path: usize,
        discipline: &Discipline,
    ) -> Result<(), InvalidConfig> {
        self.paths.get_mut(path).ok_or(NO_PATH)?.set_queue(now, discipline)
    }

    /// Does everything that is due by `now`.
    fn catch_up(&mut self, now: Time, stream: &mut RandomStream) {
        loop {
            match self.medium {
                Medium::Busy { until } if until <= now => self.fall_idle(until),
                Medium::Idle { since } => {
                    let access = self.next_access(since);
                    if self.may_hold && self.release(since, access.unwrap_or(now).min(now)) {
                        continue;
                    }
                    match access {
                        Some(at) if at <= now => self.send(since, at, stream),
                        _ => return,
                    }
                }
                Medium::Busy { .. } => return,
            }
        }
    }

    /// Ends an exchange: stations without a frame fetch the next one from their queues.
    fn fall_idle(&mut self, at: Time) {
        self.medium = Medium::Idle { since: at };
        self.stations.iter_mut().for_each(|station| station.take_next(&mut self.paths, at));
    }

    /// Returns the time of the next transmission, unless another packet arrives first.
    #[inline]
    fn next_access(&self, since: Time) -> Option<Time> {
        self.stations.iter().filter_map(|station| station.access(since, &self.timing)).min()
    }

    /// Returns `true` if a station got a frame by `until` that a queue held back.
    fn release(&mut self, since: Time, until: Time) -> bool {
        let held = self.stations.iter().enumerate();
        let next = held.filter_map(|(n, station)| Some((station.held_until(&self.paths)?, n))).min();
        let Some((at, station)) = next.filter(|(at, _)| *at <= until) else { return false };
        self.stations[station].release(&mut self.paths, at.max(since));
        true
    }

    /// Frames of all stations whose turn is at `at`.
    fn send(&mut self, since: Time, at: Time, stream: &mut RandomStream) {
        let mut senders = std::mem::take(&mut self.senders);
        senders.clear();
        for (n, station) in self.stations.iter_mut().enumerate() {
            if station.access(since, &self.timing) == Some(at) {
                station.begin();
                senders.push(n);
            }
            station.count_down(since, at, &self.timing);
        }
        let until = match senders[..] {
            [alone] => self.exchange(alone, at, stream),
            _ => self.collide(&senders, at, stream),
        };
        self.busy.add(at, [at, until]);
        self.medium = Medium::Busy { until };
        self.senders = senders;
    }

    /// Sends a frame of one station and returns the end of the exchange.
    fn exchange(&mut self, sender: usize, at: Time, stream: &mut RandomStream) -> Time {
        let Some(frame) = self.stations[sender].frame() else { return at };
        let path = &mut self.paths[frame.path];
        path.take_rates(at);
        let (sent, exchange) = path.send(&frame.packet, at, stream);
        let (sent_by, delay) = (at + exchange.lead + exchange.data, path.delay);
        let is_answered = matches!(sent, Sent::Whole | Sent::HeaderOnly);
        let until = if is_answered { sent_by + exchange.ack + delay * 2 } else { sent_by };
        path.busy.add(at, [at, until]);
        let ifs = if sent == Sent::Lost { self.timing.eifs } else { self.timing.difs };
        self.stations.iter_mut().for_each(|station| station.ifs = ifs);
        match sent {
            Sent::Whole | Sent::ToAll { .. } => {
                let Some(frame) = self.stations[sender].finish(&self.timing, stream) else { return until };
                if sent == (Sent::ToAll { received: false }) {
                    frame.packet.lose(Why::Channel);
                } else {
                    self.pipe.push_back((sent_by + delay, Port(frame.path as u16), frame.packet));
                }
            }
            Sent::HeaderOnly => self.fail(sender, self.timing.difs, stream),
            Sent::Lost => self.fail(sender, self.timing.ack_timeout.max(self.timing.difs), stream),
        }
        until
    }

    /// Sends colliding frames of several stations and returns the end of the exchange.
    fn collide(&mut self, senders: &[usize], at: Time, stream: &mut RandomStream) -> Time {
        self.collisions += 1;
        let mut ends = Vec::with_capacity(senders.len());
        for &sender in senders {
            let Some(frame) = self.stations[sender].frame() else { continue };
            let path = &mut self.paths[frame.path];
            path.take_rates(at);
            let on_air = path.collide(&frame.packet);
            path.busy.add(at, [at, at + on_air]);
            ends.push((sender, at + on_air));
        }
        let until = ends.iter().map(|(_, end)| *end).max().unwrap_or(at);
        self.stations.iter_mut().for_each(|station| station.ifs = self.timing.eifs);
        for (sender, end) in ends {
            let waits = (end + self.timing.ack_timeout).since(until);
            self.fail(sender, waits.max(self.timing.difs), stream);
        }
        until
    }

    /// Handles a missing ACK; the station waits for `ifs` once the medium is idle.
    fn fail(&mut self, sender: usize, ifs: Span, stream: &mut RandomStream) {
        let station = &mut self.stations[sender];
        station.ifs = ifs;
        let Some(path) = station.frame().map(|frame| frame.path) else { return };
        let limit = self.paths[path].attempts;
        if let Some(frame) = station.fail(limit, &self.timing, stream) {
            self.paths[path].dropped += 1;
            frame.packet.lose(Why::Retries);
        }
    }

    /// Returns the next wake-up time: the next delivery, or its earliest possible time.
    fn deadline(&self) -> Time {
        if let Some((arrival, ..)) = self.pipe.front() {
            return *arrival;
        }
        let after = match self.medium {
            Medium::Idle { since } => since,
            Medium::Busy { until } => until,
        };
        let next =
            self.stations.iter().filter_map(|station| station.earliest(after, &self.paths, &self.timing));
        let stations = if self.may_hold { &self.stations[..] } else { &[] };
        let held = stations.iter().filter_map(|station| station.held_until(&self.paths));
        next.chain(held.map(|at| at.max(after))).min().unwrap_or(Time::NEVER)
    }
}

impl Element for Wifi {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        self.catch_up(now, cx.stream());
        let number = usize::from(port.0);
        let Some(path) = self.paths.get_mut(number) else { return self.deadline() };
        if path.refuses(&packet) {
            packet.lose(Why::TooBig);
        } else {
            let station = &mut self.stations[path.station];
            match self.medium {
                Medium::Idle { .. } if station.frame().is_none() => {
                    if path.held_until().is_some() {
                        path.enqueue(packet, now, cx.stream());
                        station.release(&mut self.paths, now);
                    } else if let Some(packet) = path.pass(packet, now, cx.stream()) {
                        station.take(number, packet, now);
                    } else {
                        station.note_held(path);
                    }
                }
                Medium::Idle { .. } => path.enqueue(packet, now, cx.stream()),
                Medium::Busy { .. } => {
                    station.defer(cx.stream());
                    path.enqueue(packet, now, cx.stream());
                }
            }
        }
        self.deadline()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        self.catch_up(now, cx.stream());
        while self.pipe.front().is_some_and(|(arrival, ..)| *arrival <= now) {
            let Some((_, port, packet)) = self.pipe.pop_front() else { break };
            self.paths[usize::from(port.0)].deliver(&packet);
            cx.emit(port, packet);
        }
        self.deadline()
    }

    fn lookahead(&self) -> Span {
        self.lookahead
    }

    fn forwards(&self, from: Port, to: Port) -> bool {
        from == to
    }

    fn alike(&self, from: Port) -> Port {
        from
    }

    fn bring_up_to(&mut self, now: Time, stream: &mut RandomStream) {
        // Wake-ups are for deliveries: an exchange may have begun or ended since the last one.
        self.catch_up(now, stream);
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::COLLISIONS, self.collisions);
        let busy = self.busy.until(now).as_secs_f64();
        observer.gauge(&metrics::MEDIUM_BUSY, busy);
        observer.gauge(&metrics::MEDIUM_UTILISATION, busy / now.as_secs_f64());
        self.paths.iter().for_each(|path| path.observe(now, observer));
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
