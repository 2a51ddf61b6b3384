//! An approved rate in use (RFC 4782, sections 4.4 and 4.6): the window it gives, the pace, and what follows from the
//! loss of its packets.

use bentpipe_units::{Bytes, Rate, Span};

use super::{Sender, Transmit};

/// Where an approved rate is. Quick-Start packets are those sent from the approval to the ACK of the first of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum QuickStart {
    /// There is none, or all its packets were acknowledged.
    Off,
    /// Its packets are being sent, paced.
    Mode(Packets, Pace),
    /// Its packets have been sent; so far none was lost.
    Sent(Packets),
    /// One was lost or marked; so many bytes of them have been repeated.
    Lost(Packets, u64),
}

/// Quick-Start packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Packets {
    /// The position of the first.
    first: u64,
    /// The position behind the last.
    end: u64,
    /// The window without Quick-Start.
    before: u64,
}

/// The rate, in which headers count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    rate: Rate,
    /// Bytes of a packet beside its data.
    header: u64,
}

impl Pace {
    /// The time from a packet with `len` bytes of data to the next.
    fn gap(&self, len: u64) -> Span {
        self.rate.span_of(Bytes::new(self.header + len))
    }
}

impl Sender {
    /// A rate was approved for packets with `header` bytes beside their data. Tells whether it is used: not if it gives
    /// no more than the window there is, or if the law has no use for it.
    pub(in crate::tcp) fn on_quick_start(&mut self, rate: Rate, header: Bytes, rtt: Span) -> bool {
        let (smss, before) = (self.smss_u64(), self.cc.window());
        let packets = rate.as_bytes_per_sec() * rtt.as_secs_f64() / (smss + header.get()) as f64;
        let window = (packets * smss as f64) as u64;
        if window <= before || !self.cc.on_quick_start(window) {
            return false;
        }
        let first = self.board.high();
        let packets = Packets { first, end: first, before };
        self.quick_start = QuickStart::Mode(packets, Pace { rate, header: header.get() });
        true
    }

    /// The time until the segment after one with `len` bytes of data, if they are spaced.
    #[inline]
    pub(super) fn gap(&self, len: u64) -> Option<Span> {
        match &self.quick_start {
            QuickStart::Mode(_, pace) => Some(pace.gap(len)),
            _ => self.cc.pacing_rate().map(|rate| rate.span_of(Bytes::new(len))),
        }
    }

    /// Data was acknowledged. The first ACK of a Quick-Start packet ends the mode, and brings the window to what was used
    /// of it; never below what it would be without.
    #[inline]
    pub(super) fn advance_quick_start(&mut self) {
        match self.quick_start {
            QuickStart::Off | QuickStart::Lost(..) => {}
            QuickStart::Mode(packets, _) if self.board.una() > packets.first => self.end_mode(packets),
            QuickStart::Sent(packets) if self.board.una() >= packets.end => {
                self.quick_start = QuickStart::Off;
            }
            QuickStart::Mode(..) | QuickStart::Sent(_) => {}
        }
    }

    fn end_mode(&mut self, packets: Packets) {
        let used = (self.board.high() - packets.first).max(packets.before);
        if used < self.cc.window() {
            self.cc.on_quick_start(used);
        }
        self.quick_start = QuickStart::Sent(Packets { end: self.board.high(), ..packets });
    }

    /// The controller was told of a loss or a mark. If it is of Quick-Start packets the default initial window holds again,
    /// and at most half of them came through.
    pub(super) fn reconsider_quick_start(&mut self) {
        let packets = match self.quick_start {
            QuickStart::Mode(packets, _) => Packets { end: self.board.high(), ..packets },
            QuickStart::Sent(packets) if self.board.una() < packets.end => packets,
            _ => return,
        };
        self.quick_start = QuickStart::Lost(packets, 0);
        self.cc.on_quick_start_loss(packets.before, (packets.end - packets.first) / 2);
    }

    /// A segment was repeated.
    pub(super) fn count_quick_start_repair(&mut self, sent: &Transmit) {
        if let QuickStart::Lost(packets, repaired) = &mut self.quick_start {
            *repaired += packets.end.min(sent.end()).saturating_sub(sent.start.max(packets.first));
        }
    }

    /// All is repaired: ssthresh is at most half of what came through.
    pub(super) fn settle_quick_start(&mut self) {
        if let QuickStart::Lost(packets, repaired) = self.quick_start {
            let through = (packets.end - packets.first).saturating_sub(repaired);
            self.cc.on_quick_start_loss(u64::MAX, through / 2);
            self.quick_start = QuickStart::Off;
        }
    }

    /// There was no loss after all.
    pub(super) fn trust_quick_start(&mut self) {
        if let QuickStart::Lost(packets, _) = self.quick_start {
            self.quick_start = QuickStart::Sent(packets);
        }
    }
}
