//! Quota of a user over texts in the database, files, and results of jobs.
//!
//! It is counted in the transaction that adds, of which there is one at a time.

use axum::http::StatusCode;
use rusqlite::Transaction;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::inputs::MAX_OWN;
use crate::problem::{Problem, Result};
use crate::space;
use crate::store::{self, usage};

/// Most bytes of a user's texts: versions of scenarios, presets, and texts of jobs. Each backup has them.
pub(crate) const MAX_TEXTS: u64 = 256 << 20;

/// Bytes that are stored for a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Usage {
    /// Bytes of versions of scenarios, of presets, and of texts of jobs.
    pub(crate) texts: u64,
    /// Bytes of files, those that only jobs still have included.
    pub(crate) files: u64,
    /// Bytes of results of jobs, imported ones and those of running jobs included.
    pub(crate) results: u64,
    /// Most bytes of all together.
    pub(crate) quota: u64,
}

impl Usage {
    pub(crate) fn sum(&self) -> u64 {
        self.texts.saturating_add(self.files).saturating_add(self.results)
    }

    /// Returns why the user's running jobs stop, if all is more than the quota.
    pub(crate) fn excess(&self) -> Option<String> {
        let [sum, quota] = [self.sum(), self.quota].map(space::shown);
        (self.sum() > self.quota).then(|| {
            format!("stopped: with its output its owner has {sum}, and {quota} at most: remove jobs, files or old versions")
        })
    }
}

/// Bytes that are to be added.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Added {
    /// Text in the database.
    Text(usize),
    /// Content of files.
    Files(u64),
    /// Results of a job. Those of one that is launched are not known.
    Results(u64),
}

/// Returns what is stored for a user.
pub(crate) fn of(db: &Transaction<'_>, app: &App, user: i64) -> Result<Usage> {
    Ok(stored(db, app, user)?)
}

/// Returns what is stored for a user, as [`of`], for those that answer no request.
pub(crate) fn stored(db: &Transaction<'_>, app: &App, user: i64) -> store::Result<Usage> {
    let (texts, files, results) = usage::of(db, user)?;
    let results = results.saturating_add(app.outputs.of(user));
    Ok(Usage { texts, files, results, quota: app.settings.quota })
}

/// Refuses additions beyond a user's quota, or that take the last room of the disk.
///
/// # Errors
/// Returns "payload too large" beyond the quota, and "insufficient storage" if the disk is nearly full.
pub(crate) fn admit(db: &Transaction<'_>, app: &App, user: i64, added: Added) -> Result<()> {
    let used = of(db, app, user)?;
    let large = |detail: String| Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
    let bytes = match added {
        Added::Text(bytes) => bytes as u64,
        Added::Files(bytes) | Added::Results(bytes) => bytes,
    };
    if used.sum().saturating_add(bytes) > used.quota {
        let (sum, quota) = (space::shown(used.sum()), space::shown(used.quota));
        return large(format!("{sum} of {quota} are used: remove jobs, files or old versions"));
    }
    match added {
        Added::Text(_) if used.texts + bytes > MAX_TEXTS => large(format!(
            "scenarios, presets and texts of jobs of a user have at most {} MiB together: remove old versions, archived scenarios for good, or jobs",
            MAX_TEXTS >> 20
        )),
        Added::Text(_) => space::check_text(db, &app.settings),
        Added::Files(_) if used.files + bytes > MAX_OWN => large(format!(
            "your files and those of your jobs have at most {} MiB together: remove some",
            MAX_OWN >> 20
        )),
        Added::Files(_) | Added::Results(_) => Ok(()),
    }
}
