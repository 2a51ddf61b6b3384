//! The database: one SQLite file, one writer, ordered migrations.

pub(crate) mod audit;
pub(crate) mod files;
pub(crate) mod jobs;
pub(crate) mod people;
pub(crate) mod presets;
pub(crate) mod reservations;
pub(crate) mod scenarios;
pub(crate) mod sites;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

/// Steps from each schema to the next. A step that was released is never edited.
const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/0001.sql"),
    include_str!("../migrations/0002.sql"),
    include_str!("../migrations/0003.sql"),
    include_str!("../migrations/0004.sql"),
    include_str!("../migrations/0005.sql"),
    include_str!("../migrations/0006.sql"),
    include_str!("../migrations/0007.sql"),
];

/// Number of idle connections for reading that are kept.
const READERS: usize = 4;

/// Error returned by the database.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// SQLite failed.
    #[error("database: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The file was written by a later version.
    #[error("database: schema {found} is of a later version of bentpipe; this one knows {known}")]
    Newer { found: usize, known: usize },
    /// A migration would leave rows that refer to nothing.
    #[error("database: schema {0} cannot be reached, as rows refer to missing ones; restore a backup")]
    Dangling(usize),
}

pub(crate) type Result<T> = std::result::Result<T, StoreError>;

/// The database of a data folder.
pub(crate) struct Store {
    path: PathBuf,
    writer: Mutex<Connection>,
    readers: Mutex<Vec<Connection>>,
}

impl Store {
    /// Opens the database at `path`, creating or migrating it.
    pub(crate) fn open(path: &Path) -> Result<Store> {
        let mut writer = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        migrate(&mut writer)?;
        Ok(Store { path: path.to_owned(), writer: Mutex::new(writer), readers: Mutex::new(Vec::new()) })
    }

    /// Runs `change` in a transaction that is on disk when this returns.
    pub(crate) fn write<T, E: From<StoreError>>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction =
            writer.transaction_with_behavior(TransactionBehavior::Immediate).map_err(StoreError::from)?;
        let result = change(&transaction)?;
        transaction.commit().map_err(StoreError::from)?;
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
            None => connect(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY),
        }
    }

    /// Keeps a connection for a later query.
    fn keep(&self, reader: Connection) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() < READERS {
            readers.push(reader);
        }
    }

    /// Copies the database to `path` while it is in use, and verifies the copy.
    pub(crate) fn back_up(&self, path: &Path) -> Result<()> {
        let source = connect(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        source.execute("VACUUM INTO ?1", [path.to_string_lossy()])?;
        let copy = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let verdict: String = copy.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        match &verdict[..] {
            "ok" => Ok(()),
            _ => Err(StoreError::Sqlite(rusqlite::Error::InvalidQuery)),
        }
    }
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
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let found = usize::try_from(found).unwrap_or(usize::MAX);
    if found > MIGRATIONS.len() {
        return Err(StoreError::Newer { found, known: MIGRATIONS.len() });
    }
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
