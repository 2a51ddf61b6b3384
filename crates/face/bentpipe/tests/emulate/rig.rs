//! A GEO hop between two hosts, and programs that run over it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use bentpipe_testkit::{Folder, Process};
pub(crate) use bentpipe_testkit::{go_apart, namespaces, skip};

pub(crate) const SCENARIO: &str = r#"
title = "One hop"
duration = "10 s"

[node.left]
[node.pinged]

[link.hop]
between = ["left", "pinged"]
rate = "10 Mbit/s"
delay = "200 ms"
queue = { kind = "drop-tail", bytes = "1 MB" }
"#;

pub(crate) fn bentpipe() -> Command {
    Command::new(env!("CARGO_BIN_EXE_bentpipe"))
}

/// A folder with the scenario, whose far host is called `host`.
pub(crate) fn scenario(host: &str) -> (Folder, PathBuf) {
    scenario_of(SCENARIO, host)
}

fn scenario_of(text: &str, host: &str) -> (Folder, PathBuf) {
    let folder = Folder::new();
    let path = folder.write(format!("{host}.toml"), text.replace("pinged", host));
    (folder, path)
}

pub(crate) fn is_unable(errors: &str) -> bool {
    ["CAP_", "no TUN device", "`ip ", "mount point"].iter().any(|reason| errors.contains(reason))
}

/// Runs `command` inside; none where this machine cannot.
pub(crate) fn emulate(host: &str, command: &[&str]) -> Option<(Output, Folder)> {
    emulate_with(host, &[&["--"], command].concat())
}

/// Emulates with other arguments; none where this machine cannot.
pub(crate) fn emulate_with(host: &str, arguments: &[&str]) -> Option<(Output, Folder)> {
    emulate_text(SCENARIO, host, arguments)
}

/// Emulates another scenario, in which "pinged" becomes `host`, in a place of the test's own; none where this machine cannot.
pub(crate) fn emulate_text(text: &str, host: &str, arguments: &[&str]) -> Option<(Output, Folder)> {
    if !go_apart() {
        return None;
    }
    let (folder, path) = scenario_of(text, host);
    let mut program = bentpipe();
    program.arg("emulate").arg(&path).arg("--out").arg(folder.path()).args(arguments);
    let output = program.output().expect("bentpipe starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    if !is_unable(&errors) {
        return Some((output, folder));
    }
    skip(&errors);
    None
}

/// The round trip times that ping printed, in milliseconds.
pub(crate) fn rtts_ms(text: &str) -> Vec<f64> {
    let words = text.split_whitespace().filter_map(|word| word.strip_prefix("time="));
    words.map(|ms| ms.parse().expect("a number")).collect()
}

/// The captures of the run in `out`, in the order of their names.
pub(crate) fn captures(out: &Path) -> Vec<PathBuf> {
    files(out, "pcap")
}

/// The files below a folder whose names end so, in the order of their names.
pub(crate) fn files(out: &Path, ending: &str) -> Vec<PathBuf> {
    let (mut folders, mut found) = (vec![out.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Number of ICMP echo requests in the captures of the run in `out`.
pub(crate) fn echo_requests(out: &Path) -> usize {
    let mut found = 0;
    for path in captures(out) {
        let file = std::fs::File::open(path).expect("a capture");
        let mut reader = bentpipe_wire::pcap::Reader::new(file).expect("a capture");
        while let Ok(Some(record)) = reader.next_record() {
            found += usize::from(record.bytes.get(9) == Some(&1) && record.bytes.get(20) == Some(&8));
        }
    }
    found
}

/// The shortest of some times: what the emulation makes of a way. A machine that pauses makes single packets late and
/// none early.
pub(crate) fn shortest(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

/// An emulation without a command, which runs until it is ended.
pub(crate) struct Running {
    process: Process,
    pub(crate) folder: Folder,
}

impl Running {
    /// Starts one whose far host is `host`, in a place of the test's own; none where this machine cannot.
    pub(crate) fn start(host: &str) -> Option<Running> {
        Running::start_with(host, None, &[])
    }

    /// The same with its results in the folder `out`, and other arguments as well.
    pub(crate) fn start_with(host: &str, out: Option<&Path>, arguments: &[&str]) -> Option<Running> {
        Running::of(scenario(host), out, arguments)
    }

    /// Starts another scenario, in which "pinged" becomes `host`.
    pub(crate) fn start_scenario(text: &str, host: &str) -> Option<Running> {
        Running::of(scenario_of(text, host), None, &[])
    }

    /// Starts one in the network namespace `lab`.
    pub(crate) fn start_in(lab: &str, host: &str, arguments: &[&str]) -> Option<Running> {
        let mut program = Command::new("nsenter");
        program.arg(format!("--net=/run/netns/{lab}")).arg(env!("CARGO_BIN_EXE_bentpipe"));
        Running::by(program, scenario(host), None, arguments)
    }

    fn of(scenario: (Folder, PathBuf), out: Option<&Path>, arguments: &[&str]) -> Option<Running> {
        Running::by(bentpipe(), scenario, out, arguments)
    }

    fn by(
        mut program: Command,
        (folder, path): (Folder, PathBuf),
        out: Option<&Path>,
        arguments: &[&str],
    ) -> Option<Running> {
        if !go_apart() {
            return None;
        }
        program.arg("emulate").arg(&path).arg("--quiet").args(arguments);
        program.arg("--out").arg(out.unwrap_or(folder.path()));
        let mut process = Process::start(program.stdout(Stdio::piped()).stderr(Stdio::piped()));
        // It says how to use it when it is ready.
        let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let ready = lines.map_while(Result::ok).any(|line| line.starts_with("end it:"));
        let mut running = Running { process, folder };
        if ready {
            return Some(running);
        }
        let (_, errors) = running.finish();
        assert!(is_unable(&errors), "{errors}");
        skip(&errors);
        None
    }

    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        Path::new("/run/bentpipe").join(format!("{}.sock", self.process()))
    }

    pub(crate) fn namespace(&self, host: &str) -> String {
        format!("bentpipe-{}-{host}", self.process())
    }

    /// `bentpipe shell` at a host of this emulation.
    pub(crate) fn shell(&self, host: &str, command: &[&str]) -> Command {
        let mut shell = bentpipe();
        shell.args(["shell", host, "--emulation", &self.process().to_string(), "--"]).args(command);
        shell
    }

    /// Pings the far host from the near one.
    pub(crate) fn ping(&self, count: u32) -> String {
        let count = count.to_string();
        let output =
            self.shell("left", &["ping", "-n", "-c", &count, "-i", "0.05", "-W", "2", "10.0.0.2"]).output();
        String::from_utf8_lossy(&output.expect("starts").stdout).into_owned()
    }

    /// The shortest of pings' round trip times, in milliseconds.
    pub(crate) fn rtt_ms(&self) -> f64 {
        let rtts = rtts_ms(&self.ping(9));
        assert!(rtts.len() >= 5, "{rtts:?}");
        shortest(&rtts)
    }

    /// `bentpipe set` to this emulation: its exit code and what it complained of.
    pub(crate) fn set(&self, assignment: &str) -> (Option<i32>, String) {
        let mut set = bentpipe();
        let output = set.args(["set", assignment, "--emulation", &self.process().to_string()]).output();
        let output = output.expect("starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// What it still has: namespaces and its socket.
    pub(crate) fn left(&self) -> Vec<String> {
        let prefix = format!("bentpipe-{}-", self.process());
        let mut left: Vec<String> =
            namespaces().into_iter().filter(|name| name.starts_with(&prefix)).collect();
        left.extend(self.socket().exists().then(|| self.socket().display().to_string()));
        left
    }

    /// What the folder of results in `out` says of the run's real time.
    pub(crate) fn timing(out: &Path) -> String {
        let folders = std::fs::read_dir(out).expect("there").flatten();
        folders.filter_map(|entry| std::fs::read_to_string(entry.path().join("timing.json")).ok()).collect()
    }

    /// Kills the process that would clean up if this emulation was killed.
    pub(crate) fn kill_survivor(&self) {
        let words = format!("survive\0{}\0", self.process());
        let is_meant = |process: &i32| {
            std::fs::read(format!("/proc/{process}/cmdline"))
                .is_ok_and(|line| line.ends_with(words.as_bytes()))
        };
        let entries = std::fs::read_dir("/proc").expect("there").flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let process = numbers.into_iter().find(is_meant).expect("a survivor");
        let killed = Command::new("kill").args(["-KILL", &process.to_string()]).status().expect("starts");
        assert!(killed.success());
    }

    /// Sends a signal to it.
    pub(crate) fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// Ends it as Ctrl-C does; its exit code and what it said on standard error.
    pub(crate) fn end(&mut self) -> (Option<i32>, String) {
        self.process.end()
    }

    /// Waits for its end.
    pub(crate) fn finish(&mut self) -> (Option<i32>, String) {
        self.process.finish()
    }
}
