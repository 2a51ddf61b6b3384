//! Live tests: they need root, tools, and a machine to themselves.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Process;

static TURN: Mutex<()> = Mutex::new(());

/// Turn of a live test: one runs at a time, as they measure real time.
pub type Turn = MutexGuard<'static, ()>;

/// Waits for the turn of a live test.
///
/// Returns `None`, with a message, where tools are missing or namespaces cannot be made.
///
/// # Panics
/// In CI, where no test may be skipped.
pub fn able_live(tools: &[&str]) -> Option<Turn> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    (tools.iter().all(|tool| super::has(tool)) && makes_namespaces()).then_some(turn)
}

/// Network, mounts and `/run` of its own, so that programs of two tests don't meet.
///
/// It ends with the value, and with it the namespaces that were made inside.
#[derive(Debug)]
pub struct Apart(Process);

impl Apart {
    /// Creates a place with a loopback alone. Returns `None` where that is not allowed.
    pub fn make() -> Option<Apart> {
        let script = "ip link set lo up && mount -t tmpfs tmpfs /run && echo made && exec sleep infinity";
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "sh", "-c", script]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut holder = Process::new(command.spawn().ok()?);
        let mut line = String::new();
        let output = holder.stdout.take()?;
        BufReader::new(output).read_line(&mut line).ok()?;
        (line == "made\n").then_some(Apart(holder))
    }

    /// Returns a command that runs a program inside, in a folder.
    pub fn command(&self, program: &str, folder: impl AsRef<Path>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.0.id().to_string(), "--net", "--mount"]);
        command.arg(format!("--wdns={}", folder.as_ref().display())).args(["--", program]);
        command
    }
}

fn makes_namespaces() -> bool {
    let name = format!("testkit-{}", std::process::id());
    let netns = |what: &str| Command::new("ip").args(["netns", what, &name]).output();
    let made = netns("add").is_ok_and(|output| output.status.success());
    if made {
        let _ = netns("del");
    } else {
        super::skip("network namespaces need root and `ip`");
    }
    made
}

/// Runs `ip` with words separated by spaces.
///
/// # Panics
/// If it fails.
#[track_caller]
pub fn ip(words: &str) {
    super::succeed(Command::new("ip").args(words.split(' ')));
}

/// Returns the names of all network namespaces.
pub fn namespaces() -> Vec<String> {
    let output = Command::new("ip").args(["netns", "list"]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
}
