//! Data in one direction.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use bentpipe_emu::streams::{is_at_mark, unacknowledged};
use rustix::io::{Errno, ioctl_fionread, read, write};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use socket2::Socket;

/// Bytes moved in one step: the most that the proxy itself holds in a direction.
const STEP: usize = 128 << 10;

/// Capacity that the pipe is asked for. Each received fragment takes a slot of it, however short.
const CAPACITY: usize = 1 << 20;

/// Longest read past an urgent byte. The data after it is moved by splice(2) again.
const READ: usize = 4096;

/// Steps of a direction before other connections are served.
const STEPS: usize = 8;

/// Pipe through which all data passes without a copy (splice(2)). It is empty between steps.
#[derive(Debug)]
pub(crate) struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
}

impl Pipe {
    pub(crate) fn new() -> io::Result<Pipe> {
        let (out, into) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
        // A user's limit of pipe memory leaves the usual capacity.
        let _ = fcntl_setpipe_size(&into, CAPACITY);
        Ok(Pipe { out, into })
    }

    /// Reads what is in it.
    fn take(&self, count: usize) -> io::Result<Vec<u8>> {
        let (mut bytes, mut len) = (vec![0; count], 0);
        while len < count {
            match read(&self.out, &mut bytes[len..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(more) => len += more,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(bytes)
    }
}

/// Data in one direction.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// Urgent byte that is to be sent before `rest`.
    urgent: Option<u8>,
    /// Bytes that the receiver's socket had no room for.
    rest: Vec<u8>,
    /// Bytes of `rest` that it has taken since.
    taken: usize,
    /// Bytes written.
    pub(crate) moved: u64,
    /// Set once the sender has ended its stream.
    is_read_out: bool,
    /// Set once the end has been passed on.
    pub(crate) is_shut: bool,
}

impl Flow {
    /// Moves data from one socket to the other. Returns `true` if there may be more at once.
    pub(crate) fn run(&mut self, from: &Socket, to: &Socket, pipe: &Pipe) -> io::Result<bool> {
        for _ in 0..STEPS {
            if !self.write_rest(to)? || self.is_read_out {
                break;
            }
            if !self.step(from, to, pipe)? {
                return Ok(false);
            }
        }
        if self.is_read_out && self.waiting() == 0 && !self.is_shut {
            shutdown(to, Shutdown::Write)?;
            self.is_shut = true;
        }
        Ok(self.waiting() == 0 && !self.is_shut)
    }

    /// Returns the bytes that the receiver's socket had no room for.
    fn waiting(&self) -> usize {
        usize::from(self.urgent.is_some()) + self.rest.len() - self.taken
    }

    /// Writes what was left. Returns `true` if nothing is left.
    fn write_rest(&mut self, to: &Socket) -> io::Result<bool> {
        while let Some(byte) = self.urgent {
            match send(to, &[byte], SendFlags::OOB) {
                Ok(bytes) => (self.urgent, self.moved) = (None, self.moved + bytes as u64),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        while self.taken < self.rest.len() {
            match write(to, &self.rest[self.taken..]) {
                Ok(bytes) => (self.taken, self.moved) = (self.taken + bytes, self.moved + bytes as u64),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        (self.rest, self.taken) = (Vec::new(), 0);
        Ok(true)
    }

    /// Moves data once. Returns `false` if none has arrived.
    fn step(&mut self, from: &Socket, to: &Socket, pipe: &Pipe) -> io::Result<bool> {
        let mut left = match move_bytes(from, &pipe.into, STEP)? {
            Some(0) => return self.cross_mark(from, to),
            Some(bytes) => bytes,
            None if is_at_mark(from)? => return self.cross_mark(from, to),
            None => return Ok(false),
        };
        let mut result = Ok(());
        while left > 0 {
            match move_bytes(&pipe.out, to, left) {
                Ok(Some(bytes)) => (left, self.moved) = (left - bytes, self.moved + bytes as u64),
                Ok(None) => break,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        if left > 0 {
            self.rest = pipe.take(left)?;
        }
        result.map(|()| true)
    }

    /// Receives the urgent byte, and reads past it. Returns `false` if nothing has arrived.
    ///
    /// splice(2) stops in front of the byte, with the result of an empty or an ended stream. The byte leaves as it came, out of
    /// line: its receiver may ask for it or not, as without a proxy (RFC 6093).
    fn cross_mark(&mut self, from: &Socket, to: &Socket) -> io::Result<bool> {
        if is_at_mark(from)? {
            let mut byte = [0];
            match recv(from, &mut byte, RecvFlags::OOB) {
                Ok((0, _)) => {}
                Ok(_) => self.urgent = Some(byte[0]),
                // It is announced, and has not arrived.
                Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
                // It has been taken.
                Err(Errno::INVAL) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut bytes = vec![0; READ];
        let result = loop {
            match read(from, &mut bytes) {
                Err(Errno::INTR) => {}
                result => break result,
            }
        };
        match result {
            Ok(0) => self.is_read_out = true,
            Ok(len) => {
                bytes.truncate(len);
                self.rest = bytes;
            }
            Err(Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        let has_arrived = self.is_read_out || self.waiting() > 0;
        self.write_rest(to)?;
        Ok(has_arrived)
    }

    /// Returns the bytes that the receiver has acknowledged.
    pub(crate) fn delivered(&self, to: &Socket) -> u64 {
        self.moved - self.unsent(to)
    }

    /// Returns the bytes written that the receiver has not acknowledged.
    fn unsent(&self, to: &Socket) -> u64 {
        // An end that was sent counts as a byte.
        let unsent = unacknowledged(to).unwrap_or(0).saturating_sub(self.is_shut.into());
        unsent.min(self.moved)
    }

    /// Returns the bytes acknowledged to the sender and not acknowledged by the receiver.
    pub(crate) fn held(&self, from: &Socket, to: &Socket) -> u64 {
        let unread = if self.is_read_out { 0 } else { ioctl_fionread(from).unwrap_or(0) };
        unread + self.waiting() as u64 + self.unsent(to)
    }
}

/// Moves bytes by splice(2); `None` if it would block.
fn move_bytes(from: impl AsFd, to: impl AsFd, max: usize) -> io::Result<Option<usize>> {
    loop {
        match splice(&from, None, &to, None, max, SpliceFlags::MOVE | SpliceFlags::NONBLOCK) {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the kernel moves data in real time")]
mod tests {
    use std::io::{Read, Write};
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use super::*;

    /// Returns two ends of a connection over loopback.
    fn connection(address: IpAddr) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((address, 0)).expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (far, _) = listener.accept().expect("connected");
        near.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
        (near, far)
    }

    /// Sockets of a sender and a receiver, and those of the flow between them.
    struct Path {
        sender: Socket,
        receiver: Socket,
        from: Socket,
        to: Socket,
        pipe: Pipe,
        flow: Flow,
    }

    impl Path {
        fn new(address: IpAddr) -> Path {
            let ((sender, from), (receiver, to)) = (connection(address), connection(address));
            let [sender, from, receiver, to] = [sender, from, receiver, to].map(Socket::from);
            from.set_nonblocking(true).expect("set");
            to.set_nonblocking(true).expect("set");
            Path { sender, receiver, from, to, pipe: Pipe::new().expect("a pipe"), flow: Flow::default() }
        }

        /// Runs the flow until it has moved a number of bytes, and returns the number moved in time.
        fn run_until(&mut self, moved: u64) -> u64 {
            let started = Instant::now();
            while self.flow.moved < moved && started.elapsed() < Duration::from_secs(5) {
                self.flow.run(&self.from, &self.to, &self.pipe).expect("it moves");
            }
            self.flow.moved
        }

        /// Runs the flow to its end, and returns what the receiver reads.
        fn finish(mut self) -> Vec<u8> {
            self.sender.shutdown(std::net::Shutdown::Write).expect("ended");
            std::thread::scope(|scope| {
                let receiver = &mut self.receiver;
                let reading = scope.spawn(move || {
                    let mut received = Vec::new();
                    receiver.read_to_end(&mut received).map(|_| received)
                });
                let started = Instant::now();
                while !self.flow.is_shut && started.elapsed() < Duration::from_secs(5) {
                    self.flow.run(&self.from, &self.to, &self.pipe).expect("it moves");
                }
                reading.join().expect("joined").expect("to the end")
            })
        }
    }

    /// Returns the addresses of loopback.
    fn loopbacks() -> Vec<IpAddr> {
        let v6 = bentpipe_testkit::has_ipv6().then_some(IpAddr::V6(Ipv6Addr::LOCALHOST));
        [IpAddr::V4(Ipv4Addr::LOCALHOST)].into_iter().chain(v6).collect()
    }

    fn urgent_byte(socket: &Socket) -> io::Result<u8> {
        let mut byte = [0];
        Ok(recv(socket, &mut byte, RecvFlags::OOB).map(|_| byte[0])?)
    }

    #[test]
    fn data_after_an_urgent_byte_arrives_and_the_byte_out_of_line() {
        for address in loopbacks() {
            let mut path = Path::new(address);
            path.sender.write_all(b"abc").expect("sent");
            path.sender.send_out_of_band(b"!").expect("sent");
            path.sender.write_all(&b"def".repeat(100_000)).expect("sent");
            path.sender.shutdown(std::net::Shutdown::Write).expect("ended");
            path.run_until(4);
            assert_eq!(urgent_byte(&path.receiver).ok(), Some(b'!'), "{address}");
            let received = path.finish();
            assert_eq!((received.len(), &received[..6]), (300_003, &b"abcdef"[..]), "{address}");
        }
    }

    #[test]
    fn an_urgent_byte_passes_before_more_data_follows() {
        let mut path = Path::new(Ipv4Addr::LOCALHOST.into());
        path.sender.write_all(b"abc").expect("sent");
        path.sender.send_out_of_band(b"!").expect("sent");
        assert_eq!(path.run_until(4), 4);
        assert_eq!(urgent_byte(&path.receiver).ok(), Some(b'!'));
        path.sender.write_all(b"def").expect("sent");
        // Nothing of a stream that goes on is taken for its end.
        assert_eq!((path.run_until(7), path.flow.is_read_out), (7, false));
        assert_eq!(path.finish(), b"abcdef");
    }

    #[test]
    fn urgent_bytes_at_the_start_and_the_end_of_a_stream_pass() {
        for address in loopbacks() {
            let mut path = Path::new(address);
            path.sender.send_out_of_band(b"1").expect("sent");
            assert_eq!(path.run_until(1), 1, "{address}");
            assert_eq!(urgent_byte(&path.receiver).ok(), Some(b'1'), "{address}");
            path.sender.write_all(b"abc").expect("sent");
            path.sender.send_out_of_band(b"2").expect("sent");
            assert_eq!(path.run_until(5), 5, "{address}");
            assert_eq!(urgent_byte(&path.receiver).ok(), Some(b'2'), "{address}");
            assert_eq!(path.finish(), b"abc", "{address}");
        }
    }

    #[test]
    fn what_the_kernel_has_only_queued_is_not_delivered() {
        let mut path = Path::new(Ipv4Addr::LOCALHOST.into());
        path.sender.set_nonblocking(true).expect("set");
        // The receiver reads nothing: its buffer fills up, then that of the flow's socket.
        let (started, mut sent) = (Instant::now(), 0);
        while path.flow.waiting() == 0 && started.elapsed() < Duration::from_secs(10) {
            sent += path.sender.write(&[0; 1 << 16]).unwrap_or(0) as u64;
            path.flow.run(&path.from, &path.to, &path.pipe).expect("it moves");
        }
        let at_receiver = || ioctl_fionread(&path.receiver).expect("a socket");
        let delivered = || path.flow.delivered(&path.to);
        while delivered() != at_receiver() && started.elapsed() < Duration::from_secs(10) {
            std::thread::yield_now();
        }
        assert_eq!(delivered(), at_receiver());
        assert!(delivered() < path.flow.moved, "{} B are queued", path.flow.moved);
        let unread =
            ioctl_fionread(&path.from).expect("a socket") + unacknowledged(&path.sender).expect("TCP");
        let held = path.flow.held(&path.from, &path.to);
        assert!((delivered() + held..=delivered() + held + unread).contains(&sent), "{sent} B in all");
    }

    #[test]
    fn urgent_bytes_to_a_receiver_that_is_full_wait_in_order() {
        let mut path = Path::new(Ipv4Addr::LOCALHOST.into());
        path.receiver.set_out_of_band_inline(true).expect("set");
        let (sender, mut expected) = (path.sender.try_clone().expect("another"), Vec::new());
        for _ in 0..200 {
            expected.extend([&b"abc".repeat(20_000)[..], b"!"].concat());
        }
        let sending = std::thread::spawn(move || {
            for _ in 0..200 {
                (&sender).write_all(&b"abc".repeat(20_000)).expect("sent");
                sender.send_out_of_band(b"!").expect("sent");
            }
            sender.shutdown(std::net::Shutdown::Write).expect("ended");
        });
        // The receiver's socket and the flow fill up before it reads.
        for _ in 0..100 {
            path.flow.run(&path.from, &path.to, &path.pipe).expect("it moves");
            std::thread::yield_now();
        }
        let (mut received, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
        path.receiver.set_nonblocking(true).expect("set");
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(20) {
            if !path.flow.is_shut {
                path.flow.run(&path.from, &path.to, &path.pipe).expect("it moves");
            }
            match path.receiver.read(&mut chunk) {
                Ok(0) => break,
                Ok(len) => received.extend(&chunk[..len]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        sending.join().expect("sent");
        // An urgent byte replaces one that has not been read, which stays in the stream.
        let plain = |bytes: &[u8]| bytes.iter().filter(|byte| **byte != b'!').copied().collect::<Vec<u8>>();
        assert!(plain(&received) == plain(&expected), "{} of {} B", received.len(), expected.len());
        assert_eq!(received.last(), Some(&b'!'), "the last one is not replaced");
    }
}
