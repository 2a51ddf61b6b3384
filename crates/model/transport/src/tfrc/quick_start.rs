//! Rate requests of a sender at the start and on resumption (RFC 4782, RFC 5634).

use bentpipe_units::{RandomStream, Span, Time};
use bentpipe_wire::quick_start::{Function, IpOption, NONCE_MASK, RateCode, Response};
use rand::RngCore;

use crate::datagram::HOP_LIMIT;

/// Maximum interval of requests; beyond it they end (RFC 5634, section 2.1.1).
const LONGEST_INTERVAL: Span = Span::from_secs(64);

/// Last request, its report, and the time of the next request.
#[derive(Debug, Default)]
pub(super) struct QuickStart {
    /// Rate needed by the application, in bit/s of packets with their headers.
    wanted: Option<u64>,
    /// Minimum interval of requests (Initial_QSI). Without it there is one request, at the start.
    least: Option<Span>,
    /// Time from the last request to the next; `None` after the last request.
    interval: Option<Span>,
    asked: Time,
    pub(super) request: Option<IpOption>,
    /// Report to be sent with the next packet.
    pub(super) report: Option<IpOption>,
    is_answered: bool,
    /// Set if the rate did not limit the last packet.
    ///
    /// The next data then follows silence, or less than the allowed rate.
    pub(super) was_limited_by_data: bool,
}

impl QuickStart {
    /// Creates the request at the start, if configured.
    pub(super) fn new(
        now: Time,
        bps: Option<u64>,
        least: Option<Span>,
        stream: &mut RandomStream,
    ) -> QuickStart {
        let request = bps.map(|bps| request(RateCode::at_least(bps), stream));
        QuickStart { wanted: bps, least, interval: least, asked: now, request, ..QuickStart::default() }
    }

    /// Returns a request for a resuming sender, if one is allowed and promises a gain.
    ///
    /// `allowed` is the present rate, `most` the limit by the loss event rate, both in bit/s of packets with
    /// their headers.
    pub(super) fn resume(
        &mut self,
        now: Time,
        rtt: Span,
        [allowed, most]: [f64; 2],
        stream: &mut RandomStream,
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

    /// Returns the rate approved by the first response, or by its absence.
    ///
    /// Returns `None` if nothing was requested, or it was answered before.
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

fn request(rate: RateCode, stream: &mut RandomStream) -> IpOption {
    let (ttl, nonce) = (stream.next_u32() as u8, stream.next_u32() & NONCE_MASK);
    IpOption { function: Function::Request, rate, ttl, nonce }
}
