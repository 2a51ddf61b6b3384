//! Segmentation offload: trains of TCP segments as one large packet of the kernel. It saves most of the system calls.
//! The network between sees every segment by itself, with true checksums.
//!
//! The header in front of each packet is `virtio_net_hdr` (virtio 1.2, section 5.1.6) in the machine's byte order.

use std::ops::Range;

use bentpipe_wire::ip::Protocol;
use bentpipe_wire::{ip, ipv4, ipv6, tcp};

/// Length in bytes of the offload header.
pub(crate) const HEADER_LEN: usize = 10;

/// The longest train: the largest IP packet.
const MAX_TRAIN: usize = 65_535;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_ECN: u8 = 0x80;

/// Offsets in a TCP header.
mod field {
    pub(super) const SEQ: usize = 4;
    pub(super) const FLAGS: usize = 13;
    pub(super) const CHECKSUM: usize = 16;
}

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const CWR: u8 = 0x80;

/// The offload header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    flags: u8,
    gso_type: u8,
    header_len: u16,
    segment_len: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

impl Header {
    fn read(bytes: &[u8; HEADER_LEN]) -> Header {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Header {
            flags: bytes[0],
            gso_type: bytes[1],
            header_len: word(2),
            segment_len: word(4),
            checksum_start: word(6),
            checksum_offset: word(8),
        }
    }

    fn write(&self, bytes: &mut [u8]) {
        bytes[..2].copy_from_slice(&[self.flags, self.gso_type]);
        let words = [self.header_len, self.segment_len, self.checksum_start, self.checksum_offset];
        for (at, word) in words.iter().enumerate() {
            bytes[2 + 2 * at..4 + 2 * at].copy_from_slice(&word.to_ne_bytes());
        }
    }
}

/// Returns the offload header of a packet whose start moved by `by` bytes. Its offsets move too.
pub(crate) fn moved(bytes: &[u8; HEADER_LEN], by: i16) -> [u8; HEADER_LEN] {
    let mut header = Header::read(bytes);
    if header.flags & NEEDS_CHECKSUM != 0 {
        header.checksum_start = header.checksum_start.saturating_add_signed(by);
    }
    if header.gso_type != 0 {
        header.header_len = header.header_len.saturating_add_signed(by);
    }
    let mut moved = [0; HEADER_LEN];
    header.write(&mut moved);
    moved
}

/// Layout of a TCP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Offset of the TCP header.
    tcp: usize,
    /// Offset of the payload.
    payload: usize,
    is_v6: bool,
}

/// Returns the layout of an unfragmented TCP packet without IP options or extension headers.
fn layout(packet: &[u8]) -> Option<Layout> {
    let (is_v6, tcp) = match packet.first()? >> 4 {
        4 => {
            let header = ipv4::Packet::new_checked(packet).ok()?;
            let whole = !header.more_fragments() && header.fragment_offset() == 0;
            (whole && header.protocol() == Protocol::TCP && header.header_len() == ipv4::HEADER_LEN)
                .then_some((false, ipv4::HEADER_LEN))?
        }
        6 => {
            let header = ipv6::Packet::new_checked(packet).ok()?;
            (header.next_header() == Protocol::TCP).then_some((true, ipv6::HEADER_LEN))?
        }
        _ => return None,
    };
    let segment = tcp::Segment::new_checked(packet.get(tcp..)?).ok()?;
    Some(Layout { tcp, payload: tcp + segment.header_len(), is_v6 })
}

/// Writes lengths and the IPv4 checksum for a packet of `len` bytes.
fn patch_ip(packet: &mut [u8], layout: Layout, len: usize) {
    if layout.is_v6 {
        packet[4..6].copy_from_slice(&((len - ipv6::HEADER_LEN) as u16).to_be_bytes());
    } else {
        packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        ipv4::Packet::new_unchecked(packet).fill_checksum();
    }
}

fn pseudo(packet: &[u8]) -> Option<bentpipe_wire::checksum::Pseudo> {
    let header = ip::Packet::new_checked(packet).ok()?;
    Some(bentpipe_wire::checksum::Pseudo::new(header.src(), header.dst(), Protocol::TCP))
}

/// Segmentation of a packet from the kernel into packets of the wire.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    train: Vec<u8>,
    layout: Option<Layout>,
    segment_len: usize,
    /// The payload not yet given.
    left: Range<usize>,
    given: u16,
}

impl Splitter {
    /// Returns `true` once every segment was given.
    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Starts with the offload header and the packet that the kernel gave. Gives the packet back through `out` if it
    /// is to be sent as it is; otherwise its segments follow from [`Splitter::next`].
    pub(crate) fn take(&mut self, bytes: &[u8], out: &mut [u8]) -> Option<usize> {
        let (header, packet) = bytes.split_first_chunk::<HEADER_LEN>()?;
        let header = Header::read(header);
        if header.gso_type & !GSO_ECN != 0 && self.start(packet, usize::from(header.segment_len)) {
            return self.next(out);
        }
        let out = out.get_mut(..packet.len())?;
        out.copy_from_slice(packet);
        if header.flags & NEEDS_CHECKSUM != 0 {
            finish_checksum(out, header);
        }
        Some(packet.len())
    }

    fn start(&mut self, packet: &[u8], segment_len: usize) -> bool {
        let Some(layout) = layout(packet).filter(|_| segment_len > 0) else { return false };
        self.train.clear();
        self.train.extend_from_slice(packet);
        self.left = layout.payload..packet.len();
        (self.layout, self.segment_len, self.given) = (Some(layout), segment_len, 0);
        !self.left.is_empty()
    }

    /// The next segment, into `out`; its length.
    pub(crate) fn next(&mut self, out: &mut [u8]) -> Option<usize> {
        let layout = self.layout.filter(|_| !self.left.is_empty())?;
        let payload = self.left.start..self.left.end.min(self.left.start + self.segment_len);
        let len = layout.payload + payload.len();
        let packet = out.get_mut(..len)?;
        packet[..layout.payload].copy_from_slice(&self.train[..layout.payload]);
        packet[layout.payload..].copy_from_slice(&self.train[payload.clone()]);
        self.left.start = payload.end;
        self.patch(packet, layout, (payload.start - layout.payload) as u32);
        self.given = self.given.wrapping_add(1);
        Some(len)
    }

    /// Turns a copied header into that of the segment `offset` bytes into the train.
    fn patch(&self, packet: &mut [u8], layout: Layout, offset: u32) {
        if !layout.is_v6 {
            let ident = u16::from_be_bytes([packet[4], packet[5]]).wrapping_add(self.given);
            packet[4..6].copy_from_slice(&ident.to_be_bytes());
        }
        patch_ip(packet, layout, packet.len());
        let segment = &mut packet[layout.tcp..];
        let seq = read_seq(segment).wrapping_add(offset);
        segment[field::SEQ..field::SEQ + 4].copy_from_slice(&seq.to_be_bytes());
        if !self.left.is_empty() {
            segment[field::FLAGS] &= !(FIN | PSH);
        }
        if offset > 0 {
            segment[field::FLAGS] &= !CWR;
        }
        if let Some(pseudo) = pseudo(packet) {
            tcp::Segment::new_unchecked(&mut packet[layout.tcp..]).fill_checksum(&pseudo);
        }
    }
}

fn read_seq(segment: &[u8]) -> u32 {
    u32::from_be_bytes([segment[4], segment[5], segment[6], segment[7]])
}

/// Completes a checksum that the kernel left to the device. The field holds the pseudo-header's sum already.
fn finish_checksum(packet: &mut [u8], header: Header) {
    let (start, offset) = (usize::from(header.checksum_start), usize::from(header.checksum_offset));
    let Some(covered) = packet.get(start..).filter(|covered| covered.len() >= offset + 2) else { return };
    let sum = bentpipe_wire::checksum::checksum(covered);
    // A UDP checksum of zero would mean that there is none (RFC 768); its other form is all ones.
    let sum = if sum == 0 { 0xffff } else { sum };
    packet[start + offset..start + offset + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Joins consecutive segments of one connection to a train for the kernel.
///
/// Only segments whose checksum is right are joined, since a train carries none: a damaged segment goes through as it is,
/// and the kernel's TCP sees the damage.
#[derive(Debug)]
pub(crate) struct Joiner {
    /// Room for the offload header, then the train.
    train: Vec<u8>,
    layout: Layout,
    segment_len: usize,
    segments: u16,
}

impl Default for Joiner {
    fn default() -> Joiner {
        let layout = Layout { tcp: 0, payload: 0, is_v6: false };
        let train = Vec::with_capacity(HEADER_LEN + MAX_TRAIN);
        Joiner { train, layout, segment_len: 0, segments: 0 }
    }
}

impl Joiner {
    /// Adds a packet to be sent. Calls `write` with what is complete now: an offload header and a packet each time.
    ///
    /// # Errors
    /// Those of `write`.
    pub(crate) fn push<E>(
        &mut self,
        packet: &[u8],
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let joinable = joinable(packet);
        if let Some(layout) = joinable.filter(|&layout| self.continues(packet, layout)) {
            self.train.extend_from_slice(&packet[layout.payload..]);
            self.segments += 1;
            let ends = packet.len() - layout.payload < self.segment_len || has_push(packet, layout);
            self.train[HEADER_LEN + layout.tcp + field::FLAGS] |= packet[layout.tcp + field::FLAGS] & PSH;
            return if ends { self.flush(write) } else { Ok(()) };
        }
        self.flush(&mut write)?;
        self.train.clear();
        self.train.resize(HEADER_LEN, 0);
        self.train.extend_from_slice(packet);
        self.segments = 1;
        match joinable {
            Some(layout) if !has_push(packet, layout) => {
                (self.layout, self.segment_len) = (layout, packet.len() - layout.payload);
                Ok(())
            }
            _ => self.flush(write),
        }
    }

    /// Writes what is held back.
    ///
    /// # Errors
    /// Those of `write`.
    pub(crate) fn flush<E>(&mut self, mut write: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        match std::mem::take(&mut self.segments) {
            0 => Ok(()),
            1 => write(&self.train),
            _ => {
                self.finish();
                write(&self.train)
            }
        }
    }

    fn continues(&self, packet: &[u8], layout: Layout) -> bool {
        if self.segments == 0 || self.layout != layout {
            return false;
        }
        let train = &self.train[HEADER_LEN..];
        let sent = (train.len() - layout.payload) as u32;
        let expected = read_seq(&train[layout.tcp..]).wrapping_add(sent);
        let payload_len = packet.len() - layout.payload;
        read_seq(&packet[layout.tcp..]) == expected
            && payload_len <= self.segment_len
            && train.len() + payload_len <= MAX_TRAIN
            && same_headers(train, packet, layout)
    }

    /// Turns the first segment's headers into those of the train.
    fn finish(&mut self) {
        let (layout, segment_len) = (self.layout, self.segment_len);
        let len = self.train.len() - HEADER_LEN;
        patch_ip(&mut self.train[HEADER_LEN..], layout, len);
        let sum = pseudo(&self.train[HEADER_LEN..]).map_or(0, |pseudo| pseudo.sum(len - layout.tcp).fold());
        let at = HEADER_LEN + layout.tcp + field::CHECKSUM;
        self.train[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        let header = Header {
            flags: NEEDS_CHECKSUM,
            gso_type: if layout.is_v6 { GSO_TCPV6 } else { GSO_TCPV4 },
            header_len: layout.payload as u16,
            segment_len: segment_len as u16,
            checksum_start: layout.tcp as u16,
            checksum_offset: field::CHECKSUM as u16,
        };
        header.write(&mut self.train[..HEADER_LEN]);
    }
}

/// Returns the layout of a packet that may be part of a train. It has data, no flags but ACK and PSH, and a right
/// checksum.
fn joinable(packet: &[u8]) -> Option<Layout> {
    let layout = layout(packet).filter(|layout| layout.payload < packet.len())?;
    let segment = tcp::Segment::new_checked(&packet[layout.tcp..]).ok()?;
    let plain = packet[layout.tcp + field::FLAGS] & !PSH == ACK;
    (plain && segment.verify_checksum(&pseudo(packet)?).is_ok()).then_some(layout)
}

fn has_push(packet: &[u8], layout: Layout) -> bool {
    packet[layout.tcp + field::FLAGS] & PSH != 0
}

/// Returns `true` if all that segments of a train share is the same. That is addresses, ports, ACK, window and options,
/// but not the lengths, the IPv4 identification, the sequence number, PSH and the checksums.
fn same_headers(train: &[u8], packet: &[u8], layout: Layout) -> bool {
    let same = |range: Range<usize>| train[range.clone()] == packet[range];
    let ip = if layout.is_v6 { same(0..4) && same(6..40) } else { same(0..2) && same(6..10) && same(12..20) };
    let tcp = layout.tcp;
    ip && same(tcp..tcp + field::SEQ)
        && same(tcp + 8..tcp + field::FLAGS)
        && same(tcp + field::FLAGS + 1..tcp + field::CHECKSUM)
        && same(tcp + 18..layout.payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_wire::checksum::Pseudo;

    fn segment(is_v6: bool, seq: u32, payload: &[u8], flags: u8) -> Vec<u8> {
        let (src, dst): (std::net::IpAddr, std::net::IpAddr) = match is_v6 {
            true => ("fd00::1".parse().expect("address"), "fd00::2".parse().expect("address")),
            false => ("10.0.0.1".parse().expect("address"), "10.0.0.2".parse().expect("address")),
        };
        let mut header = tcp::Repr::new(1000, 2000, tcp::SeqNumber(seq));
        header.ack = Some(tcp::SeqNumber(7));
        let ip = ip::Repr::new(src, dst, Protocol::TCP, header.buffer_len() + payload.len());
        let mut packet = vec![0; ip.buffer_len() + header.buffer_len()];
        ip.emit(&mut packet);
        header.emit(&mut packet[ip.buffer_len()..]);
        packet.extend_from_slice(payload);
        packet[ip.buffer_len() + field::FLAGS] = flags;
        let pseudo = Pseudo::new(src, dst, Protocol::TCP);
        tcp::Segment::new_unchecked(&mut packet[ip.buffer_len()..]).fill_checksum(&pseudo);
        packet
    }

    fn payload(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 7) as u8).collect()
    }

    fn join(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let (mut joiner, mut written) = (Joiner::default(), Vec::new());
        let mut write = |bytes: &[u8]| -> Result<(), ()> {
            written.push(bytes.to_vec());
            Ok(())
        };
        packets.iter().for_each(|packet| joiner.push(packet, &mut write).expect("no error"));
        joiner.flush(&mut write).expect("no error");
        written
    }

    fn split(train: &[u8]) -> Vec<Vec<u8>> {
        let (mut splitter, mut out, mut packets) = (Splitter::default(), vec![0; 70_000], Vec::new());
        let mut len = splitter.take(train, &mut out);
        while let Some(some) = len {
            packets.push(out[..some].to_vec());
            len = splitter.next(&mut out);
        }
        packets
    }

    /// The IPv4 identification is the one field that a train does not keep for each segment.
    fn without_ident(mut packet: Vec<u8>) -> Vec<u8> {
        if packet[0] >> 4 == 4 {
            packet[4..6].fill(0);
            packet[10..12].fill(0);
        }
        packet
    }

    #[test]
    fn a_train_is_taken_apart_into_what_it_was_made_of() {
        for is_v6 in [false, true] {
            let data = payload(5 * 1400 + 300);
            let chunks: Vec<&[u8]> = data.chunks(1400).collect();
            let flags = |i| if i + 1 == chunks.len() { ACK | PSH } else { ACK };
            let packets: Vec<Vec<u8>> = chunks
                .iter()
                .enumerate()
                .map(|(i, chunk)| {
                    segment(is_v6, (u32::MAX - 2000).wrapping_add(1400 * i as u32), chunk, flags(i))
                })
                .collect();
            let trains = join(&packets);
            assert_eq!(trains.len(), 1);
            let parts: Vec<Vec<u8>> = split(&trains[0]).into_iter().map(without_ident).collect();
            assert_eq!(parts, packets.into_iter().map(without_ident).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_does_not_belong_together_is_not_joined() {
        let data = payload(1000);
        let first = segment(false, 1, &data, ACK);
        assert_eq!(join(&[first.clone(), segment(false, 2001, &data, ACK)]).len(), 2, "a gap");
        assert_eq!(join(&[first.clone(), segment(true, 1001, &data, ACK)]).len(), 2, "another IP version");
        assert_eq!(join(&[first.clone(), segment(false, 1001, &data, ACK | FIN)]).len(), 2, "a FIN");
        let mut damaged = segment(false, 1001, &data, ACK);
        damaged[100] ^= 1;
        let written = join(&[first.clone(), damaged.clone()]);
        assert_eq!(written.len(), 2, "a damaged segment");
        assert_eq!(written[1][HEADER_LEN..], damaged, "which goes through as it is");
        assert_eq!(join(&[first, segment(false, 1001, &data, ACK)]).len(), 1);
    }

    #[test]
    fn a_checksum_left_to_the_device_is_completed() {
        let whole = segment(false, 1, &payload(99), ACK);
        let mut bytes = vec![0; HEADER_LEN];
        let header =
            Header { flags: NEEDS_CHECKSUM, checksum_start: 20, checksum_offset: 16, ..Header::default() };
        header.write(&mut bytes);
        bytes.extend_from_slice(&whole);
        let partial = pseudo(&whole).expect("an IP packet").sum(whole.len() - 20).fold();
        bytes[HEADER_LEN + 36..HEADER_LEN + 38].copy_from_slice(&partial.to_be_bytes());
        assert_eq!(split(&bytes), [whole]);
    }

    #[test]
    fn any_bytes_are_taken() {
        let mut state = 1_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let len = (state >> 40) as usize % 120;
            let bytes: Vec<u8> = (0..len).map(|i| (state >> (i % 57)) as u8).collect();
            assert!(split(&bytes).len() <= 1 + len);
            join(&[bytes]);
        }
    }
}
