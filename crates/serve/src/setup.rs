//! Data folder: creation, lock, first administrator, backup.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::api::name_refusal;
use crate::children::LimitsError;
use crate::store::audit::{self, Entry};
use crate::store::people;
use crate::store::scenarios;
use crate::store::{self, Store, StoreError};
use crate::{clock, password, reserve};

/// Scenarios that a new data folder has, shared by the first administrator.
const EXAMPLES: &[(&str, &str)] = &[
    ("First look", include_str!("../../../scenarios/first-look.toml")),
    ("Geostationary satellite", include_str!("../../../scenarios/geo.toml")),
    ("Router with RED", include_str!("../../../scenarios/red-router.toml")),
    ("Lossy link, swept", include_str!("../../../scenarios/lossy-link-sweep.toml")),
    ("Calls over a geostationary satellite", include_str!("../../../scenarios/voice-geo.toml")),
    ("Return link by demand assignment", include_str!("../../../scenarios/return-link.toml")),
    ("Deep space", include_str!("../../../scenarios/deep-space.toml")),
];

/// Error returned when the controller cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data folder cannot be used.
    #[error("{path}: {source}")]
    Folder {
        /// Path.
        path: String,
        /// Reason.
        source: io::Error,
    },
    /// Another server uses the data folder.
    #[error("{0}: another server uses this data folder")]
    InUse(String),
    /// Users are missing.
    #[error("{0} has no users: make the first administrator with `bentpipe serve init`")]
    NoUsers(String),
    /// There are users already.
    #[error("{0} has an administrator already: add users on its page")]
    HasUsers(String),
    /// Name or password is refused.
    #[error("{0}")]
    Refused(String),
    /// The limits of children cannot be read.
    #[error(transparent)]
    Limits(#[from] LimitsError),
    /// The address cannot be used.
    #[error("{0}")]
    Address(String),
    /// The certificate or its key cannot be used.
    #[error("{0}")]
    Certificate(String),
    /// The database failed.
    #[error("{0}")]
    Database(String),
    /// The database is cut or damaged.
    #[error("{path}: damaged: {why}\nhelp: {advice}")]
    Damaged {
        /// Path.
        path: String,
        /// First fault.
        why: String,
        /// Backup to take.
        advice: String,
    },
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        Error::Database(error.to_string())
    }
}

/// Data folder in use by this process.
pub(crate) struct Data {
    pub(crate) store: Store,
    /// Lock that ends with the process.
    pub(crate) lock: File,
}

/// Opens a data folder, or makes it, for its owner alone.
pub(crate) fn open(folder: &Path) -> Result<Data, Error> {
    let wrap = |source| Error::Folder { path: folder.display().to_string(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(wrap)?;
    refuse_foreign_owner(folder).map_err(wrap)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(wrap)?;
    refuse_network_file_system(folder).map_err(wrap)?;
    let open = |name: &str| {
        OpenOptions::new().create(true).append(true).mode(0o600).open(folder.join(name)).map_err(wrap)
    };
    let lock = open("lock")?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| Error::InUse(folder.display().to_string()))?;
    // On a full disk the database needs some room to be opened.
    reserve::release(folder);
    // SQLite gives its journal the permissions of the database.
    open("data.sqlite")?;
    let database = folder.join("data.sqlite");
    check(folder, &database)?;
    let store = Store::open(&database)?;
    Ok(Data { store, lock })
}

/// Refuses a database that is cut or damaged, and names the backup to take.
fn check(folder: &Path, database: &Path) -> Result<(), Error> {
    let backup = || newest_whole(&folder.join("backups"));
    let is_empty = fs::metadata(database).is_ok_and(|data| data.len() == 0);
    // A new one is empty too, but has no backups.
    let checked = if is_empty { Ok(()) } else { store::check(database) };
    let why = match checked {
        Ok(()) if is_empty && backup().is_some() => "it is empty".to_owned(),
        Ok(()) => return Ok(()),
        Err(StoreError::Damaged(why)) => why,
        Err(error) => return Err(error.into()),
    };
    let database = database.display();
    let advice = match backup() {
        Some(backup) => format!(
            "the newest whole backup is {}: put a copy of it in place of {database}, and remove {database}-wal and {database}-shm; \
             what came after it is lost",
            backup.display()
        ),
        None => "no backup is whole: take one that `bentpipe serve backup` made elsewhere".to_owned(),
    };
    Err(Error::Damaged { path: database.to_string(), why, advice })
}

/// Returns the newest backup whose structure is whole.
fn newest_whole(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut all: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "sqlite")).collect();
    all.sort();
    all.into_iter().rev().find(|path| store::check_backup(path).is_ok())
}

/// Refuses a folder of another user, with what helps. Root may open all.
fn refuse_foreign_owner(folder: &Path) -> io::Result<()> {
    let (own, owner) = (rustix::process::geteuid(), fs::metadata(folder)?.uid());
    if own.is_root() || own.as_raw() == owner {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "it belongs to user {owner}, and this is user {}: run the command as that user, or choose another folder with --data",
        own.as_raw()
    )))
}

/// Refuses file systems on which SQLite's write-ahead log loses data.
fn refuse_network_file_system(folder: &Path) -> io::Result<()> {
    const NETWORK: &[(i64, &str)] =
        &[(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0xfe53_4d42, "SMB"), (0x517b, "SMB"), (0x0102_1997, "9P")];
    let kind = rustix::fs::statfs(folder)?.f_type as i64;
    match NETWORK.iter().find(|(magic, _)| *magic == kind) {
        Some((_, name)) => Err(io::Error::other(format!("on {name}: the database needs a local disk"))),
        None => Ok(()),
    }
}

/// Creates the first administrator. Returns the password if one was generated.
///
/// # Errors
/// Returns an error if there are users, or if name or password is refused.
pub fn init(folder: &Path, name: &str, password: Option<String>) -> Result<Option<String>, Error> {
    let data = open(folder)?;
    if data.store.read(people::count)? > 0 {
        return Err(Error::HasUsers(folder.display().to_string()));
    }
    let (password, generated) = match password {
        Some(password) => (password, None),
        None => {
            let generated = clock::secret()[..24].to_owned();
            (generated.clone(), Some(generated))
        }
    };
    if let Some(reason) = name_refusal(name).or_else(|| password::refusal(name, &password)) {
        return Err(Error::Refused(reason));
    }
    let hash = password::hash(&password);
    data.store.write(|db| {
        let id = people::add(db, name, &hash, 3)?.unwrap_or_default();
        let entry = Entry { user: name, address: "", action: "add user", object: name, outcome: "done" };
        audit::append(db, &entry)?;
        for (title, text) in EXAMPLES {
            scenarios::add(db, id, title, text, true)?;
        }
        Ok::<(), StoreError>(())
    })?;
    Ok(generated)
}

/// Copies the database of a data folder, which may be in use, to `file`.
///
/// # Errors
/// Returns an error if the copy exists, cannot be written, or is not whole.
pub fn back_up(folder: &Path, file: &Path) -> Result<(), Error> {
    let path = folder.join("data.sqlite");
    if !path.is_file() {
        let source = io::Error::from(io::ErrorKind::NotFound);
        return Err(Error::Folder { path: path.display().to_string(), source });
    }
    if file.exists() {
        let source = io::Error::from(io::ErrorKind::AlreadyExists);
        return Err(Error::Folder { path: file.display().to_string(), source });
    }
    // Not opened as a server does: one of another version may be using it.
    store::back_up(&path, file)?;
    let wrap = |source| Error::Folder { path: file.display().to_string(), source };
    fs::set_permissions(file, Permissions::from_mode(0o600)).map_err(wrap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_can_be_run() {
        for (name, text) in EXAMPLES {
            assert!(crate::drafts::check(text, &crate::inputs::Inputs::default()).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_folder_is_for_its_owner_and_for_one_server() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = parent.path().join("data");
        let password = init(&folder, "ann", None).expect("made").expect("generated");
        assert!(password.len() >= 24);
        assert!(matches!(init(&folder, "bob", None), Err(Error::HasUsers(_))));
        let mode = |path: &Path| fs::metadata(path).expect("exists").permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        assert_eq!(mode(&folder.join("data.sqlite")), 0o600);
        let first = open(&folder).expect("opens");
        assert!(matches!(open(&folder), Err(Error::InUse(_))));
        drop(first);
        open(&folder).expect("opens again");
    }

    #[test]
    fn a_backup_leaves_a_database_of_another_version_as_it_is() {
        let parent = tempfile::tempdir().expect("a folder");
        let (folder, copy) = (parent.path().join("data"), parent.path().join("copy.sqlite"));
        fs::create_dir(&folder).expect("made");
        let database = folder.join("data.sqlite");
        fs::write(&database, include_bytes!("../tests/schema-1.sqlite")).expect("written");
        back_up(&folder, &copy).expect("copied");
        let schema = |path: &Path| {
            let file = rusqlite::Connection::open(path).expect("opens");
            file.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0)).expect("read")
        };
        assert_eq!([schema(&database), schema(&copy)], [1, 1]);
    }

    #[test]
    fn a_damaged_database_is_found_and_the_newest_whole_backup_is_named() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = parent.path().join("data");
        init(&folder, "ann", None).expect("made");
        let (database, backups) = (folder.join("data.sqlite"), folder.join("backups"));
        fs::create_dir(&backups).expect("made");
        let copy = parent.path().join("copy.sqlite");
        back_up(&folder, &copy).expect("copied");
        let whole = fs::read(&copy).expect("read");
        for (day, bytes) in [(1, &whole[..]), (2, &whole[..]), (3, &whole[..whole.len() / 2])] {
            fs::write(backups.join(format!("2026-11-0{day}.sqlite")), bytes).expect("written");
        }
        let mut damaged = whole.clone();
        damaged[whole.len() / 2..].fill(0xa5);
        let refusal = |bytes: &[u8]| {
            for end in ["-wal", "-shm"] {
                let _ = fs::remove_file(folder.join(format!("data.sqlite{end}")));
            }
            fs::write(&database, bytes).expect("written");
            open(&folder).err().map(|error| error.to_string()).unwrap_or_default()
        };
        for bytes in [&whole[..whole.len() / 2], &damaged[..], b"no database at all, but some text", b""] {
            let text = refusal(bytes);
            assert!(text.contains("damaged") && text.contains("2026-11-02.sqlite"), "{text}");
        }
        assert_eq!(refusal(&whole), "");
        fs::remove_dir_all(&backups).expect("removed");
        assert!(refusal(&damaged).contains("no backup is whole"));
    }

    #[test]
    fn there_is_no_default_password() {
        let parent = tempfile::tempdir().expect("a folder");
        for (name, password) in [("ann", "ann"), ("ann", "password1234"), ("<b>", "correct horse battery")] {
            let result = init(&parent.path().join("data"), name, Some(password.to_owned()));
            assert!(matches!(result, Err(Error::Refused(_))), "{name} {password}");
        }
    }
}
