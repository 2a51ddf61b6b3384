//! Exchanges of two sites: what crosses the satellite, dial plans, call records.

use std::sync::atomic::{AtomicU64, Ordering};

use bentpipe_site::{CallEnd, CallRecord};

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
        assert_eq!((record.end, record.codec.as_deref()), (CallEnd::Ended, Some("PCMA")));
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

fn refused(text: &str) -> String {
    let document = Document::parse("file.toml", text.as_bytes()).expect("TOML");
    match checked(&document) {
        Err(refusal) => refusal.to_string(),
        Ok(_) => panic!("accepted: {text}"),
    }
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
