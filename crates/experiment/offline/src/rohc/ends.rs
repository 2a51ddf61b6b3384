//! Both ends of a channel, for packets that a capture may have truncated.

use bentpipe_rohc::{
    CidSpace, CompressError, Compressed, Compressor, CompressorConfig, CompressorState, Mode, Profile,
    segment,
};

use super::Reservation;
use crate::capture::Packet;
pub(crate) use bentpipe_intake::{Received, Receiver, RohcUnit as Unit};

/// Length in bytes of what guards a reassembled unit (RFC 3095 5.2.5).
const CRC32_LEN: usize = 4;

/// Error returned when a packet cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    Compress(#[from] CompressError),
    #[error("{len} bytes with a CRC-32, above the channel's MRRU of {mrru}")]
    AboveMrru { len: usize, mrru: u32 },
    #[error("cut by the capture, so that it cannot be segmented")]
    CutSegments,
    #[error("cut by the capture, so that its ICV cannot be calculated")]
    CutIcv,
}

/// Result of sending an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) compressed: Compressed,
    /// Mode and state of the context, before any feedback to this packet.
    pub(crate) state: Option<(Mode, CompressorState)>,
    /// Bytes on the channel: those of the segments, if there are several.
    pub(crate) len: usize,
}

/// Compressor's end of a channel.
#[derive(Debug)]
pub(crate) struct Sender {
    compressor: Compressor,
    mrru_bytes: u32,
    mtu_bytes: usize,
    max_cid: u16,
    /// Packets sent uncompressed since the decompressor first rejected a flow.
    without_room: u64,
    /// CIDs to reserve once their packets come.
    reservations: Vec<Reservation>,
    /// Units to be sent, with their lengths; the last may be cut.
    bytes: Vec<u8>,
    lens: Vec<usize>,
    segments: Vec<u8>,
}

impl Sender {
    /// Segments packets longer than `mtu_bytes`, if there is such a limit.
    pub(crate) fn new(config: CompressorConfig, mtu_bytes: Option<usize>) -> Sender {
        Sender {
            mrru_bytes: config.channel.mrru_bytes,
            mtu_bytes: mtu_bytes.unwrap_or(usize::MAX),
            max_cid: config.channel.cids.max_cid(),
            without_room: 0,
            reservations: Vec::new(),
            compressor: Compressor::new(config),
            bytes: Vec::new(),
            lens: Vec::new(),
            segments: Vec::new(),
        }
    }

    /// Reserves CIDs for the flows of packets to come.
    ///
    /// # Errors
    /// Returns an error if there is no such CID.
    pub(crate) fn with_reservations(mut self, reservations: &[Reservation]) -> Result<Sender, String> {
        if let Some(beyond) = reservations.iter().find(|reservation| reservation.cid > self.max_cid) {
            return Err(format!("--reserve: CID {} is above {}, the highest", beyond.cid, self.max_cid));
        }
        self.reservations = reservations.to_vec();
        Ok(self)
    }

    /// Reserves the CID for this packet's flow, if there is one.
    fn reserve(&mut self, packet: &Packet<'_>) -> Result<(), CompressError> {
        let Some(at) = self.reservations.iter().position(|one| one.number == packet.number) else {
            return Ok(());
        };
        let reservation = self.reservations.swap_remove(at);
        let mut whole = packet.bytes.to_vec();
        whole.resize(packet.len, 0);
        self.compressor.reserve_cid(reservation.cid, &whole)
    }

    /// Compresses a packet; its units are then in [`Sender::units`].
    ///
    /// # Errors
    /// Returns an error if it cannot be sent; then there are no units.
    pub(crate) fn send(&mut self, packet: &Packet<'_>) -> Result<Sent, Refusal> {
        self.bytes.clear();
        self.lens.clear();
        self.reserve(packet)?;
        let compressed =
            self.compressor.compress_header(packet.at(), packet.bytes, packet.len, &mut self.bytes)?;
        self.bytes.extend_from_slice(packet.bytes.get(compressed.header_in..).unwrap_or_default());
        let len = compressed.header_out + packet.len - compressed.header_in;
        if len > self.mtu_bytes {
            self.cut(packet.is_cut())?;
        } else {
            self.lens.push(len);
        }
        let is_uncompressed = compressed.profile == Profile::Uncompressed;
        self.without_room += u64::from(is_uncompressed && self.compressor.rejected_flows() > 0);
        let state = self.compressor.flow_state(compressed.cid);
        Ok(Sent { compressed, state, len: self.lens.iter().sum() })
    }

    fn cut(&mut self, is_cut: bool) -> Result<(), Refusal> {
        if is_cut {
            return Err(Refusal::CutSegments);
        }
        self.segments.clear();
        let count = segment(&self.bytes, self.mrru_bytes, self.mtu_bytes, |piece| {
            self.lens.push(piece.len());
            self.segments.extend_from_slice(piece);
        });
        std::mem::swap(&mut self.bytes, &mut self.segments);
        // The whole packet is in `segments` then, where nothing was added.
        let above = Refusal::AboveMrru { len: self.segments.len() + CRC32_LEN, mrru: self.mrru_bytes };
        if count == 0 { Err(above) } else { Ok(()) }
    }

    /// Returns the units of the last packet: a ROHC packet, or its segments.
    pub(crate) fn units(&self) -> impl Iterator<Item = Unit<'_>> {
        let mut rest = &self.bytes[..];
        self.lens.iter().map(move |&len| {
            let (bytes, behind) = rest.split_at(len.min(rest.len()));
            rest = behind;
            Unit { len, bytes }
        })
    }

    /// Returns the mean number of contexts compared to find that of a packet.
    pub(crate) fn mean_comparisons(&self) -> f64 {
        self.compressor.mean_comparisons()
    }

    /// Describes a lack of CIDs, if 1 % of the packets took another flow's CID.
    pub(crate) fn lack_of_cids(&self) -> Option<String> {
        let (taken, packets) = (self.compressor.reassigned_cids(), self.compressor.stats().packets);
        let [cids, most] = [self.max_cid, CidSpace::LARGE.max_cid()].map(|highest| u32::from(highest) + 1);
        let is_many = taken > 0 && taken * 100 >= packets && cids < most;
        is_many.then(|| {
            format!("more flows than CIDs ({cids}): {taken} of {packets} packets took another flow's; --cid large has up to {most}")
        })
    }

    /// Describes the packets that went uncompressed because the decompressor had no room for their flows.
    pub(crate) fn lack_of_room(&self) -> Option<String> {
        let (uncompressed, packets) = (self.without_room, self.compressor.stats().packets);
        (self.compressor.rejected_flows() > 0).then(|| {
            format!("more flows than the decompressor has room for: {uncompressed} of {packets} packets went uncompressed; --max-contexts limits its contexts")
        })
    }

    /// Applies feedback elements from the other end.
    pub(crate) fn apply_feedback(&mut self, feedback: &[u8]) {
        self.compressor.feedback(feedback);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_rohc::{Channel, DecompressorConfig, Mode};

    const UDP: [u8; 32] = [
        0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0x66, 0xca, 10, 0, 0, 1, 10, 0, 0, 2, 0, 9, 0, 7, 0, 12, 0, 0,
        b'd', b'a', b't', b'a',
    ];

    fn packet(bytes: &[u8], len: usize) -> Packet<'_> {
        Packet { number: 1, time_ns: 0, len, bytes, ..Packet::default() }
    }

    fn ends(mrru_bytes: u32, mtu: Option<usize>) -> (Sender, Receiver) {
        let channel = Channel { mrru_bytes, ..Channel::default() };
        let compressor = CompressorConfig { channel, ..CompressorConfig::default() };
        let mode = Mode::Optimistic;
        let decompressor = DecompressorConfig { channel, mode, ..DecompressorConfig::default() };
        (Sender::new(compressor, mtu), Receiver::new(decompressor))
    }

    #[test]
    fn a_packet_in_segments() {
        let (mut sender, mut receiver) = ends(100, Some(10));
        let sent = sender.send(&packet(&UDP, 32)).unwrap();
        let count = sender.units().count();
        assert!(count > 2 && sent.len > 32, "{count} segments, {} bytes", sent.len);
        let mut last = None;
        for unit in sender.units() {
            assert_eq!(last, None, "before the last segment");
            last = receiver.receive(packet(&UDP, 32).at(), unit).unwrap();
        }
        assert!(last.is_some());
        assert_eq!(receiver.ip(), UDP);
        assert!(!receiver.take_feedback().is_empty());
        assert!(receiver.take_feedback().is_empty());
    }

    #[test]
    fn what_is_above_mrru_is_refused() {
        let (mut sender, _) = ends(20, Some(10));
        let refused = sender.send(&packet(&UDP, 32)).unwrap_err();
        assert!(matches!(refused, Refusal::AboveMrru { len: 33..60, mrru: 20 }), "{refused:?}");
        assert_eq!(sender.units().count(), 0);
    }

    #[test]
    fn a_snapshot_of_a_packet_goes_through() {
        let (mut sender, mut receiver) = ends(0, None);
        let kept = packet(&UDP[..30], 32);
        let sent = sender.send(&kept).unwrap();
        let unit = sender.units().next().unwrap();
        assert_eq!((unit.len, unit.bytes.len()), (sent.len, sent.len - 2));
        let received = receiver.receive(kept.at(), unit).unwrap().unwrap();
        assert_eq!((received.len, receiver.ip()), (32, &UDP[..30]));
    }
}
