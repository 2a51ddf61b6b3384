//! Captures in and out: IP packets of any link type, ROHC packets.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, StdoutLock, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::{Error, Intake, Session, Unattended};
use bentpipe_dvb::Rohc;
use bentpipe_intake::{Account, Echo, LeftOut, Packets, Refusal};
pub use bentpipe_intake::{Packet, Wanted};
use bentpipe_record::WholeFile;
use bentpipe_wire as wire;
use bentpipe_wire::ethernet::EtherType;
use bentpipe_wire::pcap::{self, LinkType, ReadError};
use serde_json::Value;

/// Size from which reading a file takes long enough for progress to be shown.
const LONG_FILE_BYTES: u64 = 16 << 20;

/// Bytes that show a compressed file or another format.
pub(crate) const START_LEN: u64 = 32;

/// Help for captures of formats that are not read.
pub(crate) const CONVERT: &str = "`editcap -F pcap` converts many formats";

/// Bytes at the start of a file by which mirrored streams are known.
pub(crate) const LEARNT_LEN: u64 = 4 << 20;

/// Capture that is being read.
pub struct Capture {
    path: PathBuf,
    reader: pcap::Reader<Box<dyn Read>>,
    packets: Packets,
    wanted: Wanted,
    left_out: Option<LeftOutFile>,
    /// Set if its start was read ahead.
    is_learnt: bool,
}

impl Capture {
    /// Opens a file, or standard input for "-".
    ///
    /// # Errors
    /// Returns an error if it cannot be read or is not a capture.
    pub fn open(
        path: &Path,
        wanted: Wanted,
        intake: &Intake,
        session: &dyn Session,
    ) -> Result<Capture, Error> {
        let source = source(path, session).map_err(|source| Error::Open { path: path.into(), source })?;
        let leaves_out_copies = matches!(wanted, Wanted::Ip | Wanted::Datagrams | Wanted::Distinct);
        let reads_ahead = leaves_out_copies && intake.rohc.is_none();
        Capture::new(path, source, (wanted, intake), reads_ahead.then_some(session))
    }

    /// Opens a file or pipe whose packets are passed on as they come.
    ///
    /// The start of a pipe is not read ahead, so a mirrored stream is known behind its first packets alone.
    ///
    /// # Errors
    /// As [`Capture::open`].
    pub fn open_as_it_comes(
        path: &Path,
        wanted: Wanted,
        intake: &Intake,
        session: &dyn Session,
    ) -> Result<Capture, Error> {
        let source = source(path, session).map_err(|source| Error::Open { path: path.into(), source })?;
        Capture::new(path, source, (wanted, intake), None)
    }

    /// Opens a source. With a `session`, whose interrupt ends it, a pipe is read ahead as well.
    fn new(
        path: &Path,
        mut source: Box<dyn Read>,
        (wanted, intake): (Wanted, &Intake),
        session: Option<&dyn Session>,
    ) -> Result<Capture, Error> {
        let mut start = Vec::new();
        let failed = |source| Error::Open { path: path.into(), source };
        source.by_ref().take(START_LEN).read_to_end(&mut start).map_err(failed)?;
        check_plain(path, &start)?;
        let session = match session {
            None if path.is_file() => Some(&Unattended as &dyn Session),
            given => given,
        };
        if let Some(session) = session {
            read_ahead(&mut source, &mut start, session).map_err(failed)?;
        }
        let learnt = start.clone();
        let source: Box<dyn Read> = Box::new(io::Cursor::new(start).chain(source));
        let reader = pcap::Reader::new(source).map_err(|source| Error::Read { path: path.into(), source })?;
        let left_out = intake.left_out.as_deref();
        let left_out = left_out.map(|file| LeftOutFile::create(file, path)).transpose()?;
        if intake.rohc.is_some()
            && !matches!(wanted, Wanted::Ip | Wanted::Datagrams | Wanted::Network | Wanted::Distinct)
        {
            return Err(Error::Usage("--from-rohc: expected where IP packets are read".to_owned()));
        }
        if intake.hitless {
            return Err(Error::Usage("--2022-7: expected where transport streams are read".to_owned()));
        }
        let mut packets = match intake.rohc.as_ref().map(Rohc::decompressor) {
            Some(config) => Packets::restoring(config, intake.select.clone()),
            None => Packets::new(wanted, intake.select.clone()),
        };
        if intake.keeps_copies {
            packets = packets.keeping_copies();
        }
        if intake.rohc.is_none() {
            packets.learn(&learnt);
        }
        let wanted = packets.wanted();
        let is_learnt = session.is_some();
        Ok(Capture { path: path.into(), reader, packets, wanted, left_out, is_learnt })
    }

    /// Passes every packet to `each`, until the end or until `each` returns `false`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read on, or `each` fails. A last record that is cut short is the end of the file.
    pub fn for_each(&mut self, each: impl FnMut(&Packet<'_>) -> Result<bool, Error>) -> Result<(), Error> {
        self.for_each_if(|_| Ok(()), each)
    }

    /// Passes every packet that the job wants to `each`, as [`Capture::for_each`].
    ///
    /// `wants` returns the reason for which a packet is left out.
    ///
    /// # Errors
    /// As [`Capture::for_each`].
    pub fn for_each_if(
        &mut self,
        mut wants: impl FnMut(&Packet<'_>) -> Result<(), Refusal>,
        mut each: impl FnMut(&Packet<'_>) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        self.for_each_record(|packets, record, left_out| {
            packets.take_if(record, &mut wants, left_out).map_or(Ok(true), |packet| each(&packet))
        })
    }

    /// Passes every packet to `each`, which uses it or refuses it.
    ///
    /// It ends as [`Capture::for_each`].
    ///
    /// # Errors
    /// As [`Capture::for_each`].
    pub fn for_each_used(
        &mut self,
        mut each: impl FnMut(&Packet<'_>) -> Result<Result<bool, Refusal>, Error>,
    ) -> Result<(), Error> {
        self.for_each_record(|packets, record, left_out| {
            let mut ended = Ok(true);
            let wants = |packet: &Packet<'_>| match each(packet) {
                Ok(Ok(goes_on)) => {
                    ended = Ok(goes_on);
                    Ok(())
                }
                Ok(Err(refusal)) => Err(refusal),
                Err(error) => {
                    ended = Err(error);
                    Ok(())
                }
            };
            packets.take_if(record, wants, left_out);
            ended
        })
    }

    /// Passes every record to `take`, until the end or until it returns `false`.
    fn for_each_record(
        &mut self,
        mut take: impl FnMut(&mut Packets, &pcap::Record<'_>, &mut dyn FnMut(&LeftOut<'_>)) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let Capture { path, reader, packets, left_out, .. } = self;
        loop {
            let record = match reader.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(error) if ends_early(&error, packets.account().read.records) => {
                    packets.cut(damage(&error));
                    break;
                }
                Err(source) => {
                    let (path, number) = (path.clone(), packets.account().read.records + 1);
                    return Err(Error::Record { path, number, source });
                }
            };
            let mut written = Ok(());
            let goes_on = take(packets, &record, &mut |of| keep(left_out, of, &mut written));
            written?;
            if !goes_on? {
                break;
            }
        }
        packets.damaged(reader.damaged());
        let mut written = Ok(());
        packets.finish(&mut |of| keep(left_out, of, &mut written));
        written?;
        left_out.take().map_or(Ok(()), LeftOutFile::finish)
    }

    /// Returns the account of what was read.
    pub fn account(&self) -> &Account {
        self.packets.account()
    }

    /// Returns the account as JSON.
    pub fn json(&self) -> Value {
        self.account().json(&self.path.display().to_string())
    }

    /// Returns the account in a line, behind the name of the file.
    pub fn remark(&self) -> String {
        let account = self.account();
        let more = match self.is_learnt || account.duplicated() == 0 {
            true => "",
            false => "; copies at the start of a pipe are used, until its streams are known as mirrored",
        };
        let echo = self.packets.echo().map_or_else(String::new, |echo| format!("; {}", echoed(echo)));
        format!("{}: {account}{more}{echo}", self.path.display())
    }

    /// Checks that the capture had a packet of the kind.
    ///
    /// # Errors
    /// Returns an error with the account if no record holds one.
    pub(crate) fn check_found(&self) -> Result<(), Error> {
        let account = self.account();
        if !account.is_unused() {
            return Ok(());
        }
        let wanted = match self.wanted {
            Wanted::Rohc { .. } => "ROHC packets",
            Wanted::Schemes => "compressed headers",
            Wanted::Ethernet => "Ethernet frames",
            Wanted::Ip | Wanted::Datagrams | Wanted::Network | Wanted::Distinct => "IP packets",
        };
        let help = help(account);
        Err(Error::Usage(format!("{}: no {wanted}: {account}{help}", self.path.display())))
    }
}

/// Describes contents that come again.
pub(crate) fn echoed(echo: Echo) -> String {
    let Echo { packets, late_ns } = echo;
    let late_ms = bentpipe_report::number(late_ns as f64 / 1e6);
    format!(
        "{packets} packets come a second time, {late_ms} ms later with the same identification, and are used: two \
         captures of one stream whose clocks differ?"
    )
}

/// Returns a help for captures of which nothing is used.
///
/// Those of ROHC packets are restored by an option. A chosen interface may not be there.
pub(crate) fn help(account: &Account) -> String {
    let interfaces: Vec<String> = account.interfaces().collect();
    let is_of_interface = account.left_out().any(|(_, detail, _)| detail.contains("--interface"));
    if is_of_interface && account.read.records > 0 {
        return format!("; help: interfaces of the capture: {}", interfaces.join(", "));
    }
    let user0 = format!("of link type {},", LinkType::USER0.0);
    let ethertype = format!("of EtherType {:#06x}", EtherType::ROHC.0);
    let is_meant = |detail: &str| detail.starts_with(&user0) || detail.starts_with(&ethertype);
    match account.left_out().any(|(_, detail, _)| is_meant(detail)) {
        true => "; help: --from-rohc restores packets of ROHC".to_owned(),
        false => String::new(),
    }
}

/// Writes a record that is left out, unless one before could not be written.
fn keep(file: &mut Option<LeftOutFile>, left_out: &LeftOut<'_>, written: &mut Result<(), Error>) {
    if let (Some(file), Ok(())) = (file, &written) {
        *written = file.write(left_out);
    }
}

/// Reads the start of a source, by which mirrored streams are known. An interrupt ends it.
fn read_ahead(source: &mut dyn Read, start: &mut Vec<u8>, session: &dyn Session) -> io::Result<()> {
    let mut chunk = vec![0; 1 << 16];
    while (start.len() as u64) < LEARNT_LEN && !session.is_interrupted() {
        match source.read(&mut chunk) {
            Ok(0) => break,
            Ok(len) => start.extend_from_slice(&chunk[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Opens a file, or standard input for "-"; the session tracks a long one.
pub(crate) fn source(path: &Path, session: &dyn Session) -> io::Result<Box<dyn Read>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = bentpipe_paths::open(path)?;
    let len_bytes = file.metadata()?.len();
    if len_bytes < LONG_FILE_BYTES {
        return Ok(Box::new(BufReader::new(file)));
    }
    Ok(Box::new(BufReader::with_capacity(1 << 18, session.track(file, len_bytes))))
}

/// Checks by its first bytes that a file is not of another format.
///
/// # Errors
/// Returns an error with the program that decompresses or converts it.
pub(crate) fn check_plain(path: &Path, start: &[u8]) -> Result<(), Error> {
    let all: [(&[u8], &str); 5] = [
        (&[0x1f, 0x8b], "gzip"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"),
        (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz"),
        (&[0x04, 0x22, 0x4d, 0x18], "lz4"),
        (b"BZh", "bzip2"),
    ];
    let shown = path.display();
    if let Some((_, program)) = all.into_iter().find(|(magic, _)| start.starts_with(magic)) {
        return Err(Error::Usage(format!("{shown}: compressed: decompress first with `{program} -d`")));
    }
    match pcap::foreign(start) {
        None => Ok(()),
        Some(program) => Err(Error::Usage(format!("{shown}: a capture of {program}, not read: {CONVERT}"))),
    }
}

/// Returns `true` if an error ends a capture whose `records` before it are used.
///
/// It is cut, as after a killed capture, or damaged behind them.
pub(crate) fn ends_early(error: &ReadError, records: u64) -> bool {
    is_cut_short(error) || records > 0 && matches!(error, ReadError::Format(_))
}

/// Returns what is wrong with a file that does not just end.
pub(crate) fn damage(error: &ReadError) -> Option<String> {
    (!is_cut_short(error)).then(|| error.to_string())
}

fn is_cut_short(error: &ReadError) -> bool {
    matches!(error, ReadError::Format(wire::Error { kind: wire::Kind::Truncated { .. }, .. }))
}

/// Capture that is being written.
pub struct Output {
    path: PathBuf,
    writer: pcap::Writer<Sink>,
    /// Number of records read.
    pub records: u64,
}

impl Output {
    /// Creates a file, or writes to standard output for "-".
    ///
    /// # Errors
    /// Returns an error if the file cannot be written, or is `input`.
    pub fn create(path: &Path, link_type: LinkType, input: &Path) -> Result<Output, Error> {
        if is_same(path, input) {
            return Err(Error::Usage(format!("{} would overwrite what is read", path.display())));
        }
        let writer = Sink::create(path).and_then(|sink| pcap::Writer::with_micros(sink, link_type));
        let writer = writer.map_err(|source| Error::Write { path: path.into(), source })?;
        Ok(Output { path: path.into(), writer, records: 0 })
    }

    /// Writes a packet of `len` bytes, of which `bytes` are known.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn write(&mut self, time_ns: u64, bytes: &[u8], len: usize) -> Result<(), Error> {
        self.records += 1;
        self.writer
            .write_kept(time_ns, bytes, len)
            .map_err(|source| Error::Write { path: self.path.clone(), source })
    }

    /// Writes out the buffer, and gives the file its name.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn finish(self) -> Result<(), Error> {
        self.writer.into_inner().finish().map_err(|source| Error::Write { path: self.path, source })
    }
}

/// File of the records that were left out, each with its reason.
pub(crate) struct LeftOutFile {
    path: PathBuf,
    writer: pcap::NgWriter<Sink>,
}

impl LeftOutFile {
    /// Creates a file.
    ///
    /// # Errors
    /// Returns an error if it cannot be written, or is `input`.
    pub(crate) fn create(path: &Path, input: &Path) -> Result<LeftOutFile, Error> {
        if is_same(path, input) {
            return Err(Error::Usage(format!("{} would overwrite what is read", path.display())));
        }
        let writer = Sink::create(path).and_then(pcap::NgWriter::new);
        let writer = writer.map_err(|source| Error::Write { path: path.into(), source })?;
        Ok(LeftOutFile { path: path.into(), writer })
    }

    /// Writes a record with its reason as its comment.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(crate) fn write(&mut self, left_out: &LeftOut<'_>) -> Result<(), Error> {
        let LeftOut { number, record, detail, .. } = left_out;
        let comment = format!("record {number}: {detail}");
        let written = self.writer.write(record, &comment);
        written.map_err(|source| Error::Write { path: self.path.clone(), source })
    }

    /// Writes out the buffer, and gives the file its name.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(crate) fn finish(self) -> Result<(), Error> {
        self.writer.into_inner().finish().map_err(|source| Error::Write { path: self.path, source })
    }
}

/// Writes the counts of a job and the account of its input, if wanted.
///
/// # Errors
/// Returns an error if it cannot be written.
pub(crate) fn write_counts(intake: &Intake, mut counts: Value, account: Value) -> Result<(), Error> {
    let Some(path) = &intake.counts else { return Ok(()) };
    counts["intake"] = account;
    let text = serde_json::to_string_pretty(&counts).expect("counts are JSON") + "\n";
    let written = Sink::create(path).and_then(|mut sink| {
        sink.write_all(text.as_bytes())?;
        sink.finish()
    });
    written.map_err(|source| Error::Write { path: path.clone(), source })
}

/// Returns `true` if both are the same file.
pub(crate) fn is_same(output: &Path, input: &Path) -> bool {
    match (output.canonicalize(), input.canonicalize()) {
        (Ok(output), Ok(input)) => output == input && output.is_file(),
        _ => false,
    }
}

/// Checks the files that a job writes, with that of the records left out.
///
/// # Errors
/// As [`check_files`].
pub(crate) fn check_apart<const N: usize>(
    input: &Path,
    outputs: [Option<&Path>; N],
    intake: &Intake,
) -> Result<(), Error> {
    let of_intake = [intake.left_out.as_deref(), intake.counts.as_deref()];
    check_files(&[input], outputs.into_iter().chain(of_intake).flatten())
}

/// Checks the files that a job writes, before it writes anything.
///
/// # Errors
/// Returns an error that names the first of them that is read too, is to be written twice, or is a folder, a named pipe or a
/// device of blocks.
pub fn check_files<'a>(inputs: &[&Path], outputs: impl IntoIterator<Item = &'a Path>) -> Result<(), Error> {
    let mut files: Vec<&Path> = Vec::new();
    for output in outputs {
        let refusal = |fault: &str| Err(Error::Usage(format!("{} {fault}", output.display())));
        if output == Path::new("-") {
            if files.contains(&output) {
                return Err(Error::Usage("standard output is to be written twice".to_owned()));
            }
            files.push(output);
            continue;
        }
        if let Some(fault) = unwritable(output) {
            return refusal(fault);
        }
        if inputs.iter().any(|input| is_same(output, input)) {
            return refusal("would overwrite what is read");
        }
        // Nothing of a device such as /dev/null is overwritten.
        if output.exists() && !output.is_file() {
            continue;
        }
        if files.iter().any(|other| *other != Path::new("-") && is_one_name(output, other)) {
            return refusal("is to be written twice");
        }
        files.push(output);
    }
    Ok(())
}

/// Returns the reason for which an output cannot be written.
fn unwritable(output: &Path) -> Option<&'static str> {
    // What is not there is created.
    let kind = output.metadata().ok()?.file_type();
    match kind {
        _ if kind.is_file() || kind.is_char_device() => None,
        _ if kind.is_dir() => Some("is a folder: expected a file"),
        // Opening one waits for its reader, and no signal ends that. Only a named one has a name in a folder.
        _ if kind.is_fifo() && output.canonicalize().is_ok() => {
            Some("is a named pipe: expected a file, or \"-\" and a pipe of the shell")
        }
        _ if kind.is_fifo() => (!has_reader(output)).then_some("is a pipe without a reader"),
        _ => Some("is a device or socket: expected a file"),
    }
}

/// Returns `true` if a pipe has a reader, so that opening it does not wait.
fn has_reader(pipe: &Path) -> bool {
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    File::options().write(true).custom_flags(flags).open(pipe).is_ok()
}

/// Returns `true` if both are one name of a folder.
fn is_one_name(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Some((folder.unwrap_or(Path::new(".")).canonicalize().ok()?, path.file_name()?.to_owned()))
    };
    one == other || place(one).is_some_and(|one| Some(one) == place(other))
}

/// Standard output, or a file that appears under its name once it is finished.
pub(crate) enum Sink {
    Stdout(BufWriter<StdoutLock<'static>>),
    File(WholeFile),
}

impl Sink {
    /// Creates a file, or writes to standard output for "-", buffered.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created.
    pub(crate) fn create(path: &Path) -> io::Result<Sink> {
        if path == Path::new("-") {
            return Ok(Sink::Stdout(BufWriter::new(io::stdout().lock())));
        }
        WholeFile::create(path).map(Sink::File)
    }

    /// Writes out the buffer, and gives a file its name.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Sink::Stdout(mut stdout) => stdout.flush(),
            Sink::File(file) => file.finish(),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Stdout(stdout) => stdout.write(bytes),
            Sink::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Stdout(stdout) => stdout.flush(),
            Sink::File(file) => file.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_testkit::Folder;

    #[test]
    fn what_cannot_be_written_is_refused_before_anything_is() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let folder = Folder::new();
        let (input, output, fifo) = (folder.write("in", "x"), folder.file("out"), folder.file("fifo"));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let link = folder.file("link");
        std::os::unix::fs::symlink(&input, &link).unwrap();
        let refusal = |outputs: &[&Path]| {
            let refused = check_files(&[&input], outputs.iter().copied());
            refused.err().map_or_else(String::new, |error| error.to_string())
        };
        let null = Path::new("/dev/null");
        assert_eq!(refusal(&[&output, Path::new("-"), null, null]), "");
        assert_eq!(
            refusal(&[Path::new("-"), &output, Path::new("-")]),
            "standard output is to be written twice"
        );
        assert!(refusal(&[&output, &fifo]).contains("fifo is a named pipe"));
        assert!(refusal(&[folder.path()]).ends_with("is a folder: expected a file"));
        assert!(refusal(&[&output, &link]).ends_with("link would overwrite what is read"));
        let other_name = folder.path().join(".").join("out");
        assert!(refusal(&[&output, &other_name]).ends_with("is to be written twice"));
        assert_eq!(folder.names(), ["fifo", "in", "link"]);
    }

    #[test]
    fn a_file_that_ends_within_a_record_is_read_up_to_there() {
        let mut writer = pcap::Writer::new(Vec::new(), LinkType::USER0).unwrap();
        writer.write(1, &[0xfd, 1, 2], 0).unwrap();
        let mut file = writer.into_inner();
        file.extend([0, 0]);
        let source = Box::new(io::Cursor::new(file));
        let wanted = Wanted::Rohc { has_large_cids: false, pdcp: None };
        let mut capture = Capture::new(Path::new("x"), source, (wanted, &Intake::default()), None).unwrap();
        let mut found = Vec::new();
        let mut keep = |packet: &Packet<'_>| {
            found.extend_from_slice(packet.bytes);
            Ok(true)
        };
        capture.for_each(&mut keep).unwrap();
        assert_eq!(found, [0xfd, 1, 2]);
        assert_eq!(capture.remark(), "x: 1 records, all used, cut short within record 2");
    }
}
