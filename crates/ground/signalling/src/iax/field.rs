//! Fields of frames, and their defects.

/// Error returned when a datagram is not a frame of IAX2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The datagram ends within a header or a trunked call.
    #[error("frame is too short")]
    Short,
    /// The call number is 0, which no call has.
    #[error("call number 0")]
    CallNumber,
    /// The meta command is not that of a trunk.
    #[error("unknown meta command {0}")]
    MetaCommand(u8),
    /// The frame type is not one of RFC 5456.
    #[error("unknown frame type {0}")]
    Kind(u8),
    /// The subclass is a power of two beyond 32 bits.
    #[error("subclass 2^{0}")]
    Subclass(u8),
}

/// First bit of full frames, retransmissions and subclasses of powers of two.
pub(super) const TOP: u16 = 0x8000;

/// Returns two bytes in network order.
pub(super) fn word(bytes: &[u8], at: usize) -> Result<u16, FrameError> {
    let bytes = bytes.get(at..at + 2).ok_or(FrameError::Short)?;
    Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// Returns the lower 15 bits, which must not be 0.
pub(super) fn call_number(word: u16) -> Result<u16, FrameError> {
    let number = word & !TOP;
    if number == 0 { Err(FrameError::CallNumber) } else { Ok(number) }
}
