//! Loss ratios of flows that die, or from which nothing arrives.

use std::ops::ControlFlow;

use bentpipe_assemble::{Built, checked};
use bentpipe_lab::measure;
use bentpipe_record::{LedgerRow, Measure, Recorder};
use bentpipe_testkit::Folder;
use bentpipe_units::Span;

/// Calls over a path of 250 ms and a kind of traffic with its losses.
fn text(traffic: &str, channel: &str, count: u32) -> String {
    format!(
        "title = \"t\"\nduration = \"20 s\"\nnode.a = {{}}\nnode.b = {{}}\n\
         [link.l]\nbetween = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"250 ms\"\nforward.channel = {channel}\n\
         [flow.call]\nfrom = \"a\"\nto = \"b\"\ncount = {count}\nstart = \"2 s\"\ntraffic = {traffic}\n"
    )
}

const RTP: &str = "{ kind = \"udp\", pattern = { kind = \"constant\", interval = \"20 ms\" }, payload = \"32 B\", header = \"rtp\" }";
const VOICE: &str = "{ kind = \"voice\", codec = \"g711a\", silence_suppression = false }";
/// Half of the trace is lost: from 10 s on.
const DIES: &str = "{ kind = \"trace\", file = \"dies.trace\", step = \"10 s\" }";
const SILENT: &str = "{ kind = \"packet-errors\", loss = 1.0 }";

fn measures(text: &str, warm_up: Span) -> Vec<Measure> {
    let folder = Folder::new();
    folder.write("dies.trace", "01");
    let document = bentpipe_paths::document(&folder.write("losses.toml", text)).expect("TOML");
    let scenario = checked(&document).unwrap_or_else(|refusal| panic!("{refusal}"));
    let mut built = Built::new(&scenario, 1, &bentpipe_paths::any_file(folder.path()))
        .unwrap_or_else(|problem| panic!("{problem}"));
    let recorder = Recorder {
        elements: built.network.ids().collect(),
        interval: Span::from_millis(100),
        warm_up,
        duration: scenario.duration,
    };
    let recording = recorder.run(&mut built.network, |_| ControlFlow::Continue(())).expect("no stop");
    let ledger = LedgerRow::of(&built.network.close());
    measure::measures(&scenario, 1, &recording, &ledger)
}

/// Returns the loss ratio of the flow, which is less than `tolerance` from `expected`.
fn assert_loss(text: &str, warm_up: Span, measure: &str, (expected, tolerance): (f64, f64)) {
    let measures = measures(text, warm_up);
    let found = measures.iter().find(|found| found.name == measure).map(|found| found.value);
    let found = found.unwrap_or_else(|| panic!("no {measure} of {text}"));
    assert!((found - expected).abs() <= tolerance, "{measure} is {found}, not {expected}: {text}");
}

#[test]
fn a_flow_from_which_nothing_arrives_loses_all() {
    for traffic in [RTP, VOICE] {
        let text = text(traffic, SILENT, 3);
        assert_loss(&text, Span::ZERO, "flow.call.loss", (1.0, 0.0));
        assert_loss(&text, Span::from_secs(5), "flow.call.loss", (1.0, 0.0));
    }
    assert_loss(&text(VOICE, SILENT, 3), Span::ZERO, "flow.call.voice-loss", (1.0, 0.0));
}

#[test]
fn a_flow_that_dies_loses_the_rest() {
    // It sends from 2 s on. What it sent in the last 250 ms is on the line; the channel is behind that.
    let lost = (19.75 - 9.75) / (19.75 - 2.0);
    for traffic in [RTP, VOICE] {
        let text = text(traffic, DIES, 3);
        assert_loss(&text, Span::ZERO, "flow.call.loss", (lost, 0.002));
        let after = (19.75 - 9.75) / (19.75 - 5.0);
        assert_loss(&text, Span::from_secs(5), "flow.call.loss", (after, 0.002));
    }
    assert_loss(&text(VOICE, DIES, 3), Span::ZERO, "flow.call.voice-loss", (lost, 0.002));
}

#[test]
fn packets_in_flight_are_not_lost() {
    let clean = "{ kind = \"packet-errors\", loss = 0.0 }";
    for traffic in [RTP, VOICE] {
        assert_loss(&text(traffic, clean, 3), Span::ZERO, "flow.call.loss", (0.0, 0.0));
    }
    // Nothing can have arrived: all is in flight.
    let far = text(RTP, clean, 1).replace("250 ms", "18 s").replace("start = \"2 s\"", "start = \"3 s\"");
    assert!(measures(&far, Span::ZERO).iter().all(|measure| measure.name != "flow.call.loss"));
}
