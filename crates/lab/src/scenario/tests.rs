use super::*;

const GOOD: &str = r#"
title = "One flow over a GEO link"
duration = "20 s"

[node.client]
[node.gateway]
kind = "router"
[node.server]

[link.access]
between = ["client", "gateway"]
rate = "1 Gbit/s"
delay = "1 ms"

[link.satellite]
between = ["gateway", "server"]
rate = "10 Mbit/s"
delay = "270 ms"
queue = { kind = "drop-tail", bytes = "500 kB" }

[flow.bulk]
from = "client"
to = "server"
tcp = { controller = "cubic", receive_buffer = "1 MB" }
"#;

fn scenario(text: &str) -> Result<Scenario, Refusal> {
    Document::parse("file.toml", text.as_bytes())?.scenario()
}

#[test]
fn a_good_file_is_read() {
    let scenario = scenario(GOOD).unwrap_or_else(|refusal| panic!("{refusal}"));
    assert_eq!(scenario.link["satellite"].between, ["gateway", "server"]);
    assert_eq!(scenario.node["gateway"].kind, NodeKind::Router);
}

/// What is said about `GOOD` with `from` replaced by `to`.
fn said(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    scenario(&GOOD.replace(from, to)).map(|_| String::new()).unwrap_or_else(|refusal| refusal.to_string())
}

#[test]
fn a_missing_unit_is_shown_in_its_place() {
    let expected = r#"file.toml:18:9: link.satellite.delay: a whole number without a unit: expected a text with number and unit such as "270 ms"
   |
18 | delay = 270
   |         ^^^"#;
    assert_eq!(said("\"270 ms\"", "270"), expected);
}

#[test]
fn a_word_stands_for_a_table_that_needs_no_more() {
    let short =
        scenario(&GOOD.replace("rate = \"10 Mbit/s\"", "rate = \"10 Mbit/s\"\nframing = \"ethernet\""))
            .unwrap();
    assert_eq!(short.link["satellite"].framing, Framing::Ethernet);
    let wrong = said("rate = \"10 Mbit/s\"", "rate = \"10 Mbit/s\"\nframing = \"fixed\"");
    assert!(wrong.contains("unknown \"fixed\""), "{wrong}");
}
