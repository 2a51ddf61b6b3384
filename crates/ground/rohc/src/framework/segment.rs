//! Segmentation and reassembly of long ROHC packets, protected by CRC-32 (RFC 3095 5.2.5). Segments have no numbers;
//! one that is lost costs the unit.

use alloc::vec::Vec;

use crate::framework::crc::fcs32;
use crate::framework::error::DecompressError;
use crate::framework::frame::SEGMENT;

/// Cuts `rohc_packet` into segments of at most `max_bytes`, and returns their number. `emit` gets each in order;
/// `max_bytes` is at least 2. Nothing is emitted, and 0 returned, when the unit would exceed `mrru_bytes`.
///
/// ```
/// let mut segments = Vec::new();
/// let count = bentpipe_rohc::segment(&[0x05; 100], 1500, 40, |segment| segments.push(segment.to_vec()));
/// assert_eq!((count, segments.len()), (3, 3));
/// assert!(segments.iter().all(|segment| segment.len() <= 40));
/// ```
pub fn segment(rohc_packet: &[u8], mrru_bytes: u32, max_bytes: usize, mut emit: impl FnMut(&[u8])) -> usize {
    if rohc_packet.len() + 4 > mrru_bytes as usize || max_bytes < 2 {
        return 0;
    }
    let mut unit = Vec::with_capacity(rohc_packet.len() + 4);
    unit.extend_from_slice(rohc_packet);
    unit.extend_from_slice(&fcs32(rohc_packet).to_le_bytes());
    let pieces = unit.chunks(max_bytes - 1);
    let count = pieces.len();
    let mut segment = Vec::with_capacity(max_bytes);
    for (index, piece) in pieces.enumerate() {
        segment.clear();
        segment.push(SEGMENT | u8::from(index + 1 == count));
        segment.extend_from_slice(piece);
        emit(&segment);
    }
    count
}

/// Collects the segments of a channel; never holds more than MRRU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reassembler {
    unit: Vec<u8>,
    /// The unit grew beyond MRRU: what follows up to the last segment is dropped.
    overflown: bool,
}

impl Reassembler {
    /// Discards an incomplete unit, as a packet that is not a segment came.
    pub(crate) fn abort(&mut self) {
        self.unit.clear();
        self.overflown = false;
    }

    /// Adds a segment. A complete unit is moved to `unit` without its CRC.
    pub(crate) fn add(
        &mut self,
        last: bool,
        data: &[u8],
        mrru_bytes: u32,
        unit: &mut Vec<u8>,
    ) -> Result<bool, DecompressError> {
        self.overflown |= self.unit.len() + data.len() > mrru_bytes as usize;
        if !self.overflown {
            self.unit.extend_from_slice(data);
        }
        if !last {
            return Ok(false);
        }
        let complete = self.checked().map(|packet| {
            unit.clear();
            unit.extend_from_slice(packet);
        });
        self.abort();
        complete.map(|()| true).ok_or(DecompressError::Reassembly)
    }

    fn checked(&self) -> Option<&[u8]> {
        let (packet, crc) = self.unit.split_last_chunk::<4>()?;
        (!self.overflown && !packet.is_empty() && fcs32(packet).to_le_bytes() == *crc).then_some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(packet: &[u8], max_bytes: usize) -> Vec<Vec<u8>> {
        let mut segments = Vec::new();
        segment(packet, 2000, max_bytes, |segment| segments.push(segment.to_vec()));
        segments
    }

    #[test]
    fn segments_reassemble_in_order_and_only_whole() {
        let packet: Vec<u8> = (0..250).map(|octet| octet as u8).collect();
        for max_bytes in [2, 7, 128, 255, 256] {
            let segments = segments(&packet, max_bytes);
            let mut reassembler = Reassembler::default();
            let mut unit = Vec::new();
            for (index, segment) in segments.iter().enumerate() {
                let last = index + 1 == segments.len();
                assert_eq!(segment[0], SEGMENT | u8::from(last));
                assert_eq!(reassembler.add(last, &segment[1..], 2000, &mut unit), Ok(last));
            }
            assert_eq!(unit, packet);
        }
    }

    #[test]
    fn loss_damage_and_excess_are_refused() {
        let mut unit = Vec::new();
        let mut reassembler = Reassembler::default();
        assert_eq!(reassembler.add(true, &[1, 2, 3, 4], 2000, &mut unit), Err(DecompressError::Reassembly));
        let segments = segments(&[7; 100], 60);
        assert_eq!(
            reassembler.add(true, &segments[1][1..], 2000, &mut unit),
            Err(DecompressError::Reassembly)
        );
        assert_eq!(reassembler.add(false, &segments[0][1..], 2000, &mut unit), Ok(false));
        assert_eq!(reassembler.add(false, &segments[0][1..], 80, &mut unit), Ok(false));
        assert!(reassembler.unit.len() <= 80);
        assert_eq!(reassembler.add(true, &segments[1][1..], 80, &mut unit), Err(DecompressError::Reassembly));
        assert_eq!(segment(&[0; 100], 103, 60, |_| panic!("above MRRU")), 0);
    }
}
