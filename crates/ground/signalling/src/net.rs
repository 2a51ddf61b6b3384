//! Network of elements for tests: delay, loss, duplication and reordering.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bentpipe_units::{RandomStream, Span, Time};

use crate::agent::Agent;
use crate::proxy::Proxy;
use crate::sip::{Message, Transport};
use crate::transaction::{Peer, Transmit};

/// Element of SIP.
pub(crate) trait Element {
    fn receive(&mut self, now: Time, from: Peer, datagram: &[u8]);
    fn deadline(&mut self) -> Time;
    fn handle_timeout(&mut self, now: Time);
    fn poll_transmit(&mut self) -> Option<Transmit>;
    fn agent(&mut self) -> Option<&mut Agent> {
        None
    }
}

macro_rules! element {
    ($name:ident $($agent:item)?) => {
        impl Element for $name {
            fn receive(&mut self, now: Time, from: Peer, datagram: &[u8]) {
                $name::receive(self, now, from, datagram);
            }
            fn deadline(&mut self) -> Time {
                $name::deadline(self)
            }
            fn handle_timeout(&mut self, now: Time) {
                $name::handle_timeout(self, now);
            }
            fn poll_transmit(&mut self) -> Option<Transmit> {
                $name::poll_transmit(self)
            }
            $($agent)?
        }
    };
}

element!(Agent fn agent(&mut self) -> Option<&mut Agent> { Some(self) });
element!(Proxy);

/// Impairments of the network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) delay: Span,
    pub(crate) jitter: Span,
    pub(crate) loss: f64,
    pub(crate) duplication: f64,
}

impl Path {
    pub(crate) fn clean(millis: u64) -> Path {
        Path { delay: Span::from_millis(millis), jitter: Span::ZERO, loss: 0.0, duplication: 0.0 }
    }
}

pub(crate) struct Net {
    pub(crate) now: Time,
    pub(crate) elements: BTreeMap<SocketAddr, Box<dyn Element>>,
    pub(crate) path: Path,
    flight: BTreeMap<(Time, u64), (SocketAddr, SocketAddr, Vec<u8>)>,
    random: RandomStream,
    sent: u64,
    /// Messages sent, with their time: "INVITE", "200 INVITE".
    pub(crate) log: Vec<(Time, SocketAddr, SocketAddr, String)>,
}

pub(crate) fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}

pub(crate) fn udp(port: u16) -> Peer {
    Peer { transport: Transport::Udp, address: at(port) }
}

impl Net {
    pub(crate) fn new(path: Path, seed: u64) -> Net {
        let random = RandomStream::new(seed, "net");
        Net {
            now: Time::ZERO,
            elements: BTreeMap::new(),
            path,
            flight: BTreeMap::new(),
            random,
            sent: 0,
            log: vec![],
        }
    }

    pub(crate) fn add(&mut self, port: u16, element: impl Element + 'static) {
        self.elements.insert(at(port), Box::new(element));
    }

    pub(crate) fn agent(&mut self, port: u16) -> &mut Agent {
        self.elements.get_mut(&at(port)).and_then(|element| element.agent()).expect("an agent")
    }

    /// Sends a datagram of no element.
    pub(crate) fn inject(&mut self, from: u16, to: u16, bytes: &[u8]) {
        self.send(at(from), Transmit { to: udp(to), bytes: bytes.to_vec() });
    }

    fn send(&mut self, from: SocketAddr, transmit: Transmit) {
        let to = transmit.to.address;
        let message = Message::parse(&transmit.bytes).expect("elements write well-formed messages");
        assert_eq!(message.check(), Ok(()), "{}", String::from_utf8_lossy(&transmit.bytes));
        let method = message.method().expect("a method");
        let text = message.status().map_or(method.to_string(), |status| format!("{status} {method}"));
        self.log.push((self.now, from, to, text));
        let copies = 1 + u32::from(self.random.chance(self.path.duplication));
        for _ in 0..copies {
            if !self.random.chance(self.path.loss) {
                let delay = self.path.delay + self.path.jitter.mul_f64(self.random.unit());
                self.sent += 1;
                self.flight.insert((self.now + delay, self.sent), (from, to, transmit.bytes.clone()));
            }
        }
    }

    /// Sends the messages of all elements.
    pub(crate) fn flush(&mut self) {
        let addresses: Vec<_> = self.elements.keys().copied().collect();
        for address in addresses {
            while let Some(transmit) =
                self.elements.get_mut(&address).and_then(|element| element.poll_transmit())
            {
                self.send(address, transmit);
            }
        }
    }

    /// Returns `true` if events are left after a run until a time.
    pub(crate) fn run(&mut self, until: Time) -> bool {
        loop {
            self.flush();
            let arrival = self.flight.keys().next().map_or(Time::NEVER, |(time, _)| *time);
            let timer =
                self.elements.values_mut().map(|element| element.deadline()).min().unwrap_or(Time::NEVER);
            let next = arrival.min(timer);
            if next > until {
                self.now = until;
                return !next.is_never();
            }
            self.now = self.now.max(next);
            if arrival <= timer {
                let (_, (from, to, bytes)) = self.flight.pop_first().expect("there is one");
                let from = Peer { transport: Transport::Udp, address: from };
                let now = self.now;
                if let Some(element) = self.elements.get_mut(&to) {
                    element.receive(now, from, &bytes);
                }
            } else {
                let now = self.now;
                self.elements.values_mut().for_each(|element| element.handle_timeout(now));
            }
        }
    }

    /// Returns `true` if events are left after a run of some seconds.
    pub(crate) fn run_for(&mut self, seconds: f64) -> bool {
        self.run(self.now + Span::from_secs_f64(seconds))
    }

    /// Returns the messages between two elements, in order.
    pub(crate) fn messages(&self, one: u16, two: u16) -> Vec<&str> {
        let between = |from: &SocketAddr, to: &SocketAddr| {
            [(at(one), at(two)), (at(two), at(one))].contains(&(*from, *to))
        };
        self.log.iter().filter(|(_, from, to, _)| between(from, to)).map(|(.., text)| &text[..]).collect()
    }

    /// Returns the times in seconds at which an element sent a message.
    pub(crate) fn times(&self, from: u16, what: &str) -> Vec<f64> {
        self.log
            .iter()
            .filter(|(_, sender, _, text)| *sender == at(from) && text == what)
            .map(|(time, ..)| time.as_secs_f64())
            .collect()
    }
}
