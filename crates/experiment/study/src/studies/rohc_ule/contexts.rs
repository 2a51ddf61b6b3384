//! Cost of finding a context, by linear search and by index (figure 21).
//!
//! Contexts compared are counted here, which no clock disturbs. `cargo bench -p bentpipe-rohc` measures the time of the
//! same compressor.

use std::time::Duration;

use bentpipe_rohc::{Compressor, CompressorConfig, Lookup, Profile};

use super::headers::{self, INTERVAL, IRS};
use super::traffic::{Ident, Ip, Traffic};

/// Returns the mean number of contexts that the compressor compares for a packet.
///
/// The streams send in turn, and a linear search takes one context after the other.
pub(super) fn compared(streams: usize, lookup: Lookup) -> f64 {
    let config = CompressorConfig { lookup, ..headers::config(Profile::Rtp, INTERVAL, IRS) };
    let mut compressor = Compressor::new(config);
    let traffic = Traffic::gsm(Ip::V4(Ident::Stream), streams);
    let mut out = Vec::new();
    for index in 0..streams {
        out.clear();
        let sent = compressor.compress(Duration::ZERO, &traffic.packet(index), &mut out);
        sent.expect("neither empty nor too long");
    }
    compressor.mean_comparisons()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A linear search compares half of the contexts; the index one, and now and then another.
    #[test]
    fn a_linear_search_compares_half_of_all() {
        for streams in [1, 31, 311, 4000] {
            let [linear, hashed] = [Lookup::Linear, Lookup::Hashed].map(|lookup| compared(streams, lookup));
            assert!((linear - (streams as f64 + 1.0) / 2.0).abs() < 1e-9, "{linear}");
            assert!((1.0..1.6).contains(&hashed), "{hashed}");
        }
    }
}
