//! Outputs of the carrier. They never block: what a receiver has no room for is dropped and counted.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bentpipe_emu::privileges::User;
use bentpipe_units::{Span, Time};
use rustix::fs::OFlags;
use socket2::Socket;

use super::fec::{Direction, Encoder, Matrix};
use super::numbering::Numbering;
use super::socket::{self, Send};
use bentpipe_emu::datagrams::{BATCH, Outbox};

/// Settings of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputConfig {
    /// UDP datagrams.
    Udp {
        /// Sockets.
        send: Send,
        /// Enables an RTP header in front of each.
        rtp: bool,
        /// Parity of datagrams with RTP. Default: none.
        fec: Option<Matrix>,
    },
    /// File, or an existing FIFO.
    File(PathBuf),
    /// Standard input of a program, which is restarted when it ends.
    Program(Vec<String>),
}

impl OutputConfig {
    /// Returns the key that says where it is, and its value.
    pub(crate) fn place(&self) -> (&'static str, String) {
        match self {
            OutputConfig::Udp { send, .. } => {
                let to: Vec<String> = send.to.iter().map(ToString::to_string).collect();
                ("to", to.join(", "))
            }
            OutputConfig::File(path) => ("path", path.display().to_string()),
            OutputConfig::Program(words) => ("command", words.join(" ")),
        }
    }
}

/// Counters of an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams, or pieces of a stream, that went to each receiver.
    pub sent: u64,
    /// Datagrams or pieces dropped, as a receiver had no room or was unreachable.
    pub dropped: u64,
    /// Parity packets that left, to all receivers.
    pub parity: u64,
    /// Times that a program was started again.
    pub restarts: u64,
}

/// Pieces of a stream that leave together.
#[derive(Debug, Default)]
struct Train {
    bytes: Vec<u8>,
    /// End of each piece.
    ends: Vec<usize>,
}

impl Train {
    fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        self.ends.push(self.bytes.len());
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// Open output.
pub(crate) struct Output {
    kind: Kind,
    /// Datagrams, or pieces, that wait to leave together.
    waiting: usize,
    counts: Counts,
}

enum Kind {
    Udp { families: Vec<Family>, rtp: Option<Numbering>, fec: Option<Parity> },
    Stream(Stream, Train),
    Program(Program, Train),
}

/// Parity of the datagrams of an output.
struct Parity {
    encoder: Encoder,
    /// Present datagram with its header.
    datagram: Vec<u8>,
}

/// Receivers of one family, and the socket that reaches them.
struct Family {
    socket: Socket,
    to: Vec<SocketAddr>,
    outbox: Outbox,
}

impl Output {
    /// Opens it. `identity` distinguishes RTP senders.
    /// A program runs as `user`; as this process if there is none.
    pub(crate) fn open(config: &OutputConfig, identity: u32, user: Option<&User>) -> io::Result<Output> {
        let kind = match config {
            OutputConfig::Udp { send, rtp, fec } => {
                let mut families = Vec::new();
                for is_v6 in [false, true] {
                    let to: Vec<SocketAddr> =
                        send.to.iter().filter(|to| to.is_ipv6() == is_v6).copied().collect();
                    if !to.is_empty() {
                        families.push(Family {
                            socket: socket::sender(send, is_v6)?,
                            to,
                            outbox: Outbox::new(),
                        });
                    }
                }
                let rtp = rtp.then(|| Numbering::new(identity, (identity >> 16) as u16));
                let parity = |matrix| Parity { encoder: Encoder::new(matrix), datagram: Vec::new() };
                Kind::Udp { families, rtp, fec: fec.map(parity) }
            }
            OutputConfig::File(path) => Kind::Stream(Stream::new(open_file(path)?), Train::default()),
            OutputConfig::Program(words) => Kind::Program(Program::start(words, user)?, Train::default()),
        };
        Ok(Output { kind, waiting: 0, counts: Counts::default() })
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Adds a datagram that has these bytes and leaves now.
    pub(crate) fn push(&mut self, now: Time, bytes: &[u8]) {
        match &mut self.kind {
            Kind::Udp { families, rtp, fec } => {
                let header = rtp.as_mut().map(|numbering| numbering.header(now));
                let header = header.as_ref().map_or(&[][..], |header| header);
                for family in families.iter_mut() {
                    for &to in &family.to {
                        let datagram = family.outbox.datagram(Some(to), header.len() + bytes.len());
                        let (start, rest) = datagram.split_at_mut(header.len());
                        start.copy_from_slice(header);
                        rest.copy_from_slice(bytes);
                    }
                }
                if let Some(Parity { encoder, datagram }) = fec {
                    datagram.clear();
                    datagram.extend_from_slice(header);
                    datagram.extend_from_slice(bytes);
                    let counts = &mut self.counts;
                    encoder.push(datagram, |direction, packet| {
                        counts.parity += push_parity(families, direction, packet);
                    });
                }
            }
            Kind::Stream(_, train) | Kind::Program(_, train) => train.push(bytes),
        }
        self.waiting += 1;
        if self.waiting == BATCH {
            self.flush(now);
        }
    }

    /// Sends what was added.
    pub(crate) fn flush(&mut self, now: Time) {
        if std::mem::take(&mut self.waiting) == 0 {
            return;
        }
        let counts = &mut self.counts;
        match &mut self.kind {
            Kind::Udp { families, .. } => {
                for family in families {
                    let result = family.outbox.send(&family.socket);
                    counts.sent += result.sent as u64;
                    counts.dropped += result.refused as u64;
                }
            }
            Kind::Stream(stream, train) => {
                stream.send_train(train, counts);
                train.clear();
            }
            Kind::Program(program, train) => {
                program.send_train(now, train, counts);
                train.clear();
            }
        }
    }
}

/// Adds a parity packet for each receiver, and returns the number of them.
fn push_parity(families: &mut [Family], direction: Direction, packet: &[u8]) -> u64 {
    let mut count = 0;
    for family in families {
        for to in &family.to {
            // The settings have room for the ports.
            let port = to.port().saturating_add(direction.port_offset());
            let to = SocketAddr::new(to.ip(), port);
            family.outbox.datagram(Some(to), packet.len()).copy_from_slice(packet);
            count += 1;
        }
    }
    count
}

/// Opens a file to write, or a FIFO. A FIFO is opened for reading too: so it is there before a reader is, and stays when
/// a reader goes.
fn open_file(path: &Path) -> io::Result<OwnedFd> {
    let is_fifo = path.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo());
    let mut options = OpenOptions::new();
    options.write(true).read(is_fifo).create(!is_fifo).truncate(!is_fifo);
    let file = options.custom_flags((OFlags::NONBLOCK | OFlags::CLOEXEC).bits() as i32).open(path);
    Ok(file?.into())
}

/// Output byte stream.
///
/// The rest of a piece that was partly written waits here, so pieces are never cut.
#[derive(Debug)]
struct Stream {
    file: std::fs::File,
    /// Rest of a piece that was partly written.
    rest: Vec<u8>,
}

impl Stream {
    fn new(fd: OwnedFd) -> Stream {
        Stream { file: fd.into(), rest: Vec::new() }
    }

    fn send_train(&mut self, train: &Train, counts: &mut Counts) {
        if self.write_rest().is_err() || !self.rest.is_empty() {
            counts.dropped += train.ends.len() as u64;
            return;
        }
        let mut written = 0;
        while written < train.bytes.len() {
            match self.file.write(&train.bytes[written..]) {
                Ok(len) if len > 0 => written += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        let begun = train.ends.partition_point(|&end| end <= written);
        let is_cut = written > train.ends.get(begun.wrapping_sub(1)).copied().unwrap_or(0);
        if let Some(&end) = train.ends.get(begun).filter(|_| is_cut) {
            self.rest.extend_from_slice(&train.bytes[written..end]);
        }
        let sent = begun + usize::from(is_cut);
        counts.sent += sent as u64;
        counts.dropped += (train.ends.len() - sent) as u64;
    }

    fn write_rest(&mut self) -> io::Result<()> {
        while !self.rest.is_empty() {
            match self.file.write(&self.rest) {
                Ok(len) => drop(self.rest.drain(..len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Program that reads the stream.
#[derive(Debug)]
struct Program {
    words: Vec<String>,
    user: Option<User>,
    running: Option<(Child, Stream)>,
    restart_at: Time,
}

/// Delay before a program is restarted.
const RESTART_AFTER: Span = Span::from_secs(1);

impl Program {
    fn start(words: &[String], user: Option<&User>) -> io::Result<Program> {
        let running = Some(spawn(words, user)?);
        Ok(Program { words: words.to_vec(), user: user.cloned(), running, restart_at: Time::ZERO })
    }

    fn send_train(&mut self, now: Time, train: &Train, counts: &mut Counts) {
        if self.running.as_mut().is_some_and(|(child, _)| !matches!(child.try_wait(), Ok(None))) {
            self.running = None;
            self.restart_at = now + RESTART_AFTER;
        }
        if self.running.is_none() && now >= self.restart_at {
            self.running = spawn(&self.words, self.user.as_ref()).ok();
            self.restart_at = now + RESTART_AFTER;
            counts.restarts += 1;
        }
        match &mut self.running {
            Some((_, stream)) => stream.send_train(train, counts),
            None => counts.dropped += train.ends.len() as u64,
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // With its standard input closed it may end by itself; otherwise it is asked to.
        if let Some((mut child, stream)) = self.running.take() {
            drop(stream);
            bentpipe_emu::end(&mut child);
        }
    }
}

fn spawn(words: &[String], user: Option<&User>) -> io::Result<(Child, Stream)> {
    let mut child = program(words, user)?.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let input: OwnedFd = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?.into();
    set_nonblocking(input.as_fd())?;
    Ok((child, Stream::new(input)))
}

/// Returns the command of a program, as a user that can end it too.
pub(crate) fn program(words: &[String], user: Option<&User>) -> io::Result<Command> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(user) = user {
        command.uid(user.uid).gid(user.gid);
    }
    Ok(command)
}

/// Sets a descriptor non-blocking.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    Ok(rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn train(pieces: &[&[u8]]) -> Train {
        let mut train = Train::default();
        pieces.iter().for_each(|piece| train.push(piece));
        train
    }

    #[test]
    fn a_full_pipe_drops_whole_pieces_and_cuts_none() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let fd: OwnedFd = writer.into();
        set_nonblocking(fd.as_fd()).expect("a pipe can");
        let (mut stream, mut counts) = (Stream::new(fd), Counts::default());
        let piece = |n: u8| [n; 1316];
        for n in 0..100u8 {
            stream.send_train(&train(&[&piece(n)[..]; 7]), &mut counts);
        }
        assert_eq!(counts.sent + counts.dropped, 700);
        assert!(counts.dropped > 0 && counts.sent > 30 && !stream.rest.is_empty(), "{counts:?}");
        // Once there is room, the rest of the cut piece goes first.
        let mut taken = vec![0; 20 * 1316];
        reader.read_exact(&mut taken).expect("that much is there");
        stream.send_train(&train(&[&piece(200)]), &mut counts);
        drop(stream);
        reader.read_to_end(&mut taken).expect("the end");
        assert_eq!(taken.len(), counts.sent as usize * 1316);
        assert!(
            taken.chunks(1316).all(|piece| piece.iter().all(|byte| *byte == piece[0])),
            "no piece is cut"
        );
        assert_eq!(taken.last(), Some(&200));
    }

    #[test]
    fn a_program_that_ends_is_started_again() {
        let folder = bentpipe_testkit::Folder::new();
        let file = folder.file("written");
        let path = file.display().to_string();
        let words = ["sh", "-c", "head -c 4 >> \"$0\"", &path].map(str::to_owned);
        let mut output = Output::open(&OutputConfig::Program(words.to_vec()), 1, None).expect("sh is there");
        let written = || std::fs::read(&file).map_or(0, |bytes| bytes.len());
        let wait_for = |len| {
            (0..500).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                written() == len
            })
        };
        output.push(Time::ZERO, b"abcd");
        output.flush(Time::ZERO);
        assert!(wait_for(4));
        std::thread::sleep(std::time::Duration::from_millis(200));
        output.push(Time::ZERO, b"lost");
        output.flush(Time::ZERO);
        assert_eq!(output.counts().dropped, 1);
        output.push(Time::ZERO + Span::from_secs(2), b"efgh");
        output.flush(Time::ZERO + Span::from_secs(2));
        assert!(wait_for(8), "{}", written());
        assert_eq!(*output.counts(), Counts { sent: 2, dropped: 1, parity: 0, restarts: 1 });
    }
}
