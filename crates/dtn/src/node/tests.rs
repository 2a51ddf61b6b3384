use bentpipe_wire::dtn::admin::Record;
use bentpipe_wire::dtn::bundle::{Block, BlockFlags, BundleFlags, Payload, Primary};

use super::*;
use crate::plan::Plan;
use crate::route::{Graph, Options};

const EPOCH: u64 = 820_540_800_000;
const WHOLE: u64 = u64::MAX;

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

fn config(node: u32, storage: u64) -> Config {
    Config { eid: Eid::ipn(node, 0), storage, reports: true, epoch: EPOCH }
}

fn node(number: u32, default: u64) -> Node {
    Node::new(config(number, 10_000), Routing::Static { routes: HashMap::new(), default: Some(default) })
}

fn bundle(node: &mut Node, to: u32, len: u64, lifetime: u64) -> Bundle {
    let stamp = node.timestamp(Time::ZERO);
    let primary = Primary::new(Eid::ipn(1, 1), Eid::ipn(to, 7), stamp, lifetime * 1000);
    Bundle { primary, blocks: vec![], payload: Payload::elided(len) }
}

fn with_priority(mut bundle: Bundle, priority: u8) -> Bundle {
    bundle.set(priority_block(priority));
    bundle
}

#[test]
fn a_bundle_travels_with_its_age_hops_and_previous_node() {
    let (mut first, mut second) = (node(1, 2), node(2, 3));
    let mut sent = bundle(&mut first, 3, 10, 1000);
    sent.primary.timestamp.time = 0;
    sent.set(Content::Age(5));
    sent.set(Content::HopCount(HopCount { limit: 2, count: 0 }));
    assert!(first.originate(sent, Time::ZERO));
    let (id, sent) = first.poll_transmit(2, WHOLE, at(2)).unwrap();
    assert_eq!((sent.age(), sent.hop_count().unwrap().count, sent.previous_node()), (Some(2005), 1, None));
    first.done(id, true, at(2));
    assert_eq!(first.stored(), (0, 0));
    assert!(second.receive(sent, 1, Arrival::Final, at(3)));
    let (_, sent) = second.poll_transmit(3, WHOLE, at(3)).unwrap();
    assert_eq!((sent.hop_count().unwrap().count, sent.previous_node()), (2, Some(Eid::ipn(2, 0))));
    let mut third = node(9, 4);
    assert!(third.receive(sent.clone(), 2, Arrival::Final, at(4)));
    let (_, beyond) = third.poll_transmit(4, WHOLE, at(4)).unwrap();
    let mut last = node(8, 4);
    assert!(last.receive(beyond, 9, Arrival::Final, at(5)));
    assert_eq!((last.counts().hop_limit, last.stored().0), (1, 0));
}

#[test]
fn lifetimes_end_by_clock_and_by_age() {
    let mut node = node(1, 2);
    let clocked = bundle(&mut node, 3, 10, 60);
    let mut aged = bundle(&mut node, 3, 10, 60);
    aged.primary.timestamp.time = 0;
    aged.set(Content::Age(50_000));
    node.originate(clocked, at(30));
    node.originate(aged, at(30));
    assert_eq!(node.next_timeout(), at(40), "10 s are left of the age");
    node.handle_timeout(at(40));
    assert_eq!((node.counts().expired, node.next_timeout()), (1, at(60)));
    node.handle_timeout(at(60));
    assert_eq!((node.counts().expired, node.has_bundle(2), node.stored()), (2, false, (0, 0)));
}

#[test]
fn a_full_store_displaces_lower_priorities_that_end_first() {
    let mut node = Node::new(config(1, 500), Routing::Static { routes: HashMap::new(), default: Some(2) });
    for (priority, lifetime) in [(0, 20), (0, 10), (1, 5)] {
        let bundle = with_priority(bundle(&mut node, 3, 100, lifetime), priority);
        assert!(node.originate(bundle, Time::ZERO));
    }
    let low = with_priority(bundle(&mut node, 3, 100, 9), 0);
    assert!(!node.originate(low, Time::ZERO));
    let high = with_priority(bundle(&mut node, 3, 100, 9), 2);
    assert!(node.originate(high, Time::ZERO));
    let order: Vec<u64> = std::iter::from_fn(|| node.poll_transmit(2, WHOLE, Time::ZERO))
        .map(|(_, bundle)| bundle.primary.lifetime)
        .collect();
    assert_eq!(order, [9000, 5000, 20_000], "by priority; the bulk bundle that ended first is gone");
    assert_eq!((node.counts().evicted, node.counts().refused), (1, 1));
}

#[test]
fn what_a_report_displaces_has_no_report() {
    let reports = BundleFlags::REPORT_DELETION;
    let mut node =
        Node::new(config(1, 2_000_000), Routing::Static { routes: HashMap::new(), default: Some(2) });
    let low = |node: &mut Node, len: u64| {
        let mut low = with_priority(bundle(node, 3, len, 100), 0);
        (low.primary.flags, low.primary.report_to) = (reports, Eid::ipn(9, 1));
        low
    };
    let mut count = 0;
    loop {
        let bundle = low(&mut node, 1);
        if !node.originate(bundle, Time::ZERO) {
            break;
        }
        count += 1;
    }
    assert!(count > 20_000, "{count}");
    // Each of them is shorter than a report: a report for each would displace the next.
    let high = with_priority(bundle(&mut node, 3, 100, 100), 2);
    assert!(node.originate(high, Time::ZERO));
    let counts = node.counts();
    assert!(counts.reports < 20 && counts.evicted < 40, "{counts:?}");
}

#[test]
fn long_bundles_are_fragmented_and_reassembled() {
    let (mut first, mut last) = (node(1, 3), node(3, 1));
    let sent = bundle(&mut first, 3, 1000, 60);
    first.originate(sent.clone(), Time::ZERO);
    let mut count = 0;
    while let Some((id, part)) = first.poll_transmit(3, 300, Time::ZERO) {
        assert!(part.encoded_len() <= 300);
        first.done(id, true, Time::ZERO);
        last.receive(part, 1, Arrival::Final, at(1));
        count += 1;
    }
    let received = last.poll_delivery().unwrap();
    assert_eq!(last.counts().delivered, 0, "no application has it yet");
    last.note_delivery(&received, at(1));
    assert_eq!((received.payload.to_vec(), received.primary), (sent.payload.to_vec(), sent.primary));
    assert_eq!((last.counts().delivered, first.counts().fragments, first.stored().0), (1, count, 0));
    let mut whole = bundle(&mut first, 3, 1000, 60);
    whole.primary.flags = BundleFlags::WHOLE;
    first.originate(whole, Time::ZERO);
    assert_eq!((first.poll_transmit(3, 300, Time::ZERO), first.counts().too_long), (None, 1));
}

#[test]
fn the_rest_of_a_cut_bundle_takes_its_place() {
    let (mut first, mut last) = (node(1, 3), node(3, 1));
    let mut sent = bundle(&mut first, 3, 1000, 60);
    sent.primary.timestamp.time = 0;
    sent.set(Content::Age(5));
    first.originate(sent.clone(), Time::ZERO);
    let (id, whole) = first.poll_transmit(3, WHOLE, at(2)).unwrap();
    let part = Bundle::parse_part(&whole.to_vec()[..500]).expect("a part");
    let known = part.payload.len() - 100;
    last.receive(part, 1, Arrival::Final, at(2));
    first.cut(id, known, at(2));
    let counts = first.counts();
    assert_eq!((counts.resumed, counts.spared, counts.rerouted, first.stored().0), (1, known, 1, 1));
    let (id, rest) = first.poll_transmit(3, WHOLE, at(3)).unwrap();
    assert_eq!((rest.age(), rest.payload.len()), (Some(3005), 1000 - known), "its time in the store counts");
    first.done(id, true, at(3));
    last.receive(rest, 1, Arrival::Final, at(3));
    let received = last.poll_delivery().unwrap();
    assert_eq!(received.payload.to_vec(), sent.payload.to_vec());
    // One that has to stay whole is sent again.
    let mut whole = bundle(&mut first, 3, 1000, 60);
    whole.primary.flags = BundleFlags::WHOLE;
    first.originate(whole.clone(), Time::ZERO);
    let (id, _) = first.poll_transmit(3, WHOLE, Time::ZERO).unwrap();
    first.cut(id, 500, Time::ZERO);
    let (_, again) = first.poll_transmit(3, WHOLE, Time::ZERO).unwrap();
    assert_eq!((again.payload, first.counts().resumed), (whole.payload, 1));
}

#[test]
fn what_was_acknowledged_is_kept_beyond_the_storage() {
    let mut node = Node::new(config(2, 500), Routing::Static { routes: HashMap::new(), default: Some(3) });
    let bundles = [(); 2].map(|()| bundle(&mut node, 3, 400, 60));
    assert!(node.has_room(400) && node.receive(bundles[0].clone(), 1, Arrival::Final, Time::ZERO));
    assert!(!node.has_room(400) && !node.receive(bundles[1].clone(), 1, Arrival::Refusable, Time::ZERO));
    assert!(node.receive(bundles[1].clone(), 1, Arrival::Promised, Time::ZERO));
    assert_eq!((node.stored().0, node.counts().refused), (2, 1));
}

#[test]
fn a_bundle_that_its_neighbour_keeps_is_not_reported() {
    let mut node = Node::new(config(2, 700), Routing::Static { routes: HashMap::new(), default: Some(3) });
    let first = bundle(&mut node, 3, 400, 60);
    assert!(node.originate(first, Time::ZERO));
    let mut sent = bundle(&mut node, 3, 400, 60);
    sent.primary.report_to = Eid::ipn(1, 0);
    sent.primary.flags = BundleFlags::REPORT_RECEPTION.with(BundleFlags::REPORT_DELETION);
    for _ in 0..2 {
        assert!(!node.receive(sent.clone(), 1, Arrival::Refusable, Time::ZERO));
        assert_eq!(node.counts().reports, 0);
    }
    // Without a neighbour that keeps it, it has come and is gone.
    assert!(!node.receive(sent.clone(), 1, Arrival::Final, Time::ZERO));
    assert_eq!((node.counts().reports, node.counts().refused), (2, 3));
    // An urgent one displaces the first; those that it may displace stay listed if it does not come.
    assert!(node.receive(with_priority(sent, 2), 1, Arrival::Refusable, Time::ZERO));
    assert_eq!((node.counts().evicted, node.counts().reports), (1, 3));
}

#[test]
fn reports_are_sent_once_and_never_on_reports() {
    let (mut first, mut last) = (node(1, 3), node(3, 1));
    let mut sent = bundle(&mut first, 3, 10, 60);
    sent.primary.report_to = Eid::ipn(1, 0);
    sent.primary.flags = BundleFlags::REPORT_DELIVERY.with(BundleFlags::REPORT_TIME);
    first.originate(sent.clone(), Time::ZERO);
    let (_, sent) = first.poll_transmit(3, WHOLE, Time::ZERO).unwrap();
    last.receive(sent, 1, Arrival::Final, at(4));
    let received = last.poll_delivery().unwrap();
    assert_eq!(last.poll_transmit(1, WHOLE, at(4)), None, "no application has taken it");
    last.note_delivery(&received, at(5));
    let (_, report) = last.poll_transmit(1, WHOLE, at(5)).unwrap();
    let Ok(Record::Status(status)) = Record::parse(&report.payload.to_vec()) else { panic!("{report:?}") };
    assert_eq!(
        status.delivered,
        bentpipe_wire::dtn::admin::Status { is_asserted: true, time: Some(EPOCH + 5000) }
    );
    first.receive(report, 3, Arrival::Final, at(9));
    assert_eq!(
        (first.counts().reports, last.counts().reports, first.poll_delivery().is_some()),
        (0, 1, true)
    );
}

#[test]
fn unknown_blocks_follow_their_flags() {
    let receive = |flags: u64| {
        let (mut from, mut node) = (node(1, 2), node(2, 3));
        let mut bundle = bundle(&mut from, 3, 10, 60);
        let content = Content::Other { code: 99, data: [0].into() };
        bundle.blocks.push(Block { flags: BlockFlags(flags), ..Block::new(2, content) });
        node.receive(bundle, 1, Arrival::Final, at(1))
            .then(|| node.poll_transmit(3, WHOLE, at(1)).unwrap().1.blocks.len())
    };
    assert_eq!((receive(0), receive(0x10), receive(4)), (Some(2), Some(1), None));
}

#[test]
fn bundles_wait_for_their_contact_and_change_when_they_miss_it() {
    let text = "a contact +0 +10 1 2 1000\na contact +20 +30 1 3 1000\na contact +0 +99 2 4 1000\na contact +0 +99 3 4 1000\n\
        a range +0 +99 1 2 1\na range +0 +99 1 3 1\na range +0 +99 2 4 1\na range +0 +99 3 4 1\n";
    let graph = Graph::new(Plan::parse(text, 0.0).unwrap(), Options::default());
    let mut node = Node::new(config(1, 100_000), Routing::contacts(1, graph));
    let sent = bundle(&mut node, 4, 100, 90);
    node.originate(sent, Time::ZERO);
    assert!(node.has_bundle(2) && !node.has_bundle(3));
    node.reroute(at(10));
    assert!(!node.has_bundle(2) && node.has_bundle(3));
    let (id, _) = node.poll_transmit(3, WHOLE, at(20)).unwrap();
    node.done(id, false, at(21));
    assert!(node.has_bundle(3), "a failed transmission is tried again");
    node.reroute(at(30));
    assert!(!node.has_bundle(3) && node.stored().0 == 1, "no route is left");
    assert_eq!(node.counts().rerouted, 3);
}

#[test]
fn fragments_book_a_contact_once() {
    let text = "a contact +0 +10 1 2 1000\na range +0 +10 1 2 1\n";
    let graph = Graph::new(Plan::parse(text, 0.0).unwrap(), Options::default());
    let mut node = Node::new(config(1, 100_000), Routing::contacts(1, graph));
    let long = bundle(&mut node, 2, 3000, 90);
    node.originate(long, Time::ZERO);
    while node.poll_transmit(2, 1500, Time::ZERO).is_some() {}
    // Of 10,000 B some 3400 are booked, and not twice as many.
    let mut whole = bundle(&mut node, 2, 5000, 90);
    whole.primary.flags = BundleFlags::WHOLE;
    node.originate(whole, Time::ZERO);
    assert!(node.has_bundle(2));
}

mod copies;
