//! Three sites that all hear each other, through a multicast group: ULE with ROHC and feedback, MPE with ROHC and
//! refreshes, ULE plain; and what is in the sky between them, as tshark sees it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bentpipe_testkit::{Tshark, Watch, await_socket};

use super::rig::{Running, Sky};

/// Sites `n` and `other` send to each other on PIDs 0x1(n)(other) and 0x1(other)(n).
fn remote(n: usize, other: usize, keys: &str) -> String {
    format!(
        "[remote.site-{other}]\nsend = \"0x1{n}{other}\"\nreceive = [\"0x1{other}{n}\"]\nnetworks = [\"10.{other}.0.0/24\", \"fd00:{other}::/64\"]\n{keys}\n"
    )
}

const ULE_OPTIMISTIC: &str =
    "packing = \"1 ms\"\nrohc = { mode = \"optimistic\", cid = \"large\", contexts = 100 }";
const MPE_REFRESHED: &str =
    "encapsulation = \"mpe\"\npacking = \"1 ms\"\nrohc = { profiles = \"v2\", refresh_interval = \"1 s\" }";
const ULE_PLAIN: &str = "packing = \"1 ms\"";

fn site(n: usize) -> String {
    let keys = |other: usize| match n + other {
        3 => ULE_OPTIMISTIC,
        4 => MPE_REFRESHED,
        _ => ULE_PLAIN,
    };
    let remotes: String =
        (1..=3).filter(|&other| other != n).map(|other| remote(n, other, keys(other))).collect();
    format!(
        r#"
title = "site {n}"
[lan]
addresses = ["10.{n}.0.1/32", "fd00:{n}::1/128"]
[carrier]
rate = "8 Mbit/s"
nulls = "fill"
tables = {{ pid = "0x3{n}", stream = {n} }}
[[output]]
kind = "udp"
to = ["239.77.0.{n}:5004"]
interface = "up0"
rtp = true
{}
{remotes}
"#,
        (1..=3).filter(|&other| other != n).map(|other| format!(
            "[[input]]\nkind = \"udp\"\nlisten = \"239.77.0.{other}:5004\"\ninterface = \"up0\"\nrtp = true\n"
        )).collect::<String>()
    )
}

/// tshark in the sky.
struct Capture(Child);

impl Capture {
    fn start(sky: &Sky, file: &Path) -> Capture {
        let mut command = sky.sky.command("tshark");
        command.args(["-q", "-i", "br0", "-f", "udp port 5004", "-w"]).arg(file);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("tshark starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let begins = lines.by_ref().map_while(Result::ok).any(|line| line.contains("Capturing on"));
        assert!(begins, "tshark does not capture");
        std::thread::spawn(move || lines.for_each(drop));
        Capture(child)
    }

    fn end(mut self) {
        let _ = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

/// Returns what tshark finds in each datagram in the sky: a row of these fields, several values of one with commas.
fn tshark(file: &Path, fields: &[&str]) -> Vec<Vec<String>> {
    let tshark = Tshark::on(file).expect("asked for before").decode_as("udp.port==5004,rtp").dissector("ule");
    tshark.preferences(&["mpeg_sect.verify_crc:TRUE"]).fields(fields)
}

#[test]
fn three_sites_carry_everything_in_a_transport_stream_that_tshark_reads() {
    let Some(sky) = Sky::new(3) else { return };
    let file = sky.folder.path().join("sky.pcapng");
    let capture = Capture::start(&sky, &file);
    let mut sites: Vec<Running> = (1..=3).map(|n| sky.start(n, &site(n))).collect();
    for (from, to) in [(1, 2), (2, 3), (3, 1)] {
        sky.expect_pings(from, &format!("10.{to}.0.1"));
        sky.expect_pings(from, &format!("fd00:{to}::1"));
    }
    // 1448 bytes of data a segment, 8 of the SNDU and 8 at least of compressed headers, 184 of a TS packet's 188 bytes.
    let most = 8.0 * 184.0 / 188.0 * 1448.0 / (1448.0 + 8.0 + 8.0);
    let (mbit_s, pause) = beside_pause(TRANSFER_S, || tcp(&sky));
    // A pause leaves undone what it would have carried, and what the congestion window takes to come back.
    assert!((5.0 - 2.0 * most * pause..most * (1.0 + pause)).contains(&mbit_s), "{mbit_s} Mbit/s of TCP");
    let (lost, pause) = beside_pause(TRANSFER_S, || udp(&sky));
    assert!(lost < 1.0 + 100.0 * pause, "{lost} % of UDP lost");
    let (arrived, pause) = beside_pause(0.02 * f64::from(ROUNDS), || calls(&sky, 40));
    assert!(arrived > 0.99 - pause, "{arrived} of the calls' packets arrived");
    let (rate, pause) = beside_pause(RATE_S, || rate(&sites[0]));
    assert!((rate - 8e6).abs() < (0.005 + pause) * 8e6, "{rate} bit/s of the carrier");
    let figures: Vec<_> = sites.iter().map(Running::statistics).collect();
    for figures in &figures {
        for (_, remote) in figures["remote"].as_object().expect("sites") {
            let received = remote["pid"].as_object().expect("PIDs").values().next().expect("one");
            assert!(received["received_packets"].as_u64() >= Some(10), "{figures:#}");
            for error in
                ["received_crc_errors", "received_format_errors", "received_damaged", "rohc_crc_failures"]
            {
                assert_eq!(received[error], 0, "{error}: {figures:#}");
            }
        }
    }
    let to_2 = &figures[0]["remote"]["site-2"];
    let (header_in, header_out) = (&to_2["rohc_header_bytes_in"], &to_2["rohc_header_bytes_out"]);
    assert!(header_out.as_f64() < header_in.as_f64().map(|bytes| bytes / 2.0), "{to_2:#}");
    assert!(figures[1]["remote"]["site-1"]["sent_feedback"].as_u64() > Some(0), "O-mode acknowledges");
    assert!(sites.iter_mut().all(|site| site.end() == Some(0)));
    capture.end();
    check_sky(&file);
    let left = sky.run(1, &["ip", "link", "show", "bent0"]);
    assert!(left.contains("does not exist"), "{left}");
}

/// Seconds of a transfer by iperf3.
const TRANSFER_S: f64 = 2.0;

/// Packets of each call.
const ROUNDS: u16 = 60;

/// Seconds over which the carrier's rate is measured.
const RATE_S: f64 = 2.0;

/// Measures something that takes some seconds. Returns it with the longest pause of the machine, as a share of that time.
fn beside_pause(seconds: f64, measure: impl FnOnce() -> f64) -> (f64, f64) {
    let watch = Watch::start();
    let found = measure();
    let machine = watch.end();
    eprintln!("{found}: {machine:?}");
    (found, machine.worst().as_secs_f64() / seconds)
}

/// TCP of the kernel from site 1 to site 2, at a rate that fits, in Mbit/s.
fn tcp(sky: &Sky) -> f64 {
    let mut server = sky.sites[1].command("iperf3");
    let mut server =
        server.args(["-s", "-1", "-B", "10.2.0.1"]).stdout(Stdio::null()).spawn().expect("iperf3 starts");
    await_socket(&server, "10.2.0.1:5201");
    let text = sky.run(1, &["iperf3", "-c", "10.2.0.1", "-t", &TRANSFER_S.to_string(), "-J"]);
    let _ = server.kill();
    let _ = server.wait();
    let result: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
    let mbit_s = result["end"]["sum_received"]["bits_per_second"].as_f64().expect("a rate") / 1e6;
    eprintln!("TCP from site 1 to site 2: {mbit_s:.2} Mbit/s over 8 Mbit/s of TS");
    mbit_s
}

/// UDP of iperf3 from site 1 to site 3 over IPv6: how much of it is lost, in percent.
fn udp(sky: &Sky) -> f64 {
    let mut server = sky.sites[2].command("iperf3");
    let mut server =
        server.args(["-s", "-1", "-B", "fd00:3::1"]).stdout(Stdio::null()).spawn().expect("iperf3 starts");
    await_socket(&server, "[fd00:3::1]:5201");
    let seconds = TRANSFER_S.to_string();
    let load = ["iperf3", "-c", "fd00:3::1", "-u", "-b", "2M", "-l", "500", "-t", &seconds, "-J"];
    let text = sky.run(1, &load);
    let _ = server.kill();
    let _ = server.wait();
    let result: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
    result["end"]["sum"]["lost_percent"].as_f64().expect("a share")
}

/// RTP streams of GSM from site 1 to site 2, 33 bytes each 20 ms: what share of them arrives as it was sent.
fn calls(sky: &Sky, count: u32) -> f64 {
    let (from, to) = (sky.socket(1, "10.1.0.1:0"), sky.socket(2, "10.2.0.1:6000"));
    to.set_read_timeout(Some(Duration::from_secs(2))).expect("a time");
    let packet = |stream: u32, n: u16| {
        let mut bytes = vec![0x80, 3];
        bytes.extend(n.to_be_bytes());
        bytes.extend((u32::from(n) * 160).to_be_bytes());
        bytes.extend(stream.to_be_bytes());
        bytes.extend((0..33).map(|at| (stream as usize + usize::from(n) * 7 + at) as u8));
        bytes
    };
    let start = Instant::now();
    let receiver = std::thread::spawn(move || {
        let (mut buffer, mut received) = ([0; 100], BTreeSet::new());
        let all = count as usize * usize::from(ROUNDS);
        while received.len() < all
            && let Ok(len) = to.recv(&mut buffer)
        {
            received.insert(buffer[..len].to_vec());
        }
        received
    });
    for n in 0..ROUNDS {
        for stream in 0..count {
            from.send_to(&packet(stream, n), "10.2.0.1:6000").expect("sent");
        }
        let next = Duration::from_millis(20) * u32::from(n + 1);
        std::thread::sleep(next.saturating_sub(start.elapsed()));
    }
    let received = receiver.join().expect("no panic");
    let sent: BTreeSet<Vec<u8>> =
        (0..ROUNDS).flat_map(|n| (0..count).map(move |stream| packet(stream, n))).collect();
    assert!(received.is_subset(&sent), "a packet came that nobody sent");
    received.len() as f64 / sent.len() as f64
}

/// The carrier's rate in bits per second, with the slots that a pause of the machine made it skip.
fn rate(site: &Running) -> f64 {
    let look = || {
        let figures = site.statistics();
        let of = |name: &str| figures[name].as_f64().expect("a figure");
        (of("uptime_seconds"), of("carrier_bytes"), of("carrier_skipped"))
    };
    let (before, after) = (look(), {
        std::thread::sleep(Duration::from_secs_f64(RATE_S));
        look()
    });
    let rate = (after.1 - before.1 + (after.2 - before.2) * 188.0) * 8.0 / (after.0 - before.0);
    eprintln!("the carrier: {rate:.0} bit/s; {} slots skipped", after.2 - before.2);
    // A datagram is 0.13 % of what is sent in a second, and either end may see one more or less.
    rate
}

/// What tshark makes of the sky, with the dissector of ULE that it lacks: each site's PIDs and no others, all continuity
/// counters in order, RTP without gaps, SNDUs and sections with right CRCs.
fn check_sky(file: &Path) {
    let fields = [
        "ip.dst",
        "mp2t.pid",
        "rtp.seq",
        "mp2t.cc.drop",
        "ule.problem",
        "ule.crc.status",
        "mpeg_sect.crc.status",
    ];
    let rows = tshark(file, &fields);
    for site in 1..=3 {
        let group = format!("239.77.0.{site}");
        // Behind it come the addresses of packets that tshark finds inside.
        let is_its = |row: &&Vec<String>| row[0].split(',').next() == Some(&group);
        let of_site: Vec<&Vec<String>> = rows.iter().filter(is_its).collect();
        let values = |field: usize| -> Vec<&str> {
            let texts = of_site.iter().flat_map(|row| row[field].split(','));
            texts.filter(|text| !text.is_empty()).collect()
        };
        let pids: BTreeSet<&str> = values(1).into_iter().collect();
        let mut expected: BTreeSet<String> =
            (1..=3).filter(|other| *other != site).map(|other| format!("0x000001{site}{other}")).collect();
        expected.extend(["0x00000000".to_owned(), format!("0x0000003{site}"), "0x00001fff".to_owned()]);
        assert_eq!(pids, expected.iter().map(String::as_str).collect(), "site {site}");
        let seqs: Vec<u16> = values(2).iter().map(|seq| seq.parse().expect("a number")).collect();
        let jumps: Vec<&[u16]> = seqs.windows(2).filter(|two| two[1] != two[0].wrapping_add(1)).collect();
        assert!(seqs.len() > 1000 && jumps.is_empty(), "site {site}: {} datagrams, {jumps:?}", seqs.len());
        assert_eq!(values(3), [""; 0], "site {site}: a continuity counter jumps");
        assert_eq!(values(4), [""; 0], "site {site}");
        let crcs = values(5);
        assert!(
            crcs.len() >= 10 && crcs.iter().all(|status| *status == "1"),
            "site {site}: SNDUs' CRC-32 {crcs:?}"
        );
        // tshark takes ULE for sections too, so only those that are right mean something: tables, and MPE.
        let good = values(6).iter().filter(|status| **status == "1").count();
        assert!(good > 50, "site {site}: {good} sections");
    }
}

/// The files of a mesh that come with the program, at the addresses of the sky.
#[test]
fn the_meshes_that_ship_run() {
    let Some(sky) = Sky::new(3) else { return };
    for kind in ["mesh", "mesh-bridge"] {
        let text = |site: &str| {
            let path = format!("{}/../../../gateway/{kind}-{site}.toml", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(&path).expect("it ships").replace("192.0.2.", "192.168.77.")
        };
        let mut sites: Vec<Running> =
            ["a", "b", "c"].iter().zip(1..).map(|(name, n)| sky.start(n, &text(name))).collect();
        if kind == "mesh-bridge" {
            for n in 1..=3 {
                sky.run(n, &["ip", "address", "add", &format!("10.{n}.0.1/8"), "dev", "bent0"]);
            }
        }
        for (from, to) in [(1, 2), (2, 3), (3, 1)] {
            sky.expect_pings(from, &format!("10.{to}.0.1"));
        }
        for site in &sites {
            let figures = site.statistics();
            for (_, remote) in figures["remote"].as_object().expect("sites") {
                let received = remote["pid"].as_object().and_then(|pids| pids.values().next()).expect("one");
                assert!(received["received_packets"].as_u64() >= Some(5), "{figures:#}");
                assert_eq!(received["received_crc_errors"], 0, "{figures:#}");
            }
        }
        assert!(sites.iter_mut().all(|site| site.end() == Some(0)));
    }
}
