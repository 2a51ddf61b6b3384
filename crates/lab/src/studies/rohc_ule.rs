//! The study of ROHC over ULE over DVB-S: average headers of the real compressor, equations 8 to 15 beside them, and what the
//! scenarios' runs say of thresholds, valleys, gains, streams, traffic patterns and bit errors.

mod contexts;
mod damage;
mod encapsulations;
mod equations;
mod headers;
mod streams;
mod testbed;
mod throughput;
mod traffic;

use bentpipe_rohc::Profile;
use bentpipe_units::Span;

use self::damage::{Ends, Sort, USUAL};
use self::encapsulations::Carriage;
use self::headers::{INTERVAL, INTERVALS, IRS};
use self::streams::Cids;
use self::throughput::{PACKING, PAYLOADS, against_payload};
use self::traffic::{Ident, Ip, Traffic};
use super::{Code, CurveCode};
use crate::published::StudyRuns;

/// The link's rate in bit/s.
const LINK_BPS: f64 = 8e6;

/// A single stream, or the single stream's own counter.
const V4: Ip = Ip::V4(Ident::Stream);
/// Many streams of one host, whose packets it numbers through.
const V4_HOST: Ip = Ip::V4(Ident::Host);

/// What rows refer to.
pub(super) const CODES: &[(&str, Code)] = &[
    ("rohc-ule-rise", greatest_rise),
    ("rohc-ule-late-gain", late_gain),
    ("rohc-ule-v6-over-v4", v6_over_v4),
    ("rohc-ule-fewer-irs", fewer_irs),
    ("rohc-ule-threshold", |_| Ok(equations::packing_threshold_s(LINK_BPS) * 1e3)),
    ("rohc-ule-valley-seen-v4-1", |_| throughput::valley(V4, None, 1)),
    ("rohc-ule-valley-seen-v6-1", |_| throughput::valley(Ip::V6, None, 1)),
    ("rohc-ule-valleys-off", |_| valleys_off()),
    ("rohc-ule-valley-off-v4", |_| valley_off(V4)),
    ("rohc-ule-valley-off-v6", |_| valley_off(Ip::V6)),
    ("rohc-ule-fall-packing", |_| throughput::fall_when_packing()),
    ("rohc-ule-rtt-slope", |_| throughput::slope()),
    ("rohc-ule-rtt-bend", |_| throughput::bend()),
    ("rohc-ule-rtt-compression", |_| throughput::added_by_compression()),
    ("rohc-ule-gain-v6-udp", |_| throughput::gain_at_12(Ip::V6, Profile::Udp)),
    ("rohc-ule-gain-v6-ip", |_| throughput::gain_at_12(Ip::V6, Profile::Ip)),
    ("rohc-ule-gap-v4", |_| throughput::widest_gap(V4)),
    ("rohc-ule-gap-v6", |_| throughput::widest_gap(Ip::V6)),
    ("rohc-ule-streams-rtp-v4", |_| Ok(streams::estimated(V4_HOST, Some(Profile::Rtp)))),
    ("rohc-ule-streams-rtp-v4-constant", |_| {
        Ok(streams::estimated(Ip::V4(Ident::Constant), Some(Profile::Rtp)))
    }),
    ("rohc-ule-streams-rtp-v6", |_| Ok(streams::estimated(Ip::V6, Some(Profile::Rtp)))),
    ("rohc-ule-streams-ip-v6", |_| Ok(streams::estimated(Ip::V6, Some(Profile::Ip)))),
    ("rohc-ule-seen-rtp-v4", |runs| streams::observed(runs, V4_HOST, Some(Profile::Rtp))),
    ("rohc-ule-seen-rtp-v6", |runs| streams::observed(runs, Ip::V6, Some(Profile::Rtp))),
    ("rohc-ule-seen-ip-v6", |runs| streams::observed(runs, Ip::V6, Some(Profile::Ip))),
    ("rohc-ule-routed", streams::routed),
    ("rohc-ule-fresh-over-reused", |_| streams::fresh_over_reused()),
    ("rohc-ule-jitter-spread-over-unison", |runs| {
        let jitter = |spread| streams::jitter(runs, Ip::V6, Some(Profile::Rtp), 314, spread);
        Ok(jitter(true)? / jitter(false)?)
    }),
    ("rohc-ule-irs", |_| streams::irs_in_a_row(false)),
    ("rohc-ule-irs-spread", |_| streams::irs_in_a_row(true)),
    ("rohc-ule-steps-fresh", |_| streams::steps(Cids::Fresh)),
    ("rohc-ule-steps-reused", |_| streams::steps(Cids::Reused)),
    ("rohc-ule-jitter-ip-v6", |runs| full_over_one(runs, Ip::V6, Profile::Ip, 249)),
    ("rohc-ule-jitter-rtp-v6", |runs| full_over_one(runs, Ip::V6, Profile::Rtp, 314)),
    ("rohc-ule-jitter-rtp-v4", |runs| full_over_one(runs, V4_HOST, Profile::Rtp, 311)),
    ("rohc-ule-noise-ratio", |runs| damage::ratio(runs, Sort::Random, 1e-4)),
    ("rohc-ule-noise-ratio-bursts", |runs| damage::ratio(runs, Sort::Bursts, 1e-4)),
    ("rohc-ule-noise-ahead", damage::ahead),
    ("rohc-ule-noise-refused-random", |runs| damage::refused(runs, V4, Sort::Random, 1e-4, USUAL)),
    ("rohc-ule-noise-refused-bursts", |runs| damage::refused(runs, V4, Sort::Bursts, 1e-4, USUAL)),
    ("rohc-ule-noise-refused-bursts-v6", |runs| damage::refused(runs, Ip::V6, Sort::Bursts, 1e-4, USUAL)),
    ("rohc-ule-noise-repaired", damage::repaired),
    ("rohc-ule-noise-wrong", |runs| damage::wrong(runs, V4, false)),
    ("rohc-ule-noise-wrong-verified", |runs| damage::wrong(runs, V4, true)),
    ("rohc-ule-noise-wrong-v6", |runs| damage::wrong(runs, Ip::V6, false)),
    ("rohc-ule-selective", |_| {
        let (packets, saved) = headers::selective(128);
        Ok(saved / packets)
    }),
    ("rohc-ule-contexts-compared", |_| {
        let (scanned, hashed) = contexts::compared(311);
        Ok(hashed / scanned)
    }),
    ("rohc-ule-contexts-growth", |_| Ok(contexts::compared(4000).1 / contexts::compared(311).1)),
];

/// What figures refer to.
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
    ("rohc-ule-threshold-padding", |_| saw_tooth(None)),
    ("rohc-ule-threshold-183us", |_| saw_tooth(Some(Span::from_micros(183)))),
    ("rohc-ule-threshold-1ms", |_| saw_tooth(Some(PACKING))),
    ("rohc-ule-threshold-10ms", |_| saw_tooth(Some(Span::from_millis(10)))),
    ("rohc-ule-rtt", |_| throughput::against_threshold(None)),
    ("rohc-ule-rtt-rohc", |_| throughput::against_threshold(Some(Profile::Udp))),
    ("rohc-ule-pings", |_| throughput::pings(None)),
    ("rohc-ule-pings-rohc", |_| throughput::pings(Some(Profile::Udp))),
    ("rohc-ule-teeth-v4", |_| teeth(V4, None, None)),
    ("rohc-ule-teeth-v6", |_| teeth(Ip::V6, None, None)),
    ("rohc-ule-teeth-v4-udp", |_| teeth(V4, Some(Profile::Udp), None)),
    ("rohc-ule-teeth-v6-udp", |_| teeth(Ip::V6, Some(Profile::Udp), None)),
    ("rohc-ule-teeth-packed-v4", |_| teeth(V4, None, Some(PACKING))),
    ("rohc-ule-sent-v4", |_| sent(V4, None)),
    ("rohc-ule-sent-v4-ip", |_| sent(V4, Some(Profile::Ip))),
    ("rohc-ule-sent-v4-udp", |_| sent(V4, Some(Profile::Udp))),
    ("rohc-ule-sent-v6", |_| sent(Ip::V6, None)),
    ("rohc-ule-sent-v6-ip", |_| sent(Ip::V6, Some(Profile::Ip))),
    ("rohc-ule-sent-v6-udp", |_| sent(Ip::V6, Some(Profile::Udp))),
    ("rohc-ule-gains-v4-ip", |_| throughput::gains(V4, Profile::Ip)),
    ("rohc-ule-gains-v4-udp", |_| throughput::gains(V4, Profile::Udp)),
    ("rohc-ule-gains-v6-ip", |_| throughput::gains(Ip::V6, Profile::Ip)),
    ("rohc-ule-gains-v6-udp", |_| throughput::gains(Ip::V6, Profile::Udp)),
    ("rohc-ule-estimates-v4", |_| streams::estimates(V4_HOST)),
    ("rohc-ule-estimates-v6", |_| streams::estimates(Ip::V6)),
    ("rohc-ule-seen-v4", |runs| streams::observations(runs, V4_HOST)),
    ("rohc-ule-seen-v6", |runs| streams::observations(runs, Ip::V6)),
    ("rohc-ule-shares-v4", |runs| streams::shares(runs, V4_HOST)),
    ("rohc-ule-shares-v6", |runs| streams::shares(runs, Ip::V6)),
    ("rohc-ule-pattern-ip", |_| streams::pattern(Ip::V6, Profile::Ip, 249, Cids::Fresh)),
    ("rohc-ule-pattern-rtp", |_| streams::pattern(Ip::V6, Profile::Rtp, 314, Cids::Fresh)),
    ("rohc-ule-pattern-reused", |_| streams::pattern(Ip::V6, Profile::Rtp, 314, Cids::Reused)),
    ("rohc-ule-pattern-plain", |_| Ok([0.0, 2000.0].map(|n| (n, 14.0 + 40.0 + 8.0 + 45.0)).to_vec())),
    ("rohc-ule-goodput-random", |runs| damage::goodput(runs, Sort::Random, Ends::Plain)),
    ("rohc-ule-goodput-random-rohc", |runs| damage::goodput(runs, Sort::Random, USUAL)),
    ("rohc-ule-goodput-bursts", |runs| damage::goodput(runs, Sort::Bursts, Ends::Plain)),
    ("rohc-ule-goodput-bursts-rohc", |runs| damage::goodput(runs, Sort::Bursts, USUAL)),
    ("rohc-ule-loss-random", |runs| damage::loss(runs, V4, Sort::Random, Ends::Plain)),
    ("rohc-ule-loss-random-rohc", |runs| damage::loss(runs, V4, Sort::Random, USUAL)),
    ("rohc-ule-loss-bursts", |runs| damage::loss(runs, V4, Sort::Bursts, Ends::Plain)),
    ("rohc-ule-loss-bursts-rohc", |runs| damage::loss(runs, V4, Sort::Bursts, USUAL)),
    ("rohc-ule-loss-bursts-rohc-v6", |runs| damage::loss(runs, Ip::V6, Sort::Bursts, USUAL)),
    ("rohc-ule-loss-bursts-unrepaired", |runs| {
        damage::loss(runs, V4, Sort::Bursts, Ends::Rohc { repair: false, verify: false })
    }),
    ("rohc-ule-loss-bursts-verified", |runs| {
        damage::loss(runs, V4, Sort::Bursts, Ends::Rohc { repair: true, verify: true })
    }),
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
    ("rohc-ule-scan", |_| Ok(CONTEXTS.map(|n| (n as f64, contexts::compared(n).0)).to_vec())),
    ("rohc-ule-hash", |_| Ok(CONTEXTS.map(|n| (n as f64, contexts::compared(n).1)).to_vec())),
    ("rohc-ule-share-ule-v4", |_| share(Carriage::Ule, V4, false)),
    ("rohc-ule-share-mpe-v4", |_| share(Carriage::Mpe, V4, false)),
    ("rohc-ule-share-gse-v4", |_| share(Carriage::Gse, V4, false)),
    ("rohc-ule-share-ule-v4-rohc", |_| share(Carriage::Ule, V4, true)),
    ("rohc-ule-share-mpe-v4-rohc", |_| share(Carriage::Mpe, V4, true)),
    ("rohc-ule-share-gse-v4-rohc", |_| share(Carriage::Gse, V4, true)),
    ("rohc-ule-share-ule-v6", |_| share(Carriage::Ule, Ip::V6, false)),
    ("rohc-ule-share-mpe-v6", |_| share(Carriage::Mpe, Ip::V6, false)),
    ("rohc-ule-share-gse-v6", |_| share(Carriage::Gse, Ip::V6, false)),
    ("rohc-ule-share-ule-v6-rohc", |_| share(Carriage::Ule, Ip::V6, true)),
    ("rohc-ule-share-mpe-v6-rohc", |_| share(Carriage::Mpe, Ip::V6, true)),
    ("rohc-ule-share-gse-v6-rohc", |_| share(Carriage::Gse, Ip::V6, true)),
];

type Points = Vec<(f64, f64)>;

/// Payloads of figures 12 to 15 in bytes, as the model is drawn.
const MODEL_PAYLOADS: [u32; 16] =
    [12, 20, 30, 40, 60, 80, 100, 150, 200, 300, 400, 600, 800, 1000, 1200, 1472];

/// Numbers of contexts between which a scan is told from a hash.
const CONTEXTS: [usize; 6] = [1, 10, 31, 100, 311, 1000];

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

/// The average header of one stream.
fn average(ip: Ip, profile: Profile, interval: u32, irs: u8) -> f64 {
    headers::average(&Traffic::gsm(ip, 1), profile, interval, irs)
}

/// The average header of one stream of UDP at the study's interval.
fn average_of_udp(ip: Ip, profile: Profile) -> f64 {
    headers::average(&Traffic::udp(ip, 100), profile, INTERVAL, IRS)
}

/// Average headers against the refresh interval.
fn header_curve(ip: Ip, profile: Profile, irs: u8) -> Result<Points, String> {
    Ok(INTERVALS.map(|interval| (f64::from(interval), average(ip, profile, interval, irs))).to_vec())
}

/// The greatest rise of any average from one interval to the next longer one, in octets: none if all fall.
fn greatest_rise(_: &StudyRuns) -> Result<f64, String> {
    let mut greatest = f64::NEG_INFINITY;
    for (ip, profile) in CASES {
        let points = header_curve(ip, profile, IRS)?;
        greatest = points.windows(2).map(|pair| pair[1].1 - pair[0].1).fold(greatest, f64::max);
    }
    Ok(greatest)
}

/// The share of the fall from the shortest to the longest interval that is still to come at the study's, in percent: the
/// largest of the cases.
fn late_gain(_: &StudyRuns) -> Result<f64, String> {
    let [shortest, .., longest] = INTERVALS;
    let share = |(ip, profile)| {
        let at = |interval| average(ip, profile, interval, IRS);
        (at(INTERVAL) - at(longest)) / (at(shortest) - at(longest))
    };
    Ok(CASES.map(share).into_iter().fold(0.0, f64::max) * 100.0)
}

/// How much more of IPv6's headers the shortest interval costs than of IPv4's: the smallest ratio of the profiles.
fn v6_over_v4(_: &StudyRuns) -> Result<f64, String> {
    let [shortest, .., longest] = INTERVALS;
    let fall = |ip, profile| average(ip, profile, shortest, IRS) - average(ip, profile, longest, IRS);
    let ratio = |profile| fall(Ip::V6, profile) / fall(V4, profile);
    Ok([Profile::Ip, Profile::Udp, Profile::Rtp].map(ratio).into_iter().fold(f64::INFINITY, f64::min))
}

/// What one IR packet in place of five saves at the study's interval, over what it saves at the shortest, in percent: the
/// largest of the cases.
fn fewer_irs(_: &StudyRuns) -> Result<f64, String> {
    let saved = |ip, profile, interval| average(ip, profile, interval, 5) - average(ip, profile, interval, 1);
    let share = |(ip, profile)| saved(ip, profile, INTERVAL) / saved(ip, profile, INTERVALS[0]);
    Ok(CASES.map(share).into_iter().fold(0.0, f64::max) * 100.0)
}

/// What a packet of UDP has in front of its payload on average, as it is or compressed.
fn overhead(ip: Ip, profile: Option<Profile>) -> f64 {
    match profile {
        None => ip.header_len() as f64 + equations::UDP,
        Some(Profile::Ip) => average_of_udp(ip, Profile::Ip) + equations::UDP,
        Some(profile) => average_of_udp(ip, profile),
    }
}

/// The throughput of packed UDP by the equations, in bit/s, against the payload.
fn model(ip: Ip, profile: Option<Profile>) -> Result<Points, String> {
    let header = overhead(ip, profile);
    let point = |payload| (payload, equations::throughput(LINK_BPS, header, payload));
    Ok(MODEL_PAYLOADS.map(|payload| point(f64::from(payload))).to_vec())
}

/// Its gain over packets as they are, in percent.
fn model_gain(ip: Ip, profile: Profile) -> Result<Points, String> {
    let (plain, compressed) = (model(ip, None)?, model(ip, Some(profile))?);
    Ok(plain.iter().zip(&compressed).map(|(a, b)| (a.0, (b.1 / a.1 - 1.0) * 100.0)).collect())
}

/// The throughput of UDP by the equations in padding mode, in bit/s, against each payload up to some valleys.
fn padded_model(ip: Ip, profile: Option<Profile>) -> Result<Points, String> {
    let header = overhead(ip, profile);
    let point = |payload| (payload, equations::padded_throughput(LINK_BPS, header, payload));
    Ok((12..=600).step_by(2).map(|payload| point(f64::from(payload))).collect())
}

/// The jitter of so many streams over that of one.
fn full_over_one(runs: &StudyRuns, ip: Ip, profile: Profile, count: usize) -> Result<f64, String> {
    let jitter = |count| streams::jitter(runs, ip, Some(profile), count, false);
    Ok(jitter(count)? / jitter(1)?)
}

/// By how many bytes any of the first three valleys, with IPv4 and IPv6, is off equation 12 at most.
fn valleys_off() -> Result<f64, String> {
    let mut most = 0.0;
    for (ip, n) in [V4, Ip::V6].into_iter().flat_map(|ip| [1, 2, 3].map(|n| (ip, n))) {
        let predicted = equations::valley(n, ip.header_len() as f64);
        most = f64::max(most, (throughput::valley(ip, None, n as usize)? - predicted).abs());
    }
    Ok(most)
}

/// By how many bytes the first valley behind compressed headers is off equation 13.
fn valley_off(ip: Ip) -> Result<f64, String> {
    let predicted = equations::valley_compressed(1, average_of_udp(ip, Profile::Udp));
    Ok(throughput::valley(ip, Some(Profile::Udp), 1)? - predicted)
}

/// The throughput of UDP over IPv4 for a packing threshold, in bit/s, over all payloads.
fn saw_tooth(packing: Option<Span>) -> Result<Points, String> {
    against_payload(V4, None, packing, (32..=1472).step_by(15))
}

/// The throughput of UDP for padding or packing, in bit/s, over the first three valleys.
fn teeth(ip: Ip, profile: Option<Profile>, packing: Option<Span>) -> Result<Points, String> {
    against_payload(ip, profile, packing, (12..=600).step_by(6))
}

/// The throughput of packed UDP as seen, in bit/s, against the payload.
fn sent(ip: Ip, profile: Option<Profile>) -> Result<Points, String> {
    against_payload(ip, profile, Some(PACKING), PAYLOADS.into_iter())
}

/// The share of a carrier that is payload, in percent, against the payload of a packet.
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
        let names: Vec<&str> =
            CODES.iter().map(|(name, _)| *name).chain(CURVES.iter().map(|(name, _)| *name)).collect();
        let others = |at: usize| names[..at].contains(&names[at]);
        assert!((0..names.len()).all(|at| !others(at)), "twice: {names:?}");
    }
}
