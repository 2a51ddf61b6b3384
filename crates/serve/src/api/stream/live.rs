//! Live samples of a job: the past condensed, then each new line.

use std::path::PathBuf;
use std::time::Duration;

use axum::response::sse;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::app::{App, blocking};
use crate::problem::Result;
use crate::runner::{live_file, new_text};
use crate::store::jobs;

/// Time between two looks at the file: ten pictures a second.
const FRAME: Duration = Duration::from_millis(100);
/// Most points of each curve of the past.
const MAX_POINTS: usize = 2000;

/// Sends the samples of a job's present run until the connection is closed.
pub(super) async fn tail(app: &App, job: i64, sender: &mpsc::Sender<sse::Event>) {
    let (mut attempt, mut offset) = (0, 0);
    let mut is_first = true;
    while !sender.is_closed() {
        if let Ok(now) = app.read(move |db| Ok(jobs::attempt(db, job)?)).await
            && now != attempt
        {
            (attempt, offset, is_first) = (now, 0, true);
        }
        let path = live_file(&app.job_folder(job), attempt);
        let Ok((lines, read)) = read(path, offset, is_first).await else { return };
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

/// Returns new lines, and how many bytes they had. `condenses`: the lines become few.
async fn read(path: PathBuf, offset: u64, condenses: bool) -> Result<(Vec<String>, u64)> {
    blocking(move || {
        let (mut text, mut read) = (String::new(), 0);
        loop {
            let (new, more) = new_text(&path, offset + read);
            read += new.len() as u64;
            text.push_str(&new);
            // Of a long file only the present run is kept.
            if let Some(start) = text.rfind("{\"event\":\"columns\"") {
                text.drain(..start);
            }
            if !more || !condenses {
                break;
            }
        }
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        Ok((if condenses { condensed(&lines) } else { lines }, read))
    })
    .await
}

/// Joins the lines of a run into its columns and few samples.
fn condensed(lines: &[String]) -> Vec<String> {
    let Some((columns, samples)) = lines.split_first() else { return Vec::new() };
    let (mut times, mut values): (Vec<Value>, Vec<Vec<Value>>) = (Vec::new(), Vec::new());
    for line in samples.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        times.extend(line["t"].as_array().cloned().unwrap_or_default());
        let new = line["v"].as_array().cloned().unwrap_or_default();
        values.resize(new.len().max(values.len()), Vec::new());
        for (all, new) in values.iter_mut().zip(new) {
            all.extend(new.as_array().cloned().unwrap_or_default());
        }
    }
    let step = times.len().div_ceil(MAX_POINTS / 2).max(1);
    let times: Vec<Value> =
        times.chunks(step).flat_map(|chunk| [chunk[0].clone(), chunk[chunk.len() - 1].clone()]).collect();
    let values: Vec<Vec<Value>> =
        values.iter().map(|all| all.chunks(step).flat_map(extremes).collect()).collect();
    vec![columns.clone(), json!({ "event": "samples", "t": times, "v": values }).to_string()]
}

/// Returns the least and the greatest value in the order in which they come.
fn extremes(chunk: &[Value]) -> [Value; 2] {
    let numbers = || chunk.iter().enumerate().filter_map(|(n, value)| Some((n, value.as_f64()?)));
    let low = numbers().min_by(|a, b| a.1.total_cmp(&b.1));
    let high = numbers().max_by(|a, b| a.1.total_cmp(&b.1));
    match (low, high) {
        (Some((low, _)), Some((high, _))) => [low.min(high), low.max(high)].map(|n| chunk[n].clone()),
        _ => [Value::Null, Value::Null],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_becomes_few_points_that_keep_its_peaks() {
        let columns = "{\"event\":\"columns\"}".to_owned();
        let sample = |n: i32| {
            let peak = if n == 4321 { 1e9 } else { f64::from(n % 7) };
            json!({ "event": "samples", "t": [n, n], "v": [[peak, peak], [null, 1]] }).to_string()
        };
        let lines: Vec<String> = std::iter::once(columns).chain((0..9000).map(sample)).collect();
        let few = condensed(&lines);
        assert_eq!(few.len(), 2);
        let line: Value = serde_json::from_str(&few[1]).expect("JSON");
        let (times, values) =
            (line["t"].as_array().expect("times"), line["v"][0].as_array().expect("values"));
        assert!(times.len() <= MAX_POINTS && times.len() == values.len());
        assert!(values.iter().any(|value| value.as_f64() == Some(1e9)));
        assert_eq!(condensed(&[]), Vec::<String>::new());
    }
}
