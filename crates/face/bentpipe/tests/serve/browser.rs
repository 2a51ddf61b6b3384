//! Journeys through the pages in a real browser.

use std::path::Path;
use std::process::Command;

use bentpipe_testkit::{Folder, able_live, has, skip};

use super::client::{PASSWORD, Server};

#[test]
fn journeys_in_a_browser() {
    if !["chromium", "node", "npm"].into_iter().all(has) {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser");
    std::fs::create_dir_all(&folder).expect("a folder");
    for name in ["package.json", "package-lock.json", "journeys.mjs"] {
        std::fs::copy(source.join(name), folder.join(name)).expect("copied");
    }
    // Written last: an installation that was interrupted is made again.
    let mark = folder.join("node_modules/installed");
    if !mark.exists() {
        let install = ["ci", "--ignore-scripts", "--no-audit", "--fetch-timeout=20000", "--fetch-retries=1"];
        let installed = Command::new("npm").args(install).current_dir(&folder).status();
        if !installed.is_ok_and(|status| status.success()) {
            return skip("`npm ci` of tests/browser installs nothing: the registry of npm does not answer");
        }
        std::fs::write(mark, "").expect("written");
    }
    // The server, its emulations and the browser are in one place.
    let turn = able_live(&["iperf3", "ping"]);
    let studies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../studies");
    let server = Server::with(&["--studies", &studies.display().to_string()]);
    let mut journeys = Command::new("node");
    journeys.arg("journeys.mjs").arg(format!("http://{}", server.host)).arg(PASSWORD).current_dir(&folder);
    journeys.env(
        "BENTPIPE_SENSOR_FIELD",
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/sensor-field.toml"),
    );
    // Chromium has a socket there.
    let short = Folder::short();
    journeys.env("TMPDIR", &short);
    if turn.is_some() {
        journeys.env("BENTPIPE_EMULATES", "1");
    }
    if let Some(pictures) = std::env::var_os("BENTPIPE_PICTURES") {
        journeys.arg(pictures);
    }
    let output = journeys.output().expect("runs");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{}\n{}", text[0], text[1]);
}
