use bentpipe_wire::dtn::cfdp::FileStatus;

use super::*;

const DELAY: Span = Span::from_secs(1);

fn entity(number: u64, edit: impl FnOnce(&mut Config)) -> Entity {
    let mut config = Config { segment: 100, timeout: Span::from_secs(3), ..Config::new(number) };
    edit(&mut config);
    Entity::new(config, 1)
}

fn file(len: usize) -> Arc<[u8]> {
    (0..len).map(|n| (n * 7 + n / 256) as u8).collect::<Vec<u8>>().into()
}

fn put(len: usize, is_acknowledged: bool) -> Put {
    Put {
        destination: 2,
        source_name: "a".into(),
        destination_name: "b".into(),
        file: file(len),
        is_acknowledged,
    }
}

/// Two entities and what is on its way between them.
struct Rig {
    ends: [Entity; 2],
    now: Time,
    flying: VecDeque<(Time, usize, Vec<u8>)>,
    /// PDUs sent in both directions.
    sent: usize,
    events: [Vec<Event>; 2],
}

impl Rig {
    fn new(ends: [Entity; 2]) -> Rig {
        Rig { ends, now: Time::ZERO, flying: VecDeque::new(), sent: 0, events: [Vec::new(), Vec::new()] }
    }

    /// Runs until both entities are at rest. `is_lost` decides on each PDU by its number.
    fn run(&mut self, mut is_lost: impl FnMut(usize, &[u8]) -> bool) {
        for _ in 0..100_000 {
            for end in 0..2 {
                while let Some((to, pdu)) = self.ends[end].poll_transmit(self.now) {
                    assert_eq!(to, 2 - end as u64, "to the other entity");
                    if !is_lost(self.sent, &pdu) {
                        self.flying.push_back((self.now + DELAY, 1 - end, pdu));
                    }
                    self.sent += 1;
                }
                self.events[end].extend(std::iter::from_fn(|| self.ends[end].poll_event()));
            }
            let arrival = self.flying.front().map_or(Time::NEVER, |(at, ..)| *at);
            let timeout = self.ends.iter().map(Entity::next_timeout).min().expect("two");
            self.now = arrival.min(timeout);
            if self.now.is_never() {
                return;
            }
            if arrival <= timeout
                && let Some((_, end, pdu)) = self.flying.pop_front()
            {
                self.ends[end].handle_pdu(&pdu, self.now).expect("a PDU");
            } else {
                self.ends.iter_mut().for_each(|end| end.handle_timeout(self.now));
            }
        }
        panic!("the entities do not come to rest");
    }

    fn at_rest(&self) -> bool {
        self.ends.iter().all(|end| end.transactions() == (0, 0) && end.used() == 0)
    }
}

fn received(rig: &Rig) -> Vec<&ReceivedFile> {
    let files = rig.events[1].iter().filter_map(|event| match event {
        Event::Received(_, file) => Some(file),
        _ => None,
    });
    files.collect()
}

#[test]
fn files_of_all_lengths_arrive_in_both_classes() {
    for is_acknowledged in [true, false] {
        for len in [0, 1, 99, 100, 101, 5000] {
            let mut rig = Rig::new([entity(1, |_| {}), entity(2, |_| {})]);
            let transaction = rig.ends[0].put(put(len, is_acknowledged), Time::ZERO).expect("room");
            rig.run(|_, _| false);
            let files = received(&rig);
            assert_eq!((files.len(), &files[0].data[..]), (1, &file(len)[..]));
            assert_eq!((&files[0].source_name[..], &files[0].destination_name[..]), (&b"a"[..], &b"b"[..]));
            assert_eq!(rig.events[0], [Event::Sent(transaction, is_acknowledged)]);
            assert!(rig.at_rest());
            // Metadata, data and the end; then its acknowledgement, and the receiver's end and its acknowledgement.
            let extra = if is_acknowledged { 5 } else { 2 };
            assert_eq!(rig.sent, len.div_ceil(100) + extra);
        }
    }
}

#[test]
fn every_pattern_of_losses_of_a_small_file_is_repaired() {
    for pattern in 0_u32..1 << 12 {
        let mut rig = Rig::new([entity(1, |_| {}), entity(2, |_| {})]);
        rig.ends[0].put(put(250, true), Time::ZERO).expect("room");
        rig.run(|n, _| n < 12 && pattern >> n & 1 == 1);
        let files = received(&rig);
        assert_eq!((files.len(), &files[0].data[..]), (1, &file(250)[..]), "pattern {pattern:b}");
        assert!(matches!(rig.events[0][..], [Event::Sent(_, true)]), "{:?}", rig.events[0]);
        assert!(rig.at_rest(), "pattern {pattern:b}");
    }
}

#[test]
fn only_what_was_lost_is_sent_again() {
    let mut rig = Rig::new([entity(1, |_| {}), entity(2, |_| {})]);
    rig.ends[0].put(put(10_000, true), Time::ZERO).expect("room");
    // The metadata is PDU 0, data is from 1 to 100.
    rig.run(|n, _| [0, 5, 6, 77].contains(&n));
    assert_eq!(received(&rig).len(), 1);
    // A NAK and four repetitions in addition.
    assert_eq!(rig.sent, 100 + 5 + 5);
}

#[test]
fn a_loss_without_acknowledgements_is_reported_with_closure() {
    for closure in [true, false] {
        let mut rig = Rig::new([entity(1, |config| config.closure = closure), entity(2, |_| {})]);
        let transaction = rig.ends[0].put(put(250, false), Time::ZERO).expect("room");
        rig.run(|n, _| n == 2);
        assert!(received(&rig).is_empty());
        assert_eq!(rig.events[1], [Event::Failed(transaction, Condition::CheckLimit, 150)]);
        let wanted = if closure {
            Event::Failed(transaction, Condition::CheckLimit, 250)
        } else {
            Event::Sent(transaction, false)
        };
        assert_eq!(rig.events[0], [wanted]);
        assert!(rig.at_rest());
    }
    let mut rig = Rig::new([entity(1, |config| config.closure = true), entity(2, |_| {})]);
    let transaction = rig.ends[0].put(put(250, false), Time::ZERO).expect("room");
    rig.run(|_, _| false);
    assert_eq!(rig.events[0], [Event::Sent(transaction, true)]);
}

#[test]
fn silence_ends_both_ends() {
    let mut rig = Rig::new([entity(1, |_| {}), entity(2, |_| {})]);
    let transaction = rig.ends[0].put(put(250, true), Time::ZERO).expect("room");
    // Nothing comes back.
    rig.run(|_, pdu| pdu[0] & 8 != 0);
    assert_eq!(rig.events[0], [Event::Failed(transaction, Condition::AckLimit, 250)]);
    assert_eq!(received(&rig).len(), 1);
    assert!(rig.at_rest());
    // The end of the file never arrives.
    let mut rig = Rig::new([entity(1, |_| {}), entity(2, |_| {})]);
    let transaction = rig.ends[0].put(put(250, true), Time::ZERO).expect("room");
    rig.run(|n, _| n >= 4);
    assert_eq!(rig.events[1], [Event::Failed(transaction, Condition::Inactivity, 250)]);
    assert!(rig.at_rest());
}

#[test]
fn a_repeated_end_is_reported_once() {
    let mut sender = entity(1, |_| {});
    let transaction = sender.put(put(250, true), Time::ZERO).expect("room");
    while sender.poll_transmit(Time::ZERO).is_some() {}
    let content =
        Content::Finished { condition: Condition::NoError, is_complete: true, status: FileStatus::Retained };
    let finished = Pdu { common: Common::new(transaction, 2), content }.to_vec();
    for _ in 0..3 {
        sender.handle_pdu(&finished, Time::ZERO).expect("a PDU");
    }
    sender.cancel(transaction, Time::ZERO);
    assert_eq!(sender.poll_event(), Some(Event::Sent(transaction, true)));
    assert_eq!(sender.poll_event(), None);
    assert!(sender.poll_transmit(Time::ZERO).is_some(), "the acknowledgement");
    assert_eq!(sender.transactions(), (0, 0));
    // Its acknowledgement is repeated with the report.
    sender.handle_pdu(&finished, Time::ZERO).expect("a PDU");
    assert!(sender.poll_transmit(Time::ZERO).is_some());
    assert_eq!((sender.poll_event(), sender.poll_transmit(Time::ZERO)), (None, None));
}

#[test]
fn both_ends_cancel() {
    for end in [0, 1] {
        let mut rig = Rig::new([entity(1, |_| {}), entity(2, |_| {})]);
        let transaction = rig.ends[0].put(put(5000, true), Time::ZERO).expect("room");
        for _ in 0..10 {
            let (_, pdu) = rig.ends[0].poll_transmit(Time::ZERO).expect("a PDU");
            rig.ends[1].handle_pdu(&pdu, Time::ZERO).expect("a PDU");
        }
        rig.ends[end].cancel(transaction, Time::ZERO);
        rig.run(|_, _| false);
        for events in &rig.events {
            assert!(matches!(events[..], [Event::Failed(_, Condition::Cancelled, _)]), "{events:?}");
        }
        assert!(rig.at_rest());
    }
}

#[test]
fn a_wrong_checksum_and_a_wrong_size_are_refused() {
    let mut rig = Rig::new([entity(1, |config| config.has_crc = false), entity(2, |_| {})]);
    rig.ends[0].put(put(250, true), Time::ZERO).expect("room");
    while let Some((_, mut pdu)) = rig.ends[0].poll_transmit(Time::ZERO) {
        if pdu.len() > 100 {
            *pdu.last_mut().expect("data") ^= 1;
        }
        rig.ends[1].handle_pdu(&pdu, Time::ZERO).expect("a PDU");
    }
    rig.run(|_, _| false);
    assert!(
        matches!(rig.events[1][..], [Event::Failed(_, Condition::FileChecksum, _)]),
        "{:?}",
        rig.events[1]
    );
    assert!(
        matches!(rig.events[0][..], [Event::Failed(_, Condition::FileChecksum, _)]),
        "{:?}",
        rig.events[0]
    );
    let mut rig = Rig::new([entity(1, |_| {}), entity(2, |config| config.file = 200)]);
    rig.ends[0].put(put(250, true), Time::ZERO).expect("room");
    rig.run(|_, _| false);
    assert!(
        matches!(rig.events[1][..], [Event::Failed(_, Condition::FilestoreRejection, 0)]),
        "{:?}",
        rig.events[1]
    );
}

#[test]
fn memory_is_bounded_and_files_arrive_one_after_the_other() {
    let mut rig =
        Rig::new([entity(1, |_| {}), entity(2, |config| (config.memory, config.transactions) = (9000, 3))]);
    for _ in 0..3 {
        rig.ends[0].put(put(3000, true), Time::ZERO).expect("room");
    }
    rig.run(|_, _| false);
    assert_eq!((received(&rig).len(), rig.at_rest()), (3, true));
    let mut flooded = entity(2, |config| (config.memory, config.transactions) = (9000, 3));
    for number in 0..50 {
        let common = Common::new(Transaction { source: 1, number }, 2);
        for part in 0..50 {
            let pdu = Pdu { common, content: Content::Data(part * 1000, &[7; 500]) };
            flooded.handle_pdu(&pdu.to_vec(), Time::ZERO).expect("a PDU");
            assert!(flooded.used() <= 9000);
        }
    }
    assert_eq!(flooded.transactions(), (0, 3));
    flooded.handle_timeout(Time::ZERO + Span::from_secs(600));
    assert_eq!((flooded.transactions(), flooded.used()), ((0, 0), 0));
}

#[test]
fn a_number_that_is_used_again_has_an_answer() {
    let send = |rig: &mut Rig, len: usize, name: &str, is_acknowledged: bool| {
        // A sender that starts again counts from its first number.
        rig.ends[0] = entity(1, |_| {});
        rig.events = [Vec::new(), Vec::new()];
        let put = Put { destination_name: name.into(), ..put(len, is_acknowledged) };
        rig.now = Time::ZERO;
        let transaction = rig.ends[0].put(put, rig.now).expect("room");
        rig.run(|_, _| false);
        transaction
    };
    for is_acknowledged in [true, false] {
        let mut rig = Rig::new([entity(1, |_| {}), entity(2, |_| {})]);
        let first = send(&mut rig, 300, "first", is_acknowledged);
        assert_eq!(received(&rig).len(), 1);
        let second = send(&mut rig, 200, "second", is_acknowledged);
        assert_eq!(first, second);
        assert_eq!(rig.events[1][0], Event::Reused(second));
        assert_eq!(received(&rig)[0].destination_name, b"second");
        assert_eq!(rig.events[0], [Event::Sent(second, is_acknowledged)]);
        // The same file again is not taken twice, and its sender has an answer.
        let third = send(&mut rig, 200, "second", is_acknowledged);
        assert_eq!(rig.events, [vec![Event::Sent(third, is_acknowledged)], vec![]]);
        assert!(rig.at_rest());
    }
}

/// A host names another source each time.
#[test]
fn no_host_takes_all_transactions_by_other_sources() {
    let data = |source: u64| {
        let common = Common::new(Transaction { source, number: 1 }, 2);
        Pdu { common, content: Content::Data(0, &[7; 10]) }.to_vec()
    };
    let mut entity = entity(2, |config| config.transactions = 4);
    for s in 0..10 {
        for source in 10..20 {
            entity.handle_pdu_of(1, &data(source), Time::ZERO + Span::from_secs(s)).expect("a PDU");
        }
    }
    assert!(entity.poll_event().is_none());
    entity.handle_pdu_of(2, &data(3), Time::ZERO + Span::from_secs(10)).expect("a PDU");
    assert!(matches!(entity.poll_event(), Some(Event::Displaced(..))));
    assert!(entity.receiving.contains_key(&(2, Transaction { source: 3, number: 1 })));
}

/// A source begins as many transactions as there may be, and others are then forged.
#[test]
fn no_source_takes_all_transactions_or_all_memory() {
    let data = |source: u64, number: u64, part: u64, len: usize| {
        let common = Common::new(Transaction { source, number }, 2);
        Pdu { common, content: Content::Data(part * 1000, &vec![7; len]) }.to_vec()
    };
    let mut entity = entity(2, |config| (config.memory, config.transactions) = (9000, 4));
    let mut take = |bytes: Vec<u8>, s: u64| {
        entity.handle_pdu(&bytes, Time::ZERO + Span::from_secs(s)).expect("a PDU");
        let ended: Vec<Event> = std::iter::from_fn(|| entity.poll_event()).collect();
        let count = |source: u64| entity.receiving.keys().filter(|(_, one)| one.source == source).count();
        (count(1), count(3), ended.len())
    };
    for number in 0..10 {
        take(data(1, number, 0, 10), 0);
    }
    assert_eq!(take(data(3, 1, 0, 10), 1), (3, 1, 1));
    assert_eq!(take(data(3, 2, 0, 10), 1), (2, 2, 1));
    assert_eq!(take(data(3, 3, 0, 10), 1), (2, 2, 0), "it has its share");
    assert_eq!(take(data(1, 20, 0, 10), 1), (2, 2, 0));
    // Forged sources have one each, and what is silent gives way.
    assert_eq!(take(data(4, 1, 0, 10), 2).2, 1);
    assert_eq!(take(data(5, 1, 0, 10), 2).2, 1);
    assert_eq!(take(data(6, 1, 0, 10), 2).2, 0);
    assert_eq!(take(data(6, 1, 0, 10), 30).2, 1);
    // One source has most of the memory.
    for part in 0..20 {
        take(data(6, 1, part, 500), 31);
    }
    let before = entity.used();
    for part in 0..8 {
        entity.handle_pdu(&data(3, 7, part, 500), Time::ZERO + Span::from_secs(60)).expect("a PDU");
    }
    assert!(before > 7000, "{before}");
    let taken = entity.receiving.iter().filter(|((_, one), _)| one.source == 3).map(|(_, one)| one.used());
    assert!(taken.sum::<usize>() > 3000 && entity.used() <= 9000);
}

#[test]
fn another_host_spoils_no_transaction() {
    let (mut from, mut to) = (entity(1, |_| {}), entity(2, |_| {}));
    let transaction = from.put(put(3000, true), Time::ZERO).expect("room");
    let mut is_first = true;
    while let Some((_, pdu)) = from.poll_transmit(Time::ZERO) {
        to.handle_pdu_of(1, &pdu, Time::ZERO).expect("a PDU");
        if std::mem::take(&mut is_first) {
            let common = Common { is_acknowledged: true, is_large: true, ..Common::new(transaction, 2) };
            for content in [
                Content::Data(100, &[0xa5; 500]),
                Content::Data(1 << 40, &[0xa5; 500]),
                Content::EndOfFile { condition: Condition::Cancelled, checksum: 0, size: 0 },
            ] {
                to.handle_pdu_of(9, &Pdu { common, content }.to_vec(), Time::ZERO).expect("a PDU");
            }
        }
    }
    let events: Vec<Event> = std::iter::from_fn(|| to.poll_event()).collect();
    assert!(matches!(events[0], Event::Failed(_, Condition::FileSize, 500)), "{events:?}");
    let Event::Received(_, file) = &events[1] else { panic!("{events:?}") };
    assert_eq!(file.data, from_put(3000));
    let hosts: Vec<u64> =
        std::iter::from_fn(|| to.poll_transmit_to(Time::ZERO)).map(|(_, host, _)| host).collect();
    assert!(hosts.contains(&1) && hosts.contains(&9), "each has its answers: {hosts:?}");
}

/// Returns the content of [`put`].
fn from_put(len: usize) -> Vec<u8> {
    put(len, true).file.to_vec()
}

#[test]
fn a_host_that_asks_again_and_again_keeps_none_waiting() {
    let mut to = entity(2, |_| {});
    let end = |source: u64, size: u64| {
        let common = Common { is_acknowledged: true, ..Common::new(Transaction { source, number: 1 }, 2) };
        let content = Content::EndOfFile { condition: Condition::NoError, checksum: 0, size };
        Pdu { common, content }.to_vec()
    };
    // The first has holes without an end, and one transaction that is over; the second is honest.
    let common = Common { is_acknowledged: true, ..Common::new(Transaction { source: 1, number: 7 }, 2) };
    for part in 0..50_000 {
        let content = Content::Data(2 * part, &[7]);
        to.handle_pdu_of(1, &Pdu { common, content }.to_vec(), Time::ZERO).expect("a PDU");
    }
    let over = Content::EndOfFile { condition: Condition::Cancelled, checksum: 0, size: 0 };
    let other = Common { is_acknowledged: true, ..Common::new(Transaction { source: 1, number: 8 }, 2) };
    let over = Pdu { common: other, content: over }.to_vec();
    let finished = Pdu { common: other, content: Content::AckFinished(Condition::Cancelled, Status::Active) };
    to.handle_pdu_of(1, &over, Time::ZERO).expect("a PDU");
    while to.poll_transmit(Time::ZERO).is_some() {}
    to.handle_pdu_of(1, &finished.to_vec(), Time::ZERO).expect("a PDU");
    for n in 0..20 {
        let prompt = Pdu { common, content: Content::Prompt(false) }.to_vec();
        for pdu in [&prompt, &over, &over, &over] {
            to.handle_pdu_of(1, pdu, Time::ZERO).expect("a PDU");
        }
        to.handle_pdu_of(100, &end(3 + n, 10), Time::ZERO).expect("a PDU");
        let hosts: Vec<u64> =
            (0..4).filter_map(|_| to.poll_transmit_to(Time::ZERO)).map(|(_, host, _)| host).collect();
        assert_eq!(hosts.iter().filter(|host| **host == 100).count(), 2, "{n}: {hosts:?}");
    }
}

/// Returns the bytes that an entity answers at once, and in all, for each byte that came from a host.
///
/// Nothing of it is acknowledged, and all timers expire.
fn answers_per_byte(pdus: &mut dyn Iterator<Item = Vec<u8>>) -> (f64, f64) {
    let (mut to, mut now) = (entity(2, |_| {}), Time::ZERO);
    let (mut came, mut went) = (0, 0);
    let mut drain = |to: &mut Entity, now: Time| {
        while to.poll_event().is_some() {}
        went += std::iter::from_fn(|| to.poll_transmit(now)).map(|(_, pdu)| pdu.len()).sum::<usize>();
        went as f64
    };
    let mut at_once = 0.0;
    for pdu in pdus {
        came += pdu.len();
        to.handle_pdu_of(1, &pdu, now).expect("a PDU");
        at_once = drain(&mut to, now);
    }
    let mut all = at_once;
    while !to.next_timeout().is_never() {
        now = to.next_timeout();
        to.handle_timeout(now);
        all = drain(&mut to, now);
    }
    (at_once / came as f64, all / came as f64)
}

/// PDUs that provoke answers, with their name.
type Hostile<'a> = (&'a str, Box<dyn Iterator<Item = Vec<u8>> + 'a>);

/// The address of a datagram can be forged. Then all that answers it goes to a host that asked for nothing.
#[test]
#[allow(clippy::print_stdout, reason = "decision 98 has the figures")]
fn nothing_that_a_host_sends_is_worth_more_than_three_times_its_bytes_at_once() {
    let pdu = |number: u64, content: Content<'_>| {
        let common = Common { is_acknowledged: true, ..Common::new(Transaction { source: 1, number }, 2) };
        Pdu { common, content }.to_vec()
    };
    let end = |number: u64, size: u64| {
        pdu(number, Content::EndOfFile { condition: Condition::NoError, checksum: 0, size })
    };
    let holes = || (0..4000_u64).map(|n| pdu(9, Content::Data(2 * n, &[7])));
    let prompt = |wants_progress| move |number: u64| pdu(number, Content::Prompt(wants_progress));
    let asked = holes().chain((0..2000).map(|_| 9).map(prompt(false)));
    let ended = holes().chain([end(9, 8000)]).chain((0..2000).map(|_| 9).map(prompt(false)));
    let progress = holes().chain((0..2000).map(|_| 9).map(prompt(true)));
    let begun = (0..100).map(|number| end(number, 1 << 20));
    let repeated = (0..20).flat_map(|_| (0..100).map(|number| end(number, 1 << 20)));
    // Each ends by an error at once, and is asked for again.
    let wrong = |number: u64| [pdu(number, Content::Data(100, &[7])), end(number, 1), end(number, 1)];
    let over = (0..100).flat_map(wrong).chain((0..100).flat_map(|number| [end(number, 1), end(number, 1)]));
    let all: [Hostile<'_>; 6] = [
        ("prompts over holes", Box::new(asked)),
        ("prompts over holes of a file that has ended", Box::new(ended)),
        ("prompts for progress", Box::new(progress)),
        ("files that end", Box::new(begun)),
        ("files that end again", Box::new(repeated)),
        ("files that are over", Box::new(over)),
    ];
    for (what, mut pdus) in all {
        let (at_once, all) = answers_per_byte(&mut *pdus);
        println!("{what}: {at_once:.2} at once, {all:.2} in all");
        assert!(at_once <= 3.0, "{what}: {at_once:.2}");
        // Ten timeouts of a transaction have a short PDU each, and as many after its end.
        assert!(all <= 3.0 + 20.0 * 2.0, "{what}: {all:.2}");
    }
}

/// All of a file is lost but its end, and then requests for it too.
#[test]
fn requests_without_credit_are_repeated() {
    let mut rig = Rig::new([entity(1, |_| {}), entity(2, |_| {})]);
    let transaction = rig.ends[0].put(put(10_000, true), Time::ZERO).expect("room");
    let mut requests = 0;
    rig.run(|n, pdu| {
        // Direction is a flag of the first byte: to the sender of the file.
        let is_request = pdu[0] & 8 != 0 && pdu.len() > 25;
        requests += usize::from(is_request);
        n < 101 || is_request && requests < 6
    });
    assert_eq!((received(&rig).len(), rig.at_rest()), (1, true));
    assert_eq!(rig.events[0], [Event::Sent(transaction, true)]);
    assert!(requests >= 6, "{requests}");
}

#[test]
fn an_entity_that_sends_alone_takes_nothing() {
    let mut from = entity(1, |config| config.receives = false);
    let own = from.put(put(300, true), Time::ZERO).expect("room");
    let common = Common::new(own, 1);
    for content in [
        Content::Data(0, &[7; 10]),
        Content::EndOfFile { condition: Condition::Cancelled, checksum: 0, size: 0 },
    ] {
        from.handle_pdu_of(9, &Pdu { common, content }.to_vec(), Time::ZERO).expect("a PDU");
    }
    assert_eq!((from.poll_event(), from.transactions()), (None, (1, 0)));
}
