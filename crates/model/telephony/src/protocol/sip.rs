//! SIP over UDP, and the voice of phones.

use std::net::SocketAddr;

use bentpipe_net::Observer;
use bentpipe_net::metric::{Counter, Of};
use bentpipe_signalling::agent::{Agent, CallId, Config as AgentConfig, Event, Failure};
use bentpipe_signalling::digest::Account;
use bentpipe_signalling::sdp::{Capabilities, Codec, Direction};
use bentpipe_signalling::sip::{SipUri, Transport};
use bentpipe_signalling::transaction::{Peer, Timers};
use bentpipe_site::CallQuality;
use bentpipe_units::{RandomStream, Span, Time};
use bentpipe_wire::rtp;

use super::lines::{Lines, PhoneVoice};
use super::{Cause, Happening, Protocol, Repeats};
use crate::metrics;

/// Timers of SIP.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// RFC 3261 T1.
    pub t1: Span,
    /// RFC 3261 T2.
    pub t2: Span,
    /// Phone at an exchange. None: the hosts call each other.
    pub phone: Option<Phone>,
    /// Voice of calls. None: signalling alone.
    pub media: Option<PhoneVoice>,
}

/// Phone at an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phone {
    /// Exchange.
    pub exchange: SocketAddr,
    /// Number.
    pub number: String,
    /// Number that it dials. None: it is called, and registers.
    pub dials: Option<String>,
    /// Password for challenges.
    pub password: Option<String>,
}

/// User agent.
#[derive(Debug)]
pub struct Sip {
    agent: Agent,
    local: SocketAddr,
    phone: Option<Phone>,
    lines: Option<Lines>,
    /// Present time.
    now: Time,
}

/// Status of a phone without a free line (RFC 3261, section 21.4.24).
const BUSY: u16 = 486;

/// Time of a registration in seconds.
const REGISTRATION_S: u32 = 3600;

/// Returns the audio of session descriptions.
pub(crate) fn capabilities(local: SocketAddr) -> Capabilities {
    let codecs = vec![Codec::new(8, "PCMA", 8000), Codec::new(18, "G729", 8000)];
    let (address, port) = (local.ip(), 4000);
    Capabilities { address, port, codecs, ptime: 20, direction: Direction::SendRecv }
}

impl Protocol for Sip {
    type Settings = Settings;
    type Call = CallId;
    const NAME: &'static str = "sip";
    const VOICE_KEY: &'static str = "media.codec";
    const MESSAGES: &'static Of<Counter> = &metrics::MESSAGES;
    const BYTES: &'static Of<Counter> = &metrics::SIP_BYTES;

    fn new(settings: &Settings, user: &str, local: SocketAddr, seed: u64) -> Sip {
        let timers = Timers { t1: settings.t1, t2: settings.t2, ..Timers::default() };
        let user = settings.phone.as_ref().map_or(user, |phone| &phone.number);
        let account = settings.phone.as_ref().and_then(|phone| {
            Some(Account { user: phone.number.clone(), password: phone.password.clone()? })
        });
        let config = AgentConfig { timers, account, ..AgentConfig::new(user, local) };
        let agent = Agent::new(config, RandomStream::new(seed, "sip"));
        let random = RandomStream::new(seed, "voice");
        let lines = settings.media.and_then(|media| Lines::new(media, local, random));
        Sip { agent, local, phone: settings.phone.clone(), lines, now: Time::ZERO }
    }

    /// Registers a phone that is called.
    fn start(&mut self, now: Time) {
        let phone = self.phone.as_ref().filter(|phone| phone.dials.is_none());
        if let Some(exchange) = phone.map(|phone| phone.exchange) {
            let peer = Peer { transport: Transport::Udp, address: exchange };
            self.agent.register(now, &host(exchange), peer, REGISTRATION_S);
        }
    }

    fn codec(settings: &Settings) -> Option<String> {
        Some(settings.media?.codec.name().to_owned())
    }

    fn longest_voice(settings: &Settings) -> usize {
        settings.media.map_or(0, |media| rtp::HEADER_LEN + media.codec.frame_len())
    }

    fn place(&mut self, now: Time, remote: SocketAddr) -> Option<CallId> {
        self.now = now;
        let exchange = self.phone.as_ref().map(|phone| phone.exchange);
        let dialled = self.phone.as_ref().and_then(|phone| phone.dials.as_deref());
        let remote = exchange.unwrap_or(remote);
        let mut target = SipUri::new(Some(dialled.unwrap_or("callee")), &host(remote));
        target.port = Some(remote.port());
        let peer = Peer { transport: Transport::Udp, address: remote };
        let Some(lines) = &mut self.lines else {
            return self.agent.call(now, &target.into(), peer, capabilities(self.local));
        };
        let port = lines.reserve()?;
        let call = self.agent.call(now, &target.into(), peer, lines.capabilities(port));
        match call {
            Some(call) => lines.take(call, port),
            None => lines.give_back(port),
        }
        call
    }

    fn ring(&mut self, now: Time, call: CallId) {
        if let Some(lines) = &mut self.lines {
            let Some(port) = lines.reserve() else { return self.agent.reject(now, call, BUSY) };
            lines.take(call, port);
        }
        self.agent.ring(now, call);
    }

    fn answer(&mut self, now: Time, call: CallId) {
        self.now = now;
        let Some(lines) = &mut self.lines else {
            return self.agent.answer(now, call, capabilities(self.local));
        };
        let Some(port) = lines.port(call) else { return };
        self.agent.answer(now, call, lines.capabilities(port));
        // Both sides may speak from the answer on, even before its ACK (RFC 3264, section 5.1).
        if let Some(media) = self.agent.media(call) {
            lines.start(now, call, media);
        }
    }

    fn hang_up(&mut self, now: Time, call: CallId) {
        self.now = now;
        self.agent.hang_up(now, call);
        self.lines.iter_mut().for_each(|lines| lines.hush(now, call));
    }

    fn receive(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) {
        self.now = now;
        self.agent.receive(now, Peer { transport: Transport::Udp, address: from }, datagram);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        self.agent.handle_timeout(now);
    }

    fn deadline(&mut self) -> Time {
        let voice = self.lines.as_ref().map_or(Time::NEVER, Lines::deadline);
        self.agent.deadline().min(voice)
    }

    fn receive_voice(&mut self, now: Time, from: SocketAddr, port: u16, datagram: &[u8]) -> bool {
        self.now = now;
        self.lines.as_mut().is_some_and(|lines| lines.receive(now, from, port, datagram))
    }

    fn transmit_voice(&mut self) -> Option<(u16, SocketAddr, Vec<u8>)> {
        self.lines.as_mut()?.poll(self.now)
    }

    fn lines(&mut self) -> Option<&mut Lines> {
        self.lines.as_mut()
    }

    fn quality(&self, call: CallId) -> Option<CallQuality> {
        self.lines.as_ref()?.quality(call)
    }

    fn finish(&mut self, call: CallId) -> Option<CallQuality> {
        let now = self.now;
        self.lines.as_mut()?.finish(now, call)
    }

    fn observe(settings: &Settings, protocol: Option<&Sip>, observer: &mut dyn Observer) {
        if settings.media.is_some() {
            Lines::observe(protocol.and_then(|sip| sip.lines.as_ref()), observer);
        }
    }

    fn event(&mut self) -> Option<(CallId, Happening)> {
        let Sip { agent, lines, now, .. } = self;
        std::iter::from_fn(|| agent.poll_event()).find_map(|event| {
            if let (
                Some(lines),
                Event::Answered { call, media: Some(media) } | Event::Changed { call, media },
            ) = (lines.as_mut(), &event)
            {
                lines.start(*now, *call, media);
            }
            let (call, happening) = match event {
                Event::Incoming { call, .. } => (call, Happening::Incoming),
                Event::Progress { call, status: 180..=199 } => (call, Happening::Ringing),
                Event::Answered { call, .. } => (call, Happening::Answered),
                Event::Confirmed { call, .. } => (call, Happening::Confirmed),
                Event::Ended { call, .. } => (call, Happening::Ended),
                Event::Failed { call, failure: Failure::TimedOut } => (call, Happening::TimedOut),
                Event::Failed { call, failure: Failure::Status(status) } => {
                    (call, Happening::Failed(Cause::of_status(status)))
                }
                Event::Failed { call, .. } => (call, Happening::Failed(Cause::Other)),
                _ => return None,
            };
            Some((call, happening))
        })
    }

    fn transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.agent.poll_transmit().map(|transmit| (transmit.to.address, transmit.bytes))
    }

    fn repeats(&self) -> Repeats {
        let counters = self.agent.stack().counters();
        Repeats { sent: counters.requests_repeated, absorbed: counters.requests_absorbed }
    }
}

/// Returns the host of an address as URIs write it.
pub(crate) fn host(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}
