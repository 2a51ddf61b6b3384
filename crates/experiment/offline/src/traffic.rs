//! Statistics of the rate of traffic: distribution, autocorrelation, long-range dependence.
//!
//! The rate is that of the IP packets of a capture, of a transport stream between its clock references without NULL packets
//! (ATM Forum 97-0177), or of a video source of a scenario. [`Sequence`] draws time-sequence graphs of TCP connections.

mod page;
mod rates;
mod sequence;

use std::io::Write;
use std::path::PathBuf;

use bentpipe_mpeg::lrd::{self, Estimate, Estimates, Moments};
use bentpipe_record::write_whole;
use bentpipe_report::{Cell, Table, number};
use bentpipe_units::Span;
use serde_json::{Value, json};

use crate::{Error, Intake, Outcome, Session};
pub use sequence::Sequence;

/// Lags at which the autocorrelation is given, in intervals.
const LAGS: [usize; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

/// Shares at which quantiles are given.
const SHARES: [f64; 7] = [0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0];

/// Description of the rate of traffic as text, JSON and page.
#[derive(Clone, Debug)]
pub struct Describe {
    /// Capture, transport stream, or scenario file.
    pub input: PathBuf,
    /// Interval over which the rate is averaged.
    pub interval: Span,
    /// Flow or ATM stream of a scenario. Default: the only one with a video source.
    pub source: Option<String>,
    /// Seed of a scenario's source.
    pub seed: u64,
    /// JSON file with the figures and the series.
    pub json: Option<PathBuf>,
    /// HTML page with the figures and plots.
    pub report: Option<PathBuf>,
    /// Enables ANSI colours in the text.
    pub colours: bool,
    /// Choice of a capture's packets, and a file for the records that are left out.
    pub intake: Intake,
}

/// Rate of traffic over consecutive intervals.
struct Series {
    /// Description of its source.
    about: String,
    /// Duration of an interval in seconds.
    interval_s: f64,
    /// Rate in bits per second.
    rates: Vec<f64>,
    /// Account of a capture, and `true` if it has damage.
    account: Option<(Value, bool)>,
    /// Account of a capture in a line. Empty for others.
    remark: String,
}

/// Statistics of a series.
struct Statistics {
    moments: Moments,
    quantiles: Vec<f64>,
    autocorrelation: Vec<(usize, f64)>,
    estimates: Option<Estimates>,
}

impl Describe {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if the input cannot be read, has no rate, or a file cannot be written.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        if self.interval.is_zero() {
            return Err(Error::Usage("--interval: expected more than no time".to_owned()));
        }
        let outputs = [&self.json, &self.report].map(Option::as_deref);
        crate::capture::check_apart(&self.input, outputs, &self.intake)?;
        let series = rates::read(self, session)?;
        let Some(statistics) = Statistics::of(&series.rates) else {
            let shown = self.input.display();
            let interval = self.interval;
            return Err(Error::Usage(format!("{shown}: shorter than one interval of {interval}")));
        };
        if statistics.estimates.is_none() {
            session.note(&no_estimates(&series));
        }
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(&json(&series, &statistics)).expect("figures are JSON");
            write(path, &(text + "\n"))?;
        }
        if let Some(path) = &self.report {
            write(path, &page::page(&self.input, &series, &statistics).to_html())?;
        }
        let tables = tables(&series, &statistics);
        let tables: Vec<String> = tables.iter().map(|table| table.to_text(self.colours)).collect();
        let has_damage = series.account.as_ref().is_some_and(|(_, has_damage)| *has_damage);
        Ok(Outcome::new(format!("{}\n\n{}", series.about, tables.join("\n")), session, has_damage))
    }
}

fn no_estimates(series: &Series) -> String {
    let (found, least) = (series.rates.len(), lrd::MIN_LEN);
    if found < least {
        format!("no Hurst parameter of {found} intervals: expected at least {least}, or a shorter --interval")
    } else {
        "no Hurst parameter of a constant rate".to_owned()
    }
}

fn write(path: &std::path::Path, text: &str) -> Result<(), Error> {
    let written = write_whole(path, |file| file.write_all(text.as_bytes()));
    written.map_err(|error| Error::Usage(error.to_string()))
}

impl Statistics {
    /// Computes the statistics; `None` for an empty series.
    fn of(rates: &[f64]) -> Option<Statistics> {
        let lags: Vec<usize> = LAGS.into_iter().filter(|lag| lag * 2 <= rates.len()).collect();
        Some(Statistics {
            moments: Moments::of(rates)?,
            quantiles: lrd::quantiles(rates, &SHARES),
            autocorrelation: lrd::autocorrelation(rates, &lags),
            estimates: Estimates::of(rates),
        })
    }

    /// Returns the methods with their estimates.
    fn hurst(&self) -> Vec<(&'static str, Estimate)> {
        let of = |found: &Estimates| {
            let Estimates { variance_time, rescaled_range, wavelet } = *found;
            vec![("variance-time", variance_time), ("R/S", rescaled_range), ("wavelet", wavelet)]
        };
        self.estimates.as_ref().map(of).unwrap_or_default()
    }
}

/// Returns the tables of rate, autocorrelation and Hurst parameter.
fn tables(series: &Series, statistics: &Statistics) -> Vec<Table> {
    let mut all = vec![rate_table(series, statistics)];
    let rows = |values: &[(usize, f64)]| {
        let row = |(lag, value): &(usize, f64)| {
            let time = *lag as f64 * series.interval_s;
            vec![Cell::Text(lag.to_string()), Cell::Number(number(time)), Cell::Number(format!("{value:.3}"))]
        };
        values.iter().map(row).collect()
    };
    let head = ["lag", "time (s)", "autocorrelation"].map(str::to_owned).to_vec();
    if !statistics.autocorrelation.is_empty() {
        all.push(Table { caption: String::new(), head, rows: rows(&statistics.autocorrelation) });
    }
    let hurst = statistics.hurst();
    if !hurst.is_empty() {
        let row = |(name, Estimate { hurst, interval: [low, high] }): &(&str, Estimate)| {
            let interval = format!("{low:.2} to {high:.2}");
            vec![Cell::Text((*name).to_owned()), Cell::Number(format!("{hurst:.3}")), Cell::Number(interval)]
        };
        let head = ["method", "Hurst parameter", "95 % interval"].map(str::to_owned).to_vec();
        all.push(Table { caption: String::new(), head, rows: hurst.iter().map(row).collect() });
    }
    all
}

fn rate_table(series: &Series, statistics: &Statistics) -> Table {
    let Moments { mean, deviation, skewness } = statistics.moments;
    let row = |name: &str, value: f64| vec![Cell::Text(name.to_owned()), Cell::Number(number(value))];
    let mut rows = vec![
        vec![Cell::Text("intervals".to_owned()), Cell::Number(series.rates.len().to_string())],
        row("mean (Mbit/s)", mean / 1e6),
        row("standard deviation (Mbit/s)", deviation / 1e6),
        row("peak-to-mean ratio", statistics.quantiles.last().map_or(0.0, |peak| peak / mean)),
        row("skewness", skewness),
    ];
    for (share, value) in SHARES.iter().zip(&statistics.quantiles) {
        rows.push(row(&format!("{} % quantile (Mbit/s)", share * 100.0), value / 1e6));
    }
    let head = vec!["rate".to_owned(), format!("over {}", Span::from_secs_f64(series.interval_s))];
    Table { caption: String::new(), head, rows }
}

fn json(series: &Series, statistics: &Statistics) -> Value {
    let hurst = statistics.hurst().into_iter().map(|(name, Estimate { hurst, interval })| {
        json!({ "method": name, "hurst": hurst, "interval": interval })
    });
    let quantiles = SHARES.iter().zip(&statistics.quantiles);
    json!({
        "source": series.about,
        "interval_s": series.interval_s,
        "mean": statistics.moments.mean,
        "deviation": statistics.moments.deviation,
        "skewness": statistics.moments.skewness,
        "quantiles": quantiles.map(|(share, value)| json!([share, value])).collect::<Vec<_>>(),
        "autocorrelation": statistics.autocorrelation,
        "hurst": hurst.collect::<Vec<_>>(),
        "rates": series.rates,
        "intake": series.account.as_ref().map(|(account, _)| account),
    })
}
