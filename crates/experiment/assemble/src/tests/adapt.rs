//! Codecs that lower their rate in a call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use super::conference::figures;
use super::*;

/// Ten calls of AMR over a line that carries them at 12.2 kbit/s, until data come that leave three quarters of it.
const LINE: &str = r#"
title = "adaptation"
duration = "240 s"
node.a = {}
node.b = {}
link.line = { between = ["a", "b"], rate = "320 kbit/s", delay = "250 ms", queue = { kind = "drop-tail", bytes = "12 kB" } }
flow.calls = { from = "a", to = "b", count = 10, traffic = { kind = "voice", codec = "amr", silence_suppression = false, rtcp = "reports"ADAPT } }
flow.data = { from = "a", to = "b", start = "20 s", stop = "120 s", traffic = { kind = "udp", pattern = { kind = "constant", interval = "50 ms" }, payload = "472 B" } }
"#;

/// Counters and gauges by their names.
type Values = BTreeMap<&'static str, f64>;

/// Figures of sender and receiver at some times, and the lengths of RTP payloads towards the receiver.
fn run(adapt: &str, times: &[u64]) -> (Vec<[Values; 2]>, BTreeSet<usize>) {
    let mut built = built(&LINE.replace("ADAPT", adapt));
    let lens: Arc<Mutex<BTreeSet<usize>>> = Arc::default();
    let side = built.sides.iter().find(|side| side.name == "line").expect("a line").clone();
    let (seen, (element, port)) = (Arc::clone(&lens), side.input);
    built.network.tap(element, port, move |_, packet| {
        let bytes = packet.to_vec();
        let ip = bentpipe_wire::ip::Packet::new_checked(&bytes[..]).expect("IP");
        let upper = ip.upper().expect("whole");
        let udp = bentpipe_wire::udp::Datagram::new_checked(upper.bytes).expect("UDP");
        if let Ok(rtp) = bentpipe_wire::rtp::Packet::new_checked(udp.payload())
            && rtp.payload_type() == 96
        {
            seen.lock().expect("whole").insert(rtp.payload().len());
        }
    });
    let found = times.iter().map(|time| {
        built.network.run_until(at(*time));
        let (sender, receiver) = (built.flows[0].sender, built.flows[0].receivers[0]);
        [sender, receiver].map(|element| figures(&mut built, element))
    });
    let found = found.collect();
    let lens = lens.lock().expect("whole").clone();
    (found, lens)
}

#[test]
fn calls_lower_their_rate_while_a_line_is_full() {
    let (fixed, lens) = run("", &[120]);
    assert_eq!(lens, BTreeSet::from([32]));
    let (adapted, lens) = run(", adapt = {}", &[19, 120, 240]);
    // RFC 4867: 4 bits of mode request, 6 of the table and 95 to 244 of speech.
    assert!(
        lens.len() > 4 && lens.iter().all(|len| [32, 27, 22, 20, 18, 16, 15, 14].contains(len)),
        "{lens:?}"
    );
    let rates: Vec<f64> = adapted.iter().map(|[sender, _]| sender["codec-rate"]).collect();
    assert!(rates[0] == 12_200.0 && rates[1] < 8000.0 && rates[2] > 11_000.0, "{rates:?}");
    let [loss, before] = [&adapted[1], &fixed[0]].map(|[_, receiver]| receiver["voice-loss"]);
    assert!(loss < 0.5 * before, "{loss} in place of {before}");
    // The impairment of lower rates costs less than the losses. Means over the whole time are at the end of the scale in both.
    let [r, before] = [&adapted[1], &fixed[0]].map(|[_, receiver]| receiver["r-now"].max(0.0));
    assert!(r > before + 3.0, "{r} in place of {before}");
}
