//! Mean numbers of packets of a party that pauses, for budgets.
//!
//! A sender looks at its party once a frame. From frame to frame a conversation is a chain of states, so that the means are exact:
//! what hangover adds behind a spurt, and what comfort noise sends in a pause.

use bentpipe_units::Span;

use crate::conversation::{P59, Speech};

/// Weights of the states in which a party is silent. Few need both.
type Silent = [f64; 2];
/// Chances to go from one of them to another.
type Steps = [Silent; 2];

/// Packets of a party in a frame, in the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Frames {
    /// Speech packets.
    pub(crate) speech: f64,
    /// Packets of comfort noise.
    pub(crate) noise: f64,
}

/// Times of a sender's packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// Time of a frame.
    pub(crate) frame: Span,
    /// Time for which it sends behind a spurt.
    pub(crate) hangover: Span,
    /// Time from the first packet of noise in a pause to the second. `None`: there is one alone.
    pub(crate) second_after: Option<Span>,
    /// Time between further ones. `None`: there are two.
    pub(crate) interval: Option<Span>,
}

impl Timing {
    /// Returns the frames after which something is due in a time.
    fn frames(&self, time: Span) -> u64 {
        time.as_nanos().div_ceil(self.frame.as_nanos().max(1)).max(1)
    }
}

/// Silence of a party, frame by frame.
struct Chain {
    /// Shares of frames in which it is silent, by states.
    silent: Silent,
    /// Shares of frames with speech in front of one without, by states.
    falls: Silent,
    /// Chances of a silent frame to be followed by another.
    stays: Steps,
}

impl Frames {
    /// Returns the means of a sender that suppresses silence.
    pub(crate) fn of(speech: Speech, timing: &Timing) -> Frames {
        let Some(chain) = Chain::of(speech, timing.frame) else { return Frames { speech: 1.0, noise: 0.0 } };
        let held = timing.hangover.as_nanos() / timing.frame.as_nanos().max(1);
        let behind = power(chain.stays, held);
        let paused = after(chain.silent, behind);
        let first = after(chain.falls, behind);
        let mut noise = sum(first);
        if let Some(second) = timing.second_after {
            let due = after(first, power(chain.stays, timing.frames(second)));
            noise += match timing.interval {
                Some(interval) => sum(repeated(due, power(chain.stays, timing.frames(interval)))),
                None => sum(due),
            };
        }
        Frames { speech: 1.0 - sum(paused), noise }
    }
}

impl Chain {
    /// Returns the chain of a party. `None` if it never pauses.
    fn of(speech: Speech, frame: Span) -> Option<Chain> {
        let frame_s = frame.as_secs_f64();
        match speech {
            Speech::Continuous => None,
            Speech::OnOff { on, off } => {
                let [to_off, to_on] = [on, off].map(|mean| 1.0 / mean.as_secs_f64().max(f64::MIN_POSITIVE));
                let (is_off, forgets) =
                    (to_off / (to_off + to_on), -libm::expm1(-(to_off + to_on) * frame_s));
                let falls = is_off * forgets;
                let stays = 1.0 - (1.0 - is_off) * forgets;
                Some(Chain {
                    silent: [is_off, 0.0],
                    falls: [(1.0 - is_off) * falls, 0.0],
                    stays: [[stays, 0.0], [0.0, 0.0]],
                })
            }
            Speech::P59 => Some(Chain::of_p59(frame_s)),
        }
    }

    /// Returns that of P.59. The party speaks in the first and the third state, alone and with the other one.
    fn of_p59(frame_s: f64) -> Chain {
        let P59 { shares, rates } = P59::new();
        let steps = exponential(rates.map(|row| row.map(|rate| rate * frame_s)));
        let silent = [1, 3];
        let falls = silent.map(|to| [0, 2].iter().map(|from| shares[*from] * steps[*from][to]).sum());
        Chain {
            silent: silent.map(|state| shares[state]),
            falls,
            stays: silent.map(|from| silent.map(|to| steps[from][to])),
        }
    }
}

fn sum([one, other]: Silent) -> f64 {
    one + other
}

/// Returns weights after some steps.
fn after(weights: Silent, steps: Steps) -> Silent {
    [0, 1].map(|to| weights[0] * steps[0][to] + weights[1] * steps[1][to])
}

fn product(one: Steps, other: Steps) -> Steps {
    one.map(|row| after(row, other))
}

/// Returns the chances of several steps.
fn power(steps: Steps, count: u64) -> Steps {
    let (mut all, mut square, mut left) = ([[1.0, 0.0], [0.0, 1.0]], steps, count);
    while left > 0 {
        if left & 1 == 1 {
            all = product(all, square);
        }
        (square, left) = (product(square, square), left >> 1);
    }
    all
}

/// Returns the sum of weights now and after each repetition of some steps.
fn repeated(weights: Silent, [[a, b], [c, d]]: Steps) -> Silent {
    let determinant = ((1.0 - a) * (1.0 - d) - b * c).max(f64::MIN_POSITIVE);
    let inverse = [[(1.0 - d) / determinant, b / determinant], [c / determinant, (1.0 - a) / determinant]];
    after(weights, inverse)
}

/// Terms of the exponential series, of matrices whose norm is a half at most.
const TERMS: u32 = 16;

/// Returns the exponential of a matrix of rates.
fn exponential(rates: [[f64; 4]; 4]) -> [[f64; 4]; 4] {
    let norm = rates.iter().map(|row| row.iter().map(|rate| rate.abs()).sum::<f64>()).fold(0.0, f64::max);
    let halvings = libm::ceil(libm::log2((2.0 * norm).max(1.0))) as u32;
    let part = rates.map(|row| row.map(|rate| rate / f64::from(2_u32.pow(halvings.min(30)))));
    let identity: [[f64; 4]; 4] =
        std::array::from_fn(|row| std::array::from_fn(|column| f64::from(u8::from(row == column))));
    let times = |one: [[f64; 4]; 4], other: [[f64; 4]; 4]| {
        one.map(|row| std::array::from_fn(|to| (0..4).map(|via| row[via] * other[via][to]).sum::<f64>()))
    };
    let (mut all, mut term) = (identity, identity);
    for n in 1..=TERMS {
        term = times(term, part).map(|row| row.map(|value: f64| value / f64::from(n)));
        all = std::array::from_fn(|row| std::array::from_fn(|to| all[row][to] + term[row][to]));
    }
    (0..halvings).fold(all, |all, _| times(all, all))
}

#[cfg(test)]
mod tests {
    use bentpipe_units::{RandomStream, Time};

    use super::*;
    use crate::conversation::{Conversation, Party};

    /// Counts the packets of a party in some frames, by the rules of a sender.
    fn counted(speech: Speech, timing: &Timing, frames: u64) -> Frames {
        let mut talk = Conversation::new(speech, RandomStream::new(5, "frames"), Time::ZERO);
        let (mut last, mut next, mut sent) = (None, Time::NEVER, 0);
        let mut found = Frames { speech: 0.0, noise: 0.0 };
        for frame in 0..frames {
            let at = Time::ZERO + timing.frame * frame;
            if talk.speaks(Party::A, at) {
                last = Some(at);
            }
            if last.is_some_and(|last: Time| at.since(last) <= timing.hangover) {
                (found.speech, next, sent) = (found.speech + 1.0, at, 0);
            } else if last.is_some() && next <= at {
                let wait = if sent == 0 { timing.second_after } else { timing.interval };
                (next, sent) = (wait.map_or(Time::NEVER, |wait| at + wait), sent + 1);
                found.noise += 1.0;
            }
        }
        Frames { speech: found.speech / frames as f64, noise: found.noise / frames as f64 }
    }

    #[test]
    fn means_are_those_of_conversations() {
        let ms = Span::from_millis;
        let on_off = Speech::OnOff { on: ms(1000), off: ms(1350) };
        let short = Speech::OnOff { on: ms(40), off: ms(90) };
        for speech in [on_off, short, Speech::P59] {
            for (hangover, second_after, interval) in [
                (0, None, None),
                (200, None, None),
                (0, Some(60), Some(160)),
                (70, Some(100), Some(100)),
                (500, Some(40), None),
            ] {
                let timing = Timing {
                    frame: ms(20),
                    hangover: ms(hangover),
                    second_after: second_after.map(ms),
                    interval: interval.map(ms),
                };
                let [found, mean] = [counted(speech, &timing, 4_000_000), Frames::of(speech, &timing)];
                let is_near = |one: f64, other: f64| (one - other).abs() < 0.004 + 0.01 * other;
                assert!(
                    is_near(found.speech, mean.speech)
                        && (found.noise - mean.noise).abs() < 0.02 * mean.noise + 1e-4,
                    "{speech:?} {timing:?}: {found:?} for {mean:?}"
                );
            }
        }
        // 64 kbit/s with a hangover of 200 ms: 1 s and 1.35 (1 - exp(-0.2 / 1.35)) of 2.35 s.
        let timing = Timing { frame: ms(1), hangover: ms(200), second_after: None, interval: None };
        assert!((Frames::of(on_off, &timing).speech - 0.5047).abs() < 1e-3);
        let always = Frames::of(Speech::Continuous, &timing);
        assert_eq!(always, Frames { speech: 1.0, noise: 0.0 });
    }
}
