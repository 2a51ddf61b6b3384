//! ACK-clocked laws: their common slow start, window law and rules of RFC 5681.

use bentpipe_units::{Bytes, Rate, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::slow_start::SlowStart;
use crate::{Ack, Connection, Controller, Loss, Sent, State, Window};

/// Growth credit of an ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Counting {
    /// Segment per ACK, however much it acknowledges (ns-2, Linux's Hybla): delayed ACKs halve the growth.
    Acks,
    /// Acknowledged bytes, in slow start at most one segment. RFC 5681 3.1; RFC 3465 with L = 1.
    #[default]
    Bytes,
    /// Acknowledged bytes, in slow start at most two segments. RFC 3465 with L = 2; one segment after a
    /// timeout.
    Abc,
    /// The bytes it acknowledges without a limit (Linux since 3.15).
    Segments,
}

/// Spacing of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pacing {
    /// Segments leave as ACKs arrive.
    #[default]
    Off,
    /// A window in each smoothed round trip: gap = srtt / W (Hybla's packet spacing).
    Window,
    /// Twice that in slow start, 1.2 times above (Linux's internal pacing).
    Linux,
}

/// A window law: congestion avoidance, and the answer to loss.
pub trait WindowLaw: Clone + Send {
    /// Name in scenario files.
    const NAME: &'static str;

    /// Records the RTT sample of the handshake.
    fn on_established(&mut self, _rtt: Span, _window: &mut Window) {}

    /// Sees every ACK, in recovery too, before the window grows.
    fn measure(&mut self, _ack: &Ack, _window: &mut Window) {}

    /// Grows a window at or above ssthresh. `credit` is the credit of the ACK in bytes, never zero.
    fn avoid(&mut self, ack: &Ack, credit: f64, window: &mut Window);

    /// Returns `true` if the window must not grow for now although it is below ssthresh.
    fn holds_slow_start(&self) -> bool {
        false
    }

    /// Handles an ACK after which the window may not grow.
    ///
    /// The window is above ssthresh, and the sender had not filled it.
    fn not_limited(&mut self, _ack: &Ack) {}

    /// Loss was detected: the new ssthresh in bytes.
    fn ssthresh(&mut self, loss: &Loss, window: &Window) -> f64;

    /// Handles the first timeout of a loss and returns the new ssthresh in bytes.
    fn ssthresh_after_timeout(&mut self, loss: &Loss, window: &Window) -> f64 {
        self.ssthresh(loss, window)
    }

    /// Handles the end of fast recovery; the window is ssthresh already.
    fn on_recovered(&mut self, _window: &mut Window) {}

    /// Handles new data sent with nothing in flight.
    fn on_restart(&mut self, _now: Time) {}

    /// Handles idleness longer than the retransmission timeout.
    fn on_idle(&mut self) {}

    /// Undoes a spurious reduction; `before` is the law as it was then.
    fn restore(&mut self, _before: &Self) {}

    /// Returns the law's estimate of the path's rate.
    fn bandwidth(&self) -> Option<Rate> {
        None
    }
}

/// The axes other than the law's own parameters.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) slow_start: SlowStart,
    pub(crate) counting: Counting,
    pub(crate) pacing: Pacing,
}

/// An ACK-clocked controller: slow start below ssthresh, the law `L` above it.
#[derive(Clone, Debug)]
pub struct Classic<L> {
    window: Window,
    frame: Frame,
    law: L,
    fast_recovery: bool,
    /// Set from a timeout until the window reaches ssthresh (RFC 3465 2.3).
    after_timeout: bool,
    srtt: Option<Span>,
    before: Option<Before<L>>,
}

/// State that [`Controller::on_spurious`] restores.
#[derive(Clone, Debug)]
struct Before<L> {
    window: Window,
    law: L,
}

impl<L: WindowLaw> Classic<L> {
    pub(crate) fn new(connection: &Connection, frame: Frame, law: L) -> Classic<L> {
        let window = Window::new(connection);
        Classic { window, frame, law, fast_recovery: false, after_timeout: false, srtt: None, before: None }
    }

    /// Returns the credit of `ack` in bytes.
    fn credit(&self, ack: &Ack) -> f64 {
        let (acked, smss) = (ack.acked as f64, self.window.smss());
        let slow_start = self.window.in_slow_start();
        match self.frame.counting {
            Counting::Acks => smss,
            Counting::Bytes if slow_start => acked.min(smss),
            Counting::Abc if slow_start && self.after_timeout => acked.min(smss),
            Counting::Abc if slow_start => acked.min(2.0 * smss),
            // A round trip yields one window's worth at most.
            _ => acked.min(self.window.cwnd()),
        }
    }

    fn remember(&mut self) {
        self.before = Some(Before { window: self.window, law: self.law.clone() });
    }

    fn grow(&mut self, ack: &Ack) {
        let credit = self.credit(ack);
        if self.window.in_slow_start() {
            if !self.law.holds_slow_start() {
                self.frame.slow_start.grow(ack, credit, &mut self.window);
            }
        } else {
            self.after_timeout = false;
            self.law.avoid(ack, credit, &mut self.window);
        }
    }
}

impl<L: WindowLaw> Controller for Classic<L> {
    fn name(&self) -> &'static str {
        L::NAME
    }

    fn on_established(&mut self, _now: Time, rtt: Option<Span>) {
        self.srtt = rtt;
        if let Some(rtt) = rtt {
            self.law.on_established(rtt, &mut self.window);
        }
    }

    fn on_sent(&mut self, sent: &Sent) {
        if sent.flight == 0 {
            self.law.on_restart(sent.now);
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.fast_recovery &= ack.in_recovery;
        self.srtt = ack.srtt.or(self.srtt);
        self.law.measure(ack, &mut self.window);
        if self.fast_recovery || ack.acked == 0 {
            return;
        }
        self.frame.slow_start.measure(ack, &mut self.window);
        if ack.cwnd_limited {
            self.grow(ack);
        } else {
            self.law.not_limited(ack);
        }
    }

    fn on_loss(&mut self, loss: &Loss) {
        self.remember();
        self.fast_recovery = true;
        let ssthresh = self.law.ssthresh(loss, &self.window);
        self.window.set_ssthresh(ssthresh);
        // Never up: a measuring law may find that the window was too small (Westwood+).
        self.window.set(self.window.cwnd().min(self.window.ssthresh()));
        self.frame.slow_start.on_congestion(loss.now);
    }

    fn on_recovered(&mut self, ack: &Ack) {
        // A recovery that was undone has ended already: the law ignores its observations.
        if !std::mem::take(&mut self.fast_recovery) {
            return;
        }
        self.law.on_recovered(&mut self.window);
        self.frame.slow_start.on_congestion(ack.now);
    }

    fn on_timeout(&mut self, loss: &Loss, first: bool) {
        if first {
            self.remember();
            let ssthresh = self.law.ssthresh_after_timeout(loss, &self.window);
            self.window.set_ssthresh(ssthresh);
        }
        (self.fast_recovery, self.after_timeout) = (false, true);
        self.window.set(0.0);
        self.frame.slow_start.on_congestion(loss.now);
    }

    fn on_spurious(&mut self) {
        let Some(before) = self.before.take() else { return };
        let grown = self.window.cwnd();
        self.window = before.window;
        self.window.set(grown.max(before.window.cwnd()));
        self.law.restore(&before.law);
        (self.fast_recovery, self.after_timeout) = (false, false);
    }

    fn on_idle(&mut self, restart_window: u64) {
        self.window.set(self.window.cwnd().min(restart_window as f64));
        self.law.on_idle();
    }

    fn on_quick_start(&mut self, window: u64) -> bool {
        self.frame.slow_start.limit();
        self.window.set(window as f64);
        true
    }

    fn on_quick_start_loss(&mut self, window: u64, ssthresh: u64) {
        self.window.set(self.window.cwnd().min(window as f64));
        self.window.set_ssthresh(self.window.ssthresh().min(ssthresh as f64));
    }

    fn window(&self) -> u64 {
        self.window.cwnd_bytes()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let gain = match self.frame.pacing {
            Pacing::Off => return None,
            Pacing::Window => 1.0,
            Pacing::Linux if self.window.in_slow_start() => 2.0,
            Pacing::Linux => 1.2,
        };
        let rate = Rate::of(Bytes::new(self.window.cwnd_bytes()), self.srtt?).mul_f64(gain);
        // A rate of zero would never send again.
        Some(rate.max(Rate::from_bps(1)))
    }

    fn state(&self) -> State {
        State {
            cwnd: self.window.cwnd_bytes(),
            ssthresh: self.window.ssthresh_bytes(),
            bandwidth: self.law.bandwidth(),
        }
    }
}

/// Returns half of the data in flight (RFC 5681 eq. 4). [`Window::set_ssthresh`] keeps it at two segments at
/// least.
pub(crate) fn half_flight(loss: &Loss) -> f64 {
    loss.flight as f64 / 2.0
}

/// Declares a law's `Params`: its fields with defaults, the common axes, the file form.
macro_rules! params {
    ($(#[$doc:meta])* slow_start: $growth:expr;
     $($(#[$field_doc:meta])* $field:ident: $type:ty = $default:expr,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub struct Params {
            $($(#[$field_doc])* pub $field: $type,)*
            /// Growth of the window below ssthresh.
            pub slow_start: crate::Growth,
            /// Condition that ends slow start before a loss.
            pub slow_start_exit: crate::Exit,
            /// Growth credit of an ACK.
            pub counting: crate::Counting,
            /// Spacing of segments.
            pub pacing: crate::Pacing,
        }

        impl Default for Params {
            fn default() -> Params {
                Params {
                    $($field: $default,)*
                    slow_start: $growth,
                    slow_start_exit: crate::Exit::default(),
                    counting: crate::Counting::default(),
                    pacing: crate::Pacing::default(),
                }
            }
        }

        impl Params {
            /// Returns the axes that every law has; `rho` serves Hybla's slow start.
            fn frame(&self, rho: crate::rho::Rho) -> crate::classic::Frame {
                crate::classic::Frame {
                    slow_start: crate::slow_start::SlowStart::new(self.slow_start, self.slow_start_exit, rho),
                    counting: self.counting,
                    pacing: self.pacing,
                }
            }
        }
    };
}
pub(crate) use params;
