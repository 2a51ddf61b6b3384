//! Decapsulation of packets from TS packets, or from the data fields of BBFRAMEs.

use std::fmt;
use std::time::Duration;

use bentpipe_net::InvalidConfig;
use bentpipe_rohc::{DecompressError, Decompressor, DecompressorStats};
use bentpipe_units::Time;
use bentpipe_wire::ethernet::{self, EtherType, Frame};
use bentpipe_wire::ts::{PACKET_LEN, Pid};
use bentpipe_wire::ule::Payload;
use bentpipe_wire::{gse, ip, mpe, ule};

use super::config::{Config, Encapsulation};

/// Packet that was received, or an anomaly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// An IP packet.
    Ip(&'a [u8]),
    /// An Ethernet frame without FCS.
    Ethernet(&'a [u8]),
    /// Anomaly, or its end.
    Anomaly(Anomaly),
}

/// Anomaly between the ends of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// TS packet without sync byte, with errors, or scrambled.
    Damaged,
    /// Jump of the continuity counter: TS packets were lost.
    ContinuityBreak,
    /// SNDU, section or fragmented PDU with a wrong CRC-32.
    Crc,
    /// Length, pointer, type or label that is not possible.
    Format,
    /// Start of a correct SNDU or section after one of these.
    Resynchronised,
    /// ROHC packet that could not be decompressed.
    Decompression(DecompressError),
    /// ROHC packet at a receiver without a decompressor.
    NoDecompressor,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Anomaly::Damaged => "damaged TS packet",
            Anomaly::ContinuityBreak => "continuity break",
            Anomaly::Crc => "wrong CRC-32",
            Anomaly::Format => "impossible length, pointer or type",
            Anomaly::Resynchronised => "resynchronised",
            Anomaly::Decompression(error) => return write!(f, "ROHC: {error}"),
            Anomaly::NoDecompressor => "its packets are ROHC, and this site has no `rohc` for it",
        })
    }
}

/// Counters of a decapsulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// TS packets of the PID, or BBFRAMEs.
    pub frames: u64,
    /// SNDUs, sections or PDUs of GSE delivered.
    pub sndus: u64,
    /// Decapsulated packets.
    pub pdus: u64,
    /// Number of bytes of the PDUs.
    pub pdu_bytes: u64,
    /// SNDUs for other receivers.
    pub others: u64,
    /// PDUs of an unknown type, and ROHC without a decompressor.
    pub unknown: u64,
    /// Intact sections of other tables on the PID of MPE.
    pub other_tables: u64,
    /// Duplicate TS packets.
    pub duplicates: u64,
    /// Damaged TS packets: see [`Anomaly::Damaged`].
    pub damaged: u64,
    /// Jumps of the continuity counter.
    pub continuity_errors: u64,
    /// Wrong CRC-32s.
    pub crc_errors: u64,
    /// Lengths, pointers, types and labels that are not possible.
    pub format_errors: u64,
    /// Number of times that the start of an SNDU was found again.
    pub resynchronised: u64,
    /// Counters of the decompressor, zero without one.
    pub rohc: DecompressorStats,
}

#[derive(Debug)]
enum Carrier {
    Ule(ule::Receiver),
    Mpe(mpe::Receiver),
    /// The flag is set if only the data fields with its own packets come.
    Gse(gse::Receiver, bool),
}

/// Errors since the start, by the kinds of [`Anomaly`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Errors {
    damaged: u64,
    continuity: u64,
    crc: u64,
    format: u64,
}

impl Carrier {
    fn errors(&self) -> Errors {
        match self {
            Carrier::Ule(receiver) => of_ule(receiver.counts()),
            Carrier::Mpe(receiver) => of_mpe(receiver.section_counts(), receiver.counts()),
            Carrier::Gse(receiver, has_part) => of_gse(receiver.counts(), *has_part),
        }
    }

    /// Returns the number of bytes of the incomplete SNDUs.
    #[cfg(test)]
    fn waiting_len(&self) -> usize {
        match self {
            Carrier::Ule(receiver) => receiver.waiting_len(),
            Carrier::Mpe(_) | Carrier::Gse(..) => 0,
        }
    }
}

fn of_ule(counts: &ule::Counts) -> Errors {
    Errors {
        damaged: counts.malformed + counts.transmission_errors + counts.scrambled + counts.adaptations,
        continuity: counts.continuity_errors,
        crc: counts.crc_errors,
        format: counts.pointer_errors
            + counts.reassembly_errors
            + counts.delimiting_errors
            + counts.length_errors
            + counts.type_errors
            + counts.concat_errors,
    }
}

fn of_mpe(sections: &bentpipe_wire::section::Counts, counts: &mpe::Counts) -> Errors {
    Errors {
        damaged: sections.malformed + sections.transmission_errors + sections.scrambled,
        continuity: sections.continuity_errors + counts.orphans + counts.abandoned,
        crc: counts.crc_errors,
        format: sections.pointer_errors
            + sections.delimiting_errors
            + sections.length_errors
            + counts.length_errors
            + counts.unsupported,
    }
}

/// Returns the errors of GSE. `has_part`: only data fields with own packets come, so fragments without a first one may be for
/// other receivers.
fn of_gse(counts: &gse::Counts, has_part: bool) -> Errors {
    Errors {
        damaged: 0,
        continuity: counts.abandoned + if has_part { 0 } else { counts.orphans },
        crc: counts.crc_errors,
        format: counts.length_errors
            + counts.label_errors
            + counts.total_length_errors
            + counts.type_errors
            + counts.concat_errors,
    }
}

/// Decapsulator of a stream: reassembly on a PID, addresses, decompressor.
///
/// It is a state machine without clock or I/O, and answers hostile input in bounded time and memory. See
/// [`Encapsulator`](super::Encapsulator) for an example.
#[derive(Debug)]
pub struct Decapsulator {
    pid: Pid,
    carrier: Carrier,
    inner: Inner,
    errors: Errors,
    /// Set while no SNDU has come since a loss.
    is_lost: bool,
    resynchronised: u64,
}

impl Decapsulator {
    /// Creates the decapsulator of a stream for a receiver with these addresses.
    ///
    /// # Errors
    /// Returns the key whose value is not possible.
    pub fn new(config: &Config, addresses: ethernet::Filter) -> Result<Decapsulator, InvalidConfig> {
        config.check()?;
        let pid = config.pid.pid();
        let carrier = match config.encapsulation {
            Encapsulation::Ule => Carrier::Ule(ule::Receiver::new(pid, addresses)),
            Encapsulation::Mpe => Carrier::Mpe(mpe::Receiver::new(pid, addresses)),
            Encapsulation::Gse => Carrier::Gse(gse::Receiver::new(labels(addresses)), false),
        };
        let decompressor = config.rohc.as_ref().map(|rohc| Decompressor::new(rohc.decompressor()));
        let (errors, inner) = (Errors::default(), Inner { decompressor, ..Inner::default() });
        Ok(Decapsulator { pid, carrier, inner, errors, is_lost: false, resynchronised: 0 })
    }

    /// Restricts it to PDUs of GSE with this label.
    #[must_use]
    pub fn of_label(mut self, label: gse::Label) -> Decapsulator {
        if let Carrier::Gse(receiver, has_part) = &mut self.carrier {
            *receiver = gse::Receiver::new(gse::Filter::Only(vec![label]));
            *has_part = true;
        }
        self
    }

    /// Returns the PID, which has no meaning with GSE.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Processes a TS packet and calls `sink` with its packets and anomalies. Other PIDs are ignored, and all with GSE.
    pub fn push(&mut self, now: Time, packet: &[u8; PACKET_LEN], mut sink: impl FnMut(Event<'_>)) {
        let Decapsulator { carrier, inner, .. } = self;
        let before = inner.sndus;
        match carrier {
            Carrier::Ule(receiver) => receiver.push(packet, |sndu| inner.sndu(now, &sndu.payload, &mut sink)),
            Carrier::Mpe(receiver) => receiver.push(packet, |datagram| {
                inner.sndu(now, &Payload::Pdu(datagram.ethertype, datagram.bytes), &mut sink);
            }),
            Carrier::Gse(..) => {}
        }
        self.judge(before, &mut sink);
    }

    /// Processes the data field of a BBFRAME and calls `sink` with its packets and anomalies. It is ignored without GSE.
    pub fn push_field(&mut self, now: Time, field: &[u8], mut sink: impl FnMut(Event<'_>)) {
        let Decapsulator { carrier, inner, .. } = self;
        let before = inner.sndus;
        if let Carrier::Gse(receiver, _) = carrier {
            receiver.push(field, |pdu| inner.sndu(now, &pdu.payload, &mut sink));
        }
        self.judge(before, &mut sink);
    }

    /// Reports new anomalies, and the end of earlier ones.
    fn judge(&mut self, sndus_before: u64, sink: &mut impl FnMut(Event<'_>)) {
        let errors = self.carrier.errors();
        let is_new = self.inner.sndus > sndus_before;
        if errors != self.errors {
            let old = std::mem::replace(&mut self.errors, errors);
            let sorts = [
                (errors.damaged > old.damaged, Anomaly::Damaged),
                (errors.continuity > old.continuity, Anomaly::ContinuityBreak),
                (errors.crc > old.crc, Anomaly::Crc),
                (errors.format > old.format, Anomaly::Format),
            ];
            sorts.iter().filter(|(is_so, _)| *is_so).for_each(|(_, what)| sink(Event::Anomaly(*what)));
            self.is_lost = true;
        }
        if self.is_lost && is_new {
            self.is_lost = false;
            self.resynchronised += 1;
            sink(Event::Anomaly(Anomaly::Resynchronised));
        }
    }

    /// Returns `true` if the decompressor had feedback, and appends it.
    ///
    /// It is to be sent by [`Encapsulator::send_feedback`](super::Encapsulator::send_feedback) of the other direction.
    pub fn take_feedback(&mut self, out: &mut Vec<u8>) -> bool {
        self.inner.decompressor.as_mut().is_some_and(|decompressor| decompressor.take_feedback(out))
    }

    /// Returns `true` if packets brought feedback, and appends it.
    ///
    /// It is for [`Encapsulator::feedback`](super::Encapsulator::feedback) at this end.
    pub fn take_received_feedback(&mut self, out: &mut Vec<u8>) -> bool {
        self.inner.decompressor.as_mut().is_some_and(|decompressor| decompressor.take_received_feedback(out))
    }

    /// Returns the counters.
    pub fn received(&self) -> Received {
        let errors = self.carrier.errors();
        let (frames, sndus, others, duplicates) = match &self.carrier {
            Carrier::Ule(receiver) => {
                let counts = receiver.counts();
                (counts.packets, counts.sndus, counts.others, counts.duplicates)
            }
            Carrier::Mpe(receiver) => {
                let (sections, counts) = (receiver.section_counts(), receiver.counts());
                (sections.packets, counts.datagrams, counts.others, sections.duplicates)
            }
            Carrier::Gse(receiver, _) => {
                let counts = receiver.counts();
                (counts.frames, counts.pdus, counts.others, 0)
            }
        };
        Received {
            frames,
            sndus,
            others,
            duplicates,
            pdus: self.inner.pdus,
            pdu_bytes: self.inner.pdu_bytes,
            unknown: self.inner.unknown,
            other_tables: match &self.carrier {
                Carrier::Mpe(receiver) => receiver.counts().other_tables,
                Carrier::Ule(_) | Carrier::Gse(..) => 0,
            },
            damaged: errors.damaged,
            continuity_errors: errors.continuity,
            crc_errors: errors.crc,
            format_errors: errors.format,
            resynchronised: self.resynchronised,
            rohc: self.inner.decompressor.as_ref().map(Decompressor::stats).unwrap_or_default(),
        }
    }

    /// Returns the number of incomplete SNDUs, datagrams or PDUs.
    pub fn waiting(&self) -> u64 {
        match &self.carrier {
            Carrier::Ule(receiver) => u64::from(receiver.waiting_len() > 0),
            Carrier::Mpe(receiver) => u64::from(receiver.is_waiting()),
            Carrier::Gse(receiver, _) => receiver.waiting() as u64,
        }
    }

    /// Returns the errors by their cause.
    pub fn causes(&self) -> Vec<(&'static str, u64)> {
        let (mut all, packets) = match &self.carrier {
            Carrier::Gse(receiver, _) => return receiver.counts().causes().to_vec(),
            Carrier::Ule(receiver) => {
                let of = receiver.counts();
                let packets = [of.malformed, of.transmission_errors, of.scrambled, of.continuity_errors];
                (of.causes().to_vec(), packets)
            }
            Carrier::Mpe(receiver) => {
                let of = receiver.section_counts();
                let packets = [of.malformed, of.transmission_errors, of.scrambled, of.continuity_errors];
                (receiver.counts().causes(of).to_vec(), packets)
            }
        };
        let names = ["malformed TS packet", "transport error", "scrambled TS packet", "continuity"];
        all.extend(names.into_iter().zip(packets));
        all
    }

    /// Returns the number of bytes of the incomplete SNDU.
    #[cfg(test)]
    pub(super) fn waiting_len(&self) -> usize {
        self.carrier.waiting_len()
    }
}

fn labels(addresses: ethernet::Filter) -> gse::Filter {
    match addresses {
        ethernet::Filter::All => gse::Filter::All,
        ethernet::Filter::Only(addresses) => {
            gse::Filter::Only(addresses.into_iter().map(gse::Label::Six).collect())
        }
    }
}

/// Processing of an SNDU's payload.
#[derive(Debug, Default)]
struct Inner {
    decompressor: Option<Decompressor>,
    restored: Vec<u8>,
    sndus: u64,
    pdus: u64,
    pdu_bytes: u64,
    unknown: u64,
}

impl Inner {
    fn sndu(&mut self, now: Time, payload: &Payload<'_>, sink: &mut impl FnMut(Event<'_>)) {
        self.sndus += 1;
        match payload {
            // What is concatenated is not concatenated once more, so this goes no deeper.
            Payload::Pdus(pdus) => pdus.payloads().for_each(|payload| match payload {
                Ok(payload) => self.payload(now, &payload, sink),
                Err(_) => self.unknown += 1,
            }),
            payload => self.payload(now, payload, sink),
        }
    }

    fn payload(&mut self, now: Time, payload: &Payload<'_>, sink: &mut impl FnMut(Event<'_>)) {
        match *payload {
            Payload::Pdu(EtherType::IPV4 | EtherType::IPV6, bytes) => self.ip(bytes, sink),
            Payload::Pdu(EtherType::ROHC, rohc) => self.decompress(now, &[], rohc, sink),
            Payload::Bridged(frame) => self.bridged(now, frame, sink),
            Payload::Test(_) => {}
            Payload::Pdu(..) | Payload::Pdus(_) | Payload::Ts(_) => self.unknown += 1,
        }
    }

    /// Delivers an IP packet without the stuffing of its section.
    fn ip(&mut self, bytes: &[u8], sink: &mut impl FnMut(Event<'_>)) {
        let len = ip::Packet::new_checked(bytes).map_or(bytes.len(), |packet| packet.total_len());
        let bytes = &bytes[..len.min(bytes.len())];
        self.count(bytes);
        sink(Event::Ip(bytes));
    }

    fn bridged(&mut self, now: Time, bytes: &[u8], sink: &mut impl FnMut(Event<'_>)) {
        let rohc = |frame: &Frame<&[u8]>| frame.ethertype() == EtherType::ROHC && self.decompressor.is_some();
        let rohc_at = Frame::new_checked(bytes).ok().filter(rohc).map(|frame| frame.header_len());
        match rohc_at {
            Some(at) => self.decompress(now, &bytes[..at], &bytes[at..], sink),
            None => {
                self.count(bytes);
                sink(Event::Ethernet(bytes));
            }
        }
    }

    /// Decompresses a packet, with the header of its frame if any.
    fn decompress(&mut self, now: Time, header: &[u8], rohc: &[u8], sink: &mut impl FnMut(Event<'_>)) {
        let Some(decompressor) = &mut self.decompressor else {
            self.unknown += 1;
            return sink(Event::Anomaly(Anomaly::NoDecompressor));
        };
        self.restored.clear();
        self.restored.extend_from_slice(header);
        match decompressor.decompress(Duration::from_nanos(now.as_nanos()), rohc, &mut self.restored) {
            Ok(Some(_)) => self.deliver(header.len(), sink),
            Ok(None) => {}
            Err(error) => sink(Event::Anomaly(Anomaly::Decompression(error))),
        }
    }

    /// Delivers a decompressed packet. It is IP, so its first bits determine the EtherType of its frame.
    fn deliver(&mut self, header_len: usize, sink: &mut impl FnMut(Event<'_>)) {
        let mut restored = std::mem::take(&mut self.restored);
        self.count(&restored);
        if header_len == 0 {
            sink(Event::Ip(&restored));
        } else {
            let is_v6 = restored.get(header_len).is_some_and(|first| first >> 4 == 6);
            let ethertype = if is_v6 { EtherType::IPV6 } else { EtherType::IPV4 };
            restored[header_len - 2..header_len].copy_from_slice(&ethertype.0.to_be_bytes());
            sink(Event::Ethernet(&restored));
        }
        self.restored = restored;
    }

    fn count(&mut self, bytes: &[u8]) {
        self.pdus += 1;
        self.pdu_bytes += bytes.len() as u64;
    }
}
