//! Transport checksums of packets whose payload is elided, inline or real bytes.

use bentpipe_net::{Body, Packet};
use bentpipe_wire::checksum::{Accumulator, Pseudo};

/// Returns the sum of `len` bytes from `offset` and of `pseudo`.
///
/// It is valid if the bytes include a correct transport checksum. Bytes beyond the packet count as zeros.
#[inline]
pub(crate) fn sum(packet: &Packet, offset: usize, len: usize, pseudo: &Pseudo) -> Accumulator {
    let header = packet.header();
    let end = (offset + len).min(header.len());
    let inline = header.get(offset..end).unwrap_or(&[]);
    let sum = pseudo.sum(len).add_bytes(inline);
    match packet.body() {
        Body::Zeros(_) | Body::Carried(_) => sum,
        Body::Bytes(body) => add_body(sum, body, len - inline.len(), inline.len()),
    }
}

/// Adds the first `len` bytes of `body`, which follow `before` bytes already added.
fn add_body(sum: Accumulator, body: &[u8], len: usize, before: usize) -> Accumulator {
    let body = &body[..len.min(body.len())];
    if before.is_multiple_of(2) {
        return sum.add_bytes(body);
    }
    // Bytes at odd places weigh 256 times less: the sum of a shifted slice is the slice's sum with its bytes swapped
    // (RFC 1071, section 2 (B)).
    sum.add(Accumulator::ZERO.add_bytes(body).fold().swap_bytes().into())
}

#[cfg(test)]
mod tests {
    use bentpipe_wire::ip::Protocol;

    use super::*;

    #[test]
    fn however_a_packet_is_held_its_sum_is_the_same() {
        let bytes: Vec<u8> = (0..300).map(|i| (i * 7) as u8).collect();
        let pseudo = Pseudo::v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), Protocol::UDP);
        let expected = |from: usize| pseudo.datagram(&bytes[from..], 0).fold();
        for cut in 0..40 {
            let mut packet = Packet::from_bytes(&bytes);
            packet.trim_front(cut);
            assert_eq!(sum(&packet, 0, 300 - cut, &pseudo).fold(), expected(cut), "cut {cut}");
            assert_eq!(sum(&packet, 3, 297 - cut, &pseudo).fold(), expected(cut + 3), "cut {cut}");
        }
        let elided = Packet::new(20, 80);
        assert_eq!(sum(&elided, 8, 92, &pseudo).fold(), pseudo.datagram(&[0; 92], 0).fold());
    }
}
