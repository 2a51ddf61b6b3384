//! Writing to the audit log, in which what is repeated has some entries a minute.

use std::net::IpAddr;
use std::time::Duration;

use crate::app::App;
use crate::clock::since_start_ms;
use crate::entries::{Client, OF_DONE, OF_REFUSALS};
use crate::limits::source;
use crate::log as journal;
use crate::problem::Result;
use crate::store::audit::{self, Entry};

/// Time between two looks for entries that were counted.
const LOOK: Duration = Duration::from_secs(10);

/// Logs what was done.
pub(crate) async fn log(
    app: &App,
    user: &str,
    address: &str,
    (action, object, outcome): (&str, &str, &str),
) -> Result<()> {
    let client = Client::Name(user.to_owned());
    bounded(app, client, OF_DONE, &Entry { user, address, action, object, outcome }).await
}

/// Logs the refusal of a user's request.
pub(crate) async fn refused(
    app: &App,
    (user, address): (&str, &str),
    (action, object, outcome): (&str, &str, &str),
) -> Result<()> {
    let client = Client::Name(user.to_owned());
    bounded(app, client, OF_REFUSALS, &Entry { user, address, action, object, outcome }).await
}

/// Logs the refusal of an unknown client, with the name that it stated.
pub(crate) async fn refused_from(
    app: &App,
    (user, peer): (&str, IpAddr),
    (action, object, outcome): (&str, &str, &str),
) -> Result<()> {
    let client = Client::Address(source(peer), user.chars().take(40).collect());
    let address = &peer.to_string();
    bounded(app, client, OF_REFUSALS, &Entry { user, address, action, object, outcome }).await
}

async fn bounded(app: &App, client: Client, most: u64, entry: &Entry<'_>) -> Result<()> {
    if !app.entries.admits(client, entry, most, since_start_ms()) {
        return Ok(());
    }
    append(app, entry).await
}

async fn append(app: &App, entry: &Entry<'_>) -> Result<()> {
    let Entry { user, address, action, object, outcome } = entry;
    let texts = [user, address, action, object, outcome].map(|text| (*text).to_owned());
    app.write(move |db| {
        let [user, address, action, object, outcome] = &texts;
        Ok(audit::append(db, &Entry { user, address, action, object, outcome })?)
    })
    .await
}

/// Logs what was counted whenever its time is over.
pub(crate) async fn keep(app: App) {
    loop {
        tokio::time::sleep(LOOK).await;
        write(&app, false).await;
    }
}

/// Logs what was counted and whose time is over, or all at the end.
pub(crate) async fn write(app: &App, is_end: bool) {
    for ((_, action, outcome), more, [user, address, object]) in app.entries.due(since_start_ms(), is_end) {
        let object = &format!("{more} more, the last one: {object}");
        let (user, address, action, outcome) = (&user, &address, &action, &outcome);
        if let Err(problem) = append(app, &Entry { user, address, action, object, outcome }).await {
            journal::line(&format!("error: audit: {}", problem.detail));
        }
    }
}
