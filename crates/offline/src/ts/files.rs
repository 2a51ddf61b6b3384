//! Files of streams.

use std::cell::Cell;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use bentpipe_wire::bbframe::{self, ADAPTATION_LEN, Deframer};
use bentpipe_wire::ip::{Packet, Protocol};
use bentpipe_wire::pcap::{LinkType, Reader};
use bentpipe_wire::ts::{self, PACKET_LEN, Packet as TsPacket};
use bentpipe_wire::{link, udp};

use crate::capture::{self, Output};
use crate::{Error, Session};

/// Maximum number of bytes read from a pipe, which may have no end.
const MAX_PIPED_BYTES: u64 = 1 << 32;

/// Length of a pipe's start that must have part of a stream, in bytes.
const PROBED_BYTES: u64 = 1 << 20;

/// Unit of a stream.
#[derive(Clone, Copy, Debug)]
pub enum Unit<'a> {
    /// A TS packet.
    Ts(&'a [u8; PACKET_LEN]),
    /// A baseband frame.
    Frame(&'a [u8]),
}

/// Stream that was read into memory.
pub struct Stream {
    path: PathBuf,
    bytes: Vec<u8>,
    is_capture: bool,
    /// The note on an end within a record was given.
    cut_noted: Cell<bool>,
}

impl Stream {
    /// Reads a file, or standard input for "-".
    ///
    /// # Errors
    /// Returns an error if it cannot be read, or is a pipe with no end in 4 GiB.
    pub fn read(path: &Path, session: &dyn Session) -> Result<Stream, Error> {
        let failed = |source| Error::Open { path: path.into(), source };
        let most = if path.is_file() { u64::MAX } else { MAX_PIPED_BYTES };
        let mut bytes = Vec::new();
        let mut source = capture::source(path, session).map_err(failed)?;
        source.by_ref().take(PROBED_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 == PROBED_BYTES
            && Reader::new(&bytes[..]).is_err()
            && ts::find_sync(&bytes).is_none()
        {
            return Err(nothing_found(path));
        }
        source.take(most - PROBED_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 == most {
            let shown = path.display();
            return Err(Error::Usage(format!(
                "{shown}: no end in {most} bytes: expected a part of a stream"
            )));
        }
        let is_capture = Reader::new(&bytes[..]).is_ok();
        Ok(Stream { path: path.into(), bytes, is_capture, cut_noted: Cell::new(false) })
    }

    /// Passes every TS packet and BBFRAME to `each` and returns the number of other bytes. Each has its time in
    /// nanoseconds if the file has times. Ends early on an interrupt or error.
    ///
    /// # Errors
    /// Returns the error of `each`, or one if a capture cannot be read on or the file has nothing of the kind. A last
    /// record that is cut short is the end of the capture.
    pub fn for_each(
        &self,
        session: &dyn Session,
        mut each: impl FnMut(Option<u64>, Unit<'_>) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let mut found = false;
        let mut counted = |time: Option<u64>, unit: Unit<'_>| {
            found = true;
            each(time, unit)
        };
        let skipped = if self.is_capture {
            self.records(session, &mut counted)?
        } else {
            bare(session, &self.bytes, None, &mut counted)?
        };
        if !found && !session.is_interrupted() {
            return Err(nothing_found(&self.path));
        }
        Ok(skipped)
    }

    fn records(
        &self,
        session: &dyn Session,
        each: &mut impl FnMut(Option<u64>, Unit<'_>) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let failed = |source| Error::Read { path: self.path.clone(), source };
        let mut reader = Reader::new(&self.bytes[..]).map_err(failed)?;
        let (mut skipped, mut deframer) = (0, Deframer::new());
        let mut records = 0_u64;
        loop {
            let record = match reader.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(error) if capture::is_cut_short(&error) => {
                    self.note_cut(records + 1, session);
                    break;
                }
                Err(error) => return Err(failed(error)),
            };
            records += 1;
            if session.is_interrupted() {
                break;
            }
            let payload = if record.link_type == LinkType::MPEG_2_TS {
                Some(record.bytes)
            } else {
                datagram(record.link_type, record.bytes)
            };
            skipped += match payload {
                Some([0xb8, ..]) => frame(payload.unwrap_or_default(), record.time_ns, &mut deframer, each)?,
                Some(payload) => bare(session, payload, record.time_ns, each)?,
                None => record.bytes.len() as u64,
            };
        }
        Ok(skipped)
    }

    /// Notes that the capture ends within a record, once however often it is read.
    fn note_cut(&self, record: u64, session: &dyn Session) {
        if !self.cut_noted.replace(true) {
            session.note(&capture::cut_remark(&self.path, record));
        }
    }
}

fn nothing_found(path: &Path) -> Error {
    Error::Usage(format!("{}: neither TS packets nor baseband frames", path.display()))
}

/// Returns the payload of a captured UDP datagram, without an RTP header.
fn datagram(link_type: LinkType, bytes: &[u8]) -> Option<&[u8]> {
    let network = link::network(link_type, bytes).ok()?;
    let packet = Packet::new_checked(network.bytes).ok()?;
    let upper = packet.upper().ok().filter(|upper| upper.protocol == Protocol::UDP)?;
    let start = network.offset + upper.offset;
    let end = start + upper.bytes.len();
    let payload = bytes.get(start..end)?.get(udp::HEADER_LEN..)?;
    match payload {
        [0x80, 0x21 | 0xa1, ..] if payload.len() % PACKET_LEN == 12 => payload.get(12..),
        _ => Some(payload),
    }
}

/// Passes a BBFRAME, or the TS packets that end in it, to `each`.
fn frame(
    payload: &[u8],
    time: Option<u64>,
    deframer: &mut Deframer,
    each: &mut impl FnMut(Option<u64>, Unit<'_>) -> Result<(), Error>,
) -> Result<u64, Error> {
    if bbframe::Adaptation::parse(payload).is_err() {
        return Ok(payload.len() as u64);
    }
    let frame = &payload[ADAPTATION_LEN..];
    match bbframe::parse(frame) {
        Ok((repr, field)) if repr.stream == bbframe::Stream::Transport => {
            let mut done = Ok(());
            deframer.push(&repr, field, |packet| {
                if done.is_ok() {
                    done = each(time, Unit::Ts(packet));
                }
            });
            done?;
        }
        _ => each(time, Unit::Frame(frame))?,
    }
    Ok(0)
}

/// Passes TS packets that follow one another to `each`, wherever they start.
fn bare(
    session: &dyn Session,
    bytes: &[u8],
    time: Option<u64>,
    each: &mut impl FnMut(Option<u64>, Unit<'_>) -> Result<(), Error>,
) -> Result<u64, Error> {
    let (mut rest, mut skipped) = (bytes, 0);
    while let Some(at) = ts::find_sync(rest) {
        skipped += at as u64;
        rest = &rest[at..];
        while let Some((packet, behind)) =
            rest.split_first_chunk::<PACKET_LEN>().filter(|(packet, _)| packet[0] == ts::SYNC)
        {
            if session.is_interrupted() {
                return Ok(skipped);
            }
            each(time, Unit::Ts(packet))?;
            rest = behind;
        }
    }
    Ok(skipped + rest.len() as u64)
}

/// File of TS packets that is being written.
pub(crate) enum Sink {
    /// Bare packets, without times.
    Bare(PathBuf, capture::Sink),
    /// A capture record for each packet.
    Capture(Output),
}

impl Sink {
    /// Creates a file: bare packets for ".ts" and "-", otherwise a capture.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written, or is `input`.
    pub(crate) fn create(path: &Path, input: &Path) -> Result<Sink, Error> {
        if !is_bare(path) {
            return Output::create(path, LinkType::MPEG_2_TS, input).map(Sink::Capture);
        }
        if capture::is_same(path, input) {
            return Err(Error::Usage(format!("{} would overwrite what is read", path.display())));
        }
        let sink =
            capture::Sink::create(path).map_err(|source| Error::Write { path: path.into(), source })?;
        Ok(Sink::Bare(path.into(), sink))
    }

    /// Writes whole TS packets.
    ///
    /// # Errors
    /// Returns an error if they cannot be written.
    pub(crate) fn write(&mut self, time_ns: u64, stream: &[u8]) -> Result<(), Error> {
        match self {
            Sink::Bare(path, sink) => {
                sink.write_all(stream).map_err(|source| Error::Write { path: path.clone(), source })
            }
            Sink::Capture(output) => {
                let mut packets = stream.chunks_exact(PACKET_LEN);
                packets.try_for_each(|packet| output.write(time_ns, packet, PACKET_LEN))
            }
        }
    }

    /// Writes out the buffer, and gives the file its name.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(crate) fn finish(self) -> Result<(), Error> {
        match self {
            Sink::Bare(path, sink) => sink.finish().map_err(|source| Error::Write { path, source }),
            Sink::Capture(output) => output.finish(),
        }
    }
}

/// Returns `true` if a file of this name has bare packets.
pub(crate) fn is_bare(path: &Path) -> bool {
    path == Path::new("-") || path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("ts"))
}

/// Returns the clock reference of a packet, if it has one.
pub(crate) fn clock(packet: &[u8; PACKET_LEN]) -> Option<ts::Pcr> {
    TsPacket::new_checked(packet).ok()?.adaptation().ok()??.pcr
}
