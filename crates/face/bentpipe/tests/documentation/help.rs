//! Examples of `--help`.

use std::path::Path;

use bentpipe_testkit::able_live;
use bentpipe_wire::pcap::{LinkType, Reader, Writer};

use super::reference::commands;
use super::session::Session;

/// Commands that make the files which examples name, from the repository's call.
const FILES: &[&str] = &[
    "for copy in capture.pcap capture.pcapng voice.pcap trunk.pcapng received.pcap; do cp scenarios/call.pcap $copy; done",
    "cp gateway/site-a.toml . && cp scenarios/geo.toml . && sed '0,/^duration.*/s//duration = \"40 s\"/' scenarios/lossy-link-sweep.toml > sweep.toml",
    "bentpipe ts encap voice.pcap voice.ts",
    "bentpipe ts encap voice.pcap a.ts.pcap && bentpipe ts encap --pid 0x300 voice.pcap b.ts.pcap",
    "bentpipe ts encap --rohc --pid 0x201 voice.pcap in.ts.pcap",
    "bentpipe ts encap --bridge lan.pcap in.ts",
    "cp voice.ts recording.ts; cp a.ts.pcap udp-multicast.pcap; bentpipe ts encap --pid 0x300 voice.pcap film.ts",
    "bentpipe rohc compress voice.pcap voice.rohc.pcap",
    "bentpipe rohc compress --cid large --contexts 501 trunk.pcapng in.rohc.pcap",
    "bentpipe channel generate bistable --burst 3 --gap 27 --frames 20000 office.trace",
    "cp studies/koreasat/video.toml .",
    "bentpipe run geo.toml --set duration='2 s' --out made -q && mkdir -p runs && mv made/geo-* runs/before",
    "bentpipe run geo.toml --set duration='31 s' --set flow.download.count=2 --pcap server:lan --snap-len 128 --out made -q && mv made/geo-*/server-lan.pcap download.pcap && rm -r made/geo-*",
    "cp -r runs/before runs/after; bentpipe run sweep.toml --set duration='2 s' --set probe.warm_up='0 s' --out made -q && mv made/sweep-* runs/sweep",
    "printf 'a range +0 +60 1 5 1\\na contact +0 +60 1 5 1000000\\n' > mission.ionrc; cp geo.toml picture.jpg",
    "printf 'eid = \"ipn:1.0\"\\nstore = \"store\"\\n[[listen]]\\nlayer = \"tcpcl\"\\nat = \"127.0.0.1:0\"\\n' > node.toml",
    "bentpipe dtn certificate pki ipn:1.0",
    "printf 'correct horse battery staple\\n' > password; mkdir -p scenarios; cp geo.toml scenarios",
    "for file in old.txt new.txt password.txt; do cp password $file; done; mkdir -p sites; cp geo.toml sites/three-machines.toml",
    "touch fade.csv preset.toml job-7.zip; cp pki/authority.pem certificate.pem",
    "mkdir -p .local/share/bash-completion/completions .config/fish/completions",
];

/// Commands that make video, where ffmpeg is installed.
const VIDEO: &[&str] = &[
    "bentpipe video card --width 320 --height 240 --length '2 s' --rate '2 Mbit/s' card.ts",
    "cp card.ts video.ts",
    "cp card.ts left.ts; cp card.ts right.ts; cp card.ts film.mp4; bentpipe video mux left.ts right.ts both.ts",
    "bentpipe video carry card.ts received.ts; bentpipe video carry both.ts arrived.ts",
];

#[test]
fn examples_of_the_help_run() {
    let session = Session::new("--help");
    for (name, port) in [("lan.pcap", None), ("lan.pcapng", None), ("received.pcapng", Some(5004))] {
        ethernet_capture(&session.folder().file(name), port);
    }
    let samples = (0..16_000_i32).map(|n| (n * 37 % 6000 - 3000) as i16).collect();
    let speech = bentpipe_wire::wav::Repr { rate_hz: 8000, channels: 1, samples };
    std::fs::write(session.folder().file("speech.wav"), speech.to_bytes()).expect("written");
    FILES.iter().for_each(|command| drop(session.type_in("a file of the examples", command, 0)));
    let has_video = bentpipe_testkit::has("ffmpeg");
    VIDEO.iter().filter(|_| has_video).for_each(|command| drop(session.type_in("a video", command, 0)));
    let of_help = |(command, help): (Vec<String>, String)| {
        let place = move |example: String| (format!("{} --help: `{example}`", command.join(" ")), example);
        examples(&help).into_iter().map(place)
    };
    let all: Vec<(String, String)> = commands().into_iter().flat_map(of_help).collect();
    let can_run = |example: &str| has_video || !needs_video(example);
    let all = all.iter().filter(|(_, example)| can_run(example) && !is_elsewhere(example));
    let (begun, ending): (Vec<_>, Vec<_>) =
        all.partition(|(_, example)| matches!(kind(example), Kind::Begun));
    let apart = apart();
    std::thread::scope(|scope| {
        scope.spawn(|| begun.iter().for_each(|(place, example)| begin(&session, apart, place, example)));
        ending.iter().for_each(|(place, example)| follow(&session, place, example));
    });
}

fn needs_video(example: &str) -> bool {
    ["video", "ffmpeg", "voice carry"].iter().any(|word| example.contains(word))
}

/// Types an example that ends by itself.
fn follow(session: &Session, place: &str, example: &str) {
    let is_live = matches!(kind(example), Kind::Live);
    let turn = is_live.then(|| able_live(&["ip", "ping", "iperf3", "curl"]));
    match turn {
        None => drop(session.type_in(place, example, 0)),
        Some(None) => {}
        Some(Some(turn)) => {
            let _turn = (!session.is_apart()).then_some(turn);
            drop(session.type_in(place, &format!("timeout 60 {example}"), 0));
        }
    }
}

/// Types an example and ends it after a second: the program must not refuse its words.
fn begin(session: &Session, apart: &str, place: &str, example: &str) {
    let printed = session.printed(&format!("{apart} timeout --foreground -s INT 1 {example}"));
    let is_refused =
        ["For more information, try", "panicked", "No such file"].iter().any(|word| printed.contains(word));
    assert!(!is_refused, "{place}: {printed}");
}

/// Returns the command that runs another on a loopback of its own: pages have programs at the same ports.
fn apart() -> &'static str {
    let can = std::process::Command::new("unshare").args(["--net", "true"]).status();
    match can.is_ok_and(|status| status.success()) {
        true => r#"unshare --net sh -c 'ip link set lo up; exec "$@"' sh"#,
        false => "",
    }
}

enum Kind {
    /// Ends by itself.
    Once,
    /// Ends by itself, in real time and as root.
    Live,
    /// Runs until it is ended, for minutes, or in a running emulation. The book's sessions run the same to their ends.
    Begun,
}

fn kind(example: &str) -> Kind {
    let until_ended =
        ["shell", "set", "rtp", "pep", "call", "answer", "gateway", "reproduce", "serve", "remote"];
    let words: Vec<&str> = example.split_whitespace().collect();
    match example {
        "bentpipe gateway check gateway/site-a.toml" | "bentpipe gateway check site-a.toml" => Kind::Once,
        _ if words.get(1).is_some_and(|word| until_ended.contains(word)) => Kind::Begun,
        _ if example.starts_with("bentpipe dtn") && words.get(2) != Some(&"plan") => Kind::Begun,
        _ if example.starts_with("bentpipe emulate") && example.contains(" -- ") => Kind::Live,
        _ if example.starts_with("bentpipe emulate") || example.contains("udp://") => Kind::Begun,
        _ => Kind::Once,
    }
}

/// Returns `true` for examples that are about another program's process or network, or another machine.
///
/// The book has those of two machines in namespaces.
fn is_elsewhere(example: &str) -> bool {
    let of_others = ["kill ", "tcpdump ", "systemd-run ", "bentpipe site "];
    of_others.iter().any(|start| example.starts_with(start)) || example.contains(" --join ")
}

/// Returns the examples of a help text, without their comments.
fn examples(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
    let mut found: Vec<String> = Vec::new();
    for line in lines.take_while(|line| line.starts_with("  ")) {
        let programs = ["bentpipe ", "tshark ", "ffmpeg ", "tcpdump ", "systemd-run ", "kill "];
        let begins = programs.iter().any(|program| line.trim_start().starts_with(program));
        match found.last_mut() {
            // A backslash continues a command; without one it is a line that the terminal broke.
            Some(last) if !begins => {
                *last = format!("{} {}", last.trim_end_matches([' ', '\\']), line.trim())
            }
            _ => found.push(line.trim().to_owned()),
        }
    }
    found.iter().map(|line| line.split("  ").next().unwrap_or(line).to_owned()).collect()
}

/// Writes the packets of the repository's call in Ethernet frames, to another UDP port if one is given.
fn ethernet_capture(to: &Path, port: Option<u16>) {
    let file = std::fs::read(super::root().join("scenarios/call.pcap")).expect("the call");
    let mut reader = Reader::new(&file[..]).expect("a capture");
    let mut writer =
        Writer::new(std::fs::File::create(to).expect("a file"), LinkType::ETHERNET).expect("a capture");
    while let Ok(Some(record)) = reader.next_record() {
        let mut frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0], record.bytes].concat();
        if let Some(port) = port {
            // Behind 14 bytes of Ethernet, 20 of IPv4 and the source port; no checksum, which UDP allows.
            frame[36..38].copy_from_slice(&u16::to_be_bytes(port));
            frame[40..42].fill(0);
        }
        writer.write(record.time_ns.expect("a time"), &frame, 0).expect("written");
    }
}

#[test]
fn examples_are_found_with_their_wrapped_ends() {
    let help = "Usage\n\nExamples:\n  bentpipe a 'b  c'\n  bentpipe d    until\n  Ctrl-C\n  bentpipe e \\\n      -f\n\nMore.\n";
    assert_eq!(examples(help), ["bentpipe a 'b", "bentpipe d", "bentpipe e -f"]);
}
