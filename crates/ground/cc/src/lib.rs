//! Congestion controllers, and the estimators they and a transport need.
//!
//! A transport owns loss *recovery* (RFC 6582, RFC 6675, RFC 6298); a [`Controller`] owns slow start and the window
//! law. The transport reports events to it, and asks it for [`Controller::window`] and [`Controller::pacing_rate`].
//! SACK is not a window law. Nothing here knows packets, sockets or clocks: time is an argument.
//!
//! Windows are in bytes. A controller may keep fractions inside; it answers whole bytes.
//!
//! Three axes stay apart: how the window grows below ssthresh and what ends that ([`Growth`], [`Exit`]), the window law
//! above it ([`WindowLaw`], one module each), and recovery, which is the transport's. [`Classic`] puts the first two
//! together; [`ControllerConfig`] is what a scenario file says.
//!
//! ```
//! use bentpipe_cc::{ControllerConfig, Connection};
//!
//! let connection =
//!     Connection { smss: 1448, initial_window_segments: 10, initial_ssthresh: u64::MAX, max_window: 6_000_000 };
//! let choice: ControllerConfig = "cubic".parse()?;
//! let controller = choice.build(&connection);
//! assert_eq!(controller.window(), 14_480);
//! # Ok::<(), bentpipe_cc::UnknownName>(())
//! ```

use bentpipe_units::{Rate, Span, Time};

pub mod bbr;
mod choice;
mod classic;
pub mod cubic;
pub mod custom;
mod delivery;
pub mod fixed;
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

pub use choice::{ControllerConfig, NAMES, UnknownName};
pub use classic::{Classic, Counting, Pacing, WindowLaw};
pub use rtt::RttEstimator;
pub use slow_start::{Exit, Growth};
pub use window::Window;

/// Properties of the connection that a controller serves.
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
    /// Time of the event.
    pub now: Time,
    /// Bytes of data in it.
    pub bytes: u64,
    /// Bytes outstanding before it was sent; zero after an idle period.
    pub flight: u64,
}

/// An acknowledgement arrived that moved the cumulative acknowledgement or carried new SACK information.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// Time of the event.
    pub now: Time,
    /// Bytes newly acknowledged cumulatively; zero for a pure SACK or duplicate.
    pub acked: u64,
    /// Bytes newly known to have been delivered, cumulatively or selectively, each byte once.
    pub delivered: u64,
    /// Bytes still outstanding after it (RFC 5681 FlightSize).
    pub flight: u64,
    /// Outstanding bytes estimated to be in the network (RFC 6675 pipe).
    pub pipe: u64,
    /// The RTT sample this ACK gave, if it gave one (Karn, RFC 7323).
    pub rtt: Option<Span>,
    /// The smoothed RTT after the sample, once there is one.
    pub srtt: Option<Span>,
    /// The lowest RTT seen on the connection, once there is one.
    pub min_rtt: Option<Span>,
    /// Set if the sender filled the window before this ACK (RFC 7661: growth only then).
    pub cwnd_limited: bool,
    /// Set in fast recovery, and in loss recovery after a timeout below the recovery point.
    pub in_recovery: bool,
}

/// Loss was detected (three duplicates, SACK's IsLost, an ECN echo) or a retransmission timer fired.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// Time of the event.
    pub now: Time,
    /// Bytes outstanding at that moment, limited-transmit segments not counted (RFC 5681 eq. 4).
    pub flight: u64,
    /// Bytes estimated to be in the network at that moment (RFC 6675 pipe).
    pub pipe: u64,
    /// The lowest RTT seen on the connection, once there is one.
    pub min_rtt: Option<Span>,
}

/// State for the recorder, similar to `ss -ti`.
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
    /// Returns the name as scenario files write it ("cubic").
    fn name(&self) -> &'static str;

    /// Records that the connection is established, with any RTT sample of the handshake. Called before any
    /// data, at most once.
    fn on_established(&mut self, _now: Time, _rtt: Option<Span>) {}

    /// Records newly sent data. Most laws ignore it.
    fn on_sent(&mut self, _sent: &Sent) {}

    /// Records that the application has no more data although window and pacing allow some. `flight` bytes
    /// are outstanding; until they are delivered, measurements show the application's rate. Only laws that
    /// measure rates need it.
    fn on_app_limited(&mut self, _flight: u64) {}

    /// Handles an ACK with news and grows the window. Called in recovery too (`ack.in_recovery`): laws that
    /// measure continue to do so, none grows in fast recovery. The ACK that ends recovery is passed here
    /// first, then to [`Controller::on_recovered`].
    fn on_ack(&mut self, ack: &Ack);

    /// Returns `true` if the law decides by itself what may be sent in fast recovery. Proportional rate reduction
    /// (RFC 6937), which leads to ssthresh, does not bind it then, as in Linux (`cong_control`).
    fn owns_recovery(&self) -> bool {
        false
    }

    /// Begins fast recovery: sets ssthresh and reduces the window to it. Inflation (RFC 6582) is the
    /// transport's.
    fn on_loss(&mut self, loss: &Loss);

    /// Ends fast recovery with `ack`. The window is ssthresh unless the law specifies otherwise.
    fn on_recovered(&mut self, _ack: &Ack) {}

    /// Called when the retransmission timer fires. Sets ssthresh (RFC 5681 3.1: only at the `first` timeout
    /// of a loss) and reduces the window to the loss window of one segment.
    fn on_timeout(&mut self, loss: &Loss, first: bool);

    /// Called when the last `on_timeout` or `on_loss` was spurious (RFC 5682, RFC 3522). Restores the state
    /// before it.
    fn on_spurious(&mut self) {}

    /// Called after the connection was idle for `rto` or more. Falls back to the restart window (RFC 5681
    /// 4.1).
    fn on_idle(&mut self, restart_window: u64);

    /// Returns `true` if the law sets the window to `window` bytes for Quick-Start.
    ///
    /// At its end the window is set to the part that was used (RFC 4782, section 4.4). `false`, without
    /// effect: the law has no window that can be set.
    fn on_quick_start(&mut self, _window: u64) -> bool {
        false
    }

    /// Called when a reported loss concerns a Quick-Start packet (RFC 4782, section 4.6). The window is at
    /// most `window`, ssthresh at most `ssthresh` bytes.
    fn on_quick_start_loss(&mut self, _window: u64, _ssthresh: u64) {}

    /// Congestion window in bytes, at least one segment.
    fn window(&self) -> u64;

    /// Returns the rate to space segments at, if the law paces.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// Returns the state for recording.
    fn state(&self) -> State;
}
