//! Context lookup cost in key comparisons: linear scan and hash (figure 21).
//!
//! This is a count, on keys like the compressor's. `cargo bench -p bentpipe-rohc` measures the compressor itself.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::traffic::{Ident, Ip, Traffic};

/// Static fields of an RTP packet over IPv4: addresses, protocol, ports and SSRC.
type Key = [u8; 17];

fn key(packet: &[u8]) -> Key {
    let mut key = [0; 17];
    key[..8].copy_from_slice(&packet[12..20]);
    key[8..12].copy_from_slice(&packet[20..24]);
    key[12..16].copy_from_slice(&packet[36..40]);
    key[16] = packet[9];
    key
}

/// Keys in chains by their hash, at least two chains a key.
struct Index(Vec<Vec<Key>>);

impl Index {
    fn new(keys: &[Key]) -> Index {
        let mut index = Index(vec![Vec::new(); (2 * keys.len()).next_power_of_two()]);
        for key in keys {
            let chain = index.chain(key);
            index.0[chain].push(*key);
        }
        index
    }

    /// Returns the chain of a key, by a hash without ambient randomness.
    fn chain(&self, key: &Key) -> usize {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        hasher.finish() as usize % self.0.len()
    }

    fn compared(&self, key: &Key) -> usize {
        compared_in(&self.0[self.chain(key)], key)
    }
}

/// Returns the number of keys compared until `key` is found.
fn compared_in(keys: &[Key], key: &Key) -> usize {
    keys.iter().position(|known| known == key).map_or(keys.len(), |at| at + 1)
}

/// Returns the mean number of key comparisons per packet, by scan and by hash.
///
/// The streams send in turn, and a scan starts at the first context.
pub(super) fn compared(streams: usize) -> (f64, f64) {
    let traffic = Traffic::gsm(Ip::V4(Ident::Stream), streams);
    let keys: Vec<Key> = (0..streams).map(|stream| key(&traffic.packet(stream))).collect();
    let index = Index::new(&keys);
    // Every packet of a stream has the same key, so one round says it all.
    let mean = |compared: usize| compared as f64 / streams as f64;
    let scanned = keys.iter().map(|key| compared_in(&keys, key)).sum();
    let hashed = keys.iter().map(|key| index.compared(key)).sum();
    (mean(scanned), mean(hashed))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scan compares half of the contexts; a hash one, and now and then another.
    #[test]
    fn a_scan_compares_half_of_all() {
        for streams in [1, 31, 311] {
            let (scanned, hashed) = compared(streams);
            assert!((scanned - (streams as f64 + 1.0) / 2.0).abs() < 1e-9, "{scanned}");
            assert!((1.0..1.5).contains(&hashed), "{hashed}");
        }
    }
}
