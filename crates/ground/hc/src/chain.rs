//! Headers of a packet, as far as they are compressed.

use super::Error;

/// Length of an IPv4 header without options.
pub(crate) const IPV4_LEN: usize = 20;
/// Length of an IPv6 header without extension headers.
pub(crate) const IPV6_LEN: usize = 40;
/// Length of a UDP header.
pub(crate) const UDP_LEN: usize = 8;
/// Length of a TCP header without options.
pub(crate) const TCP_LEN: usize = 20;
/// Length of an RTP header without CSRC list.
pub(crate) const RTP_LEN: usize = 12;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Header behind the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upper {
    Tcp,
    Udp,
    Other,
}

/// Places of the headers in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) is_v4: bool,
    pub(crate) upper: Upper,
    /// Length of the IP header.
    pub(crate) ip_len: usize,
    /// Length of all headers that are compressed, RTP left out.
    pub(crate) len: usize,
}

impl Chain {
    /// Finds the headers of a packet. `None`: it has others than those that are compressed.
    pub(crate) fn of(bytes: &[u8]) -> Option<Chain> {
        let (is_v4, ip_len, protocol) = match bytes.first()? >> 4 {
            4 => (true, IPV4_LEN, *bytes.get(9)?),
            6 => (false, IPV6_LEN, *bytes.get(6)?),
            _ => return None,
        };
        // Neither options nor a fragment.
        let is_plain = !is_v4 || bytes[0] == 0x45 && u16_at(bytes, 6) & 0x3fff == 0;
        if !is_plain || bytes.len() < ip_len {
            return None;
        }
        let (upper, upper_len) = match protocol {
            TCP => (Upper::Tcp, usize::from(bytes.get(ip_len + 12)? >> 4) * 4),
            UDP => (Upper::Udp, UDP_LEN),
            _ => (Upper::Other, 0),
        };
        let is_possible = upper != Upper::Tcp || upper_len >= TCP_LEN;
        let chain = Chain { is_v4, upper, ip_len, len: ip_len + upper_len };
        (is_possible && bytes.len() >= chain.len).then_some(chain)
    }

    /// Returns `true` if a decompressor would compute the same lengths and checksum.
    pub(crate) fn is_restorable(&self, bytes: &[u8], len: usize) -> bool {
        let lengths = match self.is_v4 {
            true => usize::from(u16_at(bytes, 2)) == len && sum(&bytes[..IPV4_LEN], 0) == 0xffff,
            false => usize::from(u16_at(bytes, 4)) + IPV6_LEN == len,
        };
        let is_whole =
            self.upper != Upper::Udp || usize::from(u16_at(bytes, self.ip_len + 4)) == len - self.ip_len;
        lengths && is_whole
    }

    /// Writes lengths and IPv4 checksum of headers with `behind` bytes behind them.
    pub(crate) fn restore(&self, header: &mut [u8], behind: usize) -> Result<(), Error> {
        let len = header.len() + behind;
        if len > usize::from(u16::MAX) {
            return Err(Error::Malformed);
        }
        if self.upper == Upper::Udp {
            put_u16(header, self.ip_len + 4, (len - self.ip_len) as u16);
        }
        if self.is_v4 {
            put_u16(header, 2, len as u16);
            put_u16(header, 10, 0);
            let checksum = !sum(&header[..IPV4_LEN], 0);
            put_u16(header, 10, checksum);
        } else {
            put_u16(header, 4, (len - IPV6_LEN) as u16);
        }
        Ok(())
    }

    /// Returns `true` if the TCP checksum of a whole packet is right.
    pub(crate) fn has_right_tcp_checksum(&self, packet: &[u8]) -> bool {
        let addresses = if self.is_v4 { &packet[12..20] } else { &packet[8..40] };
        let segment = &packet[self.ip_len..];
        let pseudo = sum(addresses, u32::from(TCP) + segment.len() as u32);
        sum(segment, u32::from(pseudo)) == 0xffff
    }

    /// Returns the place of the first length field.
    pub(crate) fn first_length(&self) -> usize {
        if self.is_v4 { 2 } else { 4 }
    }

    /// Returns the place of the second length field, of UDP.
    pub(crate) fn second_length(&self) -> Option<usize> {
        (self.upper == Upper::Udp).then_some(self.ip_len + 4)
    }

    /// Returns `true` if constant fields of both IP headers are the same. A mask selects bits of the traffic class.
    pub(crate) fn has_same_ip(&self, a: &[u8], b: &[u8], class_mask: u8) -> bool {
        if !self.is_v4 {
            let class = |header: &[u8]| (header[0] << 4 | header[1] >> 4) & class_mask;
            let flow = |header: &[u8]| (header[0] >> 4, header[1] & 0xf, header[2], header[3]);
            return class(a) == class(b) && flow(a) == flow(b) && a[6..40] == b[6..40];
        }
        (a[1] ^ b[1]) & class_mask == 0 && a[0] == b[0] && a[6..10] == b[6..10] && a[12..20] == b[12..20]
    }

    /// Returns the two lowest bits of the traffic class (ECN).
    pub(crate) fn ecn(&self, header: &[u8]) -> u8 {
        if self.is_v4 { header[1] & 3 } else { header[1] >> 4 & 3 }
    }

    /// Sets the two lowest bits of the traffic class.
    pub(crate) fn set_ecn(&self, header: &mut [u8], ecn: u8) {
        if self.is_v4 {
            header[1] = header[1] & !3 | ecn & 3;
        } else {
            header[1] = header[1] & !0x30 | (ecn & 3) << 4;
        }
    }
}

/// Returns the 16 bits at `at`.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Returns the 32 bits at `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Writes 16 bits at `at`.
pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Writes 32 bits at `at`.
pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// Returns the sum in one's complement of 16-bit words.
fn sum(bytes: &[u8], start: u32) -> u16 {
    let words = bytes.chunks(2).map(|word| u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0)));
    let mut total = words.sum::<u64>() + u64::from(start);
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}
