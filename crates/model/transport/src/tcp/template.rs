//! Segments as packets: what all of a connection have in common is written once.

use std::net::SocketAddr;

use bentpipe_net::Packet;
use bentpipe_wire::checksum::Pseudo;
use bentpipe_wire::ip::{self, Ecn, Protocol, TrafficClass};
use bentpipe_wire::quick_start::IpOption;
use bentpipe_wire::tcp::{self, Flags, Options, SeqNumber};

use super::plain::Plain;
use super::segment::{Extras, Incoming, Outgoing};
use crate::datagram::Path;

/// Common part of all segments of a connection.
#[derive(Clone, Debug)]
pub(super) struct Template {
    plain: Option<Plain>,
    ident: u16,
    ip: ip::Repr,
    pseudo: Pseudo,
    local: SocketAddr,
    remote: SocketAddr,
}

impl Template {
    /// Creates the headers from `local` to `remote`; returns `None` if their IP versions differ.
    pub(super) fn new(local: SocketAddr, remote: SocketAddr) -> Option<Template> {
        if local.is_ipv4() != remote.is_ipv4() {
            return None;
        }
        let ip = ip::Repr::new(local.ip(), remote.ip(), Protocol::TCP, 0);
        let pseudo = Pseudo::new(local.ip(), remote.ip(), Protocol::TCP);
        Some(Template { plain: None, ident: 0, ip, pseudo, local, remote })
    }

    /// Returns the packet that carries `segment`.
    #[inline]
    pub(super) fn packet(&mut self, segment: &Outgoing) -> Packet {
        self.ident = self.ident.wrapping_add(1);
        match (&self.plain, segment.ack) {
            (Some(plain), Some(ack)) if plain.fits(&segment.extras) => plain.packet(segment, ack, self.ident),
            _ => self.any_packet(segment),
        }
    }

    /// Selects the headers of an established connection. Most segments carry `timestamps` and no other
    /// option, or none.
    pub(super) fn settle(&mut self, timestamps: bool) {
        let extras = if timestamps { Extras::Timestamps(0, 0) } else { Extras::None };
        let none = SeqNumber(0);
        let blank = Outgoing {
            seq: none,
            ack: Some(none),
            flags: Flags::NONE,
            window: 0,
            extras,
            len: 0,
            ect: false,
        };
        let packet = self.any_packet(&blank);
        self.plain = Some(Plain::new(packet, self.local, self.remote, &self.pseudo));
    }

    /// Returns the segment in a packet of the usual form. Any other is for [`Incoming::parse`].
    #[inline]
    pub(super) fn read(&self, packet: &Packet) -> Option<Incoming> {
        self.plain.as_ref()?.read(packet)
    }

    /// Returns the packet that carries `segment`, with a Quick-Start option in its IP header.
    pub(super) fn packet_with(&mut self, option: &IpOption, segment: &Outgoing) -> Packet {
        self.ident = self.ident.wrapping_add(1);
        let repr = self.repr(segment);
        let mut tcp = vec![0; repr.buffer_len()];
        repr.emit(&mut tcp);
        self.fill_checksum(&mut tcp, segment.len as usize);
        let path = Path::new(self.local, self.remote, 0).expect("one IP version, and a codepoint there is");
        path.packet(Protocol::TCP, Some(option), &tcp, segment.len)
    }

    /// Returns the bytes of a segment that are not data.
    pub(super) fn header_len(&self, timestamps: bool) -> u64 {
        let options = if timestamps { Options::timestamps(0, 0).buffer_len() } else { 0 };
        (self.ip.buffer_len() + tcp::HEADER_LEN + options) as u64
    }

    fn repr(&self, segment: &Outgoing) -> tcp::Repr {
        tcp::Repr {
            src_port: self.local.port(),
            dst_port: self.remote.port(),
            seq: segment.seq,
            ack: segment.ack,
            flags: segment.flags,
            window: segment.window,
            urgent: None,
            options: segment.extras.options(),
        }
    }

    fn any_packet(&mut self, segment: &Outgoing) -> Packet {
        let repr = self.repr(segment);
        let tcp_len = repr.buffer_len();
        self.prepare_ip(tcp_len + segment.len as usize, segment.ect);
        let ip_len = self.ip.buffer_len();
        let mut packet = Packet::new(ip_len + tcp_len, segment.len);
        let (ip, tcp) = packet.header_mut().split_at_mut(ip_len);
        self.ip.emit(ip);
        repr.emit(tcp);
        self.fill_checksum(tcp, segment.len as usize);
        packet
    }

    #[inline]
    fn prepare_ip(&mut self, payload_len: usize, ect: bool) {
        let class = TrafficClass::default().with_ecn(if ect { Ecn::Ect0 } else { Ecn::NotEct });
        match &mut self.ip {
            ip::Repr::V4(repr) => {
                repr.payload_len = payload_len;
                repr.traffic_class = class;
                repr.ident = self.ident;
            }
            ip::Repr::V6(repr) => {
                repr.payload_len = payload_len;
                repr.traffic_class = class;
            }
        }
    }

    #[inline]
    fn fill_checksum(&self, tcp: &mut [u8], elided: usize) {
        if let Ok(mut segment) = tcp::Segment::new_elided(tcp, elided) {
            segment.fill_checksum(&self.pseudo);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn patched_headers_are_what_the_wire_format_says(
            numbers in any::<[u32; 4]>(),
            window: u16,
            bits in 0u16..0x100,
            len in 0u32..60_000,
            switches in any::<[bool; 3]>(),
        ) {
            let [v6, timestamps, ect] = switches;
            let ends = if v6 { ("[2001:db8::1]:1", "[2001:db8::2]:2") } else { ("10.0.0.1:1", "10.0.0.2:2") };
            let (local, remote) = (ends.0.parse().unwrap(), ends.1.parse().unwrap());
            let [seq, ack, tsval, tsecr] = numbers;
            let extras = if timestamps { Extras::Timestamps(tsval, tsecr) } else { Extras::None };
            let flags = Flags::from_bits(bits).without(Flags::URG);
            let (seq, ack) = (SeqNumber(seq), Some(SeqNumber(ack)));
            let segment = Outgoing { seq, ack, flags, window, extras, len, ect };
            let slow = Template::new(local, remote).unwrap().packet(&segment);
            let mut template = Template::new(local, remote).unwrap();
            template.settle(timestamps);
            prop_assert_eq!(template.packet(&segment).to_vec(), slow.to_vec());
        }

        /// Checks the fast path against the general path, with any bit flipped.
        #[test]
        fn segments_are_recognised_as_they_are_read(
            numbers in any::<[u32; 4]>(),
            window: u16,
            bits in 0u16..0x100,
            len in 0u32..60_000,
            timestamps: bool,
            wrong in proptest::option::of(0u64..416),
        ) {
            let (local, remote) = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap());
            let [seq, ack, tsval, tsecr] = numbers;
            let extras = if timestamps { Extras::Timestamps(tsval, tsecr) } else { Extras::None };
            let flags = Flags::from_bits(bits).without(Flags::URG);
            let (seq, ack) = (SeqNumber(seq), Some(SeqNumber(ack)));
            let segment = Outgoing { seq, ack, flags, window, extras, len, ect: false };
            let mut packet = Template::new(remote, local).unwrap().packet(&segment);
            let mut template = Template::new(local, remote).unwrap();
            template.settle(timestamps);
            prop_assert!(template.read(&packet).is_some());
            wrong.into_iter().for_each(|bit| packet.flip_bit(bit));
            if let Some(read) = template.read(&packet) {
                let long = Incoming::parse(&packet, local).map(|long| format!("{long:?}"));
                prop_assert_eq!(long, Some(format!("{read:?}")));
            }
        }
    }
}
