//! Equations 8 to 15 of the publication, as printed.

/// ULE's header and CRC around a bridged frame, in bytes (OverheadULE).
pub(super) const ULE: f64 = 8.0;
/// The frame's own header, in bytes (HeaderEthernet).
pub(super) const ETHERNET: f64 = 14.0;
/// UDP's header, in bytes (HeaderUDP).
pub(super) const UDP: f64 = 8.0;

/// Payload of a TS packet in bytes, without and with a payload pointer.
const CELL: f64 = 184.0;
const CELL_WITH_POINTER: f64 = 183.0;
const TS_PACKET: f64 = 188.0;

/// The most that padding can waste of a TS packet, in bits (eq. 8).
pub(super) fn most_padding_bits() -> f64 {
    CELL_WITH_POINTER * 8.0
}

/// Returns the shortest packing threshold that wastes nothing, in seconds (eq. 11).
pub(super) fn packing_threshold_s(bits_per_s: f64) -> f64 {
    most_padding_bits() / bits_per_s
}

/// Returns the UDP payload of the n-th valley of padding mode, in bytes (eq. 12).
pub(super) fn valley(n: u32, header_ip: f64) -> f64 {
    valley_compressed(n, header_ip + UDP)
}

/// The same behind compressed headers of `average` bytes, UDP's among them (eq. 13).
pub(super) fn valley_compressed(n: u32, average: f64) -> f64 {
    CELL_WITH_POINTER - ULE - ETHERNET - average + 1.0 + CELL * (f64::from(n) - 1.0)
}

/// Returns the rate of an RTP stream in TS payload, in bit/s (eq. 14).
pub(super) fn stream_bits(average: f64, payload: f64) -> f64 {
    (ULE + ETHERNET + average + payload) * 50.0 * 8.0
}

/// Returns the number of such streams that a link carries (eq. 15).
///
/// Every TS packet is shared and has a payload pointer.
pub(super) fn streams(bits_per_s: f64, stream_bits: f64) -> f64 {
    bits_per_s / stream_bits * CELL_WITH_POINTER / TS_PACKET
}

/// Returns the throughput of UDP payload in packed SNDUs, in bit/s (eqs 14 and 15).
///
/// An SNDU over 183 bytes leaves TS packets without a pointer, which carry one byte more.
pub(super) fn throughput(bits_per_s: f64, header: f64, payload: f64) -> f64 {
    let sndu = ULE + ETHERNET + header + payload;
    let on_link = if sndu > CELL_WITH_POINTER {
        (sndu + 1.0) / CELL * TS_PACKET
    } else {
        sndu / CELL_WITH_POINTER * TS_PACKET
    };
    bits_per_s * payload / on_link
}

/// The same where each SNDU starts a TS packet of its own, its rest padded.
pub(super) fn padded_throughput(bits_per_s: f64, header: f64, payload: f64) -> f64 {
    let sndu = ULE + ETHERNET + header + payload;
    let packets = ((sndu + 1.0) / CELL).ceil();
    bits_per_s * payload / (packets * TS_PACKET)
}

/// Returns the payload at which compression gains most bits per second, in bytes.
///
/// The gap is B (1/(22+c+x) - 1/(22+h+x)) x for a payload x, uncompressed headers h and compressed headers c. It is
/// largest at x = sqrt((22+c) (22+h)), at every rate B.
pub(super) fn widest_gap(header_ip: f64, average: f64) -> f64 {
    let frame = ULE + ETHERNET;
    ((frame + average) * (frame + header_ip + UDP)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures that the text works out.
    #[test]
    fn published_figures() {
        assert_eq!(most_padding_bits(), 1464.0);
        assert!((packing_threshold_s(8e6) - 0.183e-3).abs() < 1e-12);
        // 20 bytes earlier for IPv6, a whole TS packet later for each further valley.
        assert_eq!([valley(1, 20.0), valley(2, 20.0), valley(1, 40.0)], [134.0, 318.0, 114.0]);
        assert_eq!(valley_compressed(1, 4.0), 158.0);
    }

    /// Averages that give the published counts of streams lie within a tenth of an octet each.
    #[test]
    fn counts_of_streams_invert() {
        for (count, average) in [(311.0, 7.6), (314.0, 7.0), (249.0, 23.2)] {
            let ours = streams(8e6, stream_bits(average, 33.0));
            assert!((ours - count).abs() < 1.0, "{count}: {ours}");
        }
    }

    /// At a valley one byte more costs a whole TS packet, and nowhere else between.
    #[test]
    fn valleys_are_where_padding_falls() {
        for header in [20.0, 40.0] {
            let fell = |payload: u32| {
                let at = |payload: u32| padded_throughput(8e6, header + UDP, f64::from(payload));
                at(payload) < at(payload - 1)
            };
            let found: Vec<u32> = (13..600).filter(|payload| fell(*payload)).collect();
            let wanted: Vec<u32> = (1..4).map(|n| valley(n, header) as u32).collect();
            assert_eq!(found, wanted);
        }
    }
}
