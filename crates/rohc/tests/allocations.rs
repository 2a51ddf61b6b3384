//! In steady state nothing is allocated, and contexts are small.

use std::time::Duration;

use bentpipe_rohc::{Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode};

#[allow(unreachable_pub, clippy::print_stdout, reason = "shared between test files")]
mod support;

/// Packets of a capture in rounds, so that each flow goes on; sequence numbers and checksums do not matter.
fn synthetic(name: &str) -> Vec<Vec<u8>> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name);
    support::read_pcap(&path).into_iter().map(|record| record.bytes).collect()
}

/// Allocations while the second half of `packets` goes through both ends.
fn allocations(packets: &[Vec<u8>], mode: Mode) -> u64 {
    let mut compressor = Compressor::new(CompressorConfig::default());
    let mut decompressor = Decompressor::new(DecompressorConfig { mode, ..DecompressorConfig::default() });
    let (mut rohc, mut ip, mut feedback) =
        (Vec::with_capacity(4096), Vec::with_capacity(4096), Vec::with_capacity(256));
    let mut go = |packets: &[Vec<u8>]| {
        for packet in packets {
            rohc.clear();
            ip.clear();
            feedback.clear();
            compressor.compress(Duration::ZERO, packet, &mut rohc).expect("compresses");
            decompressor.decompress(Duration::ZERO, &rohc, &mut ip).expect("decompresses");
            assert_eq!(ip, *packet);
            if decompressor.take_feedback(&mut feedback) {
                compressor.feedback(&feedback);
            }
        }
    };
    let (first, second) = packets.split_at(packets.len() / 2);
    go(first);
    allocation_counter::measure(|| go(second)).count_total
}

#[test]
fn a_steady_flow_allocates_nothing() {
    for capture in [
        "synth_rtp4_voice_csum0_one_way_gsm.pcap",
        "synth_rtp6_g711_wraps.pcap",
        "synth_esp4_gaps.pcap",
        "synth_udplite4_and_6.pcap",
        "synth_rtp_tunnel_6in6.pcap",
        "synth_ip_icmp_ping_both.pcap",
    ] {
        let packets = synthetic(capture);
        assert!(packets.len() >= 200, "{capture}");
        for mode in [Mode::Unidirectional, Mode::Optimistic, Mode::Reliable] {
            assert_eq!(allocations(&packets, mode), 0, "{capture} {mode:?}");
        }
    }
}
