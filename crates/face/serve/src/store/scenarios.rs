//! Scenarios and their versions, which are never changed.

use rusqlite::{OptionalExtension, Row, Transaction, params};
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::Result;
use super::people::User;
use crate::clock::{hex, now_ms};

/// Scenario with its newest version.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Scenario {
    /// Number.
    pub(crate) id: i64,
    /// Name.
    pub(crate) name: String,
    /// Name of the owner.
    pub(crate) owner: String,
    /// Number of the owner.
    pub(crate) owner_id: i64,
    /// Set if all users see it.
    pub(crate) shared: bool,
    /// Number of the newest version.
    pub(crate) version: i64,
    /// Time of the newest version in milliseconds since 1970, UTC.
    pub(crate) changed: i64,
}

/// Version of a scenario.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Version {
    /// Number.
    pub(crate) id: i64,
    /// Number of the scenario.
    pub(crate) scenario: i64,
    /// Number of the version before.
    pub(crate) parent: Option<i64>,
    /// Name of the author.
    pub(crate) author: String,
    /// SHA-256 of the text.
    pub(crate) hash: String,
    /// Time in milliseconds since 1970, UTC.
    pub(crate) created: i64,
}

const SCENARIO: &str =
    "scenario.id, scenario.name, user.name, scenario.owner, shared, version.id, version.created
    FROM scenario JOIN user ON user.id = scenario.owner
    JOIN version ON version.id = (SELECT max(id) FROM version WHERE version.scenario = scenario.id)
    WHERE archived";

/// Condition on objects that a user sees: own, shared, or all from level 2.
pub(crate) const SEEN: &str = "(owner = ?1 OR shared = 1 OR ?2 >= 2)";

fn scenario(row: &Row<'_>) -> rusqlite::Result<Scenario> {
    Ok(Scenario {
        id: row.get(0)?,
        name: row.get(1)?,
        owner: row.get(2)?,
        owner_id: row.get(3)?,
        shared: row.get(4)?,
        version: row.get(5)?,
        changed: row.get(6)?,
    })
}

/// Returns the scenarios after number `after` that a user sees.
pub(crate) fn list(db: &Transaction<'_>, user: &User, after: i64, limit: u32) -> Result<Vec<Scenario>> {
    let mut query = db.prepare(&format!(
        "SELECT {SCENARIO} = 0 AND {SEEN} AND scenario.id > ?3 ORDER BY scenario.id LIMIT ?4"
    ))?;
    let rows = query.query_map(params![user.id, user.level, after, limit], scenario)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the archived scenarios after number `after` that a user may return to the list.
pub(crate) fn archived(db: &Transaction<'_>, user: &User, after: i64, limit: u32) -> Result<Vec<Scenario>> {
    let mut query = db.prepare(&format!(
        "SELECT {SCENARIO} = 1 AND (owner = ?1 OR ?2 >= 2) AND scenario.id > ?3 ORDER BY scenario.id LIMIT ?4"
    ))?;
    let rows = query.query_map(params![user.id, user.level, after, limit], scenario)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns a scenario that a user sees.
pub(crate) fn find(db: &Transaction<'_>, user: &User, id: i64) -> Result<Option<Scenario>> {
    let query = format!("SELECT {SCENARIO} = 0 AND {SEEN} AND scenario.id = ?3");
    Ok(db.query_row(&query, params![user.id, user.level, id], scenario).optional()?)
}

/// Adds a scenario with its first version and returns its number.
pub(crate) fn add(db: &Transaction<'_>, owner: i64, name: &str, text: &str, shared: bool) -> Result<i64> {
    db.execute(
        "INSERT INTO scenario(owner, name, shared, created) VALUES (?1, ?2, ?3, ?4)",
        params![owner, name, shared, now_ms()],
    )?;
    let id = db.last_insert_rowid();
    add_version(db, id, None, owner, text)?;
    Ok(id)
}

/// Adds a version and returns its number.
pub(crate) fn add_version(
    db: &Transaction<'_>,
    scenario: i64,
    parent: Option<i64>,
    author: i64,
    text: &str,
) -> Result<i64> {
    db.execute(
        "INSERT INTO version(scenario, parent, author, toml, hash, created) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![scenario, parent, author, text, hex(&Sha256::digest(text)), now_ms()],
    )?;
    Ok(db.last_insert_rowid())
}

/// Sets the name of a scenario and whether all users see it.
pub(crate) fn rename(db: &Transaction<'_>, id: i64, name: &str, shared: bool) -> Result<()> {
    db.execute("UPDATE scenario SET name = ?2, shared = ?3 WHERE id = ?1", params![id, name, shared])?;
    Ok(())
}

/// Removes a scenario from the list. Its versions and jobs stay.
pub(crate) fn archive(db: &Transaction<'_>, id: i64) -> Result<()> {
    db.execute("UPDATE scenario SET archived = 1 WHERE id = ?1", [id])?;
    Ok(())
}

/// Returns an archived scenario to the list, if the user may. Returns `false` if there is none.
pub(crate) fn restore(db: &Transaction<'_>, user: &User, id: i64) -> Result<bool> {
    let query = "UPDATE scenario SET archived = 0 WHERE id = ?3 AND archived = 1 AND (owner = ?1 OR ?2 >= 2)";
    Ok(db.execute(query, params![user.id, user.level, id])? == 1)
}

/// Returns an archived scenario that a user may return to the list, or remove.
pub(crate) fn find_archived(db: &Transaction<'_>, user: &User, id: i64) -> Result<Option<Scenario>> {
    let query = format!("SELECT {SCENARIO} = 1 AND (owner = ?1 OR ?2 >= 2) AND scenario.id = ?3");
    Ok(db.query_row(&query, params![user.id, user.level, id], scenario).optional()?)
}

/// Removes a scenario with its versions. Returns `false` if jobs are of it.
pub(crate) fn remove(db: &Transaction<'_>, id: i64) -> Result<bool> {
    let used =
        "SELECT EXISTS (SELECT 1 FROM job JOIN version ON version.id = job.version WHERE scenario = ?1)";
    if db.query_row(used, [id], |row| row.get(0))? {
        return Ok(false);
    }
    db.execute("UPDATE version SET parent = NULL WHERE scenario = ?1", [id])?;
    db.execute("DELETE FROM version WHERE scenario = ?1", [id])?;
    db.execute("DELETE FROM scenario WHERE id = ?1", [id])?;
    Ok(true)
}

/// Removes a version, whose successors follow the one before. Returns `false` if jobs are of it.
pub(crate) fn remove_version(db: &Transaction<'_>, version: i64) -> Result<bool> {
    if db.query_row("SELECT EXISTS (SELECT 1 FROM job WHERE version = ?1)", [version], |row| row.get(0))? {
        return Ok(false);
    }
    let follow = "UPDATE version SET parent = (SELECT parent FROM version WHERE id = ?1) WHERE parent = ?1";
    db.execute(follow, [version])?;
    db.execute("DELETE FROM version WHERE id = ?1", [version])?;
    Ok(true)
}

/// Returns the text of a version.
pub(crate) fn text(db: &Transaction<'_>, version: i64) -> Result<String> {
    Ok(db.query_row("SELECT toml FROM version WHERE id = ?1", [version], |row| row.get(0))?)
}

/// Returns the newest version of a user's scenarios that has this text.
pub(crate) fn version_of(db: &Transaction<'_>, owner: i64, text: &str) -> Result<Option<i64>> {
    let query = "SELECT version.id FROM version JOIN scenario ON scenario.id = version.scenario
        WHERE scenario.owner = ?1 AND archived = 0 AND hash = ?2 ORDER BY version.id DESC LIMIT 1";
    Ok(db.query_row(query, params![owner, hex(&Sha256::digest(text))], |row| row.get(0)).optional()?)
}

/// Returns the versions of a scenario, newest first.
pub(crate) fn versions(db: &Transaction<'_>, scenario: i64) -> Result<Vec<Version>> {
    let mut query = db.prepare(
        "SELECT version.id, scenario, parent, user.name, version.hash, version.created
         FROM version JOIN user ON user.id = author WHERE scenario = ?1 ORDER BY version.id DESC LIMIT 1000",
    )?;
    let rows = query.query_map([scenario], |row| {
        Ok(Version {
            id: row.get(0)?,
            scenario: row.get(1)?,
            parent: row.get(2)?,
            author: row.get(3)?,
            hash: row.get(4)?,
            created: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
