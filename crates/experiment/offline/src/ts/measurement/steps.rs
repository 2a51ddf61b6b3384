//! Steps of the clock that timed a capture.
//!
//! A clock may be set while it captures, and a virtual machine may have been stopped. The clock references show it: they go on over the step
//! as before. Times that go back are a step in any case. Those that go on further than the references may be a pause of the sender as
//! well, so short ones are judged as pauses.

use bentpipe_report::number;
use bentpipe_units::Span;
use bentpipe_wire::ts::Pcr;
use serde_json::{Value, json};

use super::{NEAR, Reference, forwards_s};

/// Forward difference of two times from which it may be a step, in seconds.
const FORWARDS_S: f64 = 0.5;
/// Backward difference from which it may be a step, in seconds. Legs of ST 2022-7 and several interfaces have others.
const BACKWARDS_S: f64 = 0.05;
/// Backward difference that is a step without clock references, in seconds.
const BACKWARDS_ALONE_S: f64 = 1.0;
/// Forward step from which it is not judged as a pause, in seconds.
///
/// It is longer than the limit of any interval.
const PAUSE_S: f64 = 10.0;
/// Time in which a delayed stream catches up, in seconds and in gaps.
const CATCH_UP: [f64; 2] = [10.0, 4.0];
/// Longest such time in seconds. Differences of clock references repeat after 26 hours.
const LONGEST_CATCH_UP_S: f64 = 3600.0;
/// Places that are examined.
const MAX_PLACES: usize = 1 << 16;
/// Steps that are listed.
const MAX_LISTED: usize = 8;

/// Place at which times differ by more than those of a stream should.
#[derive(Clone, Copy, Debug)]
struct Place {
    packet: u64,
    /// Seconds from the start of the capture to the packet in front.
    at_s: f64,
    /// Difference of the times in seconds.
    gap_s: f64,
}

/// Step of the clock of a capture in front of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    /// Number of the packet from 0 on.
    pub(super) packet: u64,
    /// Seconds from the start of the stream, without the steps in front.
    at_s: f64,
    /// Seconds by which the clock is further.
    pub(super) by_s: f64,
    /// Set if it may be a pause of the sender.
    is_pause: bool,
}

/// Times of a capture: their steps, found from the first pass on.
#[derive(Debug, Default)]
pub(super) struct Steps {
    first_ns: Option<u64>,
    last_ns: u64,
    /// Set once two times differ.
    varies: bool,
    places: Vec<Place>,
    found: Vec<Step>,
    /// Steps that the second pass is behind, and their sum in nanoseconds.
    passed: (usize, i128),
    /// Set if times of the capture are not used, as they are all the same.
    pub(super) is_untimed: bool,
}

impl Steps {
    /// Notes a packet's time in the first pass.
    pub(super) fn note(&mut self, packet: u64, time_ns: u64) {
        if self.first_ns.is_none() {
            (self.first_ns, self.last_ns) = (Some(time_ns), time_ns);
        }
        let (at_s, gap_s) = (self.raw_s(self.last_ns), seconds(self.last_ns, time_ns));
        self.varies |= time_ns != self.last_ns;
        let is_place = !(-BACKWARDS_S..=FORWARDS_S).contains(&gap_s);
        if is_place && self.places.len() < MAX_PLACES {
            self.places.push(Place { packet, at_s, gap_s });
        }
        self.last_ns = time_ns;
    }

    /// Returns the seconds of a time since the first one, as the capture has it.
    pub(super) fn raw_s(&self, time_ns: u64) -> f64 {
        seconds(self.first_ns.unwrap_or(time_ns), time_ns)
    }

    /// Returns `true` if packets have times that are used.
    pub(super) fn has_times(&self) -> bool {
        self.first_ns.is_some() && !self.is_untimed
    }

    /// Ends the first pass: finds the steps by the references of a clock, perhaps none.
    ///
    /// A capture with one time for all packets has none, if the clock goes on meanwhile.
    pub(super) fn find(&mut self, clock: &[Reference]) {
        let goes_on = clock.windows(2).any(|pair| forwards_s(pair[0].pcr, pair[1].pcr) > Some(0.0));
        self.is_untimed = self.first_ns.is_some() && !self.varies && goes_on;
        let ends = self.places.iter().skip(1).map(|place| place.packet).chain([u64::MAX]);
        let mut before_s = 0.0;
        for (place, end) in self.places.iter().zip(ends) {
            let Some(by_s) = step_s(place, clock, end) else { continue };
            let is_pause = (0.0..PAUSE_S).contains(&by_s);
            self.found.push(Step { packet: place.packet, at_s: place.at_s - before_s, by_s, is_pause });
            before_s += if is_pause { 0.0 } else { by_s };
        }
    }

    /// Returns the steps over which nothing is judged.
    fn unjudged(&self) -> impl Iterator<Item = &Step> {
        self.found.iter().filter(|step| !step.is_pause)
    }

    /// Removes steps from times of references, and marks the reference behind each.
    pub(super) fn correct(&self, all: &mut [Reference]) {
        for reference in &mut *all {
            let before = self.unjudged().take_while(|step| step.packet <= reference.packet);
            let by_s: f64 = before.map(|step| step.by_s).sum();
            reference.time_s = reference.time_s.filter(|_| !self.is_untimed).map(|time_s| time_s - by_s);
        }
        for step in self.unjudged() {
            let first = all.partition_point(|reference| reference.packet < step.packet);
            all.iter_mut().skip(first).take(1).for_each(|reference| reference.is_behind_step = true);
        }
    }

    /// Returns `true` if a step is in front of the second pass's next packet.
    pub(super) fn pass(&mut self, packet: u64) -> bool {
        let before = self.passed;
        let steps = self.unjudged().skip(before.0).take_while(|step| step.packet <= packet);
        self.passed =
            steps.fold(before, |(count, by_ns), step| (count + 1, by_ns + (step.by_s * 1e9) as i128));
        self.passed.0 > before.0
    }

    /// Returns a time since the first one, without the steps that were passed.
    pub(super) fn since_first(&self, time_ns: u64) -> Span {
        let first_ns = self.first_ns.unwrap_or(time_ns);
        let since_ns = i128::from(time_ns) - i128::from(first_ns) - self.passed.1;
        Span::from_nanos(since_ns.clamp(0, i128::from(u64::MAX)) as u64)
    }

    /// Describes the steps, one in a line.
    pub(super) fn lines(&self) -> Vec<String> {
        if self.is_untimed {
            return vec!["the capture has one time for all packets: clock references are used".to_owned()];
        }
        let line = |Step { packet, at_s, by_s, is_pause }: &Step| {
            let (at, by) = (number(*at_s), number(by_s.abs()));
            match (is_pause, *by_s > 0.0) {
                (true, _) => format!(
                    "in front of TS packet {packet}, at {at} s, times go on by {by} s more than clock references: a \
                     pause of the sender or a step of the capture's clock, judged as a pause"
                ),
                (false, true) => format!(
                    "the capture's clock steps {by} s forward in front of TS packet {packet}, at {at} s: no interval \
                     over it is judged"
                ),
                (false, false) => format!(
                    "the capture's clock steps {by} s back in front of TS packet {packet}, at {at} s: no interval over \
                     it is judged"
                ),
            }
        };
        let more = self.found.len().saturating_sub(MAX_LISTED);
        let more = (more > 0).then(|| format!("{more} more steps of the capture's clock"));
        self.found.iter().take(MAX_LISTED).map(line).chain(more).collect()
    }

    /// Returns the steps as JSON.
    pub(super) fn json(&self) -> Value {
        let of = |step: &Step| json!({ "packet": step.packet, "at_s": step.at_s, "by_s": step.by_s, "judged_as_pause": step.is_pause });
        self.found.iter().map(of).collect()
    }
}

/// Returns the seconds from one time to another, which may be earlier.
fn seconds(from_ns: u64, to_ns: u64) -> f64 {
    (i128::from(to_ns) - i128::from(from_ns)) as f64 / 1e9
}

/// Returns the seconds by which the capture's clock steps at a place.
///
/// `end` is the packet of the next place.
fn step_s(place: &Place, clock: &[Reference], end: u64) -> Option<f64> {
    match shift_s(place, clock, end) {
        Some(by_s) => {
            let is_step = by_s.signum() == place.gap_s.signum() && by_s.abs() > place.gap_s.abs() / 2.0;
            is_step.then_some(by_s)
        }
        None => Some(place.gap_s).filter(|gap_s| *gap_s < -BACKWARDS_ALONE_S),
    }
}

/// Returns the change of arrival less reference at a place.
///
/// It is of the earliest references to either side: a stream that was only delayed catches up behind a gap. Returns `None` if no reference is near, or the
/// clock of the stream jumps too.
fn shift_s(place: &Place, clock: &[Reference], end: u64) -> Option<f64> {
    let at = clock.partition_point(|reference| reference.packet < place.packet);
    let (before, behind) = clock.split_at(at);
    let (last, first) = (before.last()?, behind.first()?);
    if first.is_announced || forwards_s(last.pcr, first.pcr).is_none() {
        return None;
    }
    let [least_s, of_gap] = CATCH_UP;
    let catch_up_s = least_s.max(of_gap * place.gap_s.abs()).min(LONGEST_CATCH_UP_S);
    let is_near =
        |reference: &&Reference| reference.packet < end && seconds_of(reference.pcr, first.pcr) <= catch_up_s;
    // The clock is the same up to its next jump.
    let goes_on =
        |from: &Reference, to: &Reference| !to.is_announced && forwards_s(from.pcr, to.pcr).is_some();
    let near = behind.chunk_by(goes_on).next()?.iter().take_while(is_near);
    let ahead_s = near.filter_map(|of| Some(of.time_s? - seconds_of(of.pcr, last.pcr))).reduce(f64::min)?;
    let near = before.rchunks(NEAR).next()?.chunk_by(goes_on).last()?;
    let before_s = near.iter().filter_map(|of| Some(of.time_s? + seconds_of(last.pcr, of.pcr)));
    Some(ahead_s - before_s.reduce(f64::min)?)
}

fn seconds_of(to: Pcr, from: Pcr) -> f64 {
    to.since(from) as f64 / Pcr::TICKS_PER_S as f64
}
