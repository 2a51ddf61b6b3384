//! Checks on `bentpipe-gateway`: forward error correction repairs no more than parity allows, in bounded memory, and no packet of a
//! tunnel makes a feed panic.

use bentpipe_gateway::fec::{Decoder, Direction, Encoder, Matrix};

/// Function under test.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[("fec", fuzz_fec), ("tunnel", fuzz_tunnel)];

/// Splits data into pieces, each after its length of two bytes.
fn pieces(mut data: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = data.split_first_chunk::<2>()?;
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes(*len))));
        data = rest;
        Some(piece)
    })
}

/// Datagrams and parity packets of anyone to a decoder: the first byte of each is 0 for a datagram, and odd for one that an encoder
/// of ours sends.
pub fn fuzz_fec(data: &[u8]) {
    let mut decoder = Decoder::default();
    let mut encoder = Matrix::new(5, 4, true).map(Encoder::new).expect("a matrix of the standard");
    let (mut parity, mut repaired) = (0, 0);
    for piece in pieces(data) {
        let Some((kind, packet)) = piece.split_first() else { continue };
        let mut sink = |datagram: &[u8]| {
            assert!((12..=2060).contains(&datagram.len()) && datagram[0] == 0x80);
            repaired += 1;
        };
        match kind {
            0 => decoder.push(packet, &mut sink),
            kind if kind % 2 == 1 => encoder.push(packet, |direction, packet| {
                assert!(packet.len() >= 28 && (packet[24] & 0x40 != 0) == (direction == Direction::Row));
                parity += 1;
                decoder.push_parity(packet, &mut sink);
            }),
            _ => {
                parity += 1;
                decoder.push_parity(packet, &mut sink);
            }
        }
    }
    let counts = decoder.counts();
    assert_eq!((counts.parity, counts.recovered), (parity, repaired));
    assert!(counts.recovered + counts.malformed <= parity);
}

/// A packet from the tunnel of a one-way carrier.
pub fn fuzz_tunnel(data: &[u8]) {
    bentpipe_gateway::fuzz_content(data);
}
