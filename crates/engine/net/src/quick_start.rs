//! Quick-Start approval of a router (RFC 4782, section 3.3): answers requests in packets.
//!
//! Modelled: approval as in the RFC's appendix D, "target": a share of the link's rate, less the highest use
//! of the last intervals of 150 ms and the rates approved in the last two; requests approved whole, lowered
//! to a code that fits, or refused by zeroes; the nonce made random again where a rate is lowered. A router
//! without this element does not understand requests and lets them pass unchanged, so that the sender sees
//! that not all consented. Not modelled: checks of reports against approvals, and any state of flows.

pub mod metrics;

use std::any::Any;
use std::collections::VecDeque;

use bentpipe_units::{Bytes, Rate, Span, Time};
use bentpipe_wire::quick_start::{Function, IpOption, RateCode, find, replace};
use rand::RngCore;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Cx, Element, InvalidConfig, Observer, Packet, Port};

/// Returns the rate requested or reported by a packet's Quick-Start option. It is the rate approved up to
/// here, in bits of IP packets. Terminals request that capacity (`dama::Announcement`). Zero if the request
/// was rejected.
pub fn announced(packet: &Packet) -> Option<Rate> {
    find(packet.header()).map(|(_, option)| Rate::from_bps(option.rate.bps()))
}

/// Duration of one measurement of use (RFC 4782, appendix D).
const INTERVAL: Span = Span::from_millis(150);
/// Number of intervals for which an approval counts as used.
const APPROVALS: usize = 2;

/// Approval of Quick-Start requests by a router, on one of its links.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Maximum share of the link's rate that may be used, 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub threshold: f64,
    /// Number of 150 ms intervals whose highest use counts: 1 to 1000.
    pub intervals: u16,
    /// Enables capacity requests of a return-link terminal for approved rates.
    pub capacity: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config { threshold: 0.9, intervals: 10, capacity: true }
    }
}

impl Config {
    /// Checks the values.
    ///
    /// # Errors
    /// Returns an error with the key whose value is impossible.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        InvalidConfig::ensure((0.0..=1.0).contains(&self.threshold), "threshold", "a share from 0 to 1")?;
        InvalidConfig::ensure((1..=1000).contains(&self.intervals), "intervals", "1 to 1000")
    }
}

/// Quick-Start element between a router and one of its links. Packets go in and out at port 0.
#[derive(Debug)]
pub struct Approver {
    /// Usable rate in bits per second.
    limit_bps: u64,
    intervals: usize,
    /// Set at a router in transit, which decrements the QS TTL with the hop limit. The sender's own host does not.
    is_router: bool,
    /// The interval being measured, counted from the start.
    interval: u64,
    bytes: u64,
    /// Bytes of the intervals before, the newest first.
    used: VecDeque<u64>,
    /// Bits per second approved in this interval and the ones before, the newest first.
    approved: [u64; APPROVALS],
    requests: u64,
    granted: u64,
    lowered: u64,
    refused: u64,
}

impl Approver {
    /// Creates an approver on a link of `rate`, for a router or a host. `is_router` selects which.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn new(config: &Config, rate: Rate, is_router: bool) -> Result<Approver, InvalidConfig> {
        config.check()?;
        Ok(Approver {
            limit_bps: rate.mul_f64(config.threshold).as_bps(),
            intervals: config.intervals.into(),
            is_router,
            interval: 0,
            bytes: 0,
            used: VecDeque::new(),
            approved: [0; APPROVALS],
            requests: 0,
            granted: 0,
            lowered: 0,
            refused: 0,
        })
    }

    /// Advances the measurement to `now`.
    fn measure(&mut self, now: Time) {
        let interval = now.as_nanos() / INTERVAL.as_nanos();
        let passed = (interval - self.interval).min(self.intervals as u64 + 1);
        for _ in 0..passed {
            self.used.push_front(std::mem::take(&mut self.bytes));
            self.used.truncate(self.intervals);
            self.approved.rotate_right(1);
            self.approved[0] = 0;
        }
        self.interval = interval;
    }

    /// Bits per second that may still be approved.
    fn pool_bps(&self) -> u64 {
        let most = self.used.iter().copied().max().unwrap_or(0).max(self.bytes);
        let used_bps = Rate::of(Bytes::new(most), INTERVAL).as_bps();
        self.limit_bps.saturating_sub(used_bps).saturating_sub(self.approved.iter().sum())
    }

    fn answer(&mut self, packet: &mut Packet, cx: &mut Cx<'_>) {
        let Some((at, mut option)) = find(packet.header()) else { return };
        if option.function != Function::Request || option.rate == RateCode::NONE {
            return;
        }
        self.requests += 1;
        let (asked, rate) = (option.rate, option.rate.min(RateCode::at_most(self.pool_bps())));
        if rate == RateCode::NONE {
            self.refused += 1;
            option = IpOption { rate, ttl: 0, nonce: 0, ..option };
        } else {
            self.granted += 1;
            self.lowered += u64::from(rate < asked);
            self.approved[0] += rate.bps();
            option.lower(rate, cx.stream().next_u32());
            option.ttl = option.ttl.wrapping_sub(u8::from(self.is_router));
        }
        replace(packet.header_mut(), at, &option);
    }
}

impl Element for Approver {
    fn receive(&mut self, _port: Port, mut packet: Packet, cx: &mut Cx<'_>) -> Time {
        self.measure(cx.now());
        self.answer(&mut packet, cx);
        self.bytes += packet.len() as u64;
        cx.emit(Port(0), packet);
        Time::NEVER
    }

    fn wake(&mut self, _cx: &mut Cx<'_>) -> Time {
        Time::NEVER
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        self.measure(now);
        observer.counter(&metrics::REQUESTS, self.requests);
        observer.counter(&metrics::APPROVED, self.granted);
        observer.counter(&metrics::LOWERED, self.lowered);
        observer.counter(&metrics::REFUSED, self.refused);
        observer.gauge(&metrics::AVAILABLE, self.pool_bps() as f64);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
