//! The headers of nearly all segments of a long transfer, written once and then only patched: IP without options or
//! extension headers, TCP with timestamps as its only option or none.
//!
//! The checksums are made from the sum of what stays and the fields that change; nothing is read again.

use bentpipe_wire::checksum::{Pseudo, Sum};
use bentpipe_wire::tcp::{Flags, SeqNumber};

use super::segment::{Extras, Outgoing};
use crate::Packet;

/// Offsets in the IPv4 header.
mod v4 {
    pub(super) const LEN: usize = 20;
    pub(super) const TOS: usize = 1;
    pub(super) const TOTAL_LEN: usize = 2;
    pub(super) const IDENT: usize = 4;
    pub(super) const CHECKSUM: usize = 10;
}

/// Offsets in the IPv6 header.
mod v6 {
    pub(super) const LEN: usize = 40;
    /// The low bits of the traffic class, ECN lowest, then the flow label.
    pub(super) const CLASS: usize = 1;
    pub(super) const PAYLOAD_LEN: usize = 4;
}

/// Offsets in the TCP header, options included.
mod tcp {
    pub(super) const SEQ: usize = 4;
    pub(super) const ACK: usize = 8;
    pub(super) const FLAGS: usize = 13;
    pub(super) const WINDOW: usize = 14;
    pub(super) const CHECKSUM: usize = 16;
    pub(super) const TSVAL: usize = 24;
    pub(super) const TSECR: usize = 28;
    pub(super) const LEN: usize = 20;
}

/// ECT(0).
const ECT0: u8 = 2;

/// Headers to be patched. The fields that change are zero in them, and so are the checksums.
#[derive(Clone, Debug)]
pub(super) struct Plain {
    head: [u8; v6::LEN + tcp::LEN + 12],
    len: usize,
    ip_len: usize,
    ip_sum: Sum,
    tcp_sum: Sum,
}

impl Plain {
    /// From the headers of a segment without payload whose numbers, window and timestamps are zero.
    pub(super) fn new(header: &[u8], ip_len: usize, pseudo: &Pseudo) -> Plain {
        let mut head = [0; v6::LEN + tcp::LEN + 12];
        head[..header.len()].copy_from_slice(header);
        let changing: &[usize] =
            if ip_len == v4::LEN { &[v4::TOTAL_LEN, v4::IDENT, v4::CHECKSUM] } else { &[v6::PAYLOAD_LEN] };
        let changing = changing.iter().copied().chain([ip_len + tcp::CHECKSUM]);
        changing.for_each(|at| head[at..at + 2].fill(0));
        let (ip, tcp) = head[..header.len()].split_at(ip_len);
        let (ip_sum, tcp_sum) = (Sum::ZERO.add_bytes(ip), pseudo.sum(tcp.len()).add_bytes(tcp));
        Plain { head, len: header.len(), ip_len, ip_sum, tcp_sum }
    }

    /// Whether these are the headers for a segment with `extras`.
    #[inline]
    pub(super) fn fits(&self, extras: &Extras) -> bool {
        let has_timestamps = self.len > self.ip_len + tcp::LEN;
        match extras {
            Extras::None => !has_timestamps,
            Extras::Timestamps(..) => has_timestamps,
            Extras::Other(_) => false,
        }
    }

    /// The packet that carries `segment` with the acknowledgement `ack`.
    #[inline]
    pub(super) fn packet(&self, segment: &Outgoing, ack: SeqNumber, ident: u16) -> Packet {
        let mut packet = Packet::new(self.len, segment.len);
        let header = packet.header_mut();
        header.copy_from_slice(&self.head[..self.len]);
        let (ip, tcp) = header.split_at_mut(self.ip_len);
        self.patch_tcp(tcp, segment, ack);
        if self.ip_len == v4::LEN {
            self.patch_v4(ip, segment, ident);
        } else {
            self.patch_v6(ip, segment);
        }
        packet
    }

    #[inline]
    fn patch_tcp(&self, header: &mut [u8], segment: &Outgoing, ack: SeqNumber) {
        let flags = (segment.flags | Flags::ACK).bits() as u8;
        let fixed = self.tcp_sum.add(segment.seq.0.into()).add(ack.0.into());
        // The template has the ACK flag already.
        let flag_change = u64::from(flags) - u64::from(Flags::ACK.bits());
        let mut sum = fixed.add(flag_change).add(segment.window.into()).add(segment.len.into());
        put(header, tcp::SEQ, segment.seq.0.to_be_bytes());
        put(header, tcp::ACK, ack.0.to_be_bytes());
        header[tcp::FLAGS] = flags;
        put(header, tcp::WINDOW, segment.window.to_be_bytes());
        if let Extras::Timestamps(tsval, tsecr) = segment.extras {
            put(header, tcp::TSVAL, tsval.to_be_bytes());
            put(header, tcp::TSECR, tsecr.to_be_bytes());
            sum = sum.add(tsval.into()).add(tsecr.into());
        }
        put(header, tcp::CHECKSUM, sum.checksum().to_be_bytes());
    }

    #[inline]
    fn patch_v4(&self, header: &mut [u8], segment: &Outgoing, ident: u16) {
        let (total_len, tos) = (self.len as u32 + segment.len, if segment.ect { ECT0 } else { 0 });
        let sum = self.ip_sum.add(total_len.into()).add(ident.into()).add(tos.into());
        header[v4::TOS] = tos;
        put(header, v4::TOTAL_LEN, (total_len as u16).to_be_bytes());
        put(header, v4::IDENT, ident.to_be_bytes());
        put(header, v4::CHECKSUM, sum.checksum().to_be_bytes());
    }

    #[inline]
    fn patch_v6(&self, header: &mut [u8], segment: &Outgoing) {
        let payload_len = (self.len - self.ip_len) as u32 + segment.len;
        header[v6::CLASS] |= if segment.ect { ECT0 << 4 } else { 0 };
        put(header, v6::PAYLOAD_LEN, (payload_len as u16).to_be_bytes());
    }
}

#[inline]
fn put<const N: usize>(header: &mut [u8], at: usize, bytes: [u8; N]) {
    header[at..at + N].copy_from_slice(&bytes);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::tcp::segment::{Extras, Outgoing, Template};
    use bentpipe_wire::tcp::{Flags, SeqNumber};

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
    }
}
