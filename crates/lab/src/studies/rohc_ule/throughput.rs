//! Thresholds, valleys and gains (figures 7 to 15): a sender that always has a packet, and pings.

use bentpipe_net::dvb::{Cid, Config, ProfileName, Rohc};
use bentpipe_rohc::Profile;
use bentpipe_units::{Span, Time};

use super::headers::{INTERVAL, IRS};
use super::testbed::{Errors, Offer, Testbed};
use super::traffic::{Ident, Ip, Traffic};
use super::{LINK_BPS, Points, V4};

/// The packing threshold of the study's tests.
pub(super) const PACKING: Span = Span::from_millis(1);

/// The study's stream: bridged, with this packing threshold, or padding; compressed by this profile at best, or not.
pub(super) fn stream(packing: Option<Span>, profile: Option<Profile>) -> Config {
    Config { packing, rohc: profile.map(rohc), ..Config::default() }
}

fn rohc(profile: Profile) -> Rohc {
    let best = match profile {
        Profile::Rtp => ProfileName::Rtp,
        Profile::Udp => ProfileName::Udp,
        _ => ProfileName::Ip,
    };
    Rohc {
        profiles: vec![ProfileName::Ip, best],
        cid: Cid::Large,
        contexts: 16_384,
        refresh: INTERVAL,
        dynamic_refresh: 0,
        repeats: IRS,
        refresh_repeats: IRS,
        // The RFC's ends, as the gateways had them: no packet is sent longer to be believed, and none held back that its CRC
        // lets through.
        confirm: 0,
        caution: 0,
        ..Rohc::default()
    }
}

/// The link with that stream, without errors.
pub(super) fn testbed(stream: Config) -> Testbed {
    Testbed { stream, bits_per_s: LINK_BPS, errors: Errors::None }
}

/// How long each point is sent for.
const LENGTH: Span = Span::from_millis(500);
/// The same where many points are needed and each packet's length is the same but for few.
const SHORT: Span = Span::from_millis(100);

/// The throughput of UDP payload in bit/s.
fn throughput(traffic: &Traffic, stream: &Config, length: Span) -> Result<f64, String> {
    let outcome = testbed(stream.clone()).run(traffic, &Offer::Greedy, length)?;
    Ok((outcome.arrivals.len() * traffic.payload_len * 8) as f64 / length.as_secs_f64())
}

/// The throughput against the payload for this threshold, or padding; up to a payload that is not fragmented.
pub(super) fn against_payload(
    ip: Ip,
    profile: Option<Profile>,
    packing: Option<Span>,
    payloads: impl Iterator<Item = usize>,
) -> Result<Points, String> {
    let stream = stream(packing, profile);
    let fits = 1500 - 8 - ip.header_len();
    let point =
        |payload: usize| Ok((payload as f64, throughput(&Traffic::udp(ip, payload), &stream, LENGTH)?));
    payloads.map(|payload| payload.min(fits)).map(point).collect()
}

/// Payloads of figures 12 to 15, in bytes.
pub(super) const PAYLOADS: [usize; 15] =
    [12, 16, 24, 32, 40, 50, 64, 100, 150, 200, 300, 500, 800, 1200, 1472];

/// The gain of compression over packets as they are, in percent, against the payload.
pub(super) fn gains(ip: Ip, profile: Profile) -> Result<Points, String> {
    let plain = against_payload(ip, None, Some(PACKING), PAYLOADS.into_iter())?;
    let compressed = against_payload(ip, Some(profile), Some(PACKING), PAYLOADS.into_iter())?;
    Ok(plain.iter().zip(&compressed).map(|(a, b)| (a.0, (b.1 / a.1 - 1.0) * 100.0)).collect())
}

/// The gain at the smallest payload, 12 bytes, in percent.
pub(super) fn gain_at_12(ip: Ip, profile: Profile) -> Result<f64, String> {
    let at = |profile| throughput(&Traffic::udp(ip, 12), &stream(Some(PACKING), profile), LENGTH);
    Ok((at(Some(profile))? / at(None)? - 1.0) * 100.0)
}

/// The payload at which compression by the profile for UDP gains most bits a second, in bytes.
pub(super) fn widest_gap(ip: Ip) -> Result<f64, String> {
    let plain = against_payload(ip, None, Some(PACKING), PAYLOADS.into_iter())?;
    let compressed = against_payload(ip, Some(Profile::Udp), Some(PACKING), PAYLOADS.into_iter())?;
    let gaps = plain.iter().zip(&compressed).map(|(a, b)| (a.0, b.1 - a.1));
    gaps.max_by(|a, b| a.1.total_cmp(&b.1)).map(|widest| widest.0).ok_or_else(|| "no payload".to_owned())
}

/// The payload of the n-th valley of padding mode: where one byte more loses most within the n-th 184 bytes, in bytes.
pub(super) fn valley(ip: Ip, profile: Option<Profile>, n: usize) -> Result<f64, String> {
    Ok(deepest_fall(ip, profile, None, n)?.0)
}

/// What one byte more loses at most in packing mode up to the first valleys' payload, in percent.
pub(super) fn fall_when_packing() -> Result<f64, String> {
    Ok(deepest_fall(V4, None, Some(PACKING), 1)?.1 * 100.0)
}

/// The payload at which the throughput falls most against a byte less, and by what share.
fn deepest_fall(
    ip: Ip,
    profile: Option<Profile>,
    packing: Option<Span>,
    n: usize,
) -> Result<(f64, f64), String> {
    let first = 12 + 184 * (n - 1);
    let stream = stream(packing, profile);
    let mut deepest = (0.0, 0.0);
    let mut before = throughput(&Traffic::udp(ip, first), &stream, SHORT)?;
    for payload in first + 1..first + 184 {
        let now = throughput(&Traffic::udp(ip, payload), &stream, SHORT)?;
        let fall = 1.0 - now / before;
        if fall > deepest.1 {
            deepest = (payload as f64, fall);
        }
        before = now;
    }
    Ok(deepest)
}

/// Pings, and the time from one to the next: no multiple of anything, so that they meet the link's slots everywhere.
const PINGS: usize = 200;
const PING_NS: u64 = 51_234_567;
/// Up and down, both ways, in seconds.
const PROPAGATION: f64 = 0.5;

/// Round trips in seconds through the mesh, both ways with the same threshold, packets of 64 bytes in UDP.
pub(super) fn round_trips(packing: Span, profile: Option<Profile>) -> Result<Vec<f64>, String> {
    let testbed = testbed(stream(Some(packing), profile));
    let traffic = Traffic::udp(Ip::V4(Ident::Stream), 64);
    let sent = |n: usize| Time::from_nanos(n as u64 * PING_NS);
    let length = Span::from_nanos((PINGS as u64 + 20) * PING_NS);
    let there = Offer::At(Box::new(move |n| (n < PINGS).then(|| sent(n))));
    let arrived: Vec<Time> = testbed.run(&traffic, &there, length)?.arrivals.iter().map(|a| a.1).collect();
    let back = Offer::At(Box::new(move |n| arrived.get(n).copied()));
    let returned = testbed.run(&traffic, &back, length)?.arrivals;
    Ok(returned.iter().map(|(n, at)| at.since(sent(*n)).as_secs_f64()).collect())
}

/// The mean round trip in seconds.
fn mean_round_trip(packing: Span, profile: Option<Profile>) -> Result<f64, String> {
    let all = round_trips(packing, profile)?;
    crate::stats::mean(&all).ok_or_else(|| "no ping came back".to_owned())
}

/// Thresholds of figure 8, in milliseconds.
const THRESHOLDS_MS: [u64; 7] = [1, 2, 5, 10, 15, 20, 30];

/// Mean round trips in seconds, without propagation, against the threshold in milliseconds.
pub(super) fn against_threshold(profile: Option<Profile>) -> Result<Points, String> {
    let point = |ms: u64| Ok((ms as f64, mean_round_trip(Span::from_millis(ms), profile)? - PROPAGATION));
    THRESHOLDS_MS.into_iter().map(point).collect()
}

/// How far from the straight line between its ends figure 8 is at most, in milliseconds.
pub(super) fn bend() -> Result<f64, String> {
    let points = against_threshold(None)?;
    let [first, .., last] = points[..] else { return Err("no line".to_owned()) };
    let slope = (last.1 - first.1) / (last.0 - first.0);
    let off = points.iter().map(|(x, y)| (y - first.1 - slope * (x - first.0)).abs());
    Ok(off.fold(0.0, f64::max) * 1e3)
}

/// By how much the round trip grows with the threshold.
pub(super) fn slope() -> Result<f64, String> {
    let points = against_threshold(None)?;
    let [first, .., last] = points[..] else { return Err("no line".to_owned()) };
    Ok((last.1 - first.1) * 1e3 / (last.0 - first.0))
}

/// What compression adds to the mean round trip at the study's threshold, in milliseconds.
pub(super) fn added_by_compression() -> Result<f64, String> {
    let compressed = mean_round_trip(PACKING, Some(Profile::Udp))?;
    Ok((compressed - mean_round_trip(PACKING, None)?) * 1e3)
}

/// Round trips without propagation, ping by ping, in seconds.
pub(super) fn pings(profile: Option<Profile>) -> Result<Points, String> {
    let all = round_trips(PACKING, profile)?;
    Ok(all.iter().take(100).enumerate().map(|(n, rtt)| (n as f64, rtt - PROPAGATION)).collect())
}
