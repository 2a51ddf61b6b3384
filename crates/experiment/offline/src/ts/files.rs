//! Files of streams.

use std::cell;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bentpipe_intake::{Layout, LeftOut, Leg, Select, StreamEntry, Streams};
use bentpipe_mpeg::stream::{MAX_LEN, TransportStream};
use bentpipe_report::{Cell, Table};
use bentpipe_wire::pcap::{self, LinkType, ReadError, Reader};
use bentpipe_wire::ts::{self, PACKET_LEN, Packet as TsPacket};
use serde_json::{Value, json};

pub use bentpipe_intake::Unit;

use crate::capture::{self, CONVERT, Output};
use crate::{Error, Intake, Session, Unattended};

/// Maximum number of bytes read from a pipe, which may have no end.
const MAX_PIPED_BYTES: u64 = 1 << 32;

/// Length of a pipe's start that must have part of a stream, in bytes.
const PROBED_BYTES: u64 = 1 << 20;

/// Bytes of a file that are read at a time.
const CHUNK_LEN: usize = 1 << 18;

/// Most streams that an error lists.
const MAX_NAMED: usize = 20;

/// Input of streams, which is read as often as it is asked for.
pub struct Stream<'a> {
    path: PathBuf,
    intake: &'a Intake,
    /// Bytes of a pipe.
    piped: Option<Vec<u8>>,
    is_capture: bool,
    /// The account was given, and the records left out are written.
    is_noted: cell::Cell<bool>,
}

/// Streams of an input, and what became of all that was read.
pub struct Summary {
    /// Streams in the order of their first packets.
    pub entries: Vec<StreamEntry>,
    /// Legs of each stream that is merged of several.
    pub legs: Vec<Vec<Leg>>,
    /// Account as JSON.
    pub account: Value,
    /// Account in a line, behind the name of the input.
    pub remark: String,
    /// Set if something of the input was lost.
    pub has_damage: bool,
}

impl Summary {
    /// Returns the one stream.
    ///
    /// # Errors
    /// Returns an error that lists the streams if there are several.
    pub(super) fn one(&self, path: &Path) -> Result<StreamEntry, Error> {
        let count = self.entries.len();
        if let [one] = self.entries[..] {
            return Ok(one);
        }
        let table = streams(&self.entries[..count.min(MAX_NAMED)], &self.legs).to_text(false);
        let more =
            if count > MAX_NAMED { format!("\nand {} more", count - MAX_NAMED) } else { String::new() };
        let flags = "choose one by --src, --dst, --port, --ssrc, --isi, --vlan or --interface";
        let shown = path.display();
        Err(Error::Usage(format!("{shown}: {count} streams: {flags}\n{}{more}", table.trim_end())))
    }
}

/// Names streams of RTP that may be legs of one.
fn alike(entries: &[StreamEntry]) -> Option<String> {
    let numbered = || entries.iter().zip(1..).filter(|(entry, _)| entry.id.ssrc.is_some());
    let pairs = numbered().filter_map(|(entry, number)| {
        let other = numbered().find(|(other, of)| *of > number && other.id.ssrc == entry.id.ssrc)?.1;
        Some(format!("{number} and {other}"))
    });
    let named: Vec<String> = pairs.take(MAX_NAMED).collect();
    let named = named.join(", ");
    (!named.is_empty()).then(|| {
        format!(
            "streams {named} have the same SSRC: --2022-7 merges them if they are legs of one (ST 2022-7)"
        )
    })
}

/// Describes the legs of a stream, one in a line.
pub(super) fn legs_text(entry: &StreamEntry, legs: &[Leg]) -> String {
    let line = |Leg { id, datagrams, missing, differing }: &Leg| {
        let other = if *differing > 0 { format!(", {differing} with other contents") } else { String::new() };
        format!("  leg {id}: {datagrams} RTP packets, {missing} missing{other}\n")
    };
    let missing = entry.missing;
    let late = match entry.late {
        0 => String::new(),
        late => format!(", {late} more came behind their place on all"),
    };
    match legs {
        [] => String::new(),
        _ => {
            legs.iter().map(line).collect::<String>()
                + &format!("  missing on all legs: {missing} RTP packets{late}\n")
        }
    }
}

/// Describes the legs of a stream as JSON.
pub(super) fn legs_json(legs: &[Leg]) -> Value {
    let leg = |Leg { id, datagrams, missing, differing }: &Leg| json!({ "name": id.to_string(), "datagrams": datagrams, "rtp_missing": missing, "differing": differing });
    legs.iter().map(leg).collect()
}

/// Lists the streams of an input, each in front of its legs.
pub(super) fn streams(entries: &[StreamEntry], legs: &[Vec<Leg>]) -> Table {
    let head = ["", "stream", "datagrams", "TS packets", "frames", "RTP missing", "bytes outside"];
    let row = |(number, entry): (usize, &StreamEntry)| {
        let counts = [entry.datagrams, entry.packets, entry.frames, entry.missing, entry.outside];
        let mut cells = vec![Cell::Text((number + 1).to_string()), Cell::Text(entry.id.to_string())];
        cells.extend(counts.map(|count| Cell::Number(count.to_string())));
        cells
    };
    let leg = |leg: &Leg| {
        let counts =
            [leg.datagrams.to_string(), String::new(), String::new(), leg.missing.to_string(), String::new()];
        let mut cells = vec![Cell::Text(String::new()), Cell::Text(format!("leg {}", leg.id))];
        cells.extend(counts.map(Cell::Number));
        cells
    };
    let all = entries.iter().enumerate().zip(legs);
    let rows =
        all.flat_map(|(entry, legs)| std::iter::once(row(entry)).chain(legs.iter().map(leg))).collect();
    Table { caption: String::new(), head: head.map(String::from).to_vec(), rows }
}

/// Callback invoked with the place of a stream, the time in nanoseconds, and a unit.
pub type Each<'a> = dyn FnMut(usize, Option<u64>, Unit<'_>) -> Result<(), Error> + 'a;

/// Receiver of an intake, which ends with the first error.
struct Receiver<'a, 'b> {
    each: &'a mut Each<'b>,
    left_out: Option<capture::LeftOutFile>,
    failed: Option<Error>,
}

impl bentpipe_intake::Sink for Receiver<'_, '_> {
    fn unit(&mut self, stream: usize, time_ns: Option<u64>, unit: Unit<'_>) {
        if self.failed.is_none() {
            self.failed = (self.each)(stream, time_ns, unit).err();
        }
    }

    fn left_out(&mut self, left_out: &LeftOut<'_>) {
        if let (Some(file), None) = (&mut self.left_out, &self.failed) {
            self.failed = file.write(left_out).err();
        }
    }
}

impl<'a> Stream<'a> {
    /// Opens a file, or reads standard input for "-".
    ///
    /// # Errors
    /// Returns an error if it cannot be read, or is a pipe with no end in 4 GiB.
    pub fn open(path: &Path, intake: &'a Intake, session: &dyn Session) -> Result<Stream<'a>, Error> {
        let failed = |source| Error::Open { path: path.into(), source };
        let mut stream = Stream {
            path: path.into(),
            intake,
            piped: None,
            is_capture: false,
            is_noted: cell::Cell::new(false),
        };
        if path.is_file() {
            let mut start = Vec::new();
            let source = capture::source(path, &crate::Unattended).map_err(failed)?;
            source.take(capture::START_LEN).read_to_end(&mut start).map_err(failed)?;
            capture::check_plain(path, &start)?;
            let source = capture::source(path, &crate::Unattended).map_err(failed)?;
            stream.is_capture = is_capture(path, &start, source)?;
        } else {
            let bytes = piped(path, session)?;
            capture::check_plain(path, &bytes)?;
            stream.is_capture = is_capture(path, &bytes, &bytes[..])?;
            stream.piped = Some(bytes);
        }
        if intake.left_out.is_some() && !stream.is_capture {
            let shown = path.display();
            return Err(Error::Usage(format!("{shown}: --left-out: expected a capture, which has records")));
        }
        if intake.select != Select::default() && !stream.is_capture {
            let (shown, select) = (path.display(), &intake.select);
            return Err(Error::Usage(format!(
                "{shown}: {select}: expected a capture: this file has packets alone"
            )));
        }
        if intake.rohc.is_some() && !stream.is_capture {
            let shown = path.display();
            return Err(Error::Usage(format!("{shown}: --from-rohc: expected a capture of ROHC packets")));
        }
        Ok(stream)
    }

    /// Returns the bytes from the start on.
    fn source<'s>(&'s self, session: &dyn Session) -> Result<Box<dyn Read + 's>, Error> {
        match &self.piped {
            Some(bytes) => Ok(Box::new(&bytes[..])),
            None => capture::source(&self.path, session)
                .map(|source| source as Box<dyn Read>)
                .map_err(|source| Error::Open { path: self.path.clone(), source }),
        }
    }

    /// Passes every TS packet and BBFRAME to `each`. Ends early on an interrupt or error.
    ///
    /// The first time the session gets the account in a line.
    ///
    /// # Errors
    /// Returns the error of `each`, or one if a file cannot be read on or has nothing of the kind. A last record that is cut
    /// short is the end of the capture.
    pub fn for_each(&self, session: &dyn Session, each: &mut Each<'_>) -> Result<Summary, Error> {
        let is_first = !self.is_noted.replace(true);
        let left_out = self.intake.left_out.as_deref().filter(|_| is_first);
        let left_out = left_out.map(|path| capture::LeftOutFile::create(path, &self.path)).transpose()?;
        let mut sink = Receiver { each, left_out, failed: None };
        let select = self.intake.select.clone();
        let mut streams = match &self.intake.rohc {
            Some(rohc) => Streams::restoring(rohc.decompressor(), select),
            None => Streams::new(select),
        };
        if self.intake.hitless {
            streams = streams.hitless();
        }
        if self.intake.keeps_copies {
            streams = streams.keeping_copies();
        }
        match self.is_capture {
            true => self.records(session, &mut streams, &mut sink)?,
            false => self.bytes(session, &mut streams, &mut sink)?,
        }
        streams.finish(&mut sink);
        if let Some(error) = sink.failed {
            return Err(error);
        }
        sink.left_out.map_or(Ok(()), capture::LeftOutFile::finish)?;
        let (shown, account) = (self.path.display(), streams.account());
        if account.is_unused() && !session.is_interrupted() {
            let nothing = nothing_found(&self.path);
            let help = capture::help(account);
            return Err(Error::Usage(format!("{nothing}: {account}{help}")));
        }
        let remark = format!("{shown}: {account}");
        if is_first {
            session.note(&remark);
        }
        if let Some(gaps) = streams.container_gaps().filter(|_| is_first) {
            session.note(&format!(
                "{shown}: {} times {} bytes between packets, as in a capture of a format that is not read: its streams \
                 are not separated; {CONVERT}",
                gaps.count, gaps.len
            ));
        }
        if let Some(echo) = streams.echo().filter(|_| is_first) {
            session.note(&format!("{shown}: {}", capture::echoed(echo)));
        }
        let (json, has_damage) = (account.json(&shown.to_string()), account.has_damage());
        let entries: Vec<StreamEntry> = streams.entries().collect();
        if let Some(remark) = alike(&entries).filter(|_| is_first && !self.intake.hitless) {
            session.note(&format!("{shown}: {remark}"));
        }
        let legs = (0..entries.len()).map(|place| streams.legs(place)).collect();
        Ok(Summary { entries, legs, account: json, remark, has_damage })
    }

    fn records(
        &self,
        session: &dyn Session,
        streams: &mut Streams,
        sink: &mut Receiver<'_, '_>,
    ) -> Result<(), Error> {
        let failed = |source: ReadError| Error::Read { path: self.path.clone(), source };
        let (mut source, mut start) = (self.source(session)?, Vec::new());
        let opened = source.by_ref().take(capture::LEARNT_LEN).read_to_end(&mut start);
        opened.map_err(|source| Error::Open { path: self.path.clone(), source })?;
        streams.learn(&start);
        let mut reader = Reader::new((&start[..]).chain(source)).map_err(failed)?;
        while sink.failed.is_none() && !session.is_interrupted() {
            match reader.next_record() {
                Ok(Some(record)) => streams.record(&record, sink),
                Ok(None) => break,
                Err(error) if capture::ends_early(&error, streams.account().read.records) => {
                    streams.cut(capture::damage(&error));
                    break;
                }
                Err(error) => return Err(failed(error)),
            }
        }
        streams.damaged(reader.damaged());
        Ok(())
    }

    fn bytes(
        &self,
        session: &dyn Session,
        streams: &mut Streams,
        sink: &mut Receiver<'_, '_>,
    ) -> Result<(), Error> {
        let (mut source, mut chunk) = (self.source(session)?, vec![0; CHUNK_LEN]);
        while sink.failed.is_none() && !session.is_interrupted() {
            let len = match source.read(&mut chunk) {
                Ok(0) => break,
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => return Err(Error::Open { path: self.path.clone(), source }),
            };
            streams.bytes(&chunk[..len], sink);
        }
        Ok(())
    }
}

/// Returns `true` if an input is a capture.
///
/// # Errors
/// Returns an error if it begins as one and cannot be read.
fn is_capture(path: &Path, start: &[u8], source: impl Read) -> Result<bool, Error> {
    match (Reader::new(source), start.first_chunk()) {
        (Ok(_), _) => Ok(true),
        (Err(source), Some(start)) if pcap::is_capture(*start) => {
            Err(Error::Read { path: path.into(), source })
        }
        (Err(_), _) => Ok(false),
    }
}

/// Transport stream of an input.
pub(crate) struct Loaded {
    /// Packets and programmes.
    pub(crate) stream: TransportStream,
    /// Set if something of the input was lost.
    pub(crate) has_damage: bool,
    /// Set if the file has these packets alone.
    pub(crate) is_plain: bool,
    /// Account as JSON.
    pub(crate) account: Value,
}

/// Reads the transport stream of a file or capture.
///
/// The session gets the account, unless the file has bare packets alone.
///
/// # Errors
/// Returns an error if there is none, are several, or more than [`MAX_LEN`] bytes.
pub(crate) fn load(path: &Path, intake: &Intake, session: &dyn Session) -> Result<Loaded, String> {
    let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut bytes = Vec::new();
    let stream = Stream::open(path, intake, &Unattended).map_err(|error| error.to_string())?;
    let summary = stream.for_each(&Unattended, &mut |_, _, unit| {
        if let Unit::Ts(packet) = unit {
            bytes.extend_from_slice(packet);
        }
        match bytes.len() as u64 > MAX_LEN {
            true => Err(Error::Usage(said(&format!("more than {MAX_LEN} bytes of packets")))),
            false => Ok(()),
        }
    });
    let summary = summary.map_err(|error| error.to_string())?;
    let entry = summary.one(path).map_err(|error| error.to_string())?;
    let is_bare = entry.id.ends.is_none() && !stream.is_capture;
    let is_plain = is_bare && !summary.has_damage && entry.layout == Layout::ALL.first().copied();
    if !is_plain {
        session.note(&summary.remark);
    }
    let stream = TransportStream::read(&bytes).map_err(|error| said(&error))?;
    let Summary { has_damage, account, .. } = summary;
    Ok(Loaded { stream, has_damage, is_plain, account })
}

/// Reads standard input or another pipe to its end.
fn piped(path: &Path, session: &dyn Session) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::Open { path: path.into(), source };
    let mut bytes = Vec::new();
    let mut source = capture::source(path, session).map_err(failed)?;
    source.by_ref().take(PROBED_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 == PROBED_BYTES && Reader::new(&bytes[..]).is_err() && !has_packets(&bytes) {
        return Err(nothing_found(path));
    }
    source.take(MAX_PIPED_BYTES - PROBED_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 == MAX_PIPED_BYTES {
        let shown = path.display();
        let text = format!("{shown}: no end in {MAX_PIPED_BYTES} bytes: expected a part of a stream");
        return Err(Error::Usage(text));
    }
    Ok(bytes)
}

/// Returns `true` if there are packets of any layout.
fn has_packets(bytes: &[u8]) -> bool {
    let (mut joint, mut found) = (bentpipe_intake::Joint::new(), false);
    joint.bytes(bytes, |_, _| found = true);
    found
}

fn nothing_found(path: &Path) -> Error {
    Error::Usage(format!("{}: neither TS packets nor baseband frames", path.display()))
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
