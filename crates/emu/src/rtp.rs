//! Streams of voice packets on real sockets, and what became of them.
//!
//! The generator of the header compression testbed (seed 000, section 4: many constant-rate streams at once, real RTP
//! version 2 headers) and the receiver with its figures (equations 1 to 7; RFC 3550). What is computed -- the [`Format`] of a
//! codec, the [`Plan`] of sending, the [`Reception`] -- sees neither clock nor socket; [`Sender`] and [`Receiver`] do.
//!
//! Not modelled: talk-spurts (every stream sends all the time, the marker is on its first packet), speech (payloads are
//! zeros behind a mark with the time), RTCP (recognised and counted).

mod codec;
mod figures;
mod mark;
mod plan;
mod receiver;
mod reception;
mod sender;
mod sequence;

pub use codec::{Codec, Format, FormatError, clock_of_static};
pub use figures::{Figures, Moments};
pub use mark::Mark;
pub use plan::{Departure, Phases, Plan, PlanError};
pub use receiver::{Receiver, Watch};
pub use reception::{Delay, Overall, Reception, Strays, StreamId};
pub use sender::{Sender, Streams, Tally};
