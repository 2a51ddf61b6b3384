use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_record::Capture;
use bentpipe_scenario::{Document, Layout, Scenario, Traffic};
use bentpipe_testkit::{Folder, Tshark};
use bentpipe_transport::tcp;
use bentpipe_units::Time;

use crate::{Built, checked};

/// Three hosts at each side of two switches, and 50 Mbit/s of other cells.
const NETWORK: &str = r#"
title = "ATM"
duration = "1 s"
[node.source]
count = 3
[node.sink]
count = 3
[node.camera]
[node.viewer]
[atm.switch.near]
abr = "erica-plus"
[atm.switch.far]
[atm.line.access]
between = ["source", "near"]
rate = "155.52 Mbit/s"
sdh = true
delay = "1 ms"
[atm.line.camera]
between = ["camera", "near"]
rate = "155.52 Mbit/s"
[atm.line.trunk]
between = ["near", "far"]
rate = "155.52 Mbit/s"
delay = "5 ms"
[atm.line.exit]
between = ["far", "sink"]
rate = "155.52 Mbit/s"
delay = "1 ms"
[atm.line.viewer]
between = ["far", "viewer"]
rate = "155.52 Mbit/s"
[link.path]
between = ["source", "sink"]
vc = { service = { kind = "abr" } }
[atm.stream.other]
from = "camera"
to = "viewer"
source = { kind = "constant", rate = "50 Mbit/s" }
[flow.bulk]
from = "source"
to = "sink"
stagger = "10 ms"
traffic = { kind = "tcp", controller = "newreno", receive_buffer = "1 MB" }
[probe]
capture = ["source.1:path.1"]
"#;

fn read(text: &str) -> Result<Scenario, String> {
    let document = Document::parse("file.toml", text.as_bytes()).map_err(|refusal| refusal.to_string())?;
    checked(&document).map_err(|refusal| refusal.to_string())
}

/// What is said about the network with `from` replaced by `to`.
fn refused(from: &str, to: &str) -> String {
    assert!(NETWORK.contains(from));
    read(&NETWORK.replace(from, to)).expect_err("a mistake")
}

#[test]
fn copies_are_written_out_and_channels_take_what_their_lines_have() {
    let scenario = read(NETWORK).unwrap();
    let scenario = bentpipe_scenario::copies::spread(&scenario).into_owned();
    let link = &scenario.link["path.2"];
    assert_eq!(link.between, ["source.2", "sink.2"]);
    // Both directions of the second link.
    for facts in &Layout::new(&scenario).facts().unwrap()[2..4] {
        assert_eq!((facts.rate.as_bps(), facts.delay.as_nanos()), (149_760_000, 7_000_000));
    }
    assert_eq!(scenario.shared.atm.line["access.3"].between, ["source.3", "near"]);
    assert_eq!(scenario.flow["bulk.3"].start.as_nanos(), 20_000_000);
    // Classical IP's MTU less the headers.
    let Traffic::Tcp(tcp) = &scenario.flow["bulk.1"].traffic else { panic!("TCP") };
    assert_eq!(tcp.mss.get(), 9140);
    // A scenario as it was run can be run again.
    let again = scenario.to_toml().unwrap();
    assert_eq!(read(&again), Ok(scenario));
    // So can one that says what an older version filled in; another rate is refused.
    let filled = |rate: &str| {
        let lines = format!("between = [\"source\", \"sink\"]\nrate = \"{rate}\"\ndelay = \"7 ms\"\n");
        read(&NETWORK.replace("between = [\"source\", \"sink\"]\n", &lines))
    };
    assert!(filled("149.76 Mbit/s").is_ok());
    let say = filled("150 Mbit/s").unwrap_err();
    assert!(say.contains("link.path.rate: of a virtual channel is that of the lines"), "{say}");
}

#[test]
fn connections_share_what_other_cells_leave() {
    let scenario = read(NETWORK).unwrap();
    let mut built = Built::new(&scenario, 1, &bentpipe_scenario::Access::default()).unwrap();
    assert_eq!(built.captures.len(), 1);
    let delivered = |built: &mut Built, millis: u64| {
        built.network.run_until(Time::from_nanos(millis * 1_000_000));
        let ends = built.flows.iter().map(|flow| flow.receivers[0]).collect::<Vec<_>>();
        ends.into_iter()
            .map(|end| built.network.element::<tcp::Endpoint>(end).unwrap().bytes_delivered())
            .collect::<Vec<u64>>()
    };
    let before = delivered(&mut built, 500);
    let after = delivered(&mut built, 1000);
    let rates: Vec<f64> =
        before.iter().zip(&after).map(|(before, after)| (after - before) as f64 * 8.0 / 0.5 / 1e6).collect();
    // 105.52 Mbit/s of 192 cells for 9128 bytes with timestamps, 31 of 32: 91.7 in all.
    let sum: f64 = rates.iter().sum();
    assert!((85.0..92.5).contains(&sum), "{rates:?}");
    assert!(rates.iter().all(|rate| (rate / rates[0] - 1.0).abs() < 0.1), "{rates:?}");
}

#[test]
fn budgets_deduct_streams_and_name_the_feedback_delay() {
    let costs = |text: &str| {
        let scenario = read(text).unwrap();
        let scenario = bentpipe_scenario::copies::spread(&scenario).into_owned();
        bentpipe_scenario::Medium::costs(&Layout::new(&scenario).members(), &scenario.shared).unwrap()
    };
    let all = costs(NETWORK);
    // The trunk's 155.52 Mbit/s less 50, of which one cell in 32 is an RM cell; 1 ms of access there and back.
    assert_eq!(all[0].usable().as_bps(), 105_520_000 / 32 * 31);
    let expected = [
        "line \"trunk\": 155.52 Mbit/s less 50 Mbit/s of streams on average leaves 105.52 Mbit/s of cells",
        "feedback delay of line \"trunk\": 2 ms",
    ];
    assert_eq!(all[0].notes(1500), expected);
    // No stream goes back; the access lines are the slower ones there, at the far end.
    assert_eq!(all[1].notes(1500), ["feedback delay of line \"access.1\": 12 ms"]);
    let video = "source = { kind = \"on-off\", rate = \"80 Mbit/s\", on = \"1 s\", off = \"3 s\" }";
    let other = costs(&NETWORK.replace("source = { kind = \"constant\", rate = \"50 Mbit/s\" }", video));
    assert!(other[0].notes(1500)[0].contains("less 20 Mbit/s of streams"), "{:?}", other[0].notes(1500));
    let cbr = costs(&NETWORK.replace("{ kind = \"abr\" }", "{ kind = \"cbr\" }"));
    assert_eq!((cbr[0].usable().as_bps(), cbr[0].notes(1500)), (149_760_000, vec![]));
}

/// The network with a box of VS/VD in front of the far switch, whose trunk is the satellite.
fn with_box() -> String {
    let boxed = "[atm.vs_vd.hub]\nlimit = 50000\n[atm.line.feeder]\nbetween = [\"near\", \"hub\"]\nrate = \"155.52 Mbit/s\"\n\
                 [atm.line.trunk]\nbetween = [\"hub\", \"far\"]";
    NETWORK.replace("[atm.line.trunk]\nbetween = [\"near\", \"far\"]", boxed)
}

#[test]
fn channels_pass_a_box_that_ends_their_loops() {
    let scenario = read(&with_box()).unwrap();
    assert_eq!(Layout::new(&scenario).facts().unwrap()[0].delay.as_nanos(), 7_000_000);
    let mut built = Built::new(&scenario, 1, &bentpipe_scenario::Access::default()).unwrap();
    built.network.run_until(Time::from_nanos(1_000_000_000));
    let mut values = Values::default();
    let hub = built.network.ids().find(|id| built.network.path(*id) == "atm/hub").unwrap();
    built.network.observe(hub, &mut values);
    for n in 1..=3 {
        let get = |way: &str, name: &str| values.found[&format!("vc/path.{n}/hub/{way}/{name}")];
        // Both loops work: the box answers the source's RM cells, and sends and gets back its own.
        let (sent, turned) = (get("forward", "cells-sent"), get("return", "rm-backward-sent"));
        assert!(sent > 10_000.0 && turned > sent / 40.0, "{sent} {turned}");
        let (own, back) = (get("forward", "rm-forward-sent"), get("forward", "rm-backward-received"));
        assert!(own > sent / 40.0 && back > own / 2.0, "{own} {back}");
        assert_eq!(get("forward", "lost"), 0.0);
    }
    // Other cells pass as they come: 50 Mbit/s but for what is on the line.
    let other = values.found["vc/other/hub/forward/cells-sent"];
    assert!((other / (50e6 / 424.0) - 1.0).abs() < 0.01, "{other}");
}

#[derive(Default)]
struct Values {
    part: String,
    found: std::collections::HashMap<String, f64>,
}

impl bentpipe_net::Observer for Values {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        self.found.insert(format!("{}/{}", self.part, metric.name), total as f64);
    }
    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        self.found.insert(format!("{}/{}", self.part, metric.name), value);
    }
    fn part(&mut self, path: &str) {
        path.clone_into(&mut self.part);
    }
}

#[test]
fn impossible_boxes_are_named() {
    for (from, to, why) in [
        ("between = [\"near\", \"hub\"]", "between = [\"near\", \"far\"]", "atm.vs_vd.hub: 1 lines end here"),
        ("limit = 50000", "queue = { t0 = \"0 s\" }", "atm.vs_vd.hub.queue.t0: expected more than no time"),
        ("limit = 50000", "limits = 50000", "atm.vs_vd.hub.limits"),
        ("[node.camera]", "[node.hub]\n[node.camera]", "atm.vs_vd.hub: a node or switch has this name too"),
        ("between = [\"hub\", \"far\"]", "between = [\"hbu\", \"far\"]", "did you mean \"hub\"?"),
    ] {
        let text = with_box();
        assert!(text.contains(from), "{from}");
        let say = read(&text.replace(from, to)).expect_err(why);
        assert!(say.contains(why) && say.contains("file.toml:"), "{say}");
    }
}

#[test]
fn tshark_reads_a_channels_pdus() {
    let scenario = read(NETWORK).unwrap();
    let mut built = Built::new(&scenario, 1, &bentpipe_scenario::Access::default()).unwrap();
    let folder = Folder::new();
    let path = folder.file("channel.pcap");
    let point = built.captures.remove(0);
    let capture = Capture::start(&path, point.format, 65_535).unwrap();
    for (element, port) in [point.sent, point.received] {
        built.network.tap(element, port, capture.tap());
    }
    built.network.run_until(Time::from_nanos(100_000_000));
    assert!(capture.finish().unwrap() > 20);
    let Some(tshark) = Tshark::on(&path) else { return };
    let text = tshark.preferences(&["tcp.check_checksum:TRUE"]).options(&["-V"]).text();
    assert!(text.contains("VCI: 32") && text.contains("DSAP: SNAP"), "{text}");
    assert!(text.contains("AAL5 len: ") && text.contains("(correct)"), "{text}");
    assert!(text.contains("[Checksum Status: Good]"), "{text}");
    assert!(!text.contains("incorrect") && !text.contains("Malformed"), "{text}");
}

#[test]
fn mistakes_are_named() {
    let say = refused("between = [\"near\", \"far\"]", "between = [\"near\", \"fra\"]");
    assert!(
        say.contains("atm.line.trunk.between.1: no node or switch is called \"fra\": did you mean \"far\"?"),
        "{say}"
    );
    let say = refused(
        "[atm.line.trunk]\nbetween = [\"near\", \"far\"]",
        "[atm.line.trunk]\nbetween = [\"near\", \"camera\"]",
    );
    assert!(say.contains("link.path.between: no way from \"source\" to \"sink\" over ATM lines"), "{say}");
    let say = refused("[node.sink]\ncount = 3", "[node.sink]\ncount = 2");
    assert!(say.contains("3 copies of one end and 2 of the other: expected as many, or one"), "{say}");
    let say = refused("kind = \"abr\" }", "kind = \"abr\", rif = 2.0 }");
    assert!(say.contains("link.path.medium.service.rif: 2 is out of range: expected from 0 to 1"), "{say}");
    for (receive, why) in [
        ("rate = \"0 bit/s\", limit = 9", "receive.rate: expected above zero"),
        ("rate = \"1 Mbit/s\"", "receive: `limit` is missing"),
        ("rate = \"1 Mbit/s\", limit = 9, congested = 10", "receive.congested: expected from 1 to limit"),
    ] {
        let say = refused("kind = \"abr\" }", &format!("kind = \"abr\" }}, receive = {{ {receive} }}"));
        assert!(say.contains("file.toml:3") && say.contains(why), "{say}");
    }
    let told = "service = { kind = \"ubr\" }, receive = { rate = \"1 Mbit/s\", limit = 9, congested = 9 }";
    let say = refused("service = { kind = \"abr\" }", told);
    assert!(
        say.contains("link.path.medium.receive.congested: expected none, as only ABR signals congestion"),
        "{say}"
    );
    let say = refused("abr = \"erica-plus\"", "abr = { kind = \"erica-plus\", queue = { qdlf = 0.0 } }");
    assert!(say.contains("atm.switch.near.abr.queue.qdlf: expected above 0 and at most 1"), "{say}");
    let say = refused("[node.camera]", "[node.near]\n[node.camera]");
    assert!(say.contains("atm.switch.near: a node has this name too"), "{say}");
}

#[test]
fn a_virtual_channel_has_nothing_that_its_lines_have() {
    for (said, why) in [
        ("rate = \"1 Mbit/s\"", "link.path.rate: of a virtual channel is that of the lines that it passes"),
        ("delay = \"1 s\"", "link.path.delay: of a virtual channel is that of the lines that it passes"),
        ("forward.rate = \"1 Mbit/s\"", "link.path.forward.rate: a virtual channel has none of its own"),
        ("channel = { kind = \"packet-errors\", loss = 0.1 }", "expected `atm.line.NAME.channel`"),
        ("return.queue = { kind = \"drop-tail\" }", "link.path.return.queue: a virtual channel has none"),
        ("quick_start = {}", "link.path.quick_start: a virtual channel has none of its own"),
        ("framing = { kind = \"ethernet\" }", "link.path.framing: a virtual channel has its own"),
    ] {
        let say = refused("vc = {", &format!("{said}\nvc = {{"));
        assert!(say.contains(why), "{said}: {say}");
    }
    let several =
        "sdh = true\nchannel = [{ kind = \"cell-loss\", ratio = 0.1 }, { kind = \"bit-errors\", ber = 2.0 }]";
    let say = refused("sdh = true", several);
    assert!(
        say.contains("file.toml:17:78")
            && say.contains("channel.1.ber: 2 is out of range: expected from 0 to 1"),
        "{say}"
    );
}

#[test]
fn lines_lose_and_damage_cells() {
    let faults = "sdh = true\nchannel = [\"none\"]";
    let say = refused("sdh = true", faults);
    assert!(say.contains("atm.line.access.channel"), "{say}");
    let faults = "sdh = true\nchannel = { kind = \"cell-loss\", ratio = 1e-3 }";
    let scenario = read(&NETWORK.replace("sdh = true", faults)).unwrap();
    let mut built = Built::new(&scenario, 1, &bentpipe_scenario::Access::default()).unwrap();
    built.network.run_until(Time::from_nanos(1_000_000_000));
    let names: Vec<String> = built.network.ids().map(|id| built.network.path(id).to_owned()).collect();
    assert!(names.contains(&"line/access.2/return/channel".to_owned()), "{names:?}");
    // A packet of 192 cells survives with 83 %: TCP gets far less than without loss.
    let ends: Vec<_> = built.flows.iter().map(|flow| flow.receivers[0]).collect();
    let bytes = |end| built.network.element::<tcp::Endpoint>(end).unwrap().bytes_delivered();
    let sum: u64 = ends.into_iter().map(bytes).sum();
    assert!((10_000..5_000_000).contains(&sum), "{sum}");
}
