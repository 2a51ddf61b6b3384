//! Append-only audit log with a hash chain. Its key is a file next to the database: who has the database alone cannot forge it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bentpipe_agent::regular;
use bentpipe_emu::plain;
use hmac::{Hmac, Mac};
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use sha2::{Digest, Sha256};

use super::{Result, StoreError};
use crate::clock::{hex, now_ms, secret};
use crate::log;

/// File of the key, and file of the log's end.
const KEY: &str = "audit.key";
const END: &str = "audit.end";

/// Key of the chain.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    secret: Vec<u8>,
    /// Number of the first entry that has the key.
    ///
    /// Those of an older bentpipe have none.
    first: i64,
    /// Set if entries before have a key that was lost.
    is_after_loss: bool,
    end: Arc<KnownEnd>,
}

/// End of the log as it was when its file was written. A log that was emptied or cut since lacks it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct End {
    /// Number and hash of the last entry.
    last: (i64, Vec<u8>),
    /// Number of the last entry before a backup was restored.
    ///
    /// It is kept until the log has an entry of the restoration.
    before: Option<i64>,
}

impl End {
    fn words(&self) -> String {
        let (number, hash) = &self.last;
        let before = self.before.map(|before| format!(" before {before}")).unwrap_or_default();
        format!("{number} {}{before}", hex(hash))
    }

    fn parse(words: &str) -> Option<End> {
        let (number, hash, before) = match words.split(' ').collect::<Vec<_>>()[..] {
            [number, hash] => (number, hash, None),
            [number, hash, "before", before] => (number, hash, Some(before.parse().ok()?)),
            _ => return None,
        };
        Some(End { last: (number.parse().ok()?, unhex(hash)?), before })
    }
}

/// File of the log's end, and its content.
#[derive(Debug, Default)]
struct KnownEnd {
    path: PathBuf,
    end: Mutex<Option<End>>,
    /// Set once the key's file states that this one is there.
    ///
    /// An older bentpipe wrote no code of the key into it.
    is_stated: AtomicBool,
}

impl KnownEnd {
    fn lock(&self) -> MutexGuard<'_, Option<End>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last(&self) -> Option<(i64, Vec<u8>)> {
        self.lock().as_ref().map(|end| end.last.clone())
    }
}

/// Returns the text of the file of the log's end; `None` if it is missing.
fn read_end(path: &Path) -> Result<Option<String>> {
    match regular::read(path, MAX_FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        bytes => Ok(Some(String::from_utf8_lossy(&bytes.map_err(of_file(path))?).into_owned())),
    }
}

/// Returns an error that names its file.
fn of_file(path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |source| StoreError::File { path: path.display().to_string(), source }
}

/// Writes a file whose name is there once all of it is on disk.
fn write_whole(path: &Path, text: &str) -> Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".new");
    let write = || {
        let mut file =
            OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&unfinished)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, path)
    };
    write().map_err(of_file(path))
}

/// Writes the end of the log, also on a full disk.
///
/// The content is shorter than a block, which the file has already. It is written over, as another file has no room.
fn write_end(path: &Path, text: &str) -> Result<()> {
    write_whole(path, text).or_else(|refused| {
        let write = || {
            if !fs::symlink_metadata(path)?.is_file() {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let mut file = OpenOptions::new().write(true).open(path)?;
            file.write_all(text.as_bytes())?;
            file.set_len(text.len() as u64)?;
            file.sync_all()
        };
        write().map_err(|_| refused)
    })
}

/// Returns the bytes of hexadecimal digits.
fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs =
        text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2));
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

/// Returns number and hash of the last entry.
fn last_of(db: &Connection) -> Result<Option<(i64, Vec<u8>)>> {
    let query = "SELECT id, hash FROM audit ORDER BY id DESC LIMIT 1";
    Ok(db.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

/// Returns the number of a known entry that the log lacks.
fn lacks(db: &Connection, known: Option<&(i64, Vec<u8>)>) -> Result<Option<i64>> {
    let Some((number, hash)) = known else { return Ok(None) };
    let query = "SELECT EXISTS (SELECT 1 FROM audit WHERE id = ?1 AND hash = ?2)";
    let is_there: bool = db.query_row(query, params![number, hash], |row| row.get(0))?;
    Ok((!is_there).then_some(*number))
}

/// Entries that a backup lacks, as it takes the place of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Number of the last entry of the backup.
    pub last: i64,
    /// Number of the last entry that is known to have been. Default: it is not known.
    pub before: Option<i64>,
    /// Number of the first entry of the backup that was changed.
    pub broken: Option<i64>,
}

impl Lost {
    /// Returns the number of entries after the last one of the backup, if known.
    pub fn entries(&self) -> Option<i64> {
        Some((self.before? - self.last).max(0))
    }
}

/// Notes that a backup takes the place of the database.
///
/// Its end is the log's from here on. Without a key nothing is known of the log. The former file of the end is renamed.
///
/// # Errors
/// Returns an error if a file cannot be read, renamed or written, or the backup has no log.
pub(crate) fn restored(folder: &Path, backup: &Connection, former: Option<i64>) -> Result<Lost> {
    let (path, found) = (folder.join(END), last_of(backup)?);
    let last = found.as_ref().map_or(0, |(number, _)| *number);
    let Some(key) = Key::read(&folder.join(KEY))? else {
        put_aside(folder, END, now_ms())?;
        return Ok(Lost { last, before: former, broken: None });
    };
    let known = read_end(&path)?.and_then(|text| key.verified(&text));
    let known = known.map(|end| end.before.unwrap_or(0).max(end.last.0));
    let before = known.into_iter().chain(former).max();
    key.install(backup)?;
    let broken = broken_entry(backup, key.first_after_loss())?;
    put_aside(folder, END, now_ms())?;
    if let Some(last) = found {
        let end = End { last, before: Some(before.unwrap_or(UNKNOWN)) };
        write_whole(&path, &key.coded(&end))?;
    }
    Ok(Lost { last, before, broken })
}

fn put_aside(folder: &Path, name: &str, now: i64) -> Result<()> {
    let path = folder.join(name);
    match fs::rename(&path, folder.join(format!("{name}.before-{now}"))) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(of_file(&path)(error)),
        _ => Ok(()),
    }
}

/// Word of a key after entries whose key was lost.
const AFTER_LOSS: &str = "after-loss";
/// Word of a key that has a file of the log's end.
const WITH_END: &str = "with-end";
/// Number in place of the last entry before a restoration, if that is not known.
const UNKNOWN: i64 = -1;
/// Largest file of a key or of an end.
const MAX_FILE: u64 = 4096;

/// Treatment of a log with entries whose key is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Refusal: the log may have been changed with the key.
    Refused,
    /// New key, of which the log states from where on it counts.
    Replaced,
    /// Entries of an older bentpipe, which had none.
    Older,
}

impl Key {
    /// Reads the key in a folder, or makes one for the entries that come.
    ///
    /// # Errors
    /// Returns an error if it cannot be read or made, or if it is missing and must not be. So it is if the log lacks entries, or its end is not
    /// known though it was.
    pub(crate) fn of(folder: &Path, db: &Connection, missing: Missing) -> Result<Key> {
        let (path, end) = (folder.join(KEY), folder.join(END));
        match Key::read(&path)?.map(|key| key.with_end(&end, db)) {
            Some(Ok(key)) => {
                key.advance(db);
                return Ok(key);
            }
            Some(Err(StoreError::Cut { .. } | StoreError::NoEnd { .. })) if missing == Missing::Replaced => {
                put_aside(folder, END, now_ms())?;
                put_aside(folder, KEY, now_ms())?;
            }
            Some(Err(error)) => return Err(error),
            // The end of a log whose key was lost cannot be verified.
            None if missing == Missing::Replaced => put_aside(folder, END, now_ms())?,
            None => {}
        }
        let last: i64 = db.query_row("SELECT coalesce(max(id), 0) FROM audit", [], |row| row.get(0))?;
        // A user is never without an entry: one who emptied the log removed the key with it.
        let is_used: bool = db.query_row("SELECT EXISTS (SELECT 1 FROM user)", [], |row| row.get(0))?;
        let words = match missing {
            Missing::Refused if last > 0 || is_used => {
                return Err(StoreError::NoKey { path: path.display().to_string(), entries: last });
            }
            Missing::Replaced if last > 0 || is_used => format!("{} {} {AFTER_LOSS}\n", last + 1, secret()),
            _ => format!("{} {}\n", last + 1, secret()),
        };
        match OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path) {
            Ok(mut file) => {
                let written = file.write_all(words.as_bytes()).and_then(|()| file.sync_all());
                written.map_err(of_file(&path))?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(of_file(&path)(error)),
        }
        let key = Key::read(&path)?.ok_or_else(|| of_file(&path)(wrong()))?;
        key.advance(db);
        Ok(key)
    }

    /// Reads the end of the log, and compares the log with it.
    fn with_end(self, path: &Path, db: &Connection) -> Result<Key> {
        let shown = || path.display().to_string();
        let unknown = |why: &str| Err(StoreError::NoEnd { path: shown(), why: why.to_owned() });
        let is_stated = self.end.is_stated.load(Ordering::Relaxed);
        let end = match read_end(path)? {
            None if is_stated => return unknown("missing"),
            None => None,
            Some(text) => match self.verified(&text) {
                None if is_stated => return unknown("not what the server wrote with its key"),
                // An older bentpipe wrote no code.
                None => End::parse(text.trim_end()),
                end => end,
            },
        };
        if let Some(entry) = lacks(db, end.as_ref().map(|end| &end.last))? {
            return Err(StoreError::Cut { path: shown(), entry });
        }
        *self.end.lock() = end;
        Ok(self)
    }

    /// Notes the end of the log next to the key.
    ///
    /// It is written over on a full disk. A file system that needs room for that too has an older one until there is room.
    pub(crate) fn advance(&self, db: &Connection) {
        if let Err(error) = self.try_to_advance(db) {
            log::seldom(&format!("note: end of the audit log: {error}"));
        }
    }

    /// Notes the end of the log, unless the log lacks the one that is known.
    fn try_to_advance(&self, db: &Connection) -> Result<()> {
        let Some(found) = last_of(db)? else { return Ok(()) };
        let mut known = self.end.lock();
        let last = known.as_ref().map(|end| &end.last);
        let is_stated = self.end.is_stated.load(Ordering::Relaxed);
        let is_known = last == Some(&found) && is_stated;
        if is_known || lacks(db, last)?.is_some() {
            return Ok(());
        }
        // Until there is an entry of a restoration, what it lacks is known.
        let before = known.as_ref().filter(|end| end.last == found).and_then(|end| end.before);
        let end = End { last: found, before };
        write_end(&self.end.path, &self.coded(&end))?;
        *known = Some(end);
        if !is_stated {
            write_whole(&self.end.path.with_file_name(KEY), &self.words())?;
            self.end.is_stated.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns the text of the key's file once there is one of the log's end.
    fn words(&self) -> String {
        let after_loss = if self.is_after_loss { format!(" {AFTER_LOSS}") } else { String::new() };
        format!("{} {}{after_loss} {WITH_END}\n", self.first, String::from_utf8_lossy(&self.secret))
    }

    /// Returns the text of the file of an end: its words, and their code.
    fn coded(&self, end: &End) -> String {
        let words = end.words();
        format!("{words} {}\n", hex(&self.code(&words).finalize().into_bytes()))
    }

    /// Returns the end in a file, if it has the code of this key.
    fn verified(&self, text: &str) -> Option<End> {
        let (words, code) = text.strip_suffix('\n')?.rsplit_once(' ')?;
        self.code(words).verify_slice(&unhex(code)?).ok()?;
        End::parse(words)
    }

    fn code(&self, words: &str) -> Hmac<Sha256> {
        let mut code = self.hmac();
        code.update(b"end of the log\0");
        code.update(words.as_bytes());
        code
    }

    fn hmac(&self) -> Hmac<Sha256> {
        Hmac::<Sha256>::new_from_slice(&self.secret).expect("keys of any length are valid")
    }

    /// Returns the last entries of a restored backup and of the log before it.
    ///
    /// The log has no entry of the restoration yet.
    pub(crate) fn restored(&self) -> Option<Lost> {
        let end = self.end.lock().clone()?;
        let before = end.before?;
        Some(Lost { last: end.last.0, before: (before != UNKNOWN).then_some(before), broken: None })
    }

    /// Returns the first entry that can be verified, if an earlier key was lost.
    pub(crate) fn first_after_loss(&self) -> Option<i64> {
        self.is_after_loss.then_some(self.first)
    }

    fn read(path: &Path) -> Result<Option<Key>> {
        let bytes = match regular::read(path, MAX_FILE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes.map_err(of_file(path))?,
        };
        let text = String::from_utf8_lossy(&bytes);
        let words: Vec<&str> = text.split_whitespace().collect();
        let (first, secret, is_after_loss, is_stated) = match words[..] {
            [first, secret] => (first, secret, false, false),
            [first, secret, AFTER_LOSS] => (first, secret, true, false),
            [first, secret, WITH_END] => (first, secret, false, true),
            [first, secret, AFTER_LOSS, WITH_END] => (first, secret, true, true),
            _ => return Err(of_file(path)(wrong())),
        };
        let first = first.parse().map_err(|_| of_file(path)(wrong()))?;
        let (path, is_stated) = (path.with_file_name(END), AtomicBool::new(is_stated));
        let end = Arc::new(KnownEnd { path, end: Mutex::default(), is_stated });
        Ok(Some(Key { secret: secret.as_bytes().to_vec(), first, is_after_loss, end }))
    }

    /// Installs functions of SQL: hashes of entries, and the first verified one.
    ///
    /// # Errors
    /// Returns an error if the database refuses.
    pub(crate) fn install(&self, connection: &Connection) -> Result<()> {
        let (key, flags) = (self.clone(), FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DIRECTONLY);
        let first = self.first_after_loss();
        connection.create_scalar_function("audit_first", 0, flags, move |_| Ok(first))?;
        let end = Arc::clone(&self.end);
        connection.create_scalar_function("audit_known", 0, flags, move |_| {
            Ok(end.last().map(|(number, hash)| format!("{number} {}", hex(&hash))))
        })?;
        Ok(connection.create_scalar_function("audit_hash", 2, flags, move |context| {
            Ok(key.hash(context.get(0)?, &context.get::<Vec<u8>>(1)?))
        })?)
    }

    fn hash(&self, id: i64, content: &[u8]) -> Vec<u8> {
        if id < self.first {
            return Sha256::digest(content).to_vec();
        }
        let mut hash = self.hmac();
        hash.update(&id.to_be_bytes());
        hash.update(content);
        hash.finalize().into_bytes().to_vec()
    }
}

fn wrong() -> io::Error {
    io::Error::other("expected a number and a key")
}

/// Entry to be logged. It never holds passwords, tokens or scenario texts.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'a> {
    /// Name of the user, or what was entered at a login.
    pub(crate) user: &'a str,
    /// Address of the client.
    pub(crate) address: &'a str,
    /// Action, such as "log in".
    pub(crate) action: &'a str,
    /// Object of the action.
    pub(crate) object: &'a str,
    /// "done" or the reason of a refusal.
    pub(crate) outcome: &'a str,
}

/// Logged entry.
#[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "AuditEntry")]
pub(crate) struct Logged {
    /// Number, ascending.
    pub(crate) id: i64,
    /// Time in milliseconds since 1970, UTC.
    pub(crate) at: i64,
    /// Name of the user.
    pub(crate) user: String,
    /// Address of the client.
    pub(crate) address: String,
    /// Action.
    pub(crate) action: String,
    /// Object of the action.
    pub(crate) object: String,
    /// Outcome.
    pub(crate) outcome: String,
    /// Hash of the entry and those before it, in hexadecimal digits.
    ///
    /// The journal has that of the last entry, once a minute.
    pub(crate) hash: String,
}

/// Appends an entry.
pub(crate) fn append(db: &Transaction<'_>, entry: &Entry<'_>) -> Result<()> {
    let last: Option<(i64, Vec<u8>)> = db
        .query_row("SELECT id, hash FROM audit ORDER BY id DESC LIMIT 1", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let (last, before) = last.unwrap_or_default();
    let at = now_ms();
    let visible = |text: &str| plain::line(text).chars().take(200).collect::<String>();
    let texts = [entry.user, entry.address, entry.action, entry.object, entry.outcome].map(visible);
    let content = chained(&before, at, &texts);
    let [user, address, action, object, outcome] = texts;
    db.execute(
        "INSERT INTO audit(id, at, user, address, action, object, outcome, hash)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, audit_hash(?1, ?8))",
        params![last + 1, at, user, address, action, object, outcome, content],
    )?;
    Ok(())
}

/// Returns what an entry's hash is of.
fn chained(before: &[u8], at: i64, texts: &[String; 5]) -> Vec<u8> {
    let mut content = before.to_vec();
    content.extend(at.to_be_bytes());
    for text in texts {
        content.extend((text.len() as u64).to_be_bytes());
        content.extend(text.as_bytes());
    }
    content
}

fn logged(row: &rusqlite::Row<'_>) -> rusqlite::Result<Logged> {
    Ok(Logged {
        id: row.get(0)?,
        at: row.get(1)?,
        user: row.get(2)?,
        address: row.get(3)?,
        action: row.get(4)?,
        object: row.get(5)?,
        outcome: row.get(6)?,
        hash: hex(&row.get::<_, Vec<u8>>(7)?),
    })
}

/// Returns the entries before number `before`, newest first.
pub(crate) fn list(db: &Transaction<'_>, before: i64, limit: u32) -> Result<Vec<Logged>> {
    let mut query = db.prepare(
        "SELECT id, at, user, address, action, object, outcome, hash FROM audit WHERE id < ?1 ORDER BY id DESC LIMIT ?2",
    )?;
    let rows = query.query_map(params![before, limit], logged)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the first entry that can be verified, if an earlier key was lost.
pub(crate) fn first_after_loss(db: &Transaction<'_>) -> Result<Option<i64>> {
    Ok(db.query_row("SELECT audit_first()", [], |row| row.get(0))?)
}

/// Returns the number of the first entry whose hash is wrong.
///
/// Those whose key was lost cannot be verified. A log that lacks the entry which was the last one is broken there.
pub(crate) fn broken_at(db: &Transaction<'_>) -> Result<Option<i64>> {
    // First, as the log goes on meanwhile.
    let known: Option<String> = db.query_row("SELECT audit_known()", [], |row| row.get(0))?;
    let known = known.and_then(|text| {
        let (number, hash) = text.split_once(' ')?;
        Some((number.parse().ok()?, unhex(hash)?))
    });
    let broken = broken_entry(db, first_after_loss(db)?)?;
    broken.map_or_else(|| lacks(db, known.as_ref()), |entry| Ok(Some(entry)))
}

/// Returns the number of the first entry whose hash is wrong.
fn broken_entry(db: &Connection, first: Option<i64>) -> Result<Option<i64>> {
    let mut query =
        db.prepare("SELECT id, at, user, address, action, object, outcome, hash FROM audit ORDER BY id")?;
    let mut expected = db.prepare("SELECT audit_hash(?1, ?2)")?;
    let mut rows = query.query([])?;
    let (mut before, first) = (Vec::new(), first.unwrap_or(0));
    while let Some(row) = rows.next()? {
        let entry = logged(row)?;
        let texts = [entry.user, entry.address, entry.action, entry.object, entry.outcome];
        let hash: Vec<u8> = row.get(7)?;
        let content = chained(&before, entry.at, &texts);
        if entry.id >= first
            && hash != expected.query_row(params![entry.id, content], |row| row.get::<_, Vec<u8>>(0))?
        {
            return Ok(Some(entry.id));
        }
        before = hash;
    }
    Ok(None)
}

/// Returns number and hash of the last entry.
pub(crate) fn end(db: &Transaction<'_>) -> Result<Option<(i64, String)>> {
    Ok(list(db, i64::MAX, 1)?.pop().map(|entry| (entry.id, entry.hash)))
}
