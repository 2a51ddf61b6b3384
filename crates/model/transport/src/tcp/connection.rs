//! TCP connection: one end, the state machine of RFC 9293.
//!
//! It does no I/O: packets enter through [`Connection::receive`] and leave at its port. Opening is in
//! [`handshake`] and [`quick_start`], the processing after both SYNs in [`synchronised`], building segments
//! in [`output`]. It contains the sending and the receiving half.

mod handshake;
mod observe;
mod output;
mod quick_start;
mod synchronised;
mod too_big;

use std::net::SocketAddr;

use bentpipe_cc::RttEstimator;
use bentpipe_net::{Cx, Histogram, Packet, Port};
use bentpipe_units::{Span, Time};
use bentpipe_wire::tcp::SeqNumber;

use super::app::Schedule;
use super::config::Config;
use super::content::Content;
use super::receiver::Receiver;
use super::segment::Incoming;
use super::sender::{Agreed, Sender};
use super::template::Template;
use super::timers::{Timer, Timers};
use handshake::Handshake;
use quick_start::QuickStart;

/// RFC 9293 3.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the RFC's")]
pub enum State {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
}

impl State {
    /// Returns `true` if this end may send and retransmit data.
    fn is_sending(self) -> bool {
        matches!(
            self,
            State::Established | State::CloseWait | State::FinWait1 | State::Closing | State::LastAck
        )
    }

    /// Returns `true` if the application may write.
    fn is_writable(self) -> bool {
        matches!(self, State::Established | State::CloseWait)
    }
}

/// Reason for which a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No SYN was answered.
    #[error("the peer did not answer")]
    SynTimeout,
    /// The SYN was answered by a reset.
    #[error("the peer refused")]
    Refused,
    /// The peer reset the connection.
    #[error("the peer reset the connection")]
    Reset,
    /// Data was repeated, or a closed window probed, as often as allowed.
    #[error("the peer fell silent")]
    RetriesExhausted,
    /// The application gave up.
    #[error("aborted")]
    Aborted,
}

/// Totals of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) segments_sent: u64,
    pub(super) segments_received: u64,
    pub(super) data_segments_sent: u64,
    pub(super) data_segments_received: u64,
    pub(super) bytes_delivered: u64,
    pub(super) out_of_order: u64,
    pub(super) duplicates: u64,
    pub(super) syns: u64,
    pub(super) outdated: u64,
    pub(super) malformed: u64,
}

/// End of a TCP connection.
pub struct Connection {
    config: Config,
    port: Port,
    local: SocketAddr,
    remote: Option<SocketAddr>,
    state: State,
    failure: Option<Failure>,
    template: Option<Template>,
    /// Initial sequence numbers of this end and of the peer.
    iss: SeqNumber,
    irs: SeqNumber,
    handshake: Handshake,
    quick_start: QuickStart,
    agreed: Agreed,
    send_shift: u8,
    receive_shift: u8,
    clock: TimestampClock,
    timers: Timers,
    /// Set by a segment that is not accepted, until a timer or a write.
    is_refused: bool,
    /// Write times of the application, if it is paced.
    pub(super) schedule: Option<Schedule>,
    /// Bytes of the stream that this end sends, if they are other than zeros.
    pub(super) content: Content,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    pub(super) tally: Tally,
    /// Times from the writing of data to its first transmission, if the application is paced.
    waits: Histogram,
}

/// Ticks for timestamps; remembers the last, as one event needs it several times.
#[derive(Clone, Copy, Debug)]
struct TimestampClock {
    tick_ns: u64,
    at: Time,
    ticks: u32,
}

impl TimestampClock {
    fn new(tick: Span) -> TimestampClock {
        TimestampClock { tick_ns: tick.as_nanos().max(1), at: Time::ZERO, ticks: 0 }
    }

    #[inline]
    fn ticks(&mut self, now: Time) -> u32 {
        if self.at != now {
            (self.at, self.ticks) = (now, (now.as_nanos() / self.tick_ns) as u32);
        }
        self.ticks
    }

    /// Returns the time since the tick that the peer echoes, at least one tick.
    ///
    /// The clock cannot resolve less.
    #[inline]
    fn since(&mut self, echoed: u32, now: Time) -> Option<Span> {
        let ticks = self.ticks(now).wrapping_sub(echoed);
        (ticks as i32 >= 0).then(|| Span::from_nanos(self.tick_ns.saturating_mul(u64::from(ticks.max(1)))))
    }
}

impl Connection {
    /// Creates a closed connection from `local`, whose packets leave at `port`.
    pub fn new(config: Config, local: SocketAddr, port: Port) -> Connection {
        let agreed = Agreed { smss: 536, sack: false, timestamps: false, ecn: false };
        let rtt = RttEstimator::new(config.rto);
        Connection {
            port,
            local,
            remote: None,
            state: State::Closed,
            failure: None,
            template: None,
            iss: SeqNumber(0),
            irs: SeqNumber(0),
            handshake: Handshake::default(),
            quick_start: QuickStart::default(),
            agreed,
            send_shift: 0,
            receive_shift: 0,
            clock: TimestampClock::new(config.timestamp_granularity),
            timers: Timers::IDLE,
            is_refused: false,
            schedule: None,
            content: Content::default(),
            sender: Sender::new(&config, agreed, config.initial_window, rtt),
            receiver: Receiver::new(&config, 536, 0),
            tally: Tally::default(),
            waits: Histogram::default(),
            config,
        }
    }

    /// Returns the state of the connection.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the reason for a failure, if there was one.
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// Returns the peer, once it is known.
    pub fn remote(&self) -> Option<SocketAddr> {
        self.remote
    }

    /// Returns the time at which [`Connection::wake`] is to be called.
    #[inline]
    pub fn deadline(&self) -> Time {
        self.timers.earliest()
    }

    /// Returns `true` if a packet, which it accepts, is of its peer.
    ///
    /// That is a segment, or an error about one. Damaged ones are not. [`Connection::output`] must follow.
    #[inline]
    pub fn receive(&mut self, packet: &Packet, cx: &mut Cx<'_>) -> bool {
        match self.template.as_ref().and_then(|template| template.read(packet)) {
            Some(segment) => {
                self.dispatch(&segment, cx);
                true
            }
            None => self.receive_any(packet, cx),
        }
    }

    fn receive_any(&mut self, packet: &Packet, cx: &mut Cx<'_>) -> bool {
        let segment = Incoming::parse(packet, self.local);
        match segment.filter(|segment| self.remote.is_none_or(|remote| remote == segment.src)) {
            Some(segment) => self.dispatch(&segment, cx),
            None if too_big::is_icmp(packet) => {
                self.is_refused = false;
                self.receive_icmp(packet, cx);
            }
            None => {
                self.tally.malformed += 1;
                return false;
            }
        }
        true
    }

    #[inline]
    fn dispatch(&mut self, segment: &Incoming, cx: &mut Cx<'_>) {
        self.tally.segments_received += 1;
        self.is_refused = false;
        match self.state {
            State::Closed => self.refuse(segment, cx),
            State::Listen => self.on_listen(segment, cx),
            State::SynSent => self.on_syn_sent(segment, cx),
            _ => self.is_refused = !self.on_synchronised(segment, cx),
        }
    }

    /// Runs the timers that are due. Follow with [`Connection::output`].
    pub fn wake(&mut self, cx: &mut Cx<'_>) {
        self.is_refused = false;
        while let Some(timer) = self.timers.expire(cx.now()) {
            self.on_timer(timer, cx);
        }
    }

    fn on_timer(&mut self, timer: Timer, cx: &mut Cx<'_>) {
        match timer {
            Timer::Retransmit if matches!(self.state, State::SynSent | State::SynReceived) => {
                self.repeat_syn(cx);
            }
            Timer::Retransmit => {
                if self.sender.on_timeout(cx.now(), &mut self.timers).is_err() {
                    self.fail(Failure::RetriesExhausted);
                }
            }
            Timer::Persist => self.on_persist(cx),
            Timer::DelayedAck => self.receiver.ack_at_once(),
            // `output` continues sending.
            Timer::Pacing => {}
            Timer::TimeWait => self.state = State::Closed,
        }
    }

    fn on_persist(&mut self, cx: &mut Cx<'_>) {
        match self.sender.on_persist(cx.now(), &mut self.timers) {
            Ok(Some(probe)) => self.transmit(&probe, cx),
            Ok(None) => {}
            Err(_) => self.fail(Failure::RetriesExhausted),
        }
    }

    /// Returns the number of bytes the application may write now.
    #[inline]
    pub fn writable(&self) -> u64 {
        if self.state.is_writable() { self.sender.buffer_room() } else { 0 }
    }

    /// Returns the part of [`Connection::writable`] that keeps at most two segments behind the congestion window.
    pub(super) fn sendable(&self) -> u64 {
        self.writable().min(self.sender.sendable())
    }

    /// Writes `bytes` of the application, not more than [`Connection::writable`].
    #[inline]
    pub fn write(&mut self, bytes: u64) {
        self.is_refused &= bytes == 0;
        self.sender.write(bytes);
    }

    /// Removes the data that was written and not sent, and returns its length.
    pub(super) fn withdraw(&mut self) -> u64 {
        self.sender.withdraw()
    }

    /// Returns the number of bytes that wait to be read.
    #[inline]
    pub fn readable(&self) -> u64 {
        self.receiver.unread()
    }

    /// Reads `bytes` for the application, not more than [`Connection::readable`].
    #[inline]
    pub fn read(&mut self, bytes: u64) {
        self.receiver.take(bytes);
        if self.receiver.window_update_is_due() && self.state != State::TimeWait {
            self.receiver.ack_at_once();
        }
    }

    /// Returns the number of bytes to be read before a window update is worthwhile.
    pub fn window_unit(&self) -> u64 {
        self.receiver.window_unit()
    }

    /// Returns `true` if the peer has closed its side and all its data has arrived.
    pub fn is_read_out(&self) -> bool {
        self.receiver.is_finished() && self.receiver.unread() == 0
    }

    /// Closes the sending direction (RFC 9293 3.10.4).
    pub fn close(&mut self) {
        match self.state {
            State::Established => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            State::Listen | State::SynSent => return self.end(),
            _ => return,
        }
        self.sender.close();
    }

    /// Ends the connection with a reset (RFC 9293 3.10.5).
    pub fn abort(&mut self, cx: &mut Cx<'_>) {
        if !matches!(self.state, State::Closed | State::Listen | State::SynSent | State::TimeWait) {
            self.send_reset(cx);
        }
        self.fail(Failure::Aborted);
    }

    fn fail(&mut self, failure: Failure) {
        self.failure = self.failure.or(Some(failure));
        self.end();
    }

    fn end(&mut self) {
        self.state = State::Closed;
        self.timers = Timers::IDLE;
    }

    /// Returns the sequence number of a position in this end's stream.
    #[inline]
    fn wire_seq(&self, position: u64) -> SeqNumber {
        self.iss + position as u32
    }

    /// Returns the sequence number of a position in the peer's stream.
    #[inline]
    fn wire_ack(&self, position: u64) -> SeqNumber {
        self.irs + position as u32
    }

    /// Returns the position in this end's stream that a number means, nearest to SND.UNA.
    #[inline]
    fn own_position(&self, number: SeqNumber) -> Option<u64> {
        let una = self.sender.board.una();
        una.checked_add_signed(number.delta(self.wire_seq(una)).into())
    }

    /// Returns the position in the peer's stream that a number means, nearest to RCV.NXT.
    #[inline]
    pub(super) fn peer_position(&self, number: SeqNumber) -> Option<u64> {
        let next = self.receiver.next();
        next.checked_add_signed(number.delta(self.wire_ack(next)).into())
    }
}
