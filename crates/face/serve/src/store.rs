//! The database: one SQLite file, one writer, ordered migrations.

pub(crate) mod audit;
pub(crate) mod counts;
pub(crate) mod files;
pub(crate) mod jobs;
mod lengths;
pub(crate) mod people;
pub(crate) mod presets;
pub(crate) mod queue;
pub(crate) mod reservations;
pub(crate) mod scenarios;
pub(crate) mod sites;
pub(crate) mod turns;
pub(crate) mod usage;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::reserve;
use audit::Missing;

/// Steps from each schema to the next. A step that was released is never edited.
const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/0001.sql"),
    include_str!("../migrations/0002.sql"),
    include_str!("../migrations/0003.sql"),
    include_str!("../migrations/0004.sql"),
    include_str!("../migrations/0005.sql"),
    include_str!("../migrations/0006.sql"),
    include_str!("../migrations/0007.sql"),
    include_str!("../migrations/0008.sql"),
    include_str!("../migrations/0009.sql"),
    include_str!("../migrations/0010.sql"),
];

/// First schema whose audit log has a key.
const KEYED: i64 = 8;

/// Number of idle connections for reading that are kept.
const READERS: usize = 4;

/// Error returned by the database.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// SQLite failed.
    #[error("database: {}", words(.0))]
    Sqlite(#[from] rusqlite::Error),
    /// The file was written by a later version.
    #[error("database: schema {found} is of a later version of bentpipe; this one knows {known}")]
    Newer { found: usize, known: usize },
    /// A migration would leave rows that refer to nothing.
    #[error("database: schema {0} cannot be reached, as rows refer to missing ones; restore a backup")]
    Dangling(usize),
    /// The file is cut or damaged.
    #[error("database: damaged: {0}")]
    Damaged(String),
    /// The audit log lacks an entry that was its last one.
    #[error(
        "{path}: entry {entry} of the audit log is missing or changed: the log was emptied or cut, or the database is an older one\n\
         help: take a backup by `bentpipe serve restore`; `--new-audit-key` goes on, and marks in the log that what is before cannot be verified"
    )]
    Cut { path: String, entry: i64 },
    /// The file of the log's end is missing, or not the server's.
    #[error(
        "{path}: {why}: without the end that the server noted, a log that was cut would pass as whole\n\
         help: put the file back from its copy, or take a backup by `bentpipe serve restore`; `--new-audit-key` goes on, and marks in the log that \
         what is before cannot be verified"
    )]
    NoEnd { path: String, why: String },
    /// A file next to the database cannot be read or written.
    #[error("{path}: {source}")]
    File { path: String, source: std::io::Error },
    /// The key of the audit log is missing.
    #[error(
        "{path}: missing, and the audit log has entries up to {entries}, or had some: it may have been changed since\n\
         help: put the key back from its copy; `--new-audit-key` makes another one, and marks in the log that what is before cannot be verified"
    )]
    NoKey { path: String, entries: i64 },
}

/// Returns the words of an error without a statement of SQL.
fn words(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        error => error.to_string(),
    }
}

pub(crate) type Result<T> = std::result::Result<T, StoreError>;

/// The database of a data folder.
pub(crate) struct Store {
    path: PathBuf,
    writer: Mutex<Connection>,
    readers: Mutex<Vec<Connection>>,
    /// Key of the audit log.
    key: audit::Key,
}

impl Store {
    /// Opens the database at `path`, creating or migrating it.
    #[cfg(test)]
    pub(crate) fn open(path: &Path) -> Result<Store> {
        Store::open_with(path, Missing::Refused)
    }

    /// Opens the database at `path`, creating or migrating it.
    ///
    /// The key of its audit log is next to it. One that is missing is treated as said.
    pub(crate) fn open_with(path: &Path, missing: Missing) -> Result<Store> {
        let mut writer = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        let schema: i64 = writer.pragma_query_value(None, "user_version", |row| row.get(0))?;
        migrate(&mut writer)?;
        let missing = if schema < KEYED { Missing::Older } else { missing };
        let key = audit::Key::of(path.parent().unwrap_or(Path::new("")), &writer, missing)?;
        key.install(&writer)?;
        Ok(Store { path: path.to_owned(), writer: Mutex::new(writer), readers: Mutex::new(Vec::new()), key })
    }

    /// Runs `change` in a transaction that is on disk when this returns.
    pub(crate) fn write<T, E: From<StoreError>>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        // Log-ins and removals need some room too, when all is full.
        self.path.parent().into_iter().for_each(reserve::release);
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction =
            writer.transaction_with_behavior(TransactionBehavior::Immediate).map_err(StoreError::from)?;
        let result = change(&transaction)?;
        transaction.commit().map_err(StoreError::from)?;
        self.key.advance(&writer);
        Ok(result)
    }

    /// Runs `query` on one state of the database.
    pub(crate) fn read<T, E: From<StoreError>>(
        &self,
        query: impl FnOnce(&Transaction<'_>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let mut reader = self.reader()?;
        let result = {
            let transaction = reader.transaction().map_err(StoreError::from)?;
            query(&transaction)
        };
        self.keep(reader);
        result
    }

    /// Returns a connection that no query uses.
    fn reader(&self) -> Result<Connection> {
        match self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            Some(reader) => Ok(reader),
            None => self.new_reader(),
        }
    }

    fn new_reader(&self) -> Result<Connection> {
        let reader = connect(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        self.key.install(&reader)?;
        Ok(reader)
    }

    /// Keeps a connection for a later query.
    fn keep(&self, reader: Connection) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() < READERS {
            readers.push(reader);
        }
    }

    /// Writes all changes of the log (WAL) into the database's own file.
    ///
    /// It is for the end of a server.
    ///
    /// # Errors
    /// Returns an error if the disk refuses it. The log has the changes then.
    pub(crate) fn finish(&self) -> Result<()> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }

    /// Returns the entries that a restored backup lacks, until one states it.
    pub(crate) fn restored(&self) -> Option<audit::Lost> {
        self.key.restored()
    }

    /// Returns the first entry of the log that can be verified after a loss.
    pub(crate) fn first_after_loss(&self) -> Option<i64> {
        self.key.first_after_loss()
    }
}

/// Copies a database of any version while it is in use, and verifies the copy.
///
/// The database stays as it is.
///
/// # Errors
/// Returns an error if the copy cannot be made, or is damaged.
pub(crate) fn back_up(from: &Path, to: &Path) -> Result<()> {
    let source = connect(from, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    source.execute("VACUUM INTO ?1", [to.to_string_lossy()])?;
    verify(to, OpenFlags::SQLITE_OPEN_READ_ONLY, "PRAGMA integrity_check")
}

/// Returns the number of a database's last entry in the audit log, if readable.
pub(crate) fn last_entry(path: &Path) -> Option<i64> {
    let db = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    db.query_row("SELECT max(id) FROM audit", [], |row| row.get(0)).ok()?
}

/// Ends the sessions, tokens and recovery codes of a database that no server uses. Returns their number.
///
/// A database of an older schema may lack some.
pub(crate) fn end_logins(path: &Path) -> Result<usize> {
    let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let mut ended = 0;
    for table in ["session", "token", "recovery_code"] {
        let query = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1";
        let is_there: bool = db.query_row(query, [table], |row| row.get(0))?;
        if is_there {
            ended += db.execute(&format!("DELETE FROM {table}"), [])?;
        }
    }
    db.close().map_err(|(_, error)| error)?;
    Ok(ended)
}

/// Notes that a backup takes the place of the database of a folder.
///
/// # Errors
/// Returns an error if its audit log cannot be read, or its end not be noted.
pub(crate) fn restored(folder: &Path, backup: &Path, former: Option<i64>) -> Result<audit::Lost> {
    audit::restored(folder, &connect(backup, OpenFlags::SQLITE_OPEN_READ_ONLY)?, former)
}

/// Checks that a database with its write-ahead log is whole, and has its tables.
///
/// # Errors
/// Returns an error with the first fault.
pub(crate) fn check(path: &Path) -> Result<()> {
    verify(path, OpenFlags::SQLITE_OPEN_READ_WRITE, "PRAGMA quick_check(1)")?;
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    check_tables(&connection, schema(&connection)?)
}

/// Checks that the structure of a backup is whole, and changes nothing of it.
///
/// # Errors
/// Returns an error with the first fault.
pub(crate) fn check_backup(path: &Path) -> Result<()> {
    verify(path, OpenFlags::SQLITE_OPEN_READ_ONLY, "PRAGMA quick_check(1)")?;
    match schema(&connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?)? {
        // An empty file is a whole database too.
        0 => Err(StoreError::Damaged("it has no schema of a test controller".to_owned())),
        found => check_tables(&connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?, found),
    }
}

/// Returns the number of the schema.
///
/// # Errors
/// Returns an error if a later version of bentpipe wrote it.
fn schema(connection: &Connection) -> Result<usize> {
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let found = usize::try_from(found).unwrap_or(usize::MAX);
    match found > MIGRATIONS.len() {
        true => Err(StoreError::Newer { found, known: MIGRATIONS.len() }),
        false => Ok(found),
    }
}

/// Checks that a database has the tables of its schema.
///
/// # Errors
/// Returns an error with the first one that is missing.
fn check_tables(connection: &Connection, schema: usize) -> Result<()> {
    let names = |of: &Connection| -> Result<BTreeSet<String>> {
        let mut query = of.prepare("SELECT name FROM sqlite_master WHERE type = 'table'")?;
        let rows = query.query_map([], |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    };
    let found = names(connection)?;
    let whole = Connection::open_in_memory()?;
    whole.execute_batch("PRAGMA foreign_keys = OFF")?;
    MIGRATIONS[..schema].iter().try_for_each(|step| whole.execute_batch(step))?;
    match names(&whole)?.difference(&found).find(|name| !name.starts_with("sqlite_")) {
        Some(name) => Err(StoreError::Damaged(format!("the table \"{name}\" is missing"))),
        None => Ok(()),
    }
}

fn verify(path: &Path, flags: OpenFlags, pragma: &str) -> Result<()> {
    let damaged = |why: String| Err(StoreError::Damaged(why));
    let verdict = connect(path, flags)
        .and_then(|connection| Ok(connection.query_row(pragma, [], |row| row.get::<_, String>(0))?));
    match verdict {
        Ok(verdict) if verdict == "ok" => Ok(()),
        Ok(verdict) => damaged(verdict.lines().last().unwrap_or_default().to_owned()),
        Err(StoreError::Sqlite(error)) if is_damage(&error) => damaged(error.to_string()),
        Err(error) => Err(error),
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection
        .execute_batch("PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA synchronous = FULL;")?;
    if !flags.contains(OpenFlags::SQLITE_OPEN_READ_ONLY) {
        connection.pragma_update(None, "journal_mode", "WAL")?;
    }
    Ok(connection)
}

fn migrate(connection: &mut Connection) -> Result<()> {
    let found = schema(connection)?;
    // A table that others refer to can be made again only without their checks, which are made up for.
    connection.execute_batch("PRAGMA foreign_keys = OFF")?;
    for (version, step) in MIGRATIONS.iter().enumerate().skip(found) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(step)?;
        if transaction.prepare("PRAGMA foreign_key_check")?.exists([])? {
            return Err(StoreError::Dangling(version + 1));
        }
        transaction.pragma_update(None, "user_version", version as i64 + 1)?;
        transaction.commit()?;
    }
    connection.execute_batch("PRAGMA foreign_keys = ON")?;
    Ok(())
}

#[cfg(test)]
mod tests;
