//! Quick-Start around the handshake (RFC 4782, sections 4.1 to 4.4).
//!
//! The request on this end's SYN, the response to the peer's, and the report of the approved rate.

use bentpipe_units::{Bytes, RandomStream, Rate, Span};
use bentpipe_wire::quick_start::{Function, IpOption, NONCE_MASK, RateCode, Response, TCP_OPTION};
use bentpipe_wire::tcp::Options;
use rand::RngCore;

use super::{Connection, Incoming};
use crate::datagram::HOP_LIMIT;

/// Section 4.7.2: how long a SYN with a request waits for an answer at least.
const SYN_TIMEOUT: Span = Span::from_secs(3);

/// State of request, response and report.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QuickStart {
    /// Request of this end, until it is answered.
    request: Option<IpOption>,
    /// Set if the SYN with the request got no answer: then it is never granted.
    is_void: bool,
    /// The answer to the peer's request, for the next segment. It is not repeated (section 4.3).
    response: Option<Response>,
    /// Report for the next segment.
    report: Option<IpOption>,
    pub(super) used: u64,
    pub(super) refused: u64,
}

impl QuickStart {
    /// Returns `true` if the next segment is to carry a response or a report.
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        self.response.is_some() || self.report.is_some()
    }

    /// Returns the request for the first SYN, if one is configured.
    pub(super) fn ask(
        &mut self,
        rate: Option<Rate>,
        is_repeat: bool,
        stream: &mut RandomStream,
    ) -> Option<IpOption> {
        if is_repeat || self.request.is_some() {
            self.is_void = true;
            return None;
        }
        self.request = rate.map(|rate| IpOption {
            function: Function::Request,
            rate: RateCode::at_least(rate.as_bps()),
            ttl: stream.next_u32() as u8,
            nonce: stream.next_u32() & NONCE_MASK,
        });
        self.request
    }

    /// Returns `true` if a request is outstanding and not given up.
    pub(super) fn is_asking(&self) -> bool {
        self.request.is_some() && !self.is_void
    }

    /// Stores the response to the peer's request, unless one was rejected already (section 4.3).
    pub(super) fn store_request(&mut self, answer: Option<Response>) {
        self.response = answer.filter(|answer| answer.rate > RateCode::NONE);
    }

    /// Adds the response, if there is one, to a segment's options.
    pub(super) fn respond(&mut self, options: &mut Options) {
        if let Some(response) = self.response.take() {
            options.unknown.push(TCP_OPTION, &response.data());
        }
    }

    /// Removes and returns the report.
    pub(super) fn report(&mut self) -> Option<IpOption> {
        self.report.take()
    }

    /// Returns the rate approved by `options`, which acknowledge the request.
    ///
    /// A missing or wrong response approves zero. Returns `None` if nothing was requested.
    fn answer(&mut self, options: &Options) -> Option<RateCode> {
        let request = self.request.take()?;
        let mut answers = options.unknown.iter().filter(|(kind, _)| *kind == TCP_OPTION);
        let response = answers.next().and_then(|(_, data)| Response::parse(data).ok());
        let consent = response.filter(|answer| !self.is_void && answer.is_consent(&request, HOP_LIMIT));
        let rate = consent.map_or(RateCode::NONE, |response| response.rate);
        self.report = Some(IpOption { function: Function::Report, rate, ttl: 0, ..request });
        Some(rate)
    }
}

impl Connection {
    /// Returns the timeout of the first SYN.
    pub(super) fn syn_timeout(&self) -> Span {
        let initial = self.config.rto.initial;
        if self.quick_start.is_asking() { initial.max(SYN_TIMEOUT) } else { initial }
    }

    /// Evaluates the response in the segment that acknowledges this end's SYN. `rtt` is that of the
    /// handshake.
    pub(super) fn consider_quick_start(&mut self, segment: &Incoming, rtt: Option<Span>) {
        let Some(approved) = self.quick_start.answer(&segment.options()) else { return };
        self.receiver.ack_at_once();
        let rate = Rate::from_bps(approved.bps());
        let header = self.template.as_ref().map_or(0, |template| template.header_len(self.agreed.timestamps));
        let is_used = approved > RateCode::NONE
            && rtt.is_some_and(|rtt| self.sender.on_quick_start(rate, Bytes::new(header), rtt));
        self.quick_start.used += u64::from(is_used);
        self.quick_start.refused += u64::from(!is_used);
    }
}
