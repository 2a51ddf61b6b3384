//! TS packets out of a stream of bytes: a file, a pipe, another program's output.

use super::{PACKET_LEN, SYNC, find_sync};

/// Number of consecutive packets with a sync byte before framing is accepted. ISO/IEC 13818-1 annex G leaves
/// it open; ETSI TR 101 290 says five.
const CONFIRMED: usize = 5;

/// Finds packets in bytes that come in pieces, and finds them again after damage. It keeps at most some packets.
#[derive(Clone, Debug, Default)]
pub struct Framer {
    rest: Vec<u8>,
    is_locked: bool,
    losses: u64,
    skipped_bytes: u64,
}

impl Framer {
    /// Creates a framer before the first byte.
    pub fn new() -> Framer {
        Framer::default()
    }

    /// Returns the number of bytes that wait for more: fewer than five packets have.
    pub fn waiting_len(&self) -> usize {
        self.rest.len()
    }

    /// Handles bytes and calls `sink` with each whole packet.
    pub fn push(&mut self, bytes: &[u8], mut sink: impl FnMut(&[u8; PACKET_LEN])) {
        self.rest.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            if !self.is_locked {
                match self.lock(at) {
                    Some(start) => at = start,
                    None => {
                        at = self.keep_tail(at);
                        break;
                    }
                }
            }
            match self.rest[at..].first_chunk::<PACKET_LEN>() {
                Some(packet) if packet[0] == SYNC => {
                    sink(packet);
                    at += PACKET_LEN;
                }
                Some(_) => {
                    self.is_locked = false;
                    self.losses += 1;
                }
                None => break,
            }
        }
        self.rest.drain(..at);
    }

    /// Returns the number of times framing was lost.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// Bytes that belong to no packet.
    pub fn skipped_bytes(&self) -> u64 {
        self.skipped_bytes
    }

    /// Searches for five packets in a row from `at` on.
    fn lock(&mut self, at: usize) -> Option<usize> {
        let bytes = &self.rest[at..];
        let start = at + find_sync(bytes)?;
        if self.rest.len() - start < CONFIRMED * PACKET_LEN {
            return None;
        }
        self.skipped_bytes += (start - at) as u64;
        self.is_locked = true;
        Some(start)
    }

    /// Keeps the possible start of a packet and returns the number of dropped bytes.
    fn keep_tail(&mut self, at: usize) -> usize {
        let kept = match find_sync(&self.rest[at..]) {
            Some(start) => at + start,
            None => at.max(self.rest.len().saturating_sub(PACKET_LEN - 1)),
        };
        self.skipped_bytes += (kept - at) as u64;
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Packets that tell which they are, with few bytes that look like a sync byte.
    fn packets(count: u8) -> Vec<[u8; PACKET_LEN]> {
        (0..count)
            .map(|number| {
                let mut packet = [number; PACKET_LEN];
                packet[0] = SYNC;
                packet
            })
            .collect()
    }

    fn framed(pieces: &[&[u8]]) -> (Vec<u8>, Framer) {
        let (mut framer, mut numbers) = (Framer::default(), Vec::new());
        for piece in pieces {
            framer.push(piece, |packet| numbers.push(packet[1]));
            assert!(framer.rest.len() <= CONFIRMED * PACKET_LEN + piece.len(), "{}", framer.rest.len());
        }
        (numbers, framer)
    }

    #[test]
    fn packets_are_found_behind_rubbish_and_after_damage() {
        let stream = packets(40).concat();
        let damaged = [b"rubbish", &stream[..10 * 188], b"more rubbish", &stream[10 * 188..]].concat();
        let (numbers, framer) = framed(&[&damaged]);
        assert_eq!(numbers, (0..40).collect::<Vec<u8>>());
        assert_eq!((framer.losses(), framer.skipped_bytes()), (1, 19));
    }

    #[test]
    fn what_has_no_packets_costs_no_memory() {
        let (numbers, framer) = framed(&[&[0x47; 100], &[0; 100_000], &[1; 100_000]]);
        assert!(numbers.is_empty() && framer.rest.len() < 1000);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(cuts in proptest::collection::vec(1usize..3000, 0..30)) {
            let stream = packets(60).concat();
            let mut pieces = Vec::new();
            let mut rest = &stream[..];
            for cut in cuts {
                let (piece, more) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = more;
            }
            pieces.push(rest);
            prop_assert_eq!(framed(&pieces).0, (0..60).collect::<Vec<u8>>());
        }

        #[test]
        fn hostile_bytes_never_panic(pieces in proptest::collection::vec(
            proptest::collection::vec(prop_oneof![Just(SYNC), any::<u8>()], 0..2000), 0..20)) {
            let mut framer = Framer::default();
            for piece in &pieces {
                framer.push(piece, |packet| assert_eq!(packet[0], SYNC));
                prop_assert!(framer.rest.len() <= CONFIRMED * PACKET_LEN + piece.len());
            }
        }
    }
}
