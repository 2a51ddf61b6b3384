//! How many calls a gateway has room for: row U6 of the ROHC-over-ULE testbed, live. GSM, 33 bytes each 20 ms, bridged, ULE,
//! IPv4, RTP profile, U-mode, a refresh each 350 packets, on 8 Mbit/s: the testbed had room for 311.

use std::process::{Command, Stdio};

use bentpipe_testkit::{Watch, await_socket};
use serde_json::Value;

use super::rig::{Running, Sky};

/// Time that the queue and a socket hold in seconds: 300 kB, and the 100 ms and more of a gateway's sockets.
const QUEUE_S: f64 = 0.3;
const SOCKET_S: f64 = 0.05;

/// Sites `n` and `other` are one Ethernet.
fn site(n: usize, other: usize) -> String {
    format!(
        r#"
title = "site {n}"
[lan]
kind = "bridge"
addresses = ["10.50.0.{n}/24"]
[carrier]
rate = "8 Mbit/s"
nulls = "fill"
queue = "300 kB"
[[output]]
kind = "udp"
to = ["192.168.77.{other}:5004"]
[[input]]
kind = "udp"
listen = "192.168.77.{n}:5004"
[remote.other]
send = "0x10{n}"
receive = ["0x10{other}"]
packing = "1 ms"
rohc = {{ cid = "large", contexts = 400, refresh = 350, dynamic_refresh = 0, confirm = 0, rtp_ports = [6000] }}
"#
    )
}

/// Calls from one site to another while they last: what the receiver found.
fn calls(sky: &Sky, from: usize, to: usize, streams: usize) -> impl FnOnce() -> Value {
    let json = sky.folder.path().join(format!("calls-{streams}.json"));
    let program = env!("CARGO_BIN_EXE_bentpipe");
    let mut receive = sky.sites[to - 1].command(program);
    receive.args(["rtp", "receive", "6000", "--idle", "2 s", "--duration", "20 s", "--json"]).arg(&json);
    let mut receive = receive.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    await_socket(&receive, ":6000");
    let mut send: Command = sky.sites[from - 1].command(program);
    let (to, streams) = (format!("10.50.0.{to}:6000"), streams.to_string());
    send.args(["rtp", "send", &to, "--streams", &streams, "--duration", "8 s", "--codec", "gsm"]);
    let mut send = send.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    move || {
        assert!(send.wait().expect("it ends").success());
        receive.wait().expect("it ends");
        serde_json::from_str(&std::fs::read_to_string(json).expect("written")).expect("JSON")
    }
}

/// What the sites say when 311 and 330 calls, side by side, are over.
fn crowd(sky: &Sky) -> [Value; 4] {
    let sites: Vec<Running> =
        [(1, 2), (2, 1), (3, 4), (4, 3)].iter().map(|&(n, other)| sky.start(n, &site(n, other))).collect();
    sky.expect_pings(1, "10.50.0.2");
    sky.expect_pings(3, "10.50.0.4");
    let reports = [calls(sky, 1, 2, 311), calls(sky, 3, 4, 330)].map(|end| end());
    for report in reports {
        eprintln!("received: {}", report["overall"]);
    }
    [0, 1, 2, 3].map(|n| sites[n].statistics())
}

fn count(figures: &Value, name: &str) -> f64 {
    figures["remote"]["other"][name].as_f64().expect("a count")
}

/// For how many calls a carrier has room by equation 15, with the average header as it was.
fn room(figures: &Value) -> f64 {
    let header = count(figures, "rohc_header_bytes_out") / count(figures, "sent_compressed");
    8e6 * 183.0 / 188.0 / ((8.0 + 14.0 + header + 33.0) * 400.0)
}

/// Packets per second of a number of calls.
const fn packets_per_second(calls: u32) -> f64 {
    50.0 * calls as f64
}

/// Packets that have room in a slot of the carrier.
const PER_SLOT: f64 = 3.0;

#[test]
fn there_is_room_for_311_gsm_calls_and_not_for_330() {
    let Some(sky) = Sky::new(4) else { return };
    let watch = Watch::start();
    let [one, two, three, _] = crowd(&sky);
    let machine = watch.end();
    let pause = machine.worst().as_secs_f64();
    for (figures, calls) in [(&one, 311), (&three, 330)] {
        let skipped = figures["carrier_skipped"].as_f64().expect("a count");
        let dropped = count(figures, "queue_dropped");
        let found = format!("{calls}: room for {}, {dropped} dropped, {skipped} skipped", room(figures));
        eprintln!("{found}; {machine:?}");
        assert!((311.0..330.0).contains(&room(figures)), "{found}");
        match calls {
            // Slots that a pause skipped are missing, and after it more comes in one batch than the queue has room for.
            311 => assert!(
                dropped <= PER_SLOT * skipped + packets_per_second(calls) * (pause - QUEUE_S).max(0.0),
                "{found}; {machine:?}"
            ),
            _ => assert!(dropped > 100.0, "{found}"),
        }
    }
    // Sockets have room for what comes in a pause of some milliseconds.
    let received = two["remote"]["other"]["pid"]["0x101"]["received_packets"].as_f64().expect("a count");
    let missing = count(&one, "sent_packets") - received;
    let in_pauses = packets_per_second(311) * (pause - SOCKET_S).max(0.0);
    assert!((0.0..=in_pauses).contains(&missing), "{missing} of the 311 calls did not arrive; {machine:?}");
}
