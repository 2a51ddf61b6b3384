//! What a packet of either version carries.

use super::fields::Protocol;
use crate::checksum::Pseudo;

/// What an IP packet carries: a transport header, a tunnelled packet, or a fragment of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upper<'a> {
    /// What `bytes` are.
    pub protocol: Protocol,
    /// The bytes that are there.
    pub bytes: &'a [u8],
    /// How many zeros follow them.
    pub elided: usize,
    /// Where it starts in the packet.
    pub offset: usize,
    /// Whether this is a fragment other than the first, which has no transport header in front.
    pub is_later_fragment: bool,
    /// Whether the transport's checksum cannot be judged here because this is a fragment, the first one included.
    pub is_fragment: bool,
    /// The pseudo-header for the transport's checksum.
    pub pseudo: Pseudo,
}

impl Upper<'_> {
    /// The length in bytes, elided ones included.
    #[inline]
    pub const fn len(&self) -> usize {
        self.bytes.len() + self.elided
    }

    /// Whether nothing is carried.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
