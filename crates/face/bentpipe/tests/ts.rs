//! `bentpipe ts` as its users meet it: files in, files out, exit status.
#![allow(clippy::disallowed_methods, reason = "sends in real time")]

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use bentpipe_testkit::{Folder, await_read, free_address, has, run, said};
use bentpipe_wire::ethernet::MacAddr;
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::pcap::{LinkType, Reader, Writer};
use bentpipe_wire::{arp, ipv4, udp};

/// Runs `bentpipe ts` with these words and files.
fn ts(words: &[&str], files: &[&Path]) -> Output {
    let files = files.iter().map(|file| file.as_os_str());
    let words = std::iter::once("ts").chain(words.iter().copied()).map(OsStr::new);
    run(env!("CARGO_BIN_EXE_bentpipe"), ".", &words.chain(files).collect::<Vec<_>>())
}

/// The packets of a capture with their times in microseconds, and the link type of the first.
fn records(path: &Path) -> (Option<LinkType>, Vec<(u64, Vec<u8>)>) {
    let file = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut reader = Reader::new(&file[..]).expect("a capture");
    let (mut link_type, mut records) = (None, Vec::new());
    while let Ok(Some(record)) = reader.next_record() {
        link_type = link_type.or(Some(record.link_type));
        records.push((record.time_ns.expect("a time") / 1000, record.bytes.to_vec()));
    }
    (link_type, records)
}

fn packets(path: &Path) -> Vec<Vec<u8>> {
    records(path).1.into_iter().map(|(_, bytes)| bytes).collect()
}

/// An IPv4 and UDP packet by its identification.
fn packet(ident: u16, payload_len: usize) -> Vec<u8> {
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let ip = ipv4::Repr { ident, ..ipv4::Repr::new(src, dst, Protocol::UDP, udp::HEADER_LEN + payload_len) };
    let mut bytes = vec![0x5a; ip.buffer_len() + udp::HEADER_LEN + payload_len];
    ip.emit(&mut bytes);
    udp::Repr { src_port: 4000, dst_port: 5004, payload_len }.emit(&mut bytes[ip.buffer_len()..]);
    bytes
}

/// Writes a capture of packets of many lengths, 400 microseconds apart; with Ethernet headers or without.
fn capture(path: &Path, link_type: LinkType) -> Vec<Vec<u8>> {
    let packets: Vec<_> = (0..200).map(|ident| packet(ident, usize::from(ident) * 7 % 1400)).collect();
    let mut writer = Writer::new(fs::File::create(path).expect("a file"), link_type).expect("a capture");
    for (index, packet) in packets.iter().enumerate() {
        let time_ns = 1_000_000_000 + 400_000 * index as u64;
        let header: &[u8] =
            if link_type == LinkType::ETHERNET { &[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 8, 0] } else { &[] };
        writer.write(time_ns, &[header, packet].concat(), 0).expect("writes");
    }
    packets
}

#[test]
fn there_and_back() {
    let folder = Folder::new();
    let (lan, back) = (folder.file("lan.pcap"), folder.file("back.pcap"));
    let sent = capture(&lan, LinkType::RAW);
    let ways: [(&[&str], &str); 11] = [
        (&[], "a.ts"),
        (&["--packing", "2 ms"], "a.ts"),
        (&["--packing", "2 ms", "--to", "02:00:00:00:00:01"], "a.ts.pcap"),
        (&["--rohc", "--packing", "2 ms"], "a.ts"),
        (&["--format", "mpe"], "a.ts"),
        (&["--format", "mpe", "--rohc", "--packing", "2 ms"], "a.ts.pcap"),
        (&["--format", "gse", "--packing", "5 ms"], "a.pcap"),
        (&["--format", "gse", "--rohc", "--short", "--modcod", "QPSK 1/4"], "a.pcap"),
        (&["--rohc={ cid = \"large\", contexts = 1000, refresh = 3 }"], "a.ts"),
        (&["--rohc={ mode = \"reliable\", cid = \"large\", contexts = 40 }", "--packing", "2 ms"], "a.ts"),
        (&["--format", "gse", "--rohc={ mode = \"optimistic\" }"], "a.pcap"),
    ];
    for (words, name) in ways {
        let stream = folder.file(name);
        said(&ts(&[&["encap"], words].concat(), &[&lan, &stream]), 0);
        let rohc: Vec<&str> = words.iter().copied().filter(|word| word.starts_with("--rohc")).collect();
        said(&ts(&[&["decap"], &rohc[..]].concat(), &[&stream, &back]), 0);
        assert_eq!(packets(&back), sent, "{words:?}");
        assert_eq!(records(&back).0, Some(LinkType::RAW));
    }
}

#[test]
fn bridged_frames() {
    let folder = Folder::new();
    let (lan, stream, back) = (folder.file("lan.pcap"), folder.file("a.ts"), folder.file("back.pcap"));
    let sent = capture(&lan, LinkType::ETHERNET);
    for words in [
        &["encap", "--bridge"][..],
        &["encap", "--bridge", "--rohc"],
        &["encap", "--bridge", "--format", "gse"],
    ] {
        let rohc: &[&str] = if words.contains(&"--rohc") { &["--rohc"] } else { &[] };
        let stream = if words.len() < 4 { stream.clone() } else { folder.file("gse.pcap") };
        said(&ts(words, &[&lan, &stream]), 0);
        said(&ts(&[&["decap", "--bridge"], rohc].concat(), &[&stream, &back]), 0);
        assert_eq!((packets(&back), records(&back).0), (packets(&lan), Some(LinkType::ETHERNET)));
        said(&ts(&[&["decap"], rohc].concat(), &[&stream, &back]), 0);
        assert_eq!((packets(&back), records(&back).0), (sent.clone(), Some(LinkType::RAW)));
    }
    let text = said(&ts(&["encap", "--bridge", "--format", "mpe"], &[&lan, &stream]), 2);
    assert!(text.contains("MPE carries no Ethernet frames"), "{text}");
}

#[test]
fn what_is_no_ip_packet_in_bridged_frames_is_left_out_and_said() {
    let folder = Folder::new();
    let (lan, stream, back) = (folder.file("lan.pcap"), folder.file("a.ts"), folder.file("back.pcap"));
    let frame = |ethertype: [u8; 2], payload: &[u8]| [&[2; 12], &ethertype[..], payload].concat();
    let arp = arp::Repr {
        operation: arp::Operation::REQUEST,
        sender: (MacAddr([2; 6]), [10, 0, 0, 1].into()),
        target: (MacAddr([0; 6]), [10, 0, 0, 2].into()),
    };
    let mut bytes = vec![0; arp.buffer_len()];
    arp.emit(&mut bytes);
    // An IP packet of 38 bytes in a frame that is padded to 46, as the shortest has to be.
    let sent = packet(1, 10);
    let frames =
        [frame([8, 6], &bytes), frame([8, 0], &[&sent[..], &[0; 8]].concat()), frame([0x88, 0xcc], &[2; 46])];
    let mut writer =
        Writer::new(fs::File::create(&lan).expect("a file"), LinkType::ETHERNET).expect("a capture");
    frames.iter().for_each(|frame| writer.write(0, frame, 0).expect("writes"));
    said(&ts(&["encap", "--bridge"], &[&lan, &stream]), 0);
    let text = said(&ts(&["decap"], &[&stream, &back]), 0);
    let left_out = "2 left out: bridged frames without IP, such as ARP's; --bridge writes them";
    assert!(text.contains("1 packets written") && text.contains(left_out), "{text}");
    assert_eq!(packets(&back), [sent]);
    said(&ts(&["decap", "--bridge"], &[&stream, &back]), 0);
    assert_eq!(packets(&back), frames);
}

#[test]
fn packing_waits_no_longer_than_its_threshold() {
    let folder = Folder::new();
    let (lan, stream) = (folder.file("lan.pcap"), folder.file("a.pcap"));
    let mut writer = Writer::new(fs::File::create(&lan).expect("a file"), LinkType::RAW).expect("a capture");
    for time_ms in [0, 1, 10] {
        writer.write(time_ms * 1_000_000, &packet(1, 20), 0).expect("writes");
    }
    drop(writer);
    said(&ts(&["encap", "--no-tables", "--packing", "3 ms"], &[&lan, &stream]), 0);
    let (link_type, records) = records(&stream);
    assert_eq!(link_type, Some(LinkType::MPEG_2_TS));
    let times: Vec<u64> = records.iter().map(|(time, _)| *time).collect();
    assert_eq!(times, [3000, 13_000], "two SNDUs in the first packet");
}

#[test]
fn what_a_stream_has() {
    let folder = Folder::new();
    let (lan, ule, mpe, both) =
        (folder.file("lan.pcap"), folder.file("ule.ts"), folder.file("mpe.ts"), folder.file("both.ts"));
    capture(&lan, LinkType::RAW);
    said(&ts(&["encap", "--packing", "1 ms"], &[&lan, &ule]), 0);
    said(&ts(&["encap", "--format", "mpe", "--pid", "0x301", "--pmt-pid", "0x300"], &[&lan, &mpe]), 0);
    let text = said(&ts(&["mux", "--rate", "80 Mbit/s"], &[&ule, &mpe, &both]), 0);
    assert!(text.contains("0 dropped"), "{text}");
    let text = said(&ts(&["inspect"], &[&both]), 0);
    let row = |pid: &str| {
        text.lines()
            .find(|line| line.trim_start().starts_with(pid))
            .unwrap_or_else(|| panic!("{text}"))
            .to_owned()
    };
    assert!(
        row("0x0000").contains("PAT") && row("0x0200").contains("PMT") && row("0x0300").contains("PMT"),
        "{text}"
    );
    assert!(row("0x0201").contains("ULE") && row("0x0201").contains("IPv4 200"), "{text}");
    assert!(row("0x0301").contains("MPE") && row("0x0301").contains("IPv4 200"), "{text}");
    assert!(text.contains("programme 1: PMT 0x0200, streams 0x0201"), "{text}");
    assert!(text.contains("programme 2: PMT 0x0300, streams 0x0301"), "{text}");
    let (csv, json) = (folder.file("pids.csv"), folder.file("all.json"));
    let words = ["inspect", "--csv", csv.to_str().expect("a path"), "--json", json.to_str().expect("a path")];
    said(&ts(&words, &[&both]), 0);
    let lines = fs::read_to_string(&csv).expect("a table");
    let lines: Vec<Vec<&str>> = lines.lines().map(|line| line.split(',').collect()).collect();
    let all: serde_json::Value = serde_json::from_slice(&fs::read(&json).expect("a file")).expect("JSON");
    let pids = all["pids"].as_array().expect("a list");
    assert_eq!((lines.len(), &lines[0][..3]), (pids.len() + 1, &["pid", "what", "packets"][..]));
    for (line, pid) in lines[1..].iter().zip(pids) {
        assert_eq!(
            (line.len(), line[0], line[2]),
            (13, &*pid["pid"].to_string(), &*pid["packets"].to_string())
        );
    }
    let ule = pids.iter().find(|pid| pid["pid"] == 0x201).expect("a row");
    assert_eq!(
        (&ule["what"], &ule["types"]["IPv4"], &ule["units"]),
        (&"ULE".into(), &200.into(), &200.into())
    );
    assert_eq!((&all["programmes"][0]["streams"][0], &all["frames"]["frames"]), (&0x201.into(), &0.into()));
    let back = folder.file("back.pcap");
    for (words, count) in
        [(&["decap"][..], 400), (&["decap", "--pid", "0x201"], 200), (&["decap", "--format", "mpe"], 200)]
    {
        said(&ts(words, &[&both, &back]), 0);
        assert_eq!(packets(&back).len(), count, "{words:?}");
    }
}

#[test]
fn damage_is_said_and_survived() {
    let folder = Folder::new();
    let (lan, stream, back) = (folder.file("lan.pcap"), folder.file("a.ts"), folder.file("back.pcap"));
    capture(&lan, LinkType::RAW);
    said(&ts(&["encap", "--no-tables"], &[&lan, &stream]), 0);
    let mut bytes = fs::read(&stream).expect("a stream");
    bytes[40 * 188 + 50] ^= 1;
    bytes.drain(100 * 188..101 * 188);
    bytes.splice(0..0, [0x47; 5]);
    fs::write(&stream, bytes).expect("writes");
    let text = said(&ts(&["decap"], &[&stream, &back]), 1);
    assert!(text.contains("2 errors"), "{text}");
    assert_eq!(packets(&back).len(), 198);
    let text = said(&ts(&["inspect"], &[&stream]), 1);
    assert!(text.contains("IPv4 198") && text.contains("5 left out: 5 bytes outside packets"), "{text}");
}

#[test]
fn mistakes_are_explained() {
    let folder = Folder::new();
    let (lan, stream, back) = (folder.file("lan.pcap"), folder.file("a.ts"), folder.file("b.ts"));
    capture(&lan, LinkType::RAW);
    let text = said(&ts(&["inspect"], &[&lan]), 2);
    assert!(text.contains("neither TS packets nor baseband frames"), "{text}");
    let text = said(&ts(&["encap", "--format", "gse"], &[&lan, &stream]), 2);
    assert!(text.contains("GSE is not in TS packets"), "{text}");
    let text = said(&ts(&["encap", "--modcod", "QPSK 7/8"], &[&lan, &stream]), 2);
    assert!(text.contains("no MODCOD of DVB-S2"), "{text}");
    let text = said(&ts(&["encap", "--pid", "9000"], &[&lan, &stream]), 2);
    assert!(text.contains("0x1ffe"), "{text}");
    said(&ts(&["encap"], &[&lan, &stream]), 0);
    let text = said(&ts(&["mux", "--rate", "8 Mbit/s"], &[&stream, &stream, &back]), 2);
    assert!(text.contains("PID 0x0201 is in another input too"), "{text}");
    let text = said(&ts(&["decap", "--pid", "0x99"], &[&stream, &back]), 2);
    assert!(text.contains("--pid 0x0099"), "{text}");
}

/// Colour bars and a tone by ffmpeg, and data beside them; ffprobe still finds the programme.
#[test]
fn a_film_with_data_beside_it() {
    if !has("ffmpeg") || !has("ffprobe") {
        return;
    }
    let folder = Folder::new();
    let (lan, data, film, both) = (
        folder.file("lan.pcap"),
        folder.file("data.ts.pcap"),
        folder.file("film.ts"),
        folder.file("both.ts"),
    );
    let sent = capture(&lan, LinkType::RAW);
    said(&ts(&["encap"], &[&lan, &data]), 0);
    let source = [
        "-f",
        "lavfi",
        "-i",
        "testsrc=duration=2:size=320x240:rate=25",
        "-f",
        "lavfi",
        "-i",
        "sine=duration=2",
    ];
    let status = Command::new("ffmpeg")
        .args(["-v", "error"])
        .args(source)
        .args(["-c:v", "mpeg2video", "-c:a", "mp2"])
        .arg(&film)
        .status();
    assert!(status.expect("ffmpeg runs").success());
    said(&ts(&["mux", "--rate", "4 Mbit/s"], &[&film, &data, &both]), 0);
    let probe = |path: &Path| {
        let words = [
            "-v",
            "error",
            "-show_entries",
            "program=program_id:stream=codec_name",
            "-count_packets",
            "-show_entries",
            "stream=nb_read_packets",
            "-of",
            "compact",
        ];
        let output = Command::new("ffprobe").args(words).arg(path).output().expect("ffprobe runs");
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let (alone, found) = (probe(&film), probe(&both));
    assert!(found.contains("program_id=1") && found.contains("program_id=2"), "{found}");
    for line in alone.lines().filter(|line| line.starts_with("stream|")) {
        assert!(found.contains(line), "{line} in {found}");
    }
    let back = folder.file("back.pcap");
    said(&ts(&["decap"], &[&both, &back]), 0);
    assert_eq!(packets(&back), sent);
    let rate = fs::metadata(&both).expect("a file").len() * 8;
    assert!((7_000_000..9_000_000).contains(&rate), "two seconds at 4 Mbit/s: {rate} bits");
}

/// Makes a film of six seconds with B pictures and sound by ffmpeg, with these words in front of the file's name.
fn film(path: &Path, words: &[&str]) {
    let sources = ["testsrc=duration=6:size=320x240:rate=25", "sine=duration=6"];
    let inputs = sources.iter().flat_map(|source| ["-f", "lavfi", "-i", source]);
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-y"]).args(inputs);
    command.args(["-c:v", "mpeg2video", "-bf", "2", "-g", "12", "-b:v", "2M", "-c:a", "mp2"]).args(words);
    assert!(command.args(["-f", "mpegts"]).arg(path).status().expect("ffmpeg runs").success());
}

/// Rows of a CSV of rates whose second to fourth columns are returned: time, PID, packets, and the rate.
fn rates(path: &Path) -> Vec<(String, f64, String, u64, f64)> {
    let text = fs::read_to_string(path).expect("a table");
    let cells = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |at: usize| cells[at].parse::<f64>().expect("a number");
        (cells[0].to_owned(), number(1), cells[2].to_owned(), number(3) as u64, number(4))
    };
    text.lines().skip(1).map(cells).collect()
}

#[test]
fn services_and_time_stamps_are_those_of_ffprobe() {
    if !has("ffmpeg") || !has("ffprobe") {
        return;
    }
    let folder = Folder::new();
    let (path, json) = (folder.file("film.ts"), folder.file("all.json"));
    film(&path, &["-metadata", "service_name=Café Łódź", "-metadata", "service_provider=Télé"]);
    let words = ["inspect", "--measure", "--json", json.to_str().expect("a path")];
    let text = said(&ts(&words, &[&path]), 0);
    assert!(text.contains("programme 1 \"Café Łódź\" of \"Télé\" (television): PMT 0x1000"), "{text}");
    let all: serde_json::Value = serde_json::from_slice(&fs::read(&json).expect("a file")).expect("JSON");
    let probe = |entries: &str| {
        let words = ["-v", "error", "-select_streams", "v", "-show_entries", entries, "-of", "json"];
        let output = Command::new("ffprobe").args(words).arg(&path).output().expect("ffprobe runs");
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON")
    };
    let tags = &probe("program_tags=service_name,service_provider")["programs"][0]["tags"];
    assert_eq!(
        (&tags["service_name"], &tags["service_provider"]),
        (&all["services"][0]["name"], &all["services"][0]["provider"])
    );
    let packets = probe("packet=pts,dts");
    let packets = packets["packets"].as_array().expect("packets");
    let stamps = all["tr_101_290"]["time_stamps"].as_array().expect("time stamps");
    let video = stamps.iter().find(|stream| stream["pid"] == 0x100).expect("video");
    assert_eq!(video["pts"].as_u64(), Some(packets.len() as u64));
    let ticks = |packet: &serde_json::Value, key: &str| packet[key].as_i64().expect("ticks");
    let reordering = packets.iter().map(|packet| ticks(packet, "pts") - ticks(packet, "dts")).max();
    let value = |key: &str| video[key].as_f64().expect("a figure");
    assert_eq!(reordering, Some((value("reordering_max_s") * 90_000.0).round() as i64));
    assert!(
        (value("step_mean_s") - 0.04).abs() < 1e-9 && video["jumps"] == 0 && video["late"] == 0,
        "{video}"
    );
    assert!(value("decoder_delay_min_s") > 0.0 && value("decoder_delay_max_s") < 1.5, "{video}");
}

#[test]
fn rates_over_time_add_up() {
    if !has("ffmpeg") {
        return;
    }
    let folder = Folder::new();
    let (path, csv, page) = (folder.file("film.ts"), folder.file("rates.csv"), folder.file("rates.html"));
    film(&path, &["-muxrate", "3M"]);
    let [csv_word, page_word] = [&csv, &page].map(|path| path.to_str().expect("a path"));
    let words = ["inspect", "--rates", csv_word, "--interval", "250 ms", "--report", page_word];
    said(&ts(&words, &[&path]), 0);
    let rows = rates(&csv);
    let (all, parts): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.2 == "all");
    assert!(all.len() >= 20 && all.iter().all(|row| row.0 == "pcr"), "{}", all.len());
    // A packet more or less in an interval.
    assert!(all.iter().all(|row| (row.4 - 3e6).abs() < 8.0 * 188.0 / 0.25), "{all:?}");
    let sum = |rows: &[&(String, f64, String, u64, f64)]| rows.iter().map(|row| row.3).sum::<u64>();
    assert_eq!(sum(&all), sum(&parts));
    assert!(parts.iter().any(|row| row.2 == "8191") && parts.iter().any(|row| row.2 == "256"));
    assert!(fs::read_to_string(&page).expect("a page").contains("Rate by clock references"));
    let text = said(&ts(&["inspect", "--rates", csv_word, "--interval", "1 h"], &[&path]), 2);
    assert!(text.contains("a stream longer than --interval"), "{text}");
    let text = said(&ts(&["inspect", "--rates", csv_word, "--interval", "0 s"], &[&path]), 2);
    assert!(text.contains("--interval: expected at least 1 us"), "{text}");
}

/// Starts an observation of a live stream at a free port, and returns it with a socket that sends there.
fn observe(words: &[&str]) -> (std::process::Child, std::net::UdpSocket) {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let free = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket").local_addr().expect("an address");
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command.args(["ts", "inspect", &format!("udp://{free}")]).args(words);
    let child = command.stdout(std::process::Stdio::piped()).spawn().expect("bentpipe runs");
    socket.connect(free).expect("loopback");
    // Until it listens, datagrams are refused.
    let is_refused = || {
        let sent = socket.send(&[]).and_then(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            socket.send(&[])
        });
        sent.is_err()
    };
    (0..500).find(|_| !is_refused()).expect("it listens");
    (child, socket)
}

#[test]
fn a_live_stream_has_alarms_and_an_exit_status() {
    if !has("ffmpeg") {
        return;
    }
    let folder = Folder::new();
    let (path, json, csv) = (folder.file("film.ts"), folder.file("live.json"), folder.file("rates.csv"));
    film(&path, &["-muxrate", "3M", "-metadata", "service_name=Live"]);
    let stream = fs::read(&path).expect("a film");
    let [json_word, csv_word] = [&json, &csv].map(|path| path.to_str().expect("a path"));
    let (child, socket) = observe(&["--json", json_word, "--rates", csv_word]);
    // 1316 bytes at 3 Mbit/s take 3.5 ms; some datagrams are lost.
    for (n, datagram) in stream.chunks(1316).enumerate().take(400).filter(|(n, _)| !(200..230).contains(n)) {
        socket.send(datagram).expect("sends");
        std::thread::sleep(std::time::Duration::from_micros(if n % 2 == 0 { 5000 } else { 2000 }));
    }
    await_read(&child, &socket.peer_addr().expect("connected").to_string());
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("ALARM 1.4 Continuity_count_error 0x"), "{text}");
    assert!(text.contains("Mbit/s, ") && text.contains("programme 1 \"Live\" of \"FFmpeg\""), "{text}");
    let all: serde_json::Value = serde_json::from_slice(&fs::read(&json).expect("a file")).expect("JSON");
    assert_eq!((&all["services"][0]["name"], &all["datagrams"]["rtp"]), (&"Live".into(), &0.into()));
    let packets: u64 = rates(&csv).iter().filter(|row| row.2 == "all").map(|row| row.3).sum();
    assert!((2000..2800).contains(&packets), "{packets}");
}

#[test]
fn wrong_live_streams_are_explained() {
    let folder = Folder::new();
    let explained = |words: &[&str], expected: &str| {
        let text = said(&ts(&[&["inspect"], words].concat(), &[]), 2);
        assert!(text.contains(expected), "{words:?}: {text}");
    };
    explained(&["udp://host:5004"], "udp://host:5004: expected a local address and port");
    for address in ["udp://239.1.1.1:5004", "udp://@239.1.1.1:5004", "rtp://239.1.1.1:5004"] {
        explained(&[address], "expected --interface NAME, on which to join it; help: interfaces are ");
    }
    explained(
        &["udp://239.1.1.1:5004", "--interface", "nope"],
        "unknown interface \"nope\"; help: interfaces are ",
    );
    explained(&["srt://127.0.0.1:5004"], "srt://127.0.0.1:5004: expected a file, or a live stream: udp://");
    explained(&["udp://5004", "--2022-7"], "--2022-7: expected a file");
    explained(&["udp://5004", "--interface", "lo"], "127.0.0.1:5004 is not a multicast group");
    explained(&["udp://5004", "--measure"], "--measure: expected a file");
    explained(
        &["udp://5004", "--min-rate", "5 Mbit/s", "--max-rate", "4 Mbit/s"],
        "--min-rate: expected at most",
    );
    explained(&["udp://203.0.113.1:5004"], "udp://203.0.113.1:5004: ");
    let file = folder.file("film.ts");
    let text = said(&ts(&["inspect", "--for", "1 s"], &[&file]), 2);
    assert!(text.contains("--for: expected a live stream, udp://ADDRESS:PORT"), "{text}");
    let address = format!("udp://{}", free_address());
    let text = said(&ts(&["inspect", "--for", "300 ms", &address], &[]), 1);
    assert!(text.contains("no packets came"), "{text}");
}
