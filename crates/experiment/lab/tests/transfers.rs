//! Transfers over TCP against their forecast: completions, slow starts, and what is noted of them.

use bentpipe_lab::budget::{Budget, FlowBudget};

use crate::common::{built, found, scenario};

/// A transfer over a line of a rate and a delay.
fn transfer((rate, delay): (u32, u32), controller: &str, (lasts, more): (u32, &str)) -> String {
    format!(
        "title = \"t\"\nduration = \"{lasts} s\"\nnode.a = {{}}\nnode.b = {{}}\n\
         [link.l]\nbetween = [\"a\", \"b\"]\nrate = \"{rate} Mbit/s\"\ndelay = \"{delay} ms\"\n\
         [flow.f]\nfrom = \"a\"\nto = \"b\"\n{more}traffic = {{ kind = \"tcp\", controller = \"{controller}\" }}\n"
    )
}

/// Returns the forecast of the flow with a figure of the run.
fn both(text: &str, figure: &str) -> (FlowBudget, f64) {
    let scenario = scenario(text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
    let budget = Budget::new(&scenario).expect("ways");
    let value = found(&scenario, &mut built(&scenario))(figure);
    (budget.flows[0].clone(), value.unwrap_or_else(|| panic!("no {figure}\n{text}")))
}

/// The first segment has an ACK of its own, so that the delayed ACK of an odd one opens the window.
#[test]
fn no_transfer_takes_less_than_the_least() {
    let mut problems = Vec::new();
    for controller in ["newreno", "cubic", "vegas", "bbr", "westwood+"] {
        for size in [15, 47, 100, 200, 300, 700] {
            for path in [(10, 10), (10, 50), (10, 270), (50, 270)] {
                let more = format!("application = {{ kind = \"bulk\", size = \"{size} kB\" }}\n");
                let text = transfer(path, controller, (60, &more));
                let (flow, took) = both(&text, "flow.f.completion");
                let least = flow.tcp.and_then(|tcp| tcp.completion).expect("a size").as_secs_f64();
                if took < least {
                    problems.push(format!("{controller}, {size} kB, {path:?}: {took} for at least {least}"));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// An event soon after the end of a transfer below a segment does not count in it.
#[test]
fn what_changes_behind_a_short_transfer_is_left_out() {
    for at in [200, 300, 600, 5000] {
        let text = format!(
            "title = \"short\"\nduration = \"12 s\"\n[node.a]\n[node.r]\nkind = \"router\"\n[node.b]\n\
             [link.k]\nbetween = [\"a\", \"r\"]\nrate = \"100 kbit/s\"\ndelay = \"40 ms\"\n\
             [link.l]\nbetween = [\"r\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n\
             [flow.f]\nfrom = \"a\"\nto = \"b\"\napplication = {{ kind = \"bulk\", size = \"100 B\" }}\n\
             traffic = {{ kind = \"tcp\", controller = \"cubic\" }}\n\
             [[event]]\nat = \"{at} ms\"\nset = {{ \"link.l.forward.rate\" = \"50 kbit/s\" }}\n"
        );
        let (flow, took) = both(&text, "flow.f.completion");
        let tcp = flow.tcp.expect("a transfer");
        let least = tcp.completion.expect("a size").as_secs_f64();
        let most = tcp.with_slow_start.expect("a goodput").as_bps() as f64;
        assert!(took >= least && least > 0.9 * took, "{at} ms: {took} for at least {least}");
        let had = 800.0 / took;
        assert!(had <= 1.01 * most && most < 1.1 * had, "{at} ms: {had} for {most}");
    }
}

/// What has a note gets up to what is forecast, and what has none gets it within a twentieth.
#[test]
fn transfers_that_end_early_get_what_is_forecast_or_less_with_a_reason() {
    let reasons = ["gets up to", "up to what is forecast"];
    let mut problems = Vec::new();
    for controller in ["newreno", "cubic", "vegas", "bbr", "westwood+"] {
        for (path, lasts) in [
            ((50, 20), 3),
            ((50, 20), 20),
            ((50, 100), 5),
            ((10, 20), 3),
            ((10, 100), 2),
            ((10, 270), 8),
            ((2, 270), 5),
            ((10, 50), 20),
        ] {
            let text = transfer(path, controller, (lasts, ""));
            let (flow, had) = both(&text, "flow.f.goodput");
            let tcp = flow.tcp.as_ref().expect("windows");
            let most = tcp.with_slow_start.unwrap_or(flow.ceiling).as_bps() as f64;
            let is_noted = reasons.iter().any(|part| flow.warnings.iter().any(|note| note.contains(part)));
            if had > 1.05 * most || !is_noted && had < 0.95 * most {
                problems.push(format!("{controller}, {path:?}, {lasts} s: {had:.0} for {most:.0}"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Times without reception, and packets that pass others, slow a transfer down by more than they take.
#[test]
fn outages_and_reordering_are_noted_for_transfers() {
    for (channel, part) in [
        (
            "{ kind = \"outages\", every = \"2 s\", outages = [{ at = \"500 ms\", lasts = \"1 s\" }] }",
            "at times nothing comes over l forward",
        ),
        ("{ kind = \"reordering\", probability = 0.3, delay = \"30 ms\" }", "lets packets pass others"),
        (
            "{ kind = \"jitter\", law = { kind = \"uniform\", max = \"30 ms\" }, keep_order = false }",
            "lets packets pass others",
        ),
    ] {
        let text = transfer((10, 20), "cubic", (20, ""));
        let text = text.replace("[flow.f]", &format!("forward.channel = {channel}\n[flow.f]"));
        let (flow, had) = both(&text, "flow.f.goodput");
        let is_noted =
            flow.warnings.iter().any(|note| note.contains(part) && note.contains("up to what is forecast"));
        assert!(is_noted && had < 0.9 * flow.ceiling.as_bps() as f64, "{had}: {:?}", flow.warnings);
    }
}

/// Losses that a small window repeats take long, however short the path is.
#[test]
fn the_window_of_westwood_behind_slow_start_is_noted() {
    let (flow, had) = both(&transfer((50, 50), "westwood+", (10, "")), "flow.f.goodput");
    let is_noted = flow.warnings.iter().any(|note| note.starts_with("Westwood+ takes its window"));
    // The window that the path needs is reached after a second.
    assert!(is_noted && had < 0.6 * flow.ceiling.as_bps() as f64, "{had}: {:?}", flow.warnings);
}
