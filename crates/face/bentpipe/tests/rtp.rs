//! `bentpipe rtp` as its users meet it: over loopback, over a veth pair between two namespaces, and read by tshark.
#![allow(clippy::print_stderr, reason = "says why a test is skipped")]
#![allow(clippy::disallowed_methods, reason = "waits for a program in real time")]

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use bentpipe_testkit::{
    Folder, Tshark, Turn, able_live, await_read, await_socket, free_address, has, ip, text,
};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::pcap::{LinkType, Writer};
use bentpipe_wire::{ipv4, udp};
use serde_json::Value;

/// `bentpipe rtp`, in a network namespace if one is given.
fn rtp(namespace: Option<&str>, words: &[&str]) -> Command {
    let program = env!("CARGO_BIN_EXE_bentpipe");
    let mut command = match namespace {
        Some(name) => {
            let mut ip = Command::new("ip");
            ip.args(["netns", "exec", name, program]);
            ip
        }
        None => Command::new(program),
    };
    command.arg("rtp").args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A receiver that has its sockets.
fn receive(namespace: Option<&str>, words: &[&str]) -> Child {
    let child = rtp(namespace, &[&["receive"], words].concat()).spawn().expect("bentpipe starts");
    await_socket(&child, words[0]);
    child
}

fn finish(child: Child) -> Output {
    child.wait_with_output().expect("it ends")
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).expect("a file");
    serde_json::from_str(&text).expect("JSON")
}

/// Sends `streams` GSM streams of `each` packets and holds what came against that.
fn carry(namespaces: [Option<&str>; 2], to: &str, streams: u64, each: u64) -> Value {
    let folder = Folder::new();
    let (sent, came) = (folder.file("sent.json"), folder.file("came.json"));
    let [from, at] = namespaces;
    let (all, count, each_text) = (each * streams, streams.to_string(), each.to_string());
    let packets = all.to_string();
    let file = came.to_string_lossy();
    let words = [to, "--packets", &packets, "--duration", "30 s", "--json", &file];
    let receiver = receive(at, &words);
    let mut sender = rtp(from, &["send", to, "--streams", &count, "--packets", &each_text, "--json"]);
    let sender = sender.arg(&sent).output();
    let (sender, receiver) = (sender.expect("bentpipe starts"), finish(receiver));
    assert_eq!(sender.status.code(), Some(0), "{}", text(&sender));
    assert_eq!(receiver.status.code(), Some(0), "{}", text(&receiver));
    let (sent, came) = (json(&sent), json(&came));
    assert_eq!((&sent["packets"], &sent["refused"]), (&all.into(), &0.into()));
    let overall = &came["overall"];
    assert_eq!(overall["streams"], streams);
    assert_eq!((&overall["packets"], &overall["expected"]), (&all.into(), &all.into()));
    assert_eq!(overall["bytes"], all * (12 + 33));
    let mut ssrcs: Vec<u64> =
        sent["ssrcs"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
    ssrcs.sort_unstable();
    let seen = came["streams"].as_array().expect("a list").iter();
    assert_eq!(seen.filter_map(|stream| stream["ssrc"].as_u64()).collect::<Vec<_>>(), ssrcs);
    let mean = overall["interval_mean_s"].as_f64().expect("a number");
    let late = sent["lateness"]["max_s"].as_f64().expect("a number");
    // The grid is absolute: only the first and the last packet's lateness is in a mean.
    assert!(
        (mean - 0.02).abs() < 0.2e-3 + 2.0 * late / (each - 1) as f64,
        "mean interval {mean} s, latest {late} s"
    );
    came
}

#[test]
fn streams_over_loopback_are_all_there() {
    carry([None, None], &free_address(), 31, 50);
}

/// Two namespaces of the test's own, `a` and `b`, with a veth pair between them.
struct Pair {
    _turn: Turn,
}

impl Pair {
    /// None where this machine cannot, which in CI it must.
    fn new() -> Option<Pair> {
        let turn = able_live(&["ip"])?;
        for words in [
            "netns add a",
            "netns add b",
            "-n a link add rtp type veth peer name rtp netns b",
            "-n a address add 10.9.0.1/24 dev rtp",
            "-n b address add 10.9.0.2/24 dev rtp",
            "-n a address add fd09::1/64 dev rtp nodad",
            "-n b address add fd09::2/64 dev rtp nodad",
            "-n a link set rtp up",
            "-n b link set rtp up",
        ] {
            ip(words);
        }
        Some(Pair { _turn: turn })
    }

    fn carry(&self, to: &str, streams: u64, each: u64) -> Value {
        carry([Some("a"), Some("b")], to, streams, each)
    }
}

#[test]
fn streams_between_namespaces_are_all_there_over_both_families() {
    let Some(pair) = Pair::new() else { return };
    for to in ["10.9.0.2:5004", "[fd09::2]:5004"] {
        let came = pair.carry(to, 31, 50);
        let delay = came["overall"]["delay"]["min_s"].as_f64().expect("one machine, so there are delays");
        assert!((0.0..0.1).contains(&delay), "{delay} s");
    }
}

/// Table 1 of the seed, row U7: 20.00 ms, 0.03 ms with one stream and 0.06 ms with 311 and 314.
#[test]
#[ignore = "needs a quiet machine"]
fn u7_the_generator_s_own_jitter() {
    let Some(pair) = Pair::new() else { return };
    let rows = [
        ("10.9.0.2:5004", 1, 0.03),
        ("[fd09::2]:5004", 1, 0.03),
        ("10.9.0.2:5004", 311, 0.06),
        ("[fd09::2]:5004", 314, 0.06),
    ];
    let missed = rows.into_iter().filter(|&(to, streams, published_ms)| {
        let came = pair.carry(to, streams, 500);
        let of = |part: &str, key: &str| came[part][key].as_f64().expect("a number") * 1e3;
        let (mean, jitter) = (of("overall", "interval_mean_s"), of("overall", "interval_deviation_s"));
        let (p50, p99) = (of("timer_lateness", "p50_s"), of("timer_lateness", "p99_s"));
        eprintln!(
            "{streams} streams to {to}: mean {mean:.4} ms, jitter {jitter:.4} ms (published {published_ms}); timers \
             of this machine late by p50 {p50:.4} ms, p99 {p99:.4} ms"
        );
        (mean - 20.0).abs() >= 0.005 || jitter > published_ms
    });
    assert_eq!(missed.count(), 0);
}

#[test]
fn lost_and_foreign_packets_are_told() {
    let folder = Folder::new();
    let (csv, file) = (folder.file("streams.csv"), folder.file("all.json"));
    let address = free_address();
    let words = [&address, "--idle", "500 ms", "--csv"];
    let mut command = rtp(None, &[&["receive"], &words[..]].concat());
    let receiver = command.arg(&csv).arg("--json").arg(&file).spawn().expect("bentpipe starts");
    await_socket(&receiver, &address);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let send = |bytes: &[u8]| socket.send_to(bytes, &address).expect("sent");
    for seq in [1, 2, 4, 3, 3, 6] {
        send(&[0x80, 3, 0, seq, 0, 0, 0, 0, 0, 0, 0, 9, 1, 2, 3]);
    }
    send(b"hello");
    let output = finish(receiver);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("1 datagrams were no RTP"), "{}", text(&output));
    let came = json(&file);
    let stream = &came["streams"][0];
    for (key, value) in
        [("ssrc", 9), ("packets", 6), ("expected", 6), ("lost", 1), ("duplicates", 1), ("reordered", 1)]
    {
        assert_eq!(stream[key], value, "{key}");
    }
    assert!(came["overall"]["delay"].is_null(), "nobody marked these packets");
    let lines = std::fs::read_to_string(&csv).expect("a file");
    let rows: Vec<Vec<&str>> = lines.lines().map(|line| line.split(',').collect()).collect();
    let keys: Vec<&str> = stream.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(rows[0], keys);
    assert_eq!((rows.len(), rows[1].len()), (2, keys.len()));
}

#[test]
fn nothing_that_came_is_an_exit_status() {
    let output = rtp(None, &["receive", &free_address(), "--duration", "200 ms"]).output().expect("starts");
    assert_eq!((output.status.code(), text(&output).trim()), (Some(1), "no stream came"));
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    for (words, expected) in [
        (&["send", "127.0.0.1:9", "--codec", "amr", "--rate", "9 kbit/s"][..], "expected 4.75"),
        (&["send", "127.0.0.1:9", "--codec", "gsm", "--interval", "30 ms"], "a multiple of 20 ms"),
        (&["send", "127.0.0.1:9", "--size", "70 kB"], "at most 65495 bytes"),
        (&["send", "127.0.0.1"], "expected HOST:PORT"),
        (&["send", "127.0.0.1:65000", "--by", "port", "--streams", "1000"], "no ports of their own"),
        (&["receive", "somewhere"], "expected PORT"),
        (&["receive", "192.0.2.1:25304"], "port 25304: "),
    ] {
        let output = rtp(None, words).output().expect("starts");
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", text(&output));
        assert!(text(&output).contains(expected), "{words:?}: {}", text(&output));
    }
}

#[test]
fn ctrl_c_prints_the_figures() {
    let address = free_address();
    let receiver = receive(None, &[&address]);
    let sender = rtp(None, &["send", &address, "--packets", "5"]).output().expect("starts");
    assert_eq!(sender.status.code(), Some(0));
    await_read(&receiver, &address);
    let interrupt = Command::new("kill").args(["-INT", &receiver.id().to_string()]).status();
    assert!(interrupt.expect("starts").success());
    let output = finish(receiver);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("together: 1 stream, 5 packets"), "{}", text(&output));
}

/// What `bentpipe rtp send` sends to a socket of this program, as UDP payloads.
fn sent(words: &[&str]) -> Vec<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(300))).expect("a time");
    let to = socket.local_addr().expect("bound").to_string();
    let output = rtp(None, &[&["send", &to], words].concat()).output().expect("bentpipe starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let mut buffer = [0; 2000];
    let read = || socket.recv(&mut buffer).ok().map(|len| buffer[..len].to_vec());
    std::iter::from_fn(read).collect()
}

/// The payloads as a capture of IPv4 and UDP to port 5004.
fn capture(path: &Path, payloads: &[Vec<u8>]) {
    let mut writer =
        Writer::new(std::fs::File::create(path).expect("a file"), LinkType::RAW).expect("a capture");
    for payload in payloads {
        let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let ip = ipv4::Repr::new(src, dst, Protocol::UDP, udp::HEADER_LEN + payload.len());
        let mut bytes = vec![0; ip.buffer_len() + udp::HEADER_LEN];
        ip.emit(&mut bytes);
        let header = udp::Repr { src_port: 4000, dst_port: 5004, payload_len: payload.len() };
        header.emit(&mut bytes[ip.buffer_len()..]);
        bytes.extend_from_slice(payload);
        writer.write(1_000_000_000, &bytes, 0).expect("written");
    }
}

/// tshark reads what was sent as RTP: version, type, marker, numbers that count, times that go on, one source a stream.
#[test]
fn tshark_reads_rtp() {
    if !has("tshark") {
        return;
    }
    let folder = Folder::new();
    let path = folder.file("rtp.pcap");
    for (words, payload_type, step, payload_len) in [
        (&["--codec", "gsm"][..], "3", 160, 33),
        (&["--codec", "g729"], "18", 160, 20),
        (&["--codec", "opus", "--rate", "32 kbit/s"], "96", 960, 80),
    ] {
        let payloads = sent(&[&["--streams", "3", "--packets", "4"], words].concat());
        assert_eq!(payloads.len(), 12);
        capture(&path, &payloads);
        let names = ["version", "p_type", "marker", "ssrc", "seq", "timestamp", "payload"];
        let names = names.map(|name| format!("rtp.{name}"));
        let tshark = Tshark::on(&path).expect("asked for before").decode_as("udp.port==5004,rtp");
        let rows = tshark.fields(&names.each_ref().map(String::as_str));
        assert_eq!(rows.len(), 12);
        for stream in 0..3 {
            let rows: Vec<_> = rows.iter().skip(stream).step_by(3).collect();
            let number = |row: usize, column: usize| rows[row][column].parse::<u32>().expect("a number");
            for (index, row) in rows.iter().enumerate() {
                assert_eq!((&row[0][..], &row[1][..], &row[3]), ("2", payload_type, &rows[0][3]));
                assert_eq!(["1", "true", "True"].contains(&&row[2][..]), index == 0, "{row:?}");
                assert_eq!(number(index, 4), (number(0, 4) + index as u32) & 0xffff);
                assert_eq!(number(index, 5), number(0, 5).wrapping_add(step * index as u32));
                assert_eq!(row[6].replace(':', "").len(), 2 * payload_len);
            }
        }
    }
}
