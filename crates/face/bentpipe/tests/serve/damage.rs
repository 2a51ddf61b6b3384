//! Damage on the disk: of results, of backups, and of the key of the audit log.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::client::{SCENARIO, Server, initialised};

/// Flips a bit in the middle of a file.
fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(path, bytes).expect("written");
}

/// Runs the program with a data folder, and returns what it says.
fn serve(words: &[&str], data: &Path) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_bentpipe"))
        .arg("serve")
        .args(words)
        .arg("--data")
        .arg(data)
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

#[test]
fn a_flipped_bit_in_results_is_named_and_not_given_away() {
    let server = Server::new();
    let boss = server.boss();
    let swept = format!(
        "{SCENARIO}[probe]\ncapture = [\"a:l\"]\n[sweep]\n\"link.l.delay\" = \"10 to 20 ms by 10 ms\"\n"
    );
    let id = server.scenario(&boss, &swept);
    let job = server.launch(&boss, &json!({ "scenario": id }));
    server.wait_for(&boss, job, "done");
    let get = |path: &str| server.send(&boss, ("GET", path), &[], "");
    let archive = format!("/api/v1/jobs/{job}/archive");
    assert_eq!(get(&archive).status, 200);
    let all = server.api(&boss, "GET", &format!("/jobs/{job}/artifacts"), &Value::Null).json();
    let results = server.data().join(format!("jobs/{job}/results"));
    let folder: PathBuf =
        std::fs::read_dir(results).expect("results").next().expect("a folder").expect("an entry").path();
    let (mut damaged, mut streamed) = (0, 0);
    for file in all.as_array().expect("a list") {
        let path = file["path"].as_str().expect("a path");
        let download = format!("/api/v1/jobs/{job}/artifacts/{}", file["number"]);
        let whole = std::fs::read(folder.join(path)).expect("read");
        assert_eq!(get(&download).status, 200, "{path}");
        flip(&folder.join(path));
        // A list of checksums is found by those that it lists.
        let is_list = path.ends_with("SHA256SUMS");
        if !path.ends_with(".html") {
            let refused = get(&archive);
            assert!(refused.status == 500 && refused.body.contains(": damaged:"), "{path}: {refused:?}");
            assert!(is_list || refused.body.contains(path), "{path}: {refused:?}");
            if !is_list {
                let refused = get(&download);
                assert!(refused.status == 500 && refused.body.contains(path), "{path}: {refused:?}");
            }
            if path.ends_with(".pcap") {
                for packets in ["packets", "packets/stream"] {
                    let refused = get(&format!("/api/v1/jobs/{job}/{packets}?capture={path}"));
                    assert!(refused.status == 500 && refused.body.contains(path), "{packets}: {refused:?}");
                    streamed += 1;
                }
            }
            damaged += 1;
        }
        std::fs::write(folder.join(path), whole).expect("written");
    }
    assert!(damaged > 10 && streamed > 0, "{all}");
    assert_eq!(get(&archive).status, 200);
    // Words about a series name it below the job alone.
    let series = all
        .as_array()
        .expect("a list")
        .iter()
        .find(|file| file["path"].as_str().is_some_and(|path| path.ends_with("series.parquet")));
    flip(&folder.join(series.expect("a series")["path"].as_str().expect("a path")));
    let refused = get(&format!("/api/v1/jobs/{job}/series?select=*"));
    assert!(refused.status == 422 && refused.body.contains("series.parquet: damaged"), "{refused:?}");
    let data = server.data().display().to_string();
    assert!(!refused.body.contains(&data) && !refused.body.contains("jobs/"), "{refused:?}");
}

#[test]
fn a_backup_has_its_hash_and_is_restored_if_it_is_whole() {
    let folder = initialised();
    let (data, copy) = (folder.path().join("data"), folder.path().join("copy.sqlite"));
    let name = copy.display().to_string();
    assert!(serve(&["backup", &name], &data).0.status.success());
    let check = || {
        let mut command = Command::new("sha256sum");
        command.args(["--check", "--quiet", "copy.sqlite.sha256"]).current_dir(folder.path());
        command.output().expect("runs").status.success()
    };
    assert!(check());
    let whole = std::fs::read(&copy).expect("read");
    flip(&copy);
    assert!(!check());
    let (output, said) = serve(&["restore", &name], &data);
    assert!(!output.status.success() && said.contains("copy.sqlite: damaged"), "{said}");
    std::fs::write(&copy, whole).expect("written");
    let (output, said) = serve(&["restore", &name], &data);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && printed.contains("data.sqlite.before-"), "{said}");
    assert!(!said.contains("no hash"), "{said}");
    // A hash of another file says nothing of this one.
    let sum = folder.path().join("copy.sqlite.sha256");
    let hash = std::fs::read_to_string(&sum).expect("read");
    std::fs::write(&sum, hash.replace("copy.sqlite", "other.sqlite")).expect("written");
    let (output, said) = serve(&["restore", &name], &data);
    assert!(!output.status.success() && said.contains("no SHA-256 of copy.sqlite"), "{said}");
    std::fs::remove_file(&sum).expect("there was one");
    // It has its hash itself. One of an older version, without, is taken by choice.
    let (output, said) = serve(&["restore", &name], &data);
    assert!(output.status.success() && !said.contains("no hash"), "{said}");
    let whole = std::fs::read(&copy).expect("read");
    let seal = whole.windows(16).rposition(|bytes| bytes == b"\nbentpipe backup").expect("a seal");
    std::fs::write(&copy, &whole[..seal]).expect("written");
    let (output, said) = serve(&["restore", &name], &data);
    assert!(!output.status.success() && said.contains("--without-hash"), "{said}");
    let (output, said) = serve(&["restore", "--without-hash", &name], &data);
    assert!(output.status.success() && said.contains("the copy has no hash"), "{said}");
    let server = Server::in_folder(folder, &[]);
    server.boss();
}

#[test]
fn a_closed_terminal_ends_a_server_in_order() {
    let mut server = Server::new();
    server.boss();
    let sent = Command::new("kill").args(["-HUP", &server.id().to_string()]).status().expect("runs");
    assert!(sent.success());
    assert!(server.ended().success(), "as with SIGTERM");
    // A copy of the one file is a copy of the database.
    let left = std::fs::metadata(server.data().join("data.sqlite-wal")).map_or(0, |log| log.len());
    assert_eq!(left, 0, "bytes of changes in the log alone");
}

#[test]
fn a_server_whose_audit_key_is_gone_starts_by_choice_alone_and_says_so() {
    let folder = initialised();
    let data = folder.path().join("data");
    std::fs::remove_file(data.join("audit.key")).expect("there was one");
    let (output, said) = serve(&["--listen", "127.0.0.1:0"], &data);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("audit.key: missing") && said.contains("--new-audit-key"), "{said}");
    let server = Server::in_folder(folder, &["--new-audit-key"]);
    let boss = server.boss();
    let page = server.send(&boss, ("GET", "/audit"), &[], "").body;
    assert!(
        page.contains("Entries before 2 cannot be verified") && page.contains("make audit key"),
        "{page}"
    );
    assert!(page.contains("The chain of hashes is whole"), "{page}");
}
