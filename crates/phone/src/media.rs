//! Voice of calls on real sockets, by the phones of scenarios.
//!
//! They have mouths, playout buffers and the E-model. A payload of speech begins with the mark of `bentpipe rtp`: the time of
//! sending and the machine whose clock it is of. In place of it the phones get the properties of speech that they have in scenarios.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::BorrowedFd;
use std::time::{SystemTime, UNIX_EPOCH};

use bentpipe_emu::datagrams::{BATCH, Inbox, stamp_arrivals};
use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_net::{InvalidConfig, Observer};
use bentpipe_rtp::machine;
use bentpipe_signalling::agent::CallId;
use bentpipe_signalling::sdp::{Capabilities, Negotiated};
use bentpipe_telephony::{Lines, PhoneVoice};
use bentpipe_units::{RandomStream, Span, Time};
use serde_json::{Value, json};
use socket2::SockRef;

use crate::consent::Consents;
use crate::marks::Marks;
use crate::readable::Readable;

/// Longest datagram taken. A packet of speech is shorter.
const LONGEST: usize = 2048;
/// Batches taken from a socket in one turn.
const MAX_BATCHES: usize = 4;
/// Codepoint of voice: expedited forwarding (RFC 4594).
const DSCP: u8 = 46;

/// Voice of calls to open.
#[derive(Clone, Debug)]
pub struct MediaSettings {
    /// Voice, as SIP phones of scenarios have it.
    pub voice: PhoneVoice,
    /// Port of the first line. Each line has two, of RTP and RTCP.
    pub first_port: u16,
    /// Bound of the error between this machine's clock and those of others. Default: other clocks are not believed.
    pub clock_error: Option<Span>,
}

/// Lines of a phone with their sockets.
pub(crate) struct Media {
    address: IpAddr,
    lines: Lines,
    consents: Consents,
    /// Calls that this side has ended, in this order. They keep their lines until others need them.
    leaving: VecDeque<CallId>,
    sockets: BTreeMap<u16, UdpSocket>,
    readable: Readable,
    inbox: Inbox,
    marks: Marks,
    /// Packets of speech by this machine's clock, by stated clocks, and by unknown ones.
    clocks: [u64; 3],
    refused: u64,
}

/// Reason why the lines of a phone were not opened.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// Value of the voice that is impossible.
    #[error("{0}")]
    Voice(#[from] InvalidConfig),
    /// Ports that do not exist.
    #[error("expected an even first port with room for {0} lines of two ports each")]
    Ports(u16),
    /// Port that cannot be had.
    #[error("port {0}: {1}")]
    Socket(u16, io::Error),
    /// Lack of a means to wait for the ports.
    #[error("the sockets of voice cannot be watched: {0}")]
    Watch(io::Error),
}

impl Media {
    /// Opens a socket of RTP and one of RTCP for each line. `now` is the time of the phone.
    pub(crate) fn open(
        plan: &MediaSettings,
        address: IpAddr,
        now: Time,
        random: RandomStream,
    ) -> Result<Media, MediaError> {
        plan.voice.ensure()?;
        let settings = plan.voice.settings()?;
        let lines = plan.voice.lines;
        let wrong = || MediaError::Ports(lines);
        let first = plan.first_port;
        let end = u32::from(first) + 2 * u32::from(lines);
        let before =
            first.checked_sub(1).filter(|_| first.is_multiple_of(2) && end <= 65_536).ok_or_else(wrong)?;
        // Lines have the ports after that of SIP.
        let made = Lines::new(plan.voice, SocketAddr::new(address, before), random).ok_or_else(wrong)?;
        let open = |port: u16| {
            let opened = open(SocketAddr::new(address, port));
            opened.map(|socket| (port, socket)).map_err(|error| MediaError::Socket(port, error))
        };
        let sockets: BTreeMap<u16, UdpSocket> =
            (u32::from(first)..end).map(|port| open(port as u16)).collect::<Result<_, _>>()?;
        let readable = Readable::of(&sockets).map_err(MediaError::Watch)?;
        #[expect(clippy::disallowed_methods, reason = "marks have the time of the day")]
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        Ok(Media {
            address,
            lines: made,
            consents: Consents::default(),
            leaving: VecDeque::new(),
            sockets,
            readable,
            inbox: Inbox::new(LONGEST),
            marks: Marks {
                settings,
                origin_ns: since.saturating_sub(now.as_nanos()),
                machine: machine(),
                clock_error: plan.clock_error,
            },
            clocks: [0; 3],
            refused: 0,
        })
    }

    /// Returns what a call offers or accepts, if a line is free.
    pub(crate) fn reserve(&mut self, now: Time) -> Option<(u16, Capabilities)> {
        let port = self.free(now)?;
        Some((port, self.lines.capabilities(port)))
    }

    /// Returns the port of a free line.
    ///
    /// Lines whose call this side has ended are free too: the peer need not answer the BYE.
    fn free(&mut self, now: Time) -> Option<u16> {
        if let Some(port) = self.lines.reserve() {
            return Some(port);
        }
        while let Some(call) = self.leaving.pop_front() {
            self.finish(now, call);
            if let Some(port) = self.lines.reserve() {
                return Some(port);
            }
        }
        None
    }

    /// Assigns a reserved line to a call, or frees it.
    pub(crate) fn assign(&mut self, call: Option<CallId>, port: u16) {
        match call {
            Some(call) => self.lines.take(call, port),
            None => self.lines.give_back(port),
        }
    }

    /// Returns `true` if a line was free for an incoming call. It is then reserved.
    pub(crate) fn take(&mut self, now: Time, call: CallId) -> bool {
        let Some(port) = self.free(now) else { return false };
        self.lines.take(call, port);
        true
    }

    /// Returns what a call that comes in accepts.
    pub(crate) fn accepted(&self, call: CallId) -> Option<Capabilities> {
        Some(self.lines.capabilities(self.lines.port(call)?))
    }

    /// Returns the number of lines.
    pub(crate) fn lines(&self) -> usize {
        self.sockets.len() / 2
    }

    /// Starts the voice of a call, which may have a caller.
    ///
    /// To a line of this phone it sends nothing: that would be its own caller. A caller's host has voice at once, and another
    /// one that the caller names once it sends voice itself.
    pub(crate) fn start(&mut self, now: Time, call: CallId, media: &Negotiated, caller: Option<IpAddr>) {
        let to = media.address.map(|address| SocketAddr::new(address, media.port));
        let (Some(to), Some(port)) = (to.filter(|to| !self.is_own(*to)), self.lines.port(call)) else {
            return;
        };
        self.lines.start(now, call, media);
        self.consents.start(now, (call, port), to, caller);
        // Then the kernel reports that the peer has no such port open. Without a route, sending fails too.
        let _ = self.sockets.get(&port).map(|socket| rustix::net::connect(socket, &to));
    }

    /// Returns the calls whose peers sent nothing for too long.
    pub(crate) fn lost(&mut self, now: Time) -> Vec<CallId> {
        self.consents.lost(now)
    }

    /// Returns `true` for the address of a line of this phone.
    fn is_own(&self, at: SocketAddr) -> bool {
        is_own(self.address, &self.sockets, at)
    }

    /// Ends what this side says.
    pub(crate) fn hush(&mut self, now: Time, call: CallId) {
        self.lines.hush(now, call);
        if self.lines.port(call).is_some() && !self.leaving.contains(&call) {
            self.leaving.push_back(call);
        }
    }

    /// Frees the line of a call that is over.
    pub(crate) fn finish(&mut self, now: Time, call: CallId) {
        let port = self.lines.port(call);
        self.lines.finish(now, call);
        self.leaving.retain(|other| *other != call);
        // The goodbye goes while the consent is known.
        self.send(now);
        let Some(port) = port else { return };
        self.consents.finish(port);
        let _ = self.sockets.get(&port).map(rustix::net::connect_unspec);
    }

    /// Returns the time of the next packet.
    pub(crate) fn deadline(&self) -> Time {
        self.lines.deadline()
    }

    /// Returns the descriptor to wait for.
    ///
    /// It can be read if one of the sockets can.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.readable.descriptor()
    }

    /// Sends what is due.
    pub(crate) fn send(&mut self, now: Time) {
        while let Some((port, to, mut bytes)) = self.lines.poll(now) {
            if !self.consents.allows(now, port) {
                continue;
            }
            if port.is_multiple_of(2) {
                self.marks.write(&mut bytes);
            }
            let Some(socket) = self.sockets.get(&port) else { continue };
            if let Err(error) = socket.send_to(&bytes, to) {
                self.refused += 1;
                note_refusal(&mut self.consents, port, &error);
            }
        }
    }

    /// Receives what waits at the sockets. Silent lines cost nothing.
    pub(crate) fn receive(&mut self, now: Time) {
        let Media { address, lines, consents, marks, sockets, readable, inbox, .. } = self;
        for port in readable.ports() {
            let Some(socket) = sockets.get(&port) else { continue };
            for _ in 0..MAX_BATCHES {
                let count = match inbox.receive(socket) {
                    Ok(count) => count,
                    Err(error) => {
                        note_refusal(consents, port, &error);
                        break;
                    }
                };
                for datagram in inbox.iter().filter(|datagram| !datagram.is_truncated) {
                    let Some(from) = datagram.from.filter(|from| !is_own(*address, sockets, *from)) else {
                        continue;
                    };
                    // The kernel's time of arrival: reading is later.
                    let arrived = datagram.arrived_ns.map(|at| marks.time(at));
                    let arrived = arrived.map_or(now, |at| at.min(now));
                    let mut bytes = datagram.bytes.to_vec();
                    let of = port.is_multiple_of(2).then(|| marks.read(&mut bytes, arrived));
                    if lines.receive(arrived, from, port, &bytes) {
                        consents.note(now, port);
                        of.flatten().into_iter().for_each(|of| self.clocks[of as usize] += 1);
                    }
                }
                if count < BATCH {
                    break;
                }
            }
        }
    }

    /// Returns the figures of all calls, as a simulation has them.
    ///
    /// Without a clock in common, delays and ratings are not known.
    pub(crate) fn figures(&self) -> Value {
        let mut found = Found::default();
        Lines::observe(Some(&self.lines), &mut found);
        let [own, stated, unknown] = self.clocks;
        let error = match (own, stated, unknown) {
            (_, _, 1..) | (0, 0, 0) => None,
            (_, 1.., 0) => self.marks.clock_error,
            (_, 0, 0) => Some(Span::ZERO),
        };
        let of = |name: &str| found.0.get(name).copied().filter(|value| value.is_finite());
        let known = |name: &str| of(name).filter(|_| error.is_some());
        json!({
            "sent": of("voice-sent").map(|sent| sent - self.consents.withheld as f64), "received": of("voice-received"), "loss": of("voice-loss"),
            "mouth-to-ear-ms": known("mouth-to-ear").map(|seconds| seconds * 1e3),
            "r": known("r"), "mos": known("mos"),
            "clock-error-ms": error.map(|error| error.as_secs_f64() * 1e3),
            "packets-of-unknown-clocks": unknown, "refused": self.refused,
            "withheld": self.consents.withheld, "calls-ended-without-consent": self.consents.ended,
        })
    }
}

/// Values of an observation by their names.
#[derive(Default)]
struct Found(BTreeMap<&'static str, f64>);

impl Observer for Found {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        self.0.insert(metric.metric.name, total as f64);
    }

    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        self.0.insert(metric.metric.name, value);
    }
}

/// Notes that the peer's host refuses packets of a line.
fn note_refusal(consents: &mut Consents, port: u16, error: &io::Error) {
    if error.kind() == io::ErrorKind::ConnectionRefused {
        consents.refuse(port);
    }
}

/// Returns `true` for one of the sockets of lines. Those at all addresses of the machine have that of loopback too.
fn is_own(address: IpAddr, sockets: &BTreeMap<u16, UdpSocket>, at: SocketAddr) -> bool {
    let is_here = at.ip() == address || (address.is_unspecified() && at.ip().is_loopback());
    is_here && sockets.contains_key(&at.port())
}

fn open(at: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(at)?;
    socket.set_nonblocking(true)?;
    stamp_arrivals(&socket)?;
    let (shared, traffic_class) = (SockRef::from(&socket), u32::from(DSCP) << 2);
    match at {
        SocketAddr::V4(_) => shared.set_tos_v4(traffic_class)?,
        SocketAddr::V6(_) => shared.set_tclass_v6(traffic_class)?,
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicBool, Ordering};

    use bentpipe_signalling::agent::Config;
    use bentpipe_signalling::sdp::Direction;
    use bentpipe_signalling::sip::Transport;
    use bentpipe_signalling::transaction::Peer;

    use super::*;
    use crate::{Answering, Dialling, Phone, answer, place};

    #[test]
    fn impossible_ports_are_refused() {
        let open = |first_port| {
            let plan = MediaSettings { voice: PhoneVoice::default(), first_port, clock_error: None };
            let random = RandomStream::new(1, "media");
            Media::open(&plan, Ipv4Addr::LOCALHOST.into(), Time::ZERO, random).map(|_| ())
        };
        for port in [0, 5001, 65_500] {
            let error = open(port).expect_err("refused").to_string();
            assert_eq!(error, "expected an even first port with room for 32 lines of two ports each");
        }
    }

    /// Caller without a phone: it sends requests as text, and has a socket for voice.
    struct Caller {
        signals: UdpSocket,
        voice: UdpSocket,
        to: SocketAddr,
    }

    impl Caller {
        fn new(host: IpAddr, to: SocketAddr) -> Caller {
            let socket = || UdpSocket::bind((host, 0)).expect("a socket");
            let caller = Caller { signals: socket(), voice: socket(), to };
            let patience = Some(std::time::Duration::from_secs(20));
            caller.signals.set_read_timeout(patience).expect("set");
            caller.voice.set_read_timeout(patience).expect("set");
            caller
        }

        /// Sends a request of a call, with a description of voice if it has one.
        fn send(&self, method: &str, call: &str, to_tag: &str, voice: Option<SocketAddr>) {
            let (from, to) = (self.signals.local_addr().expect("bound"), self.to);
            let body = voice.map_or(String::new(), |at| {
                format!(
                    "v=0\r\no=- 1 1 IN IP4 {0}\r\ns=-\r\nc=IN IP4 {0}\r\nt=0 0\r\nm=audio {1} RTP/AVP 8\r\n",
                    at.ip(),
                    at.port()
                )
            });
            let request = format!(
                "{method} sip:bob@{to} SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bK{call}{method}\r\nMax-Forwards: 70\r\n\
                 From: <sip:alice@{from}>;tag={call}\r\nTo: <sip:bob@{to}>{to_tag}\r\nCall-ID: {call}\r\nCSeq: 1 {method}\r\n\
                 Contact: <sip:alice@{from}>\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            self.signals.send_to(request.as_bytes(), to).expect("sent");
        }

        /// Waits for an answer of a call, and returns the tag in it.
        fn answered(&self, call: &str) -> String {
            let mut bytes = [0; 4000];
            loop {
                let count = self.signals.recv(&mut bytes).expect("an answer");
                let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
                if text.starts_with("SIP/2.0 200") && text.contains(&format!("Call-ID: {call}\r\n")) {
                    let line = text.lines().find(|line| line.starts_with("To:")).expect("a header");
                    return line[line.find(";tag=").expect("a tag")..].to_owned();
                }
            }
        }
    }

    impl Caller {
        /// Waits for a message by its beginning.
        fn receive(&self, beginning: &str) -> String {
            let mut bytes = [0; 4000];
            loop {
                let count = self.signals.recv(&mut bytes).expect("a message");
                let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
                if text.starts_with(beginning) {
                    return text;
                }
            }
        }
    }

    fn capabilities(address: IpAddr, codecs: Vec<bentpipe_signalling::sdp::Codec>) -> Capabilities {
        Capabilities { address, port: 4000, codecs, ptime: 20, direction: Direction::SendRecv }
    }

    /// Returns the way of a phone that takes each call at once.
    fn answering(capabilities: Capabilities) -> Answering {
        Answering {
            most: 100,
            refuse: None,
            ring: Span::ZERO,
            hold: None,
            calls: None,
            duration: None,
            capabilities,
        }
    }

    /// A forged address gets no voice, and a phone does not talk to itself.
    #[test]
    fn voice_is_sent_once_the_caller_is_proven_and_not_to_own_lines() {
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let host = IpAddr::from(Ipv4Addr::new(127, high | 1, low, 3));
        let at = SocketAddr::new(host, 25_060);
        let mut phone = Phone::open(Config::new("bob", at), 3).expect("sockets");
        let voice = PhoneVoice { lines: 2, ..PhoneVoice::default() };
        phone.open_media(&MediaSettings { voice, first_port: 26_000, clock_error: None }).expect("lines");
        let answering = answering(capabilities(host, vec![]));
        let (caller, stop) = (Caller::new(host, at), AtomicBool::new(false));
        let mut packet = [0; 2000];
        let figures = std::thread::scope(|scope| {
            let answering = scope.spawn(|| answer(&mut phone, &answering, &stop, |_| {}));
            caller.send("INVITE", "forged", "", caller.voice.local_addr().ok());
            // The answer is repeated after half a second, in which 25 packets would have come.
            let tag = caller.answered("forged");
            assert_eq!(caller.answered("forged"), tag);
            caller.voice.set_nonblocking(true).expect("set");
            assert!(caller.voice.recv(&mut packet).is_err(), "voice before the ACK");
            caller.voice.set_nonblocking(false).expect("set");
            caller.send("ACK", "forged", &tag, None);
            assert!(caller.voice.recv(&mut packet).is_ok(), "voice after the ACK");
            // The other line is the caller's own address, as it says.
            caller.send("INVITE", "mirror", "", Some(SocketAddr::new(host, 26_002)));
            let tag = caller.answered("mirror");
            caller.send("ACK", "mirror", &tag, None);
            (0..20).for_each(|_| drop(caller.voice.recv(&mut packet)));
            stop.store(true, Ordering::Relaxed);
            answering.join().expect("no panic").expect("no registration")
        });
        assert_eq!((figures.calls, figures.established), (2, 2));
        let voice = figures.voice.expect("figures");
        assert!(voice["received"] == 0.0 && voice["sent"].as_f64() > Some(0.0), "{voice}");
    }

    /// A caller that has proven its address names another host, which gets nothing. The call ends.
    #[test]
    fn a_third_party_gets_no_voice_and_the_call_ends() {
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let host = |last: u8| IpAddr::from(Ipv4Addr::new(127, high | 1, low, last));
        let at = SocketAddr::new(host(5), 25_060);
        let mut phone = Phone::open(Config::new("bob", at), 3).expect("sockets");
        let voice = PhoneVoice { lines: 2, ..PhoneVoice::default() };
        phone.open_media(&MediaSettings { voice, first_port: 26_000, clock_error: None }).expect("lines");
        let answering = answering(capabilities(host(5), vec![]));
        let (caller, stop) = (Caller::new(host(6), at), AtomicBool::new(false));
        let third = UdpSocket::bind((host(7), 0)).expect("a socket");
        third.set_nonblocking(true).expect("set");
        let figures = std::thread::scope(|scope| {
            let answering = scope.spawn(|| answer(&mut phone, &answering, &stop, |_| {}));
            caller.send("INVITE", "pointed", "", third.local_addr().ok());
            let tag = caller.answered("pointed");
            caller.send("ACK", "pointed", &tag, None);
            let mut bytes = [0; 4000];
            loop {
                let count = caller.signals.recv(&mut bytes).expect("the end of the call");
                if bytes[..count].starts_with(b"BYE") {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
            answering.join().expect("no panic").expect("no registration")
        });
        assert!(third.recv(&mut [0; 2000]).is_err(), "nothing, and no goodbye");
        let voice = figures.voice.expect("figures");
        assert!(voice["sent"] == 0.0 && voice["withheld"].as_u64() > Some(100), "{voice}");
        assert_eq!((figures.established, &voice["calls-ended-without-consent"]), (1, &json!(1)));
    }

    /// One host acknowledges its calls, says nothing and answers no BYE. Another has a line at once.
    #[test]
    fn a_host_never_takes_all_lines() {
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let host = |last: u8| IpAddr::from(Ipv4Addr::new(127, high | 1, low, last));
        let at = SocketAddr::new(host(8), 25_060);
        let mut phone = Phone::open(Config::new("bob", at), 3).expect("sockets");
        let voice = PhoneVoice { lines: 4, ..PhoneVoice::default() };
        phone.open_media(&MediaSettings { voice, first_port: 26_000, clock_error: None }).expect("lines");
        let answering = answering(capabilities(host(8), vec![]));
        let (greedy, modest) = (Caller::new(host(9), at), Caller::new(host(10), at));
        let stop = AtomicBool::new(false);
        let call = |caller: &Caller, name: &str| {
            caller.send("INVITE", name, "", caller.voice.local_addr().ok());
            let tag = caller.answered(name);
            caller.send("ACK", name, &tag, None);
        };
        let figures = std::thread::scope(|scope| {
            let answering = scope.spawn(|| answer(&mut phone, &answering, &stop, |_| {}));
            ["a", "b", "c", "d"].iter().for_each(|name| call(&greedy, name));
            ["e", "f"].iter().for_each(|name| call(&modest, name));
            // It has its share: more calls of it are busy, and end no other.
            modest.send("INVITE", "g", "", modest.voice.local_addr().ok());
            assert!(modest.receive("SIP/2.0 486").contains("Call-ID: g\r\n"));
            assert!(greedy.receive("BYE").contains("Call-ID: a\r\n"), "the oldest ends");
            stop.store(true, Ordering::Relaxed);
            answering.join().expect("no panic").expect("no registration")
        });
        assert_eq!((figures.established, figures.displaced, figures.peak), (6, 2, 4));
    }

    /// The peer answers no BYE of a call that this side ends.
    #[test]
    fn a_line_is_free_with_the_bye() {
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let host = |last: u8| IpAddr::from(Ipv4Addr::new(127, high | 1, low, last));
        let at = SocketAddr::new(host(11), 25_060);
        let mut phone = Phone::open(Config::new("bob", at), 3).expect("sockets");
        let voice = PhoneVoice { lines: 1, ..PhoneVoice::default() };
        phone.open_media(&MediaSettings { voice, first_port: 26_000, clock_error: None }).expect("lines");
        let answering =
            Answering { hold: Some(Span::from_millis(10)), ..answering(capabilities(host(11), vec![])) };
        let (caller, stop) = (Caller::new(host(12), at), AtomicBool::new(false));
        let figures = std::thread::scope(|scope| {
            let answering = scope.spawn(|| answer(&mut phone, &answering, &stop, |_| {}));
            for name in ["first", "second", "third"] {
                caller.send("INVITE", name, "", caller.voice.local_addr().ok());
                let tag = caller.answered(name);
                caller.send("ACK", name, &tag, None);
                while !caller.receive("BYE").contains(&format!("Call-ID: {name}\r\n")) {}
            }
            stop.store(true, Ordering::Relaxed);
            answering.join().expect("no panic").expect("no registration")
        });
        assert_eq!((figures.established, figures.failures()), (3, 0));
    }

    /// Both phones hear each other, on addresses of loopback that are of this process alone.
    #[test]
    fn a_call_has_voice_both_ways() {
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let phone = |host: u8, user: &str| {
            let at = SocketAddr::from((Ipv4Addr::new(127, high | 1, low, host), 25_060));
            let mut phone = Phone::open(Config::new(user, at), u64::from(host)).expect("sockets");
            let voice = PhoneVoice { lines: 1, ..PhoneVoice::default() };
            phone.open_media(&MediaSettings { voice, first_port: 26_000, clock_error: None }).expect("lines");
            (phone, at)
        };
        let ((mut caller, _), (mut callee, address)) = (phone(1, "alice"), phone(2, "bob"));
        let codecs = vec![bentpipe_signalling::sdp::Codec::new(8, "PCMA", 8000)];
        let capabilities = capabilities(address.ip(), codecs);
        let answering = answering(capabilities.clone());
        let dialling = Dialling {
            target: format!("sip:bob@{address}").parse().expect("a URI"),
            peer: Peer { transport: Transport::Udp, address },
            // The second finds the only line taken.
            calls: 2,
            interval: Span::from_millis(50),
            hold: Span::from_millis(300),
            ring_limit: Span::from_secs(60),
            capabilities,
            duration: None,
            random: None,
        };
        let (stop, never) = (AtomicBool::new(false), AtomicBool::new(false));
        let (placed, answered) = std::thread::scope(|scope| {
            let answering = scope.spawn(|| answer(&mut callee, &answering, &stop, |_| {}));
            let placed = place(&mut caller, &dialling, &never, |_| {});
            stop.store(true, Ordering::Relaxed);
            (placed, answering.join().expect("no panic").expect("no registration"))
        });
        assert_eq!((placed.established, placed.failed["no line is free"]), (1, 1));
        for voice in [placed.voice, answered.voice] {
            let voice = voice.expect("figures");
            let of = |key: &str| voice[key].as_f64().unwrap_or_else(|| panic!("{key} in {voice}"));
            assert!(of("received") >= 5.0 && of("clock-error-ms") == 0.0, "{voice}");
            // 20 ms of packing and 60 ms in the playout buffer from the arrival of the first packet on.
            assert!(of("mouth-to-ear-ms") >= 60.0 && of("r") > 0.0, "{voice}");
        }
    }
}
