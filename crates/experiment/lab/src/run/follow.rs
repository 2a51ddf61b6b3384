//! An emulation's folder: that of a run, and what real time did to it.

use std::fs;
use std::ops::ControlFlow;

use bentpipe_record::{Live, RealTime, Recorder, RunResult, Series, Timing};
use bentpipe_site::Growth;
use bentpipe_units::{Span, Time};

use super::accounts::Accounts;
use super::execute::{naming, outcome, start_captures, summary, write_results};
use super::growing::Growing;
use super::{Failure, Request, Results};
use crate::prepared::CapturePoint;
use crate::video::Finish;

/// Time after which captured packets are in the file.
const FRESH: Span = Span::from_millis(250);

/// Follows `live` to its end and leaves a run folder without a report. `progress` may stop it earlier.
///
/// It is the folder of [`super::execute`]. The request's plan has one point, of which the first seed is
/// taken. `conclude` reports the real-time behaviour at the end.
///
/// # Errors
/// Returns an error if files cannot be written. A capture that fails during the run ends, with a notice.
pub fn follow<L: Live>(
    request: &Request<'_>,
    live: &mut L,
    (captures, growing, finish): (Vec<CapturePoint>, Vec<(String, Growth)>, Option<Finish>),
    mut progress: impl FnMut(&mut L, &Series) -> ControlFlow<()>,
    conclude: impl FnOnce(&mut L) -> RealTime,
) -> Result<Results, Failure> {
    let mut point = request.plan.points[0].clone();
    let seed = point.seeds.first().copied().unwrap_or(point.scenario.seed);
    let folder = request.folder.of_run(&point, seed);
    fs::create_dir_all(&folder).map_err(|error| naming(&error, &folder))?;
    let captures = start_captures(live.network(), captures, &folder, request.captures)?;
    let recorder = Recorder {
        elements: live.network().ids().collect(),
        interval: point.scenario.probe.interval,
        warm_up: point.scenario.probe.warm_up,
        duration: point.scenario.duration,
    };
    // Others look at captures while they are written. With samples, as packets may stop; and between rare samples.
    captures.iter().for_each(|(_, capture)| capture.flush_each(FRESH));
    let mut growing = Growing::new(&folder, growing);
    let mut flushed = Time::ZERO;
    let recording = recorder.follow(live, |live, series| {
        let now = live.network().now();
        if now >= flushed + FRESH {
            flushed = now;
            captures.iter().for_each(|(_, capture)| capture.flush());
            growing.grow();
        }
        progress(live, series)
    })?;
    drop(growing);
    let mut real_time = conclude(live);
    let (mut files, mut has_lost_packets) = (Vec::new(), false);
    for (file, capture) in captures {
        match capture.finish_files() {
            Ok(finished) => files.extend(finished),
            Err(error) => {
                has_lost_packets = true;
                real_time.notices.push(format!("the capture {file} failed: {error}"));
            }
        }
    }
    point.scenario.duration = recording.end.at.since(Time::ZERO);
    let accounts = Accounts::of_running(live.network());
    let mut outcome = outcome(&point, seed, &recording, (files, accounts));
    match finish.map_or(Ok(Vec::new()), |finish| finish(&folder)) {
        Ok(measures) => outcome.measures.extend(measures),
        Err(problem) => real_time.notices.push(format!("a stream was not judged: {problem}")),
    }
    let wall_s = recording.end.at.as_secs_f64();
    let captures = (!outcome.captures.is_empty()).then_some(request.captures);
    let build = request.build.to_owned();
    let timing = Timing { build, wall_s, real_time: Some(real_time), captures };
    request.folder.write_run((&point, seed), &recording.series, &outcome, &timing)?;
    let runs = vec![RunResult { point: point.index, outcome, timing, reused: false }];
    let summary = summary(request.plan, &runs);
    let results = Results { folder: request.folder.clone(), runs, summary, has_lost_packets };
    write_results(request, &results, wall_s)?;
    Ok(results)
}
