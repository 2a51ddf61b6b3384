//! Server-sent events of a job, after `Last-Event-ID`, and its live samples.

mod live;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{AppendHeaders, IntoResponse};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::body::{Ids, Search};
use super::jobs::found;
use super::scenarios::Page;
use crate::app::App;
use crate::guard::Caller;
use crate::problem::{Problem, Result};
use crate::store::jobs;

/// Most streams at a time.
const MAX_STREAMS: usize = 200;
/// Most events that are read from the database at a time.
const BATCH: u32 = 500;
/// Time between two checks of the right to a stream, and between two comments.
pub(super) const CHECK: Duration = Duration::from_secs(15);

static OPEN: AtomicUsize = AtomicUsize::new(0);

/// Place among the open streams.
pub(super) struct Place;

impl Place {
    pub(super) fn take() -> Result<Place> {
        if OPEN.fetch_add(1, Ordering::SeqCst) >= MAX_STREAMS {
            OPEN.fetch_sub(1, Ordering::SeqCst);
            return Err(Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many open streams: close some pages",
            ));
        }
        Ok(Place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(crate) async fn stream(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    headers: HeaderMap,
    Search(page): Search<Page>,
) -> Result<impl IntoResponse> {
    found(&app, &caller, id).await?;
    let place = Place::take()?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let after = last.or(page.after).unwrap_or(0);
    let (sender, receiver) = mpsc::channel(64);
    tokio::spawn(async move {
        tokio::select! {
            _ = follow(&app, &caller, (id, after), &sender) => {}
            () = live::tail(&app, id, &sender) => {}
        }
        drop(place);
    });
    let no_buffer = AppendHeaders([("x-accel-buffering", "no")]);
    let keep = KeepAlive::new().interval(CHECK);
    Ok((no_buffer, Sse::new(Events(receiver)).keep_alive(keep)))
}

/// Sends events until the job or the connection ends, or the caller loses the right.
async fn follow(
    app: &App,
    caller: &Caller,
    (id, mut after): (i64, i64),
    sender: &mpsc::Sender<sse::Event>,
) -> Result<()> {
    // Before the first query, so that no event falls between.
    let mut news = app.news.subscribe();
    let mut checked = Instant::now();
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
        let is_due = checked.elapsed() >= CHECK;
        if sender.is_closed() || (is_due && !still_valid(app, caller).await?) {
            return Ok(());
        }
        if is_due {
            checked = Instant::now();
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

/// Returns `true` while the session and the level of the caller last.
pub(super) async fn still_valid(app: &App, caller: &Caller) -> Result<bool> {
    let (user, session) = (caller.user.clone(), caller.session);
    app.read(move |db| {
        let known = crate::store::people::find(db, user.id)?;
        let same = known.is_some_and(|known| !known.disabled && known.level >= user.level);
        let open = match session {
            Some(id) => crate::store::people::sessions(db, user.id)?.iter().any(|session| session.id == id),
            None => true,
        };
        Ok(same && open)
    })
    .await
}

/// Stream of what a channel receives.
pub(super) struct Events(pub(super) mpsc::Receiver<sse::Event>);

impl futures_core::Stream for Events {
    type Item = std::result::Result<sse::Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|event| event.map(Ok))
    }
}
