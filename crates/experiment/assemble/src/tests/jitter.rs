//! Jitter of a table as netem's, from a file and in the scenario.

use bentpipe_transport::app::Sink;
use bentpipe_units::Span;

use super::{at, built, refused};

fn text(channel: &str) -> String {
    format!(
        r#"
title = "t"
duration = "100 s"
node.a = {{}}
node.b = {{}}
[link.l]
between = ["a", "b"]
rate = "1 Mbit/s"
delay = "0 s"
channel = {{ kind = "jitter-table", mean = "20 ms", deviation = "10 ms", {channel} }}
[flow.f]
from = "a"
to = "b"
traffic = {{ kind = "udp", pattern = {{ kind = "constant", interval = "100 ms" }}, payload = "72 B" }}
"#
    )
}

#[test]
fn a_table_delays_the_same_from_a_file_and_from_the_scenario() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("two.dist");
    std::fs::write(&file, "# two delays\n-8192 8192\n").expect("written");
    let file = format!("file = {:?}", file.display().to_string());
    let means = [&*file, "values = [-8192, 8192]"].map(|channel| {
        let mut built = built(&text(channel));
        built.network.run_until(at(100));
        let sink: &mut Sink = built.network.element(built.flows[0].receivers[0]).expect("a sink");
        sink.mean_delay().expect("packets")
    });
    assert_eq!(means[0], means[1]);
    // 100 bytes at 1 Mbit/s, and 10 or 30 ms with even chances: a thousand draws have a deviation of 0.32 ms in the mean.
    let off = means[0].as_secs_f64() - Span::from_micros(20_800).as_secs_f64();
    assert!(off.abs() < 1.6e-3, "{off}");
}

#[test]
fn a_table_that_cannot_be_read_is_refused_with_its_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("wrong.dist");
    std::fs::write(&file, "1\n2 x\n").expect("written");
    let key = |path: &std::path::Path| format!("file = {:?}", path.display().to_string());
    for (channel, wanted) in [
        (key(&folder.path().join("none.dist")), "link.l.channel.file: "),
        (key(&file), "wrong.dist: line 2: expected a number from -32768 to 32767, got \"x\""),
        (format!("{}, values = [1]", key(&file)), "link.l.channel."),
        ("values = []".to_owned(), "link.l.channel.values: "),
    ] {
        let say = refused(&text(&channel));
        assert!(say.contains(wanted), "{say}");
    }
}
