//! Intake of captures and streams.
//!
//! Records of captures and bytes of files come in. Out come packets ([`Packets`]), or the TS packets and baseband frames of each
//! stream ([`Streams`]), apart from those of others. What was read is used or left out with its reason: an [`Account`] has both.
//!
//! It reads no file and no clock. Memory is bounded: [`MAX_STREAMS`] streams, [`MAX_PENDING`] senders that may become one,
//! 64 incomplete datagrams, 8 MiB of fragments.
//!
//! *Does not do*: descramble; put datagrams in order.

mod account;
mod duplicates;
mod joint;
mod kept;
mod link;
mod offload;
mod packets;
mod refusal;
mod select;
mod stream;
mod streams;
#[cfg(test)]
mod tests;

pub use account::{Account, Reason, Repair, Tally};
pub use joint::{Joint, Layout, SyncFaults};
pub use link::Link;
pub use packets::{Packet, Packets, Wanted};
pub use refusal::{EachLeftOut, LeftOut, Refusal};
pub use select::{Interface, Select};
pub use stream::StreamId;
pub use streams::{MAX_PENDING, MAX_STREAMS, Sink, StreamEntry, Streams, Unit};
