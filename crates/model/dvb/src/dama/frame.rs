//! Time structure of a carrier, and delays of the control loop.

use bentpipe_net::InvalidConfig;
use bentpipe_units::{Bytes, Rate, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cells::{Encapsulation, carrier_bytes, mean_bytes};
use super::{Backlog, Scheduling};

/// Length of an MPEG cell, which is a TS packet (ISO/IEC 13818-1).
pub(crate) const CELL_LEN: u64 = 188;

/// Maximum number of cells of a burst of GSE, one data field: 7264 bytes.
const MAX_GSE_CELLS: u32 = 38;

/// Maximum number of slots of a multiframe, over all carriers.
const MAX_SLOTS: u64 = 60_000;

/// Least length of a superframe: each is planned.
const SHORTEST: Span = Span::from_millis(1);

/// Preset of a carrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Skyplex at its low rate.
    ///
    /// 2.112 Mbit/s, 6 slots per frame, 8 cells per burst, 8 frames per multiframe, 3 multiframes per superframe.
    #[default]
    Skyplex,
    /// Skyplex at its high rate: 6.226 Mbit/s. Published is the rate alone; 18 slots a frame keep the frame's and the
    /// superframe's length and the granularity those of the low rate within 2 %.
    SkyplexHigh,
}

/// Carriers that terminals share. The preset has the values not given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Preset. Default: "skyplex".
    pub preset: Preset,
    /// Number of carriers (MF-TDMA). A terminal sends on one at a time. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub carriers: Option<u32>,
    /// Rate of the MPEG cells of a carrier, guard times included. A superframe lasts 1 ms at least. Default: the preset's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub rate: Option<Rate>,
    /// Time slots in a frame, each for one burst. Default: the preset's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub slots: Option<u32>,
    /// MPEG cells in a burst. Default: the preset's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub cells: Option<u32>,
    /// Frames in a multiframe. One slot in each is the least that is assigned. Default: the preset's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub frames: Option<u32>,
    /// Multiframes in a superframe, the period of the burst time plan. Default: the preset's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub multiframes: Option<u32>,
    /// Encapsulation: ULE or MPE in TS packets, GSE or RLE in whole bursts. Default: "ule".
    pub encapsulation: Encapsulation,
    /// Place of the network control centre. Default: "ground".
    pub control: Control,
    /// The propagation delay from the ground over the satellite to the ground. A request takes it to a control centre on
    /// the ground and the plan back, half of it each to one on board. Default: "250 ms".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hop: Option<Span>,
    /// Processing time of the network control centre, from the last request considered to the plan. Default: "0 s".
    pub processing: Span,
    /// Scheduler under overload. Default: "proportional".
    pub scheduler: Scheduling,
    /// Requests for capacity. Default: in slots of their own, once each superframe.
    pub requests: Requests,
    /// Requests for waiting bytes in addition to the arrival rate, under RBDC. Default: the preset's, "whole".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog: Option<Backlog>,
    /// Time over which a terminal measures its arrival rate. Default: a superframe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Span>,
    /// Superframes for which a request for a rate holds. Default: 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u32>,
}

impl Config {
    /// Returns the carriers with the frame plan of others.
    pub fn with_plan_of(&self, other: &Config) -> Config {
        let Config { carriers, rate, slots, cells, frames, multiframes, .. } = *other;
        Config { carriers, rate, slots, cells, frames, multiframes, ..self.clone() }
    }
}

/// Place of the network control centre.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    /// Ground, behind a transparent satellite: two hops from request to plan.
    #[default]
    Ground,
    /// On board the satellite: one hop, up and down again.
    OnBoard,
}

/// Requests for capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Requests {
    /// Slots for requests.
    Slots {
        /// Requests of each terminal per superframe, at even distances. Default: 1.
        #[serde(default = "once")]
        times: u32,
        /// Carrier bytes per request, guard times included. Whole time slots are reserved for them. Default: "0 B",
        /// on a carrier that is not counted.
        #[serde(default)]
        size: Bytes,
    },
    /// Bursts with data. A terminal without an assignment cannot ask: it needs CRA or FCA to start.
    Piggyback,
}

impl Default for Requests {
    fn default() -> Requests {
        Requests::Slots { times: 1, size: Bytes::new(0) }
    }
}

const fn once() -> u32 {
    1
}

/// Structure of a set of carriers, with every value known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    carriers: u32,
    rate: Rate,
    slots: u32,
    cells: u32,
    encapsulation: Encapsulation,
    frames: u32,
    multiframes: u32,
    control_delay: Span,
    processing: Span,
    timeout: u32,
    requests: Requests,
    backlog: Backlog,
    window: Option<Span>,
    scheduling: Scheduling,
    terminals: u32,
    /// First superframe with this structure, and its start.
    first: u64,
    origin: Time,
}

impl Frame {
    /// Creates the structure of carriers for a number of terminals.
    ///
    /// # Errors
    /// Returns the key whose value is not possible.
    pub fn new(config: &Config, terminals: u32) -> Result<Frame, InvalidConfig> {
        let (rate, slots) = match config.preset {
            Preset::Skyplex => (2_112_000, 6),
            Preset::SkyplexHigh => (6_226_000, 18),
        };
        let hop = config.hop.unwrap_or(Span::from_millis(250));
        let frame = Frame {
            carriers: config.carriers.unwrap_or(1),
            rate: config.rate.unwrap_or(Rate::from_bps(rate)),
            slots: config.slots.unwrap_or(slots),
            cells: config.cells.unwrap_or(8),
            encapsulation: config.encapsulation,
            frames: config.frames.unwrap_or(8),
            multiframes: config.multiframes.unwrap_or(3),
            control_delay: if config.control == Control::Ground { hop } else { hop / 2 },
            processing: config.processing,
            timeout: config.timeout.unwrap_or(3),
            requests: config.requests,
            // What is published of Skyplex: terminals ask by their instantaneous need.
            backlog: config.backlog.unwrap_or(Backlog::Whole),
            window: config.window,
            scheduling: config.scheduler,
            terminals,
            first: 0,
            origin: Time::ZERO,
        };
        frame.check()?;
        Ok(frame)
    }

    /// Returns the structure that follows another one, from the first superframe that begins after `now`.
    ///
    /// # Errors
    /// Returns the key whose value is not possible, or stays as it is.
    pub fn following(config: &Config, before: &Frame, now: Time) -> Result<Frame, InvalidConfig> {
        let first = before.superframe_at(now).max(before.first) + 1;
        let origin = before.superframe_start(first);
        let frame = Frame { first, origin, ..Frame::new(config, before.terminals)? };
        let same = frame.encapsulation == before.encapsulation;
        InvalidConfig::ensure(same, "encapsulation", "what the carrier started with")?;
        let same = std::mem::discriminant(&frame.requests) == std::mem::discriminant(&before.requests);
        InvalidConfig::ensure(same, "requests.kind", "what the carrier started with")?;
        Ok(frame)
    }

    /// Returns the first superframe with this structure.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Returns the start of the first superframe with this structure.
    pub fn origin(&self) -> Time {
        self.origin
    }

    fn check(&self) -> Result<(), InvalidConfig> {
        let within =
            |value: u32, key, expected| InvalidConfig::ensure((1..=10_000).contains(&value), key, expected);
        within(self.carriers, "carriers", "from 1 to 10000 carriers")?;
        within(self.slots, "slots", "from 1 to 10000 slots in a frame")?;
        within(self.cells, "cells", "from 1 to 10000 cells in a burst")?;
        within(self.frames, "frames", "from 1 to 10000 frames in a multiframe")?;
        within(self.multiframes, "multiframes", "from 1 to 10000 multiframes in a superframe")?;
        let fits = self.encapsulation != Encapsulation::Gse || self.cells <= MAX_GSE_CELLS;
        InvalidConfig::ensure(fits, "cells", "at most 38 cells in a burst of GSE")?;
        let rate = self.rate.as_bps();
        InvalidConfig::ensure(
            (1000..=1_000_000_000_000).contains(&rate),
            "rate",
            "from 1 kbit/s to 1 Tbit/s",
        )?;
        let all = u64::from(self.carriers) * u64::from(self.slots) * u64::from(self.frames);
        InvalidConfig::ensure(
            all <= MAX_SLOTS,
            "slots",
            "at most 60000 slots in a multiframe on all carriers",
        )?;
        InvalidConfig::ensure(
            self.superframe() >= SHORTEST,
            "rate",
            "a superframe of at least 1 ms, by a lower rate or more slots, frames or multiframes",
        )?;
        within(self.timeout, "timeout", "from 1 to 10000 superframes")?;
        InvalidConfig::ensure(self.window.is_none_or(|span| !span.is_zero()), "window", "more than no time")?;
        InvalidConfig::ensure(
            self.superframe() < Span::from_secs(3600),
            "multiframes",
            "a superframe of less than an hour",
        )?;
        if let Requests::Slots { times, .. } = self.requests {
            within(times, "requests.times", "from 1 to 10000 times in a superframe")?;
        }
        let left = self.reserved() < self.slots_in_multiframe();
        InvalidConfig::ensure(left, "requests.size", "request slots that leave room for traffic")
    }

    /// The rate of a carrier's cells.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns the number of carriers.
    pub fn carriers(&self) -> u32 {
        self.carriers
    }

    /// Returns the number of terminals.
    pub fn terminals(&self) -> u32 {
        self.terminals
    }

    /// Cells in a burst.
    pub fn cells(&self) -> u32 {
        self.cells
    }

    /// Returns the encapsulation.
    pub fn encapsulation(&self) -> Encapsulation {
        self.encapsulation
    }

    /// Returns the burst bytes of packets of `len_bytes` in total.
    pub(super) fn carrier_bytes(&self, packets: usize, len_bytes: u64) -> u64 {
        carrier_bytes(self.encapsulation, self.cells, packets, len_bytes)
    }

    /// Returns the carrier bytes of a packet. They are its share of the cells it is packed into.
    pub fn carrier_len(&self, len_bytes: usize) -> Bytes {
        Bytes::new(self.carrier_bytes(1, len_bytes as u64))
    }

    /// Returns the mean carrier bytes of one packet of many.
    pub(super) fn mean_carrier_bytes(&self, len_bytes: usize) -> f64 {
        mean_bytes(self.encapsulation, self.cells, len_bytes as u64)
    }

    /// Multiframes in a superframe.
    pub fn multiframes(&self) -> u32 {
        self.multiframes
    }

    /// Returns the scheduling.
    pub fn scheduling(&self) -> Scheduling {
        self.scheduling
    }

    /// Returns the form of requests for waiting bytes under RBDC.
    pub fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Returns the transmission of requests.
    pub fn requests(&self) -> Requests {
        self.requests
    }

    /// Returns the number of superframes for which a rate request holds.
    pub fn timeout(&self) -> u32 {
        self.timeout
    }

    /// Bytes in a burst.
    pub fn burst(&self) -> Bytes {
        Bytes::new(u64::from(self.cells) * CELL_LEN)
    }

    /// Slots in a multiframe on one carrier: `slots * frames`.
    pub fn slots_in_multiframe(&self) -> u32 {
        self.slots * self.frames
    }

    /// Returns the number of assignable units on all carriers. A unit is one slot in each multiframe.
    pub fn units(&self) -> u32 {
        self.carriers * self.slots_in_multiframe() - self.reserved()
    }

    /// Returns the maximum number of units of one terminal. It sends on one carrier at a time, and not in
    /// request slots.
    pub fn units_of_one(&self) -> u32 {
        self.units().min(self.slots_in_multiframe() - self.reserved())
    }

    /// Returns the slots reserved for requests in each multiframe of the first carrier.
    pub fn reserved(&self) -> u32 {
        let Requests::Slots { times, size } = self.requests else { return 0 };
        let bytes = u64::from(self.terminals) * u64::from(times) * size.get();
        let slots = bytes.div_ceil(self.burst().get() * u64::from(self.multiframes));
        u32::try_from(slots).unwrap_or(u32::MAX)
    }

    /// The rate of a slot in each multiframe: `rate / (slots * frames)`.
    pub fn granularity(&self) -> Rate {
        Rate::from_bps(self.rate.as_bps() / u64::from(self.slots_in_multiframe()))
    }

    /// The fewest units that carry `rate`.
    pub fn units_for(&self, rate: Rate) -> u32 {
        let units = (u128::from(rate.as_bps()) * u128::from(self.slots_in_multiframe()))
            .div_ceil(u128::from(self.rate.as_bps()));
        u32::try_from(units).unwrap_or(u32::MAX)
    }

    /// Cells that a unit carries in a superframe.
    pub fn cells_of_unit(&self) -> u64 {
        u64::from(self.cells) * u64::from(self.multiframes)
    }

    /// The time of a burst.
    pub fn slot(&self) -> Span {
        self.time_of(1)
    }

    /// The length of a frame.
    pub fn frame(&self) -> Span {
        self.time_of(self.slots.into())
    }

    /// The length of a multiframe.
    pub fn multiframe(&self) -> Span {
        self.time_of(self.slots_in_multiframe().into())
    }

    /// The length of a superframe, in which a burst time plan holds.
    pub fn superframe(&self) -> Span {
        self.time_of(self.slots_in_superframe())
    }

    /// The window over which a terminal measures its rate.
    pub fn window(&self) -> Span {
        self.window.unwrap_or(self.superframe())
    }

    /// The time of a signal between a terminal and where capacity is assigned.
    pub fn control_delay(&self) -> Span {
        self.control_delay
    }

    /// Returns the start of superframe `number`; superframe 0 starts with the run.
    pub fn superframe_start(&self, number: u64) -> Time {
        self.instant(number, 0)
    }

    /// The superframe of an instant.
    pub fn superframe_at(&self, at: Time) -> u64 {
        let since = at.as_nanos().saturating_sub(self.origin.as_nanos());
        let scaled = u128::from(since) * u128::from(self.rate.as_bps());
        let slots = scaled / (u128::from(self.burst().bits()) * 1_000_000_000);
        let guess = self.first + (slots / u128::from(self.slots_in_superframe())) as u64;
        // Starts are whole nanoseconds, rounded down: the next one may have come already.
        if self.superframe_start(guess + 1) <= at { guess + 1 } else { guess }
    }

    /// Returns the deadline for requests of superframe `number` at the control centre. `None` if it was before the run.
    pub fn cutoff(&self, number: u64) -> Option<Time> {
        let start = self.superframe_start(number);
        let lead = self.control_delay + self.processing;
        (Time::ZERO + lead <= start).then(|| Time::from_nanos(start.as_nanos() - lead.as_nanos()))
    }

    /// Returns the rate of the given number of units.
    pub fn rate_of(&self, units: u32) -> Rate {
        let bits =
            u128::from(self.rate.as_bps()) * u128::from(units) / u128::from(self.slots_in_multiframe());
        Rate::from_bps(u64::try_from(bits).unwrap_or(u64::MAX))
    }

    /// Returns the minimum, mean and maximum time from data arrival to its superframe. Its request shapes that
    /// superframe. The mean is over all instants of arrival. `None` if requests are piggybacked on bursts, which come
    /// as they are assigned.
    pub fn request_to_grant(&self, terminal: u32) -> Option<[Span; 3]> {
        let Requests::Slots { times, .. } = self.requests else { return None };
        // Any superframe late enough that all it depends on is in the run.
        let late = 2 + (self.control_delay * 2 + self.processing).as_nanos() / self.superframe().as_nanos();
        let (mut least, mut most, mut sum) = (Span::MAX, Span::ZERO, 0.0);
        let mut before = self.request_at(late - 1, terminal, times - 1);
        for turn in 0..times {
            let at = self.request_at(late, terminal, turn);
            let (gap, delay) = (at - before, self.served(at) - at);
            least = least.min(delay);
            most = most.max(delay + gap);
            sum += gap.as_secs_f64() * (delay + gap / 2).as_secs_f64();
            before = at;
        }
        let mean = Span::from_secs_f64(sum / self.superframe().as_secs_f64());
        Some([least, mean, most])
    }

    /// Returns the start of the first superframe that considers a request sent at `at`.
    fn served(&self, at: Time) -> Time {
        let there = at + self.control_delay;
        let first = self.superframe_at(at);
        let in_time = |number: &u64| self.cutoff(*number).is_some_and(|cutoff| there <= cutoff);
        self.superframe_start((first..).find(in_time).unwrap_or(first))
    }

    /// Returns the time of a terminal's request number `turn` in a superframe. Off the carriers all terminals send at
    /// once at even distances; in reserved slots one after the other.
    pub(crate) fn request_at(&self, superframe: u64, terminal: u32, turn: u32) -> Time {
        let Requests::Slots { times, size } = self.requests else { return Time::NEVER };
        if size.get() == 0 {
            let phase = self.superframe().as_nanos() * u64::from(turn) / u64::from(times);
            return self.superframe_start(superframe) + Span::from_nanos(phase);
        }
        let order = u64::from(turn) * u64::from(self.terminals) + u64::from(terminal);
        let (burst, reserved) = (self.burst().get(), u64::from(self.reserved()));
        let (slot, inside) = (order * size.get() / burst, order * size.get() % burst);
        let (multiframe, slot) = ((slot / reserved) as u32, (slot % reserved) as u32);
        self.slot_start(superframe, multiframe, slot) + self.rate.span_of(Bytes::new(inside))
    }

    /// The start of a slot of a multiframe of a superframe.
    pub(crate) fn slot_start(&self, superframe: u64, multiframe: u32, slot: u32) -> Time {
        let slots = u64::from(multiframe) * u64::from(self.slots_in_multiframe()) + u64::from(slot);
        self.instant(superframe, slots)
    }

    fn instant(&self, superframe: u64, slots: u64) -> Time {
        let superframe = superframe.saturating_sub(self.first);
        let slots = u128::from(superframe) * u128::from(self.slots_in_superframe()) + u128::from(slots);
        self.origin + Span::from_nanos(self.nanos_of(slots))
    }

    fn slots_in_superframe(&self) -> u64 {
        u64::from(self.slots_in_multiframe()) * u64::from(self.multiframes)
    }

    fn time_of(&self, slots: u64) -> Span {
        Span::from_nanos(self.nanos_of(slots.into()))
    }

    fn nanos_of(&self, slots: u128) -> u64 {
        let bits = u128::from(self.burst().bits());
        u64::try_from(slots * bits * 1_000_000_000 / u128::from(self.rate.as_bps())).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plan a microsecond took a minute for a second.
    #[test]
    fn a_superframe_has_a_least_length() {
        let frame = |gbit: u64, frames: u32| {
            let rate = Some(Rate::from_bps(gbit * 1_000_000_000));
            Frame::new(&Config { rate, frames: Some(frames), ..Config::default() }, 1)
        };
        // 18 slots of 8 cells in each of 8 frames are 1.7 Mbit.
        assert_eq!(frame(2, 8).err().map(|error| error.key), Some("rate"));
        assert!(frame(1, 8).is_ok() && frame(2, 16).is_ok());
        assert!(frame(1000, 8).is_err());
    }
}
