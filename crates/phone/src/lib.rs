//! SIP user agents on real sockets: calls placed and answered over UDP and TCP.
//!
//! A [`Phone`] joins an [`Agent`](bentpipe_signalling::agent::Agent) to its [`Sockets`] and the clock. [`place`] and [`answer`] drive
//! it and return [`Figures`]: call counts, failures by reason, post-dial delay and set-up time.
//!
//! *Does not model*: media. Session descriptions name a port, but no RTP is sent or received there.

mod address;
mod answer;
mod figures;
mod phone;
mod place;
mod schedule;
mod sockets;

pub use address::{local_for, random_seed, resolve};
pub use answer::{Answering, answer};
pub use figures::Figures;
pub use phone::Phone;
pub use place::{Dialling, place};
pub use sockets::Sockets;
