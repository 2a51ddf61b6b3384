//! What happens to packets on the way: loss, bit errors, duplication, reordering, jitter.
//!
//! A channel stands behind a link and takes no time of its own but what jitter and reordering ask for. Each kind is an
//! element; several in a row make a channel with several faults. Losses and errors are drawn as distances, so a low rate
//! costs nothing per packet. Not modelled: fading in time (a packet's fate depends on its number or its bits, not on when
//! it comes), errors in the bits that the link's framing adds.

use std::any::Any;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::path::PathBuf;
use std::sync::Arc;

use bentpipe_units::{Span, Stream, Time};

use crate::config::{Impossible, probability};
use crate::{Cx, Element, Observer, Packet, Port, Unit};

mod frames;
mod stand_in;
mod trace;

pub(crate) use frames::FrameErrors;
pub use trace::{MAX_FRAMES, Trace, TraceError};

pub use crate::wifi::{Level, SignalConfig};

/// One kind of fault.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)
)]
pub enum Config {
    /// Each packet is lost with the same probability (Bernoulli).
    PacketErrors {
        /// The probability, 0 to 1. No default.
        loss: f64,
    },
    /// Each bit of an IP packet is flipped with the same probability.
    BitErrors {
        /// The bit error rate, 0 to 1. No default.
        ber: f64,
        /// Whether the link layer sees damage with its CRC and drops the packet; otherwise the receiver's checksums
        /// have to. Default: false.
        #[cfg_attr(feature = "serde", serde(default))]
        crc: bool,
    },
    /// Bits are flipped in bursts: two states that change from bit to bit of the packets that pass, each with its own
    /// probability. Starts in the stationary state.
    BitBursts {
        /// The probability of going from good to bad after a bit, 0 to 1. No default.
        p: f64,
        /// The probability of going from bad to good after a bit, 0 to 1: a burst is 1 / r bits long in the mean. No
        /// default.
        r: f64,
        /// The bit error rate in the good state. Default: 0.
        #[cfg_attr(feature = "serde", serde(default))]
        ber_good: f64,
        /// The bit error rate in the bad state. Default: 0.5.
        #[cfg_attr(feature = "serde", serde(default = "half"))]
        ber_bad: f64,
    },
    /// Two states that change from packet to packet (Gilbert 1960, Elliott 1963). Starts in the stationary state.
    GilbertElliott {
        /// The probability of going from good to bad after a packet, 0 to 1. No default.
        p: f64,
        /// The probability of going from bad to good after a packet, 0 to 1. No default.
        r: f64,
        /// The probability of loss in the good state. Default: 0.
        #[cfg_attr(feature = "serde", serde(default))]
        loss_good: f64,
        /// The probability of loss in the bad state. Default: 1.
        #[cfg_attr(feature = "serde", serde(default = "certain"))]
        loss_bad: f64,
    },
    /// Losses as in a trace that was measured, made, or made by a model fitted to another.
    Trace(TraceConfig),
    /// A received power that wanders between levels, and with it the errors of each rate. Only on a Wi-Fi link.
    Signal(SignalConfig),
    /// Packets that come twice.
    Duplication {
        /// The probability, 0 to 1. No default.
        probability: f64,
    },
    /// Packets that are held back, so that others pass them.
    Reordering {
        /// The probability, 0 to 1. No default.
        probability: f64,
        /// How long such a packet is held. No default.
        delay: Span,
    },
    /// A random delay of each packet.
    Jitter {
        /// How the delay is distributed. No default.
        law: JitterLaw,
        /// Whether packets wait for those before them instead of passing them. Default: true.
        #[cfg_attr(feature = "serde", serde(default = "yes"))]
        keep_order: bool,
    },
}

/// Where a trace of losses comes from, and what is made of it.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct TraceConfig {
    /// A file as `bentpipe channel generate` writes it; a relative path starts at the scenario file's folder. One of
    /// `file` and `stand_in`.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub file: Option<PathBuf>,
    /// Makes a trace in the place of one that was measured.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub stand_in: Option<StandIn>,
    /// Whether the trace itself is used, or another one as long, made by a model that is fitted to it.
    pub fit: Fit,
    /// How long each frame of the trace holds by the clock. Without it the trace goes on by one with each packet, on a
    /// Wi-Fi link with each transmission of a frame.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub step: Option<Span>,
    /// The trace, once it was read or made.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub loaded: Option<Arc<Trace>>,
}

/// What is made of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Fit {
    /// The trace itself.
    #[default]
    Itself,
    /// Independent losses at the trace's rate of loss.
    Bernoulli,
    /// Independent losses with the trace's mean length of runs of lost frames.
    BernoulliByBursts,
    /// Independent losses with the trace's mean length of runs of received frames.
    BernoulliByGaps,
    /// Two states, everything lost in one and nothing in the other, with the trace's mean lengths of runs.
    Bistable,
    /// Two states, nothing lost in one and a share in the other, by the trace's probabilities of up to three frames
    /// (Gilbert 1960).
    Gilbert,
    /// Two states with a rate of loss each, by maximum likelihood.
    GilbertElliott,
}

/// A made trace in the place of measured ones: a semi-Markov process. Quality, in dB above that at which half of the frames
/// are lost, is drawn from a normal distribution and holds for a Pareto-distributed number of frames; meanwhile
/// frames are lost independently, with probability 1 / (1 + exp(quality)). Runs of lost and of received frames are both
/// longer than those of independent losses.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct StandIn {
    /// The rate of loss over all time; sets the mean of the quality.
    #[cfg_attr(feature = "serde", schemars(range(min = 0.0001, max = 0.95)))]
    pub loss: f64,
    /// Standard deviation of the quality, in dB.
    #[cfg_attr(feature = "serde", schemars(range(min = 0, max = 20)))]
    pub deviation_db: f64,
    /// The mean number of frames that a quality holds for.
    #[cfg_attr(feature = "serde", schemars(range(min = 1, max = 1e6)))]
    pub hold: f64,
    /// The exponent of the Pareto law: below 2 the variance is infinite.
    #[cfg_attr(feature = "serde", schemars(range(min = 1.05, max = 20)))]
    pub shape: f64,
    /// How many frames.
    #[cfg_attr(feature = "serde", schemars(range(min = 1, max = 10000000)))]
    pub frames: u64,
    /// What its random numbers are seeded from, whatever the run's seed: a trace is measured once.
    pub seed: u64,
}

impl Default for StandIn {
    fn default() -> StandIn {
        StandIn { loss: 0.1, deviation_db: 3.0, hold: 600.0, shape: 1.5, frames: 1_000_000, seed: 1 }
    }
}

#[cfg(feature = "serde")]
fn certain() -> f64 {
    1.0
}

#[cfg(feature = "serde")]
fn half() -> f64 {
    0.5
}

#[cfg(feature = "serde")]
fn yes() -> bool {
    true
}

/// A distribution of delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)
)]
pub enum JitterLaw {
    /// Uniform.
    Uniform {
        /// The shortest. Default: "0 s".
        #[cfg_attr(feature = "serde", serde(default))]
        min: Span,
        /// The longest. No default.
        max: Span,
    },
    /// Exponential.
    Exponential {
        /// The mean. No default.
        mean: Span,
    },
    /// Normal, cut off at zero.
    Normal {
        /// The mean before cutting. No default.
        mean: Span,
        /// The standard deviation before cutting. No default.
        deviation: Span,
    },
}

impl JitterLaw {
    pub(crate) fn draw(self, stream: &mut Stream) -> Span {
        match self {
            JitterLaw::Uniform { min, max } => min + (max - min).mul_f64(stream.unit()),
            JitterLaw::Exponential { mean } => mean.mul_f64(-libm::log(1.0 - stream.unit())),
            JitterLaw::Normal { mean, deviation } => {
                let seconds = mean.as_secs_f64() + deviation.as_secs_f64() * normal(stream);
                Span::from_secs_f64(seconds)
            }
        }
    }

    fn shortest(self) -> Span {
        match self {
            JitterLaw::Uniform { min, .. } => min,
            JitterLaw::Exponential { .. } | JitterLaw::Normal { .. } => Span::ZERO,
        }
    }
}

/// Standard normal (Box and Muller 1958).
fn normal(stream: &mut Stream) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(1.0 - stream.unit()));
    radius * libm::cos(std::f64::consts::TAU * stream.unit())
}

/// A fault on the way: input 0 to output 0.
#[derive(Debug)]
pub struct Channel {
    fault: Fault,
    held: Held,
    delivered: u64,
    lost: u64,
    damaged: u64,
    duplicated: u64,
}

#[derive(Debug)]
enum Fault {
    Loss(Trials),
    Bits { errors: Trials, crc: bool },
    BitBursts(GilbertElliott),
    Bursts(GilbertElliott),
    Trace(trace::Reader),
    Duplication(Trials),
    Reordering { trials: Trials, delay: Span },
    Jitter { law: JitterLaw, keep_order: bool },
}

impl Fault {
    fn new(config: &Config) -> Result<Fault, Impossible> {
        let trials = |value, key| probability(value, key).map(Trials::new);
        Ok(match *config {
            Config::PacketErrors { loss } => Fault::Loss(trials(loss, "loss")?),
            Config::BitErrors { ber, crc } => Fault::Bits { errors: trials(ber, "ber")?, crc },
            Config::BitBursts { p, r, ber_good, ber_bad } => {
                let chain = GilbertElliott::new([p, r], [ber_good, ber_bad]);
                Fault::BitBursts(chain.map_err(|error| match error.key {
                    "loss_good" => Impossible { key: "ber_good", ..error },
                    "loss_bad" => Impossible { key: "ber_bad", ..error },
                    _ => error,
                })?)
            }
            Config::GilbertElliott { p, r, loss_good, loss_bad } => {
                Fault::Bursts(GilbertElliott::new([p, r], [loss_good, loss_bad])?)
            }
            Config::Trace(ref config) => Fault::Trace(config.reader()?),
            Config::Signal(_) => {
                let expected = "a Wi-Fi link: elsewhere there are no rates that it could act on";
                return Err(Impossible { key: "kind", expected });
            }
            Config::Duplication { probability } => Fault::Duplication(trials(probability, "probability")?),
            Config::Reordering { probability, delay } => {
                Fault::Reordering { trials: trials(probability, "probability")?, delay }
            }
            Config::Jitter { law, keep_order } => {
                let in_order = !matches!(law, JitterLaw::Uniform { min, max } if max < min);
                Impossible::unless(in_order, "max", "at least min")?;
                Fault::Jitter { law, keep_order }
            }
        })
    }
}

impl TraceConfig {
    /// The trace from a frame drawn at random on.
    fn reader(&self) -> Result<trace::Reader, Impossible> {
        Impossible::unless(self.step.is_none_or(|step| !step.is_zero()), "step", "more than no time")?;
        let missing = Impossible { key: "file", expected: "a trace: one of `file` and `stand_in`" };
        let trace = self.loaded.clone().ok_or(missing)?;
        Ok(trace::Reader::new(trace, self.step))
    }
}

impl Channel {
    /// A channel with this fault.
    ///
    /// # Errors
    /// The key whose value is impossible.
    pub fn new(config: &Config) -> Result<Channel, Impossible> {
        let fault = Fault::new(config)?;
        Ok(Channel { fault, held: Held::default(), delivered: 0, lost: 0, damaged: 0, duplicated: 0 })
    }

    /// Changes the fault from the next packet on. What is held back comes when it would have come, and the counters
    /// go on.
    ///
    /// # Errors
    /// The key whose value is impossible; then nothing is changed.
    pub fn set(&mut self, config: &Config) -> Result<(), Impossible> {
        self.fault = Fault::new(config)?;
        Ok(())
    }

    #[inline]
    fn deliver(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        self.delivered += 1;
        cx.emit(Port(0), packet);
    }

    fn pass_or_lose(&mut self, is_lost: bool, packet: Packet, cx: &mut Cx<'_>) {
        if is_lost {
            self.lost += 1;
        } else {
            self.deliver(packet, cx);
        }
    }

    /// Lets go of all that is due.
    fn release(&mut self, cx: &mut Cx<'_>) -> Time {
        while let Some(packet) = self.held.pop_due(cx.now()) {
            self.deliver(packet, cx);
        }
        self.held.next()
    }
}

impl Element for Channel {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let mut packet = packet;
        match &mut self.fault {
            Fault::Loss(trials) => {
                let is_lost = trials.hits(cx.stream());
                self.pass_or_lose(is_lost, packet, cx);
            }
            Fault::Bursts(chain) => {
                let is_lost = chain.loses(cx.stream());
                self.pass_or_lose(is_lost, packet, cx);
            }
            Fault::Trace(reader) => {
                let is_lost = reader.loses(cx.now(), cx.stream());
                self.pass_or_lose(is_lost, packet, cx);
            }
            Fault::Bits { errors, crc } => {
                let (is_damaged, crc) = (damage(&mut packet, errors, cx.stream()), *crc);
                self.damaged += u64::from(is_damaged);
                self.pass_or_lose(is_damaged && crc, packet, cx);
            }
            Fault::BitBursts(chain) => {
                self.damaged += u64::from(chain.flips(&mut packet, cx.stream()));
                self.deliver(packet, cx);
            }
            Fault::Duplication(trials) => {
                if trials.hits(cx.stream()) {
                    self.duplicated += 1;
                    self.deliver(packet.clone(), cx);
                }
                self.deliver(packet, cx);
            }
            Fault::Reordering { trials, delay } => {
                let held_for = if trials.hits(cx.stream()) { *delay } else { Span::ZERO };
                self.held.push(packet, cx.now() + held_for, false);
            }
            Fault::Jitter { law, keep_order } => {
                let due = cx.now() + law.draw(cx.stream());
                self.held.push(packet, due, *keep_order);
            }
        }
        self.release(cx)
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        self.release(cx)
    }

    fn lookahead(&self) -> Span {
        match self.fault {
            Fault::Jitter { law, .. } => law.shortest(),
            _ => Span::ZERO,
        }
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        observer.counter("delivered", Unit::Packets, self.delivered);
        observer.counter("lost", Unit::Packets, self.lost);
        observer.counter("damaged", Unit::Packets, self.damaged);
        observer.counter("duplicated", Unit::Packets, self.duplicated);
        observer.gauge("held", Unit::Packets, self.held.packets.len() as f64);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Flips bits of a packet at the error rate; whether it flipped any.
fn damage(packet: &mut Packet, errors: &mut Trials, stream: &mut Stream) -> bool {
    let bits = packet.len() as u64 * 8;
    let mut from = 0;
    while let Some(at) = errors.next_hit(bits - from, stream) {
        packet.flip_bit(from + at);
        from += at + 1;
    }
    from > 0
}

/// Independent trials of one probability, drawn as the distance to the next hit.
#[derive(Debug)]
pub(crate) struct Trials {
    probability: f64,
    /// How many misses are still to come before the next hit; none before the first draw.
    misses: Option<u64>,
}

impl Trials {
    pub(crate) fn new(probability: f64) -> Trials {
        Trials { probability, misses: None }
    }

    /// Makes one trial.
    #[inline]
    pub(crate) fn hits(&mut self, stream: &mut Stream) -> bool {
        self.next_hit(1, stream).is_some()
    }

    /// Makes trials up to the next hit, but at most `trials`: how many misses came before the hit.
    #[inline]
    pub(crate) fn next_hit(&mut self, trials: u64, stream: &mut Stream) -> Option<u64> {
        let p = self.probability;
        let misses = *self.misses.get_or_insert_with(|| stream.failures_before_success(p));
        if misses < trials {
            self.misses = None;
            return Some(misses);
        }
        // A distance without end stays without end.
        self.misses = Some(if misses == u64::MAX { misses } else { misses - trials });
        None
    }
}

/// The chain of good and bad.
#[derive(Debug)]
pub(crate) struct GilbertElliott {
    /// Loss in the good and in the bad state. Trials have no memory, so they go on where they were when it comes back.
    loss: [Trials; 2],
    /// Leaving the good and the bad state.
    leave: [Trials; 2],
    /// None before the first packet.
    is_bad: Option<bool>,
}

impl GilbertElliott {
    pub(crate) fn new([p, r]: [f64; 2], [good, bad]: [f64; 2]) -> Result<GilbertElliott, Impossible> {
        let trials = |value, key| probability(value, key).map(Trials::new);
        Ok(GilbertElliott {
            loss: [trials(good, "loss_good")?, trials(bad, "loss_bad")?],
            leave: [trials(p, "p")?, trials(r, "r")?],
            is_bad: None,
        })
    }

    #[inline]
    pub(crate) fn loses(&mut self, stream: &mut Stream) -> bool {
        let is_bad = self.is_bad.unwrap_or_else(|| self.stationary(stream));
        let state = usize::from(is_bad);
        let is_lost = self.loss[state].hits(stream);
        self.is_bad = Some(is_bad != self.leave[state].hits(stream));
        is_lost
    }

    /// Flips bits of a packet, the state changing from bit to bit; whether there was any. Work is for changes and flips, not
    /// for bits.
    fn flips(&mut self, packet: &mut Packet, stream: &mut Stream) -> bool {
        let (bits, mut from, mut any) = (packet.len() as u64 * 8, 0, false);
        let mut is_bad = self.is_bad.unwrap_or_else(|| self.stationary(stream));
        while from < bits {
            let state = usize::from(is_bad);
            let stays = self.leave[state].next_hit(bits - from, stream);
            let end = stays.map_or(bits, |stays| from + stays + 1);
            while let Some(at) = self.loss[state].next_hit(end - from, stream) {
                packet.flip_bit(from + at);
                from += at + 1;
                any = true;
            }
            from = end;
            is_bad ^= stays.is_some();
        }
        self.is_bad = Some(is_bad);
        any
    }

    /// A state drawn from the stationary distribution: bad with probability p / (p + r). A chain that never changes is
    /// good.
    fn stationary(&self, stream: &mut Stream) -> bool {
        let [p, r] = [self.leave[0].probability, self.leave[1].probability];
        p > 0.0 && stream.chance(p / (p + r))
    }
}

/// Packets held back, each until its time; of the same time the first comes first.
#[derive(Debug, Default)]
struct Held {
    packets: BinaryHeap<Waiting>,
    number: u64,
    last_due: Time,
}

#[derive(Debug)]
struct Waiting {
    due: Time,
    number: u64,
    packet: Packet,
}

impl Held {
    fn push(&mut self, packet: Packet, due: Time, keep_order: bool) {
        let due = if keep_order { due.max(self.last_due) } else { due };
        self.last_due = due;
        self.number += 1;
        self.packets.push(Waiting { due, number: self.number, packet });
    }

    fn next(&self) -> Time {
        self.packets.peek().map_or(Time::NEVER, |waiting| waiting.due)
    }

    fn pop_due(&mut self, now: Time) -> Option<Packet> {
        if self.next() > now { None } else { self.packets.pop().map(|waiting| waiting.packet) }
    }
}

impl Ord for Waiting {
    /// The heap gives its greatest first, so the earliest is the greatest.
    fn cmp(&self, other: &Waiting) -> Ordering {
        (other.due, other.number).cmp(&(self.due, self.number))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

#[cfg(test)]
mod tests;
