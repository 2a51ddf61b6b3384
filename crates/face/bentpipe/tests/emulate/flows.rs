//! Flows between real hosts, for which iperf3, ping, `bentpipe rtp` and `bentpipe call` stand.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use bentpipe_testkit::{Folder, Watch, able_live, said};
use bentpipe_voice::{Codec, emodel};
use serde_json::Value;

use super::rig::bentpipe;

const SCENARIO: &str = r#"
title = "Flows"
duration = "6 s"

[node.near]
[node.far]

[link.hop]
between = ["near", "far"]
rate = "5 Mbit/s"
delay = "50 ms"
queue = { kind = "drop-tail", bytes = "100 kB" }

[flow.download]
from = "near"
to = "far"
traffic = { kind = "tcp", controller = "newreno" }

[flow.speech]
from = "far"
to = "near"
ip = 6
count = 2
traffic = { kind = "udp", pattern = { kind = "constant", interval = "20 ms" }, payload = "172 B" }

[flow.echo]
from = "far"
to = "near"
traffic = { kind = "ping", interval = "200 ms" }

[flow.line]
from = "far"
to = "near"
count = 3
traffic = { kind = "udp", pattern = { kind = "constant", interval = "20 ms" }, payload = "16 B", header = "rtp", refresh = { payload = "52 B", every = 30 } }

[flow.ring]
from = "far"
to = "near"
traffic = { kind = "sip", interval = "1 ms", hold = "10 h", ring = "0 s", calls = 1, media = { codec = "g729", lines = 1 } }

[flow.call]
from = "near"
to = "far"
traffic = { kind = "voice", codec = "g729" }
"#;

fn measures(out: &Path) -> HashMap<String, f64> {
    let folder = std::fs::read_dir(out).expect("there").flatten().next().expect("results").path();
    let bytes = std::fs::read(folder.join("summary.json")).expect("a summary");
    let summary: Value = serde_json::from_slice(&bytes).expect("JSON");
    let all = summary["points"][0]["measures"].as_object().expect("measures");
    all.iter().map(|(name, one)| (name.clone(), one["mean"].as_f64().expect("a number"))).collect()
}

#[test]
fn the_kernel_carries_flows_with_the_figures_of_the_simulation() {
    let Some(_turn) = able_live(&["iperf3", "ping"]) else { return };
    let folder = Folder::new();
    let file = folder.write("flows.toml", SCENARIO);
    let (simulated, emulated) = (folder.file("simulated"), folder.file("emulated"));
    let run =
        bentpipe().arg("run").arg(&file).arg("--quiet").arg("--out").arg(&simulated).output().expect("runs");
    said(&run, 0);
    let mut command = bentpipe();
    command.arg("emulate").arg(&file).args(["--real-flows", "--quiet", "--out"]).arg(&emulated);
    let watch = Watch::start();
    let text = said(&command.output().expect("runs"), 0);
    let machine = watch.end();
    assert!(
        text.contains("flow \"call\" is left out: no program stands for this traffic; calls of"),
        "{text}"
    );
    let (model, kernel) = (measures(&simulated), measures(&emulated));
    let alike = |name: &str, within: f64| {
        let (expected, found) = (model[name], kernel[name]);
        assert!((found - expected).abs() <= within * expected, "{name}: {found} for {expected}");
    };
    // The kernel's own start differs from the model's, which six seconds show.
    alike("flow.download.goodput", 0.15);
    // Of both copies, as in the simulation.
    alike("flow.speech.goodput", 0.02);
    assert_eq!(kernel["flow.speech.loss"], 0.0);
    // Longer packets in place of some are in it.
    alike("flow.line.goodput", 0.02);
    assert_eq!((kernel["flow.line.loss"], kernel["flow.line.copies-silent"]), (0.0, 0.0));
    assert!((0.05..0.1).contains(&kernel["flow.line.delay-p50"]), "{kernel:?}");
    // Voice from mouth to ear, rated as in the simulation.
    assert_eq!(kernel["flow.ring.calls-established"], 1.0);
    alike("flow.ring.mouth-to-ear", 0.1);
    // A pause of the machine makes a speaker's packets, one each 20 ms, late at playout, and R falls by what their loss costs.
    let late = kernel.get("flow.ring.voice-loss").copied().unwrap_or_default();
    assert!(machine.worst() >= Duration::from_millis(10) || late == 0.0, "{late}; {machine:?}");
    let rated = Codec::G729.format(None).expect("a rate").impairment().expect("both factors");
    let most = rated.effective(100.0 * late, f64::INFINITY) - rated.ie;
    let (best, r, mos) = (model["flow.ring.r"], kernel["flow.ring.r"], kernel["flow.ring.mos"]);
    assert!((0.9 * best - most..=1.1 * best).contains(&r), "{r} for {best} less {most}; {machine:?}");
    assert!((mos - emodel::mos(r)).abs() < 1e-6, "{mos} for {r}");
    // The first request finds the queue empty.
    assert!((0.1..0.13).contains(&kernel["flow.echo.rtt-min"]), "{kernel:?}");
    assert_eq!(kernel["flow.echo.unanswered"], 0.0);
    let output = std::fs::read_dir(&emulated).expect("there").flatten().next().expect("results").path();
    let mut names: Vec<String> = std::fs::read_dir(output.join("programs"))
        .expect("a folder")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let expected = [
        "download.json",
        "download.server.txt",
        "echo.txt",
        "line.json",
        "line.log.txt",
        "line.received.json",
        "line.server.txt",
        "ring.json",
        "ring.log.txt",
        "ring.received.json",
        "ring.server.txt",
        "speech.json",
        "speech.server.txt",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_controller_that_the_kernel_lacks_is_refused() {
    let Some(_turn) = able_live(&["iperf3", "ping"]) else { return };
    let folder = Folder::new();
    let controller = "{ name = \"fixed\", rate = \"1 Mbit/s\" }";
    let file = folder.write("flows.toml", SCENARIO.replace("\"newreno\"", controller));
    let mut command = bentpipe();
    command.arg("emulate").arg(&file).args(["--real-flows", "--quiet", "--out"]).arg(folder.path());
    let text = said(&command.output().expect("runs"), 2);
    assert!(
        text.contains("flow.download.traffic.controller: the kernel has no fixed: expected one of"),
        "{text}"
    );
    let many =
        folder.write("many.toml", SCENARIO.replace("from = \"near\"", "count = 10000\nfrom = \"near\""));
    let mut command = bentpipe();
    command.arg("emulate").arg(&many).args(["--real-flows", "--quiet", "--out"]).arg(folder.path());
    assert!(
        said(&command.output().expect("runs"), 2)
            .contains("10004 flows between real hosts: expected at most 64")
    );
    let mut both = bentpipe();
    both.arg("emulate").arg(&file).args(["--real-flows", "--", "true"]);
    assert!(said(&both.output().expect("runs"), 2).contains("cannot be used with"));
}

const BUNDLES: &str = r#"
title = "Bundles"
duration = "4 s"

[node.sender]
real = true
role = { kind = "dtn", network = "deep" }
[node.agent]
kind = "router"
role = { kind = "dtn", network = "deep" }
[node.receiver]
real = true
role = { kind = "dtn", network = "deep" }

[dtn.deep]
layer = "LAYER"
plan = """
a range +0 +1000 sender agent 0.02
a range +0 +1000 agent receiver 0.05
a contact +0 +1000 sender agent 200000
a contact +0 +1000 agent sender 200000
a contact +0 +1000 agent receiver 200000
a contact +0 +1000 receiver agent 200000
"""

[link.near]
between = ["sender", "agent"]
rate = "5 Mbit/s"
delay = "20 ms"

[link.far]
between = ["agent", "receiver"]
rate = "5 Mbit/s"
delay = "50 ms"
forward.channel = { kind = "packet-errors", loss = 0.02 }

[flow.science]
from = "sender"
to = "receiver"
traffic = { kind = "bundles", payload = "5 kB", interval = "100 ms" }
"#;

#[test]
fn a_layer_that_no_real_node_has_is_refused_at_its_line() {
    let Some(_turn) = able_live(&["ip"]) else { return };
    let folder = Folder::new();
    let file = folder.write("bundles.toml", BUNDLES.replace("LAYER", "dccp"));
    let mut command = bentpipe();
    command.arg("emulate").arg(&file).args(["--real-flows", "--quiet", "--out"]).arg(folder.file("out"));
    let text = said(&command.output().expect("runs"), 2);
    assert!(
        text.contains("bundles.toml:16:") && text.contains("dtn.deep.layer: a real node has no DCCP"),
        "{text}"
    );
}

/// Real nodes of bundles at the ends, and a simulated one between them that sends again what its link loses.
#[test]
fn bundles_of_real_nodes_pass_a_simulated_one() {
    let Some(_turn) = able_live(&["ip"]) else { return };
    for layer in ["ltp", "tcpcl"] {
        let folder = Folder::new();
        let file = folder.write("bundles.toml", BUNDLES.replace("LAYER", layer));
        let mut command = bentpipe();
        command.arg("emulate").arg(&file).args(["--real-flows", "--quiet", "--out"]).arg(folder.file("out"));
        let text = said(&command.output().expect("runs"), 0);
        assert!(text.contains("--real-flows starts: hosts \"sender\", \"receiver\""), "{text}");
        let found = measures(&folder.file("out"));
        assert_eq!(found["flow.science.loss"], 0.0, "{layer}: {found:?}");
        // 40 bundles in 4 s, and the report of the last one a round trip later.
        assert!((3e5..4.1e5).contains(&found["flow.science.goodput"]), "{layer}: {found:?}");
        assert!((0.14..0.4).contains(&found["flow.science.rtt-p50"]), "{layer}: {found:?}");
        let results = std::fs::read_dir(folder.file("out")).expect("there").flatten().next().expect("one");
        let programs = results.path().join("programs");
        assert!(programs.join("node-sender/node.toml").is_file());
        assert!(!programs.join("node-sender/store").exists(), "the store is removed");
    }
}

/// A simulated node's reports last at a real one: both count from the same day.
#[test]
fn reports_of_a_simulated_node_reach_a_real_one() {
    let Some(_turn) = able_live(&["ip", "sh"]) else { return };
    let folder = Folder::new();
    let text = BUNDLES.replace("LAYER", "udp");
    let (network, _) = text.split_once("[node.receiver]").expect("a node");
    let network = network.replacen("role = { kind = \"dtn\", network = \"deep\" }\n", "", 1);
    let file = folder.write(
        "report.toml",
        format!(
            "{network}[dtn.deep]\nplan = \"\"\"\na range +0 +1000 sender agent 0.02\na contact +0 +1000 sender agent 200000\n\
             a contact +0 +1000 agent sender 200000\n\"\"\"\n[link.near]\nbetween = [\"sender\", \"agent\"]\n\
             rate = \"5 Mbit/s\"\ndelay = \"20 ms\"\n"
        ),
    );
    let node = "eid = \"ipn:1.0\"\nstore = \"store\"\nsync = false\n[[listen]]\nlayer = \"tcpcl\"\nat = \"127.0.0.1:4556\"\n\
                [[listen]]\nlayer = \"udp\"\nat = \"10.0.0.1:4556\"\n[[neighbour]]\nnode = 2\nlayer = \"udp\"\n\
                at = \"10.0.0.2:4556\"\nrate = \"1 Mbit/s\"\n[routes]\ndefault = 2\n";
    let node = folder.write("node.toml", node);
    let program = env!("CARGO_BIN_EXE_bentpipe");
    let script = format!(
        "{program} dtn node {} & for n in $(seq 100); do {program} dtn ping 127.0.0.1:4556 --from ipn:1.50 ipn:1.7 --count 1 -q && break; \
         sleep 0.05; done; {program} dtn trace 127.0.0.1:4556 --from ipn:1.70 ipn:2.9 --lifetime '9 s' --wait '9 s'; found=$?; \
         kill $!; wait; exit $found",
        node.display()
    );
    let mut command = bentpipe();
    command.arg("emulate").arg(&file).args(["--quiet", "--out"]).arg(folder.file("out"));
    let text = said(&command.args(["--", "sh", "-c", &script]).output().expect("runs"), 0);
    assert!(text.contains("ipn:2.0 received") && text.contains("ipn:2.0 delivered"), "{text}");
}
