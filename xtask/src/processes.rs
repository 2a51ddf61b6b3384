//! Processes of a test program: those that it started, and theirs.

use std::fs;
use std::path::PathBuf;

use crate::output_of;

/// Ticks of the kernel's accounting in a second, on every Linux.
const TICKS: f64 = 100.0;

/// Processor time of a program and everything that it started.
#[derive(Clone, Copy)]
pub(crate) struct Usage {
    ticks: u64,
    /// Set while a thread runs, or would run on an idle machine.
    pub(crate) waits_for_processor: bool,
}

impl Usage {
    /// Returns the processor seconds since an earlier look.
    pub(crate) fn since(&self, before: &Usage) -> f64 {
        self.ticks.saturating_sub(before.ticks) as f64 / TICKS
    }
}

/// Returns the usage of a process and its descendants, with the time of those that have ended.
pub(crate) fn usage(pid: u32) -> Usage {
    let tree = tree(pid);
    let ticks = tree.iter().filter_map(|pid| Stat::read(*pid)).map(|stat| stat.ticks).sum();
    let waits_for_processor = tree.iter().any(|pid| states(*pid).contains(&'R'));
    Usage { ticks, waits_for_processor }
}

/// Returns the commands of a process and its descendants, and the stacks of the first's threads.
pub(crate) fn stacks(pid: u32) -> String {
    let command = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        format!("process {pid}: {}\n", String::from_utf8_lossy(&words).replace('\0', " "))
    };
    let commands: String = tree(pid).iter().map(command).collect();
    let stack = output_of("eu-stack", &["-p", &pid.to_string()]);
    commands + &stack.unwrap_or_else(|| waits(pid))
}

/// Ends a process and its descendants.
pub(crate) fn end(pid: u32) {
    let pids: Vec<String> = tree(pid).iter().map(u32::to_string).collect();
    let mut words = vec!["-KILL"];
    words.extend(pids.iter().map(String::as_str));
    let _ = output_of("kill", &words);
}

/// Returns what each thread waits for in the kernel, for machines without `eu-stack`.
fn waits(pid: u32) -> String {
    let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let of_thread = |thread: PathBuf| {
        let [name, place] = ["comm", "wchan"].map(|file| read(thread.join(file)));
        format!("thread {name}: waits in {place}\n")
    };
    threads(pid).into_iter().map(of_thread).collect()
}

fn threads(pid: u32) -> Vec<PathBuf> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.map(|entry| entry.path()).collect()
}

fn states(pid: u32) -> Vec<char> {
    let stats = threads(pid).into_iter().filter_map(|thread| fs::read_to_string(thread.join("stat")).ok());
    stats.filter_map(|stat| Stat::parse(&stat)).map(|stat| stat.state).collect()
}

/// Returns a process and its descendants.
fn tree(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parents: Vec<(u32, u32)> = pids.filter_map(|pid| Some((pid, Stat::read(pid)?.parent))).collect();
    let mut tree = vec![pid];
    let mut next = 0;
    while let Some(&parent) = tree.get(next) {
        tree.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| pid));
        next += 1;
    }
    tree
}

/// Part of `/proc/PID/stat` (proc(5)).
struct Stat {
    state: char,
    parent: u32,
    /// Time in user and kernel mode, with that of ended children.
    ticks: u64,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses what follows the name, which may contain anything.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let times = fields.get(11..15)?.iter().filter_map(|time| time.parse::<u64>().ok());
        Some(Self { state: fields[0].chars().next()?, parent: fields[1].parse().ok()?, ticks: times.sum() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_read() {
        let line = "77 (a) b) S 12 77 77 0 -1 4194304 90 0 0 0 30 20 7 3 20 0 1 0 5 6 7";
        let stat = Stat::parse(line).expect("a line");
        assert_eq!((stat.state, stat.parent, stat.ticks), ('S', 12, 60));
    }

    #[test]
    fn a_process_has_its_children_and_uses_the_processor() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().expect("starts");
        let of_this = std::process::id();
        assert!(tree(of_this).contains(&child.id()));
        assert!(stacks(of_this).contains("sleep 100"));
        let (before, mut sum) = (usage(of_this), 0_u64);
        (0..50_000_000_u64).for_each(|n| sum = std::hint::black_box(sum ^ n));
        assert!(usage(of_this).since(&before) > 0.0);
        end(child.id());
        assert!(!child.wait().expect("ends").success());
    }
}
