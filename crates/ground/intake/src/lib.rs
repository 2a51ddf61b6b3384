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
mod content;
mod duplicates;
mod hitless;
mod joint;
mod kept;
mod link;
mod offload;
mod packet;
mod packets;
mod refusal;
mod rohc;
mod select;
mod stream;
mod streams;
#[cfg(test)]
mod tests;

pub use account::{Account, Reason, Repair, Tally};
pub use duplicates::Echo;
pub use hitless::Leg;
pub use joint::{Gaps, Joint, Layout, SyncFaults};
pub use link::Link;
pub use packet::{Packet, Wanted};
pub use packets::Packets;
pub use refusal::{EachLeftOut, LeftOut, Refusal};
pub use rohc::{Received, Receiver, Unit as RohcUnit};
pub use select::{Interface, Select};
pub use stream::StreamId;
pub use streams::{MAX_PENDING, MAX_STREAMS, Sink, StreamEntry, Streams, Unit};
