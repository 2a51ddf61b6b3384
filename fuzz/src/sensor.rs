//! Checks on `bentpipe-sensor`: any query, any message of motes and bundles.

use bentpipe_sensor::aggregate::{Groups, functions};
use bentpipe_sensor::message::{Message, MoteMessage};
use bentpipe_sensor::query::Query;

/// A reader under test.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[("query", fuzz_query), ("message", fuzz_message)];

/// Queries: errors are at a place in the text, and plans have all conditions.
pub fn fuzz_query(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Query::parse_anywhere(text) {
        Err(error) => assert!((1..=text.len() + 1).contains(&error.column), "{error}"),
        Ok(query) => {
            assert_eq!(query.plan().len(), query.conditions.len());
            assert!(query.epochs() > 0 && query.inputs().len() <= 25);
            assert!(Query::titles(text, &query.items).len() >= query.items.len());
        }
    }
}

/// Messages are written in the bytes read, and partial aggregates are whole groups.
pub fn fuzz_message(data: &[u8]) {
    if let Some(message) = MoteMessage::parse(data) {
        assert_eq!(message.to_bytes(), data);
    }
    if let Some(message) = Message::parse(data) {
        assert_eq!(message.to_bytes(), data);
    }
    let text = "SELECT avg(light), count(*), histogram(sound, 20, 80, 3) FROM sensors SAMPLE PERIOD 1 s";
    let functions = functions(&Query::parse_anywhere(text).expect("a query").items);
    if let Some(groups) = Groups::parse(&functions, data) {
        let again: usize = groups.emit(&functions, 50).iter().map(Vec::len).sum();
        assert!(again <= data.len() && again > 0);
    }
}
