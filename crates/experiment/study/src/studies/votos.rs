//! Start-up and impulse response over demand assignment (VOTOS).

use bentpipe_dvb::dama::{Config, Frame};
use bentpipe_record::stats;

use crate::reduce::doubling_time;
use crate::runs::StudyRuns;

/// Delivered bytes between which a slow start is timed.
///
/// The window reaches the bandwidth-delay product at the upper end, where exponential growth ends.
const FROM: f64 = 4_000.0;
const TO: f64 = 256_000.0;

/// Relative distance from the impulse's height at which its transient has ended.
///
/// It is more than the unit of capacity is of the lowest impulse.
const SETTLED: f64 = 0.25;

/// Returns the doubling times in slow start of a run's points, in seconds.
fn doubling_times(runs: &StudyRuns, run: &str) -> Result<Vec<f64>, String> {
    let of_point = |point: usize| {
        let delivered = runs.column(run, point, "flow.transfer.receiver.delivered-bytes")?;
        doubling_time(&delivered, FROM, TO).map_err(|problem| format!("point {point} of \"{run}\" {problem}"))
    };
    (0..points(runs, run)?).map(of_point).collect()
}

/// Returns the place at which a line through two points reaches `y`.
fn between(a: (f64, f64), b: (f64, f64), y: f64) -> f64 {
    if b.1 == a.1 { b.0 } else { a.0 + (b.0 - a.0) * (y - a.1) / (b.1 - a.1) }
}

fn points(runs: &StudyRuns, run: &str) -> Result<usize, String> {
    Ok(runs.run(run)?.plan.points.len())
}

fn median(values: Vec<f64>) -> Result<f64, String> {
    stats::median(values).ok_or_else(|| "no values".to_owned())
}

/// Returns the one-way delay of a fixed assignment with the same doubling time, in seconds.
///
/// It is interpolated between delays that were run.
pub(super) fn equivalent(runs: &StudyRuns) -> Result<f64, String> {
    equivalent_of(runs, "startup")
}

/// Returns [`equivalent`] for terminals that request only what they have not requested yet.
pub(super) fn equivalent_unasked(runs: &StudyRuns) -> Result<f64, String> {
    equivalent_of(runs, "startup-unasked")
}

/// Returns [`equivalent`] for terminals that request the arrival rate alone.
pub(super) fn equivalent_ignored(runs: &StudyRuns) -> Result<f64, String> {
    equivalent_of(runs, "startup-ignored")
}

fn equivalent_of(runs: &StudyRuns, run: &str) -> Result<f64, String> {
    let time = median(doubling_times(runs, run)?)?;
    let fixed = fixed(runs)?;
    let pair = fixed.windows(2).find(|pair| pair[0].1 <= time && time <= pair[1].1);
    let pair =
        pair.ok_or_else(|| format!("doubles in {time:.2} s, beyond the fixed assignments that were run"))?;
    Ok(between(pair[0], pair[1], time))
}

/// Returns delay and doubling time of each fixed assignment.
fn fixed(runs: &StudyRuns) -> Result<Vec<(f64, f64)>, String> {
    let finished = runs.run("fixed")?;
    let delay = |point: &bentpipe_lab::plan::Point| {
        let delay = point.scenario.link.first().and_then(|(_, link)| link.delay);
        delay.map_or(0.0, |delay| delay.as_secs_f64())
    };
    let delays = finished.plan.points.iter().map(delay);
    Ok(delays.zip(doubling_times(runs, "fixed")?).collect())
}

/// Returns the equivalent one-way delay of the closed form in seconds (docs/models/return-link.md).
///
/// Growth by x in each superframe S is that of a path with an RTT of S ln 2 / ln x.
pub(super) fn closed_form(runs: &StudyRuns) -> Result<f64, String> {
    let (frame, hop) = frame(runs, "startup")?;
    let superframe = frame.superframe().as_secs_f64();
    let [least, ..] = frame.request_to_grant(0).ok_or("requests ride on bursts")?;
    // From the superframe that a request looks back on to the one that it shapes.
    let ahead = 1.0 + least.as_secs_f64() / superframe;
    let growth = growth(2.0 * hop / superframe, ahead);
    Ok(superframe * std::f64::consts::LN_2 / growth.ln() / 2.0)
}

/// Returns the factor by which slow start grows in a superframe, by bisection.
///
/// Arrivals and backlog are granted `ahead` superframes later, and each acknowledged segment brings two after an RTT of `rtt`
/// superframes.
fn growth(rtt: f64, ahead: f64) -> f64 {
    let granted_less_sent = |x: f64| {
        let sent = x.powf(rtt) / 2.0;
        let waiting = (1.0 - sent) / (1.0 - 1.0 / x);
        (1.0 + waiting) / x.powf(ahead) - sent
    };
    let (mut low, mut high) = (1.001, 2.0_f64.powf(1.0 / rtt));
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if granted_less_sent(middle) > 0.0 { low = middle } else { high = middle }
    }
    low
}

fn frame(runs: &StudyRuns, run: &str) -> Result<(Frame, f64), String> {
    let finished = runs.run(run)?;
    let scenario = &finished.plan.points.first().ok_or("no point")?.scenario;
    let carrier = scenario.shared.carrier.keys().next().ok_or("no carrier")?;
    let frame = bentpipe_assemble::frame(scenario, carrier).map_err(|problem| problem.to_string())?;
    let hop = scenario.link.values().next().and_then(|link| link.delay).unwrap_or_default();
    Ok((frame, hop.as_secs_f64()))
}

/// Response to an impulse.
struct Response {
    /// Height in bit/s of payload.
    height: f64,
    /// Time from its start to the first byte that arrives, in seconds.
    silent: f64,
    /// Time from its start until the throughput is that of the impulse, in seconds.
    length: f64,
    /// Peak throughput in bit/s.
    peak: f64,
}

/// Returns the responses of all points.
fn responses(runs: &StudyRuns) -> Result<Vec<Response>, String> {
    let finished = runs.run("impulse")?;
    let (frame, _) = frame(runs, "impulse")?;
    let superframe = frame.superframe().as_secs_f64();
    let of_point = |(n, point): (usize, &bentpipe_lab::plan::Point)| {
        let flow = point.scenario.flow.values().next().ok_or("no flow")?;
        let (start, stop) = (flow.start.as_secs_f64(), flow.stop.map_or(f64::MAX, |stop| stop.as_secs_f64()));
        let bytes = runs.column("impulse", n, "flow.impulse.receiver.delivered-bytes")?;
        let sent = runs.column("impulse", n, "flow.impulse.sender.sent-bytes")?;
        let total = |series: &[(f64, f64)]| series.last().map_or(0.0, |last| last.1);
        let height = total(&bytes) * 8.0 / (stop - start);
        let rates = sliding(&bytes, superframe);
        let first =
            bytes.iter().find(|(_, bytes)| *bytes > 0.0).map(|(at, _)| *at).ok_or("nothing arrives")?;
        let mut while_on = rates.iter().filter(|(at, _)| *at < stop);
        let unsettled = while_on.rfind(|(_, rate)| (rate / height - 1.0).abs() > SETTLED).map(|(at, _)| *at);
        let peak = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        if total(&sent) == 0.0 {
            return Err("nothing is sent".to_owned());
        }
        Ok(Response { height, silent: first - start, length: unsettled.unwrap_or(start) - start, peak })
    };
    finished.plan.points.iter().enumerate().map(of_point).collect()
}

/// Returns the rate over the last `window` seconds at each sample.
fn sliding(bytes: &[(f64, f64)], window: f64) -> Vec<(f64, f64)> {
    let before = |at: f64| {
        let n = bytes.partition_point(|(other, _)| *other <= at);
        n.checked_sub(1).map_or(0.0, |n| bytes[n].1)
    };
    bytes.iter().map(|(at, total)| (*at, (total - before(at - window)) * 8.0 / window)).collect()
}

fn mean_of(responses: &[Response], of: impl Fn(&Response) -> f64) -> f64 {
    stats::mean(&responses.iter().map(of).collect::<Vec<_>>()).unwrap_or(f64::NAN)
}

/// Returns the responses by height, from the lowest.
fn by_height(runs: &StudyRuns) -> Result<Vec<Vec<Response>>, String> {
    let mut responses = responses(runs)?;
    responses.sort_by(|a, b| a.height.total_cmp(&b.height));
    let mut groups: Vec<Vec<Response>> = Vec::new();
    for response in responses {
        match groups.last_mut().filter(|group| response.height < group[0].height * 1.3) {
            Some(group) => group.push(response),
            None => groups.push(vec![response]),
        }
    }
    if groups.len() < 2 { Err("one height only".to_owned()) } else { Ok(groups) }
}

/// Returns the shortest transient at any offset and height, in seconds.
pub(super) fn shortest_transient(runs: &StudyRuns) -> Result<f64, String> {
    Ok(responses(runs)?.iter().map(|response| response.silent).fold(f64::INFINITY, f64::min))
}

/// Returns the ratio of the mean transient length at the greatest and least height.
pub(super) fn length_ratio(runs: &StudyRuns) -> Result<f64, String> {
    let groups = by_height(runs)?;
    let length = |group: &Vec<Response>| mean_of(group, |response| response.length);
    Ok(length(&groups[groups.len() - 1]) / length(&groups[0]))
}

/// Returns the [`ratio_of_peaks`] at the greatest height.
pub(super) fn height_ratio(runs: &StudyRuns) -> Result<f64, String> {
    ratio_of_peaks(runs, usize::MAX)
}

/// Returns the [`ratio_of_peaks`] at the second height.
pub(super) fn height_ratio_middle(runs: &StudyRuns) -> Result<f64, String> {
    ratio_of_peaks(runs, 1)
}

/// Returns the ratio of mean peaks over that of the heights.
///
/// It is that of the `n`-th height, or the greatest, and the least.
fn ratio_of_peaks(runs: &StudyRuns, n: usize) -> Result<f64, String> {
    let groups = by_height(runs)?;
    let (last, first) = (&groups[n.min(groups.len() - 1)], &groups[0]);
    let peak = |group: &Vec<Response>| mean_of(group, |response| response.peak);
    let height = |group: &Vec<Response>| mean_of(group, |response| response.height);
    Ok(peak(last) / peak(first) / (height(last) / height(first)))
}

/// Returns the mean time to the first byte over that of arithmetic.
///
/// It consists of the wait for the request opportunity, the loop, a burst and propagation.
pub(super) fn silence(runs: &StudyRuns) -> Result<f64, String> {
    let (frame, hop) = frame(runs, "impulse")?;
    let [_, mean, _] = frame.request_to_grant(0).ok_or("requests ride on bursts")?;
    let arithmetic = mean.as_secs_f64() + frame.slot().as_secs_f64() + hop;
    Ok(mean_of(&responses(runs)?, |response| response.silent) / arithmetic)
}

/// Returns the ratio of the mean transient length at the greatest and least height.
pub(super) fn lengths(runs: &StudyRuns) -> Result<Vec<(f64, f64)>, String> {
    let of_height = |group: &Vec<Response>| {
        let mean = |of: fn(&Response) -> f64| mean_of(group, of);
        (mean(|response| response.height) / 1000.0, mean(|response| response.length))
    };
    Ok(by_height(runs)?.iter().map(of_height).collect())
}

/// Returns the granularity of assignment in kbit/s: a slot in each multiframe.
pub(super) fn granularity(frames: u32) -> Result<f64, String> {
    let config = Config { frames: Some(frames), ..Config::default() };
    let frame = Frame::new(&config, 2).map_err(|error| error.to_string())?;
    Ok(frame.rate().as_bps() as f64 / 1000.0 / f64::from(frame.slots_in_multiframe()))
}

/// Returns the length of the preset's superframe in seconds.
pub(super) fn superframe(_runs: &StudyRuns) -> Result<f64, String> {
    let frame = Frame::new(&Config::default(), 2).map_err(|error| error.to_string())?;
    Ok(frame.superframe().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_that_of_the_equation() {
        // Granted at once and all that waits: a doubling each RTT.
        assert!((growth(0.5, 1e-9) - 4.0).abs() < 0.01, "{}", growth(0.5, 1e-9));
        let x = growth(0.61, 2.0);
        let sent = x.powf(0.61) / 2.0;
        assert!(((1.0 + (1.0 - sent) / (1.0 - 1.0 / x)) / (x * x) - sent).abs() < 1e-9 && x > 1.5, "{x}");
    }

    #[test]
    fn rates_are_those_of_windows() {
        let rates = sliding(&[(0.0, 0.0), (1.0, 100.0), (2.0, 100.0)], 1.0);
        assert_eq!(rates.iter().map(|(_, rate)| *rate).collect::<Vec<_>>(), [0.0, 800.0, 0.0]);
    }
}
