//! Files of users: names, and the hashes of their content.

use rusqlite::{OptionalExtension, Row, Transaction, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Result;
use super::people::User;
use super::scenarios::SEEN;
use crate::clock::now_ms;

/// File that scenarios can name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct UserFile {
    /// Number.
    pub(crate) id: i64,
    /// Name of the owner.
    pub(crate) owner: String,
    /// Number of the owner.
    pub(crate) owner_id: i64,
    /// Set if the scenarios of all users can name it.
    pub(crate) shared: bool,
    /// Name, as scenarios write it.
    pub(crate) name: String,
    /// Size in bytes.
    pub(crate) size: i64,
    /// SHA-256 of the content in hexadecimal digits.
    pub(crate) sha256: String,
    /// Time of upload in milliseconds since 1970, UTC.
    pub(crate) created: i64,
}

/// Content under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Content {
    /// Name.
    pub(crate) name: String,
    /// Size in bytes.
    pub(crate) size: i64,
    /// SHA-256 in hexadecimal digits.
    pub(crate) sha256: String,
}

const FILE: &str = "SELECT file.id, user.name, owner, shared, file.name, size, sha256, file.created FROM file
    JOIN user ON user.id = owner";

fn file(row: &Row<'_>) -> rusqlite::Result<UserFile> {
    Ok(UserFile {
        id: row.get(0)?,
        owner: row.get(1)?,
        owner_id: row.get(2)?,
        shared: row.get(3)?,
        name: row.get(4)?,
        size: row.get(5)?,
        sha256: row.get(6)?,
        created: row.get(7)?,
    })
}

fn content(row: &Row<'_>) -> rusqlite::Result<Content> {
    Ok(Content { name: row.get(0)?, size: row.get(1)?, sha256: row.get(2)? })
}

/// Returns the files that a user sees, by name; own ones first.
pub(crate) fn list(db: &Transaction<'_>, user: &User, after: i64, limit: u32) -> Result<Vec<UserFile>> {
    let mut query = db.prepare(&format!("{FILE} WHERE {SEEN} AND file.id > ?3 ORDER BY file.id LIMIT ?4"))?;
    let rows = query.query_map(params![user.id, user.level, after, limit], file)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns a file that a user sees.
pub(crate) fn find(db: &Transaction<'_>, user: &User, id: i64) -> Result<Option<UserFile>> {
    let query = format!("{FILE} WHERE {SEEN} AND file.id = ?3");
    Ok(db.query_row(&query, params![user.id, user.level, id], file).optional()?)
}

/// Saves a file and returns its number. It replaces one of the owner with the same name.
pub(crate) fn save(db: &Transaction<'_>, owner: i64, new: &Content, shared: bool) -> Result<i64> {
    let query = "INSERT INTO file(owner, shared, name, size, sha256, created) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT(owner, name) DO UPDATE SET shared = ?2, size = ?4, sha256 = ?5, created = ?6 RETURNING id";
    Ok(db.query_row(query, params![owner, shared, new.name, new.size, new.sha256, now_ms()], |row| {
        row.get(0)
    })?)
}

/// Saves files under names that the owner has not used.
pub(crate) fn save_new(db: &Transaction<'_>, owner: i64, all: &[Content]) -> Result<()> {
    let mut query = db.prepare(
        "INSERT OR IGNORE INTO file(owner, shared, name, size, sha256, created) VALUES (?1, 0, ?2, ?3, ?4, ?5)",
    )?;
    for one in all {
        query.execute(params![owner, one.name, one.size, one.sha256, now_ms()])?;
    }
    Ok(())
}

/// Removes a file. What jobs have of it stays.
pub(crate) fn remove(db: &Transaction<'_>, id: i64) -> Result<()> {
    db.execute("DELETE FROM file WHERE id = ?1", [id])?;
    Ok(())
}

/// Returns the files that a user's scenarios can name.
///
/// Those are the own files, and shared ones under other names.
pub(crate) fn named_by(db: &Transaction<'_>, user: i64) -> Result<Vec<Content>> {
    let mut query = db.prepare(
        "SELECT name, size, sha256 FROM file WHERE owner = ?1
         UNION ALL
         SELECT name, size, sha256 FROM file AS other WHERE shared = 1 AND owner <> ?1
           AND NOT EXISTS (SELECT 1 FROM file WHERE owner = ?1 AND name = other.name)
           AND NOT EXISTS (SELECT 1 FROM file AS first WHERE first.shared = 1 AND first.owner <> ?1
             AND first.name = other.name AND first.id < other.id)",
    )?;
    let rows = query.query_map([user], content)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns number and size of a user's files, those that only jobs have still included.
pub(crate) fn used(db: &Transaction<'_>, owner: i64) -> Result<(i64, i64)> {
    let query = "SELECT count(*), coalesce(sum(size), 0) FROM (
        SELECT sha256, size FROM file WHERE owner = ?1
        UNION SELECT sha256, size FROM job_file JOIN job ON job.id = job_file.job WHERE job.owner = ?1)";
    Ok(db.query_row(query, [owner], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

/// Returns `true` if a file or a job of a user has this content.
pub(crate) fn has(db: &Transaction<'_>, owner: i64, sha256: &str) -> Result<bool> {
    let query = "SELECT EXISTS (SELECT 1 FROM file WHERE owner = ?1 AND sha256 = ?2)
        OR EXISTS (SELECT 1 FROM job_file JOIN job ON job.id = job_file.job WHERE job.owner = ?1 AND sha256 = ?2)";
    Ok(db.query_row(query, params![owner, sha256], |row| row.get(0))?)
}

/// Returns `true` if a file or a job has this content.
pub(crate) fn is_used(db: &Transaction<'_>, sha256: &str) -> Result<bool> {
    let query = "SELECT EXISTS (SELECT 1 FROM file WHERE sha256 = ?1)
        OR EXISTS (SELECT 1 FROM job_file WHERE sha256 = ?1)";
    Ok(db.query_row(query, [sha256], |row| row.get(0))?)
}

/// Keeps what a job reads.
pub(crate) fn give(db: &Transaction<'_>, job: i64, all: &[Content]) -> Result<()> {
    let mut query =
        db.prepare("INSERT OR IGNORE INTO job_file(job, name, size, sha256) VALUES (?1, ?2, ?3, ?4)")?;
    for one in all {
        query.execute(params![job, one.name, one.size, one.sha256])?;
    }
    let count = "UPDATE job SET rows = rows + (SELECT coalesce(sum(octet_length(name) + ?2), 0) FROM job_file WHERE job = ?1)
        WHERE id = ?1";
    db.execute(count, params![job, OF_FILE])?;
    Ok(())
}

/// Bytes of the row of a file that a job reads, without its name.
pub(crate) const OF_FILE: i64 = 128;

/// Returns what a job reads, by name.
pub(crate) fn of_job(db: &Transaction<'_>, job: i64) -> Result<Vec<Content>> {
    let mut query = db.prepare("SELECT name, size, sha256 FROM job_file WHERE job = ?1 ORDER BY name")?;
    let rows = query.query_map([job], content)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
