//! Voice streams on real sockets.
//!
//! *Models*: many constant-rate streams at once with RTP version 2 headers, as a generator for header compression
//! testbeds has them, with the sizes of a compressor's refreshes if asked, and a receiver with the statistics of RFC 3550 and of equations 1 to 7 there. The computed parts (the
//! [`Format`] of a codec, the sending [`Plan`], the [`Reception`]) have no clock and no socket; [`Sender`] and [`Receiver`] do.
//!
//! *Does not model*: talk spurts (every stream sends all the time; the marker is on its first packet), speech (payloads are
//! zeros after a mark with the time), RTCP (recognised and counted).
#![allow(clippy::disallowed_methods, reason = "sends and receives in real time")]

mod codec;
mod figures;
mod limits;
mod mark;
mod plan;
mod receiver;
mod reception;
pub mod report;
mod sender;

pub use bentpipe_transport::app::Refresh;
pub use codec::{Codec, Format, FormatError, clock_of_static};
pub use figures::{Figures, Moments};
pub use limits::Limits;
pub use mark::{Mark, machine};
pub use plan::{Departure, Phases, Plan, PlanError};
pub use receiver::{Receiver, Watch};
pub use reception::{Delay, Overall, Reception, Strays, StreamId};
pub use sender::{Sender, Streams, Tally};
