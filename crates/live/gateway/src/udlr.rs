//! Tunnelled return of a one-way carrier (RFC 3077), over the IPv4 network of the machine.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};

use bentpipe_dvb::udlr::{Announced, Ends, hello, hello_in, mac_of};
use bentpipe_dvb::{Event, Kind, Pdu};
use bentpipe_units::{Span, Time};
use bentpipe_wire::ethernet::{self, EtherType, MacAddr};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::{gre, ip, ipv4};
use socket2::{Domain, Socket, Type};

/// Tunnelled return of a remote site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdlrConfig {
    /// Part of this site.
    pub role: UdlrRole,
    /// Address of this machine in the network that carries the tunnel.
    pub address: Ipv4Addr,
    /// Address of the feed on the link (FUIP).
    pub feed_address: Ipv4Addr,
}

/// Part of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdlrRole {
    /// Sender on the carrier, to which the remote site returns in the tunnel.
    Feed {
        /// Address from which the receiver's tunnelled packets come.
        receiver: Ipv4Addr,
        /// Interval of HELLOs in seconds.
        interval_s: u8,
    },
    /// Receiver of the carrier, which returns in the tunnel.
    Receiver {
        /// Number of intervals without HELLO after which the tunnel is forgotten.
        intervals: u8,
    },
}

/// Counters of a tunnelled return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdlrCounts {
    /// HELLOs sent, or received from the feed.
    pub hellos: u64,
    /// HELLOs of other feeds, versions or tunnels.
    pub hellos_refused: u64,
    /// Times that HELLOs stayed away and the tunnel was forgotten.
    pub lost: u64,
    /// Set while a tunnel is known.
    pub is_known: bool,
    /// Packets into or out of the tunnel.
    pub packets: u64,
    /// Packets dropped while no tunnel was known.
    pub no_tunnel: u64,
    /// Packets that the network did not take, or malformed ones that came.
    pub errors: u64,
}

/// End of the tunnel.
#[derive(Debug)]
pub(crate) struct Tunnel {
    config: UdlrConfig,
    socket: Socket,
    announced: Announced,
    next_hello: Time,
    sequence: u16,
    counts: UdlrCounts,
    frame: Vec<u8>,
}

impl Tunnel {
    /// Opens the socket, which needs `CAP_NET_RAW`.
    pub(crate) fn open(config: &UdlrConfig) -> io::Result<Tunnel> {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(i32::from(Protocol::GRE.0).into()))?;
        socket.set_nonblocking(true)?;
        socket.bind(&SocketAddrV4::new(config.address, 0).into())?;
        let intervals = match config.role {
            // Only packets of the receiver come in.
            UdlrRole::Feed { receiver, .. } => {
                socket.connect(&SocketAddrV4::new(receiver, 0).into()).map(|()| 0)?
            }
            UdlrRole::Receiver { intervals } => intervals,
        };
        Ok(Tunnel {
            announced: Announced::new(config.feed_address, intervals),
            config: config.clone(),
            socket,
            next_hello: Time::ZERO,
            // Receivers take any number; that of the process differs from run to run.
            sequence: std::process::id() as u16,
            counts: UdlrCounts::default(),
            frame: Vec::new(),
        })
    }

    pub(crate) fn is_receiver(&self) -> bool {
        matches!(self.config.role, UdlrRole::Receiver { .. })
    }

    pub(crate) fn counts(&mut self, now: Time) -> UdlrCounts {
        let is_known = self.announced.end(now).is_some();
        UdlrCounts { lost: self.announced.lost(), is_known, ..self.counts }
    }

    /// Sends a packet or frame into the tunnel, if one is known.
    pub(crate) fn send(&mut self, now: Time, pdu: &Pdu<'_>) {
        let Some(end) = self.announced.end(now) else {
            self.counts.no_tunnel += 1;
            return;
        };
        self.frame.clear();
        self.frame.resize(gre::HEADER_LEN, 0);
        gre::Repr { protocol: EtherType::BRIDGED }.emit(&mut self.frame);
        if pdu.kind == Kind::Ip {
            let Ok(packet) = ip::Packet::new_checked(pdu.bytes) else {
                self.counts.errors += 1;
                return;
            };
            let dst = MacAddr::of_group(packet.dst()).unwrap_or(mac_of(self.config.feed_address));
            let ethertype = if packet.dst().is_ipv6() { EtherType::IPV6 } else { EtherType::IPV4 };
            let header = ethernet::Repr::new(mac_of(self.config.address), dst, ethertype);
            self.frame.resize(gre::HEADER_LEN + ethernet::HEADER_LEN, 0);
            header.emit(&mut self.frame[gre::HEADER_LEN..]);
        }
        self.frame.extend_from_slice(pdu.bytes);
        match self.socket.send_to(&self.frame, &SocketAddrV4::new(end, 0).into()) {
            Ok(_) => self.counts.packets += 1,
            Err(_) => self.counts.errors += 1,
        }
    }

    /// Returns `true` for a HELLO, which it heeds.
    pub(crate) fn accepts_hello(&mut self, now: Time, event: &Event<'_>) -> bool {
        let packet = match event {
            Event::Ip(packet) => packet,
            Event::Ethernet(frame) => frame.get(ethernet::HEADER_LEN..).unwrap_or_default(),
            Event::Anomaly(_) => return false,
        };
        let Some(hello) = self.is_receiver().then(|| hello_in(packet)).flatten() else { return false };
        let is_heeded = self.announced.accept(&hello, now);
        *(if is_heeded { &mut self.counts.hellos } else { &mut self.counts.hellos_refused }) += 1;
        true
    }

    /// Returns the HELLO that is due at the feed. For a bridge it is a frame.
    pub(crate) fn hello(&mut self, now: Time, is_bridge: bool) -> Option<Vec<u8>> {
        let UdlrRole::Feed { receiver, interval_s } = self.config.role else { return None };
        if now < self.next_hello {
            return None;
        }
        self.next_hello = now + Span::from_secs(interval_s.into());
        self.sequence = self.sequence.wrapping_add(1);
        self.counts.hellos += 1;
        let ends = Ends { receiver, feed: self.config.feed_address, tunnel: self.config.address };
        let packet = hello(&ends, interval_s, self.sequence);
        if !is_bridge {
            return Some(packet);
        }
        let group =
            MacAddr::of_group(IpAddr::V4(bentpipe_wire::dtcp::GROUP_V4)).unwrap_or(MacAddr::BROADCAST);
        let mut frame = vec![0; ethernet::HEADER_LEN];
        ethernet::Repr::new(mac_of(ends.feed), group, EtherType::IPV4).emit(&mut frame);
        frame.extend(packet);
        Some(frame)
    }

    /// Returns the time of the next HELLO.
    pub(crate) fn due(&self) -> Time {
        if self.is_receiver() { Time::NEVER } else { self.next_hello }
    }

    /// Returns `true` if more may wait, after reading up to `limit` packets.
    ///
    /// A receiver takes nothing: what came for its socket is dropped.
    pub(crate) fn read(
        &mut self,
        buffer: &mut [u8],
        limit: usize,
        is_bridge: bool,
        mut sink: impl FnMut(Event<'_>),
    ) -> bool {
        for _ in 0..limit {
            let len = match (&self.socket).read(buffer) {
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(_) => {
                    self.counts.errors += 1;
                    return false;
                }
            };
            match content(&buffer[..len], self.config.feed_address, is_bridge).filter(|_| !self.is_receiver())
            {
                Some(event) => {
                    self.counts.packets += 1;
                    sink(event);
                }
                None => self.counts.errors += 1,
            }
        }
        true
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns the frame in a packet of the tunnel, or the IP packet in that.
fn content(bytes: &[u8], feed: Ipv4Addr, is_bridge: bool) -> Option<Event<'_>> {
    let outer = ipv4::Packet::new_checked(bytes).ok()?;
    let header_len = outer.header_len();
    let (repr, _) = gre::Repr::parse(outer.payload()).ok()?;
    let gre = bytes.get(header_len..outer.total_len())?;
    let (_, content) = gre::Repr::parse(gre).ok()?;
    let frame = ethernet::Frame::new_checked(content).ok().filter(|_| repr.protocol == EtherType::BRIDGED)?;
    if is_bridge {
        return Some(Event::Ethernet(content));
    }
    let is_meant = frame.dst() == mac_of(feed) || frame.dst().is_multicast();
    let packet = content.get(frame.header_len()..).filter(|_| is_meant)?;
    ip::Packet::new_checked(packet).ok()?;
    Some(Event::Ip(packet))
}

/// Reads what a gateway may receive from its tunnel, for fuzzing: nothing may panic.
#[doc(hidden)]
pub fn fuzz_content(bytes: &[u8]) {
    for is_bridge in [false, true] {
        let _ = content(bytes, Ipv4Addr::LOCALHOST, is_bridge);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of the tunnel whose Ethernet frame goes to this address.
    fn tunnelled(dst: MacAddr, ethertype: EtherType) -> Vec<u8> {
        let inner = ipv4::Repr::new([10, 2, 0, 1].into(), [10, 1, 0, 1].into(), Protocol::ICMP, 0);
        let mut bytes = vec![0; 20 + 4 + 14 + 20];
        let outer = ipv4::Repr::new([192, 0, 2, 2].into(), [192, 0, 2, 1].into(), Protocol::GRE, 38);
        outer.emit(&mut bytes);
        gre::Repr { protocol: EtherType::BRIDGED }.emit(&mut bytes[20..]);
        ethernet::Repr::new(MacAddr([2, 0, 0, 0, 0, 1]), dst, ethertype).emit(&mut bytes[24..]);
        inner.emit(&mut bytes[38..]);
        bytes
    }

    #[test]
    fn packets_for_the_feed_and_groups_come_out_and_others_do_not() {
        let feed = Ipv4Addr::new(10, 1, 0, 1);
        for (dst, is_taken) in [
            (mac_of(feed), true),
            (MacAddr([1, 0, 0x5e, 0, 0, 9]), true),
            (MacAddr([2, 0, 10, 9, 9, 9]), false),
        ] {
            let bytes = tunnelled(dst, EtherType::IPV4);
            let event = content(&bytes, feed, false);
            assert_eq!(event.is_some(), is_taken, "{dst}");
            assert!(event.is_none_or(|event| matches!(event, Event::Ip(packet) if packet == &bytes[38..])));
            let event = content(&bytes, feed, true);
            assert!(matches!(event, Some(Event::Ethernet(frame)) if frame == &bytes[24..]));
        }
        let whole = tunnelled(mac_of(feed), EtherType::IPV4);
        for len in 0..whole.len() {
            assert!(content(&whole[..len], feed, false).is_none(), "{len} bytes");
        }
    }
}
