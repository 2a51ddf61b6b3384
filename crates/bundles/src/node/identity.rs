//! Lives of bundles, and their recognition.

use bentpipe_wire::dtn::bundle::{Bundle, Fragment, Primary};
use sha2::{Digest, Sha256};

/// Returns the end of a bundle's life in milliseconds since 2000. Without a clock at its source the age counts.
pub(super) fn expiry(bundle: &Bundle, now: u64) -> u64 {
    let Primary { timestamp, lifetime, .. } = &bundle.primary;
    match timestamp.time {
        0 => now.saturating_add(lifetime.saturating_sub(bundle.age().unwrap_or(0))),
        created => created.saturating_add(*lifetime),
    }
}

/// Returns a hash that is the same if a neighbour sends a bundle again.
///
/// Without a neighbour it is the same if any of them does.
/// A bundle that comes back to a neighbour on a longer way has another hop count, and is not a repetition.
pub(super) fn identity(bundle: &Bundle, from: Option<u64>) -> u128 {
    hash(bundle, bundle.primary.fragment, bundle.payload.len(), from)
}

/// Returns the hash of the whole bundle, if it is a fragment.
pub(super) fn whole_identity(bundle: &Bundle, from: Option<u64>) -> Option<u128> {
    bundle.primary.fragment.map(|fragment| hash(bundle, None, fragment.total, from))
}

fn hash(bundle: &Bundle, fragment: Option<Fragment>, len: u64, from: Option<u64>) -> u128 {
    let Primary { source, timestamp, .. } = &bundle.primary;
    let mut text = Vec::new();
    source.put(&mut text);
    let fragment = fragment.map_or((u64::MAX, u64::MAX), |fragment| (fragment.offset, fragment.total));
    let hops = bundle.hop_count().filter(|_| from.is_some()).map_or(u64::MAX, |hops| hops.count);
    let from = from.unwrap_or(u64::MAX);
    let numbers = [timestamp.time, timestamp.sequence, fragment.0, fragment.1, len, from, hops];
    numbers.iter().for_each(|number| text.extend(number.to_le_bytes()));
    let digest = Sha256::digest(&text);
    digest[..16].iter().fold(0, |hash, byte| hash << 8 | u128::from(*byte))
}
