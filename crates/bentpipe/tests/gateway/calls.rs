//! How many calls a gateway has room for: row U6 of the ROHC-over-ULE testbed, live. GSM, 33 bytes each 20 ms, bridged, ULE,
//! IPv4, RTP profile, U-mode, a refresh each 350 packets, on 8 Mbit/s: the testbed had room for 311.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::rig::{Running, Sky, undisturbed};

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
    std::thread::sleep(std::time::Duration::from_millis(300));
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

/// What became of 311 and of 330 calls.
#[derive(Debug)]
struct Outcome {
    /// Slots of the carriers that went by unused because a gateway did not run.
    skipped: f64,
    room: [f64; 2],
    dropped: [f64; 2],
    /// Of the 311.
    sent: f64,
    received: f64,
}

impl Outcome {
    fn of([one, two, three, _]: &[Value; 4]) -> Outcome {
        let skipped = [one, three].map(|figures| figures["carrier_skipped"].as_f64().expect("a count"));
        Outcome {
            skipped: skipped.iter().sum(),
            room: [one, three].map(room),
            dropped: [one, three].map(|figures| count(figures, "queue_dropped")),
            sent: count(one, "sent_packets"),
            received: two["remote"]["other"]["pid"]["0x101"]["received_packets"].as_f64().expect("a count"),
        }
    }

    /// 311 fit and all that was sent arrived; 330 do not fit.
    fn is_right(&self) -> bool {
        let fits = self.room.iter().all(|room| (311.0..330.0).contains(room));
        self.skipped == 0.0
            && fits
            && self.dropped[0] == 0.0
            && self.received == self.sent
            && self.dropped[1] > 100.0
    }
}

#[test]
fn there_is_room_for_311_gsm_calls_and_not_for_330() {
    let Some(sky) = Sky::new(4) else { return };
    let measure = || {
        let outcome = Outcome::of(&crowd(&sky));
        eprintln!("{outcome:?}");
        outcome
    };
    undisturbed(measure, Outcome::is_right, "311 and 330 calls");
}
