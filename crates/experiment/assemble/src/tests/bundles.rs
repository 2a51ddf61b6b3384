//! Bundles over TCPCL and DCCP: outages, losses, and rates that the plan does not know.

use std::collections::HashMap;

use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_record::Capture;
use bentpipe_testkit::{Folder, Tshark};
use bentpipe_units::Span;

use super::*;

#[derive(Default)]
struct Counts(HashMap<&'static str, u64>);

impl bentpipe_net::Observer for Counts {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        self.0.insert(metric.name, total);
    }
    fn gauge(&mut self, _: &'static Of<Gauge>, _: f64) {}
}

/// Rover and orbiter with a link of 1 Mbit/s and 10 ms.
fn hop(layer: &str, channel: &str, traffic: &str) -> String {
    format!(
        r#"
title = "t"
duration = "2000 s"
node.rover = {{ role = {{ kind = "dtn", network = "mars" }} }}
node.orbiter = {{ role = {{ kind = "dtn", network = "mars" }} }}
[dtn.mars]
layer = {layer}
plan = """
a range +0 +9000 rover orbiter 0.01
a contact +0 +9000 rover orbiter 250000
a contact +0 +9000 orbiter rover 250000
"""
[link.hop]
between = ["rover", "orbiter"]
rate = "1 Mbit/s"
delay = "10 ms"
queue = {{ kind = "drop-tail", packets = 50 }}
{channel}
[flow.measures]
from = "rover"
to = "orbiter"
traffic = {{ kind = "bundles", lifetime = "1 d", {traffic} }}
"#
    )
}

/// Counts of the sink and of the sending node after some seconds.
fn after(seconds: u64, text: &str) -> [HashMap<&'static str, u64>; 2] {
    let mut built = built(text);
    built.network.run_until(at(seconds));
    [built.flows[0].receivers[0], built.roles[0].element].map(|element| {
        let mut counts = Counts::default();
        built.network.observe(element, &mut counts);
        counts.0
    })
}

const MEASURES: &str = "payload = \"1000 B\", interval = \"1 s\", bundles = 400";

#[test]
fn sessions_carry_all_bundles_over_an_outage() {
    let outage = |lasts: u32| {
        format!("channel = {{ kind = \"outages\", outages = [{{ at = \"100 s\", lasts = \"{lasts} s\" }}] }}")
    };
    let [udp, _] = after(1500, &hop("\"udp\"", &outage(60), MEASURES));
    assert!((339..=341).contains(&udp["packets"]), "{udp:?}");
    // TCP repeats in a short outage; in a long one keepalives are missing, the session ends, and another one begins.
    for (lasts, least, most) in [(60, 1, 1), (600, 2, 20)] {
        let [sink, rover] = after(1500, &hop("\"tcpcl\"", &outage(lasts), MEASURES));
        assert_eq!(sink["packets"] - sink["duplicates"], 400, "{sink:?} {rover:?}");
        assert!((least..=most).contains(&rover["tcpcl-sessions"]), "{lasts} s: {rover:?}");
        assert_eq!((rover["forwarded"], rover["expired"]), (400, 0));
    }
}

#[test]
fn tshark_reads_each_session_of_a_link_that_loses() {
    // The keepalives of a long outage are missing, and a second session follows.
    let channel = "channel = { kind = \"packet-errors\", loss = 0.05 }\n\
        forward.channel = { kind = \"outages\", outages = [{ at = \"10 s\", lasts = \"300 s\" }] }";
    let traffic = "payload = \"3000 B\", interval = \"1 s\", bundles = 30";
    let text = hop("\"tcpcl\"", channel, traffic) + "[probe]\ncapture = [\"rover:hop\"]\n";
    let mut built = built(&text);
    let (folder, point) = (Folder::new(), built.captures.remove(0));
    let path = folder.file("hop.pcap");
    let capture = Capture::start(&path, point.format, 65_535).expect("a file");
    for (element, port) in [point.sent, point.received] {
        built.network.tap(element, port, capture.tap());
    }
    built.network.run_until(at(1500));
    let mut counts = Counts::default();
    built.network.observe(built.roles[0].element, &mut counts);
    let count = |name: &str| counts.0[name] as usize;
    let (sessions, unfinished) = (count("tcpcl-sessions"), count("tcpcl-unfinished"));
    assert!(sessions >= 2 && count("forwarded") == 30, "{:?}", counts.0);
    capture.finish().expect("written");
    let Some(tshark) = Tshark::on(&path) else { return };
    let tshark = tshark.preferences(&["tcp.reassemble_out_of_order:TRUE"]);
    let names = ["tcpcl.contact_hdr.version", "tcpcl.v4.mhdr.type", "bpv7.crc_status", "_ws.malformed"];
    let rows = tshark.options(&["-Y", "tcpcl"]).fields(&names);
    let count = |column: usize, value: &str| {
        rows.iter().flat_map(|row| row[column].split(',')).filter(|found| *found == value).count()
    };
    assert_eq!((count(0, "4"), count(1, "0x07")), (2 * sessions, 2 * sessions), "contact headers, SESS_INIT");
    let segments = count(1, "0x01");
    assert!((30..=30 + unfinished).contains(&segments), "{segments} XFER_SEGMENT of {:?}", counts.0);
    assert_eq!(count(1, "0x02"), 30, "XFER_ACK");
    // That of the primary block and that of the payload.
    assert_eq!(count(2, "1"), 2 * segments, "good CRCs");
    assert!(rows.iter().all(|row| row[3].is_empty()), "malformed: {rows:?}");
}

#[test]
fn sessions_take_the_time_of_their_bytes() {
    let mut built = built(&hop("\"tcpcl\"", "", "payload = \"10000 B\", interval = \"1 ms\", bundles = 100"));
    let mut last = None;
    for centi in 1..2000 {
        built.network.run_until(Time::ZERO + Span::from_millis(centi * 10));
        let mut counts = Counts::default();
        built.network.observe(built.flows[0].receivers[0], &mut counts);
        if counts.0["packets"] == 100 {
            last = Some(centi as f64 / 100.0);
            break;
        }
    }
    // 1448 of 1500 B are data; a bundle has some 60 B of headers, and a segment of TCPCL 18 B. SYN, contact header and SESS_INIT
    // take a round trip each.
    let bytes = 100.0 * 10_078.0 * 1500.0 / 1448.0;
    let expected = bytes * 8.0 / 1e6 + 3.0 * 0.02;
    let last = last.expect("all bundles");
    assert!((last / expected - 1.0).abs() < 0.02, "{last} s against {expected} s");
}

#[test]
fn sessions_repeat_what_a_link_loses_and_datagrams_do_not() {
    let traffic = "payload = \"1000 B\", interval = \"100 ms\", bundles = 2000";
    let of = |layer: &str, loss: f64| {
        let channel = format!("channel = {{ kind = \"packet-errors\", loss = {loss} }}");
        after(1000, &hop(layer, &channel, traffic))
    };
    let [sink, rover] = of("\"tcpcl\"", 0.05);
    assert_eq!((sink["packets"], sink["duplicates"]), (2000, 0), "{rover:?}");
    // A segment each bundle, more or less, and 5 % of them are lost, as are those that repeat them.
    assert!((60..=250).contains(&rover["tcp-repeated"]), "{rover:?}");
    // Five standard deviations.
    let [udp, _] = of("\"udp\"", 0.05);
    assert!((1850..=1950).contains(&udp["packets"]), "{udp:?}");
    let [dccp, sender] = of("\"dccp\"", 0.05);
    assert!((1850..=1950).contains(&dccp["packets"]), "{dccp:?} {sender:?}");
}

#[test]
fn bundles_wait_for_a_session_of_ltp() {
    let traffic = "payload = \"1000 B\", interval = \"1 ms\", bundles = 80";
    // The contacts carry 80 in 0.9 s. Two at a time wait for a round trip of 20 ms and more each time: 1.6 s.
    for (ltp, waits) in [("ltp = { sessions = 2 }", true), ("", false)] {
        let text = hop(&format!("\"ltp\"\n{ltp}"), "", traffic).replace("250000", "100000");
        let [early, _] = after(1, &text);
        assert_eq!(early["packets"] < 80, waits, "{ltp}: {early:?}");
        let [sink, rover] = after(10, &text);
        assert_eq!((sink["packets"], sink["duplicates"]), (80, 0), "{ltp}: {rover:?}");
        assert_eq!((rover["ltp-repeated"], rover["ltp-failed"]), (0, 0), "{ltp}");
    }
}

#[test]
fn bundles_share_blocks_of_ltp_and_arrive_once() {
    let traffic = "payload = \"100 B\", interval = \"10 ms\", bundles = 5000";
    let of = |ltp: &str, channel: &str| after(200, &hop(&format!("\"ltp\"\n{ltp}"), channel, traffic));
    let (loss, limits) =
        ("channel = { kind = \"packet-errors\", loss = 0.05 }", "ltp.aggregate = { bytes = \"4000 B\"");
    let [sink, alone] = of("", "");
    assert_eq!((sink["packets"], alone["ltp-sent"]), (5000, 5000), "{alone:?}");
    for channel in ["", loss] {
        let [sink, rover] = of(&format!("{limits}, wait = \"1 s\" }}"), channel);
        assert_eq!((sink["packets"], sink["duplicates"]), (5000, 0), "{rover:?}");
        // 26 bundles of some 155 B are a block of three segments.
        let sent = rover["ltp-sent"] - rover["ltp-repeated"];
        assert!((570..=590).contains(&sent), "{rover:?}");
    }
    // Those that come while the link sends are not forgotten: a block is sent for 32 ms, and 3 bundles come in that time.
    let busy = "payload = \"1000 B\", interval = \"10 ms\", bundles = 302";
    let [sink, rover] = after(60, &hop(&format!("\"ltp\"\n{limits}, wait = \"50 ms\" }}"), "", busy));
    assert_eq!((sink["packets"], rover["forwarded"]), (302, 302), "{rover:?}");
    // Without a wait the link is free for each of them.
    let [sink, rover] = of(&format!("{limits} }}"), "");
    assert_eq!((sink["packets"], rover["ltp-sent"]), (5000, 5000), "{rover:?}");
    let refused = refused(&hop("\"ltp\"\nltp.aggregate = { bytes = \"9 MB\" }", "", traffic));
    assert!(refused.contains("dtn.mars.ltp.aggregate.bytes: expected 1 B to 8 MB"), "{refused}");
}

#[test]
fn two_orbiters_carry_parts_of_a_bundle_that_none_of_them_could() {
    // It takes 7.7 s to either orbiter, whose contact with it is 5 s long, and another 3.8 s to Earth.
    let side = |orbiter: &str| {
        format!(
            "a range +0 +900 rover {orbiter} 0.01\na range +0 +900 {orbiter} earth 0.01\n\
             a contact +0 +5 rover {orbiter} 2500\na contact +0 +5 {orbiter} rover 2500\n\
             a contact +0 +8.5 {orbiter} earth 5000\na contact +0 +8.5 earth {orbiter} 5000\n"
        )
    };
    let text = format!(
        r#"
title = "t"
duration = "20 s"
node.rover = {{ role = {{ kind = "dtn", network = "mars" }} }}
node.one = {{ kind = "router", role = {{ kind = "dtn", network = "mars" }} }}
node.other = {{ kind = "router", role = {{ kind = "dtn", network = "mars" }} }}
node.earth = {{ role = {{ kind = "dtn", network = "mars" }} }}
link.near-one = {{ between = ["rover", "one"], rate = "20 kbit/s", delay = "10 ms" }}
link.near-other = {{ between = ["rover", "other"], rate = "20 kbit/s", delay = "10 ms" }}
link.far-one = {{ between = ["one", "earth"], rate = "40 kbit/s", delay = "10 ms" }}
link.far-other = {{ between = ["other", "earth"], rate = "40 kbit/s", delay = "10 ms" }}
[dtn.mars]
layer = "ltp"
plan = """
{}{}"""
[flow.picture]
from = "rover"
to = "earth"
start = "1 s"
traffic = {{ kind = "bundles", payload = "18.5 kB", interval = "1 s", bundles = 1, lifetime = "1 d" }}
"#,
        side("one"),
        side("other")
    );
    let [sink, rover] = after(20, &text);
    assert_eq!((sink["packets"], sink["delivered-bytes"]), (1, 18_500), "{rover:?}");
    assert_eq!((rover["bundle-fragments"], rover["forwarded"]), (2, 2), "{rover:?}");
}

#[test]
fn connections_find_the_rate_that_the_plan_overstates() {
    // The plan has twice the rate of the link.
    let traffic = "payload = \"1200 B\", interval = \"5 ms\", bundles = 20000";
    let of = |layer: &str| after(1500, &hop(layer, "", traffic));
    let [udp, _] = of("\"udp\"");
    let [tcpcl, rover] = of("\"tcpcl\"");
    let [dccp, sender] = of("\"dccp\"");
    assert!(udp["packets"] < 13_000, "{udp:?}");
    assert_eq!((tcpcl["packets"], tcpcl["duplicates"]), (20_000, 0), "{rover:?}");
    assert!(dccp["packets"] > 19_000, "{dccp:?} {sender:?}");
}

#[test]
fn short_bundles_find_their_rate_over_a_long_way() {
    // By the longest datagram in place of their length, they kept the rate of the first round trip: 1.5 a second.
    let far =
        |layer: &str, traffic: &str| hop(layer, "", traffic).replace("0.01", "1").replace("10 ms", "1 s");
    let [sink, rover] =
        after(120, &far("\"dccp\"", "payload = \"100 B\", interval = \"50 ms\", bundles = 2000"));
    assert_eq!((sink["packets"], rover["forwarded"]), (2000, 2000), "{sink:?}");
    // What was sent before the end of a contact arrives after it, and what was not waits.
    let short = far("\"dccp\"", "payload = \"500 B\", interval = \"20 ms\", bundles = 2000");
    let [sink, rover] = after(60, &short.replace("+9000 orbiter rover 250000", "+30 orbiter rover 250000"));
    assert!((500..1500).contains(&sink["packets"]), "{sink:?}");
    assert_eq!((sink["packets"], rover["malformed"]), (rover["forwarded"], 0), "{rover:?}");
}

#[test]
fn layers_with_connections_are_refused_where_they_cannot_work() {
    let text = |layer: &str| hop(layer, "", MEASURES);
    for layer in ["\"tcpcl\"", "\"dccp\""] {
        let one_way = text(layer).replace("a contact +0 +9000 orbiter rover 250000\n", "");
        let said = refused(&one_way);
        let wanted =
            "dtn.mars.plan: expected a contact from orbiter to rover: connections need both directions";
        assert!(said.contains(wanted), "{said}");
    }
    let said = refused(&text("\"ltp\"\ntcp = { initial_window = 3 }"));
    assert!(said.contains("dtn.mars.tcp: expected none without `layer = \"tcpcl\"`"), "{said}");
    let said = refused(&text("\"tcpcl\"\ntcp = { initial_window = 0 }"));
    assert!(said.contains("dtn.mars.tcp") && said.contains("initial_window"), "{said}");
}

/// Rover, orbiter and Earth. Each hop has contacts of 6 s every 30 s, at 64 kbit/s: 48 kB, with all headers.
fn short_contacts(more: &str) -> String {
    let mut plan = String::new();
    for n in 0..60 {
        for (late, [from, to]) in [(0, ["rover", "orbiter"]), (10, ["orbiter", "earth"])] {
            let (start, end) = (30 * n + late, 30 * n + late + 6);
            for [from, to] in [[from, to], [to, from]] {
                plan += &format!("a contact +{start} +{end} {from} {to} 8000\n");
            }
        }
    }
    format!(
        r#"
title = "t"
duration = "2000 s"
node.rover = {{ role = {{ kind = "dtn", network = "mars" }} }}
node.orbiter = {{ kind = "router", role = {{ kind = "dtn", network = "mars" }} }}
node.earth = {{ role = {{ kind = "dtn", network = "mars" }} }}
[dtn.mars]
layer = "tcpcl"
routing = {{ kind = "static", routes = {{ rover = {{ default = "orbiter" }}, orbiter = {{ earth = "earth", rover = "rover" }}, earth = {{ default = "orbiter" }} }} }}
{more}
plan = """
{plan}"""
[link.up]
between = ["rover", "orbiter"]
rate = "64 kbit/s"
delay = "10 ms"
[link.down]
between = ["orbiter", "earth"]
rate = "64 kbit/s"
delay = "10 ms"
[flow.pictures]
from = "rover"
to = "earth"
traffic = {{ kind = "bundles", payload = "60000 B", interval = "100 s", bundles = 8, lifetime = "1 d" }}
[probe]
capture = ["orbiter:down"]
"#
    )
}

#[test]
fn a_bundle_longer_than_any_contact_crosses_in_parts() {
    let [sink, rover] = after(1900, &short_contacts("reactive = false"));
    assert_eq!((sink["packets"], rover["forwarded"]), (0, 0), "{rover:?}");
    assert!(rover["tcpcl-unfinished"] > 50 && !rover.contains_key("bundle-spared"), "{rover:?}");

    let mut built = built(&short_contacts(""));
    let (folder, point) = (Folder::new(), built.captures.remove(0));
    let path = folder.file("down.pcap");
    let capture = Capture::start(&path, point.format, 65_535).expect("a file");
    for (element, port) in [point.sent, point.received] {
        built.network.tap(element, port, capture.tap());
    }
    built.network.run_until(at(1900));
    let mut counts = |element| {
        let mut counts = Counts::default();
        built.network.observe(element, &mut counts);
        counts.0
    };
    let sink = counts(built.flows[0].receivers[0]);
    let [rover, orbiter] = [0, 1].map(|n| counts(built.roles[n].element));
    // The third node puts them together, each once.
    assert_eq!((sink["packets"], sink["duplicates"]), (8, 0), "{rover:?} {orbiter:?}");
    assert!(
        rover["bundle-resumed"] >= 8 && rover["bundle-resumed"] == orbiter["bundle-parts"],
        "{rover:?} {orbiter:?}"
    );
    // Two contacts for each bundle, and the first takes most of it.
    assert!((8 * 30_000..8 * 60_000).contains(&rover["bundle-spared"]), "{rover:?}");
    capture.finish().expect("written");
    let Some(tshark) = Tshark::on(&path) else { return };
    let names = ["bpv7.crc_status", "bpv7.primary.frag_offset", "bpv7.primary.total_len", "_ws.malformed"];
    let tshark = tshark.preferences(&["tcp.reassemble_out_of_order:TRUE"]);
    let rows = tshark.options(&["-Y", "bpv7"]).fields(&names);
    let of = |n: usize| rows.iter().flat_map(move |row| row[n].split(',')).filter(|field| !field.is_empty());
    assert!(of(0).count() == 32 && of(0).all(|status| status == "1"), "good CRCs of two blocks: {rows:?}");
    let starts: Vec<&str> = of(1).collect();
    assert_eq!(starts.iter().filter(|start| **start == "0").count(), 8, "first parts: {rows:?}");
    assert!(starts.len() == 16 && of(2).all(|total| total == "60000") && of(3).count() == 0, "{rows:?}");
}

/// EGGS, scenario (b): measures over TCP to the orbiter, bundles from there.
fn proxied(proximity: &str, contacts: &str, through: &str) -> String {
    format!(
        r#"
title = "t"
duration = "2000 s"
node.sink = {{}}
node.orbiter = {{ kind = "router", role = {{ kind = "dtn", network = "eggs" }} }}
node.earth = {{ role = {{ kind = "dtn", network = "eggs" }} }}
[dtn.eggs]
layer = "udp"
plan = """
a range +0 +9000 orbiter earth 200
{contacts}
"""
[link.proximity]
between = ["sink", "orbiter"]
rate = "64 kbit/s"
delay = "40 ms"
{proximity}
[link.longhaul]
between = ["orbiter", "earth"]
rate = "64 kbit/s"
delay = "200 s"
[flow.measures]
from = "sink"
to = "earth"
traffic = {{ kind = "bundles", payload = "25 B", interval = "100 ms", bundles = 1000, lifetime = "1 d", through = {{ {through} }} }}
"#
    )
}

#[test]
fn a_proxy_cuts_a_stream_into_bundles() {
    let open = "a contact +0 +9000 orbiter earth 8000";
    let lossy = "forward.channel = { kind = \"packet-errors\", loss = 0.1 }";
    for (proximity, contacts) in [("", open), (lossy, open), ("", "a contact +500 +9000 orbiter earth 8000")]
    {
        let mut built = built(&proxied(proximity, contacts, "node = \"orbiter\""));
        built.network.run_until(at(1200));
        let receiver = built.flows[0].receivers[0];
        let [sent, received, node] =
            [built.flows[0].sender, receiver, built.roles[0].element].map(|element| {
                let mut counts = Counts::default();
                built.network.observe(element, &mut counts);
                counts.0
            });
        let what = format!("{proximity} {contacts}: {sent:?} {received:?} {node:?}");
        assert_eq!((sent["sent"], node["originated"]), (1000, 1000), "{what}");
        assert_eq!((received["packets"], received["delivered-bytes"]), (1000, 25_000), "{what}");
        assert_eq!(sent["tcp-repeated"] > 0, !proximity.is_empty(), "{what}");
        // The time of a measure counts from the sink: light time, proximity hop and both transmissions.
        let figures = super::conference::figures(&mut built, receiver);
        let least = if contacts == open { 200.04 } else { 600.0 };
        let mean = figures["delay-mean"];
        assert!(mean > least && mean < least + 60.0, "{mean}: {what}");
    }
}

#[test]
fn places_of_a_proxy_are_refused() {
    let contacts = "a contact +0 +9000 orbiter earth 8000";
    for (node, expected) in [
        ("moon", "flow.measures.traffic.through.node"),
        ("earth", "between sender and receiver"),
        ("sink", "between sender and receiver"),
    ] {
        let found = refused(&proxied("", contacts, &format!("node = \"{node}\"")));
        assert!(found.contains(expected) && found.contains("through.node"), "{node}: {found}");
    }
    let text = proxied("", contacts, "node = \"orbiter\"").replace(
        "node.sink = {}",
        "node.sink = {}\nnode.relay = { kind = \"router\" }\nlink.own = { between = [\"relay\", \"sink\"], rate = \"1 Mbit/s\", delay = \"1 ms\" }",
    );
    let found = refused(&text.replace("through = { node = \"orbiter\"", "through = { node = \"relay\""));
    assert!(found.contains("through.node") && found.contains("no role \"dtn\""), "{found}");
}

#[test]
fn bundles_of_each_nanosecond_are_refused() {
    let text = |interval: &str| hop("\"udp\"", "", &format!("payload = \"25 B\", interval = \"{interval}\""));
    for interval in ["1 ns", "9 us"] {
        let why = refused(&text(interval));
        assert!(
            why.contains("flow.measures.traffic.interval") && why.contains("expected 10 us or more"),
            "{why}"
        );
    }
    scenario(&text("10 us"));
}
