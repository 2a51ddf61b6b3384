//! Segments after both SYNs: RFC 9293 3.10.7.4, with the checks of RFC 5961.

use bentpipe_net::Cx;
use bentpipe_units::Time;
use bentpipe_wire::tcp::{Flags, SackBlocks};

use super::{Connection, Failure, Incoming, State, Timer};
use crate::tcp::sender::Acknowledgement;

impl Connection {
    /// Returns `true` if a segment, which it processes, is accepted.
    #[inline]
    pub(super) fn on_synchronised(&mut self, segment: &Incoming, cx: &mut Cx<'_>) -> bool {
        let now = cx.now();
        let Some(seq) = self.accept(segment, cx) else { return false };
        let Some(number) = segment.ack else { return false };
        if self.state == State::SynReceived && !self.complete_handshake(segment, cx) {
            return false;
        }
        let Some(ack) = self.own_position(number) else { return false };
        if ack > self.sender.acknowledgeable() {
            // It acknowledges data that was never sent.
            self.receiver.ack_at_once();
            return false;
        }
        if self.agreed.timestamps
            && let Some((tsval, _)) = segment.timestamps
        {
            self.receiver.note_timestamp(seq, tsval, now);
        }
        let window = u64::from(segment.window) << self.send_shift;
        if ack >= self.sender.board.una() && !self.sender.apply_pure_window_update(seq, ack, window) {
            self.on_acknowledgement(segment, seq, ack, window, now);
        }
        self.on_data(segment, seq, now);
        true
    }

    /// Performs the first checks: numbers, timestamp, reset, SYN. Returns the position of a segment that
    /// passes them.
    #[inline]
    fn accept(&mut self, segment: &Incoming, cx: &mut Cx<'_>) -> Option<u64> {
        let position = self.peer_position(segment.seq);
        let acceptable = position.filter(|&seq| self.receiver.is_acceptable(seq, segment.len.into()));
        let outdated = self.is_outdated(segment, cx.now());
        if acceptable.is_none() || outdated {
            self.on_unacceptable(segment, outdated, cx);
            return None;
        }
        if segment.flags.intersects(Flags::RST | Flags::SYN) {
            self.on_reset_or_syn(segment, position);
            return None;
        }
        acceptable
    }

    /// Returns `true` if PAWS rejects the segment, from which resets are exempt (RFC 7323 5.2).
    #[inline]
    fn is_outdated(&self, segment: &Incoming, now: Time) -> bool {
        match segment.timestamps {
            Some((tsval, _)) if self.agreed.timestamps && !segment.has(Flags::RST) => {
                self.receiver.is_outdated(tsval, now)
            }
            _ => false,
        }
    }

    fn on_unacceptable(&mut self, segment: &Incoming, outdated: bool, cx: &mut Cx<'_>) {
        self.tally.outdated += u64::from(outdated);
        if segment.has(Flags::RST) {
            return;
        }
        if self.state == State::SynReceived && segment.has(Flags::SYN) && segment.seq == self.irs {
            return self.answer_again(cx);
        }
        if segment.len > 0 {
            self.tally.duplicates += 1;
            self.receiver.note_unacceptable(self.peer_position(segment.seq), segment.len.into());
        }
        if self.state == State::TimeWait {
            self.wait(cx.now());
        }
        self.receiver.ack_at_once();
    }

    /// Accepts a reset only with exactly the expected number. Otherwise, and for a SYN, sends a challenge ACK
    /// (RFC 9293 3.10.7.4, second and fourth check).
    fn on_reset_or_syn(&mut self, segment: &Incoming, position: Option<u64>) {
        if !segment.has(Flags::RST) || position != Some(self.receiver.next()) {
            return self.receiver.ack_at_once();
        }
        match self.state {
            State::SynReceived => self.fail(Failure::Refused),
            State::TimeWait | State::Closing | State::LastAck => self.end(),
            _ => self.fail(Failure::Reset),
        }
    }

    /// Returns `true` if the segment acknowledges this end's SYN, in SYN-RECEIVED.
    fn complete_handshake(&mut self, segment: &Incoming, cx: &mut Cx<'_>) -> bool {
        if segment.ack != Some(self.iss + 1) {
            self.refuse(segment, cx);
            return false;
        }
        self.establish(segment, cx.now());
        true
    }

    #[inline]
    fn on_acknowledgement(&mut self, segment: &Incoming, seq: u64, ack: u64, window: u64, now: Time) {
        let mut blocks = [(0, 0); SackBlocks::MAX];
        let mut count = 0;
        if self.agreed.sack
            && let Some(options) = &segment.options
        {
            count = self.sack_positions(&options.sack, &mut blocks);
        }
        let echo = segment.timestamps.filter(|_| self.agreed.timestamps);
        let echo = echo.and_then(|(_, ticks)| self.clock.since(ticks, now).map(|rtt| (ticks, rtt)));
        let acknowledgement = Acknowledgement {
            now,
            ack,
            seq,
            window,
            sack: &blocks[..count],
            echo,
            is_bare: segment.len == 0 && !segment.has(Flags::FIN),
            ece: segment.has(Flags::ECE),
        };
        self.sender.on_ack(&acknowledgement, &mut self.timers);
        if self.sender.is_finished() {
            self.on_fin_acknowledged(now);
        }
    }

    /// Turns SACK blocks into positions; those that make no sense are left out.
    fn sack_positions(&self, sack: &SackBlocks, blocks: &mut [(u64, u64); SackBlocks::MAX]) -> usize {
        let positions = sack.iter().filter_map(|(left, right)| {
            let (left, right) = (self.own_position(left)?, self.own_position(right)?);
            (left < right).then_some((left, right))
        });
        blocks.iter_mut().zip(positions).map(|(block, position)| *block = position).count()
    }

    fn on_fin_acknowledged(&mut self, now: Time) {
        match self.state {
            State::FinWait1 => self.state = State::FinWait2,
            State::Closing => self.wait(now),
            State::LastAck => self.end(),
            _ => {}
        }
    }

    #[inline]
    fn on_data(&mut self, segment: &Incoming, seq: u64, now: Time) {
        if self.agreed.ecn {
            let is_new = segment.len > 0;
            self.receiver.note_ecn(segment.congestion && is_new, segment.has(Flags::CWR) && is_new);
        }
        let was_finished = self.receiver.is_finished();
        let rto = self.sender.rtt.rto();
        let fin = segment.has(Flags::FIN);
        let arrival = self.receiver.on_segment(now, seq, segment.len.into(), fin, rto);
        self.tally.bytes_delivered += arrival.delivered;
        self.tally.out_of_order += u64::from(arrival.out_of_order);
        self.tally.duplicates += u64::from(arrival.duplicate);
        self.tally.data_segments_received += u64::from(segment.len > 0);
        if self.receiver.is_finished() && !was_finished {
            self.on_fin(now);
        }
    }

    /// Records that the peer has closed its side and all its data has arrived.
    fn on_fin(&mut self, now: Time) {
        self.receiver.ack_at_once();
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.wait(now),
            _ => {}
        }
    }

    /// Enters TIME-WAIT.
    fn wait(&mut self, now: Time) {
        self.state = State::TimeWait;
        self.timers.clear(Timer::Retransmit);
        self.timers.set(Timer::TimeWait, now + self.config.msl * 2);
    }
}
