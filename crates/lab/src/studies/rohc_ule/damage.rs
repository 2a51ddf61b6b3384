//! Links with bit errors (section 6): what arrives with and without compression, with and without repair of contexts and
//! verification of what they restore.

use bentpipe_rohc::Profile;
use bentpipe_units::Span;

use super::testbed::{Errors, Offer, Outcome};
use super::throughput::{PACKING, stream, testbed};
use super::traffic::{Ip, Traffic};
use super::{Points, V4};
use crate::published::{Length, StudyRuns};

/// Bit error rates of the curves.
const RATES: [f64; 7] = [1e-7, 3e-7, 1e-6, 3e-6, 1e-5, 3e-5, 1e-4];

/// The payload of the UDP stream that fills the link, in bytes.
const PAYLOAD: usize = 64;

/// What the ends do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    Plain,
    Rohc { repair: bool, verify: bool },
}

/// As the study had them: contexts are repaired, nothing is verified.
pub(super) const USUAL: Ends = Ends::Rohc { repair: true, verify: false };

/// The sort of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Random,
    Bursts,
}

fn run(runs: &StudyRuns, ip: Ip, sort: Sort, ber: f64, ends: Ends) -> Result<(Outcome, Span), String> {
    let length = Span::from_secs(if runs.1 == Length::Quick { 1 } else { 10 });
    Ok((run_for(length, ip, sort, ber, ends)?, length))
}

fn run_for(length: Span, ip: Ip, sort: Sort, ber: f64, ends: Ends) -> Result<Outcome, String> {
    let mut stream = stream(Some(PACKING), (ends != Ends::Plain).then_some(Profile::Udp));
    if let (Some(rohc), Ends::Rohc { repair, verify }) = (&mut stream.rohc, ends) {
        (rohc.repair, rohc.verify) = (repair, verify);
    }
    let mut testbed = testbed(stream);
    testbed.errors = match sort {
        Sort::Random => Errors::Random(ber),
        Sort::Bursts => Errors::Bursts(ber),
    };
    testbed.run(&Traffic::udp(ip, PAYLOAD), &Offer::Greedy, length)
}

/// Goodput in bit/s against the bit error rate: packets that arrive as they were sent.
pub(super) fn goodput(runs: &StudyRuns, sort: Sort, ends: Ends) -> Result<Points, String> {
    RATES.iter().map(|&ber| Ok((ber, goodput_at(runs, sort, ber, ends)?))).collect()
}

fn goodput_at(runs: &StudyRuns, sort: Sort, ber: f64, ends: Ends) -> Result<f64, String> {
    let (outcome, length) = run(runs, V4, sort, ber, ends)?;
    Ok((outcome.arrivals.len() * PAYLOAD * 8) as f64 / length.as_secs_f64())
}

/// Lost packets in percent against the bit error rate.
pub(super) fn loss(runs: &StudyRuns, ip: Ip, sort: Sort, ends: Ends) -> Result<Points, String> {
    RATES.iter().map(|&ber| Ok((ber, run(runs, ip, sort, ber, ends)?.0.lost() * 100.0))).collect()
}

/// The goodput with compression over that without, at this rate.
pub(super) fn ratio(runs: &StudyRuns, sort: Sort, ber: f64) -> Result<f64, String> {
    Ok(goodput_at(runs, sort, ber, USUAL)? / goodput_at(runs, sort, ber, Ends::Plain)?)
}

/// The share of the 14 cases in which compression has more goodput, in percent.
pub(super) fn ahead(runs: &StudyRuns) -> Result<f64, String> {
    let mut ahead = 0;
    for sort in [Sort::Random, Sort::Bursts] {
        let (plain, compressed) = (goodput(runs, sort, Ends::Plain)?, goodput(runs, sort, USUAL)?);
        ahead += plain.iter().zip(&compressed).filter(|(a, b)| b.1 > a.1).count();
    }
    Ok(ahead as f64 / (2 * RATES.len()) as f64 * 100.0)
}

/// Packets that arrived whole and that the decompressor refused, as a share of what it was given, in percent.
pub(super) fn refused(runs: &StudyRuns, ip: Ip, sort: Sort, ber: f64, ends: Ends) -> Result<f64, String> {
    Ok(share_refused(&run(runs, ip, sort, ber, ends)?.0))
}

fn share_refused(outcome: &Outcome) -> f64 {
    let rohc = outcome.received.rohc;
    rohc.refused as f64 / rohc.received.max(1) as f64 * 100.0
}

/// What repair saves of the packets that contexts damaged by bursts cost, at 1e-4, in percent. Bursts are rare, so it is
/// looked at for longer.
pub(super) fn repaired(runs: &StudyRuns) -> Result<f64, String> {
    let length = Span::from_secs(if runs.1 == Length::Quick { 2 } else { 60 });
    let at = |repair| {
        let ends = Ends::Rohc { repair, verify: false };
        run_for(length, V4, Sort::Bursts, 1e-4, ends).map(|outcome| share_refused(&outcome))
    };
    Ok((1.0 - at(true)? / at(false)?) * 100.0)
}

/// Packets that came out otherwise than they were sent, over all 14 cases, with or without verification.
pub(super) fn wrong(runs: &StudyRuns, ip: Ip, verify: bool) -> Result<f64, String> {
    let mut wrong = 0;
    for sort in [Sort::Random, Sort::Bursts] {
        for ber in RATES {
            wrong += run(runs, ip, sort, ber, Ends::Rohc { repair: true, verify })?.0.wrong;
        }
    }
    Ok(wrong as f64)
}
