//! Losses and ratings are of what was sent in the window: each packet is of the time of its sending, whenever it ends.

use bentpipe_record::LedgerColumn::{self, Delivered, Dropped, Sent};

use super::accounts::{Run, flow};

/// A link of 10 Mbit/s between hosts.
fn link(duration_s: u32, settings: &str, flows: &str) -> String {
    format!(
        "title = \"t\"\nduration = \"{duration_s} s\"\nnode.a = {{}}\nnode.b = {{}}\n\
         [link.l]\nbetween = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\n{settings}\n{flows}"
    )
}

const DIES: &str = "delay = \"50 ms\"\nforward.channel = { kind = \"outages\", outages = [{ at = \"11 s\", lasts = \"40 s\" }] }";

impl Run {
    /// Returns the packets of a sender that were sent in the window.
    fn of_window(&self, sender: &str, column: LedgerColumn) -> f64 {
        let rows = self.ledger.iter().filter(|row| row.sender == sender && row.column == column);
        rows.map(|row| row.packets - row.in_warm_up).sum::<u64>() as f64
    }

    /// Returns the share of packets of a sender's account of the window that was dropped.
    fn share_dropped(&self, sender: &str) -> f64 {
        let [dropped, delivered] = [Dropped, Delivered].map(|column| self.of_window(sender, column));
        dropped / (dropped + delivered)
    }
}

#[test]
fn calls_over_a_link_that_dies_are_bad() {
    let voice = flow("v", "{ kind = \"voice\", codec = \"g711u\", silence_suppression = false }");
    let run = Run::new(&link(40, DIES, &(voice + "count = 5\n")));
    run.check("calls, dead link");
    let loss = run.value("flow.v.voice-loss");
    assert!((loss - run.share_dropped("flow.v.sender")).abs() < 1e-9 && loss > 0.68, "{loss}");
    assert_eq!(run.value("flow.v.good-calls"), 0.0);
    assert_eq!(run.value("flow.v.back.good-calls"), 5.0);
    let [r, mos, worst] = ["r", "mos", "r-min"].map(|name| run.value(&format!("flow.v.{name}")));
    assert!(r < 20.0 && mos < 1.5 && worst < 20.0, "{r} {mos} {worst}");
    // One run of losses in each call, of 29 s in packets of 20 ms.
    let runs = run.value("flow.v.burst-ratio");
    assert!((300.0..600.0).contains(&runs), "{runs}");
    assert_eq!(run.value("flow.v.receiver.loss-runs-11"), 5.0);
    let lost = run.calls.iter().filter(|call| {
        let quality = call.quality.as_ref().expect("voice");
        quality.loss.is_some_and(|loss| loss > 0.68) && quality.mos.is_some_and(|mos| mos < 1.5)
    });
    assert_eq!((run.calls.len(), lost.count()), (10, 5), "the records of the calls have them at one end");
}

#[test]
fn packets_in_flight_at_the_end_of_a_call_are_not_lost() {
    let voice = flow("v", "{ kind = \"voice\", codec = \"g711u\", silence_suppression = false }");
    let run = Run::new(&link(20, "delay = \"5 s\"", &voice));
    run.check("calls, long delay");
    assert!(run.of_window("flow.v.sender", LedgerColumn::Remaining) > 240.0);
    let figures =
        ["voice-loss", "good-ratio", "burst-ratio"].map(|name| run.value(&format!("flow.v.{name}")));
    assert_eq!(figures, [0.0, 0.0, 1.0], "no call of such a delay is good");
    let rated = run.value("flow.v.r");
    let before = Run::new(&link(20, "delay = \"5 s\"", &(voice_of(1) + "[probe]\nwarm_up = \"10 s\"\n")));
    assert_eq!(before.value("flow.v.voice-loss"), 0.0, "{:?}", before.values.get("flow.v.voice-loss"));
    assert!((before.value("flow.v.r") - rated).abs() < 0.1, "{rated}");
}

fn voice_of(calls: u32) -> String {
    flow("v", "{ kind = \"voice\", codec = \"g711u\", silence_suppression = false }")
        + &format!("count = {calls}\n")
}

#[test]
fn calls_that_a_dead_link_never_began_count() {
    let dead = "delay = \"50 ms\"\nforward.channel = { kind = \"packet-errors\", loss = 1.0 }";
    let run = Run::new(&link(20, dead, &voice_of(3)));
    run.check("calls without a packet");
    assert_eq!((run.value("flow.v.voice-loss"), run.value("flow.v.good-calls")), (1.0, 0.0));
    assert_eq!(run.value("flow.v.silent-calls"), 3.0);
    let losses: Vec<Option<f64>> = run.calls.iter().map(|call| call.quality.as_ref()?.loss).collect();
    assert_eq!(losses.iter().filter(|loss| **loss == Some(1.0)).count(), 3, "{losses:?}");
    // The first packets are lost, and the rest arrives.
    let late = DIES.replace("11 s", "0 s").replace("40 s", "8 s");
    let run = Run::new(&link(20, &late, &voice_of(3)));
    run.check("calls without their start");
    let loss = run.value("flow.v.voice-loss");
    assert!((loss - 0.4).abs() < 0.01, "{loss}");
    let of_calls: f64 = run.calls.iter().filter_map(|call| call.quality.as_ref()?.loss).sum();
    assert!((of_calls / 3.0 - loss).abs() < 1e-3, "{of_calls} in all");
}

#[test]
fn copies_over_a_link_that_dies_have_its_losses() {
    let udp = flow(
        "u",
        "{ kind = \"udp\", pattern = { kind = \"constant\", interval = \"10 ms\" }, payload = \"200 B\" }",
    ) + "count = 5\n";
    let run = Run::new(&link(40, DIES, &udp));
    run.check("copies, dead link");
    let loss = run.share_dropped("flow.u.sender");
    assert!((run.value("flow.u.loss") - loss).abs() < 1e-9 && loss > 0.7, "{loss}");
    for name in ["copies-loss-p50", "copies-loss-p95", "copies-loss-max"] {
        let of_copies = run.value(&format!("flow.u.{name}"));
        assert!((of_copies - loss).abs() < 1e-3, "{name} {of_copies}");
    }
    // All of the window is lost.
    let run = Run::new(&link(40, DIES, &(udp + "[probe]\nwarm_up = \"12 s\"\n")));
    assert_eq!(run.value("flow.u.copies-loss-p50"), 1.0);
    assert_eq!(run.value("flow.u.copies-silent"), 5.0);
}

#[test]
fn calls_of_phones_over_a_link_that_dies_are_bad() {
    let sip = "{ kind = \"sip\", interval = \"2 s\", hold = \"60 s\", ring = \"1 s\", calls = 3, media = { codec = \"g711a\" } }";
    let dies = DIES.replace("11 s", "20 s").replace("forward.", "return.");
    let run = Run::new(&link(60, &dies, &flow("s", sip)));
    run.check("phones, dead link");
    let up: Vec<_> = run.calls.iter().filter_map(|call| call.quality.as_ref()).collect();
    assert!(!up.is_empty());
    for quality in up {
        let loss = quality.loss.expect("voice");
        // A call takes a minute in the mean, of which the phone hears up to 20 s.
        assert!(loss > 0.3 && quality.mos.is_some_and(|mos| mos < 1.5), "{quality:?}");
    }
    let heard = run.value("flow.s.sender.voice-loss");
    assert!(heard > 0.4, "{heard}");
    assert!(run.value("flow.s.receiver.voice-loss") < 0.01);
}

#[test]
fn packets_of_the_warm_up_that_come_late_are_not_of_the_window() {
    let late = "delay = \"5 s\"\nforward.channel = { kind = \"jitter\", law = { kind = \"uniform\", max = \"400 ms\" }, keep_order = false }";
    let voice =
        flow("v", "{ kind = \"voice\", codec = \"g711u\", silence_suppression = false, rtcp = \"none\" }")
            + "stop = \"7 s\"\n[probe]\nwarm_up = \"6 s\"\n";
    let run = Run::new(&link(20, late, &voice));
    run.check("late voice");
    let [loss, late] = ["voice-loss", "late"].map(|name| run.value(&format!("flow.v.{name}")));
    // Of delays evenly spread over 400 ms, those of more than 60 ms behind the first are late.
    assert!((0.5..1.0).contains(&loss) && (loss - late).abs() < 1e-9, "{loss} {late}");
    assert_eq!(run.of_window("flow.v.sender", Sent), 50.0);
}

#[test]
fn duplicates_of_packets_of_the_warm_up_are_not_of_the_window() {
    let twice = "delay = \"2 s\"\nforward.channel = [{ kind = \"packet-errors\", loss = 0.05 }, { kind = \"duplication\", probability = 1.0 }]";
    let udp =
        "{ kind = \"udp\", pattern = { kind = \"constant\", interval = \"1 ms\" }, payload = \"200 B\" }";
    for warm_up in ["", "[probe]\nwarm_up = \"4 s\"\n"] {
        let flows = flow("u", udp)
            + "stop = \"5 s\"\n"
            + &voice_of(20)
            + "stop = \"5 s\"\n"
            + &flow("p", "{ kind = \"ping\", interval = \"2 ms\" }")
            + "stop = \"5 s\"\n"
            + warm_up;
        let run = Run::new(&link(10, twice, &flows));
        run.check("duplicates");
        for (name, measure) in [("u", "loss"), ("v", "voice-loss"), ("p", "unanswered")] {
            let lost = run.of_window(&format!("flow.{name}.sender"), Dropped);
            let sent = run.of_window(&format!("flow.{name}.sender"), Sent);
            let loss = run.value(&format!("flow.{name}.{measure}"));
            assert!((loss - lost / sent).abs() < 1e-9, "{name} {warm_up}: {loss} of {lost} of {sent}");
            assert!((0.01..0.1).contains(&loss), "{name} {warm_up}: {loss}");
        }
    }
}

#[test]
fn reports_of_calls_have_an_account_of_their_own() {
    let lossy = "delay = \"20 ms\"\nforward.channel = { kind = \"packet-errors\", loss = 0.5 }";
    let run = Run::new(&link(60, lossy, &voice_of(5)));
    run.check("reports");
    let [sent, delivered] = ["sent", "packets"].map(|name| {
        run.value(&format!("flow.v.{}.{name}", if name == "sent" { "sender" } else { "receiver" }))
    });
    assert_eq!(run.of_window("flow.v.sender", Sent), sent, "{:#?}", run.ledger);
    assert_eq!(run.of_window("flow.v.sender", Delivered), delivered);
    assert_eq!(run.of_window("flow.v.sender.rtcp", Sent), run.value("flow.v.sender.reports-sent"));
    assert_eq!(run.of_window("flow.v.sender.rtcp", Delivered), run.value("flow.v.receiver.reports-received"));
    let loss = run.value("flow.v.voice-loss");
    assert!((loss - run.share_dropped("flow.v.sender")).abs() < 1e-9, "{loss}");
}

#[test]
fn an_answer_is_of_the_window_of_its_request() {
    let dies = DIES.replace("50 ms", "2 s").replace("11 s", "12 s");
    let pings = flow("p", "{ kind = \"ping\", interval = \"100 ms\" }")
        + "stop = \"14 s\"\n[probe]\nwarm_up = \"10 s\"\n";
    let run = Run::new(&link(20, &dies, &pings));
    run.check("pings, dead link");
    // Those of 10 s to 12 s leave the channel after it died.
    assert_eq!(run.value("flow.p.unanswered"), 1.0, "{:#?}", run.ledger);
    assert_eq!(run.of_window("flow.p.receiver", Sent), 0.0);
}

#[test]
fn a_packet_that_is_lost_in_front_of_its_copying_is_lost_once() {
    let members = ["b", "c", "d", "e", "f"];
    let links: String = members
        .iter()
        .map(|name| format!("node.{name} = {{}}\nlink.{name} = {{ between = [\"r\", \"{name}\"], rate = \"10 Mbit/s\", delay = \"5 ms\" }}\n"))
        .collect();
    let text = format!(
        "title = \"t\"\nduration = \"30 s\"\nnode.a = {{}}\nnode.r = {{ kind = \"router\" }}\n{links}\
         group.g = {{ members = [\"b\", \"c\", \"d\", \"e\", \"f\"] }}\n\
         link.up = {{ between = [\"a\", \"r\"], rate = \"10 Mbit/s\", delay = \"5 ms\", forward.channel = {{ kind = \"packet-errors\", loss = 0.05 }} }}\n\
         [flow.f]\nfrom = \"a\"\nto = \"g\"\ntraffic = {{ kind = \"udp\", pattern = {{ kind = \"constant\", interval = \"20 ms\" }}, payload = \"4000 B\" }}\n"
    );
    let run = Run::new(&text);
    run.check("group of five");
    let [sent, dropped, delivered] =
        [Sent, Dropped, Delivered].map(|column| run.of_window("flow.f.sender", column));
    assert!((delivered - 5.0 * (sent - dropped)).abs() <= 5.0, "{delivered} of {sent}, {dropped} dropped");
    assert!((dropped / sent - (1.0 - 0.95_f64.powi(3))).abs() < 0.03, "{dropped} of {sent}");
    assert!((run.value("flow.f.loss") - dropped / sent).abs() < 2e-3, "{}", run.value("flow.f.loss"));
}

#[test]
fn a_rate_that_duplicates_seem_to_have_is_not_sent() {
    let text = "title = \"t\"\nduration = \"30 s\"\nseed = 2\nnode.s = {}\nnode.h = { kind = \"router\" }\nnode.c = {}\n\
        link.up = { between = [\"s\", \"h\"], rate = \"500 kbit/s\", delay = \"1200 ms\", queue = { kind = \"drop-tail\", bytes = \"20 kB\" }, \
        forward.channel = [{ kind = \"duplication\", probability = 0.5 }, { kind = \"packet-errors\", loss = 0.1 }] }\n\
        link.down = { between = [\"h\", \"c\"], rate = \"10 Mbit/s\", delay = \"1 ms\" }\n\
        [flow.f]\nfrom = \"s\"\nto = \"c\"\ntraffic = { kind = \"tfrc\", payload = \"200 B\" }\n";
    let run = Run::new(text);
    run.check("TFRC, duplicates");
    // The line takes 270 packets a second; the sender is held to twice what arrives.
    let sent = run.of_window("flow.f.sender", Sent);
    assert!(sent < 8_000.0, "{sent}");
}

#[test]
fn a_link_has_the_packets_that_its_damaged_units_carried() {
    let run = Run::new(&format!(
        "title = \"t\"\nduration = \"20 s\"\nnode.a = {{}}\nnode.b = {{}}\n\
         dvb.down = {{ kind = \"dvb-s\", symbol_rate = 2_000_000, code_rate = \"3/4\" }}\n\
         [link.sky]\nbetween = [\"a\", \"b\"]\ndelay = \"260 ms\"\nreturn.rate = \"1 Mbit/s\"\n\
         forward.channel = {{ kind = \"bit-errors\", ber = 1e-5 }}\n\
         forward.medium = {{ kind = \"dvb\", line = \"down\", encapsulation = \"ule\" }}\n{}",
        flow(
            "f",
            "{ kind = \"udp\", pattern = { kind = \"constant\", interval = \"10 ms\" }, payload = \"1000 B\" }"
        )
    ));
    run.check("DVB, damaged");
    let lost = run.packets("flow.f.sender", Dropped, ("restoration", ""));
    assert!(lost > 100, "{:#?}", run.ledger);
    assert_eq!(run.value("link.sky.forward.not-restored"), lost as f64);
    assert_eq!(run.value("link.sky.forward.channel-lost"), 0.0);
}

const PLAIN: &str = "{ kind = \"voice\", codec = \"g711u\", speech = { kind = \"continuous\" }, silence_suppression = false, rtcp = \"none\" }";

/// Returns a channel that loses all for a time.
fn hole(at_s: u32, lasts_s: u32) -> String {
    format!(
        "delay = \"50 ms\"\nforward.channel = {{ kind = \"outages\", outages = [{{ at = \"{at_s} s\", lasts = \"{lasts_s} s\" }}] }}"
    )
}

#[test]
fn a_run_of_losses_over_the_end_of_the_warm_up_is_one_of_the_window() {
    let warm_up = |seconds: u32| format!("[probe]\nwarm_up = \"{seconds} s\"\n");
    let figures = |run: &Run| {
        ["burst-ratio", "r", "r-min", "voice-loss"].map(|name| run.value(&format!("flow.v.{name}")))
    };
    let over = Run::new(&link(20, &hole(9, 2), &(flow("v", PLAIN) + &warm_up(10))));
    let within = Run::new(&link(20, &hole(11, 1), &(flow("v", PLAIN) + &warm_up(10))));
    over.check("hole over the end of the warm-up");
    for (of_one, of_other) in figures(&over).into_iter().zip(figures(&within)) {
        assert!((of_one / of_other - 1.0).abs() < 0.05, "{:?} {:?}", figures(&over), figures(&within));
    }
    // 50 packets in a row of 500.
    assert!((figures(&over)[0] / (50.0 * 0.9) - 1.0).abs() < 0.05, "{:?}", figures(&over));
    let of_call = |run: &Run| run.calls.iter().filter_map(|call| call.quality?.r).fold(100.0, f64::min);
    assert!((of_call(&over) - figures(&over)[1]).abs() < 1e-9);
    let long = Run::new(&link(20, &hole(8, 7), &(flow("v", PLAIN) + &warm_up(8))));
    let [bursts, r, ..] = figures(&long);
    assert!(bursts > 100.0 && r < 20.0, "{bursts} {r}");
}

#[test]
fn packets_in_front_of_the_first_that_came_are_late_or_played() {
    let late = "delay = \"50 ms\"\nforward.channel = { kind = \"jitter\", law = { kind = \"uniform\", max = \"900 ms\" }, keep_order = false }";
    for warm_up in ["", "[probe]\nwarm_up = \"2 s\"\n"] {
        let voice = flow("v", PLAIN) + "count = 40\nstop = \"3 s\"\n" + warm_up;
        let run = Run::new(&link(8, late, &voice));
        run.check("late voice");
        let [loss, late] = ["voice-loss", "late"].map(|name| run.value(&format!("flow.v.{name}")));
        assert!((loss - late).abs() < 1e-9 && loss > 0.3, "{loss} {late}");
        let sent = run.of_window("flow.v.sender", Sent);
        let packets: u64 =
            run.calls.iter().step_by(1).filter_map(|call| call.quality).map(|quality| quality.packets).sum();
        let back = run.of_window("flow.v.receiver", Sent);
        assert_eq!(packets as f64, sent + back, "each packet has an outcome");
    }
}

#[test]
fn calls_of_the_warm_up_are_neither_good_nor_silent() {
    let udp =
        "{ kind = \"udp\", pattern = { kind = \"constant\", interval = \"10 ms\" }, payload = \"200 B\" }";
    let flows = flow("v", PLAIN)
        + "count = 3\nstop = \"2 s\"\n"
        + &flow("u", udp)
        + "count = 3\nstop = \"2 s\"\n"
        + &flow("w", PLAIN)
        + "count = 3\nstart = \"2 s\"\nstagger = \"20 s\"\n[probe]\nwarm_up = \"5 s\"\n";
    let run = Run::new(&link(20, "delay = \"50 ms\"", &flows));
    run.check("calls of the warm-up");
    for name in ["flow.v.good-calls", "flow.v.silent-calls", "flow.v.good-ratio", "flow.u.copies-silent"] {
        assert_eq!(run.values.get(name), None, "{name}");
    }
    for name in ["flow.v.calls-left-out", "flow.v.back.calls-left-out", "flow.u.copies-left-out"] {
        assert_eq!(run.value(name), 3.0, "{name}");
    }
    let good = ["flow.w.1.good-calls", "flow.w.1.back.good-calls", "flow.w.2.good-calls"]
        .map(|name| run.value(name));
    assert_eq!(good, [1.0, 1.0, 0.0], "one of three began");
    assert_eq!(run.calls.iter().filter(|call| call.placed.as_secs_f64() >= 20.0).count(), 0);
}

#[test]
fn calls_of_phones_have_their_loss_in_both_directions() {
    let sip = "{ kind = \"sip\", interval = \"3 s\", hold = \"20 s\", ring = \"100 ms\", media = { codec = \"g711a\" } }";
    let lossy =
        |way: &str| format!("delay = \"20 ms\"\n{way}.channel = {{ kind = \"packet-errors\", loss = 0.3 }}");
    for (way, lost, clear) in [("return", "s.back", "s"), ("forward", "s", "s.back")] {
        let run = Run::new(&link(60, &lossy(way), &flow("s", sip)));
        run.check("phones, loss");
        let value = |of: &str, name: &str| run.value(&format!("flow.{of}.{name}"));
        assert!((value(lost, "voice-loss") - 0.3).abs() < 0.03, "{way}: {}", value(lost, "voice-loss"));
        assert_eq!(value(clear, "voice-loss"), 0.0);
        assert!(
            value(clear, "r") > 90.0 && value(lost, "r") < 60.0 && value(lost, "r-min") <= value(lost, "r")
        );
        assert_eq!(run.values.get("flow.s.back.calls"), None, "calls have one direction");
    }
}

#[test]
fn calls_that_are_established_are_of_those_placed_in_the_window() {
    let sip = "{ kind = \"sip\", interval = \"1 s\", hold = \"10 s\", ring = \"4 s\", media = { codec = \"g711a\" } }";
    for warm_up in [5, 15] {
        let flows = flow("s", sip) + &format!("stop = \"20 s\"\n[probe]\nwarm_up = \"{warm_up} s\"\n");
        let run = Run::new(&link(60, "delay = \"50 ms\"", &flows));
        let [placed, established] =
            ["calls", "calls-established"].map(|name| run.value(&format!("flow.s.{name}")));
        assert!(placed > 0.0 && placed == established, "{established} of {placed}");
    }
}

/// Two offices with an exchange each, and a trunk between them over a link with these settings.
pub(super) fn offices(duration_s: u32, trunk: &str, codec: &str, more: &str) -> String {
    let mut text = format!("title = \"t\"\nduration = \"{duration_s} s\"\n");
    for (own, other, extensions, dialled) in [("p", "g", "2XX", "3XX"), ("g", "p", "3XX", "2XX")] {
        text += &format!(
            "node.{own}-phone = {{}}\nnode.{own} = {{ role = \"pabx\" }}\nnode.{own}-router = {{ kind = \"router\" }}\n\
             pabx.{own} = {{ extensions = [\"{extensions}\"], dial = [{{ pattern = \"{dialled}\", trunk = \"{other}\"{codec} }}], trunk_period = \"20 ms\" }}\n\
             link.{own}-lan = {{ between = [\"{own}-phone\", \"{own}-router\"], rate = \"100 Mbit/s\", delay = \"1 ms\" }}\n\
             link.{own}-own = {{ between = [\"{own}\", \"{own}-router\"], rate = \"100 Mbit/s\", delay = \"1 ms\" }}\n"
        );
    }
    text += &format!("[link.sat]\nbetween = [\"p-router\", \"g-router\"]\nrate = \"10 Mbit/s\"\n{trunk}\n");
    text + "[flow.s]\nfrom = \"p-phone\"\nto = \"g-phone\"\n"
        + more
        + "traffic = { kind = \"sip\", interval = \"10 s\", hold = \"200 s\", ring = \"1 s\", calls = 3, \
           media = { codec = \"gsm\", rtcp = \"none\" }, pabx = { at = \"p\", number = \"201\", dial = \"301\" } }\n"
}

#[test]
fn calls_through_exchanges_count_what_a_dead_trunk_loses() {
    let both = |at_s: u32, lasts_s: u32| {
        let hole = hole(at_s, lasts_s);
        let back = hole.lines().last().expect("a channel").replace("forward.", "return.");
        format!("{hole}\n{back}")
    };
    for protocol in ["", ", protocol = \"sip\""] {
        for (lasts_s, warm_up_s) in [(100, 0), (100, 40), (10, 0), (10, 65)] {
            let warm_up = format!("[probe]\nwarm_up = \"{warm_up_s} s\"\n");
            let run = Run::new(&(offices(120, &both(60, lasts_s), protocol, "") + &warm_up));
            run.check("exchanges, dead trunk");
            let calls: Vec<_> = run.calls.iter().filter(|call| call.quality.is_some()).collect();
            assert!(!calls.is_empty());
            for call in calls {
                let quality = call.quality.expect("voice");
                let answered = (call.placed + call.set_up.expect("an answer")).as_secs_f64();
                // A trunk of IAX2 ends its calls after a while without answers.
                let end = call.ended.map_or(120.0, |ended| ended.as_secs_f64());
                let begin = answered.max(f64::from(warm_up_s));
                let expected = (end.min(60.0 + f64::from(lasts_s)) - begin.max(60.0)) / (end - begin);
                let said = (end - begin) / 0.02;
                assert!(
                    (quality.packets as f64 - said).abs() < 60.0,
                    "{} of {said}: {call:?}",
                    quality.packets
                );
                let loss = quality.loss.expect("voice");
                assert!(
                    (loss - expected).abs() < 0.03,
                    "{protocol} {lasts_s}: {loss}, not {expected}: {call:?}"
                );
            }
            if protocol.is_empty() || lasts_s < 60 {
                continue;
            }
            for way in ["s", "s.back"] {
                let [loss, mos] = ["voice-loss", "mos"].map(|name| run.value(&format!("flow.{way}.{name}")));
                assert!(loss > 0.5 && mos < 1.5, "{way}: {loss} {mos}");
            }
        }
    }
}

#[test]
fn packets_on_their_way_between_others_make_no_runs_of_losses() {
    let held =
        "delay = \"5 ms\"\nforward.channel = { kind = \"reordering\", probability = 0.5, delay = \"2.5 s\" }";
    let g729 = "{ kind = \"voice\", codec = \"g729\", silence_suppression = false }";
    for warm_up in [0, 8] {
        let probe = format!("[probe]\nwarm_up = \"{warm_up} s\"\n");
        let run = Run::new(&link(12, held, &(flow("v", g729) + &probe)));
        run.check("voice, reordered");
        let [ratio, loss, r] =
            ["burst-ratio", "voice-loss", "r"].map(|name| run.value(&format!("flow.v.{name}")));
        // A run has a packet at least.
        assert!(ratio / (1.0 - loss) >= 1.0 && loss > 0.2, "{ratio} {loss}");
        assert!((22.0..26.0).contains(&r), "{r}");
    }
}

#[test]
fn calls_and_copies_of_which_all_is_on_its_way_are_left_out() {
    let udp =
        "{ kind = \"udp\", pattern = { kind = \"constant\", interval = \"10 ms\" }, payload = \"200 B\" }";
    let flows = flow("v", PLAIN) + "start = \"18 s\"\n" + &flow("u", udp) + "start = \"18 s\"\ncount = 2\n";
    let run = Run::new(&link(20, "delay = \"5 s\"", &flows));
    run.check("all on its way");
    for name in ["flow.v.silent-calls", "flow.v.good-calls", "flow.u.copies-silent"] {
        assert_eq!(run.values.get(name), None, "{name}");
    }
    assert_eq!(["flow.v.calls-left-out", "flow.u.copies-left-out"].map(|name| run.value(name)), [1.0, 2.0]);
}

#[test]
fn a_call_whose_packets_all_come_late_has_the_worst_rating() {
    let changes = "delay = \"50 ms\"\ndelay_changes = { points = [{ at = \"5 s\", delay = \"150 ms\" }] }";
    let flows = flow("v", "{ kind = \"voice\", codec = \"g711u\", silence_suppression = false }")
        + "count = 4\nstagger = \"2 s\"\n[probe]\nwarm_up = \"6 s\"\n";
    let run = Run::new(&link(20, changes, &flows));
    run.check("late calls");
    assert_eq!(run.value("flow.v.r-min"), 0.0);
}

/// Losses and duplicates, and half of what is left arrives up to 2.5 s later.
fn held_back(faults: [&str; 2]) -> String {
    let [first, second] = faults;
    format!(
        "delay = \"50 ms\"\nforward.channel = [{first}, {second}, {{ kind = \"reordering\", probability = 0.5, delay = \"2.5 s\" }}]"
    )
}

const LOSES: &str = "{ kind = \"packet-errors\", loss = 0.1 }";
const TWICE: &str = "{ kind = \"duplication\", probability = 1.0 }";

#[test]
fn duplicates_on_their_way_are_of_packets_that_arrived_or_may() {
    let udp = flow(
        "u",
        "{ kind = \"udp\", pattern = { kind = \"constant\", interval = \"5 ms\" }, payload = \"200 B\" }",
    ) + "count = 2\n";
    // At most 64 packets of a node are incomplete at once, of 30 s of losses and 2.5 s of what is held back.
    let big = udp
        .replace("\"u\"", "\"f\"")
        .replace("flow.u", "flow.f")
        .replace("200 B", "2000 B")
        .replace("5 ms", "150 ms");
    let pings = flow("p", "{ kind = \"ping\", interval = \"5 ms\" }");
    for (faults, expected) in [([LOSES, TWICE], 0.1), ([TWICE, LOSES], 0.01)] {
        for warm_up in [0, 10] {
            let rest = udp.clone() + &big + &voice_of(3) + &pings;
            let probe = format!("[probe]\nwarm_up = \"{warm_up} s\"\n");
            let run = Run::new(&link(20, &held_back(faults), &(rest + &probe)));
            run.check("duplicates on their way");
            for name in ["u.loss", "u.copies-loss-max", "v.loss", "p.unanswered"] {
                let loss = run.value(&format!("flow.{name}"));
                let error = 5.0 * (expected * (1.0 - expected) / 1000.0_f64).sqrt();
                assert!((loss - expected).abs() < error, "{name} {loss} of {expected}, warm-up {warm_up} s");
            }
            // Two fragments, of which each may come twice.
            let loss = run.value("flow.f.loss");
            let of_two = 1.0 - (1.0 - expected) * (1.0 - expected);
            let packets = f64::from(20 - warm_up) / 0.075;
            let error = 4.0 * (of_two * (1.0 - of_two) / packets).sqrt();
            assert!((loss - of_two).abs() < error, "{loss} of {of_two}, warm-up {warm_up} s");
            let of_copies = run.value("flow.f.copies-loss-p50");
            assert!((of_copies - loss).abs() < error, "{of_copies} of copies, {loss} in all");
        }
    }
}

#[test]
fn delays_of_voice_are_those_of_first_arrivals() {
    let behind = "delay = \"50 ms\"\nforward.channel = [{ kind = \"duplication\", probability = 1.0 }, \
        { kind = \"reordering\", probability = 0.5, delay = \"1 s\" }]";
    let udp = flow(
        "u",
        "{ kind = \"udp\", pattern = { kind = \"constant\", interval = \"20 ms\" }, payload = \"160 B\" }",
    );
    let run = Run::new(&link(60, behind, &(voice_of(1) + &udp)));
    run.check("voice twice");
    // One of four packets has both copies held.
    let [voice, udp] = ["v", "u"].map(|name| run.value(&format!("flow.{name}.delay-mean")));
    assert!((voice - 0.3).abs() < 0.04 && (voice - udp).abs() < 0.05, "{voice} {udp}");
}

#[test]
fn calls_of_iax2_have_a_loss_in_both_directions() {
    let iax = "{ kind = \"iax\", interval = \"5 s\", hold = \"30 s\", ring = \"1 s\", codec = \"g711a\" }";
    let run = Run::new(&link(60, &format!("delay = \"50 ms\"\nforward.channel = {LOSES}"), &flow("i", iax)));
    run.check("calls of IAX2");
    let loss = run.value("flow.i.loss");
    assert!((loss - run.share_dropped("flow.i.sender")).abs() < 1e-9 && loss > 0.05, "{loss}");
    assert_eq!(run.value("flow.i.back.loss"), 0.0);
}

#[test]
fn flows_of_which_nothing_was_sent_are_left_out() {
    let late = "start = \"19.999 s\"\ncount = 3\n";
    let run = Run::new(&link(20, "delay = \"50 ms\"", &(flow("v", PLAIN) + late)));
    for name in ["flow.v.silent-calls", "flow.v.good-calls", "flow.v.r"] {
        assert_eq!(run.values.get(name), None, "{name}");
    }
    assert_eq!(run.value("flow.v.calls-left-out"), 3.0);
}
