//! Parallel RTP streams: their number (figures 16 and 17) and pattern (figures 18 to 20).

use std::time::Duration;

use bentpipe_record::PointSummary;
use bentpipe_rohc::{CidSpace, Compressed, Compressor, CompressorConfig, PacketType, Profile};
use bentpipe_units::RandomStream;

use super::LINK_BPS;
use super::equations;
use super::headers::{self, INTERVAL, IRS};
use super::traffic::{GSM_LEN, Ip, Traffic};
use crate::runs::{Points, StudyRuns, measure};
use crate::study::At;

/// Maximum backlog, in packets, of a link that carries all streams.
const BACKLOG: f64 = 100.0;

/// Returns the greatest number of streams that the link of a run carries.
///
/// Neither loss nor a backlog in front of the next refresh occurs.
///
/// # Errors
/// Returns an error if the sweep does not bracket the limit.
pub(super) fn carried(runs: &StudyRuns, run: &str) -> Result<f64, String> {
    let point = |point: &&PointSummary| {
        let count = point.settings.values().next().and_then(|text| text.parse::<f64>().ok());
        let of = |name: &str| measure(point, name).map(|averaged| averaged.estimate.mean);
        let is_carried = of("flow.calls.loss")? <= 0.0
            && of("link.sky.forward.dropped-queue")? <= 0.0
            && of("link.sky.forward.queue")? <= BACKLOG;
        Ok((count.ok_or("no count of streams")?, is_carried))
    };
    let points = runs.points(run, &At::default())?;
    let mut points = points.iter().map(point).collect::<Result<Vec<(f64, bool)>, String>>()?;
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let carried = points.iter().take_while(|(_, is_carried)| *is_carried).count();
    match carried.checked_sub(1).filter(|_| carried < points.len()) {
        Some(last) => Ok(points[last].0),
        None => Err(format!("run \"{run}\": the link's limit is not within the sweep")),
    }
}

/// Returns the number of streams by equations 14 and 15 with the compressor's average header.
///
/// The length of CIDs depends on the number, which is found by iteration.
pub(super) fn estimated(ip: Ip, profile: Option<Profile>) -> f64 {
    let Some(profile) = profile else { return of_header((ip.header_len() + 8 + 12) as f64) };
    estimated_every(ip, profile, INTERVAL)
}

/// Returns the same of a compressor that refreshes after `interval` packets.
pub(super) fn estimated_every(ip: Ip, profile: Profile, interval: u32) -> f64 {
    estimated_by(ip, profile, |traffic| headers::average(traffic, profile, interval, IRS))
}

/// Returns the same of a compressor that stays in its FO state.
pub(super) fn estimated_in_first_order(ip: Ip, profile: Profile) -> f64 {
    estimated_by(ip, profile, |traffic| headers::average_in_first_order(traffic, profile, INTERVAL, IRS))
}

/// Returns the number of streams with headers of this average length.
fn of_header(header: f64) -> f64 {
    equations::streams(LINK_BPS, equations::stream_bits(header, GSM_LEN as f64)).floor()
}

fn estimated_by(ip: Ip, profile: Profile, average: impl Fn(&Traffic) -> f64) -> f64 {
    let mut count = 300.0;
    for _ in 0..8 {
        let average = average(&Traffic::gsm(ip, count as usize));
        let found = of_header(average + headers::left_over(profile) as f64);
        if found == count {
            break;
        }
        count = found;
    }
    count
}

/// Returns the calls of the routed link over those of equations 14 and 15.
///
/// The equations are taken without the Ethernet header, and the link is offered more than it carries.
pub(super) fn routed(runs: &StudyRuns) -> Result<f64, String> {
    let spread = At::from_iter([("spread".to_owned(), "true".to_owned())]);
    let of_call = (12 + GSM_LEN) as f64 * 8.0 * 50.0;
    let mut carried = 0.0;
    for point in runs.points("calls", &spread)? {
        let goodput = point.value("flow.calls.goodput").ok_or("no goodput")?;
        carried = f64::max(carried, goodput.estimate.mean / of_call);
    }
    let average = headers::average(&Traffic::gsm(Ip::V6, carried as usize), Profile::Rtp, INTERVAL, IRS);
    let bits = equations::stream_bits(average - equations::ETHERNET, GSM_LEN as f64);
    Ok(carried / equations::streams(LINK_BPS, bits))
}

/// Profiles of the figures, from left to right.
const PROFILES: [Option<Profile>; 4] = [None, Some(Profile::Ip), Some(Profile::Udp), Some(Profile::Rtp)];

/// Returns the streams by the equations, by profile.
pub(super) fn estimates(ip: Ip) -> Result<Points, String> {
    Ok((0..).zip(PROFILES).map(|(x, profile)| (f64::from(x), estimated(ip, profile))).collect())
}

/// Returns the streams that the link carries, by profile.
pub(super) fn observations(runs: &StudyRuns, ip: &str) -> Result<Points, String> {
    let names = ["none", "ip", "udp", "rtp"].map(|profile| format!("calls-{ip}-{profile}"));
    let counts = names.iter().map(|name| carried(runs, name)).collect::<Result<Vec<f64>, String>>()?;
    Ok((0..).map(f64::from).zip(counts).collect())
}

/// Returns the streams' UDP payload as a share of the link in per cent.
pub(super) fn shares(runs: &StudyRuns, ip: &str) -> Result<Points, String> {
    let share = |count: f64| count * (12 + GSM_LEN) as f64 * 400.0 / LINK_BPS * 100.0;
    Ok(observations(runs, ip)?.into_iter().map(|(x, count)| (x, share(count))).collect())
}

/// Quantity of table 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Streams by equations 14 and 15.
    Estimated,
    /// Streams that the link carries.
    Observed,
    /// Observed ones as a percentage of the estimated ones.
    Share,
}

/// Returns a column of table 2: IPv4 by profile, then IPv6.
pub(super) fn table_2(runs: &StudyRuns, v4: Ip, quantity: Quantity) -> Result<Points, String> {
    let mut column = Vec::new();
    for (ip, word) in [(v4, "v4"), (Ip::V6, "v6")] {
        let (estimated, observed) = (estimates(ip)?, observations(runs, word)?);
        column.extend(estimated.iter().zip(observed).map(|((_, estimated), (_, observed))| match quantity {
            Quantity::Estimated => *estimated,
            Quantity::Observed => observed,
            Quantity::Share => observed / estimated * 100.0,
        }));
    }
    Ok((0..).map(f64::from).zip(column).collect())
}

/// Streams of figures 19 and 20.
const WATCHED: usize = 314;
/// Contexts of a long-running gateway, all in use.
const OLD_CONTEXTS: usize = 512;

/// Origin of the streams' CIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cids {
    /// Unused CIDs, in order.
    Fresh,
    /// CIDs of streams that ended, in random order.
    Reused,
}

/// Compresses packets of streams in turn.
fn compressed(
    ip: Ip,
    profile: Profile,
    count: usize,
    cids: Cids,
    spread: bool,
    packets: usize,
) -> Vec<Compressed> {
    let mut config = headers::config(profile, INTERVAL, IRS);
    config.spread_refreshes = spread;
    let mut compressor = match cids {
        Cids::Fresh => Compressor::new(config),
        Cids::Reused => old_compressor(ip, config),
    };
    let mut out = Vec::new();
    let traffic = Traffic::gsm(ip, count);
    let one = |index| {
        out.clear();
        let done = compressor.compress(Duration::ZERO, &traffic.packet(index), &mut out);
        done.expect("neither empty nor too long")
    };
    (0..packets).map(one).collect()
}

/// Creates a compressor whose contexts all belong to streams that ended in random order.
fn old_compressor(ip: Ip, mut config: CompressorConfig) -> Compressor {
    config.channel.cids = CidSpace::Large { max_cid: OLD_CONTEXTS as u16 - 1 };
    let mut compressor = Compressor::new(config);
    let old = Traffic { is_old: true, ..Traffic::gsm(ip, OLD_CONTEXTS) };
    let mut order: Vec<usize> = (0..OLD_CONTEXTS).collect();
    shuffle(&mut order);
    let mut out = Vec::new();
    for index in (0..OLD_CONTEXTS).chain(order.into_iter().map(|stream| OLD_CONTEXTS + stream)) {
        let done = compressor.compress(Duration::ZERO, &old.packet(index), &mut out);
        done.expect("neither empty nor too long");
    }
    compressor
}

fn shuffle(order: &mut [usize]) {
    let mut stream = RandomStream::new(1, "rohc-ule/order");
    for last in (1..order.len()).rev() {
        order.swap(last, (stream.unit() * (last + 1) as f64) as usize);
    }
}

/// Returns the lengths of the first 2000 Ethernet frames on the link, in bytes.
pub(super) fn pattern(ip: Ip, profile: Profile, count: usize, cids: Cids) -> Result<Points, String> {
    let traffic = Traffic::gsm(ip, count);
    let whole = ip.header_len() + 8 + traffic.payload_len;
    let length = |compressed: &Compressed| 14 + whole - compressed.header_in + compressed.header_out;
    let all = compressed(ip, profile, count, cids, false, 2000);
    Ok(all.iter().enumerate().map(|(n, one)| (n as f64, length(one) as f64)).collect())
}

/// Returns the maximum number of IR packets in three rounds, after the first cycle.
pub(super) fn irs_in_a_row(spread: bool) -> Result<f64, String> {
    let window = WATCHED * usize::from(IRS);
    let cycle = WATCHED * (INTERVAL as usize + usize::from(IRS));
    let all = compressed(Ip::V6, Profile::Rtp, WATCHED, Cids::Fresh, spread, 3 * cycle);
    let is_ir: Vec<usize> = all.iter().map(|one| usize::from(one.packet_type == PacketType::Ir)).collect();
    // A spread refresh comes into its phase within the first cycle.
    let late = &is_ir[cycle + window..];
    let mut count: usize = late[..window].iter().sum();
    let mut most = count;
    for n in window..late.len() {
        count = count + late[n] - late[n - window];
        most = most.max(count);
    }
    Ok(most as f64)
}

/// Returns the number of changes of length within a round of the streams between refreshes.
pub(super) fn steps(cids: Cids) -> Result<f64, String> {
    let all = compressed(Ip::V6, Profile::Rtp, WATCHED, cids, false, 21 * WATCHED);
    let late = &all[20 * WATCHED..];
    Ok(late.windows(2).filter(|pair| pair[0].header_out != pair[1].header_out).count() as f64)
}

/// Returns the streams that fresh CIDs carry in excess of re-used ones, by the equations.
pub(super) fn fresh_over_reused() -> Result<f64, String> {
    let count = |cids| {
        let cycle = WATCHED * (INTERVAL as usize + usize::from(IRS));
        let all = compressed(Ip::V6, Profile::Rtp, WATCHED, cids, false, 2 * cycle);
        let average = all[cycle..].iter().map(|one| one.header_out as f64).sum::<f64>() / cycle as f64;
        equations::streams(LINK_BPS, equations::stream_bits(average, GSM_LEN as f64)).floor()
    };
    Ok(count(Cids::Fresh) - count(Cids::Reused))
}
