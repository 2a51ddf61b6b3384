use bentpipe_wire::dtn::admin::Record;
use bentpipe_wire::dtn::bundle::{Block, BlockFlags, BundleFlags, Malformed, Payload, Primary};

use super::*;
use crate::plan::Plan;
use crate::route::{Graph, Options};

const EPOCH: u64 = 820_540_800_000;
const WHOLE: u64 = u64::MAX;

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

fn config(node: u32, storage: u64) -> Config {
    Config { eid: Eid::ipn(node, 0), storage, reports: true, epoch: EPOCH, no_route: None }
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
    let mut other = node(9, 4);
    assert!(other.receive(sent.clone(), 2, Arrival::Final, at(4)));
    assert_eq!((other.counts().hop_limit, other.stored().0), (1, 0), "a third hop exceeds the limit of two");
    let mut last = node(3, 4);
    assert!(last.receive(sent, 2, Arrival::Final, at(4)) && last.poll_delivery().is_some());
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
fn a_neighbour_that_takes_a_bundle_in_too_many_fragments_alone_does_not_get_it() {
    for (fragments, is_sent) in [(9, true), (3, false)] {
        let mut first = node(1, 3);
        let sent = bundle(&mut first, 3, 1000, 60);
        first.originate(sent, Time::ZERO);
        let limits = Limits { len: 300, fragments };
        let found = first.poll_transmit_within(3, limits, Time::ZERO).is_some();
        let counts = first.counts();
        assert_eq!((found, counts.fragments > 0, counts.too_long == 0), (is_sent, is_sent, is_sent));
        assert_eq!(first.stored().0 > 0, is_sent);
    }
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

/// Returns the reports that a node sends by neighbour 3: asserted events as letters, and the reason.
fn reports(node: &mut Node, now: Time) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    while let Some((id, bundle)) = node.poll_transmit(3, WHOLE, now) {
        node.done(id, true, now);
        if bundle.primary.flags.has(BundleFlags::ADMIN)
            && let Ok(Record::Status(report)) = Record::parse(&bundle.payload.to_vec())
        {
            let events = [report.received, report.forwarded, report.delivered, report.deleted];
            let names = events.iter().zip("RFDX".chars()).filter(|(event, _)| event.is_asserted);
            found.push((names.map(|(_, name)| name).collect(), report.reason));
        }
    }
    found
}

fn reported(reports: &[(&str, u64)]) -> Vec<(String, u64)> {
    reports.iter().map(|(events, reason)| ((*events).to_owned(), *reason)).collect()
}

/// Sends a bundle with reports to ipn:9.1 through a node, and returns the reports and if it goes on.
fn through(edit: impl FnOnce(&mut Bundle)) -> (Vec<(String, u64)>, bool) {
    let (mut from, mut node) = (node(1, 2), node(2, 3));
    let mut sent = bundle(&mut from, 3, 10, 60);
    sent.primary.report_to = Eid::ipn(9, 1);
    edit(&mut sent);
    node.receive(sent, 1, Arrival::Final, at(1));
    let stored = node.list(0, 10);
    let goes_on = stored.iter().any(|listed| !listed.bundle.primary.flags.has(BundleFlags::ADMIN));
    (reports(&mut node, at(1)), goes_on)
}

#[test]
fn every_combination_of_block_flags_and_report_flags_has_its_reports() {
    for flags in 0..32u64 {
        for asked in [0, 0x4000, 0x1_0000, 0x4_0000, 0x5_4000] {
            let (found, goes_on) = through(|bundle| {
                bundle.primary.flags = BundleFlags(asked);
                let content = Content::Other { code: 200, data: [1].into() };
                bundle.blocks.push(Block { flags: BlockFlags(flags), ..Block::new(2, content) });
            });
            let is_deleted = flags & 4 != 0;
            let mut right = Vec::new();
            if asked & 0x4000 != 0 {
                right.push(("R", reason::NONE));
            }
            if flags & 2 != 0 {
                right.push(("R", reason::UNSUPPORTED));
            }
            if asked & 0x4_0000 != 0 && is_deleted {
                right.push(("X", reason::UNSUPPORTED));
            }
            if asked & 0x1_0000 != 0 && !is_deleted {
                // The bundle leaves after the reports that came before it, and its own report last.
                right.push(("F", reason::NONE));
            }
            assert_eq!(
                (found, goes_on),
                (reported(&right), !is_deleted),
                "flags {flags:#x}, asked {asked:#x}"
            );
        }
    }
}

#[test]
fn unknown_blocks_take_effect_in_their_order() {
    let blocks = |flags: &[u64]| {
        through(|bundle| {
            bundle.primary.flags = BundleFlags::REPORT_DELETION;
            for (n, flags) in flags.iter().enumerate() {
                let content = Content::Other { code: 200 + n as u64, data: [].into() };
                bundle.blocks.push(Block { flags: BlockFlags(*flags), ..Block::new(2 + n as u64, content) });
            }
        })
    };
    let unsupported = reason::UNSUPPORTED;
    assert_eq!(blocks(&[2, 2]).0, reported(&[("R", unsupported)]), "one for both: it names no block");
    assert_eq!(
        blocks(&[2, 4, 2]).0,
        reported(&[("R", unsupported), ("X", unsupported)]),
        "none after the end"
    );
    assert_eq!(blocks(&[4, 2]).0, reported(&[("X", unsupported)]));
}

#[test]
fn security_blocks_are_not_processed_and_the_own_blocks_are() {
    let with = |content: Content| {
        through(|bundle| bundle.blocks.push(Block { flags: BlockFlags(6), ..Block::new(2, content) }))
    };
    assert_eq!(with(Content::Integrity([].into())), (reported(&[("R", reason::UNSUPPORTED)]), false));
    assert_eq!(with(priority_block(2)), (vec![], true));
    assert_eq!(with(Content::HopCount(HopCount { limit: 3, count: 1 })), (vec![], true));
    assert_eq!(with(Content::PreviousNode(Eid::ipn(1, 0))), (vec![], true));
}

#[test]
fn malformed_bundles_are_deleted_with_a_report() {
    let all = BundleFlags::REPORT_RECEPTION.with(BundleFlags::REPORT_DELETION);
    let unintelligible = reported(&[("R", reason::NONE), ("X", reason::UNINTELLIGIBLE)]);
    let (found, goes_on) = through(|bundle| {
        bundle.primary.flags = all;
        bundle.primary.timestamp.time = 0;
    });
    assert_eq!((found, goes_on), (unintelligible.clone(), false), "no clock and no age");
    let reject = |edit: &dyn Fn(&mut Primary), is_readable: bool| {
        let (mut from, mut node) = (node(1, 2), node(2, 3));
        let mut primary = bundle(&mut from, 3, 10, 60).primary;
        (primary.flags, primary.report_to) = (all, Eid::ipn(9, 1));
        edit(&mut primary);
        let primary = is_readable.then(|| Box::new(primary));
        let flaw = bentpipe_wire::dtn::bundle::Breach::NoAge.into();
        node.reject(&Malformed { primary, len: 10, flaw }, at(1));
        assert_eq!((node.counts().malformed, node.counts().unsupported, node.counts().received), (1, 0, 1));
        reports(&mut node, at(1))
    };
    assert_eq!(reject(&|_| {}, true), unintelligible);
    assert_eq!(reject(&|_| {}, false), [], "what asks for reports is what cannot be read");
    assert_eq!(reject(&|primary| primary.report_to = Eid::None, true), []);
    assert_eq!(reject(&|primary| primary.source = Eid::None, true), [], "the null source");
    assert_eq!(reject(&|primary| primary.flags = all.with(BundleFlags::ADMIN), true), [], "a record");
}

#[test]
fn the_end_of_a_lifetime_and_of_the_hops_is_reported() {
    let all = BundleFlags::REPORT_RECEPTION.with(BundleFlags::REPORT_DELETION);
    let end = |edit: &dyn Fn(&mut Bundle)| {
        through(|bundle| {
            bundle.primary.flags = all;
            edit(bundle);
        })
    };
    let ends = |reason: u64| (reported(&[("R", reason::NONE), ("X", reason)]), false);
    assert_eq!(end(&|bundle| bundle.primary.lifetime = 0), ends(reason::EXPIRED));
    let clockless = |bundle: &mut Bundle| {
        bundle.primary.timestamp.time = 0;
        bundle.set(Content::Age(60_001));
    };
    assert_eq!(end(&clockless), ends(reason::EXPIRED));
    let hops =
        |count: u64| move |bundle: &mut Bundle| bundle.set(Content::HopCount(HopCount { limit: 2, count }));
    assert_eq!(end(&hops(3)), ends(reason::HOP_LIMIT));
    assert_eq!(end(&hops(2)), ends(reason::HOP_LIMIT), "the next hop exceeds it");
    assert_eq!(end(&hops(1)), (reported(&[("R", reason::NONE)]), true), "it does not");
    assert_eq!(end(&hops(u64::MAX)), ends(reason::HOP_LIMIT));
}

#[test]
fn a_host_that_is_not_known_gives_way_to_known_ones() {
    let mut node = Node::new(config(1, 2000), Routing::Static { routes: HashMap::new(), default: Some(2) });
    let urgent = |node: &mut Node, len: u64| with_priority(bundle(node, 3, len, 100), 2);
    let (host, now) = (Share::Host(5), Time::ZERO);
    while node.has_room(200) {
        let sent = urgent(&mut node, 100);
        assert!(node.receive_for(sent, (77, host), Arrival::Refusable, now), "it may have all");
    }
    let (full, _) = node.stored();
    let sent = urgent(&mut node, 200);
    assert!(!node.receive_for(sent, (77, host), Arrival::Refusable, now), "and no more");
    // What its session has been given is not out of reach of others.
    while node.poll_transmit(2, WHOLE, now).is_some() {}
    let own = with_priority(bundle(&mut node, 3, 200, 100), 0);
    assert!(node.originate(own, now), "an application of lowest priority");
    let neighbours = bundle(&mut node, 3, 200, 100);
    assert!(node.receive(neighbours, 4, Arrival::Refusable, now), "a neighbour");
    let displaced = node.counts().evicted;
    assert!(displaced > 0 && node.counts().refused == 1, "{:?}", node.counts());
    let other = urgent(&mut node, 100);
    assert!(node.receive_for(other, (78, Share::Host(6)), Arrival::Refusable, now), "another host");
    assert!(node.counts().evicted > displaced, "the one with most gave way");
    assert!(full > node.stored().0 - 3);
    let known = node.store.numbers(|entry| entry.share == Share::Known);
    assert_eq!(known.len(), 2, "known ones stay, of any priority");
    let (_, bytes) = node.stored();
    assert!(bytes <= 2000, "{bytes}");
}

#[test]
fn reports_that_guests_ask_for_give_way_too() {
    let mut node = Node::new(config(1, 1500), Routing::Static { routes: HashMap::new(), default: Some(2) });
    for _ in 0..100 {
        let mut sent = bundle(&mut node, 1, 10, 100);
        sent.primary.flags = BundleFlags::REPORT_RECEPTION;
        sent.primary.report_to = Eid::ipn(9, 1);
        node.receive_for(sent, (77, Share::Unproven), Arrival::Final, Time::ZERO);
    }
    assert!(!node.has_room(500) && node.counts().reports > 5, "{:?}", node.counts());
    let own = with_priority(bundle(&mut node, 3, 1000, 100), 0);
    assert!(node.originate(own, Time::ZERO));
}

#[test]
fn fragments_that_are_kept_elsewhere_are_examined_too() {
    let (mut from, mut last) = (node(1, 2), node(3, 3));
    let mut sent = bundle(&mut from, 3, 100, 60);
    sent.primary.flags = BundleFlags::REPORT_RECEPTION;
    sent.primary.report_to = Eid::ipn(9, 1);
    let content = Content::Other { code: 200, data: [].into() };
    sent.blocks.push(Block { flags: BlockFlags(0x13), ..Block::new(2, content) });
    let [first, second] = sent.clone().split(40).expect("two");
    assert_eq!(last.admit((first, Share::Known), at(1)).expect("kept").blocks, [], "without the block");
    assert!(last.admit((second, Share::Known), at(1)).is_some());
    sent.blocks.clear();
    last.deliver_whole(sent, Share::Known, at(1));
    assert!(last.poll_delivery().is_some());
    let each = [("R", reason::NONE), ("R", reason::UNSUPPORTED)];
    let found: Vec<_> = {
        // Reports go to node 9 by the default neighbour, which is number 3 here.
        reports(&mut last, at(1))
    };
    assert_eq!(found, reported(&[each, each].concat()));
}

#[test]
fn a_bundle_without_a_route_fails_after_its_time() {
    let no_route = Some(Span::from_secs(10));
    let config = Config { no_route, ..config(2, 10_000) };
    let routes = HashMap::from([(9, 3)]);
    let mut node = Node::new(config, Routing::Static { routes, default: None });
    let mut from = super::tests::node(1, 2);
    let mut lost = |node: &mut Node, to: Eid, now: Time| {
        let mut sent = bundle(&mut from, 5, 10, 600);
        (sent.primary.destination, sent.primary.report_to) = (to, Eid::ipn(9, 1));
        sent.primary.flags = BundleFlags::REPORT_DELETION;
        assert!(node.receive(sent, 1, Arrival::Refusable, now));
    };
    lost(&mut node, Eid::ipn(5, 7), at(1));
    let problem = node.poll_problem().expect("a line for the log");
    assert_eq!((problem.reason, problem.is_deleted), (reason::NO_ROUTE, false));
    assert_eq!(node.next_timeout(), at(11));
    node.handle_timeout(at(11));
    assert!(node.poll_problem().is_some_and(|problem| problem.is_deleted));
    assert_eq!(reports(&mut node, at(11)), reported(&[("X", reason::NO_ROUTE)]));
    assert_eq!((node.counts().no_route, node.stored().0), (1, 0));
    lost(&mut node, Eid::None, at(20));
    node.handle_timeout(at(30));
    assert_eq!(reports(&mut node, at(30)), reported(&[("X", reason::UNAVAILABLE)]), "the null endpoint");
    // A node that has been there may come again.
    node.add_direct(5, at(31));
    node.remove_direct(5, at(32));
    lost(&mut node, Eid::ipn(5, 7), at(33));
    node.handle_timeout(at(300));
    assert_eq!((node.stored().0, node.counts().no_route), (1, 2));
    // A route that is added in time is taken.
    lost(&mut node, "dtn://far/x".parse().expect("an endpoint"), at(301));
    node.set_routing(Routing::Static { routes: HashMap::from([(9, 3)]), default: Some(4) }, at(302));
    node.handle_timeout(at(312));
    assert_eq!((node.queued(4).0, node.counts().no_route), (2, 2));
}

#[test]
fn a_plan_without_further_contacts_is_an_obstacle() {
    let text =
        "a contact +0 +10 1 2 1000\na contact +0 +99 1 3 1000\na range +0 +99 1 2 1\na range +0 +99 1 3 1\n";
    let graph = Graph::new(Plan::parse(text, 0.0).unwrap(), Options::default());
    let config = Config { no_route: Some(Span::from_secs(5)), ..config(1, 100_000) };
    let mut node = Node::new(config, Routing::contacts(1, graph));
    for to in [2, 7] {
        let mut sent = bundle(&mut node, to, 100, 90);
        (sent.primary.report_to, sent.primary.flags) = (Eid::ipn(3, 1), BundleFlags::REPORT_DELETION);
        node.originate(sent, at(20));
    }
    node.handle_timeout(at(25));
    let right = [("X", reason::NO_CONTACT), ("X", reason::NO_ROUTE)];
    assert_eq!(reports(&mut node, at(25)), reported(&right));
}

#[test]
fn nodes_of_scheme_dtn_have_numbers_and_the_default_route() {
    let mut node = node(1, 4);
    let name: Eid = "dtn://two/".parse().expect("a node");
    node.set_name(&name, 77);
    node.add_direct(77, Time::ZERO);
    for to in ["dtn://two/in/box", "dtn://three/x", "ipn:9.1"] {
        let mut sent = bundle(&mut node, 3, 10, 60);
        sent.primary.destination = to.parse().expect("an endpoint");
        node.originate(sent, Time::ZERO);
    }
    assert_eq!((node.queued(77).0, node.queued(4).0), (1, 2));
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the test is of the processor time")]
fn a_node_that_comes_and_goes_moves_its_own_bundles_alone() {
    let config = Config { no_route: Some(Span::from_secs(600)), ..config(1, 1 << 30) };
    let mut node = Node::new(config, Routing::Static { routes: HashMap::new(), default: None });
    let name: Eid = "dtn://two/".parse().expect("a node");
    for n in 0..100_000 {
        let mut sent = bundle(&mut node, 1000 + n % 7, 1, 600);
        if n % 10_000 == 0 {
            sent.primary.destination = "dtn://two/in".parse().expect("an endpoint");
        }
        node.originate(sent, Time::ZERO);
    }
    let begun = bentpipe_testkit::processor_time();
    for n in 0..5000 {
        node.add_direct(n % 500, Time::ZERO);
        node.remove_direct(n % 500, Time::ZERO);
    }
    let taken = bentpipe_testkit::processor_time() - begun;
    assert!(taken < std::time::Duration::from_secs(5), "{taken:?}");
    node.set_name(&name, 1 << 40);
    for _ in 0..3 {
        node.add_direct(1 << 40, at(1));
        assert_eq!((node.queued(1 << 40).0, node.queued(1003).0), (10, 0));
        node.add_direct(1003, at(1));
        assert_eq!(node.queued(1003).0, 14_285);
        node.remove_direct(1003, at(2));
        node.remove_direct(1 << 40, at(2));
        assert_eq!((node.queued(1 << 40).0, node.queued(1003).0), (0, 0));
    }
    // One that comes back has each of them once, in the order of their arrival.
    node.add_direct(1003, at(3));
    let sent: Vec<u64> =
        std::iter::from_fn(|| node.poll_transmit(1003, WHOLE, at(3)).map(|(id, _)| id)).collect();
    assert!(sent.len() == 14_285 && sent.is_sorted());
    node.set_routing(Routing::Static { routes: HashMap::new(), default: Some(4) }, at(4));
    assert_eq!(node.queued(4).0, 100_000 - 14_285);
}

#[test]
fn an_operator_lists_and_deletes_bundles() {
    let mut node = node(2, 3);
    let mut from = super::tests::node(1, 2);
    for _ in 0..3 {
        let mut sent = bundle(&mut from, 5, 10, 60);
        (sent.primary.report_to, sent.primary.flags) = (Eid::ipn(9, 1), BundleFlags::REPORT_DELETION);
        node.receive(sent, 1, Arrival::Final, at(1));
    }
    let ids = |node: &Node, first: u64, most: usize| {
        node.list(first, most).iter().map(|listed| listed.id).collect::<Vec<_>>()
    };
    assert_eq!((ids(&node, 0, 2), ids(&node, 1, 10)), (vec![0, 1], vec![1, 2]));
    assert_eq!(node.list(0, 1)[0].state, State::Waiting(3));
    assert!(node.cancel(1, at(2)) && !node.cancel(1, at(2)));
    assert_eq!(reports(&mut node, at(2)), reported(&[("X", reason::CANCELLED)]));
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

#[test]
fn known_senders_have_the_link_before_guests_and_guests_have_turns() {
    let mut node =
        Node::new(config(1, 1_000_000), Routing::Static { routes: HashMap::new(), default: Some(2) });
    let (flood, other) = (Share::Host(5), Share::Host(6));
    for _ in 0..300 {
        let sent = with_priority(bundle(&mut node, 3, 100, 100), 2);
        assert!(node.receive_for(sent, (77, flood), Arrival::Final, at(0)));
    }
    let mut sent = bundle(&mut node, 3, 100, 100);
    sent.primary.source = Eid::ipn(66, 1);
    assert!(node.receive_for(sent, (78, other), Arrival::Final, at(0)));
    let own = with_priority(bundle(&mut node, 4, 100, 100), 0);
    assert!(node.originate(own, at(0)));
    assert_eq!(node.queued(2).0, 302);
    let waiting = node.waiting(2).expect("302 bundles");
    assert_eq!((waiting.priority, waiting.since), (0, at(0)), "the priority is a claim");
    let (_, first) = node.poll_transmit(2, WHOLE, at(1)).expect("a bundle");
    assert_eq!(first.primary.destination, Eid::ipn(4, 7), "of the lowest priority, and known");
    let sources: Vec<Eid> = std::iter::from_fn(|| node.poll_transmit(2, WHOLE, at(1)))
        .map(|(_, bundle)| bundle.primary.source)
        .collect();
    let place = sources.iter().position(|source| *source == Eid::ipn(66, 1));
    assert!(place.is_some_and(|place| place < 2), "{place:?}");
    assert_eq!(sources.len(), 301);
    assert!(!node.has_bundle(2) && node.waiting(2).is_none());
}

#[test]
fn a_guest_causes_a_report_a_bundle_and_reason_and_so_many_in_a_time() {
    let mut node =
        Node::new(config(1, 9_000_000), Routing::Static { routes: HashMap::new(), default: Some(2) });
    let flood = |node: &mut Node, share: Share, count: usize, now: Time| {
        let before = node.counts().reports;
        for _ in 0..count {
            let mut sent = bundle(node, 1, 10, 100);
            sent.primary.report_to = Eid::ipn(9, 1);
            for number in 2..64 {
                let content = Content::Other { code: 77, data: [].into() };
                sent.blocks.push(Block { flags: BlockFlags(2), ..Block::new(number, content) });
            }
            node.receive_for(sent, (77, share), Arrival::Final, now);
        }
        node.counts().reports - before
    };
    assert_eq!(flood(&mut node, Share::Known, 10, at(0)), 10);
    assert_eq!(flood(&mut node, Share::Unproven, 300, at(0)), 300);
    assert_eq!(flood(&mut node, Share::Unproven, 3000, at(0)), 700);
    assert_eq!(flood(&mut node, Share::Unproven, 3000, at(1)), 100);
    assert_eq!(flood(&mut node, Share::Host(1), 20, at(1)), 20);
    assert_eq!(node.counts().reports_left_out, 2300 + 2900);
}
