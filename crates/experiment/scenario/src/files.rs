//! Files that a scenario names: access to them, and reading up to a limit.
//!
//! A scenario opens a file through the [`Access`] of its document and in no other way. `Access::default` opens nothing,
//! [`Access::beneath`] the files of a folder. Access to any file is in `bentpipe-paths`, which the controller and the agent
//! do not have.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bentpipe_net::channel::{ContactFile, Outage};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::error::Origin;
use crate::tree::{Node, Value};

/// Most characters of a name in messages.
const MAX_SHOWN: usize = 100;

/// Opens the files that a scenario may read.
pub trait Resolver: fmt::Debug + Send + Sync {
    /// Opens a file by the name that the scenario gives it, without waiting.
    ///
    /// # Errors
    /// Returns an error if the file is not one of those that may be read, or cannot be.
    fn open(&self, name: &Path) -> io::Result<File>;

    /// Returns the start of relative names, for messages. Empty where names alone are known.
    fn folder(&self) -> &Path {
        Path::new("")
    }
}

/// Access to the files that a scenario names.
#[derive(Clone, Debug)]
pub struct Access(Arc<dyn Resolver>);

impl Default for Access {
    /// Returns access to no file.
    fn default() -> Access {
        Access(Arc::new(NoFile))
    }
}

impl Access {
    /// Returns access through a resolver.
    pub fn new(resolver: impl Resolver + 'static) -> Access {
        Access(Arc::new(resolver))
    }

    /// Returns access to the regular files below a folder. No link leads out of it.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be opened.
    pub fn beneath(folder: &Path) -> io::Result<Access> {
        Ok(Access::new(Beneath { folder: open_folder(folder)?, names: None }))
    }

    /// Returns access to files of a folder by the names that scenarios have for them.
    ///
    /// Each such name comes with the one in the folder.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be opened.
    pub fn named(folder: &Path, files: impl IntoIterator<Item = (String, String)>) -> io::Result<Access> {
        let names = Some(files.into_iter().collect());
        Ok(Access::new(Beneath { folder: open_folder(folder)?, names }))
    }

    /// Opens a file by its name, without waiting for a pipe's writer.
    ///
    /// # Errors
    /// Returns an error if the scenario has no access to it, or it cannot be opened.
    pub fn open(&self, name: &Path) -> io::Result<File> {
        self.0.open(name)
    }

    /// Returns the bytes of a file of at most `most` bytes, as [`read_at_most`] does.
    ///
    /// # Errors
    /// Returns an error if the scenario has no access to it, or it cannot be read, or is longer.
    pub fn read_at_most(&self, name: &Path, most: u64) -> io::Result<Vec<u8>> {
        read_at_most(self.open(name)?, most)
    }

    /// Returns the start of relative names. Empty where names alone are known.
    pub fn folder(&self) -> &Path {
        self.0.folder()
    }

    /// Returns the path by which a file is known in manifests.
    pub fn path(&self, name: &Path) -> PathBuf {
        self.folder().join(name)
    }

    /// Returns a file's name for messages.
    pub fn shown(&self, name: &Path) -> String {
        let shown = self.path(name).display().to_string();
        match self.folder().as_os_str().is_empty() && shown.chars().nth(MAX_SHOWN).is_some() {
            true => shown.chars().take(MAX_SHOWN).chain("...".chars()).collect(),
            false => shown,
        }
    }
}

/// Resolver that opens nothing.
#[derive(Debug)]
struct NoFile;

impl Resolver for NoFile {
    fn open(&self, _: &Path) -> io::Result<File> {
        Err(io::Error::new(io::ErrorKind::NotFound, "this scenario may read no file"))
    }
}

/// Resolver of the files below a folder.
#[derive(Debug)]
struct Beneath {
    folder: OwnedFd,
    /// Files that may be read, by their names in scenarios.
    ///
    /// `None` for all below the folder.
    names: Option<BTreeMap<String, String>>,
}

impl Resolver for Beneath {
    fn open(&self, name: &Path) -> io::Result<File> {
        let own = |names: &BTreeMap<String, String>| name.to_str().and_then(|name| names.get(name)).cloned();
        let name = match &self.names {
            Some(names) => PathBuf::from(own(names).ok_or_else(not_an_input)?),
            None => name.to_owned(),
        };
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat2(&self.folder, &name, flags, Mode::empty(), beneath);
        let file = File::from(opened.map_err(refusal)?);
        if !file.metadata()?.is_file() {
            return Err(not_an_input());
        }
        Ok(file)
    }
}

/// Returns the reason for a file that did not open, if it may be shown.
fn refusal(errno: Errno) -> io::Error {
    match errno {
        Errno::NOSYS | Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO => errno.into(),
        _ => not_an_input(),
    }
}

fn not_an_input() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "not among the scenario's inputs: expected the name of one")
}

fn open_folder(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // An empty path is the present folder.
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    Ok(rustix::fs::open(folder, flags, Mode::empty())?)
}

/// Byte order mark of UTF-8, which spreadsheets write in front of text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Returns the bytes of a file of at most `most` bytes. It may be a device without end. A byte order mark is left out.
///
/// # Errors
/// Returns the file system's error, or an error if the file is longer, which is found without reading all of it, or is a
/// pipe that no program writes to.
pub fn read_at_most(file: File, most: u64) -> io::Result<Vec<u8>> {
    let bytes = read_beyond(file, most)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {most} bytes")));
    }
    Ok(bytes)
}

/// Returns the bytes of a file, one more than `most` if it has more.
///
/// # Errors
/// Returns the file system's error, or an error if it is a pipe that no program writes to.
pub fn read_beyond(file: File, most: u64) -> io::Result<Vec<u8>> {
    let is_pipe = file.metadata()?.file_type().is_fifo();
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if is_pipe && bytes.is_empty() {
        return Err(io::Error::other("a pipe that no program writes to"));
    }
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(bytes)
}

/// Maximum length of a contact plan's file.
const MAX_PLAN_BYTES: u64 = 1 << 24;

/// Returns the outages that the contacts of a file leave.
///
/// # Errors
/// Returns the key of the channel's `contacts` and its problem.
pub fn outages(contacts: &ContactFile, access: &Access) -> Result<Vec<Outage>, (&'static str, String)> {
    let shown = access.shown(&contacts.file);
    let wrong = |problem: &dyn fmt::Display| ("file", format!("{shown}: {problem}"));
    let bytes = access.read_at_most(&contacts.file, MAX_PLAN_BYTES).map_err(|error| wrong(&error))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong(&"not text in UTF-8"))?;
    bentpipe_dtn::outages(&text, &contacts.from, &contacts.to)
        .map_err(|(part, problem)| if part == "file" { wrong(&problem) } else { (part, problem) })
}

/// Last parts of the keys whose texts are names of files.
const FILE_KEYS: [&str; 3] = ["file", "samples", "sizes"];

/// Returns `true` if a key, in its normal form, names files.
pub fn is_file_key(key: &str) -> bool {
    FILE_KEYS.contains(&key.rsplit('.').next().unwrap_or(key))
}

/// Returns `true` if an assignment KEY=VALUE names a file.
pub fn names_file(assignment: &str) -> bool {
    let (key, value) = assignment.split_once('=').unwrap_or((assignment, ""));
    let (key, mut found) = (crate::key::normal(key), Vec::new());
    let node = Node::of_text(value.trim(), &Origin::Override(assignment.into()));
    names_in(&key, &node, &mut found);
    is_file_key(&key) || !found.is_empty()
}

/// Appends the names of files in a value, each with its key.
pub(crate) fn names_in<'a>(key: &str, node: &'a Node, found: &mut Vec<(String, &'a Node)>) {
    match &node.value {
        Value::String(_) if is_file_key(key) => found.push((key.to_owned(), node)),
        Value::Array(items) => {
            let of_item = |n: usize| if is_file_key(key) { key.to_owned() } else { format!("{key}.{n}") };
            items.iter().enumerate().for_each(|(n, item)| names_in(&of_item(n), item, found));
        }
        Value::Table(table) => table.iter().for_each(|(part, _, inner)| {
            let part = crate::key::normal(part);
            let key = if key.is_empty() { part } else { format!("{key}.{part}") };
            names_in(&key, inner, found);
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_no_text() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("delays.csv");
        std::fs::write(&path, "\u{feff}time_s,delay_ms\n").expect("written");
        let file = File::open(&path).expect("opened");
        assert_eq!(read_at_most(file, 100).expect("read"), b"time_s,delay_ms\n");
    }

    #[test]
    fn nothing_but_the_files_below_a_folder_opens() {
        let outside = tempfile::tempdir().expect("a folder");
        std::fs::write(outside.path().join("secret"), "not for you").expect("written");
        let folder = outside.path().join("input");
        std::fs::create_dir_all(folder.join("sub")).expect("made");
        std::fs::write(folder.join("own.csv"), "own").expect("written");
        std::fs::write(folder.join("sub/own.csv"), "below").expect("written");
        for (to, link) in
            [("../secret", "out"), ("own.csv", "in"), ("/proc/self/environ", "magic"), ("..", "up")]
        {
            std::os::unix::fs::symlink(to, folder.join(link)).expect("linked");
        }
        let access = Access::beneath(&folder).expect("a folder");
        let read = |name: &str| access.read_at_most(Path::new(name), 100);
        for (name, content) in
            [("own.csv", "own"), ("sub/own.csv", "below"), ("in", "own"), ("sub/../own.csv", "own")]
        {
            assert_eq!(read(name).expect(name), content.as_bytes());
        }
        let absolute = outside.path().join("secret").display().to_string();
        let own = folder.join("own.csv").display().to_string();
        for name in [
            "",
            ".",
            "..",
            "sub",
            "none",
            "../secret",
            "sub/../../secret",
            "out",
            "magic",
            "up/secret",
            "/etc/passwd",
            "/proc/self/environ",
            &absolute,
            &own,
            "own.csv\0",
            "\u{a0}own.csv",
            "OWN.CSV",
        ] {
            let error = read(name).expect_err(name);
            assert_eq!(
                error.to_string(),
                "not among the scenario's inputs: expected the name of one",
                "{name:?}"
            );
        }
        let one = Access::named(&folder, [("own.csv".to_owned(), "own.csv".to_owned())]).expect("a folder");
        assert!(one.open(Path::new("own.csv")).is_ok() && one.open(Path::new("sub/own.csv")).is_err());
        assert!(Access::default().open(Path::new("own.csv")).is_err());
    }

    #[test]
    fn names_of_files_are_found_in_every_form() {
        let names = |text: &str| {
            let document = crate::Document::parse("f.toml", text.as_bytes()).expect("TOML");
            document.named_files().into_iter().collect::<Vec<_>>()
        };
        for text in [
            "[a]\nfile = \"x\"",
            "a = { b = [{ file = \"x\" }] }",
            "[[a]]\nfile = \"x\"",
            "a.file = \"x\"",
            "a = { model = { sizes = \"x\" } }",
            "\"fi\\u006ce\" = \"x\"",
            "[[event]]\nset = { \"a.\\tfile\" = \"x\" }",
            "[[event]]\nset = { a = { \" file\" = \"x\" } }",
            "[sweep]\n\"a.file\" = [1, \"x\"]",
            "[sweep]\n\"a.\\tfile\" = [\"x\"]",
            "[sweep]\n\"a.\\u00a0file\" = [\"x\"]",
            "[sweep.v]\n\"a.fi\\\"le\" = [\"x\"]",
            "[sweep]\na = [{ b = { file = \"x\" } }]",
            "[sweep.v.a]\n\"\\tsamples\" = [\"x\"]",
        ] {
            assert_eq!(names(text), ["x"], "{text}");
        }
        assert_eq!(names("[node.file]\nkind = \"host\"\n[x]\nsizes = [1.0, 2.0, 3.0]"), Vec::<String>::new());
        for assignment in
            ["a.\tfile=x", "a.\"file\"='x'", "event.0={ file = \"x\" }", "a.b={c = {\"sizes\"=[\"x\"]}}"]
        {
            assert!(names_file(assignment), "{assignment}");
        }
        assert!(!names_file("flow.f.count='1 to 9'") && !names_file("link.l.rate=\"1 Mbit/s\""));
    }

    #[test]
    fn a_message_has_the_name_and_no_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let access = Access::beneath(folder.path()).expect("a folder");
        assert_eq!(access.shown(Path::new("a.csv")), "a.csv");
        assert_eq!(access.shown(Path::new(&"a".repeat(200))).len(), MAX_SHOWN + 3);
    }
}
