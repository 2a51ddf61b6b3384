//! The interface against its own description, by schemathesis: thousands of requests that fit it or just do not.

use std::path::PathBuf;
use std::process::Command;

use bentpipe_testkit::skip;
use serde_json::json;

use super::client::{SCENARIO, Server};

/// Requests a second: fewer than a user has.
const RATE: &str = "40/s";

#[test]
fn answers_are_as_the_description_says() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    let folder = std::env::var("BENTPIPE_PYTHON").unwrap_or_else(|_| format!("{root}/target/python/bin"));
    let program = PathBuf::from(folder).join("schemathesis");
    if !program.exists() {
        return skip(&format!("{} is missing; `cargo xtask python` installs it", program.display()));
    }
    let server = Server::new();
    let boss = server.boss();
    let ann = server.user(&boss, "ann", 1);
    let scenario = server.scenario(&ann, SCENARIO);
    let job = server.launch(&ann, &json!({ "scenario": scenario }));
    server.wait_for(&ann, job, "done");
    let made = server.api(&ann, "POST", "/me/tokens", &json!({ "name": "t", "scope": "run", "days": 1 }));
    let token = made.json()["secret"].as_str().expect("a secret").to_owned();
    let output = Command::new(program)
        .args(["run", &format!("http://{}/api/v1/openapi.json", server.host)])
        .args(["--header", &format!("Authorization: Bearer {token}")])
        .args(["--phases", "coverage,fuzzing", "--max-examples", "6", "--seed", "1", "--rate-limit", RATE])
        // Streams do not end; sessions and tokens would end the one in use.
        .args(["--exclude-path-regex", "/stream|/session|me/password|me/tokens"])
        // A scenario that fits the schema may still be refused, with the reason.
        .args(["--exclude-checks", "positive_data_acceptance", "--no-color"])
        .current_dir(server.folder.path())
        .output()
        .expect("runs");
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}");
    assert!(report.contains(" passed"), "{report}");
}
