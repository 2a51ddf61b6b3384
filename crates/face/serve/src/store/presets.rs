//! Named settings of entries, personal and shared.

use rusqlite::{OptionalExtension, Row, Transaction, params};
use schemars::JsonSchema;
use serde::Serialize;

use super::Result;
use super::people::User;
use super::scenarios::SEEN;
use crate::clock::now_ms;

/// Named settings of an entry of a section.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Preset {
    /// Number.
    pub(crate) id: i64,
    /// Number of the owner.
    pub(crate) owner_id: i64,
    /// Set if all users see it.
    pub(crate) shared: bool,
    /// Section, such as "link".
    pub(crate) section: String,
    /// Name.
    pub(crate) name: String,
    /// Keys and values, TOML. In lists it has its first 1000 characters.
    pub(crate) text: String,
}

fn preset(row: &Row<'_>) -> rusqlite::Result<Preset> {
    Ok(Preset {
        id: row.get(0)?,
        owner_id: row.get(1)?,
        shared: row.get(2)?,
        section: row.get(3)?,
        name: row.get(4)?,
        text: row.get(5)?,
    })
}

const PRESET: &str = "SELECT id, owner, shared, section, name, toml FROM preset";
/// The same with the beginning of its text.
const LISTED: &str = "SELECT id, owner, shared, section, name, substr(toml, 1, 1000) FROM preset";

/// Returns the presets that a user sees, personal ones first.
pub(crate) fn list(db: &Transaction<'_>, user: &User, section: Option<&str>) -> Result<Vec<Preset>> {
    let mut query = db.prepare(&format!(
        "{LISTED} WHERE {SEEN} AND (?3 IS NULL OR section = ?3) ORDER BY owner <> ?1, name LIMIT 1000"
    ))?;
    let rows = query.query_map(params![user.id, user.level, section], preset)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns a preset that a user sees.
pub(crate) fn find(db: &Transaction<'_>, user: &User, id: i64) -> Result<Option<Preset>> {
    let query = format!("{PRESET} WHERE {SEEN} AND id = ?3");
    Ok(db.query_row(&query, params![user.id, user.level, id], preset).optional()?)
}

/// Saves a preset and returns its number.
///
/// It replaces one of the owner with the same section and name.
pub(crate) fn save(
    db: &Transaction<'_>,
    owner: i64,
    (section, name): (&str, &str),
    (text, shared): (&str, bool),
) -> Result<i64> {
    let query =
        "INSERT INTO preset(owner, shared, section, name, toml, created) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT(owner, section, name) DO UPDATE SET toml = ?5, shared = ?2 RETURNING id";
    Ok(db.query_row(query, params![owner, shared, section, name, text, now_ms()], |row| row.get(0))?)
}

/// Removes a preset.
pub(crate) fn remove(db: &Transaction<'_>, id: i64) -> Result<()> {
    db.execute("DELETE FROM preset WHERE id = ?1", [id])?;
    Ok(())
}
