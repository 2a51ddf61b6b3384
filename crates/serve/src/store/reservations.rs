//! Reservations of the testbed by person and time.

use rusqlite::{OptionalExtension, Row, Transaction, params};
use schemars::JsonSchema;
use serde::Serialize;

use super::Result;
use crate::clock::now_ms;

/// Reservation: in its time only jobs of its owner start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Reservation {
    /// Number.
    pub(crate) id: i64,
    /// Name of the owner.
    pub(crate) owner: String,
    /// Number of the owner.
    pub(crate) owner_id: i64,
    /// Start in milliseconds since 1970, UTC.
    pub(crate) start: i64,
    /// End in milliseconds since 1970, UTC.
    pub(crate) end: i64,
    /// Purpose.
    pub(crate) purpose: String,
}

const RESERVATION: &str = "SELECT reservation.id, user.name, owner, start, end, purpose FROM reservation
    JOIN user ON user.id = owner";

fn reservation(row: &Row<'_>) -> rusqlite::Result<Reservation> {
    Ok(Reservation {
        id: row.get(0)?,
        owner: row.get(1)?,
        owner_id: row.get(2)?,
        start: row.get(3)?,
        end: row.get(4)?,
        purpose: row.get(5)?,
    })
}

/// Returns the reservations that end after a time, in their order.
pub(crate) fn after(db: &Transaction<'_>, time: i64) -> Result<Vec<Reservation>> {
    let mut query = db.prepare(&format!("{RESERVATION} WHERE end > ?1 ORDER BY start LIMIT 1000"))?;
    let rows = query.query_map([time], reservation)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the first reservation that overlaps a time.
pub(crate) fn clash(db: &Transaction<'_>, (start, end): (i64, i64)) -> Result<Option<Reservation>> {
    let query = format!("{RESERVATION} WHERE start < ?2 AND end > ?1 ORDER BY start LIMIT 1");
    Ok(db.query_row(&query, [start, end], reservation).optional()?)
}

/// Returns a reservation.
pub(crate) fn find(db: &Transaction<'_>, id: i64) -> Result<Option<Reservation>> {
    let query = format!("{RESERVATION} WHERE reservation.id = ?1");
    Ok(db.query_row(&query, [id], reservation).optional()?)
}

/// Adds a reservation and returns its number. The database refuses one that overlaps another.
pub(crate) fn add(db: &Transaction<'_>, owner: i64, time: (i64, i64), purpose: &str) -> Result<i64> {
    db.execute(
        "INSERT INTO reservation(owner, start, end, purpose, created) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![owner, time.0, time.1, purpose, now_ms()],
    )?;
    Ok(db.last_insert_rowid())
}

/// Removes a reservation.
pub(crate) fn remove(db: &Transaction<'_>, id: i64) -> Result<()> {
    db.execute("DELETE FROM reservation WHERE id = ?1", [id])?;
    Ok(())
}
