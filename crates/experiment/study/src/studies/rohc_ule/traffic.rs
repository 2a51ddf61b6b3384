//! Packets of the publication's traffic: UDP, and RTP streams that differ by their SSRC alone.

use std::net::IpAddr;

use bentpipe_wire::checksum::Pseudo;
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::{rtp, udp};

/// GSM full-rate frame of 20 ms, in bytes (RFC 3551, section 4.5.8).
pub(super) const GSM_LEN: usize = 33;
const GSM_TICKS: u32 = 160;
/// RTP's payload type of GSM.
const GSM: u8 = 3;

const PORTS: (u16, u16) = (30_000, 40_000);

/// Counting of IPv4's identification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ident {
    /// Incremented with each packet of the stream.
    Stream,
    /// Incremented with each packet of the host, which gives strides in each stream.
    Host,
    /// Not at all.
    Constant,
}

/// The network layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ip {
    V4(Ident),
    V6,
}

impl Ip {
    fn addresses(self) -> (IpAddr, IpAddr) {
        match self {
            Ip::V4(_) => ([192, 0, 2, 1].into(), [192, 0, 2, 130].into()),
            Ip::V6 => ([0x2001, 0xdb8, 0, 1, 0, 0, 0, 1].into(), [0x2001, 0xdb8, 0, 2, 0, 0, 0, 2].into()),
        }
    }

    /// The header's length in bytes.
    pub(super) fn header_len(self) -> usize {
        match self {
            Ip::V4(_) => 20,
            Ip::V6 => 40,
        }
    }
}

/// Streams that send in turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    pub(super) ip: Ip,
    /// Number of streams.
    pub(super) streams: usize,
    /// UDP payload in bytes.
    pub(super) payload_len: usize,
    /// Set if the payload begins with an RTP header.
    pub(super) is_rtp: bool,
    /// Set for streams of an earlier time, with other SSRCs.
    pub(super) is_old: bool,
}

impl Traffic {
    /// Creates a stream of UDP with a payload in bytes.
    pub(super) fn udp(ip: Ip, payload_len: usize) -> Traffic {
        Traffic { ip, streams: 1, payload_len, is_rtp: false, is_old: false }
    }

    /// Creates calls with GSM.
    pub(super) fn gsm(ip: Ip, streams: usize) -> Traffic {
        Traffic { ip, streams, payload_len: rtp::HEADER_LEN + GSM_LEN, is_rtp: true, is_old: false }
    }

    /// Returns packet `index` of all streams in turn.
    pub(super) fn packet(&self, index: usize) -> Vec<u8> {
        let (stream, number) = (index % self.streams, index / self.streams);
        self.packet_of(stream, number, index)
    }

    fn packet_of(&self, stream: usize, number: usize, index: usize) -> Vec<u8> {
        let (src, dst) = self.ip.addresses();
        let mut ip = ip::Repr::new(src, dst, Protocol::UDP, udp::HEADER_LEN + self.payload_len);
        if let (ip::Repr::V4(repr), Ip::V4(ident)) = (&mut ip, self.ip) {
            repr.ident = match ident {
                Ident::Stream => number,
                Ident::Host => index,
                Ident::Constant => 0,
            } as u16;
        }
        let mut packet = vec![0; ip.buffer_len() + udp::HEADER_LEN + self.payload_len];
        ip.emit(&mut packet);
        let datagram = &mut packet[ip.buffer_len()..];
        udp::Repr { src_port: PORTS.0, dst_port: PORTS.1, payload_len: self.payload_len }.emit(datagram);
        self.fill(&mut datagram[udp::HEADER_LEN..], stream, number, index);
        let mut datagram = udp::Datagram::new_checked(datagram).expect("as it was just written");
        datagram.fill_checksum(&Pseudo::new(src, dst, Protocol::UDP));
        packet
    }

    /// Writes the payload: an optional RTP header, the packet's index and a filling. The index identifies the packet
    /// at the other end; the filling varies the UDP checksum.
    fn fill(&self, mut payload: &mut [u8], stream: usize, number: usize, index: usize) {
        if self.is_rtp {
            let ticks = (number as u32).wrapping_mul(GSM_TICKS).wrapping_add(stream as u32 * 7919);
            let first_ssrc = if self.is_old { 0x01d0_0000 } else { 0x5eed_0000 };
            let header = rtp::Repr::new(GSM, number as u16, ticks, first_ssrc + stream as u32);
            header.emit(payload);
            payload = &mut payload[rtp::HEADER_LEN..];
        }
        let index = index as u32;
        let mixed = index.wrapping_add(1).wrapping_mul(0x9e37_79b9);
        for (byte, value) in payload.iter_mut().zip([index.to_be_bytes(), mixed.to_be_bytes()].concat()) {
            *byte = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_what_they_say() {
        for ip in [Ip::V4(Ident::Host), Ip::V6] {
            let traffic = Traffic::gsm(ip, 3);
            let packet = traffic.packet(7);
            assert_eq!(packet.len(), ip.header_len() + 8 + 12 + 33);
            let view = ip::Packet::new_checked(&packet[..]).expect("IP");
            let upper = view.upper().expect("UDP");
            let datagram = udp::Datagram::new_checked(upper.bytes).expect("UDP");
            let (src, dst) = (view.src(), view.dst());
            assert_eq!(datagram.verify_checksum(&Pseudo::new(src, dst, Protocol::UDP)), Ok(()));
            let rtp = rtp::Packet::new_checked(datagram.payload()).expect("RTP");
            assert_eq!((rtp.seq(), rtp.ssrc() & 0xff, rtp.payload_type()), (2, 1, GSM));
        }
    }
}
