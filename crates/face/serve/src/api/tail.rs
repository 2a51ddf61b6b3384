//! Streams of what comes in files of a job while it runs.

use std::time::Duration;

use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{AppendHeaders, IntoResponse};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::jobs::found;
use super::stream::{CHECK, Events, HEADERS, place, right_ends};
use crate::app::App;
use crate::gone::Gone;
use crate::guard::Caller;
use crate::problem::{Problem, Result};

/// Time between two looks at the files.
const LOOK: Duration = Duration::from_millis(250);
/// Time between two looks at the job.
const LOOK_AT_JOB: Duration = Duration::from_secs(1);

/// Reader of what is new in files of a job.
pub(super) trait Tail: Send + 'static {
    /// News of the files.
    type News: Serialize + Send + 'static;
    /// Name of its events.
    const EVENT: &'static str;

    /// Returns what is new. It is the last time if the job `is_over`: then all that is left.
    ///
    /// It ends soon after no client awaits it.
    fn step(&mut self, is_over: bool, gone: &Gone) -> Option<Self::News>;
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
        let reading = app.reading(caller.user.id, move |gone| {
            let news = tail.step(ends, gone);
            Ok((tail, news))
        });
        let (read, news) = tokio::select! {
            read = reading => read?,
            () = sender.closed() => return Ok(()),
        };
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
