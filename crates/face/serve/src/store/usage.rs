//! Bytes that are stored for users, and room within the database.

use rusqlite::Transaction;

use super::Result;

/// Bytes of a scenario, version, preset or job next to its text.
///
/// They are its row, names and indices. A file of results has as many next to its content: an archive of empty files has a size too.
pub(crate) const ROW: i64 = 512;

/// Returns the bytes of a user's texts, files and results.
///
/// Texts are also those of jobs. Each text and each file of results has a row.
pub(crate) fn of(db: &Transaction<'_>, user: i64) -> Result<(u64, u64, u64)> {
    // `octet_length` reads the heads of rows alone.
    let query = "SELECT
        (SELECT count(*) * ?2 FROM scenario WHERE owner = ?1)
          + (SELECT coalesce(sum(octet_length(toml) + ?2), 0) FROM version JOIN scenario ON scenario.id = version.scenario WHERE owner = ?1)
          + (SELECT coalesce(sum(octet_length(toml) + ?2), 0) FROM preset WHERE owner = ?1)
          + (SELECT coalesce(sum(?2 + octet_length(note) + octet_length(message) + coalesce(octet_length(sites), 0)
              + coalesce(octet_length(search), 0) + coalesce(octet_length(origin), 0) + rows), 0) FROM job WHERE owner = ?1),
        (SELECT coalesce(sum(size), 0) FROM (SELECT sha256, size FROM file WHERE owner = ?1
          UNION SELECT sha256, size FROM job_file JOIN job ON job.id = job_file.job WHERE job.owner = ?1)),
        (SELECT coalesce(sum(bytes + ?2), 0) FROM artifact JOIN job ON job.id = artifact.job WHERE job.owner = ?1)";
    let sizes = db.query_row(query, [user, ROW], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
    })?;
    Ok((sizes.0.unsigned_abs(), sizes.1.unsigned_abs(), sizes.2.unsigned_abs()))
}

/// Returns the bytes of the database that are free for new rows.
pub(crate) fn left(db: &Transaction<'_>) -> Result<u64> {
    let pages = |name: &str| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    Ok((pages("freelist_count")? * pages("page_size")?).unsigned_abs())
}
