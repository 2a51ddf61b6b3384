//! tshark's opinion of a lossy transfer: no malformed packet, no bad checksum, and its count of retransmissions.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::tcp_path::{IN, Pair, Path};
use bentpipe_testkit::{Folder, Tshark, has};
use bentpipe_transport::tcp::{Bulk, Config, Source};
use bentpipe_units::{Bytes, Rate};
use bentpipe_wire::pcap::{LinkType, Writer};

/// Returns the number of frames of a capture that a display filter lets through.
fn count(capture: &PathBuf, filter: &str) -> usize {
    let tshark = Tshark::on(capture).expect("asked for before");
    tshark.preferences(&["tcp.check_checksum:TRUE", "ip.check_checksum:TRUE"]).count(filter)
}

const WRONG: &str = "_ws.malformed || tcp.checksum.status == \"Bad\" || ip.checksum.status == \"Bad\" \
                     || tcp.analysis.ack_lost_segment || tcp.analysis.zero_window";

/// Captures what the client sends and receives in a transfer.
fn capture(file: &std::path::Path, config: &Config, loss: f64, ipv6: bool) -> Pair {
    let path = Path { loss, ipv6, ..Path::new(10_000_000, 50) };
    let source = Source::Bulk(Bulk { size: Some(Bytes::new(1_500_000)), duration: None });
    let mut pair = Pair::new(&path, config, config, source);
    let sink = std::fs::File::create(file).expect("a file");
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
    pair
}

#[test]
fn tshark_finds_nothing_wrong_and_counts_the_same() {
    if !has("tshark") {
        return;
    }
    let ecn_and_dsack = Config { ecn: true, dsack: true, ..Config::default() };
    let no_options = Config { timestamps: false, sack: false, window_scaling: false, ..Config::default() };
    let cases = [("v4", Config::default(), false), ("v6", ecn_and_dsack, true), ("plain", no_options, false)];
    let folder = Folder::new();
    for (name, config, ipv6) in cases {
        let file = folder.file(format!("tcp-{name}.pcap"));
        let mut pair = capture(&file, &config, 0.01, ipv6);
        assert_eq!(pair.delivered(), 1_500_000.0);
        assert_eq!(count(&file, WRONG), 0, "{name}");
        let theirs = count(
            &file,
            "tcp.analysis.retransmission || tcp.analysis.fast_retransmission || tcp.analysis.out_of_order",
        );
        let ours = pair.value("retransmits");
        assert!(ours >= 5.0 && (theirs as f64 - ours).abs() <= 1.0, "{name}: tshark {theirs}, ours {ours}");
    }
}

/// Request, answer and report of Quick-Start as tshark reads them: 10.24 Mbit/s is code 8. Nobody on this path counts hops,
/// so the request passes for approved.
#[test]
fn tshark_reads_quick_start() {
    if !has("tshark") {
        return;
    }
    let rate = Some(Rate::from_bps(10_000_000));
    let asking = Config { quick_start: rate, initial_window: 3, ..Config::default() };
    let folder = Folder::new();
    for (ip, ipv6) in [("ip", false), ("ipv6", true)] {
        let file = folder.file(format!("tcp-quick-start-{ip}.pcap"));
        let mut pair = capture(&file, &asking, 0.0, ipv6);
        assert_eq!(pair.value("quick-starts"), 1.0);
        assert_eq!(count(&file, WRONG), 0, "{ip}");
        // Both ends ask, and neither is refused.
        let of = |function: u8| format!("{ip}.opt.qs_func == {function} && {ip}.opt.qs_rate == 8");
        assert_eq!(count(&file, &format!("tcp.flags.syn == 1 && {}", of(0))), 2, "{ip}");
        assert_eq!(count(&file, &format!("tcp.flags.syn == 0 && tcp.len == 0 && {}", of(8))), 2, "{ip}");
        assert_eq!(count(&file, "tcp.options.qs.rate == 8"), 2, "{ip}");
    }
}
