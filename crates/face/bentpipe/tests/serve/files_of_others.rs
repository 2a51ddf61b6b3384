//! Scenarios that name files of the server, however their keys are spelt: none is opened, and none is mentioned.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use super::client::{Answer, SCENARIO, Server, User};

/// Content of the files that no user may read: words that no table begins with, and a table of values.
const SECRETS: [&str; 2] = ["root:$6$not-for-you:1\n", "time_s,link.l.rate\n0.1,987 kbit/s\n"];

/// Spellings of the last part of a key, as TOML texts: white space of ASCII and Unicode, quotation marks, escapes.
const SPELLINGS: [&str; 12] = [
    "file",
    "\\tfile",
    "file\\t",
    " file ",
    "\\u00a0file",
    "\\u2003file\\u3000",
    "\\\"file\\\"",
    "fi\\\"le",
    "\\\" file",
    "\\u0066ile",
    "File",
    "f\\u0131le",
];

struct Lab {
    server: Server,
    zero: User,
    uno: User,
    secrets: [String; 2],
}

impl Lab {
    fn new() -> Lab {
        let server = Server::new();
        let boss = server.boss();
        let (zero, uno) = (server.user(&boss, "zero", 0), server.user(&boss, "uno", 1));
        let secrets = [0, 1].map(|n| {
            let path = server.folder.path().join(format!("secret-{n}"));
            std::fs::write(&path, SECRETS[n]).expect("written");
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("set");
            path.display().to_string()
        });
        let lab = Lab { server, zero, uno, secrets };
        lab.upload("own.csv", b"time_s,link.l.rate\n0.1,2 Mbit/s\n");
        lab.upload("other.csv", b"time_s,link.l.rate\n0.2,3 Mbit/s\n");
        lab
    }

    fn upload(&self, name: &str, content: &[u8]) {
        let content = std::str::from_utf8(content).expect("text");
        let path = format!("/api/v1/files?name={name}");
        let headers = [("content-type", "application/octet-stream"), ("sec-fetch-site", "same-origin")];
        assert_eq!(self.server.send(&self.uno, ("POST", &path), &headers, content).status, 201);
    }

    /// Asserts that an answer has nothing of a secret, and no place in the server's data.
    fn assert_silent(&self, text: &str, answer: &Answer) {
        let data = self.server.data().display().to_string();
        // What a user wrote may be quoted.
        let data = if text.contains(&data) { "not-for-you" } else { &data };
        for word in ["not-for-you", "987 kbit", "os error", "Permission", "secret-0:", "secret-1:", data] {
            assert!(!answer.body.contains(word), "{word} of {text}: {answer:?}");
        }
    }

    /// Checks and launches a scenario that names files which are not its user's.
    fn assert_refused(&self, text: &str) {
        let checked = self.server.api(&self.zero, "POST", "/check", &json!({ "text": text }));
        assert_ne!(checked.json()["problems"], json!([]), "{text}: {checked:?}");
        self.assert_silent(text, &checked);
        let scenario = self.server.scenario(&self.uno, text);
        let sites = "[task.t]\nsite = \"nosuch\"\nprogram = \"emulate\"\nduration = \"2 s\"\n";
        for settings in
            [json!({}), json!({ "campaign": true }), json!({ "sites": sites }), json!({ "seeds": 2 })]
        {
            let mut body = settings;
            body["scenario"] = json!(scenario);
            let answer = self.server.api(&self.uno, "POST", "/jobs", &body);
            assert_eq!(answer.status, 422, "{text}: {answer:?}");
            self.assert_silent(text, &answer);
        }
        let page = self.server.send(&self.uno, ("GET", &format!("/scenarios/{scenario}")), &[], "");
        self.assert_silent(text, &page);
    }
}

/// Returns scenarios that name a file by a key of a sweep.
fn sweeps(spelling: &str, file: &str) -> Vec<String> {
    let event = format!("{SCENARIO}[[event]]\nat = \"0.1 s\"\nset = {{ \"link.l.rate\" = \"2 Mbit/s\" }}\n");
    let key = format!("event.0.{spelling}");
    vec![
        format!("{event}[sweep]\n\"{key}\" = [\"{file}\", \"x\"]\n"),
        format!("{event}[sweep]\n\"{key}\" = [\"own.csv\", \"{file}\"]\n"),
        format!("{event}[sweep.mine]\n\"{key}\" = [\"{file}\", \"x\"]\n"),
        format!("{event}[sweep.mine.event.0]\n\"{spelling}\" = [\"{file}\"]\n"),
        format!("{SCENARIO}[sweep]\n\"link.l.delay_changes.{spelling}\" = [\"{file}\", \"x\"]\n"),
        format!(
            "{SCENARIO}[sweep]\n\"flow.f.traffic.{spelling}\" = [\"{file}\"]\n\"flow.f.traffic.kind\" = [\"replay\"]\n"
        ),
        format!(
            "{SCENARIO}[sweep.s]\n\"link.l.channel.\\tkind\" = [\"trace\", \"trace\"]\n\
             \"link.l.channel.{spelling}\" = [\"{file}\", \"x\"]\n"
        ),
    ]
}

#[test]
fn no_spelling_of_a_key_opens_a_file_of_the_server() {
    let lab = Lab::new();
    for (n, spelling) in SPELLINGS.iter().enumerate() {
        for text in sweeps(spelling, &lab.secrets[n % 2]) {
            for user in [&lab.zero, &lab.uno] {
                let checked = lab.server.api(user, "POST", "/check", &json!({ "text": text }));
                assert_ne!(checked.json()["problems"], json!([]), "{text}: {checked:?}");
                lab.assert_silent(&text, &checked);
            }
        }
    }
    for n in 0..2 {
        lab.assert_refused(&sweeps(SPELLINGS[1 + n], &lab.secrets[n])[n]);
    }
}

#[test]
fn no_form_of_a_value_opens_a_file_of_the_server() {
    let lab = Lab::new();
    let [secret, table] = &lab.secrets;
    let escaped = secret.replace("secret", "\\u0073ecret");
    let dots = format!("own.csv/../../../../../../../../{secret}");
    for text in [
        format!("{SCENARIO}[[event]]\nat = \"0.1 s\"\nfile = \"{secret}\"\n"),
        format!("{SCENARIO}[[event]]\nat = \"0.1 s\"\nfile = \"{table}\"\n"),
        format!("{SCENARIO}[[event]]\nat = \"0.1 s\"\nfile = \"{escaped}\"\n"),
        format!("{SCENARIO}[[event]]\nat = \"0.1 s\"\nfile = \"{dots}\"\n"),
        format!("{SCENARIO}[[event]]\nat = \"0.1 s\"\nfile = \"own.csv\\u0000{table}\"\n"),
        format!("{SCENARIO}[[event]]\nat = \"0.1 s\"\n\"fi\\u006ce\" = '{secret}'\n"),
        format!("event = [{{ at = \"0.1 s\", file = \"{table}\" }}]\n{SCENARIO}"),
        format!(
            "event = [{{ at = \"0.1 s\", file = \"own.csv\" }}, {{ at = \"0.5 s\", file = \"{table}\" }}]\n{SCENARIO}"
        ),
        format!("{SCENARIO}[sweep]\nevent = [[{{ at = \"0.1 s\", file = \"{table}\" }}]]\n"),
        SCENARIO.replace("delay = \"10 ms\"", &format!("delay_changes.file = \"{secret}\"")),
        SCENARIO.replace("delay = \"10 ms\"", &format!("delay_changes = {{ file = \"{secret}\" }}")),
        SCENARIO
            .replace("delay = \"10 ms\"", &format!("forward.delay_changes = {{ \"file\" = \"{secret}\" }}")),
        SCENARIO
            .replace("delay = \"10 ms\"", &format!("channel = {{ kind = \"trace\", file = \"{secret}\" }}")),
        SCENARIO.replace("\"tcp\" }", &format!("\"replay\", file = \"{secret}\" }}")),
        SCENARIO.replace("traffic = { kind = \"tcp\" }", &format!("replay = {{ file = \"{secret}\" }}")),
        format!(
            "{SCENARIO}[[event]]\nat = \"0.1 s\"\nset = {{ \"link.l.delay_changes.\\tfile\" = \"{secret}\" }}\n"
        ),
        format!(
            "{SCENARIO}[[event]]\nat = \"0.1 s\"\nset = {{ link = {{ l = {{ delay_changes = {{ file = \"{secret}\" }} }} }} }}\n"
        ),
    ] {
        lab.assert_refused(&text);
    }
}

#[test]
fn no_question_of_a_search_opens_a_file_of_the_server() {
    let lab = Lab::new();
    let text = format!("{SCENARIO}[[event]]\nat = \"0.1 s\"\nfile = \"own.csv\"\n");
    let id = lab.server.scenario(&lab.uno, &text);
    let [secret, table] = &lab.secrets;
    for over in [
        format!("event.0.file=[\"{secret}\",\"x\"]"),
        format!("event.0.\"file\"=[\"{table}\",\"x\"]"),
        format!("event.0.fi\"le=[\"{secret}\",\"x\"]"),
        format!("event.0.\tfile=[\"{table}\"]"),
        format!("event.0.\u{a0}file=[\"own.csv\", \"{table}\"]"),
        format!("event.0={{ file = [\"{secret}\"] }}"),
        format!("event.0={{ \"\tfile\" = [\"{table}\"] }}"),
        format!("event=[[{{ at = \"0.1 s\", file = \"{table}\" }}]]"),
        format!("link.l={{ delay_changes = {{ file = [\"{secret}\"] }} }}"),
        format!("\" event\".0.file=[\"{table}\"]"),
    ] {
        let body = json!({ "scenario": id, "search": { "over": over, "while": ["flow.f.loss <= 1 %"] } });
        let answer = lab.server.api(&lab.uno, "POST", "/jobs", &body);
        assert_eq!(answer.status, 422, "{over}: {answer:?}");
        lab.assert_silent(&over, &answer);
    }
}

#[test]
fn a_file_of_another_job_stays_there() {
    let lab = Lab::new();
    let text = format!("{SCENARIO}[[event]]\nat = \"0.1 s\"\nfile = \"own.csv\"\n");
    let scenario = lab.server.scenario(&lab.uno, &text);
    let id = lab.server.launch(&lab.uno, &json!({ "scenario": scenario, "duration": "1 s" }));
    lab.server.wait_for(&lab.uno, id, "done");
    let inputs = lab.server.data().join(format!("jobs/{id}/input/own.csv"));
    assert!(inputs.is_file(), "{}", inputs.display());
    for victim in [inputs.display().to_string(), format!("../../{id}/input/own.csv")] {
        for text in sweeps("\\tfile", &victim) {
            lab.assert_refused(&text);
        }
    }
}

#[test]
fn own_files_are_read_by_every_spelling_and_at_every_point() {
    let lab = Lab::new();
    let text = format!(
        "{SCENARIO}[[event]]\nat = \"0.1 s\"\nfile = \"own.csv\"\n[sweep]\n\"event.0.\\tfile\" = [\"own.csv\", \"other.csv\"]\n"
    );
    let scenario = lab.server.scenario(&lab.uno, &text);
    for settings in [json!({}), json!({ "campaign": true })] {
        let mut body = settings;
        (body["scenario"], body["duration"]) = (json!(scenario), json!("1 s"));
        let id = lab.server.launch(&lab.uno, &body);
        lab.server.wait_for(&lab.uno, id, "done");
        let artifacts =
            lab.server.api(&lab.uno, "GET", &format!("/jobs/{id}/artifacts"), &Value::Null).json();
        for name in ["input/own.csv", "input/other.csv"] {
            assert!(
                artifacts.as_array().expect("a list").iter().any(|one| one["path"] == name),
                "{artifacts}"
            );
        }
    }
}

/// Runs a command in a folder, with the folder's `input` as the only one of its scenario. Returns its errors.
fn with_inputs(folder: &Path, arguments: &[&str]) -> Result<(), String> {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_bentpipe"))
        .current_dir(folder)
        .args(arguments)
        .args(["--inputs", "input"])
        .output()
        .expect("runs");
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
fn a_child_opens_the_files_of_its_input_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("input");
    std::fs::create_dir(&input).expect("made");
    std::fs::write(folder.path().join("secret.csv"), SECRETS[1]).expect("written");
    std::fs::write(input.join("own.csv"), SECRETS[1]).expect("written");
    std::os::unix::fs::symlink("../secret.csv", input.join("link.csv")).expect("linked");
    let scenario = input.join("scenario.toml");
    let text = |file: &str| format!("{SCENARIO}[[event]]\nat = \"0.1 s\"\nfile = \"{file}\"\n");
    let path = scenario.to_str().expect("text");
    let commands: [&[&str]; 5] = [
        &["check", path],
        &["run", path, "--out", "runs", "--quiet", "--seeds", "1"],
        &[
            "search",
            path,
            "--over",
            "link.l.delay=10 ms to 20 ms by 10 ms",
            "--while",
            "flow.f.goodput >= 1 bit/s",
            "--quiet",
        ],
        &["campaign", "run", "campaign", "--scenario", path, "--gather", "--quiet"],
        &["run", path, "--out", "confined", "--quiet", "--confine"],
    ];
    for command in commands {
        std::fs::write(&scenario, text("own.csv")).expect("written");
        let _ = std::fs::remove_dir_all(folder.path().join("campaign"));
        with_inputs(folder.path(), command).unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let absolute = folder.path().join("secret.csv").display().to_string();
        for file in ["../secret.csv", "link.csv", "/etc/passwd", &absolute, "none.csv"] {
            std::fs::write(&scenario, text(file)).expect("written");
            let error = with_inputs(folder.path(), command).expect_err("refused");
            assert!(error.contains("not among the scenario's inputs"), "{command:?}: {file}: {error}");
            assert!(!error.contains("987") && !error.contains("root:"), "{file}: {error}");
        }
    }
    // Nothing outside is written either.
    std::fs::write(&scenario, text("own.csv")).expect("written");
    let outside = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let out = outside.path().join("out").display().to_string();
    let written = with_inputs(folder.path(), &["run", path, "--out", &out, "--quiet", "--confine"]);
    assert!(written.is_err() || !bentpipe_emu::privileges::has_landlock(), "{written:?}");
}
