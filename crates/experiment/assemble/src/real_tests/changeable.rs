//! Keys that are declared as changeable, compared with what a running network accepts.

use bentpipe_scenario::catalogue;
use bentpipe_units::{Bytes, Rate};
use toml::Value;

use super::*;

/// A line with all that may change, a shaper, and a role.
const LINE: &str = r#"
title = "x"
duration = "10 s"
node.a = { real = true }
node.b = { kind = "router", role = { kind = "marker", rules = [{ from = "hop", protocol = "udp", dscp = 0, mark = 46 }] } }
node.c = {}
[link.hop]
between = ["a", "b"]
rate = "8 Mbit/s"
delay = "10 ms"
mtu = "1400 B"
queue = { kind = "red", min = "10 kB", max = "30 kB", limit = "60 kB", probability = 0.1 }
channel = { kind = "gilbert-elliott", p = 0.01, r = 0.5 }
[link.hop.forward.shaper]
rate = "4 Mbit/s"
burst = "10 kB"
limit = "10 kB"
[link.hop.return.quick_start]
threshold = 0.5
[link.next]
between = ["b", "c"]
rate = "8 Mbit/s"
queue = { kind = "priority", packets = 10, bytes = "10 kB" }
[flow.bulk]
from = "c"
to = "b"
tcp = {}
"#;

/// Streams of DVB with a filter.
const STREAM: &str = r#"
title = "x"
duration = "10 s"
[node.a]
[node.b]
[dvb.carrier]
kind = "transport-stream"
rate = "2 Mbit/s"
[link.sky]
between = ["a", "b"]
queue = { kind = "drop-tail", packets = 50 }
channel = { kind = "bit-errors", ber = 1e-6 }
[link.sky.medium]
kind = "dvb"
line = "carrier"
packing = "1 ms"
llc = false
rohc = { contexts = 12 }
filter = [{ min_size = "1001 B", dscp = 1, action = "plain" }]
"#;

/// A virtual channel between two routers.
const CHANNEL: &str = r#"
title = "x"
duration = "10 s"
node.a = {}
node.near = { kind = "router" }
node.far = { kind = "router" }
node.b = {}
link.left = { between = ["a", "near"], rate = "10 Mbit/s" }
link.right = { between = ["far", "b"], rate = "10 Mbit/s" }
[link.path]
between = ["near", "far"]
medium = { kind = "vc", limit = 100, receive = { rate = "5 Mbit/s", limit = 100 } }
[atm.switch.middle]
limit = { ubr = 500 }
[atm.line.one]
between = ["near", "middle"]
rate = "8 Mbit/s"
delay = "10 ms"
channel = { kind = "cell-loss", ratio = 0.01 }
[atm.line.two]
between = ["middle", "far"]
rate = "8 Mbit/s"
"#;

/// Two stations of a cell, with a fault of frames.
const CELL: &str = r#"
title = "x"
duration = "10 s"
[node.a]
[node.b]
[link.air]
between = ["a", "b"]
medium = { kind = "wifi", rate = "11 Mbit/s", attempts = 7 }
queue = { kind = "drop-tail", packets = 50 }
channel = { kind = "packet-errors", loss = 0.1 }
"#;

/// A terminal of a return link, which keeps a delay and a queue.
const TERMINAL: &str = r#"
title = "x"
duration = "10 s"
[node.a]
[node.b]
[carrier.up]
preset = "skyplex"
carriers = 2
rate = "2112 kbit/s"
slots = 7
cells = 9
frames = 8
multiframes = 3
processing = "1 ms"
timeout = 4
[link.sky]
between = ["a", "b"]
channel = { kind = "packet-errors", loss = 0.1 }
forward.medium = { kind = "dama", carrier = "up", cra = "88 kbit/s", rbdc = "1 Mbit/s" }
return.rate = "10 Mbit/s"
"#;

/// A carrier of DVB-S2 with ACM.
const ADAPTIVE: &str = r#"
title = "x"
duration = "10 s"
[node.a]
[node.b]
[dvb.carrier]
kind = "dvb-s2"
symbol_rate = 2_000_000
modcod = "QPSK 1/2"
es_n0_db = 9.0
margin_db = 1.0
reaction = "100 ms"
steps = [{ at = "5 s", es_n0_db = 3.0 }]
[link.sky]
between = ["a", "b"]
forward.medium = { kind = "dvb", line = "carrier", encapsulation = "gse" }
return.rate = "1 Mbit/s"
"#;

/// Another value of the same kind; `None` for words, which select kinds.
fn another(value: &Value) -> Option<String> {
    match value {
        Value::Boolean(yes) => Some((!yes).to_string()),
        // Not more than there are: a code point, a number of contexts and a size have an end.
        Value::Integer(n) => Some(if *n > 1 { n - 1 } else { n + 1 }.to_string()),
        Value::Float(x) => Some((x * 0.5 + 1e-7).to_string()),
        Value::String(text) => {
            let rate = text.parse::<Rate>().map(|rate| Rate::from_bps(rate.as_bps() * 2).to_string());
            let span = || text.parse::<Span>().map(|span| (span * 2 + Span::from_millis(1)).to_string());
            let bytes = || text.parse::<Bytes>().map(|bytes| Bytes::new(bytes.get() * 2).to_string());
            rate.ok().or_else(|| span().ok()).or_else(|| bytes().ok())
        }
        _ => None,
    }
}

/// The keys of all values in a scenario, with another value for each.
fn leaves(at: &str, value: &Value, found: &mut Vec<(String, String)>) {
    let join = |part: &str| if at.is_empty() { part.to_owned() } else { format!("{at}.{part}") };
    match value {
        Value::Table(table) => {
            table.iter().for_each(|(key, value)| leaves(&join(key), value, found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, value)| leaves(&join(&n.to_string()), value, found));
        }
        value => found.extend(another(value).map(|other| (at.to_owned(), other))),
    }
}

/// A key as the catalogue has it: without names, numbers and directions.
fn pattern(key: &str) -> String {
    let parts: Vec<&str> = key.split('.').collect();
    let name = if parts[0] == "atm" { 2 } else { 1 };
    let named = ["node", "link", "flow", "atm", "dvb", "carrier"].contains(&parts[0]);
    let parts = parts.iter().enumerate().map(|(n, part)| if named && n == name { "NAME" } else { part });
    let plain = |part: &&str| part.parse::<u32>().is_err() && !["forward", "return"].contains(part);
    parts.filter(plain).collect::<Vec<_>>().join(".")
}

fn is_declared(key: &str) -> bool {
    let pattern = pattern(key);
    let covers = |declared: &String| pattern == *declared || pattern.starts_with(&format!("{declared}."));
    catalogue::changeable().iter().any(covers)
}

/// Sets and applies each key, counts those accepted, and lists contradictions of the declarations.
fn compare(text: &str) -> (usize, Vec<String>) {
    let before = checked(&document(text)).unwrap_or_else(|refusal| panic!("{refusal}"));
    let mut emulated = emulated(text);
    let changer = Changer::new(&emulated, &before);
    let mut found = Vec::new();
    leaves("", &Value::try_from(&before).expect("a table"), &mut found);
    let (mut accepted, mut wrong) = (0, Vec::new());
    for (key, value) in found {
        let mut document = document(text);
        let Ok(scenario) = document.set(&format!("{key}={value}")).and_then(|()| checked(&document)) else {
            continue;
        };
        let changed = changer.clone().change(&scenario);
        accepted += usize::from(changed.is_ok());
        if changed.is_ok() != is_declared(&key) {
            wrong.push(format!("{key}={value}: {changed:?}"));
        }
        for change in changed.into_iter().flatten() {
            if let Err(problem) = change.apply(&mut emulated.built.network) {
                wrong.push(format!("{key}={value}: {problem:?}"));
            }
        }
    }
    (accepted, wrong)
}

#[test]
fn what_is_declared_as_changeable_is_accepted_and_nothing_else() {
    for (text, least) in [(LINE, 15), (STREAM, 6), (CHANNEL, 3), (CELL, 2), (TERMINAL, 7), (ADAPTIVE, 4)] {
        let (accepted, wrong) = compare(text);
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert!(accepted >= least, "only {accepted} keys of {text}");
    }
}

/// Returns `scenarios/geo.toml`, and what changes it while it runs.
fn geo() -> (Document, Emulated, Changer) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/geo.toml");
    let document = bentpipe_paths::document(&path).unwrap_or_else(|error| panic!("{error}"));
    let asked = checked(&document).unwrap_or_else(|refusal| panic!("{refusal}"));
    let emulated = Emulated::new(&asked, 1, &bentpipe_scenario::Access::default())
        .unwrap_or_else(|problem| panic!("{problem}"));
    let changer = Changer::new(&emulated, &asked);
    (document, emulated, changer)
}

#[test]
fn each_setting_of_the_page_on_netem_is_accepted() {
    let page = include_str!("../../../../../docs/how-to/from-netem.md");
    let (mut document, mut emulated, mut changer) = geo();
    let mut accepted = 0;
    for row in page.lines().filter(|line| line.starts_with('|')) {
        let column = row.split('|').nth(2).expect("a second column");
        let settings = column.split('`').filter(|span| span.starts_with("link."));
        let settings: Vec<String> = settings.map(|setting| setting.replace('\'', "")).collect();
        if settings.is_empty() {
            continue;
        }
        settings
            .iter()
            .for_each(|setting| document.set(setting).unwrap_or_else(|refusal| panic!("{refusal}")));
        let scenario = checked(&document).unwrap_or_else(|refusal| panic!("{refusal}"));
        let changes = changer.change(&scenario).unwrap_or_else(|problem| panic!("{settings:?}: {problem}"));
        for change in changes {
            change
                .apply(&mut emulated.built.network)
                .unwrap_or_else(|problem| panic!("{settings:?}: {problem}"));
        }
        accepted += 1;
    }
    assert!(accepted >= 12, "only {accepted} rows");
    assert_eq!(faults_of(&document), [true, false], "the rows are of one direction");
    // The way back, as the page has it.
    let line = page.lines().find(|line| line.starts_with("# bentpipe set ")).expect("a command");
    let words = line.trim_start_matches("# bentpipe set ").replace('\'', "");
    let words = words.replace(" link.", "\nlink.");
    let settings: Vec<(&str, &str)> = words.lines().filter_map(|setting| setting.split_once('=')).collect();
    assert_eq!(settings.len(), 2, "{words}");
    let done = crate::set_all(&mut document, &settings).expect("possible");
    assert_eq!(done.notes.len(), 2, "{:?}", done.notes);
    let scenario = checked(&document).unwrap_or_else(|refusal| panic!("{refusal}"));
    let changes = changer.change(&scenario).unwrap_or_else(|problem| panic!("{problem}"));
    assert!(!changes.is_empty());
    for change in changes {
        change.apply(&mut emulated.built.network).unwrap_or_else(|problem| panic!("{problem}"));
    }
    assert_eq!(faults_of(&document), [false; 2], "no loss is left");
}

/// Returns `true` for each direction of the satellite link with a fault.
fn faults_of(document: &Document) -> [bool; 2] {
    let scenario = checked(document).unwrap_or_else(|refusal| panic!("{refusal}"));
    let link = &scenario.link["satellite"];
    [&link.forward, &link.reverse].map(|direction| {
        let channel = direction.channel.as_ref().or(link.channel.as_ref());
        channel.is_some_and(|channel| !channel.faults().is_empty())
    })
}

/// The examples of `bentpipe set --help`.
#[test]
fn the_examples_of_the_help_work_on_the_shipped_scenario() {
    let (mut document, _, mut changer) = geo();
    for assignment in [
        "link.satellite.forward.rate=2 Mbit/s",
        "link.satellite.channel={ kind = \"packet-errors\", loss = 0.01 }",
        "link.satellite.channel=none",
        "link.satellite.forward.queue.bytes=50 kB",
        "link.satellite.return.delay=300 ms",
    ] {
        document.set(assignment).unwrap_or_else(|refusal| panic!("{refusal}"));
        let scenario = checked(&document).unwrap_or_else(|refusal| panic!("{refusal}"));
        let changes = changer.change(&scenario).unwrap_or_else(|problem| panic!("{assignment}: {problem}"));
        assert!(!changes.is_empty(), "{assignment}");
    }
}
