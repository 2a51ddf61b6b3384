//! Real MPEG-2 transport streams through ATM: carried, received, decoded, compared.
//!
//! A [`TransportStream`] is the packets of a file with the times that its clock references give them. A [`Journey`] cuts it
//! into the cells of AAL5 or AAL1, sends them through a network of the same elements that any scenario has (a queue, a
//! line, a channel that loses, damages and delays), and makes a stream again of what arrives. [`quality`] decodes both
//! with ffmpeg and compares them picture by picture. [`mux`] makes one stream of two programmes and takes it apart again.
//!
//! ffmpeg is a program beside bentpipe: without it streams are carried all the same, but not made, decoded or judged.

mod cells;
mod config;
mod ffmpeg;
mod journey;
pub mod mux;
mod original;
mod prepare;
pub mod quality;
mod scratch;
mod stream;

pub use cells::{Received, Stats};
pub use config::{Adaptation, Card, Stream};
pub use ffmpeg::{Failure, Ffmpeg};
pub use journey::{Arrived, Journey, Receiving, Way};
pub use original::Original;
pub use prepare::{journey, stream_of};
pub(crate) use prepare::{link, prepare};
pub use scratch::Scratch;
pub use stream::{ClockJitter, TransportStream, Unreadable};
