//! Real transport streams as flows.

use bentpipe_mpeg::stream::testing::stream;
use bentpipe_scenario::{Document, Scenario};
use bentpipe_site::Judged;
use bentpipe_units::{Span, Time};

use crate::{Built, Emulated};

/// TS packets of the stream, which lasts 1.2 s.
const PACKETS: usize = 4000;

fn scenario(text: &str) -> Scenario {
    let text = format!("title = \"t\"\nduration = \"10 s\"\n{text}");
    let document = Document::parse("tv.toml", text.as_bytes());
    document.and_then(|document| document.scenario()).unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("card.ts"), stream(PACKETS, 0).to_bytes()).expect("written");
    folder
}

/// Runs a scenario whose flow `tv` sends the stream, and judges what arrived.
fn judged(text: &str) -> Judged {
    let (scenario, folder) = (scenario(text), folder());
    let mut built = Built::new(&scenario, 1, &bentpipe_paths::any_file(folder.path())).expect("possible");
    built.network.run_until(Time::ZERO + Span::from_secs(10));
    assert_eq!((built.judges.len(), &built.judges[0].0[..]), (1, "tv"));
    built.judges[0].1.judge()
}

fn value(judged: &Judged, name: &str) -> f64 {
    let found = judged.measures.iter().find(|(known, ..)| *known == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", judged.measures)).2
}

/// A stream in cells over a line with these faults.
fn in_cells(adaptation: &str, faults: &str, more: &str) -> Judged {
    judged(&format!(
        "node.a = {{}}\nnode.b = {{}}\n[atm.line.sky]\nbetween = [\"a\", \"b\"]\nrate = \"149.76 Mbit/s\"\n\
         delay = \"270 ms\"\nchannel = [{faults}]\n[link.sky]\nbetween = [\"a\", \"b\"]\nmedium = \"vc\"\n\
         [flow.tv]\nfrom = \"a\"\nto = \"b\"\nstart = \"100 ms\"\n\
         traffic = {{ kind = \"stream\", file = \"card.ts\", adaptation = \"{adaptation}\"{more} }}\n\
         [flow.bulk]\nfrom = \"a\"\nto = \"b\"\ntraffic = \"tcp\"\n"
    ))
}

const PATH: &str = "node.a = {}\nnode.r = { kind = \"router\" }\nnode.b = {}\n\
    link.x = { between = [\"a\", \"r\"], rate = \"10 Mbit/s\" }\n\
    link.y = { between = [\"r\", \"b\"], rate = \"10 Mbit/s\", delay = \"100 ms\" }\n\
    [flow.tv]\nfrom = \"a\"\nto = \"b\"\ntraffic = { kind = \"stream\", file = \"card.ts\" }\n";

#[test]
fn a_stream_goes_over_udp_on_any_path_with_other_flows() {
    let call = "[flow.call]\nfrom = \"b\"\nto = \"a\"\n\
        traffic = { kind = \"udp\", pattern = { kind = \"constant\", interval = \"20 ms\" }, payload = \"32 B\" }\n";
    for ip in [4, 6] {
        let text = PATH.replace("to = \"b\"\ntraffic", &format!("to = \"b\"\nip = {ip}\ntraffic"));
        let judged = judged(&format!("{text}{call}"));
        assert_eq!(judged.received, stream(PACKETS, 0).to_bytes());
        assert_eq!((value(&judged, "intact"), value(&judged, "ts-loss")), (1.0, 0.0));
    }
}

#[test]
fn damaged_datagrams_are_dropped_by_their_checksum() {
    let judged = judged(&PATH.replace(
        "rate = \"10 Mbit/s\" }",
        "rate = \"10 Mbit/s\", channel = { kind = \"bit-errors\", ber = 1e-6 } }",
    ));
    // 10,900 bits a datagram, 572 of them: about 6.
    let bad = value(&judged, "bad-datagrams");
    assert!((1.0..20.0).contains(&bad), "{bad}");
    assert!(value(&judged, "ts-arrived") <= PACKETS as f64 - 7.0 * bad + 7.0);
}

#[test]
fn cells_give_the_stream_back() {
    for adaptation in ["aal5", "aal1", "aal1-fec"] {
        let judged = in_cells(adaptation, "", "");
        assert!(judged.received == stream(PACKETS, 0).to_bytes(), "{adaptation}: {:?}", judged.measures);
        assert_eq!(value(&judged, "intact"), 1.0);
        assert_eq!(value(&judged, "cells-sent"), value(&judged, "cells-arrived"));
    }
}

#[test]
fn lost_cells_cost_a_pdu_or_a_packet_or_nothing() {
    let loss = "{ kind = \"cell-loss\", ratio = 1e-3 }";
    let [aal5, aal1, fec] = ["aal5", "aal1", "aal1-fec"].map(|adaptation| in_cells(adaptation, loss, ""));
    let lost = |judged: &Judged| value(judged, "cells-sent") - value(judged, "cells-arrived");
    assert!(lost(&aal5) > 5.0 && lost(&fec) > 5.0, "{} and {}", lost(&aal5), lost(&fec));
    // Two packets in a PDU; a lost last cell takes the next PDU with it.
    let (packets, cells) = (value(&aal5, "ts-sent") - value(&aal5, "ts-arrived"), lost(&aal5));
    assert!((2.0 * cells..=4.0 * cells).contains(&packets), "{packets} by {cells}");
    assert!(value(&aal1, "intact") < 1.0 && value(&aal1, "cells-missing") == lost(&aal1));
    assert_eq!(value(&fec, "intact"), 1.0);
}

#[test]
fn damaged_cells_are_dropped_or_marked_or_repaired() {
    let errors = "{ kind = \"bit-errors\", ber = 1e-6 }";
    let [aal5, aal1, fec] = ["aal5", "aal1", "aal1-fec"].map(|adaptation| in_cells(adaptation, errors, ""));
    assert!(value(&aal5, "bad-pdus") > 0.0 && value(&aal5, "intact") < 1.0);
    assert!(value(&aal1, "intact") < 1.0 && value(&aal1, "ts-arrived") > value(&aal5, "ts-arrived"));
    assert_eq!(value(&fec, "intact"), 1.0);
    let delivered = in_cells("aal5", errors, ", deliver_errored = true");
    assert!(value(&delivered, "ts-arrived") > value(&aal5, "ts-arrived"));
}

#[test]
fn cells_of_a_stream_obey_the_channels_rate_and_limit() {
    let with = |medium: &str| {
        judged(&format!(
            "node.a = {{}}\nnode.b = {{}}\n[atm.line.sky]\nbetween = [\"a\", \"b\"]\nrate = \"149.76 Mbit/s\"\n\
             [link.sky]\nbetween = [\"a\", \"b\"]\nmedium = {{ kind = \"vc\"{medium} }}\n\
             [flow.tv]\nfrom = \"a\"\nto = \"b\"\n\
             traffic = {{ kind = \"stream\", file = \"card.ts\", adaptation = \"aal5\" }}\n"
        ))
    };
    let [free, slow, short] =
        ["", ", service = { kind = \"ubr\", pcr = \"5 Mbit/s\" }", ", limit = 4"].map(with);
    assert_eq!((value(&free, "intact"), value(&slow, "intact")), (1.0, 1.0));
    assert!(value(&slow, "pcr-jitter") > 10.0 * value(&free, "pcr-jitter"));
    // A PDU of two packets is eight cells, which come in one burst: four of them find no room.
    assert!(value(&short, "cells-arrived") < 0.7 * value(&short, "cells-sent"), "{:?}", short.measures);
}

#[test]
fn misinserted_cells_are_told_by_crc_and_numbers() {
    let [aal5, aal1] = ["aal5", "aal1"].map(|adaptation| in_cells(adaptation, "", ", misinsertion = 1e-3"));
    assert!(value(&aal5, "cells-arrived") > value(&aal5, "cells-sent"));
    assert!(value(&aal5, "bad-pdus") > 0.0 && value(&aal1, "misinserted-found") > 0.0);
}

#[test]
fn delay_variation_of_cells_is_jitter_of_the_clock() {
    let clean = value(&in_cells("aal1", "", ""), "pcr-jitter");
    let law = "{ kind = \"delay-variation\", law = { kind = \"uniform\", max = \"1 ms\" } }";
    let moved = value(&in_cells("aal1", law, ""), "pcr-jitter");
    assert!(moved > 100e-6 && moved < 1e-3 && moved > 2.0 * clean, "{clean} and {moved}");
}

/// A modelled stream of eight seconds in cells, over a line with these faults.
fn modelled(faults: &str, recovery: &str) -> Judged {
    judged(&format!(
        "node.a = {{}}\nnode.b = {{}}\n[atm.line.sky]\nbetween = [\"a\", \"b\"]\nrate = \"149.76 Mbit/s\"\n\
         channel = [{faults}]\n[link.sky]\nbetween = [\"a\", \"b\"]\nmedium = \"vc\"\n[flow.tv]\nfrom = \"a\"\nto = \"b\"\n\
         start = \"1 s\"\n[flow.tv.traffic]\nkind = \"stream\"\nadaptation = \"aal1\"\nrecovery = {{ {recovery} }}\n\
         model = {{ rate = {{ mean = \"1 Mbit/s\", deviation = \"200 kbit/s\" }}, length = \"8 s\" }}\n"
    ))
}

#[test]
fn a_modelled_stream_is_carried_and_its_clock_recovered() {
    let clean = modelled("", "tolerance = \"1 us\"");
    assert_eq!((value(&clean, "intact"), value(&clean, "clock-jumps")), (1.0, 0.0));
    assert!(clean.videos.is_empty() && clean.card.is_none());
    // 13.5 us exp(-x) sin(x) is 1 us for the last time at x = 2.31, with x = 2.22 t.
    let lock_s = value(&clean, "clock-lock-time");
    assert!((lock_s - 1.04).abs() < 0.15, "{lock_s}");
    let law = "{ kind = \"delay-variation\", law = { kind = \"uniform\", max = \"1 ms\" } }";
    let moved = modelled(law, "");
    let ratio = value(&moved, "clock-jitter") / value(&moved, "pcr-jitter");
    // The loop of 0.5 Hz has a noise bandwidth of 1.67 Hz: 0.48 of the jitter in the mean of many runs.
    assert!((0.2..0.9).contains(&ratio) && value(&clean, "clock-jitter") < 1e-6, "{ratio}");
}

#[test]
fn media_without_cells_refuse_them_by_name() {
    let refused = |text: String| {
        let built = Built::new(&scenario(&text), 1, &bentpipe_paths::any_file(folder().path()));
        built.err().expect("impossible").to_string()
    };
    let cells = |text: &str| text.replace("\"card.ts\"", "\"card.ts\", adaptation = \"aal5\"");
    let several = refused(cells(PATH));
    assert!(several.contains("flow.tv.traffic.adaptation: no link joins \"a\" and \"b\""), "{several}");
    let line = PATH.replace("\"r\", \"b\"", "\"a\", \"b\"");
    let line = refused(cells(&line));
    assert!(line.contains("link \"y\" is a \"line\" and carries no payloads of ATM cells"), "{line}");
}

#[test]
fn a_stream_is_carried_among_real_hosts() {
    let text = PATH
        .replace("node.a = {}", "node.a = { kind = \"router\" }")
        .replace("node.b = {}", "node.b = { kind = \"router\" }");
    let text =
        format!("{text}[node.h]\nreal = true\n[link.h]\nbetween = [\"h\", \"a\"]\nrate = \"1 Mbit/s\"\n");
    let (scenario, folder) = (scenario(&text), folder());
    let mut built =
        Emulated::new(&scenario, 1, &bentpipe_paths::any_file(folder.path())).expect("possible").built;
    built.network.run_until(Time::ZERO + Span::from_secs(10));
    assert_eq!(value(&built.judges[0].1.judge(), "intact"), 1.0);
}
