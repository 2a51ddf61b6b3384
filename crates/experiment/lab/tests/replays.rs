//! Replayed captures: their figures, and ways that cannot be.

use std::path::PathBuf;

use bentpipe_assemble::checked;
use bentpipe_net::metric::UnitColumn;
use bentpipe_record::LedgerColumn;
use bentpipe_testkit::Folder;
use bentpipe_transport::app::{Endpoints, datagram};

use crate::accounts::Run;

/// Writes a capture of raw IP packets, each with its time in milliseconds.
fn capture(folder: &Folder, packets: &[(u32, Vec<u8>)]) -> PathBuf {
    let mut pcap = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0];
    for (at_ms, packet) in packets {
        let len = packet.len() as u32;
        let words = [at_ms / 1000, at_ms % 1000 * 1000, len, len];
        pcap.extend(words.into_iter().flat_map(u32::to_le_bytes));
        pcap.extend(packet);
    }
    folder.write("packets.pcap", pcap)
}

/// A datagram between two addresses of 10.9.0.0/24.
fn between(from: u8, to: u8, payload: &[u8]) -> Vec<u8> {
    let end = |host: u8, port: u16| format!("10.9.0.{host}:{port}").parse().expect("an end");
    datagram(Endpoints { source: end(from, 5000), destination: end(to, 9) }, payload)
}

/// An echo request of 8 bytes of header and some of data. Its checksum is not looked at.
fn echo(data: usize) -> Vec<u8> {
    let mut packet = between(1, 2, &vec![7; data]);
    packet[9] = 1;
    // The header's sum has another protocol: 16 less.
    let sum = u16::from_be_bytes([packet[10], packet[11]]);
    let (sum, carry) = sum.overflowing_add(16);
    packet[10..12].copy_from_slice(&(sum + u16::from(carry)).to_be_bytes());
    packet[20] = 8;
    packet
}

/// Nodes a, r, b and c, links from r to the others, and some flows.
fn star(flows: &str) -> String {
    let link = |name: &str, ends: &str, more: &str| {
        format!("link.{name} = {{ between = [{ends}], rate = \"10 Mbit/s\", delay = \"5 ms\"{more} }}\n")
    };
    format!(
        "title = \"t\"\nduration = \"10 s\"\nnode.a = {{}}\nnode.r = {{ kind = \"router\" }}\nnode.b = {{}}\nnode.c = {{}}\n{}{}{}{flows}",
        link("a", "\"a\", \"r\"", ""),
        link("b", "\"r\", \"b\"", ""),
        link("c", "\"r\", \"c\"", "")
    )
}

fn replay(name: &str, ends: [&str; 2], more: &str) -> String {
    format!(
        "[flow.{name}]\nfrom = \"{}\"\nto = \"{}\"\ntraffic = {{ kind = \"replay\", file = \"packets.pcap\"{more} }}\n",
        ends[0], ends[1]
    )
}

/// Checks a scenario next to a capture, and returns its refusal.
fn refusal(packets: &[(u32, Vec<u8>)], text: &str) -> Option<String> {
    let folder = Folder::new();
    capture(&folder, packets);
    let document = bentpipe_paths::document(&folder.write("replay.toml", text)).expect("TOML");
    let scenario = match checked(&document) {
        Ok(scenario) => scenario,
        Err(refusal) => return Some(refusal.to_string()),
    };
    bentpipe_assemble::Built::new(&scenario, 1, document.access()).err().map(|problem| problem.to_string())
}

/// Packets to one address have one way at each node, whichever flow sends them.
#[test]
fn a_capture_whose_packets_would_go_two_ways_is_refused() {
    let packets: Vec<(u32, Vec<u8>)> = (0..10).map(|n| (10 * n, between(1, 2, &[1; 100]))).collect();
    let one = replay("f", ["a", "b"], "");
    assert_eq!(refusal(&packets, &star(&one)), None);
    // The same way twice is one.
    assert_eq!(refusal(&packets, &star(&format!("{one}{}", replay("g", ["a", "b"], "")))), None);
    for (other, node) in [(["a", "c"], "r"), (["c", "a"], "r"), (["b", "a"], "b")] {
        let refused = refusal(&packets, &star(&format!("{one}{}", replay("g", other, "")))).expect("refused");
        let expected = "packets of captures go to 10.9.0.2 by two ways at node \"";
        assert!(refused.contains(expected), "{other:?}: {refused}");
        assert!(refused.contains(&format!("{expected}{node}\"")), "{other:?}: {refused}");
        assert!(refused.contains("flow.g.to"), "{other:?}: {refused}");
    }
}

/// Of ICMP all behind the IP header counts, of UDP what is behind its own, in goodput and in the account of packets.
#[test]
fn payload_of_icmp_is_all_behind_its_ip_header() {
    let packets: Vec<(u32, Vec<u8>)> =
        (0..100).map(|n| (10 * n, if n % 2 == 0 { echo(56) } else { between(1, 2, &[2; 300]) })).collect();
    let folder = Folder::new();
    capture(&folder, &packets);
    let text = star(&replay("f", ["a", "b"], ""));
    let run = Run::with_files(&folder.write("replay.toml", text));
    run.check("ICMP");
    assert_eq!(run.value("flow.f.receiver.arrived-bytes"), 50.0 * (8.0 + 56.0) + 50.0 * 300.0);
    assert_eq!(run.value("flow.f.receiver.delivered-bytes"), run.value("flow.f.receiver.arrived-bytes"));
    assert_eq!(run.value("flow.f.sender.sent-bytes"), 50.0 * (28.0 + 56.0) + 50.0 * 328.0);
    assert_eq!((run.value("flow.f.loss"), run.units("flow.f", UnitColumn::Delivered, "")), (0.0, 100));
    assert_eq!(run.column("flow.f.sender", LedgerColumn::Delivered), 100);
}

/// A replay's duplicates complete nothing, as those of a source.
#[test]
fn a_duplicate_of_a_replayed_packet_completes_nothing() {
    let packets: Vec<(u32, Vec<u8>)> = (0..10).map(|n| (200 * n, between(1, 2, &[3; 1000]))).collect();
    let folder = Folder::new();
    capture(&folder, &packets);
    let of = |channel: &str| {
        let text = star(&replay("f", ["a", "b"], ""))
            .replacen("delay = \"5 ms\" }", &format!("delay = \"5 ms\"{channel} }}"), 1)
            .replace(
                "link.b = { between = [\"r\", \"b\"], rate = \"10 Mbit/s\"",
                "link.b = { between = [\"r\", \"b\"], rate = \"100 kbit/s\"",
            );
        Run::with_files(&folder.write("replay.toml", text))
    };
    let (once, twice) = (of(""), of(", forward.channel = { kind = \"duplication\", probability = 1.0 }"));
    assert_eq!(twice.value("flow.f.receiver.duplicates"), 10.0);
    for measure in ["completion", "goodput", "loss"] {
        let name = format!("flow.f.{measure}");
        assert_eq!(twice.values.get(&name), once.values.get(&name), "{measure}");
    }
    assert!((1.8..1.95).contains(&once.value("flow.f.completion")), "{}", once.value("flow.f.completion"));
}

/// What other flows of the network send to its nodes is theirs, pings in both directions among them.
#[test]
fn a_replay_gets_no_packet_of_another_flow() {
    let packets: Vec<(u32, Vec<u8>)> = (0..10).map(|n| (200 * n, between(1, 2, &[3; 100]))).collect();
    let folder = Folder::new();
    capture(&folder, &packets);
    let ping = |name: &str, from: &str, to: &str| {
        format!(
            "[flow.{name}]\nfrom = \"{from}\"\nto = \"{to}\"\ntraffic = {{ kind = \"ping\", interval = \"500 ms\" }}\n"
        )
    };
    for more in ["", ", direction = \"both\""] {
        let flows = [replay("f", ["a", "b"], more), ping("there", "a", "b"), ping("back", "b", "a")].concat();
        let run = Run::with_files(&folder.write("replay.toml", star(&flows)));
        run.check("replay and pings");
        for flow in ["there", "back"] {
            assert_eq!(
                run.value(&format!("flow.{flow}.loss")),
                0.0,
                "{flow}: {}",
                run.line(&format!("flow.{flow}"))
            );
            assert_eq!(run.units(&format!("flow.{flow}"), UnitColumn::Dropped, ""), 0, "{flow}");
        }
        assert_eq!(run.units("flow.f", UnitColumn::Delivered, ""), 10);
        assert!(run.value("flow.f.completion") < 2.0, "{}", run.value("flow.f.completion"));
    }
}

/// A note on a file says what ends it: the flow's stop, or the run.
#[test]
fn a_file_that_is_cut_is_noted_with_what_cuts_it() {
    let packets: Vec<(u32, Vec<u8>)> = (0..100).map(|n| (200 * n, between(1, 2, &[3; 100]))).collect();
    let folder = Folder::new();
    capture(&folder, &packets);
    let notes = |more: &str| {
        let text = star(&replay("f", ["a", "b"], "").replace("to = \"b\"", &format!("to = \"b\"{more}")));
        let document = bentpipe_paths::document(&folder.write("replay.toml", text)).expect("TOML");
        let scenario = checked(&document).unwrap_or_else(|refusal| panic!("{refusal}"));
        bentpipe_lab::budget::file_notes(&scenario, document.access())
    };
    let of =
        |end: &str, sent: u32| format!("flow.f: its file: {sent} of its 100 packets are sent: {end} before");
    assert_eq!(notes(""), [of("the run ends", 50)]);
    assert_eq!(notes("\nstop = \"5 s\""), [of("its stop comes", 25)]);
}
