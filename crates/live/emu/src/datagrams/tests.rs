use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::*;

fn pair(at: &str) -> Option<(UdpSocket, UdpSocket, SocketAddr)> {
    let (sender, receiver) = (UdpSocket::bind(at).ok()?, UdpSocket::bind(at).ok()?);
    let to = receiver.local_addr().ok()?;
    Some((sender, receiver, to))
}

/// Takes `count` datagrams out, which over loopback are there when they were sent.
fn take(
    receiver: &UdpSocket,
    inbox: &mut Inbox,
    count: usize,
) -> Vec<(Vec<u8>, Option<SocketAddr>, Option<u64>)> {
    let mut taken = Vec::new();
    while taken.len() < count {
        assert!(inbox.receive(receiver).expect("no error") > 0, "{} of {count} came", taken.len());
        taken.extend(inbox.iter().map(|it| (it.bytes.to_vec(), it.from, it.arrived_ns)));
    }
    taken
}

#[test]
fn more_than_a_batch_arrives_as_it_was_sent() {
    for at in ["127.0.0.1:0", "[::1]:0"] {
        let Some((sender, receiver, to)) = pair(at) else { continue };
        let own = sender.local_addr().expect("bound");
        let mut outbox = Outbox::new();
        for number in 0..150_usize {
            outbox.datagram(Some(to), number).fill(number as u8);
        }
        assert_eq!(outbox.len(), 150);
        let sent = outbox.send(&sender);
        assert_eq!((sent.sent, sent.refused, outbox.is_empty()), (150, 0, true));
        let taken = take(&receiver, &mut Inbox::new(1500), 150);
        for (number, (bytes, from, stamp)) in taken.into_iter().enumerate() {
            assert_eq!((bytes, from, stamp), (vec![number as u8; number], Some(own), None));
        }
    }
}

#[test]
fn arrivals_are_stamped_by_the_machine_s_clock() {
    let (sender, receiver, to) = pair("127.0.0.1:0").expect("loopback");
    stamp_arrivals(&receiver).expect("stamps");
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let before = now();
    let mut outbox = Outbox::new();
    outbox.datagram(Some(to), 10);
    outbox.send(&sender);
    let mut inbox = Inbox::new(100);
    let taken = take(&receiver, &mut inbox, 1);
    let stamp = taken[0].2.expect("a stamp");
    assert!((before..=now()).contains(&stamp), "{before} {stamp}");
}

#[test]
fn a_long_datagram_is_cut_and_that_is_said() {
    let (sender, receiver, to) = pair("127.0.0.1:0").expect("loopback");
    let mut outbox = Outbox::new();
    outbox.datagram(Some(to), 11).fill(7);
    outbox.datagram(Some(to), 10).fill(8);
    outbox.send(&sender);
    let mut inbox = Inbox::new(10);
    inbox.receive(&receiver).expect("no error");
    let cut: Vec<_> = inbox.iter().map(|it| (it.bytes.to_vec(), it.is_truncated)).collect();
    assert_eq!(cut, [(vec![7; 10], true), (vec![8; 10], false)]);
}

#[test]
fn what_is_refused_is_counted_and_the_rest_goes_out() {
    let (sender, receiver, to) = pair("127.0.0.1:0").expect("loopback");
    let mut outbox = Outbox::new();
    outbox.datagram(Some(to), 1);
    outbox.datagram(Some(to), 70_000);
    outbox.datagram(Some("[::1]:9".parse().expect("an address")), 1);
    outbox.datagram(Some(to), 2);
    let sent = outbox.send(&sender);
    assert_eq!((sent.sent, sent.refused), (2, 2));
    assert!(sent.error.is_some());
    assert_eq!(take(&receiver, &mut Inbox::new(10), 2).len(), 2);
}

#[test]
fn a_connected_socket_needs_no_address_and_hears_that_nobody_listens() {
    let (sender, receiver, to) = pair("127.0.0.1:0").expect("loopback");
    sender.connect(to).expect("connects");
    let mut outbox = Outbox::new();
    outbox.datagram(None, 3);
    assert_eq!(outbox.send(&sender).sent, 1);
    assert_eq!(take(&receiver, &mut Inbox::new(10), 1)[0].0.len(), 3);
    drop(receiver);
    outbox.datagram(None, 3);
    outbox.send(&sender);
    std::thread::sleep(Duration::from_millis(10));
    assert!(Inbox::new(10).receive(&sender).is_err());
}

#[test]
fn what_a_full_buffer_drops_is_counted() {
    let (sender, receiver, to) = pair("127.0.0.1:0").expect("loopback");
    stamp_arrivals(&receiver).expect("remarks");
    let room = grow_receive_buffer(&receiver, 20_000).expect("room");
    assert!(room >= 20_000);
    let mut outbox = Outbox::new();
    (0..500).for_each(|_| outbox.datagram(Some(to), 500).fill(1));
    outbox.send(&sender);
    let mut inbox = Inbox::new(500);
    let mut came = 0;
    while inbox.receive(&receiver).expect("no error") > 0 {
        came += inbox.iter().count();
    }
    // The remark comes with the next that finds room.
    outbox.datagram(Some(to), 500);
    outbox.send(&sender);
    inbox.receive(&receiver).expect("no error");
    assert_eq!(came + inbox.drops().expect("a count") as usize, 500);
}
