//! What nodes and links do to packets on their way: marks, filters, translators, copies for groups. Forecasts know of it.

use bentpipe_lab::budget::{Budget, FlowBudget};

use crate::common::{built, found, scenario};

/// Returns the forecast of each flow, with its goodput in the run.
fn compared(text: &str) -> Vec<(FlowBudget, f64)> {
    let scenario = scenario(text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
    let value = found(&scenario, &mut built(&scenario));
    let flows = Budget::new(&scenario).expect("ways").flows;
    let goodput = |flow: &FlowBudget| value(&format!("flow.{}.goodput", flow.name)).unwrap_or_default();
    flows
        .into_iter()
        .map(|flow| {
            let rate = goodput(&flow);
            (flow, rate)
        })
        .collect()
}

/// Datagrams of 500 B at a constant rate.
fn datagrams(name: &str, to: &str, rate: &str) -> String {
    format!(
        "[flow.{name}]\nfrom = \"a\"\nto = \"{to}\"\ntraffic = {{ kind = \"udp\", payload = \"500 B\", \
         pattern = {{ kind = \"constant-rate\", rate = \"{rate}\" }} }}\n"
    )
}

/// A router that marks, in front of a line whose class of DSCP 46 has a ceiling.
fn marked(rule: &str, flow: &str) -> String {
    format!(
        "title = \"t\"\nduration = \"20 s\"\nnode.a = {{}}\nnode.b = {{}}\n\
         node.r = {{ kind = \"router\", role = {{ kind = \"marker\", rules = [{{ {rule}mark = 46 }}] }} }}\n\
         link.x = {{ between = [\"a\", \"r\"], rate = \"100 Mbit/s\", delay = \"1 ms\" }}\n\
         [link.l]\nbetween = [\"r\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"20 ms\"\n\
         forward.queue = {{ kind = \"classes\", class = [{{ name = \"v\", dscp = [46], ceil = \"1 Mbit/s\" }}, {{ name = \"r\", priority = 1 }}] }}\n{flow}"
    )
}

#[test]
fn a_marked_flow_has_the_ceiling_of_its_new_class() {
    let over = datagrams("f", "b", "3 Mbit/s");
    for rule in ["", "protocol = \"udp\", ", "from = \"x\", ", "to = \"b\", ", "dscp = 0, "] {
        let (flow, had) = compared(&marked(rule, &over)).remove(0);
        let most = flow.ceiling.as_bps() as f64;
        assert!((0.9e6..1e6).contains(&had) && (had / most - 1.0).abs() < 0.02, "{rule}: {had} {most}");
        let notes = flow.warnings.join("\n");
        assert!(notes.contains("carries only"), "{rule}: {notes}");
    }
    for rule in ["protocol = \"tcp\", ", "from = \"l\", ", "to = \"a\", ", "dscp = 1, "] {
        let (flow, had) = compared(&marked(rule, &over)).remove(0);
        let most = flow.ceiling.as_bps() as f64;
        assert!((had / 3e6 - 1.0).abs() < 0.1 && most > 9e6, "{rule}: {had} {most}");
    }
    // An address is not compared before the run: no ceiling is promised, and a note says so.
    let (flow, _) = compared(&marked("to = \"10.0.0.0/8\", ", &over)).remove(0);
    assert!(flow.ceiling.as_bps() > 9_000_000 && flow.warnings.join("\n").contains("whether a marker marks"));
}

#[test]
fn what_a_filter_drops_does_not_arrive() {
    let of = |rules: &str, size: u32| {
        let flow = datagrams("f", "b", "200 kbit/s").replace("500 B", &format!("{size} B"));
        compared(&format!(
            "title = \"t\"\nduration = \"20 s\"\nnode.a = {{}}\nnode.b = {{}}\n\
             dvb.c = {{ kind = \"dvb-s\", symbol_rate = 1_000_000, code_rate = \"1/2\" }}\n[link.s]\nbetween = [\"a\", \"b\"]\ndelay = \"250 ms\"\n\
             medium = {{ kind = \"dvb\", line = \"c\", encapsulation = \"ule\", pid = \"0x101\", filter = [{rules}] }}\n{flow}"
        ))
        .remove(0)
    };
    let long = "{ protocol = \"udp\", min_size = \"500 B\", action = \"drop\" }, { action = \"plain\" }";
    let (dropped, had) = of(long, 1000);
    let notes = dropped.blocked.clone().unwrap_or_default();
    assert!(had == 0.0 && notes.contains("the filter of s forward drops its packets"), "{had} {notes}");
    let (kept, had) = of(long, 100);
    assert!(kept.blocked.is_none() && had > 150e3, "{had}");
    let (unknown, _) = of("{ dst = \"10.0.0.0/8\", action = \"drop\" }", 1000);
    assert!(unknown.warnings.join("\n").contains("is not forecast"), "{:?}", unknown.warnings);
}

#[test]
fn packets_to_a_group_pass_a_translator() {
    let text = format!(
        "title = \"t\"\nduration = \"20 s\"\nnode.h = {{}}\nnode.m = {{}}\nnode.a = {{}}\n\
         node.r = {{ kind = \"router\", role = {{ kind = \"nat\", inside = [\"lan\"] }} }}\n\
         link.lan = {{ between = [\"h\", \"r\"], rate = \"100 Mbit/s\", delay = \"1 ms\" }}\n\
         link.wan = {{ between = [\"r\", \"a\"], rate = \"4 Mbit/s\", delay = \"50 ms\" }}\n\
         link.wm = {{ between = [\"r\", \"m\"], rate = \"4 Mbit/s\", delay = \"50 ms\" }}\n\
         group.g = {{ members = [\"h\", \"m\"] }}\n{}",
        datagrams("f", "g", "300 kbit/s")
    );
    for (flow, had) in compared(&text) {
        assert!((had / 300e3 - 1.0).abs() < 0.1, "{had}");
        assert!(flow.blocked.is_none() && flow.ceiling.as_bps() as f64 > had, "{flow:?}");
    }
}

/// A packet to a group is sent once a link of a shared medium: a line of DVB, a cell, an ATM line. Wi-Fi sends it slowly.
#[test]
fn copies_for_the_members_of_a_group_fill_what_they_share() {
    let dvb = "dvb.f = { kind = \"dvb-s2\", symbol_rate = 1_000_000, es_n0_db = 8.0 }\n[link.s]\nbetween = [\"a\", \"u\"]\ndelay = \"250 ms\"\n\
               forward.medium = { kind = \"dvb\", line = \"f\", encapsulation = \"gse\" }\nreturn.rate = \"1 Mbit/s\"\n";
    let wifi = "[link.s]\nbetween = [\"a\", \"u\"]\nmedium = { kind = \"wifi\", standard = \"b\", rate = \"11 Mbit/s\", bss = \"x\" }\n";
    for (name, medium, members, rate) in
        [("dvb", dvb, 3, "1 Mbit/s"), ("wifi", wifi, 1, "3 Mbit/s"), ("wifi", wifi, 3, "3 Mbit/s")]
    {
        let text = format!(
            "title = \"t\"\nduration = \"20 s\"\nnode.a = {{ kind = \"router\" }}\nnode.u = {{ count = {members} }}\n\
             group.g = {{ members = [\"u\"] }}\n{medium}{}",
            datagrams("f", "g", rate)
        );
        let (flow, had) = compared(&text).remove(0);
        let most = flow.ceiling.as_bps() as f64;
        assert!(had <= 1.02 * most && most < 1.2 * had, "{name}, {members}: {had} for {most}");
        let notes = flow.warnings.join("\n");
        assert!(notes.contains("carries only"), "{name}: {notes}");
    }
}
