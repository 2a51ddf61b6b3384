//! Lives of bundles, and their recognition.

use bentpipe_dtn::node::{Share, Source};
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

/// Sender of a bundle, for its recognition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sender {
    /// Number of the neighbour; `None` for any.
    pub(super) from: Option<u64>,
    /// Guest that states the number. Any host can state an identity, so that those of guests are their own.
    pub(super) guest: Option<Source>,
}

impl Sender {
    /// Stands for any of the guests.
    pub(super) const ANY_GUEST: Sender = Sender { from: None, guest: Some(Source::ANY) };
    /// Stands for any of the known senders.
    pub(super) const ANY_KNOWN: Sender = Sender { from: None, guest: None };

    /// Returns the sender of an account with a number.
    pub(super) fn of(share: Share, from: u64) -> Sender {
        let guest = share.is_guest().then(|| Source::of(share, from));
        Sender { from: Some(from), guest }
    }
}

/// Returns a hash that is the same if a sender sends a bundle again.
///
/// A bundle that comes back to a neighbour on a longer way has another hop count, and is not a repetition.
pub(super) fn identity(bundle: &Bundle, sender: Sender) -> u128 {
    hash(bundle, bundle.primary.fragment, bundle.payload.len(), sender)
}

/// Returns the hash of the whole bundle, if it is a fragment.
pub(super) fn whole_identity(bundle: &Bundle, sender: Sender) -> Option<u128> {
    bundle.primary.fragment.map(|fragment| hash(bundle, None, fragment.total, sender))
}

fn hash(bundle: &Bundle, fragment: Option<Fragment>, len: u64, sender: Sender) -> u128 {
    let (Primary { source, timestamp, .. }, Sender { from, guest }) = (&bundle.primary, sender);
    let mut text = Vec::new();
    source.put(&mut text);
    let fragment = fragment.map_or((u64::MAX, u64::MAX), |fragment| (fragment.offset, fragment.total));
    let hops = bundle.hop_count().filter(|_| from.is_some()).map_or(u64::MAX, |hops| hops.count);
    let from = from.unwrap_or(u64::MAX);
    let numbers = [timestamp.time, timestamp.sequence, fragment.0, fragment.1, len, from, hops];
    let guest = guest.map(Source::code);
    numbers.into_iter().chain(guest).for_each(|number| text.extend(number.to_le_bytes()));
    let digest = Sha256::digest(&text);
    digest[..16].iter().fold(0, |hash, byte| hash << 8 | u128::from(*byte))
}
