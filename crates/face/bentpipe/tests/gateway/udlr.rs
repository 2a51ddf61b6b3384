//! One-way carrier: site 1 sends, and site 2 returns in a tunnel over the network between them, which tshark reads. Devices of remote sites.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use bentpipe_testkit::Tshark;

use super::rig::{Sky, site_of_two, udp};

/// Site 1, the feed, or site 2, its receiver: `lan` has the kind of the device, `networks` a line with those of the other site.
fn site(n: usize, lan: &str, networks: &str) -> String {
    let (ends, remote) = match n {
        1 => (
            "[[output]]\nkind = \"udp\"\nto = [\"192.168.77.2:5004\"]",
            "send = \"0x101\"\nreceive = []\nudlr = { role = \"feed\", address = \"192.168.77.1\", receiver = \"192.168.77.2\", feed_address = \"10.1.0.1\", hello_interval = \"1 s\" }",
        ),
        _ => (
            "[[input]]\nkind = \"udp\"\nlisten = \"192.168.77.2:5004\"",
            "send = \"0x102\"\nreceive = [\"0x101\"]\nudlr = { role = \"receiver\", address = \"192.168.77.2\", feed_address = \"10.1.0.1\" }",
        ),
    };
    format!(
        "title = \"site {n}\"\n[lan]\n{lan}\n[carrier]\nrate = \"2 Mbit/s\"\n{ends}\n[remote.other]\n{remote}\n{networks}\n"
    )
}

fn router(n: usize) -> String {
    let other = 3 - n;
    let lan = format!("device = \"bent0\"\naddresses = [\"10.{n}.0.1/32\", \"fd00:{n}::1/128\"]");
    site(
        n,
        &lan,
        &format!("networks = [\"10.{other}.0.0/24\", \"fd00:{other}::/64\"]\nrohc = {{ cid = \"large\" }}"),
    )
}

#[test]
fn packets_return_in_a_tunnel_that_hellos_announce() {
    let Some(sky) = Sky::new(2) else { return };
    let file = sky.folder.path().join("return.pcapng");
    let mut capture = sky.sky.command("tshark");
    capture.args(["-q", "-i", "br0", "-f", "ip proto 47", "-a", "duration:8", "-w"]).arg(&file);
    let mut capture = capture.stderr(Stdio::piped()).spawn().expect("tshark starts");
    let mut lines = BufReader::new(capture.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("Capturing on")), "tshark does not capture");
    std::thread::spawn(move || lines.for_each(drop));
    let mut receiver = sky.start(2, &router(2));
    // Without a feed there is no HELLO, so the receiver knows no tunnel.
    assert_eq!(sky.pings(2, "10.1.0.1"), 0);
    let counts = receiver.statistics();
    assert!(counts["remote"]["other"]["tunnel_unknown"].as_u64() > Some(0), "{counts:#}");
    let mut feed = sky.start(1, &router(1));
    sky.expect_pings(1, "10.2.0.1");
    sky.expect_pings(1, "fd00:2::1");
    sky.expect_pings(2, "10.1.0.1");
    let figures = [feed.statistics(), receiver.statistics()];
    // Slots between HELLOs are idle, and not lost.
    let [idle, lost] =
        ["carrier_idle", "carrier_skipped"].map(|name| figures[0][name].as_u64().expect("a count"));
    assert!(idle > 10 * lost, "{idle} slots idle, {lost} lost");
    let [there, here] = figures.map(|figures| figures["remote"]["other"].clone());
    assert!(there["tunnel_hellos"].as_u64() > Some(0), "{there:#}");
    assert!(here["tunnel_hellos"].as_u64() > Some(0) && here["tunnel_known"] == 1.0, "{here:#}");
    assert!(there["tunnel_packets"].as_u64() >= Some(15), "{there:#}");
    assert!(here["tunnel_packets"].as_u64() >= there["tunnel_packets"].as_u64(), "{here:#}");
    assert_eq!(
        (&there["tunnel_errors"], &here["sent_packets"]),
        (&0.into(), &0.into()),
        "{there:#} {here:#}"
    );
    let _ = capture.wait();
    let fields = ["gre.proto", "eth.dst", "ip.dst", "icmp.checksum.status"];
    let rows = Tshark::on(&file).expect("asked for before").fields(&fields);
    let replies: Vec<_> = rows.iter().filter(|row| row[2].ends_with(",10.1.0.1")).collect();
    assert!(!replies.is_empty(), "{rows:?}");
    for row in replies {
        assert_eq!(row[0], "0x6558");
        assert!(row[1].ends_with(",02:00:0a:01:00:01"), "{row:?}");
        assert_eq!((&row[2][..], &row[3][..]), ("192.168.77.1,10.1.0.1", "1"), "{row:?}");
    }
    assert_eq!((feed.end(), receiver.end()), (Some(0), Some(0)));
    // HELLOs are TTL 1 packets of the carrier: none of them reached the LAN.
}

#[test]
fn bridges_return_frames_in_the_tunnel() {
    let Some(sky) = Sky::new(2) else { return };
    let bridge = |n: usize| site(n, "kind = \"bridge\"\ndevice = \"bent0\"", "");
    let mut sites = [2, 1].map(|n| sky.start(n, &bridge(n)));
    for n in [1, 2] {
        let added = sky.run(n, &["ip", "address", "add", &format!("10.9.0.{n}/24"), "dev", "bent0"]);
        assert!(added.is_empty(), "{added}");
    }
    sky.expect_pings(1, "10.9.0.2");
    sky.expect_pings(2, "10.9.0.1");
    assert!(sites.iter_mut().all(|site| site.end() == Some(0)));
}

/// Packets that the kernel has received from a device of a site, or sent to it.
fn packets(sky: &Sky, site: usize, device: &str, direction: &str) -> u64 {
    let text = sky.run(site, &["ip", "-j", "-s", "link", "show", device]);
    let links: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
    links[0]["stats64"][direction]["packets"].as_u64().expect("a count")
}

#[test]
fn a_remote_site_has_a_device_of_its_own() {
    let Some(sky) = Sky::new(2) else { return };
    let text = |n: usize| site_of_two(n, "rate = \"2 Mbit/s\"", &udp(n), "device = \"pid0\"");
    let mut sites = [1, 2].map(|n| sky.start(n, &text(n)));
    let before = packets(&sky, 2, "bent0", "rx");
    sky.expect_pings(1, "10.2.0.1");
    sky.expect_pings(2, "fd00:1::1");
    let counts = ["rx", "tx"].map(|direction| packets(&sky, 2, "pid0", direction));
    assert!(counts.iter().all(|count| *count >= 5), "{counts:?}");
    assert_eq!(packets(&sky, 2, "bent0", "rx"), before, "the LAN's device has none of them");
    let path = sites[1].path.clone();
    std::fs::write(&path, text(2).replace("pid0", "pid1")).expect("written");
    let (is_fine, said) = sites[1].ask("reload");
    assert!(!is_fine && said.contains("a device of a remote site cannot change"), "{said}");
    assert!(sites.iter_mut().all(|site| site.end() == Some(0)));
}

#[test]
fn contradictions_of_one_way_carriers_are_refused() {
    let refused = |text: &str| {
        let folder = bentpipe_testkit::Folder::new();
        let path = folder.write("site.toml", text);
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_bentpipe"))
            .args(["gateway", "check"])
            .arg(&path)
            .output()
            .expect("it starts");
        assert!(!output.status.success(), "{text}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (text, expected) in [
        (
            router(1).replace("receive = []", "receive = [\"0x102\"]"),
            "remote.other.receive: the remote site returns in a tunnel",
        ),
        (
            router(2).replace("receive = [\"0x101\"]", "receive = []"),
            "remote.other.receive: nothing is received from the feed",
        ),
        (
            router(1).replace("\"1 s\"", "\"1500 ms\""),
            "remote.other.udlr.hello_interval: expected 1 to 255 whole seconds",
        ),
        (router(1).replace("10.2.0.0/24", "192.168.77.0/24"), "has the receiver 192.168.77.2"),
        (router(1).replace("\"192.168.77.1\"", "\"ground\""), "expected an IPv4 address"),
        (router(1) + "device = \"bent0\"\n", "bent0 is taken by lan.device"),
    ] {
        let said = refused(&text);
        assert!(said.contains(expected), "{said}");
    }
}
