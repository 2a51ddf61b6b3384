//! Links with bit errors (section 6): what arrives with and without compression, repair and verification.

use super::throughput::against;
use crate::runs::{Points, StudyRuns};
use crate::study::At;

/// Bit error rate within a burst, as the study's runs set it.
const BURST_BER: f64 = 0.01;
/// Probability that a burst ends after a bit: eight TS packets on average.
const BURST_END: f64 = 1.0 / 12_032.0;

/// Returns a measure of a run against the bit error rate.
///
/// Runs with bursts sweep the probability that one begins.
pub(super) fn against_ber(runs: &StudyRuns, run: &str, name: &str) -> Result<Points, String> {
    let points = runs.points(run, &At::default())?;
    if points.iter().all(|point| point.settings.keys().any(|key| key.ends_with(".ber"))) {
        return against(runs, run, "ber", name);
    }
    let points = against(runs, run, "p", name)?;
    Ok(points.into_iter().map(|(p, y)| (BURST_BER * p / (p + BURST_END), y)).collect())
}

/// Returns the goodput in bit/s against the bit error rate.
pub(super) fn goodput(runs: &StudyRuns, run: &str) -> Result<Points, String> {
    against_ber(runs, run, "flow.stream.goodput")
}

/// Returns the loss of encapsulated packets in per cent against the bit error rate.
pub(super) fn loss(runs: &StudyRuns, run: &str) -> Result<Points, String> {
    let sent = against_ber(runs, run, "link.sky.forward.packets-in")?;
    let arrived = against_ber(runs, run, "flow.stream.receiver.packets")?;
    let lost = |(a, b): (&(f64, f64), &(f64, f64))| (a.0, f64::max(0.0, 1.0 - b.1 / a.1) * 100.0);
    Ok(sent.iter().zip(&arrived).map(lost).collect())
}

/// Returns the ratio of two runs' goodputs at the greatest bit error rate.
pub(super) fn ratio(runs: &StudyRuns, compressed: &str, plain: &str) -> Result<f64, String> {
    let last = |run: &str| -> Result<f64, String> {
        goodput(runs, run)?.last().map(|last| last.1).ok_or_else(|| "no rate".to_owned())
    };
    Ok(last(compressed)? / last(plain)?)
}

/// Returns the share of all cases in which compression has more goodput, in per cent.
pub(super) fn ahead(runs: &StudyRuns) -> Result<f64, String> {
    let (mut ahead, mut cases) = (0, 0);
    for (compressed, plain) in [("noise-udp", "noise"), ("bursts-udp", "bursts")] {
        let (compressed, plain) = (goodput(runs, compressed)?, goodput(runs, plain)?);
        ahead += compressed.iter().zip(&plain).filter(|(a, b)| a.1 > b.1).count();
        cases += plain.len();
    }
    Ok(ahead as f64 / cases as f64 * 100.0)
}

/// Returns the share of intact SNDUs that the decompressor refused, in per cent.
///
/// It is that at the greatest bit error rate.
pub(super) fn refused(runs: &StudyRuns, run: &str) -> Result<f64, String> {
    let refused = against_ber(runs, run, "link.sky.forward.rohc-refused")?;
    let received = against_ber(runs, run, "link.sky.forward.receiver.sndus")?;
    let last = refused.last().zip(received.last()).ok_or("no rate")?;
    Ok(last.0.1 / f64::max(last.1.1, 1.0) * 100.0)
}

/// Returns the share of the packets refused after bursts that repair saves, in per cent.
pub(super) fn repaired(runs: &StudyRuns) -> Result<f64, String> {
    Ok((1.0 - refused(runs, "bursts-udp")? / refused(runs, "bursts-unrepaired")?) * 100.0)
}

/// Returns the number of packets with a wrong header at all bit error rates.
pub(super) fn wrong(runs: &StudyRuns, names: [&str; 2]) -> Result<f64, String> {
    let mut wrong = 0.0;
    for name in names {
        let altered = against_ber(runs, name, "link.sky.forward.altered")?;
        wrong += altered.iter().map(|point| point.1).sum::<f64>();
    }
    Ok(wrong)
}

/// Returns the share of cases in which compression has more goodput, in per cent.
///
/// They are those behind a coded link. Cases in which neither delivers anything do not count.
pub(super) fn coded_ahead(runs: &StudyRuns) -> Result<f64, String> {
    let of = |run: &str| against(runs, run, "eb_n0_db", "flow.stream.goodput");
    let (compressed, plain) = (of("coded-udp")?, of("coded")?);
    let pairs = compressed.iter().zip(&plain).filter(|(a, b)| a.1 > 0.0 || b.1 > 0.0);
    let (ahead, cases) =
        pairs.fold((0, 0), |(ahead, cases), (a, b)| (ahead + u32::from(a.1 > b.1), cases + 1));
    if cases == 0 {
        Err("nothing arrives".to_owned())
    } else {
        Ok(100.0 * f64::from(ahead) / f64::from(cases))
    }
}

/// Returns the greatest share of intact SNDUs that the decompressor refused, in per cent.
///
/// It is that of the runs behind a coded link.
pub(super) fn coded_refused(runs: &StudyRuns, run: &str) -> Result<f64, String> {
    let refused = against(runs, run, "eb_n0_db", "link.sky.forward.rohc-refused")?;
    let received = against(runs, run, "eb_n0_db", "link.sky.forward.receiver.sndus")?;
    let shares = refused.iter().zip(&received).filter(|(_, received)| received.1 > 0.0);
    let greatest = shares.map(|(refused, received)| refused.1 / received.1 * 100.0).reduce(f64::max);
    greatest.ok_or_else(|| "nothing arrives".to_owned())
}
