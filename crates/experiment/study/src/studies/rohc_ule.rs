//! ROHC over ULE over DVB-S: compressor headers, equations 8 to 15, simulated values.

mod carriers;
mod contexts;
mod damage;
mod encapsulations;
mod equations;
mod headers;
mod streams;
mod throughput;
mod traffic;

use bentpipe_rohc::{Lookup, Profile};

use self::encapsulations::Carriage;
use self::headers::{INTERVAL, INTERVALS, IRS};
use self::streams::{Cids, Quantity};
use self::traffic::{Ident, Ip, Traffic};
use super::{Code, CurveCode};
use crate::runs::{Points, StudyRuns};

/// Rate of the link in bit/s.
const LINK_BPS: f64 = 8e6;

/// IPv4 of a single stream.
const V4: Ip = Ip::V4(Ident::Stream);
/// IPv4 of a host that counts the packets of all streams.
const V4_HOST: Ip = Ip::V4(Ident::Host);

/// Values of runs that rows name; computed for each seed.
pub(super) const CODES: &[(&str, Code)] = &[
    ("rohc-ule-valley-seen-v4-1", |runs| throughput::valley(runs, "pad-v4", 1)),
    ("rohc-ule-valley-seen-v6-1", |runs| throughput::valley(runs, "pad-v6", 1)),
    ("rohc-ule-valleys-off", throughput::valleys_off),
    ("rohc-ule-valley-off-v4", |runs| {
        throughput::valley_off(runs, "pad-v4-udp", average_of_udp(V4, Profile::Udp))
    }),
    ("rohc-ule-valley-off-v6", |runs| {
        throughput::valley_off(runs, "pad-v6-udp", average_of_udp(Ip::V6, Profile::Udp))
    }),
    ("rohc-ule-fall-packing", |runs| throughput::fall(runs, "pack-v4")),
    ("rohc-ule-rtt-slope", throughput::slope),
    ("rohc-ule-rtt-bend", throughput::bend),
    ("rohc-ule-rtt-compression", throughput::added_by_compression),
    ("rohc-ule-gain-greatest", throughput::greatest_gain),
    ("rohc-ule-gain-v4-ip", |runs| throughput::first_gain(runs, "udp-v4-ip", "udp-v4")),
    ("rohc-ule-gain-v4-udp", |runs| throughput::first_gain(runs, "udp-v4-udp", "udp-v4")),
    ("rohc-ule-gain-v6-ip", |runs| throughput::first_gain(runs, "udp-v6-ip", "udp-v6")),
    ("rohc-ule-gain-v6-udp", |runs| throughput::first_gain(runs, "udp-v6-udp", "udp-v6")),
    ("rohc-ule-gap-v4", |runs| throughput::widest_gap(runs, "udp-v4-udp", "udp-v4")),
    ("rohc-ule-gap-v6", |runs| throughput::widest_gap(runs, "udp-v6-udp", "udp-v6")),
    ("rohc-ule-seen-rtp-v4", |runs| streams::carried(runs, "calls-v4-rtp")),
    ("rohc-ule-seen-rtp-v6", |runs| streams::carried(runs, "calls-v6-rtp")),
    ("rohc-ule-seen-ip-v6", |runs| streams::carried(runs, "calls-v6-ip")),
    ("rohc-ule-routed", streams::routed),
    ("rohc-ule-noise-ratio", |runs| damage::ratio(runs, "noise-udp", "noise")),
    ("rohc-ule-noise-ratio-bursts", |runs| damage::ratio(runs, "bursts-udp", "bursts")),
    ("rohc-ule-noise-ratio-ip", |runs| damage::ratio(runs, "noise-ip", "noise")),
    ("rohc-ule-noise-ratio-rtp", |runs| damage::ratio(runs, "noise-rtp", "noise")),
    ("rohc-ule-bursts-ratio-ip", |runs| damage::ratio(runs, "bursts-ip", "bursts")),
    ("rohc-ule-bursts-ratio-rtp", |runs| damage::ratio(runs, "bursts-rtp", "bursts")),
    ("rohc-ule-noise-ahead", damage::ahead),
    ("rohc-ule-coded-ahead", damage::coded_ahead),
    ("rohc-ule-coded-refused", |runs| damage::coded_refused(runs, "coded-udp")),
    ("rohc-ule-coded-refused-v6", |runs| damage::coded_refused(runs, "coded-udp-v6")),
    ("rohc-ule-noise-refused-random", |runs| damage::refused(runs, "noise-udp")),
    ("rohc-ule-noise-refused-bursts", |runs| damage::refused(runs, "bursts-udp")),
    ("rohc-ule-noise-refused-bursts-v6", |runs| damage::refused(runs, "bursts-udp-v6")),
    ("rohc-ule-noise-repaired", damage::repaired),
    ("rohc-ule-noise-wrong", |runs| damage::wrong(runs, ["noise-udp", "bursts-udp"])),
    ("rohc-ule-noise-wrong-verified", |runs| damage::wrong(runs, ["noise-verified", "bursts-verified"])),
    ("rohc-ule-noise-wrong-v6", |runs| damage::wrong(runs, ["noise-udp-v6", "bursts-udp-v6"])),
];

/// Values of arithmetic and of the compressor alone, the same for every seed.
pub(super) const CONSTANTS: &[(&str, Code)] = &[
    ("rohc-ule-rise", greatest_rise),
    ("rohc-ule-late-gain", late_gain),
    ("rohc-ule-v6-over-v4", v6_over_v4),
    ("rohc-ule-fewer-irs", fewer_irs),
    ("rohc-ule-threshold", |_| Ok(equations::packing_threshold_s(LINK_BPS) * 1e3)),
    ("rohc-ule-gap-equation-v4", |_| {
        Ok(equations::widest_gap(V4.header_len() as f64, average_of_udp(V4, Profile::Udp)))
    }),
    ("rohc-ule-gap-equation-v6", |_| {
        Ok(equations::widest_gap(Ip::V6.header_len() as f64, average_of_udp(Ip::V6, Profile::Udp)))
    }),
    ("rohc-ule-streams-rtp-v4", |_| Ok(streams::estimated(V4_HOST, Some(Profile::Rtp)))),
    ("rohc-ule-streams-rtp-v4-constant", |_| {
        Ok(streams::estimated(Ip::V4(Ident::Constant), Some(Profile::Rtp)))
    }),
    ("rohc-ule-streams-rtp-v6", |_| Ok(streams::estimated(Ip::V6, Some(Profile::Rtp)))),
    ("rohc-ule-streams-rtp-difference", |_| {
        let of = |ip| streams::estimated(ip, Some(Profile::Rtp));
        Ok(of(Ip::V6) - of(V4_HOST))
    }),
    ("rohc-ule-streams-rtp-v6-first-order", |_| Ok(streams::estimated_in_first_order(Ip::V6, Profile::Rtp))),
    ("rohc-ule-streams-rtp-v4-first-order", |_| Ok(streams::estimated_in_first_order(V4_HOST, Profile::Rtp))),
    ("rohc-ule-streams-rtp-v6-often", |_| Ok(streams::estimated_every(Ip::V6, Profile::Rtp, OFTEN))),
    ("rohc-ule-streams-rtp-v4-often", |_| Ok(streams::estimated_every(V4_HOST, Profile::Rtp, OFTEN))),
    ("rohc-ule-streams-ip-v6", |_| Ok(streams::estimated(Ip::V6, Some(Profile::Ip)))),
    ("rohc-ule-fresh-over-reused", |_| streams::fresh_over_reused()),
    ("rohc-ule-irs", |_| streams::irs_in_a_row(false)),
    ("rohc-ule-irs-spread", |_| streams::irs_in_a_row(true)),
    ("rohc-ule-steps-fresh", |_| streams::steps(Cids::Fresh)),
    ("rohc-ule-steps-reused", |_| streams::steps(Cids::Reused)),
    ("rohc-ule-selective", |_| {
        let (packets, saved) = headers::selective(128);
        Ok(saved / packets)
    }),
    ("rohc-ule-s2-gain", |_| Ok(carriers::gain())),
    ("rohc-ule-ule-over-gse", |_| encapsulations::over_gse(Carriage::UleInFrames, V4, &SHARE_PAYLOADS)),
    ("rohc-ule-mpe-over-gse", |_| encapsulations::over_gse(Carriage::MpeInFrames, V4, &SHARE_PAYLOADS)),
    ("rohc-ule-contexts-compared", |_| {
        Ok(contexts::compared(311, Lookup::Hashed) / contexts::compared(311, Lookup::Linear))
    }),
    ("rohc-ule-contexts-growth", |_| {
        Ok(contexts::compared(4000, Lookup::Hashed) / contexts::compared(311, Lookup::Hashed))
    }),
];

/// Curves that figures name.
pub(super) const CURVES: &[(&str, CurveCode)] = &[
    ("rohc-ule-header-ip-v4-1", |_| header_curve(V4, Profile::Ip, 1)),
    ("rohc-ule-header-ip-v4-3", |_| header_curve(V4, Profile::Ip, 3)),
    ("rohc-ule-header-ip-v4-5", |_| header_curve(V4, Profile::Ip, 5)),
    ("rohc-ule-header-ip-v6-1", |_| header_curve(Ip::V6, Profile::Ip, 1)),
    ("rohc-ule-header-ip-v6-3", |_| header_curve(Ip::V6, Profile::Ip, 3)),
    ("rohc-ule-header-ip-v6-5", |_| header_curve(Ip::V6, Profile::Ip, 5)),
    ("rohc-ule-header-udp-v4-1", |_| header_curve(V4, Profile::Udp, 1)),
    ("rohc-ule-header-udp-v4-3", |_| header_curve(V4, Profile::Udp, 3)),
    ("rohc-ule-header-udp-v4-5", |_| header_curve(V4, Profile::Udp, 5)),
    ("rohc-ule-header-udp-v6-1", |_| header_curve(Ip::V6, Profile::Udp, 1)),
    ("rohc-ule-header-udp-v6-3", |_| header_curve(Ip::V6, Profile::Udp, 3)),
    ("rohc-ule-header-udp-v6-5", |_| header_curve(Ip::V6, Profile::Udp, 5)),
    ("rohc-ule-header-rtp-v4-1", |_| header_curve(V4, Profile::Rtp, 1)),
    ("rohc-ule-header-rtp-v4-3", |_| header_curve(V4, Profile::Rtp, 3)),
    ("rohc-ule-header-rtp-v4-5", |_| header_curve(V4, Profile::Rtp, 5)),
    ("rohc-ule-header-rtp-v6-1", |_| header_curve(Ip::V6, Profile::Rtp, 1)),
    ("rohc-ule-header-rtp-v6-3", |_| header_curve(Ip::V6, Profile::Rtp, 3)),
    ("rohc-ule-header-rtp-v6-5", |_| header_curve(Ip::V6, Profile::Rtp, 5)),
    ("rohc-ule-rtt", |runs| throughput::round_trips(runs, "pings")),
    ("rohc-ule-rtt-rohc", |runs| throughput::round_trips(runs, "pings-rohc")),
    ("rohc-ule-gains-v4-ip", |runs| throughput::gains(runs, "udp-v4-ip", "udp-v4")),
    ("rohc-ule-gains-v4-udp", |runs| throughput::gains(runs, "udp-v4-udp", "udp-v4")),
    ("rohc-ule-gains-v6-ip", |runs| throughput::gains(runs, "udp-v6-ip", "udp-v6")),
    ("rohc-ule-gains-v6-udp", |runs| throughput::gains(runs, "udp-v6-udp", "udp-v6")),
    ("rohc-ule-estimates-v4", |_| streams::estimates(V4_HOST)),
    ("rohc-ule-estimates-v6", |_| streams::estimates(Ip::V6)),
    ("rohc-ule-seen-v4", |runs| streams::observations(runs, "v4")),
    ("rohc-ule-seen-v6", |runs| streams::observations(runs, "v6")),
    ("rohc-ule-shares-v4", |runs| streams::shares(runs, "v4")),
    ("rohc-ule-shares-v6", |runs| streams::shares(runs, "v6")),
    ("rohc-ule-table-2-estimated", |runs| streams::table_2(runs, V4_HOST, Quantity::Estimated)),
    ("rohc-ule-table-2-observed", |runs| streams::table_2(runs, V4_HOST, Quantity::Observed)),
    ("rohc-ule-table-2-share", |runs| streams::table_2(runs, V4_HOST, Quantity::Share)),
    ("rohc-ule-pattern-ip", |_| streams::pattern(Ip::V6, Profile::Ip, 249, Cids::Fresh)),
    ("rohc-ule-pattern-rtp", |_| streams::pattern(Ip::V6, Profile::Rtp, 314, Cids::Fresh)),
    ("rohc-ule-pattern-reused", |_| streams::pattern(Ip::V6, Profile::Rtp, 314, Cids::Reused)),
    ("rohc-ule-pattern-plain", |_| Ok([0.0, 2000.0].map(|n| (n, 14.0 + 40.0 + 8.0 + 45.0)).to_vec())),
    ("rohc-ule-goodput-random", |runs| damage::goodput(runs, "noise")),
    ("rohc-ule-goodput-random-rohc", |runs| damage::goodput(runs, "noise-udp")),
    ("rohc-ule-goodput-bursts", |runs| damage::goodput(runs, "bursts")),
    ("rohc-ule-goodput-bursts-rohc", |runs| damage::goodput(runs, "bursts-udp")),
    ("rohc-ule-loss-random", |runs| damage::loss(runs, "noise")),
    ("rohc-ule-loss-random-rohc", |runs| damage::loss(runs, "noise-udp")),
    ("rohc-ule-loss-bursts", |runs| damage::loss(runs, "bursts")),
    ("rohc-ule-loss-bursts-rohc", |runs| damage::loss(runs, "bursts-udp")),
    ("rohc-ule-loss-bursts-rohc-v6", |runs| damage::loss(runs, "bursts-udp-v6")),
    ("rohc-ule-loss-bursts-unrepaired", |runs| damage::loss(runs, "bursts-unrepaired")),
    ("rohc-ule-loss-bursts-verified", |runs| damage::loss(runs, "bursts-verified")),
    ("rohc-ule-model-v4", |_| model(V4, None)),
    ("rohc-ule-model-v4-ip", |_| model(V4, Some(Profile::Ip))),
    ("rohc-ule-model-v4-udp", |_| model(V4, Some(Profile::Udp))),
    ("rohc-ule-model-v6", |_| model(Ip::V6, None)),
    ("rohc-ule-model-v6-ip", |_| model(Ip::V6, Some(Profile::Ip))),
    ("rohc-ule-model-v6-udp", |_| model(Ip::V6, Some(Profile::Udp))),
    ("rohc-ule-model-gain-v4-ip", |_| model_gain(V4, Profile::Ip)),
    ("rohc-ule-model-gain-v4-udp", |_| model_gain(V4, Profile::Udp)),
    ("rohc-ule-model-gain-v6-ip", |_| model_gain(Ip::V6, Profile::Ip)),
    ("rohc-ule-model-gain-v6-udp", |_| model_gain(Ip::V6, Profile::Udp)),
    ("rohc-ule-padded-v4", |_| padded_model(V4, None)),
    ("rohc-ule-padded-v6", |_| padded_model(Ip::V6, None)),
    ("rohc-ule-scan", |_| Ok(compared_curve(Lookup::Linear))),
    ("rohc-ule-hash", |_| Ok(compared_curve(Lookup::Hashed))),
    ("rohc-ule-share-ule-v4", |_| share(Carriage::Ule, V4, false)),
    ("rohc-ule-share-mpe-v4", |_| share(Carriage::Mpe, V4, false)),
    ("rohc-ule-share-gse-v4", |_| share(Carriage::Gse, V4, false)),
    ("rohc-ule-share-ule-s2-v4", |_| share(Carriage::UleInFrames, V4, false)),
    ("rohc-ule-share-mpe-s2-v4", |_| share(Carriage::MpeInFrames, V4, false)),
    ("rohc-ule-share-ule-v4-rohc", |_| share(Carriage::Ule, V4, true)),
    ("rohc-ule-share-mpe-v4-rohc", |_| share(Carriage::Mpe, V4, true)),
    ("rohc-ule-share-gse-v4-rohc", |_| share(Carriage::Gse, V4, true)),
    ("rohc-ule-share-ule-v6", |_| share(Carriage::Ule, Ip::V6, false)),
    ("rohc-ule-share-mpe-v6", |_| share(Carriage::Mpe, Ip::V6, false)),
    ("rohc-ule-share-gse-v6", |_| share(Carriage::Gse, Ip::V6, false)),
    ("rohc-ule-share-ule-s2-v6", |_| share(Carriage::UleInFrames, Ip::V6, false)),
    ("rohc-ule-share-mpe-s2-v6", |_| share(Carriage::MpeInFrames, Ip::V6, false)),
    ("rohc-ule-share-ule-v6-rohc", |_| share(Carriage::Ule, Ip::V6, true)),
    ("rohc-ule-share-mpe-v6-rohc", |_| share(Carriage::Mpe, Ip::V6, true)),
    ("rohc-ule-share-gse-v6-rohc", |_| share(Carriage::Gse, Ip::V6, true)),
];

/// Payloads of figures 12 to 15 in bytes, as the model is drawn.
const MODEL_PAYLOADS: [u32; 16] =
    [12, 20, 30, 40, 60, 80, 100, 150, 200, 300, 400, 600, 800, 1000, 1200, 1472];

/// Refresh interval with which as many streams of IPv6 fit as published, in packets.
const OFTEN: u32 = 70;

/// Numbers of contexts of figure 21.
const CONTEXTS: [usize; 7] = [1, 10, 31, 100, 311, 1000, 4000];

/// Returns the contexts that the compressor compares for a packet, by the number of contexts.
fn compared_curve(lookup: Lookup) -> Points {
    CONTEXTS.map(|count| (count as f64, contexts::compared(count, lookup))).to_vec()
}

/// Payloads of the side-by-side comparison, in bytes.
const SHARE_PAYLOADS: [usize; 12] = [12, 20, 33, 50, 80, 120, 200, 320, 500, 800, 1200, 1472];

/// The six cases of figures 4 to 6.
const CASES: [(Ip, Profile); 6] = [
    (V4, Profile::Ip),
    (Ip::V6, Profile::Ip),
    (V4, Profile::Udp),
    (Ip::V6, Profile::Udp),
    (V4, Profile::Rtp),
    (Ip::V6, Profile::Rtp),
];

/// Returns the average header of one stream in octets.
fn average(ip: Ip, profile: Profile, interval: u32, irs: u8) -> f64 {
    headers::average(&Traffic::gsm(ip, 1), profile, interval, irs)
}

/// Returns the average header of one stream of UDP at the study's interval, in octets.
fn average_of_udp(ip: Ip, profile: Profile) -> f64 {
    headers::average(&Traffic::udp(ip, 100), profile, INTERVAL, IRS)
}

/// Returns the average headers against the refresh interval.
fn header_curve(ip: Ip, profile: Profile, irs: u8) -> Result<Points, String> {
    Ok(INTERVALS.map(|interval| (f64::from(interval), average(ip, profile, interval, irs))).to_vec())
}

/// Returns the greatest rise of an average to the next longer interval, in octets.
fn greatest_rise(_: &StudyRuns) -> Result<f64, String> {
    let mut greatest = f64::NEG_INFINITY;
    for (ip, profile) in CASES {
        let points = header_curve(ip, profile, IRS)?;
        greatest = points.windows(2).map(|pair| pair[1].1 - pair[0].1).fold(greatest, f64::max);
    }
    Ok(greatest)
}

/// Returns the share of the fall remaining at the study's interval, in per cent.
///
/// It is the largest of the cases.
fn late_gain(_: &StudyRuns) -> Result<f64, String> {
    let [shortest, .., longest] = INTERVALS;
    let share = |(ip, profile)| {
        let at = |interval| average(ip, profile, interval, IRS);
        (at(INTERVAL) - at(longest)) / (at(shortest) - at(longest))
    };
    Ok(CASES.map(share).into_iter().fold(0.0, f64::max) * 100.0)
}

/// Returns the least ratio of the profiles' falls over the intervals, IPv6 over IPv4.
fn v6_over_v4(_: &StudyRuns) -> Result<f64, String> {
    let [shortest, .., longest] = INTERVALS;
    let fall = |ip, profile| average(ip, profile, shortest, IRS) - average(ip, profile, longest, IRS);
    let ratio = |profile| fall(Ip::V6, profile) / fall(V4, profile);
    Ok([Profile::Ip, Profile::Udp, Profile::Rtp].map(ratio).into_iter().fold(f64::INFINITY, f64::min))
}

/// Returns the savings of one IR packet over five in per cent. It is taken at the study's interval, relative to the
/// shortest.
///
/// It is the largest of the cases.
fn fewer_irs(_: &StudyRuns) -> Result<f64, String> {
    let saved = |ip, profile, interval| average(ip, profile, interval, 5) - average(ip, profile, interval, 1);
    let share = |(ip, profile)| saved(ip, profile, INTERVAL) / saved(ip, profile, INTERVALS[0]);
    Ok(CASES.map(share).into_iter().fold(0.0, f64::max) * 100.0)
}

/// Returns the average length of headers of UDP packets, compressed or not.
fn overhead(ip: Ip, profile: Option<Profile>) -> f64 {
    match profile {
        None => ip.header_len() as f64 + equations::UDP,
        Some(Profile::Ip) => average_of_udp(ip, Profile::Ip) + equations::UDP,
        Some(profile) => average_of_udp(ip, profile),
    }
}

/// Returns the throughput of packed UDP by the equations, in bit/s, against the payload.
fn model(ip: Ip, profile: Option<Profile>) -> Result<Points, String> {
    let header = overhead(ip, profile);
    let point = |payload| (payload, equations::throughput(LINK_BPS, header, payload));
    Ok(MODEL_PAYLOADS.map(|payload| point(f64::from(payload))).to_vec())
}

/// Returns the gain of compression by the equations, in per cent.
fn model_gain(ip: Ip, profile: Profile) -> Result<Points, String> {
    let (plain, compressed) = (model(ip, None)?, model(ip, Some(profile))?);
    Ok(plain.iter().zip(&compressed).map(|(a, b)| (a.0, (b.1 / a.1 - 1.0) * 100.0)).collect())
}

/// Returns the throughput of padded UDP by the equations, in bit/s, against the payload.
fn padded_model(ip: Ip, profile: Option<Profile>) -> Result<Points, String> {
    let header = overhead(ip, profile);
    let point = |payload| (payload, equations::padded_throughput(LINK_BPS, header, payload));
    Ok((12..=600).step_by(2).map(|payload| point(f64::from(payload))).collect())
}

/// Returns the payload share of a carrier in per cent, by payload size.
fn share(carriage: Carriage, ip: Ip, compressed: bool) -> Result<Points, String> {
    let point = |payload: usize| {
        let share = encapsulations::efficiency(carriage, &Traffic::udp(ip, payload), compressed)?;
        Ok((payload as f64, share * 100.0))
    };
    SHARE_PAYLOADS.into_iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row or figure refers to each of them by its name.
    #[test]
    fn names_are_told_apart() {
        let names: Vec<&str> = CODES
            .iter()
            .chain(CONSTANTS)
            .map(|(name, _)| *name)
            .chain(CURVES.iter().map(|(name, _)| *name))
            .collect();
        let others = |at: usize| names[..at].contains(&names[at]);
        assert!((0..names.len()).all(|at| !others(at)), "twice: {names:?}");
    }
}
