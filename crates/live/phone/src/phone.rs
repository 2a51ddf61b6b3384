//! Agent, sockets and clock together.

use std::io;

use bentpipe_emu::{Clock, Monotonic, poll};
use bentpipe_signalling::agent::{Agent, CallId, Config, Event};
use bentpipe_signalling::sdp::Capabilities;
use bentpipe_signalling::sip::Uri;
use bentpipe_signalling::transaction::Peer;
use bentpipe_units::{RandomStream, Span, Time};

use crate::media::{Media, MediaError, MediaSettings};
use crate::sockets::{Arrival, Sockets};

/// Longest wait, so that a stop is seen.
const LONGEST_WAIT: Span = Span::from_millis(50);
/// Status of a phone without a free line (RFC 3261, section 21.4.24).
const BUSY: u16 = 486;
/// Longest wait while bytes wait for a connection.
const STREAM_WAIT: Span = Span::from_millis(2);

/// User agent on real sockets.
pub struct Phone {
    agent: Agent,
    sockets: Sockets,
    clock: Monotonic,
    media: Option<Media>,
    seed: u64,
}

impl Phone {
    /// Opens the sockets at the local address of the settings. Port 0 chooses a free port.
    ///
    /// The seed must be random where other machines can send: tags and branches depend on it.
    ///
    /// # Errors
    /// Returns an error if the address is taken or not local.
    pub fn open(mut config: Config, seed: u64) -> io::Result<Phone> {
        let sockets = Sockets::open(config.local)?;
        config.local = sockets.local();
        config.has_extensions = true;
        let agent = Agent::new(config, RandomStream::new(seed, "phone"));
        Ok(Phone { agent, sockets, clock: Monotonic::start(), media: None, seed })
    }

    /// Opens lines for voice at the address of the sockets. Calls then have voice in both directions.
    ///
    /// # Errors
    /// Returns an error if a value is impossible or a port cannot be had.
    pub fn open_media(&mut self, settings: &MediaSettings) -> Result<(), MediaError> {
        let random = RandomStream::new(self.seed, "media");
        let (address, now) = (self.sockets.local().ip(), self.now());
        self.media = Some(Media::open(settings, address, now, random)?);
        Ok(())
    }

    /// Sets the differentiated services codepoint of UDP messages.
    ///
    /// # Errors
    /// Returns the error of the socket.
    pub fn set_dscp(&self, dscp: u8) -> io::Result<()> {
        self.sockets.set_dscp(dscp)
    }

    /// Returns the figures of voice, if calls have it.
    pub fn voice(&self) -> Option<serde_json::Value> {
        self.media.as_ref().map(Media::figures)
    }

    /// Places a call. `None`: no line or no call is free.
    ///
    /// Without voice it offers `capabilities`.
    pub(crate) fn dial(&mut self, target: &Uri, peer: Peer, capabilities: &Capabilities) -> Option<CallId> {
        let now = self.now();
        let Some(media) = &mut self.media else {
            return self.agent.call(now, target, peer, capabilities.clone());
        };
        let (port, offered) = media.reserve(now)?;
        let call = self.agent.call(now, target, peer, offered);
        media.assign(call, port);
        call
    }

    /// Returns `true` if a line was free for an incoming call.
    ///
    /// It then rings, and is refused otherwise. A host with more calls than the caller's has its oldest one ended for it.
    ///
    /// With `early` it has its answer at once, in 183 Session Progress.
    pub(crate) fn ring(&mut self, call: CallId, early: Option<&Capabilities>) -> bool {
        let now = self.now();
        let is_free = self.take_line(now, call);
        match (is_free, early) {
            (true, Some(capabilities)) => {
                let accepted = self.media.as_ref().and_then(|media| media.accepted(call));
                let accepted = accepted.unwrap_or_else(|| capabilities.clone());
                self.agent.progress(now, call, accepted);
                self.listen(now, call);
            }
            (true, None) => self.agent.ring(now, call),
            (false, _) => self.agent.reject(now, call, BUSY),
        }
        is_free
    }

    /// Has a call that came in take voice from its answer on. It sends none before the caller has shown that the answer arrived.
    fn listen(&mut self, now: Time, call: CallId) {
        let Some(negotiated) = self.agent.media(call).cloned() else { return };
        let signals = self.agent.caller(call).map(|peer| peer.address.ip());
        self.media.iter_mut().for_each(|media| media.follow(now, call, &negotiated, (signals, true, true)));
    }

    fn take_line(&mut self, now: Time, call: CallId) -> bool {
        let Some(media) = &mut self.media else { return true };
        if media.take(now, call) {
            return true;
        }
        let displaced = self.agent.make_room(now, call);
        displaced.into_iter().for_each(|other| media.finish(now, other));
        media.take(now, call)
    }

    /// Answers a call. Without voice it accepts `capabilities`.
    pub(crate) fn answer(&mut self, call: CallId, capabilities: &Capabilities) {
        let now = self.now();
        let accepted = self.media.as_ref().and_then(|media| media.accepted(call));
        let is_early = self.agent.media(call).is_some();
        self.agent.answer(now, call, accepted.unwrap_or_else(|| capabilities.clone()));
        if !is_early {
            self.listen(now, call);
        }
    }

    /// Ends or cancels a call.
    pub(crate) fn hang_up(&mut self, call: CallId) {
        let now = self.now();
        self.agent.hang_up(now, call);
        self.media.iter_mut().for_each(|media| media.hush(now, call));
    }

    /// Forgets the voice of a call that is given up.
    pub(crate) fn forget(&mut self, call: CallId) {
        let now = self.now();
        self.media.iter_mut().for_each(|media| media.finish(now, call));
    }

    /// Starts and ends the voice of calls by an event.
    fn follow(&mut self, event: &Event) {
        let now = self.now();
        let Some(media) = &mut self.media else { return };
        match event {
            // RFC 3264, section 5.1, lets both sides speak from the answer on. But before ACK or PRACK the caller may be one whose
            // address was forged, and voice is a hundred times what was asked for.
            Event::Answered { call, media: Some(negotiated) }
            | Event::Confirmed { call, media: Some(negotiated) }
            | Event::Early { call, media: negotiated }
            | Event::Changed { call, media: negotiated } => {
                let caller = self.agent.caller(*call).map(|peer| peer.address.ip());
                let signals = caller.or_else(|| self.agent.peer(*call).map(|peer| peer.address.ip()));
                media.follow(now, *call, negotiated, (signals, caller.is_some(), false));
            }
            Event::Ended { call, .. } | Event::Failed { call, .. } => media.finish(now, *call),
            _ => {}
        }
    }

    /// Returns the agent.
    pub fn agent(&mut self) -> &mut Agent {
        &mut self.agent
    }

    /// Returns the sockets.
    pub fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    /// Returns the time since the sockets were opened.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Sends what is due, waits until `until` at most, receives, and returns the events.
    pub fn turn(&mut self, until: Time) -> Vec<Event> {
        self.flush();
        let now = self.now();
        let longest = if self.sockets.is_waiting() { STREAM_WAIT } else { LONGEST_WAIT };
        let voice = self.media.as_ref().map_or(Time::NEVER, Media::deadline);
        let wait = (self.agent.deadline().min(until).min(voice) - now).min(longest);
        // An interrupted wait is a short one.
        let _ = poll::wait(self.sockets.descriptors().chain(self.media.iter().map(Media::descriptor)), wait);
        let now = self.now();
        self.media.iter_mut().for_each(|media| media.receive(now));
        for arrival in self.sockets.take() {
            let now = self.now();
            match arrival {
                Arrival::Datagram(from, bytes) => self.agent.receive(now, from, &bytes),
                Arrival::Message(from, message) => self.agent.receive_message(now, from, message),
                Arrival::Lost(peer, is_refused) => self.agent.unreachable(now, peer, is_refused),
            }
        }
        let now = self.now();
        self.agent.handle_timeout(now);
        self.hang_up_silent(now);
        self.flush();
        let events: Vec<Event> = std::iter::from_fn(|| self.agent.poll_event()).collect();
        events.iter().for_each(|event| self.follow(event));
        events
    }

    /// Ends calls whose peers sent nothing for too long.
    ///
    /// Voice would go on to one who does not want it.
    fn hang_up_silent(&mut self, now: Time) {
        let lost = self.media.as_mut().map(|media| media.lost(now)).unwrap_or_default();
        lost.into_iter().for_each(|call| self.hang_up(call));
    }

    /// Returns the number of lines for voice.
    pub(crate) fn lines(&self) -> Option<usize> {
        self.media.as_ref().map(Media::lines)
    }

    /// Sends all messages of the agent, and the voice that is due.
    pub fn flush(&mut self) {
        while let Some(transmit) = self.agent.poll_transmit() {
            if let Err((peer, is_refused)) = self.sockets.send(&transmit) {
                let now = self.now();
                self.agent.unreachable(now, peer, is_refused);
            }
        }
        let now = self.now();
        self.media.iter_mut().for_each(|media| media.send(now));
    }
}
