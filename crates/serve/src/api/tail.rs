//! Streams of what comes in files of a job while it runs.

use std::time::Duration;

use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{AppendHeaders, IntoResponse};
use serde::Serialize;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use super::jobs::found;
use super::stream::{CHECK, Events, HEADERS, place, right_ends};
use crate::app::{App, blocking};
use crate::guard::Caller;
use crate::problem::{Problem, Result};

/// Time between two looks at the files.
const LOOK: Duration = Duration::from_millis(250);
/// Time between two looks at the job.
const LOOK_AT_JOB: Duration = Duration::from_secs(1);
/// Turns at reading files.
static TURNS: Semaphore = Semaphore::const_new(2);

/// Reader of what is new in files of a job.
pub(super) trait Tail: Send + 'static {
    /// News of the files.
    type News: Serialize + Send + 'static;
    /// Name of its events.
    const EVENT: &'static str;

    /// Returns what is new. It is the last time if the job `is_over`: then all that is left.
    fn step(&mut self, is_over: bool) -> Option<Self::News>;
}

/// Waits for a turn at reading files, and reads.
///
/// The turn is the thread's. A request that is given up leaves its thread at work, and threads are few.
pub(super) async fn reading<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let turn = TURNS.acquire().await.map_err(|error| Problem::internal(&error))?;
    blocking(move || {
        let _turn = turn;
        work()
    })
    .await
}

/// Streams what is new in a job that the caller sees, until the job ends.
pub(super) async fn stream(app: App, caller: Caller, id: i64, tail: impl Tail) -> Result<impl IntoResponse> {
    let place = place(&app, &caller)?;
    let (sender, receiver) = mpsc::channel(8);
    tokio::spawn(async move {
        tokio::select! {
            _ = follow(&app, &caller, (id, tail), &sender) => {}
            () = right_ends(&app, &caller) => {}
        }
        drop(place);
    });
    Ok((AppendHeaders(HEADERS), Sse::new(Events(receiver)).keep_alive(KeepAlive::new().interval(CHECK))))
}

/// Sends news until the job or the connection ends.
async fn follow<T: Tail>(
    app: &App,
    caller: &Caller,
    (id, mut tail): (i64, T),
    sender: &mpsc::Sender<sse::Event>,
) -> Result<()> {
    let mut looked = Instant::now();
    let mut ends = found(app, caller, id).await?.is_over();
    while !sender.is_closed() {
        let (read, news) = reading(move || {
            let news = tail.step(ends);
            Ok((tail, news))
        })
        .await?;
        tail = read;
        if let Some(news) = news {
            let data = serde_json::to_string(&news).map_err(|error| Problem::internal(&error))?;
            let _ = sender.send(sse::Event::default().event(T::EVENT).data(data)).await;
        }
        if ends {
            let _ = sender.send(sse::Event::default().event("over").data("{}")).await;
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
        if looked.elapsed() >= LOOK_AT_JOB {
            looked = Instant::now();
            ends = found(app, caller, id).await?.is_over();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn a_request_that_is_given_up_keeps_its_turn_until_its_thread_ends() {
        let (started, starts) = channel();
        let releases: Vec<_> = (0..2)
            .map(|_| {
                let (release, released) = channel::<()>();
                let started = started.clone();
                let task = tokio::spawn(reading(move || {
                    let _ = started.send(());
                    let _ = released.recv();
                    Ok(())
                }));
                (release, task)
            })
            .collect();
        let starts = blocking(move || {
            (0..2).for_each(|_| starts.recv().expect("starts"));
            Ok(starts)
        });
        starts.await.expect("both read");
        releases.iter().for_each(|(_, task)| task.abort());
        let third = tokio::time::timeout(Duration::from_millis(100), reading(|| Ok(())));
        assert!(third.await.is_err(), "both threads still read");
        drop(releases);
        reading(|| Ok(())).await.expect("reads");
    }
}
