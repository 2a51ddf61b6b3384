//! The cost of a check: every numeric key at the ends of its range, thousands of nodes, and ramps of thousands of steps.
//!
//! A program of its own, because it limits its memory and processor time: half a gigabyte, which the former checks of most of
//! these exceeded several times. `cargo xtask bench check` times the same.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use bentpipe_lab::budget::Budget;
use bentpipe_lab::check::{Checked, check};
use bentpipe_scenario::{Document, Flow, catalogue, copies};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

const MEMORY_BYTES: u64 = 500 << 20;
const PROCESSOR_S: u64 = 900;

/// Limits the process. Tests take turns, as the limit is for the memory of each.
fn limit() -> MutexGuard<'static, ()> {
    static ONCE: Once = Once::new();
    static TURN: Mutex<()> = Mutex::new(());
    ONCE.call_once(|| restrict(PROCESSOR_S));
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn restrict(processor_s: u64) {
    for (resource, most) in [(Resource::Data, MEMORY_BYTES), (Resource::Cpu, processor_s)] {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }).expect("it is lowered");
    }
}

/// Numeric key in a shipped scenario.
struct Numeric {
    file: PathBuf,
    key: String,
    ends: Vec<String>,
}

/// Walk through the values of a scenario and their schemas.
struct Walk<'a> {
    file: &'a Path,
    /// Keys by their path, in which names are left out.
    found: &'a mut BTreeMap<String, Numeric>,
}

fn root() -> &'static Value {
    catalogue::schema()
}

/// Returns the target of a schema's reference, or the schema itself.
fn resolve(schema: &'static Value) -> &'static Value {
    let target = schema.get("$ref").and_then(Value::as_str);
    let target = target.filter(|_| schema.get("properties").is_none());
    target.and_then(|target| root().pointer(target.trim_start_matches('#'))).map_or(schema, resolve)
}

fn alternatives(schema: &'static Value) -> Vec<&'static Value> {
    let schema = resolve(schema);
    let choices = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array);
    choices.map_or_else(|| vec![schema], |choices| choices.iter().flat_map(alternatives).collect())
}

fn properties(schema: &'static Value) -> Vec<(&'static str, &'static Value)> {
    let own = schema.get("properties").and_then(Value::as_object);
    let own = own.into_iter().flatten().map(|(key, schema)| (key.as_str(), schema));
    let target = schema.get("$ref").and_then(Value::as_str).filter(|_| schema.get("properties").is_some());
    let other = target.and_then(|target| root().pointer(target.trim_start_matches('#')));
    own.chain(other.into_iter().flat_map(properties)).collect()
}

/// Returns the values at the ends of a numeric schema, and next to them where it states none.
fn ends(schema: &Value) -> Vec<String> {
    let is = |word: &str| {
        schema["type"] == word || schema["type"].as_array().is_some_and(|all| all.contains(&word.into()))
    };
    let text = |ends: &[&str]| ends.iter().map(|end| (*end).to_owned()).collect();
    let bound = |word: &str, none: &str| schema.get(word).map_or_else(|| none.to_owned(), Value::to_string);
    match schema.get("x-quantity").and_then(Value::as_str) {
        Some("Rate") => text(&["0 bit/s", "1 bit/s", "100000 Gbit/s"]),
        Some("Span") => text(&["0 s", "1 ns", "1 d", "366 d"]),
        Some("Bytes") => text(&["0 B", "1 B", "1000000000000 B"]),
        _ if is("integer") => {
            let most = match schema.get("format").and_then(Value::as_str) {
                Some("uint8") => u64::from(u8::MAX),
                Some("uint16") => u64::from(u16::MAX),
                Some("uint32") => u64::from(u32::MAX),
                _ => i64::MAX as u64,
            };
            vec![bound("minimum", "0"), bound("maximum", &most.to_string())]
        }
        _ if is("number") => vec![bound("minimum", "-1e300"), bound("maximum", "1e300")],
        _ => Vec::new(),
    }
}

impl Walk<'_> {
    fn value(&mut self, schema: &'static Value, value: &Value, key: &str, path: &str) {
        for schema in alternatives(schema) {
            match value {
                Value::Object(table) => self.table(schema, table, key, path),
                Value::Array(items) => {
                    let of = schema.get("items").filter(|of| of.is_object());
                    let items = items.iter().enumerate().take(2).zip(of.into_iter().cycle());
                    items.for_each(|((n, item), of)| {
                        self.value(of, item, &join(key, &n.to_string()), &join(path, "0"))
                    });
                }
                _ => self.leaf(schema, key, path),
            }
        }
    }

    fn table(
        &mut self,
        schema: &'static Value,
        table: &serde_json::Map<String, Value>,
        key: &str,
        path: &str,
    ) {
        let properties = properties(schema);
        let kind =
            properties.iter().find(|(name, _)| *name == "kind").and_then(|(_, kind)| kind.get("const"));
        if kind.is_some_and(|kind| table.get("kind") != Some(kind)) {
            return;
        }
        let others = schema.get("additionalProperties").filter(|others| others.is_object());
        for (name, value) in table {
            match (properties.iter().find(|(known, _)| known == name), others) {
                (Some((_, schema)), _) => self.value(schema, value, &join(key, name), &join(path, name)),
                (None, Some(schema)) => self.value(schema, value, &join(key, name), &join(path, "*")),
                (None, None) => {}
            }
        }
        for (name, schema) in properties.iter().filter(|(name, _)| !table.contains_key(*name)) {
            let (key, path) = (join(key, name), join(path, name));
            alternatives(schema).into_iter().for_each(|schema| self.leaf(schema, &key, &path));
        }
    }

    fn leaf(&mut self, schema: &Value, key: &str, path: &str) {
        let ends = ends(schema);
        if !ends.is_empty() {
            let new = || Numeric { file: self.file.to_owned(), key: key.to_owned(), ends };
            self.found.entry(path.to_owned()).or_insert_with(new);
        }
    }
}

fn join(key: &str, part: &str) -> String {
    if key.is_empty() { part.to_owned() } else { format!("{key}.{part}") }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder");
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    all.sort();
    all
}

fn scenarios_in(folder: &Path) -> Vec<PathBuf> {
    let name = |file: &PathBuf| file.file_name().map_or(String::new(), |name| name.to_string_lossy().into());
    // Those of other kinds are the study itself, and sites of gateways.
    let is_scenario =
        |name: &str| name.ends_with(".toml") && name != "study.toml" && !name.starts_with("gateway-");
    entries(folder).into_iter().filter(|file| is_scenario(&name(file))).collect()
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn shipped() -> Vec<PathBuf> {
    scenarios_in(&project().join("scenarios"))
}

/// Returns the shipped scenarios and those of studies.
fn all_scenarios() -> Vec<PathBuf> {
    let studies = entries(&project().join("studies"));
    let of_studies = studies.iter().filter(|study| study.is_dir()).flat_map(|study| scenarios_in(study));
    shipped().into_iter().chain(of_studies).collect()
}

/// Returns the numeric keys of all shipped scenarios.
fn numeric_keys() -> Vec<Numeric> {
    let files = shipped();
    let mut found = BTreeMap::new();
    for file in &files {
        let document = bentpipe_paths::document(file).expect("readable");
        let scenario = document.scenario().unwrap_or_else(|refusal| panic!("{refusal}"));
        let value = scenario.to_json().expect("JSON");
        Walk { file, found: &mut found }.value(root(), &value, "", "");
    }
    found.into_values().collect()
}

/// Checks a document and computes its budget. A refusal names a key or the file.
fn cost(document: &Document) -> Result<Checked, String> {
    budget(document).map(|(checked, _)| checked)
}

fn budget(document: &Document) -> Result<(Checked, Budget), String> {
    let checked = check(document).map_err(|refusal| refusal.to_string())?;
    match Budget::with_files(&checked.first, Some(document.access())) {
        Ok(budget) => Ok((checked, budget)),
        Err(problem) => Err(document.refusal(&problem.key, problem.problem).to_string()),
    }
}

/// Returns the line of a budget with the greatest number that there is, as a count or in nanoseconds.
fn without_end(budget: &Budget) -> Option<String> {
    budget.to_string().lines().find(|line| line.contains("18446744073")).map(str::to_owned)
}

#[test]
fn every_numeric_key_at_its_ends_is_checked_within_bounds_or_refused() {
    let _turn = limit();
    let (mut taken, mut refused) = (0, 0);
    for Numeric { file, key, ends } in numeric_keys() {
        let document = bentpipe_paths::document(&file).expect("readable");
        for end in ends {
            let mut document = document.clone();
            let set = document.set(&format!("{key}={end}")).map_err(|refusal| refusal.to_string());
            match set.and_then(|()| budget(&document)) {
                Ok((_, budget)) => {
                    taken += 1;
                    assert_eq!(without_end(&budget), None, "{}: {key} = {end}", file.display());
                }
                Err(refusal) => {
                    refused += 1;
                    assert!(refusal.contains(": ") && !refusal.contains("panic"), "{key} = {end}: {refusal}");
                }
            }
        }
    }
    assert!(taken >= 400 && refused >= 100, "{taken} taken, {refused} refused: expected more of the schema");
}

/// Returns the counts of copies of all nodes and flows in all scenarios, each with its largest value.
fn counts() -> Vec<(PathBuf, String)> {
    let mut all = Vec::new();
    for file in all_scenarios() {
        let document = bentpipe_paths::document(&file).expect("readable");
        let scenario = document.scenario().unwrap_or_else(|refusal| panic!("{refusal}"));
        let nodes = scenario.node.keys();
        all.extend(nodes.map(|name| (file.clone(), format!("node.{name}.count=10000"))));
        // As many as the others leave of 100,000.
        let copies = |flow: &Flow| flow.count * copies::copies(&scenario, [&flow.from, &flow.to]);
        let of_all: u32 = scenario.flow.values().map(copies).sum();
        let most = |flow: &Flow| (100_000 - of_all + copies(flow)) / (copies(flow) / flow.count);
        let flows = scenario.flow.iter().map(|(name, flow)| format!("flow.{name}.count={}", most(flow)));
        all.extend(flows.map(|set| (file.clone(), set)));
    }
    all
}

/// Key and value of the check that a process of its own carries out.
const CASE: [&str; 2] = ["CHECK_FILE", "CHECK_SET"];
/// Most processor time of such a process: five times the bar of a release, which `cargo xtask bench check` judges.
const PROCESSOR_OF_ONE_S: u64 = 10;

/// Each check is in a process of its own, as what an allocator keeps of one would count in the next.
#[test]
fn copies_of_every_node_and_flow_are_checked_within_bounds_or_refused() {
    if let [Ok(file), Ok(set)] = CASE.map(std::env::var) {
        return check_one(Path::new(&file), &set);
    }
    let all = counts();
    let of_each =
        |cases: &[(PathBuf, String)]| cases.iter().filter(|(file, set)| is_taken(file, set)).count();
    let (first, second) = all.split_at(all.len() / 2);
    let taken = std::thread::scope(|scope| {
        let other = scope.spawn(|| of_each(second));
        of_each(first) + other.join().expect("it ends")
    });
    assert!(taken >= 50 && all.len() - taken >= 50, "{taken} of {} taken", all.len());
}

/// Returns `true` if a process checks a file with a setting under the limits, and `false` if it refuses it.
fn is_taken(file: &Path, set: &str) -> bool {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args([
        "--exact",
        "copies_of_every_node_and_flow_are_checked_within_bounds_or_refused",
        "--nocapture",
    ]);
    let output = child.env(CASE[0], file).env(CASE[1], set).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let outcome =
        text.lines().find_map(|line| line.strip_prefix(OUTCOME)).filter(|_| output.status.success());
    let refusal = outcome.unwrap_or_else(|| {
        let log = String::from_utf8_lossy(&output.stderr);
        panic!("{} with {set}: {}, over a limit: {text}{log}", file.display(), output.status)
    });
    assert!(refusal == "taken" || refusal.contains("count") || refusal.contains(": "), "{set}: {refusal}");
    refusal == "taken"
}

/// Start of the line with the outcome of a check.
const OUTCOME: &str = "outcome: ";

/// Checks a file with a setting under the limits, and prints "taken" or the refusal.
fn check_one(file: &Path, set: &str) {
    restrict(PROCESSOR_OF_ONE_S);
    let mut document = bentpipe_paths::document(file).expect("readable");
    let outcome = document.set(set).map_err(|refusal| refusal.to_string()).and_then(|()| cost(&document));
    let outcome = outcome.map_or_else(|refusal| refusal.replace('\n', " "), |_| "taken".to_owned());
    let line = format!("\n{OUTCOME}{outcome}\n");
    std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes()).expect("it is read");
}

/// A hub with terminals, each with a link and a flow.
fn terminals(count: usize) -> Document {
    let mut text = "title = \"t\"\nduration = \"1 s\"\nnode.hub = { kind = \"router\" }\nnode.server = {}\n\
         link.up = { between = [\"server\", \"hub\"], rate = \"1 Gbit/s\", delay = \"1 ms\" }\n"
        .to_owned();
    for n in 0..count {
        let _ = write!(
            text,
            "[node.t{n}]\n[link.a{n}]\nbetween = [\"hub\", \"t{n}\"]\nrate = \"10 Mbit/s\"\ndelay = \"270 ms\"\n\
             [flow.f{n}]\nfrom = \"server\"\nto = \"t{n}\"\ntraffic = {{ kind = \"tcp\" }}\n"
        );
    }
    Document::parse("terminals.toml", text.as_bytes()).expect("TOML")
}

#[test]
fn thousands_of_terminals_take_memory_in_proportion() {
    let _turn = limit();
    let checked = cost(&terminals(3000)).unwrap_or_else(|refusal| panic!("{refusal}"));
    assert_eq!(checked.first.flow.len(), 3000);
    let text = "title = \"t\"\nduration = \"1 s\"\nnode.hub = { kind = \"router\" }\nnode.server = {}\nnode.t = { count = 5000 }\n\
        link.up = { between = [\"server\", \"hub\"], rate = \"1 Gbit/s\" , delay = \"1 ms\" }\n\
        link.a = { between = [\"hub\", \"t\"], rate = \"10 Mbit/s\", delay = \"270 ms\" }\n\
        flow.f = { from = \"server\", to = \"t\", traffic = \"tcp\" }\n";
    let copies = Document::parse("copies.toml", text.as_bytes()).expect("TOML");
    cost(&copies).unwrap_or_else(|refusal| panic!("{refusal}"));
}

#[test]
fn thousands_of_proxies_beside_one_another_are_refused_by_their_role() {
    let _turn = limit();
    let text = "title = \"t\"\nduration = \"1 s\"\nnode.server = {}\nnode.client = {}\n\
        node.edge = { kind = \"router\", count = 5000, role = { kind = \"pep\", link = \"space\", state = \"on\" } }\n\
        link.core = { between = [\"server\", \"edge\"], rate = \"1 Gbit/s\", delay = \"1 ms\" }\n\
        link.space = { between = [\"edge\", \"client\"], rate = \"10 Mbit/s\", delay = \"270 ms\" }\n";
    let document = Document::parse("proxies.toml", text.as_bytes()).expect("TOML");
    let refusal = cost(&document).expect_err("refused").to_string();
    assert!(refusal.contains("node.edge.role") && refusal.contains("at most 799 such roles"), "{refusal}");
}

fn thread_time_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the processor time of a check, as the shortest of three.
fn processor_time_s(text: &str) -> f64 {
    let document = Document::parse("copies.toml", text.as_bytes()).expect("TOML");
    let once = || {
        let start = thread_time_s();
        cost(&document).unwrap_or_else(|refusal| panic!("{refusal}"));
        thread_time_s() - start
    };
    (0..3).map(|_| once()).fold(f64::INFINITY, f64::min)
}

/// Four times the stations take four times the time, and not sixteen times.
#[test]
fn stations_of_a_cell_take_time_in_proportion() {
    let _turn = limit();
    let wifi = |count: usize| {
        format!(
            "title = \"t\"\nduration = \"1 s\"\nnode.hub = {{ kind = \"router\" }}\nnode.t = {{ count = {count} }}\n\
             link.a = {{ between = [\"hub\", \"t\"], medium = {{ kind = \"wifi\", standard = \"b\", bss = \"floor\" }} }}\n"
        )
    };
    let wimax = |count: usize| {
        format!(
            "title = \"t\"\nduration = \"1 s\"\nnode.hub = {{ kind = \"router\" }}\nnode.t = {{ count = {count} }}\n\
             cell.c = {{ bandwidth = \"20 MHz\", frame = \"20 ms\" }}\n\
             link.a = {{ between = [\"hub\", \"t\"], medium = {{ kind = \"wimax\", cell_name = \"c\" }} }}\n"
        )
    };
    for (name, text) in [("wifi", &wifi as &dyn Fn(usize) -> String), ("wimax", &wimax)] {
        let [few, many] = [1000, 4000].map(|count| processor_time_s(&text(count)));
        assert!(many < 9.0 * few, "{name}: {few} s of 1000, {many} s of 4000");
    }
}

/// A chain of nodes, and a ramp of the first link's rate.
fn ramp(nodes: usize, steps: usize) -> String {
    let mut text = "title = \"t\"\nduration = \"1 s\"\n".to_owned();
    for n in 0..nodes {
        let _ = writeln!(text, "[node.n{n}]\nkind = \"router\"");
    }
    for n in 1..nodes {
        let _ = writeln!(
            text,
            "[link.l{n}]\nbetween = [\"n{}\", \"n{n}\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"",
            n - 1
        );
    }
    let step_ns = 1_000_000_000 / steps;
    let _ = writeln!(
        text,
        "[[event]]\nat = \"0 s\"\nset = {{ \"link.l1.rate\" = \"9 Mbit/s\" }}\nover = \"1 s\"\nramp = \"{step_ns} ns\""
    );
    text
}

#[test]
fn states_of_ramps_are_what_they_change() {
    let _turn = limit();
    let document = Document::parse("ramp.toml", ramp(200, 10_000).as_bytes()).expect("TOML");
    let checked = cost(&document).unwrap_or_else(|refusal| panic!("{refusal}"));
    let changed: usize = checked.first.timeline.iter().map(|moment| moment.difference.len()).sum();
    assert_eq!((checked.first.timeline.len(), changed), (10_000, 10_000), "one link a step");
    let rates: Vec<String> = (100..200).map(|rate| format!("\"{rate} kbit/s\"")).collect();
    let swept = format!("{}[sweep]\n\"link.l2.rate\" = [{}]\n", ramp(3, 5000), rates.join(", "));
    let document = Document::parse("swept.toml", swept.as_bytes()).expect("TOML");
    let checked = cost(&document).unwrap_or_else(|refusal| panic!("{refusal}"));
    assert!(checked.of == 100 && checked.points * 5000 <= 100_000, "{} points", checked.points);
}

/// Flows of tables of their own, of one kind.
fn flows(count: usize, traffic: &str) -> String {
    let mut text = "title = \"t\"\nduration = \"1 s\"\nnode.a = {}\nnode.b = {}\n\
        link.l = { between = [\"a\", \"b\"], rate = \"1 Gbit/s\", delay = \"10 ms\" }\n"
        .to_owned();
    for n in 0..count {
        let _ = writeln!(text, "[flow.f{n}]\nfrom = \"a\"\nto = \"b\"\ntraffic = {traffic}");
    }
    text
}

#[test]
fn flows_of_tables_of_their_own_take_time_in_proportion() {
    let _turn = limit();
    let udp =
        "{ kind = \"udp\", payload = \"500 B\", pattern = { kind = \"constant\", interval = \"20 ms\" } }";
    for traffic in [udp, "{ kind = \"tcp\" }", "{ kind = \"voice\", codec = \"gsm\" }", "{ kind = \"ping\" }"]
    {
        let [few, many] = [1500, 6000].map(|count| processor_time_s(&flows(count, traffic)));
        assert!(many < 8.0 * few, "{traffic}: {few} s of 1500, {many} s of 6000");
    }
}

/// Links of a hub, and events that each change the rate of one.
fn changes(events: usize, links: usize) -> String {
    let mut text = flows(1, "{ kind = \"tcp\" }");
    for n in 0..links {
        let _ = write!(
            text,
            "[node.n{n}]\n[link.k{n}]\nbetween = [\"a\", \"n{n}\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n"
        );
    }
    for n in 0..events {
        let (at, link, rate) = (900_000_000 / events * n, n % links, 1 + n % 7);
        let _ = writeln!(
            text,
            "[[event]]\nat = \"{at} ns\"\nset = {{ \"link.k{link}.rate\" = \"{rate} Mbit/s\" }}"
        );
    }
    text
}

/// Four times the events on four times the links take four times the time, and not sixteen times.
#[test]
fn events_on_links_take_time_in_proportion() {
    let _turn = limit();
    let [few, many] =
        [(500, 250), (2000, 1000)].map(|(events, links)| processor_time_s(&changes(events, links)));
    assert!(many < 8.0 * few, "{few} s of 500 events on 250 links, {many} s of 2000 on 1000");
}

#[test]
fn events_on_what_many_links_share_are_bounded() {
    let _turn = limit();
    let mut text = "title = \"t\"\nduration = \"1 s\"\nnode.hub = { kind = \"router\" }\n".to_owned();
    for n in 0..1000 {
        let _ = write!(
            text,
            "[node.n{n}]\n[link.k{n}]\nbetween = [\"hub\", \"n{n}\"]\ndelay = \"1 ms\"\n\
             medium = {{ kind = \"wifi\", bss = \"floor\", standard = \"b\" }}\n"
        );
    }
    for n in 0..2000 {
        let _ = writeln!(
            text,
            "[[event]]\nat = \"{n} us\"\nset = {{ \"link.k{}.delay\" = \"{} ms\" }}",
            n % 1000,
            1 + n % 7
        );
    }
    let document = Document::parse("shared.toml", text.as_bytes()).expect("TOML");
    let refusal = cost(&document).expect_err("too many checks");
    assert!(refusal.contains("event.") && refusal.contains("250000 checks"), "{refusal}");
}

#[test]
fn a_file_of_delays_that_many_links_name_is_one_table() {
    let _turn = limit();
    let folder = tempfile::tempdir().expect("a folder");
    let mut rows = "time_s,delay_ms\n".to_owned();
    for n in 0..600_000 {
        let _ = writeln!(rows, "0.{n:06},{}", 1 + n % 9);
    }
    std::fs::write(folder.path().join("d.csv"), rows).expect("written");
    let mut text = flows(1, "{ kind = \"tcp\" }");
    for n in 0..21 {
        let _ = write!(
            text,
            "[node.n{n}]\n[link.k{n}]\nbetween = [\"a\", \"n{n}\"]\nrate = \"1 Mbit/s\"\ndelay_changes = {{ file = \"d.csv\" }}\n"
        );
    }
    let file = folder.path().join("s.toml");
    std::fs::write(&file, text).expect("written");
    let start = thread_time_s();
    cost(&bentpipe_paths::document(&file).expect("readable")).unwrap_or_else(|refusal| panic!("{refusal}"));
    let takes = thread_time_s() - start;
    assert!(takes < 8.0, "{takes} s");
}

/// Settings that leave nothing, or next to nothing, to carry or to offer.
#[test]
fn what_is_without_bound_is_said_and_not_counted() {
    let _turn = limit();
    let cases = [
        (
            "scenarios/mesh.toml",
            "flow.calls-north.traffic.pattern.interval=1000000 ms",
            "no bound of such flows",
        ),
        (
            "scenarios/atm-vs-vd.toml",
            "atm.line.trunk.rate=1 Mbit/s",
            "nothing gets through path forward: nothing arrives",
        ),
        (
            "scenarios/atm-vs-vd.toml",
            "atm.stream.television.source.rate=1000000000 Mbit/s",
            "nothing gets through",
        ),
        (
            "scenarios/acm-fade.toml",
            "dvb.down.es_n0_db=0.0001",
            "nothing gets through sky forward while it sends",
        ),
        (
            "studies/eggs/proxy.toml",
            "link.proximity.rate=0.001 kbit/s",
            "nothing gets through proximity forward",
        ),
        ("studies/abr-video/wan.toml", "atm.stream.video.source.programmes=1000", "nothing gets through"),
    ];
    for (file, set, expected) in cases {
        let mut document = bentpipe_paths::document(&project().join(file)).expect("readable");
        document.set(set).unwrap_or_else(|refusal| panic!("{set}: {refusal}"));
        let (_, budget) = budget(&document).unwrap_or_else(|refusal| panic!("{set}: {refusal}"));
        assert_eq!(without_end(&budget), None, "{file}: {set}");
        let text = budget.to_string();
        assert!(text.contains(expected), "{file}: {set}: {text}");
    }
}
