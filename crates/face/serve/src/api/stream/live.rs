//! Live samples of a job: the past condensed, then each new line.

use std::path::PathBuf;
use std::time::Duration;

use axum::response::sse;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;

use crate::app::{App, blocking};
use crate::gone::Gone;
use crate::runner::{live_file, new_text};
use crate::store::jobs;

/// Time between two looks at the file: ten pictures a second.
const FRAME: Duration = Duration::from_millis(100);
/// Most points of each curve of the past.
const MAX_POINTS: usize = 2000;

/// Sends the samples of a job's present run until the connection is closed.
pub(super) async fn tail(app: &App, user: i64, job: i64, sender: &mpsc::Sender<sse::Event>) {
    let (mut attempt, mut offset) = (0, 0);
    let mut is_first = true;
    while !sender.is_closed() {
        if let Ok(now) = app.read(move |db| Ok(jobs::attempt(db, job)?)).await
            && now != attempt
        {
            (attempt, offset, is_first) = (now, 0, true);
        }
        let file = (app.job_folder(job), live_file(attempt));
        let read = async {
            match is_first {
                true => app.reading(user, move |gone| Ok(past(&file, offset, gone))).await,
                false => blocking(move || Ok(present(&file, offset))).await,
            }
        };
        let Ok((lines, read)) = read.await else { return };
        offset += read;
        is_first = is_first && read == 0;
        for line in lines {
            if sender.send(sse::Event::default().event("live").data(line)).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(FRAME).await;
    }
}

/// Returns new lines, and how many bytes they had.
fn present((folder, name): &(PathBuf, String), offset: u64) -> (Vec<String>, u64) {
    let (text, _) = new_text(folder, name, offset);
    (text.lines().map(str::to_owned).collect(), text.len() as u64)
}

/// Returns few lines for all that is there, and how many bytes it has.
fn past((folder, name): &(PathBuf, String), offset: u64, gone: &Gone) -> (Vec<String>, u64) {
    let (mut past, mut read) = (Past::default(), 0);
    loop {
        let (text, more) = new_text(folder, name, offset + read);
        read += text.len() as u64;
        text.lines().for_each(|line| past.add(line));
        if !more || gone.is_set() {
            return (past.lines(), read);
        }
    }
}

/// Samples of the present run, in few points however long it is.
#[derive(Default)]
struct Past {
    columns: String,
    times: Vec<f64>,
    values: Vec<Vec<Option<f64>>>,
}

/// Line of samples.
#[derive(Deserialize)]
struct Samples {
    t: Vec<f64>,
    v: Vec<Vec<Option<f64>>>,
}

impl Past {
    fn add(&mut self, line: &str) {
        if line.starts_with("{\"event\":\"columns\"") {
            *self = Past { columns: line.to_owned(), ..Past::default() };
            return;
        }
        let Ok(Samples { t, v }) = serde_json::from_str(line) else { return };
        if v.iter().any(|column| column.len() != t.len()) || t.len() % 2 != 0 {
            return;
        }
        if self.values.is_empty() {
            self.values.resize(v.len(), Vec::new());
        }
        if self.values.len() != v.len() {
            return;
        }
        self.times.extend(t);
        self.values.iter_mut().zip(v).for_each(|(all, new)| all.extend(new));
        while self.times.len() > MAX_POINTS {
            self.halve();
        }
    }

    /// Joins each two steps of time, and keeps their extremes.
    fn halve(&mut self) {
        self.times = self.times.chunks(4).flat_map(|chunk| [chunk[0], chunk[chunk.len() - 1]]).collect();
        for column in &mut self.values {
            *column = column.chunks(4).flat_map(extremes).collect();
        }
    }

    fn lines(self) -> Vec<String> {
        if self.columns.is_empty() {
            return Vec::new();
        }
        let samples = json!({ "event": "samples", "t": self.times, "v": self.values }).to_string();
        vec![self.columns, samples]
    }
}

/// Returns the least and the greatest value in the order in which they come.
fn extremes(chunk: &[Option<f64>]) -> [Option<f64>; 2] {
    let numbers = || chunk.iter().enumerate().filter_map(|(n, value)| Some((n, (*value)?)));
    let low = numbers().min_by(|a, b| a.1.total_cmp(&b.1));
    let high = numbers().max_by(|a, b| a.1.total_cmp(&b.1));
    match (low, high) {
        (Some((low, _)), Some((high, _))) => [chunk[low.min(high)], chunk[low.max(high)]],
        _ => [None, None],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_long_run_becomes_few_points_that_keep_its_peaks() {
        let columns = "{\"event\":\"columns\"}".to_owned();
        let sample = |n: i32| {
            let peak = if n == 4321 { 1e9 } else { f64::from(n % 7) };
            json!({ "event": "samples", "t": [n, n], "v": [[peak, peak], [null, 1]] }).to_string()
        };
        let mut past = Past::default();
        std::iter::once(columns).chain((0..9000).map(sample)).for_each(|line| past.add(&line));
        assert!(past.times.capacity() < 4 * MAX_POINTS, "memory is bounded while it is read");
        let few = past.lines();
        assert_eq!(few.len(), 2);
        let line: Value = serde_json::from_str(&few[1]).expect("JSON");
        let (times, values) =
            (line["t"].as_array().expect("times"), line["v"][0].as_array().expect("values"));
        assert!(times.len() <= MAX_POINTS && times.len() == values.len());
        assert!(values.iter().any(|value| value.as_f64() == Some(1e9)));
        let mut broken = Past::default();
        for line in ["x", "{}", "{\"t\":[1],\"v\":[[1]]}", "{\"t\":[1,2],\"v\":[[1]]}"] {
            broken.add(line);
        }
        assert_eq!(broken.lines(), Vec::<String>::new());
    }
}
