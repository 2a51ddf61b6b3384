//! Time of day in bundles.

use std::time::{SystemTime, UNIX_EPOCH};

use bentpipe_wire::dtn::bundle::UNIX_OFFSET;

/// Returns the milliseconds since 2000 by the computer's clock.
pub fn dtn_time() -> u64 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (unix.as_millis() as u64).saturating_sub(UNIX_OFFSET * 1000)
}
