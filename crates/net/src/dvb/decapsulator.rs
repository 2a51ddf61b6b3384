//! From TS packets, or from the data fields of baseband frames, to packets.

use std::fmt;
use std::time::Duration;

use bentpipe_rohc::{DecompressError, Decompressor, DecompressorStats};
use bentpipe_units::Time;
use bentpipe_wire::ethernet::{self, EtherType, Frame};
use bentpipe_wire::ts::{PACKET_LEN, Pid};
use bentpipe_wire::ule::Payload;
use bentpipe_wire::{gse, ip, mpe, ule};

use super::config::{Config, Encapsulation};
use crate::Impossible;

/// What came out, or went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// An IP packet.
    Ip(&'a [u8]),
    /// An Ethernet frame without FCS.
    Ethernet(&'a [u8]),
    /// Something went wrong, or is right again.
    Trouble(Trouble),
}

/// What goes wrong between the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A TS packet without sync byte, with a transport error, scrambled, or with an impossible adaptation field.
    Damaged,
    /// The continuity counter jumped: TS packets were lost.
    ContinuityBreak,
    /// An SNDU, section or PDU in fragments whose CRC-32 is wrong.
    Crc,
    /// A length, pointer, type or label that cannot be.
    Format,
    /// After one of these the start of an SNDU or section was found again, and it was right.
    Resynchronised,
    /// A ROHC packet that could not be decompressed.
    Decompression(DecompressError),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Trouble::Damaged => "damaged TS packet",
            Trouble::ContinuityBreak => "continuity break",
            Trouble::Crc => "wrong CRC-32",
            Trouble::Format => "impossible length, pointer or type",
            Trouble::Resynchronised => "resynchronised",
            Trouble::Decompression(error) => return write!(f, "ROHC: {error}"),
        })
    }
}

/// What was received so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// TS packets of the PID, or baseband frames.
    pub frames: u64,
    /// SNDUs, sections or GSE's PDUs passed on.
    pub sndus: u64,
    /// Packets that came out.
    pub pdus: u64,
    /// Their bytes.
    pub pdu_bytes: u64,
    /// SNDUs for somebody else.
    pub others: u64,
    /// PDUs of a type that is neither IP nor Ethernet nor ROHC, and ROHC where there is no decompressor.
    pub unknown: u64,
    /// TS packets that came before.
    pub duplicates: u64,
    /// Damaged TS packets: see [`Trouble::Damaged`].
    pub damaged: u64,
    /// Jumps of the continuity counter.
    pub continuity_errors: u64,
    /// Wrong CRC-32s.
    pub crc_errors: u64,
    /// Impossible lengths, pointers, types and labels.
    pub format_errors: u64,
    /// How often an SNDU was found again.
    pub resynchronised: u64,
    /// What the decompressor says; nothing without one.
    pub rohc: DecompressorStats,
}

#[derive(Debug)]
enum Carrier {
    Ule(ule::Receiver),
    Mpe(mpe::Receiver),
    Gse(gse::Receiver),
}

/// Errors so far, by sort: what [`Trouble`] tells apart.
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
            Carrier::Gse(receiver) => of_gse(receiver.counts()),
        }
    }

    /// Bytes of the SNDUs under way.
    #[cfg(test)]
    fn waiting_len(&self) -> usize {
        match self {
            Carrier::Ule(receiver) => receiver.waiting_len(),
            Carrier::Mpe(_) | Carrier::Gse(_) => 0,
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

fn of_gse(counts: &gse::Counts) -> Errors {
    Errors {
        damaged: 0,
        continuity: counts.orphans + counts.abandoned,
        crc: counts.crc_errors,
        format: counts.length_errors
            + counts.label_errors
            + counts.total_length_errors
            + counts.type_errors
            + counts.concat_errors,
    }
}

/// One stream's receiving end: reassembly on a PID, addresses, decompressor.
///
/// It is a state machine without clock or I/O, and answers hostile input in bounded time and memory. See
/// [`Encapsulator`](super::Encapsulator) for an example.
#[derive(Debug)]
pub struct Decapsulator {
    pid: Pid,
    carrier: Carrier,
    inner: Inner,
    errors: Errors,
    /// Something was lost, and no SNDU came since.
    is_lost: bool,
    resynchronised: u64,
}

impl Decapsulator {
    /// The receiving end of a stream, for a receiver with these addresses.
    ///
    /// # Errors
    /// The key whose value is impossible.
    pub fn new(config: &Config, addresses: ethernet::Filter) -> Result<Decapsulator, Impossible> {
        config.check()?;
        let pid = config.pid.pid();
        let carrier = match config.encapsulation {
            Encapsulation::Ule => Carrier::Ule(ule::Receiver::new(pid, addresses)),
            Encapsulation::Mpe => Carrier::Mpe(mpe::Receiver::new(pid, addresses)),
            Encapsulation::Gse => Carrier::Gse(gse::Receiver::new(labels(addresses))),
        };
        let decompressor = config.rohc.as_ref().map(|rohc| Decompressor::new(rohc.decompressor()));
        let (errors, inner) = (Errors::default(), Inner { decompressor, ..Inner::default() });
        Ok(Decapsulator { pid, carrier, inner, errors, is_lost: false, resynchronised: 0 })
    }

    /// The PID. GSE has none that matters.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Takes in a TS packet and calls `sink` with what comes of it. A packet of another PID does nothing, nor does one
    /// where GSE is expected.
    pub fn push(&mut self, now: Time, packet: &[u8; PACKET_LEN], mut sink: impl FnMut(Event<'_>)) {
        let Decapsulator { carrier, inner, .. } = self;
        let before = inner.sndus;
        match carrier {
            Carrier::Ule(receiver) => receiver.push(packet, |sndu| inner.sndu(now, &sndu.payload, &mut sink)),
            Carrier::Mpe(receiver) => receiver.push(packet, |datagram| {
                inner.sndu(now, &Payload::Pdu(datagram.ethertype, datagram.bytes), &mut sink);
            }),
            Carrier::Gse(_) => {}
        }
        self.judge(before, &mut sink);
    }

    /// Takes in the data field of a baseband frame and calls `sink` with what comes of it. Does nothing where TS packets
    /// are expected.
    pub fn push_field(&mut self, now: Time, field: &[u8], mut sink: impl FnMut(Event<'_>)) {
        let Decapsulator { carrier, inner, .. } = self;
        let before = inner.sndus;
        if let Carrier::Gse(receiver) = carrier {
            receiver.push(field, |pdu| inner.sndu(now, &pdu.payload, &mut sink));
        }
        self.judge(before, &mut sink);
    }

    /// Says what went wrong since the last time, and whether it is right again.
    fn judge(&mut self, sndus_before: u64, sink: &mut impl FnMut(Event<'_>)) {
        let errors = self.carrier.errors();
        let is_new = self.inner.sndus > sndus_before;
        if errors != self.errors {
            let old = std::mem::replace(&mut self.errors, errors);
            let sorts = [
                (errors.damaged > old.damaged, Trouble::Damaged),
                (errors.continuity > old.continuity, Trouble::ContinuityBreak),
                (errors.crc > old.crc, Trouble::Crc),
                (errors.format > old.format, Trouble::Format),
            ];
            sorts.iter().filter(|(is_so, _)| *is_so).for_each(|(_, what)| sink(Event::Trouble(*what)));
            self.is_lost = true;
        }
        if self.is_lost && is_new {
            self.is_lost = false;
            self.resynchronised += 1;
            sink(Event::Trouble(Trouble::Resynchronised));
        }
    }

    /// Appends the decompressor's feedback, for the other end's compressor: it is to be sent by
    /// [`Encapsulator::send_feedback`](super::Encapsulator::send_feedback) of the stream in the other direction. Returns
    /// whether there was any.
    pub fn take_feedback(&mut self, out: &mut Vec<u8>) -> bool {
        self.inner.decompressor.as_mut().is_some_and(|decompressor| decompressor.take_feedback(out))
    }

    /// Appends the feedback that came with the packets received, for
    /// [`Encapsulator::feedback`](super::Encapsulator::feedback) at this end. Returns whether there was any.
    pub fn take_received_feedback(&mut self, out: &mut Vec<u8>) -> bool {
        self.inner.decompressor.as_mut().is_some_and(|decompressor| decompressor.take_received_feedback(out))
    }

    /// What was received so far.
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
            Carrier::Gse(receiver) => {
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
            damaged: errors.damaged,
            continuity_errors: errors.continuity,
            crc_errors: errors.crc,
            format_errors: errors.format,
            resynchronised: self.resynchronised,
            rohc: self.inner.decompressor.as_ref().map(Decompressor::stats).unwrap_or_default(),
        }
    }

    /// Bytes of the SNDU under way.
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

/// What is done with an SNDU's payload.
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

    /// An IP packet, without what stuffs its section.
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

    /// Restores a packet, and its frame if it stood behind the header of one.
    fn decompress(&mut self, now: Time, header: &[u8], rohc: &[u8], sink: &mut impl FnMut(Event<'_>)) {
        let Some(decompressor) = &mut self.decompressor else {
            self.unknown += 1;
            return;
        };
        self.restored.clear();
        self.restored.extend_from_slice(header);
        match decompressor.decompress(Duration::from_nanos(now.as_nanos()), rohc, &mut self.restored) {
            Ok(Some(_)) => self.deliver(header.len(), sink),
            Ok(None) => {}
            Err(error) => sink(Event::Trouble(Trouble::Decompression(error))),
        }
    }

    /// What the compressor took is IP, so its first bits say which EtherType the frame had.
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
