//! Comparison of two ends that take the fast paths with two that do not. Fast paths are shortcuts and nothing else.

use core::time::Duration;
use std::vec::Vec;

use proptest::prelude::*;

use crate::{
    Channel, CidSpace, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode, Profile,
    Profiles, Refresh, ReorderRatio, RtpRule,
};

/// Outcome of a packet on its path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Delivered,
    Lost,
    /// Change of one octet of the ROHC header.
    Damaged(u8, u8),
    /// The feedback to it is lost.
    FeedbackLost,
}

pub(crate) fn config() -> impl Strategy<Value = (CompressorConfig, DecompressorConfig)> {
    let cids = prop_oneof![Just(CidSpace::Small { max_cid: 15 }), Just(CidSpace::Large { max_cid: 300 })];
    let mode = prop_oneof![Just(Mode::Unidirectional), Just(Mode::Optimistic), Just(Mode::Reliable)];
    let refresh = prop_oneof![
        Just(Refresh::NEVER),
        (5u32..60).prop_map(Refresh::every_packets),
        (20u64..900).prop_map(|ms| Refresh::every(Duration::from_millis(ms)))
    ];
    let rtp =
        prop_oneof![Just(RtpRule::Likely), Just(RtpRule::Ports(Vec::from([0x2002]))), Just(RtpRule::Never)];
    let profiles = prop_oneof![
        4 => Just(Profiles::V1), 4 => Just(Profiles::V2), 1 => Just(Profiles::V1.without(Profile::Rtp)), 1 => Just(Profiles::V1.without(Profile::Udp))
    ];
    (cids, mode, refresh, rtp, profiles, 1u8..17, any::<bool>(), 0u8..3, 0u8..20, any::<bool>()).prop_map(
        |(cids, mode, refresh, rtp, profiles, repeats, slow_start, caution, confirm, peer_confirms)| {
            let channel = Channel { cids, profiles, ..Channel::default() };
            let fo_refresh = Refresh { packets: refresh.packets / 2, ..refresh };
            let compressor = CompressorConfig {
                channel,
                rtp,
                repeats,
                ir_refresh: refresh,
                fo_refresh,
                slow_start,
                confirm,
                reorder: if peer_confirms { ReorderRatio::None } else { ReorderRatio::Quarter },
                ..CompressorConfig::default()
            };
            (
                compressor,
                DecompressorConfig {
                    channel,
                    mode,
                    caution,
                    peer_confirms,
                    report_path: caution == 1,
                    ..DecompressorConfig::default()
                },
            )
        },
    )
}

/// Sends the same packets through both pairs of ends, and returns the number restored right. All that comes out is
/// compared.
pub(crate) fn both_ways(
    config: (CompressorConfig, DecompressorConfig),
    packets: impl Iterator<Item = (Duration, Vec<u8>, Outcome)>,
) -> usize {
    let mut short = (Compressor::new(config.0.clone()), Decompressor::new(config.1));
    let mut general = (Compressor::new(config.0), Decompressor::new(config.1));
    (general.0.0.fast_path_disabled, general.1.0.fast_path_disabled) = (true, true);
    let mut right = 0;
    for (index, (now, packet, outcome)) in packets.enumerate() {
        let (mut rohc, mut other) = (Vec::new(), Vec::new());
        let done = short.0.compress(now, &packet, &mut rohc);
        assert_eq!(done, general.0.compress(now, &packet, &mut other));
        assert_eq!(rohc, other, "{index} {outcome:?}");
        match outcome {
            Outcome::Lost => continue,
            Outcome::Damaged(at, with) => {
                let at = usize::from(at) % rohc.len().min(4);
                rohc[at] ^= with;
            }
            _ => {}
        }
        let (mut ip, mut other) = (Vec::new(), Vec::new());
        let restored = short.1.decompress(now, &rohc, &mut ip);
        assert_eq!(restored, general.1.decompress(now, &rohc, &mut other), "{index} {outcome:?}");
        assert_eq!(ip, other);
        right += usize::from(ip == packet);
        let (mut feedback, mut other) = (Vec::new(), Vec::new());
        short.1.take_feedback(&mut feedback);
        general.1.take_feedback(&mut other);
        assert_eq!(feedback, other);
        if !matches!(outcome, Outcome::FeedbackLost) {
            short.0.feedback(&feedback);
            general.0.feedback(&feedback);
        }
    }
    assert_eq!(short.0.stats(), general.0.stats());
    assert_eq!(short.1.stats(), general.1.stats());
    right
}

/// Checks that nothing is pending between the IR packets of a slow start.
pub(crate) fn slow_starts_are_short(mut packet: impl FnMut() -> Vec<u8>) {
    for ir_refresh in [Refresh::NEVER, Refresh::every_packets(1000)] {
        let fo_refresh = Refresh::NEVER;
        let config = CompressorConfig {
            slow_start: true,
            confirm: 0,
            ir_refresh,
            fo_refresh,
            ..CompressorConfig::default()
        };
        let (mut compressor, mut short) = (Compressor::new(config), 0);
        for _ in 0..500 {
            let packet = packet();
            if compressor.0.step(Duration::ZERO, &packet, packet.len(), &mut Vec::new()).is_some() {
                short += 1;
            } else {
                compressor.compress(Duration::ZERO, &packet, &mut Vec::new()).expect("a packet");
            }
        }
        assert!(short > 450, "{short}");
    }
}
