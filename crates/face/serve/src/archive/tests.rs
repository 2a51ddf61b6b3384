use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::*;

const SUMMARY: &str = r#"{"title":"t","version":"0","axes":[],"points":[{"settings":{},"seeds":[1],"fingerprints":["f1"],"measures":{}}]}"#;
const OUTCOME: &str = r#"{"fingerprint":"f1"}"#;

fn entry(path: &str, content: &str) -> Entry {
    let sha256 = hex(&Sha256::digest(content));
    Entry { path: path.to_owned(), bytes: content.len() as u64, sha256 }
}

fn description() -> Description {
    let prints = Prints { settings: BTreeMap::new(), fingerprints: vec!["f1".to_owned()] };
    Description {
        format: FORMAT,
        program: "0".to_owned(),
        job: 7,
        kind: KindName::Simulate,
        name: "t".to_owned(),
        state: End::Done,
        message: String::new(),
        study: None,
        quick: false,
        search: None,
        sites: None,
        seeds: None,
        duration: None,
        note: String::new(),
        tags: Vec::new(),
        runs: 1,
        finished: 1,
        created: 0,
        started: None,
        ended: None,
        scenario: Some("title = \"t\"".to_owned()),
        inputs: vec![Input { name: "a.csv".to_owned(), bytes: 1, sha256: entry("", "a").sha256 }],
        points: vec![prints],
        files: vec![
            entry("summary.json", SUMMARY),
            entry("outcome.json", OUTCOME),
            entry("input/a.csv", "a"),
        ],
    }
}

/// Makes a zip file of a description and of files by their whole names.
fn packed(description: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    let mut archive = ZipWriter::new(&mut bytes);
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (name, content) in files.iter().chain(&[("job-7/bentpipe-job.json", description)]) {
        archive.start_file(*name, options).expect("begun");
        archive.write_all(content.as_bytes()).expect("written");
    }
    archive.finish().expect("finished");
    bytes.into_inner()
}

const FILES: [(&str, &str); 3] =
    [("job-7/summary.json", SUMMARY), ("job-7/outcome.json", OUTCOME), ("job-7/input/a.csv", "a")];

fn read(bytes: &[u8]) -> Result<Unpacked, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("archive.zip");
    fs::write(&path, bytes).expect("written");
    let into = folder.path().join("into");
    fs::create_dir(&into).expect("made");
    let result = unpack(&mut File::open(&path).expect("opened"), &into);
    assert_eq!(fs::read_dir(folder.path()).expect("read").count(), 2, "nothing outside of the folder");
    result
}

fn refused(description: &Description, files: &[(&str, &str)], why: &str) {
    let text = serde_json::to_string(description).expect("JSON");
    let error = read(&packed(&text, files)).expect_err(why);
    assert!(error.contains(why), "{error}");
}

#[test]
fn an_archive_is_read_as_it_was_made() {
    let text = serde_json::to_string(&description()).expect("JSON");
    let unpacked = read(&packed(&text, &FILES)).expect("read");
    assert_eq!((unpacked.description.job, unpacked.description.files.len()), (7, 3));
    assert_eq!(prints(&unpacked.summary.expect("a summary")), unpacked.description.points);
}

#[test]
fn files_that_are_not_as_the_job_left_them_are_refused() {
    let with_sums = |of_outcome: &str| {
        let sums = format!("{}  outcome.json\n{}  summary.json\n", of_outcome, entry("", SUMMARY).sha256);
        let mut description = description();
        description.files.push(entry("SHA256SUMS", &sums));
        (description, sums)
    };
    let whole = with_sums(&entry("", OUTCOME).sha256);
    let files = |sums: &'static str| [&FILES[..], &[("job-7/SHA256SUMS", sums)]].concat();
    let text = serde_json::to_string(&whole.0).expect("JSON");
    assert!(read(&packed(&text, &files(whole.1.leak()))).is_ok());
    // The list in the description was made of what was there at the export.
    let damaged = with_sums(&entry("", "another outcome").sha256);
    refused(
        &damaged.0,
        &files(damaged.1.leak()),
        "outcome.json: damaged: its SHA-256 is not that in SHA256SUMS",
    );
}

#[test]
fn lies_are_refused_in_words() {
    let good = description();
    let with = |change: &dyn Fn(&mut Description)| {
        let mut bad = good.clone();
        change(&mut bad);
        bad
    };
    refused(&with(&|bad| bad.files[0].sha256 = "0".repeat(64)), &FILES, "summary.json: expected the SHA-256");
    refused(&with(&|bad| bad.files[0].bytes -= 1), &FILES, "found more");
    refused(&with(&|bad| bad.files[2].bytes += 1), &FILES, "input/a.csv: expected the 2 bytes");
    refused(&with(&|bad| drop(bad.files.pop())), &FILES, "not listed");
    refused(&good, &FILES[..2], "but not there");
    refused(&with(&|bad| bad.files.push(bad.files[0].clone())), &FILES, "listed twice");
    refused(&with(&|bad| bad.files[0].bytes = MAX_UNPACKED), &FILES, "MiB of files: expected at most");
    refused(&with(&|bad| bad.format = 2), &FILES, "format: expected 1, found 2");
    refused(&with(&|bad| bad.points[0].fingerprints[0].push('x')), &FILES, "not those of bentpipe-job.json");
    refused(&with(&|bad| bad.inputs[0].name = "../a".to_owned()), &FILES, "inputs");
    refused(&with(&|bad| bad.inputs[0].sha256 = "/etc".to_owned()), &FILES, "inputs");
    let other = OUTCOME.replace("f1", "f2");
    let files = [FILES[0], ("job-7/outcome.json", &other[..]), FILES[2]];
    refused(&with(&|bad| bad.files[1] = entry("outcome.json", &other)), &files, "not those of summary.json");
}

#[test]
fn paths_that_leave_and_other_shapes_are_refused() {
    let good = description();
    for path in [
        "../x",
        "job-7/\u{202e}vsc.x",
        "job-7/a\u{200b}.csv",
        "job-7/../../x",
        "/etc/x",
        "job-7//x",
        "job-7/./x",
        "x",
        "job-7/a\\b",
        "job-7/c:x",
        "job-8/x",
        "job-7/\u{1}",
    ] {
        let mut files = FILES.to_vec();
        files.push((path, "x"));
        refused(&good, &files, "expected");
    }
    let error = read(b"PK").expect_err("cut");
    assert!(error.contains("not a whole zip file"), "{error}");
    let text = serde_json::to_string(&good).expect("JSON");
    let whole = packed(&text, &FILES);
    // Half of an archive, and a directory that states more files than are sensible.
    assert!(read(&whole[..whole.len() / 2]).is_err());
    let mut many = whole.clone();
    let end = many.len() - 12;
    many[end..end + 2].copy_from_slice(&60_000_u16.to_le_bytes());
    assert!(read(&many).expect_err("many").contains("expected at most 20000 files"));
    assert!(read(&packed(&text.replace("{", "[").replace("}", "]"), &FILES)).is_err());
}

#[test]
fn a_bomb_ends_at_the_size_that_was_stated() {
    let zeros = "0".repeat(32 << 20);
    let mut bad = description();
    bad.files.push(Entry { bytes: 100, ..entry("bomb", "") });
    let mut files = FILES.to_vec();
    files.push(("job-7/bomb", &zeros));
    refused(&bad, &files, "bomb: expected the 100 bytes that bentpipe-job.json states, found more");
}

#[test]
fn changed_bytes_are_refused_or_mean_the_same() {
    let text = serde_json::to_string(&description()).expect("JSON");
    let whole = packed(&text, &FILES);
    let mut accepted = 0;
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        if let Ok(unpacked) = read(&changed) {
            accepted += 1;
            assert_eq!(unpacked.description.files.len(), 3);
        }
    }
    // Dates, versions and attributes mean nothing here.
    assert!(accepted < whole.len() / 3, "{accepted} of {}", whole.len());
}

#[test]
fn large_files_that_are_compared_take_no_memory_but_for_what_is_kept() {
    let filler = "[],".repeat(100_000);
    let outcome = format!("{{\"x\":[{filler}[]],\"fingerprint\":\"f1\"}}");
    let mut good = description();
    good.files[1] = entry("outcome.json", &outcome);
    let files = [FILES[0], ("job-7/outcome.json", &outcome[..]), FILES[2]];
    let text = serde_json::to_string(&good).expect("JSON");
    assert!(read(&packed(&text, &files)).is_ok());
    // A list in its place is not an outcome.
    let list = format!("[{filler}[]]");
    good.files[1] = entry("outcome.json", &list);
    refused(&good, &[FILES[0], ("job-7/outcome.json", &list), FILES[2]], "outcome.json");
}
