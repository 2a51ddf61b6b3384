//! An emulation's folder: that of a run, and what real time did to it.

use std::ops::ControlFlow;
use std::{fmt, fs};

use bentpipe_net::Port;
use bentpipe_sim::ElementId;
use bentpipe_units::{Span, Time};
use serde::{Deserialize, Serialize};

use super::execute::{naming, outcome, start_captures, write_results};
use super::{CaptureFile, Failure, Request, Results, RunResult, Summary, Timing};
use crate::build;
use crate::record::{Form, Live, Multiplex, Recorder};

/// What real time did to a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RealTime {
    /// How many packets left the network.
    pub packets: u64,
    /// Half of them left no later than this after their time, in seconds.
    pub late_p50_s: f64,
    /// 99 % of them left no later than this after their time, in seconds.
    pub late_p99_s: f64,
    /// The latest left so much after its time, in seconds.
    pub late_max_s: f64,
    /// A run whose 99 % is beyond this was too late to be trusted, in seconds.
    pub threshold_s: f64,
    /// The share of one processor that the emulator took.
    pub cpu: f64,
    /// What else a reader has to know: devices that were lost, captures that failed, flows that were left out.
    pub notices: Vec<String>,
}

impl fmt::Display for RealTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let late = [self.late_p50_s, self.late_p99_s, self.late_max_s].map(Span::from_secs_f64);
        writeln!(
            f,
            "{} packets left, half of them within {} of their time, 99 % within {}, all within {}; CPU {:.0} %",
            self.packets,
            late[0],
            late[1],
            late[2],
            self.cpu * 100.0
        )?;
        if self.was_late() {
            let threshold = Span::from_secs_f64(self.threshold_s);
            writeln!(
                f,
                "LATE: more than 1 % of the packets left more than {threshold} after their time; do not trust this run"
            )?;
        }
        self.notices.iter().try_for_each(|notice| writeln!(f, "{notice}"))
    }
}

impl RealTime {
    /// Whether packets were later than the threshold allows.
    pub fn was_late(&self) -> bool {
        self.late_p99_s > self.threshold_s
    }
}

/// A point of capture.
#[derive(Clone, Debug)]
pub struct CapturePoint {
    /// The file's name without its ending.
    pub name: String,
    /// The inputs that packets pass.
    pub inputs: Vec<(ElementId, Port)>,
    /// What they are there.
    pub form: Form,
    /// The multiplex that they are parts of, which is to be captured whole.
    pub multiplex: Option<Multiplex>,
}

impl CapturePoint {
    /// The files of what a scenario wants captured: IP packets, in a virtual channel as PDUs, of a terminal also its
    /// bursts, of DVB also TS packets or frames.
    pub fn of(captures: &[build::Capture]) -> Vec<CapturePoint> {
        let both = captures.iter().flat_map(|capture| {
            let name = capture.name.replace(':', "-");
            let on_line = capture.on_line.as_ref().map(|on_line| CapturePoint {
                name: format!("{name}-{}", on_line.form.name()),
                inputs: on_line.inputs.clone(),
                form: on_line.form,
                multiplex: on_line.multiplex.clone(),
            });
            let inputs = vec![capture.sent, capture.received];
            let form = capture.pdu_of.map_or(Form::Ip, Form::Pdus);
            [Some(CapturePoint { name, inputs, form, multiplex: None }), on_line]
        });
        both.flatten().collect()
    }
}

/// Follows `live` until it ends or `progress` wants to stop, and leaves the folder that [`super::execute`] leaves but for
/// its report. The request's plan has one point, of which the first seed is taken. `conclude` says at the end what real
/// time did.
///
/// # Errors
/// If files cannot be written. A capture that fails while running ends by itself, and is among the notices.
pub fn follow<L: Live>(
    request: &Request<'_>,
    live: &mut L,
    captures: &[CapturePoint],
    progress: impl FnMut(&mut L) -> ControlFlow<()>,
    conclude: impl FnOnce(&mut L) -> RealTime,
) -> Result<Results, Failure> {
    let mut point = request.plan.points[0].clone();
    let seed = point.seeds.first().copied().unwrap_or(point.scenario.seed);
    let folder = request.folder.of_run(&point, seed);
    fs::create_dir_all(&folder).map_err(|error| naming(&error, &folder))?;
    let captures = start_captures(live.network(), captures, &folder, request.snap_len)?;
    let recorder = Recorder {
        elements: live.network().ids().collect(),
        interval: point.scenario.probe.interval,
        warm_up: point.scenario.probe.warm_up,
        duration: point.scenario.duration,
    };
    let recording = recorder.follow(live, progress)?;
    let mut real_time = conclude(live);
    let mut files = Vec::new();
    for (file, capture) in captures {
        match capture.finish() {
            Ok(packets) => files.push(CaptureFile { file, packets }),
            Err(error) => real_time.notices.push(format!("the capture {file} failed: {error}")),
        }
    }
    point.scenario.duration = recording.end.at.since(Time::ZERO);
    let outcome = outcome(&point, seed, &recording, files);
    let wall_s = recording.end.at.as_secs_f64();
    let timing = Timing { build: request.build.to_owned(), wall_s, real_time: Some(real_time) };
    request.folder.write_run((&point, seed), &recording.series, &outcome, &timing)?;
    let runs = vec![RunResult { point: point.index, outcome, timing, reused: false }];
    let summary = Summary::new(request.plan, &runs);
    let results = Results { folder: request.folder.clone(), runs, summary };
    write_results(request, &results, wall_s)?;
    Ok(results)
}
