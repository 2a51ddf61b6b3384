//! Server-sent events of a job, after `Last-Event-ID`, and its live samples.

mod live;

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{AppendHeaders, IntoResponse};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use super::body::{Ids, Search};
use super::jobs::found;
use super::scenarios::Page;
use crate::app::App;
use crate::guard::Caller;
use crate::places::{Full, Place};
use crate::problem::{Problem, Result};
use crate::store::{jobs, people};

/// Most events that are read from the database at a time.
const BATCH: u32 = 500;
/// Longest time between two checks of the right to a stream, and between two comments.
pub(super) const CHECK: Duration = Duration::from_secs(15);

/// Headers of streams: without buffering, and with the end of the connection.
pub(super) const HEADERS: [(&str, &str); 2] = [("x-accel-buffering", "no"), ("connection", "close")];

/// Reserves a place among the open streams.
pub(super) fn place(app: &App, caller: &Caller) -> Result<Place> {
    app.streams.take(caller.user.id).map_err(|full| match full {
        Full::OfUser(most) => {
            Problem { detail: format!("you have {most} open streams: close some pages"), ..Problem::later(5) }
        }
        Full::OfAll => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too many open streams: try again later")
        }
    })
}

pub(crate) async fn stream(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    headers: HeaderMap,
    Search(page): Search<Page>,
) -> Result<impl IntoResponse> {
    found(&app, &caller, id).await?;
    let place = place(&app, &caller)?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let after = last.or(page.after).unwrap_or(0);
    let (sender, receiver) = mpsc::channel(64);
    tokio::spawn(async move {
        tokio::select! {
            _ = follow(&app, &caller, (id, after), &sender) => {}
            () = live::tail(&app, caller.user.id, id, &sender) => {}
            () = right_ends(&app, &caller) => {}
        }
        drop(place);
    });
    let keep = KeepAlive::new().interval(CHECK);
    Ok((AppendHeaders(HEADERS), Sse::new(Events(receiver)).keep_alive(keep)))
}

/// Sends events until the job or the connection ends.
async fn follow(
    app: &App,
    caller: &Caller,
    (id, mut after): (i64, i64),
    sender: &mpsc::Sender<sse::Event>,
) -> Result<()> {
    // Before the first query, so that no event falls between.
    let mut news = app.news.subscribe();
    loop {
        let is_over = found(app, caller, id).await?.is_over();
        loop {
            let events = app.read(move |db| Ok(jobs::events(db, id, after, BATCH)?)).await?;
            let is_last = (events.len() as u32) < BATCH;
            for event in events {
                after = event.id;
                let sent = sse::Event::default().id(event.id.to_string()).event(&event.kind);
                let data = serde_json::json!({ "at": event.at, "content": event.content });
                let closed = sender.send(sent.data(data.to_string())).await.is_err();
                if closed {
                    return Ok(());
                }
            }
            if is_last {
                break;
            }
        }
        if is_over {
            let _ = sender.send(sse::Event::default().event("over").data("{}")).await;
            return Ok(());
        }
        wait(&mut news, id, sender).await;
        if sender.is_closed() {
            return Ok(());
        }
    }
}

/// Waits for news of a job, at most for some time.
async fn wait(news: &mut tokio::sync::broadcast::Receiver<i64>, id: i64, sender: &mpsc::Sender<sse::Event>) {
    let wanted = async {
        loop {
            match news.recv().await {
                Ok(job) if job != id => {}
                // What was missed is in the database.
                Ok(_) | Err(RecvError::Lagged(_) | RecvError::Closed) => return,
            }
        }
    };
    tokio::select! {
        () = wanted => {}
        () = sender.closed() => {}
        () = tokio::time::sleep(CHECK) => {}
    }
}

/// Waits until the caller loses the right to a stream, with session, token or level.
pub(super) async fn right_ends(app: &App, caller: &Caller) {
    let mut rights = app.rights.subscribe();
    let (user, proof) = ((caller.user.id, caller.user.level), (caller.session, caller.token));
    loop {
        rights.borrow_and_update();
        let lasts = app.read(move |db| Ok(people::lasts(db, user, proof)?)).await;
        if !matches!(lasts, Ok(true)) {
            return;
        }
        let _ = tokio::time::timeout(CHECK, rights.changed()).await;
    }
}

/// Stream of what a channel receives.
pub(super) struct Events(pub(super) mpsc::Receiver<sse::Event>);

impl futures_core::Stream for Events {
    type Item = std::result::Result<sse::Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|event| event.map(Ok))
    }
}
