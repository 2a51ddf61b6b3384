//! Frames on the air, for a capture.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bentpipe_units::Time;
use bentpipe_wire::pcap::{LinkType, Writer};
use bentpipe_wire::wpan::{Address, Endpoint, FrameType, Repr};

use super::Superframe;

/// PAN identifier of captured frames.
const PAN: u16 = 0xbe17;
/// Short address of all devices.
const ALL: u16 = 0xffff;

#[derive(Debug, Default)]
struct Frames {
    most: usize,
    frames: Vec<(Time, Vec<u8>)>,
    superframe: Option<Superframe>,
}

/// Frames on the air of a cell. Clones have the same frames.
#[derive(Clone, Debug, Default)]
pub struct AirLog(Arc<Mutex<Frames>>);

impl AirLog {
    /// Creates a log of the first `most` frames, beacons not counted.
    pub fn new(most: usize, superframe: Option<Superframe>) -> AirLog {
        AirLog(Arc::new(Mutex::new(Frames { most, frames: Vec::new(), superframe })))
    }

    fn frames(&self) -> MutexGuard<'_, Frames> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, at: Time, header: &Repr, payload: &[u8]) {
        let mut frames = self.frames();
        if frames.frames.len() < frames.most {
            let mut bytes = Vec::with_capacity(header.frame_len(payload.len()));
            header.emit(payload, &mut bytes);
            frames.frames.push((at, bytes));
        }
    }

    /// Notes a data frame; without a receiver it is for all.
    pub(super) fn add_data(&self, at: Time, (from, to): (u16, Option<u16>), sequence: u8, payload: &[u8]) {
        self.add(at, &Repr::data(PAN, [from, to.unwrap_or(ALL)], sequence), payload);
    }

    /// Notes an acknowledgement.
    pub(super) fn add_ack(&self, at: Time, sequence: u8) {
        self.add(at, &Repr::ack(sequence), &[]);
    }

    /// Writes the frames with their FCS as a capture, in order.
    ///
    /// Beacons up to the last frame are among them.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn write_capture(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut frames = self.frames();
        frames.frames.sort_by_key(|(at, _)| *at);
        let mut writer = Writer::new(out, LinkType::IEEE802_15_4)?;
        let mut beacons = frames.superframe.map(|superframe| (superframe, Time::ZERO, 0_u8));
        for (at, bytes) in &frames.frames {
            while let Some((superframe, next, sequence)) = &mut beacons
                && *next <= *at
            {
                writer.write(next.as_nanos(), &beacon(superframe, *sequence), 0)?;
                *next += superframe.interval();
                *sequence = sequence.wrapping_add(1);
            }
            writer.write(at.as_nanos(), bytes, 0)?;
        }
        Ok(())
    }
}

/// Returns the beacon of the coordinator: superframe specification, no guaranteed time slots, no pending addresses.
fn beacon(superframe: &Superframe, sequence: u8) -> Vec<u8> {
    let source = Some(Endpoint { pan: PAN, address: Address::Short(0) });
    let header = Repr { frame_type: FrameType::Beacon, sequence, source, ..Repr::default() };
    // The last slot of the contention access period is 15; the sender is the coordinator.
    let word =
        u16::from(superframe.beacon_order) | u16::from(superframe.superframe_order) << 4 | 15 << 8 | 1 << 14;
    let [low, high] = word.to_le_bytes();
    let mut bytes = Vec::new();
    header.emit(&[low, high, 0, 0], &mut bytes);
    bytes
}
