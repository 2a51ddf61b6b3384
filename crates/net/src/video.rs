//! Variable-rate MPEG-2 video as a load: its rate, and a source that sends at it.
//!
//! [`Rates`] is the model of ATM Forum 97-0177: a single-programme transport stream has a constant rate from one programme
//! clock reference to the next, references are 20 to 100 ms apart, and the rates are fractional Gaussian noise (long-range
//! dependent), of which values that no encoder makes are thrown away. [`Fgn`] makes the noise. [`Source`] turns the rate
//! into datagrams of transport stream packets; whoever wants cells calls [`Rates::next_unit`] with a cell's length.
//!
//! Not modelled: what is in the stream. Pictures, their types and sizes do not exist; the payload is zeros.

mod fft;
mod fgn;
mod rates;
mod source;

pub use fgn::{Fgn, Synthesis};
pub use rates::{Piece, Pruned, RateConfig, Rates};
pub use source::{Source, SourceConfig};
