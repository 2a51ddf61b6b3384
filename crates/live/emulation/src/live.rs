//! Emulation as the recorder sees it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bentpipe_emu::{Driver, Ended, Monotonic, cpu_time};
use bentpipe_record::Live;
use bentpipe_record::RealTime;
use bentpipe_sim::Network;
use bentpipe_units::{Span, Time};

use crate::connections::Connections;
use crate::join;

/// Driver that runs until it is stopped.
pub(crate) struct RealTimeRun {
    driver: Driver<Monotonic>,
    stop: Arc<AtomicBool>,
    threshold: Span,
    notices: Vec<String>,
    connections: Option<Connections>,
}

impl RealTimeRun {
    /// Creates the run, and requests real-time priority for the calling thread.
    pub(crate) fn new(mut driver: Driver<Monotonic>, stop: Arc<AtomicBool>, threshold: Span) -> RealTimeRun {
        let refused = driver.request_realtime_priority().err();
        let notice = |error: std::io::Error| {
            format!(
                "no real-time priority ({error}), so a busy machine makes packets late; CAP_SYS_NICE gives it"
            )
        };
        let notices = refused.map(notice).into_iter().collect();
        RealTimeRun { driver, stop, threshold, notices, connections: None }
    }

    /// Reports the connections of real hosts.
    pub(crate) fn with(self, connections: Connections) -> RealTimeRun {
        RealTimeRun { connections: Some(connections), ..self }
    }

    pub(crate) fn driver(&mut self) -> &mut Driver<Monotonic> {
        &mut self.driver
    }

    /// Describes the effects of real time.
    pub(crate) fn conclude(&mut self) -> RealTime {
        let mut notices = self.notices.clone();
        for lost in self.driver.lost() {
            let (gate, at, error) = (lost.gate, lost.at.as_secs_f64(), lost.error.to_string());
            let path = self.driver.network_ref().path(gate).to_owned();
            notices.push(format!("the device of {path} was lost after {at:.3} s: {error}"));
        }
        let errors = self.driver.errors();
        if errors.write > 0 {
            notices.push(format!("the kernel did not take {} packets: garbage, or no room", errors.write));
        }
        notices.extend(self.driver.joint().map(join::describe));
        let elapsed = self.driver.network_ref().now().as_secs_f64().max(1e-9);
        let late = self.driver.lateness();
        RealTime {
            packets: late.count(),
            late_p50_s: late.quantile(0.5).as_secs_f64(),
            late_p99_s: late.quantile(0.99).as_secs_f64(),
            late_max_s: late.max().as_secs_f64(),
            threshold_s: self.threshold.as_secs_f64(),
            cpu: cpu_time().as_secs_f64() / elapsed,
            notices,
        }
    }
}

impl Live for RealTimeRun {
    fn run_until(&mut self, end: Time) -> ControlFlow<()> {
        let ended = self.driver.run(end, &self.stop);
        if let Some(connections) = &self.connections {
            connections.report(self.driver.network());
        }
        match ended {
            Ended::AtEnd => ControlFlow::Continue(()),
            Ended::Stopped | Ended::AllLost => ControlFlow::Break(()),
        }
    }

    fn network(&mut self) -> &mut Network {
        self.driver.network()
    }
}
