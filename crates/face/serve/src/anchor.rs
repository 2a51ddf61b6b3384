//! Anchor of the audit log: its end, written to the journal, which is elsewhere. A log that was cut lacks it.

use std::time::Duration;

use crate::app::App;
use crate::log;
use crate::store::audit;

/// Time between two anchors while entries come.
const INTERVAL: Duration = Duration::from_secs(60);

/// Writes the end of the audit log to the journal whenever it has moved.
pub(crate) async fn keep(app: App) {
    let broken = app.read(|db| Ok(audit::broken_at(db)?)).await.ok().flatten();
    broken.into_iter().for_each(|entry| log::line(&broken_line(entry)));
    let mut last = 0;
    loop {
        last = write(&app, last).await;
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Returns the line about a log that is broken at an entry.
fn broken_line(entry: i64) -> String {
    format!(
        "error: audit: entry {entry} is missing or changed: the log cannot be trusted from there on; take a backup by `bentpipe serve restore`"
    )
}

/// Writes the end of the audit log to the journal unless it is entry `last`. Returns its number.
pub(crate) async fn write(app: &App, last: i64) -> i64 {
    match app.read(|db| Ok(audit::end(db)?)).await {
        Ok(Some((id, hash))) if id != last => {
            log::line(&format!("audit: entry {id} has hash {hash}"));
            id
        }
        _ => last,
    }
}
