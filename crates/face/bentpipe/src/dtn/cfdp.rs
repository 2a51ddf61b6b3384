//! `bentpipe dtn cfdp`.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_bundles::cfdp::Carrier;
use bentpipe_bundles::dtn_time;
use bentpipe_dtn::cfdp::{Config, Entity, Event, Put, ReceivedFile};
use bentpipe_emu::plain::is_unseen;
use bentpipe_record::write_whole;
use bentpipe_units::{Bytes, Rate, Span};
use bentpipe_wire::dtn::cfdp::{ChecksumKind, Transaction};
use bentpipe_wire::dtn::eid::Eid;
use clap::{Args, Subcommand, ValueEnum};

use super::tls::TlsArgs;
use crate::show::{log, note, out};

/// Files by the CCSDS File Delivery Protocol.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send files to another entity
    #[command(after_help = SEND_EXAMPLES)]
    Send(SendArgs),
    /// Receive files into a folder
    #[command(after_help = RECEIVE_EXAMPLES)]
    Receive(ReceiveArgs),
}

const SEND_EXAMPLES: &str = "\
Examples:
  bentpipe dtn cfdp send 127.0.0.1:4560 --entity 1 --to 2 picture.jpg
  bentpipe dtn cfdp send ipn:1.30 --via 127.0.0.1:4556 --from ipn:3.30 \\
      --entity 3 --to 1 --timeout '1 h' picture.jpg

The place of the other entity is HOST:PORT over UDP, and an endpoint with --via. The exit status
is 1 if a file was not delivered.";

const RECEIVE_EXAMPLES: &str = "\
Examples:
  bentpipe dtn cfdp receive 4560 --entity 2 --out received
  bentpipe dtn cfdp receive --via 127.0.0.1:4556 --from ipn:1.30 --entity 1 --out received

Names are those that the sender gives, without folders; a file that is there is not replaced. The
exit status is 1 if a file failed.";

/// Reads the number of an entity.
fn entity_number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("expected the number of an entity, 0 to {}", u64::MAX))
}

/// Checksum of files.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ChecksumArg {
    /// Sum of four-byte words
    Modular,
    /// CRC-32 of IEEE 802.3
    Crc32,
    /// CRC-32C
    Crc32c,
    /// Zero, for no checksum
    Null,
}

/// Options of both directions.
#[derive(Debug, Args)]
struct EntityArgs {
    /// Identifier of this entity
    #[arg(long, value_name = "NUMBER", value_parser = entity_number)]
    entity: u64,
    /// Send PDUs as bundles, as an application of the node at this address
    #[arg(long, value_name = "HOST:PORT", requires = "from")]
    via: Option<String>,
    /// Endpoint of this program, with --via
    #[arg(long, value_name = "EID", requires = "via")]
    from: Option<Eid>,
    /// Lifetime of bundles
    #[arg(long, value_name = "TIME", default_value = "1 d")]
    lifetime: Span,
    /// Repeat what is not answered after this time: more than a round trip
    #[arg(long, value_name = "TIME", default_value = "5 s")]
    timeout: Span,
    /// Maximum number of repetitions without an answer
    #[arg(long, value_name = "N", default_value_t = 10)]
    tries: u32,
    /// End a transaction after this time without a PDU. Default: twice what all repetitions take
    #[arg(long, value_name = "TIME")]
    inactivity: Option<Span>,
    /// Maximum rate over UDP
    #[arg(long, value_name = "RATE", default_value = "10 Mbit/s")]
    rate: Rate,
    #[command(flatten)]
    tls: TlsArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// Place of the other entity: HOST:PORT, or an endpoint with --via
    place: String,
    /// Files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Identifier of the other entity
    #[arg(long, value_name = "NUMBER", value_parser = entity_number)]
    to: u64,
    /// Name at the receiver, of one file. Default: that of the file
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Class: 1 is unacknowledged, 2 acknowledged
    #[arg(long, value_name = "1|2", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=2))]
    class: u8,
    /// Let the receiver report the end of a transaction of class 1
    #[arg(long)]
    closure: bool,
    /// Maximum number of bytes of a file in a PDU
    #[arg(long, value_name = "BYTES", default_value = "1024 B")]
    segment: Bytes,
    /// Checksum of files
    #[arg(long, value_enum, default_value_t = ChecksumArg::Crc32)]
    checksum: ChecksumArg,
    /// End each PDU by a CRC
    #[arg(long)]
    crc: bool,
    #[command(flatten)]
    own: EntityArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReceiveArgs {
    /// Local address: PORT for all IPv4 addresses, or ADDRESS:PORT
    #[arg(value_parser = local, required_unless_present = "via", conflicts_with = "via")]
    at: Option<SocketAddr>,
    /// Folder for the files
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// End after this number of transactions
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Longest file that is accepted
    #[arg(long, value_name = "BYTES", default_value = "1 GB")]
    longest: Bytes,
    #[command(flatten)]
    own: EntityArgs,
}

fn local(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok((IpAddr::V4(Ipv4Addr::UNSPECIFIED), port).into());
    }
    text.parse().map_err(|_| "expected PORT, as 4560, or ADDRESS:PORT, as 10.0.0.1:4560".to_owned())
}

impl EntityArgs {
    fn config(&self) -> Config {
        let all = self.timeout * u64::from(self.tries.saturating_add(1)) * 2;
        Config {
            timeout: self.timeout,
            tries: self.tries,
            inactivity: self.inactivity.unwrap_or(all),
            ..Config::new(self.entity)
        }
    }

    fn carrier(&self, at: SocketAddr) -> Result<Carrier, String> {
        match (&self.via, &self.from) {
            (Some(node), Some(endpoint)) => {
                Carrier::bundles(&self.tls.access(node)?, endpoint, self.lifetime)
            }
            _ => Carrier::udp(at, self.rate),
        }
    }

    /// Creates the entity. Its numbers of transactions start at random: who guesses one can end its file.
    fn entity(&self, config: Config) -> Entity {
        let random = RandomState::new().hash_one(dtn_time());
        Entity::new(config, random & 0xffff_ffff)
    }
}

/// Runs a command and returns the exit code.
pub(super) fn run(command: &Command, stop: &AtomicBool) -> Result<u8, String> {
    match command {
        Command::Send(args) => send(args, stop),
        Command::Receive(args) => receive(args, stop),
    }
}

/// Shows how a transaction is called.
fn name_of(transaction: Transaction) -> String {
    format!("{}-{}", transaction.source, transaction.number)
}

fn send(args: &SendArgs, stop: &AtomicBool) -> Result<u8, String> {
    let config = Config {
        segment: usize::try_from(args.segment.get()).unwrap_or(usize::MAX).clamp(1, 65_000),
        checksum: match args.checksum {
            ChecksumArg::Modular => ChecksumKind::Modular,
            ChecksumArg::Crc32 => ChecksumKind::Crc32,
            ChecksumArg::Crc32c => ChecksumKind::Crc32c,
            ChecksumArg::Null => ChecksumKind::Null,
        },
        has_crc: args.crc,
        closure: args.closure,
        transactions: args.files.len(),
        receives: false,
        ..args.own.config()
    };
    let mut entity = args.own.entity(config);
    let mut carrier = args.own.carrier((IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0).into())?;
    carrier.set_peer(args.to, &args.place)?;
    if args.name.is_some() && args.files.len() > 1 {
        return Err("--name: expected one file".to_owned());
    }
    for path in &args.files {
        let file = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let put = Put {
            destination: args.to,
            source_name: name.clone(),
            destination_name: args.name.clone().unwrap_or(name),
            file: file.into(),
            is_acknowledged: args.class == 2,
        };
        entity.put(put, carrier.now()).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let (mut left, mut failed) = (args.files.len(), 0);
    carrier.run(&mut entity, stop, &mut |event| {
        left -= 1;
        match event {
            Event::Sent(transaction, true) => out(&format!("{} delivered\n", name_of(transaction))),
            Event::Sent(transaction, false) => out(&format!("{} sent\n", name_of(transaction))),
            Event::Failed(transaction, condition, progress) => {
                failed += 1;
                note(&format!("{} failed after {progress} B: {condition}", name_of(transaction)));
            }
            Event::Received(..) | Event::Reused(_) | Event::Displaced(..) => left += 1,
        }
        Ok(left > 0)
    })?;
    let counts = carrier.counts();
    carrier.close();
    out(&format!("{} PDUs sent, {} received\n", counts.sent, counts.received));
    Ok(u8::from(failed > 0 || left > 0))
}

/// Lines about transactions without a file, in [`PERIOD`].
const MAX_LINES: u64 = 20;
/// Milliseconds after which there may be as many lines again.
const PERIOD: u64 = 30_000;

/// Notes about what any host may bring about, at a bounded rate.
struct Notes {
    since: u64,
    lines: u64,
    left_out: u64,
}

impl Notes {
    fn say(&mut self, line: &str) {
        if dtn_time().saturating_sub(self.since) >= PERIOD {
            self.sum_up();
            (self.since, self.lines) = (dtn_time(), 0);
        }
        self.lines += 1;
        match self.lines > MAX_LINES {
            true => self.left_out += 1,
            false => log(line),
        }
    }

    /// Prints the number of lines that were left out.
    fn sum_up(&mut self) {
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            note(&format!("{left_out} more such lines"));
        }
    }
}

fn receive(args: &ReceiveArgs, stop: &AtomicBool) -> Result<u8, String> {
    std::fs::create_dir_all(&args.out).map_err(|error| format!("{}: {error}", args.out.display()))?;
    let mut entity = args.own.entity(Config { file: args.longest.get(), ..args.own.config() });
    let at = args.at.unwrap_or((IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0).into());
    let mut carrier = args.own.carrier(at)?;
    let (mut ended, mut failed, mut displaced) = (0, 0, 0_u64);
    let mut notes = Notes { since: dtn_time(), lines: 0, left_out: 0 };
    carrier.run(&mut entity, stop, &mut |event| {
        match event {
            Event::Received(transaction, file) => {
                ended += 1;
                match keep(&args.out, transaction, &file) {
                    Ok(path) => {
                        out(&format!("{} {} {} B\n", name_of(transaction), path.display(), file.data.len()));
                    }
                    // The sender chose the name: other transactions go on.
                    Err(problem) => {
                        failed += 1;
                        notes.say(&format!("{} not kept: {problem}", name_of(transaction)));
                    }
                }
            }
            Event::Failed(transaction, condition, progress) => {
                (ended, failed) = (ended + 1, failed + 1);
                notes.say(&format!("{} failed after {progress} B: {condition}", name_of(transaction)));
            }
            Event::Displaced(transaction, progress) => {
                (ended, failed, displaced) = (ended + 1, failed + 1, displaced + 1);
                notes.say(&format!(
                    "{} gave way after {progress} B: another host or source began a transaction, and this one's had the most",
                    name_of(transaction)
                ));
            }
            Event::Reused(transaction) => notes.say(&format!(
                "{}: the number of a transaction that is over came again with another file, which is taken as a new one",
                name_of(transaction)
            )),
            Event::Sent(..) => {}
        }
        Ok(args.count.is_none_or(|count| ended < count))
    })?;
    // The end of the last transaction is repeated until it is acknowledged.
    while args.count.is_some() && entity.transactions().1 > 0 && !stop.load(Ordering::Relaxed) {
        carrier.turn(&mut entity)?;
    }
    let counts = carrier.counts();
    carrier.close();
    notes.sum_up();
    if displaced > 0 {
        note(&format!("{displaced} transactions gave way to those of other hosts"));
    }
    if counts.refused > 0 {
        note(&format!("{} PDUs were not understood", counts.refused));
    }
    Ok(u8::from(failed > 0))
}

/// Writes a received file. No file is replaced.
fn keep(folder: &Path, transaction: Transaction, file: &ReceivedFile) -> Result<PathBuf, String> {
    let name = plain_name(&file.destination_name);
    let mut path = folder.join(&name);
    let mut copy = 0;
    while path.exists() {
        copy += 1;
        let suffix =
            if copy == 1 { name_of(transaction) } else { format!("{}.{copy}", name_of(transaction)) };
        path = folder.join(format!("{name}.{suffix}"));
    }
    write_whole(&path, |out| out.write_all(&file.data)).map_err(|error| error.to_string())?;
    Ok(path)
}

/// Longest name of a file here, so that a suffix fits.
const MAX_NAME: usize = 200;

/// Returns a plain name for a file.
///
/// It is listed in its folder, and looks as it is. Folders are removed. A point or hyphen at the front, and control and invisible characters, are "_": no file is hidden or reads as an option.
fn plain_name(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let name = Path::new(&*text).file_name().map(|name| name.to_string_lossy().into_owned());
    let is_plain = |(n, letter): (usize, char)| {
        let is_shown = !is_unseen(letter) && (letter == ' ' || !letter.is_whitespace());
        is_shown && (n > 0 || !matches!(letter, '.' | '-' | '~'))
    };
    let name = name.unwrap_or_default();
    let letters = name.trim().chars().enumerate();
    let mut plain: String =
        letters.map(|(n, letter)| if is_plain((n, letter)) { letter } else { '_' }).collect();
    if plain.is_empty() {
        plain = "file".to_owned();
    }
    let longest = (0..=plain.len().min(MAX_NAME)).rev().find(|end| plain.is_char_boundary(*end));
    plain.truncate(longest.unwrap_or(0));
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_folders_and_control_characters() {
        for (name, plain) in [
            (&b"a.txt"[..], "a.txt"),
            (b"/etc/passwd", "passwd"),
            (b"../../up", "up"),
            (b"..", "file"),
            (b"", "file"),
            (b"/", "file"),
            (b"a\x1b[2Jb\0c", "a_[2Jb_c"),
            (b"\xff", "\u{fffd}"),
            (b".bashrc", "_bashrc"),
            (b"/home/a/.ssh/..x", "_.x"),
            (b"-rf", "_rf"),
            (b" ", "file"),
            (b" a b ", "a b"),
            ("a\u{202e}gpj.exe".as_bytes(), "a_gpj.exe"),
            ("\u{feff}.a\u{200d}b\u{2066}c".as_bytes(), "_.a_b_c"),
            ("a\u{e0041}\u{3164}\u{fe0f}\u{202f}b".as_bytes(), "a____b"),
            ("\u{fc}ber, 2. Fassung.txt".as_bytes(), "\u{fc}ber, 2. Fassung.txt"),
        ] {
            assert_eq!(plain_name(name), plain);
        }
        assert_eq!(plain_name(&[0xff; 255]).len(), 198);
    }

    #[test]
    fn files_of_one_name_are_all_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |byte| ReceivedFile {
            source_name: Vec::new(),
            destination_name: b"../a".to_vec(),
            data: vec![byte],
        };
        let transaction = Transaction { source: 3, number: 7 };
        let paths: Vec<_> =
            (0..3).map(|byte| keep(folder.path(), transaction, &file(byte)).expect("kept")).collect();
        let names: Vec<_> = paths.iter().map(|path| path.file_name().expect("a name").to_owned()).collect();
        assert_eq!(names, ["a", "a.3-7", "a.3-7.2"]);
        for (byte, path) in (0..).zip(&paths) {
            assert_eq!(std::fs::read(path).expect("a file"), [byte]);
        }
    }
}
