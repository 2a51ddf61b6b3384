//! MPEG-2 video: as a load of variable rate, and as real transport streams ([`stream`]).
//!
//! [`Rates`] is the model of ATM Forum 97-0177: a single-programme transport stream has a constant rate from
//! one programme clock reference to the next, references are 20 to 100 ms apart, and the rates are fractional
//! Gaussian noise (long-range dependent), without the values that no encoder produces. [`Fgn`] generates the
//! noise. [`Source`] turns the rate into datagrams of transport stream packets; for cells, call
//! [`Rates::next_unit`] with a cell's length.
//!
//! Not modelled by sources: the contents of the stream. Pictures, their types and sizes do not exist; the payload is
//! zeros.

mod fft;
mod fgn;
mod kind;
pub mod lrd;
mod rates;
mod source;
pub mod stream;

pub use fgn::{Fgn, Synthesis};
pub use rates::{Piece, Pruned, RateConfig, Rates};
pub use source::{Source, SourceConfig};
