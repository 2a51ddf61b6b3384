//! Earliest arrival through a limited number of contacts.

use std::collections::HashMap;

use bentpipe_dtn::plan::Contact;
use bentpipe_units::{Bytes, Time};

/// Arrival at a node, and the contacts that led there.
type Reached = HashMap<u64, (Time, Vec<usize>)>;

/// Returns the contacts of the way on which a bundle arrives first, and its arrival.
///
/// A bundle is `ready` with its length. The way has at most `most` contacts. Times follow from rates and light times; a contact must
/// last for the whole bundle.
pub(super) fn earliest(
    contacts: &[Contact],
    (from, to): (u64, u64),
    (ready, len): (Time, Bytes),
    most: usize,
) -> Option<(Vec<usize>, Time)> {
    let mut reached: Reached = HashMap::from([(from, (ready, Vec::new()))]);
    for _ in 0..most {
        let mut next = reached.clone();
        for (n, contact) in contacts.iter().enumerate() {
            let Some((at, way)) = reached.get(&contact.from) else { continue };
            let Some(light_time) = contact.light_time else { continue };
            let sent = (*at).max(contact.start) + contact.rate.span_of(len);
            let arrival = sent + light_time;
            let is_better = next.get(&contact.to).is_none_or(|(known, _)| arrival < *known);
            if sent <= contact.end && is_better {
                let way = way.iter().copied().chain([n]).collect();
                next.insert(contact.to, (arrival, way));
            }
        }
        if next.len() == reached.len() && next.iter().all(|(node, (at, _))| reached[node].0 == *at) {
            break;
        }
        reached = next;
    }
    reached.remove(&to).map(|(at, way)| (way, at))
}
