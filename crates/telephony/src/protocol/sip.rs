//! SIP over UDP, without media.

use std::net::SocketAddr;

use bentpipe_net::metric::{Counter, Of};
use bentpipe_signalling::agent::{Agent, CallId, Config as AgentConfig, Event, Failure};
use bentpipe_signalling::digest::Account;
use bentpipe_signalling::sdp::{Capabilities, Codec, Direction};
use bentpipe_signalling::sip::{SipUri, Transport};
use bentpipe_signalling::transaction::{Peer, Timers};
use bentpipe_units::{RandomStream, Span, Time};

use super::{Happening, Protocol, Repeats};
use crate::metrics;

/// Timers of SIP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// RFC 3261 T1.
    pub t1: Span,
    /// RFC 3261 T2.
    pub t2: Span,
    /// Phone at an exchange. None: the hosts call each other.
    pub phone: Option<Phone>,
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
}

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
        Sip { agent, local, phone: settings.phone.clone() }
    }

    /// Registers a phone that is called.
    fn start(&mut self, now: Time) {
        let phone = self.phone.as_ref().filter(|phone| phone.dials.is_none());
        if let Some(exchange) = phone.map(|phone| phone.exchange) {
            let peer = Peer { transport: Transport::Udp, address: exchange };
            self.agent.register(now, &host(exchange), peer, REGISTRATION_S);
        }
    }

    fn place(&mut self, now: Time, remote: SocketAddr) -> Option<CallId> {
        let exchange = self.phone.as_ref().map(|phone| phone.exchange);
        let dialled = self.phone.as_ref().and_then(|phone| phone.dials.as_deref());
        let remote = exchange.unwrap_or(remote);
        let mut target = SipUri::new(Some(dialled.unwrap_or("callee")), &host(remote));
        target.port = Some(remote.port());
        let peer = Peer { transport: Transport::Udp, address: remote };
        let capabilities = capabilities(self.local);
        self.agent.call(now, &target.into(), peer, capabilities)
    }

    fn ring(&mut self, now: Time, call: CallId) {
        self.agent.ring(now, call);
    }

    fn answer(&mut self, now: Time, call: CallId) {
        let capabilities = capabilities(self.local);
        self.agent.answer(now, call, capabilities);
    }

    fn hang_up(&mut self, now: Time, call: CallId) {
        self.agent.hang_up(now, call);
    }

    fn receive(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) {
        self.agent.receive(now, Peer { transport: Transport::Udp, address: from }, datagram);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.agent.handle_timeout(now);
    }

    fn deadline(&mut self) -> Time {
        self.agent.deadline()
    }

    fn event(&mut self) -> Option<(CallId, Happening)> {
        std::iter::from_fn(|| self.agent.poll_event()).find_map(|event| {
            let (call, happening) = match event {
                Event::Incoming { call, .. } => (call, Happening::Incoming),
                Event::Progress { call, status: 180..=199 } => (call, Happening::Ringing),
                Event::Answered { call, .. } => (call, Happening::Answered),
                Event::Confirmed { call, .. } => (call, Happening::Confirmed),
                Event::Ended { call, .. } => (call, Happening::Ended),
                Event::Failed { call, failure: Failure::TimedOut } => (call, Happening::TimedOut),
                Event::Failed { call, .. } => (call, Happening::Failed),
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
