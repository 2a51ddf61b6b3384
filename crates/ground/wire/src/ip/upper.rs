//! Content of a packet of either version.

use super::fields::Protocol;
use crate::ip::checksum::Pseudo;

/// Content of an IP packet: a transport header, a tunnelled packet, or a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upper<'a> {
    /// Protocol of `bytes`.
    pub protocol: Protocol,
    /// The bytes that are there.
    pub bytes: &'a [u8],
    /// Number of zeros that follow them.
    pub elided: usize,
    /// Offset in the packet.
    pub offset: usize,
    /// Set for a fragment other than the first, which has no transport header.
    pub is_later_fragment: bool,
    /// Set for any fragment: the transport's checksum cannot be verified.
    pub is_fragment: bool,
    /// The pseudo-header for the transport's checksum.
    pub pseudo: Pseudo,
}

impl Upper<'_> {
    /// Returns the length in bytes, elided ones included.
    #[inline]
    pub const fn len(&self) -> usize {
        self.bytes.len() + self.elided
    }

    /// Returns `true` if nothing is carried.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
