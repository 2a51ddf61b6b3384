//! The study's testbed: a gateway that encapsulates Ethernet frames as fast as the ASI card takes TS packets, the satellite,
//! and the gateway behind it. The bytes are real: `net::dvb`'s encapsulator and decapsulator with ROHC in them.

use std::collections::VecDeque;

use bentpipe_net::dvb::{self, Config, Decapsulator, Encapsulator, Event, Pdu};
use bentpipe_units::{Span, Stream, Time};
use bentpipe_wire::ethernet::{self, EtherType, MacAddr};
use bentpipe_wire::ts::PACKET_LEN;

use super::traffic::Traffic;

/// TS packets of a group: the card sends no fewer, and what is lacking is NULL packets (section 3).
const GROUP: usize = 6;
/// Groups that the card holds.
const GROUPS: usize = 2;
/// Frames that wait for the gateway: the transmit queue of a Linux interface.
const QUEUE: usize = 1000;
/// Up to the satellite and down.
const PROPAGATION: Span = Span::from_millis(250);

/// What is offered to the link.
pub(super) enum Offer {
    /// As much as it takes.
    Greedy,
    /// Packet n at this time, if there is one.
    At(Box<dyn Fn(usize) -> Option<Time>>),
}

/// How bits become wrong on the way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Errors {
    None,
    /// Each by itself with this probability.
    Random(f64),
    /// The same share of bits on average, but in bursts.
    Bursts(f64),
}

/// One direction between two sites.
pub(super) struct Testbed {
    pub(super) stream: Config,
    pub(super) bits_per_s: f64,
    pub(super) errors: Errors,
}

/// What became of the packets.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// How many were offered; of a greedy sender, how many were encapsulated.
    pub(super) offered: usize,
    /// How many found the queue full.
    pub(super) dropped: usize,
    /// Which arrived, and when.
    pub(super) arrivals: Vec<(usize, Time)>,
    /// How many came out that nobody sent so.
    pub(super) wrong: usize,
    /// What the receiving end counted.
    pub(super) received: dvb::Received,
}

impl Outcome {
    /// The share of offered packets that did not arrive, of those that had the time to.
    pub(super) fn lost(&self) -> f64 {
        let last = self.arrivals.last().map_or(0, |(index, _)| index + 1);
        1.0 - self.arrivals.len() as f64 / last.max(1) as f64
    }
}

impl Testbed {
    /// Runs the link for so long. Packets on their way at its end do not arrive.
    ///
    /// # Errors
    /// If the stream's configuration is impossible, or it carries no Ethernet frames.
    pub(super) fn run(&self, traffic: &Traffic, offer: &Offer, length: Span) -> Result<Outcome, String> {
        let mut sender = Sender::new(&self.stream, traffic, offer)?;
        let filter = ethernet::Filter::default();
        let mut receiver = Decapsulator::new(&self.stream, filter).map_err(|error| error.to_string())?;
        let mut noise = Noise::new(self.errors);
        let mut outcome = Outcome::default();
        let slot_ns = PACKET_LEN as f64 * 8.0 * 1e9 / self.bits_per_s;
        for group in 0.. {
            let at = |n: usize| Time::from_nanos(((group * GROUP + n) as f64 * slot_ns) as u64);
            if at(0) >= Time::ZERO + length {
                break;
            }
            let packets = sender.group(at(0), &mut outcome)?;
            for (n, packet) in packets.into_iter().enumerate() {
                let Some(packet) = noise.pass(packet) else { continue };
                let now = at(n + 1) + PROPAGATION;
                receiver.push(now, &packet, |event| note(event, now, traffic, &mut outcome));
            }
        }
        outcome.received = receiver.received();
        Ok(outcome)
    }
}

/// Notes a packet that arrived.
fn note(event: Event<'_>, now: Time, traffic: &Traffic, outcome: &mut Outcome) {
    let Event::Ethernet(frame) = event else { return };
    match frame.get(ethernet::HEADER_LEN..).and_then(|packet| traffic.index(packet)) {
        Some(index) => outcome.arrivals.push((index, now)),
        None => outcome.wrong += 1,
    }
}

/// The sending gateway.
struct Sender<'a> {
    encapsulator: Encapsulator,
    traffic: &'a Traffic,
    offer: &'a Offer,
    /// The next packet.
    next: usize,
    queue: VecDeque<usize>,
    popped: u64,
    frame: Vec<u8>,
}

impl<'a> Sender<'a> {
    fn new(stream: &Config, traffic: &'a Traffic, offer: &'a Offer) -> Result<Sender<'a>, String> {
        let encapsulator = Encapsulator::new(stream).map_err(|error| error.to_string())?;
        let (next, queue, popped, frame) = (0, VecDeque::new(), 0, Vec::new());
        Ok(Sender { encapsulator, traffic, offer, next, queue, popped, frame })
    }

    /// The TS packets that go out from `now` on: a group, each of them NULL if nothing is due.
    fn group(
        &mut self,
        now: Time,
        outcome: &mut Outcome,
    ) -> Result<[Option<[u8; PACKET_LEN]>; GROUP], String> {
        self.admit(now, outcome)?;
        let mut packets = [None; GROUP];
        for packet in &mut packets {
            *packet = self.encapsulator.pop(now);
            self.popped += u64::from(packet.is_some());
            self.refill(now, outcome)?;
        }
        Ok(packets)
    }

    /// Whether the card's buffers have room.
    fn has_room(&self) -> bool {
        self.encapsulator.filled() - self.popped < (GROUP * (GROUPS - 1)) as u64
    }

    /// Takes in what was offered up to `now`, each packet at its own time.
    fn admit(&mut self, now: Time, outcome: &mut Outcome) -> Result<(), String> {
        if let Offer::At(when) = self.offer {
            while let Some(at) = when(self.next).filter(|at| *at <= now) {
                match () {
                    () if self.queue.is_empty() && self.has_room() => self.push(at, self.next)?,
                    () if self.queue.len() < QUEUE => self.queue.push_back(self.next),
                    () => outcome.dropped += 1,
                }
                outcome.offered += 1;
                self.next += 1;
            }
        }
        self.refill(now, outcome)
    }

    /// Encapsulates what waits, as far as there is room.
    fn refill(&mut self, now: Time, outcome: &mut Outcome) -> Result<(), String> {
        while self.has_room() {
            match (self.queue.pop_front(), self.offer) {
                (Some(index), _) => self.push(now, index)?,
                (None, Offer::Greedy) => {
                    self.push(now, self.next)?;
                    self.next += 1;
                    outcome.offered += 1;
                }
                (None, Offer::At(_)) => break,
            }
        }
        Ok(())
    }

    fn push(&mut self, now: Time, index: usize) -> Result<(), String> {
        let packet = self.traffic.packet(index);
        let ethertype = if self.traffic.ip.header_len() == 20 { EtherType::IPV4 } else { EtherType::IPV6 };
        self.frame.clear();
        self.frame.extend(MacAddr([2, 0, 0, 0, 0, 2]).0.iter().chain(&MacAddr([2, 0, 0, 0, 0, 1]).0));
        self.frame.extend(ethertype.0.to_be_bytes());
        self.frame.extend(packet);
        self.encapsulator.push(now, &Pdu::ethernet(&self.frame)).map_err(|error| error.to_string())
    }
}

/// In a burst so many bits are wrong.
const DENSITY: f64 = 0.01;
/// The mean length of a burst in bits: eight TS packets, a millisecond and a half.
const BURST_BITS: f64 = 8.0 * 8.0 * PACKET_LEN as f64;

/// Places bit errors in the TS as it passes.
struct Noise {
    errors: Errors,
    stream: Stream,
    /// Bits to the next wrong one.
    gap: u64,
    /// Bits that are left of the burst.
    burst: u64,
}

impl Noise {
    fn new(errors: Errors) -> Noise {
        let mut noise = Noise { errors, stream: Stream::new(1, "rohc-ule/noise"), gap: 0, burst: 0 };
        noise.draw();
        noise
    }

    /// Draws how many bits are right from here on.
    fn draw(&mut self) {
        self.gap = match self.errors {
            Errors::None => u64::MAX,
            Errors::Random(ber) => self.stream.failures_before_success(ber),
            Errors::Bursts(ber) => self.gap_of_bursts(ber),
        };
    }

    /// Within a burst to its next wrong bit; from its end on to the first one of the next.
    fn gap_of_bursts(&mut self, ber: f64) -> u64 {
        let mut passed = 0;
        loop {
            let within = self.stream.failures_before_success(DENSITY);
            if within < self.burst {
                self.burst -= within + 1;
                return passed + within;
            }
            passed += self.burst + self.stream.failures_before_success(ber / (DENSITY * BURST_BITS));
            self.burst = 1 + self.stream.failures_before_success(1.0 / BURST_BITS);
        }
    }

    /// A TS packet behind the link; `None` is a NULL packet, which takes its time and is not looked at.
    fn pass(&mut self, packet: Option<[u8; PACKET_LEN]>) -> Option<[u8; PACKET_LEN]> {
        const BITS: u64 = 8 * PACKET_LEN as u64;
        let mut packet = packet;
        let mut at = 0;
        while self.gap < BITS - at {
            at += self.gap;
            if let Some(packet) = &mut packet {
                packet[at as usize / 8] ^= 0x80 >> (at % 8);
            }
            at += 1;
            self.draw();
        }
        self.gap = self.gap.saturating_sub(BITS - at);
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::super::traffic::{Ident, Ip};
    use super::*;

    fn testbed(errors: Errors) -> Testbed {
        let packing = Some(Span::from_millis(1));
        Testbed { stream: Config { packing, ..Config::default() }, bits_per_s: 8e6, errors }
    }

    /// On a clean link a greedy sender gets what equations 14 and 15 leave, and every packet arrives as it was sent.
    #[test]
    fn a_clean_link_is_filled() {
        let traffic = Traffic::udp(Ip::V4(Ident::Stream), 100);
        let outcome = testbed(Errors::None).run(&traffic, &Offer::Greedy, Span::from_secs(1)).expect("runs");
        let bits = outcome.arrivals.len() as f64 * 100.0 * 8.0;
        let model = super::super::equations::throughput(8e6, 28.0, 100.0);
        assert!((bits / model - 1.0).abs() < 0.005, "{bits} {model}");
        assert_eq!((outcome.wrong, outcome.lost()), (0, 0.0));
        assert!(outcome.arrivals.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0));
    }

    /// A lonely packet takes the threshold, a group at most, a TS packet and the propagation.
    #[test]
    fn a_lonely_packet_waits_for_the_threshold() {
        let traffic = Traffic::udp(Ip::V6, 20);
        let offer = Offer::At(Box::new(|n| (n < 20).then(|| Time::from_nanos(n as u64 * 7_777_777))));
        let outcome = testbed(Errors::None).run(&traffic, &offer, Span::from_secs(1)).expect("runs");
        let delays = outcome.arrivals.iter().map(|(n, at)| at.as_nanos() - *n as u64 * 7_777_777);
        let (least, most) = (251_188_000, 251_188_000 + 6 * 188_000);
        assert!(outcome.arrivals.len() == 20 && delays.clone().all(|d| (least..=most).contains(&d)));
    }

    /// Both sorts of noise make as many errors as they say.
    #[test]
    fn noise_has_its_error_rate() {
        for errors in [Errors::Random(1e-3), Errors::Bursts(1e-3)] {
            let mut noise = Noise::new(errors);
            let mut wrong = 0_u32;
            for _ in 0..40_000 {
                let packet = noise.pass(Some([0; PACKET_LEN])).expect("a packet");
                wrong += packet.iter().map(|byte| byte.count_ones()).sum::<u32>();
            }
            let ber = f64::from(wrong) / (40_000.0 * 1504.0);
            assert!((ber / 1e-3 - 1.0).abs() < 0.15, "{errors:?}: {ber}");
        }
    }
}
