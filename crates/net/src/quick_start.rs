//! A router's part in Quick-Start (RFC 4782, section 3.3): it lets packets through and answers requests in them.
//!
//! Modelled: approval as in the RFC's appendix D, "target": what is left of a share of the link's rate after the highest
//! use of the last intervals of 150 ms and the rates approved in the last two; requests approved whole, lowered to a
//! code that fits, or refused by zeroes; the nonce made random again where a rate is lowered. A router without this
//! element does not understand requests and lets them pass unchanged, so that the sender sees that not all consented.
//! Not modelled: checks of reports against what was approved, and any state of flows.

use std::any::Any;
use std::collections::VecDeque;

use bentpipe_units::{Bytes, Rate, Span, Time};
use bentpipe_wire::quick_start::{Function, IpOption, RateCode, find, replace};
use rand::RngCore;

use crate::{Cx, Element, Impossible, Observer, Packet, Port, Unit};

/// The rate that an option in a packet asks for, as far as routers have approved it by now, or reports: in bits of IP
/// packets. What a terminal asks capacity for ([`crate::dama::Announcement`]); zero if it was refused.
pub fn announced(packet: &Packet) -> Option<Rate> {
    find(packet.header()).map(|(_, option)| Rate::from_bps(option.rate.bps()))
}

/// How long one measurement of use lasts (RFC 4782, appendix D).
const INTERVAL: Span = Span::from_millis(150);
/// For how many of them an approval counts as used.
const APPROVALS: usize = 2;

/// What a router approves on one of its links.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct Config {
    /// The share of the link's rate up to which it may be used, 0 to 1.
    pub threshold: f64,
    /// Of how many intervals of 150 ms the highest use counts: 1 to 1000.
    pub intervals: u16,
    /// Whether a terminal of a return link asks for the capacity of what it approves.
    pub capacity: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config { threshold: 0.9, intervals: 10, capacity: true }
    }
}

/// Stands between a router and one of its links: packets go in and out at port 0.
#[derive(Debug)]
pub struct Approver {
    /// What may be used, in bits per second.
    limit_bps: u64,
    intervals: usize,
    /// Whether this is a router on the way, which takes a hop off the QS TTL as it did off the hop limit. The sender's
    /// own host does not.
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
    /// Approves on a link of `rate`, for the router (or, if not `is_router`, for the host) in front of it.
    ///
    /// # Errors
    /// The key whose value is impossible.
    pub fn new(config: &Config, rate: Rate, is_router: bool) -> Result<Approver, Impossible> {
        Impossible::unless((0.0..=1.0).contains(&config.threshold), "threshold", "a share from 0 to 1")?;
        Impossible::unless((1..=1000).contains(&config.intervals), "intervals", "1 to 1000")?;
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

    /// Brings the measurement to `now`.
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
        observer.counter("requests", Unit::Count, self.requests);
        observer.counter("approved", Unit::Count, self.granted);
        observer.counter("lowered", Unit::Count, self.lowered);
        observer.counter("refused", Unit::Count, self.refused);
        observer.gauge("available", Unit::BitsPerSecond, self.pool_bps() as f64);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram::Path;
    use crate::rig::{MS, Rig};
    use bentpipe_wire::ip::Protocol;
    use bentpipe_wire::quick_start::Response;

    const REQUEST: IpOption =
        IpOption { function: Function::Request, rate: RateCode::from_bits(5), ttl: 200, nonce: 0x1234_5678 };

    fn packet(version: u8, zeros: u32) -> Packet {
        let (local, remote) = match version {
            4 => ("10.0.0.1:1", "10.0.0.2:2"),
            _ => ("[fd00::1]:1", "[fd00::2]:2"),
        };
        let path = Path::new(local.parse().expect("one"), remote.parse().expect("one"), 0).expect("fine");
        path.packet(Protocol::UDP, Some(&REQUEST), &[0; 8], zeros)
    }

    fn rig(rate_bps: u64, is_router: bool) -> Rig<Approver> {
        let approver =
            Approver::new(&Config::default(), Rate::from_bps(rate_bps), is_router).expect("possible");
        Rig::new(approver)
    }

    fn answer(rig: &mut Rig<Approver>, at: u64, version: u8) -> IpOption {
        rig.receive(at, 0, packet(version, 0));
        find(rig.out.last().expect("one").2.header()).expect("an option").1
    }

    #[test]
    fn a_free_link_approves_and_takes_a_hop() {
        for version in [4, 6] {
            let approved = answer(&mut rig(10_000_000, true), MS, version);
            assert_eq!(approved, IpOption { ttl: 199, ..REQUEST });
            assert!(Response::to(&approved, 63).is_consent(&REQUEST, 64));
            let at_home = answer(&mut rig(10_000_000, false), MS, version);
            assert!(Response::to(&at_home, 64).is_consent(&REQUEST, 64));
        }
    }

    #[test]
    fn what_does_not_fit_is_lowered_or_refused() {
        // 0.9 of 1 Mbit/s has room for 640 kbit/s; the nonce still tells that the rate was lowered.
        let lowered = answer(&mut rig(1_000_000, true), MS, 4);
        assert_eq!(lowered.rate.bps(), 640_000);
        assert!(Response::to(&lowered, 63).is_consent(&REQUEST, 64));
        let refused = answer(&mut rig(80_000, true), MS, 4);
        assert_eq!((refused.rate, refused.ttl, refused.nonce), (RateCode::NONE, 0, 0));
    }

    #[test]
    fn approvals_count_for_two_intervals_and_use_for_ten() {
        // 0.9 of 3 Mbit/s: two requests of 1.28 Mbit/s fit together, a third does not, and later one does again.
        let mut approvals = rig(3_000_000, true);
        let rates = [0, 0, 100, 310].map(|at| answer(&mut approvals, at * MS, 4).rate.bps());
        assert_eq!(rates, [1_280_000, 1_280_000, 80_000, 1_280_000]);
        // 30,000 bytes in 150 ms are 1.6 Mbit/s: 1.1 are left, for 1.5 s.
        let mut used = rig(3_000_000, true);
        used.receive(0, 0, packet(4, 30_000));
        let refused_before = used.value("refused");
        let at = |used: &mut Rig<Approver>, millis: u64| answer(used, millis * MS, 4).rate.bps();
        assert_eq!(refused_before, 0.0);
        assert_eq!(at(&mut used, 1_400), 640_000);
        assert_eq!(at(&mut used, 1_800), 1_280_000);
    }

    #[test]
    fn what_is_left_of_a_request_and_what_a_report_says_is_announced() {
        let mut rig = rig(1_000_000, true);
        rig.receive(0, 0, packet(4, 0));
        assert_eq!(announced(&rig.out[0].2), Some(Rate::from_bps(640_000)));
        let path = Path::new("10.0.0.1:1".parse().expect("one"), "10.0.0.2:2".parse().expect("one"), 0);
        let path = path.expect("fine");
        let report = IpOption { function: Function::Report, rate: RateCode::NONE, ..REQUEST };
        assert_eq!(announced(&path.packet(Protocol::UDP, Some(&report), &[0; 8], 0)), Some(Rate::default()));
        assert_eq!(announced(&path.packet(Protocol::UDP, None, &[0; 8], 0)), None);
    }

    #[test]
    fn other_packets_pass_unchanged() {
        let mut rig = rig(10_000_000, true);
        let path = Path::new("10.0.0.1:1".parse().expect("one"), "10.0.0.2:2".parse().expect("one"), 0);
        let plain = path.expect("fine").packet(Protocol::UDP, None, &[7; 8], 100);
        rig.receive(0, 0, plain.clone());
        assert_eq!(rig.out[0].2.to_vec(), plain.to_vec());
    }
}
