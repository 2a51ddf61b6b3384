//! Keys of media and flows that events change: carriers of DVB, frame plans, rates of Wi-Fi, flows.

use super::*;

/// Returns the payload bits that arrive in each of 20 seconds, of the first flow.
fn arrivals(text: &str) -> Vec<f64> {
    let mut built = built(text);
    let (receiver, mut total, mut each) = (built.flows[0].receivers[0], 0, Vec::new());
    for second in 1..=20 {
        built.network.run_until(at(second));
        let bytes = match built.network.element::<Sink>(receiver) {
            Some(sink) => sink.flows()[0].packets * 972,
            None => {
                let end: &mut tcp::Endpoint = built.network.element(receiver).expect("an end of TCP");
                end.bytes_delivered()
            }
        };
        each.push((bytes - total) as f64 * 8.0);
        total = bytes;
    }
    each
}

fn mean(each: &[f64]) -> f64 {
    each.iter().sum::<f64>() / each.len() as f64
}

fn fingerprint(text: &str) -> bentpipe_sim::Fingerprint {
    let mut built = built(text);
    built.network.run_until(at(20));
    built.network.fingerprint()
}

/// Two hosts with this link and line, and a UDP flow that overloads them.
fn overloaded(medium: &str) -> String {
    format!(
        r#"
title = "t"
duration = "20 s"
node.a = {{}}
node.b = {{}}
{medium}
[flow.load]
from = "a"
to = "b"
traffic = {{ kind = "udp", pattern = {{ kind = "constant", interval = "500 us" }}, payload = "972 B" }}
"#
    )
}

const GSE: &str = r#"
[link.sky]
between = ["a", "b"]
delay = "100 ms"
queue = { kind = "drop-tail", packets = 20 }
forward.channel = { kind = "packet-errors", loss = 0.0 }
forward.medium = { kind = "dvb", line = "down", encapsulation = "gse" }
return.rate = "1 Mbit/s"
return.channel = { kind = "packet-errors", loss = 0.0 }
[dvb.down]
kind = "dvb-s2"
symbol_rate = 2_000_000
reaction = "300 ms"
"#;

/// The reference is the carrier's own list of steps: the same to the byte.
#[test]
fn a_signal_by_events_is_that_of_the_steps() {
    let stepped = "steps = [{ at = \"0 s\", es_n0_db = 11.0 }, { at = \"5 s\", es_n0_db = 2.0 }, { at = \"12 s\", es_n0_db = 7.0 }]\n";
    let events = "[[event]]\nat = \"5 s\"\nset = { \"dvb.down.es_n0_db\" = 2.0 }\n\
                  [[event]]\nat = \"12 s\"\nadd = { \"dvb.down.es_n0_db\" = 5.0 }\n";
    let by_steps = overloaded(&format!("{GSE}{stepped}"));
    let by_events = overloaded(&format!("{GSE}es_n0_db = 11.0\n{events}"));
    assert_eq!(fingerprint(&by_steps), fingerprint(&by_events));
    let bits = arrivals(&by_events);
    assert!(
        mean(&bits[1..5]) > 2.0 * mean(&bits[6..12]) && mean(&bits[13..]) > 1.4 * mean(&bits[6..12]),
        "{bits:?}"
    );
}

#[test]
fn modcods_and_rates_of_lines_change() {
    let gse = |events: &str| arrivals(&overloaded(&format!("{GSE}modcod = \"QPSK 1/2\"\n{events}")));
    let modcod = gse("[[event]]\nat = \"10 s\"\nset = { \"dvb.down.modcod\" = \"8PSK 3/4\" }\n");
    let symbols = gse("[[event]]\nat = \"10 s\"\nscale = { \"dvb.down.symbol_rate\" = 2 }\n");
    // Efficiencies of EN 302 307-1, table 13.
    for (bits, gain) in [(modcod, 2.228_124 / 0.988_858), (symbols, 2.0)] {
        let found = mean(&bits[11..]) / mean(&bits[1..10]);
        assert!((found / gain - 1.0).abs() < 0.01, "{found} {gain}");
    }
    let ts = r#"
[link.sky]
between = ["a", "b"]
delay = "100 ms"
queue = { kind = "drop-tail", packets = 20 }
medium = { kind = "dvb", line = "down", pid = "0x100", receive_buffer = 20 }
[dvb.down]
kind = "transport-stream"
rate = "4 Mbit/s"
group = 6
[[event]]
at = "10 s"
set = { "dvb.down.rate" = "1 Mbit/s" }
"#;
    let bits = arrivals(&overloaded(ts));
    let found = mean(&bits[1..10]) / mean(&bits[12..]);
    assert!((found / 4.0 - 1.0).abs() < 0.01, "{found}");
}

#[test]
fn a_frame_plan_changes_with_a_superframe() {
    let dama = |events: &str| {
        let link = "[link.up]\nbetween = [\"a\", \"b\"]\ndelay = \"250 ms\"\n\
                    forward.medium = { kind = \"dama\", carrier = \"shared\", fca = true }\nreturn.rate = \"1 Mbit/s\"\n\
                    forward.queue = { kind = \"drop-tail\", packets = 20 }\n[carrier.shared]\n";
        arrivals(&overloaded(&format!("{link}{events}")))
    };
    let base = dama("");
    let rate = dama("[[event]]\nat = \"10 s\"\nset = { \"carrier.shared.rate\" = \"1056 kbit/s\" }\n");
    let shape = dama(
        "[[event]]\nat = \"10 s\"\nset = { \"carrier.shared.slots\" = 12, \"carrier.shared.multiframes\" = 2 }\n",
    );
    let steady = mean(&base[2..]);
    assert!((steady / 2_112_000.0 - 0.92).abs() < 0.08, "{steady}");
    assert!(rate[..9] == base[..9], "the past is the same");
    assert!((mean(&rate[13..]) / steady - 0.5).abs() < 0.01, "{rate:?}");
    assert!((mean(&shape[13..]) / steady - 1.0).abs() < 0.01, "{shape:?}");
    let refused = |set: &str| {
        let text = overloaded(&format!(
            "[link.up]\nbetween = [\"a\", \"b\"]\ndelay = \"250 ms\"\nreturn.rate = \"1 Mbit/s\"\n\
             forward.medium = {{ kind = \"dama\", carrier = \"shared\", cra = \"2 Mbit/s\" }}\n[carrier.shared]\n\
             [[event]]\nat = \"5 s\"\nset = {{ {set} }}\n"
        ));
        let document = Document::parse("file.toml", text.as_bytes()).expect("TOML");
        checked(&document).err().map(|refusal| refusal.to_string()).unwrap_or_default()
    };
    assert!(refused("\"carrier.shared.rate\" = \"1 Mbit/s\"").contains("room for the constant assignments"));
    assert!(refused("\"carrier.shared.encapsulation\" = \"gse\"").contains("which are the frame plan"));
}

#[test]
fn a_wifi_rate_changes_with_the_next_frame() {
    let wifi = |rate: &str, events: &str| {
        let link = format!(
            "[link.air]\nbetween = [\"a\", \"b\"]\nmedium = {{ kind = \"wifi\", rate = \"{rate}\" }}\n\
             queue = {{ kind = \"drop-tail\", packets = 20 }}\n{events}"
        );
        arrivals(&overloaded(&link))
    };
    let event = "[[event]]\nat = \"10 s\"\nset = { \"link.air.medium.rate\" = \"2 Mbit/s\" }\n";
    let (fast, slow, changed) = (wifi("11 Mbit/s", ""), wifi("2 Mbit/s", ""), wifi("11 Mbit/s", event));
    assert_eq!(fast[..10], changed[..10], "the past is the same");
    assert!((mean(&changed[11..]) / mean(&slow[11..]) - 1.0).abs() < 0.01, "{changed:?}");
    assert!(mean(&fast) > 2.5 * mean(&slow));
}

#[test]
fn flows_turn_off_and_on() {
    let line = "[link.hop]\nbetween = [\"a\", \"b\"]\nrate = \"8 Mbit/s\"\ndelay = \"10 ms\"\nqueue = { kind = \"drop-tail\", packets = 20 }\n";
    let event = "[[event]]\nat = \"5 s\"\nset = { \"flow.load.active\" = false }\nhold = \"5 s\"\n";
    let udp = arrivals(&overloaded(&format!("{line}{event}")));
    assert!(udp[6..10].iter().all(|bits| *bits == 0.0) && udp[4] > 7e6 && udp[11] > 7e6, "{udp:?}");
    let kind = "traffic = { kind = \"udp\", pattern = { kind = \"constant\", interval = \"500 us\" }, payload = \"972 B\" }";
    let text = overloaded(&format!("{line}{event}"));
    let tcp =
        |application: &str| arrivals(&text.replace(kind, &format!("traffic.kind = \"tcp\"\n{application}")));
    let bulk = tcp("");
    assert!(bulk[6..10].iter().all(|bits| *bits == 0.0) && bulk[4] > 7e6 && bulk[11] > 7e6, "{bulk:?}");
    // A rate does not make up for the time off.
    let paced = tcp("application = { kind = \"paced\", rate = \"1 Mbit/s\", write = \"1 kB\" }");
    assert!(paced[6..10].iter().all(|bits| *bits == 0.0), "{paced:?}");
    assert!(paced[11..].iter().all(|bits| (bits - 1e6).abs() < 2e4), "{paced:?}");
    let late =
        overloaded(&format!("{line}[[event]]\nat = \"10 s\"\nset = {{ \"flow.load.active\" = true }}\n"))
            .replace("[flow.load]\n", "[flow.load]\nactive = false\n");
    let late = arrivals(&late);
    assert!(late[..10].iter().all(|bits| *bits == 0.0) && late[11] > 7e6, "{late:?}");
    let voice = text.replace(kind, "traffic.kind = \"ping\"");
    let refusal = refused(&voice);
    assert!(refusal.contains("cannot turn traffic of kind \"ping\" off"), "{refusal}");
}
