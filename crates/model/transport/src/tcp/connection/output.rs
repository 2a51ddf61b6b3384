//! Segments that go out: data, acknowledgements, resets.

use bentpipe_net::Cx;
use bentpipe_units::Time;
use bentpipe_wire::quick_start::IpOption;
use bentpipe_wire::tcp::{Flags, Options};

use super::{Connection, Incoming, State, Timer};
use crate::tcp::segment::{Extras, Outgoing};
use crate::tcp::sender::{Kind, Transmit};
use crate::tcp::template::Template;

impl Connection {
    /// Sends the segments allowed now: first data, then the ACK if no data carried it.
    #[inline]
    pub fn output(&mut self, cx: &mut Cx<'_>) {
        if self.receiver.ack_is_due() && (self.receiver.has_sack() || self.quick_start.is_pending()) {
            // Data segments have no room for SACK blocks, nor for what Quick-Start adds.
            self.acknowledge(cx);
        }
        if self.state.is_sending() && !self.sender.is_silent() {
            self.send_data(cx);
        }
        if self.receiver.ack_is_due() {
            self.acknowledge(cx);
        } else if self.receiver.ack_is_pending() {
            self.timers.start(Timer::DelayedAck, cx.now() + self.config.ack_delay);
        }
    }

    #[inline]
    fn send_data(&mut self, cx: &mut Cx<'_>) {
        let mut left = match self.config.max_burst {
            // As in Linux, a segment that is not accepted releases no data: the answer to a SYN sent again, for one.
            Some(_) if self.is_refused => return,
            burst => burst.unwrap_or(u32::MAX),
        };
        while left > 0
            && let Some(transmit) = self.sender.next(cx.now())
        {
            self.transmit(&transmit, cx);
            left -= 1;
        }
        self.sender.on_stopped(cx.now(), &mut self.timers);
    }

    /// Sends a part of the stream.
    #[inline]
    pub(super) fn transmit(&mut self, transmit: &Transmit, cx: &mut Cx<'_>) {
        let mut flags = self.echo_flag();
        if transmit.fin {
            flags = flags | Flags::FIN;
        }
        if transmit.end() > self.sender.written() {
            flags = flags | Flags::PSH;
        }
        if self.sender.take_cwr(transmit) {
            flags = flags | Flags::CWR;
        }
        let segment = Outgoing {
            seq: self.wire_seq(transmit.start),
            ack: Some(self.wire_ack(self.receiver.next())),
            flags,
            window: self.offer_window(),
            extras: self.timestamps(cx.now()),
            len: transmit.len,
            ect: self.sender.is_ect(transmit),
        };
        self.tally.data_segments_sent += 1;
        self.sender.on_sent(transmit, cx.now(), self.clock.ticks(cx.now()), &mut self.timers);
        if let Some(schedule) = self.schedule
            && transmit.kind == Kind::New
        {
            self.waits.record(cx.now().since(schedule.written_at(transmit.start - 1)));
        }
        self.emit_at(&segment, transmit.start, cx);
    }

    /// Sends an ACK without data.
    #[inline]
    pub(super) fn acknowledge(&mut self, cx: &mut Cx<'_>) {
        let mut extras = self.timestamps(cx.now());
        if self.agreed.sack && self.receiver.has_sack() {
            extras = Extras::Other(self.sack_options(extras));
        }
        let mut report = None;
        if self.quick_start.is_pending() {
            let mut options = extras.options();
            self.quick_start.respond(&mut options);
            (extras, report) = (Extras::Other(options), self.quick_start.report());
        }
        let segment = Outgoing {
            seq: self.wire_seq(self.sender.board.high()),
            ack: Some(self.wire_ack(self.receiver.next())),
            flags: self.echo_flag(),
            window: self.offer_window(),
            extras,
            len: 0,
            ect: false,
        };
        match report {
            Some(_) => self.emit_with(report.as_ref(), &segment, cx),
            None => self.emit(&segment, cx),
        }
    }

    fn sack_options(&mut self, extras: Extras) -> Options {
        let mut options = extras.options();
        let (room, irs) = (options.sack_room(), self.irs);
        options.sack = self.receiver.sack_blocks(room, |position| irs + position as u32);
        options
    }

    fn echo_flag(&self) -> Flags {
        if self.receiver.echoes_congestion() { Flags::ECE } else { Flags::NONE }
    }

    /// Returns the window field of an ACK sent now.
    #[inline]
    fn offer_window(&mut self) -> u16 {
        self.timers.clear(Timer::DelayedAck);
        self.receiver.on_ack_sent(self.receive_shift)
    }

    #[inline]
    fn timestamps(&mut self, now: Time) -> Extras {
        if self.agreed.timestamps {
            Extras::Timestamps(self.clock.ticks(now), self.receiver.ts_recent())
        } else {
            Extras::None
        }
    }

    /// Answers a segment that has no connection with a reset (RFC 9293 3.10.7.1).
    pub(super) fn refuse(&mut self, segment: &Incoming, cx: &mut Cx<'_>) {
        if segment.has(Flags::RST) {
            return;
        }
        let (seq, ack) = match segment.ack {
            Some(ack) => (ack, None),
            None => (Default::default(), Some(segment.seq + segment.seq_len())),
        };
        let reset =
            Outgoing { seq, ack, flags: Flags::RST, window: 0, extras: Extras::None, len: 0, ect: false };
        if let Some(mut template) = Template::new(self.local, segment.src) {
            self.tally.segments_sent += 1;
            cx.emit(self.port, template.packet(&reset));
        }
    }

    pub(super) fn send_reset(&mut self, cx: &mut Cx<'_>) {
        let (seq, ack) = (self.wire_seq(self.sender.board.high()), self.wire_ack(self.receiver.next()));
        let seq = if self.state == State::SynReceived { self.iss + 1 } else { seq };
        let reset = Outgoing {
            seq,
            ack: Some(ack),
            flags: Flags::RST,
            window: 0,
            extras: Extras::None,
            len: 0,
            ect: false,
        };
        self.emit(&reset, cx);
    }

    #[inline]
    pub(super) fn emit(&mut self, segment: &Outgoing, cx: &mut Cx<'_>) {
        self.emit_at(segment, 0, cx);
    }

    /// Sends a segment without data in a packet with a Quick-Start option, or without one.
    pub(super) fn emit_with(&mut self, option: Option<&IpOption>, segment: &Outgoing, cx: &mut Cx<'_>) {
        let Some(option) = option else { return self.emit(segment, cx) };
        let Some(template) = self.template.as_mut() else { return };
        let packet = template.packet_with(option, segment);
        self.tally.segments_sent += 1;
        cx.emit(self.port, packet);
    }

    /// Sends a segment whose data has the position `start`.
    #[inline]
    fn emit_at(&mut self, segment: &Outgoing, start: u64, cx: &mut Cx<'_>) {
        let Some(template) = self.template.as_mut() else { return };
        let mut packet = template.packet(segment);
        if !self.content.is_empty() {
            packet = self.content.fill(packet, start);
        }
        packet.set_created_at(cx.now());
        self.tally.segments_sent += 1;
        cx.emit(self.port, packet);
    }
}
