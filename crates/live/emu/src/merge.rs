//! Trains of several connections at a time, for a program whose own TCP sends them.
//!
//! A TCP with segmentation offload gives its device a long train, and acknowledges a long train once. This does the same with
//! the segments of one flush: those of each connection are joined although others stand between them, a PSH ends no train, and
//! of the acknowledgements that only move on, the last is written. An emulated network is not written so: its packets leave as
//! they are.

use std::ops::Range;

use bentpipe_wire::ip::Protocol;
use bentpipe_wire::{ipv4, ipv6, tcp};

use crate::offload::{HEADER_LEN, Joiner};

/// Maximum number of flows whose segments wait.
const FLOWS: usize = 16;

/// Flags of TCP, and the offset of their byte.
const ACK: u8 = 0x10;
const FLAGS: usize = 13;

/// Layout of a TCP segment in its packet.
struct Layout {
    /// Addresses.
    addresses: Range<usize>,
    tcp: usize,
    payload: usize,
}

/// Flow in one direction, and what of it waits.
#[derive(Debug, Default)]
struct Flow {
    /// Addresses and ports.
    ends: Vec<u8>,
    joiner: Joiner,
    /// Offload header and acknowledgement, if one waits.
    ack: Vec<u8>,
}

/// Joins the segments of several connections.
#[derive(Debug, Default)]
pub(crate) struct Merger {
    flows: Vec<Flow>,
    /// Flows with nothing, for their buffers.
    spare: Vec<Flow>,
}

impl Merger {
    /// Adds a packet to be sent. Calls `write` with what is complete now: an offload header and a packet each time.
    ///
    /// # Errors
    /// Those of `write`.
    pub(crate) fn push<E>(
        &mut self,
        packet: &[u8],
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(layout) = layout(packet) else {
            self.flush(&mut write)?;
            return Joiner::default().push(packet, write);
        };
        let ports = layout.tcp..layout.tcp + 4;
        let is_of = |flow: &Flow| {
            flow.ends.len() == layout.addresses.len() + 4
                && flow.ends.starts_with(&packet[layout.addresses.clone()])
                && flow.ends.ends_with(&packet[ports.clone()])
        };
        let n = match self.flows.iter().position(is_of) {
            Some(n) => n,
            None => {
                if self.flows.len() == FLOWS {
                    self.flush(&mut write)?;
                }
                let mut flow = self.spare.pop().unwrap_or_default();
                flow.joiner.take_pushes();
                flow.ends.clear();
                flow.ends.extend([&packet[layout.addresses.clone()], &packet[ports.clone()]].concat());
                self.flows.push(flow);
                self.flows.len() - 1
            }
        };
        let flow = &mut self.flows[n];
        if !is_plain_ack(packet, &layout) {
            flow.write_ack(&mut write)?;
            return flow.joiner.push(packet, write);
        }
        flow.joiner.flush(&mut write)?;
        if !flow.ack.is_empty() && !moves_on(&flow.ack[HEADER_LEN..], packet, &layout) {
            flow.write_ack(&mut write)?;
        }
        flow.ack.clear();
        flow.ack.resize(HEADER_LEN, 0);
        flow.ack.extend_from_slice(packet);
        Ok(())
    }

    /// Writes what is held back.
    ///
    /// # Errors
    /// Those of `write`.
    pub(crate) fn flush<E>(&mut self, mut write: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut result = Ok(());
        for mut flow in self.flows.drain(..) {
            let written = flow.write_ack(&mut write);
            result = result.and(written).and(flow.joiner.flush(&mut write));
            self.spare.push(flow);
        }
        result
    }
}

impl Flow {
    fn write_ack<E>(&mut self, mut write: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let result = if self.ack.is_empty() { Ok(()) } else { write(&self.ack) };
        self.ack.clear();
        result
    }
}

/// Returns the layout of an unfragmented TCP packet without IP options.
fn layout(packet: &[u8]) -> Option<Layout> {
    let (addresses, tcp) = match packet.first()? >> 4 {
        4 => {
            let header = ipv4::Packet::new_checked(packet).ok()?;
            let is_whole = !header.more_fragments() && header.fragment_offset() == 0;
            let is_plain = header.header_len() == ipv4::HEADER_LEN && header.protocol() == Protocol::TCP;
            (is_whole && is_plain).then_some((12..20, ipv4::HEADER_LEN))?
        }
        6 => {
            let header = ipv6::Packet::new_checked(packet).ok()?;
            (header.next_header() == Protocol::TCP).then_some((8..40, ipv6::HEADER_LEN))?
        }
        _ => return None,
    };
    let payload = tcp + tcp::Segment::new_checked(packet.get(tcp..)?).ok()?.header_len();
    Some(Layout { addresses, tcp, payload })
}

/// Returns `true` if a segment is an acknowledgement with no options but timestamps.
fn is_plain_ack(packet: &[u8], layout: &Layout) -> bool {
    let options = &packet[layout.tcp + tcp::HEADER_LEN..layout.payload];
    let is_plain = options.is_empty() || options.starts_with(&[1, 1, 8, 10]) && options.len() == 12;
    is_plain && layout.payload == packet.len() && packet[layout.tcp + FLAGS] == ACK
}

/// Returns `true` if the later of two acknowledgements of a flow acknowledges more.
///
/// Both have the same sequence number. Repeated ones are counted by the receiver, so that none of them may be left out.
fn moves_on(before: &[u8], after: &[u8], layout: &Layout) -> bool {
    let number = |packet: &[u8], at: usize| {
        let bytes = packet.get(layout.tcp + at..layout.tcp + at + 4)?;
        bytes.try_into().ok().map(u32::from_be_bytes)
    };
    let (Some(was), Some(is)) = (number(before, 8), number(after, 8)) else { return false };
    before.len() == after.len() && number(before, 4) == number(after, 4) && (is.wrapping_sub(was) as i32) > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_wire::checksum::Pseudo;
    use bentpipe_wire::ip;

    fn segment(port: u16, seq: u32, ack: u32, len: usize, flags: u8) -> Vec<u8> {
        let (src, dst) = ("10.0.0.1".parse().expect("address"), "10.0.0.2".parse().expect("address"));
        let mut header = tcp::Repr::new(port, 2000, tcp::SeqNumber(seq));
        header.ack = Some(tcp::SeqNumber(ack));
        let repr = ip::Repr::new(src, dst, Protocol::TCP, header.buffer_len() + len);
        let mut packet = vec![0; repr.buffer_len() + header.buffer_len()];
        repr.emit(&mut packet);
        header.emit(&mut packet[repr.buffer_len()..]);
        packet.resize(packet.len() + len, 7);
        packet[repr.buffer_len() + FLAGS] = flags;
        let pseudo = Pseudo::new(src, dst, Protocol::TCP);
        tcp::Segment::new_unchecked(&mut packet[repr.buffer_len()..]).fill_checksum(&pseudo);
        packet
    }

    fn merged(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let (mut merger, mut written) = (Merger::default(), Vec::new());
        let mut write = |bytes: &[u8]| -> Result<(), ()> {
            written.push(bytes[HEADER_LEN..].to_vec());
            Ok(())
        };
        packets.iter().for_each(|packet| merger.push(packet, &mut write).expect("no error"));
        merger.flush(&mut write).expect("no error");
        written
    }

    const PSH: u8 = 8;

    #[test]
    fn acknowledgements_between_data_break_no_train() {
        let mut packets = Vec::new();
        for n in 0..40_u32 {
            packets.push(segment(1, 1 + 1000 * n, 1, 1000, ACK | PSH));
            packets.push(segment(2, 5, 1000 * (n + 1), 0, ACK));
        }
        let written = merged(&packets);
        assert_eq!(written.len(), 2);
        assert_eq!(written[0].len(), 40 + 40 * 1000);
        assert_eq!(written[1], packets[79], "the last acknowledgement");
    }

    #[test]
    fn order_within_a_flow_stays() {
        let packets = [
            segment(1, 1, 1, 1000, ACK),
            segment(1, 1001, 2, 0, ACK),
            segment(1, 1001, 2, 500, ACK),
            segment(1, 1501, 2, 0, ACK | 1),
        ];
        assert_eq!(merged(&packets), packets);
    }

    #[test]
    fn repeated_acknowledgements_stay() {
        let packets: Vec<_> = [9, 9, 9, 12].map(|ack| segment(1, 1, ack, 0, ACK)).into();
        assert_eq!(merged(&packets), [&packets[..2], &packets[3..]].concat());
        let back = [segment(1, 1, 9, 0, ACK), segment(1, 1, 8, 0, ACK)];
        assert_eq!(merged(&back), back);
    }

    #[test]
    fn other_packets_and_many_flows_pass() {
        let mut packets: Vec<_> = (0..40).map(|port| segment(port, 1, 1, 100, ACK)).collect();
        packets.push(vec![0x45, 0, 0]);
        packets.push(vec![]);
        let written = merged(&packets);
        assert_eq!(written, packets);
    }
}
