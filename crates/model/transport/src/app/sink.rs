//! Sink of numbered UDP packets that measures loss, reordering, one-way delay and jitter.

mod spread;

use std::any::Any;

use bentpipe_net::ledger::{Accounts, SubAccount, Tally};
use bentpipe_net::{Cx, Element, Histogram, Observer, Packet, Port, Why};
use bentpipe_units::{Span, Time};
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::udp;

use super::Header;
use super::{Missing, delays};
use crate::app::metrics;
use crate::checksum;

/// Configuration of a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkConfig {
    /// The destination port of flow 0; flow i's is higher by i times [`Header::port_step`].
    pub first_port: u16,
    /// Number of flows.
    pub count: u16,
    /// Header that numbers the packets.
    pub header: Header,
    /// Set if the flows share a port and differ by their SSRC.
    pub shared_ports: bool,
}

/// Statistics of one flow.
#[derive(Clone, Debug)]
pub struct FlowStats {
    /// Packets received, duplicates among them.
    pub packets: u64,
    /// Bytes of UDP payload received, duplicates among them.
    pub bytes: u64,
    /// Bytes of UDP payload received for the first time.
    pub arrived_bytes: u64,
    /// Packets with a number that came before.
    pub duplicates: u64,
    /// Packets with a lower number than one received before (RFC 4737, section 3, type-P-reordered).
    pub reordered: u64,
    /// The interarrival jitter of RFC 3550, section 6.4.1, in nanoseconds.
    pub jitter_ns: f64,
    /// The highest number received.
    highest: u64,
    /// Bit i is set if number `highest` - i was received.
    recent: u64,
    /// Numbers further behind that did not come.
    missing: Missing,
    /// The last packet's one-way delay.
    transit_ns: u64,
    /// Arrivals of the first and the last packet.
    arrived: [Time; 2],
    /// Sum of squared intervals between arrivals, in square seconds.
    squares: f64,
}

impl FlowStats {
    pub(crate) const NONE: FlowStats = FlowStats {
        packets: 0,
        bytes: 0,
        arrived_bytes: 0,
        duplicates: 0,
        reordered: 0,
        jitter_ns: 0.0,
        highest: 0,
        recent: 0,
        missing: Missing::new(),
        transit_ns: 0,
        arrived: [Time::ZERO; 2],
        squares: 0.0,
    };

    /// Returns the number of missing packets up to the highest number received. Packets in flight count until
    /// they arrive.
    pub fn lost(&self) -> u64 {
        if self.packets == 0 { 0 } else { (self.highest + 1).saturating_sub(self.packets - self.duplicates) }
    }

    /// Returns the number of packets sent up to the highest number received.
    pub fn expected(&self) -> u64 {
        if self.packets == 0 { 0 } else { self.highest + 1 }
    }

    /// Returns the number of intervals between arrivals.
    fn intervals(&self) -> u64 {
        self.packets.saturating_sub(1)
    }

    /// Returns the figures since the end of the warm-up, of which `warm` has the statistics.
    fn since(&self, warm: &FlowStats) -> Figures {
        let from = if warm.packets > 0 { warm.arrived[1] } else { self.arrived[0] };
        Figures {
            packets: self.packets - warm.packets,
            bytes: self.arrived_bytes - warm.arrived_bytes,
            expected: self.expected() - warm.expected(),
            // What was missing then may have come since.
            lost: self.lost().saturating_sub(warm.lost()),
            intervals: self.intervals() - warm.intervals(),
            spanned_s: self.arrived[1].since(from).as_secs_f64(),
            squares: self.squares - warm.squares,
        }
    }

    /// Returns `true` if a packet, which it counts, came for the first time.
    #[inline]
    pub(crate) fn take(&mut self, sequence: u32, bits: u32, len: usize, arrival: (Span, Time)) -> bool {
        self.arrive(Some(extend(self.highest, sequence, bits)), len, arrival)
    }

    /// Returns `true` if a packet, which it counts, came for the first time.
    ///
    /// A duplicate may have no number.
    #[inline]
    pub(crate) fn arrive(&mut self, number: Option<u64>, len: usize, (transit, at): (Span, Time)) -> bool {
        let is_new = number.is_some_and(|number| self.place(number));
        self.duplicates += u64::from(!is_new);
        self.arrived_bytes += if is_new { len as u64 } else { 0 };
        let transit_ns = transit.as_nanos();
        if self.packets == 0 {
            self.arrived[0] = at;
        } else {
            self.squares += at.since(self.arrived[1]).as_secs_f64().powi(2);
        }
        self.arrived[1] = at;
        if self.packets > 0 {
            // D is the difference of two transit times; J moves by a sixteenth of the error.
            let difference = transit_ns.abs_diff(self.transit_ns) as f64;
            self.jitter_ns += (difference - self.jitter_ns) / 16.0;
        }
        self.transit_ns = transit_ns;
        self.packets += 1;
        self.bytes += len as u64;
        is_new
    }

    /// Reports one flow's statistics but for packets, bytes and delays.
    ///
    /// `warm` are those at the end of the warm-up.
    pub(crate) fn observe(&self, warm: &FlowStats, observer: &mut dyn Observer) {
        let figures = self.since(warm);
        let or_nan = |value: Option<f64>| value.unwrap_or(f64::NAN);
        observer.counter(&metrics::DUPLICATES, self.duplicates);
        observer.counter(&metrics::REORDERED, self.reordered);
        observer.counter(&metrics::EXPECTED, self.expected());
        observer.gauge(&metrics::LOST, self.lost() as f64);
        observer.gauge(&metrics::LOSS_RATIO, self.lost() as f64 / self.expected() as f64);
        observer.gauge(&metrics::JITTER, if self.packets > 1 { self.jitter_ns / 1e9 } else { f64::NAN });
        observer.gauge(&metrics::INTERARRIVAL, or_nan(figures.interarrival_s()));
        observer.gauge(&metrics::INTERARRIVAL_DEVIATION, or_nan(figures.interarrival_deviation_s()));
    }

    /// Returns `true` if `number` did not come before. It has now.
    #[inline]
    fn place(&mut self, number: u64) -> bool {
        if self.packets == 0 || number > self.highest {
            let by = number - if self.packets == 0 { number } else { self.highest };
            self.settle(number);
            self.recent = u32::try_from(by).ok().and_then(|by| self.recent.checked_shl(by)).unwrap_or(0) | 1;
            self.highest = number;
            return true;
        }
        let is_new = match 1_u64.checked_shl((self.highest - number).min(64) as u32) {
            Some(bit) => {
                let is_new = self.recent & bit == 0;
                self.recent |= bit;
                is_new
            }
            None => self.missing.fill(number).is_some(),
        };
        self.reordered += u64::from(is_new);
        is_new
    }

    /// Notes the missing numbers that are more than 63 behind a new highest one.
    #[inline]
    fn settle(&mut self, highest: u64) {
        let settled = highest.saturating_sub(63);
        let (first, end) =
            if self.packets == 0 { (0, 0) } else { (self.highest.saturating_sub(63), self.highest + 1) };
        for number in first..settled.min(end) {
            if self.recent >> (self.highest - number) & 1 == 0 {
                self.missing.add((number, number + 1), 0);
            }
        }
        if settled > end {
            self.missing.add((end, settled), 0);
        }
    }
}

/// Figures of a flow since the end of the warm-up.
#[derive(Clone, Copy, Debug)]
struct Figures {
    packets: u64,
    bytes: u64,
    expected: u64,
    lost: u64,
    /// Intervals between arrivals: their number, sum, and sum of squares.
    intervals: u64,
    spanned_s: f64,
    squares: f64,
}

impl Figures {
    /// Returns the mean interval between arrivals in seconds, if there is one.
    fn interarrival_s(&self) -> Option<f64> {
        (self.intervals > 0).then(|| self.spanned_s / self.intervals as f64)
    }

    /// Returns the standard deviation of intervals between arrivals in seconds, if there is one.
    fn interarrival_deviation_s(&self) -> Option<f64> {
        let mean = self.interarrival_s()?;
        Some((self.squares / self.intervals as f64 - mean * mean).max(0.0).sqrt())
    }
}

/// Returns the number nearest to `highest` whose low `bits` are `sequence`. RFC 3550, appendix A.1, without
/// its probation.
#[inline]
fn extend(highest: u64, sequence: u32, bits: u32) -> u64 {
    let shift = 32 - bits;
    let ahead = (sequence.wrapping_sub(highest as u32) << shift) as i32 >> shift;
    let number = highest as i64 + i64::from(ahead);
    // Before the first packets there is nothing to be nearer to.
    if number < 0 { sequence.into() } else { number as u64 }
}

/// A sink of one or many flows: packets end there.
#[derive(Debug)]
pub struct Sink {
    config: SinkConfig,
    flows: Vec<FlowStats>,
    /// The same at the end of the warm-up; empty without one.
    warm: Vec<FlowStats>,
    delays: Histogram,
    bad_checksum: u64,
    unexpected: u64,
    last: Option<Arrived>,
    /// Accounts of the flows, if each has one.
    accounts: Vec<SubAccount>,
    /// Packets of the flows that were sent in the window of measures.
    sent: Vec<Tally>,
}

/// The last packet that was new: a duplicate completes nothing.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    at: Time,
    delay: Span,
}

/// Reason for which a packet is not counted.
enum Refusal {
    BadChecksum,
    Unexpected,
}

/// Fields that a sink reads from a packet.
struct Arrival {
    flow: usize,
    sequence: u32,
    payload_len: usize,
}

impl Sink {
    /// Creates a sink that has received nothing.
    pub fn new(config: SinkConfig) -> Sink {
        Sink {
            config,
            flows: vec![FlowStats::NONE; config.count.into()],
            warm: Vec::new(),
            delays: Histogram::default(),
            bad_checksum: 0,
            unexpected: 0,
            last: None,
            accounts: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// Sets an account for each flow, which its source has too.
    #[must_use]
    pub fn with_accounts(self, accounts: Vec<SubAccount>) -> Sink {
        Sink { accounts, ..self }
    }

    /// Returns the statistics of each flow.
    pub fn flows(&self) -> &[FlowStats] {
        &self.flows
    }

    /// Returns the one-way delays of all flows. A delay counts from
    /// [`Packet::created_at`] to arrival.
    pub fn delays(&self) -> &Histogram {
        &self.delays
    }

    /// Returns the mean one-way delay, if there is any.
    pub fn mean_delay(&self) -> Option<Span> {
        self.delays.mean()
    }

    /// Returns the minimum and maximum one-way delay, if there is any.
    pub fn delay_range(&self) -> Option<(Span, Span)> {
        self.delays.range()
    }

    #[inline]
    fn read(&self, packet: &Packet) -> Result<Arrival, Refusal> {
        let header = packet.header();
        let ip = ip::Packet::new_elided(header, packet.len() - header.len());
        let ip = ip.map_err(|_| Refusal::Unexpected)?;
        let upper = ip.upper().map_err(|_| Refusal::Unexpected)?;
        let udp = udp::Datagram::new_elided(upper.bytes, upper.elided).map_err(|_| Refusal::Unexpected)?;
        if upper.protocol != Protocol::UDP || upper.is_fragment {
            return Err(Refusal::Unexpected);
        }
        let is_summed = udp.checksum() != 0;
        if is_summed && !checksum::sum(packet, upper.offset, udp.len(), &upper.pseudo).is_valid() {
            return Err(Refusal::BadChecksum);
        }
        let flow = if self.config.shared_ports {
            self.config.header.source(udp.payload()).ok_or(Refusal::Unexpected)? as usize
        } else {
            let (above, step) =
                (udp.dst_port().wrapping_sub(self.config.first_port), self.config.header.port_step());
            usize::from(if above.is_multiple_of(step) { above / step } else { u16::MAX })
        };
        let sequence = self.config.header.sequence(udp.payload()).ok_or(Refusal::Unexpected)?;
        Ok(Arrival { flow, sequence, payload_len: udp.payload_len() })
    }

    /// Counts a packet, and returns `true` if it came for the first time.
    #[inline]
    fn count(&mut self, arrival: &Arrival, (delay, at): (Span, Time)) -> Result<bool, Refusal> {
        let flow = self.flows.get_mut(arrival.flow).ok_or(Refusal::Unexpected)?;
        let bits = self.config.header.sequence_bits();
        let is_new = flow.take(arrival.sequence, bits, arrival.payload_len, (delay, at));
        if is_new {
            self.delays.record(delay);
        }
        Ok(is_new)
    }

    fn total(&self, of: impl Fn(&FlowStats) -> u64) -> u64 {
        self.flows.iter().map(of).sum()
    }

    /// Returns the figures of each flow since the end of the warm-up.
    fn figures(&self) -> Vec<Figures> {
        let none = FlowStats::NONE;
        let warm = |number| self.warm.get(number).unwrap_or(&none);
        self.flows.iter().enumerate().map(|(number, flow)| flow.since(warm(number))).collect()
    }

    /// Returns the mean of a figure over flows with two packets; NaN without any.
    fn mean_of(figures: &[Figures], of: impl Fn(&Figures) -> Option<f64>) -> f64 {
        let values = figures.iter().filter_map(of);
        let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
        sum / count
    }

    /// Returns the mean of the flows' jitter in seconds; NaN without any.
    fn mean_jitter(&self) -> f64 {
        let measured = self.flows.iter().filter(|flow| flow.packets > 1);
        let (sum, count) =
            measured.fold((0.0, 0.0), |(sum, count), flow| (sum + flow.jitter_ns, count + 1.0));
        sum / count / 1e9
    }
}

impl Element for Sink {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let delay = cx.now().since(packet.created_at());
        let counted = self.read(&packet).and_then(|arrival| self.count(&arrival, (delay, cx.now())));
        match counted {
            Ok(is_new) => {
                if is_new {
                    self.last = Some(Arrived { at: cx.now(), delay });
                } else {
                    cx.note_duplicate(&packet);
                }
                packet.recycle();
            }
            Err(Refusal::BadChecksum) => {
                self.bad_checksum += 1;
                cx.refuse(packet, Why::Checksum);
            }
            Err(Refusal::Unexpected) => {
                self.unexpected += 1;
                cx.refuse(packet, Why::NoListener);
            }
        }
        Time::NEVER
    }

    fn wake(&mut self, _cx: &mut Cx<'_>) -> Time {
        Time::NEVER
    }

    fn forwards(&self, _from: Port, _to: Port) -> bool {
        false
    }

    fn settle(&mut self, accounts: &Accounts) {
        let are_known = self.accounts.iter().any(SubAccount::has_begun);
        let known = self.accounts.iter().filter(|_| are_known);
        self.sent = known.map(|account| accounts.tallies(account).window).collect();
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        let (lost, expected) = (self.total(FlowStats::lost), self.total(FlowStats::expected));
        let figures = self.figures();
        if self.flows.len() > 1 {
            observer.gauge(&metrics::COPIES, self.flows.len() as f64);
            spread::observe(&figures, &self.sent, observer);
        }
        observer.counter(&metrics::PACKETS, self.total(|flow| flow.packets));
        observer.counter(&metrics::DELIVERED_BYTES, self.total(|flow| flow.bytes));
        observer.counter(&metrics::ARRIVED_BYTES, self.total(|flow| flow.arrived_bytes));
        observer.counter(&metrics::DUPLICATES, self.total(|flow| flow.duplicates));
        observer.counter(&metrics::REORDERED, self.total(|flow| flow.reordered));
        observer.counter(&metrics::DROPPED_BAD_CHECKSUM, self.bad_checksum);
        observer.counter(&metrics::DROPPED_UNEXPECTED, self.unexpected);
        observer.counter(&metrics::EXPECTED, expected);
        observer.gauge(&metrics::LOST, lost as f64);
        observer.gauge(&metrics::LOSS_RATIO, lost as f64 / expected as f64);
        observer.gauge(&metrics::DELAY, self.last.map_or(f64::NAN, |last| last.delay.as_secs_f64()));
        delays::observe(&self.delays, observer);
        observer.gauge(&metrics::JITTER, self.mean_jitter());
        observer.gauge(&metrics::INTERARRIVAL, Sink::mean_of(&figures, Figures::interarrival_s));
        observer.gauge(
            &metrics::INTERARRIVAL_DEVIATION,
            Sink::mean_of(&figures, Figures::interarrival_deviation_s),
        );
        observer.last_arrival(self.last.map(|last| last.at));
        observer.gauge(&metrics::LAST_ARRIVAL, self.last.map_or(f64::NAN, |last| last.at.as_secs_f64()));
        if observer.starts_window() {
            self.warm.clone_from(&self.flows);
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
