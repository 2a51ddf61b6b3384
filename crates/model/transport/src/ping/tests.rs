use bentpipe_net::testing::{Harness, MS, ms};
use bentpipe_units::Bytes;

use super::*;

fn pinger(addresses: [&str; 2], config: Ping) -> Harness<Pinger> {
    let addresses = addresses.map(|address| address.parse().unwrap());
    Harness::new(Pinger::new(&config, addresses, ms(5), Some(ms(1000))).unwrap())
}

/// The request with the type of a reply, as a host sends it back.
fn reply(request: &Packet) -> Packet {
    let mut bytes = request.to_vec();
    let ip = ip::Packet::new_checked(&bytes[..]).unwrap();
    let upper = ip.upper().unwrap();
    let (offset, pseudo, is_v4) = (upper.offset, upper.pseudo, upper.protocol == Protocol::ICMP);
    let message = Message::new_checked(&bytes[offset..]).unwrap();
    message.verify_checksum((!is_v4).then_some(&pseudo)).unwrap();
    bytes[offset] = if is_v4 { 0 } else { 129 };
    let mut message = Message::new_checked(&mut bytes[offset..]).unwrap();
    message.fill_checksum((!is_v4).then_some(&pseudo));
    Packet::from_bytes(&bytes)
}

#[test]
fn requests_are_those_of_ping_and_replies_give_round_trips() {
    for addresses in [["10.0.0.1:300", "10.0.0.2:0"], ["[2001:db8::1]:300", "[2001:db8::2]:0"]] {
        let config = Ping { interval: ms(100), packets: Some(4), ..Ping::default() };
        let mut rig = pinger(addresses, config);
        rig.run_until(320 * MS);
        let len = if addresses[0].starts_with('[') { 40 + 64 } else { 84 };
        assert_eq!(rig.times(), [(5 * MS, len), (105 * MS, len), (205 * MS, len), (305 * MS, len)]);
        let requests: Vec<Packet> = rig.out.iter().map(|(_, _, packet)| packet.clone()).collect();
        // The second reply is lost, the first comes twice, the fourth is damaged.
        for (n, at) in [(0, 330), (0, 331), (2, 340)] {
            rig.receive(at * MS, 0, reply(&requests[n]));
        }
        let mut damaged = reply(&requests[3]);
        damaged.flip_bit(8 * (len as u64 - 1));
        rig.receive(341 * MS, 0, damaged);
        assert_eq!((rig.value("requests"), rig.value("replies"), rig.value("unanswered")), (4.0, 2.0, 1.0));
        assert_eq!(
            rig.value("outstanding"),
            1.0,
            "none behind the fourth is answered, so it may be in flight"
        );
        assert_eq!((rig.value("dropped-unexpected"), rig.value("dropped-bad-checksum")), (1.0, 1.0));
        assert_eq!(rig.value("duplicates"), 1.0);
        // 325 and 135 ms.
        assert_eq!((rig.value("rtt-min"), rig.value("rtt-max"), rig.value("rtt")), (0.135, 0.325, 0.135));
        assert!((rig.value("rtt-deviation") - 0.095).abs() < 1e-9);
    }
}

#[test]
fn a_late_reply_settles_no_request_behind_one_that_was_answered() {
    let addresses = ["10.0.0.1:300", "10.0.0.2:0"];
    let mut rig = pinger(addresses, Ping { interval: ms(100), packets: Some(4), ..Ping::default() });
    rig.run_until(320 * MS);
    let requests: Vec<Packet> = rig.out.iter().map(|(_, _, packet)| packet.clone()).collect();
    for (number, settled, unanswered) in [(2, 3.0, 2.0), (0, 3.0, 1.0), (1, 3.0, 0.0), (3, 4.0, 0.0)] {
        rig.receive(330 * MS, 0, reply(&requests[number]));
        assert_eq!((rig.value("requests-settled"), rig.value("unanswered")), (settled, unanswered));
    }
}

#[test]
fn impossible_values_are_named() {
    let addresses = ["10.0.0.1:300", "10.0.0.2:0"].map(|address| address.parse().unwrap());
    let key = |config: Ping| Pinger::new(&config, addresses, ms(0), None).err().map(|error| error.key);
    assert_eq!(key(Ping { interval: ms(0), ..Ping::default() }), Some("interval"));
    assert_eq!(key(Ping { packets: Some(0), ..Ping::default() }), Some("packets"));
    assert_eq!(key(Ping { dscp: 64, ..Ping::default() }), Some("dscp"));
    assert_eq!(key(Ping { payload: Bytes::new(0), ..Ping::default() }), None);
}
