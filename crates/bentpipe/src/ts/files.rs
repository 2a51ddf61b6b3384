//! Streams in and out of files.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use bentpipe_wire::bbframe::{self, ADAPTATION_LEN, Deframer};
use bentpipe_wire::ip::{Packet, Protocol};
use bentpipe_wire::pcap::{LinkType, Reader};
use bentpipe_wire::ts::{self, PACKET_LEN, Packet as TsPacket};
use bentpipe_wire::{link, udp};

use crate::rohc::capture::{self, Output};
use crate::rohc::{Error, is_interrupted};

/// The most that is read of what has perhaps no end.
const MAX_PIPED_BYTES: u64 = 1 << 32;

/// A piece of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unit<'a> {
    /// A TS packet.
    Ts(&'a [u8; PACKET_LEN]),
    /// A baseband frame.
    Frame(&'a [u8]),
}

/// A stream that was read.
pub(super) struct Stream {
    path: PathBuf,
    bytes: Vec<u8>,
    is_capture: bool,
}

impl Stream {
    /// Reads a file, or standard input for "-".
    ///
    /// # Errors
    /// If it cannot be read; if it is no file, and has no end in 4 GiB.
    pub(super) fn read(path: &Path) -> Result<Stream, Error> {
        let most = if path.is_file() { u64::MAX } else { MAX_PIPED_BYTES };
        let mut bytes = Vec::new();
        let read = capture::source(path).and_then(|source| source.take(most).read_to_end(&mut bytes));
        read.map_err(|source| Error::Open { path: path.into(), source })?;
        if bytes.len() as u64 == most {
            let shown = path.display();
            return Err(Error::Usage(format!(
                "{shown}: no end in {most} bytes: expected a part of a stream"
            )));
        }
        let is_capture = Reader::new(&bytes[..]).is_ok();
        Ok(Stream { path: path.into(), bytes, is_capture })
    }

    /// Gives every TS packet and baseband frame, with its time in nanoseconds if the file has times, to `each`, until the
    /// end, an interrupt, or an error; says how many bytes were none.
    ///
    /// # Errors
    /// What `each` returns; if a capture cannot be read on; if there is nothing of the kind in the file.
    pub(super) fn for_each(
        &self,
        mut each: impl FnMut(Option<u64>, Unit<'_>) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let mut found = false;
        let mut counted = |time: Option<u64>, unit: Unit<'_>| {
            found = true;
            each(time, unit)
        };
        let skipped = if self.is_capture {
            self.records(&mut counted)?
        } else {
            bare(&self.bytes, None, &mut counted)?
        };
        if !found && !is_interrupted() {
            return Err(Error::Usage(format!(
                "{}: neither TS packets nor baseband frames",
                self.path.display()
            )));
        }
        Ok(skipped)
    }

    fn records(
        &self,
        each: &mut impl FnMut(Option<u64>, Unit<'_>) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let failed = |source| Error::Read { path: self.path.clone(), source };
        let mut reader = Reader::new(&self.bytes[..]).map_err(failed)?;
        let (mut skipped, mut deframer) = (0, Deframer::new());
        while let Some(record) = reader.next_record().map_err(failed)? {
            if is_interrupted() {
                break;
            }
            let payload = if record.link_type == LinkType::MPEG_2_TS {
                Some(record.bytes)
            } else {
                datagram(record.link_type, record.bytes)
            };
            skipped += match payload {
                Some([0xb8, ..]) => frame(payload.unwrap_or_default(), record.time_ns, &mut deframer, each)?,
                Some(payload) => bare(payload, record.time_ns, each)?,
                None => record.bytes.len() as u64,
            };
        }
        Ok(skipped)
    }
}

/// What a UDP datagram of a capture carries, an RTP header taken off.
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

/// A baseband frame, or the TS packets that end in it if it has such.
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

/// TS packets that follow each other, wherever they start.
fn bare(
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
            if is_interrupted() {
                return Ok(skipped);
            }
            each(time, Unit::Ts(packet))?;
            rest = behind;
        }
    }
    Ok(skipped + rest.len() as u64)
}

/// Where TS packets are written to.
pub(super) enum Sink {
    /// Bare, without times.
    Bare(PathBuf, capture::Sink),
    /// A record each.
    Capture(Output),
}

impl Sink {
    /// Creates a file: bare packets if it ends in ".ts" or is "-", a capture otherwise.
    ///
    /// # Errors
    /// If the file cannot be written, or is `input`.
    pub(super) fn create(path: &Path, input: &Path) -> Result<Sink, Error> {
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
    /// If they cannot be written.
    pub(super) fn write(&mut self, time_ns: u64, stream: &[u8]) -> Result<(), Error> {
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

    /// Writes out what is buffered, and gives the file its name.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn finish(self) -> Result<(), Error> {
        match self {
            Sink::Bare(path, sink) => sink.finish().map_err(|source| Error::Write { path, source }),
            Sink::Capture(output) => output.finish(),
        }
    }
}

/// Whether a file of this name has bare packets.
pub(super) fn is_bare(path: &Path) -> bool {
    path == Path::new("-") || path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("ts"))
}

/// The clock reference of a packet, if it has one.
pub(super) fn clock(packet: &[u8; PACKET_LEN]) -> Option<ts::Pcr> {
    TsPacket::new_checked(packet).ok()?.adaptation().ok()??.pcr
}
