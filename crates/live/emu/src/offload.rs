//! Segmentation offload: trains of TCP segments or UDP datagrams as one packet. It saves most of the
//! system calls. The network between sees every packet by itself, with true checksums.
//!
//! The header in front of each packet is `virtio_net_hdr` (virtio 1.2, section 5.1.6) in the machine's byte order.

use std::ops::Range;

use bentpipe_wire::ip::Protocol;
use bentpipe_wire::{ip, ipv4, ipv6, tcp, udp};

/// Length in bytes of the offload header.
pub(crate) const HEADER_LEN: usize = 10;

/// The longest train: the largest IP packet.
const MAX_TRAIN: usize = 65_535;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
/// UDP segmentation offload (`VIRTIO_NET_HDR_GSO_UDP_L4`).
const GSO_UDP: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// Maximum number of datagrams in a train (`UDP_MAX_SEGMENTS` of older kernels).
const MAX_DATAGRAMS: u16 = 64;

/// Offset of the length in a UDP header, and of the checksum.
const UDP_LEN: usize = 4;
const UDP_CHECKSUM: usize = 6;

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

/// Layout of a TCP or UDP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Offset of the TCP or UDP header.
    transport: usize,
    /// Offset of the payload.
    payload: usize,
    is_v6: bool,
    is_udp: bool,
}

/// Returns the layout of an unfragmented TCP or UDP packet without IP options.
fn layout(packet: &[u8]) -> Option<Layout> {
    let (is_v6, protocol, transport) = match packet.first()? >> 4 {
        4 => {
            let header = ipv4::Packet::new_checked(packet).ok()?;
            let whole = !header.more_fragments() && header.fragment_offset() == 0;
            (whole && header.header_len() == ipv4::HEADER_LEN).then_some((
                false,
                header.protocol(),
                ipv4::HEADER_LEN,
            ))?
        }
        6 => {
            let header = ipv6::Packet::new_checked(packet).ok()?;
            (true, header.next_header(), ipv6::HEADER_LEN)
        }
        _ => return None,
    };
    let rest = packet.get(transport..)?;
    let (header_len, is_udp) = match protocol {
        Protocol::TCP => (tcp::Segment::new_checked(rest).ok()?.header_len(), false),
        // A train from the kernel has its whole length here.
        Protocol::UDP if rest.len() >= udp::HEADER_LEN => (udp::HEADER_LEN, true),
        _ => return None,
    };
    Some(Layout { transport, payload: transport + header_len, is_v6, is_udp })
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

fn pseudo(packet: &[u8], is_udp: bool) -> Option<bentpipe_wire::checksum::Pseudo> {
    let header = ip::Packet::new_checked(packet).ok()?;
    let protocol = if is_udp { Protocol::UDP } else { Protocol::TCP };
    Some(bentpipe_wire::checksum::Pseudo::new(header.src(), header.dst(), protocol))
}

/// Writes the length of a UDP datagram, from its header on.
fn patch_udp(datagram: &mut [u8]) {
    let len = datagram.len() as u16;
    datagram[UDP_LEN..UDP_LEN + 2].copy_from_slice(&len.to_be_bytes());
}

/// Train of TCP given as one segment.
#[derive(Debug)]
struct Whole {
    len: usize,
    /// Addresses and ports.
    ends: Vec<u8>,
    segment_len: u16,
}

/// Segmentation of a packet from the kernel into packets of the wire.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    /// Set if trains of TCP are given as one segment.
    keeps_trains: bool,
    /// Trains so given since [`Splitter::forget_trains`].
    wholes: Vec<Whole>,
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
        if self.keeps_trains && matches!(header.gso_type & !GSO_ECN, GSO_TCPV4 | GSO_TCPV6) {
            self.note(packet, header.segment_len);
        } else if header.gso_type & !GSO_ECN != 0 && self.start(packet, usize::from(header.segment_len)) {
            return self.next(out);
        }
        let out = out.get_mut(..packet.len())?;
        out.copy_from_slice(packet);
        if header.flags & NEEDS_CHECKSUM != 0 {
            finish_checksum(out, header);
        }
        Some(packet.len())
    }

    /// Turns trains of TCP into one segment each.
    ///
    /// For a program whose own TCP takes them.
    pub(crate) fn keep_trains(&mut self) {
        self.keeps_trains = true;
    }

    /// Remembers the length of a train's segments.
    fn note(&mut self, packet: &[u8], segment_len: u16) {
        if let Some(layout) = layout(packet) {
            self.wholes.push(Whole { len: packet.len(), ends: ends(packet, layout).to_vec(), segment_len });
        }
    }

    /// Forgets the trains that were given as one segment.
    pub(crate) fn forget_trains(&mut self) {
        self.wholes.clear();
    }

    /// Returns the length of the segments of a train that was given as one segment. `None` if the packet is an ordinary one.
    pub(crate) fn segment_len(&self, packet: &[u8]) -> Option<u16> {
        let mut alike = self.wholes.iter().filter(|whole| whole.len == packet.len()).peekable();
        alike.peek()?;
        let ends = ends(packet, layout(packet)?);
        alike.find(|whole| whole.ends[..] == *ends).map(|whole| whole.segment_len)
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
        let segment = &mut packet[layout.transport..];
        if layout.is_udp {
            patch_udp(segment);
            if let Some(pseudo) = pseudo(packet, true) {
                udp::Datagram::new_unchecked(&mut packet[layout.transport..]).fill_checksum(&pseudo);
            }
            return;
        }
        let seq = read_seq(segment).wrapping_add(offset);
        segment[field::SEQ..field::SEQ + 4].copy_from_slice(&seq.to_be_bytes());
        if !self.left.is_empty() {
            segment[field::FLAGS] &= !(FIN | PSH);
        }
        if offset > 0 {
            segment[field::FLAGS] &= !CWR;
        }
        if let Some(pseudo) = pseudo(packet, false) {
            tcp::Segment::new_unchecked(&mut packet[layout.transport..]).fill_checksum(&pseudo);
        }
    }
}

/// Returns the addresses and ports of a packet.
fn ends(packet: &[u8], layout: Layout) -> &[u8] {
    // They follow each other: `layout` refuses IP options.
    &packet[if layout.is_v6 { 8 } else { 12 }..layout.transport + 4]
}

/// Returns a segment behind an offload header that asks for segments of a length. Its checksum must be right.
pub(crate) fn as_train(packet: &[u8], segment_len: u16) -> Vec<u8> {
    let mut train = vec![0; HEADER_LEN];
    train.extend_from_slice(packet);
    if let Some(layout) = layout(packet).filter(|layout| !layout.is_udp) {
        let ecn = if packet[layout.transport + field::FLAGS] & CWR != 0 { GSO_ECN } else { 0 };
        leave_checksum(&mut train, layout, usize::from(segment_len), ecn);
    }
    train
}

/// Leaves the checksum of a train to the kernel, and writes its offload header.
fn leave_checksum(train: &mut [u8], layout: Layout, segment_len: usize, ecn: u8) {
    let packet = &train[HEADER_LEN..];
    let len = packet.len() - layout.transport;
    let sum = pseudo(packet, layout.is_udp).map_or(0, |pseudo| pseudo.sum(len).fold());
    let checksum = if layout.is_udp { UDP_CHECKSUM } else { field::CHECKSUM };
    let at = HEADER_LEN + layout.transport + checksum;
    train[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    let gso_type = match layout {
        Layout { is_udp: true, .. } => GSO_UDP,
        Layout { is_v6: true, .. } => GSO_TCPV6,
        _ => GSO_TCPV4,
    };
    let header = Header {
        flags: NEEDS_CHECKSUM,
        gso_type: gso_type | ecn,
        header_len: layout.payload as u16,
        segment_len: segment_len as u16,
        checksum_start: layout.transport as u16,
        checksum_offset: checksum as u16,
    };
    header.write(&mut train[..HEADER_LEN]);
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

/// Joins consecutive segments, or datagrams of one flow, to a train for the kernel.
///
/// Only packets whose checksum is right are joined, since a train carries none: a damaged packet goes through as it is,
/// and the kernel sees the damage.
#[derive(Debug)]
pub(crate) struct Joiner {
    /// Room for the offload header, then the train.
    train: Vec<u8>,
    layout: Layout,
    segment_len: usize,
    segments: u16,
    /// Set if the kernel takes trains of datagrams.
    takes_datagrams: bool,
    /// Set if a PSH ends no train.
    takes_pushes: bool,
}

impl Default for Joiner {
    fn default() -> Joiner {
        let layout = Layout { transport: 0, payload: 0, is_v6: false, is_udp: false };
        let train = Vec::with_capacity(HEADER_LEN + MAX_TRAIN);
        Joiner { train, layout, segment_len: 0, segments: 0, takes_datagrams: false, takes_pushes: false }
    }
}

impl Joiner {
    /// Creates a joiner that also joins UDP datagrams if the kernel takes trains of them.
    pub(crate) fn with_datagrams(takes_datagrams: bool) -> Joiner {
        Joiner { takes_datagrams, ..Joiner::default() }
    }

    /// Joins segments with a PSH too. The last segment of the train then has it.
    pub(crate) fn take_pushes(&mut self) {
        self.takes_pushes = true;
    }

    /// Returns `true` if a packet ends its train because it has a PSH.
    fn ends(&self, packet: &[u8], layout: Layout) -> bool {
        !self.takes_pushes && has_push(packet, layout)
    }

    /// Adds a packet to be sent. Calls `write` with what is complete now: an offload header and a packet each time.
    ///
    /// # Errors
    /// Those of `write`.
    pub(crate) fn push<E>(
        &mut self,
        packet: &[u8],
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let joinable = joinable(packet).filter(|layout| self.takes_datagrams || !layout.is_udp);
        if let Some(layout) = joinable.filter(|&layout| self.continues(packet, layout)) {
            self.train.extend_from_slice(&packet[layout.payload..]);
            self.segments += 1;
            let ends = packet.len() - layout.payload < self.segment_len || self.ends(packet, layout);
            if !layout.is_udp {
                let at = layout.transport + field::FLAGS;
                self.train[HEADER_LEN + at] |= packet[at] & PSH;
            }
            return if ends { self.flush(write) } else { Ok(()) };
        }
        self.flush(&mut write)?;
        self.train.clear();
        self.train.resize(HEADER_LEN, 0);
        self.train.extend_from_slice(packet);
        self.segments = 1;
        match joinable {
            Some(layout) if !self.ends(packet, layout) => {
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
        let payload_len = packet.len() - layout.payload;
        let follows = if layout.is_udp {
            self.segments < MAX_DATAGRAMS
        } else {
            let expected = read_seq(&train[layout.transport..]).wrapping_add(sent);
            read_seq(&packet[layout.transport..]) == expected
        };
        follows
            && payload_len <= self.segment_len
            && train.len() + payload_len <= MAX_TRAIN
            && same_headers(train, packet, layout)
    }

    /// Turns the first segment's headers into those of the train.
    fn finish(&mut self) {
        let (layout, segment_len) = (self.layout, self.segment_len);
        let len = self.train.len() - HEADER_LEN;
        patch_ip(&mut self.train[HEADER_LEN..], layout, len);
        if layout.is_udp {
            patch_udp(&mut self.train[HEADER_LEN + layout.transport..]);
        }
        leave_checksum(&mut self.train, layout, segment_len, 0);
    }
}

/// Returns the layout of a packet that may be part of a train. It has data, a right checksum, and of TCP no flags but ACK and
/// PSH. A datagram without a checksum is not one: it would get one.
fn joinable(packet: &[u8]) -> Option<Layout> {
    let layout = layout(packet).filter(|layout| layout.payload < packet.len())?;
    let rest = &packet[layout.transport..];
    let pseudo = pseudo(packet, layout.is_udp)?;
    let is_right = if layout.is_udp {
        let datagram = udp::Datagram::new_checked(rest).ok()?;
        let is_whole = datagram.len() == rest.len() && datagram.checksum() != 0;
        is_whole && datagram.verify_checksum(&pseudo).is_ok()
    } else {
        let plain = rest[field::FLAGS] & !PSH == ACK;
        plain && tcp::Segment::new_checked(rest).ok()?.verify_checksum(&pseudo).is_ok()
    };
    is_right.then_some(layout)
}

fn has_push(packet: &[u8], layout: Layout) -> bool {
    !layout.is_udp && packet[layout.transport + field::FLAGS] & PSH != 0
}

/// Returns `true` if all that packets of a train share is the same. That is addresses, ports, ACK, window and options,
/// but not the lengths, the IPv4 identification, the sequence number, PSH and the checksums.
fn same_headers(train: &[u8], packet: &[u8], layout: Layout) -> bool {
    let same = |range: Range<usize>| train[range.clone()] == packet[range];
    let ip = if layout.is_v6 { same(0..4) && same(6..40) } else { same(0..2) && same(6..10) && same(12..20) };
    let tcp = layout.transport;
    if layout.is_udp {
        return ip && same(tcp..tcp + UDP_LEN);
    }
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

    fn datagram(is_v6: bool, port: u16, payload: &[u8]) -> Vec<u8> {
        let (src, dst): (std::net::IpAddr, std::net::IpAddr) = match is_v6 {
            true => ("fd00::1".parse().expect("address"), "fd00::2".parse().expect("address")),
            false => ("10.0.0.1".parse().expect("address"), "10.0.0.2".parse().expect("address")),
        };
        let ip = ip::Repr::new(src, dst, Protocol::UDP, udp::HEADER_LEN + payload.len());
        let mut packet = vec![0; ip.buffer_len()];
        ip.emit(&mut packet);
        let len = (udp::HEADER_LEN + payload.len()) as u16;
        packet.extend([port, 2000, len, 0].map(u16::to_be_bytes).concat());
        packet.extend_from_slice(payload);
        let pseudo = Pseudo::new(src, dst, Protocol::UDP);
        udp::Datagram::new_unchecked(&mut packet[ip.buffer_len()..]).fill_checksum(&pseudo);
        packet
    }

    #[test]
    fn datagrams_of_one_length_and_a_shorter_last_one_are_a_train() {
        for is_v6 in [false, true] {
            let data = payload(3 * 36 + 20);
            let packets: Vec<Vec<u8>> = data.chunks(36).map(|chunk| datagram(is_v6, 1000, chunk)).collect();
            let trains = join(&packets);
            assert_eq!(trains.len(), 1);
            assert_eq!(trains[0][1], GSO_UDP);
            let parts: Vec<Vec<u8>> = split(&trains[0]).into_iter().map(without_ident).collect();
            assert_eq!(parts, packets.iter().cloned().map(without_ident).collect::<Vec<_>>());
            // The shorter one was the last.
            assert_eq!(join(&[packets[3].clone(), packets[0].clone()]).len(), 2);
            assert_eq!(
                join(&[packets[0].clone(), datagram(is_v6, 1001, &data[..36])]).len(),
                2,
                "another flow"
            );
            let mut without = packets[1].clone();
            let at = packets[1].len() - 36 - 2;
            without[at..at + 2].fill(0);
            assert_eq!(join(&[packets[0].clone(), without]).len(), 2, "no checksum");
            let many: Vec<Vec<u8>> = (0..200).map(|_| packets[0].clone()).collect();
            assert_eq!(join(&many).len(), 200usize.div_ceil(usize::from(MAX_DATAGRAMS)));
        }
        let (mut joiner, mut count) = (Joiner::default(), 0);
        for _ in 0..3 {
            let Ok::<(), ()>(()) = joiner.push(&datagram(false, 1, &[7; 36]), |_| {
                count += 1;
                Ok(())
            }) else {
                panic!("no error")
            };
        }
        assert_eq!(count, 3, "a kernel without them");
    }

    fn payload(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 7) as u8).collect()
    }

    fn join(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let (mut joiner, mut written) = (Joiner::with_datagrams(true), Vec::new());
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
    fn a_train_passes_as_one_segment() {
        for (is_v6, flags) in [(false, ACK | PSH), (true, ACK | FIN), (false, ACK | CWR)] {
            let data = payload(3 * 1400 + 300);
            let whole = segment(is_v6, 5, &data, flags);
            let train = as_train(&whole, 1400);
            let parts = split(&train);
            assert_eq!(parts.len(), 4);
            let (mut splitter, mut out) = (Splitter::default(), vec![0; 70_000]);
            splitter.keep_trains();
            let len = splitter.take(&train, &mut out).expect("a segment");
            assert_eq!(out[..len], whole);
            assert!(splitter.is_empty());
            assert_eq!(splitter.segment_len(&whole), Some(1400));
            assert_eq!(splitter.segment_len(&parts[0]), None);
            splitter.forget_trains();
            assert_eq!(splitter.segment_len(&whole), None);
        }
    }

    #[test]
    fn a_checksum_left_to_the_device_is_completed() {
        let whole = segment(false, 1, &payload(99), ACK);
        let mut bytes = vec![0; HEADER_LEN];
        let header =
            Header { flags: NEEDS_CHECKSUM, checksum_start: 20, checksum_offset: 16, ..Header::default() };
        header.write(&mut bytes);
        bytes.extend_from_slice(&whole);
        let partial = pseudo(&whole, false).expect("an IP packet").sum(whole.len() - 20).fold();
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
