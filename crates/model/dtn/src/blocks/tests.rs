use std::collections::HashMap;

use bentpipe_wire::dtn::bundle::{Bundle, Payload, Primary, Timestamp};
use bentpipe_wire::dtn::eid::Eid;

use super::*;
use crate::ltp::{self, Peer};
use crate::node::{self, Routing, priority_block};

const EPOCH: u64 = 800_000_000_000;

fn at_ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn bundle(sequence: u64, priority: u8) -> Bundle {
    let stamp = Timestamp { time: EPOCH, sequence };
    let primary = Primary::new(Eid::ipn(1, 1), Eid::ipn(2, 5), stamp, 1_000_000);
    let mut bundle = Bundle { primary, blocks: vec![], payload: Payload::new(vec![7; 60]) };
    if priority != 1 {
        bundle.set(priority_block(priority));
    }
    bundle
}

/// Node and engine 1, whose neighbour is 2.
struct Ends {
    node: Node,
    engine: Engine,
    blocks: Blocks,
    terms: Terms,
}

impl Ends {
    fn new(aggregation: Option<Aggregation>) -> Ends {
        let routes = HashMap::from([(2, 2)]);
        let config = node::Config {
            eid: Eid::ipn(1, 0),
            storage: 1_000_000,
            reports: false,
            epoch: EPOCH,
            no_route: None,
        };
        let mut engine = Engine::new(ltp::Config::new(1));
        engine.set_peer(2, Peer { light_time: Span::from_secs(1), margin: Span::ZERO });
        let rate = Rate::from_bps(80_000);
        let terms = Terms { to: 2, is_red: true, aggregation, end: at_ms(60_000), rate };
        let node = Node::new(config, Routing::Static { routes, default: None });
        Ends { node, engine, blocks: Blocks::default(), terms }
    }

    fn begin(&mut self, ms: u64) -> Result<u64, Time> {
        self.blocks.begin((&mut self.engine, &mut self.node), &self.terms, at_ms(ms))
    }
}

#[test]
fn a_block_begins_when_it_is_full_or_a_bundle_has_waited() {
    let limits = Aggregation { bytes: Bytes::new(500), wait: Span::from_secs(2) };
    let mut ends = Ends::new(Some(limits));
    assert_eq!(ends.begin(0), Err(Time::NEVER));
    assert!(ends.node.originate(bundle(1, 1), at_ms(100)));
    let len = bundle(1, 1).encoded_len();
    assert!(ends.node.originate(bundle(2, 1), at_ms(1000)));
    assert_eq!(ends.begin(1000), Err(at_ms(2100)), "two seconds after the first");
    assert_eq!(ends.begin(2100), Ok(2 * len));
    // Twenty of them are some blocks that are full, and a rest that waits.
    (3..23).for_each(|n| assert!(ends.node.originate(bundle(n, 1), at_ms(3000))));
    let full = 500_u64.div_ceil(len) * len;
    let mut left = 20 * len;
    while left >= 500 {
        assert_eq!(ends.begin(3000), Ok(full.min(left)));
        left -= full.min(left);
    }
    assert!(left == 0 || ends.begin(3000) == Err(at_ms(5000)), "{left} B are left");
}

#[test]
fn expedited_bundles_and_ends_of_contacts_do_not_wait() {
    let limits = Aggregation { bytes: Bytes::new(100_000), wait: Span::from_secs(3600) };
    let mut ends = Ends::new(Some(limits));
    assert!(ends.node.originate(bundle(1, 1), at_ms(0)));
    let len = bundle(1, 1).encoded_len();
    // Twice its bytes at 10 kB a second before the contact ends.
    assert_eq!(ends.begin(0), Err(Time::from_nanos(60_000_000_000 - 2 * len * 100_000)));
    assert!(ends.node.originate(bundle(2, 2), at_ms(10)));
    let both = len + bundle(2, 2).encoded_len();
    assert_eq!(ends.begin(10), Ok(both), "others go with an expedited one");
    assert!(ends.node.originate(bundle(3, 0), at_ms(59_900)));
    assert!(ends.begin(59_999).is_ok());
}

#[test]
fn without_limits_a_block_has_one_bundle_and_without_a_wait_what_is_there() {
    for (limits, blocks) in [(None, 3), (Some(Aggregation { bytes: Bytes::new(9000), wait: Span::ZERO }), 1)]
    {
        let mut ends = Ends::new(limits);
        (0..3).for_each(|n| assert!(ends.node.originate(bundle(n, 1), at_ms(0))));
        let begun = std::iter::from_fn(|| ends.begin(0).ok());
        assert_eq!(begun.count(), blocks);
    }
}

#[test]
fn bundles_of_a_block_that_fails_wait_again_and_of_one_that_is_sent_are_gone() {
    let limits = Aggregation { bytes: Bytes::new(9000), wait: Span::ZERO };
    let mut ends = Ends::new(Some(limits));
    (0..3).for_each(|n| assert!(ends.node.originate(bundle(n, 1), at_ms(0))));
    assert!(ends.begin(0).is_ok() && !ends.node.has_bundle(2));
    let first = ends.engine.poll_transmit(2, at_ms(0)).expect("a segment");
    let session = bentpipe_wire::dtn::ltp::Segment::parse(&first).expect("it is one").session;
    assert_eq!(ends.blocks.neighbour(session), Some(2));
    ends.engine.cancel(session, bentpipe_wire::dtn::ltp::Reason::Client);
    let event = ends.engine.poll_event().expect("it is cancelled");
    assert_eq!(ends.blocks.end(&event, &mut ends.node, at_ms(5)).expect("its block").to, 2);
    let Event::Failed(failed, _) = event else { panic!("{event:?}") };
    assert_eq!(ends.node.waiting(2).expect("all three").bytes, 3 * bundle(0, 1).encoded_len());
    assert!(ends.begin(5).is_ok());
    let second = ends.engine.poll_transmit(2, at_ms(5));
    let second = second.into_iter().chain(std::iter::from_fn(|| ends.engine.poll_transmit(2, at_ms(5))));
    let sessions: Vec<_> = second
        .map(|bytes| bentpipe_wire::dtn::ltp::Segment::parse(&bytes).expect("one").session)
        .filter(|session| *session != failed)
        .collect();
    let sent = Event::Sent(sessions[0]);
    assert!(ends.blocks.end(&sent, &mut ends.node, at_ms(9)).is_some());
    assert_eq!(ends.node.stored().0, 0);
}

#[test]
fn blocks_to_a_neighbour_that_cancels_them_pause_longer_each_time() {
    let mut ends = Ends::new(None);
    assert!(ends.node.originate(bundle(1, 1), at_ms(0)));
    let refused = |ends: &mut Ends, ms: u64| {
        ends.begin(ms).expect("the pause is over");
        let segment = std::iter::from_fn(|| ends.engine.poll_transmit(2, at_ms(ms))).last().expect("one");
        let session = bentpipe_wire::dtn::ltp::Segment::parse(&segment).expect("it is one").session;
        let reason =
            bentpipe_wire::dtn::ltp::Content::CancelByReceiver(bentpipe_wire::dtn::ltp::Reason::System);
        let cancel = bentpipe_wire::dtn::ltp::Segment::new(session, reason).to_vec();
        ends.engine.handle_segment(2, &cancel, at_ms(ms));
        let event = ends.engine.poll_event().expect("it is cancelled");
        assert!(ends.blocks.end(&event, &mut ends.node, at_ms(ms)).is_some(), "{event:?}");
        session
    };
    refused(&mut ends, 0);
    assert_eq!(ends.begin(999), Err(at_ms(1000)));
    refused(&mut ends, 1000);
    assert_eq!(ends.begin(1000), Err(at_ms(3000)));
    let mut ms = 3000;
    for pause in [4000, 8000, 16_000, 32_000, 60_000, 60_000] {
        refused(&mut ends, ms);
        ms += pause;
        assert_eq!(ends.begin(ms - 1), Err(at_ms(ms)));
    }
    let session = {
        ends.begin(ms).expect("the pause is over");
        let segment = std::iter::from_fn(|| ends.engine.poll_transmit(2, at_ms(ms))).last().expect("one");
        bentpipe_wire::dtn::ltp::Segment::parse(&segment).expect("it is one").session
    };
    assert!(ends.blocks.end(&Event::Sent(session), &mut ends.node, at_ms(ms)).is_some());
    assert!(ends.node.originate(bundle(2, 1), at_ms(ms)));
    refused(&mut ends, ms);
    assert_eq!(ends.begin(ms), Err(at_ms(ms + 1000)), "short again after one that arrived");
}
