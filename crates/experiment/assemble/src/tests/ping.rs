//! Echo requests through a network, compared with arithmetic and tshark.

use bentpipe_record::Capture;
use bentpipe_testkit::{Folder, Tshark};
use bentpipe_transport::ping::Pinger;
use bentpipe_units::{Span, Time};

use crate::Built;

/// 1 Mbit/s and 2 Mbit/s, 20 ms and 250 ms; a lossy way back for the second flow's node only.
const PATH: &str = "title = \"t\"\nduration = \"10 s\"\nnode.a = {}\nnode.r = { kind = \"router\" }\nnode.b = {}\n\
    link.x = { between = [\"a\", \"r\"], rate = \"1 Mbit/s\", delay = \"20 ms\" }\n\
    link.y = { between = [\"r\", \"b\"], rate = \"2 Mbit/s\", delay = \"250 ms\" }\n\
    [flow.ping]\nfrom = \"a\"\nto = \"b\"\nip = IP\n\
    traffic = { kind = \"ping\", interval = \"100 ms\", payload = \"972 B\", packets = 20 }\n\
    [flow.back]\nfrom = \"b\"\nto = \"a\"\nip = IP\nstart = \"5 s\"\ntraffic = \"ping\"\n\
    [probe]\ncapture = [\"a:x\"]\n";

fn built(ip: u8) -> Built {
    super::built(&PATH.replace("IP", &ip.to_string()))
}

#[test]
fn round_trips_are_delays_and_serialisation() {
    for (ip, len) in [(4, 1000_u64), (6, 1020)] {
        let mut built = built(ip);
        built.network.run_until(Time::ZERO + Span::from_secs(10));
        // Bits over 1 Mbit/s and 2 Mbit/s, there and back.
        let sent = Span::from_nanos(2 * len * 8 * (1000 + 500));
        let expected = sent + Span::from_millis(540);
        let sender = built.flows[0].sender;
        let pinger = built.network.element::<Pinger>(sender).expect("a source");
        assert_eq!(pinger.rtts().range(), Some((expected, expected)), "IPv{ip}");
        let sender = built.flows[1].sender;
        let back = built.network.element::<Pinger>(sender).expect("a source");
        assert!(back.rtts().range().is_some_and(|(least, _)| least > Span::from_millis(540)));
    }
}

#[test]
fn tshark_finds_the_reply_to_each_request() {
    let mut built = built(4);
    let folder = Folder::new();
    let path = folder.file("ping.pcap");
    let point = built.captures.remove(0);
    let capture = Capture::start(&path, point.format, 65_535).expect("a file");
    for (element, port) in [point.sent, point.received] {
        built.network.tap(element, port, capture.tap());
    }
    built.network.run_until(Time::ZERO + Span::from_secs(4));
    assert_eq!(capture.finish().expect("written"), 40);
    let Some(tshark) = Tshark::on(&path) else { return };
    let text = tshark.options(&["-V"]).text();
    assert_eq!(text.matches("Type: 0 (Echo (ping) reply)").count(), 20, "{text}");
    assert_eq!(text.matches("[Response time: ").count(), 20);
    assert!(!text.contains("[Checksum Status: Bad]") && !text.contains("No response seen"));
}
