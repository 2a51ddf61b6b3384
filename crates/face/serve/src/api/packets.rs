//! Operations on captures of jobs: the last packets, and those that come.

use axum::extract::State;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use serde::Deserialize;

use super::body::{Ids, Search};
use super::jobs::found;
use super::tail;
use crate::app::App;
use crate::captures::{MAX_PACKETS, Packets, Tail};
use crate::gone::Gone;
use crate::guard::Caller;
use crate::left;
use crate::problem::{Problem, Result};
use crate::whole::{self, Sums};

/// Most new packets of a look.
const MAX_NEW: usize = 100;

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
    let kept = app.clone();
    app.reading(caller.user.id, move |gone| {
        let most = asked.most(100, MAX_PACKETS);
        let named = asked.capture.clone();
        let mut tail = Tail::new(results.clone(), asked.capture, job.is_over(), most);
        let packets = tail.step(gone).unwrap_or_default();
        if let Some(path) = tail.path().filter(|_| job.is_over()) {
            let missing = |_| Problem::not_found();
            let root = left::root(&results).map_err(missing)?;
            let mut file = left::file_in(&root, path).map_err(missing)?;
            whole::check((&kept.file_hashes, gone), &mut Sums::new(&root), (path, &mut file))
                .map_err(whole::problem)?;
        }
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

impl tail::Tail for Tail {
    type News = Packets;
    const EVENT: &'static str = "packets";

    fn step(&mut self, is_over: bool, gone: &Gone) -> Option<Packets> {
        self.set_in_steps(!is_over);
        Tail::step(self, gone)
    }
}

pub(crate) async fn stream(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Search(asked): Search<Asked>,
) -> Result<impl IntoResponse> {
    let is_over = found(&app, &caller, id).await?.is_over();
    if is_over {
        // It compares the file with its checksum.
        last(&app, &caller, id, asked.clone()).await?;
    }
    let most = asked.most(MAX_NEW, MAX_NEW);
    let tail = Tail::new(app.job_folder(id).join("results"), asked.capture, is_over, most);
    tail::stream(app, caller, id, tail).await
}
