//! Arguments of the programs that a site starts. They are made here, as a vector: no shell reads them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use crate::Allowed;
use crate::digits::from_hex;
use crate::files;
use crate::names::{FIGURES, KEY, LIVE, PROGRESS, is_reserved};
use crate::protocol::{GivenFile, MAX_TASK_S, Program};

pub use crate::names::{RESULTS, SCENARIO};

/// Time that reports of the last bundles have.
const REPORTS: &str = "30 s";
/// Largest payload of a bundle.
const MAX_PAYLOAD: u64 = 64 << 20;
/// Most bytes of a scenario.
const MAX_SCENARIO: usize = 256 << 10;
/// Most interfaces in the places of hosts.
const MAX_ATTACHED: usize = 32;
/// Most files of a scenario, and most bytes of one.
const MAX_GIVEN: usize = 100;
const MAX_GIVEN_BYTES: u64 = 64 << 20;

/// Checks the values of a program's arguments, and the scenario of an emulation.
///
/// The files that the scenario names are in the folder `inputs`.
///
/// # Errors
/// Returns the argument that is wrong, and what was expected.
pub(crate) fn check(program: &Program, inputs: &Path) -> Result<(), String> {
    check_values(program)?;
    match program {
        Program::Emulate { scenario, files, .. } => files::check_scenario(scenario, (inputs, &names(files))),
        _ => Ok(()),
    }
}

/// Checks the values of a program's arguments, and the files that its scenario names.
///
/// The files themselves are still to come.
///
/// # Errors
/// Returns the argument that is wrong, and what was expected.
pub(crate) fn check_names(program: &Program) -> Result<(), String> {
    check_values(program)?;
    match program {
        Program::Emulate { scenario, files, .. } => files::parsed(scenario, &names(files)).map(drop),
        _ => Ok(()),
    }
}

fn names(files: &[GivenFile]) -> Vec<String> {
    files.iter().map(|file| file.name.clone()).collect()
}

/// Checks the values of a program's arguments.
///
/// # Errors
/// Returns the argument that is wrong, and what was expected.
pub fn check_values(program: &Program) -> Result<(), String> {
    let within = |name: &str, value: u64, most: u64| match (1..=most).contains(&value) {
        true => Ok(()),
        false => Err(format!("{name}: expected 1 to {most}")),
    };
    match program {
        Program::Emulate { scenario, attach, duration, files, join } => {
            check_files(files)?;
            if let Some(join) = join {
                word("cut", &join.link)?;
                word("part", &join.part)?;
                if !join.key.is_empty() && from_hex(&join.key).is_none_or(|key| key.len() != 32) {
                    return Err("key: expected 64 hexadecimal digits".to_owned());
                }
            }
            if scenario.len() > MAX_SCENARIO {
                return Err(format!("scenario: expected at most {MAX_SCENARIO} bytes"));
            }
            if attach.len() > MAX_ATTACHED {
                return Err(format!("attach: expected at most {MAX_ATTACHED} interfaces"));
            }
            for one in attach {
                word("attach", &one.host)?;
                word("attach", one.interface.strip_prefix("netns:").unwrap_or(&one.interface))?;
            }
            match duration {
                Some(duration) => duration
                    .parse::<bentpipe_units::Span>()
                    .map(drop)
                    .map_err(|error| format!("duration: {error}")),
                None => Ok(()),
            }
        }
        Program::Gateway { name } | Program::DtnNode { name } => word("name", name),
        Program::DtnPerf { from, to, payload, seconds, window, rate, .. } => {
            endpoint("from", from)?;
            endpoint("to", to)?;
            within("payload in bytes", *payload, MAX_PAYLOAD)?;
            within("duration in seconds", (*seconds).into(), MAX_TASK_S.into())?;
            within("window", (*window).into(), 1_000_000)?;
            rate.map_or(Ok(()), |rate| within("bundles_per_second", rate.into(), 1_000_000))
        }
        Program::Iperf3Server { port } => within("port", (*port).into(), 65_535),
        Program::Iperf3 { port, seconds, rate, .. } => {
            within("port", (*port).into(), 65_535)?;
            within("duration in seconds", (*seconds).into(), MAX_TASK_S.into())?;
            rate.map_or(Ok(()), |rate| within("rate in bit/s", rate, 1_000_000_000_000))
        }
        Program::Ping { count, interval_ms, .. } => {
            within("count", (*count).into(), 1_000_000)?;
            within("interval in ms", (*interval_ms).into(), 3_600_000)
        }
    }
}

/// Checks the files that a scenario names.
fn check_files(files: &[GivenFile]) -> Result<(), String> {
    if files.len() > MAX_GIVEN {
        return Err(format!("files: expected at most {MAX_GIVEN}"));
    }
    let mut names = BTreeSet::new();
    for file in files {
        if is_reserved(&file.name) {
            return Err(format!(
                "files: {:?}: a site has a file of this name itself: choose another",
                file.name
            ));
        }
        if !files::is_name(&file.name) || !names.insert(&file.name) || file.bytes > MAX_GIVEN_BYTES {
            return Err(format!("files: {:?}: expected plain names, and at most 64 MiB each", file.name));
        }
    }
    Ok(())
}

/// Checks a name that becomes an argument: plain letters, and no option.
fn word(what: &str, text: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_word = !text.is_empty()
        && text.len() <= 64
        && text.chars().all(is_plain)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric());
    match is_word {
        true => Ok(()),
        false => Err(format!(
            "{what}: {text:?}: expected at most 64 letters, digits, \".\", \"_\" and \"-\", a letter or digit first"
        )),
    }
}

/// Checks an endpoint of bundles (RFC 9171, section 4.2.5.1).
///
/// No option can be made of one that is permitted.
fn endpoint(what: &str, text: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
    let is_endpoint = text.starts_with("ipn:") || text.starts_with("dtn://");
    match is_endpoint && text.len() <= 200 && text.chars().all(is_plain) {
        true => Ok(()),
        false => Err(format!("{what}: {text:?}: expected an endpoint such as ipn:2.9")),
    }
}

/// Returns program and arguments. `own` is the file of this program.
///
/// # Errors
/// Returns an error for a gateway that the site does not list.
pub(crate) fn arguments(program: &Program, allowed: &Allowed, own: &Path) -> Result<Vec<OsString>, String> {
    let mut all: Vec<OsString> = Vec::new();
    let mut add = |words: &[&str]| all.extend(words.iter().map(OsString::from));
    match program {
        Program::Emulate { attach, duration, join, .. } => {
            all.push(own.into());
            // Attached hosts send themselves; without them the flows do.
            all.extend(["emulate", SCENARIO, "--out", RESULTS, "--quiet"].map(OsString::from));
            // Only files of the working folder.
            all.extend(["--inputs", "."].map(OsString::from));
            all.push(if attach.is_empty() && join.is_none() { "--real-flows" } else { "--timed" }.into());
            // Outside of the working folder: they are not results.
            all.extend(
                ["--progress".into(), format!("../{PROGRESS}"), "--live".into(), format!("../{LIVE}")]
                    .map(OsString::from),
            );
            if let Some(join) = join {
                let key = format!("../{KEY}");
                let to = join.to.to_string();
                let words = ["--cut", &join.link, "--part", &join.part, "--join", &to, "--key", &key];
                all.extend(words.map(OsString::from));
            }
            for one in attach {
                all.push("--attach".into());
                all.push(format!("{}={}", one.host, one.interface).into());
            }
            if let Some(duration) = duration {
                all.push("--set".into());
                all.push(format!("duration=\"{}\"", duration.trim()).into());
            }
        }
        Program::Gateway { name } => {
            let file = allowed.gateways.get(name).ok_or_else(|| format!("no gateway {name:?}"))?;
            all.extend([own.into(), "gateway".into(), file.into(), "--quiet".into()]);
        }
        Program::DtnNode { name } => {
            let file = allowed.nodes.get(name).ok_or_else(|| format!("no node {name:?}"))?;
            all.extend([own.into(), "dtn".into(), "node".into(), file.into()]);
            all.extend(["--quiet", "--json", FIGURES].map(OsString::from));
        }
        Program::DtnPerf { node, from, to, payload, seconds, window, rate } => {
            all.extend([own.into(), "dtn".into(), "perf".into(), node.to_string().into(), to.into()]);
            let (payload, duration) = (format!("{payload} B"), format!("{seconds} s"));
            let control = match rate {
                Some(rate) => ["--rate".to_owned(), rate.to_string()],
                None => ["--window".to_owned(), window.to_string()],
            };
            let words = ["--from", from, "--payload", &payload, "--duration", &duration, "--json", FIGURES];
            all.extend(words.map(OsString::from));
            all.extend(control.map(OsString::from));
            all.extend(["--wait", REPORTS].map(OsString::from));
        }
        Program::Iperf3Server { port } => {
            add(&["iperf3", "--server", "--json", "--port", &port.to_string()]);
        }
        Program::Iperf3 { host, port, seconds, rate, udp, reverse } => {
            add(&["iperf3", "--json", "--client", &host.to_string(), "--port", &port.to_string()]);
            add(&["--time", &seconds.to_string()]);
            if let Some(rate) = rate {
                add(&["--bitrate", &rate.to_string()]);
            }
            add(if *udp { &["--udp"] } else { &[] });
            add(if *reverse { &["--reverse"] } else { &[] });
        }
        Program::Ping { host, count, interval_ms } => {
            let interval = format!("{}.{:03}", interval_ms / 1000, interval_ms % 1000);
            add(&["ping", "-n", "-c", &count.to_string(), "-i", &interval, &host.to_string()]);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Attach;

    fn shown(program: &Program) -> String {
        let allowed = Allowed::parse("[gateways]\neast = \"/etc/east.toml\"").expect("fine");
        let all = arguments(program, &allowed, Path::new("bentpipe")).expect("permitted");
        all.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn arguments_are_those_of_the_programs() {
        let client = Program::Iperf3 {
            host: [10, 0, 0, 1].into(),
            port: 5202,
            seconds: 9,
            rate: Some(1_000_000),
            udp: true,
            reverse: true,
        };
        assert_eq!(
            shown(&client),
            "iperf3 --json --client 10.0.0.1 --port 5202 --time 9 --bitrate 1000000 --udp --reverse"
        );
        let ping = Program::Ping { host: [10, 0, 0, 1].into(), count: 3, interval_ms: 1050 };
        assert_eq!(shown(&ping), "ping -n -c 3 -i 1.050 10.0.0.1");
        let perf = Program::DtnPerf {
            node: ([10, 0, 0, 1], 4556).into(),
            from: "ipn:1.60".to_owned(),
            to: "ipn:2.9".to_owned(),
            payload: 10_000,
            seconds: 20,
            window: 10,
            rate: None,
        };
        assert_eq!(check(&perf, Path::new("")), Ok(()));
        assert_eq!(
            shown(&perf),
            "bentpipe dtn perf 10.0.0.1:4556 ipn:2.9 --from ipn:1.60 --payload 10000 B --duration 20 s --json figures.json \
             --window 10 --wait 30 s"
        );
        for bad in ["-x", "ipn:1 2", "http://a", "ipn:1.1\n"] {
            assert!(endpoint("to", bad).is_err(), "{bad:?}");
        }
        assert_eq!(
            shown(&Program::Gateway { name: "east".to_owned() }),
            "bentpipe gateway /etc/east.toml --quiet"
        );
    }

    #[test]
    fn options_and_paths_are_no_names() {
        for bad in ["", "-x", "--shell", "a b", "a/b", "../x", "a=b", "a\0", "ä", "netns:x"] {
            let attach = vec![Attach { host: bad.to_owned(), interface: "eth1".to_owned() }];
            let (scenario, files) = (String::new(), Vec::new());
            let emulate = Program::Emulate { scenario, attach, duration: None, files, join: None };
            assert!(check(&emulate, Path::new("")).is_err_and(|why| why.starts_with("attach: ")), "{bad:?}");
            assert!(check(&Program::Gateway { name: bad.to_owned() }, Path::new("")).is_err(), "{bad:?}");
        }
        let given =
            |name: &str| check_files(&[GivenFile { name: name.to_owned(), bytes: 1, sha256: String::new() }]);
        for bad in ["../x", ".x", "a/b", ""] {
            assert!(given(bad).is_err_and(|why| why.contains("plain names")), "{bad:?}");
        }
        // In the folder of the task, in the working folder, and what replaces either.
        let own =
            ["task.json", "end.json", "start.json", "started.json", "stop", "drop", "live.jsonl", "join.key"];
        let written =
            ["output.txt", "errors.txt", "results", "scenario.toml", "scenario.new", "figures.json", "work"];
        for bad in own.into_iter().chain(written).chain(["Task.JSON", "task.new"]) {
            assert!(given(bad).is_err_and(|why| why.contains("itself")), "{bad:?}");
        }
        assert_eq!(given("fade.csv").and(given("tasks.json")), Ok(()));
        let ping = Program::Ping { host: [10, 0, 0, 1].into(), count: 0, interval_ms: 1 };
        assert_eq!(check(&ping, Path::new("")), Err("count: expected 1 to 1000000".to_owned()));
    }
}
