//! Recognition of packets that the channel delivers twice.

/// Excerpt of a packet by which its duplicate is recognised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    first: u8,
    len: u16,
    head: u64,
    tail: u64,
}

impl Fingerprint {
    /// Returns the excerpt of a packet with this first octet and what follows it.
    #[inline]
    pub(crate) fn of(first: u8, body: &[u8]) -> Self {
        let head = body.first_chunk::<8>().map_or(0, |head| u64::from_ne_bytes(*head));
        let tail = body.last_chunk::<8>().map_or(0, |tail| u64::from_ne_bytes(*tail));
        Self { first, len: body.len() as u16, head, tail }
    }
}
