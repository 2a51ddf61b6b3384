//! Checks on `bentpipe-dtn`: any contact plan, any segments at an LTP engine, any bytes at a TCPCL session.

use bentpipe_dtn::cfdp::{self, Entity, Put};
use bentpipe_dtn::ltp::{Config, Engine, Peer};
use bentpipe_dtn::plan::Plan;
use bentpipe_dtn::route::{Graph, Options};
use bentpipe_dtn::session::{self, Session};
use bentpipe_units::{Span, Time};

/// A state machine or reader under test.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] =
    &[("plan", fuzz_plan), ("engine", fuzz_engine), ("session", fuzz_session), ("cfdp", fuzz_cfdp)];

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
    let mut engine =
        Engine::new(Config { segment: 100, tries: 3, imports: 8, exports: 4, block: 2000, ..Config::new(1) });
    engine.set_peer(2, Peer { light_time: Span::from_secs(1), margin: Span::ZERO });
    engine.send(2, 1, vec![7; 300], 200).expect("a free session");
    let (mut now, mut rest) = (Time::ZERO, data);
    while let Some((&len, behind)) = rest.split_first() {
        let (segment, behind) = behind.split_at(usize::from(len).min(behind.len()));
        engine.handle_segment(2, segment, now);
        while engine.poll_transmit(2, now).is_some() {}
        let (exports, imports) = engine.sessions();
        assert!(exports <= 4 && imports <= 8);
        rest = behind;
    }
    for _ in 0..10_000 {
        while engine.poll_event().is_some() {}
        while engine.poll_transmit(2, now).is_some() {}
        now = engine.next_timeout();
        if now.is_never() {
            assert_eq!(engine.sessions(), (0, 0), "at rest nothing is left");
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

/// Bytes of a peer after a contact header.
pub fn fuzz_session(data: &[u8]) {
    let config = session::Config { segment_mru: 500, transfer_mru: 2000, ..session::Config::new("ipn:1.0") };
    let mut session = Session::new(config, Time::ZERO);
    session.handle_bytes(b"dtn!\x04\x00", Time::ZERO);
    for chunk in data.chunks(50) {
        session.handle_bytes(chunk, Time::ZERO);
        if session.is_established() && session.pending() < 3 {
            session.send(vec![1; 100]);
        }
        let _ = session.poll_output(Time::ZERO);
        while session.poll_event().is_some() {}
    }
    session.disconnect();
    assert!(session.is_ended() && session.pending() == 0);
}
