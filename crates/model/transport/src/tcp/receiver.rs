//! Receiving half: reassembly, acknowledgements, window. RFC 9293, 5681 4.2, 2018, 7323.

use bentpipe_units::{Span, Time};
use bentpipe_wire::tcp::{SackBlocks, SeqNumber};

use super::config::Config;
use super::ranges::Ranges;
use super::window::Buffer;

/// TS.Recent is not believed after so long without a segment (RFC 7323 5.5).
const TS_RECENT_LIFE: Span = Span::from_secs(24 * 86_400);

/// Data that arrived with a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Bytes that the application can now read for the first time.
    pub(super) delivered: u64,
    /// Set if the data arrived out of order.
    pub(super) out_of_order: bool,
    /// Set if all of the data had arrived before.
    pub(super) duplicate: bool,
}

/// The receiving half of a connection. Positions are 64 bit, counted from the peer's SYN.
#[derive(Debug)]
pub(super) struct Receiver {
    /// RCV.NXT.
    next: u64,
    /// Position up to which the application has read.
    read: u64,
    out_of_order: Ranges,
    /// A position in each of the ranges reported last, latest first.
    reported: [u64; SackBlocks::MAX],
    fin: Option<u64>,
    buffer: Buffer,
    /// The right edge of the window as it was offered; it never moves left.
    edge: u64,
    /// Segments since the last ACK.
    unacknowledged: u32,
    ack_now: bool,
    ack_every: u32,
    quick: Option<QuickAcks>,
    /// The largest segment seen, up to the size that this end announced.
    mss: u64,
    /// The size that this end announced. A train that a device passes whole is longer, and counts as its segments.
    announced: u64,
    ts_recent: u32,
    ts_recent_at: Time,
    last_ack_sent: u64,
    /// Echo congestion until the sender says that it has reduced its window (RFC 3168 6.1.3).
    ece: bool,
    dsack: bool,
    twice: Option<(u64, u64)>,
}

/// The most first segments that Linux acknowledges without delay.
pub(super) const QUICK_ACKS: u64 = 16;

/// Linux's ACKs without delay at the start and after a pause.
#[derive(Clone, Copy, Debug)]
struct QuickAcks {
    left: u32,
    last_data: Time,
}

impl QuickAcks {
    fn refill(&mut self, window: u64, mss: u64) {
        self.left = (window / (2 * mss.max(1))).clamp(2, QUICK_ACKS) as u32;
    }
}

impl Receiver {
    /// Creates a receiver that has the peer's SYN. `mss` is the size that this end announced, `shift` its
    /// window scale.
    pub(super) fn new(config: &Config, mss: u64, shift: u8) -> Receiver {
        let buffer = Buffer::new(&config.receive_buffer, mss, 0xffff << shift);
        let quick = config.quick_acks.then_some(QuickAcks { left: 0, last_data: Time::NEVER });
        Receiver {
            next: 1,
            read: 1,
            out_of_order: Ranges::default(),
            reported: [0; SackBlocks::MAX],
            fin: None,
            // The window of a SYN is not scaled.
            edge: 1 + buffer.space(0).min(0xffff),
            buffer,
            unacknowledged: 0,
            ack_now: false,
            ack_every: config.ack_every.max(1),
            quick,
            mss: 536.min(mss),
            announced: mss.max(1),
            ts_recent: 0,
            ts_recent_at: Time::ZERO,
            last_ack_sent: 1,
            ece: false,
            dsack: config.dsack,
            twice: None,
        }
    }

    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns `true` if all data up to the peer's FIN has arrived.
    #[inline]
    pub(super) fn is_finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.next > fin)
    }

    /// Bytes that wait for the application.
    #[inline]
    pub(super) fn unread(&self) -> u64 {
        self.next - self.read - u64::from(self.is_finished())
    }

    /// Passes `bytes` of them to the application.
    #[inline]
    pub(super) fn take(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.unread());
        self.read += bytes;
    }

    pub(super) fn ts_recent(&self) -> u32 {
        self.ts_recent
    }

    /// Returns the bytes that arrived behind a gap and wait there.
    #[inline]
    pub(super) fn waiting(&self) -> u64 {
        let has_fin = self.fin.is_some_and(|fin| self.out_of_order.around(fin).is_some());
        self.out_of_order.total() - u64::from(has_fin)
    }

    /// Returns the number of ranges that arrived behind gaps.
    pub(super) fn ranges(&self) -> usize {
        self.out_of_order.count()
    }

    pub(super) fn has_gaps(&self) -> bool {
        !self.out_of_order.is_empty()
    }

    /// Returns `true` if the segment overlaps the window (RFC 9293 3.10.7.4, first step).
    #[inline]
    pub(super) fn is_acceptable(&self, seq: u64, len: u64) -> bool {
        let window = self.edge.saturating_sub(self.next);
        if len == 0 {
            // The sender of a full window acknowledges with the number after it, which the RFC omits.
            return seq >= self.next && seq <= self.edge.max(self.next);
        }
        window > 0 && seq < self.edge && seq + len > self.next
    }

    /// Returns `true` if the timestamp is older than the last one (PAWS, RFC 7323 5.3).
    ///
    /// Such a segment is an old one with a wrapped number.
    #[inline]
    pub(super) fn is_outdated(&self, tsval: u32, now: Time) -> bool {
        (tsval.wrapping_sub(self.ts_recent) as i32) < 0 && now.since(self.ts_recent_at) < TS_RECENT_LIFE
    }

    /// Stores the timestamp of the peer's SYN. Clocks of timestamps start anywhere, so that nothing precedes it.
    pub(super) fn start_timestamps(&mut self, tsval: u32, now: Time) {
        (self.ts_recent, self.ts_recent_at) = (tsval, now);
    }

    /// Stores the timestamp to echo (RFC 7323 4.3).
    ///
    /// It is that of the segment that covers the last acknowledged number.
    #[inline]
    pub(super) fn note_timestamp(&mut self, seq: u64, tsval: u32, now: Time) {
        if seq <= self.last_ack_sent && tsval.wrapping_sub(self.ts_recent) as i32 >= 0 {
            (self.ts_recent, self.ts_recent_at) = (tsval, now);
        }
    }

    /// Records congestion marks, and the sender's CWR (RFC 3168 6.1.3).
    #[inline]
    pub(super) fn note_ecn(&mut self, congestion: bool, reduced: bool) {
        self.ece = congestion || self.ece && !reduced;
    }

    #[inline]
    pub(super) fn echoes_congestion(&self) -> bool {
        self.ece
    }

    /// Accepts the data and FIN of an acceptable segment.
    #[inline]
    pub(super) fn on_segment(&mut self, now: Time, seq: u64, len: u64, fin: bool, rto: Span) -> Arrival {
        if len == 0 && !fin {
            return Arrival::default();
        }
        self.mss = self.mss.max(len.min(self.announced));
        self.quick_acks(now, rto);
        // A FIN needs no room in the buffer.
        if fin && seq + len <= self.edge.max(self.next) {
            self.fin = self.fin.or(Some(seq + len));
        }
        let end = (seq + len).min(self.edge.max(self.next));
        let end = end + u64::from(self.fin == Some(end));
        if seq <= self.next && end > self.next && self.out_of_order.is_empty() {
            return self.in_order(end, len);
        }
        self.reassemble(seq, end, len)
    }

    #[inline]
    fn in_order(&mut self, end: u64, len: u64) -> Arrival {
        let delivered = self.advance(end);
        self.unacknowledged += if len > self.announced { len.div_ceil(self.announced) as u32 } else { 1 };
        self.ack_now |= self.unacknowledged >= self.ack_every || self.is_finished();
        self.grow(len);
        Arrival { delivered, ..Arrival::default() }
    }

    /// Stores data. If it fills or leaves a gap, or is old, the ACK is immediate (RFC 5681 4.2).
    fn reassemble(&mut self, seq: u64, end: u64, len: u64) -> Arrival {
        self.ack_now = true;
        if end <= self.next {
            self.came_twice(seq, end);
            return Arrival { duplicate: true, ..Arrival::default() };
        }
        if seq <= self.next {
            let upto = self.out_of_order.around(end).map_or(end, |(_, upto)| upto);
            self.out_of_order.trim_below(upto);
            let delivered = self.advance(upto);
            self.grow(len);
            return Arrival { delivered, ..Arrival::default() };
        }
        let new = self.out_of_order.insert(seq, end);
        if new == 0 {
            self.came_twice(seq, end);
        }
        self.report(seq);
        Arrival { delivered: 0, out_of_order: true, duplicate: new == 0 }
    }

    /// Moves RCV.NXT; returns the bytes, a FIN not counted.
    fn advance(&mut self, upto: u64) -> u64 {
        let delivered = upto - self.next;
        self.next = upto;
        delivered - u64::from(self.is_finished())
    }

    #[inline]
    fn grow(&mut self, len: u64) {
        if self.buffer.on_segment(len, self.mss)
            && let Some(quick) = self.quick.as_mut()
        {
            quick.left = quick.left.max(1);
        }
    }

    #[inline]
    fn quick_acks(&mut self, now: Time, rto: Span) {
        let (window, mss) = (self.buffer.space(0), self.mss);
        let Some(quick) = self.quick.as_mut() else { return };
        if quick.last_data.is_never() || now.since(quick.last_data) > rto {
            quick.refill(window, mss);
        }
        quick.last_data = now;
        if quick.left > 0 {
            quick.left -= 1;
            self.ack_now = true;
        }
    }

    /// Records a segment outside the window; `seq` is its position if it has one.
    pub(super) fn note_unacceptable(&mut self, seq: Option<u64>, len: u64) {
        if let Some(seq) = seq.filter(|seq| seq + len <= self.next) {
            self.came_twice(seq, seq + len);
        }
    }

    fn came_twice(&mut self, start: u64, end: u64) {
        if self.dsack {
            self.twice = Some((start, end));
        }
    }

    /// Moves the range of `seq` to the front of those reported (RFC 2018 section 4).
    fn report(&mut self, seq: u64) {
        let range = self.out_of_order.around(seq);
        let place = self.reported.iter().position(|&at| self.out_of_order.around(at) == range);
        self.reported[..=place.unwrap_or(SackBlocks::MAX - 1)].rotate_right(1);
        self.reported[0] = seq;
    }

    /// Returns up to `room` blocks to send; `wire` converts a position to a sequence number.
    pub(super) fn sack_blocks(&mut self, room: usize, wire: impl Fn(u64) -> SeqNumber) -> SackBlocks {
        let mut blocks = SackBlocks::NONE;
        if let Some((start, end)) = self.twice.take() {
            blocks.push(wire(start), wire(end));
        }
        for (index, &at) in self.reported.iter().enumerate() {
            if blocks.len() >= room {
                break;
            }
            let Some((start, end)) = self.out_of_order.around(at) else { continue };
            let before = &self.reported[..index];
            if !before.iter().any(|&other| (start..end).contains(&other)) {
                blocks.push(wire(start), wire(end));
            }
        }
        blocks
    }

    #[inline]
    pub(super) fn has_sack(&self) -> bool {
        self.has_gaps() || self.twice.is_some()
    }

    /// Asks for an ACK without delay.
    #[inline]
    pub(super) fn ack_at_once(&mut self) {
        self.ack_now = true;
    }

    /// Returns `true` if an ACK must be sent now.
    #[inline]
    pub(super) fn ack_is_due(&self) -> bool {
        self.ack_now
    }

    /// Returns `true` if an ACK may wait for more data.
    #[inline]
    pub(super) fn ack_is_pending(&self) -> bool {
        self.unacknowledged > 0
    }

    /// Records an ACK and returns its window field, in units of `2^shift` bytes.
    ///
    /// The right edge moves by at least a segment or half the buffer (RFC 9293 3.8.6.2.2).
    #[inline]
    pub(super) fn on_ack_sent(&mut self, shift: u8) -> u16 {
        (self.unacknowledged, self.ack_now, self.last_ack_sent) = (0, false, self.next);
        if self.edge_to_offer() {
            self.edge = self.next + self.buffer.space(self.unread());
        }
        let units = self.edge.saturating_sub(self.next) >> shift;
        u16::try_from(units).unwrap_or(u16::MAX)
    }

    /// Returns `true` if the edge can move far enough for a window update.
    #[inline]
    fn edge_to_offer(&self) -> bool {
        let edge = self.next + self.buffer.space(self.unread());
        edge >= self.edge + self.window_unit()
    }

    /// Returns the minimum step of the window's edge: a segment or half the buffer.
    #[inline]
    pub(super) fn window_unit(&self) -> u64 {
        self.mss.min(self.buffer.clamp() / 2).max(1)
    }

    /// Returns `true` if reading has opened an almost closed window, or opened it by much.
    ///
    /// Almost closed means less than a segment.
    #[inline]
    pub(super) fn window_update_is_due(&self) -> bool {
        let offered = self.edge.saturating_sub(self.next);
        let space = self.buffer.space(self.unread());
        let enough = self.window_unit();
        space >= offered + enough && (offered < enough || space - offered >= self.buffer.clamp() / 2)
    }

    /// Returns the last advertised window.
    pub(super) fn window(&self) -> u64 {
        self.edge.saturating_sub(self.next)
    }
}
