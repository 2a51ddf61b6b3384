//! Changing an emulation that runs.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use bentpipe_testkit::{Process, until};

use super::rig::{Running, SCENARIO, bentpipe, emulate_text, rtts_ms, shortest};

#[test]
fn set_changes_what_a_shell_sees() {
    let Some(mut running) = Running::start("changed") else { return };
    assert!((400.0..430.0).contains(&running.rtt_ms()));
    assert_eq!(running.set("link.hop.delay=20 ms"), (Some(0), String::new()));
    assert!((40.0..70.0).contains(&running.rtt_ms()));
    // Of 84 bytes and their echo, each takes 67 ms at 10 kbit/s.
    assert_eq!(running.set("link.hop.rate=10 kbit/s").0, Some(0));
    let rtts: Vec<f64> = (0..3).flat_map(|_| rtts_ms(&running.ping(1))).collect();
    assert!((174.0..210.0).contains(&shortest(&rtts)), "{rtts:?}");
    assert_eq!(running.set("link.hop.rate=10 Mbit/s").0, Some(0));
    assert_eq!(running.set("link.hop.channel={ kind = \"packet-errors\", loss = 1.0 }").0, Some(0));
    assert!(rtts_ms(&running.ping(3)).is_empty());
    assert_eq!(running.set("link.hop.channel={ kind = \"packet-errors\", loss = 0.0 }").0, Some(0));
    assert_eq!(rtts_ms(&running.ping(3)).len(), 3);
    let (code, errors) = running.end();
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(running.left(), [""; 0]);
}

#[test]
fn a_change_leaves_what_is_under_way_alone() {
    let Some(running) = Running::start("ridden") else { return };
    let mut ping = running.shell("left", &["ping", "-n", "-c", "60", "-i", "0.03", "-W", "2", "10.0.0.2"]);
    let mut ping = Process::start(ping.stdout(Stdio::piped()));
    let lines = BufReader::new(ping.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut text = String::new();
    for line in lines {
        // Over 400 ms, 13 others are in flight with the first ten answered.
        if line.contains("icmp_seq=10 ") {
            assert_eq!(running.set("link.hop.delay=20 ms").0, Some(0));
        }
        text += &(line + "\n");
    }
    assert_eq!(ping.finish().0, Some(0), "{text}");
    let rtts = rtts_ms(&text);
    let numbers = text.split_whitespace().filter_map(|word| word.strip_prefix("icmp_seq="));
    let numbers: Vec<u32> = numbers.map(|number| number.parse().expect("a number")).collect();
    assert_eq!(numbers, (1..=60).collect::<Vec<_>>(), "all come, in their order: {text}");
    assert!((400.0..430.0).contains(&shortest(&rtts[..10])), "{text}");
    assert!((40.0..70.0).contains(&shortest(&rtts[50..])), "{text}");
    // What left under the old delay takes it to the end, and what left after it does not overtake: between the old
    // round trip and the new there are others.
    let between = rtts.iter().filter(|ms| (80.0..390.0).contains(*ms)).count();
    assert!(between >= 3, "{rtts:?}");
}

#[test]
fn faults_come_and_go_and_are_shown() {
    let Some(running) = Running::start("faulty") else { return };
    let both = "link.hop.channel=[{ kind = \"duplication\", probability = 1.0 }, { kind = \"packet-errors\", loss = 1.0 }]";
    assert_eq!(running.set(both), (Some(0), String::new()));
    assert!(rtts_ms(&running.ping(3)).is_empty());
    assert_eq!(running.set("link.hop.forward.channel=none").0, Some(0));
    assert!(rtts_ms(&running.ping(3)).is_empty(), "the answers are lost");
    assert_eq!(running.set("link.hop.channel=none").0, Some(0));
    assert_eq!(rtts_ms(&running.ping(3)).len(), 3);
    assert_eq!(running.set("link.hop.channel=none").0, Some(0), "as it is");
    let folder = bentpipe_testkit::Folder::new();
    let file = folder.path().join("rain.txt");
    std::fs::write(&file, "# rain\n\nlink.hop.delay = 20 ms\nlink.hop.channel=[]\n").expect("written");
    let process = running.process().to_string();
    let set = |words: &[&str]| {
        let mut set = bentpipe();
        let output = set.args([&["set", "--emulation", &process], words].concat()).output().expect("starts");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(set(&["--file", file.to_str().expect("text")]).0, Some(0));
    assert_eq!(set(&["--show", "link.hop.delay"]), (Some(0), "\"20 ms\"\n".to_owned()));
    let (code, whole) = set(&["--show"]);
    assert!(code == Some(0) && whole.contains("\"channel\": \"none\""), "{whole}");
    assert_eq!(set(&["--show", "link.hopp"]).0, Some(2));
    std::fs::write(&file, "link.hop.delay\n").expect("written");
    assert_eq!(set(&["--file", file.to_str().expect("text")]).0, Some(2));
}

#[test]
fn limits_of_queues_change_and_what_cannot_change_is_said_with_key_and_value() {
    let Some(running) = Running::start("refused") else { return };
    assert_eq!(running.set("link.hop.queue.bytes=20 kB"), (Some(0), String::new()));
    for (assignment, problem) in [
        ("link.hop.mtu=1200 B", "cannot set link.hop.mtu to 1200 B: cannot be changed while it runs"),
        ("link.hop.rate=fast", "cannot set link.hop.rate to fast: "),
        ("link.hopp.rate=1 Mbit/s", "cannot set link.hopp.rate to 1 Mbit/s: no link is called \"hopp\""),
        ("link.hop.channel.loss=2", "cannot set link.hop.channel.loss to 2: "),
    ] {
        let (code, errors) = running.set(assignment);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(problem) && !errors.contains(".toml:"), "{errors}");
    }
    // A refused change is no change: the next is one of what was.
    assert_eq!(running.set("link.hop.delay=20 ms"), (Some(0), String::new()));
}

#[test]
fn the_socket_answers_each_line_and_survives_nonsense() {
    let Some(running) = Running::start("asked") else { return };
    let stream = UnixStream::connect(running.socket()).expect("it listens");
    let mut answers = BufReader::new(&stream).lines();
    for (line, answer) in [
        ("{\"set\": \"link.hop.delay=30 ms\"}", "\"ok\":true"),
        ("nonsense", "{\"error\":\"expected {\\\"set\\\": \\\"KEY=VALUE\\\"}, "),
        ("{\"set\": 5}", "{\"error\":\"expected {\\\"set\\\""),
        ("{\"set\": \"link.hop.delay\"}", "{\"error\":\"expected {\\\"set\\\""),
        ("{\"set\": [\"link.hop.delay=70 ms\", \"link.hop.mtu=1200 B\"]}", "cannot be changed while it runs"),
        ("{\"show\": \"link.hop.delay\"}", "\"value\":\"30 ms\""),
        ("{\"set\": [\"link.hop.delay=35 ms\", \"link.hop.rate=9 Mbit/s\"]}", "\"ok\":true"),
        ("{\"show\": \"link.hop.rate\"}", "\"value\":\"9 Mbit/s\""),
        ("{\"set\": []}", "{\"error\":\"expected {\\\"set\\\""),
        ("{\"set\": [5]}", "{\"error\":\"expected {\\\"set\\\""),
        ("{\"show\": \"link.hopp\"}", "no such key"),
        ("", "{\"error\":"),
        ("{\"set\": \"link.hop.delay=40 ms\"}", "\"ok\":true"),
    ] {
        writeln!(&stream, "{line}").expect("sent");
        let given = answers.next().expect("an answer").expect("text");
        assert!(given.contains(answer), "{line}: {given}");
    }
    drop(stream);
    // Bytes that are no text end a connection, not the emulation.
    let mut stream = UnixStream::connect(running.socket()).expect("it listens");
    stream.write_all(&[0xff, 0xfe, b'\n']).expect("sent");
    drop(stream);
    assert!((80.0..110.0).contains(&running.rtt_ms()));
}

#[test]
fn events_change_an_emulation_and_what_is_set_after_them_holds() {
    let event = "\n[[event]]\nat = \"3 s\"\nset = { \"link.hop.delay\" = \"20 ms\" }\n";
    let Some(running) = Running::start_scenario(&(SCENARIO.to_owned() + event), "eventful") else { return };
    assert!((400.0..430.0).contains(&running.rtt_ms()));
    until("the event", || running.rtt_ms() < 400.0);
    assert!((40.0..70.0).contains(&running.rtt_ms()));
    // The file's own delay is another value now.
    assert_eq!(running.set("link.hop.delay=200 ms"), (Some(0), String::new()));
    assert!((400.0..430.0).contains(&running.rtt_ms()));
}

#[test]
fn the_table_shows_the_delay_and_the_lost_frames_of_a_space_link_after_a_change() {
    let text = SCENARIO.replace(
        "rate = \"10 Mbit/s\"\n",
        "medium = { kind = \"space\", rate = \"1 Mbit/s\", coding = \"convolutional\", es_n0_db = 6.0 }\n",
    );
    let event = "\n[[event]]\nat = \"2 s\"\nset = { \"link.hop.delay\" = \"20 ms\", \"link.hop.medium.es_n0_db\" = -4.0 }\n";
    let Some((output, _folder)) =
        emulate_text(&(text + event), "faded", &["--", "ping", "-q", "-c", "100", "-i", "0.11", "10.0.0.2"])
    else {
        return;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    let row =
        errors.lines().find(|line| line.starts_with("hop forward")).unwrap_or_else(|| panic!("{errors}"));
    let words: Vec<&str> = row.split_whitespace().collect();
    assert!(words.windows(2).any(|pair| pair == ["20.00", "ms"]), "{row}");
    let crc = words.iter().position(|word| *word == "crc-errors").unwrap_or_else(|| panic!("{row}"));
    assert!(words[crc + 1].trim_end_matches(',').parse::<u64>().expect("a number") > 0, "{row}");
}
