use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

const LIGHT: Span = Span::from_secs(200);

/// Two engines and the segments on their way, with a decision on each transmission.
struct Pair {
    engines: [Engine; 2],
    /// Arrival, receiver, segment.
    flying: Vec<(Time, usize, Vec<u8>)>,
    now: Time,
    sent: [u32; 2],
    received: Vec<Vec<u8>>,
    outcome: Option<Event>,
    finished: Time,
}

impl Pair {
    fn new(change: impl Fn(&mut Config)) -> Pair {
        let engine = |number| {
            let mut config = Config::new(number);
            change(&mut config);
            let mut engine = Engine::new(config);
            engine.set_peer(3 - number, Peer { light_time: LIGHT, margin: Span::from_secs(1) });
            engine
        };
        Pair {
            engines: [engine(1), engine(2)],
            flying: Vec::new(),
            now: Time::ZERO,
            sent: [0; 2],
            received: Vec::new(),
            outcome: None,
            finished: Time::NEVER,
        }
    }

    /// Sends what waits. `is_lost` sees the sender, its count of segments, and the segment.
    fn transmit(&mut self, is_lost: &mut dyn FnMut(usize, u32, &[u8]) -> bool) {
        for from in 0..2 {
            while let Some(segment) = self.engines[from].poll_transmit(2 - from as u64, self.now) {
                let n = self.sent[from];
                self.sent[from] += 1;
                if !is_lost(from, n, &segment) {
                    self.flying.push((self.now + LIGHT, 1 - from, segment));
                }
            }
        }
    }

    fn events(&mut self) {
        for n in 0..2 {
            while let Some(event) = self.engines[n].poll_event() {
                match event {
                    Event::Received { data, .. } => {
                        self.received.push(data);
                        self.finished = self.now;
                    }
                    event if n == 0 => self.outcome = Some(event),
                    _ => {}
                }
            }
        }
    }

    /// Runs until nothing is left to do.
    fn run(&mut self, mut is_lost: impl FnMut(usize, u32, &[u8]) -> bool) {
        for _ in 0..100_000 {
            self.transmit(&mut is_lost);
            self.events();
            let arrival = self.flying.iter().map(|(at, ..)| *at).min().unwrap_or(Time::NEVER);
            let timeout = self.engines[0].next_timeout().min(self.engines[1].next_timeout());
            self.now = arrival.min(timeout);
            if self.now.is_never() {
                return;
            }
            let now = self.now;
            let (arrived, flying) =
                std::mem::take(&mut self.flying).into_iter().partition(|(at, ..)| *at <= now);
            self.flying = flying;
            for (_, to, segment) in arrived {
                let _: &Vec<u8> = &segment;
                self.engines[to].handle_segment(2 - to as u64, &segment, now);
            }
            self.engines.iter_mut().for_each(|engine| engine.handle_timeout(now));
        }
        panic!("the engines do not come to rest");
    }

    fn is_at_rest(&self) -> bool {
        self.engines.iter().all(|engine| engine.sessions() == (0, 0) && engine.next_timeout().is_never())
    }
}

/// Block of which each segment of at most 100 bytes carries a third.
fn block() -> Vec<u8> {
    (0..240).map(|n| n as u8).collect()
}

fn short(config: &mut Config) {
    config.segment = 100;
}

fn is_data(segment: &[u8]) -> bool {
    segment[0] < 8
}

/// Each pattern of losses in the first round of three segments, against what the rules of RFC 5326 make of it.
#[test]
fn every_loss_of_three_segments() {
    for lost in 0u32..8 {
        let mut pair = Pair::new(short);
        pair.engines[0].send(2, 1, block(), 240).unwrap();
        pair.run(|from, n, segment| from == 0 && is_data(segment) && n < 3 && lost >> n & 1 == 1);
        assert_eq!(pair.received, [block()], "pattern {lost:03b}");
        assert!(matches!(pair.outcome, Some(Event::Sent(_))) && pair.is_at_rest(), "pattern {lost:03b}");
        // A lost checkpoint costs its timer, and other losses a report and another checkpoint.
        let (others, checkpoint) = ((lost & 3).count_ones(), lost >> 2);
        let counts = pair.engines[0].counts();
        assert_eq!(counts.data_sent, u64::from(3 + others + checkpoint), "pattern {lost:03b}");
        assert_eq!(counts.timeouts, u64::from(checkpoint), "pattern {lost:03b}");
        let reports = pair.engines[1].counts().reports_sent;
        assert_eq!(reports, 1 + u64::from(others > 0), "pattern {lost:03b}");
        let rounds = u64::from(others > 0);
        let expected =
            LIGHT * (1 + 2 * rounds) + (LIGHT + LIGHT + Span::from_secs(1)) * u64::from(checkpoint);
        assert_eq!(pair.finished, Time::ZERO + expected, "pattern {lost:03b}");
    }
}

/// Each pattern of losses of the first four segments of either side.
#[test]
fn every_loss_of_control_segments_too() {
    for lost in 0u32..256 {
        let mut pair = Pair::new(short);
        pair.engines[0].send(2, 1, block(), 240).unwrap();
        pair.run(|from, n, _| n < 4 && lost >> (4 * from as u32 + n) & 1 == 1);
        assert_eq!(pair.received, [block()], "pattern {lost:08b}");
        assert!(matches!(pair.outcome, Some(Event::Sent(_))) && pair.is_at_rest(), "pattern {lost:08b}");
    }
}

#[test]
fn green_data_is_sent_once() {
    for lost in 0u32..8 {
        let mut pair = Pair::new(short);
        pair.engines[0].send(2, 1, block(), 0).unwrap();
        pair.run(|_, n, _| lost >> n & 1 == 1);
        assert_eq!((pair.received.len(), pair.sent), (usize::from(lost == 0), [3, 0]), "pattern {lost:03b}");
        assert!(matches!(pair.outcome, Some(Event::Sent(_))) && pair.is_at_rest(), "pattern {lost:03b}");
    }
}

#[test]
fn a_dead_path_ends_by_cancellation_after_the_limit() {
    let mut pair = Pair::new(|config| (config.segment, config.tries) = (100, 4));
    pair.engines[0].send(2, 1, block(), 240).unwrap();
    pair.run(|_, _, _| true);
    assert!(matches!(pair.outcome, Some(Event::Failed(_, Reason::Retransmissions))));
    assert_eq!(
        (pair.sent, pair.is_at_rest()),
        ([3 + 3 + 4, 0], true),
        "three more checkpoints, four cancellations"
    );
}

/// ION's issue 14: one of several reports is acknowledged, the others and the cancellation are lost.
#[test]
fn a_sender_does_not_wait_for_reports_that_never_come() {
    let mut pair = Pair::new(|config| (config.segment, config.tries) = (104, 3));
    let long: Vec<u8> = (0..80 * 40).map(|n| n as u8).collect();
    pair.engines[0].send(2, 1, long.clone(), long.len() as u64).unwrap();
    let mut first = true;
    pair.run(|from, n, segment| match from {
        // Every other segment is lost once, so that reports have many claims.
        0 => n % 2 == 1 && n < 39,
        // Of the reports only the first one arrives, and nothing after it.
        _ => is_data(segment) || !std::mem::replace(&mut first, false),
    });
    assert!(pair.is_at_rest());
    assert!(pair.outcome.is_some());
}

#[test]
fn timers_stand_still_during_an_outage() {
    let mut pair = Pair::new(short);
    pair.engines[0].send(2, 1, block(), 240).unwrap();
    pair.transmit(&mut |_, _, _| true);
    pair.engines[0].suspend(2, Time::ZERO + Span::from_secs(101));
    assert!(pair.engines[0].next_timeout().is_never());
    let resumed = Time::ZERO + Span::from_secs(5000);
    pair.engines[0].resume(2, resumed);
    assert_eq!(pair.engines[0].next_timeout(), resumed + Span::from_secs(300));
}

#[test]
fn a_hostile_peer_is_bounded() {
    let mut engine = Engine::new(Config { imports: 10, block: 1000, ..Config::new(1) });
    engine.set_peer(2, Peer { light_time: LIGHT, margin: Span::ZERO });
    let send = |engine: &mut Engine, from, number, data: Data, bytes: &[u8]| {
        let data = Data { client: BUNDLE_PROTOCOL, ..data };
        let segment = Segment::new(SessionId { engine: from, number }, Content::Data(data, bytes));
        engine.handle_segment(from, &segment.to_vec(), Time::ZERO);
    };
    for number in 0..1000 {
        send(&mut engine, 2, number, Data::default(), &[1]);
    }
    assert_eq!((engine.sessions().1, engine.counts().refused), (10, 990));
    send(&mut engine, 7, 1, Data::default(), &[1]);
    assert_eq!(engine.counts().refused, 991, "an unknown engine");
    send(&mut engine, 2, 1, Data { offset: 999, ..Data::default() }, &[1, 2]);
    let event = engine.poll_event();
    assert!(matches!(event, Some(Event::Cancelled(_, Reason::System))), "{event:?}");
    send(&mut engine, 2, 2, Data { is_green: true, ..Data::default() }, &[1]);
    assert!(matches!(engine.poll_event(), Some(Event::Cancelled(_, Reason::Miscoloured))));
    let foreign = Segment::new(SessionId { engine: 1, number: 5 }, Content::ReportAck(1)).to_vec();
    engine.handle_segment(2, &foreign, Time::ZERO);
    assert_eq!(engine.counts().refused, 992);
}

/// One peer begins as many blocks as there may be, or fills the memory of incomplete ones.
#[test]
fn no_peer_takes_all_sessions_or_all_memory() {
    let mut engine = Engine::new(Config { imports: 4, incomplete: 1000, ..Config::new(1) });
    (2..5).for_each(|peer| engine.set_peer(peer, Peer { light_time: LIGHT, margin: Span::ZERO }));
    let send = |engine: &mut Engine, from, number, data: Data, bytes: &[u8]| {
        let segment = Segment::new(SessionId { engine: from, number }, Content::Data(data, bytes));
        engine.handle_segment(from, &segment.to_vec(), Time::ZERO);
        std::iter::from_fn(|| engine.poll_event()).collect::<Vec<_>>()
    };
    let client = Data { client: 1, ..Data::default() };
    let whole = Data { client: 1, ends_red: true, ends_block: true, checkpoint: Some((1, 0)), ..client };
    for number in 0..10 {
        send(&mut engine, 2, number, client, &[1]);
    }
    let events = send(&mut engine, 3, 1, whole, &[1, 2]);
    assert!(matches!(events[..], [Event::Cancelled(..), Event::Received { .. }]), "{events:?}");
    let events = send(&mut engine, 4, 1, whole, &[1, 2]);
    assert!(matches!(events[..], [Event::Cancelled(..), Event::Received { .. }]), "{events:?}");
    assert!(send(&mut engine, 2, 20, client, &[1]).is_empty());
    assert_eq!((engine.sessions().1, engine.counts().refused), (4, 7), "it has its share");
    // Two blocks of its bytes are all that there may be.
    let mut engine = Engine::new(Config { imports: 10, incomplete: 1000, ..Config::new(1) });
    (2..4).for_each(|peer| engine.set_peer(peer, Peer { light_time: LIGHT, margin: Span::ZERO }));
    (0..2).for_each(|number| drop(send(&mut engine, 2, number, client, &[7; 500])));
    let events = send(&mut engine, 3, 1, whole, &[7; 400]);
    assert!(matches!(events[..], [Event::Cancelled(..), Event::Received { .. }]), "{events:?}");
    assert_eq!(engine.held(), 500);
}

#[test]
fn a_cancelled_block_is_forgotten_at_both_ends() {
    let mut pair = Pair::new(short);
    let session = pair.engines[0].send(2, 1, block(), 240).unwrap();
    pair.transmit(&mut |_, n, _| n == 2);
    pair.engines[0].cancel(session, Reason::Client);
    pair.run(|_, _, _| false);
    assert!(pair.received.is_empty() && pair.is_at_rest());
    assert_eq!(pair.outcome, Some(Event::Failed(session, Reason::Client)));
}

#[test]
fn a_block_without_room_is_cancelled_before_its_report_leaves() {
    let mut pair = Pair::new(short);
    let session = pair.engines[0].send(2, 1, block(), 240).unwrap();
    pair.transmit(&mut |_, _, _| false);
    for (at, _, segment) in std::mem::take(&mut pair.flying) {
        pair.now = at;
        pair.engines[1].handle_segment(1, &segment, at);
    }
    assert!(matches!(pair.engines[1].poll_event(), Some(Event::Received { .. })));
    pair.engines[1].refuse(session);
    let mut reports = 0;
    pair.run(|from, _, segment| {
        reports += u32::from(from == 1 && segment[0] == 8);
        false
    });
    assert_eq!((reports, pair.outcome.clone()), (0, Some(Event::Refused(session, Reason::System))));
    assert!(pair.is_at_rest());
}

/// Returns the bytes that an engine sends of its own accord, for each byte that came from a peer.
///
/// Nothing of it is acknowledged, and all timers expire.
fn answers_per_byte(segments: &mut dyn Iterator<Item = Vec<u8>>) -> f64 {
    let mut engine = Engine::new(Config { imports: 256, ..Config::new(1) });
    engine.set_peer(2, Peer { light_time: Span::ZERO, margin: Span::from_secs(1) });
    let (mut came, mut went, mut now) = (0, 0, Time::ZERO);
    let mut drain = |engine: &mut Engine, now: Time| {
        while engine.poll_event().is_some() {}
        went +=
            std::iter::from_fn(|| engine.poll_transmit(2, now)).map(|segment| segment.len()).sum::<usize>();
    };
    for segment in segments {
        came += segment.len();
        engine.handle_segment(2, &segment, now);
        drain(&mut engine, now);
    }
    while !engine.next_timeout().is_never() {
        now = engine.next_timeout();
        engine.handle_timeout(now);
        drain(&mut engine, now);
    }
    went as f64 / came as f64
}

/// Segments that provoke answers, with their name.
type Hostile<'a> = (&'a str, Box<dyn Iterator<Item = Vec<u8>> + 'a>);

/// The address of a datagram can be forged. Then all that answers it goes to a host that asked for nothing.
#[test]
#[allow(clippy::print_stdout, reason = "decision 98 has the figures")]
fn nothing_that_a_peer_sends_is_worth_more_than_three_times_its_bytes() {
    let segment =
        |number: u64, content: Content<'_>| Segment::new(SessionId { engine: 2, number }, content).to_vec();
    let of_own =
        |number: u64, content: Content<'_>| Segment::new(SessionId { engine: 1, number }, content).to_vec();
    let data = |number: u64, offset: u64, checkpoint: Option<(u64, u64)>| {
        let data = Data { client: 1, offset, checkpoint, ..Data::default() };
        segment(number, Content::Data(data, &[7]))
    };
    // A block of holes, and checkpoints over all of it.
    let holes = || (0..4000_u64).map(|n| data(9, 2 * n, None));
    let fresh = holes().chain((1..2000).map(|serial| data(9, 8000, Some((serial, 0)))));
    let same = holes().chain((1..2000).map(|_| data(9, 8000, Some((5, 0)))));
    let each = (0..1000_u64).map(|n| data(9, 2 * n, Some((n + 1, 0))));
    let begun = (0..200_u64).map(|number| data(number, 0, Some((1, 0))));
    let whole = |number: u64, serial: u64| {
        let checkpoint = Some((serial, 0));
        let data = Data { client: 1, ends_red: true, ends_block: true, checkpoint, ..Data::default() };
        segment(number, Content::Data(data, &[7]))
    };
    // The block is over, and its sender asks on.
    let over = (0..200_u64).flat_map(|number| (1..20).map(move |serial| whole(number, serial)));
    let service = (0..200_u64).map(|number| {
        let data = Data { client: 3, checkpoint: Some((1, 0)), ends_red: true, ..Data::default() };
        segment(number, Content::Data(data, &[]))
    });
    let cancelled = (0..200_u64).map(|number| segment(number, Content::CancelBySender(Reason::Client)));
    let reports = (1..200_u64).map(|serial| {
        let report = Report { serial, checkpoint: 0, upper: 9, lower: 0, claims: Vec::new() };
        of_own(77, Content::Report(report))
    });
    let refused = (0..200_u64).map(|number| of_own(number, Content::CancelByReceiver(Reason::System)));
    let all: [Hostile<'_>; 9] = [
        ("new checkpoints over holes", Box::new(fresh)),
        ("one checkpoint over holes", Box::new(same)),
        ("a checkpoint in each segment", Box::new(each)),
        ("blocks that begin", Box::new(begun)),
        ("blocks that are over", Box::new(over)),
        ("a service that does not exist", Box::new(service)),
        ("cancellations", Box::new(cancelled)),
        ("reports", Box::new(reports)),
        ("refusals", Box::new(refused)),
    ];
    for (what, mut segments) in all {
        let ratio = answers_per_byte(&mut *segments);
        println!("{what}: {ratio:.2}");
        assert!(ratio <= 3.0, "{what}: {ratio:.2}");
    }
}

/// Takes all segments for a peer, and returns their data in bytes and the latest checkpoint.
fn drain_data(engine: &mut Engine, peer: u64) -> (usize, Option<u64>) {
    let (mut bytes, mut latest) = (0, None);
    while let Some(segment) = engine.poll_transmit(peer, Time::ZERO) {
        if let Content::Data(data, content) = Segment::parse(&segment).unwrap().content {
            bytes += content.len();
            latest = data.checkpoint.map(|(serial, _)| serial).or(latest);
        }
    }
    (bytes, latest)
}

fn report_on(checkpoint: u64, serial: u64, upper: u64, claims: Vec<(u64, u64)>) -> Content<'static> {
    Content::Report(Report { serial, checkpoint, upper, lower: 0, claims })
}

/// A hostile neighbour sees the numbers of its own sessions, and guesses those of others.
#[test]
fn a_session_listens_to_its_receiver_and_to_reports_on_its_checkpoints() {
    let mut engine = Engine::new(Config::new(1));
    (2..4).for_each(|peer| engine.set_peer(peer, Peer { light_time: LIGHT, margin: Span::ZERO }));
    let session = engine.send(2, 1, block(), 240).unwrap();
    let checkpoint = drain_data(&mut engine, 2).1.expect("a checkpoint");
    let whole = |checkpoint| report_on(checkpoint, 7, 240, vec![(0, 240)]);
    for (from, content) in [
        (3, whole(checkpoint)),
        (3, Content::CancelByReceiver(Reason::System)),
        (3, Content::SenderCancelAck),
        (2, whole(checkpoint + 1)),
        (2, whole(checkpoint - 1)),
        (2, whole(0)),
        (2, report_on(0, 8, 240, vec![])),
    ] {
        engine.handle_segment(from, &Segment::new(session, content.clone()).to_vec(), Time::ZERO);
        assert_eq!((engine.poll_event(), engine.sessions().0), (None, 1), "{content:?} from {from}");
        assert!(!engine.has_segment(2) && !engine.has_segment(3), "{content:?} from {from}");
    }
    assert_eq!(engine.counts().refused, 7);
    engine.handle_segment(2, &Segment::new(session, whole(checkpoint)).to_vec(), Time::ZERO);
    assert_eq!((engine.poll_event(), engine.sessions().0), (Some(Event::Sent(session)), 0));
}

#[test]
fn reports_have_a_block_repeated_once_for_each_checkpoint_and_not_without_end() {
    let mut engine = Engine::new(Config { segment: 100, ..Config::new(1) });
    engine.set_peer(2, Peer { light_time: LIGHT, margin: Span::ZERO });
    let session = engine.send(2, 1, vec![7; 10_000], 10_000).unwrap();
    let (len, checkpoint) = drain_data(&mut engine, 2);
    let (mut checkpoint, mut serial, mut repeated) = (checkpoint.expect("a checkpoint"), 1, 0);
    assert_eq!(len, 10_000);
    loop {
        let mut latest = checkpoint;
        let mut round = 0;
        // Any number of reports on one checkpoint, with scopes that overlap.
        for upper in (9_900..=10_000).chain([10_000; 20]) {
            let report = report_on(checkpoint, serial, upper, vec![]);
            engine.handle_segment(2, &Segment::new(session, report).to_vec(), Time::ZERO);
            serial += 1;
            let (bytes, next) = drain_data(&mut engine, 2);
            (round, latest) = (round + bytes, next.unwrap_or(latest));
        }
        assert!(round <= 10_000, "{round} B for one checkpoint");
        repeated += round;
        if let Some(event) = engine.poll_event() {
            assert_eq!(event, Event::Failed(session, Reason::Cycles));
            break;
        }
        assert_ne!(latest, checkpoint, "a repeated part has a checkpoint");
        checkpoint = latest;
    }
    assert!((320_000..=330_000).contains(&repeated), "{repeated}");
}

/// A checkpoint beyond the credit counts as lost. Its sender repeats it, and brings credit with it.
#[test]
fn what_is_beyond_the_credit_is_answered_later() {
    let mut engine = Engine::new(Config::new(1));
    engine.set_peer(2, Peer { light_time: LIGHT, margin: Span::ZERO });
    let send = |engine: &mut Engine, offset: u64, checkpoint: Option<(u64, u64)>, len: usize| {
        let data = Data { client: 1, offset, checkpoint, ..Data::default() };
        let bytes = vec![7; len];
        let segment = Segment::new(SessionId { engine: 2, number: 9 }, Content::Data(data, &bytes));
        engine.handle_segment(2, &segment.to_vec(), Time::ZERO);
        std::iter::from_fn(|| engine.poll_transmit(2, Time::ZERO)).count()
    };
    (0..500).for_each(|n| assert_eq!(send(&mut engine, 2 * n, None, 1), 0));
    let answered = (1..100).filter(|serial| send(&mut engine, 2000, Some((*serial, 0)), 1) > 0).count();
    assert!((3..60).contains(&answered), "{answered}");
    assert_eq!(send(&mut engine, 2000, Some((200, 0)), 1), 0);
    assert_eq!(send(&mut engine, 2000, Some((200, 0)), 1), 0, "the same again");
    // The data that was missing comes, and with it credit.
    send(&mut engine, 0, None, 1000);
    assert_eq!(send(&mut engine, 2000, Some((200, 0)), 1), 1);
}

/// RFC 5326, section 6.17: the acknowledgement is sent also if there is no record of the session.
#[test]
fn a_receivers_cancellation_is_acknowledged_each_time() {
    let mut engine = Engine::new(Config::new(1));
    engine.set_peer(2, Peer { light_time: LIGHT, margin: Span::ZERO });
    let session = SessionId { engine: 1, number: 77 };
    let cancel = Segment::new(session, Content::CancelByReceiver(Reason::Cycles)).to_vec();
    for _ in 0..2 {
        engine.handle_segment(2, &cancel, Time::ZERO);
        let answer = engine.poll_transmit(2, Time::ZERO).expect("an acknowledgement");
        assert_eq!(Segment::parse(&answer).unwrap(), Segment::new(session, Content::ReceiverCancelAck));
    }
    assert_eq!((engine.poll_event(), engine.counts().failed), (None, 0));
}

#[test]
fn blocks_for_a_client_service_that_does_not_exist_are_cancelled() {
    for is_green in [false, true] {
        let mut engine = Engine::new(Config::new(1));
        engine.set_peer(2, Peer { light_time: LIGHT, margin: Span::ZERO });
        let session = SessionId { engine: 2, number: 5 };
        let checkpoint = (!is_green).then_some((9, 0));
        let data = Data {
            client: 4,
            ends_block: true,
            ends_red: !is_green,
            is_green,
            checkpoint,
            ..Data::default()
        };
        engine.handle_segment(2, &Segment::new(session, Content::Data(data, b"block")).to_vec(), Time::ZERO);
        let answer = engine.poll_transmit(2, Time::ZERO).expect("a cancellation");
        let cancel = Segment::new(session, Content::CancelByReceiver(Reason::Unreachable));
        assert_eq!(Segment::parse(&answer).unwrap(), cancel);
        assert_eq!((engine.poll_transmit(2, Time::ZERO), engine.held()), (None, 0));
        assert_eq!(engine.poll_event(), Some(Event::Cancelled(session, Reason::Unreachable)));
        assert_eq!(engine.poll_event(), None, "nothing is delivered");
        // It is repeated until it is acknowledged.
        let later = engine.next_timeout();
        engine.handle_timeout(later);
        assert_eq!(engine.poll_transmit(2, later), Some(answer));
        engine.handle_segment(2, &Segment::new(session, Content::ReceiverCancelAck).to_vec(), later);
        assert_eq!((engine.sessions().1, engine.next_timeout()), (0, Time::NEVER));
    }
}

#[test]
fn incomplete_blocks_take_the_memory_of_what_has_arrived_up_to_a_limit() {
    let mut engine = Engine::new(Config { block: 1 << 40, incomplete: 2501, ..Config::new(1) });
    engine.set_peer(2, Peer { light_time: LIGHT, margin: Span::ZERO });
    let mut segment = |number: u64, offset: u64, len: usize| {
        let data = Data { client: 1, offset, ..Data::default() };
        let bytes = vec![7; len];
        let session = SessionId { engine: 2, number };
        engine.handle_segment(2, &Segment::new(session, Content::Data(data, &bytes)).to_vec(), Time::ZERO);
        (engine.held(), engine.counts().refused)
    };
    assert_eq!(segment(1, 1 << 39, 1), (1, 0));
    assert_eq!(segment(2, 0, 1000), (1001, 0));
    assert_eq!(segment(2, 500, 1000), (1501, 0));
    assert_eq!(segment(2, 0, 1000), (1501, 0), "known already");
    assert_eq!(segment(3, 5, 1100), (1501, 1), "no room for another");
    assert_eq!(segment(2, 1500, 3500), (5001, 1), "what has begun goes on");
    assert_eq!(segment(2, 5000, 2), (5001, 2), "up to twice as much");
    engine.handle_segment(
        2,
        &Segment::new(SessionId { engine: 2, number: 2 }, Content::CancelBySender(Reason::Client)).to_vec(),
        Time::ZERO,
    );
    assert_eq!(engine.held(), 1);
    // What expires is forgotten too.
    let idle = engine.next_timeout();
    engine.handle_timeout(idle);
    assert_eq!(engine.held(), 0);
}

#[test]
fn mean_rounds_of_published_table() {
    let table = [
        (1, [1.001, 1.010, 1.111, 1.429, 2.000]),
        (10, [1.010, 1.097, 1.758, 2.934, 4.726]),
        (100, [1.095, 1.644, 2.740, 4.809, 7.984]),
        (1000, [1.633, 2.096, 3.738, 6.718, 11.299]),
    ];
    for (n, row) in table {
        for (p, expected) in [0.001, 0.01, 0.1, 0.3, 0.5].into_iter().zip(row) {
            assert!((mean_rounds(n, p) - expected).abs() < 1e-3, "{n} segments, loss {p}");
        }
    }
    assert_eq!((tries(1e-7, 1400), tries(1.0, 1400)), (3, 1375));
}

/// Mean of rounds over many blocks, against the closed form.
#[test]
fn rounds_follow_the_closed_form() {
    let (mut stream, blocks, p) = (RandomStream::new(5, "losses"), 2000, 0.3);
    let mut rounds = 0.0;
    for _ in 0..blocks {
        let mut pair = Pair::new(|config| (config.segment, config.tries) = (100, 100));
        pair.engines[0].send(2, 1, block(), 240).unwrap();
        pair.run(|from, _, segment| from == 0 && is_data(segment) && stream.chance(p));
        rounds += (pair.finished.as_secs_f64() - 200.0) / 400.0 + 1.0;
    }
    // A lost checkpoint costs its timer and then a report for the others: more rounds than segments alone need.
    let (mean, least) = (rounds / f64::from(blocks), mean_rounds(3, p));
    assert!(mean > least - 0.05 && mean < least + 0.8, "{mean} rounds, at least {least}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_channel_ends_with_all_or_a_failure(
        len in 1usize..900, red in 0u64..900, losses in proptest::collection::vec(0u32..100, 0..60), doubled: bool, tries in 2u32..6,
    ) {
        let data: Vec<u8> = (0..len).map(|n| (n * 7) as u8).collect();
        let red = if red < 300 { 0 } else { len as u64 };
        let mut pair = Pair::new(|config| (config.segment, config.tries) = (90, tries));
        pair.engines[0].send(2, 1, data.clone(), red).unwrap();
        let lost: HashSet<u32> = losses.into_iter().collect();
        let mut n = 0;
        pair.run(|_, _, _| { n += 1; lost.contains(&n) && !(doubled && n % 3 == 0) });
        prop_assert!(pair.is_at_rest());
        prop_assert!(pair.received.iter().all(|received| *received == data) && pair.received.len() <= 1);
        if matches!(pair.outcome, Some(Event::Sent(_))) && red > 0 {
            prop_assert_eq!(pair.received.len(), 1);
        }
    }
}
