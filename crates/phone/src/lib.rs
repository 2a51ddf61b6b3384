//! SIP user agents on real sockets: calls placed and answered over UDP and TCP.
//!
//! A [`Phone`] joins an [`Agent`](bentpipe_signalling::agent::Agent) to its [`Sockets`] and the clock. [`place`] and [`answer`] drive
//! it and return [`Figures`]: call counts, failures by reason, post-dial delay and set-up time.
//!
//! [`Phone::open_media`] gives calls the voice of phones in scenarios, by the same mouths, playout buffers and E-model.
//!
//! *Does not model*: sound. Payloads have the time of sending, and zeros.

mod address;
mod answer;
mod consent;
mod figures;
mod marks;
mod media;
mod phone;
mod place;
mod readable;
mod schedule;
mod sockets;

pub use address::{local_for, random_seed, resolve};
pub use answer::{Answering, answer};
pub use bentpipe_telephony::PhoneVoice;
pub use figures::Figures;
pub use media::{MediaError, MediaSettings};
pub use phone::Phone;
pub use place::{Dialling, place};
pub use sockets::Sockets;
