//! A server of a test, and requests to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

pub(crate) const PASSWORD: &str = "correct horse battery";

/// Small scenario, with room for a number of nodes in its title.
pub(crate) const SCENARIO: &str = "\
title = \"Test\"
duration = \"2 s\"
[node.a]
[node.b]
[link.l]
between = [\"a\", \"b\"]
rate = \"1 Mbit/s\"
delay = \"10 ms\"
[flow.f]
from = \"a\"
to = \"b\"
traffic = { kind = \"tcp\" }
";

/// Server with a data folder of its own.
pub(crate) struct Server {
    pub(crate) folder: tempfile::TempDir,
    /// Data folder, which may be on a disk that only the server's namespace has.
    data: PathBuf,
    child: Child,
    pub(crate) host: String,
}

/// Answer of the server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let start = format!("{name}: ");
        self.head.lines().find_map(|line| line.strip_prefix(&start[..]))
    }

    /// Returns a cookie that the answer sets, as a request sends it.
    pub(crate) fn cookie(&self, name: &str) -> Option<String> {
        let start = format!("set-cookie: {name}=");
        let line = self.head.lines().find(|line| line.starts_with(&start))?;
        line["set-cookie: ".len()..].split(';').next().map(str::to_owned)
    }
}

/// User of the interface: a cookie or a token.
#[derive(Clone, Debug, Default)]
pub(crate) struct User(pub(crate) Vec<(String, String)>);

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_bentpipe"))
}

pub(crate) fn initialised() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let mut init = program()
        .args(["serve", "init", "--name", "boss", "--password-stdin", "--data"])
        .arg(folder.path().join("data"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    init.stdin.take().expect("piped").write_all(format!("{PASSWORD}\n").as_bytes()).expect("written");
    assert!(init.wait().expect("ends").success());
    folder
}

fn start(data: &Path, listen: &str, arguments: &[&str]) -> (Child, String) {
    let mut child = program()
        .args(["serve", "--listen", listen, "--data"])
        .arg(data)
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let host = line.trim().strip_prefix("bentpipe serve: http://").expect("an address").to_owned();
    (child, host)
}

impl Server {
    pub(crate) fn new() -> Server {
        Server::with(&[])
    }

    /// Starts a server with further arguments.
    pub(crate) fn with(arguments: &[&str]) -> Server {
        Server::in_folder(initialised(), arguments)
    }

    /// Starts a server with an initialised folder and further arguments.
    pub(crate) fn in_folder(folder: tempfile::TempDir, arguments: &[&str]) -> Server {
        let data = folder.path().join("data");
        let (child, host) = start(&data, "127.0.0.1:0", arguments);
        Server { folder, data, child, host }
    }

    /// Starts a server whose data are on a disk of a size. Returns `None` without the right to make one.
    pub(crate) fn on_disk(size: &str, arguments: &[&str]) -> Option<Server> {
        const SCRIPT: &str =
            "mount -t tmpfs -o size=$3 tmpfs $2 || exit 1; program=$1 data=$2/data word=$4; shift 4
            echo \"$word\" | $program serve init --name boss --password-stdin --data $data > /dev/null
            exec $program serve --listen 127.0.0.1:0 --data $data \"$@\"";
        let folder = tempfile::tempdir().expect("a folder");
        let disk = folder.path().join("disk");
        std::fs::create_dir(&disk).expect("made");
        let mut child = Command::new("unshare")
            .args(["--mount", "sh", "-c", SCRIPT, "sh", env!("CARGO_BIN_EXE_bentpipe")])
            .arg(&disk)
            .args([size, PASSWORD])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let Some(host) = line.trim().strip_prefix("bentpipe serve: http://") else {
            child.wait().expect("ended");
            return None;
        };
        let inside = disk.join("data");
        let inside = inside.strip_prefix("/").expect("an absolute path");
        let data = PathBuf::from(format!("/proc/{}/root", child.id())).join(inside);
        Some(Server { folder, data, host: host.to_owned(), child })
    }

    /// Returns a command of the program that sees the server's disks.
    pub(crate) fn beside(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--target", &self.child.id().to_string(), env!("CARGO_BIN_EXE_bentpipe")]);
        command.args(arguments);
        command
    }

    /// Returns the number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end, and returns its status.
    pub(crate) fn ended(&mut self) -> std::process::ExitStatus {
        self.child.wait().expect("ended")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.data.clone()
    }

    /// Kills the server and starts another one at the same address.
    pub(crate) fn kill_and_restart(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
        (self.child, self.host) = start(&self.data(), &self.host.clone(), &[]);
    }

    /// Sends a request as it is, and reads the answer.
    pub(crate) fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(&self.host).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        let _ = stream.write_all(request);
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(bytes.len());
        let (head, body) = (String::from_utf8_lossy(&bytes[..end]), bytes.get(end + 4..).unwrap_or_default());
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { unchunked(body) } else { body.to_vec() };
        let body = String::from_utf8_lossy(&body).into_owned();
        Answer { status, head: head.replace("\r\n", "\n"), body }
    }

    /// Replaces the report of a job by bytes that compression shortens, or does not.
    pub(crate) fn fill_report(&self, job: i64, bytes: usize, is_random: bool) {
        let results = self.data().join(format!("jobs/{job}/results"));
        let folder =
            std::fs::read_dir(results).expect("results").next().expect("a folder").expect("an entry");
        let mut state = 1_u64;
        let mut next = || {
            // Marsaglia, Xorshift RNGs (2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        };
        let content = match is_random {
            true => (0..bytes / 8).flat_map(|_| next()).collect(),
            false => vec![0; bytes],
        };
        std::fs::write(folder.path().join("report.html"), content).expect("written");
    }

    /// Downloads the bytes of a path.
    pub(crate) fn bytes(&self, user: &User, path: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(&self.host).expect("connected");
        let headers: String = user.0.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        // A body of HTTP/1.0 is not in chunks.
        let head = format!("GET {path} HTTP/1.0\r\nhost: {}\r\n{headers}\r\n", self.host);
        stream.write_all(head.as_bytes()).expect("written");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("read");
        let start = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        bytes.split_off(start)
    }

    /// Sends a request with headers in addition to those of the user.
    pub(crate) fn send(
        &self,
        user: &User,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "host") {
            head.push_str(&format!("host: {}\r\n", self.host));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        for (name, value) in &user.0 {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        self.raw(format!("{head}\r\n{body}").as_bytes())
    }

    /// Sends a request of the interface as a page of the server does.
    pub(crate) fn api(&self, user: &User, method: &str, path: &str, body: &Value) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let headers = [("content-type", "application/json"), ("sec-fetch-site", "same-origin")];
        self.send(user, (method, &format!("/api/v1{path}")), &headers, &text)
    }

    /// Logs in and returns the user with the cookie.
    pub(crate) fn log_in(&self, name: &str, password: &str) -> Result<User, Answer> {
        let body = serde_json::json!({ "name": name, "password": password });
        let answer = self.api(&User::default(), "POST", "/session", &body);
        match answer.cookie("bentpipe-session") {
            Some(cookie) if answer.status == 200 => Ok(User(vec![("cookie".to_owned(), cookie)])),
            _ => Err(answer),
        }
    }

    pub(crate) fn boss(&self) -> User {
        self.log_in("boss", PASSWORD).expect("logged in")
    }

    /// Adds a user and logs in.
    pub(crate) fn user(&self, boss: &User, name: &str, level: u8) -> User {
        let body = serde_json::json!({ "name": name, "password": PASSWORD, "level": level });
        assert_eq!(self.api(boss, "POST", "/users", &body).status, 201);
        self.log_in(name, PASSWORD).expect("logged in")
    }

    /// Adds a scenario and returns its number.
    pub(crate) fn scenario(&self, user: &User, text: &str) -> i64 {
        let body = serde_json::json!({ "name": "Test", "text": text });
        let answer = self.api(user, "POST", "/scenarios", &body);
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["id"].as_i64().expect("a number")
    }

    /// Launches a job and returns its number.
    pub(crate) fn launch(&self, user: &User, body: &Value) -> i64 {
        let answer = self.api(user, "POST", "/jobs", body);
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["id"].as_i64().expect("a number")
    }

    pub(crate) fn job(&self, user: &User, id: i64) -> Value {
        self.api(user, "GET", &format!("/jobs/{id}"), &Value::Null).json()
    }

    /// Waits until a job is as `wanted` says, as long as it changes.
    pub(crate) fn wait(&self, user: &User, id: i64, wanted: impl Fn(&Value) -> bool) -> Value {
        let (mut latest, mut changed) = (Value::Null, Instant::now());
        loop {
            let job = self.job(user, id);
            if wanted(&job) {
                return job;
            }
            if job != latest {
                (latest, changed) = (job, Instant::now());
            }
            assert!(changed.elapsed() < Duration::from_secs(120), "{latest}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub(crate) fn wait_for(&self, user: &User, id: i64, state: &str) -> Value {
        self.wait(user, id, |job| job["state"] == state)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the bytes of a body in chunks, up to where it is cut.
///
/// A chunk may end within a character: which ones do depends on the instants at which the server writes.
fn unchunked(body: &[u8]) -> Vec<u8> {
    let (mut rest, mut whole) = (body, Vec::new());
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let length =
            std::str::from_utf8(&rest[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let after = &rest[end + 2..];
        let Some(chunk) = length.filter(|length| *length > 0).and_then(|length| after.get(..length)) else {
            break;
        };
        whole.extend_from_slice(chunk);
        rest = after.get(chunk.len() + 2..).unwrap_or_default();
    }
    whole
}

#[test]
fn a_chunk_ends_within_a_character() {
    let dash = "\u{2013}".as_bytes();
    let body = [b"2\r\na", &dash[..1], b"\r\n4\r\n", &dash[1..], b"\r\n", b"\r\n0\r\n\r\n"].concat();
    assert_eq!(unchunked(&body), "a\u{2013}\r\n".as_bytes());
}
