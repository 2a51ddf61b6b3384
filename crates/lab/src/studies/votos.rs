//! The VOTOS study: what a start-up and an impulse over demand assignment amount to.

use bentpipe_net::dama::{Config, Frame};

use super::koreasat::column_of;
use crate::published::{At, StudyRuns, Value};
use crate::stats;

/// Delivered bytes between which a slow start is timed: from the initial window to what is delivered when the window
/// reaches the channel's bandwidth-delay product, which ends the exponential growth.
const FROM: f64 = 4_000.0;
const TO: f64 = 256_000.0;

/// An impulse's transient has ended when the throughput over a superframe stays as near to its height, as a share of
/// that: more than the unit of capacity is of the lowest one.
const SETTLED: f64 = 0.25;

/// The time to double what was delivered in slow start, at each point of a run, in seconds.
fn doubling_times(runs: &StudyRuns, run: &str) -> Result<Vec<f64>, String> {
    let of_point = |point: usize| {
        let delivered = column_of(runs, run, point, "flow.transfer.receiver", "bytes_delivered")?;
        let growing = delivered.iter().filter(|(_, bytes)| (FROM..=TO).contains(bytes));
        let logarithms: Vec<(f64, f64)> = growing.map(|(at, bytes)| (*at, bytes.log2())).collect();
        let slope = slope(&logarithms).filter(|slope| *slope > 0.0);
        Ok(1.0 / slope.ok_or_else(|| format!("point {point} of \"{run}\" does not grow"))?)
    };
    (0..points(runs, run)?).map(of_point).collect()
}

/// The slope of the line of least squares; none through fewer than two points.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let above: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let below: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    (below > 0.0).then_some(above / below)
}

/// Where a line through two points reaches `y`.
fn between(a: (f64, f64), b: (f64, f64), y: f64) -> f64 {
    if b.1 == a.1 { b.0 } else { a.0 + (b.0 - a.0) * (y - a.1) / (b.1 - a.1) }
}

fn points(runs: &StudyRuns, run: &str) -> Result<usize, String> {
    Ok(runs.0.get(run).ok_or_else(|| format!("no run \"{run}\""))?.plan.points.len())
}

/// The median time to double over all phases, in seconds.
pub(super) fn doubling(runs: &StudyRuns) -> Result<f64, String> {
    median(doubling_times(runs, "startup")?)
}

fn median(values: Vec<f64>) -> Result<f64, String> {
    stats::median(values).ok_or_else(|| "no values".to_owned())
}

/// The one-way propagation of a fixed assignment whose slow start doubles in the same time, in seconds: between delays
/// that were run.
pub(super) fn equivalent(runs: &StudyRuns) -> Result<f64, String> {
    equivalent_of(runs, "startup")
}

/// As [`equivalent`], for terminals that ask only for what earlier requests do not pay for.
pub(super) fn equivalent_unasked(runs: &StudyRuns) -> Result<f64, String> {
    equivalent_of(runs, "startup-unasked")
}

/// As [`equivalent`], for terminals that ask for the rate that arrives alone.
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

/// Delay and doubling time of each fixed assignment.
fn fixed(runs: &StudyRuns) -> Result<Vec<(f64, f64)>, String> {
    let finished = runs.0.get("fixed").ok_or("no run \"fixed\"")?;
    let delay = |point: &crate::plan::Point| {
        let delay = point.scenario.link.first().and_then(|(_, link)| link.delay);
        delay.map_or(0.0, |delay| delay.as_secs_f64())
    };
    let delays = finished.plan.points.iter().map(delay);
    Ok(delays.zip(doubling_times(runs, "fixed")?).collect())
}

/// The equivalent one-way propagation of the closed form, in seconds (docs/models/return-link.md): growth by a factor x in
/// each superframe, of which a path without assignment whose RTT is S ln 2 / ln x would show as much.
pub(super) fn closed_form(runs: &StudyRuns) -> Result<f64, String> {
    let (frame, hop) = frame(runs, "startup")?;
    let superframe = frame.superframe().as_secs_f64();
    let [least, ..] = frame.request_to_grant(0).ok_or("requests ride on bursts")?;
    // From the superframe that a request looks back on to the one that it shapes.
    let ahead = 1.0 + least.as_secs_f64() / superframe;
    let growth = growth(2.0 * hop / superframe, ahead);
    Ok(superframe * std::f64::consts::LN_2 / growth.ln() / 2.0)
}

/// The factor by which slow start grows in a superframe, if it is granted `ahead` superframes later the sum of what came
/// and of what waits, and each segment acknowledged brings two after an RTT of `rtt` superframes: where what is granted is
/// what is sent. Found by bisection.
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
    let finished = runs.0.get(run).ok_or_else(|| format!("no run \"{run}\""))?;
    let scenario = &finished.plan.points.first().ok_or("no point")?.scenario;
    let carrier = scenario.carrier.keys().next().ok_or("no carrier")?;
    let frame = crate::build::frame(scenario, carrier).map_err(|problem| problem.to_string())?;
    let hop = scenario.link.values().next().and_then(|link| link.delay).unwrap_or_default();
    Ok((frame, hop.as_secs_f64()))
}

/// An impulse's response.
struct Response {
    /// Its height in bit/s of payload.
    height: f64,
    /// From its start to the first byte that arrives, in seconds.
    silent: f64,
    /// From its start to when the throughput is that of the impulse, in seconds.
    length: f64,
    /// The highest throughput, in bit/s.
    peak: f64,
}

/// The responses of all points.
fn responses(runs: &StudyRuns) -> Result<Vec<Response>, String> {
    let finished = runs.0.get("impulse").ok_or("no run \"impulse\"")?;
    let (frame, _) = frame(runs, "impulse")?;
    let superframe = frame.superframe().as_secs_f64();
    let of_point = |(n, point): (usize, &crate::plan::Point)| {
        let flow = point.scenario.flow.values().next().ok_or("no flow")?;
        let (start, stop) = (flow.start.as_secs_f64(), flow.stop.map_or(f64::MAX, |stop| stop.as_secs_f64()));
        let bytes = column_of(runs, "impulse", n, "flow.impulse.receiver", "bytes")?;
        let sent = column_of(runs, "impulse", n, "flow.impulse.sender", "sent-bytes")?;
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

/// The rate over the last `window` seconds at each sample.
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

/// Responses by height, from the lowest.
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

/// The shortest transient at any offset and height, in seconds.
pub(super) fn shortest_transient(runs: &StudyRuns) -> Result<f64, String> {
    Ok(responses(runs)?.iter().map(|response| response.silent).fold(f64::INFINITY, f64::min))
}

/// The mean length of the transient at the greatest height over that at the least.
pub(super) fn length_ratio(runs: &StudyRuns) -> Result<f64, String> {
    let groups = by_height(runs)?;
    let length = |group: &Vec<Response>| mean_of(group, |response| response.length);
    Ok(length(&groups[groups.len() - 1]) / length(&groups[0]))
}

/// The mean overshoot at the greatest height over that at the least, divided by the ratio of the heights.
pub(super) fn height_ratio(runs: &StudyRuns) -> Result<f64, String> {
    let groups = by_height(runs)?;
    let (last, first) = (&groups[groups.len() - 1], &groups[0]);
    let peak = |group: &Vec<Response>| mean_of(group, |response| response.peak);
    let height = |group: &Vec<Response>| mean_of(group, |response| response.height);
    Ok(peak(last) / peak(first) / (height(last) / height(first)))
}

/// The mean time to the first byte over that of the arithmetic: wait for the request, loop, a burst, propagation.
pub(super) fn silence(runs: &StudyRuns) -> Result<f64, String> {
    let (frame, hop) = frame(runs, "impulse")?;
    let [_, mean, _] = frame.request_to_grant(0).ok_or("requests ride on bursts")?;
    let arithmetic = mean.as_secs_f64() + frame.slot().as_secs_f64() + hop;
    Ok(mean_of(&responses(runs)?, |response| response.silent) / arithmetic)
}

/// The mean length of the transient in seconds against the height in kbit/s.
pub(super) fn lengths(runs: &StudyRuns) -> Result<Vec<(f64, f64)>, String> {
    let of_height = |group: &Vec<Response>| {
        let mean = |of: fn(&Response) -> f64| mean_of(group, of);
        (mean(|response| response.height) / 1000.0, mean(|response| response.length))
    };
    Ok(by_height(runs)?.iter().map(of_height).collect())
}

/// The least that can be assigned with so many frames in a multiframe, in kbit/s: a slot in each multiframe.
pub(super) fn granularity(frames: u32) -> Result<f64, String> {
    let config = Config { frames: Some(frames), ..Config::default() };
    let frame = Frame::new(&config, 2).map_err(|error| error.to_string())?;
    Ok(frame.rate().as_bps() as f64 / 1000.0 / f64::from(frame.slots_in_multiframe()))
}

/// The length of a superframe of the preset, in seconds.
pub(super) fn superframe(_runs: &StudyRuns) -> Result<f64, String> {
    let frame = Frame::new(&Config::default(), 2).map_err(|error| error.to_string())?;
    Ok(frame.superframe().as_secs_f64())
}

/// The median over the 500 terminals of their transfers' mean RTT, in seconds.
pub(super) fn crowd_rtt(runs: &StudyRuns) -> Result<f64, String> {
    let finished = runs.0.get("crowd").ok_or("no run \"crowd\"")?;
    let point = finished.summary.points.first().ok_or("no point")?;
    let is_rtt = |name: &str| name.starts_with("flow.web.") && name.ends_with(".rtt");
    let rtts = point.measures.iter().filter(|(name, _)| is_rtt(name)).map(|(_, rtt)| rtt.estimate.mean);
    median(rtts.filter(|rtt| rtt.is_finite()).collect())
}

/// The share of the frame that is assigned to the 500 terminals.
pub(super) fn crowd_share(runs: &StudyRuns) -> Result<f64, String> {
    let shares = column_of(runs, "crowd", 0, "carrier.return", "share-assigned")?;
    shares.last().map(|last| last.1).ok_or_else(|| "no samples".to_owned())
}

/// When the object of a run was there, in seconds from its start.
fn object_time(runs: &StudyRuns, run: &str) -> Result<f64, String> {
    let finished = runs.0.get(run).ok_or_else(|| format!("no run \"{run}\""))?;
    let point = finished.plan.points.first().ok_or("no point")?;
    let start = point.scenario.flow.values().next().map_or(0.0, |flow| flow.start.as_secs_f64());
    let delivered = column_of(runs, run, 0, "flow.object.receiver", "bytes_delivered")?;
    let done = delivered.iter().find(|(_, bytes)| *bytes >= 100_000.0).map(|(at, _)| at - start);
    done.ok_or_else(|| format!("\"{run}\" does not deliver it"))
}

/// A web object over all of the carrier, in seconds.
pub(super) fn object_cra(runs: &StudyRuns) -> Result<f64, String> {
    object_time(runs, "object-cra")
}

/// A web object over a rate asked for, in seconds.
pub(super) fn object_rbdc(runs: &StudyRuns) -> Result<f64, String> {
    object_time(runs, "object-rbdc")
}

/// A web object over a volume asked for, in seconds.
pub(super) fn object_vbdc(runs: &StudyRuns) -> Result<f64, String> {
    object_time(runs, "object-vbdc")
}

/// A web object over free capacity, in seconds.
pub(super) fn object_fca(runs: &StudyRuns) -> Result<f64, String> {
    object_time(runs, "object-fca")
}

/// The mean of both connections' mean RTT in a trial of table I, in seconds.
pub(super) fn pair_rtt(runs: &StudyRuns, run: &str) -> Result<f64, String> {
    let rtt = |flow: &str| {
        let value = Value { run: run.to_owned(), measure: format!("flow.{flow}.rtt"), at: At::new() };
        Ok::<_, String>(runs.value(&value)?.estimate.mean)
    };
    Ok((rtt("first")? + rtt("second")?) / 2.0)
}

/// How far from its lasting value a stream's delay may be when its start-up counts as complete, in seconds.
const STARTED: f64 = 0.1;

/// How long figure 5 looks at a stream, in seconds from its start.
const SHOWN: f64 = 40.0;

/// The delays of the streams of a run, against the time from their start: one for each phase.
fn delays(runs: &StudyRuns, run: &str) -> Result<Vec<Vec<(f64, f64)>>, String> {
    let finished = runs.0.get(run).ok_or_else(|| format!("no run \"{run}\""))?;
    let of_point = |(n, point): (usize, &crate::plan::Point)| {
        let start = point.scenario.flow.values().next().map_or(0.0, |flow| flow.start.as_secs_f64());
        let delay = column_of(runs, run, n, "flow.stream.receiver", "delay")?;
        let heard = delay.into_iter().filter(|(_, delay)| delay.is_finite());
        Ok(heard.map(|(at, delay)| (at - start, delay)).collect())
    };
    finished.plan.points.iter().enumerate().map(of_point).collect()
}

/// When a stream's delay has become what it stays, in seconds from its start: the median over all phases.
fn start_up(runs: &StudyRuns, run: &str) -> Result<f64, String> {
    let complete = |delays: Vec<(f64, f64)>| {
        let lasting = delays.last().ok_or("nothing arrives")?.1;
        let unsettled = delays.iter().rfind(|(_, delay)| (delay - lasting).abs() > STARTED);
        Ok(unsettled.map_or(0.0, |(at, _)| *at))
    };
    median(delays(runs, run)?.into_iter().map(complete).collect::<Result<_, String>>()?)
}

/// The mean over the time that figure 5 shows of the median over all phases, in seconds.
fn shown_delay(runs: &StudyRuns, run: &str) -> Result<f64, String> {
    let all = delays(runs, run)?;
    let mut medians = Vec::new();
    for second in 1..=SHOWN as u32 {
        let at = |delays: &Vec<(f64, f64)>| {
            let n = delays.partition_point(|(at, _)| *at <= f64::from(second));
            n.checked_sub(1).map(|n| delays[n].1)
        };
        let heard: Vec<f64> = all.iter().filter_map(at).collect();
        medians.extend(median(heard).ok());
    }
    stats::mean(&medians).ok_or_else(|| "nothing arrives".to_owned())
}

/// The start-up of a stream without Quick-Start, in seconds.
pub(super) fn stream_start_up(runs: &StudyRuns) -> Result<f64, String> {
    start_up(runs, "stream")
}

/// As [`stream_start_up`], with Quick-Start.
pub(super) fn stream_quick_start_up(runs: &StudyRuns) -> Result<f64, String> {
    start_up(runs, "stream-quick")
}

/// As [`stream_start_up`], with the lowest rate that Quick-Start knows.
pub(super) fn stream_least_start_up(runs: &StudyRuns) -> Result<f64, String> {
    start_up(runs, "stream-least")
}

/// As [`stream_start_up`], with Quick-Start by terminals that ask for nothing because of it.
pub(super) fn stream_unasked_start_up(runs: &StudyRuns) -> Result<f64, String> {
    start_up(runs, "stream-unasked")
}

/// The median delay with Quick-Start over that without.
pub(super) fn stream_delay(runs: &StudyRuns) -> Result<f64, String> {
    Ok(shown_delay(runs, "stream-quick")? / shown_delay(runs, "stream")?)
}

/// The median delay with the lowest rate that Quick-Start knows over that without Quick-Start.
pub(super) fn stream_least_delay(runs: &StudyRuns) -> Result<f64, String> {
    Ok(shown_delay(runs, "stream-least")? / shown_delay(runs, "stream")?)
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
    fn lines_and_windows() {
        assert_eq!(slope(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]), Some(2.0));
        assert_eq!(slope(&[(1.0, 1.0)]), None);
        let rates = sliding(&[(0.0, 0.0), (1.0, 100.0), (2.0, 100.0)], 1.0);
        assert_eq!(rates.iter().map(|(_, rate)| *rate).collect::<Vec<_>>(), [0.0, 800.0, 0.0]);
    }
}
