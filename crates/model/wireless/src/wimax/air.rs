//! Record of a cell: areas of its frames, bytes of its bursts.
//!
//! A record does not affect the cell, which sends the same without it.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bentpipe_net::InvalidConfig;
use bentpipe_units::{Span, Time};
use bentpipe_wire::ethernet::MacAddr;
use bentpipe_wire::pcap::{LinkType, Writer};
use bentpipe_wire::wman::{
    Cid, CrcForm, Fragment, HEADER_LEN, Layout, Numbers, Part, Repr, Request, Urgency, m2m,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::phy::Profile;

/// Maximum number of frames of a record.
const MOST_FRAMES: u32 = 5000;
/// Maximum bytes of PDUs in an envelope, whose length has 16 bits.
const MOST_BYTES: usize = 32_768;

/// Record of frames: a capture of their bursts, and a picture of their maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Record {
    /// Time of the first frame. Default: 0 s.
    pub from: Span,
    /// Number of frames. Default: 200.
    #[schemars(range(min = 1, max = 5000))]
    pub frames: u32,
}

impl Default for Record {
    fn default() -> Record {
        Record { from: Span::ZERO, frames: 200 }
    }
}

impl Record {
    /// Checks the configuration.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        InvalidConfig::ensure((1..=MOST_FRAMES).contains(&self.frames), "record.frames", "1 to 5000")
    }
}

/// Content of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Preamble,
    Fch,
    Maps,
    Ranging,
    /// Request slot, with the number of requests in it.
    Slot(usize),
    /// Burst of a station, or the part of one that is for it.
    Burst {
        station: usize,
        profile: Profile,
    },
}

/// Part of a subframe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    /// First symbol of the subframe, and the one after the last.
    ///
    /// Stations of a downlink burst share symbols, so that these are fractions.
    pub(super) symbols: [f64; 2],
    pub(super) content: Content,
}

/// Bytes of a burst.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Burst {
    pub(super) at: Time,
    pub(super) station: usize,
    pub(super) is_downlink: bool,
    pub(super) pdus: Vec<Vec<u8>>,
}

/// Frame that was sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Frame {
    pub(super) number: u64,
    pub(super) downlink: Vec<Area>,
    pub(super) uplink: Vec<Area>,
    pub(super) bursts: Vec<Burst>,
}

/// Frames that a cell and the writers of files share.
#[derive(Clone, Debug, Default)]
pub struct AirLog(Arc<Mutex<Vec<Frame>>>);

impl AirLog {
    /// Returns the frames.
    pub(super) fn frames(&self) -> MutexGuard<'_, Vec<Frame>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the bursts as a capture of Ethernet frames, in the envelope that Wireshark reads.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn write_capture(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut writer = Writer::new(out, LinkType::ETHERNET)?;
        let mut sequence = 0_u16;
        for frame in self.frames().iter() {
            // Downlink and uplink of FDD are at the same time.
            let mut bursts: Vec<&Burst> = frame.bursts.iter().collect();
            bursts.sort_by_key(|burst| burst.at);
            for (number, burst) in bursts.into_iter().enumerate() {
                for pdus in groups(&burst.pdus) {
                    let bytes = burst.envelope(&pdus, sequence, (frame.number as u32, number as u8));
                    writer.write(burst.at.as_nanos(), &bytes, 0)?;
                    sequence = sequence.wrapping_add(1);
                }
            }
        }
        Ok(())
    }
}

/// Returns PDUs one after the other, as many as an envelope takes at a time.
fn groups(pdus: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut groups: Vec<Vec<u8>> = Vec::new();
    for pdu in pdus {
        match groups.last_mut() {
            Some(last) if last.len() + pdu.len() <= MOST_BYTES => last.extend_from_slice(pdu),
            _ => groups.push(pdu.clone()),
        }
    }
    groups
}

impl Burst {
    /// Returns PDUs of the burst in their envelope.
    fn envelope(&self, pdus: &[u8], sequence: u16, (frame, number): (u32, u8)) -> Vec<u8> {
        let (base, station) = (address(0), address(self.station + 1));
        let (to, from) = if self.is_downlink { (station, base) } else { (base, station) };
        let mut bytes = Vec::new();
        m2m::Burst { to, from, sequence, frame: frame & 0xff_ffff, number, pdus }.emit(&mut bytes);
        bytes
    }
}

/// Returns the address of the base station, 0, or of a station.
fn address(number: usize) -> MacAddr {
    let [a, b, c, d] = (number as u32).to_be_bytes();
    MacAddr([0x02, 0, a, b, c, d])
}

/// Recorder in a cell.
#[derive(Debug)]
pub(super) struct Recorder {
    config: Record,
    log: AirLog,
    /// Set while the present frame, the last of the log, is recorded.
    pub(super) is_on: bool,
}

impl Recorder {
    pub(super) fn new(config: Record, log: AirLog) -> Recorder {
        Recorder { config, log, is_on: false }
    }

    /// Begins a frame.
    pub(super) fn begin(&mut self, number: u64, now: Time) {
        let mut frames = self.log.frames();
        self.is_on = now >= Time::ZERO + self.config.from && frames.len() < self.config.frames as usize;
        if self.is_on {
            frames.push(Frame { number, ..Frame::default() });
        }
    }

    /// Adds to the present frame, if it is recorded.
    pub(super) fn add(&self, to: impl FnOnce(&mut Frame)) {
        if self.is_on
            && let Some(frame) = self.log.frames().last_mut()
        {
            to(frame);
        }
    }
}

/// PDU as it is made.
#[derive(Clone, Debug, Default)]
pub(super) struct PduRecord {
    pub(super) grant: Option<u16>,
    pub(super) layout: Layout,
    pub(super) numbers: Numbers,
    /// Set if the payload is ARQ feedback.
    pub(super) is_feedback: bool,
    /// Set if it is a message of the station's basic connection.
    pub(super) is_management: bool,
    /// Fragment, number and bytes of each part.
    pub(super) parts: Vec<(Fragment, u16, Vec<u8>)>,
}

impl PduRecord {
    /// Returns the PDU's bytes. `basic` is the station's basic connection.
    pub(super) fn bytes(&self, cid: Cid, basic: Cid, has_crc: bool) -> Vec<u8> {
        // The only form of the CRC that Wireshark accepts.
        let crc = has_crc.then_some(CrcForm::Ofdma);
        let parts: Vec<Part<'_>> = self
            .parts
            .iter()
            .map(|(fragment, number, bytes)| Part { fragment: *fragment, number: *number, bytes })
            .collect();
        let cid = if self.is_management { basic } else { cid };
        let PduRecord { grant, layout, numbers, is_feedback: arq_feedback, .. } = *self;
        let mut bytes = Vec::new();
        Repr { cid, grant, layout, numbers, arq_feedback, crc }.emit(&parts, &mut bytes);
        bytes
    }
}

/// Returns a request for all that waits.
pub(super) fn request(cid: Cid, bytes: usize) -> Vec<u8> {
    let mut header = vec![0; HEADER_LEN];
    let bytes = (bytes as u32).min(Request::MAX);
    Request { kind: Urgency::Aggregate, bytes, cid }.emit(&mut header);
    header
}

/// Returns the bytes that a piggyback request asks for.
pub(super) fn piggyback(bytes: usize) -> u16 {
    bytes.min(u16::MAX.into()) as u16
}
