//! Calls by way of a proxy: registration, Record-Route, forks, loops, digest.

use bentpipe_units::{RandomStream, Span, Time};

use super::*;
use crate::agent::{Agent, CallId, Config as AgentConfig, Event as CallEvent, Failure};
use crate::digest::{Account, Algorithm, Qop};
use crate::net::{Net, Path, at, udp};
use crate::sdp::{Capabilities, Codec, Direction};

const PROXY: u16 = 5060;

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

fn guard(algorithm: Algorithm, qop: &[Qop]) -> Guard {
    let mut guard = Guard::new("192.0.2.1", 99, algorithm, qop);
    ["alice", "bob"].into_iter().for_each(|user| guard.add_user(user, "secret"));
    guard
}

fn net(path: Path, guards: Option<(Algorithm, &[Qop])>) -> Net {
    let mut net = Net::new(path, 1);
    let guard = || guards.map(|(algorithm, qop)| guard(algorithm, qop));
    let config = Config { local: at(PROXY), timers: Timers::default(), record_route: true, guard: guard() };
    let registrar = Registrar::new(vec!["192.0.2.1".into()], guard());
    net.add(PROXY, Proxy::new(config, registrar, RandomStream::new(1, "proxy")));
    net
}

fn add(net: &mut Net, user: &str, port: u16, password: Option<&str>) {
    let account = password.map(|password| Account { user: user.into(), password: password.into() });
    let domain = Some("192.0.2.1".to_owned());
    let config = AgentConfig { account, domain, ..AgentConfig::new(user, at(port)) };
    net.add(port, Agent::new(config, RandomStream::new(1, &port.to_string())));
}

fn register(net: &mut Net, port: u16) -> Vec<CallEvent> {
    let now = net.now;
    net.agent(port).register(now, "192.0.2.1", udp(PROXY), 600);
    net.run_for(2.0);
    events(net, port)
}

fn events(net: &mut Net, port: u16) -> Vec<CallEvent> {
    let agent = net.agent(port);
    std::iter::from_fn(|| agent.poll_event()).collect()
}

fn dial(net: &mut Net, from: u16, user: &str) -> CallId {
    let (now, target) = (net.now, format!("sip:{user}@192.0.2.1").parse().expect("a URI"));
    net.agent(from).call(now, &target, udp(PROXY), capabilities()).expect("room")
}

fn answer_all(net: &mut Net, port: u16) -> Vec<CallId> {
    let now = net.now;
    let calls: Vec<_> = events(net, port)
        .into_iter()
        .filter_map(|event| match event {
            CallEvent::Incoming { call, .. } => Some(call),
            _ => None,
        })
        .collect();
    calls.iter().for_each(|call| net.agent(port).answer(now, *call, capabilities()));
    calls
}

#[test]
fn a_call_by_way_of_a_proxy_with_digest_keeps_to_its_recorded_route() {
    for (algorithm, qop) in [
        (Algorithm::Md5, &[][..]),
        (Algorithm::Md5, &[Qop::Auth]),
        (Algorithm::Sha256, &[][..]),
        (Algorithm::Sha256, &[Qop::Auth, Qop::AuthInt]),
        (Algorithm::Sha256Sess, &[Qop::AuthInt]),
    ] {
        let mut net = net(Path::clean(20), Some((algorithm, qop)));
        add(&mut net, "alice", 5070, Some("secret"));
        add(&mut net, "bob", 5080, Some("secret"));
        assert_eq!(register(&mut net, 5080), [CallEvent::Registered(600)]);
        let call = dial(&mut net, 5070, "bob");
        net.run_for(1.0);
        answer_all(&mut net, 5080);
        net.run_for(1.0);
        let now = net.now;
        net.agent(5070).hang_up(now, call);
        net.run_for(1.0);
        let flow =
            ["INVITE", "407 INVITE", "ACK", "INVITE", "100 INVITE", "200 INVITE", "ACK", "BYE", "200 BYE"];
        assert_eq!(net.messages(5070, PROXY), flow, "{algorithm:?} {qop:?}");
        assert!(net.messages(5070, 5080).is_empty(), "Record-Route keeps the proxy in the path");
        assert!(matches!(
            events(&mut net, 5080)[..],
            [CallEvent::Confirmed { .. }, CallEvent::Ended { by_peer: true, .. }]
        ));
        assert!(!net.run_for(1000.0) || net.agent(5080).deadline() > net.now);
    }
}

#[test]
fn wrong_passwords_and_unknown_users_fail() {
    let mut net = net(Path::clean(20), Some((Algorithm::Sha256, &[Qop::Auth])));
    add(&mut net, "alice", 5070, Some("wrong"));
    add(&mut net, "bob", 5080, None);
    assert_eq!(register(&mut net, 5070), [CallEvent::NotRegistered(Failure::Status(401))]);
    assert_eq!(register(&mut net, 5080), [CallEvent::NotRegistered(Failure::Status(401))]);
    let call = dial(&mut net, 5070, "bob");
    net.run_for(1.0);
    assert_eq!(events(&mut net, 5070), [CallEvent::Failed { call, failure: Failure::Status(407) }]);
}

fn forked(answering: [bool; 2], millis: u64) -> (Net, CallId) {
    let mut net = net(Path::clean(millis), None);
    add(&mut net, "alice", 5070, None);
    for port in [5080, 5090] {
        add(&mut net, "bob", port, None);
        register(&mut net, port);
    }
    let call = dial(&mut net, 5070, "bob");
    net.run_for(0.4);
    for (port, answers) in [(5080, answering[0]), (5090, answering[1])] {
        if answers {
            answer_all(&mut net, port);
        }
    }
    net.run_for(5.0);
    (net, call)
}

#[test]
fn of_two_2xx_of_a_fork_one_is_kept_and_the_other_ended() {
    let (mut net, call) = forked([true, true], 50);
    let at_caller = events(&mut net, 5070);
    assert_eq!(
        at_caller.iter().filter(|event| matches!(event, CallEvent::Answered { .. })).count(),
        1,
        "{at_caller:?}"
    );
    assert_eq!((net.agent(5080).calls() + net.agent(5090).calls(), net.agent(5070).calls()), (1, 1));
    let now = net.now;
    net.agent(5070).hang_up(now, call);
    net.run_for(100.0);
    assert_eq!(net.agent(5080).calls() + net.agent(5090).calls() + net.agent(5070).calls(), 0);
}

#[test]
fn the_branch_that_did_not_answer_is_cancelled() {
    let (mut net, _) = forked([true, false], 50);
    let other = events(&mut net, 5090);
    assert!(
        matches!(
            other[..],
            [CallEvent::Incoming { .. }, CallEvent::Failed { failure: Failure::Cancelled, .. }]
        ),
        "{other:?}"
    );
    assert_eq!(
        net.messages(PROXY, 5090)[2..],
        ["INVITE", "100 INVITE", "CANCEL", "200 CANCEL", "487 INVITE", "ACK"]
    );
}

#[test]
fn of_failures_the_best_is_chosen_once_all_branches_have_failed() {
    let (mut net, call) = forked([false, false], 50);
    for (port, status) in [(5080, 486), (5090, 603)] {
        let now = net.now;
        let id = match &events(&mut net, port)[..] {
            [CallEvent::Incoming { call, .. }] => *call,
            other => panic!("{other:?}"),
        };
        assert!(!net.messages(5070, PROXY).iter().any(|text| text.starts_with('4') || text.starts_with('6')));
        net.agent(port).reject(now, id, status);
        net.run_for(1.0);
    }
    assert_eq!(events(&mut net, 5070), [CallEvent::Failed { call, failure: Failure::Status(603) }]);
}

/// Timer C (RFC 3261 16.6, step 11): each provisional response starts it again; without any, Timer B is earlier.
#[test]
fn timer_c_ends_a_call_that_rings_on() {
    let mut net = net(Path::clean(50), None);
    add(&mut net, "alice", 5070, None);
    add(&mut net, "bob", 5080, None);
    register(&mut net, 5080);
    let (start, call) = (net.now, dial(&mut net, 5070, "bob"));
    net.run_for(100.0);
    let incoming = match &events(&mut net, 5080)[..] {
        [CallEvent::Incoming { call, .. }] => *call,
        other => panic!("{other:?}"),
    };
    let now = net.now;
    net.agent(5080).ring(now, incoming);
    // 180 came to the proxy 100.05 s after the INVITE left the caller.
    net.run(start + Span::from_secs_f64(281.0));
    assert_eq!(events(&mut net, 5070), [CallEvent::Progress { call, status: 180 }]);
    net.run(start + Span::from_secs_f64(281.2));
    assert_eq!(events(&mut net, 5070), [CallEvent::Failed { call, failure: Failure::Status(408) }]);
    let start = net.now;
    net.inject(9, PROXY, &options("sip:bob@192.0.2.1", 70, None));
    net.run_for(0.06);
    net.path.loss = 1.0;
    net.run_for(33.0);
    let failures = net.times(PROXY, "408 INVITE");
    let first = failures.iter().find(|time| **time > start.as_secs_f64());
    assert!(first.is_some_and(|time| (time - start.as_secs_f64() - 32.05).abs() < 0.1), "{failures:?}");
}

fn options(uri: &str, max_forwards: u32, contact: Option<&str>) -> Vec<u8> {
    let (method, to) = if contact.is_some() {
        ("REGISTER", contact.unwrap_or_default().split_once(' ').expect("two").0)
    } else {
        ("INVITE", uri)
    };
    let contact = contact.map_or_else(
        || "<sip:c@192.0.2.1:9>".to_owned(),
        |text| text.split_once(' ').expect("two").1.to_owned(),
    );
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:9;branch=z9hG4bK{to}\r\nFrom: <sip:c@x>;tag=1\r\nTo: <{to}>\r\n\
         Call-ID: {to}\r\nCSeq: 1 {method}\r\nMax-Forwards: {max_forwards}\r\nContact: {contact}\r\nContent-Length: 0\r\n\r\n"
    )
    .replace("bKsip:", "bK")
    .replace("@192.0.2.1\r\nFrom", "\r\nFrom")
    .into_bytes()
}

#[test]
fn loops_are_detected_and_hops_are_limited() {
    let mut net = net(Path::clean(1), None);
    for (user, other) in [("a", "b"), ("b", "a"), ("s", "t")] {
        let contact = format!("sip:{user}@192.0.2.1 <sip:{other}@192.0.2.1:5060>");
        net.inject(9, PROXY, &options("sip:192.0.2.1", 70, Some(&contact)));
    }
    net.run_for(1.0);
    let mut final_response = |uri: &str, hops| {
        let start = net.now;
        net.inject(9, PROXY, &options(uri, hops, None));
        net.run_for(1.0);
        // Earlier responses are repeated, as no ACK comes.
        let is_new = |time: Time| time >= start && time < start + Span::from_millis(100);
        let mut log =
            net.log.iter().filter(|(time, from, to, _)| is_new(*time) && (*from, *to) == (at(PROXY), at(9)));
        log.find(|(.., text)| !text.starts_with('1')).map(|(.., text)| text.clone())
    };
    assert_eq!(final_response("sip:a@192.0.2.1", 70).as_deref(), Some("482 INVITE"));
    assert_eq!(final_response("sip:s@192.0.2.1", 70).as_deref(), Some("480 INVITE"), "t has no contact");
    assert_eq!(final_response("sip:b@192.0.2.1", 0).as_deref(), Some("483 INVITE"));
}

#[test]
fn registrations_expire_and_are_renewed_in_time() {
    let mut net = net(Path::clean(20), None);
    add(&mut net, "bob", 5080, None);
    register(&mut net, 5080);
    net.run_for(290.0);
    assert_eq!(net.times(5080, "REGISTER"), [0.0]);
    net.run_for(20.0);
    assert_eq!(net.times(5080, "REGISTER").len(), 2, "at half of the time");
    let mut registrar = Registrar::new(vec!["192.0.2.1".into()], None);
    let uri = SipUri::new(Some("u"), "192.0.2.1");
    let at = |seconds| Time::ZERO + Span::from_secs(seconds);
    let mut number = 0;
    let mut register = |seconds, contact: &str, expires: &str| {
        number += 1;
        let text = format!(
            "REGISTER sip:192.0.2.1 SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:u@192.0.2.1>;tag=1\r\n\
             To: <sip:%75@192.0.2.1>\r\nCall-ID: 1\r\nCSeq: {number} REGISTER\r\nContact: {contact}\r\n{expires}\r\n"
        );
        let response =
            registrar.register(at(seconds), &Message::parse(text.as_bytes()).expect("well-formed"), "t");
        let contacts: Vec<String> =
            registrar.lookup(at(seconds), &uri).iter().map(ToString::to_string).collect();
        (response.status().expect("a status"), contacts.join(" "))
    };
    assert_eq!(
        register(0, "<sip:x@1.2.3.4>;q=0.2, <sip:y@1.2.3.4>;expires=100", "Expires: 60\r\n"),
        (200, "sip:y@1.2.3.4 sip:x@1.2.3.4".into())
    );
    assert_eq!(register(61, "<sip:z@1.2.3.4>;q=0.1", ""), (200, "sip:y@1.2.3.4 sip:z@1.2.3.4".into()));
    assert_eq!(register(62, "<sip:z@1.2.3.4>", "Expires: 30\r\n").0, 423);
    assert_eq!(register(62, "<sip:z@1.2.3.4>", "Expires: 0\r\n"), (200, "sip:y@1.2.3.4".into()));
    assert_eq!(register(62, "*", "Expires: 1\r\n").0, 400);
    assert_eq!(register(62, "*", "Expires: 0\r\n"), (200, String::new()));
}
