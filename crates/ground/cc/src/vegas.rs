//! TCP Vegas: keeps a few segments queued, estimated from the RTT. Reference: Brakmo & Peterson, JSAC 13(8),
//! 1995.
//!
//! Linux's form: judged once in a round trip by the round's lowest RTT; slow start doubles every round (the
//! paper: every second one, a switch); a round with fewer than three samples grows as New Reno. The finer
//! retransmission timer of the paper is recovery and not modelled. The base RTT is forgotten when sending
//! resumes after idling.

use bentpipe_units::Span;

use crate::classic::{half_flight, params};
use crate::new_reno::NewReno;
use crate::rho::Rho;
use crate::round::Rounds;
use crate::{Ack, Classic, Connection, Growth, Loss, Window, WindowLaw};

/// A round with fewer samples is not judged.
const MIN_SAMPLES: u32 = 3;

params! {
    /// Parameters of Vegas.
    slow_start: Growth::Standard;
    /// Number of queued segments below which the window grows by one.
    #[schemars(range(min = 0, max = 1e6))]
    alpha: f64 = 2.0,
    /// Number of queued segments above which it shrinks by one.
    #[schemars(range(min = 0, max = 1e6))]
    beta: f64 = 4.0,
    /// Number of queued segments above which slow start ends.
    #[schemars(range(min = 0, max = 1e6))]
    gamma: f64 = 1.0,
    /// Enables growth in every second round of slow start only, with measurement between. Source: the paper.
    alternate_rounds: bool = false,
}

impl Params {
    /// Returns a Vegas controller.
    pub fn build(&self, connection: &Connection) -> Classic<Vegas> {
        let law = Vegas {
            params: *self,
            reno: NewReno::default(),
            rounds: Rounds::default(),
            base: None,
            round: Round::default(),
        };
        Classic::new(connection, self.frame(Rho::default()), law)
    }
}

/// Vegas' law.
#[derive(Clone, Copy, Debug)]
pub struct Vegas {
    params: Params,
    reno: NewReno,
    rounds: Rounds,
    /// The lowest RTT since sending began.
    base: Option<Span>,
    round: Round,
}

#[derive(Clone, Copy, Debug, Default)]
struct Round {
    min: Option<Span>,
    samples: u32,
    /// The round before had too few samples, so this one grows as New Reno.
    reno: bool,
    /// Slow start measures in this round and does not grow.
    held: bool,
}

fn lowest(before: Option<Span>, rtt: Span) -> Option<Span> {
    Some(before.map_or(rtt, |before| before.min(rtt)))
}

impl Vegas {
    fn begin_round(&mut self, ack: &Ack, window: &mut Window) {
        let ended = self.round;
        self.round = Round { reno: ended.samples < MIN_SAMPLES, ..Round::default() };
        if let (false, false, Some(min), Some(base)) =
            (self.round.reno, ack.in_recovery, ended.min, self.base)
        {
            self.judge(base.as_secs_f64(), min.as_secs_f64(), ack.cwnd_limited, window);
        }
        self.round.held = self.params.alternate_rounds && !ended.held;
    }

    /// Returns the queued segments, `diff = W (RTT - base) / base`. That is Linux's form; the paper divides
    /// by RTT.
    fn judge(&self, base: f64, rtt: f64, may_grow: bool, window: &mut Window) {
        let Params { alpha, beta, gamma, .. } = self.params;
        let (cwnd, smss) = (window.cwnd(), window.smss());
        let diff = window.segments() * (rtt - base) / base.max(1e-9);
        if window.in_slow_start() {
            if diff > gamma {
                shrink(window, cwnd.min(cwnd * base / rtt.max(1e-9) + smss));
            }
        } else if diff > beta {
            shrink(window, cwnd - smss);
        } else if diff < alpha && may_grow {
            window.grow(smss);
        }
    }
}

/// Reduces the window, to at least two segments, and ssthresh below it. So slow start does not restart.
fn shrink(window: &mut Window, bytes: f64) {
    window.set(bytes.max(2.0 * window.smss()));
    window.set_ssthresh(window.ssthresh().min(window.cwnd() - window.smss()));
}

impl WindowLaw for Vegas {
    const NAME: &'static str = "vegas";

    fn measure(&mut self, ack: &Ack, window: &mut Window) {
        if let Some(rtt) = ack.rtt {
            self.base = lowest(self.base, rtt);
            self.round.min = lowest(self.round.min, rtt);
            self.round.samples = self.round.samples.saturating_add(1);
        }
        if self.rounds.on_ack(ack) {
            self.begin_round(ack, window);
        }
    }

    fn holds_slow_start(&self) -> bool {
        self.round.held
    }

    fn avoid(&mut self, _ack: &Ack, credit: f64, window: &mut Window) {
        if self.round.reno {
            self.reno.count(credit, window);
        }
    }

    /// Returns half of the outstanding data, as New Reno does.
    fn ssthresh(&mut self, loss: &Loss, _window: &Window) -> f64 {
        self.round = Round::default();
        half_flight(loss)
    }

    fn on_idle(&mut self) {
        (self.base, self.round) = (None, Round::default());
    }
}
