//! tshark's opinion of a lossy transfer: no malformed packet, no bad checksum, and its count of retransmissions.

#![allow(clippy::print_stderr)] // A skipped test says so.

mod tcp_path;

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

use bentpipe_net::tcp::{Bulk, Config, Source};
use bentpipe_units::Bytes;
use bentpipe_wire::pcap::{LinkType, Writer};
use tcp_path::{IN, Pair, Path};

/// The frames of a capture that a display filter lets through.
fn count(capture: &PathBuf, filter: &str) -> usize {
    let options = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-Y", filter, "-r"];
    let output = Command::new("tshark").arg("-n").args(options).arg(capture).output().expect("tshark");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count()
}

/// Captures what the client sends and receives in a transfer with losses.
fn capture(name: &str, config: &Config, ipv6: bool) -> (PathBuf, Pair) {
    let path = Path { loss: 0.01, ipv6, ..Path::new(10_000_000, 50) };
    let source = Source::Bulk(Bulk { size: Some(Bytes::new(1_500_000)), duration: None });
    let mut pair = Pair::new(&path, config, config, source);
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let sink = std::fs::File::create(&file).expect("a file");
    let writer = Arc::new(Mutex::new(Writer::new(sink, LinkType::RAW).expect("a header")));
    let first = pair.network.ids().find(|id| pair.network.path(*id) == "there/first").expect("a link");
    for at in [first, pair.client] {
        let writer = writer.clone();
        pair.network.tap(at, IN, move |now, packet| {
            let mut writer = writer.lock().expect("a writer");
            writer.write(now.as_nanos(), packet.header(), packet.elided()).expect("a record");
        });
    }
    pair.run(300.0);
    (file, pair)
}

#[test]
fn tshark_finds_nothing_wrong_and_counts_the_same() {
    if Command::new("tshark").arg("-v").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "tshark is needed");
        return eprintln!("skipped: no tshark");
    }
    let ecn_and_dsack = Config { ecn: true, dsack: true, ..Config::default() };
    let no_options = Config { timestamps: false, sack: false, window_scaling: false, ..Config::default() };
    let cases = [("v4", Config::default(), false), ("v6", ecn_and_dsack, true), ("plain", no_options, false)];
    for (name, config, ipv6) in cases {
        let (file, mut pair) = capture(&format!("tcp-{name}.pcap"), &config, ipv6);
        assert_eq!(pair.delivered(), 1_500_000.0);
        let wrong = "_ws.malformed || tcp.checksum.status == \"Bad\" || ip.checksum.status == \"Bad\" \
                     || tcp.analysis.ack_lost_segment || tcp.analysis.zero_window";
        assert_eq!(count(&file, wrong), 0, "{name}");
        let theirs = count(
            &file,
            "tcp.analysis.retransmission || tcp.analysis.fast_retransmission || tcp.analysis.out_of_order",
        );
        let ours = pair.value("retransmits");
        assert!(ours >= 5.0 && (theirs as f64 - ours).abs() <= 1.0, "{name}: tshark {theirs}, ours {ours}");
    }
}
