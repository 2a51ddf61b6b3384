//! Job files: which site runs what, and when, in TOML.
//!
//! ```toml
//! clock_error = "5 ms"            # most that two sites' clocks may differ; default 10 ms
//!
//! [task.satellite]
//! site = "b"
//! program = "emulate"
//! attach = { gateway = "eth1", terminal = "eth2" }
//!
//! [task.receiver]
//! site = "c"
//! program = "iperf3-server"       # it runs until the others have ended
//!
//! [task.transfer]
//! site = "a"
//! program = "iperf3"
//! host = "10.0.2.1"
//! duration = "20 s"
//! start = "2 s"                   # after the common start
//! ```

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use bentpipe_units::{Bytes, Rate, Span};
use serde::Deserialize;

use crate::program;
use crate::protocol::{Attach, Join, MAX_TASK_S, Program, name_refusal};

/// Most bytes of a job file, and most tasks.
pub const MAX_TEXT: usize = 64 << 10;
/// Most tasks of a job.
pub const MAX_TASKS: usize = 32;
/// Time for set-up and report of a task, in seconds.
const MARGIN_S: u32 = 60;
/// Longest delay of a start, in seconds.
const MAX_DELAY_S: f64 = 3600.0;

/// Job on several sites.
#[derive(Clone, Debug, PartialEq)]
pub struct SitesJob {
    /// Most that the clock of a site may be wrong, in microseconds.
    pub clock_error_us: f64,
    /// Tasks, by name.
    pub tasks: Vec<SiteTask>,
}

/// Task of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteTask {
    /// Name.
    pub name: String,
    /// Name of the site.
    pub site: String,
    /// Program. The scenario of an emulation is empty here: it is that of the job.
    pub program: Program,
    /// Start after the common one, in microseconds.
    pub start_us: i64,
    /// Longest time that it may run, in seconds.
    pub most_s: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    clock_error: Option<Span>,
    task: BTreeMap<String, Entry>,
}

/// Programs of the file.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Emulate,
    Gateway,
    Iperf3Server,
    Iperf3,
    Ping,
    DtnNode,
    DtnPerf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    site: String,
    program: Kind,
    start: Option<Span>,
    duration: Option<Span>,
    attach: Option<BTreeMap<String, String>>,
    cut: Option<String>,
    part: Option<String>,
    join: Option<SocketAddr>,
    name: Option<String>,
    host: Option<IpAddr>,
    port: Option<u16>,
    rate: Option<Rate>,
    udp: Option<bool>,
    reverse: Option<bool>,
    count: Option<u32>,
    interval: Option<Span>,
    node: Option<SocketAddr>,
    from: Option<String>,
    to: Option<String>,
    payload: Option<Bytes>,
    window: Option<u32>,
    bundles_per_second: Option<u32>,
}

impl Entry {
    /// Returns the keys that are given, of those that only some programs have.
    fn given(&self) -> Vec<&'static str> {
        let all = [
            ("duration", self.duration.is_some()),
            ("attach", self.attach.is_some()),
            ("cut", self.cut.is_some()),
            ("part", self.part.is_some()),
            ("join", self.join.is_some()),
            ("name", self.name.is_some()),
            ("host", self.host.is_some()),
            ("port", self.port.is_some()),
            ("rate", self.rate.is_some()),
            ("udp", self.udp.is_some()),
            ("reverse", self.reverse.is_some()),
            ("count", self.count.is_some()),
            ("interval", self.interval.is_some()),
            ("node", self.node.is_some()),
            ("from", self.from.is_some()),
            ("to", self.to.is_some()),
            ("payload", self.payload.is_some()),
            ("window", self.window.is_some()),
            ("bundles_per_second", self.bundles_per_second.is_some()),
        ];
        all.into_iter().filter_map(|(key, is_given)| is_given.then_some(key)).collect()
    }
}

/// Reads a job file. `scenario_s` is the duration of the scenario in seconds.
///
/// # Errors
/// Returns what is wrong, with line or key, and what was expected.
pub fn parse(text: &str, scenario_s: f64) -> Result<SitesJob, String> {
    if text.len() > MAX_TEXT {
        return Err(format!("expected at most {MAX_TEXT} bytes"));
    }
    let file: File = toml::from_str(text).map_err(|error| error.to_string().trim().to_owned())?;
    if file.task.is_empty() || file.task.len() > MAX_TASKS {
        return Err(format!("task: expected 1 to {MAX_TASKS} tasks"));
    }
    let is_emulation = |entry: &&Entry| matches!(entry.program, Kind::Emulate);
    let cuts: Vec<_> = file.task.values().filter(is_emulation).map(|entry| entry.cut.clone()).collect();
    match &cuts[..] {
        [] | [None] => {}
        [Some(first), Some(second)] if first == second => {}
        _ => return Err("task: expected one emulation, or two with the same `cut`".to_owned()),
    }
    let emulate_s = file
        .task
        .values()
        .filter(is_emulation)
        .map(|entry| entry.duration.map_or(scenario_s, Span::as_secs_f64));
    let longest_s = file
        .task
        .values()
        .map(|entry| {
            entry.duration.map_or(0.0, Span::as_secs_f64) + entry.start.map_or(0.0, Span::as_secs_f64)
        })
        .chain(emulate_s)
        .fold(0.0, f64::max);
    let tasks: Result<Vec<SiteTask>, String> = file
        .task
        .into_iter()
        .map(|(name, entry)| {
            task(&name, entry, (scenario_s, longest_s)).map_err(|why| format!("task.{name}.{why}"))
        })
        .collect();
    let tasks = tasks?;
    if tasks.iter().all(|task| task.program.is_service()) {
        return Err("task: expected one that ends by itself, not only servers and gateways".to_owned());
    }
    let clock_error_us = file.clock_error.map_or(10_000.0, |error| error.as_secs_f64() * 1e6);
    Ok(SitesJob { clock_error_us, tasks })
}

fn task(name: &str, entry: Entry, (scenario_s, longest_s): (f64, f64)) -> Result<SiteTask, String> {
    if let Some(why) = name_refusal(name) {
        return Err(format!("the name: {why}"));
    }
    if let Some(why) = name_refusal(&entry.site) {
        return Err(format!("site: {why}"));
    }
    let start_s = entry.start.map_or(0.0, Span::as_secs_f64);
    if start_s > MAX_DELAY_S {
        return Err("start: expected at most 1 h".to_owned());
    }
    let (site, given) = (entry.site.clone(), entry.given());
    let duration_s = entry.duration.map(Span::as_secs_f64);
    let (program, keys, run_s) = program_of(entry, scenario_s)?;
    if let Some(key) = given.into_iter().find(|key| !keys.contains(key)) {
        return Err(format!("{key}: a task of this program has no such key: expected {}", keys.join(", ")));
    }
    program::check_values(&program)?;
    let run_s = if program.is_service() { longest_s } else { run_s.max(duration_s.unwrap_or(0.0)) };
    let most_s = (run_s + f64::from(margin_s(&program))).ceil();
    let most_s = if program.is_service() { most_s.min(f64::from(MAX_TASK_S)) } else { most_s };
    if most_s > f64::from(MAX_TASK_S) {
        return Err("duration: expected less than a day".to_owned());
    }
    Ok(SiteTask {
        name: name.to_owned(),
        site,
        program,
        start_us: (start_s * 1e6).round() as i64,
        most_s: most_s as u32,
    })
}

/// Returns the seconds that a program is given on top of its own time.
///
/// A service waits until the others, which have theirs, have ended.
pub(crate) fn margin_s(program: &Program) -> u32 {
    if program.is_service() { 2 * MARGIN_S } else { MARGIN_S }
}

/// Returns the program of a task, its possible keys, and its time in seconds.
fn program_of(entry: Entry, scenario_s: f64) -> Result<(Program, &'static [&'static str], f64), String> {
    let host = || entry.host.ok_or("host: expected the address of the other end");
    let port = entry.port.unwrap_or(5201);
    let whole_s = |span: Span| span.as_secs_f64().ceil();
    Ok(match entry.program {
        Kind::Emulate => {
            let attach = entry.attach.unwrap_or_default().into_iter();
            let attach = attach.map(|(host, interface)| Attach { host, interface }).collect();
            let duration = entry.duration.map(|duration| duration.to_string());
            let join = match (entry.cut, entry.part, entry.join) {
                (None, None, None) => None,
                (Some(link), Some(part), Some(to)) => Some(Join { link, part, to, key: String::new() }),
                _ => return Err("cut: expected `cut`, `part` and `join` together".to_owned()),
            };
            let run_s = entry.duration.map_or(scenario_s, Span::as_secs_f64);
            let program =
                Program::Emulate { scenario: String::new(), attach, duration, files: Vec::new(), join };
            (program, &["attach", "duration", "cut", "part", "join"], run_s)
        }
        Kind::Gateway => {
            let name = entry.name.ok_or("name: expected the name of a gateway in the site's file")?;
            (Program::Gateway { name }, &["name"], 0.0)
        }
        Kind::DtnNode => {
            let name = entry.name.ok_or("name: expected the name of a node in the site's file")?;
            (Program::DtnNode { name }, &["name"], 0.0)
        }
        Kind::DtnPerf => {
            let run_s = whole_s(entry.duration.ok_or("duration: expected a time such as \"20 s\"")?);
            let program = Program::DtnPerf {
                node: entry
                    .node
                    .ok_or("node: expected the address of the own node, such as \"10.0.0.1:4556\"")?,
                from: entry.from.ok_or("from: expected an endpoint such as \"ipn:1.60\"")?,
                to: entry.to.ok_or("to: expected an endpoint such as \"ipn:2.9\"")?,
                payload: entry.payload.map_or(50_000, Bytes::get),
                seconds: run_s.clamp(0.0, 1e9) as u32,
                window: entry.window.unwrap_or(10),
                rate: entry.bundles_per_second,
            };
            let keys = &["node", "from", "to", "duration", "payload", "window", "bundles_per_second"];
            (program, keys, run_s)
        }
        Kind::Iperf3Server => (Program::Iperf3Server { port }, &["port"], 0.0),
        Kind::Iperf3 => {
            let run_s = whole_s(entry.duration.ok_or("duration: expected a time such as \"20 s\"")?);
            let program = Program::Iperf3 {
                host: host()?,
                port,
                seconds: run_s.clamp(0.0, 1e9) as u32,
                rate: entry.rate.map(Rate::as_bps),
                udp: entry.udp.unwrap_or(false),
                reverse: entry.reverse.unwrap_or(false),
            };
            (program, &["host", "port", "duration", "rate", "udp", "reverse"], run_s)
        }
        Kind::Ping => {
            let interval_s = entry.interval.map_or(1.0, Span::as_secs_f64);
            let count = entry.count.unwrap_or(10);
            let interval_ms = (interval_s * 1e3).round().clamp(0.0, 1e9) as u32;
            let program = Program::Ping { host: host()?, count, interval_ms };
            (program, &["host", "count", "interval"], f64::from(count) * interval_s)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
clock_error = \"5 ms\"
[task.satellite]
site = \"b\"
program = \"emulate\"
attach = { gateway = \"eth1\", terminal = \"netns:t\" }
[task.receiver]
site = \"c\"
program = \"iperf3-server\"
[task.transfer]
site = \"a\"
program = \"iperf3\"
host = \"10.0.2.1\"
duration = \"20 s\"
start = \"2 s\"
";

    #[test]
    fn a_job_names_sites_programs_and_starts() {
        let job = parse(FILE, 30.0).expect("fine");
        assert_eq!((job.clock_error_us, job.tasks.len()), (5000.0, 3));
        let named = |name: &str| job.tasks.iter().find(|task| task.name == name).expect("a task");
        let transfer = named("transfer");
        assert_eq!((&transfer.site[..], transfer.start_us, transfer.most_s), ("a", 2_000_000, 80));
        assert!(matches!(transfer.program, Program::Iperf3 { seconds: 20, port: 5201, rate: None, .. }));
        assert_eq!(named("satellite").most_s, 90);
        assert_eq!(named("receiver").most_s, 150, "as long as the longest, and a margin");
    }

    #[test]
    fn wrong_files_are_refused_in_words() {
        for (from, to, why) in [
            ("\"emulate\"", "\"sh\"", "line 4"),
            ("host = \"10.0.2.1\"", "host = \"-f\"", "line 12"),
            ("host = \"10.0.2.1\"", "", "task.transfer.host: expected the address"),
            ("start = \"2 s\"", "start = \"2 h\"", "task.transfer.start"),
            ("start = \"2 s\"", "count = 3", "task.transfer.count: a task of this program has no such key"),
            ("start = \"2 s\"", "shell = \"x\"", "unknown field `shell`"),
            ("site = \"c\"", "site = \"../c\"", "task.receiver.site"),
            ("duration = \"20 s\"", "duration = \"2 d\"", "task.transfer.duration"),
            ("\"netns:t\"", "\"netns:../t\"", "task.satellite.attach"),
            ("gateway = \"eth1\"", "\"--on\" = \"eth1\"", "task.satellite.attach"),
            ("attach = {", "cut = \"hop\"\nattach = {", "one emulation, or two with the same `cut`"),
        ] {
            let found = parse(&FILE.replace(from, to), 30.0).expect_err(to);
            assert!(found.contains(why), "{found}");
        }
        let bundles = "[task.load]\nsite = \"a\"\nprogram = \"dtn-perf\"\nnode = \"10.0.0.1:4556\"\nfrom = \"ipn:1.60\"\n\
                       to = \"ipn:2.9\"\nduration = \"20 s\"";
        assert_eq!(parse(bundles, 30.0).expect("fine").tasks[0].most_s, 80);
        for (from, to, why) in
            [("ipn:2.9", "-x", "task.load.to"), ("node = \"10.0.0.1:4556\"\n", "", "task.load.node")]
        {
            let found = parse(&bundles.replace(from, to), 30.0).expect_err(to);
            assert!(found.contains(why), "{found}");
        }
        let servers =
            FILE.split("[task.receiver]").nth(1).and_then(|rest| rest.split("[task.transfer]").next());
        let only = format!("[task.receiver]{}", servers.expect("a task"));
        assert!(parse(&only, 30.0).is_err_and(|why| why.contains("ends by itself")));
        assert!(parse("", 30.0).is_err_and(|why| why.contains("task")));
    }
}
