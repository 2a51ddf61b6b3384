//! TCP contexts are small, and in steady state nothing is allocated.

use std::time::Duration;

use bentpipe_rohc::{
    Channel, CidSpace, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode,
};

const FLOWS: u32 = 1000;

/// The `n`-th packet of a flow that sends data with timestamps.
fn packet(flow: u32, n: u32) -> Vec<u8> {
    let [_, _, high, low] = flow.to_be_bytes();
    let mut ip = vec![0x45, 0, 0, 62, 0, n as u8, 0x40, 0, 64, 6, 0, 0, 10, 0, high, low, 192, 168, 0, 1];
    let sum: u32 = ip.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    ip.extend_from_slice(&[0x9c, 0x40, 0, 80]);
    ip.extend_from_slice(&(n * 10).to_be_bytes());
    ip.extend_from_slice(&[0, 0, 0, 1, 0x80, 0x10, 0x10, 0, 0, 0, 0, 0, 1, 1, 8, 10]);
    ip.extend_from_slice(&(n / 3).to_be_bytes());
    ip.extend_from_slice(&(n / 5).to_be_bytes());
    ip.extend_from_slice(&[0xda; 10]);
    ip
}

#[test]
fn contexts_are_small_and_steady_flows_allocate_nothing() {
    for mode in [Mode::Unidirectional, Mode::Optimistic] {
        let channel = Channel { cids: CidSpace::Large { max_cid: 16_383 }, ..Channel::default() };
        let mut compressor = Compressor::new(CompressorConfig { channel, ..CompressorConfig::default() });
        let mut decompressor =
            Decompressor::new(DecompressorConfig { channel, mode, ..DecompressorConfig::default() });
        let mut rohc = Vec::with_capacity(256);
        let mut feedback = Vec::with_capacity(256);
        let mut restored = Vec::with_capacity(256);
        let (mut held_by_compressor, mut held_by_decompressor) = (0, 0);
        for n in 0..20 {
            let mut allocated = 0;
            for flow in 0..FLOWS {
                let ip = packet(flow, n);
                rohc.clear();
                restored.clear();
                feedback.clear();
                let compressing = allocation_counter::measure(|| {
                    compressor.compress(Duration::ZERO, &ip, &mut rohc).expect("an IP packet");
                });
                let decompressing = allocation_counter::measure(|| {
                    decompressor.decompress(Duration::ZERO, &rohc, &mut restored).expect("decompresses");
                    decompressor.take_feedback(&mut feedback);
                });
                let answering = allocation_counter::measure(|| compressor.feedback(&feedback));
                assert!(restored == ip);
                held_by_compressor += compressing.bytes_current + answering.bytes_current;
                held_by_decompressor += decompressing.bytes_current;
                allocated += compressing.count_total + decompressing.count_total + answering.count_total;
            }
            assert!(
                n < 10 || allocated == 0,
                "{mode:?}: {allocated} allocations for packet {n} of each flow"
            );
        }
        let each = |held: i64| held / i64::from(FLOWS);
        assert!(each(held_by_compressor) < 1024, "{mode:?}: {} octets", each(held_by_compressor));
        assert!(each(held_by_decompressor) < 1024, "{mode:?}: {} octets", each(held_by_decompressor));
    }
}
