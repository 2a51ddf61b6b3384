//! TLS of the server itself, judged by curl and OpenSSL.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use bentpipe_testkit::has;
use serde_json::json;

use super::client::{PASSWORD, initialised};

/// Server with a certificate that it made.
struct Secure {
    folder: tempfile::TempDir,
    child: Child,
    /// Address without the scheme.
    host: String,
    fingerprint: String,
}

impl Secure {
    fn start(listen: &str, further: &[&str]) -> Secure {
        let folder = initialised();
        let mut child = Command::new(env!("CARGO_BIN_EXE_bentpipe"))
            .args(["serve", "--listen", listen, "--self-signed", "--data"])
            .arg(folder.path().join("data"))
            .args(further)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut after = |start: &str| {
            let line = lines.next().expect("a line").expect("text");
            line.strip_prefix(start).unwrap_or_else(|| panic!("{line}")).to_owned()
        };
        let host = after("bentpipe serve: https://");
        let fingerprint = after("certificate: SHA-256 ");
        Secure { folder, child, host, fingerprint }
    }

    fn certificate(&self) -> PathBuf {
        self.folder.path().join("data/certificate.pem")
    }

    fn port(&self) -> &str {
        self.host.rsplit_once(':').expect("a port").1
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn curl(trust: Option<&Path>, arguments: &[&str]) -> Output {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--noproxy", "*", "--max-time", "20"]).args(arguments);
    if let Some(file) = trust {
        command.arg("--cacert").arg(file);
    }
    command.output().expect("runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn browsers_and_programs_reach_it_by_its_certificate_alone() {
    if !has("curl") {
        return;
    }
    let server = Secure::start("127.0.0.1:0", &[]);
    let url = format!("https://localhost:{}", server.port());
    let trust = server.certificate();
    let login = curl(Some(&trust), &["--include", &format!("{url}/login")]);
    let page = text(&login.stdout);
    assert!(page.starts_with("HTTP/1.1 200"), "{page} {}", text(&login.stderr));
    assert!(page.contains("strict-transport-security: max-age="), "{page}");
    // Code 60: the certificate is not trusted.
    assert_eq!(curl(None, &[&url]).status.code(), Some(60));

    let body = json!({ "name": "boss", "password": PASSWORD }).to_string();
    let mut session = vec!["--include", "--data", &body, "--header", "content-type: application/json"];
    session.extend(["--header", "sec-fetch-site: none"]);
    let api = format!("{url}/api/v1/session");
    session.push(&api);
    let answer = text(&curl(Some(&trust), &session).stdout);
    let cookies: Vec<&str> = answer.lines().filter(|line| line.starts_with("set-cookie:")).collect();
    assert_eq!(cookies.len(), 2, "of the session and of the device: {answer}");
    for cookie in cookies {
        assert!(cookie.contains("__Host-bentpipe-") && cookie.contains("; Secure"), "{cookie}");
    }

    let remote = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
        command.args(["remote", "--server", &url]).args(arguments).arg("get-health");
        command.output().expect("runs")
    };
    let answer = remote(&["--ca", &trust.display().to_string()]);
    assert!(answer.status.success(), "{}", text(&answer.stderr));
    let refused = text(&remote(&[]).stderr);
    assert!(refused.contains("certificate"), "{refused}");
}

#[test]
fn old_versions_of_tls_are_refused() {
    if !has("openssl") {
        return;
    }
    let server = Secure::start("127.0.0.1:0", &[]);
    let speaks = |version: &str| {
        let mut client = Command::new("openssl");
        client.args(["s_client", "-connect", &server.host, version, "-cipher", "ALL@SECLEVEL=0"]);
        let output = client.stdin(Stdio::null()).output().expect("runs");
        output.status.success().then(|| text(&output.stdout))
    };
    for version in ["-tls1", "-tls1_1"] {
        assert!(speaks(version).is_none(), "{version}");
    }
    for version in ["-tls1_2", "-tls1_3"] {
        assert!(speaks(version).is_some_and(|answer| answer.contains("CN = localhost")), "{version}");
    }
    let file = server.certificate().display().to_string();
    let print = ["x509", "-noout", "-fingerprint", "-sha256", "-ext", "subjectAltName", "-in", &file];
    let printed = text(&Command::new("openssl").args(print).output().expect("runs").stdout);
    assert!(printed.contains(&server.fingerprint), "{printed}");
    assert!(printed.contains("DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1"), "{printed}");
}

#[test]
fn clear_text_is_answered_in_words_and_silence_holds_nobody_up() {
    if !has("curl") {
        return;
    }
    let server = Secure::start("127.0.0.1:0", &[]);
    let mut plain = TcpStream::connect(&server.host).expect("connected");
    plain.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("written");
    let mut answer = String::new();
    let _ = plain.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("https://"), "{answer}");
    let silent: Vec<TcpStream> =
        (0..50).map(|_| TcpStream::connect(&server.host).expect("connected")).collect();
    let url = format!("https://{}/login", server.host);
    let page = curl(Some(&server.certificate()), &["--include", &url]);
    assert!(text(&page.stdout).starts_with("HTTP/1.1 200"), "{}", text(&page.stderr));
    drop(silent);
}

#[test]
fn other_machines_reach_it_by_a_name_that_it_was_given() {
    if !has("curl") {
        return;
    }
    let folder = initialised();
    let output = Command::new(env!("CARGO_BIN_EXE_bentpipe"))
        .args(["serve", "--listen", "0.0.0.0:0", "--self-signed", "--data"])
        .arg(folder.path().join("data"))
        .output()
        .expect("runs");
    assert!(text(&output.stderr).contains("--host lab.example.org"), "{}", text(&output.stderr));

    let server = Secure::start("0.0.0.0:0", &["--host", "lab.example.org"]);
    let ask = |name: &str| {
        let url = format!("https://{name}:{}/login", server.port());
        let place = format!("{name}:{}:127.0.0.1", server.port());
        let trust = server.certificate();
        let output = curl(Some(&trust), &["--include", "--insecure", "--resolve", &place, &url]);
        text(&output.stdout).lines().next().unwrap_or_default().to_owned()
    };
    assert!(ask("lab.example.org").contains("200"));
    assert!(ask("evil.example.org").contains("421"));
}
