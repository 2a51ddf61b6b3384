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
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { unchunked(body) } else { body.to_owned() };
        Answer { status, head: head.replace("\r\n", "\n"), body }
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
        match answer.header("set-cookie") {
            Some(cookie) if answer.status == 200 => {
                let pair = cookie.split(';').next().unwrap_or_default().to_owned();
                Ok(User(vec![("cookie".to_owned(), pair)]))
            }
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

    /// Waits until a job is as `wanted` says.
    pub(crate) fn wait(&self, user: &User, id: i64, wanted: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let job = self.job(user, id);
            if wanted(&job) {
                return job;
            }
            assert!(start.elapsed() < Duration::from_secs(120), "{job}");
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

fn unchunked(body: &str) -> String {
    let (mut rest, mut whole) = (body, String::new());
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length.trim(), 16).unwrap_or(0);
        if length == 0 || after.len() < length || !after.is_char_boundary(length) {
            break;
        }
        whole.push_str(&after[..length]);
        rest = after[length..].trim_start_matches("\r\n");
    }
    whole
}
