//! Operations on captures of jobs: the last packets, and those that come.

use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{AppendHeaders, IntoResponse};
use axum::{Extension, Json};
use serde::Deserialize;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use super::body::{Ids, Search};
use super::jobs::found;
use super::stream::{CHECK, Events, Place, still_valid};
use crate::app::{App, blocking};
use crate::captures::{MAX_PACKETS, Packets, Tail};
use crate::guard::Caller;
use crate::problem::{Problem, Result};

/// Time between two looks at a capture.
const LOOK: Duration = Duration::from_millis(250);
/// Most new packets of a look.
const MAX_NEW: usize = 100;
/// Turns at reading captures.
static TURNS: Semaphore = Semaphore::const_new(2);

/// Capture that is asked for.
#[derive(Clone, Deserialize)]
pub(crate) struct Asked {
    #[serde(default)]
    pub(crate) capture: String,
    pub(crate) limit: Option<u32>,
}

impl Asked {
    fn most(&self, default: usize, limit: usize) -> usize {
        self.limit.map_or(default, |most| most as usize).clamp(1, limit)
    }
}

/// Returns the last packets of a capture of a job that the caller sees.
pub(crate) async fn last(app: &App, caller: &Caller, id: i64, asked: Asked) -> Result<Packets> {
    let job = found(app, caller, id).await?;
    let results = app.job_folder(id).join("results");
    let _turn = TURNS.acquire().await.map_err(|error| Problem::internal(&error))?;
    blocking(move || {
        let most = asked.most(100, MAX_PACKETS);
        let named = asked.capture.clone();
        let packets = Tail::new(results, asked.capture, job.is_over(), most).step().unwrap_or_default();
        match packets.capture.is_empty() && !named.is_empty() {
            true => Err(Problem::bad(format!("capture: expected one of {}", packets.captures.join(", ")))),
            false => Ok(packets),
        }
    })
    .await
}

pub(crate) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Search(asked): Search<Asked>,
) -> Result<Json<Packets>> {
    Ok(Json(last(&app, &caller, id, asked).await?))
}

pub(crate) async fn stream(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Search(asked): Search<Asked>,
) -> Result<impl IntoResponse> {
    found(&app, &caller, id).await?;
    let place = Place::take()?;
    let (sender, receiver) = mpsc::channel(8);
    tokio::spawn(async move {
        let _ = follow(&app, &caller, (id, asked), &sender).await;
        drop(place);
    });
    let no_buffer = AppendHeaders([("x-accel-buffering", "no")]);
    Ok((no_buffer, Sse::new(Events(receiver)).keep_alive(KeepAlive::new().interval(CHECK))))
}

/// Sends packets until the job or the connection ends, or the caller loses the right.
async fn follow(
    app: &App,
    caller: &Caller,
    (id, asked): (i64, Asked),
    sender: &mpsc::Sender<sse::Event>,
) -> Result<()> {
    let most = asked.most(MAX_NEW, MAX_NEW);
    let is_over = found(app, caller, id).await?.is_over();
    let mut tail = Tail::new(app.job_folder(id).join("results"), asked.capture, is_over, most);
    let (mut checked, mut looked) = (Instant::now(), Instant::now());
    let mut ends = is_over;
    while !sender.is_closed() {
        let turn = TURNS.acquire().await.map_err(|error| Problem::internal(&error))?;
        tail.set_in_steps(!ends);
        let (read, news) = blocking(move || {
            let news = tail.step();
            Ok((tail, news))
        })
        .await?;
        drop(turn);
        tail = read;
        if let Some(news) = news {
            let data = serde_json::to_string(&news).map_err(|error| Problem::internal(&error))?;
            let _ = sender.send(sse::Event::default().event("packets").data(data)).await;
        }
        if ends {
            let _ = sender.send(sse::Event::default().event("over").data("{}")).await;
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
        if looked.elapsed() >= Duration::from_secs(1) {
            looked = Instant::now();
            ends = found(app, caller, id).await?.is_over();
        }
        if checked.elapsed() >= CHECK {
            checked = Instant::now();
            if !still_valid(app, caller).await? {
                return Ok(());
            }
        }
    }
    Ok(())
}
