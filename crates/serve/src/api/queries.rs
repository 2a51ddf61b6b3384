//! Operations on queries to sensor fields: rows that reached Earth, and those that come.

use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{AppendHeaders, IntoResponse};
use axum::{Extension, Json};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::body::{Ids, Search};
use super::jobs::found;
use super::stream::{CHECK, Events, Place, still_valid};
use crate::app::{App, blocking};
use crate::guard::Caller;
use crate::problem::{Problem, Result};
use crate::queries::{Rows, Tail};

/// Time between two looks at the rows.
const LOOK: Duration = Duration::from_millis(250);
/// Most new rows of a look.
const MAX_NEW: usize = 200;

/// Flow that is asked for.
#[derive(Clone, Deserialize)]
pub(crate) struct Asked {
    #[serde(default)]
    pub(crate) flow: String,
    pub(crate) limit: Option<u32>,
}

/// Returns the last rows of a flow's query in a job that the caller sees.
pub(crate) async fn last(app: &App, caller: &Caller, id: i64, asked: Asked) -> Result<Rows> {
    found(app, caller, id).await?;
    let results = app.job_folder(id).join("results");
    blocking(move || {
        let wanted = asked.flow.clone();
        let rows =
            Tail::new(results, asked.flow, asked.limit.unwrap_or(100) as usize).step().unwrap_or_default();
        match rows.flow.is_empty() && !wanted.is_empty() {
            true => Err(Problem::bad(format!("flow: expected one of {}", rows.flows.join(", ")))),
            false => Ok(rows),
        }
    })
    .await
}

pub(crate) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Search(asked): Search<Asked>,
) -> Result<Json<Rows>> {
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

/// Sends rows until the job or the connection ends, or the caller loses the right.
async fn follow(
    app: &App,
    caller: &Caller,
    (id, asked): (i64, Asked),
    sender: &mpsc::Sender<sse::Event>,
) -> Result<()> {
    let most = asked.limit.map_or(MAX_NEW, |most| most as usize).min(MAX_NEW);
    let mut ends = found(app, caller, id).await?.is_over();
    let mut tail = Tail::new(app.job_folder(id).join("results"), asked.flow, most);
    let (mut checked, mut looked) = (Instant::now(), Instant::now());
    while !sender.is_closed() {
        let (read, news) = blocking(move || {
            let news = tail.step();
            Ok((tail, news))
        })
        .await?;
        tail = read;
        if let Some(news) = news {
            let data = serde_json::to_string(&news).map_err(|error| Problem::internal(&error))?;
            let _ = sender.send(sse::Event::default().event("rows").data(data)).await;
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
