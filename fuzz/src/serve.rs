//! Checks on `bentpipe-serve`: an archive of a job is unpacked into its folder or refused in words, and never leaves it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Function under test.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[("archive", fuzz_archive), ("content", fuzz_content)];

/// Most bytes of files that a refused or accepted archive may leave: those of the input, unpacked.
const MAX_LEFT: u64 = 64 << 20;

/// Bytes as a zip file.
pub fn fuzz_archive(data: &[u8]) {
    unpacked(data);
}

/// A description and files as JSON, of which a zip file is made that has no error of its own.
///
/// `{"description": {..}, "files": [[name, content], ..], "is_listed": true}`: with `is_listed` the description gets the right list.
pub fn fuzz_content(data: &[u8]) {
    let Ok(mut input) = serde_json::from_slice::<Value>(data) else { return };
    let names = input["files"].as_array().cloned().unwrap_or_default();
    let files: Vec<(String, String)> = names
        .iter()
        .filter_map(|file| Some((file[0].as_str()?.to_owned(), file[1].as_str()?.to_owned())))
        .take(50)
        .collect();
    if input["is_listed"] == true && input["description"].is_object() {
        let entries: BTreeMap<&str, Value> = files
            .iter()
            .filter_map(|(name, content)| Some((name.split_once('/')?.1, content)))
            .map(|(path, content)| {
                let hash: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
                (path, json!({ "path": path, "bytes": content.len(), "sha256": hash }))
            })
            .collect();
        input["description"]["files"] = entries.into_values().collect();
    }
    let top =
        files.first().and_then(|(name, _)| name.split_once('/')).map_or("job-1", |(top, _)| top).to_owned();
    let mut bytes = Cursor::new(Vec::new());
    let mut archive = ZipWriter::new(&mut bytes);
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let description = (format!("{top}/bentpipe-job.json"), input["description"].to_string());
    for (name, content) in files.iter().chain([&description]) {
        // Two of a name, or one that is too long, cannot be made.
        if archive.start_file(&name[..], options).is_ok() {
            archive.write_all(content.as_bytes()).expect("memory");
        }
    }
    archive.finish().expect("memory");
    unpacked(&bytes.into_inner());
}

/// Unpacks an archive in a folder of its own, and checks what is there then.
fn unpacked(archive: &[u8]) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = Scratch(parent.join(format!("bentpipe-fuzz-{}-{number}", std::process::id())));
    fs::create_dir(&folder.0).expect("a folder");
    let path = folder.0.join("archive.zip");
    fs::write(&path, archive).expect("written");
    let into = folder.0.join("into");
    let result = bentpipe_serve::unpack_archive(&mut File::open(&path).expect("there"), &into);
    let left = fs::read_dir(&folder.0).expect("read").count();
    assert_eq!(left, 2, "something outside of the folder");
    let bytes = sizes(&into);
    assert!(bytes <= MAX_LEFT, "{bytes} bytes");
    if let Err(why) = result {
        assert!(!why.is_empty() && why.len() < 10_000, "{} bytes of words", why.len());
    }
}

/// Returns the bytes of all files below a folder; none of them is a link.
fn sizes(folder: &Path) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let data = fs::symlink_metadata(entry.path()).expect("there");
        assert!(data.is_dir() || data.is_file(), "a link");
        bytes += if data.is_dir() { sizes(&entry.path()) } else { data.len() };
    }
    bytes
}

/// Folder that is removed.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
