//! Plan of runs that show the savings of header compression and aggregation.
//!
//! A scenario with voice runs with several numbers of calls, each with neither means, with either of them, and with both, on one link.

use bentpipe_record::Setting;
use bentpipe_scenario::{Document, Layout, Medium, Scenario, ScenarioError, Traffic, Way};
use bentpipe_transport::app::Header;
use bentpipe_units::Span;

use crate::budget::Budget;
use crate::plan::{Plan, Point, Points, Seeds};

/// Means against the overhead of voice packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// Packets as they are.
    Neither,
    /// Header compression (ROHC).
    Compression,
    /// Aggregation of the packets of all calls.
    Aggregation,
    /// Aggregation of compressed packets.
    Both,
}

impl Means {
    /// Every means.
    pub const ALL: [Means; 4] = [Means::Neither, Means::Compression, Means::Aggregation, Means::Both];

    /// Returns the word in settings, tables and legends.
    pub const fn word(self) -> &'static str {
        match self {
            Means::Neither => "neither",
            Means::Compression => "compression",
            Means::Aggregation => "aggregation",
            Means::Both => "both",
        }
    }
}

/// Choices of a plan of savings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices {
    /// Link of both means. Default: the slowest one that voice passes.
    pub link: Option<String>,
    /// Counts of each flow of voice. Default: a quarter, half and all of those of the scenario.
    pub counts: Vec<u32>,
    /// Maximum wait of a packet for others.
    pub period: Span,
}

/// Plan of savings.
#[derive(Clone, Debug)]
pub struct Savings {
    /// Points: numbers of calls times means.
    pub plan: Plan,
    /// Link of both means.
    pub link: String,
    /// Subjects of measures with the link's load: directions of its copies, its cell.
    pub subjects: Vec<String>,
    /// Flows of voice.
    pub flows: Vec<String>,
    /// Set if the link's own format has header compression or needs no tunnel.
    pub is_native: bool,
}

impl Savings {
    /// Plans the runs. Of a sweep, the first point is taken.
    ///
    /// # Errors
    /// Returns an error if the scenario is invalid, has no voice, or the link is unknown or does not carry it.
    pub fn new(document: &Document, choices: &Choices, seeds: Seeds) -> Result<Savings, ScenarioError> {
        let document = first_point(document)?;
        let scenario = document.scenario()?;
        let flows: Vec<String> = scenario
            .flow
            .iter()
            .filter(|(_, flow)| is_voice(&flow.traffic))
            .map(|(name, _)| name.clone())
            .collect();
        if flows.is_empty() {
            let problem =
                "no voice: expected a flow of traffic \"voice\", or \"udp\" with `header = \"rtp\"`";
            return Err(document.refusal("flow", problem));
        }
        let link = chosen_link(&document, &scenario, &flows, choices)?;
        let kind = Kind::of(&scenario, &link);
        let counts = counts(&scenario, &flows, choices);
        let mut plan = Plan::new(&document, seeds)?;
        plan.axes = vec!["calls".to_owned(), "means".to_owned()];
        plan.points = Vec::new();
        for counts in counts {
            for means in Means::ALL {
                let changed =
                    changed(&document, &scenario, &link, kind, &flows, &counts, (means, choices.period))?;
                plan.points.push(point(&changed, plan.points.len(), seeds, (&flows, means))?);
            }
        }
        let subjects = subjects(&scenario, &link);
        Ok(Savings { plan, link, subjects, flows, is_native: kind != Kind::Other })
    }
}

/// Returns the document without its sweep, at the first point.
fn first_point(document: &Document) -> Result<Document, ScenarioError> {
    let mut fixed = document.clone();
    let first: Vec<usize> = document.axes().map(|_| 0).collect();
    for (_, key, value) in document.settings_at(&first) {
        fixed.set(&format!("{key}={value}"))?;
    }
    Ok(fixed)
}

fn is_voice(traffic: &Traffic) -> bool {
    match traffic {
        Traffic::Voice(_) => true,
        Traffic::Udp(udp) => udp.header == Header::Rtp,
        _ => false,
    }
}

/// Returns the chosen link, or else the slowest one of voice.
fn chosen_link(
    document: &Document,
    scenario: &Scenario,
    flows: &[String],
    choices: &Choices,
) -> Result<String, ScenarioError> {
    let budget = Budget::new(scenario).map_err(|problem| document.refusal(&problem.key, problem.problem))?;
    let paths = budget.flows.iter().filter(|flow| flows.contains(&flow.name));
    let hops: Vec<[&String; 2]> =
        paths.flat_map(|flow| flow.path.windows(2).map(|hop| [&hop[0], &hop[1]])).collect();
    let carries = |name: &str| {
        let between = scenario.link.get(name).map(|link| &link.between);
        between.is_some_and(|[a, b]| hops.iter().any(|hop| *hop == [a, b] || *hop == [b, a]))
    };
    if let Some(link) = &choices.link {
        if !scenario.link.contains_key(link) {
            let known: Vec<&str> = scenario.link.keys().map(String::as_str).collect();
            let problem =
                format!("no link is called \"{link}\": expected one of \"{}\"", known.join("\", \""));
            return Err(document.refusal("link", problem));
        }
        let problem = format!("no voice passes link \"{link}\"");
        return carries(link).then(|| link.clone()).ok_or_else(|| document.refusal("link", problem));
    }
    let slowest = budget.links.iter().filter(|link| carries(&link.name)).min_by_key(|link| link.usable);
    let found = slowest.map(|link| link.name.clone());
    found.ok_or_else(|| document.refusal("link", "no voice passes any link"))
}

/// Form of both means on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// PPP frames on a line.
    Line,
    /// ROHC of a DVB carrier.
    Dvb,
    /// IP in a tunnel on any other medium.
    Other,
}

impl Kind {
    fn of(scenario: &Scenario, link: &str) -> Kind {
        let layout = Layout::new(scenario);
        let of = |side: &Medium| match side {
            Medium::Line(_) => Kind::Line,
            Medium::Dvb(_) => Kind::Dvb,
            _ => Kind::Other,
        };
        let number = scenario.link.get_index_of(link).unwrap_or_default();
        let [forward, back] = Way::BOTH.map(|way| of(&layout.side(number, way).medium));
        if forward == back { forward } else { Kind::Other }
    }
}

/// Returns the directions of a link's copies, and its cell.
fn subjects(scenario: &Scenario, name: &str) -> Vec<String> {
    let link = &scenario.link[name];
    let of = |node: &String| scenario.node.get(node).map_or(1, |node| node.count);
    let copies = link.between.iter().map(of).max().unwrap_or(1);
    let names = if copies == 1 {
        vec![name.to_owned()]
    } else {
        (1..=copies).map(|n| format!("{name}.{n}")).collect()
    };
    let ways = |name: String| Way::BOTH.map(|way| format!("link.{name}.{}", way.name()));
    let mut subjects: Vec<String> = names.into_iter().flat_map(ways).collect();
    if let Some(Medium::Wimax(kind)) = &link.medium {
        subjects.push(format!("wimax.{}", kind.cell_name));
    }
    subjects
}

/// Returns the counts of each flow, for each number of calls.
fn counts(scenario: &Scenario, flows: &[String], choices: &Choices) -> Vec<Vec<u32>> {
    if !choices.counts.is_empty() {
        return choices.counts.iter().map(|count| vec![*count; flows.len()]).collect();
    }
    let all: Vec<u32> = flows.iter().map(|name| scenario.flow[name].count).collect();
    let part = |n: u32| all.iter().map(|count| (count * n / 4).max(1)).collect::<Vec<u32>>();
    let mut parts = vec![part(1), part(2), part(4)];
    parts.dedup();
    parts
}

/// Returns the document with a number of calls and with means against overhead.
fn changed(
    document: &Document,
    scenario: &Scenario,
    link: &str,
    kind: Kind,
    flows: &[String],
    counts: &[u32],
    (means, period): (Means, Span),
) -> Result<Document, ScenarioError> {
    let mut document = document.clone();
    for (flow, count) in flows.iter().zip(counts) {
        document.set(&format!("flow.{flow}.count={count}"))?;
    }
    let link_key = format!("link.{link}");
    let owns = Way::BOTH.map(|way| (format!("{link_key}.{}", way.name()), scenario.link[link].own(way)));
    let places = std::iter::once(&link_key).chain(owns.iter().map(|(key, _)| key));
    for place in places {
        document.unset(&format!("{place}.aggregate"));
        if kind == Kind::Dvb {
            document.unset(&format!("{place}.medium.rohc"));
        }
    }
    if let Some(stage) = aggregate(kind, means, period) {
        document.set(&format!("{link_key}.aggregate={stage}"))?;
    }
    if (kind, means) == (Kind::Dvb, Means::Compression) {
        let rohc = "rohc={ mode = \"unidirectional\" }";
        let has_own = owns.iter().filter(|(_, own)| own.medium.is_some());
        let mut places: Vec<&String> = has_own.map(|(key, _)| key).collect();
        if places.len() < 2 {
            places.push(&link_key);
        }
        for place in places {
            document.set(&format!("{place}.medium.{rohc}"))?;
        }
    }
    Ok(document)
}

/// Returns the stage of a link, if it has one.
fn aggregate(kind: Kind, means: Means, period: Span) -> Option<String> {
    let outer = if kind == Kind::Line { ", outer = \"ppp\"" } else { "" };
    match (means, kind) {
        (Means::Neither, _) | (Means::Compression, Kind::Dvb) => None,
        (Means::Compression, _) => Some(format!("{{ period = \"0 s\", rohc = true{outer} }}")),
        (Means::Aggregation, _) => Some(format!("{{ period = \"{period}\"{outer} }}")),
        (Means::Both, _) => Some(format!("{{ period = \"{period}\", rohc = true{outer} }}")),
    }
}

/// Returns a point of the plan with its settings.
fn point(
    document: &Document,
    index: usize,
    seeds: Seeds,
    (flows, means): (&[String], Means),
) -> Result<Point, ScenarioError> {
    let point = Points::new(document, seeds).at(0)?;
    let calls: u64 = flows.iter().map(|name| copies(&point.scenario, name)).sum();
    let setting = |axis, key: &str, value: String| Setting { axis, key: key.to_owned(), value };
    let settings = vec![setting(0, "calls", calls.to_string()), setting(1, "means", means.word().to_owned())];
    Ok(Point { index, settings, ..point })
}

/// Returns the number of copies of a flow, those of its nodes counted.
fn copies(scenario: &Scenario, name: &str) -> u64 {
    let flow = &scenario.flow[name];
    let of = |node: &str| scenario.node.get(node).map_or(1, |node| u64::from(node.count));
    u64::from(flow.count) * of(&flow.from).max(of(&flow.to))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"
title = "calls"
duration = "2 s"
node.a = {}
node.b = {}
node.c = { kind = "router" }
[link.lan]
between = ["a", "c"]
rate = "10 Mbit/s"
[link.slow]
between = ["c", "b"]
rate = "1 Mbit/s"
aggregate = { period = "5 ms" }
[flow.calls]
from = "a"
to = "b"
count = 8
traffic = { kind = "voice", codec = "g729" }
[sweep]
"flow.calls.stagger" = ["1 ms", "2 ms"]
"#;

    fn savings(text: &str, link: Option<&str>, counts: &[u32]) -> Result<Savings, String> {
        let document = Document::parse("file.toml", text.as_bytes()).expect("TOML");
        let choices =
            Choices { link: link.map(str::to_owned), counts: counts.to_vec(), period: Span::from_millis(10) };
        Savings::new(&document, &choices, Seeds::default()).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn points_are_calls_times_means_on_the_slowest_link() {
        let savings = savings(LINE, None, &[]).expect("planned");
        assert_eq!((savings.link.as_str(), savings.is_native), ("slow", true));
        assert_eq!(savings.subjects, ["link.slow.forward", "link.slow.return"]);
        let labels: Vec<String> = savings.plan.points.iter().map(Point::label).collect();
        assert_eq!(labels.len(), 12);
        assert_eq!(labels[0], "calls = 2, means = neither");
        assert_eq!(labels[7], "calls = 4, means = both");
        let stage = |n: usize| savings.plan.points[n].scenario.link["slow"].stages.aggregate;
        assert_eq!(stage(0), None);
        let compressed = stage(1).expect("a stage");
        assert!(compressed.period.is_zero() && compressed.rohc);
        assert!(stage(2).is_some_and(|stage| !stage.rohc && stage.period == Span::from_millis(10)));
        assert!(stage(3).is_some_and(|stage| stage.rohc));
        let hashes: std::collections::BTreeSet<String> =
            savings.plan.points.iter().map(|point| point.hash.to_hex()).collect();
        assert_eq!(hashes.len(), 12, "each point is another scenario");
        assert_eq!(savings.plan.points[0].scenario.flow["calls"].stagger, Span::from_millis(1));
    }

    #[test]
    fn links_and_traffic_that_do_not_fit_are_refused() {
        assert_eq!(savings(LINE, Some("lan"), &[1]).expect("planned").plan.points.len(), 4);
        assert!(savings(LINE, Some("fast"), &[1]).is_err_and(|text| text.contains("\"lan\", \"slow\"")));
        let silent = LINE.replace("kind = \"voice\", codec = \"g729\"", "kind = \"ping\"");
        assert!(savings(&silent, None, &[1]).is_err_and(|text| text.contains("no voice")));
        let aside = LINE.replace("to = \"b\"", "to = \"c\"");
        assert!(savings(&aside, Some("slow"), &[1]).is_err_and(|text| text.contains("no voice passes")));
    }

    #[test]
    fn a_cell_has_the_load_of_its_links() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scenarios/wimax-voip.toml");
        let savings = savings(&std::fs::read_to_string(path).expect("there"), None, &[1]).expect("planned");
        assert_eq!((savings.subjects.len(), savings.is_native), (11, false));
        assert_eq!(
            (&savings.subjects[9][..], &savings.subjects[10][..]),
            ("link.radio.5.return", "wimax.hill")
        );
    }

    #[test]
    fn a_carrier_compresses_itself() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scenarios/voice-savings.toml");
        let savings = savings(&std::fs::read_to_string(path).expect("there"), None, &[3]).expect("planned");
        let rohc = |n: usize| {
            let medium = savings.plan.points[n].scenario.link["satellite"].medium.clone();
            let Some(Medium::Dvb(dvb)) = medium else { panic!("{medium:?}") };
            dvb.stream.rohc.is_some()
        };
        assert_eq!([0, 1, 2, 3].map(rohc), [false, true, false, false]);
        let stage = |n: usize| savings.plan.points[n].scenario.link["satellite"].stages.aggregate.is_some();
        assert_eq!([0, 1, 2, 3].map(stage), [false, false, true, true]);
    }
}
