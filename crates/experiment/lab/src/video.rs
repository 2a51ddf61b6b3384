//! Judging real transport streams by ffmpeg, when the network has run.
//!
//! A flow of traffic `stream` leaves what was sent and what arrived. [`quality`] decodes both with ffmpeg and compares them
//! picture by picture.
//!
//! Without ffmpeg streams are carried all the same, but not made, decoded or judged.

mod judge;
pub mod quality;
mod ssim;

use std::path::Path;

use bentpipe_scenario::Card;

pub use bentpipe_assemble::ffmpeg::{Failure, Ffmpeg, View};
pub use bentpipe_assemble::scratch::Scratch;
pub use bentpipe_mpeg::stream::{Model, TransportStream, mux};
pub use judge::{Finish, finish};

/// Writes the pictures of a test card's eye before coding, without loss.
///
/// # Errors
/// Returns an error if ffmpeg is not there or fails.
pub fn source(card: &Card, eye: u8, out: &Path) -> Result<(), String> {
    let ffmpeg = Ffmpeg::find().map_err(|error| error.to_string())?;
    ffmpeg.source(card, eye, out).map_err(|error| error.to_string())
}

/// Produces a test card, both eyes multiplexed if it has two.
///
/// # Errors
/// Returns an error if ffmpeg is not there or fails.
pub fn card(card: &Card) -> Result<TransportStream, String> {
    let eyes = bentpipe_assemble::test_card(card)?;
    let eyes = eyes.iter().map(|bytes| TransportStream::read(bytes)).collect::<Result<Vec<_>, _>>();
    let eyes = eyes.map_err(|error| error.to_string())?;
    match &eyes[..] {
        [only] => Ok(only.clone()),
        several => mux::multiplex(several, None).map_err(|error| error.to_string()),
    }
}
