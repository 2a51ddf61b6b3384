//! Metrics of elements and emulator for Prometheus, and the live view as a page.

use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};

use bentpipe_emu::exporter::{self, Pages, Shared};
use bentpipe_emu::exposition::{Sample, prometheus};
use bentpipe_emu::{cpu_time, exposition};
use bentpipe_net::Observer;
use bentpipe_net::metric::{Counter, Gauge, Metric, Of};
use bentpipe_units::{Span, Time};

use crate::live::RealTimeRun;
use crate::metrics;

/// Time between samples.
const INTERVAL: Span = Span::from_secs(1);

/// Maximum number of samples of a page. More elements are left out.
const MAX_SAMPLES: usize = 100_000;

/// Exporter. A thread of its own writes the text: it does not delay packets.
pub(crate) struct Exporter {
    samples: Sender<(Vec<Sample>, String)>,
    next: Time,
}

impl Exporter {
    /// Serves the metrics of the scenario of this title.
    ///
    /// # Errors
    /// Returns an error if the address is not on loopback, or the port is taken.
    pub(crate) fn start(address: SocketAddr, title: &str) -> std::io::Result<Exporter> {
        let shared = Shared::default();
        exporter::start(address, shared.clone())?;
        let (samples, taken) = channel::<(Vec<Sample>, String)>();
        let title = title.to_owned();
        std::thread::spawn(move || {
            for (samples, table) in taken {
                let metrics = prometheus("bentpipe_emulation", ("scenario", &title), &samples);
                exporter::publish(&shared, Pages { metrics, page: exporter::page(&title, &table) });
            }
        });
        Ok(Exporter { samples, next: Time::ZERO })
    }

    /// Samples the network if it is time to. `table` is the text of the live view.
    pub(crate) fn look(&mut self, live: &mut RealTimeRun, table: impl FnOnce(&mut RealTimeRun) -> String) {
        let now = live.driver().network().now();
        if now < self.next {
            return;
        }
        self.next = now + INTERVAL;
        let mut found = Found { element: String::new(), of: String::new(), samples: emulator(live, now) };
        let network = live.driver().network();
        for element in network.ids().collect::<Vec<_>>() {
            network.path(element).clone_into(&mut found.element);
            found.of.clone_from(&found.element);
            network.observe(element, &mut found);
        }
        let table = table(live);
        let _ = self.samples.send((found.samples, table));
    }
}

/// Returns the samples of the emulator.
fn emulator(live: &mut RealTimeRun, now: Time) -> Vec<Sample> {
    let errors = live.driver().errors();
    let late = live.driver().lateness();
    let [p50, p99, max] = [late.quantile(0.5), late.quantile(0.99), late.max()].map(Span::as_secs_f64);
    let values: [(&'static Metric, f64); 8] = [
        (&metrics::UPTIME_SECONDS, now.as_secs_f64()),
        (&metrics::CPU_SECONDS, cpu_time().as_secs_f64()),
        (&metrics::PACKETS_TIMED, late.count() as f64),
        (&metrics::LATENESS_P50_SECONDS, p50),
        (&metrics::LATENESS_P99_SECONDS, p99),
        (&metrics::LATENESS_MAX_SECONDS, max),
        (&metrics::READ_ERRORS, errors.read as f64),
        (&metrics::WRITE_ERRORS, errors.write as f64),
    ];
    values.into_iter().map(|(metric, value)| Sample { metric, labels: Vec::new(), value }).collect()
}

/// Collector of what elements report.
struct Found {
    element: String,
    of: String,
    samples: Vec<Sample>,
}

impl Found {
    fn add(&mut self, metric: &'static Metric, value: f64) {
        if self.samples.len() < MAX_SAMPLES && !value.is_nan() {
            let labels = vec![("of", self.of.clone())];
            self.samples.push(exposition::Sample { metric, labels, value });
        }
    }
}

impl Observer for Found {
    fn part(&mut self, path: &str) {
        path.clone_into(&mut self.of);
    }

    fn class(&mut self, name: &str) {
        // Another one of the same part, if one was announced before.
        let whole = self.of.split_once("/class.").map_or(&*self.of, |(whole, _)| whole);
        self.of = format!("{whole}/class.{name}");
    }

    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        self.add(metric, total as f64);
    }

    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        self.add(metric, value);
    }
}
