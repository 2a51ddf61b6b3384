//! Captures of a terminal's bursts: an independent decoder finds a transport stream in them.

use bentpipe_assemble::{Built, checked};
use bentpipe_record::Capture;
use bentpipe_scenario::Document;
use bentpipe_testkit::{Folder, Tshark};
use bentpipe_transport::app::Sink;
use bentpipe_units::{Span, Time};

/// Name of the capture.
const CAPTURE: &str = "bursts.pcap";
const SCENARIO: &str = r#"
title = "two terminals"
duration = "10 s"
node.pisa = {}
node.cnit = {}
carrier.skyplex = { encapsulation = "ENCAPSULATION" }
link.satellite = { between = ["pisa", "cnit"], delay = "250 ms", dama = { carrier = "skyplex", cra = "176 kbit/s" } }
flow.data = { from = "pisa", to = "cnit", traffic = { kind = "udp", pattern = { kind = "constant", interval = "50 ms" }, payload = "900 B" } }
probe.capture = ["pisa:satellite"]
"#;

/// The bursts of a terminal, captured, how many, and how many datagrams the receiver had of them.
fn captured(encapsulation: &str) -> (Folder, u64, u64) {
    let text = SCENARIO.replace("ENCAPSULATION", encapsulation);
    let document = Document::parse("bursts.toml", text.as_bytes()).expect("a file");
    let scenario = checked(&document).unwrap_or_else(|refusal| panic!("{refusal}"));
    let mut built = Built::new(&scenario, 1, &bentpipe_scenario::Access::default()).expect("possible");
    let folder = Folder::new();
    let path = folder.file(CAPTURE);
    let on_line = built.captures.remove(0).on_line.expect("a terminal");
    let (element, port) = on_line.inputs[0];
    let capture = Capture::start(&path, on_line.format, usize::MAX).expect("started");
    built.network.tap(element, port, capture.tap());
    built.network.run_until(Time::ZERO + Span::from_secs(10));
    let sink: &mut Sink = built.network.element(built.flows[0].receivers[0]).expect("a sink");
    let delivered = sink.flows()[0].packets;
    (folder, capture.finish().expect("written"), delivered)
}

/// Returns what tshark finds in the capture, a line per record, values with commas between; `None` without tshark.
fn read(folder: &Folder, options: &[&str], fields: &[&str]) -> Option<String> {
    let rows = Tshark::on(folder.file(CAPTURE))?.options(options).fields(fields);
    Some(rows.iter().map(|row| row.join("\t") + "\n").collect())
}

#[test]
fn tshark_finds_a_transport_stream_without_gaps() {
    let (folder, bursts, _) = captured("ule");
    let (pids, dropped) = (read(&folder, &[], &["mp2t.pid"]), read(&folder, &[], &["mp2t.cc.drop"]));
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
    let (folder, _, delivered) = captured(encapsulation);
    let lengths = read(&folder, options, &["ip.len"]);
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
        let (folder, bursts, delivered) = captured(encapsulation);
        let script =
            concat!("lua_script:", env!("CARGO_MANIFEST_DIR"), "/../../../contrib/wireshark/rle.lua");
        let fields = ["ip.len", "rle.ppdu", of_end, "rle.problem", "ip.checksum.status", "_ws.lua.error"];
        let rows = read(&folder, &["-X", script, "-o", "ip.check_checksum:TRUE"], &fields);
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
