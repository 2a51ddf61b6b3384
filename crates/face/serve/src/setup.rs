//! Data folder: creation, lock, first administrator, backup.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::api::name_refusal;
use crate::backup::{self, Proof};
use crate::children::LimitsError;
use crate::store::audit::{self, Entry, Lost, Missing};
use crate::store::people;
use crate::store::scenarios;
use crate::store::{self, Store, StoreError};
use crate::{clock, password, reserve};

/// Scenarios that a new data folder has, shared by the first administrator.
const EXAMPLES: &[(&str, &str)] = &[
    ("First look", include_str!("../../../../scenarios/first-look.toml")),
    ("Geostationary satellite", include_str!("../../../../scenarios/geo.toml")),
    ("Router with RED", include_str!("../../../../scenarios/red-router.toml")),
    ("Lossy link, swept", include_str!("../../../../scenarios/lossy-link-sweep.toml")),
    ("Calls over a geostationary satellite", include_str!("../../../../scenarios/voice-geo.toml")),
    ("Return link by demand assignment", include_str!("../../../../scenarios/return-link.toml")),
    ("Deep space", include_str!("../../../../scenarios/deep-space.toml")),
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
    #[error("{0}: another server uses this data folder: stop it first")]
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
    open_with(folder, Missing::Refused)
}

/// Opens a data folder as [`open`], and makes a key where none is.
///
/// The log has an entry of it.
pub(crate) fn open_with_new_key(folder: &Path) -> Result<Data, Error> {
    let data = open_with(folder, Missing::Replaced)?;
    if let Some(first) = data.store.first_after_loss() {
        let object = format!("entries before {first} cannot be verified");
        let entry =
            Entry { user: "", address: "", action: "make audit key", object: &object, outcome: "done" };
        data.store.write(|db| {
            let end = audit::end(db)?.map_or(0, |(id, _)| id);
            if end < first { audit::append(db, &entry) } else { Ok(()) }
        })?;
    }
    Ok(data)
}

fn open_with(folder: &Path, missing: Missing) -> Result<Data, Error> {
    let wrap = |source| Error::Folder { path: folder.display().to_string(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(wrap)?;
    refuse_foreign_owner(folder).map_err(wrap)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(wrap)?;
    refuse_network_file_system(folder).map_err(wrap)?;
    let open = |name: &str| {
        OpenOptions::new().create(true).append(true).mode(0o600).open(folder.join(name)).map_err(wrap)
    };
    let lock = lock(folder)?;
    // On a full disk the database needs some room to be opened.
    reserve::release(folder);
    // SQLite gives its journal the permissions of the database.
    open("data.sqlite")?;
    let database = folder.join("data.sqlite");
    check(folder, &database)?;
    let store = Store::open_with(&database, missing)?;
    log_restoration(&store)?;
    Ok(Data { store, lock })
}

/// Logs a restoration since the last start.
fn log_restoration(store: &Store) -> Result<(), Error> {
    let Some(lost) = store.restored() else { return Ok(()) };
    let object = match (lost.before, lost.entries()) {
        (None, _) | (_, None) => format!("what came after entry {} is not known", lost.last),
        (Some(before), Some(1..)) => format!("entries {} to {before} are not in it", lost.last + 1),
        _ => "no entry is missing".to_owned(),
    };
    let entry = Entry { user: "", address: "", action: "restore database", object: &object, outcome: "done" };
    Ok(store.write(|db| audit::append(db, &entry))?)
}

/// Locks a data folder until the result is dropped.
fn lock(folder: &Path) -> Result<File, Error> {
    let path = folder.join("lock");
    let wrap = |source| Error::Folder { path: path.display().to_string(), source };
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(wrap)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| Error::InUse(folder.display().to_string()))?;
    Ok(file)
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
    let advice = match backup() {
        Some(backup) => format!(
            "the newest whole backup is {0}: `bentpipe serve restore {0} --data {1}{2}` takes it; what came after it is lost",
            backup.display(),
            folder.display(),
            if backup::is_without_hash(&backup) { " --without-hash" } else { "" }
        ),
        None => "no backup is whole: take one that `bentpipe serve backup` made elsewhere".to_owned(),
    };
    Err(Error::Damaged { path: database.display().to_string(), why, advice })
}

/// Returns the newest backup that is as it was made.
///
/// If none has a hash, it is one whose structure is whole.
fn newest_whole(folder: &Path) -> Option<PathBuf> {
    let all = backup::list(folder);
    let newest = |proof| all.iter().rev().find(|path| backup::check(path, proof).is_ok()).cloned();
    newest(Proof::Required).or_else(|| newest(Proof::Waived))
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

/// Copies the database of a data folder, which may be in use, with its hash.
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
    Ok(backup::make(&path, file)?)
}

/// Backup that took the place of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Name that the former database has from then on, if there was one.
    pub before: Option<PathBuf>,
    /// Entries of the audit log that the backup lacks. The log has an entry of it once a server has started.
    pub lost: Lost,
    /// Set if the backup has no hash.
    pub is_unproven: bool,
    /// Sessions, tokens and recovery codes of the backup that have ended.
    pub ended: usize,
}

/// Treatment of the sessions, tokens and recovery codes of a backup.
///
/// Those that ended after it was made would be valid again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logins {
    /// End all.
    End,
    /// Keep all, as after the loss of a disk.
    Keep,
}

/// Replaces the database of a data folder by a backup, while no server runs.
///
/// # Errors
/// Returns an error if the backup is not as it was made, has no hash that is required, a server runs, or files cannot be moved.
pub fn restore(folder: &Path, file: &Path, proof: Proof, logins: Logins) -> Result<Restored, Error> {
    let wrap = |source| Error::Folder { path: folder.display().to_string(), source };
    match backup::check(file, proof) {
        Err(StoreError::Damaged(why)) => {
            let advice = match backup::is_without_hash(file) {
                true => {
                    "take another backup, or `--without-hash` if it is of an older bentpipe: a flipped bit of it stays then"
                }
                false => "take another backup",
            };
            let advice = advice.to_owned();
            return Err(Error::Damaged { path: file.display().to_string(), why, advice });
        }
        checked => checked?,
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(wrap)?;
    let _lock = lock(folder)?;
    let (database, copy) = (folder.join("data.sqlite"), folder.join("data.sqlite.restored"));
    let copied = || {
        fs::copy(file, &copy)?;
        fs::set_permissions(&copy, Permissions::from_mode(0o600))?;
        backup::unseal(&copy)?;
        File::open(&copy)?.sync_all()
    };
    copied().map_err(wrap)?;
    let ended = if logins == Logins::End { store::end_logins(&copy)? } else { 0 };
    let before = folder.join(format!("data.sqlite.before-{}", clock::now_ms()));
    let (has_one, former) = (database.exists(), store::last_entry(&database));
    for end in ["-wal", "-shm", ""] {
        let with_end = |path: &Path| PathBuf::from(format!("{}{end}", path.display()));
        match fs::rename(with_end(&database), with_end(&before)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(wrap(error)),
            _ => {}
        }
    }
    let lost = store::restored(folder, &copy, former)?;
    fs::rename(&copy, &database).map_err(wrap)?;
    let is_unproven = backup::is_without_hash(file);
    Ok(Restored { before: has_one.then_some(before), lost, is_unproven, ended })
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
    fn what_was_revoked_after_a_backup_is_not_valid_again() {
        let parent = tempfile::tempdir().expect("a folder");
        let (folder, copy) = (parent.path().join("data"), parent.path().join("copy.sqlite"));
        init(&folder, "ann", None).expect("made");
        let database = folder.join("data.sqlite");
        let count = || -> i64 {
            let db = rusqlite::Connection::open(&database).expect("opens");
            let query = "SELECT (SELECT count(*) FROM token) + (SELECT count(*) FROM recovery_code)";
            db.query_row(query, [], |row| row.get(0)).expect("counted")
        };
        let db = rusqlite::Connection::open(&database).expect("opens");
        let rows = "INSERT INTO token(hash, user, name, scope, created, expires) VALUES (x'01', 1, 't', 'run', 1, 2); \
                    INSERT INTO recovery_code(user, hash) VALUES (1, x'02'), (1, x'03')";
        db.execute_batch(rows).expect("written");
        drop(db);
        back_up(&folder, &copy).expect("copied");
        let kept = restore(&folder, &copy, Proof::Required, Logins::Keep).expect("restored");
        assert_eq!((kept.ended, count()), (0, 3));
        let restored = restore(&folder, &copy, Proof::Required, Logins::End).expect("restored");
        assert_eq!((restored.ended, count()), (3, 0));
        assert!(open(&folder).is_ok());
    }

    #[test]
    fn a_backup_is_restored_if_each_of_its_bits_is_there() {
        let parent = tempfile::tempdir().expect("a folder");
        let (folder, copy) = (parent.path().join("data"), parent.path().join("copy.sqlite"));
        init(&folder, "ann", None).expect("made");
        back_up(&folder, &copy).expect("copied");
        let sum = backup::sum_of(&copy);
        assert!(fs::read_to_string(&sum).expect("a hash").ends_with("  copy.sqlite\n"));
        let whole = fs::read(&copy).expect("read");
        // In the middle of a text, where the structure stays whole.
        let mut flipped = whole.clone();
        let at = whole.windows(10).rposition(|ten| ten == b"First look").expect("an example");
        flipped[at] ^= 1;
        fs::write(&copy, &flipped).expect("written");
        assert!(store::check_backup(&copy).is_ok(), "the structure does not show it");
        let error = restore(&folder, &copy, Proof::Required, Logins::Keep).expect_err("refused").to_string();
        assert!(error.contains("copy.sqlite: damaged: its SHA-256 is not that"), "{error}");
        fs::write(&copy, &whole).expect("written");
        let running = open(&folder).expect("opens");
        assert!(matches!(restore(&folder, &copy, Proof::Required, Logins::Keep), Err(Error::InUse(_))));
        running.store.write(|db| people::add(db, "bob", "x", 1)).expect("added");
        drop(running);
        let Restored { before, lost, .. } =
            restore(&folder, &copy, Proof::Required, Logins::Keep).expect("restored");
        assert!(before.expect("one before").exists());
        assert_eq!((lost.entries(), lost.broken), (Some(0), None));
        assert_eq!(open(&folder).expect("opens").store.read(people::count).expect("read"), 1);
    }

    #[test]
    fn a_backup_has_its_hash_and_an_older_one_is_taken_by_choice() {
        let parent = tempfile::tempdir().expect("a folder");
        let (folder, copy) = (parent.path().join("data"), parent.path().join("copy.sqlite"));
        init(&folder, "ann", None).expect("made");
        back_up(&folder, &copy).expect("copied");
        fs::remove_file(backup::sum_of(&copy)).expect("removed");
        let whole = fs::read(&copy).expect("read");
        // Each place, with the file of the hash gone: pages, texts, free room, the seal.
        for at in (0..whole.len()).step_by(whole.len() / 200).chain(whole.len() - 120..whole.len()) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(&copy, &flipped).expect("written");
            let error =
                restore(&folder, &copy, Proof::Required, Logins::Keep).expect_err("refused").to_string();
            assert!(error.contains("copy.sqlite"), "{at}: {error}");
        }
        fs::write(&copy, &whole).expect("written");
        restore(&folder, &copy, Proof::Required, Logins::Keep).expect("restored");
        assert_eq!(open(&folder).expect("opens").store.read(people::count).expect("read"), 1);
        backup::unseal(&copy).expect("cut");
        let error = restore(&folder, &copy, Proof::Required, Logins::Keep).expect_err("refused").to_string();
        assert!(error.contains("no hash is at its end") && error.contains("`--without-hash`"), "{error}");
        restore(&folder, &copy, Proof::Waived, Logins::Keep).expect("restored");
        assert_eq!(open(&folder).expect("opens").store.read(people::count).expect("read"), 1);
    }

    #[test]
    fn a_backup_of_a_later_version_or_of_something_else_is_not_restored() {
        let parent = tempfile::tempdir().expect("a folder");
        let (folder, copy) = (parent.path().join("data"), parent.path().join("copy.sqlite"));
        init(&folder, "ann", None).expect("made");
        for (version, word) in
            [(99, "schema 99 is of a later version"), (0, "no schema of a test controller")]
        {
            back_up(&folder, &copy).expect("copied");
            backup::unseal(&copy).expect("cut");
            let raw = rusqlite::Connection::open(&copy).expect("opens");
            raw.pragma_update(None, "user_version", version).expect("set");
            drop(raw);
            fs::remove_file(backup::sum_of(&copy)).expect("removed");
            let error =
                restore(&folder, &copy, Proof::Waived, Logins::Keep).expect_err("refused").to_string();
            assert!(error.contains(word), "{error}");
            fs::remove_file(&copy).expect("removed");
        }
        fs::write(&copy, []).expect("written");
        assert!(restore(&folder, &copy, Proof::Required, Logins::Keep).is_err(), "an empty file");
        assert_eq!(open(&folder).expect("opens").store.read(people::count).expect("read"), 1, "as before");
    }

    #[test]
    fn a_restoration_says_what_the_backup_lacks() {
        let parent = tempfile::tempdir().expect("a folder");
        let (folder, copy) = (parent.path().join("data"), parent.path().join("copy.sqlite"));
        init(&folder, "ann", None).expect("made");
        back_up(&folder, &copy).expect("copied");
        fn entry(object: &str) -> Entry<'_> {
            Entry { user: "ann", address: "", action: "add user", object, outcome: "done" }
        }
        let log = |objects: &[&str]| {
            let data = open(&folder).expect("opens");
            for object in objects {
                data.store.write(|db| audit::append(db, &entry(object))).expect("logged");
            }
        };
        log(&["bob", "cid", "dan"]);
        let lost = restore(&folder, &copy, Proof::Required, Logins::Keep).expect("restored").lost;
        assert_eq!((lost.last, lost.before, lost.entries(), lost.broken), (1, Some(4), Some(3), None));
        let logged = || {
            let data = open(&folder).expect("opens");
            data.store
                .read(|db| {
                    let all = audit::list(db, i64::MAX, 99)?;
                    Ok::<_, StoreError>((audit::broken_at(db)?, all))
                })
                .expect("read")
        };
        let (broken, all) = logged();
        assert_eq!((broken, all.len(), &all[0].action[..]), (None, 2, "restore database"));
        assert_eq!(all[0].object, "entries 2 to 4 are not in it");
        // Once: a later start has nothing to add. A log that was cut in the backup has fewer entries, and one that was changed is named.
        assert_eq!(logged().1.len(), 2);
        fs::remove_file(&copy).expect("removed");
        log(&["eve"]);
        back_up(&folder, &copy).expect("copied");
        backup::unseal(&copy).expect("cut");
        let raw = rusqlite::Connection::open(&copy).expect("opens");
        raw.execute_batch(
            "DROP TRIGGER audit_is_whole; DROP TRIGGER audit_is_kept; DELETE FROM audit WHERE id > 2;
             UPDATE audit SET object = 'x' WHERE id = 2",
        )
        .expect("forged");
        drop(raw);
        fs::remove_file(backup::sum_of(&copy)).expect("removed");
        let lost = restore(&folder, &copy, Proof::Waived, Logins::Keep).expect("restored").lost;
        assert_eq!((lost.last, lost.entries(), lost.broken), (2, Some(1), Some(2)));
        // The end of the log is then the backup's, and none is missing.
        fs::remove_file(folder.join("audit.end")).expect("removed");
        let error = open(&folder).err().expect("refused").to_string();
        assert!(error.contains("audit.end: missing"), "{error}");
        let lost = restore(&folder, &copy, Proof::Waived, Logins::Keep).expect("restored").lost;
        assert_eq!((lost.last, lost.before), (2, Some(2)), "that of the database before");
    }

    #[test]
    fn a_hash_is_one_line_and_only_regular_files_are_read() {
        let parent = tempfile::tempdir().expect("a folder");
        let (folder, copy) = (parent.path().join("data"), parent.path().join("copy.sqlite"));
        init(&folder, "ann", None).expect("made");
        back_up(&folder, &copy).expect("copied");
        let sum = backup::sum_of(&copy);
        let right = fs::read_to_string(&sum).expect("a hash");
        let refused = |copy: &Path| {
            restore(&folder, copy, Proof::Required, Logins::Keep).expect_err("refused").to_string()
        };
        let other = format!("{}  copy.sqlite\n", "0".repeat(64));
        for text in
            [format!("{other}{right}"), format!("{right}{right}"), String::new(), format!("{right}\n")]
        {
            fs::write(&sum, text).expect("written");
            assert!(refused(&copy).contains("as the one line"), "{}", refused(&copy));
        }
        let pipe = |path: &Path| {
            let (kind, mode) = (rustix::fs::FileType::Fifo, 0o600.into());
            rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).expect("made");
        };
        fs::remove_file(&sum).expect("removed");
        pipe(&sum);
        assert!(refused(&copy).contains("not a regular file"), "{}", refused(&copy));
        fs::remove_file(&sum).expect("removed");
        fs::create_dir(&sum).expect("made");
        assert!(refused(&copy).contains("not a regular file"), "{}", refused(&copy));
        fs::remove_dir(&sum).expect("removed");
        let other = parent.path().join("pipe");
        pipe(&other);
        for path in [&other, parent.path(), Path::new("/dev/zero")] {
            assert!(refused(path).contains("not a regular file"), "{}", refused(path));
        }
        assert!(folder.join("data.sqlite").exists());
        fs::write(&sum, right).expect("written");
        restore(&folder, &copy, Proof::Required, Logins::Keep).expect("restored");
        drop(open(&folder).expect("opens"));
        // Files next to the database are named as such.
        for name in ["audit.end", "audit.key"] {
            let (path, aside) = (folder.join(name), folder.join("aside"));
            fs::rename(&path, &aside).expect("moved");
            pipe(&path);
            let error = open(&folder).err().expect("refused").to_string();
            assert_eq!(error, format!("{}: not a regular file", path.display()));
            fs::rename(&aside, &path).expect("moved back");
        }
        drop(open(&folder).expect("opens"));
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
        for (day, bytes) in
            [(1, &whole[..]), (2, &whole[..]), (3, &whole[..whole.len() / 2]), (4, &whole[..])]
        {
            fs::write(backups.join(format!("2026-11-0{day}.sqlite")), bytes).expect("written");
        }
        // The newest one has another hash, though its structure is whole.
        let sum = format!("{}  2026-11-04.sqlite\n", "0".repeat(64));
        fs::write(backup::sum_of(&backups.join("2026-11-04.sqlite")), sum).expect("written");
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
