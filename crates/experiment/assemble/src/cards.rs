//! Test cards: video that ffmpeg makes for streams without a file.

use std::sync::{Mutex, PoisonError};

use bentpipe_scenario::Card;
use serde_json::Value;

use super::ffmpeg::Ffmpeg;
use super::scratch::Scratch;

/// Number of cards kept for the next network; each may take much memory.
const KEPT: usize = 3;

/// Cards by their orders.
static MADE: Mutex<Vec<(String, Vec<Vec<u8>>)>> = Mutex::new(Vec::new());

/// Produces what is ordered, once for all networks.
pub(super) fn make(what: &str, order: &Value) -> Result<Vec<Vec<u8>>, String> {
    if what != "test-card" {
        return Err(format!("no program makes a \"{what}\": expected \"test-card\""));
    }
    let key = order.to_string();
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, eyes)) = made.iter().find(|(known, _)| *known == key) {
        return Ok(eyes.clone());
    }
    let card = serde_json::from_value(order.clone()).map_err(|error| error.to_string())?;
    let eyes = test_card(&card)?;
    made.insert(0, (key, eyes.clone()));
    made.truncate(KEPT);
    Ok(eyes)
}

/// Produces the transport streams of a test card, of each eye or of both.
///
/// # Errors
/// Returns an error if ffmpeg is not there or fails.
pub fn test_card(card: &Card) -> Result<Vec<Vec<u8>>, String> {
    let ffmpeg = Ffmpeg::find().map_err(|error| error.to_string())?;
    let scratch = Scratch::new().map_err(|error| error.to_string())?;
    let eye = |eye: u8| {
        let path = scratch.path().join(format!("eye-{eye}.ts"));
        ffmpeg.card(card, eye, &path).map_err(|error| error.to_string())?;
        std::fs::read(&path).map_err(|error| error.to_string())
    };
    (0..card.streams()).map(eye).collect()
}
