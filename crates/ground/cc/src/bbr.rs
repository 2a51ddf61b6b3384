//! BBR version 1: paces at the measured bottleneck rate, with two bandwidth-delay products in flight. Loss
//! does not change the rate. References: Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM
//! Queue 14(5), 2016; draft-cardwell-iccrg-bbr-congestion-control-00.
//!
//! Not modelled: Linux's allowance for ACK aggregation and its detection of policers. The first phase of ProbeBW, random
//! in Linux, comes from the time at which it begins, so that a run repeats.

use bentpipe_units::{Rate, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::delivery::{Delivery, Sample};
use crate::round::Rounds;
use crate::{Ack, Connection, Controller, Loss, Sent, State, Window};

/// Rounds over which the highest rate counts.
const RATE_ROUNDS: usize = 10;
/// ProbeBW's gains, each for about a lowest RTT.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Startup ends when the rate grew by less than this factor...
const FULL_GROWTH: f64 = 1.25;
/// Number of rounds without such growth after which the pipe counts as full.
const FULL_ROUNDS: u32 = 3;
/// The smallest window, and ProbeRTT's.
const MIN_SEGMENTS: f64 = 4.0;

/// Parameters of BBR.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Startup's gain, and the inverse of Drain's: 2/ln 2 doubles the rate in a round.
    #[schemars(range(min = 1, max = 100))]
    pub startup_gain: f64,
    /// The window in bandwidth-delay products.
    #[schemars(range(min = 1, max = 100))]
    pub window_gain: f64,
    /// Part of the estimated rate that is used (Linux: 0.99).
    #[schemars(range(min = 0.01, max = 1))]
    pub pacing_margin: f64,
    /// Age at which the lowest RTT is measured again.
    pub min_rtt_age: Span,
    /// ProbeRTT lasts at least so long, and a round.
    pub probe_rtt: Span,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            startup_gain: 2.0 / std::f64::consts::LN_2,
            window_gain: 2.0,
            pacing_margin: 0.99,
            min_rtt_age: Span::from_secs(10),
            probe_rtt: Span::from_millis(200),
        }
    }
}

impl Params {
    /// Returns a BBR controller. Constants outside their range are brought into it.
    pub fn build(&self, connection: &Connection) -> Bbr {
        let within = |value: f64, low: f64, high: f64| if value > low { value.min(high) } else { low };
        let params = Params {
            startup_gain: within(self.startup_gain, 1.0, 100.0),
            window_gain: within(self.window_gain, 1.0, 100.0),
            pacing_margin: within(self.pacing_margin, 0.01, 1.0),
            ..*self
        };
        Bbr::new(params, connection)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw {
        phase: usize,
        since: Time,
    },
    /// The window is small; `until` is set once the flight is.
    ProbeRtt {
        until: Option<Time>,
        round_over: bool,
    },
}

/// BBR.
#[derive(Clone, Debug)]
pub struct Bbr {
    params: Params,
    mode: Mode,
    window: Window,
    initial_window: f64,
    delivery: Delivery,
    rounds: Rounds,
    /// Start of the current round.
    round_at: Time,
    rate: HighestRate,
    min_rtt: Option<Span>,
    min_rtt_at: Time,
    full_rate: f64,
    full_rounds: u32,
    pipe_full: bool,
    /// Pacing rate in bytes per second; zero before there is an RTT.
    pacing: f64,
    /// The window before recovery or ProbeRTT.
    prior: f64,
    recovery: Recovery,
    /// Set while sending resumes after idling: a stale lowest RTT then does not start ProbeRTT.
    after_idle: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Recovery {
    Open,
    /// The first round of recovery: a segment leaves for each delivered.
    Conserve,
    Rest,
}

impl Bbr {
    fn new(params: Params, connection: &Connection) -> Bbr {
        let window = Window::new(connection);
        Bbr {
            params,
            mode: Mode::Startup,
            window,
            initial_window: window.cwnd(),
            delivery: Delivery::new(),
            rounds: Rounds::default(),
            round_at: Time::ZERO,
            rate: HighestRate::default(),
            min_rtt: None,
            min_rtt_at: Time::ZERO,
            full_rate: 0.0,
            full_rounds: 0,
            pipe_full: false,
            pacing: 0.0,
            prior: window.cwnd(),
            recovery: Recovery::Open,
            after_idle: false,
        }
    }

    fn pacing_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => self.params.startup_gain,
            Mode::Drain => 1.0 / self.params.startup_gain,
            Mode::ProbeBw { phase, .. } => CYCLE[phase],
            Mode::ProbeRtt { .. } => 1.0,
        }
    }

    /// Returns `gain` bandwidth-delay products in bytes, or the initial window while they are unknown.
    fn pipe(&self, gain: f64) -> f64 {
        match self.min_rtt {
            Some(rtt) if self.rate.highest > 0.0 => gain * self.rate.highest * rtt.as_secs_f64(),
            _ => self.initial_window,
        }
    }

    fn note_rate(&mut self, sample: Option<Sample>, begins: bool) {
        if begins {
            self.rate.next_round();
        }
        let Some(sample) = sample else { return };
        // The application's rate counts only where it shows that the path is faster than thought.
        if !sample.app_limited || sample.bytes_per_sec >= self.rate.highest {
            self.rate.take(sample.bytes_per_sec);
        }
        if begins && !sample.app_limited {
            self.check_full();
        }
    }

    /// Returns `true` if an ACK begins a round.
    ///
    /// In recovery the cumulative ACK stands still; there a round takes the smoothed RTT.
    fn begins_round(&mut self, ack: &Ack) -> bool {
        let is_later = ack.in_recovery && ack.srtt.is_some_and(|srtt| ack.now.since(self.round_at) >= srtt);
        let begins = self.rounds.on_ack(ack) || is_later;
        if begins {
            self.round_at = ack.now;
        }
        begins
    }

    /// Detects a full pipe: Startup no longer raises the rate.
    fn check_full(&mut self) {
        if self.pipe_full {
            return;
        }
        if self.rate.highest >= self.full_rate * FULL_GROWTH {
            (self.full_rate, self.full_rounds) = (self.rate.highest, 0);
            return;
        }
        self.full_rounds += 1;
        self.pipe_full = self.full_rounds >= FULL_ROUNDS;
    }

    /// Advances from Startup to Drain to ProbeBW and through its phases. `flight` is the data in the network before the ACK.
    fn advance(&mut self, now: Time, flight: f64) {
        if self.mode == Mode::Startup && self.pipe_full {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && self.is_drained(flight) {
            self.mode = Mode::ProbeBw { phase: first_phase(now), since: now };
        }
        if let Mode::ProbeBw { phase, since } = self.mode
            && self.phase_over(CYCLE[phase], now.since(since), flight)
        {
            self.mode = Mode::ProbeBw { phase: (phase + 1) % CYCLE.len(), since: now };
        }
    }

    fn phase_over(&self, gain: f64, elapsed: Span, flight: f64) -> bool {
        let round_trip = elapsed > self.min_rtt.unwrap_or(Span::ZERO);
        if gain > 1.0 {
            return round_trip && (self.recovery != Recovery::Open || flight >= self.pipe(gain));
        }
        round_trip || (gain < 1.0 && self.is_drained(flight))
    }

    /// Returns `true` if at most a bandwidth-delay product, or the smallest window, is in flight.
    fn is_drained(&self, flight: f64) -> bool {
        flight <= self.pipe(1.0).max(MIN_SEGMENTS * self.window.smss())
    }

    /// Updates the lowest RTT of the last ten seconds. Enters ProbeRTT when it is older.
    fn note_rtt(&mut self, ack: &Ack) {
        let stale = ack.now.since(self.min_rtt_at) > self.params.min_rtt_age && self.min_rtt.is_some();
        if let Some(rtt) = ack.rtt
            && (stale || self.min_rtt.is_none_or(|min| rtt <= min))
        {
            (self.min_rtt, self.min_rtt_at) = (Some(rtt), ack.now);
        }
        if stale && !self.after_idle && !matches!(self.mode, Mode::ProbeRtt { .. }) {
            self.prior = self.prior_window();
            self.mode = Mode::ProbeRtt { until: None, round_over: false };
        }
        if ack.delivered > 0 {
            self.after_idle = false;
        }
    }

    /// Returns the window to restore: not the small window of recovery or ProbeRTT itself.
    fn prior_window(&self) -> f64 {
        let reduced = self.recovery != Recovery::Open || matches!(self.mode, Mode::ProbeRtt { .. });
        if reduced { self.prior.max(self.window.cwnd()) } else { self.window.cwnd() }
    }

    fn probe_rtt(&mut self, ack: &Ack, begins: bool) {
        let Mode::ProbeRtt { until, round_over } = &mut self.mode else { return };
        self.delivery.limit(ack.pipe);
        match until {
            None if ack.pipe as f64 <= MIN_SEGMENTS * self.window.smss() => {
                *until = Some(ack.now + self.params.probe_rtt);
            }
            None => {}
            Some(until) => {
                *round_over |= begins;
                if *round_over && ack.now > *until {
                    self.leave_probe_rtt(ack.now);
                }
            }
        }
    }

    fn leave_probe_rtt(&mut self, now: Time) {
        self.min_rtt_at = now;
        self.window.set(self.window.cwnd().max(self.prior));
        self.mode = match self.pipe_full {
            true => Mode::ProbeBw { phase: first_phase(now), since: now },
            false => Mode::Startup,
        };
    }

    /// Sets the pacing rate, which only rises until the pipe is full.
    fn set_pacing(&mut self) {
        let rate = self.pacing_gain() * self.rate.highest * self.params.pacing_margin;
        if self.pipe_full || rate > self.pacing {
            self.pacing = rate;
        }
    }

    fn set_window(&mut self, ack: &Ack, begins: bool) {
        if self.recovery == Recovery::Conserve && begins {
            self.recovery = Recovery::Rest;
        }
        let delivered = ack.delivered as f64;
        if self.recovery == Recovery::Conserve {
            self.window.set(self.window.cwnd().max(ack.pipe as f64 + delivered));
            return;
        }
        let gain = if self.pipe_full { self.params.window_gain } else { self.params.startup_gain };
        let target = self.pipe(gain) + 3.0 * self.window.smss();
        let cwnd = self.window.cwnd();
        if self.pipe_full {
            self.window.set((cwnd + delivered).min(target));
        } else if cwnd < target || (self.delivery.delivered() as f64) < self.initial_window {
            self.window.grow(delivered);
        }
        self.bound_window();
    }

    fn bound_window(&mut self) {
        let smallest = MIN_SEGMENTS * self.window.smss();
        match self.mode {
            Mode::ProbeRtt { .. } => self.window.set(self.window.cwnd().min(smallest)),
            _ => self.window.set(self.window.cwnd().max(smallest)),
        }
    }
}

/// Returns the first phase: any but the one below 1, spread by the time.
fn first_phase(now: Time) -> usize {
    let phase = (now.as_nanos() / 1000 % 7) as usize;
    if phase == 0 { 0 } else { phase + 1 }
}

/// The highest sample of the last ten rounds.
#[derive(Clone, Copy, Debug, Default)]
struct HighestRate {
    by_round: [f64; RATE_ROUNDS],
    current: usize,
    highest: f64,
}

impl HighestRate {
    /// Updates the rate filter. A round without a valid sample (ProbeRTT, idle application) does not age the
    /// others out.
    fn next_round(&mut self) {
        if self.by_round[self.current] == 0.0 {
            return;
        }
        self.current = (self.current + 1) % RATE_ROUNDS;
        self.by_round[self.current] = 0.0;
        self.highest = self.by_round.iter().fold(0.0, |a, &b| a.max(b));
    }

    fn take(&mut self, bytes_per_sec: f64) {
        let round = &mut self.by_round[self.current];
        *round = round.max(bytes_per_sec);
        self.highest = self.highest.max(bytes_per_sec);
    }
}

impl Controller for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    /// Sets the first pacing rate: the initial window per round trip, times Startup's gain.
    fn on_established(&mut self, now: Time, rtt: Option<Span>) {
        let Some(rtt) = rtt.filter(|rtt| !rtt.is_zero()) else { return };
        (self.min_rtt, self.min_rtt_at) = (Some(rtt), now);
        self.pacing = self.params.startup_gain * self.initial_window / rtt.as_secs_f64();
    }

    fn on_sent(&mut self, sent: &Sent) {
        if sent.flight == 0 {
            self.after_idle = true;
            self.delivery.restart(sent.now);
        }
    }

    fn on_app_limited(&mut self, flight: u64) {
        self.delivery.limit(flight);
    }

    /// Returns `true`: packet conservation for a round, then the model's window.
    fn owns_recovery(&self) -> bool {
        true
    }

    fn on_ack(&mut self, ack: &Ack) {
        if self.recovery != Recovery::Open && !ack.in_recovery {
            self.on_recovered(ack);
        }
        let begins = self.begins_round(ack);
        let sample = self.delivery.on_ack(ack);
        self.note_rate(sample, begins);
        self.advance(ack.now, ack.pipe as f64 + ack.delivered as f64);
        self.note_rtt(ack);
        self.probe_rtt(ack, begins);
        self.set_pacing();
        self.set_window(ack, begins);
    }

    fn on_loss(&mut self, loss: &Loss) {
        self.prior = self.prior_window();
        self.recovery = Recovery::Conserve;
        self.window.set(loss.pipe as f64);
    }

    fn on_recovered(&mut self, _ack: &Ack) {
        self.recovery = Recovery::Open;
        self.window.set(self.window.cwnd().max(self.prior));
        self.bound_window();
    }

    fn on_timeout(&mut self, _loss: &Loss, first: bool) {
        if first {
            self.prior = self.prior_window();
        }
        self.recovery = Recovery::Rest;
        self.full_rate = 0.0;
        self.window.set(0.0);
    }

    fn on_spurious(&mut self) {
        self.recovery = Recovery::Open;
        self.window.set(self.window.cwnd().max(self.prior));
    }

    /// Keeps the window: pacing at the known rate needs no restart window.
    fn on_idle(&mut self, _restart_window: u64) {
        self.after_idle = true;
    }

    fn window(&self) -> u64 {
        self.window.cwnd_bytes()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let rate = Rate::from_bps((8.0 * self.pacing) as u64);
        (self.pacing > 0.0).then(|| rate.max(Rate::from_bps(1)))
    }

    fn state(&self) -> State {
        let bandwidth = (self.rate.highest > 0.0).then(|| Rate::from_bps((8.0 * self.rate.highest) as u64));
        State { cwnd: self.window.cwnd_bytes(), ssthresh: u64::MAX, bandwidth }
    }
}
