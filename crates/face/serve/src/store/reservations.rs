//! Reservations by person and time, of the testbed or by capability.

use rusqlite::{OptionalExtension, Row, Transaction, params};
use schemars::JsonSchema;
use serde::Serialize;

use super::Result;
use crate::clock::now_ms;

/// Subject of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Testbed as a whole: only jobs of the owner start.
    Testbed,
    /// Emulations on the server's machine.
    Emulation,
    /// A site.
    Site(i64),
    /// A number of places of jobs, each a processor.
    Processors(i64),
}

impl What {
    fn columns(self) -> (&'static str, Option<i64>, i64) {
        match self {
            What::Testbed => ("testbed", None, 0),
            What::Emulation => ("emulate", None, 0),
            What::Site(site) => ("site", Some(site), 0),
            What::Processors(count) => ("processors", None, count),
        }
    }
}

/// Reservation: in its time only jobs of its owner take what it is of.
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
    /// Subject: "testbed", "emulate", "site" or "processors".
    pub(crate) what: String,
    /// Name of the site, if one is reserved.
    pub(crate) site: Option<String>,
    /// Number of places of jobs, each a processor; zero if none are reserved.
    pub(crate) processors: i64,
}

impl Reservation {
    /// Returns in words what is reserved.
    pub(crate) fn words(&self) -> String {
        match (&self.site, &self.what[..]) {
            (Some(site), _) => format!("site {site}"),
            (None, "processors") if self.processors == 1 => "1 processor".to_owned(),
            (None, "processors") => format!("{} processors", self.processors),
            (None, "emulate") => "emulation".to_owned(),
            (None, what) => what.to_owned(),
        }
    }
}

const RESERVATION: &str =
    "SELECT reservation.id, user.name, owner, start, end, purpose, what, site.name, processors
    FROM reservation JOIN user ON user.id = owner LEFT JOIN site ON site.id = site";

fn reservation(row: &Row<'_>) -> rusqlite::Result<Reservation> {
    Ok(Reservation {
        id: row.get(0)?,
        owner: row.get(1)?,
        owner_id: row.get(2)?,
        start: row.get(3)?,
        end: row.get(4)?,
        purpose: row.get(5)?,
        what: row.get(6)?,
        site: row.get(7)?,
        processors: row.get(8)?,
    })
}

/// Returns the reservations that end after a time, in their order.
pub(crate) fn after(db: &Transaction<'_>, time: i64) -> Result<Vec<Reservation>> {
    let mut query = db.prepare(&format!("{RESERVATION} WHERE end > ?1 ORDER BY start LIMIT 1000"))?;
    let rows = query.query_map([time], reservation)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the first reservation that overlaps a time and is of the same.
///
/// Those of processors are counted by [`free`].
pub(crate) fn clash(
    db: &Transaction<'_>,
    what: What,
    (start, end): (i64, i64),
) -> Result<Option<Reservation>> {
    let query = format!(
        "{RESERVATION} WHERE start < ?2 AND end > ?1 AND (what = 'testbed' OR ?3 = 'testbed'
           OR (what = 'emulate' AND ?3 IN ('emulate', 'processors')) OR (what = 'processors' AND ?3 = 'emulate')
           OR reservation.site = ?4) ORDER BY start LIMIT 1"
    );
    let (what, site, _) = what.columns();
    Ok(db.query_row(&query, params![start, end, what, site], reservation).optional()?)
}

/// Returns the number of processors, and of those that are free in a time.
pub(crate) fn free(db: &Transaction<'_>, (start, end): (i64, i64)) -> Result<(i64, i64)> {
    let query = "SELECT processors, processors - coalesce((
            SELECT max((SELECT coalesce(sum(processors), 0) FROM reservation WHERE start <= at AND end > at))
            FROM (SELECT ?1 AS at UNION SELECT start FROM reservation WHERE start > ?1 AND start < ?2)), 0)
        FROM capacity";
    Ok(db.query_row(query, [start, end], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

/// Sets the number of processors: places of jobs.
pub(crate) fn set_capacity(db: &Transaction<'_>, processors: i64) -> Result<()> {
    db.execute("UPDATE capacity SET processors = ?1 WHERE processors <> ?1", [processors.max(1)])?;
    Ok(())
}

/// Returns a reservation.
pub(crate) fn find(db: &Transaction<'_>, id: i64) -> Result<Option<Reservation>> {
    let query = format!("{RESERVATION} WHERE reservation.id = ?1");
    Ok(db.query_row(&query, [id], reservation).optional()?)
}

/// Adds a reservation and returns its number. The database refuses one that clashes with others.
pub(crate) fn add(
    db: &Transaction<'_>,
    owner: i64,
    what: What,
    (start, end): (i64, i64),
    purpose: &str,
) -> Result<i64> {
    let (what, site, processors) = what.columns();
    db.execute(
        "INSERT INTO reservation(owner, start, end, purpose, created, what, site, processors)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![owner, start, end, purpose, now_ms(), what, site, processors],
    )?;
    Ok(db.last_insert_rowid())
}

/// Returns starts and ends of a user's reservations that end after a time.
pub(crate) fn times(db: &Transaction<'_>, owner: i64, time: i64) -> Result<Vec<(i64, i64)>> {
    let mut query = db.prepare("SELECT start, end FROM reservation WHERE owner = ?1 AND end > ?2")?;
    let rows = query.query_map([owner, time], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Releases a reservation. The part of it that is over stays, as it counts in what its owner may reserve.
pub(crate) fn release(db: &Transaction<'_>, id: i64, now: i64) -> Result<()> {
    let of = "SELECT owner, start, purpose, created, what, site, processors FROM reservation
              WHERE id = ?1 AND start < ?2 AND end > ?2";
    type Row = (i64, i64, String, i64, String, Option<i64>, i64);
    let row = |row: &rusqlite::Row<'_>| -> rusqlite::Result<Row> {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?))
    };
    let begun = db.query_row(of, [id, now], row).optional()?;
    remove(db, id)?;
    if let Some((owner, start, purpose, created, what, site, processors)) = begun {
        db.execute(
            "INSERT INTO reservation(owner, start, end, purpose, created, what, site, processors)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![owner, start, now, purpose, created, what, site, processors],
        )?;
    }
    Ok(())
}

/// Forgets the reservations that ended before a time.
pub(crate) fn forget(db: &Transaction<'_>, time: i64) -> Result<()> {
    db.execute("DELETE FROM reservation WHERE end < ?1", [time])?;
    Ok(())
}

/// Removes a reservation.
pub(crate) fn remove(db: &Transaction<'_>, id: i64) -> Result<()> {
    db.execute("DELETE FROM reservation WHERE id = ?1", [id])?;
    Ok(())
}
