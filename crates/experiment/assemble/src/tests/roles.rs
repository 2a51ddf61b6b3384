//! Roles of nodes: the marker, and what is refused.

use super::*;

/// Calls next to a download over a link of 1 Mbit/s, behind a marker with this rule.
fn calls(role: &str) -> Built {
    let mut built = built(&format!(
        r#"
title = "calls"
duration = "20 s"
node.office = {{}}
node.edge = {{ kind = "router", {role} }}
node.far = {{}}
[link.lan]
between = ["office", "edge"]
rate = "100 Mbit/s"
[link.satellite]
between = ["edge", "far"]
rate = "1 Mbit/s"
delay = "260 ms"
queue = {{ kind = "priority", bytes = "50 kB" }}
[flow.calls]
from = "office"
to = "far"
count = 5
traffic = {{ kind = "udp", pattern = {{ kind = "constant", interval = "20 ms" }}, payload = "32 B" }}
[flow.upload]
from = "office"
to = "far"
traffic = {{ kind = "tcp", controller = "cubic" }}"#
    ));
    built.network.run_until(at(20));
    built
}

fn longest_delay(built: &mut Built) -> Span {
    let sink: &mut Sink = built.network.element(built.flows[0].receivers[0]).expect("a sink");
    sink.delay_range().expect("some").1
}

/// Propagation, and the transmission of the five calls' datagrams and of one packet that is being sent.
fn bound() -> Span {
    let rate = "1 Mbit/s".parse::<bentpipe_units::Rate>().expect("a rate");
    let lan = Span::from_millis(1);
    Span::from_millis(260) + rate.span_of(Bytes::new(5 * 60 + 1500)) + lan
}

#[test]
fn marked_calls_wait_for_one_packet_at_most_and_others_behind_the_queue() {
    let mut marked =
        calls("role = { kind = \"marker\", rules = [{ from = \"lan\", protocol = \"udp\", mark = 46 }] }");
    let delay = longest_delay(&mut marked);
    assert!(delay <= bound(), "{delay} above {}", bound());
    let mut unmarked = calls("");
    assert!(longest_delay(&mut unmarked) > Span::from_millis(500));
    let others = "role = { kind = \"marker\", rules = [{ from = \"satellite\", mark = 46 }, { protocol = \"udp\", to = \"office\", mark = 46 }, { ports = 1, mark = 46 }] }";
    let mut others = calls(&others.replace("ports = 1", "ports = \"1\""));
    assert!(longest_delay(&mut others) > Span::from_millis(500));
}

#[test]
fn a_marker_that_changes_nothing_leaves_all_delays_as_they_are() {
    let mut idle = calls("role = [{ kind = \"marker\", rules = [{ mark = 0 }] }]");
    assert_eq!(longest_delay(&mut idle), longest_delay(&mut calls("")));
    let path = idle.network.path(idle.roles[0].element);
    assert_eq!((idle.roles.len(), path), (1, "node/edge/marker"));
}

#[test]
fn rules_name_nodes_of_both_versions_and_copies_of_links() {
    let text = "title = \"t\"\nduration = \"1 s\"\nnode.hub = { kind = \"router\", role = { kind = \"marker\", \
        rules = [{ from = \"access\", to = \"server\", mark = 10 }] } }\nnode.home = { count = 3 }\nnode.server = {}\n\
        link.access = { between = [\"home\", \"hub\"], rate = \"1 Mbit/s\" }\n\
        link.core = { between = [\"hub\", \"server\"], rate = \"9 Mbit/s\" }\n";
    let flow = |ip: u8| {
        format!(
            "flow.up{ip} = {{ from = \"home\", to = \"server\", ip = {ip}, traffic = {{ kind = \"udp\", pattern = {{ kind = \"constant\", \
         interval = \"100 ms\" }}, payload = \"32 B\" }} }}\n"
        )
    };
    let mut built = built(&format!("{text}{}{}", flow(4), flow(6)));
    built.network.run_until(at(1));
    let mut counts = Counts::default();
    built.network.observe(built.roles[0].element, &mut counts);
    let arrived: u64 = built
        .flows
        .iter()
        .flat_map(|flow| flow.receivers.clone())
        .map(|sink| {
            let sink: &mut Sink = built.network.element(sink).expect("a sink");
            sink.flows().iter().map(|flow| flow.packets).sum::<u64>()
        })
        .sum();
    assert!(
        arrived > 50 && counts.0 == [("matched", arrived), ("changed", arrived)],
        "{arrived} {:?}",
        counts.0
    );
}

/// Counters by name.
#[derive(Default)]
struct Counts(Vec<(&'static str, u64)>);

impl bentpipe_net::Observer for Counts {
    fn counter(
        &mut self,
        metric: &'static bentpipe_net::metric::Of<bentpipe_net::metric::Counter>,
        total: u64,
    ) {
        self.0.push((metric.name, total));
    }
    fn gauge(&mut self, _: &'static bentpipe_net::metric::Of<bentpipe_net::metric::Gauge>, _: f64) {}
}

fn refusal(node: &str, rest: &str) -> String {
    refused(&format!(
        "title = \"t\"\nduration = \"1 s\"\nnode.a = {{}}\nnode.b = {{ {node} }}\n\
         link.x = {{ between = [\"a\", \"b\"], rate = \"1 Mbit/s\" }}\n{rest}"
    ))
}

#[test]
fn what_is_wrong_with_a_role_is_reported_at_its_place() {
    let marker = |rule: &str| {
        refusal(
            &format!("kind = \"router\", role = {{ kind = \"marker\", rules = [{{ {rule}, mark = 1 }}] }}"),
            "",
        )
    };
    for (said, expected) in [
        (marker("from = \"y\""), "file.toml:4:"),
        (marker("from = \"y\""), "node.b.role.rules.0.from: no link of this node is called \"y\""),
        (marker("to = \"c\""), "node.b.role.rules.0.to: no node is called \"c\""),
        (marker("mark = 2"), "duplicate key"),
        (marker("dscp = 64"), "node.b.role.rules.0.dscp: 64 is out of range: expected from 0 to 63"),
        (marker("port = 1"), "unknown key: did you mean \"ports\"?"),
        (refusal("role = \"marker\"", ""), "node.b.role"),
        (refusal("role = { kind = \"market\" }", ""), "did you mean \"marker\"?"),
        (
            refusal("kind = \"router\", role = { kind = \"marker\", rules = [] }", ""),
            "0 in the list: expected at least 1",
        ),
        (refusal("role = { kind = \"marker\", rules = [{ mark = 1 }] }", ""), "a host forwards no packets"),
        (
            refusal(
                "kind = \"router\", real = true, role = { kind = \"marker\", rules = [{ mark = 1 }] }",
                "",
            ),
            "node.b.role: a real host has programs in place of roles",
        ),
    ] {
        assert!(said.contains(expected), "{said}\nexpected {expected}");
    }
}

/// A router with these roles between a host behind it and a distant one, and a flow of UDP and of TCP between them.
fn two_roles(roles: &str) -> String {
    format!(
        r#"
title = "roles"
duration = "10 s"
node.home = {{}}
node.edge = {{ kind = "router", role = [{roles}] }}
node.far = {{}}
[link.lan]
between = ["home", "edge"]
rate = "10 Mbit/s"
[link.wan]
between = ["edge", "far"]
rate = "2 Mbit/s"
delay = "50 ms"
[flow.voice]
from = "home"
to = "far"
traffic = {{ kind = "udp", pattern = {{ kind = "constant", interval = "20 ms" }}, payload = "100 B" }}
[flow.upload]
from = "home"
to = "far"
traffic = {{ kind = "tcp" }}"#
    )
}

#[test]
fn marked_packets_reach_the_roles_behind_the_marker() {
    let marker = "{ kind = \"marker\", rules = [{ mark = 10 }] }";
    let nat = "{ kind = \"nat\", inside = [\"lan\"] }";
    let counts = |roles: &str, name: &str| {
        let mut built = built(&two_roles(roles));
        built.network.run_until(at(10));
        let delivered: u64 = (0..2)
            .map(|flow| built.flows[flow].receivers[0])
            .map(|receiver| match built.network.element::<Sink>(receiver) {
                Some(sink) => sink.flows().iter().map(|flow| flow.packets).sum(),
                None => 0,
            })
            .sum();
        let role = built.roles.iter().find(|role| role.word == name).expect("a role").element;
        let mut counts = Counts::default();
        built.network.observe(role, &mut counts);
        (delivered, counts.0)
    };
    let of = |counts: &[(&str, u64)], name| counts.iter().find(|(metric, _)| *metric == name).map(|of| of.1);
    let (delivered, marked) = counts(&format!("{marker}, {nat}"), "marker");
    assert!(
        delivered > 300 && of(&marked, "changed").is_some_and(|changed| changed > 1000),
        "{delivered} {marked:?}"
    );
    let (_, translated) = counts(&format!("{marker}, {nat}"), "nat");
    assert!(translated.iter().any(|(_, packets)| *packets > 1000), "{translated:?}");
}

#[test]
fn a_role_behind_one_that_keeps_its_packets_is_refused() {
    let marker = |rule: &str| format!("{{ kind = \"marker\", rules = [{{ {rule} mark = 10 }}] }}");
    let (nat, pep) = ("{ kind = \"nat\", inside = [\"lan\"] }", "{ kind = \"pep\", link = \"wan\" }");
    for roles in [
        format!("{nat}, {}", marker("")),
        format!("{nat}, {pep}"),
        format!("{pep}, {}", marker("protocol = \"tcp\",")),
    ] {
        let said = refused(&two_roles(&roles));
        assert!(said.contains("node.edge.role.1: role ") && said.contains("at two nodes"), "{said}");
    }
    built(&two_roles(&format!("{pep}, {}", marker("protocol = \"udp\","))));
    built(&two_roles(&format!("{}, {pep}", marker(""))));
}

#[test]
fn a_query_is_checked_with_the_tables_of_its_field() {
    let check = |table: &str, query: &str| {
        let text = format!(
            r#"
title = "field"
duration = "60 s"
node.earth = {{ role = {{ kind = "dtn", network = "n" }} }}
node.lander = {{ role = [{{ kind = "dtn", network = "n" }}, {{ kind = "sensor-gateway", field = "f" }}] }}
[dtn.n]
plan = "a range +0 +100 earth lander 1\na contact +0 +100 earth lander 1000\na contact +0 +100 lander earth 1000"
[field.f]
layout = {{ kind = "grid", columns = 2, rows = 2, spacing = 30.0 }}
{table}
[link.hop]
between = ["earth", "lander"]
rate = "1 Mbit/s"
delay = "1 s"
[flow.q]
from = "earth"
to = "lander"
traffic = {{ kind = "query", query = "{query}" }}
"#
        );
        let document = Document::parse("field.toml", text.as_bytes()).expect("TOML");
        let scenario = document.scenario().expect("a scenario");
        Built::new(&scenario, 1, document.access())
            .map(|_| ())
            .map_err(|Problem { key, problem }| format!("{key}: {problem}"))
    };
    let table = "[field.f.table.rooms]\ncolumns = [\"room\"]\nrows = [[1.0, 7.0]]";
    let query = "SELECT node, room FROM sensors JOIN rooms ON node SAMPLE PERIOD 30 s";
    assert_eq!(check(table, query), Ok(()));
    let refused = check("", query).expect_err("no table");
    assert_eq!(refused, "flow.q.traffic.query: column 37: no table is called \"rooms\"");
    let refused = check(table, &query.replace("room ", "floor ")).expect_err("no column");
    assert!(refused.contains("column 14: expected a column") && refused.contains("\"floor\""), "{refused}");
}
