//! MPEG-2 video: as a load of variable rate, and as real transport streams ([`stream`]).
//!
//! [`Rates`] is the model of ATM Forum 97-0177: a single-programme transport stream has a constant rate from
//! one programme clock reference to the next, references are 20 to 100 ms apart, and the rates are fractional
//! Gaussian noise (long-range dependent), within bounds. Values outside are pruned, clipped, or avoided by an
//! exponential. [`Fgn`] generates the noise. [`Source`] turns the rate into datagrams of transport stream packets; for
//! cells, call [`Rates::next_unit`] with a cell's length.
//!
//! With [`Pictures`] each rate is that of a group of I, P and B pictures, which share its bits by their sizes.
//!
//! Not modelled by sources: the contents of the stream; the payload is zeros.

mod fft;
mod fgn;
mod kind;
pub mod lrd;
mod pictures;
mod rates;
mod source;
pub mod stream;

pub use fgn::{Fgn, Synthesis};
pub use pictures::Pictures;
pub use rates::{Bounded, Bounding, Piece, RateConfig, Rates};
pub use source::{Source, SourceConfig};
