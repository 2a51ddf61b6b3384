//! Connections of one host that say nothing, at programs whose limit of open files is low.
#![allow(clippy::disallowed_methods, reason = "waits for programs in real time")]

use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use bentpipe_emu::open_files;
use bentpipe_testkit::{Folder, Process, free_address, said, skip, until};
use socket2::{Domain, Socket, Type};

/// Connections that are held: more than the usual limit of open files, and than programs have places.
const HELD: usize = 1300;

fn bentpipe(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a program with a limit of open files that it may raise if it is root, and waits until it listens.
fn start(words: &[&str], at: &str) -> Process {
    let mut command = Command::new("bash");
    command.args(["-c", "ulimit -n 400; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_bentpipe")]).args(words);
    let process = Process::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
    until(&format!("program at {at}"), || TcpStream::connect(at).is_ok());
    process
}

/// Connects from another address of loopback.
fn connect(to: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let from: SocketAddr = "127.0.9.5:0".parse().expect("an address");
    socket.bind(&from.into()).expect("loopback");
    // The queue of the listener may be full for a moment.
    until("place in the queue", || socket.connect_timeout(&to.into(), Duration::from_secs(5)).is_ok());
    socket
}

/// Calls `use_it` while another host holds more idle connections than a program has descriptors.
fn beside_idle_ones(words: &[&str], at: &str, use_it: &dyn Fn()) {
    if open_files::allow(HELD, 1, 300) < HELD {
        return skip("the limit of open files is too low");
    }
    let mut process = start(words, at);
    let to = at.parse().expect("an address");
    let held: Vec<Socket> = (0..HELD).map(|_| connect(to)).collect();
    use_it();
    drop(held);
    assert!(process.is_running());
    process.end();
}

#[test]
fn idle_connections_keep_no_application_from_a_node() {
    let folder = Folder::new();
    let at = free_address();
    let text =
        format!("eid = \"ipn:1.0\"\nstore = \"store\"\n[[listen]]\nlayer = \"tcpcl\"\nat = \"{at}\"\n");
    let file = folder.write("node.toml", text.as_bytes()).display().to_string();
    beside_idle_ones(&["dtn", "node", &file, "--quiet"], &at, &|| {
        let ping =
            ["dtn", "ping", "--from", "ipn:1.50", "--count", "2", "--interval", "20 ms", &at, "ipn:1.7"];
        let output = bentpipe(&ping).output().expect("bentpipe starts");
        said(&output, 0);
    });
}

#[test]
fn idle_connections_keep_no_caller_from_a_phone() {
    let at = free_address();
    beside_idle_ones(&["answer", &at], &at, &|| {
        let to = format!("sip:bob@{at}");
        let call = ["call", &to, "--transport", "tcp", "--duration", "20 s", "--hold", "100 ms"];
        let output = bentpipe(&call).output().expect("bentpipe starts");
        said(&output, 0);
    });
}
