//! Progress of runs as lines of JSON in a file, for programs that follow them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bentpipe_record::{Column, Series, Value as Sample};
use serde_json::{Value, json};

/// Shortest time between two lines of progress, in seconds.
const INTERVAL_S: f64 = 0.5;

/// Shortest time between two lines of samples, in seconds: ten pictures a second.
const FRAME_S: f64 = 0.1;

/// Shortest time after which captured packets can be read, in seconds.
const CAPTURES_S: f64 = 0.25;

/// Most steps of time of a line of samples. Of each step the least and the greatest value are written.
const MAX_STEPS: usize = 10;

/// Most columns of live samples, and most bytes of them.
const MAX_COLUMNS: usize = 64;
const MAX_LIVE_BYTES: u64 = 64 << 20;

/// File of progress. Each line is one `write`, so that a reader sees whole lines.
#[derive(Clone)]
pub(crate) struct Journal(Arc<Mutex<Progress>>);

struct Progress {
    file: File,
    /// Number of runs, with those finished before.
    runs: f64,
    /// Finished runs, and the shares of those that are running.
    gone: f64,
    /// Time of the last line of progress, in seconds.
    written_s: f64,
    /// Set if finished runs are counted and not named, as there are many.
    is_counted: bool,
    /// Greatest number of runs of all that begin, if they begin several times.
    most: Option<f64>,
    live: Option<Live>,
    /// Time at which captures were last written as far as they were, in seconds.
    captured_s: f64,
}

/// File of samples of one run at a time.
struct Live {
    file: File,
    bytes: u64,
    /// Run whose samples are written.
    run: String,
    /// Number of rows that were written.
    rows: usize,
    /// Numbers of the columns that are written.
    columns: Vec<usize>,
    written_s: f64,
}

impl Journal {
    /// Opens a file to append to, and writes the process ID.
    pub(crate) fn append(path: &Path, live: Option<&Path>) -> io::Result<Journal> {
        let open = |path: &Path| OpenOptions::new().create(true).append(true).open(path);
        let live = live.map(|path| open(path).map(Live::new)).transpose()?;
        let (runs, gone, written_s) = (1.0, 0.0, f64::NEG_INFINITY);
        let progress = Progress {
            file: open(path)?,
            runs,
            gone,
            written_s,
            is_counted: false,
            most: None,
            live,
            captured_s: written_s,
        };
        let journal = Journal(Arc::new(Mutex::new(progress)));
        journal.write(&json!({ "event": "start", "pid": std::process::id() }));
        Ok(journal)
    }

    /// Opens a file for many runs, of which it has the number.
    #[cfg(feature = "tools")]
    pub(crate) fn of_many(path: &Path) -> io::Result<Journal> {
        let journal = Journal::append(path, None)?;
        journal.lock().is_counted = true;
        Ok(journal)
    }

    /// Sets the greatest number of runs, which begin some at a time.
    pub(crate) fn expect(&self, most_runs: usize) {
        self.lock().most = Some(most_runs.max(1) as f64);
    }

    fn write(&self, line: &Value) {
        let text = format!("{line}\n");
        // A full disk ends no run: its results report that.
        let _ = self.lock().file.write_all(text.as_bytes());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, runs: usize, finished: usize) {
        let mut progress = self.lock();
        match progress.most {
            Some(most) => {
                progress.runs = most;
                progress.gone += finished as f64;
            }
            None => {
                progress.runs = (runs + finished).max(1) as f64;
                progress.gone = finished as f64;
            }
        }
        drop(progress);
        self.write(&json!({ "event": "begin", "runs": runs, "finished": finished }));
    }

    /// Adds a share of a run at an instant of a monotonic clock.
    pub(crate) fn advance(&self, share: f64, now_s: f64) {
        let mut progress = self.lock();
        progress.gone += share;
        if now_s - progress.written_s < INTERVAL_S {
            return;
        }
        progress.written_s = now_s;
        let line = progress.line();
        drop(progress);
        self.write(&line);
    }

    /// Writes new samples of a run, if it is time.
    pub(crate) fn sampled(&self, label: &str, series: &Series, now_s: f64) {
        if let Some(live) = &mut self.lock().live {
            live.sampled(label, series, now_s);
        }
    }

    /// Returns `true` if captures should be written as far as they are.
    ///
    /// It does so some times a second, if there is a file of samples.
    pub(crate) fn is_watched(&self, now_s: f64) -> bool {
        let mut progress = self.lock();
        let is_due = progress.live.is_some() && now_s - progress.captured_s >= CAPTURES_S;
        if is_due {
            progress.captured_s = now_s;
        }
        is_due
    }

    pub(crate) fn done(&self, label: &str) {
        if self.lock().is_counted {
            return;
        }
        if let Some(live) = &mut self.lock().live
            && live.run == label
        {
            live.run.clear();
        }
        self.write(&json!({ "event": "done", "label": label }));
    }

    /// Writes the exit code, and the name of the folder of results.
    pub(crate) fn end(&self, code: u8, folder: Option<&str>) {
        let (is_counted, last) = {
            let progress = self.lock();
            (progress.is_counted, progress.line())
        };
        if is_counted {
            self.write(&last);
        }
        self.write(&json!({ "event": "end", "code": code, "folder": folder }));
    }
}

impl Progress {
    fn line(&self) -> Value {
        let share = (self.gone / self.runs).min(1.0);
        match self.is_counted {
            true => json!({ "event": "progress", "share": share, "finished": self.gone.round() as u64 }),
            false => json!({ "event": "progress", "share": share }),
        }
    }
}

impl Live {
    fn new(file: File) -> Live {
        let (run, columns) = (String::new(), Vec::new());
        Live { file, bytes: 0, run, rows: 0, columns, written_s: f64::NEG_INFINITY }
    }

    fn sampled(&mut self, label: &str, series: &Series, now_s: f64) {
        // Of runs side by side the first one is shown.
        let is_other = !self.run.is_empty() && self.run != label;
        if is_other || now_s - self.written_s < FRAME_S || self.bytes > MAX_LIVE_BYTES {
            return;
        }
        self.written_s = now_s;
        if self.run.is_empty() {
            label.clone_into(&mut self.run);
            self.rows = 0;
            let drawn = series.columns.iter().enumerate().filter(|(_, column)| column.is_drawn());
            self.columns = drawn.map(|(number, _)| number).take(MAX_COLUMNS).collect();
            let columns: Vec<Value> =
                self.columns.iter().filter_map(|n| described(&series.columns[*n])).collect();
            self.write(&json!({ "event": "columns", "run": label, "columns": columns }));
        }
        // A long series is thinned at times.
        self.rows = self.rows.min(series.times.len());
        let new = series.times.len() - self.rows;
        if new == 0 {
            return;
        }
        let step = new.div_ceil(MAX_STEPS);
        let starts: Vec<usize> = (self.rows..series.times.len()).step_by(step).collect();
        let end = |start: usize| (start + step).min(series.times.len()) - 1;
        let times: Vec<f64> = starts
            .iter()
            .flat_map(|&start| [start, end(start)])
            .map(|row| series.times[row].as_secs_f64())
            .collect();
        let values: Vec<Vec<Option<f64>>> = self
            .columns
            .iter()
            .map(|&n| {
                starts.iter().flat_map(|&start| extremes(&series.columns[n], start, end(start))).collect()
            })
            .collect();
        self.rows = series.times.len();
        self.write(&json!({ "event": "samples", "t": times, "v": values }));
    }

    fn write(&mut self, line: &Value) {
        let text = format!("{line}\n");
        self.bytes += text.len() as u64;
        let _ = self.file.write_all(text.as_bytes());
    }
}

fn described(column: &Column) -> Option<Value> {
    let (style, diagram) = column.metric.drawing()?;
    let is_rate = style == bentpipe_net::metric::Style::Rate;
    let unit = if is_rate { column.unit().per_second() } else { column.unit() };
    Some(json!({
        "name": &*column.element,
        "label": column.metric.label(),
        "diagram": diagram,
        "unit": unit.symbol(),
        "rate": is_rate,
        "factor": if is_rate { column.unit().per_second_factor() } else { 1.0 },
    }))
}

/// Returns the least and the greatest value of rows, in their order.
fn extremes(column: &Column, first: usize, last: usize) -> [Option<f64>; 2] {
    let value = |row: usize| Sample::as_f64(column.data.at(row));
    let (mut low, mut high) = (first, first);
    for row in first..=last {
        if value(row) < value(low) {
            low = row;
        }
        if value(row) > value(high) {
            high = row;
        }
    }
    [low.min(high), low.max(high)].map(|row| Some(value(row)).filter(|value| value.is_finite()))
}
