//! Checks on `bentpipe-dtn`: any contact plan, any segments at an LTP engine, any bytes at a TCPCL session, any meetings of nodes that
//! make copies.

use bentpipe_dtn::cfdp::{self, Entity, Put};
use bentpipe_dtn::ltp::{Config, Engine, Event, Peer};
use bentpipe_dtn::node::{self, Arrival, COPIES_BLOCK, Node, Routing};
use bentpipe_dtn::plan::Plan;
use bentpipe_dtn::route::{Graph, Options};
use bentpipe_dtn::session::{self, Session};
use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::bundle::{Bundle, Content, Payload, Primary};
use bentpipe_wire::dtn::eid::Eid;

/// A state machine or reader under test.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("plan", fuzz_plan),
    ("engine", fuzz_engine),
    ("session", fuzz_session),
    ("cfdp", fuzz_cfdp),
    ("copies", fuzz_copies),
];

/// Contact plans: what is read is written and read again the same, and has routes in the order of their arrivals.
pub fn fuzz_plan(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(plan) = Plan::parse(text, 0.0) else { return };
    let again = Plan::parse(&plan.to_ion(), 0.0).expect("a written plan is read");
    assert_eq!(again.contacts.len(), plan.contacts.len());
    let _ = plan.to_hdtn();
    if plan.contacts.len() < 50 {
        let graph = Graph::new(plan, Options::default());
        let routes = graph.routes(1, 3, Time::ZERO, &|_| false);
        assert!(routes.is_sorted_by_key(|route| route.arrival) && routes.len() <= 10);
    }
}

/// Segments, each behind its length of one byte. The engine sends a block as well, and must come to rest.
pub fn fuzz_engine(data: &[u8]) {
    let limits = Config { imports: 8, exports: 4, block: 2000, incomplete: 3000, ..Config::new(1) };
    let mut engine = Engine::new(Config { segment: 100, tries: 3, ..limits });
    engine.set_peer(2, Peer { light_time: Span::from_secs(1), margin: Span::ZERO });
    engine.send(2, 1, vec![7; 300], 200).expect("a free session");
    let (mut now, mut rest) = (Time::ZERO, data);
    while let Some((&len, behind)) = rest.split_first() {
        let (segment, behind) = behind.split_at(usize::from(len).min(behind.len()));
        engine.handle_segment(2, segment, now);
        while let Some(event) = engine.poll_event() {
            if let Event::Received { session, data, .. } = event {
                assert!(data.len() <= 2000);
                if data.first().is_some_and(|byte| byte % 2 == 1) {
                    engine.refuse(session);
                }
            }
        }
        while engine.poll_transmit(2, now).is_some() {}
        let (exports, imports) = engine.sessions();
        assert!(exports <= 4 && imports <= 8 && engine.held() <= 6000);
        rest = behind;
    }
    for _ in 0..10_000 {
        while engine.poll_event().is_some() {}
        while engine.poll_transmit(2, now).is_some() {}
        now = engine.next_timeout();
        if now.is_never() {
            assert_eq!((engine.sessions(), engine.held()), ((0, 0), 0), "at rest nothing is left");
            return;
        }
        engine.handle_timeout(now);
    }
    panic!("the engine does not come to rest");
}

/// PDUs, each behind its length of one byte. The entity sends a file as well, and must come to rest.
pub fn fuzz_cfdp(data: &[u8]) {
    let config =
        cfdp::Config { segment: 100, tries: 3, memory: 4000, transactions: 4, ..cfdp::Config::new(1) };
    let mut entity = Entity::new(config, 7);
    let put = Put {
        destination: 2,
        source_name: "a".into(),
        destination_name: "b".into(),
        file: vec![7; 300].into(),
        is_acknowledged: true,
    };
    entity.put(put, Time::ZERO).expect("room");
    let (mut now, mut rest) = (Time::ZERO, data);
    while let Some((&len, behind)) = rest.split_first() {
        let (pdu, behind) = behind.split_at(usize::from(len).min(behind.len()));
        let _ = entity.handle_pdu(pdu, now);
        let (sending, receiving) = entity.transactions();
        assert!(sending <= 1 && receiving <= 4 && entity.used() <= 4000);
        rest = behind;
    }
    for _ in 0..10_000 {
        for _ in 0..10_000 {
            if entity.poll_transmit(now).is_none() {
                break;
            }
        }
        assert!(entity.poll_transmit(now).is_none(), "no end of PDUs");
        while entity.poll_event().is_some() {}
        now = entity.next_timeout();
        if now.is_never() {
            assert_eq!((entity.transactions(), entity.used()), ((0, 0), 0), "at rest nothing is left");
            return;
        }
        entity.handle_timeout(now);
    }
    panic!("the entity does not come to rest");
}

/// Bytes of a peer after a contact header, and after a SESS_INIT that announces parts.
pub fn fuzz_session(data: &[u8]) {
    run_session(data, None);
    run_session(data, Some(100));
}

fn run_session(data: &[u8], parts: Option<u64>) {
    let config = session::Config {
        segment_mru: 500,
        transfer_mru: 2000,
        is_deferred: parts.is_some(),
        parts,
        ..session::Config::new("ipn:1.0")
    };
    let mut session = Session::new(config, Time::ZERO);
    session.handle_bytes(b"dtn!\x04\x00", Time::ZERO);
    if parts.is_some() {
        session.handle_bytes(KEEPING_PEER, Time::ZERO);
        assert!(session.keeps_parts());
    }
    let check = |session: &mut Session| {
        while let Some(event) = session.poll_event() {
            match event {
                session::Event::Received(data) if data.len() % 2 == 0 => session.accept(),
                session::Event::Received(_) => session.decline(2),
                session::Event::Cut(data) => {
                    assert!((100..=2000).contains(&data.len()));
                    let _ = Bundle::parse_part(&data);
                }
                session::Event::Failed(_, kept) => assert!(kept <= 100, "no more than was sent"),
                _ => {}
            }
        }
    };
    for chunk in data.chunks(50) {
        session.handle_bytes(chunk, Time::ZERO);
        if session.is_established() && session.pending() < 3 {
            session.send(vec![1; 100]);
        }
        if let Some((transfer, len)) = session.incoming().map(|(transfer, data)| (transfer, data.len())) {
            assert!((100..=2000).contains(&len));
            session.acknowledge(transfer, len as u64 / 2);
        }
        let _ = session.poll_output(Time::ZERO);
        check(&mut session);
    }
    session.disconnect();
    check(&mut session);
    assert!(session.is_ended() && session.pending() == 0);
}

/// SESS_INIT of a peer that keeps parts of 50 bytes and more.
const KEEPING_PEER: &[u8] = b"\x07\0\x3c\0\0\0\0\0\0\x01\xf4\0\0\0\0\0\0\x07\xd0\0\x07ipn:2.0\0\0\0\x0d\0\xbe\x17\0\x08\0\0\0\0\0\0\0\x32";

/// Nodes of [`fuzz_copies`].
const NODES: usize = 4;
/// Storage of each of them in bytes.
const STORAGE: u64 = 1000;

fn copying_nodes(rule: u8) -> Vec<Node> {
    let make = |own: usize| {
        let routing = match rule % 3 {
            0 => Routing::Epidemic,
            kind => Routing::Spray { copies: u32::from(rule / 3).max(1), is_binary: kind == 1 },
        };
        let config = node::Config {
            eid: Eid::ipn(own as u32 + 1, 0),
            storage: STORAGE,
            reports: true,
            epoch: 800_000_000_000,
            no_route: Some(Span::from_secs(5)),
        };
        Node::new(config, routing)
    };
    (0..NODES).map(make).collect()
}

/// Meetings of four nodes that make copies, in steps of three bytes. The first byte is the rule of routing.
///
/// Storage stays bounded, a destination gets a bundle once, and nothing is left after the lifetimes.
pub fn fuzz_copies(data: &[u8]) {
    let Some((&rule, steps)) = data.split_first() else { return };
    let mut nodes = copying_nodes(rule);
    let (mut now, mut flights, mut delivered) = (Time::ZERO, Vec::new(), std::collections::HashSet::new());
    for step in steps.chunks_exact(3) {
        let (own, other) = (usize::from(step[1]) % NODES, usize::from(step[1] >> 4) % NODES);
        let neighbour = other as u64 + 1;
        match step[0] % 8 {
            0 => {
                let stamp = nodes[own].timestamp(now);
                let ends = [Eid::ipn(own as u32 + 1, 1), Eid::ipn(neighbour as u32, 5)];
                let primary = Primary::new(ends[0].clone(), ends[1].clone(), stamp, u64::from(step[2]) * 100);
                let payload = Payload::new(vec![7; usize::from(step[2]) * 2]);
                let mut bundle = Bundle { primary, blocks: vec![], payload };
                if step[0] & 8 > 0 {
                    // A peer may claim any number of copies, or write none.
                    bundle.set(Content::Other { code: COPIES_BLOCK, data: vec![0x18, step[2]].into() });
                }
                match step[0] & 16 {
                    0 => nodes[own].originate(bundle, now),
                    _ => nodes[own].receive(bundle, neighbour, Arrival::Final, now),
                };
            }
            1 if own != other => nodes[own].add_direct(neighbour, now),
            2 => nodes[own].remove_direct(neighbour, now),
            3 | 4 if own != other => {
                if let Some((id, bundle)) =
                    nodes[own].poll_transmit(neighbour, 40 + u64::from(step[2]) * 4, now)
                {
                    flights.push((own, other, id, bundle));
                }
            }
            5 | 6 if !flights.is_empty() => {
                let (own, other, id, bundle) = flights.swap_remove(usize::from(step[2]) % flights.len());
                let arrives = step[0] & 8 == 0;
                let is_taken =
                    arrives && nodes[other].receive(bundle, own as u64 + 1, Arrival::Refusable, now);
                // The answer may be lost.
                nodes[own].done(id, is_taken && step[0] & 16 == 0, now);
            }
            _ => now += Span::from_millis(u64::from(step[2]) * 10),
        }
        for (number, node) in nodes.iter_mut().enumerate() {
            node.handle_timeout(now);
            assert!(node.stored().1 <= STORAGE, "bounded");
            while let Some(bundle) = node.poll_delivery() {
                let is_report = bundle.primary.destination.is_null() || bundle.primary.source.is_null();
                let key = (number, bundle.key(), bundle.primary.timestamp.sequence);
                assert!(is_report || delivered.insert(key), "delivered once");
            }
        }
    }
    let end = now + Span::from_secs(1000);
    for (own, _, id, _) in flights {
        nodes[own].done(id, false, end);
    }
    for node in &mut nodes {
        node.handle_timeout(end);
        assert_eq!((node.stored(), node.next_timeout()), ((0, 0), Time::NEVER), "nothing is left");
    }
}
