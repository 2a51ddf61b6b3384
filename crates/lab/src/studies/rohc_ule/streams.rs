//! Parallel RTP streams: how many the link carries (figures 16 and 17), and what they look like on it (figures 18 to 20).

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bentpipe_rohc::{CidSpace, Compressed, Compressor, CompressorConfig, PacketType, Profile};
use bentpipe_units::{Span, Stream, Time};
use rayon::prelude::*;

use super::equations;
use super::headers::{self, INTERVAL, IRS};
use super::testbed::{Offer, Outcome};
use super::throughput::{PACKING, stream, testbed};
use super::traffic::{GSM_LEN, Ip, Traffic};
use super::{LINK_BPS, Points};
use crate::published::{At, Length, StudyRuns};

/// From packet to packet of a stream.
const FRAME_NS: u64 = 20_000_000;
/// From refresh to refresh of a stream.
const CYCLE: Span = Span::from_millis((INTERVAL as u64 + IRS as u64) * 20);

/// Streams of even phases over the link.
fn run(
    ip: Ip,
    profile: Option<Profile>,
    count: usize,
    spread: bool,
    length: Span,
) -> Result<Outcome, String> {
    let mut stream = stream(Some(PACKING), profile);
    if let Some(rohc) = &mut stream.rohc {
        rohc.spread = spread;
    }
    let offer = Offer::At(Box::new(move |n| Some(sent(n, count))));
    testbed(stream).run(&Traffic::gsm(ip, count), &offer, length)
}

fn sent(n: usize, count: usize) -> Time {
    Time::from_nanos(n as u64 * FRAME_NS / count as u64)
}

/// Within so long of the propagation a packet has found no queue.
const PROMPT: Span = Span::from_millis(255);

/// Whether the link carries so many streams: no packet is lost, and in the last cycle of refreshes the queue runs empty, so
/// that none would be later.
fn carries(ip: Ip, profile: Option<Profile>, count: usize, length: Span) -> Result<bool, String> {
    let outcome = run(ip, profile, count, false, length)?;
    let late = length.saturating_sub(CYCLE);
    let is_prompt =
        |(n, at): &(usize, Time)| sent(*n, count) >= Time::ZERO + late && at.since(sent(*n, count)) < PROMPT;
    Ok(outcome.dropped == 0 && outcome.wrong == 0 && outcome.arrivals.iter().any(is_prompt))
}

/// What was asked for, and what came of it; whoever asks for the same meanwhile waits.
type Known = Vec<((Ip, Option<Profile>, Length), Arc<OnceLock<Result<f64, String>>>)>;

/// The greatest number of streams that the link carries, as seen. Rows and figures ask for the same, so it is kept.
pub(super) fn observed(runs: &StudyRuns, ip: Ip, profile: Option<Profile>) -> Result<f64, String> {
    static KNOWN: Mutex<Known> = Mutex::new(Vec::new());
    let asked = (ip, profile, runs.1);
    let mut list = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = list.iter().find(|(known, _)| *known == asked).map(|(_, found)| Arc::clone(found));
    let found = known.unwrap_or_else(|| {
        list.push((asked, Arc::default()));
        Arc::clone(&list[list.len() - 1].1)
    });
    drop(list);
    found.get_or_init(|| search(runs, ip, profile)).clone()
}

/// Bisects about the estimate.
fn search(runs: &StudyRuns, ip: Ip, profile: Option<Profile>) -> Result<f64, String> {
    let length = if runs.1 == Length::Quick { CYCLE.mul_f64(1.1) } else { CYCLE.mul_f64(2.1) };
    let estimate = estimated(ip, profile);
    let (mut carried, mut too_many) = ((estimate * 0.94) as usize, (estimate * 1.06) as usize + 1);
    if !carries(ip, profile, carried, length)? || carries(ip, profile, too_many, length)? {
        return Err(format!("the link's limit is not within {carried} to {too_many} streams"));
    }
    while too_many - carried > 1 {
        let middle = (carried + too_many) / 2;
        if carries(ip, profile, middle, length)? { carried = middle } else { too_many = middle }
    }
    Ok(carried as f64)
}

/// The number of streams that equations 14 and 15 give with the average header that the compressor has with so many:
/// found by iteration, for the length of CIDs depends on it.
pub(super) fn estimated(ip: Ip, profile: Option<Profile>) -> f64 {
    let of =
        |header: f64| equations::streams(LINK_BPS, equations::stream_bits(header, GSM_LEN as f64)).floor();
    let Some(profile) = profile else { return of((ip.header_len() + 8 + 12) as f64) };
    let mut count = 300.0;
    for _ in 0..8 {
        let average = headers::average(&Traffic::gsm(ip, count as usize), profile, INTERVAL, IRS);
        let found = of(average + headers::left_over(profile) as f64);
        if found == count {
            break;
        }
        count = found;
    }
    count
}

/// As many calls as the scenario's link carries packets of when there are more than it can carry, over that of equations
/// 14 and 15 without Ethernet's header: the scenario's sites are routers.
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

/// None, IP, UDP and RTP, as the figures have them from left to right.
const PROFILES: [Option<Profile>; 4] = [None, Some(Profile::Ip), Some(Profile::Udp), Some(Profile::Rtp)];

/// Streams by the equations, by profile.
pub(super) fn estimates(ip: Ip) -> Result<Points, String> {
    Ok((0..).zip(PROFILES).map(|(x, profile)| (f64::from(x), estimated(ip, profile))).collect())
}

/// Streams that the link carries, by profile.
pub(super) fn observations(runs: &StudyRuns, ip: Ip) -> Result<Points, String> {
    let counts: Result<Vec<f64>, String> =
        PROFILES.par_iter().map(|profile| observed(runs, ip, *profile)).collect();
    Ok((0..).map(f64::from).zip(counts?).collect())
}

/// The share of the link that is UDP payload with as many streams as it carries, by profile, in percent.
pub(super) fn shares(runs: &StudyRuns, ip: Ip) -> Result<Points, String> {
    let share = |count: f64| count * (12 + GSM_LEN) as f64 * 400.0 / LINK_BPS * 100.0;
    Ok(observations(runs, ip)?.into_iter().map(|(x, count)| (x, share(count))).collect())
}

/// The jitter of the inter-arrival time by the study's equations in milliseconds: its standard deviation in each stream,
/// averaged over the streams.
pub(super) fn jitter(
    runs: &StudyRuns,
    ip: Ip,
    profile: Option<Profile>,
    count: usize,
    spread: bool,
) -> Result<f64, String> {
    let length = if runs.1 == Length::Quick { CYCLE.mul_f64(1.1) } else { CYCLE.mul_f64(2.1) };
    let outcome = run(ip, profile, count, spread, length)?;
    let mut of_stream: Vec<Vec<f64>> = vec![Vec::new(); count];
    for (n, at) in &outcome.arrivals {
        of_stream[n % count].push(at.as_secs_f64() * 1e3);
    }
    let deviation = |times: &Vec<f64>| {
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt()
    };
    Ok(of_stream.iter().map(deviation).sum::<f64>() / count as f64)
}

/// The streams that the text looks at.
const WATCHED: usize = 314;
/// Contexts of a gateway that has been running for long: all are in use.
const OLD_CONTEXTS: usize = 512;

/// Whose CIDs the streams get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cids {
    /// Nobody had them.
    Fresh,
    /// Those of streams that ended, in no order.
    Reused,
}

/// What a compressor makes of so many packets of streams in turn.
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

/// A compressor whose contexts all belong to streams from before, each heard for the last time at some moment.
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
    let mut stream = Stream::new(1, "rohc-ule/order");
    for last in (1..order.len()).rev() {
        order.swap(last, (stream.unit() * (last + 1) as f64) as usize);
    }
}

/// Lengths of the first 2000 frames on the link, in bytes, without ULE's.
pub(super) fn pattern(ip: Ip, profile: Profile, count: usize, cids: Cids) -> Result<Points, String> {
    let traffic = Traffic::gsm(ip, count);
    let whole = ip.header_len() + 8 + traffic.payload_len;
    let length = |compressed: &Compressed| 14 + whole - compressed.header_in + compressed.header_out;
    let all = compressed(ip, profile, count, cids, false, 2000);
    Ok(all.iter().enumerate().map(|(n, one)| (n as f64, length(one) as f64)).collect())
}

/// The most IR packets among as many in a row as three rounds of the streams, after the first: all contexts are old.
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

/// How often the length changes from a frame to the next in a round of the streams between refreshes.
pub(super) fn steps(cids: Cids) -> Result<f64, String> {
    let all = compressed(Ip::V6, Profile::Rtp, WATCHED, cids, false, 21 * WATCHED);
    let late = &all[20 * WATCHED..];
    Ok(late.windows(2).filter(|pair| pair[0].header_out != pair[1].header_out).count() as f64)
}

/// By how many streams fresh CIDs carry more than those of streams that ended, by the equations.
pub(super) fn fresh_over_reused() -> Result<f64, String> {
    let count = |cids| {
        let cycle = WATCHED * (INTERVAL as usize + usize::from(IRS));
        let all = compressed(Ip::V6, Profile::Rtp, WATCHED, cids, false, 2 * cycle);
        let average = all[cycle..].iter().map(|one| one.header_out as f64).sum::<f64>() / cycle as f64;
        equations::streams(LINK_BPS, equations::stream_bits(average, GSM_LEN as f64)).floor()
    };
    Ok(count(Cids::Fresh) - count(Cids::Reused))
}
