//! Rates of captures, transport streams and sources of scenarios.

use std::collections::VecDeque;
use std::io::{BufReader, Read};
use std::path::Path;

use bentpipe_intake::{Account, Reason, Refusal};
use bentpipe_mpeg::lrd::resample;
use bentpipe_mpeg::{RateConfig, Rates};
use bentpipe_paths::open;
use bentpipe_scenario::{Scenario, Traffic};
use bentpipe_units::{RandomStream, Span, Time};
use bentpipe_wire::pcap;

use serde_json::Value;

use super::{Describe, Series};
use crate::capture::{Capture, START_LEN, Wanted, check_plain};
use crate::ts::{Loaded, load};
use crate::{Error, Intake, Session};

/// Maximum number of intervals.
const MAX_INTERVALS: usize = 1 << 22;

/// Reads the rate of an input.
pub(super) fn read(job: &Describe, session: &dyn Session) -> Result<Series, Error> {
    let interval_s = job.interval.as_secs_f64();
    let is_scenario = job.input.extension().is_some_and(|end| end == "toml");
    if job.source.is_some() && !is_scenario {
        return Err(Error::Usage("--source: expected a scenario file".to_owned()));
    }
    let (mut account, mut remark, path) = (None, String::new(), &*job.input);
    let (about, rates) = if is_scenario {
        of_scenario(job, interval_s)?
    } else if is_capture(path)? {
        let (about, rates, of) = of_capture(path, &job.intake, job.interval, session)?;
        account = Some((of.json(&path.display().to_string()), of.has_damage()));
        remark = of.to_string();
        (about, rates)
    } else {
        let (about, rates, of) = of_stream(job, interval_s, session)?;
        account = Some(of);
        (about, rates)
    };
    Ok(Series { about, interval_s, rates, account, remark })
}

/// Returns `true` if a file starts as a capture. Standard input is one.
fn is_capture(path: &Path) -> Result<bool, Error> {
    if path == Path::new("-") {
        return Ok(true);
    }
    let failed = |source| Error::Open { path: path.into(), source };
    let mut start = Vec::new();
    open(path).map_err(failed)?.take(START_LEN).read_to_end(&mut start).map_err(failed)?;
    check_plain(path, &start)?;
    Ok(pcap::Reader::new(BufReader::new(open(path).map_err(failed)?)).is_ok())
}

fn too_many(path: &Path) -> Error {
    let shown = path.display();
    Error::Usage(format!("{shown}: more than {MAX_INTERVALS} intervals: expected a longer --interval"))
}

/// Returns the error of a packet that is too far behind the first one.
fn too_late(path: &Path, record: u64, gap: Span) -> Error {
    let shown = path.display();
    Error::Usage(format!(
        "{shown}: record {record} is {gap} behind the first packet, more than {MAX_INTERVALS} intervals: expected a longer \
         --interval, or the packets in front of it"
    ))
}

/// Returns the reason of a packet far in front of the first one in time.
fn set_back() -> Refusal {
    (Reason::Time, "stamped over a second before the first packet, as by a clock that was set back".into())
}

/// Time by which packets of several interfaces are out of order at most, in nanoseconds.
const DISORDER_NS: u64 = 1_000_000_000;

/// Place of a packet outside of the intervals.
enum OutOfRange {
    /// Time before the first packet.
    Before,
    /// Time behind it that is too long for the intervals.
    Behind(Span),
}

/// Bits in intervals from the first packet on, or from one shortly before it.
struct Intervals {
    interval_ns: u64,
    first_ns: Option<u64>,
    /// Number of intervals in front of the first packet.
    before: usize,
    bits: VecDeque<f64>,
}

impl Intervals {
    fn new(interval: Span) -> Intervals {
        let interval_ns = interval.as_nanos().max(1);
        Intervals { interval_ns, first_ns: None, before: 0, bits: VecDeque::new() }
    }

    fn add(&mut self, time_ns: u64, bits: f64) -> Result<(), OutOfRange> {
        let first = *self.first_ns.get_or_insert(time_ns);
        if first.saturating_sub(time_ns) > DISORDER_NS {
            return Err(OutOfRange::Before);
        }
        let back = usize::try_from(first.saturating_sub(time_ns).div_ceil(self.interval_ns));
        let back = back.unwrap_or(usize::MAX).min(MAX_INTERVALS);
        while self.before < back {
            self.bits.push_front(0.0);
            self.before += 1;
        }
        let since = time_ns.saturating_sub(first);
        let place = self.before - back + usize::try_from(since / self.interval_ns).unwrap_or(MAX_INTERVALS);
        if place >= MAX_INTERVALS {
            return Err(OutOfRange::Behind(Span::from_nanos(since)));
        }
        if place >= self.bits.len() {
            self.bits.resize(place + 1, 0.0);
        }
        self.bits[place] += bits;
        Ok(())
    }
}

fn of_capture(
    path: &Path,
    intake: &Intake,
    interval: Span,
    session: &dyn Session,
) -> Result<(String, Vec<f64>, Account), Error> {
    let (mut packets, mut intervals) = (0_u64, Intervals::new(interval));
    let mut capture = Capture::open(path, Wanted::Ip, intake, session)?;
    capture.for_each_used(|packet| {
        match intervals.add(packet.time_ns, 8.0 * packet.len as f64) {
            Ok(()) => packets += 1,
            Err(OutOfRange::Before) => return Ok(Err(set_back())),
            Err(OutOfRange::Behind(gap)) => return Err(too_late(path, packet.number, gap)),
        }
        Ok(Ok(!session.is_interrupted()))
    })?;
    capture.check_found()?;
    session.note(&capture.remark());
    let mut bits = intervals.bits;
    // The last interval is not whole.
    bits.pop_back();
    let rates = bits.into_iter().map(|bits| bits / interval.as_secs_f64()).collect();
    Ok((format!("{}: {packets} IP packets", path.display()), rates, capture.account().clone()))
}

/// Account as JSON, and `true` if something was lost.
type Taken = (Value, bool);

fn of_stream(
    job: &Describe,
    interval_s: f64,
    session: &dyn Session,
) -> Result<(String, Vec<f64>, Taken), Error> {
    let path = &*job.input;
    let loaded = load(path, &job.intake, session).map_err(Error::Usage)?;
    let Loaded { stream, has_damage, account, .. } = loaded;
    let unreadable = |error| Error::Usage(format!("{}: {error}", path.display()));
    let pieces = stream.rate_pieces().map_err(unreadable)?;
    let lasts: f64 = pieces.iter().map(|(span, _)| span).sum();
    if lasts / interval_s > MAX_INTERVALS as f64 {
        return Err(too_many(path));
    }
    let about = format!(
        "{}: transport stream of {} packets, rate without NULL packets between {} clock references",
        path.display(),
        stream.len(),
        pieces.len() + 1
    );
    Ok((about, resample(&pieces, interval_s), (account, has_damage)))
}

fn of_scenario(job: &Describe, interval_s: f64) -> Result<(String, Vec<f64>), Error> {
    let usage = |error: &dyn std::fmt::Display| Error::Usage(error.to_string());
    let document = bentpipe_paths::document(&job.input).map_err(|error| usage(&error))?;
    let scenario = document.scenario().map_err(|error| usage(&error))?;
    let (name, config) = chosen(job, &scenario)?;
    let duration = scenario.duration.as_secs_f64();
    if duration / interval_s > MAX_INTERVALS as f64 {
        return Err(too_many(&job.input));
    }
    let mut stream = RandomStream::new(job.seed, &name);
    let rates = Rates::new(&config, Time::ZERO, &mut stream);
    let mut rates = rates.map_err(|error| usage(&format!("{name}: expected {}", error.expected)))?;
    let (mut pieces, mut at) = (Vec::new(), 0.0);
    while at < duration {
        let piece = rates.next_piece(&mut stream);
        let span = piece.span.as_secs_f64();
        pieces.push((span, span * piece.rate.as_bps() as f64));
        at += span;
    }
    let about = format!("{}: video source of {name}, {} s, seed {}", job.input.display(), duration, job.seed);
    Ok((about, resample(&pieces, interval_s)))
}

/// Returns the video source that is described, with its key.
fn chosen(job: &Describe, scenario: &Scenario) -> Result<(String, RateConfig), Error> {
    let flows = scenario.flow.iter().filter_map(|(name, flow)| match &flow.traffic {
        Traffic::Video(source) => Some((format!("flow.{name}"), source.rate)),
        _ => None,
    });
    let streams = scenario.shared.atm.stream.iter();
    let streams = streams.filter_map(|(name, stream)| {
        stream.source.video().map(|rates| (format!("atm.stream.{name}"), rates))
    });
    let all: Vec<(String, RateConfig)> = flows.chain(streams).collect();
    let names = || all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    let shown = job.input.display();
    match (&job.source, &all[..]) {
        (_, []) => Err(Error::Usage(format!(
            "{shown}: no video source: expected a flow or ATM stream of video; for other traffic, run it with --pcap and \
             describe the capture"
        ))),
        (None, [one]) => Ok(one.clone()),
        (None, _) => Err(Error::Usage(format!("{shown}: choose one by --source: {}", names()))),
        (Some(wanted), _) => {
            let found =
                all.iter().find(|(name, _)| name == wanted || name.rsplit('.').next() == Some(wanted));
            let unknown =
                || Error::Usage(format!("--source: no video source \"{wanted}\": expected {}", names()));
            found.cloned().ok_or_else(unknown)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_several_interfaces_count_and_a_clock_that_is_set_back_does_not() {
        let mut intervals = Intervals::new(Span::from_millis(10));
        let ms = |ms: u64| 5_000_000_000 + ms * 1_000_000;
        for (at, is_counted) in [(100, true), (105, true), (95, true), (80, true), (79, true), (125, true)] {
            assert_eq!(intervals.add(ms(at), 1.0).is_ok(), is_counted, "{at}");
        }
        // From 70 ms on.
        assert_eq!(intervals.bits, [1.0, 1.0, 1.0, 2.0, 0.0, 1.0]);
        assert!(matches!(intervals.add(1, 1.0), Err(OutOfRange::Before)));
        let behind = intervals.add(ms(315_360_000_000), 1.0);
        assert!(
            matches!(behind, Err(OutOfRange::Behind(gap)) if gap == Span::from_secs(315_359_999) + Span::from_millis(900))
        );
    }
}
