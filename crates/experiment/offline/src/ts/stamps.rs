//! Time stamps (PTS and DTS) of elementary streams.
//!
//! The decoder delay is the time that the start of a PES packet waits in the buffers of the system target decoder of ISO/IEC
//! 13818-1: its decoding time stamp less the clock reference at the packet, which is interpolated between two.

use bentpipe_report::{Cell, Table, number};
use bentpipe_wire::pes::{Repr, Stamp};
use bentpipe_wire::ts::{Pcr, Pid};
use serde_json::{Value, json};

/// Maximum step of decoding time stamps that is not a jump, in ticks.
const MAX_STEP: i64 = 10 * Stamp::TICKS_PER_S as i64;

/// Time stamps of an elementary stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stamps {
    /// PES packets with a presentation time stamp.
    pub(super) stamped: u64,
    /// PES packets with a decoding time stamp as well.
    decoding: u64,
    /// PES packets without any.
    unstamped: u64,
    /// Decoding time of the last packet.
    last: Option<Stamp>,
    /// Ticks of all steps between decoding times, their number, and the longest.
    steps: (i64, u64, i64),
    /// Decoding times that do not increase, or by more than ten seconds.
    jumps: u64,
    /// Largest presentation time less decoding time, in ticks.
    reordering: i64,
    /// Sum, number, least and largest of decoder delays in seconds.
    delay: Option<(f64, u64, f64, f64)>,
    /// Packets that come after their decoding time.
    late: u64,
}

impl Stamps {
    /// Adds a PES packet, with the clock in ticks of 27 MHz at its start. `announced` is set if the clock's jump is.
    pub(super) fn add(&mut self, header: &Repr, clock: Option<f64>, announced: bool) {
        let (Some(pts), Some(decoding)) = (header.pts, header.decoding()) else {
            self.unstamped += 1;
            return;
        };
        self.stamped += 1;
        self.decoding += u64::from(header.dts.is_some());
        self.reordering = self.reordering.max(pts.since(decoding));
        if let Some(last) = self.last {
            let step = decoding.since(last);
            if (1..=MAX_STEP).contains(&step) {
                let (sum, count, longest) = self.steps;
                self.steps = (sum + step, count + 1, longest.max(step));
            } else {
                self.jumps += u64::from(!announced);
            }
        }
        self.last = Some(decoding);
        if let Some(clock) = clock {
            self.note_delay(delay_s(decoding, clock));
        }
    }

    fn note_delay(&mut self, delay_s: f64) {
        let (sum, count, least, most) = self.delay.unwrap_or((0.0, 0, f64::MAX, f64::MIN));
        self.delay = Some((sum + delay_s, count + 1, least.min(delay_s), most.max(delay_s)));
        self.late += u64::from(delay_s < 0.0);
    }

    /// Returns mean and longest step in seconds.
    fn interval_s(&self) -> Option<[f64; 2]> {
        let (sum, count, longest) = self.steps;
        let seconds = |ticks: f64| ticks / Stamp::TICKS_PER_S as f64;
        (count > 0).then(|| [seconds(sum as f64 / count as f64), seconds(longest as f64)])
    }

    /// Returns least, mean and largest decoder delay in seconds.
    fn delays_s(&self) -> Option<[f64; 3]> {
        self.delay.map(|(sum, count, least, most)| [least, sum / count as f64, most])
    }

    fn reordering_s(&self) -> f64 {
        self.reordering as f64 / Stamp::TICKS_PER_S as f64
    }
}

/// Returns a decoding time less a clock reading, over wraps of both, in seconds.
fn delay_s(decoding: Stamp, clock: f64) -> f64 {
    let modulus = Pcr::MODULUS as f64;
    let ahead = (decoding.ticks() as f64 * 300.0 - clock).rem_euclid(modulus);
    let ticks = if ahead < modulus / 2.0 { ahead } else { ahead - modulus };
    ticks / Pcr::TICKS_PER_S as f64
}

/// Returns the table of time stamps. `longest_s` is the longest interval between arrivals of stamps of a PID.
pub(super) fn table<'a>(all: impl Iterator<Item = (Pid, &'a Stamps, f64)>) -> Table {
    let milli =
        |value: Option<f64>| Cell::Number(value.map_or_else(String::new, |value| number(value * 1e3)));
    let errors = |count: u64| match count {
        0 => Cell::Number("0".to_owned()),
        _ => Cell::Bad(count.to_string()),
    };
    let row = |(pid, of, longest_s): (Pid, &Stamps, f64)| {
        let (interval, delay) = (of.interval_s(), of.delays_s());
        vec![
            Cell::Text(pid.to_string()),
            Cell::Number(of.stamped.to_string()),
            Cell::Number(of.decoding.to_string()),
            milli(interval.map(|[mean, _]| mean)),
            milli(interval.map(|[_, longest]| longest)),
            milli(Some(longest_s)),
            errors(of.jumps),
            milli(Some(of.reordering_s())),
            milli(delay.map(|[least, ..]| least)),
            milli(delay.map(|[_, mean, _]| mean)),
            milli(delay.map(|[.., most]| most)),
            errors(of.late),
        ]
    };
    let head = [
        "PID",
        "PTS",
        "DTS",
        "step (ms)",
        "longest (ms)",
        "gap (ms)",
        "jumps",
        "reordering (ms)",
        "delay min (ms)",
        "mean",
        "max",
        "late",
    ];
    Table { caption: String::new(), head: head.map(str::to_owned).to_vec(), rows: all.map(row).collect() }
}

/// Returns the time stamps of a PID as JSON.
pub(super) fn json(pid: Pid, of: &Stamps, longest_s: f64) -> Value {
    json!({
        "pid": pid.number(),
        "pts": of.stamped,
        "dts": of.decoding,
        "pes_without_pts": of.unstamped,
        "step_mean_s": of.interval_s().map(|[mean, _]| mean),
        "step_max_s": of.interval_s().map(|[_, longest]| longest),
        "arrival_gap_max_s": longest_s,
        "jumps": of.jumps,
        "reordering_max_s": of.reordering_s(),
        "decoder_delay_min_s": of.delays_s().map(|[least, ..]| least),
        "decoder_delay_mean_s": of.delays_s().map(|[_, mean, _]| mean),
        "decoder_delay_max_s": of.delays_s().map(|[.., most]| most),
        "late": of.late,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(pts: u64, dts: Option<u64>) -> Repr {
        Repr::new(0xe0, Some(Stamp::new(pts)), dts.map(Stamp::new))
    }

    #[test]
    fn steps_jumps_and_delays_are_counted() {
        let mut stamps = Stamps::default();
        // 40 ms apart over the wrap, the second one presented 80 ms after it is decoded; the clock is 100 ms behind.
        let start = Stamp::MODULUS - 3600;
        for (n, reordering) in [(0, 0), (1, 7200), (2, 0)] {
            let decoding = start + n * 3600;
            let dts = (reordering > 0).then_some(decoding);
            let clock = (decoding as f64 * 300.0 - 2_700_000.0).rem_euclid(Pcr::MODULUS as f64);
            stamps.add(&header(decoding + reordering, dts), Some(clock), false);
        }
        assert_eq!((stamps.stamped, stamps.decoding, stamps.jumps, stamps.late), (3, 1, 0, 0));
        assert_eq!(stamps.interval_s(), Some([0.04, 0.04]));
        assert!((stamps.reordering_s() - 0.08).abs() < 1e-12);
        let [least, mean, most] = stamps.delays_s().expect("delays");
        assert!([least, mean, most].iter().all(|delay| (delay - 0.1).abs() < 1e-9), "{least} {mean} {most}");
        stamps.add(&header(100, None), Some(200.0 * 300.0), false);
        stamps.add(&header(5_000_000, None), None, true);
        assert_eq!((stamps.jumps, stamps.late), (1, 1));
        stamps.add(&Repr::new(0xe0, None, None), None, false);
        assert_eq!((stamps.unstamped, stamps.stamped), (1, 5));
    }
}
