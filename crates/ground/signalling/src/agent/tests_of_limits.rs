//! Agents that anyone may call: memory, and amplification.

use std::net::SocketAddr;

use bentpipe_units::Span;

use super::*;
use crate::sdp::{Codec, Direction};

const HERE: &str = "192.0.2.1:5060";

fn agent(calls: usize) -> Agent {
    let mut agent =
        Agent::new(Config::new("bob", HERE.parse().expect("an address")), RandomStream::new(1, "a"));
    agent.limit_peers(Limits { calls, unproven: calls / 2, transactions: 4 * calls });
    agent
}

fn peer(host: u32) -> Peer {
    let address = std::net::Ipv4Addr::from(0x0a00_0000 + host);
    Peer { transport: Transport::Udp, address: SocketAddr::new(address.into(), 5061) }
}

fn request(method: &str, number: u32, from: Peer, tag: &str) -> Vec<u8> {
    let (at, sdp) = (
        from.address,
        "v=0\r\no=- 1 1 IN IP4 10.0.0.1\r\ns=-\r\nc=IN IP4 10.0.0.1\r\nt=0 0\r\nm=audio 16384 RTP/AVP 8\r\n",
    );
    let body = if method == "INVITE" { sdp } else { "" };
    let (kind, len) = ("application/sdp", body.len());
    format!(
        "{method} sip:bob@{HERE} SIP/2.0\r\nVia: SIP/2.0/UDP {at};branch=z9hG4bK{method}{number}\r\nMax-Forwards: 70\r\n\
         From: <sip:a@{at}>;tag={number}\r\nTo: <sip:bob@{HERE}>{tag}\r\nCall-ID: {number}@{at}\r\nCSeq: 1 {method}\r\n\
         Contact: <sip:a@{at}>\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn capabilities() -> Capabilities {
    let codecs = vec![Codec::new(8, "PCMA", 8000)];
    Capabilities {
        address: [192, 0, 2, 1].into(),
        port: 4000,
        codecs,
        ptime: 20,
        direction: Direction::SendRecv,
    }
}

/// Answers all calls that ring, and returns the sent messages.
fn answered(agent: &mut Agent, now: Time) -> Vec<Transmit> {
    while let Some(event) = agent.poll_event() {
        if let Event::Incoming { call, .. } = event {
            agent.ring(now, call);
            agent.answer(now, call, capabilities());
        }
    }
    std::iter::from_fn(|| agent.poll_transmit()).collect()
}

fn status(transmit: &Transmit) -> Option<u16> {
    Message::parse(&transmit.bytes).ok()?.status()
}

fn run(agent: &mut Agent, from: u64, to: u64) -> Vec<Transmit> {
    let mut sent = vec![];
    for tenth in from * 10..to * 10 {
        let now = Time::ZERO + Span::from_millis(tenth * 100);
        agent.handle_timeout(now);
        sent.extend(answered(agent, now));
    }
    sent
}

#[test]
fn a_flood_of_calls_is_refused_without_state() {
    let mut agent = agent(100);
    let mut sent = vec![];
    for number in 0..5000 {
        agent.receive(Time::ZERO, peer(1), &request("INVITE", number, peer(1), ""));
        sent.extend(answered(&mut agent, Time::ZERO));
    }
    let refused = sent.iter().filter(|transmit| status(transmit) == Some(503)).count();
    assert_eq!((agent.calls(), agent.stack().transactions(), refused), (50, 50, 4950));
    assert!(String::from_utf8_lossy(&sent[200].bytes).contains("Retry-After: 10\r\n"));
    // Requests that are not calls leave transactions too.
    for number in 0..5000 {
        agent.receive(Time::ZERO, peer(2), &request("OPTIONS", number, peer(2), ""));
    }
    assert_eq!(agent.stack().transactions(), 400);
    // They give way to a call.
    let sent = {
        agent.receive(Time::ZERO, peer(3), &request("INVITE", 9000, peer(3), ""));
        answered(&mut agent, Time::ZERO)
    };
    assert!(sent.iter().any(|transmit| status(transmit) == Some(200)));
    assert_eq!((agent.calls(), agent.stack().transactions()), (50, 399));
    run(&mut agent, 0, 100);
    assert_eq!(
        (agent.calls(), agent.stack().transactions(), agent.unproven.len()),
        (0, 0, 0),
        "nothing is left"
    );
}

#[test]
fn repeats_to_an_address_that_is_not_proved_do_not_amplify() {
    let mut agent = agent(1000);
    let mut came = 0;
    let mut sent = vec![];
    for number in 0..50 {
        let invite = request("INVITE", number, peer(1), "");
        came += invite.len();
        agent.receive(Time::ZERO, peer(1), &invite);
        sent.extend(answered(&mut agent, Time::ZERO));
    }
    sent.extend(run(&mut agent, 0, 100));
    let len: usize = sent.iter().map(|transmit| transmit.bytes.len()).sum();
    assert!(len < 3 * came, "{len} B for {came} B");
    assert!(agent.stack().counters().withheld > 400, "{:?}", agent.stack().counters());
}

#[test]
fn a_caller_that_acknowledges_has_the_repeats_of_the_rfc() {
    let mut agent = agent(10);
    agent.receive(Time::ZERO, peer(1), &request("INVITE", 1, peer(1), ""));
    let sent = answered(&mut agent, Time::ZERO);
    let ok = sent.iter().find(|transmit| status(transmit) == Some(200)).expect("an answer");
    let tag = Message::parse(&ok.bytes).expect("a response").tag(name::TO).expect("a tag");
    assert_eq!(agent.unproven.len(), 1);
    agent.receive(Time::ZERO, peer(1), &request("ACK", 1, peer(1), &format!(";tag={tag}")));
    assert_eq!(agent.unproven.len(), 0);
    // The next call's ACK is lost: ten repeats and a BYE.
    agent.receive(Time::ZERO, peer(1), &request("INVITE", 2, peer(1), ""));
    let sent = [answered(&mut agent, Time::ZERO), run(&mut agent, 0, 40)].concat();
    let count = |wanted: u16| sent.iter().filter(|transmit| status(transmit) == Some(wanted)).count();
    assert_eq!(count(200), 11);
    assert!(sent.iter().any(|transmit| transmit.bytes.starts_with(b"BYE")));
    // Calls from proved hosts have all the room.
    for number in 10..30 {
        agent.receive(Time::ZERO, peer(1), &request("INVITE", number, peer(1), ""));
    }
    assert_eq!(agent.calls(), 10);
}

/// Calls that are never acknowledged are of one host, then of many that are forged.
#[test]
fn callers_without_proof_share_their_room_by_source() {
    let mut agent = agent(64);
    let called = |agent: &mut Agent, number: u32, from: Peer| {
        agent.receive(Time::ZERO, from, &request("INVITE", number, from, ""));
        answered(agent, Time::ZERO)
    };
    let proved = |agent: &mut Agent, number: u32, from: Peer| {
        let sent = called(agent, number, from);
        let ok = sent.iter().find(|transmit| status(transmit) == Some(200)).expect("an answer");
        let tag = Message::parse(&ok.bytes).expect("a response").tag(name::TO).expect("a tag");
        agent.receive(Time::ZERO, from, &request("ACK", number, from, &format!(";tag={tag}")));
        let is_up = |event: Event| matches!(event, Event::Confirmed { .. });
        assert!(std::iter::from_fn(|| agent.poll_event()).any(is_up), "call {number}");
    };
    (0..40).for_each(|number| drop(called(&mut agent, number, peer(1))));
    assert_eq!(agent.unproven.len(), 32);
    // Its own calls are refused as they come, so that the first ones stay.
    assert!(called(&mut agent, 41, peer(1)).iter().any(|transmit| status(transmit) == Some(503)));
    proved(&mut agent, 50, peer(2));
    // Now each forged host has one.
    (100..1000).for_each(|number| drop(called(&mut agent, number, peer(number))));
    assert_eq!((agent.unproven.len(), agent.calls()), (32, 33));
    assert!(agent.stack().transactions() <= 34, "those of calls that there are");
    proved(&mut agent, 1500, peer(3));
    assert_eq!((agent.unproven.len(), agent.calls()), (31, 33));
    // Calls that are proven fill the rest, and take the room of those without proof.
    for number in 1600..1680 {
        called(&mut agent, number, peer(2));
    }
    assert_eq!((agent.unproven.len(), agent.calls()), (0, 64));
    run(&mut agent, 0, 100);
    assert_eq!(agent.unproven.len(), 0);
}

/// Calls a peer's way and acknowledges. Returns the tag of the answer, if it was answered.
fn acknowledged(agent: &mut Agent, number: u32, from: Peer) -> Option<String> {
    agent.receive(Time::ZERO, from, &request("INVITE", number, from, ""));
    let sent = answered(agent, Time::ZERO);
    let ok = sent.iter().find(|transmit| transmit.to == from && status(transmit) == Some(200))?;
    let tag = format!(";tag={}", Message::parse(&ok.bytes).ok()?.tag(name::TO)?);
    agent.receive(Time::ZERO, from, &request("ACK", number, from, &tag));
    Some(tag)
}

/// A host proves its address, takes all calls, and answers no BYE.
#[test]
fn callers_with_proof_share_the_calls_by_source() {
    let mut agent = agent(8);
    let taken = (0..20).filter(|number| acknowledged(&mut agent, *number, peer(1)).is_some()).count();
    assert_eq!((taken, agent.calls()), (8, 8), "all while no other host calls");
    let others = (100..120).filter(|number| acknowledged(&mut agent, *number, peer(2)).is_some()).count();
    assert_eq!((others, agent.displaced(), agent.ending.len()), (4, 4, 4), "half of them");
    let thirds = (200..220).filter(|number| acknowledged(&mut agent, *number, peer(3)).is_some()).count();
    assert_eq!(thirds, 2);
    assert!((300..320).all(|number| acknowledged(&mut agent, number, peer(1)).is_none()), "it has its share");
    // The ends of those calls are known before an answer to a BYE.
    let ended = std::iter::from_fn(|| agent.poll_event()).count();
    assert!(ended <= 6 && agent.calls() - agent.ending.len() == 8, "{ended} {}", agent.calls());
    run(&mut agent, 0, 100);
    assert_eq!((agent.calls(), agent.ending.len(), agent.incoming.len()), (8, 0, 8));
}

/// Calls that this side has ended make room at once.
#[test]
fn calls_end_with_their_bye() {
    // Transactions of 16 requests: those of calls that were acknowledged give way.
    let mut agent = agent(4);
    for round in 0..20 {
        for number in 0..4 {
            acknowledged(&mut agent, 10 * round + number, peer(1)).expect("room");
        }
        let calls: Vec<CallId> =
            agent.calls.iter().filter(|(_, call)| !call.is_ending).map(|(id, _)| *id).collect();
        calls.into_iter().for_each(|call| agent.hang_up(Time::ZERO, call));
        let byes = std::iter::from_fn(|| agent.poll_transmit()).filter(|sent| sent.bytes.starts_with(b"BYE"));
        assert_eq!(byes.count(), 4);
        assert!(agent.calls() <= 8 && agent.clients.len() <= 8, "{} calls", agent.calls());
    }
    run(&mut agent, 0, 100);
    assert_eq!((agent.calls(), agent.clients.len(), agent.incoming.len()), (0, 0, 0));
}
