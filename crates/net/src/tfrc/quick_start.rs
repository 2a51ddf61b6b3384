//! A sender's requests for a rate (RFC 4782, RFC 5634): at the start, and when it resumes.

use bentpipe_units::{Span, Stream, Time};
use bentpipe_wire::quick_start::{Function, IpOption, NONCE_MASK, RateCode, Response};
use rand::RngCore;

use crate::datagram::HOP_LIMIT;

/// RFC 5634, section 2.1.1: requests that would have to be further apart are not made any more.
const LONGEST_INTERVAL: Span = Span::from_secs(64);

/// The last request and the report of what became of it, and when there may be another.
#[derive(Debug, Default)]
pub(super) struct QuickStart {
    /// What the application needs, in bit/s of packets with their headers.
    wanted: Option<u64>,
    /// The least time from a request to the next (Initial_QSI); without it the one at the start is the only one.
    least: Option<Span>,
    /// The time from the last request to the next; none if there is to be none any more.
    interval: Option<Span>,
    asked: Time,
    pub(super) request: Option<IpOption>,
    /// To be sent with the next packet.
    pub(super) report: Option<IpOption>,
    is_answered: bool,
    /// Whether the rate held nothing back when the last packet went: what comes now comes after silence, or after less than
    /// was allowed.
    pub(super) was_limited_by_data: bool,
}

impl QuickStart {
    /// The request at the start, if there is to be one.
    pub(super) fn new(now: Time, bps: Option<u64>, least: Option<Span>, stream: &mut Stream) -> QuickStart {
        let request = bps.map(|bps| request(RateCode::at_least(bps), stream));
        QuickStart { wanted: bps, least, interval: least, asked: now, request, ..QuickStart::default() }
    }

    /// A request for a sender that has more to send than it had, if it may make one and would gain by it. `allowed` is the
    /// rate it has, `most` what the loss event rate permits, both in bit/s of packets with their headers.
    pub(super) fn resume(
        &mut self,
        now: Time,
        rtt: Span,
        [allowed, most]: [f64; 2],
        stream: &mut Stream,
    ) -> Option<IpOption> {
        let (wanted, interval) = (self.wanted?, self.interval?);
        if !self.was_limited_by_data || allowed >= wanted as f64 || now < self.asked + interval {
            return None;
        }
        let safe = RateCode::at_most(most as u64);
        let rate = RateCode::at_least(wanted).min(safe);
        if rate.bps() as f64 <= allowed {
            return None;
        }
        let next = (interval * 2).max(rtt * 4);
        self.interval = (next <= LONGEST_INTERVAL).then_some(next);
        (self.asked, self.is_answered) = (now, false);
        self.request = Some(request(rate, stream));
        self.request
    }

    /// What the first answer, or its absence, approves; none if nothing was asked or it was answered before.
    pub(super) fn answer(&mut self, response: Option<Response>) -> Option<RateCode> {
        let request = self.request.filter(|_| !std::mem::replace(&mut self.is_answered, true))?;
        let consent = response.filter(|response| response.is_consent(&request, HOP_LIMIT));
        let rate = consent.map_or(RateCode::NONE, |response| response.rate);
        self.report = Some(IpOption { function: Function::Report, rate, ttl: 0, ..request });
        if rate > RateCode::NONE {
            self.interval = self.least;
        }
        Some(rate)
    }
}

fn request(rate: RateCode, stream: &mut Stream) -> IpOption {
    let (ttl, nonce) = (stream.next_u32() as u8, stream.next_u32() & NONCE_MASK);
    IpOption { function: Function::Request, rate, ttl, nonce }
}
