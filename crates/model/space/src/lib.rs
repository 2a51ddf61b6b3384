//! Space data links of CCSDS: packets in transfer frames, coding, errors.
//!
//! *Models* TM, AOS and Proximity-1 frames of real bytes; Reed-Solomon code and Viterbi decoder that run; turbo and LDPC codes by tables of
//! loss. *Does not model* acquisition and false synchronisation, carrier and symbol tracking, retransmission of Proximity-1 (COP-P).
//!
//! *References*: CCSDS 131.0-B, 132.0-B, 133.1-B, 211.0-B, 732.0-B, from memory (`bentpipe_wire::space`).

mod channel;
mod config;
pub mod kind;
pub mod metrics;
mod receiver;
mod sender;
mod theory;
mod unit;

pub use config::{Coding, Config, Frame};
pub use receiver::Receiver;
pub use sender::Sender;
pub use theory::{decoded_ber, frame_loss, symbol_error};
pub use unit::Unit;
