//! Reassembly of SNDUs from TS packets (RFC 4326, section 7).

use crate::crc32::Crc32;
use crate::dvb::ts::{Continuity, PACKET_LEN, Packet, Pid, Refusal, STUFFING};
use crate::lan::ethernet::Filter;
use crate::{Error, Kind};

use super::{END_INDICATOR, Payload, Sndu, npa, sndu_len};

/// The greatest payload pointer: behind it there is room for a Length field.
const MAX_POINTER: usize = 181;

/// Counters of a PID's TS packets and SNDUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// TS packets of the PID.
    pub packets: u64,
    /// SNDUs passed on.
    pub sndus: u64,
    /// Bytes of the SNDUs, headers and CRC included.
    pub sndu_bytes: u64,
    /// Test SNDUs, which are dropped.
    pub tests: u64,
    /// SNDUs for other receivers.
    pub others: u64,
    /// Packets without sync byte or with an impossible adaptation field, of any PID; dropped.
    pub malformed: u64,
    /// Packets dropped because of a transport error indicator.
    pub transmission_errors: u64,
    /// Packets dropped because they are scrambled.
    pub scrambled: u64,
    /// Packets dropped because they have an adaptation field or no payload (RFC 4326, section 3).
    pub adaptations: u64,
    /// Packets dropped because they came before.
    pub duplicates: u64,
    /// Jumps of the continuity counter.
    pub continuity_errors: u64,
    /// Payload pointers over 181.
    pub pointer_errors: u64,
    /// Payload pointers not to the end of the incomplete SNDU.
    pub reassembly_errors: u64,
    /// Bytes behind an SNDU which are neither stuffing nor announced by a payload pointer.
    pub delimiting_errors: u64,
    /// SNDUs too short for CRC, address, extension headers or the bridged frame in them.
    pub length_errors: u64,
    /// SNDUs with a wrong CRC.
    pub crc_errors: u64,
    /// SNDUs with an unknown mandatory extension header.
    pub type_errors: u64,
    /// SNDUs whose concatenated TS packets or PDUs do not make up their length.
    pub concat_errors: u64,
}

impl Counts {
    /// Returns the errors by their cause.
    pub const fn causes(&self) -> [(&'static str, u64); 8] {
        [
            ("payload pointer", self.pointer_errors),
            ("incomplete SNDU", self.reassembly_errors),
            ("bytes behind an SNDU", self.delimiting_errors),
            ("length of an SNDU", self.length_errors),
            ("CRC", self.crc_errors),
            ("unknown extension header", self.type_errors),
            ("concatenated PDUs", self.concat_errors),
            ("adaptation field", self.adaptations),
        ]
    }
}

/// Reassembles the SNDUs of one PID.
#[derive(Clone, Debug)]
pub struct Receiver {
    pid: Pid,
    filter: Filter,
    continuity: Continuity,
    /// Incomplete SNDU.
    current: Vec<u8>,
    /// Length of the whole SNDU in bytes; 0 in the Idle state.
    needed: usize,
    counts: Counts,
}

impl Receiver {
    /// Creates a receiver for a PID.
    pub fn new(pid: Pid, filter: Filter) -> Receiver {
        let (continuity, counts) = (Continuity::default(), Counts::default());
        Receiver { pid, filter, continuity, current: Vec::new(), needed: 0, counts }
    }

    /// The PID.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns the counters.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the bytes received of an incomplete SNDU, under [`super::MAX_LEN`]. 0 in the Idle state.
    pub fn waiting_len(&self) -> usize {
        self.current.len()
    }

    /// Handles a TS packet and calls `sink` with each SNDU that ends in it. Ignores packets of another PID.
    pub fn push(&mut self, packet: &[u8; PACKET_LEN], mut sink: impl FnMut(&Sndu<'_>)) {
        let Ok(packet) = Packet::new_checked(packet) else {
            self.counts.malformed += 1;
            return;
        };
        if packet.pid() != self.pid {
            return;
        }
        self.counts.packets += 1;
        if !self.admit(&packet) {
            return;
        }
        let payload = packet.payload().expect("neither damaged nor scrambled");
        if packet.unit_start() {
            self.start(payload, &mut sink);
        } else {
            self.proceed(payload, &mut sink);
        }
    }

    /// Applies the checks of RFC 4326 sections 3 and 7.3. Each relies on the ones before.
    fn admit(&mut self, packet: &Packet<&[u8; PACKET_LEN]>) -> bool {
        if packet.has_adaptation() && !packet.has_error() {
            self.counts.adaptations += 1;
            return false;
        }
        let admitted = self.continuity.admit(packet);
        if matches!(admitted, Ok(true) | Err(Refusal::TransmissionError)) {
            self.idle();
        }
        let counts = &mut self.counts;
        match admitted {
            Ok(false) => {}
            Ok(true) => counts.continuity_errors += 1,
            Err(Refusal::TransmissionError) => counts.transmission_errors += 1,
            Err(Refusal::Scrambled) => counts.scrambled += 1,
            Err(Refusal::NoPayload) => counts.adaptations += 1,
            Err(Refusal::Duplicate) => counts.duplicates += 1,
        }
        admitted.is_ok()
    }

    fn idle(&mut self) {
        self.needed = 0;
        self.current.clear();
    }

    /// Handles a payload with a pointer. If it does not locate the end of the incomplete SNDU, the SNDU is
    /// lost; in the Idle state any pointer is valid.
    fn start(&mut self, payload: &[u8], sink: &mut impl FnMut(&Sndu<'_>)) {
        let (pointer, rest) = (usize::from(payload[0]), &payload[1..]);
        if pointer > MAX_POINTER {
            self.counts.pointer_errors += 1;
            return self.idle();
        }
        let missing = self.needed - self.current.len();
        let is_under_way = self.needed != 0;
        let ends_here = is_under_way && missing == pointer;
        if is_under_way && !ends_here {
            self.counts.reassembly_errors += 1;
            self.idle();
        }
        if !ends_here || self.finish(&rest[..pointer], sink) {
            self.sndus(&rest[pointer..], ends_here, sink);
        }
    }

    /// Handles a payload without pointer: more of the incomplete SNDU, or its end and stuffing.
    fn proceed(&mut self, payload: &[u8], sink: &mut impl FnMut(&Sndu<'_>)) {
        let missing = self.needed - self.current.len();
        if missing > payload.len() {
            self.current.extend_from_slice(payload);
        } else if missing > 0 {
            let (end, rest) = payload.split_at(missing);
            let is_delimited = matches!(rest, [] | [STUFFING] | [STUFFING, STUFFING, ..]);
            if self.finish(end, sink) && !is_delimited {
                self.counts.delimiting_errors += 1;
            }
        }
    }

    /// Returns `true` if the CRC of the completed SNDU was correct.
    fn finish(&mut self, end: &[u8], sink: &mut impl FnMut(&Sndu<'_>)) -> bool {
        let mut current = std::mem::take(&mut self.current);
        current.extend_from_slice(end);
        let is_intact = self.deliver(&current, sink);
        self.current = current;
        self.idle();
        is_intact
    }

    /// SNDUs from the start of `bytes` on. An End Indicator may come `behind` an SNDU, but not where a payload pointer
    /// promises one.
    fn sndus(&mut self, mut bytes: &[u8], mut behind: bool, sink: &mut impl FnMut(&Sndu<'_>)) {
        while let Some(field) = bytes.first_chunk().map(|field| u16::from_be_bytes(*field)) {
            if behind && field == END_INDICATOR {
                return;
            }
            let Some(len) = sndu_len(field) else {
                self.counts.length_errors += 1;
                return;
            };
            let Some((sndu, rest)) = bytes.split_at_checked(len) else {
                self.needed = len;
                self.current.extend_from_slice(bytes);
                return;
            };
            if !self.deliver(sndu, sink) {
                return;
            }
            (bytes, behind) = (rest, true);
        }
        if !matches!(bytes, [] | [STUFFING]) {
            self.counts.delimiting_errors += 1;
        }
    }

    /// Returns `true` if a whole SNDU had a correct CRC, after delivering it. Otherwise nothing after it is reliable
    /// either (RFC 4326, section 7.2).
    fn deliver(&mut self, bytes: &[u8], sink: &mut impl FnMut(&Sndu<'_>)) -> bool {
        if Crc32::new().add_bytes(bytes).register() != 0 {
            self.counts.crc_errors += 1;
            return false;
        }
        if !self.filter.accepts(npa(bytes)) {
            self.counts.others += 1;
            return true;
        }
        match Sndu::parse_intact(bytes) {
            Ok(Sndu { payload: Payload::Test(_), .. }) => self.counts.tests += 1,
            Ok(sndu) => {
                self.counts.sndus += 1;
                self.counts.sndu_bytes += bytes.len() as u64;
                sink(&sndu);
            }
            Err(error) => self.count(error),
        }
        true
    }

    fn count(&mut self, error: Error) {
        let count = match error.kind {
            Kind::Unsupported(_) => &mut self.counts.type_errors,
            Kind::Malformed(_) => &mut self.counts.concat_errors,
            Kind::Truncated { .. } | Kind::Checksum => &mut self.counts.length_errors,
        };
        *count += 1;
    }
}
