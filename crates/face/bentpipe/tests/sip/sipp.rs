//! Calls of the program to and from sipp's built-in scenarios, over UDP and TCP.

use std::process::{Command, Stdio};

use bentpipe_testkit::{Folder, Process, free_port, has, said, text};

use super::{bentpipe, printed_by, wait_for};

fn sipp(folder: &Folder, words: &[&str]) -> Command {
    let mut command = Command::new("sipp");
    command.args(words).args(["-i", "127.0.0.1", "-nostdin"]).current_dir(folder.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn calls_sipp(transport: &str, sipp_transport: &str) {
    if !has("sipp") {
        return;
    }
    let (folder, port) = (Folder::new(), free_port());
    let port_text = port.to_string();
    // sipp waits some seconds after each BYE, and fails the calls of a connection that closes before, unless told otherwise.
    let keep = ["-reconnect_close", "false", "-max_reconnect", "5"];
    let words = [&["-sn", "uas", "-p", &port_text, "-t", sipp_transport, "-m", "30"], &keep[..]].concat();
    let mut uas = Process::start(&mut sipp(&folder, &words));
    wait_for(transport, port);
    let target = format!("sip:service@127.0.0.1:{port}");
    let words =
        ["call", &target, "--calls", "30", "--rate", "100", "--hold", "300 ms", "--transport", transport];
    let output = bentpipe(&words).output().expect("bentpipe starts");
    assert!(said(&output, 0).contains("30 calls: 30 established, 0 failed"), "{}", text(&output));
    assert_eq!(uas.finish().0, Some(0), "sipp counts a failure");
}

#[test]
fn calls_are_answered_by_sipp_over_udp() {
    calls_sipp("udp", "u1");
}

#[test]
fn calls_are_answered_by_sipp_over_tcp() {
    calls_sipp("tcp", "t1");
}

fn answers_sipp(sipp_transport: &str, more: &[&str], scenario: &[&str]) -> String {
    let (folder, port) = (Folder::new(), free_port());
    let port_text = port.to_string();
    let words = [&["answer", &port_text[..], "--calls", "30"], more].concat();
    let mut answerer = Process::start(&mut bentpipe(&words));
    wait_for("udp", port);
    let (remote, own) = (format!("127.0.0.1:{port}"), free_port().to_string());
    let words =
        [scenario, &[&remote, "-p", &own, "-t", sipp_transport, "-m", "30", "-r", "100", "-d", "200"]]
            .concat();
    let output = sipp(&folder, &words).output().expect("sipp starts");
    said(&output, 0);
    printed_by(&mut answerer)
}

#[test]
fn calls_of_sipp_are_answered_over_udp_and_tcp() {
    if !has("sipp") {
        return;
    }
    for transport in ["u1", "t1"] {
        let printed = answers_sipp(transport, &[], &["-sn", "uac"]);
        assert!(printed.contains("30 calls: 30 established, 0 failed"), "{transport}: {printed}");
    }
}

#[test]
fn ringing_before_the_answer_is_measured_by_the_caller() {
    let port = free_port();
    let port_text = port.to_string();
    let mut answerer =
        Process::start(&mut bentpipe(&["answer", &port_text, "--calls", "5", "--ring", "300 ms"]));
    wait_for("udp", port);
    let folder = Folder::new();
    let json = folder.file("calls.json").to_string_lossy().into_owned();
    let target = format!("sip:bob@127.0.0.1:{port}");
    let words = ["call", &target, "--calls", "5", "--hold", "0 s", "--json", &json];
    said(&bentpipe(&words).output().expect("bentpipe starts"), 0);
    let figures: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).expect("written")).expect("JSON");
    assert_eq!((&figures["established"], &figures["post-dial-delay-ms"]["count"]), (&5.into(), &5.into()));
    let set_up = figures["set-up-time-ms"]["p50"].as_f64().expect("a number");
    assert!(set_up >= 300.0, "{figures}");
    assert_eq!(answerer.finish().0, Some(0));
}

#[test]
fn refused_cancelled_and_unanswered_calls_fail_with_their_reason() {
    let port = free_port();
    let port_text = port.to_string();
    let mut answerer =
        Process::start(&mut bentpipe(&["answer", &port_text, "--calls", "1", "--refuse", "486"]));
    wait_for("udp", port);
    let target = format!("sip:bob@127.0.0.1:{port}");
    let output = bentpipe(&["call", &target]).output().expect("bentpipe starts");
    assert!(said(&output, 1).contains("1 failed: 486 Busy Here"), "{}", text(&output));
    assert_eq!(answerer.finish().0, Some(0));
    let mut answerer =
        Process::start(&mut bentpipe(&["answer", &port_text, "--calls", "1", "--ring", "60 s"]));
    wait_for("udp", port);
    let output = bentpipe(&["call", &target, "--ring-limit", "200 ms"]).output().expect("bentpipe starts");
    assert!(said(&output, 1).contains("1 failed: cancelled"), "{}", text(&output));
    assert_eq!(answerer.finish().0, Some(1));
    let output = bentpipe(&["call", &target, "--transport", "tcp"]).output().expect("bentpipe starts");
    assert!(said(&output, 1).contains("1 failed: connection refused"), "{}", text(&output));
}

#[test]
fn bad_words_are_refused_with_the_reason() {
    for (words, problem) in [
        (&["call", "tel:1"][..], "expected a URI such as"),
        (&["call", "bob"], "expected a URI such as"),
        (&["call", "sip:b@127.0.0.1", "--rate", "0"], "0.001 to 100,000"),
        (&["call", "sip:b@127.0.0.1", "--user", "a b"], "--user: expected letters"),
        (&["call", "sip:b@127.0.0.1", "--password-file", "/nonexistent"], "/nonexistent: "),
        (&["answer", "1.2.3.4:5060"], "cannot listen at 1.2.3.4:5060"),
        (&["answer", "host"], "expected PORT"),
    ] {
        let output = bentpipe(words).output().expect("bentpipe starts");
        assert!(said(&output, 2).contains(problem), "{}", text(&output));
    }
}

/// sipp sends each packet of RTP back: the caller hears itself, and knows it.
#[test]
fn own_voice_that_sipp_sends_back_has_no_delay_from_mouth_to_ear() {
    if !has("sipp") {
        return;
    }
    let (folder, port, media) = (Folder::new(), free_port(), free_port() & !1);
    let (port_text, media_text) = (port.to_string(), media.to_string());
    let words =
        ["-sn", "uas", "-p", &port_text, "-m", "1", "-rtp_echo", "-mi", "127.0.0.1", "-mp", &media_text];
    let mut uas = Process::start(&mut sipp(&folder, &words));
    wait_for("udp", port);
    let json = folder.file("call.json").to_string_lossy().into_owned();
    let (target, own) = (format!("sip:service@127.0.0.1:{port}"), (free_port() & !1).to_string());
    let voice = "{ codec = \"g711u\", speech = { kind = \"continuous\" } }";
    let words = ["call", &target, "--hold", "1 s", "--voice", voice, "--media-port", &own, "--json", &json];
    let output = bentpipe(&words).output().expect("bentpipe starts");
    let printed = said(&output, 0);
    assert!(
        printed.contains("sent back by the other side: ") && printed.contains("round trip p50"),
        "{printed}"
    );
    assert!(printed.contains("mouth to ear: not known, as the other side only sends back"), "{printed}");
    let figures = std::fs::read_to_string(json).expect("figures");
    let figures: serde_json::Value = serde_json::from_str(&figures).expect("JSON");
    let voice = &figures["voice"];
    assert!(voice["sent-back"]["packets"].as_u64() > Some(30) && voice["received"] == 0.0, "{voice}");
    assert!(voice["mouth-to-ear-ms"].is_null() && voice["r"].is_null(), "{voice}");
    assert_eq!(uas.finish().0, Some(0), "sipp counts a failure");
}

/// Ringing is answered with voice at once; the answer comes later.
#[test]
fn media_flow_both_ways_while_a_call_rings() {
    let (folder, port) = (Folder::new(), free_port());
    let (port_text, lines) = (port.to_string(), (free_port() & !1).to_string());
    let voice = "{ codec = \"g711a\", speech = { kind = \"continuous\" }, lines = 1 }";
    let media = ["--voice", voice, "--media-port"];
    let words =
        [&["answer", &port_text, "--calls", "1", "--early-media", "--ring", "1 s"], &media[..], &[&lines]]
            .concat();
    let mut answerer = Process::start(&mut bentpipe(&words));
    wait_for("udp", port);
    let json = folder.file("call.json").to_string_lossy().into_owned();
    let (target, own) = (format!("sip:bob@127.0.0.1:{port}"), (free_port() & !1).to_string());
    let words =
        [&["call", &target, "--hold", "200 ms", "--dtmf", "5#", "--json", &json], &media[..], &[&own]]
            .concat();
    let output = bentpipe(&words).output().expect("bentpipe starts");
    assert!(said(&output, 0).contains("digits sent: 5#"), "{}", text(&output));
    let figures = std::fs::read_to_string(json).expect("figures");
    let figures: serde_json::Value = serde_json::from_str(&figures).expect("JSON");
    // One second before the answer, and a fifth after it.
    assert!(figures["voice"]["received"].as_f64() > Some(40.0), "{figures}");
    let printed = printed_by(&mut answerer);
    assert!(printed.contains("digits received: 5#"), "{printed}");
}
