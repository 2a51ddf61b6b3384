//! Average lengths of the compressor's headers (figures 4 to 6, equations 13 to 15).

use std::time::Duration;

use bentpipe_rohc::{
    Channel, CidSpace, Compressor, CompressorConfig, PacketType, Profile, Profiles, Refresh, RtpRule,
};

use super::traffic::{Ident, Ip, Traffic};

/// Refresh intervals of the figures, in packets.
pub(super) const INTERVALS: [u32; 13] = [10, 20, 30, 50, 75, 100, 150, 200, 250, 350, 500, 700, 1000];

/// Refresh interval of the publication's tests, in packets.
pub(super) const INTERVAL: u32 = 350;
/// IR packets of a refresh.
pub(super) const IRS: u8 = 3;

/// Returns the configuration of the publication's compressor.
///
/// No refresh of the dynamic part alone, nothing that confirms; large CIDs, of one octet up to 127.
pub(super) fn config(profile: Profile, interval: u32, irs: u8) -> CompressorConfig {
    let profiles = Profiles::NONE.with(Profile::Ip).with(profile);
    CompressorConfig {
        channel: Channel { cids: CidSpace::LARGE, profiles, mrru_bytes: 0 },
        rtp: RtpRule::Custom(|_| true),
        repeats: irs,
        refresh_repeats: irs,
        ir_refresh: Refresh::every_packets(interval),
        fo_refresh: Refresh::NEVER,
        confirm: 0,
        ..CompressorConfig::default()
    }
}

/// Cycles of refreshes that are looked at.
const CYCLES: usize = 3;

/// Returns the lengths of compressed headers in octets, and which were IR.
///
/// Streams send in turn for whole cycles of refreshes, without the first.
///
/// # Panics
/// If the compressor refuses a packet: none of `traffic` is too long or empty.
fn lengths(traffic: &Traffic, profile: Profile, interval: u32, irs: u8) -> Vec<(usize, bool)> {
    lengths_of(config(profile, interval, irs), traffic, interval, irs)
}

/// Returns the same of a compressor with this configuration.
fn lengths_of(config: CompressorConfig, traffic: &Traffic, interval: u32, irs: u8) -> Vec<(usize, bool)> {
    let mut compressor = Compressor::new(config);
    let cycle = (interval as usize + usize::from(irs)) * traffic.streams;
    let mut out = Vec::new();
    let mut one = |index| {
        out.clear();
        let compressed = compressor.compress(Duration::ZERO, &traffic.packet(index), &mut out);
        let compressed = compressed.expect("neither empty nor too long");
        (compressed.header_out, compressed.packet_type == PacketType::Ir)
    };
    (0..cycle * (CYCLES + 1)).map(&mut one).skip(cycle).collect()
}

/// Returns the mean length of compressed headers in octets.
pub(super) fn average(traffic: &Traffic, profile: Profile, interval: u32, irs: u8) -> f64 {
    mean(&lengths(traffic, profile, interval, irs))
}

/// Returns the same of a compressor that stays in its FO state.
///
/// Every packet between refreshes has a CRC-7 (UOR-2).
pub(super) fn average_in_first_order(traffic: &Traffic, profile: Profile, interval: u32, irs: u8) -> f64 {
    let config = CompressorConfig { confirm: 1, ..config(profile, interval, irs) };
    mean(&lengths_of(config, traffic, interval, irs))
}

fn mean(lengths: &[(usize, bool)]) -> f64 {
    lengths.iter().map(|(octets, _)| *octets as f64).sum::<f64>() / lengths.len() as f64
}

/// Lengths and frequencies of IP packets in the "simple Internet mix".
const MIX: [(usize, usize); 3] = [(40, 7), (576, 4), (1500, 1)];

/// Returns the shares of packets and savings in per cent, compressing only short packets.
///
/// Packets of up to `limit` bytes are; the savings are relative to compressing all of the mix.
pub(super) fn selective(limit: usize) -> (f64, f64) {
    let saved = |len: usize| {
        let traffic = Traffic::udp(Ip::V4(Ident::Stream), len - 28);
        28.0 - average(&traffic, Profile::Udp, INTERVAL, IRS)
    };
    let sum = |of: &dyn Fn(usize) -> f64, limit: usize| {
        let few = MIX.iter().filter(|(len, _)| *len <= limit);
        few.map(|(len, share)| *share as f64 * of(*len)).sum::<f64>()
    };
    let share = |of: &dyn Fn(usize) -> f64| 100.0 * sum(of, limit) / sum(of, usize::MAX);
    (share(&|_| 1.0), share(&saved))
}

/// Returns the length of headers that the profile leaves uncompressed, in octets.
pub(super) fn left_over(profile: Profile) -> usize {
    match profile {
        Profile::Ip => 8 + 12,
        Profile::Udp => 12,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cycle is `irs` IR packets and `interval` others, so the mean is theirs, weighted.
    #[test]
    fn the_mean_is_that_of_a_cycle() {
        for (ip, ir_octets) in [
            // CID, type, profile, CRC; static chain of IP and UDP; dynamic chain of IP and UDP with SN.
            (Ip::V4(Ident::Stream), 4 + 10 + 4 + 6 + 4),
            (Ip::V6, 4 + 36 + 4 + 3 + 4),
        ] {
            for irs in [1, 3] {
                let traffic = Traffic::udp(ip, 100);
                let found = lengths(&traffic, Profile::Udp, 50, irs);
                let ir_count = found.iter().filter(|(_, is_ir)| *is_ir).count();
                assert_eq!(ir_count, CYCLES * usize::from(irs));
                let share = f64::from(irs) / (50.0 + f64::from(irs));
                // UO-0: a CID, one octet, the checksum.
                let mean = share * f64::from(ir_octets) + (1.0 - share) * 4.0;
                let average = average(&traffic, Profile::Udp, 50, irs);
                assert!((average - mean).abs() < 1e-9, "{average}, by the cycle {mean}");
            }
        }
    }

    /// One context for all streams where the profile does not see their difference.
    #[test]
    fn streams_share_the_contexts_of_lower_profiles() {
        let contexts = |profile| {
            let mut compressor = Compressor::new(config(profile, INTERVAL, IRS));
            let traffic = Traffic::gsm(Ip::V6, 200);
            let cids = (0..1000).map(|index| {
                compressor.compress(Duration::ZERO, &traffic.packet(index), &mut Vec::new()).map(|c| c.cid)
            });
            cids.map(|cid| cid.expect("compresses")).max()
        };
        assert_eq!([Profile::Ip, Profile::Udp, Profile::Rtp].map(contexts), [Some(0), Some(0), Some(199)]);
    }
}
