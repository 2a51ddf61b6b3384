//! Keys that refusals of traffic name.

use super::{geo, refused};

/// A refusal of a value in a table of its own names the key there, as `--set` takes it.
#[test]
fn a_refused_pattern_is_named_with_its_table() {
    for (pattern, key) in [
        ("kind = \"constant\", interval = \"0 s\"", "interval"),
        ("kind = \"constant-rate\", rate = \"0 bit/s\"", "rate"),
        ("kind = \"poisson\", mean_interval = \"0 s\"", "mean_interval"),
        ("kind = \"on-off\", interval = \"0 s\", mean_on = \"1 s\", mean_off = \"1 s\"", "interval"),
        ("kind = \"on-off\", interval = \"1 s\", mean_on = \"0 s\", mean_off = \"0 s\"", "mean_off"),
        // Copies in step.
        ("kind = \"constant\", interval = \"100 ns\"", "interval"),
    ] {
        let flow = "[flow.f]\nfrom = \"client\"\nto = \"server\"\ncount = 20\n";
        let traffic =
            format!("traffic = {{ kind = \"udp\", payload = \"100 B\", pattern = {{ {pattern} }} }}");
        let why = refused(&geo(&format!("{flow}{traffic}")));
        assert!(why.contains(&format!("flow.f.traffic.pattern.{key}: expected")), "{why}");
    }
}
