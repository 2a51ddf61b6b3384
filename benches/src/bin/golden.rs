//! Prints the results of every scenario and study run, shortened: `golden [NAME...]`.
//!
//! `cargo xtask golden` compares the output with `benches/golden/`, so a change that is meant to leave results alone is seen to.
//! Of a sweep the first and the last point are run, each with its first seed. A line holds one value:
//!
//! ```text
//! RUN engine FINGERPRINT DELIVERIES WAKEUPS STRAY
//! RUN series COLUMNS ROWS DIGEST
//! RUN measure NAME VALUE UNIT
//! RUN total NAME VALUE UNIT
//! RUN measures NAME COUNT DIGEST UNIT
//! RUN totals NAME COUNT DIGEST UNIT
//! RUN check NUMBERS
//! RUN emulated FINGERPRINT DELIVERIES WAKEUPS PACKETS DIGEST
//! ```
//!
//! Copies that `count` makes share a line, in which `*` stands for their numbers.

#![allow(clippy::print_stdout, reason = "a program that prints its result")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, anyhow};
use bentpipe_assemble::{Emulated, RealHost};
use bentpipe_emu::{Driver, FakeClock, Queue};
use bentpipe_lab::budget::Budget;
use bentpipe_lab::plan::{Plan, Seeds};
use bentpipe_lab::run::{self, Assembled, Folder, Request, Silent};
use bentpipe_record::{Measure, Outcome};
use bentpipe_scenario::{Access, Document, Scenario};
use bentpipe_study::Study;
use bentpipe_units::{RandomStream, Span, Time};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

/// Longest simulated time.
const LONGEST: Span = Span::from_secs(40);

/// Simulated time of an emulated build.
const EMULATED: Span = Span::from_secs(2);

/// A scenario with its overrides.
struct Case {
    name: String,
    path: PathBuf,
    set: Vec<String>,
}

fn main() -> Result<()> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("benches has a parent")?;
    let mut cases = scenarios(&root.join("scenarios"))?;
    cases.extend(studies(&root.join("studies"))?);
    cases.retain(|case| names.is_empty() || names.iter().any(|name| case.name.starts_with(name)));
    let texts: Vec<Result<String>> = cases.par_iter().map(text).collect();
    let mut out = std::io::stdout().lock();
    for (case, text) in cases.iter().zip(texts) {
        out.write_all(text.with_context(|| case.name.clone())?.as_bytes())?;
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn scenarios(folder: &Path) -> Result<Vec<Case>> {
    let files = entries(folder)?.into_iter().filter(|path| path.extension().is_some_and(|end| end == "toml"));
    Ok(files.map(|path| Case { name: format!("scenarios/{}", stem(&path)), path, set: Vec::new() }).collect())
}

fn studies(folder: &Path) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for path in entries(folder)?.into_iter().filter(|path| path.join("study.toml").is_file()) {
        let study = Study::read(&path).map_err(|error| anyhow!("{error}"))?;
        cases.extend(study.runs.iter().map(|(name, run)| Case {
            name: format!("{}/{name}", study.name),
            path: study.folder.join(&run.scenario),
            set: run.set.iter().chain(&run.quick).cloned().collect(),
        }));
    }
    Ok(cases)
}

fn text(case: &Case) -> Result<String> {
    let mut document = bentpipe_paths::document(&case.path).map_err(|error| anyhow!("{error}"))?;
    for set in &case.set {
        document.set(set).map_err(|error| anyhow!("{error}"))?;
    }
    let mut text = simulated(case, &document)?;
    if case.set.is_empty() {
        let scenario = document.scenario().map_err(|error| anyhow!("{error}"))?;
        text += &checked(&case.name, &scenario, document.access());
        text += &emulated(&case.name, &scenario, document.access());
    }
    Ok(text)
}

/// Runs the first and the last point.
fn simulated(case: &Case, document: &Document) -> Result<String> {
    let mut plan =
        Plan::new(document, Seeds { first: None, count: Some(1) }).map_err(|error| anyhow!("{error}"))?;
    let last = plan.points.len() - 1;
    plan.points.retain(|point| point.index == 0 || point.index == last);
    for (index, point) in plan.points.iter_mut().enumerate() {
        point.index = index;
        point.scenario.duration = point.scenario.duration.min(LONGEST);
    }
    let folder = std::env::temp_dir().join(format!("bentpipe-golden-{}", std::process::id()));
    let folder = folder.join(case.name.replace('/', "-"));
    let request = Request {
        document,
        plan: &plan,
        folder: Folder::new(&folder, "golden", &plan).with_csv(true),
        jobs: 1,
        force: true,
        captures: usize::MAX.into(),
        build: "golden",
        commit: None,
        command: &[],
    };
    let assembled = Assembled::new(document, &plan).map_err(|error| anyhow!("{error}"))?;
    let prepare = |point: &_, seed| assembled.prepare(point, seed);
    let results = run::execute(&request, &prepare, &Silent).map_err(|error| anyhow!("{error}"))?;
    let mut text = String::new();
    for ((point, seed), result) in plan.runs().zip(&results.runs) {
        let name = format!("{}#{}", case.name, point.index);
        text += &outcome(&name, &result.outcome);
        text += &series(&name, &request.folder.of_run(point, seed).join("series.csv"))?;
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(text)
}

fn outcome(name: &str, outcome: &Outcome) -> String {
    let Outcome { fingerprint, deliveries, wakeups, stray, .. } = outcome;
    let mut text = format!("{name} engine {fingerprint} {deliveries} {wakeups} {stray}\n");
    let totals: Vec<Measure> = outcome.totals.measures().collect();
    for (kind, measures) in [("measure", &outcome.measures), ("total", &totals)] {
        for (pattern, members) in copies(measures) {
            text += &match members[..] {
                [only] => format!("{name} {kind} {} {:?} {}\n", only.name, only.value, only.unit),
                _ => format!("{name} {kind}s {pattern} {}\n", together(&members)),
            };
        }
    }
    text
}

/// Returns the measures by name, with `*` for numbers of copies.
///
/// They are in order of first appearance.
fn copies(measures: &[Measure]) -> Vec<(String, Vec<&Measure>)> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut groups: Vec<(String, Vec<&Measure>)> = Vec::new();
    for measure in measures {
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let part = |part| if is_number(part) { "*" } else { part };
        let pattern = measure.name.split('.').map(part).collect::<Vec<_>>().join(".");
        let place = *places.entry(pattern.clone()).or_insert(groups.len());
        if place == groups.len() {
            groups.push((pattern, Vec::new()));
        }
        groups[place].1.push(measure);
    }
    groups
}

fn together(members: &[&Measure]) -> String {
    let mut digest = Digest::default();
    members.iter().for_each(|measure| digest.add(format!("{} {:?}", measure.name, measure.value).as_bytes()));
    format!("{} {:016x} {}", members.len(), digest.0, members[0].unit)
}

/// Returns the digest of a series: all rows, but not the titles of the columns.
fn series(name: &str, path: &Path) -> Result<String> {
    let mut lines = BufReader::new(std::fs::File::open(path)?).lines();
    let columns = lines.next().context("a title")??.split(',').count();
    let (mut rows, mut digest) = (0, Digest::default());
    for line in lines {
        digest.add(line?.as_bytes());
        rows += 1;
    }
    Ok(format!("{name} series {columns} {rows} {:016x}\n", digest.0))
}

/// Returns the numbers that `bentpipe check` shows, without their words.
fn checked(name: &str, scenario: &Scenario, access: &Access) -> String {
    let text = match Budget::with_files(scenario, Some(access)) {
        Ok(budget) => budget.to_string(),
        Err(problem) => problem.to_string(),
    };
    let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let numbers: Vec<&str> = text.split_whitespace().filter(is_number).collect();
    format!("{name} check {}\n", numbers.join(" "))
}

/// Sends datagrams from every real host to every other, through the emulator's driver. Readings of its clock
/// take no time.
fn emulated(name: &str, scenario: &Scenario, access: &Access) -> String {
    let Ok(emulated) = Emulated::new(scenario, scenario.seed, access) else {
        return format!("{name} emulated none\n");
    };
    let mut driver = Driver::new(emulated.built.network, FakeClock::new(Span::ZERO));
    let mut ports = Vec::new();
    for host in &emulated.hosts {
        for interface in &host.interfaces {
            let port = Queue::default();
            driver.open(interface.gate, port.clone());
            ports.push(port);
        }
    }
    let address = |host: &RealHost| match host.addresses[0] {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    };
    let addresses: Vec<Ipv4Addr> = emulated.hosts.iter().filter_map(address).collect();
    let firsts: Vec<usize> = emulated
        .hosts
        .iter()
        .scan(0, |next, host| Some(std::mem::replace(next, *next + host.interfaces.len())))
        .collect();
    let stop = AtomicBool::new(false);
    let (mut stream, mut at) = (RandomStream::new(1, "golden"), Time::ZERO);
    while at < Time::ZERO + EMULATED {
        at += Span::from_secs_f64(stream.exponential(0.002));
        let pick = |stream: &mut RandomStream, n: usize| ((stream.unit() * n as f64) as usize).min(n - 1);
        let (from, to) = (pick(&mut stream, addresses.len()), pick(&mut stream, addresses.len()));
        let len = pick(&mut stream, 1400);
        driver.run(at, &stop);
        ports[firsts[from]].send(&datagram(addresses[from], addresses[to], len));
    }
    driver.run(Time::ZERO + EMULATED + Span::from_secs(1), &stop);
    let (mut packets, mut digest) = (0, Digest::default());
    for packet in ports.iter().flat_map(|port| std::iter::from_fn(|| port.receive())) {
        digest.add(&packet);
        packets += 1;
    }
    let (fingerprint, work) = (driver.network().fingerprint(), driver.network().work());
    format!(
        "{name} emulated {fingerprint} {} {} {packets} {:016x}\n",
        work.deliveries, work.wakeups, digest.0
    )
}

/// Returns an IPv4 packet with a UDP datagram of `len` zeros, without a UDP checksum.
fn datagram(from: Ipv4Addr, to: Ipv4Addr, len: usize) -> Vec<u8> {
    let total = (28 + len) as u16;
    let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
    bytes[2..4].copy_from_slice(&total.to_be_bytes());
    bytes.extend(from.octets());
    bytes.extend(to.octets());
    let sum: u32 = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend([0x13, 0x88, 0x13, 0x88]);
    bytes.extend((total - 20).to_be_bytes());
    bytes.resize(usize::from(total), 0);
    bytes
}

/// FNV-1a over 64 bits.
struct Digest(u64);

impl Default for Digest {
    fn default() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(b"\n") {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
