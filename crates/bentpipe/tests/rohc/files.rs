//! Captures made here: link layers, snapshots, pipes, tables and plots, and what is refused.

use std::io::Write;

use super::*;

#[test]
fn a_capture_there_and_back() {
    let folder = Folder::new();
    let [input, stream, back] = ["in.pcap", "rohc.pcap", "out.pcap"].map(|name| folder.file(name));
    udp_capture(&input, 200, 65_535);
    let text = said(&rohc(&["compress", "--verify"], &[&input, &stream]), 0);
    assert!(text.contains("skipped 1 records: of EtherType 0x0806, not IP"), "{text}");
    assert!(text.contains("200 packets: 200 ok."), "{text}");
    said(&rohc(&["decompress"], &[&stream, &back]), 0);
    let expected: Vec<_> = (0..200).map(udp).collect();
    assert_eq!(packets(&back), (Some(LinkType::RAW), expected.clone()));
    let (link_type, compressed) = packets(&stream);
    assert_eq!(link_type, Some(LinkType::USER0));
    let bytes = |packets: &[Vec<u8>]| packets.iter().map(Vec::len).sum::<usize>();
    let saved = bytes(&expected) - bytes(&compressed);
    assert!(saved > 200 * 23, "{saved} bytes saved of 200 headers of 28");
}

#[test]
fn a_snapshot_is_compressed_as_the_whole_would_be() {
    let folder = Folder::new();
    let [whole, cut, whole_stream, cut_stream, back] =
        ["whole", "cut", "whole.rohc", "cut.rohc", "back"].map(|name| folder.file(name));
    udp_capture(&whole, 50, 65_535);
    udp_capture(&cut, 50, 18 + 28);
    said(&rohc(&["compress"], &[&whole, &whole_stream]), 0);
    said(&rohc(&["compress", "--verify"], &[&cut, &cut_stream]), 0);
    said(&rohc(&["decompress"], &[&cut_stream, &back]), 0);
    for (cut, whole) in packets(&cut_stream).1.iter().zip(packets(&whole_stream).1) {
        assert_eq!(cut[..], whole[..whole.len() - 20]);
    }
    for (number, packet) in (0..).zip(packets(&back).1) {
        assert_eq!(packet[..], udp(number)[..28]);
    }
}

#[test]
fn segments_are_records_of_their_own() {
    let folder = Folder::new();
    let [input, stream, back] = ["in.pcap", "rohc.pcap", "out.pcap"].map(|name| folder.file(name));
    udp_capture(&input, 20, 65_535);
    let options = words("compress --mrru 100 --mtu 16 --verify");
    said(&rohc(&options, &[&input, &stream]), 0);
    let (_, units) = packets(&stream);
    assert!(units.len() > 40 && units.iter().all(|unit| unit.len() <= 16), "{}", units.len());
    said(&rohc(&words("decompress --mrru 100"), &[&stream, &back]), 0);
    assert_eq!(packets(&back).1, (0..20).map(udp).collect::<Vec<_>>());
    assert_eq!(rohc(&words("decompress"), &[&stream, &back]).status.code(), Some(1));
}

#[test]
fn tables_and_plots() {
    let folder = Folder::new();
    let [input, table, plot] = ["in.pcap", "rows.csv", "plot.svg"].map(|name| folder.file(name));
    udp_capture(&input, 100, 65_535);
    let files = [&input, Path::new("--csv"), &table, Path::new("--plot"), &plot];
    let text = said(&rohc(&["stats"], &files), 0);
    assert!(text.starts_with("Headers shrink from 28.0 to "), "{text}");
    assert!(text.lines().any(|line| line.starts_with("UDP/IP           IR ")), "{text}");
    let rows = rows(&table);
    assert_eq!(rows.len(), 100);
    assert_eq!(rows[0][11..], ["U-mode", "IR"]);
    assert_eq!(rows[99][11..], ["U-mode", "SO"]);
    assert_eq!(rows[3][1..5], ["5", "ok", "48", &format!("{:08x}", crc32fast::hash(&udp(3)))]);
    let svg = fs::read_to_string(plot).expect("a plot");
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>"));
    assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    assert!(svg.contains("with ROHC") && svg.contains("data-curve=\"\""));
}

#[test]
fn losses_are_counted_and_cost_no_more_than_they_must() {
    let folder = Folder::new();
    let [input, table] = ["in.pcap", "rows.csv"].map(|name| folder.file(name));
    udp_capture(&input, 1000, 65_535);
    for mode in ["u", "o", "r"] {
        // More repeats than are ever lost in a row here: after so many the decompressor may hold packets back.
        let options =
            format!("roundtrip --mode {mode} --repeats 8 --loss 10% --seed 5 --csv {}", table.display());
        said(&rohc(&words(&options), &[&input]), 0);
        let fates: Vec<_> = rows(&table).into_iter().map(|row| row[2].clone()).collect();
        let count = |fate: &str| fates.iter().filter(|known| known.starts_with(fate)).count();
        assert!((70..140).contains(&count("lost")), "{mode}: {} lost", count("lost"));
        assert_eq!(count("ok") + count("lost"), 1000, "{mode}: a loss costs the packet and no more");
    }
}

/// Every policy of the library that has a switch does what it says. Both flows of the capture have a constant IP-ID step.
#[test]
fn policies_have_their_switches() {
    let folder = Folder::new();
    let [input, table] = ["in.pcap", "rows.csv"].map(|name| folder.file(name));
    udp_capture(&input, 400, 65_535);
    let rows_with = |options: &str| {
        let options = format!("roundtrip --csv {} {options}", table.display());
        said(&rohc(&words(&options), &[&input]), 0);
        rows(&table)
    };
    let count = |rows: &[Vec<String>], column: usize, value: &str| {
        rows.iter().filter(|row| row[column] == value).count()
    };
    let (cid, profile, kind) = (8, 9, 10);
    let plain = rows_with("");
    assert_eq!((count(&plain, cid, "0"), count(&plain, cid, "1")), (200, 200));
    // Frame 3 is the second flow's first packet: frame 1 is ARP.
    let reserved = rows_with("--reserve 9=3");
    assert_eq!((count(&reserved, cid, "0"), count(&reserved, cid, "9")), (200, 200));
    let crowded = rows_with("--mode o --max-contexts 1");
    assert!(count(&crowded, profile, "0x0000") > 180, "the second flow is rejected");
    assert!(count(&crowded, profile, "0x0002") >= 200, "the first one is not");
    assert_eq!(count(&rows_with("--repeats 2"), kind, "IR"), 4);
    assert_eq!(count(&rows_with("--refresh 0,50"), kind, "IR-DYN"), 6);
    assert_eq!(count(&rows_with("--refresh 0,50 --refresh-repeats 2"), kind, "IR-DYN"), 12);
    assert!(count(&rows_with("--refresh 1s,0"), kind, "IR") > 12);
    assert!(count(&rows_with("--slow-start"), kind, "IR") > 12);
    assert!(count(&rows_with("--max-packet 47"), profile, "0x0000") == 400);
    let irs_and_so = rows_with("--only-ir-so");
    assert_eq!(count(&irs_and_so, kind, "IR") + count(&irs_and_so, kind, "UO-0"), 400);
    let first_refresh = |rows: &[Vec<String>], flow: &str| {
        let numbers: Vec<_> = rows.iter().filter(|row| row[cid] == flow).enumerate().collect();
        numbers.iter().filter(|(_, row)| row[kind] == "IR").map(|(number, _)| *number).nth(4)
    };
    let spread = rows_with("--spread --refresh 60,0");
    assert_ne!(first_refresh(&spread, "0"), first_refresh(&spread, "1"));
    let unison = rows_with("--refresh 60,0");
    assert_eq!(first_refresh(&unison, "0"), first_refresh(&unison, "1"));
}

#[test]
fn timers_and_reports_are_told() {
    let folder = Folder::new();
    let [input, stream, back] = ["in.pcap", "rohc.pcap", "feedback.pcap"].map(|name| folder.file(name));
    rtp_capture(&input, 200);
    let feedback = |options: &str| {
        let options = format!("compress --rtp-ports all --mode o --feedback {} {options}", back.display());
        said(&rohc(&words(&options), &[&input, &stream]), 0);
        packets(&back).1.concat()
    };
    // The CLOCK option: type 5, one octet, 10 ms.
    let has_clock = |feedback: &[u8]| feedback.windows(2).any(|option| option == [0x51, 10]);
    assert!(!has_clock(&feedback("")));
    let large = packets(&stream).1.iter().map(Vec::len).sum::<usize>();
    assert!(has_clock(&feedback("--clock 10ms --timer-jitter 20ms")));
    let small = packets(&stream).1.iter().map(Vec::len).sum::<usize>();
    assert!(small < large, "timestamps by the clock take {small} bytes, others {large}");
}

#[test]
fn through_pipes() {
    let folder = Folder::new();
    let input = folder.file("in.pcap");
    udp_capture(&input, 10, 65_535);
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command
        .args(["rohc", "compress", "-", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(&fs::read(&input).expect("a capture")).expect("takes it");
    drop(stdin);
    let output = child.wait_with_output().expect("ends");
    let stream = folder.file("rohc.pcap");
    fs::write(&stream, &output.stdout).expect("a file");
    assert_eq!(packets(&stream).1.len(), 10);
    assert!(String::from_utf8_lossy(&output.stderr).contains("10 packets: 10 ok."));
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_a_whole_file() {
    let folder = Folder::new();
    let [input, stream] = ["in.pcap", "rohc.pcap"].map(|name| folder.file(name));
    udp_capture(&input, 300, 65_535);
    let capture = fs::read(&input).expect("a capture");
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command.args(["rohc", "compress", "-"]).arg(&stream).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(&capture[..capture.len() / 2]).expect("takes it");
    // The file is there once the program is at work, its handler installed before.
    (0..1000).take_while(|_| !stream.exists()).for_each(|_| pause());
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
    (0..20).for_each(|_| pause());
    let _ = stdin.write_all(&capture[capture.len() / 2..]);
    drop(stdin);
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(130));
    let (_, sent) = packets(&stream);
    let file_len: usize = 24 + sent.iter().map(|packet| 16 + packet.len()).sum::<usize>();
    assert_eq!(fs::metadata(&stream).expect("a file").len() as usize, file_len, "no half record");
    assert!(sent.len() < 300, "it ended early");
}

#[allow(clippy::disallowed_methods, reason = "waits for another program")]
fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(10));
}

#[test]
fn what_is_no_capture_is_refused_with_a_reason() {
    let folder = Folder::new();
    let [output, bad] = ["out.pcap", "bad.pcap"].map(|name| folder.file(name));
    let garbage: Vec<u8> = (0..4000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for content in [&b""[..], b"\xd4", b"\xd4\xc3\xb2\xa1\x02\x00", &garbage] {
        fs::write(&bad, content).expect("a file");
        for command in ["compress", "decompress"] {
            let text = said(&rohc(&[command], &[&bad, &output]), 2);
            assert!(text.starts_with("error: ") && text.contains("bad.pcap: "), "{text}");
        }
    }
    let text = said(&rohc(&["stats"], &[&folder.file("missing.pcap")]), 2);
    assert!(text.contains("missing.pcap: No such file"), "{text}");
    said(&rohc(&["stats"], &[folder.0.path()]), 2);
}

#[test]
fn what_holds_other_packets_is_refused() {
    let folder = Folder::new();
    let [input, output] = ["in.pcap", "out.pcap"].map(|name| folder.file(name));
    udp_capture(&input, 3, 65_535);
    let text = said(&rohc(&["decompress"], &[&input, &output]), 2);
    assert!(text.contains("link type 1, not 147"), "{text}");
    let stream = folder.file("rohc.pcap");
    said(&rohc(&["compress"], &[&input, &stream]), 0);
    for command in [&["stats"][..], &["roundtrip"]] {
        let text = said(&rohc(command, &[&stream]), 2);
        assert!(text.contains("no IP packets: records are of link type 147, which is not known"), "{text}");
    }
    let before = fs::read(&input).expect("a file");
    let text = said(&rohc(&["compress"], &[&input, &input]), 2);
    assert!(text.contains("would overwrite"), "{text}");
    assert_eq!(fs::read(&input).expect("a file"), before);
}

#[test]
fn bad_options_are_refused() {
    let folder = Folder::new();
    let input = folder.file("in.pcap");
    udp_capture(&input, 3, 65_535);
    for options in [
        "stats --max-cid 16",
        "stats --cid large --max-cid 16384",
        "stats --profiles rtp,voice",
        "stats --mode x",
        "stats --refresh 5",
        "stats --repeats 0",
        "stats --rtp-ports 5,99999",
        "roundtrip --loss 200",
        "stats --mtu 20",
        "stats --reserve 16=2",
        "stats --reserve 1=0",
        "stats --damage-threshold 9,8",
        "stats --clock 5",
    ] {
        said(&rohc(&words(options), &[&input]), 2);
    }
}

#[test]
fn every_command_has_help_with_examples() {
    for command in ["compress", "decompress", "roundtrip", "stats"] {
        let text = said(&rohc(&[command, "--help"], &[]), 0);
        assert!(text.contains(&format!("  bentpipe rohc {command} ")), "{text}");
    }
}
