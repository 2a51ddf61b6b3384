//! Datagrams of UDP sockets in batches: one call of the kernel carries many (sendmmsg(2), recvmmsg(2)).
//!
//! An [`Outbox`] is filled and sent, an [`Inbox`] takes what waits at a socket and says of each datagram where it came from
//! and, where [`stamp_arrivals`] asked for that, when the kernel got it. Both keep their memory from batch to batch.

mod address;
mod inbox;
mod options;
mod outbox;
mod refusals;

pub use inbox::{Datagram, Inbox};
pub use options::{grow_receive_buffer, receive_drops, report_refusals, stamp_arrivals};
pub use outbox::{Outbox, Sent};
pub use refusals::refusals;

/// The most datagrams in one call of the kernel, and in an [`Inbox`].
pub const BATCH: usize = 64;

/// Zeroed headers for a call of the kernel.
fn headers() -> [libc::mmsghdr; BATCH] {
    // SAFETY: `mmsghdr` is plain data with null pointers and zero lengths for which all bytes zero is a value.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
mod tests;
