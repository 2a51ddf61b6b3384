//! RTCP of one call: reports sent and received.
//!
//! *References*: RFC 3550, section 6; RFC 3611, section 4.7.

use bentpipe_units::{RandomStream, Span, Time};
use bentpipe_wire::rtcp::xr::UNAVAILABLE;
use bentpipe_wire::rtcp::{self, Block, Chunk, ReportBlock, Repr, SenderInfo, VoipMetrics};

use super::config::{Rtcp, Settings};
use super::receiver::Receiver;
use super::sender::Sender;
use crate::losses::GMIN;

/// Seconds from 1900 to 1970, which is the start of a simulation.
const NTP_EPOCH_S: u64 = 2_208_988_800;
/// Share of the session's bandwidth for RTCP (RFC 3550, section 6.2).
const RTCP_SHARE: f64 = 0.05;
/// Minimum interval; half of it before the first report (RFC 3550, section 6.2).
const MIN_INTERVAL_S: f64 = 5.0;
/// Compensation of timer reconsideration, e - 3/2 (RFC 3550, section 6.3.1).
const COMPENSATION: f64 = std::f64::consts::E - 1.5;
/// Weight of a new packet in the mean length (RFC 3550, section 6.3.3).
const LENGTH_WEIGHT: f64 = 1.0 / 16.0;
/// Participants of a call.
const MEMBERS: f64 = 2.0;

/// RTCP state of one end of a call.
#[derive(Clone, Debug)]
pub(super) struct Reports {
    mean_len: f64,
    is_first: bool,
    last_interval: Span,
    /// Packets expected and received at the last report.
    prior: (u64, u64),
    /// Middle of the NTP time of the last sender report received, and its arrival.
    last_sender_report: Option<(u32, Time)>,
    pub(super) round_trip: Option<Span>,
    /// Loss by the last report about the own source, until it is taken.
    pub(super) loss: Option<f64>,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) has_left: bool,
}

impl Reports {
    pub(super) fn new() -> Reports {
        Reports {
            mean_len: 128.0,
            is_first: true,
            last_interval: Span::ZERO,
            prior: (0, 0),
            last_sender_report: None,
            round_trip: None,
            loss: None,
            sent: 0,
            received: 0,
            has_left: false,
        }
    }

    /// Returns the time to the next report (RFC 3550, section 6.3.1).
    pub(super) fn interval(&mut self, session_bytes_per_s: f64, stream: &mut RandomStream) -> Span {
        let least = if self.is_first { MIN_INTERVAL_S / 2.0 } else { MIN_INTERVAL_S };
        let by_rate = MEMBERS * self.mean_len / (RTCP_SHARE * session_bytes_per_s);
        let mean = by_rate.max(least);
        self.last_interval = Span::from_secs_f64(mean * (0.5 + stream.unit()) / COMPENSATION);
        self.last_interval
    }

    /// Returns the payload of the next compound packet; the last one says goodbye.
    pub(super) fn compose(
        &mut self,
        settings: &Settings,
        (sender, receiver): (&Sender, &Receiver),
        now: Time,
        is_last: bool,
    ) -> Vec<u8> {
        let ssrc = sender.ssrc();
        let mut packets = vec![self.report(settings, (sender, receiver), now)];
        let name = format!("{ssrc:08x}@bentpipe").into_bytes();
        packets.push(Repr::Description(vec![Chunk { ssrc, items: vec![(rtcp::CNAME, name)] }]));
        if settings.config.rtcp == Rtcp::Extended && receiver.ssrc().is_some() {
            let metrics = Block::VoipMetrics(self.voip_metrics(settings, receiver));
            packets.push(Repr::Extended { ssrc, blocks: vec![metrics] });
        }
        if is_last {
            packets.push(Repr::Bye { sources: vec![ssrc], reason: None });
        }
        let mut bytes = vec![0; rtcp::compound_len(&packets)];
        rtcp::emit_compound(&packets, &mut bytes);
        self.count(bytes.len());
        (self.sent, self.is_first) = (self.sent + 1, false);
        bytes
    }

    /// Updates the mean length of RTCP packets, which includes UDP and IP headers.
    fn count(&mut self, payload_len: usize) {
        let len = payload_len as f64 + 28.0;
        self.mean_len += (len - self.mean_len) * LENGTH_WEIGHT;
    }

    fn report(&mut self, settings: &Settings, (sender, receiver): (&Sender, &Receiver), now: Time) -> Repr {
        let (ssrc, extension) = (sender.ssrc(), Vec::new());
        let blocks: Vec<ReportBlock> =
            receiver.ssrc().map(|of| self.block(of, receiver, now)).into_iter().collect();
        // A sender is one that sent since the last report but one (RFC 3550, section 6.4).
        if !sender.has_sent_within(self.last_interval * 2, now) {
            return Repr::ReceiverReport { ssrc, blocks, extension };
        }
        let (packets, octets) = sender.counts();
        let rtp_timestamp = sender.timestamp(settings, now);
        let info = SenderInfo { ntp: ntp(now), rtp_timestamp, packets, octets };
        Repr::SenderReport { ssrc, info, blocks, extension }
    }

    /// Returns the reception report of a source (RFC 3550, appendix A.3).
    fn block(&mut self, ssrc: u32, receiver: &Receiver, now: Time) -> ReportBlock {
        let (expected, received) = receiver.expected_and_received();
        let (expected_now, received_now) = (expected - self.prior.0, received - self.prior.1);
        self.prior = (expected, received);
        let lost_now = expected_now.saturating_sub(received_now);
        let fraction = (lost_now << 8).checked_div(expected_now).unwrap_or(0);
        let lost = expected as i64 - received as i64;
        let (last_report, since_last_report) = match self.last_sender_report {
            Some((middle, at)) => (middle, middle_of(now.since(at))),
            None => (0, 0),
        };
        ReportBlock {
            ssrc,
            fraction_lost: fraction.min(255) as u8,
            cumulative_lost: lost.clamp(i32::MIN.into(), i32::MAX.into()) as i32,
            highest_seq: receiver.highest_seq(),
            jitter: receiver.jitter_ticks() as u32,
            last_report,
            since_last_report,
        }
    }

    fn voip_metrics(&self, settings: &Settings, receiver: &Receiver) -> VoipMetrics {
        let figures = receiver.numbered();
        let losses = figures.losses;
        let (bursts, gaps) = losses.periods();
        let packet_ms = settings.interval.as_secs_f64() * 1e3;
        let ms = |packets: f64| (packets * packet_ms).round().min(65_535.0) as u16;
        let share = |packets: u64| (256 * packets).checked_div(losses.expected()).unwrap_or(0).min(255) as u8;
        let buffered = figures.delays.buffered().unwrap_or_default();
        let [r_factor, mos_cq, mos_lq] = self.scores(settings, receiver);
        VoipMetrics {
            ssrc: receiver.ssrc().unwrap_or(0),
            loss_rate: share(losses.lost),
            discard_rate: share(losses.late),
            burst_density: bursts.density(),
            gap_density: gaps.density(),
            burst_duration: ms(bursts.mean_packets()),
            gap_duration: ms(gaps.mean_packets()),
            round_trip_delay: self.round_trip.map_or(0, millis),
            end_system_delay: millis(settings.held + buffered),
            signal_level: UNAVAILABLE,
            noise_level: UNAVAILABLE,
            echo_return_loss: UNAVAILABLE,
            gmin: GMIN,
            r_factor,
            external_r_factor: UNAVAILABLE,
            mos_lq,
            mos_cq,
            // Concealment is not specified; the buffer is adaptive (3) or not (2).
            receiver_config: if settings.config.playout.is_adaptive() { 0x30 } else { 0x20 },
            buffer_nominal: millis(buffered),
            buffer_maximum: millis(buffered),
            buffer_absolute_maximum: millis(buffered),
        }
    }

    /// Returns R, and the scores of conversation and of listening. The latter has no delay.
    fn scores(&self, settings: &Settings, receiver: &Receiver) -> [u8; 3] {
        let figures = receiver.numbered();
        let rating = settings.rating_of(&figures.delays).filter(|_| figures.delays.played > 0);
        let Some(rating) = rating else {
            return [UNAVAILABLE; 3];
        };
        // An end knows half of the round trip; before that, the conversational score is unavailable.
        let one_way = self.round_trip.map(|round_trip| round_trip / 2);
        let ear = one_way.map(|way| way + settings.held + figures.delays.buffered().unwrap_or_default());
        let score = |r: f64| if r.is_nan() { UNAVAILABLE } else { (10.0 * rating.mos(r)).round() as u8 };
        let (r, listening) = (rating.r(ear, &figures.losses), rating.r(Some(Span::ZERO), &figures.losses));
        let factor = rating.for_report(r).round().clamp(0.0, 100.0);
        [if r.is_nan() { UNAVAILABLE } else { factor as u8 }, score(r), score(listening)]
    }

    /// Reads a compound packet from the other end.
    ///
    /// # Errors
    /// Returns an error if it is malformed.
    pub(super) fn receive(&mut self, payload: &[u8], own_ssrc: u32, now: Time) -> Result<(), ()> {
        let packets = rtcp::parse_compound(payload).map_err(|_| ())?;
        self.count(payload.len());
        self.received += 1;
        for packet in &packets {
            match packet {
                Repr::SenderReport { info, blocks, .. } => {
                    self.last_sender_report = Some(((info.ntp >> 16) as u32, now));
                    self.measure(blocks, own_ssrc, now);
                }
                Repr::ReceiverReport { blocks, .. } => self.measure(blocks, own_ssrc, now),
                Repr::Bye { .. } => self.has_left = true,
                _ => {}
            }
        }
        Ok(())
    }

    /// Measures the round trip time by a report about the own source.
    fn measure(&mut self, blocks: &[ReportBlock], own_ssrc: u32, now: Time) {
        let Some(block) = blocks.iter().find(|block| block.ssrc == own_ssrc) else { return };
        self.loss = Some(f64::from(block.fraction_lost) / 256.0);
        if block.last_report == 0 {
            return;
        }
        let arrived = (ntp(now) >> 16) as u32;
        let units = arrived.wrapping_sub(block.last_report).wrapping_sub(block.since_last_report);
        // Rounding of both ends may give a little less than no time.
        if units < 1 << 31 {
            self.round_trip = Some(Span::from_secs_f64(f64::from(units) / 65_536.0));
        }
    }
}

/// Returns the NTP time stamp of an instant.
fn ntp(at: Time) -> u64 {
    let nanos = at.as_nanos();
    let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    ((NTP_EPOCH_S + seconds) << 32) | ((rest << 32) / 1_000_000_000)
}

/// Returns a span in units of 2^-16 s.
fn middle_of(span: Span) -> u32 {
    (u128::from(span.as_nanos()) * 65_536 / 1_000_000_000).min(u32::MAX.into()) as u32
}

/// Returns a span in whole milliseconds, at most 65,535.
fn millis(span: Span) -> u16 {
    (span.as_nanos() / 1_000_000).min(65_535) as u16
}
