//! Bridge's end of the legs of a conference.

use bentpipe_net::{Cx, Packet};
use bentpipe_units::Time;
use bentpipe_wire::rtp::{Csrcs, Repr};

use super::agent::{Agent, BRIDGE, Side};
use super::exchange::{Frame, Mix, ToBridge};
use super::receiver::Received;
use super::sender::Emission;

/// Level of a frame without payload, below any threshold.
const NO_LEVEL: u8 = 127;

impl Agent {
    /// Joins the bridge, at its end.
    pub(super) fn join(&mut self, cx: &mut Cx<'_>) {
        if self.plan.side == Side::Bridge {
            let (members, start, stop) = (self.plan.count, self.plan.start, self.plan.stop);
            let join = ToBridge::Join { members, interval: self.plan.settings.interval, start, stop };
            cx.emit(BRIDGE, join.into_packet());
        }
    }

    /// Passes a packet of a member on to the bridge, unless it came late.
    pub(super) fn pass_on(
        &mut self,
        member: u32,
        packet: &Received,
        (played, level): (Option<Time>, Option<u8>),
        cx: &mut Cx<'_>,
    ) {
        let settings = &self.plan.settings;
        let Some(due) = played else {
            let due = self.calls.receivers[member as usize].plays_at(settings, packet.timestamp);
            let due = due.unwrap_or(cx.now());
            cx.emit(BRIDGE, ToBridge::Pause { member, due }.into_packet());
            return;
        };
        if due < cx.now() {
            return;
        }
        let mouth = packet.created_at.as_nanos().saturating_sub(settings.held.as_nanos());
        let frame = Frame {
            ssrc: packet.ssrc,
            due,
            interval: settings.interval,
            mouth: Time::from_nanos(mouth),
            level: level.unwrap_or(NO_LEVEL),
            impairment: settings.config.impairment.or(settings.format.impairment()),
        };
        cx.emit(BRIDGE, ToBridge::Frame { member, frame }.into_packet());
    }

    /// Encodes a mix of the bridge, and sends it after the look-ahead.
    pub(super) fn take_mix(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        let Some(mix) = Mix::of(packet) else { return };
        let settings = self.plan.settings;
        let now = cx.now();
        let Some(sender) = self.calls.senders.get_mut(mix.member as usize) else { return };
        let is_active = mix.is_speech || !settings.config.silence_suppression;
        let Some(emission) = sender.emit(&settings, is_active, now) else { return };
        let at = now + settings.format.look_ahead;
        let (header, payload_len) = sender.header(&settings, emission, (now, at));
        let mut csrcs = Csrcs::default();
        mix.sources.iter().for_each(|source| {
            csrcs.push(*source);
        });
        let header = Repr { csrcs, ..header };
        let mut payload = vec![0; payload_len as usize];
        match emission {
            Emission::Speech { .. } => {
                mix.sound.emit(&mut payload);
                self.speech_sent += 1;
            }
            Emission::Noise => self.noise_sent += 1,
        }
        // A receiver adds packetisation and look-ahead of its codec to the time from here: it gets that from the mouth.
        let created_at = mix.mouth.map_or(at, |mouth| mouth + settings.held);
        if let Some(waits) = &self.waits {
            waits.note(mix.member, header.seq, at.as_nanos().saturating_sub(created_at.as_nanos()));
        }
        let packet = self.route.rtp_with(mix.member as usize, &header, &payload, created_at);
        self.bytes_sent += packet.len() as u64;
        self.mixes.push(at, mix.member, packet);
        self.send_mixes(cx);
    }

    /// Sends the mixes that are due.
    pub(super) fn send_mixes(&mut self, cx: &mut Cx<'_>) {
        while let Some((member, packet)) = self.mixes.pop(cx.now()) {
            self.emit_rtp(member, packet, cx);
        }
    }
}
