//! Feed of a unidirectional link: HELLOs that announce its tunnel, and the tunnel's end.

use std::any::Any;

use bentpipe_net::{Body, Cx, Element, Observer, Packet, Port, Why, ledger};
use bentpipe_units::{Span, Time};
use bentpipe_wire::ethernet::{self, EtherType};
use bentpipe_wire::{gre, ip, ipv4, sixin4};

use super::receiver::OVERHEAD;
use super::{Ends, Processing, hello, mac_of, metrics};

/// Receiving end. Input 0 takes packets of the tunnel; output 0 has what was in them, output 1 HELLOs.
#[derive(Debug)]
pub struct Feed {
    ends: Ends,
    interval_s: u8,
    next_hello: Time,
    /// Number of the next HELLO; `None` before the first.
    sequence: Option<u16>,
    processing: Processing,
    hellos: u64,
    untunnelled: u64,
    dropped: u64,
}

impl Feed {
    /// Creates the receiving end. Its first HELLO is sent at the start.
    pub fn new(ends: Ends, interval_s: u8, processing: Span) -> Feed {
        let processing = Processing::new(processing);
        let (next_hello, sequence) = (Time::ZERO, None);
        Feed { ends, interval_s, next_hello, sequence, processing, hellos: 0, untunnelled: 0, dropped: 0 }
    }
}

/// Returns the packet in a packet of the tunnel.
fn untunnel(ends: &Ends, packet: Packet) -> Option<Packet> {
    let outer = ipv4::Packet::new_elided(packet.header(), packet.len() - packet.header().len()).ok()?;
    let class = outer.traffic_class();
    let (repr, frame) = gre::Repr::parse(outer.payload()).ok()?;
    if repr.protocol != EtherType::BRIDGED || outer.header_len() != ipv4::HEADER_LEN {
        return None;
    }
    let frame = ethernet::Frame::new_elided(frame, 0).ok()?;
    let is_meant = frame.dst() == mac_of(ends.feed) || frame.dst().is_multicast();
    if !is_meant || frame.header_len() != ethernet::HEADER_LEN {
        return None;
    }
    let version = match frame.ethertype() {
        EtherType::IPV4 => 4,
        EtherType::IPV6 => 6,
        _ => return None,
    };
    let mut inner = strip(packet);
    if inner.header().first().map(|first| first >> 4) != Some(version) {
        return None;
    }
    let elided = inner.len() - inner.header().len();
    let mut view = ip::Packet::new_elided(inner.header_mut(), elided).ok()?;
    let own = view.traffic_class();
    let marked = sixin4::decapsulated_class(own, class)?;
    if marked != own {
        view.set_traffic_class(marked);
    }
    Some(inner)
}

/// Removes the outer headers. The headers of a packet that was put together again are read once more.
fn strip(mut packet: Packet) -> Packet {
    if !matches!(packet.body(), Body::Bytes(_)) {
        packet.trim_front(OVERHEAD);
        return packet;
    }
    let bytes = packet.to_vec();
    let mut inner = Packet::from_bytes(&bytes[OVERHEAD.min(bytes.len())..]);
    inner.set_origin(packet.take_origin());
    packet.recycle();
    inner
}

impl Element for Feed {
    fn receive(&mut self, _: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        match ledger::dropping(Why::Malformed, || untunnel(&self.ends, packet)) {
            Some(packet) => {
                self.untunnelled += 1;
                self.processing.push(cx.now(), packet);
            }
            None => self.dropped += 1,
        }
        self.processing.deadline().min(self.next_hello)
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        while let Some(packet) = self.processing.pop(cx.now()) {
            cx.emit(Port(0), packet);
        }
        if self.next_hello <= cx.now() {
            let sequence = self.sequence.unwrap_or_else(|| (cx.stream().unit() * 65_536.0) as u16);
            self.sequence = Some(sequence.wrapping_add(1));
            self.hellos += 1;
            let hello = hello(&self.ends, self.interval_s, sequence);
            cx.emit(Port(1), Packet::from_bytes(&hello));
            self.next_hello = cx.now() + Span::from_secs(self.interval_s.into());
        }
        self.processing.deadline().min(self.next_hello)
    }

    fn lookahead(&self) -> Span {
        self.processing.time
    }

    fn observe(&mut self, _: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::HELLOS_SENT, self.hellos);
        observer.counter(&metrics::UNTUNNELLED, self.untunnelled);
        observer.counter(&metrics::DROPPED_UNTUNNELLED, self.dropped);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
