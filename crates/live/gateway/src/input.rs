//! Inputs of carriers. Their senders are not trusted.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use bentpipe_emu::privileges::User;
use bentpipe_units::{Rate, Span, Time};
use bentpipe_wire::ts::{Framer, PACKET_LEN, Unpacker, UnpackerCounts};
use rustix::fs::OFlags;
use socket2::Socket;

use super::fec;
use super::output::{program, set_nonblocking};
use super::pace::Pace;
use super::reorder::Reorder;
use super::repair::Repair;
use super::socket::{self, Listen, is_wanted};
use bentpipe_emu::datagrams::{Inbox, receive_drops};

/// Settings of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputConfig {
    /// UDP datagrams.
    Udp {
        /// Socket.
        listen: Listen,
        /// Set if each has an RTP header in front.
        rtp: bool,
        /// Maximum time that a datagram of RTP waits for an earlier one.
        reorder: Span,
        /// Set to repair lost datagrams by parity.
        fec: bool,
    },
    /// File, read at this rate or without limit; or an existing FIFO.
    File(PathBuf, Option<Rate>),
    /// Standard output of a program, which is restarted when it ends.
    Program(Vec<String>),
}

impl InputConfig {
    /// Returns the key that says where it is, and its value.
    pub(crate) fn place(&self) -> (&'static str, String) {
        match self {
            InputConfig::Udp { listen, .. } => ("listen", listen.at.to_string()),
            InputConfig::File(path, _) => ("path", path.display().to_string()),
            InputConfig::Program(words) => ("command", words.join(" ")),
        }
    }
}

/// Counters of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams and the TS packets in them; TS packets alone of a stream.
    pub datagrams: UnpackerCounts,
    /// Datagrams dropped because of an unexpected sender.
    pub unexpected_sources: u64,
    /// Datagrams that the kernel dropped before they were read.
    pub overflows: u64,
    /// Losses of synchronisation in a byte stream.
    pub framing_losses: u64,
    /// Bytes of a stream outside packets.
    pub skipped_bytes: u64,
    /// Restarts of the program.
    pub restarts: u64,
    /// Repair of lost datagrams.
    pub repair: fec::Counts,
    /// Errors of the system.
    pub errors: u64,
}

/// Open input.
pub(crate) struct Input {
    kind: Kind,
    unexpected_sources: u64,
    /// Datagrams taken whole, with any content.
    whole: u64,
    errors: u64,
}

enum Kind {
    Udp {
        socket: Socket,
        from: Vec<IpAddr>,
        reorder: Reorder,
        unpacker: Unpacker,
        inbox: Inbox,
        repair: Option<Repair>,
    },
    Stream(Stream),
    Program {
        words: Vec<String>,
        user: Option<User>,
        running: Option<Child>,
        stream: Stream,
        restart_at: Time,
        restarts: u64,
    },
}

/// Input byte stream.
#[derive(Debug)]
struct Stream {
    file: Option<std::fs::File>,
    framer: Framer,
    buffer: Vec<u8>,
    packets: u64,
    /// Slots of a file that is read at a rate.
    pace: Option<Pace>,
    is_file: bool,
}

/// Maximum length of a datagram: more than a BBFRAME with its headers.
///
/// A longer one is cut, and then is not a whole number of TS packets.
const LONGEST_DATAGRAM: usize = 8192;

/// Maximum number of bytes read from a stream at a time.
const CHUNK_LEN: usize = 64 * 1024;

/// Delay before a program is restarted.
const RESTART_AFTER: Span = Span::from_secs(1);

impl Input {
    /// Opens it. A program runs as `user`; as this process if there is none.
    pub(crate) fn open(config: &InputConfig, now: Time, user: Option<&User>) -> io::Result<Input> {
        let kind = match config {
            InputConfig::Udp { listen, rtp, reorder, fec } => Kind::Udp {
                socket: socket::listener(listen)?,
                from: listen.from.clone(),
                reorder: Reorder::new(if *rtp { *reorder } else { Span::ZERO }),
                unpacker: Unpacker::new(*rtp),
                inbox: Inbox::new(LONGEST_DATAGRAM),
                repair: fec.then(|| Repair::open(listen)).transpose()?,
            },
            InputConfig::File(path, rate) => {
                Kind::Stream(Stream::open(path, rate.map(|rate| Pace::new(rate, PACKET_LEN, now)))?)
            }
            InputConfig::Program(words) => {
                let (child, file) = spawn(words, user)?;
                let (words, running, stream) = (words.clone(), Some(child), Stream::new(file));
                let user = user.cloned();
                Kind::Program { words, user, running, stream, restart_at: Time::ZERO, restarts: 0 }
            }
        };
        Ok(Input { kind, unexpected_sources: 0, whole: 0, errors: 0 })
    }

    /// Returns the file descriptors to wait on.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (main, repair) = match &self.kind {
            Kind::Udp { socket, repair, .. } => (Some(socket.as_fd()), repair.as_ref()),
            Kind::Stream(stream) | Kind::Program { stream, .. } => (stream.fd(), None),
        };
        main.into_iter().chain(repair.into_iter().flat_map(Repair::fds))
    }

    /// Returns the time to look again if nothing comes.
    pub(crate) fn due(&self) -> Time {
        match &self.kind {
            Kind::Udp { reorder, .. } => reorder.due(),
            Kind::Stream(stream) => stream.due(),
            Kind::Program { stream, restart_at, .. } if stream.file.is_none() => *restart_at,
            Kind::Program { .. } => Time::NEVER,
        }
    }

    /// Processes a batch of input, and calls `sink` with TS packets. Returns `true` if there was any.
    pub(crate) fn read(&mut self, now: Time, mut sink: impl FnMut(&[u8; PACKET_LEN])) -> bool {
        let unexpected_sources = &mut self.unexpected_sources;
        let result = match &mut self.kind {
            Kind::Udp { socket, from, reorder, unpacker, inbox, repair } => {
                inbox.receive(&*socket).map(|count| {
                    let mut take = |datagram: &[u8]| unpacker.unpack(datagram).iter().for_each(&mut sink);
                    for datagram in inbox.iter() {
                        if is_wanted(&datagram, from) {
                            reorder.push(now, datagram.bytes, &mut take);
                            if let Some(repair) = repair {
                                repair.push(&datagram, |bytes| reorder.push(now, bytes, &mut take));
                            }
                        } else {
                            *unexpected_sources += 1;
                        }
                    }
                    let mut count = count;
                    if let Some(repair) = repair {
                        let (taken, unexpected) =
                            repair.read_parity(from, |bytes| reorder.push(now, bytes, &mut take));
                        count += taken;
                        *unexpected_sources += unexpected;
                    }
                    reorder.release(now, &mut take);
                    count > 0
                })
            }
            Kind::Stream(stream) => stream.read(now, &mut sink).map(|(any, _)| any),
            Kind::Program { words, user, running, stream, restart_at, restarts } => {
                if stream.file.is_none() && now >= *restart_at {
                    *restart_at = now + RESTART_AFTER;
                    *restarts += 1;
                    if let Ok((child, file)) = spawn(words, user.as_ref()) {
                        (*running, stream.file) = (Some(child), Some(file));
                    }
                }
                stream.read(now, &mut sink).map(|(any, is_over)| {
                    if is_over {
                        running.take().iter_mut().for_each(bentpipe_emu::end);
                        *restart_at = now + RESTART_AFTER;
                    }
                    any
                })
            }
        };
        self.errors += u64::from(result.is_err());
        result.unwrap_or(false)
    }

    /// Returns `true` if there were datagrams, such as BBFRAMEs, after processing them whole.
    pub(crate) fn read_whole(&mut self, mut sink: impl FnMut(&[u8])) -> bool {
        let Kind::Udp { socket, from, inbox, .. } = &mut self.kind else { return false };
        let Ok(count) = inbox.receive(&*socket) else {
            self.errors += 1;
            return false;
        };
        for datagram in inbox.iter() {
            if is_wanted(&datagram, from) {
                self.whole += 1;
                sink(datagram.bytes);
            } else {
                self.unexpected_sources += 1;
            }
        }
        count > 0
    }

    pub(crate) fn counts(&self) -> Counts {
        let of_stream = |stream: &Stream| Counts {
            datagrams: UnpackerCounts { packets: stream.packets, ..UnpackerCounts::default() },
            framing_losses: stream.framer.losses(),
            skipped_bytes: stream.framer.skipped_bytes(),
            ..Counts::default()
        };
        let counts = match &self.kind {
            Kind::Udp { socket, unpacker, repair, reorder, .. } => {
                let unpacked = *unpacker.counts();
                let datagrams = UnpackerCounts {
                    datagrams: unpacked.datagrams + self.whole,
                    out_of_order: unpacked.out_of_order + reorder.repeated(),
                    ..unpacked
                };
                let overflows = receive_drops(socket).map_or(0, u64::from);
                let repair = repair.as_ref().map_or_else(fec::Counts::default, Repair::counts);
                Counts { datagrams, overflows, repair, ..Counts::default() }
            }
            Kind::Stream(stream) => of_stream(stream),
            Kind::Program { stream, restarts, .. } => Counts { restarts: *restarts, ..of_stream(stream) },
        };
        Counts { errors: self.errors, unexpected_sources: self.unexpected_sources, ..counts }
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        if let Kind::Program { running, .. } = &mut self.kind {
            running.take().iter_mut().for_each(bentpipe_emu::end);
        }
    }
}

impl Stream {
    fn new(file: std::fs::File) -> Stream {
        let (framer, buffer) = (Framer::default(), vec![0; CHUNK_LEN]);
        Stream { file: Some(file), framer, buffer, packets: 0, pace: None, is_file: false }
    }

    /// Opens a file or FIFO. A FIFO is opened for writing too, so that it outlives its writers.
    fn open(path: &Path, pace: Option<Pace>) -> io::Result<Stream> {
        let kind = path.metadata()?.file_type();
        let mut options = OpenOptions::new();
        options.read(true).write(kind.is_fifo());
        let file = options.custom_flags((OFlags::NONBLOCK | OFlags::CLOEXEC).bits() as i32).open(path)?;
        Ok(Stream { pace, is_file: kind.is_file(), ..Stream::new(file) })
    }

    /// Returns the file descriptor to wait on. A file is always ready.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().filter(|_| !self.is_file).map(AsFd::as_fd)
    }

    fn due(&self) -> Time {
        match &self.pace {
            _ if !self.is_file || self.file.is_none() => Time::NEVER,
            Some(pace) => pace.when(7),
            None => Time::ZERO,
        }
    }

    /// Returns whether there was any input, and whether it has ended.
    fn read(&mut self, now: Time, sink: &mut impl FnMut(&[u8; PACKET_LEN])) -> io::Result<(bool, bool)> {
        let Some(file) = &mut self.file else { return Ok((false, false)) };
        let most = match &mut self.pace {
            Some(pace) => {
                let due = pace.due(now).min((CHUNK_LEN / PACKET_LEN) as u64);
                pace.take(due);
                due as usize * PACKET_LEN
            }
            None => CHUNK_LEN,
        };
        if most == 0 {
            return Ok((false, false));
        }
        match file.read(&mut self.buffer[..most]) {
            Ok(0) => {
                self.file = None;
                Ok((false, true))
            }
            Ok(len) => {
                let packets = &mut self.packets;
                self.framer.push(&self.buffer[..len], |packet| {
                    *packets += 1;
                    sink(packet);
                });
                Ok((true, false))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok((false, false)),
            Err(error) => Err(error),
        }
    }
}

fn spawn(words: &[String], user: Option<&User>) -> io::Result<(Child, std::fs::File)> {
    let mut child = program(words, user)?.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output: OwnedFd = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?.into();
    set_nonblocking(output.as_fd())?;
    Ok((child, output.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Output, OutputConfig};
    use crate::socket::Send;
    use bentpipe_wire::ts::NULL_PACKET;
    use std::net::{SocketAddr, UdpSocket};

    /// A free port, for the moment.
    fn port(address: &str) -> SocketAddr {
        let socket = UdpSocket::bind(address).expect("loopback has ports");
        socket.local_addr().expect("it is bound")
    }

    fn listen(at: SocketAddr, from: Vec<IpAddr>, rtp: bool) -> Input {
        let listen = Listen { at, interface: None, from };
        Input::open(&InputConfig::Udp { listen, rtp, reorder: Span::ZERO, fec: false }, Time::ZERO, None)
            .expect("a free port")
    }

    fn send(to: Vec<SocketAddr>, rtp: bool) -> Output {
        let send = Send { to, interface: None, ttl: 1, dscp: 0 };
        Output::open(&OutputConfig::Udp { send, rtp, fec: None }, 99, None).expect("a socket")
    }

    fn packets(input: &mut Input) -> usize {
        let mut packets = 0;
        while input.read(Time::ZERO, |_| packets += 1) {}
        packets
    }

    #[test]
    fn datagrams_go_to_each_receiver_in_batches() {
        if !bentpipe_testkit::has_ipv6() {
            return;
        }
        for rtp in [false, true] {
            let (v4, v6) = (port("127.0.0.1:0"), port("[::1]:0"));
            let (mut at_v4, mut at_v6) = (listen(v4, Vec::new(), rtp), listen(v6, Vec::new(), rtp));
            let mut output = send(vec![v4, v6], rtp);
            (0..70).for_each(|_| output.push(Time::ZERO, &NULL_PACKET.repeat(7)));
            output.flush(Time::ZERO);
            assert_eq!((packets(&mut at_v4), packets(&mut at_v6)), (490, 490));
            assert_eq!((output.counts().sent, output.counts().dropped), (140, 0));
            assert_eq!(at_v4.counts().datagrams.missing, 0);
        }
    }

    #[test]
    fn an_address_in_use_is_named_with_its_key() {
        let taken = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let at = taken.local_addr().expect("it is bound");
        let config = InputConfig::Udp {
            listen: Listen { at, interface: None, from: Vec::new() },
            rtp: false,
            reorder: Span::ZERO,
            fec: false,
        };
        let error = Input::open(&config, Time::ZERO, None).err().expect("the port is taken");
        let (key, value) = config.place();
        let text = crate::place::OpenError::new(format!("input.3.{key}"), value, error).to_string();
        assert!(text.starts_with(&format!("input.3.listen: {at} is in use by another program")), "{text}");
    }

    #[test]
    fn strangers_and_giants_are_refused() {
        let at = port("127.0.0.1:0");
        let mut input = listen(at, vec!["192.0.2.1".parse().expect("an address")], false);
        let mut output = send(vec![at], false);
        output.push(Time::ZERO, &NULL_PACKET);
        output.flush(Time::ZERO);
        assert_eq!((packets(&mut input), input.counts().unexpected_sources), (0, 1));
        drop(input);
        let mut input = listen(at, vec!["127.0.0.1".parse().expect("an address")], false);
        // Longer than any is: cut by the kernel, and so no whole number of packets.
        output.push(Time::ZERO, &NULL_PACKET.repeat(100));
        output.push(Time::ZERO, &NULL_PACKET);
        output.flush(Time::ZERO);
        assert_eq!((packets(&mut input), input.counts().datagrams.wrong_length), (1, 1));
    }

    #[test]
    fn what_the_kernel_dropped_is_known() {
        let at = port("127.0.0.1:0");
        let input = listen(at, Vec::new(), false);
        let Kind::Udp { socket, .. } = &input.kind else { unreachable!() };
        socket.set_recv_buffer_size(4096).expect("a small buffer");
        let mut output = send(vec![at], false);
        (0..500).for_each(|_| output.push(Time::ZERO, &NULL_PACKET.repeat(7)));
        output.flush(Time::ZERO);
        let (sent, dropped) = (output.counts().sent, input.counts().overflows);
        assert_eq!(sent, 500);
        let mut input = input;
        assert_eq!(packets(&mut input) as u64, 7 * (500 - dropped));
        assert!(dropped > 0);
        // Read or not, what was dropped is.
        assert_eq!(input.counts().overflows, dropped);
    }

    #[test]
    fn a_file_is_read_to_its_end_or_played_at_its_rate() {
        let folder = bentpipe_testkit::Folder::new();
        let path = folder.write("input.ts", NULL_PACKET.repeat(100));
        let mut input = Input::open(&InputConfig::File(path.clone(), None), Time::ZERO, None).expect("there");
        assert_eq!((packets(&mut input), input.due()), (100, Time::NEVER));
        let rate = Some(Rate::from_bps(1_504_000));
        let mut input = Input::open(&InputConfig::File(path.clone(), rate), Time::ZERO, None).expect("there");
        let mut count = 0;
        while input.read(Time::ZERO + Span::from_millis(20), |_| count += 1) {}
        assert_eq!((count, input.due()), (20, Time::ZERO + Span::from_millis(27)));
    }

    #[test]
    fn a_program_s_output_is_read_and_it_is_started_again() {
        let words = ["sh", "-c", "head -c 1880 /dev/zero | tr '\\0' G"].map(str::to_owned).to_vec();
        let mut input = Input::open(&InputConfig::Program(words), Time::ZERO, None).expect("sh is there");
        let (mut count, mut now) = (0, Time::ZERO);
        while count < 20 && now < Time::ZERO + Span::from_secs(10) {
            input.read(now, |_| count += 1);
            std::thread::sleep(std::time::Duration::from_millis(5));
            now += Span::from_millis(5);
        }
        assert_eq!((count, input.counts().restarts), (20, 1));
        assert!(now > Time::ZERO + RESTART_AFTER, "{now}");
    }
}
