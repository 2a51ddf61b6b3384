//! Forecasts by what each packet costs: fragments, cells, parts of bytes, comfort noise, backoff, and queues behind an outage.

use bentpipe_lab::budget::{Budget, FlowBudget};

use crate::accounts::Run;
use crate::common::{measured, scenario};

fn budget(text: &str) -> Budget {
    let scenario = scenario(text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
    Budget::new(&scenario).expect("ways")
}

fn flow(text: &str) -> FlowBudget {
    budget(text).flows[0].clone()
}

/// Checks that a saturating flow `u` gets its most, up to a part of it.
fn fills(text: &str, least: f64) {
    let (most, had) = (flow(text).ceiling.as_bps() as f64, Run::new(text).value("flow.u.goodput"));
    assert!((least..1.001).contains(&(had / most)), "{had} for {most}\n{text}");
}

/// One link with a source beyond it, measured behind its start.
fn saturated(link: &str, rest: &str, (rate, payload): (&str, u32)) -> String {
    format!(
        "title = \"t\"\nduration = \"40 s\"\nprobe.warm_up = \"10 s\"\nnode.a = {{}}\nnode.b = {{}}\n[link.x]\nbetween = [\"a\", \"b\"]\n{link}\n\
         queue = {{ kind = \"drop-tail\", packets = 100000 }}\n{rest}[flow.u]\nfrom = \"a\"\nto = \"b\"\n\
         traffic = {{ kind = \"udp\", pattern = {{ kind = \"constant-rate\", rate = \"{rate}\" }}, payload = \"{payload} B\" }}\n"
    )
}

/// A short second fragment has cells, a minimum frame and no RTS of its own.
#[test]
fn each_fragment_has_its_own_cost() {
    let line = |framing: &str| {
        format!("rate = \"1 Mbit/s\"\ndelay = \"1 ms\"\nframing = \"{framing}\"\nmtu = \"1500 B\"")
    };
    for framing in ["aal5-llc-snap", "ethernet", "none"] {
        for payload in [1473, 3000, 4440] {
            fills(&saturated(&line(framing), "", ("1100 kbit/s", payload)), 0.99);
        }
    }
    for rts in ["300 B", "900 B", "2000 B"] {
        let wifi = format!("medium = {{ kind = \"wifi\", standard = \"b\", rts = \"{rts}\" }}");
        for payload in [1473, 3000] {
            fills(&saturated(&wifi, "", ("7 Mbit/s", payload)), 0.98);
        }
    }
}

/// A packet's part of a cell is no whole number of bytes.
#[test]
fn costs_of_short_packets_are_not_rounded() {
    for encapsulation in ["ule", "mpe", "gse", "rle"] {
        for payload in [4, 20, 40, 100] {
            let link = "forward.medium = { kind = \"dama\", carrier = \"k\", cra = \"88 kbit/s\" }\nreturn.rate = \"1 Mbit/s\"\ndelay = \"250 ms\"";
            let carrier = format!("[carrier.k]\npreset = \"skyplex\"\nencapsulation = \"{encapsulation}\"\n");
            let text = saturated(link, &carrier, ("120 kbit/s", payload)).replacen("40 s", "130 s", 1);
            fills(&text, 0.98);
        }
    }
}

/// What a queue holds goes on in an outage of the link in front of it.
#[test]
fn queues_behind_an_outage_go_on() {
    let text = |rate: &str, second: &str, lasts: u32| {
        format!(
            "title = \"t\"\nduration = \"30 s\"\nnode.a = {{}}\nnode.r = {{ kind = \"router\" }}\nnode.b = {{}}\n\
             [link.x]\nbetween = [\"a\", \"r\"]\nrate = \"5 Mbit/s\"\ndelay = \"1 ms\"\n\
             forward.channel = {{ kind = \"outages\", outages = [{{ at = \"3 s\", lasts = \"{lasts} ms\" }}], every = \"5 s\" }}\n\
             [link.y]\nbetween = [\"r\", \"b\"]\nrate = \"{second}\"\ndelay = \"1 ms\"\n[flow.u]\nfrom = \"a\"\nto = \"b\"\n\
             traffic = {{ kind = \"udp\", pattern = {{ kind = \"constant-rate\", rate = \"{rate}\" }}, payload = \"1000 B\" }}\n"
        )
    };
    for (rate, second, lasts) in [
        ("1 Mbit/s", "500 kbit/s", 500),
        ("520 kbit/s", "500 kbit/s", 500),
        ("6 Mbit/s", "500 kbit/s", 2000),
        ("6 Mbit/s", "4600 kbit/s", 1000),
        ("300 kbit/s", "500 kbit/s", 1000),
    ] {
        let text = text(rate, second, lasts);
        let (of, had) = (flow(&text), Run::new(&text).value("flow.u.goodput"));
        let [most, fair] = [of.ceiling, of.fair_share].map(|rate| rate.as_bps() as f64);
        assert!(
            had < 1.001 * most && (0.97..1.03).contains(&(had / fair)),
            "{had} for {most}, {fair}\n{text}"
        );
    }
    // A queue that holds little is empty meanwhile.
    let text = text("1 Mbit/s", "500 kbit/s", 2000)
        .replace("[flow.u]", "queue = { kind = \"drop-tail\", packets = 2 }\n[flow.u]");
    fills(&text, 0.97);
}

/// A class passes a burst beyond its ceiling, the default one too.
#[test]
fn no_transfer_through_a_class_is_faster_than_its_least_time() {
    for (burst, size) in
        [("", "5 kB"), ("", "20 kB"), (", cburst = \"30 kB\"", "50 kB"), (", cburst = \"200 kB\"", "300 kB")]
    {
        let text = format!(
            "title = \"t\"\nduration = \"20 s\"\nnode.a = {{}}\nnode.b = {{}}\n[link.x]\nbetween = [\"a\", \"b\"]\nrate = \"5 Mbit/s\"\ndelay = \"20 ms\"\n\
             forward.queue = {{ kind = \"classes\", class = [{{ name = \"r\", ceil = \"1 Mbit/s\"{burst} }}] }}\n[flow.f]\nfrom = \"a\"\nto = \"b\"\n\
             application = {{ kind = \"bulk\", size = \"{size}\" }}\ntraffic = {{ kind = \"tcp\", controller = \"cubic\" }}\n"
        );
        let tcp = flow(&text).tcp.expect("a window");
        let (least, run) = (tcp.completion.expect("a size").as_secs_f64(), Run::new(&text));
        let (took, had) = (run.value("flow.f.completion"), run.value("flow.f.goodput"));
        assert!((least..4.0 * least).contains(&took), "{took} for at least {least}\n{text}");
        assert!(
            tcp.with_slow_start.is_none_or(|most| had < 1.001 * most.as_bps() as f64),
            "{had}: {tcp:?}\n{text}"
        );
    }
}

/// Voice has packets behind each spurt, and noise in pauses.
#[test]
fn hangover_and_comfort_noise_are_in_rates_of_voice() {
    for voice in [
        "codec = \"g711a\", speech = \"on-off\"",
        "codec = \"g711a\", speech = \"on-off\", hangover = \"200 ms\"",
        "codec = \"g729\", hangover = \"500 ms\"",
        "codec = \"amr\"",
        "codec = \"g711a\", comfort_noise = \"100 ms\"",
        "codec = \"amr-wb\", hangover = \"100 ms\", comfort_noise = \"60 ms\"",
    ] {
        let text = format!(
            "title = \"t\"\nduration = \"400 s\"\nnode.a = {{}}\nnode.b = {{}}\n\
             link.x = {{ between = [\"a\", \"b\"], rate = \"50 Mbit/s\", delay = \"5 ms\" }}\n\
             [flow.v]\nfrom = \"a\"\nto = \"b\"\ncount = 40\ntraffic = {{ kind = \"voice\", rtcp = \"none\", {voice} }}\n"
        );
        let (all, run) = (budget(&text), Run::new(&text));
        let offered = all.flows[0].offered.expect("a rate").as_bps() as f64;
        let on_line = all.links[0].voice.as_ref().expect("voice").rate.as_bps() as f64;
        let is_near = |one: f64, other: f64| (one / other - 1.0).abs() < 0.02;
        let [had, carried] = [run.value("flow.v.goodput") / 40.0, run.value("link.x.forward.rate")];
        assert!(
            is_near(had, offered) && is_near(carried, on_line),
            "{had} for {offered}, {carried} for {on_line}: {voice}"
        );
    }
    let continuous = "title = \"t\"\nduration = \"30 s\"\nnode.a = {}\nnode.b = {}\nlink.x = { between = [\"a\", \"b\"], rate = \"1 Mbit/s\" }\n\
        [flow.v]\nfrom = \"a\"\nto = \"b\"\ntraffic = { kind = \"voice\", codec = \"g711a\", speech = \"continuous\" }\n";
    assert!(!budget(continuous).to_string().contains("at random"), "{}", budget(continuous));
}

/// A backoff may have no slot.
#[test]
fn no_transfer_over_wifi_is_faster_than_its_least_time() {
    for (standard, tcp, size) in [
        ("g", "controller = \"hybla\", quick_acks = true", "14480 B"),
        ("b", "controller = \"hybla\", opened_by = \"receiver\"", "1460 B"),
        ("b", "controller = \"cubic\"", "60 kB"),
        ("g", "controller = \"newreno\"", "3 kB"),
    ] {
        let text = format!(
            "title = \"t\"\nduration = \"30 s\"\nnode.a = {{}}\nnode.r = {{ kind = \"router\" }}\nnode.s = {{ kind = \"router\" }}\nnode.b = {{}}\n\
             link.x = {{ between = [\"a\", \"r\"], rate = \"100 Mbit/s\", delay = \"1 ms\" }}\n\
             link.y = {{ between = [\"s\", \"b\"], rate = \"50 Mbit/s\", delay = \"2 ms\" }}\n\
             link.m = {{ between = [\"r\", \"s\"], medium = {{ kind = \"wifi\", standard = \"{standard}\" }} }}\n\
             [flow.p]\nfrom = \"a\"\nto = \"b\"\napplication = {{ kind = \"bulk\", size = \"{size}\" }}\ntraffic = {{ kind = \"tcp\", {tcp} }}\n"
        );
        let of = scenario(&text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
        let least = flow(&text).tcp.and_then(|tcp| tcp.completion).expect("a size").as_secs_f64();
        let took = |seed: u64| {
            let access = bentpipe_scenario::Access::default();
            let mut built = bentpipe_assemble::Built::new(&of, seed, &access).expect("possible");
            measured(&of, &mut built)("flow.p.completion")
        };
        let shortest = (1..=40).map(took).fold(f64::INFINITY, f64::min);
        assert!((least..1.6 * least).contains(&shortest), "{shortest} for at least {least}\n{text}");
    }
}
