//! SIP user agents on real sockets: calls placed and answered over UDP and TCP.
//!
//! A [`Phone`] joins an [`Agent`](bentpipe_signalling::agent::Agent) to its [`Sockets`] and the clock. [`place`] and [`answer`] drive
//! it and return [`Figures`]: call counts, failures by reason, post-dial delay and set-up time.
//!
//! [`Phone::open_media`] gives calls the voice of phones in scenarios, by the same mouths, playout buffers and E-model.
//!
//! A line takes the voice of its peer from the address that it comes from ([`Phone::open_media`]), and knows its own packets that come back.
//!
//! *Does not model*: SRTP, which is refused with 488; sound. Payloads have the time of sending, and zeros.

mod address;
mod answer;
mod consent;
mod dtmf;
mod echo;
mod figures;
mod marks;
mod media;
mod phone;
mod place;
mod readable;
mod schedule;
mod sockets;
mod source;

pub use address::{local_for, random_seed, resolve};
pub use answer::{Answering, answer};
pub use bentpipe_telephony::PhoneVoice;
pub use dtmf::is_digits;
pub use figures::Figures;
pub use media::{MediaError, MediaSettings};
pub use phone::Phone;
pub use place::{Dialling, place};
pub use sockets::Sockets;
