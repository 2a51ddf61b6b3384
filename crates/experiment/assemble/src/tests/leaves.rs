//! Point-to-multipoint channels of ATM.

use std::collections::BTreeMap;

use bentpipe_mpeg::stream::testing::stream;
use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_record::Capture;
use bentpipe_scenario::Document;
use bentpipe_site::Judged;
use bentpipe_testkit::{Folder, Tshark};
use bentpipe_units::{Span, Time};

use crate::{Built, checked};

/// One lecture for three homes behind two switches. Every home's line has losses of its own.
const TREE: &str = r#"
title = "t"
duration = "10 s"
[node.studio]
[node.home]
count = 3
[atm.switch.near]
[atm.switch.far]
[atm.line.up]
between = ["studio", "near"]
rate = "155.52 Mbit/s"
delay = "1 ms"
[atm.line.sky]
between = ["near", "far"]
rate = "34.368 Mbit/s"
delay = "250 ms"
channel = { kind = "cell-loss", ratio = 1e-3 }
[atm.line.exit]
between = ["far", "home"]
rate = "34.368 Mbit/s"
delay = "2 ms"
channel = { kind = "cell-loss", ratio = 1e-2 }
[link.lecture]
between = ["studio", "home"]
medium = { kind = "vc", multicast = "all" }
[group.class]
members = ["home"]
[flow.talk]
from = "studio"
to = "class"
traffic = { kind = "udp", payload = "1000 B", packets = 200, pattern = { kind = "constant", interval = "4 ms" } }
"#;

#[derive(Default)]
struct Values(BTreeMap<String, u64>, String);

impl bentpipe_net::Observer for Values {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        self.0.insert(format!("{} {}", self.1, metric.name), total);
    }
    fn gauge(&mut self, _: &'static Of<Gauge>, _: f64) {}
    fn part(&mut self, path: &str) {
        path.clone_into(&mut self.1);
    }
}

fn document(text: &str) -> Document {
    Document::parse("file.toml", text.as_bytes()).unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn built(text: &str) -> Result<Built, String> {
    let scenario = checked(&document(text)).map_err(|refusal| refusal.to_string())?;
    Built::new(&scenario, 1, &bentpipe_scenario::Access::default()).map_err(|problem| problem.to_string())
}

/// Counters after the run, by path and name.
fn counters(text: &str) -> BTreeMap<String, u64> {
    let mut built = built(text).unwrap_or_else(|refusal| panic!("{refusal}"));
    built.network.run_until(Time::ZERO + Span::from_secs(10));
    let mut values = Values::default();
    for id in built.network.ids().collect::<Vec<_>>() {
        values.1 = built.network.path(id).to_owned();
        built.network.observe(id, &mut values);
    }
    values.0
}

/// The same network with a channel for each home, and a lecture for one of them.
fn for_one(home: u32) -> String {
    TREE.replace(", multicast = \"all\"", "").replace("to = \"class\"", &format!("to = \"home.{home}\""))
}

#[test]
fn a_line_has_each_cell_once_whatever_the_number_of_leaves() {
    for leaves in [1_u64, 3, 100] {
        let text = TREE
            .replace("count = 3", &format!("count = {leaves}"))
            .lines()
            .filter(|line| !line.starts_with("channel"))
            .collect::<Vec<_>>()
            .join("\n");
        // One copy of a node has no number.
        let name = |name: &str, n: u64| if leaves == 1 { name.to_owned() } else { format!("{name}.{n}") };
        let counters = counters(&text);
        // 1000 B with UDP, IP, LLC and the trailer are 1044 B: 22 cells.
        let cells = 200 * 22;
        for line in ["line/up", "line/sky"] {
            let delivered = |way: &str| counters[&format!("{line}/{way} delivered")];
            assert_eq!([delivered("forward"), delivered("return")], [cells, 0], "{line}");
        }
        assert_eq!(counters["vc/all/studio cells-sent"], cells);
        for n in 1..=leaves {
            let end = format!("vc/{}/{}", name("lecture", n), name("home", n));
            assert_eq!(counters[&format!("line/{}/forward delivered", name("exit", n))], cells);
            let of_leaf = ["cells-received", "pdus-received", "cells-sent"]
                .map(|name| counters[&format!("{end} {name}")]);
            assert_eq!(of_leaf, [cells, 200, 0]);
        }
        let unroutable: u64 =
            counters.iter().filter(|(name, _)| name.ends_with("unroutable")).map(|(_, count)| count).sum();
        assert_eq!(unroutable, 0);
    }
}

#[test]
fn each_leaf_gets_what_a_channel_of_its_own_would_bring() {
    let tree = counters(TREE);
    let mut seen = Vec::new();
    for home in 1..=3 {
        let own = counters(&for_one(home));
        let end = format!("vc/lecture.{home}/home.{home}");
        let names = ["cells-received", "pdus-received", "wrong-length", "wrong-crc"]
            .map(|name| format!("{end} {name}"));
        let [of_tree, of_own] = [&tree, &own].map(|counters| names.each_ref().map(|name| counters[name]));
        assert_eq!(of_tree, of_own, "home {home}");
        assert_eq!(
            tree[&format!("flow/talk/receiver/home.{home} packets")],
            own["flow/talk/receiver packets"],
            "home {home}"
        );
        seen.push(of_tree);
    }
    // The trunk's losses are common, those of the last lines are not.
    assert!(
        seen[0] != seen[1] && seen[1] != seen[2] && seen.iter().all(|seen| seen[0] < 200 * 22),
        "{seen:?}"
    );
}

#[test]
fn streams_of_cells_have_several_receivers() {
    let text = TREE.replace(
        "[group.class]",
        "[atm.stream.film]\nfrom = \"studio\"\nto = [\"home\"]\nservice = \"cbr\"\nsource = { kind = \"constant\", \
         rate = \"1 Mbit/s\" }\n[group.class]",
    );
    let counters =
        counters(&text.replace("ratio = 1e-3", "ratio = 0.0").replace("ratio = 1e-2", "ratio = 0.0"));
    let talk = 200 * 22;
    let film = counters["vc/film/studio cells-sent"];
    assert!(film > 23_000, "{film}");
    assert!(counters["line/sky/forward delivered"] <= talk + film);
    for home in 1..=3 {
        let received = counters[&format!("vc/film/home.{home} cells-received")];
        assert!(film - received < 1000 && received > 22_000, "{received} of {film}");
    }
}

/// Judges a stream in cells for the class, or for one home.
fn judged(text: &str) -> Vec<(String, Judged)> {
    let folder = Folder::new();
    std::fs::write(folder.file("card.ts"), stream(1000, 0).to_bytes()).expect("written");
    let (from, _) = text.split_once("traffic =").expect("a flow");
    let text =
        format!("{from}traffic = {{ kind = \"stream\", file = \"card.ts\", adaptation = \"aal5\" }}\n");
    let scenario = document(&text).scenario().unwrap_or_else(|refusal| panic!("{refusal}"));
    let mut built = Built::new(&scenario, 1, &bentpipe_paths::any_file(folder.path()))
        .unwrap_or_else(|problem| panic!("{problem}"));
    built.network.run_until(Time::ZERO + Span::from_secs(10));
    built.judges.into_iter().map(|(name, mut judge)| (name, judge.judge())).collect()
}

#[test]
fn a_stream_in_cells_is_judged_at_each_leaf() {
    let class = judged(TREE);
    let names: Vec<&str> = class.iter().map(|(name, _)| &name[..]).collect();
    assert_eq!(names, ["talk.home.1", "talk.home.2", "talk.home.3"]);
    for (home, (_, judged_there)) in (1..).zip(&class) {
        let own = judged(&for_one(home));
        assert_eq!((own.len(), &own[0].1), (1, judged_there));
        let value =
            |name: &str| judged_there.measures.iter().find(|(known, ..)| *known == name).expect("known").2;
        assert!(
            value("cells-lost") > 0.0 && value("cdv-two-point") > 0.0 && value("cell-delay-mean") > 0.253
        );
    }
}

#[test]
fn a_capture_at_the_root_has_each_pdu_once() {
    let text = format!("{TREE}[probe]\ncapture = [\"studio:lecture.2\"]\n");
    let mut built = built(&text).unwrap_or_else(|refusal| panic!("{refusal}"));
    let folder = Folder::new();
    let path = folder.file("tree.pcap");
    let point = built.captures.remove(0);
    let capture = Capture::start(&path, point.format, 65_535).expect("a file");
    for (element, port) in [point.sent, point.received] {
        built.network.tap(element, port, capture.tap());
    }
    built.network.run_until(Time::ZERO + Span::from_secs(10));
    assert_eq!(capture.finish().expect("written"), 200);
    let Some(tshark) = Tshark::on(&path) else { return };
    let text = tshark.options(&["-V"]).text();
    assert_eq!(text.matches("VCI: 32").count(), 200);
    assert!(text.contains("(correct)") && !text.contains("incorrect") && !text.contains("Malformed"));
}

#[test]
fn guaranteed_rates_count_once_on_a_line() {
    let cbr = |text: &str| {
        let service = "kind = \"vc\", service = { kind = \"cbr\", pcr = \"20 Mbit/s\" }";
        built(&text.replace("kind = \"vc\"", service)).map(drop)
    };
    assert_eq!(cbr(TREE), Ok(()));
    let refused = cbr(&for_one(1)).expect_err("three times 20 Mbit/s");
    assert!(
        refused.contains("on line \"sky\" sum to 40 Mbit/s: expected at most its 34.368 Mbit/s"),
        "{refused}"
    );
    let both = "[link.other]\nbetween = [\"home.1\", \"studio\"]\n[group.class]";
    let back = TREE.replace("[group.class]", &both.replace("]\n[g", "]\nmedium = \"vc\"\n[g"));
    assert_eq!(cbr(&back), Ok(()), "the other direction has room of its own, and its channel no rate");
}

#[test]
fn what_such_a_channel_cannot_do_is_refused_with_its_place() {
    let refused = |from: &str, to: &str| {
        assert!(TREE.contains(from), "{from}");
        built(&TREE.replace(from, to)).map(drop).expect_err("a mistake")
    };
    let medium = "multicast = \"all\"";
    let say = refused(medium, "multicast = \"all\", service = { kind = \"abr\" }");
    assert!(say.contains("link.lecture.medium.service: \"abr\" needs a way back for RM cells"), "{say}");
    let tcp = "to = \"home.2\"\ntraffic = \"tcp\"\n[flow.more]\nfrom = \"studio\"\nto = \"class\"";
    let say = refused("to = \"class\"", tcp);
    assert!(say.contains("flow.talk.to: no way from \"studio\" to \"home.2\""), "{say}");
    assert!(say.contains("a point-to-multipoint channel, which carries packets to groups alone"), "{say}");
    let say = refused("from = \"studio\"\nto = \"class\"", "from = \"home.1\"\nto = \"studio\"");
    assert!(
        say.contains("no way from \"home.1\" to \"studio\" for IPv4: expected links that join them"),
        "{say}"
    );
    let twice = "[link.again]\nbetween = [\"studio\", \"home.1\"]\nmedium = { kind = \"vc\", multicast = \"all\" }\n[group.class]";
    let say = refused("[group.class]", twice);
    assert!(say.contains("link.again.between: \"home.1\" is a leaf of \"all\" already"), "{say}");
    let other = twice.replace("home.1\"]", "guest\"]").replace("\"all\" }", "\"all\", limit = 9 }");
    let other = other.replace(
        "[link.again]",
        "[node.guest]\n[atm.line.guest]\nbetween = [\"guest\", \"far\"]\nrate = \"9 Mbit/s\"\n[link.again]",
    );
    let say = refused("[group.class]", &other);
    assert!(say.contains("link.again.medium.limit: differs from that of link \"lecture\""), "{say}");
    let direct = other.replace("\"guest\", \"far\"", "\"studio\", \"guest\"").replace(", limit = 9", "");
    let say = refused("[group.class]", &direct);
    assert!(
        say.contains(
            "from \"studio\" line \"guest\" leads to \"guest\", and line \"up\" to leaves before it"
        ),
        "{say}"
    );
    let say = refused(
        "[group.class]",
        "[atm.stream.film]\nfrom = \"studio\"\nto = [\"home.1\", \"home.1\"]\nsource = { kind = \
        \"constant\", rate = \"1 Mbit/s\" }\n[group.class]",
    );
    assert!(say.contains("atm.stream.film.to.1: named before"), "{say}");
}
