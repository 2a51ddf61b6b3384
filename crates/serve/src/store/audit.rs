//! Append-only audit log with a hash chain.

use rusqlite::{OptionalExtension, Transaction, params};
use sha2::{Digest, Sha256};

use super::Result;
use crate::clock::now_ms;

/// Entry to be logged. It never holds passwords, tokens or scenario texts.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'a> {
    /// Name of the user, or what was entered at a login.
    pub(crate) user: &'a str,
    /// Address of the client.
    pub(crate) address: &'a str,
    /// Action, such as "log in".
    pub(crate) action: &'a str,
    /// Object of the action.
    pub(crate) object: &'a str,
    /// "done" or the reason of a refusal.
    pub(crate) outcome: &'a str,
}

/// Logged entry.
#[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "AuditEntry")]
pub(crate) struct Logged {
    /// Number, ascending.
    pub(crate) id: i64,
    /// Time in milliseconds since 1970, UTC.
    pub(crate) at: i64,
    /// Name of the user.
    pub(crate) user: String,
    /// Address of the client.
    pub(crate) address: String,
    /// Action.
    pub(crate) action: String,
    /// Object of the action.
    pub(crate) object: String,
    /// Outcome.
    pub(crate) outcome: String,
}

/// Appends an entry.
pub(crate) fn append(db: &Transaction<'_>, entry: &Entry<'_>) -> Result<()> {
    let last: Option<Vec<u8>> =
        db.query_row("SELECT hash FROM audit ORDER BY id DESC LIMIT 1", [], |row| row.get(0)).optional()?;
    let at = now_ms();
    let visible = |text: &str| -> String {
        text.chars().take(200).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
    };
    let texts = [entry.user, entry.address, entry.action, entry.object, entry.outcome].map(visible);
    let hash = chained(last.as_deref().unwrap_or_default(), at, &texts);
    let [user, address, action, object, outcome] = texts;
    db.execute(
        "INSERT INTO audit(at, user, address, action, object, outcome, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![at, user, address, action, object, outcome, hash],
    )?;
    Ok(())
}

fn chained(before: &[u8], at: i64, texts: &[String; 5]) -> Vec<u8> {
    let mut hasher = Sha256::new();
    hasher.update(before);
    hasher.update(at.to_be_bytes());
    for text in texts {
        hasher.update((text.len() as u64).to_be_bytes());
        hasher.update(text);
    }
    hasher.finalize().to_vec()
}

fn logged(row: &rusqlite::Row<'_>) -> rusqlite::Result<Logged> {
    Ok(Logged {
        id: row.get(0)?,
        at: row.get(1)?,
        user: row.get(2)?,
        address: row.get(3)?,
        action: row.get(4)?,
        object: row.get(5)?,
        outcome: row.get(6)?,
    })
}

/// Returns the entries before number `before`, newest first.
pub(crate) fn list(db: &Transaction<'_>, before: i64, limit: u32) -> Result<Vec<Logged>> {
    let mut query = db.prepare(
        "SELECT id, at, user, address, action, object, outcome FROM audit WHERE id < ?1 ORDER BY id DESC LIMIT ?2",
    )?;
    let rows = query.query_map(params![before, limit], logged)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the number of the first entry whose hash is wrong.
pub(crate) fn broken_at(db: &Transaction<'_>) -> Result<Option<i64>> {
    let mut query =
        db.prepare("SELECT id, at, user, address, action, object, outcome, hash FROM audit ORDER BY id")?;
    let mut rows = query.query([])?;
    let mut before = Vec::new();
    while let Some(row) = rows.next()? {
        let entry = logged(row)?;
        let texts = [entry.user, entry.address, entry.action, entry.object, entry.outcome];
        let hash: Vec<u8> = row.get(7)?;
        if hash != chained(&before, entry.at, &texts) {
            return Ok(Some(entry.id));
        }
        before = hash;
    }
    Ok(None)
}
