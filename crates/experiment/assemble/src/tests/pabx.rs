//! Exchanges of two sites: what crosses the satellite, dial plans, call records.

use std::sync::atomic::{AtomicU64, Ordering};

use bentpipe_site::{CallEnd, CallRecord};

use super::conference::figures;
use super::*;

/// Two phones at one site and one at the other, with an exchange each.
const SITES: &str = r#"
title = "exchanges"
duration = "100 s"
node.pisa-phones = {}
node.pisa-desk = {}
node.pisa = { kind = "router", role = "pabx" }
node.genoa = { kind = "router", role = "pabx" }
node.genoa-phones = {}
link.pisa-lan = { between = ["pisa-phones", "pisa"], rate = "100 Mbit/s", delay = "1 ms" }
link.desk-lan = { between = ["pisa-desk", "pisa"], rate = "100 Mbit/s", delay = "1 ms" }
link.satellite = { between = ["pisa", "genoa"], rate = "100 Mbit/s", delay = "250 ms" }
link.genoa-lan = { between = ["genoa-phones", "genoa"], rate = "100 Mbit/s", delay = "1 ms" }
pabx.pisa = { extensions = ["2XX"], dial = [{ pattern = "3XX", trunk = "genoa", protocol = "PROTOCOL" }] }
pabx.genoa = { extensions = ["3XX"], dial = [{ pattern = "02XX", trunk = "pisa", strip = 1 }] }
"#;

fn flow(name: &str, (from, to): (&str, &str), (at, number, dial): (&str, &str, &str)) -> String {
    format!(
        "flow.{name} = {{ from = \"{from}\", to = \"{to}\", start = \"1 s\", stop = \"80 s\", traffic = {{ kind = \"sip\", \
         interval = \"4 s\", hold = \"5 s\", ring = \"1 s\", pabx = {{ at = \"{at}\", number = \"{number}\", dial = \"{dial}\" }} }} }}\n"
    )
}

fn local() -> String {
    flow("local", ("pisa-phones", "pisa-desk"), ("pisa", "201", "202"))
}

fn remote() -> String {
    flow("remote", ("pisa-phones", "genoa-phones"), ("pisa", "203", "301"))
}

fn sites(protocol: &str, flows: &str) -> String {
    format!("{}{flows}", SITES.replace("PROTOCOL", protocol))
}

/// Packets over the satellite, and the records of both exchanges.
fn run(text: &str) -> (u64, [Vec<CallRecord>; 2], Built) {
    let mut built = built(text);
    let count = Arc::new(AtomicU64::new(0));
    let sides: Vec<_> = built.sides.iter().filter(|side| side.name == "satellite").cloned().collect();
    for side in sides {
        let (seen, (element, port)) = (Arc::clone(&count), side.input);
        built.network.tap(element, port, move |_, _| {
            seen.fetch_add(1, Ordering::Relaxed);
        });
    }
    built.network.run_until(at(100));
    let records = ["pisa", "genoa"].map(|node| {
        let role = built.roles.iter().find(|role| role.node == node).expect("an exchange").clone();
        role.calls.expect("it has records").read(&mut built.network, role.element)
    });
    (count.load(Ordering::Relaxed), records, built)
}

fn detail(record: &CallRecord) -> [&str; 4] {
    let detail = record.detail.as_ref().expect("of an exchange");
    [&detail.caller, &detail.callee, &detail.cause, &detail.path]
}

#[test]
fn calls_within_a_site_never_cross_the_satellite() {
    let (crossed, [pisa, genoa], mut built) = run(&sites("iax", &local()));
    assert_eq!((crossed, genoa.len()), (0, 0));
    assert!(pisa.len() > 10, "{}", pisa.len());
    for record in &pisa {
        assert_eq!(detail(record), ["201", "202", "normal, by the caller", "sip - sip"]);
        assert_eq!((record.end, record.codec.as_deref()), (CallEnd::Ended, Some("G.711 A-law")));
        // One round trip of a LAN, and a second of ringing, at the exchange.
        let [post_dial, set_up] =
            [record.post_dial, record.set_up].map(|span| span.expect("answered").as_secs_f64());
        assert!(
            (0.002..0.003).contains(&post_dial) && (1.002..1.004).contains(&set_up),
            "{post_dial} {set_up}"
        );
    }
    let caller = &built.flows[0];
    let (_, element, reader) = caller.calls[0].clone();
    let placed = reader.read(&mut built.network, element);
    assert!(placed.iter().all(|call| call.end == CallEnd::Ended) && placed.len() == pisa.len());
}

#[test]
fn a_trunk_takes_a_call_to_the_other_site() {
    for (protocol, path) in [("iax", "sip - iax genoa"), ("sip", "sip - sip genoa")] {
        let (crossed, [pisa, genoa], _) = run(&sites(protocol, &remote()));
        assert!(pisa.len() > 10 && pisa.len() == genoa.len(), "{protocol}: {} {}", pisa.len(), genoa.len());
        for (here, there) in pisa.iter().zip(&genoa) {
            let from = path.split(' ').nth(2).expect("a protocol");
            assert_eq!(detail(here), ["203", "301", "normal, by the caller", path]);
            assert_eq!(detail(there), ["203", "301", "normal, by the caller", &format!("{from} - sip")]);
            let set_up = here.set_up.expect("answered").as_secs_f64();
            assert!((1.502..1.54).contains(&set_up), "{protocol}: {set_up}");
            assert!(
                here.duration(at(100))
                    .is_some_and(|held| held > there.duration(at(100)).expect("up") - Span::from_millis(600))
            );
        }
        // Voice goes with it, in frames of IAX2 or in RTP: 50 per second each way while a call is up.
        let held: f64 = pisa.iter().map(|call| call.duration(at(100)).expect("ended").as_secs_f64()).sum();
        let voice = 100.0 * held;
        assert!(
            crossed as f64 > 0.9 * voice && (crossed as f64) < 1.15 * voice,
            "{protocol}: {crossed} packets, {held} s"
        );
    }
}

#[test]
fn a_rule_admits_as_many_calls_at_a_time_as_its_limit() {
    let limited = sites("iax", &remote()).replace("protocol = \"iax\"", "protocol = \"iax\", calls = 1");
    let (_, [pisa, genoa], _) = run(&limited);
    let (refused, admitted): (Vec<_>, Vec<_>) =
        pisa.iter().partition(|call| detail(call)[2] == "limit of the trunk");
    assert!(refused.len() > 3 && refused.iter().all(|call| call.end == CallEnd::Failed), "{refused:?}");
    assert_eq!(admitted.len(), genoa.len(), "those refused do not cross the satellite");
    for pair in admitted.windows(2) {
        assert!(pair[0].ended.is_some_and(|ended| ended <= pair[1].placed), "{pair:?}");
    }
}

#[test]
fn numbers_are_translated_on_the_way_back() {
    let back = flow("back", ("genoa-phones", "pisa-desk"), ("genoa", "302", "0204"));
    let (_, [pisa, genoa], _) = run(&sites("iax", &back));
    assert!(!pisa.is_empty() && pisa.len() == genoa.len());
    assert_eq!(detail(&genoa[0])[..2], ["302", "0204"]);
    assert_eq!(detail(&pisa[0])[..2], ["302", "204"]);
}

#[test]
fn a_phone_that_is_not_there_and_one_that_is_hung_up_on() {
    // The callee's registration is lost, as its link carries nothing.
    let dead = sites("iax", &remote()).replace(
        "\"genoa-phones\", \"genoa\"], rate",
        "\"genoa-phones\", \"genoa\"], forward.channel = { kind = \"packet-errors\", loss = 1.0 }, rate",
    );
    let (_, [pisa, genoa], _) = run(&dead);
    assert!(genoa.iter().all(|call| call.end == CallEnd::Failed && detail(call)[2] == "not registered"));
    assert!(!pisa.is_empty() && pisa.iter().all(|call| detail(call)[2] == "cause 20"), "{:?}", pisa.first());
    let limit = sites("iax", &remote()).replace("ring = \"1 s\"", "ring = \"30 s\", ring_limit = \"3 s\"");
    let (_, [pisa, genoa], _) = run(&limit);
    assert!(!pisa.is_empty() && pisa.iter().all(|call| call.end == CallEnd::Cancelled), "{:?}", pisa.first());
    assert!(genoa.iter().all(|call| call.end == CallEnd::Cancelled), "{:?}", genoa.first());
}

#[test]
fn phones_prove_a_password_and_a_wrong_one_is_refused() {
    for (algorithm, qop) in [("md5", "none"), ("md5", "auth"), ("sha-256", "auth-int")] {
        let digest = format!(
            "extensions = [\"3XX\"], digest = {{ password = \"secret\", algorithm = \"{algorithm}\", qop = \"{qop}\" }}"
        );
        let both = |text: &str| {
            text.replace("extensions = [\"3XX\"]", &digest)
                .replace("extensions = [\"2XX\"]", &digest.replace("3XX", "2XX"))
        };
        // The callee registers with the password of its exchange; a trunk needs none.
        for protocol in ["iax", "sip"] {
            let (_, [pisa, genoa], _) = run(&both(&sites(protocol, &remote())));
            assert!(
                pisa.len() > 10 && pisa.len() == genoa.len(),
                "{protocol}: {} {}",
                pisa.len(),
                genoa.len()
            );
            assert!(pisa.iter().all(|call| call.end == CallEnd::Ended), "{protocol} {:?}", pisa.first());
        }
        let wrong = remote().replace("dial = \"301\"", "dial = \"301\", password = \"guess\"");
        let (_, [pisa, genoa], mut built) = run(&both(&sites("iax", &wrong)));
        assert!(pisa.is_empty() && genoa.is_empty(), "no call passes: {:?}", pisa.first());
        let (_, element, reader) = built.flows[0].calls[0].clone();
        let placed = reader.read(&mut built.network, element);
        assert!(placed.len() > 10 && placed.iter().all(|call| call.end == CallEnd::Failed));
    }
    let none = sites("iax", &remote()).replace("[\"2XX\"]", "[\"2XX\"], digest = { password = \"\" }");
    assert!(refused(&none).contains("pabx.pisa.digest.password: expected a password"));
}

#[test]
fn faults_of_dial_plans_are_refused_with_their_places() {
    let sites = sites("iax", &remote());
    for (from, to, expected) in [
        (r#"["2XX"]"#, r#"["2XX", "20X"]"#, ["pabx.pisa.extensions.1", "overlaps the pattern 2XX"]),
        (r#"["2XX"]"#, r#"["2XX", "+2"]"#, ["pabx.pisa.extensions.1", "1 to 32 of the digits"]),
        (r#""3XX", trunk"#, r#""NXX", trunk"#, ["pabx.pisa.dial.0.pattern", "both have 2XX"]),
        (
            r#"trunk = "genoa""#,
            r#"trunk = "rome""#,
            ["pabx.pisa.dial.0.trunk", "no exchange is called \"rome\""],
        ),
        (
            r#""02XX", trunk = "pisa", strip = 1"#,
            r#""02XX", trunk = "pisa""#,
            ["pabx.genoa.dial.0", "\"pisa\" has no number 02XX"],
        ),
        (r#"strip = 1"#, r#"strip = 1, calls = 0"#, ["pabx.genoa.dial.0.calls", "at least 1"]),
        (r#"strip = 1"#, r#"strip = 9"#, ["pabx.genoa.dial.0.strip", "has 4 digits"]),
        (
            r#"extensions = ["3XX"], dial = ["#,
            r#"extensions = ["4XX"], dial = [{ pattern = "3XX", trunk = "pisa" }, "#,
            ["calls come back", "pisa - genoa - pisa"],
        ),
        (
            r#"dial = "301""#,
            r#"dial = "555""#,
            ["flow.remote.traffic.pabx.dial", "\"pisa\" does not know \"555\""],
        ),
        (
            r#"number = "203""#,
            r#"number = "303""#,
            ["flow.remote.traffic.pabx.number", "is not an extension of \"pisa\""],
        ),
        (
            r#"pabx = { at = "pisa""#,
            r#"pabx = { at = "pisa-desk""#,
            ["flow.remote.traffic.pabx.at", "has no role \"pabx\""],
        ),
        ("pabx.genoa = ", "pabx.genoa-phones = ", ["node.genoa.role", "`[pabx.genoa]`"]),
    ] {
        let text = sites.replace(from, to);
        assert_ne!(text, sites, "{from}");
        let refusal = refused(&text);
        let is_placed = refusal.contains("file.toml:") && expected.iter().all(|part| refusal.contains(part));
        assert!(is_placed, "{expected:?}: {refusal}");
    }
    let twice = format!("{sites}{}", remote().replace("flow.remote", "flow.again"));
    assert!(refused(&twice).contains("\"301\" is the phone of flow \"remote\""));
}

/// RTP packet on the way: UDP ports, source, contributing sources.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    ports: [u16; 2],
    ssrc: u32,
    csrcs: Vec<u32>,
}

/// Watches the RTP in a direction of a link.
fn watch(built: &mut Built, name: &str, side: usize) -> Arc<std::sync::Mutex<Vec<Seen>>> {
    let all: Arc<std::sync::Mutex<Vec<Seen>>> = Arc::default();
    let sides: Vec<_> = built.sides.iter().filter(|side| side.name == name).cloned().collect();
    let (seen, (element, port)) = (Arc::clone(&all), sides[side].input);
    built.network.tap(element, port, move |_, packet| {
        let bytes = packet.to_vec();
        let ip = bentpipe_wire::ip::Packet::new_checked(&bytes[..]).expect("IP");
        let upper = ip.upper().expect("whole");
        let Ok(udp) = bentpipe_wire::udp::Datagram::new_checked(upper.bytes) else { return };
        // RTCP has odd ports, as IAX2.
        if udp.dst_port() % 2 == 1 {
            return;
        }
        let signalling = [5060];
        let rtp = bentpipe_wire::rtp::Packet::new_checked(udp.payload());
        if let (Ok(rtp), false) =
            (rtp, udp.payload().starts_with(b"SIP") || signalling.contains(&udp.dst_port()))
        {
            let ports = [udp.src_port(), udp.dst_port()];
            let found = Seen { ports, ssrc: rtp.ssrc(), csrcs: rtp.csrcs().collect() };
            seen.lock().expect("whole").push(found);
        }
    });
    all
}

fn records_of(built: &mut Built, node: &str) -> Vec<CallRecord> {
    let role = built.roles.iter().find(|role| role.node == node).expect("an exchange").clone();
    role.calls.expect("it has records").read(&mut built.network, role.element)
}

fn caller_records(built: &mut Built, flow: usize) -> Vec<CallRecord> {
    let (_, element, reader) = built.flows[flow].calls[0].clone();
    reader.read(&mut built.network, element)
}

fn long(flow: &str) -> String {
    flow.replace("interval = \"4 s\", hold = \"5 s\"", "interval = \"2 s\", calls = 1, hold = \"100000 s\"")
}

/// Members of a conference dial it: three at its site, two from the other one.
fn conference(protocol: &str, mixing: &str) -> String {
    let near =
        |n: usize| flow(&format!("near-{n}"), ("pisa-phones", "pisa"), ("pisa", &format!("21{n}"), "290"));
    let far =
        |n: usize| flow(&format!("far-{n}"), ("genoa-phones", "pisa"), ("genoa", &format!("31{n}"), "0290"));
    let flows: String = (0..3).map(near).chain((0..2).map(far)).map(|flow| long(&flow)).collect();
    let flows = flows.replace("pabx = {", "media = { speech = { kind = \"continuous\" } }, pabx = {");
    let sites = sites(protocol, &flows);
    let back = format!("trunk = \"pisa\", protocol = \"{protocol}\", strip = 1");
    sites.replace("trunk = \"pisa\", strip = 1", &back).replace(
        "extensions = [\"2XX\"]",
        &format!(
            "extensions = [\"20X\", \"21X\"], conferences = [{{ number = \"290\", mixing = \"{mixing}\" }}]"
        ),
    )
}

#[test]
fn members_dial_a_conference_and_hear_all_others() {
    for (protocol, mixing, sources) in [("sip", "linear", 4), ("iax", "loudest", 3)] {
        let mut built = built(&conference(protocol, mixing));
        let (said, heard) = (watch(&mut built, "pisa-lan", 0), watch(&mut built, "pisa-lan", 1));
        let crossed = Arc::new(AtomicU64::new(0));
        let satellite: Vec<_> = built.sides.iter().filter(|side| side.name == "satellite").cloned().collect();
        for side in satellite {
            let (count, (element, port)) = (Arc::clone(&crossed), side.input);
            built.network.tap(element, port, move |_, _| {
                count.fetch_add(1, Ordering::Relaxed);
            });
        }
        built.network.run_until(at(40));
        let before = [said.lock().expect("whole").len(), heard.lock().expect("whole").len()];
        let crossed_before = crossed.load(Ordering::Relaxed);
        built.network.run_until(at(60));
        let (said, heard) = (said.lock().expect("whole"), heard.lock().expect("whole"));
        // Each member sends 50 packets per second and gets as many mixes, in 20 s.
        assert_eq!([said.len() - before[0], heard.len() - before[1]], [3 * 1000; 2], "{protocol}");
        // One stream each way for each member at the other site, and some signalling.
        let crossed = crossed.load(Ordering::Relaxed) - crossed_before;
        assert!((4000..4100).contains(&crossed), "{protocol}: {crossed}");
        // A mix has all others, or the loudest three of them, and never the member that it is for.
        let own: std::collections::BTreeMap<u16, u32> =
            said[before[0]..].iter().map(|packet| (packet.ports[0], packet.ssrc)).collect();
        assert_eq!(own.len(), 3, "{own:?}");
        for mix in &heard[before[1]..] {
            let mine = own[&mix.ports[1]];
            assert!(mix.csrcs.len() == sources && !mix.csrcs.contains(&mine), "{mix:?} {own:?}");
        }
        let [pisa, genoa] = ["pisa", "genoa"].map(|node| records_of(&mut built, node));
        assert_eq!((pisa.len(), genoa.len()), (5, 2), "{protocol}");
        let paths: Vec<[&str; 4]> = pisa.iter().map(detail).collect();
        let over_trunk = format!("{protocol} - conference");
        assert_eq!(
            paths.iter().filter(|path| path[3] == "sip - conference").count(),
            if protocol == "sip" { 5 } else { 3 }
        );
        assert!(
            paths.iter().all(|path| path[1] == "290" && [&over_trunk, "sip - conference"].contains(&path[3]))
        );
        // Mouth to ear within the site: 20 ms of packing, two buffers of 60 ms, up to 20 ms until the mix. Talkers are at both.
        for (flow, least) in [(0, 0.14), (3, 0.39)] {
            let quality = caller_records(&mut built, flow)[0].quality.expect("voice");
            let ear = quality.mouth_to_ear.expect("heard").as_secs_f64();
            assert!((least..least + 0.3).contains(&ear), "{protocol} {flow}: {ear}");
            assert_eq!(quality.loss, Some(0.0));
        }
    }
}

#[test]
fn members_leave_a_conference_and_a_full_one_is_busy() {
    let short = conference("sip", "loudest").replace("hold = \"100000 s\"", "hold = \"5 s\"");
    let mut run = built(&short);
    run.network.run_until(at(100));
    let pisa = records_of(&mut run, "pisa");
    assert!(pisa.len() == 5 && pisa.iter().all(|call| call.end == CallEnd::Ended), "{pisa:?}");
    assert!(pisa.iter().all(|call| detail(call)[2] == "normal, by the caller"));
    let full = conference("sip", "loudest").replace("number = \"290\"", "number = \"290\", members = 2");
    let mut run = built(&full);
    run.network.run_until(at(60));
    let pisa = records_of(&mut run, "pisa");
    let busy = pisa.iter().filter(|call| detail(call)[2] == "conference is full");
    assert!(busy.clone().count() == 3 && busy.clone().all(|call| call.end == CallEnd::Failed), "{pisa:?}");
}

/// Voice of phones by way of their exchanges, with the delay, the loss and the codecs of all legs.
#[test]
fn voice_goes_from_phone_to_phone() {
    let talk = |text: &str, codec: &str| {
        text.replace("pabx = {", &format!("media = {{ codec = \"{codec}\" }}, pabx = {{"))
    };
    // Within the site: two hops of a LAN of 1 ms, 20 ms of packing, 60 ms of buffer. Nothing crosses the satellite.
    let (crossed, [pisa, _], mut built) = run(&sites("iax", &talk(&local(), "g711a")));
    assert_eq!(crossed, 0);
    let [placed] = [caller_records(&mut built, 0)];
    assert!(placed.len() == pisa.len() && placed.len() > 10);
    let expected = |delay_ms: f64, ie: f64| {
        bentpipe_voice::emodel::Params { delay: delay_ms, ..Default::default() }.r() - ie
    };
    for call in &placed {
        let quality = call.quality.expect("voice");
        let ear = 1e3 * quality.mouth_to_ear.expect("heard").as_secs_f64();
        assert!((82.0..82.5).contains(&ear) && quality.loss == Some(0.0), "{ear}");
        assert!((quality.r.expect("rated") - expected(ear, 0.0)).abs() < 0.01, "{quality:?}");
        assert_eq!(call.codec.as_deref(), Some("G.711 A-law"));
    }
    // Over either trunk: 252 ms on the way, and GSM in the middle, or the codec of the exchange that calls.
    let mixed =
        |text: String| text.replace("extensions = [\"2XX\"]", "codec = \"g729\", extensions = [\"2XX\"]");
    for (protocol, codec, trunk, ie) in [
        ("sip", "g711a", "GSM full rate", 20.0),
        ("iax", "g711a", "GSM full rate", 20.0),
        ("sip", "g729", "GSM full rate", 11.0 + 20.0 + 11.0),
        ("sip", "g711a", "G.729", 11.0),
        ("iax", "g711a", "G.729", 11.0),
    ] {
        let text = sites(protocol, &talk(&remote(), codec));
        let (_, [pisa, _], mut built) = run(&if trunk == "G.729" { mixed(text) } else { text });
        assert!(pisa.iter().all(|call| call.codec.as_deref() == Some(trunk)), "{protocol}: {pisa:?}");
        let placed = caller_records(&mut built, 0);
        assert!(placed.len() > 10);
        for call in &placed {
            let quality = call.quality.expect("voice");
            let ear = 1e3 * quality.mouth_to_ear.expect("heard").as_secs_f64();
            // 5 ms for each encoder of G.729: at the phone and towards the other one, or towards the trunk.
            let look_ahead = if codec == "g729" { 10.0 } else { f64::from(u8::from(trunk == "G.729")) * 5.0 };
            assert!((332.0 + look_ahead..333.0 + look_ahead).contains(&ear), "{protocol}: {ear}");
            let r = quality.r.expect("rated");
            assert!((r - expected(ear, ie)).abs() < 0.01, "{protocol} {codec}: {r} at {ear}");
        }
        // The callee hears as much, and as well.
        let callee = built.flows[0].receivers[0];
        let [said, heard] = [built.flows[0].sender, callee].map(|element| figures(&mut built, element));
        assert!(heard["voice-received"] > 0.8 * said["voice-sent"], "{said:?} {heard:?}");
        assert!((heard["mouth-to-ear"] - said["mouth-to-ear"]).abs() < 1e-3, "{said:?} {heard:?}");
        assert!((heard["r"] - said["r"]).abs() < 0.1 && heard["voice-loss"] == 0.0, "{said:?} {heard:?}");
    }
    // A loss on the satellite is one at the phones, over RTP and over mini frames, which have no numbers.
    for protocol in ["sip", "iax"] {
        let lossy = sites(protocol, &talk(&remote(), "g711a")).replace(
            "delay = \"250 ms\"",
            "delay = \"250 ms\", return.channel = { kind = \"packet-errors\", loss = 0.05 }",
        );
        let (_, _, mut built) = run(&lossy);
        let losses: Vec<f64> =
            caller_records(&mut built, 0).iter().filter_map(|call| call.quality?.loss).collect();
        let mean = losses.iter().sum::<f64>() / losses.len() as f64;
        assert!((0.03..0.07).contains(&mean), "{protocol}: {losses:?}");
    }
}

#[test]
fn faults_of_conferences_are_refused() {
    let text = conference("sip", "loudest");
    for (from, to, expected) in [
        ("number = \"290\"", "number = \"29X\"", vec!["pabx.pisa.conferences.0.number", "digits alone"]),
        ("number = \"290\"", "number = \"201\"", vec!["overlaps the pattern 20X"]),
        ("to = \"pisa\"", "to = \"pisa-desk\"", vec!["flow.near-0.to", "conference of \"pisa\""]),
        (
            "media = { speech = { kind = \"continuous\" } }, ",
            "",
            vec!["traffic.media", "expected `media = { }`"],
        ),
        ("speech = { kind = \"continuous\" }", "lines = 0", vec!["traffic.media.lines", "1 to 1000"]),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        let refusal = refused(&changed);
        assert!(expected.iter().all(|part| refusal.contains(part)), "{expected:?}: {refusal}");
    }
}

/// Fields of packets of a call by tshark, at the caller's link.
const FIELDS: [&str; 7] =
    ["rtp.ssrc", "rtp.p_type", "rtp.seq", "rtp.timestamp", "rtp.marker", "rtcp.pt", "ip.src"];

fn judged(text: &str, is_judged: bool) -> (Built, Option<Vec<Vec<String>>>) {
    let mut built = built(&format!("{text}\n[probe]\ncapture = [\"pisa-phones:pisa-lan\"]\n"));
    let folder = bentpipe_testkit::Folder::new();
    let path = folder.file("phones.pcap");
    let point = built.captures.remove(0);
    let capture = bentpipe_record::Capture::start(&path, point.format, 65_535).expect("a file");
    for (element, port) in [point.sent, point.received] {
        built.network.tap(element, port, capture.tap());
    }
    built.network.run_until(at(90));
    capture.finish().expect("written");
    // Each start of tshark takes its time.
    let tshark = is_judged.then(|| bentpipe_testkit::Tshark::on(&path)).flatten();
    let rows = tshark.map(|tshark| tshark.fields(&FIELDS));
    (built, rows)
}

/// Packets of a stream of RTP: payload type, number, time stamp and marker.
fn streams(rows: &[Vec<String>]) -> std::collections::BTreeMap<String, Vec<[u32; 4]>> {
    let mut streams: std::collections::BTreeMap<String, Vec<[u32; 4]>> = Default::default();
    for row in rows.iter().filter(|row| !row[1].is_empty()) {
        let number = |field: usize| match &*row[field] {
            "True" => 1,
            "False" => 0,
            number => number.parse().unwrap_or_else(|_| panic!("{row:?}")),
        };
        streams.entry(row[0].clone()).or_default().push([1, 2, 3, 4].map(number));
    }
    streams
}

/// tshark finds pauses with comfort noise, markers and reports, in what phones send and in what an exchange relays.
#[test]
fn phones_pause_and_report() {
    for (protocol, media, noise) in [
        ("sip", "silence_suppression = true", 13),
        ("iax", "codec = \"gsm\", silence_suppression = true", 13),
        // Noise of G.729 is in its own format.
        ("sip", "codec = \"g729\", silence_suppression = true", 0),
    ] {
        let media = format!("media = {{ {media} }}, pabx = {{");
        let text = sites(protocol, &long(&remote()).replace("pabx = {", &media));
        let (mut built, rows) = judged(&text, noise == 13);
        let sender = built.flows[0].sender;
        let caller = figures(&mut built, sender);
        let share = caller["voice-sent"] / 50.0 / 77.0;
        assert!((0.25..0.6).contains(&share), "{protocol}: {share}");
        assert_eq!(caller["voice-loss"], 0.0, "{protocol}: pauses are no losses");
        let reports = [caller["reports-sent"], caller["reports-received"], caller["malformed"]];
        assert!(reports[0] > 10.0 && reports[1] > 10.0 && reports[2] == 0.0, "{reports:?}");
        let Some(rows) = rows else { continue };
        let streams = streams(&rows);
        assert_eq!(streams.len(), 2, "one each way: {:?}", streams.keys());
        for packets in streams.values() {
            assert!(packets.len() > 500, "{}", packets.len());
            let mut pauses = 0;
            for pair in packets.windows(2) {
                let [[before, seq, ticks, _], [now, next_seq, next_ticks, marker]] = [pair[0], pair[1]];
                let intervals = next_ticks.wrapping_sub(ticks) / 160;
                assert_eq!(next_seq, (seq + 1) & 0xffff, "{pair:?}");
                assert_eq!(next_ticks.wrapping_sub(ticks) % 160, 0, "{pair:?}");
                // A gap in time follows noise, and ends by a packet of speech with the marker.
                assert!(intervals == 1 || before == 13, "{pair:?}");
                assert_eq!(marker == 1, before == 13, "{pair:?}");
                assert!(now != 13 || before != 13, "{pair:?}");
                pauses += u32::from(intervals > 1 && marker == 1);
            }
            assert!(pauses > 10, "{protocol}: {pauses} pauses");
        }
        // Phones send extended reports (207), exchanges plain ones. Sender reports (200) and descriptions (202).
        let caller = &rows.iter().find(|row| !row[6].is_empty()).expect("a packet")[6];
        let reports = |is_own: bool| {
            let of = rows.iter().filter(|row| (row[6] == *caller) == is_own && !row[5].is_empty());
            of.map(|row| row[5].clone()).collect::<Vec<String>>()
        };
        let (own, others) = (reports(true), reports(false));
        let has = |all: &[String], kinds: &str| all.iter().any(|report| report == kinds);
        assert!(own.len() > 10 && others.len() > 10, "{own:?} {others:?}");
        assert!(has(&own, "200,202,207") && has(&others, "200,202"), "{own:?} {others:?}");
    }
}

/// An end says goodbye, and settings without reports have none.
#[test]
fn reports_end_with_the_call() {
    let media = |more: &str| format!("media = {{ {more} }}, pabx = {{");
    let text = sites("sip", &remote()).replace("pabx = {", &media(""));
    let (_, rows) = judged(&text, true);
    let Some(rows) = rows else { return };
    let reports: Vec<&String> = rows.iter().map(|row| &row[5]).filter(|kinds| !kinds.is_empty()).collect();
    let goodbyes = reports.iter().filter(|kinds| kinds.ends_with("203")).count();
    // Both ends of each leg, of some twenty calls.
    assert!((20..60).contains(&goodbyes), "{goodbyes} of {reports:?}");
    let text = sites("sip", &remote()).replace("pabx = {", &media("rtcp = \"none\""));
    let text = text.replace("extensions", "rtcp = false, extensions");
    let (mut built, _) = judged(&text, false);
    for element in [built.flows[0].sender, built.flows[0].receivers[0]] {
        let end = figures(&mut built, element);
        assert!(end["reports-sent"] == 0.0 && end["voice-received"] > 0.0, "{end:?}");
    }
}

/// A member of a conference who pauses is not concealed.
#[test]
fn members_with_pauses_are_mixed() {
    let text = conference("sip", "loudest")
        .replace("media = { speech = { kind = \"continuous\" } }", "media = { silence_suppression = true }");
    let mut built = built(&text);
    built.network.run_until(at(60));
    let pisa = built.roles.iter().find(|role| role.node == "pisa").expect("an exchange").element;
    let room = figures(&mut built, pisa);
    assert!(room["mixes"] > 5.0 * 50.0 * 40.0, "{room:?}");
    assert!(room["concealed"] < 0.001 * room["mixes"], "{room:?}");
    for flow in 0..5 {
        let quality = caller_records(&mut built, flow)[0].quality.expect("voice");
        assert_eq!(quality.loss, Some(0.0));
    }
}

/// A conference at either site, of which that in Genoa dials that in Pisa.
fn linked(protocol: &str, far: usize) -> String {
    let text = conference(protocol, "linear");
    let member = |n: usize| {
        let flow =
            flow(&format!("there-{n}"), ("genoa-phones", "genoa"), ("genoa", &format!("33{n}"), "390"));
        long(&flow)
            .replace("pabx = {", "media = { speech = { kind = \"continuous\" }, rtcp = \"none\" }, pabx = {")
    };
    let (head, near) = text.split_once("flow.far-0").map(|(head, _)| (head, "")).expect("members");
    let head = head.replace(
        "pabx.genoa = { extensions = [\"3XX\"]",
        "pabx.genoa = { rtcp = false, extensions = [\"30X\", \"31X\", \"33X\"], conferences = [{ number = \"390\", linked = \"0290\", mixing = \"linear\" }]",
    );
    let head = head.replace("pabx.pisa = {", "pabx.pisa = { rtcp = false,").replace("3XX", "30X");
    format!("{head}{near}{}", (0..far).map(member).collect::<String>())
}

/// Bridges that are linked share one call, whatever the number of their members, who all hear each other.
#[test]
fn linked_bridges_have_one_stream_each_way() {
    for protocol in ["sip", "iax"] {
        let mut crossed_by = Vec::new();
        for far in [1, 4] {
            let mut built = built(&linked(protocol, far));
            let crossed = Arc::new(AtomicU64::new(0));
            let satellite: Vec<_> =
                built.sides.iter().filter(|side| side.name == "satellite").cloned().collect();
            for side in satellite {
                let (count, (element, port)) = (Arc::clone(&crossed), side.input);
                built.network.tap(element, port, move |_, _| {
                    count.fetch_add(1, Ordering::Relaxed);
                });
            }
            built.network.run_until(at(40));
            let before = crossed.load(Ordering::Relaxed);
            built.network.run_until(at(60));
            crossed_by.push(crossed.load(Ordering::Relaxed) - before);
            for flow in 0..3 + far {
                let quality = caller_records(&mut built, flow)[0].quality.expect("voice");
                let ear = quality.mouth_to_ear.expect("heard").as_secs_f64();
                assert!(quality.loss == Some(0.0) && ear > 0.14, "{protocol} {flow}: {quality:?}");
            }
            let [pisa, genoa] = ["pisa", "genoa"].map(|node| records_of(&mut built, node));
            assert_eq!((pisa.len(), genoa.len()), (4, far + 1), "{protocol}");
            let link = genoa.iter().find(|call| detail(call)[0] == "390").expect("a link");
            assert_eq!(detail(link)[3], format!("conference - {protocol} pisa"));
        }
        // 50 packets per second each way for 20 s, and little else.
        assert!(
            crossed_by.iter().all(|crossed| (2000..2020).contains(crossed)),
            "{protocol}: {crossed_by:?}"
        );
    }
}

/// A link ends with the last member, and comes back with the next.
#[test]
fn links_last_as_long_as_members() {
    let text = linked("sip", 1);
    let (first, last) = text.split_at(text.find("flow.there-0").expect("a member"));
    let last = last.replace(
        "interval = \"2 s\", calls = 1, hold = \"100000 s\"",
        "interval = \"15 s\", calls = 3, hold = \"3 s\"",
    );
    let mut built = built(&format!("{first}{last}"));
    built.network.run_until(at(100));
    let genoa = records_of(&mut built, "genoa");
    let links: Vec<_> = genoa.iter().filter(|call| detail(call)[0] == "390").collect();
    assert!(links.len() >= 2, "{genoa:?}");
    let is_over =
        |call: &&CallRecord| call.end == CallEnd::Ended && detail(call)[2] == "normal, no member left";
    assert!(links.iter().all(is_over), "{links:?}");
}

#[test]
fn faults_of_links_are_refused() {
    let text = linked("sip", 1);
    for (from, to, expected) in [
        (
            "linked = \"0290\"",
            "linked = \"0201\"",
            ["pabx.genoa.conferences.0.linked", "is not a conference"],
        ),
        ("linked = \"0290\"", "linked = \"390\"", ["pabx.genoa.conferences.0.linked", "is not a conference"]),
        ("linked = \"0290\"", "linked = \"x\"", ["pabx.genoa.conferences.0.linked", "is not a conference"]),
        (
            "number = \"290\",",
            "number = \"290\", linked = \"390\",",
            ["pabx.pisa.conferences.0.linked", "in a circle: 290 of pisa - 390 of genoa - 290 of pisa"],
        ),
    ] {
        let changed = text.replacen(from, to, 1).replace("pattern = \"30X\"", "pattern = \"39X\"");
        assert!(changed.contains(to), "{from}");
        let refusal = refused(&changed);
        assert!(expected.iter().all(|part| refusal.contains(part)), "{expected:?}: {refusal}");
    }
}

#[test]
fn an_exchange_is_one_node() {
    let text = sites("sip", &local());
    for name in ["pisa", "genoa"] {
        let node = format!("node.{name} = {{ kind = \"router\", ");
        let refusal = refused(&text.replace(&node, &format!("{node}count = 2, ")));
        assert!(refusal.contains("node.pisa") && refusal.contains("without `count`"), "{refusal}");
    }
}
