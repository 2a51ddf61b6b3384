//! Captures of a terminal's bursts: somebody else's decoder finds a transport stream in them.
#![allow(clippy::print_stderr, reason = "a skipped test says why")]

use std::path::{Path, PathBuf};
use std::process::Command;

use bentpipe_lab::build::Built;
use bentpipe_lab::record::Capture;
use bentpipe_lab::scenario::Document;
use bentpipe_net::app::Sink;
use bentpipe_units::{Span, Time};

const SCENARIO: &str = r#"
title = "two terminals"
duration = "10 s"
node.pisa = {}
node.cnit = {}
carrier.skyplex = { encapsulation = "ENCAPSULATION" }
link.satellite = { between = ["pisa", "cnit"], delay = "250 ms", dama = { carrier = "skyplex", cra = "176 kbit/s" } }
flow.data = { from = "pisa", to = "cnit", udp = { pattern = { kind = "constant", interval = "50 ms" }, payload = "900 B" } }
probe.capture = ["pisa:satellite"]
"#;

/// The bursts of a terminal, captured, how many, and how many datagrams the receiver had of them.
fn captured(encapsulation: &str) -> (PathBuf, u64, u64) {
    let text = SCENARIO.replace("ENCAPSULATION", encapsulation);
    let document = Document::parse("bursts.toml", text.as_bytes()).expect("a file");
    let scenario = document.scenario().unwrap_or_else(|refusal| panic!("{refusal}"));
    let mut built = Built::new(&scenario, 1, std::path::Path::new(".")).expect("possible");
    let path = std::env::temp_dir().join(format!("bursts-{encapsulation}-{}.pcap", std::process::id()));
    let on_line = built.captures[0].on_line.clone().expect("a terminal");
    let (form, (element, port)) = (on_line.form, on_line.inputs[0]);
    let capture = Capture::start(&path, form, usize::MAX).expect("started");
    built.network.tap(element, port, capture.tap());
    built.network.run_until(Time::ZERO + Span::from_secs(10));
    let sink: &mut Sink = built.network.element(built.flows[0].receivers[0]).expect("a sink");
    let delivered = sink.flows()[0].packets;
    (path, capture.finish().expect("written"), delivered)
}

/// What tshark finds in a capture: a line for each record, values with commas between. None if there is no tshark.
fn read(path: &Path, options: &[&str], fields: &[&str]) -> Option<String> {
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(path).args(options).args(["-T", "fields", "-E", "occurrence=a"]);
    fields.iter().for_each(|field| {
        tshark.args(["-e", field]);
    });
    let Ok(output) = tshark.output() else {
        assert!(std::env::var_os("CI").is_none(), "tshark is needed");
        eprintln!("skipped: no tshark");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).expect("text"))
}

#[test]
fn tshark_finds_a_transport_stream_without_gaps() {
    let (path, bursts, _) = captured("ule");
    let (pids, dropped) = (read(&path, &[], &["mp2t.pid"]), read(&path, &[], &["mp2t.cc.drop"]));
    std::fs::remove_file(&path).expect("removed");
    let (Some(pids), Some(dropped)) = (pids, dropped) else { return };
    assert_eq!(pids.lines().count() as u64, bursts);
    let all: Vec<&str> = pids.split(['\n', ',']).filter(|pid| !pid.is_empty()).collect();
    assert_eq!(all.len() as u64, bursts * 8);
    let data = all.iter().filter(|pid| **pid == "0x00000101" || **pid == "0x0101").count();
    // 928 bytes and ULE's 8, each 50 ms for nearly 10 s: five cells and some of each.
    assert!((195 * 5..200 * 7).contains(&data), "{data} of {}: {:?}", all.len(), all.first());
    assert!(dropped.split(['\n', ',']).all(|field| field.is_empty() || field == "0"), "{dropped}");
}

/// How many datagrams tshark finds, of 928 bytes of IP, and how many arrived.
fn datagrams(encapsulation: &str, options: &[&str]) -> Option<(u64, u64)> {
    let (path, _, delivered) = captured(encapsulation);
    let lengths = read(&path, options, &["ip.len"]);
    std::fs::remove_file(&path).expect("removed");
    assert!(delivered > 190, "{delivered}");
    Some((lengths?.split(['\n', ',']).filter(|len| *len == "928").count() as u64, delivered))
}

#[test]
fn tshark_reads_sections_of_mpe() {
    let Some((found, delivered)) = datagrams("mpe", &[]) else { return };
    assert_eq!(found, delivered);
}

#[test]
fn tshark_reads_gse_across_bursts() {
    let as_frames = [
        "-d",
        "udp.port==7001,dvb-s2_modeadapt",
        "-o",
        "dvb-s2_modeadapt.decode_df:TRUE",
        "-o",
        "dvb-s2_modeadapt.full_decode:TRUE",
    ];
    let Some((found, delivered)) = datagrams("gse", &as_frames) else { return };
    assert_eq!(found, delivered);
}

/// The dissector in `contrib/wireshark`, written apart from this code.
#[test]
fn the_lua_dissector_reads_rle_across_bursts() {
    for (encapsulation, of_end) in [("rle", "rle.sequence"), ("rle-crc", "rle.crc.status")] {
        let (path, bursts, delivered) = captured(encapsulation);
        let script = concat!("lua_script:", env!("CARGO_MANIFEST_DIR"), "/../../contrib/wireshark/rle.lua");
        let fields = ["ip.len", "rle.ppdu", of_end, "rle.problem", "ip.checksum.status", "_ws.lua.error"];
        let rows = read(&path, &["-X", script, "-o", "ip.check_checksum:TRUE"], &fields);
        std::fs::remove_file(&path).expect("removed");
        let Some(rows) = rows else { return };
        assert_eq!(rows.lines().count() as u64, bursts);
        let column = |n: usize| -> Vec<&str> {
            let of_rows =
                rows.lines().flat_map(move |row| row.split('\t').nth(n).unwrap_or_default().split(','));
            of_rows.filter(|value| !value.is_empty()).collect()
        };
        assert!(
            delivered > 190 && column(0) == vec!["928"; delivered as usize],
            "{delivered}: {:?}",
            column(0)
        );
        assert_eq!(column(4), vec!["1"; delivered as usize]);
        let ends = column(1).iter().filter(|kind| **kind == "1").count();
        assert_eq!(column(2).len(), ends);
        // There are fewer bursts than packets, so some of these are in fragments.
        assert!(ends > 30, "{ends} of {delivered}");
        assert!(encapsulation == "rle" || column(2).iter().all(|status| *status == "1"));
        assert_eq!((column(3).len(), column(5).len()), (0, 0), "{:?} {:?}", column(3), column(5));
    }
}
