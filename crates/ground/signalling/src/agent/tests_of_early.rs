//! Calls before their answer, and offers in other requests than INVITE.

use bentpipe_units::Span;
use proptest::prelude::*;

use super::tests::{CALLEE, CALLER, capabilities, dial, events, incoming, is_idle, two};
use super::*;
use crate::dialog::Dialog;
use crate::net::{Net, Path, udp};
use crate::sdp::{self, Direction, Session};
use crate::sip::Method;

/// Returns two agents that know reliable responses, unless a number says which of them do.
fn extended(path: Path, seed: u64, ports: &[u16]) -> Net {
    let mut net = two(path, seed);
    ports.iter().for_each(|port| net.agent(*port).config.has_extensions = true);
    net
}

/// Has the callee answer in 183, and returns both calls.
fn in_progress(net: &mut Net) -> (CallId, CallId) {
    let call = dial(net);
    net.run_for(0.2);
    let (now, other) = (net.now, incoming(net));
    net.agent(CALLEE).progress(now, other, capabilities(4002));
    net.run_for(0.5);
    (call, other)
}

fn early(events: &[Event]) -> Vec<u16> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Early { media, .. } => Some(media.port),
            _ => None,
        })
        .collect()
}

#[test]
fn early_media_with_prack() {
    let mut net = extended(Path::clean(10), 1, &[CALLER, CALLEE]);
    let (call, other) = in_progress(&mut net);
    assert_eq!(early(&events(&mut net, CALLER)), [4002]);
    assert_eq!(early(&events(&mut net, CALLEE)), [4000]);
    let now = net.now;
    net.agent(CALLEE).answer(now, other, capabilities(4002));
    net.run_for(1.0);
    let at_caller = events(&mut net, CALLER);
    let [Event::Answered { media: Some(media), .. }] = &at_caller[..] else { panic!("{at_caller:?}") };
    assert_eq!(media.port, 4002);
    assert!(matches!(events(&mut net, CALLEE)[..], [Event::Confirmed { media: Some(_), .. }]));
    // Requests of both sides go on from the numbers of the early dialog.
    let now = net.now;
    assert!(net.agent(CALLER).reinvite(now, call, Direction::SendOnly));
    net.run_for(1.0);
    let now = net.now;
    net.agent(CALLEE).hang_up(now, other);
    net.run_for(1.0);
    let flow = ["INVITE", "183 INVITE", "PRACK", "200 PRACK", "200 INVITE", "ACK"];
    let after = ["INVITE", "200 INVITE", "ACK", "BYE", "200 BYE"];
    assert_eq!(net.messages(CALLER, CALLEE), [&flow[..], &after[..]].concat());
    is_idle(&mut net);
}

#[test]
fn early_media_without_prack_are_repeated_in_the_answer() {
    for knows in [CALLER, CALLEE] {
        let mut net = extended(Path::clean(10), 1, &[knows]);
        let (_, other) = in_progress(&mut net);
        assert_eq!(early(&events(&mut net, CALLER)), [4002]);
        assert!(early(&events(&mut net, CALLEE)).is_empty(), "the address is not proven");
        let now = net.now;
        net.agent(CALLEE).answer(now, other, capabilities(4002));
        net.run_for(1.0);
        let flow = ["INVITE", "183 INVITE", "200 INVITE", "ACK"];
        assert_eq!(net.messages(CALLER, CALLEE), flow);
        assert!(matches!(events(&mut net, CALLER)[..], [Event::Answered { media: Some(_), .. }]));
    }
}

#[test]
fn an_answer_waits_for_prack_and_a_call_without_one_is_given_up() {
    let mut net = extended(Path::clean(10), 1, &[CALLER, CALLEE]);
    dial(&mut net);
    net.run_for(0.2);
    let (now, other) = (net.now, incoming(&mut net));
    net.path.loss = 1.0;
    net.agent(CALLEE).progress(now, other, capabilities(4002));
    net.agent(CALLEE).answer(now, other, capabilities(4002));
    net.run_for(31.0);
    assert_eq!(net.times(CALLEE, "183 INVITE"), [0.2, 0.7, 1.7, 3.7, 7.7, 15.7]);
    net.run_for(2.0);
    assert_eq!(events(&mut net, CALLEE), [Event::Failed { call: other, failure: Failure::NoPrack }]);
    assert!(net.messages(CALLER, CALLEE).contains(&"504 INVITE"));
    assert!(!net.messages(CALLER, CALLEE).contains(&"200 INVITE"));
    // With a path it is answered once PRACK is here.
    let mut net = extended(Path::clean(10), 1, &[CALLER, CALLEE]);
    dial(&mut net);
    net.run_for(0.2);
    let (now, other) = (net.now, incoming(&mut net));
    net.agent(CALLEE).progress(now, other, capabilities(4002));
    net.agent(CALLEE).answer(now, other, capabilities(4002));
    net.run_for(1.0);
    let flow = ["INVITE", "183 INVITE", "PRACK", "200 PRACK", "200 INVITE", "ACK"];
    assert_eq!(net.messages(CALLER, CALLEE), flow);
}

/// Sends a request in the dialog of an agent, and returns the answer.
fn request(net: &mut Net, from: (u16, Dialog), to: u16, method: Method, body: &str) -> Message {
    let (port, mut dialog) = from;
    let mut request = dialog.request(method);
    request.headers.push_front(
        name::VIA,
        format!("SIP/2.0/UDP 192.0.2.1:{port};branch=z9hG4bK{}x", dialog.local_number),
    );
    request.headers.push(name::CONTACT, format!("<sip:x@192.0.2.1:{port}>"));
    if !body.is_empty() {
        request.set_body(sdp::CONTENT_TYPE, body.as_bytes().to_vec());
    }
    let now = net.now;
    net.agent(to).receive(now, udp(port), &request.emit());
    let agent = net.agent(to);
    let answers = std::iter::from_fn(|| agent.poll_transmit());
    let answer = answers.map(|answer| Message::parse(&answer.bytes).expect("well-formed")).last();
    answer.expect("an answer")
}

const HELD: &str = "v=0\r\no=- 1 9 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\nm=audio 4010 RTP/AVP 8 101\r\n\
    a=rtpmap:101 telephone-event/8000\r\n";

#[test]
fn update_changes_a_session_at_once() {
    let mut net = extended(Path::clean(10), 1, &[CALLER, CALLEE]);
    let (call, other) = in_progress(&mut net);
    events(&mut net, CALLEE);
    events(&mut net, CALLER);
    // Before the answer, both ways, and after it.
    let early_dialog = net.agent(CALLEE).calls[&other].dialog.clone().expect("a dialog");
    let ok = request(
        &mut net,
        (CALLEE, early_dialog),
        CALLER,
        Method::UPDATE,
        &HELD.replace("0.0.0.0", "192.0.2.1"),
    );
    assert_eq!(ok.status(), Some(200));
    assert!(Session::parse(&ok.body).is_ok());
    assert!(matches!(&events(&mut net, CALLER)[..], [Event::Changed { media, .. }] if media.port == 4010));
    let now = net.now;
    net.agent(CALLEE).answer(now, other, capabilities(4002));
    net.run_for(1.0);
    assert!(
        matches!(&events(&mut net, CALLER)[..], [Event::Answered { media: Some(media), .. }] if media.port == 4010)
    );
    events(&mut net, CALLEE);
    let dialog = net.agent(CALLER).calls[&call].dialog.clone().expect("a dialog");
    let ok = request(&mut net, (CALLER, dialog.clone()), CALLEE, Method::UPDATE, HELD);
    let answer = Session::parse(&ok.body).expect("an answer");
    assert_eq!(Direction::of_media(&answer, &answer.media[0]), Direction::RecvOnly, "as it is done");
    let changed = events(&mut net, CALLEE);
    assert!(matches!(&changed[..], [Event::Changed { media, .. }] if media.direction == Direction::RecvOnly));
    // Without an offer it refreshes the target alone; with one that does not fit it changes nothing.
    let next = Dialog { local_number: dialog.local_number + 1, ..dialog.clone() };
    let ok = request(&mut net, (CALLER, next), CALLEE, Method::UPDATE, "");
    assert!(ok.status() == Some(200) && ok.body.is_empty());
    let next = Dialog { local_number: dialog.local_number + 2, ..dialog };
    let srtp = HELD.replace("RTP/AVP", "RTP/SAVP");
    let refusal = request(&mut net, (CALLER, next), CALLEE, Method::UPDATE, &srtp);
    assert_eq!(refusal.status(), Some(488));
    assert!(refusal.headers.get(name::WARNING).is_some_and(|warning| warning.starts_with("302 ")));
    assert_eq!(events(&mut net, CALLEE), []);
}

#[test]
fn an_update_of_an_unanswered_offer_is_refused() {
    let mut net = extended(Path::clean(10), 1, &[CALLER, CALLEE]);
    dial(&mut net);
    net.run_for(0.2);
    let (now, other) = (net.now, incoming(&mut net));
    net.agent(CALLEE).ring(now, other);
    net.run_for(0.2);
    let dialog = net.agent(CALLEE).calls[&other].dialog.clone().expect("a dialog");
    let caller = Dialog {
        local: dialog.remote.clone(),
        remote: dialog.local.clone(),
        target: "sip:bob@192.0.2.1:5080".parse().expect("a URI"),
        local_number: 1,
        ..dialog
    };
    let refusal = request(&mut net, (CALLER, caller), CALLEE, Method::UPDATE, HELD);
    assert_eq!(refusal.status(), Some(500));
    assert!(refusal.headers.get(name::RETRY_AFTER).is_some());
}

/// Returns an INVITE of a host with a Contact of another.
fn invite(branch: &str, kind: &str, body: &str) -> String {
    format!(
        "INVITE sip:b@192.0.2.1:5080 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:9;branch=z9hG4bK{branch}\r\nFrom: <sip:a@b>;tag=1\r\n\
         To: <sip:b@b>\r\nCall-ID: {branch}\r\nCSeq: 1 INVITE\r\nContact: <sip:a@203.0.113.7:5060>\r\nMax-Forwards: 70\r\n\
         Content-Type: {kind}\r\n\r\n{body}"
    )
}

#[test]
fn a_bye_goes_to_a_contact_only_if_that_host_signalled() {
    let third = Peer { transport: Transport::Udp, address: "203.0.113.7:5060".parse().expect("an address") };
    for (from, expected) in [(udp(9), udp(9)), (third, third)] {
        let mut net = two(Path::clean(10), 1);
        let agent = net.agent(CALLEE);
        let text = invite("a", "application/sdp", &HELD.replace("0.0.0.0", "192.0.2.1"));
        agent.receive(Time::ZERO, udp(9), text.as_bytes());
        agent.answer(Time::ZERO, CallId(1), capabilities(4002));
        let ok = Message::parse(&agent.poll_transmit().expect("200").bytes).expect("well-formed");
        let to = ok.headers.get(name::TO).expect("To");
        let head = text.split("Content-Type").next().expect("a head");
        let ack = head.replace("INVITE", "ACK").replace("z9hG4bKa", "z9hG4bKb");
        let ack = format!("{}\r\n", ack.replace("To: <sip:b@b>", &format!("To: {to}")));
        agent.receive(Time::ZERO, from, ack.as_bytes());
        agent.hang_up(Time::ZERO, CallId(1));
        let bye = agent.poll_transmit().expect("BYE");
        assert!(bye.bytes.starts_with(b"BYE sip:a@203.0.113.7:5060 "));
        assert_eq!(bye.to, expected, "the ACK came from {from:?}");
    }
}

#[test]
fn a_description_in_a_part_is_an_offer_and_srtp_is_refused_with_the_reason() {
    let answered = |kind: &str, body: &str| {
        let mut net = two(Path::clean(10), 1);
        let agent = net.agent(CALLEE);
        agent.receive(Time::ZERO, udp(9), invite("c", kind, body).as_bytes());
        agent.answer(Time::ZERO, CallId(1), capabilities(4002));
        let events: Vec<Event> = std::iter::from_fn(|| agent.poll_event()).collect();
        let answers = std::iter::from_fn(|| agent.poll_transmit());
        let last = answers.map(|answer| Message::parse(&answer.bytes).expect("well-formed")).last();
        (last.expect("an answer"), events)
    };
    let sdp = HELD.replace("0.0.0.0", "192.0.2.1");
    let mixed = format!(
        "--b\r\nContent-Type: text/plain\r\n\r\nx\r\n--b\r\nContent-Type: application/sdp\r\n\r\n{sdp}\r\n--b--"
    );
    assert_eq!(answered("multipart/mixed;boundary=b", &mixed).0.status(), Some(200));
    assert_eq!(answered("multipart/mixed;boundary=c", &mixed).0.status(), Some(415));
    let (refusal, events) = answered("application/sdp", &sdp.replace("RTP/AVP", "RTP/SAVP"));
    assert_eq!(refusal.status(), Some(488));
    assert_eq!(
        refusal.headers.get(name::WARNING),
        Some("302 192.0.2.1 \"SRTP is not supported, offer RTP/AVP\"")
    );
    assert!(matches!(events[..], [_, Event::Failed { failure: Failure::Encrypted, .. }]), "{events:?}");
}

#[test]
fn other_methods_are_refused_with_those_that_are_allowed() {
    for (method, status) in [("REFER", 405), ("INFO", 405), ("NOTIFY", 405), ("UPDATE", 405), ("JUMP", 501)] {
        let mut net = two(Path::clean(10), 1);
        let agent = net.agent(CALLEE);
        let text = invite("d", "application/sdp", "").replace("INVITE", method);
        agent.receive(Time::ZERO, udp(9), text.as_bytes());
        let answer = Message::parse(&agent.poll_transmit().expect("an answer").bytes).expect("well-formed");
        assert_eq!(answer.status(), Some(status), "{method}");
        assert_eq!(answer.headers.get(name::ALLOW), Some(ALLOW));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    /// Each call ends once, and no state is left.
    #[test]
    fn early_calls_over_bad_paths_end_once_and_leave_no_state(
        seed: u64,
        loss in 0.0..0.6,
        delay in 1_u64..700,
        jitter in 0_u64..900,
        answer_after in 0.0..6.0,
        hang_up_after in 0.0..8.0,
        answers: bool,
    ) {
        let path = Path { delay: Span::from_millis(delay), jitter: Span::from_millis(jitter), loss, duplication: 0.2 };
        let mut net = extended(path, seed, &[CALLER, CALLEE]);
        let call = dial(&mut net);
        net.run_for(2.0);
        let now = net.now;
        let other = events(&mut net, CALLEE).iter().find_map(|event| match event {
            Event::Incoming { call, .. } => Some(*call),
            _ => None,
        });
        other.into_iter().for_each(|other| net.agent(CALLEE).progress(now, other, capabilities(4002)));
        net.run_for(answer_after);
        let now = net.now;
        other.filter(|_| answers).into_iter().for_each(|other| net.agent(CALLEE).answer(now, other, capabilities(4002)));
        net.run_for(hang_up_after);
        let now = net.now;
        net.agent(CALLER).hang_up(now, call);
        net.run_for(200.0);
        let now = net.now;
        net.agent(CALLER).hang_up(now, call);
        other.into_iter().for_each(|other| net.agent(CALLEE).hang_up(now, other));
        for late in events(&mut net, CALLEE) {
            if let Event::Incoming { call, .. } = late {
                net.agent(CALLEE).hang_up(now, call);
            }
        }
        is_idle(&mut net);
        let over = |event: &&Event| matches!(event, Event::Ended { .. } | Event::Failed { .. });
        let at_caller = events(&mut net, CALLER);
        prop_assert_eq!(at_caller.iter().filter(over).count(), 1, "{:?}", at_caller);
    }
}
