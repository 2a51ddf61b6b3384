//! CUBIC (RFC 8312): the window as a cubic function of time since the reduction.
//!
//! Three forms: RFC 8312's equations to the letter; RFC 9438's (K from the window at the epoch's start,
//! Reno-friendly window counted in acknowledged segments, target within 1.5 windows); Linux's (as the latter,
//! with its bounds of the growth). Not modelled: Linux's integer arithmetic and its recomputing at most once
//! a clock tick. Windows are in segments and times in seconds here, as in the RFC's equations.

use bentpipe_units::{Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::classic::params;
use crate::rho::Rho;
use crate::{Ack, Classic, Connection, Growth, Loss, Window, WindowLaw};

/// Specification of the window equations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// RFC 8312, `K = cbrt(Wmax (1 - beta) / C)`. The Reno-friendly window depends on time.
    #[default]
    Rfc8312,
    /// Linux: `K = cbrt((Wmax - cwnd) / C)`; target at most 1.5 windows. The Reno-friendly window counts
    /// segments, and grows as Reno's once it has passed the window before the reduction.
    Rfc9438,
    /// RFC 9438 with the target from the lowest RTT. At most one segment per two acknowledged, at least one
    /// per twenty before the first loss, and the Reno-friendly slope unchanged.
    Linux,
}

params! {
    /// Parameters of CUBIC.
    slow_start: Growth::Standard;
    /// Specification of the window equations.
    form: Form = Form::Rfc8312,
    /// C in segments per second cubed (RFC 8312 5.1).
    #[schemars(range(min = 1e-6, max = 1e6))]
    c: f64 = 0.4,
    /// Share of the window kept after a loss, between 0 and 1. RFC 8312 4.5: 0.7; early Linux: 0.8.
    #[schemars(range(min = 0.01, max = 0.99))]
    beta: f64 = 0.7,
    /// Give up more when the window did not reach its last maximum (RFC 8312 4.6).
    fast_convergence: bool = true,
    /// Never slower than New Reno (RFC 8312 4.2).
    reno_friendly: bool = true,
}

impl Params {
    /// Returns a CUBIC controller. Constants outside their range are brought into it.
    pub fn build(&self, connection: &Connection) -> Classic<Cubic> {
        let within = |value: f64, low: f64, high: f64| if value > low { value.min(high) } else { low };
        let params = Params { c: within(self.c, 1e-6, 1e6), beta: within(self.beta, 0.01, 0.99), ..*self };
        let alpha = 3.0 * (1.0 - params.beta) / (1.0 + params.beta);
        let law = Cubic { params, alpha, w_max: None, prior: 0.0, after_timeout: false, epoch: None };
        Classic::new(connection, self.frame(Rho::default()), law)
    }
}

/// CUBIC's law.
#[derive(Clone, Copy, Debug)]
pub struct Cubic {
    params: Params,
    /// Slope of the Reno-friendly window, segments in a round trip (RFC 8312 4.2).
    alpha: f64,
    /// The window before the last reduction, lowered by fast convergence.
    w_max: Option<f64>,
    /// The window before the last reduction.
    prior: f64,
    after_timeout: bool,
    epoch: Option<Epoch>,
}

/// Period from the first ACK of congestion avoidance to the next reduction.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    /// Time at which the window could last grow. Time that the sender did not use is not counted (RFC 8312
    /// 5.8).
    last: Time,
    origin: f64,
    k: f64,
    /// The Reno-friendly window as counted.
    w_est: f64,
}

/// An ACK in the equations' units.
struct Moment {
    t: f64,
    srtt: f64,
    min_rtt: f64,
    cwnd: f64,
    acked: f64,
}

/// Seconds by multiplication: a division costs as much as the rest of the equation.
fn secs(span: Span) -> f64 {
    span.as_nanos() as f64 * 1e-9
}

impl Epoch {
    /// Returns `W(t) = C (t - K)^3 + Wmax` (RFC 8312 eq. 1).
    fn cubic(&self, c: f64, t: f64) -> f64 {
        let from_k = t - self.k;
        c * from_k * from_k * from_k + self.origin
    }

    fn skip_to(&mut self, now: Time) {
        self.start += now.since(self.last);
        self.last = now;
    }
}

impl Cubic {
    /// Begins an epoch (RFC 8312 eq. 2). After a timeout, or without a loss yet, K is zero and the curve
    /// begins here (4.7, 4.8).
    fn begin_epoch(&self, now: Time, cwnd: f64) -> Epoch {
        let (origin, k) = match self.w_max.filter(|&w_max| w_max > cwnd && !self.after_timeout) {
            None => (cwnd, 0.0),
            Some(w_max) => (w_max, libm::cbrt(self.distance(w_max, cwnd) / self.params.c)),
        };
        Epoch { start: now, last: now, origin, k, w_est: cwnd }
    }

    fn distance(&self, w_max: f64, cwnd: f64) -> f64 {
        match self.params.form {
            Form::Rfc8312 => w_max * (1.0 - self.params.beta),
            Form::Rfc9438 | Form::Linux => w_max - cwnd,
        }
    }

    /// Returns the growth in segments per acknowledged segment: `(W(t + RTT) - cwnd) / cwnd`. RFC 8312 4.3,
    /// 4.4.
    fn step(&self, epoch: &Epoch, at: &Moment) -> f64 {
        let ahead = if self.params.form == Form::Linux { at.min_rtt } else { at.srtt };
        let step = (epoch.cubic(self.params.c, at.t + ahead) - at.cwnd) / at.cwnd;
        match self.params.form {
            Form::Rfc8312 => step.max(0.0),
            Form::Rfc9438 => step.clamp(0.0, 0.5),
            Form::Linux if self.w_max.is_none() => step.clamp(0.05, 0.5),
            Form::Linux => step.clamp(0.0, 0.5),
        }
    }

    /// Returns the window of New Reno, a lower bound (RFC 8312 4.2).
    fn friendly(&self, epoch: &mut Epoch, at: &Moment) -> f64 {
        if self.params.form == Form::Rfc8312 {
            return self.friendly_at(epoch, at);
        }
        let reached = self.params.form == Form::Rfc9438 && epoch.w_est >= self.prior;
        epoch.w_est += if reached { 1.0 } else { self.alpha } * at.acked / at.cwnd;
        epoch.w_est
    }

    /// Returns the Reno-friendly window where it exceeds W(t), or else zero. RFC 8312 eq. 4: `W_est(t) = Wmax
    /// beta + alpha t / RTT`.
    fn friendly_at(&self, epoch: &Epoch, at: &Moment) -> f64 {
        if at.srtt <= 0.0 {
            return 0.0;
        }
        let w_est = epoch.origin * self.params.beta + self.alpha * at.t / at.srtt;
        if epoch.cubic(self.params.c, at.t) < w_est { w_est } else { 0.0 }
    }

    /// Reduces the window (RFC 8312 4.5, 4.6).
    fn reduce(&mut self, window: &Window) -> f64 {
        let cwnd = window.segments();
        let released = self.params.fast_convergence && self.w_max.is_some_and(|w_max| cwnd < w_max);
        self.w_max = Some(if released { cwnd * (1.0 + self.params.beta) / 2.0 } else { cwnd });
        (self.prior, self.epoch) = (cwnd, None);
        window.cwnd() * self.params.beta
    }
}

impl WindowLaw for Cubic {
    const NAME: &'static str = "cubic";

    fn avoid(&mut self, ack: &Ack, credit: f64, window: &mut Window) {
        let cwnd = window.segments();
        let mut epoch = self.epoch.unwrap_or_else(|| self.begin_epoch(ack.now, cwnd));
        epoch.last = ack.now;
        let at = Moment {
            t: secs(ack.now.since(epoch.start)),
            srtt: ack.srtt.map_or(0.0, secs),
            min_rtt: ack.min_rtt.map_or(0.0, secs),
            cwnd,
            acked: credit / window.smss(),
        };
        window.grow(self.step(&epoch, &at) * credit);
        if self.params.reno_friendly {
            let w_est = self.friendly(&mut epoch, &at);
            window.set(window.cwnd().max(w_est * window.smss()));
        }
        self.epoch = Some(epoch);
    }

    fn not_limited(&mut self, ack: &Ack) {
        self.on_restart(ack.now);
    }

    fn ssthresh(&mut self, _loss: &Loss, window: &Window) -> f64 {
        self.after_timeout = false;
        self.reduce(window)
    }

    fn ssthresh_after_timeout(&mut self, _loss: &Loss, window: &Window) -> f64 {
        self.after_timeout = true;
        self.reduce(window)
    }

    fn on_restart(&mut self, now: Time) {
        if let Some(epoch) = &mut self.epoch {
            epoch.skip_to(now);
        }
    }

    fn restore(&mut self, before: &Cubic) {
        *self = *before;
    }
}
