//! Calls between two agents: message flows of RFC 3665, timers, loss.

use bentpipe_units::Span;
use proptest::prelude::*;

use super::*;
use crate::net::{Net, Path, at, udp};
use crate::sdp::{Codec, Direction};

pub(super) const CALLER: u16 = 5070;
pub(super) const CALLEE: u16 = 5080;

pub(super) fn capabilities(port: u16) -> Capabilities {
    let codecs = vec![Codec::new(8, "PCMA", 8000), Codec::new(18, "G729", 8000)];
    Capabilities { address: [192, 0, 2, 1].into(), port, codecs, ptime: 20, direction: Direction::SendRecv }
}

fn agent(port: u16, seed: u64) -> Agent {
    Agent::new(Config::new(&format!("u{port}"), at(port)), RandomStream::new(seed, &port.to_string()))
}

pub(super) fn two(path: Path, seed: u64) -> Net {
    let mut net = Net::new(path, seed);
    [CALLER, CALLEE].into_iter().for_each(|port| net.add(port, agent(port, seed)));
    net
}

pub(super) fn dial(net: &mut Net) -> CallId {
    let (now, target) = (net.now, "sip:bob@192.0.2.1:5080".parse().expect("a URI"));
    net.agent(CALLER).call(now, &target, udp(CALLEE), capabilities(4000)).expect("room")
}

pub(super) fn events(net: &mut Net, port: u16) -> Vec<Event> {
    let agent = net.agent(port);
    std::iter::from_fn(|| agent.poll_event()).collect()
}

pub(super) fn incoming(net: &mut Net) -> CallId {
    let found = events(net, CALLEE).into_iter().find_map(|event| match event {
        Event::Incoming { call, .. } => Some(call),
        _ => None,
    });
    found.expect("a call comes in")
}

/// Lets the callee ring and answer; both sides are up afterwards.
fn set_up(net: &mut Net) -> (CallId, CallId) {
    let call = dial(net);
    net.run_for(1.0);
    let other = incoming(net);
    let now = net.now;
    net.agent(CALLEE).ring(now, other);
    net.agent(CALLEE).answer(now, other, capabilities(4002));
    net.run_for(2.0);
    assert!(events(net, CALLER).iter().any(|event| matches!(event, Event::Answered { media: Some(_), .. })));
    assert!(events(net, CALLEE).iter().any(|event| matches!(event, Event::Confirmed { media: Some(_), .. })));
    (call, other)
}

pub(super) fn is_idle(net: &mut Net) {
    assert!(!net.run_for(400.0), "timers are left");
    for port in [CALLER, CALLEE] {
        let agent = net.agent(port);
        assert_eq!((agent.calls(), agent.stack().transactions()), (0, 0));
        assert!(agent.by_dialog.is_empty() && agent.by_server.is_empty() && agent.merged.is_empty());
        assert!(agent.clients.values().all(|purpose| *purpose == Purpose::Other), "{:?}", agent.clients);
    }
}

#[test]
fn successful_session_of_rfc_3665() {
    let mut net = two(Path::clean(10), 1);
    let (call, _) = set_up(&mut net);
    let now = net.now;
    net.agent(CALLER).hang_up(now, call);
    net.run_for(1.0);
    let flow = ["INVITE", "100 INVITE", "180 INVITE", "200 INVITE", "ACK", "BYE", "200 BYE"];
    assert_eq!(net.messages(CALLER, CALLEE), flow);
    assert_eq!(events(&mut net, CALLER), [Event::Ended { call, by_peer: false }]);
    assert!(matches!(events(&mut net, CALLEE)[..], [Event::Ended { by_peer: true, .. }]));
    is_idle(&mut net);
}

#[test]
fn over_geo_each_request_is_sent_twice_and_set_up_takes_a_round_trip() {
    let mut net = two(Path::clean(270), 1);
    let (call, _) = set_up(&mut net);
    let now = net.now;
    net.agent(CALLER).hang_up(now, call);
    net.run_for(3.0);
    assert_eq!(net.times(CALLER, "INVITE"), [0.0, 0.5]);
    assert_eq!(net.times(CALLER, "BYE").len(), 2);
    assert_eq!(net.times(CALLER, "ACK").len(), net.times(CALLEE, "200 INVITE").len());
    is_idle(&mut net);
}

#[test]
fn timers_a_and_b_of_an_invite_without_an_answer() {
    let mut net = two(Path { loss: 1.0, ..Path::clean(10) }, 1);
    let call = dial(&mut net);
    net.run_for(31.9);
    assert_eq!(net.times(CALLER, "INVITE"), [0.0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5]);
    assert_eq!(events(&mut net, CALLER), []);
    net.run_for(0.2);
    assert_eq!(events(&mut net, CALLER), [Event::Failed { call, failure: Failure::TimedOut }]);
    is_idle(&mut net);
}

#[test]
fn timers_e_and_f_of_a_bye_without_an_answer() {
    let mut net = two(Path::clean(10), 1);
    let (call, _) = set_up(&mut net);
    net.path.loss = 1.0;
    let start = net.now.as_secs_f64();
    let now = net.now;
    net.agent(CALLER).hang_up(now, call);
    net.run_for(33.0);
    let times: Vec<_> = net.times(CALLER, "BYE").into_iter().map(|time| time - start).collect();
    assert_eq!(times, [0.0, 0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5, 23.5, 27.5, 31.5]);
    assert_eq!(events(&mut net, CALLER), [Event::Ended { call, by_peer: false }]);
}

#[test]
fn a_2xx_is_repeated_until_its_ack_and_given_up_after_64_t1() {
    let mut net = two(Path::clean(10), 1);
    dial(&mut net);
    net.run_for(1.0);
    let other = incoming(&mut net);
    net.path.loss = 1.0;
    let now = net.now;
    net.agent(CALLEE).answer(now, other, capabilities(4002));
    net.run_for(33.0);
    assert_eq!(
        net.times(CALLEE, "200 INVITE"),
        [1.0, 1.5, 2.5, 4.5, 8.5, 12.5, 16.5, 20.5, 24.5, 28.5, 32.5]
    );
    assert_eq!(net.times(CALLEE, "BYE")[0], 33.0);
    assert_eq!(events(&mut net, CALLEE), [Event::Failed { call: other, failure: Failure::NotAcknowledged }]);
}

#[test]
fn timers_g_and_h_of_a_refusal_without_an_ack() {
    let mut net = two(Path::clean(10), 1);
    dial(&mut net);
    net.run_for(1.0);
    let other = incoming(&mut net);
    net.path.loss = 1.0;
    let now = net.now;
    net.agent(CALLEE).reject(now, other, 603);
    net.run_for(40.0);
    assert_eq!(
        net.times(CALLEE, "603 INVITE"),
        [1.0, 1.5, 2.5, 4.5, 8.5, 12.5, 16.5, 20.5, 24.5, 28.5, 32.5]
    );
}

#[test]
fn a_caller_cancels_after_the_first_provisional_response() {
    let mut net = two(Path::clean(100), 1);
    let call = dial(&mut net);
    let now = net.now;
    net.agent(CALLER).hang_up(now, call);
    net.run_for(2.0);
    let flow = ["INVITE", "100 INVITE", "CANCEL", "200 CANCEL", "487 INVITE", "ACK"];
    assert_eq!(net.messages(CALLER, CALLEE), flow);
    assert_eq!(events(&mut net, CALLER), [Event::Failed { call, failure: Failure::Cancelled }]);
    assert!(matches!(events(&mut net, CALLEE)[1], Event::Failed { failure: Failure::Cancelled, .. }));
    is_idle(&mut net);
}

#[test]
fn a_cancel_that_crosses_the_2xx_ends_in_a_bye() {
    let mut net = two(Path::clean(100), 1);
    let call = dial(&mut net);
    net.run_for(0.35);
    let other = incoming(&mut net);
    let now = net.now;
    net.agent(CALLEE).answer(now, other, capabilities(4002));
    net.flush();
    net.agent(CALLER).hang_up(now, call);
    net.run_for(3.0);
    assert_eq!(events(&mut net, CALLER), [Event::Failed { call, failure: Failure::Cancelled }]);
    assert!(net.messages(CALLER, CALLEE).contains(&"BYE"));
    is_idle(&mut net);
}

#[test]
fn hold_and_resume() {
    let mut net = two(Path::clean(50), 1);
    let (call, other) = set_up(&mut net);
    for direction in [Direction::SendOnly, Direction::SendRecv] {
        let now = net.now;
        assert!(net.agent(CALLER).reinvite(now, call, direction));
        assert!(!net.agent(CALLER).reinvite(now, call, direction), "one at a time");
        net.run_for(1.0);
        let media = |events: Vec<Event>| match &events[..] {
            [Event::Changed { media, .. }] => media.direction,
            other => panic!("{other:?}"),
        };
        assert_eq!(media(events(&mut net, CALLER)), direction);
        assert_eq!(media(events(&mut net, CALLEE)), direction.reversed());
    }
    let now = net.now;
    net.agent(CALLEE).hang_up(now, other);
    is_idle(&mut net);
}

#[test]
fn two_reinvites_that_cross_are_refused_and_sent_again_at_different_times() {
    let mut net = two(Path::clean(50), 3);
    let (call, other) = set_up(&mut net);
    let now = net.now;
    net.agent(CALLER).reinvite(now, call, Direction::SendOnly);
    net.agent(CALLEE).reinvite(now, other, Direction::SendRecv);
    net.run_for(0.5);
    assert_eq!(net.messages(CALLER, CALLEE).iter().filter(|text| **text == "491 INVITE").count(), 2);
    net.run_for(5.0);
    let changes =
        events(&mut net, CALLER).iter().filter(|event| matches!(event, Event::Changed { .. })).count();
    assert_eq!(changes, 2);
}

#[test]
fn calls_beyond_the_limit_and_without_a_codec_are_refused() {
    let mut net = two(Path::clean(10), 1);
    net.agent(CALLEE).config.max_calls = 0;
    let call = dial(&mut net);
    net.run_for(1.0);
    assert_eq!(events(&mut net, CALLER), [Event::Failed { call, failure: Failure::Status(486) }]);
    net.agent(CALLEE).config.max_calls = 1;
    let call = dial(&mut net);
    net.run_for(0.1);
    let (now, other) = (net.now, incoming(&mut net));
    net.agent(CALLEE).answer(
        now,
        other,
        Capabilities { codecs: vec![Codec::new(3, "GSM", 8000)], ..capabilities(1) },
    );
    net.run_for(1.0);
    assert_eq!(events(&mut net, CALLEE), [Event::Failed { call: other, failure: Failure::NoCodec }]);
    assert!(events(&mut net, CALLER).contains(&Event::Failed { call, failure: Failure::Status(488) }));
    is_idle(&mut net);
}

#[test]
fn an_invite_without_an_offer_gets_one_in_the_2xx() {
    let mut agent = agent(CALLEE, 1);
    let invite = "INVITE sip:b@192.0.2.1:5080 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:9;branch=z9hG4bKa\r\nFrom: <sip:a@b>;tag=1\r\n\
        To: <sip:b@b>\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\nContact: <sip:a@192.0.2.1:9>\r\nMax-Forwards: 70\r\n\r\n";
    agent.receive(Time::ZERO, udp(9), invite.as_bytes());
    agent.answer(Time::ZERO, CallId(1), capabilities(4002));
    let ok = Message::parse(&agent.poll_transmit().expect("200").bytes).expect("well-formed");
    let offer = crate::sdp::Session::parse(&ok.body).expect("an offer");
    assert_eq!(offer.media[0].formats, ["8", "18"]);
    let (answer, _) = crate::sdp::answer(
        &offer,
        &Capabilities { codecs: vec![Codec::new(18, "G729", 8000)], ..capabilities(7) },
        1,
        1,
    )
    .expect("fits");
    let to = ok.headers.get(name::TO).expect("To");
    let ack = invite
        .replace("INVITE", "ACK")
        .replace("z9hG4bKa", "z9hG4bKb")
        .replace("To: <sip:b@b>", &format!("To: {to}"));
    let ack = ack.replace("\r\n\r\n", &format!("\r\nContent-Type: application/sdp\r\n\r\n{answer}"));
    agent.receive(Time::ZERO, udp(9), ack.as_bytes());
    let confirmed = std::iter::from_fn(|| agent.poll_event()).last().expect("an event");
    let Event::Confirmed { media: Some(media), .. } = confirmed else { panic!("{confirmed:?}") };
    assert_eq!((&media.codec.name[..], media.port), ("G729", 7));
}

/// Statuses that RFC 4475 asks of an element that gets the request.
#[test]
fn torture_requests_are_answered_as_rfc_4475_has_it() {
    for (name, expected) in [
        ("badinv01", Some(400)),
        ("clerr", Some(400)),
        ("ncl", Some(400)),
        ("scalar02", Some(400)),
        ("scalarlg", None),
        ("quotbal", Some(400)),
        ("ltgtruri", Some(400)),
        ("lwsruri", Some(400)),
        ("lwsstart", Some(400)),
        ("trws", Some(400)),
        ("escruri", Some(400)),
        ("baddate", Some(400)),
        ("regbadct", Some(400)),
        ("badaspec", Some(400)),
        ("badvers", Some(505)),
        ("mismatch01", Some(400)),
        ("mismatch02", Some(400)),
        ("bigcode", None),
        ("unkscm", Some(416)),
        ("novelsc", Some(416)),
        ("bext01", Some(420)),
        ("invut", Some(415)),
        ("sdp01", Some(406)),
        ("multi01", Some(400)),
        ("mcl01", Some(400)),
        ("bcast", None),
        ("zeromf", Some(200)),
        ("esc02", Some(501)),
        ("regescrt", Some(405)),
        ("insuf", Some(400)),
    ] {
        let path = format!("{}/tests/corpus/sip_message/{name}.dat", env!("CARGO_MANIFEST_DIR"));
        let mut agent = agent(CALLEE, 1);
        agent.receive(Time::ZERO, udp(9), &std::fs::read(path).expect("a torture message"));
        let response =
            agent.poll_transmit().map(|transmit| Message::parse(&transmit.bytes).expect("well-formed"));
        assert_eq!(response.and_then(|response| response.status()), expected, "{name}");
    }
}

/// An agent without TLS takes no call that asks for it (RFC 3261 26.2.2).
#[test]
fn a_call_to_a_sips_uri_is_refused() {
    for (scheme, expected) in [("sips", 416), ("sip", 180)] {
        let mut agent = agent(CALLEE, 1);
        let invite = format!(
            "INVITE {scheme}:bob@192.0.2.1:5080 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.9:5060;branch=z9hG4bKs\r\nMax-Forwards: 70\r\n\
             From: <sip:a@192.0.2.9>;tag=1\r\nTo: <sip:bob@192.0.2.1>\r\nCall-ID: s\r\nCSeq: 1 INVITE\r\n\
             Contact: <sip:a@192.0.2.9>\r\nContent-Length: 0\r\n\r\n"
        );
        agent.receive(Time::ZERO, udp(9), invite.as_bytes());
        if let Some(Event::Incoming { call, .. }) = agent.poll_event() {
            agent.ring(Time::ZERO, call);
        }
        let answers = std::iter::from_fn(|| agent.poll_transmit());
        let statuses = answers.filter_map(|answer| Message::parse(&answer.bytes).ok()?.status());
        assert_eq!(statuses.last(), Some(expected), "{scheme}");
    }
}

#[test]
fn merged_requests_and_requests_out_of_order_are_refused() {
    let mut net = two(Path::clean(10), 1);
    let (call, _) = set_up(&mut net);
    let dialog = net.agent(CALLER).calls[&call].dialog.clone().expect("a dialog");
    let mut invite = dialog.ack(1);
    invite.start =
        crate::sip::StartLine::Request { method: crate::sip::Method::INVITE, uri: dialog.target.clone() };
    invite.headers.set(name::CSEQ, "1 INVITE");
    invite.headers.push_front(name::VIA, "SIP/2.0/UDP 192.0.2.1:5070;branch=z9hG4bKold");
    let old = invite.clone();
    invite.headers.set(name::TO, "<sip:bob@192.0.2.1:5080>");
    invite.headers.set(name::VIA, "SIP/2.0/UDP 192.0.2.1:5070;branch=z9hG4bKmerged");
    for (message, expected) in [(old, 500), (invite, 482)] {
        net.inject(CALLER, CALLEE, &message.emit());
        net.run_for(0.1);
        assert_eq!(*net.messages(CALLER, CALLEE).last().expect("a response"), format!("{expected} INVITE"));
    }
}

fn terminal(event: &Event) -> bool {
    matches!(event, Event::Ended { .. } | Event::Failed { .. })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Loss, duplication and reordering: each call ends once on each side that knows of it, and no state is left.
    #[test]
    fn calls_over_bad_paths_end_once_and_leave_no_state(
        seed: u64,
        loss in 0.0..0.6,
        duplication in 0.0..0.5,
        delay in 1_u64..700,
        jitter in 0_u64..900,
        answer_after in 0.0..6.0,
        hang_up_after in 0.0..8.0,
        who in 0..3,
    ) {
        let path = Path { delay: Span::from_millis(delay), jitter: Span::from_millis(jitter), loss, duplication };
        let mut net = two(path, seed);
        let call = dial(&mut net);
        net.run_for(answer_after);
        let mut seen = events(&mut net, CALLEE);
        let other = seen.iter().find_map(|event| match event {
            Event::Incoming { call, .. } => Some(*call),
            _ => None,
        });
        let now = net.now;
        if let Some(other) = other.filter(|_| who != 2) {
            net.agent(CALLEE).answer(now, other, capabilities(4002));
        }
        net.run_for(hang_up_after);
        let now = net.now;
        match other {
            Some(other) if who == 1 => net.agent(CALLEE).hang_up(now, other),
            _ => net.agent(CALLER).hang_up(now, call),
        }
        net.run_for(200.0);
        // A caller that never got a response, or a callee whose BYE was lost, may still be up: RFC 3261 has no other end.
        let now = net.now;
        net.agent(CALLER).hang_up(now, call);
        other.into_iter().for_each(|other| net.agent(CALLEE).hang_up(now, other));
        for late in events(&mut net, CALLEE) {
            if let Event::Incoming { call, .. } = late {
                net.agent(CALLEE).hang_up(now, call);
            }
            seen.push(late);
        }
        is_idle(&mut net);
        seen.extend(events(&mut net, CALLEE));
        let at_caller = events(&mut net, CALLER);
        prop_assert_eq!(at_caller.iter().filter(|event| terminal(event)).count(), 1, "{:?}", at_caller);
        let incoming = seen.iter().filter(|event| matches!(event, Event::Incoming { .. })).count();
        prop_assert_eq!(seen.iter().filter(|event| terminal(event)).count(), incoming, "{:?}", seen);
        let answered = at_caller.iter().filter(|event| matches!(event, Event::Answered { .. })).count();
        prop_assert!(answered <= 1 && incoming <= 2);
    }
}
