//! Calls and registrations between two endpoints: message flows of RFC 5456 9, timers, loss.

use std::collections::BTreeMap;

use bentpipe_units::{RandomStream, Span, Time};
use proptest::prelude::*;

use super::*;
use crate::iax::format;

const VOICE: [u8; 33] = [0; 33];

/// Two endpoints, caller and callee, with a path between them.
struct Net {
    now: Time,
    ends: [Endpoint; 2],
    delay: Span,
    jitter: Span,
    loss: f64,
    random: RandomStream,
    flight: BTreeMap<(Time, u64), (usize, Vec<u8>)>,
    sent: u64,
    /// Time in ms, sender and text of each full frame; "voice" and "mini" of media.
    log: Vec<(u64, usize, String)>,
}

fn address(end: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1 + end as u8], 4569))
}

fn config(end: usize) -> Config {
    Config::new(["alice", "bob"][end], vec![format::GSM, format::PCMA])
}

fn net(configs: [Config; 2], millis: u64, seed: u64) -> Net {
    let end = |(config, name)| Endpoint::new(config, RandomStream::new(seed, name));
    let [one, other] = configs;
    Net {
        now: Time::ZERO,
        ends: [end((one, "one")), end((other, "other"))],
        delay: Span::from_millis(millis),
        jitter: Span::ZERO,
        loss: 0.0,
        random: RandomStream::new(seed, "net"),
        flight: BTreeMap::new(),
        sent: 0,
        log: vec![],
    }
}

fn text(bytes: &[u8]) -> String {
    match Frame::parse(bytes).expect("endpoints write frames") {
        Frame::Full(FullFrame { kind: Kind::Voice, .. }) => "voice".into(),
        Frame::Full(FullFrame { kind: Kind::Control, subclass, .. }) => match subclass {
            control::RINGING => "RINGING".into(),
            control::ANSWER => "ANSWER".into(),
            other => format!("control {other}"),
        },
        Frame::Full(frame) => {
            let names = [
                "", "NEW", "PING", "PONG", "ACK", "HANGUP", "REJECT", "ACCEPT", "AUTHREQ", "AUTHREP",
                "INVAL", "LAGRQ", "LAGRP", "REGREQ", "REGAUTH", "REGACK", "REGREJ", "REGREL", "VNAK",
            ];
            names
                .get(frame.subclass as usize)
                .map_or_else(|| frame.subclass.to_string(), |name| (*name).into())
        }
        Frame::Trunk(trunk) => format!("trunk {}", trunk.calls.len()),
        _ => "mini".into(),
    }
}

impl Net {
    fn flush(&mut self) {
        for end in 0..2 {
            while let Some((to, bytes)) = self.ends[end].poll_transmit() {
                assert_eq!(to, address(1 - end));
                self.log.push((self.now.as_nanos() / 1_000_000, end, text(&bytes)));
                if !self.random.chance(self.loss) {
                    self.sent += 1;
                    let at = self.now + self.delay + self.jitter.mul_f64(self.random.unit());
                    self.flight.insert((at, self.sent), (1 - end, bytes));
                }
            }
        }
    }

    fn run_for(&mut self, seconds: f64) {
        let until = self.now + Span::from_secs_f64(seconds);
        loop {
            self.flush();
            let arrival = self.flight.keys().next().map_or(Time::NEVER, |(at, _)| *at);
            let timer = self.ends[0].deadline().min(self.ends[1].deadline());
            let next = arrival.min(timer);
            if next > until {
                self.now = until;
                return;
            }
            self.now = self.now.max(next);
            let now = self.now;
            if arrival <= timer {
                let (_, (to, bytes)) = self.flight.pop_first().expect("there is one");
                self.ends[to].receive(now, address(1 - to), &bytes);
            } else {
                self.ends.iter_mut().for_each(|end| end.handle_timeout(now));
            }
        }
    }

    fn events(&mut self, end: usize) -> Vec<Event> {
        std::iter::from_fn(|| self.ends[end].poll_event()).collect()
    }

    fn flow(&self) -> Vec<&str> {
        self.log.iter().map(|(.., text)| &text[..]).collect()
    }

    fn times(&self, end: usize, what: &str) -> Vec<u64> {
        self.log
            .iter()
            .filter(|(_, sender, text)| *sender == end && text == what)
            .map(|(at, ..)| *at)
            .collect()
    }

    fn dial(&mut self) -> CallId {
        let now = self.now;
        self.ends[0].call(now, address(1), "555").expect("room")
    }

    fn incoming(&mut self) -> CallId {
        let found = self.events(1).into_iter().find_map(|event| match event {
            Event::Incoming { call, .. } => Some(call),
            _ => None,
        });
        found.expect("a call comes in")
    }

    fn set_up(&mut self) -> (CallId, CallId) {
        let call = self.dial();
        self.run_for(1.0);
        let (now, other) = (self.now, self.incoming());
        self.ends[1].ring(now, other);
        self.ends[1].answer(now, other);
        self.run_for(2.0);
        assert_eq!(self.events(1), [Event::Confirmed { call: other }]);
        (call, other)
    }

    fn is_idle(&mut self) {
        self.run_for(200.0);
        for end in &mut self.ends {
            assert_eq!((end.legs(), end.deadline()), (0, Time::NEVER));
            assert!(end.numbers.is_empty() && end.by_peer.is_empty());
        }
    }
}

#[test]
fn the_call_of_rfc_5456() {
    let mut net = net([config(0), config(1)], 10, 1);
    let (call, other) = net.set_up();
    let expected =
        [Event::Accepted { call, format: format::GSM }, Event::Ringing { call }, Event::Answered { call }];
    assert_eq!(net.events(0), expected);
    let now = net.now;
    net.ends[0].hang_up(now, call);
    net.run_for(1.0);
    let flow = ["NEW", "ACCEPT", "ACK", "RINGING", "ANSWER", "ACK", "ACK", "HANGUP", "ACK"];
    assert_eq!(net.flow(), flow);
    assert_eq!(net.events(0), [Event::Ended { call, by_peer: false }]);
    assert_eq!(net.events(1), [Event::Ended { call: other, by_peer: true }]);
    net.is_idle();
}

#[test]
fn callers_answer_challenges_and_wrong_passwords_are_rejected() {
    for (password, flow) in [
        (Some("secret"), &["NEW", "AUTHREQ", "AUTHREP", "ACCEPT", "ACK"][..]),
        (Some("wrong"), &["NEW", "AUTHREQ", "AUTHREP", "REJECT", "ACK"]),
        (None, &["NEW", "AUTHREQ", "HANGUP", "ACK"]),
    ] {
        let users = BTreeMap::from([("alice".to_owned(), "secret".to_owned())]);
        let caller = Config { password: password.map(str::to_owned), ..config(0) };
        let mut net = net([caller, Config { users, ..config(1) }], 10, 1);
        let call = net.dial();
        net.run_for(0.5);
        assert_eq!(net.flow(), flow);
        let event = net.events(0).remove(0);
        match password {
            Some("secret") => assert_eq!(event, Event::Accepted { call, format: format::GSM }),
            Some(_) => assert_eq!(event, Event::Failed { call, failure: Failure::Rejected(Some(21)) }),
            None => assert_eq!(event, Event::Failed { call, failure: Failure::NoPassword }),
        }
    }
}

#[test]
fn a_common_format_is_chosen_or_the_call_refused() {
    for (formats, chosen) in
        [(vec![format::PCMA, format::GSM], Some(format::GSM)), (vec![format::G729], None)]
    {
        let mut net = net([config(0), Config { formats, ..config(1) }], 10, 1);
        let call = net.dial();
        net.run_for(0.5);
        let expected = match chosen {
            Some(format) => Event::Accepted { call, format },
            None => Event::Failed { call, failure: Failure::Rejected(Some(58)) },
        };
        assert_eq!(net.events(0), [expected]);
    }
}

/// RFC 5456 7: four retransmissions at doubled intervals of at most 10 s, then the call fails.
#[test]
fn frames_without_an_acknowledgement_are_sent_again() {
    let mut net = net([config(0), config(1)], 10, 1);
    net.loss = 1.0;
    let call = net.dial();
    net.run_for(25.0 - 0.001);
    assert_eq!(net.times(0, "NEW"), [0, 1000, 3000, 7000, 15_000]);
    assert_eq!(net.events(0), []);
    net.run_for(0.1);
    assert_eq!(net.events(0), [Event::Failed { call, failure: Failure::TimedOut }]);
    net.is_idle();
}

/// Over GEO SIP sends each INVITE twice, as T1 is shorter than the round trip; nothing is repeated here.
#[test]
fn over_geo_nothing_is_repeated_and_the_round_trip_sets_the_timer() {
    let mut net = net([config(0), config(1)], 270, 1);
    let (call, _) = net.set_up();
    net.run_for(25.0);
    assert_eq!(net.ends.each_ref().map(|end| end.counters().repeated), [0, 0]);
    assert_eq!(net.times(0, "PING").len(), 1);
    net.loss = 1.0;
    net.log.clear();
    let (now, start) = (net.now, net.now.as_nanos() / 1_000_000);
    net.ends[0].hang_up(now, call);
    net.run_for(30.0);
    let times: Vec<_> = net.times(0, "HANGUP").into_iter().map(|at| at - start).collect();
    assert_eq!(times, [0, 1080, 3240, 7560, 16_200], "twice the round trip of 540 ms, doubled each time");
}

#[test]
fn voice_goes_in_mini_frames_but_for_each_wrap_of_their_clock() {
    let mut net = net([config(0), config(1)], 30, 1);
    let (call, other) = net.set_up();
    net.events(0);
    for number in 0..7000_u32 {
        let now = net.now;
        net.ends[0].send_voice(now, call, 20 * number, VOICE.to_vec());
        net.run_for(0.02);
    }
    net.run_for(1.0);
    let count = |what: &str| net.log.iter().filter(|(_, end, text)| *end == 0 && text == what).count();
    assert_eq!((count("voice"), count("mini")), (3, 6997), "at 0 s, 65.536 s and 131.072 s");
    let mut expected = 0..7000;
    for event in net.events(1) {
        let Event::Voice { call, timestamp, payload } = event else { panic!("{event:?}") };
        let number: u32 = expected.next().expect("one more");
        assert_eq!((call, timestamp, payload.len()), (other, 20 * number, 33));
    }
    assert!(expected.is_empty());
}

#[test]
fn mini_frames_before_a_lost_full_frame_ask_for_it() {
    let mut net = net([config(0), config(1)], 30, 1);
    let (call, _) = net.set_up();
    net.loss = 1.0;
    let now = net.now;
    net.ends[0].send_voice(now, call, 0, VOICE.to_vec());
    net.flush();
    net.loss = 0.0;
    net.ends[0].send_voice(now, call, 20, VOICE.to_vec());
    net.run_for(0.5);
    assert_eq!(net.flow()[7..], ["voice", "mini", "VNAK", "voice", "ACK"]);
    assert!(matches!(net.events(1)[..], [Event::Voice { timestamp: 0, .. }]));
}

#[test]
fn trunks_carry_the_voice_of_all_calls_of_a_period() {
    let caller = Config { trunk: Some(Span::from_millis(20)), ..config(0) };
    let mut net = net([caller, config(1)], 30, 1);
    let calls: Vec<_> = (0..5).map(|_| net.set_up()).collect();
    for number in 0..10_u32 {
        for (call, _) in &calls {
            let now = net.now;
            net.ends[0].send_voice(now, *call, 20 * number, VOICE.to_vec());
        }
        net.run_for(0.02);
    }
    net.run_for(1.0);
    let count = |what: &str| net.log.iter().filter(|(_, end, text)| *end == 0 && text == what).count();
    assert_eq!((count("voice"), count("trunk 5"), count("mini")), (5, 9, 0));
    let heard = net.events(1).into_iter().filter(|event| matches!(event, Event::Voice { .. }));
    assert_eq!(heard.count(), 50);
}

#[test]
fn users_register_renew_and_are_found_until_their_time_is_over() {
    let users = BTreeMap::from([("alice".to_owned(), "secret".to_owned())]);
    let registrar = Config { users, ..config(1) };
    let mut net = net([Config { password: Some("secret".into()), ..config(0) }, registrar.clone()], 10, 1);
    let now = net.now;
    net.ends[0].register(now, address(1), 60);
    net.run_for(1.0);
    assert_eq!(net.flow(), ["REGREQ", "REGAUTH", "REGREQ", "REGACK", "ACK"]);
    assert_eq!(net.events(0), [Event::Registered(60)]);
    assert_eq!(net.events(1), [Event::Bound { user: "alice".into(), address: address(0) }]);
    net.run_for(35.0);
    assert_eq!(net.events(0), [Event::Registered(60)], "renewed at half of the time");
    net.ends[0].registration = None;
    let later = |seconds| net.now + Span::from_secs(seconds);
    assert_eq!(net.ends[1].lookup(later(50), "alice"), Some(address(0)));
    assert_eq!(net.ends[1].lookup(later(61), "alice"), None);
    for (password, failure) in [(Some("x"), Failure::Rejected(Some(29))), (None, Failure::NoPassword)] {
        let password = password.map(str::to_owned);
        let mut net = self::net([Config { password, ..config(0) }, registrar.clone()], 10, 1);
        net.ends[0].register(Time::ZERO, address(1), 60);
        net.run_for(1.0);
        assert_eq!(net.events(0), [Event::NotRegistered(failure)]);
    }
}

#[test]
fn frames_of_no_call_get_inval_and_end_the_senders_call() {
    let mut net = net([config(0), config(1)], 10, 1);
    let (call, _) = net.set_up();
    net.events(0);
    net.ends[1] = Endpoint::new(config(1), RandomStream::new(1, "restarted"));
    net.run_for(25.0);
    assert_eq!(net.flow()[7..], ["PING", "INVAL"]);
    assert_eq!(net.events(0), [Event::Ended { call, by_peer: true }]);
    let poke = FullFrame {
        source: 7,
        destination: 0,
        is_repeated: false,
        timestamp: 9,
        outbound: 0,
        inbound: 0,
        kind: Kind::Iax,
        subclass: iax::POKE,
        payload: vec![],
    };
    let now = net.now;
    net.ends[1].receive(now, address(0), &poke.emit());
    let (_, bytes) = net.ends[1].poll_transmit().expect("PONG");
    assert_eq!((text(&bytes), net.ends[1].legs()), ("PONG".into(), 0));
}

fn terminal(event: &Event) -> bool {
    matches!(event, Event::Ended { .. } | Event::Failed { .. })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Loss and reordering: each call ends once on each side that knows of it, and no state is left.
    #[test]
    fn calls_over_bad_paths_end_once_and_leave_no_state(
        seed: u64,
        loss in 0.0..0.6,
        delay in 1_u64..700,
        jitter in 0_u64..900,
        answer_after in 0.0..6.0,
        hang_up_after in 0.0..30.0,
        who in 0..2_usize,
    ) {
        let mut net = net([config(0), config(1)], delay, seed);
        (net.jitter, net.loss) = (Span::from_millis(jitter), loss);
        let call = net.dial();
        net.run_for(answer_after);
        let mut seen = net.events(1);
        let other = seen.iter().find_map(|event| match event {
            Event::Incoming { call, .. } => Some(*call),
            _ => None,
        });
        let now = net.now;
        if let Some(other) = other {
            net.ends[1].ring(now, other);
            net.ends[1].answer(now, other);
        }
        net.run_for(hang_up_after);
        let now = net.now;
        match other {
            Some(other) if who == 1 => net.ends[1].hang_up(now, other),
            _ => net.ends[0].hang_up(now, call),
        }
        // PING finds the end that got no HANGUP.
        net.run_for(300.0);
        let now = net.now;
        seen.extend(net.events(1));
        for event in &seen {
            if let Event::Incoming { call, .. } = event {
                net.ends[1].hang_up(now, *call);
            }
        }
        net.ends[0].hang_up(now, call);
        net.is_idle();
        seen.extend(net.events(1));
        let at_caller = net.events(0);
        prop_assert_eq!(at_caller.iter().filter(|event| terminal(event)).count(), 1, "{:?}", at_caller);
        let incoming = seen.iter().filter(|event| matches!(event, Event::Incoming { .. })).count();
        prop_assert_eq!(seen.iter().filter(|event| terminal(event)).count(), incoming, "{:?}", seen);
    }
}
