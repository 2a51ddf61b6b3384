//! Approved rate in use: its window, its pacing, and the effects of losses. RFC 4782, sections 4.4 and 4.6.

use bentpipe_units::{Bytes, Rate, Span};

use super::{Sender, Transmit};

/// Phase of an approved rate. Quick-Start packets are those sent from the approval to the ACK of the first of
/// them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum QuickStart {
    /// There is none, or all its packets were acknowledged.
    Off,
    /// Quick-Start packets are being sent, paced.
    Mode(Packets, Pace),
    /// Packets all sent, none lost yet.
    Sent(Packets),
    /// Packets lost or marked, and the number of bytes retransmitted.
    Lost(Packets, u64),
}

/// Quick-Start packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Packets {
    /// The position of the first.
    first: u64,
    /// Position after the last.
    end: u64,
    /// The window without Quick-Start.
    before: u64,
}

/// The rate, in which headers count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    rate: Rate,
    /// Header bytes of a packet.
    header: u64,
}

impl Pace {
    /// Returns the time from a packet with `len` bytes of data to the next.
    fn gap(&self, len: u64) -> Span {
        self.rate.span_of(Bytes::new(self.header + len))
    }
}

impl Sender {
    /// Returns `true` if the approved rate is used, for packets with `header` bytes of headers.
    ///
    /// It is not used if the window is already as large, or if the controller does not support it.
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

    /// Returns the time after a segment with `len` bytes of data, if pacing is on.
    #[inline]
    pub(super) fn gap(&self, len: u64) -> Option<Span> {
        match &self.quick_start {
            QuickStart::Mode(_, pace) => Some(pace.gap(len)),
            _ => self.cc.pacing_rate().map(|rate| rate.span_of(Bytes::new(len))),
        }
    }

    /// Processes an ACK. The first one of a Quick-Start packet ends the mode.
    ///
    /// It sets the window to the used part, but not below the window without Quick-Start.
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

    /// Processes a loss or mark. If it concerns Quick-Start packets, the default initial window applies
    /// again, as at most half of them were delivered.
    pub(super) fn reconsider_quick_start(&mut self) {
        let packets = match self.quick_start {
            QuickStart::Mode(packets, _) => Packets { end: self.board.high(), ..packets },
            QuickStart::Sent(packets) if self.board.una() < packets.end => packets,
            _ => return,
        };
        self.quick_start = QuickStart::Lost(packets, 0);
        self.cc.on_quick_start_loss(packets.before, (packets.end - packets.first) / 2);
    }

    /// Counts a retransmission.
    pub(super) fn count_quick_start_repair(&mut self, sent: &Transmit) {
        if let QuickStart::Lost(packets, repaired) = &mut self.quick_start {
            *repaired += packets.end.min(sent.end()).saturating_sub(sent.start.max(packets.first));
        }
    }

    /// Ends the recovery: ssthresh is at most half of the delivered data.
    pub(super) fn settle_quick_start(&mut self) {
        if let QuickStart::Lost(packets, repaired) = self.quick_start {
            let through = (packets.end - packets.first).saturating_sub(repaired);
            self.cc.on_quick_start_loss(u64::MAX, through / 2);
            self.quick_start = QuickStart::Off;
        }
    }

    /// Reverts a spurious loss.
    pub(super) fn trust_quick_start(&mut self) {
        if let QuickStart::Lost(packets, _) = self.quick_start {
            self.quick_start = QuickStart::Sent(packets);
        }
    }
}
