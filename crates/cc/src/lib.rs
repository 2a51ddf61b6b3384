//! Congestion controllers, and the estimators they and a transport need.
//!
//! A transport owns loss *recovery* (RFC 6582, RFC 6675, RFC 6298); a [`Controller`] owns slow start and the window
//! law. The transport tells it facts, and asks it for [`Controller::window`] and [`Controller::pacing_rate`].
//! SACK is not a window law. Nothing here knows packets, sockets or clocks: time is an argument.
//!
//! Windows are in bytes. A controller may keep fractions inside; it answers whole bytes.
//!
//! Three axes stay apart: how the window grows below ssthresh and what ends that ([`Growth`], [`Exit`]), the window law
//! above it ([`WindowLaw`], one module each), and recovery, which is the transport's. [`Classic`] puts the first two
//! together; [`Choice`] is what a scenario file says.
//!
//! ```
//! use bentpipe_cc::{Choice, Connection};
//!
//! let connection =
//!     Connection { smss: 1448, initial_window_segments: 10, initial_ssthresh: u64::MAX, max_window: 6_000_000 };
//! let choice: Choice = "cubic".parse()?;
//! let controller = choice.build(&connection);
//! assert_eq!(controller.window(), 14_480);
//! # Ok::<(), bentpipe_cc::UnknownName>(())
//! ```

use bentpipe_units::{Rate, Span, Time};

pub mod bbr;
mod choice;
mod classic;
pub mod cubic;
mod delivery;
pub mod hybla;
pub mod new_reno;
mod rho;
mod round;
pub mod rtt;
mod slow_start;
pub mod tfrc;
pub mod vegas;
pub mod westwood;
mod window;

pub use choice::{Choice, NAMES, UnknownName};
pub use classic::{Classic, Counting, Pacing, WindowLaw};
pub use rtt::RttEstimator;
pub use slow_start::{Exit, Growth};
pub use window::Window;

/// What a controller is built for: one connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Connection {
    /// Sender's maximum segment size in bytes, options not counted (RFC 5681 `SMSS`).
    pub smss: u32,
    /// Initial window in segments (RFC 5681 3.1, RFC 3390, RFC 6928).
    pub initial_window_segments: u32,
    /// Slow start threshold at the start in bytes; `u64::MAX` as RFC 5681 advises.
    pub initial_ssthresh: u64,
    /// The window never exceeds this (socket buffer), in bytes.
    pub max_window: u64,
}

/// New data left the sender for the first time.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// When.
    pub now: Time,
    /// Bytes of data in it.
    pub bytes: u64,
    /// Bytes outstanding before it was sent; zero after an idle period.
    pub flight: u64,
}

/// An acknowledgement arrived that moved the cumulative acknowledgement or carried new SACK information.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When.
    pub now: Time,
    /// Bytes newly acknowledged cumulatively; zero for a pure SACK or duplicate.
    pub acked: u64,
    /// Bytes newly known to have been delivered, cumulatively or selectively, each byte once.
    pub delivered: u64,
    /// Bytes still outstanding after it (RFC 5681 FlightSize).
    pub flight: u64,
    /// The RTT sample this ACK gave, if it gave one (Karn, RFC 7323).
    pub rtt: Option<Span>,
    /// The smoothed RTT after the sample, once there is one.
    pub srtt: Option<Span>,
    /// The lowest RTT seen on the connection, once there is one.
    pub min_rtt: Option<Span>,
    /// Whether the sender filled the window before this ACK (RFC 7661: growth only then).
    pub cwnd_limited: bool,
    /// Whether the transport is in fast recovery or in loss recovery after a timeout below the recovery point.
    pub in_recovery: bool,
}

/// Loss was detected (three duplicates, SACK's IsLost, an ECN echo) or a retransmission timer fired.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// When.
    pub now: Time,
    /// Bytes outstanding at that moment, limited-transmit segments not counted (RFC 5681 eq. 4).
    pub flight: u64,
    /// The lowest RTT seen on the connection, once there is one.
    pub min_rtt: Option<Span>,
}

/// What the recorder and a `ss -ti` user want to see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Slow start threshold in bytes, `u64::MAX` before the first reduction.
    pub ssthresh: u64,
    /// The law's own estimate of the path's rate (Westwood+, BBR), if it has one.
    pub bandwidth: Option<Rate>,
}

/// Slow start and window law of one connection.
pub trait Controller: Send {
    /// The name as scenario files write it ("cubic").
    fn name(&self) -> &'static str;

    /// The connection is established; `rtt` is the handshake's sample if it gave one. Before any data, at most once.
    fn on_established(&mut self, _now: Time, _rtt: Option<Span>) {}

    /// New data was sent. Most laws need not know.
    fn on_sent(&mut self, _sent: &Sent) {}

    /// The application has no more data although window and pacing would let some go; `flight` bytes are outstanding.
    /// What is measured until they are delivered is the application's rate. Only laws that measure rates need it.
    fn on_app_limited(&mut self, _flight: u64) {}

    /// An ACK with news arrived; grows the window. Called in recovery too (`ack.in_recovery`): laws that measure go
    /// on measuring, none grows in fast recovery. The ACK that ends recovery comes here first, then to
    /// [`Controller::on_recovered`].
    fn on_ack(&mut self, ack: &Ack);

    /// Fast recovery begins: sets ssthresh and brings the window to it. Inflation (RFC 6582) is the transport's.
    fn on_loss(&mut self, loss: &Loss);

    /// Fast recovery ended with `ack`; the window is ssthresh unless the law says otherwise.
    fn on_recovered(&mut self, _ack: &Ack) {}

    /// The retransmission timer fired: sets ssthresh (RFC 5681 3.1: only the first time for one loss, told by
    /// `first`) and brings the window to the loss window of one segment.
    fn on_timeout(&mut self, loss: &Loss, first: bool);

    /// The last `on_timeout` or `on_loss` was found spurious (RFC 5682, RFC 3522): back to the state before it.
    fn on_spurious(&mut self) {}

    /// The connection was idle for `rto` or more (RFC 5681 4.1): back to the restart window.
    fn on_idle(&mut self, restart_window: u64);

    /// Quick-Start brings the window to `window` bytes, and its end to what was used of that (RFC 4782, section 4.4). False,
    /// and nothing done, if the law has no window that could be so set.
    fn on_quick_start(&mut self, _window: u64) -> bool {
        false
    }

    /// A loss that the controller was told of is of a Quick-Start packet (RFC 4782, section 4.6): the window is at most
    /// `window`, ssthresh at most `ssthresh` bytes.
    fn on_quick_start_loss(&mut self, _window: u64, _ssthresh: u64) {}

    /// Congestion window in bytes, at least one segment.
    fn window(&self) -> u64;

    /// The rate to space segments at, if the law paces.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// For recording.
    fn state(&self) -> State;
}
