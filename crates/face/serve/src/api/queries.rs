//! Operations on queries to sensor fields: rows that reached Earth, and those that come.

use axum::extract::State;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use serde::Deserialize;

use super::body::{Ids, Search};
use super::jobs::found;
use super::tail;
use crate::app::App;
use crate::gone::Gone;
use crate::guard::Caller;
use crate::problem::{Problem, Result};
use crate::queries::{Rows, Tail};

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
    app.reading(caller.user.id, move |_| {
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

impl tail::Tail for Tail {
    type News = Rows;
    const EVENT: &'static str = "rows";

    fn step(&mut self, _: bool, _: &Gone) -> Option<Rows> {
        Tail::step(self)
    }
}

pub(crate) async fn stream(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Search(asked): Search<Asked>,
) -> Result<impl IntoResponse> {
    found(&app, &caller, id).await?;
    let most = asked.limit.map_or(MAX_NEW, |most| most as usize).min(MAX_NEW);
    let tail = Tail::new(app.job_folder(id).join("results"), asked.flow, most);
    tail::stream(app, caller, id, tail).await
}
