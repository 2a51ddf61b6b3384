//! TS packets in UDP datagrams, and in RTP in UDP (RFC 2250, section 2). A whole number of packets in each.
//!
//! What arrives may be anything. Nothing is delivered that is not a whole number of TS packets, each with its sync byte;
//! a datagram is good or bad as a whole, since one that is wrong somewhere is not from who it should be.

use std::collections::VecDeque;

use super::{PACKET_LEN, SYNC};
use crate::media::rtp::{self, Numbers, Place};

/// Maximum number of TS packets in a datagram (Ethernet, MTU 1500): 1316 bytes.
pub const MAX_DATAGRAM_PACKETS: usize = 7;

/// RTP's payload type of an MPEG-2 transport stream (RFC 3551, table 5).
pub const RTP_PAYLOAD_TYPE: u8 = 33;

/// Counters of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnpackerCounts {
    /// Datagrams that were taken.
    pub datagrams: u64,
    /// TS packets in them.
    pub packets: u64,
    /// Datagrams dropped because they are not a whole number of TS packets.
    pub wrong_length: u64,
    /// Datagrams dropped because a TS packet in them has no sync byte.
    pub no_sync: u64,
    /// Datagrams dropped because they have no RTP header of a transport stream.
    pub no_rtp: u64,
    /// Missing RTP datagrams by their sequence numbers.
    pub missing: u64,
    /// RTP datagrams dropped because a later one, or they themselves, came before.
    pub out_of_order: u64,
}

/// Most senders whose RTP numbers are followed at a time.
const MAX_SENDERS: usize = 32;

/// Unpacker of datagrams.
#[derive(Clone, Debug, Default)]
pub struct Unpacker {
    expects_rtp: bool,
    /// Senders by SSRC with their numbers, the most recent first.
    senders: VecDeque<(u32, Numbers)>,
    counts: UnpackerCounts,
}

impl Unpacker {
    /// Creates an unpacker for datagrams with or without RTP headers.
    pub fn new(expects_rtp: bool) -> Unpacker {
        Unpacker { expects_rtp, ..Unpacker::default() }
    }

    /// Returns the counters.
    pub fn counts(&self) -> &UnpackerCounts {
        &self.counts
    }

    /// Returns the number of senders of RTP that are followed: a bounded number.
    pub fn senders(&self) -> usize {
        self.senders.len()
    }

    /// Returns the TS packets of a datagram. None if it is malformed.
    pub fn unpack<'a>(&mut self, datagram: &'a [u8]) -> &'a [[u8; PACKET_LEN]] {
        let payload = if self.expects_rtp { self.rtp_payload(datagram) } else { Some(datagram) };
        let packets = payload.and_then(|payload| self.whole_packets(payload)).unwrap_or_default();
        self.counts.datagrams += u64::from(!packets.is_empty());
        self.counts.packets += packets.len() as u64;
        packets
    }

    fn whole_packets<'a>(&mut self, payload: &'a [u8]) -> Option<&'a [[u8; PACKET_LEN]]> {
        let (packets, rest) = payload.as_chunks();
        if packets.is_empty() || !rest.is_empty() {
            self.counts.wrong_length += 1;
            return None;
        }
        if packets.iter().any(|packet| packet[0] != SYNC) {
            self.counts.no_sync += 1;
            return None;
        }
        Some(packets)
    }

    fn rtp_payload<'a>(&mut self, datagram: &'a [u8]) -> Option<&'a [u8]> {
        let packet = rtp::Packet::new_checked(datagram);
        let Some(packet) = packet.ok().filter(|packet| packet.payload_type() == RTP_PAYLOAD_TYPE) else {
            self.counts.no_rtp += 1;
            return None;
        };
        let payload = packet.header_len()..datagram.len() - packet.padding_len();
        self.is_next(packet.ssrc(), packet.seq(), packet.timestamp()).then(|| &datagram[payload])
    }

    /// Returns `true` if the datagram is new, and tracks the sender's numbers. A late one is dropped: the TS has
    /// continued after it.
    fn is_next(&mut self, ssrc: u32, seq: u16, stamp: u32) -> bool {
        let known = self.senders.iter().position(|(sender, _)| *sender == ssrc);
        let Some((_, mut numbers)) = known.and_then(|at| self.senders.remove(at)) else {
            self.senders.push_front((ssrc, Numbers::begin_at(seq, stamp)));
            self.senders.truncate(MAX_SENDERS);
            return true;
        };
        let place = numbers.take_at(seq, stamp);
        self.senders.push_front((ssrc, numbers));
        match place {
            Place::Ahead(missing) | Place::Outage(missing) => self.counts.missing += u64::from(missing),
            Place::Late(_) | Place::Duplicate => self.counts.out_of_order += 1,
            // A sender that restarts sends on at once.
            Place::Jump | Place::Restart => {}
        }
        !matches!(place, Place::Late(_) | Place::Duplicate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dvb::ts::NULL_PACKET;
    use proptest::prelude::*;

    fn datagram(ssrc: u32, seq: u16, packets: usize) -> Vec<u8> {
        let mut header = [0; rtp::HEADER_LEN];
        rtp::Repr::new(RTP_PAYLOAD_TYPE, seq, 90_000, ssrc).emit(&mut header);
        [&header[..], &NULL_PACKET.repeat(packets)].concat()
    }

    #[test]
    fn plain_datagrams_are_whole_packets() {
        let mut unpacker = Unpacker::new(false);
        for packets in 1..=7 {
            assert_eq!(unpacker.unpack(&NULL_PACKET.repeat(packets)).len(), packets);
        }
        let mut bytes = NULL_PACKET.repeat(7);
        assert!(unpacker.unpack(&[]).is_empty() && unpacker.unpack(&bytes[..1315]).is_empty());
        bytes[188 * 6] = 0x48;
        assert!(unpacker.unpack(&bytes).is_empty());
        let counts = UnpackerCounts {
            datagrams: 7,
            packets: 28,
            wrong_length: 2,
            no_sync: 1,
            ..UnpackerCounts::default()
        };
        assert_eq!(*unpacker.counts(), counts);
    }

    #[test]
    fn rtp_numbers_tell_what_is_missing_late_or_anew() {
        let mut unpacker = Unpacker::new(true);
        let datagrams: Vec<Vec<u8>> = (0..6).map(|n| datagram(7, 65_534_u16.wrapping_add(n), 7)).collect();
        let mut take = |n: usize| unpacker.unpack(&datagrams[n]).len();
        assert_eq!((take(0), take(1), take(3), take(2), take(3), take(4)), (7, 7, 7, 0, 0, 7));
        assert_eq!(unpacker.unpack(&datagram(8, 1000, 1)).len(), 1, "another sender");
        assert_eq!(unpacker.unpack(&datagram(7, 30_000, 1)).len(), 1, "a sender that started anew");
        let counts = UnpackerCounts {
            datagrams: 6,
            packets: 30,
            missing: 1,
            out_of_order: 2,
            ..UnpackerCounts::default()
        };
        assert_eq!(*unpacker.counts(), counts);
    }

    #[test]
    fn what_is_no_transport_stream_in_rtp_is_dropped() {
        let mut unpacker = Unpacker::new(true);
        assert!(unpacker.unpack(&NULL_PACKET.repeat(7)).is_empty(), "no RTP");
        let mut voice = datagram(7, 1, 1);
        voice[1] = 0;
        assert!(unpacker.unpack(&voice).is_empty(), "G.711");
        assert!(unpacker.unpack(&datagram(7, 2, 1)[..100]).is_empty(), "cut");
        assert_eq!((unpacker.counts().no_rtp, unpacker.counts().wrong_length), (2, 1));
    }

    proptest! {
        #[test]
        fn hostile_datagrams_never_panic_and_memory_is_bounded(
            rtp: bool,
            datagrams in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..400), 0..60),
        ) {
            let mut unpacker = Unpacker::new(rtp);
            for mut datagram in datagrams {
                if let [first, second, ..] = &mut datagram[..] && rtp {
                    (*first, *second) = (0x80 | *first & 0x3f, RTP_PAYLOAD_TYPE);
                }
                prop_assert!(unpacker.unpack(&datagram).iter().all(|packet| packet[0] == SYNC));
            }
            prop_assert!(unpacker.senders() <= MAX_SENDERS);
        }
    }
}
