//! Checks on `bentpipe-rtp`: a receiver counts whatever arrives once, in bounded memory.

use bentpipe_rtp::Reception;

/// Function under test.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[("reception", fuzz_reception)];

/// Splits data into pieces, each after its length of two bytes.
fn pieces(mut data: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = data.split_first_chunk::<2>()?;
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes(*len))));
        data = rest;
        Some(piece)
    })
}

/// Datagrams of RTP to a receiver with room for four streams, a clock that mostly goes on, and marks of this machine and others.
pub fn fuzz_reception(data: &[u8]) {
    let mut reception = Reception::new(4, 0x0102_0304, data.first().map(|first| u32::from(*first) * 1000));
    if data.first().is_some_and(|first| first % 2 == 1) {
        reception = reception.believing_others();
    }
    let (mut at_ns, mut all) = (1 << 60, 0_u64);
    for datagram in pieces(data.get(1..).unwrap_or_default()) {
        let step = datagram.get(1).map_or(0, |byte| u64::from(*byte));
        at_ns = if step == 255 { 0 } else { at_ns + (step << (step / 8)) };
        reception.take((step % 3) as u16, at_ns, datagram);
        all += 1;
        assert!(reception.streams().len() <= 4);
    }
    let strays = reception.strays();
    assert!(reception.packets() + strays.not_rtp + strays.rtcp + strays.refused <= all);
    for (_, figures) in reception.streams() {
        assert!(figures.lost() <= figures.expected());
        let _ = (reception.jitter_ns(figures), figures.mean_interval_ns(), figures.interval_deviation_ns());
    }
    let _ = (reception.overall(), reception.singles());
}
