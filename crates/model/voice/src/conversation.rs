//! Conversations: who speaks when.
//!
//! *Models*: four states of two parties (ITU-T P.59), alternating exponential spurts and pauses of each party, and
//! continuous speech. A conversation begins in its steady state, and both parties follow the same one.
//! *Does not model*: parties who react to the delay of the line; the 200 ms bridging of P.59's speech detector, which is
//! the hangover of the sender.
//! *References*: ITU-T P.59; Brady, 1968 and 1969.

use bentpipe_net::InvalidConfig;
use bentpipe_units::{RandomStream, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Mean durations of P.59's states in seconds.
const SINGLE_TALK_S: f64 = 0.854;
const DOUBLE_TALK_S: f64 = 0.226;
const MUTUAL_SILENCE_S: f64 = 0.456;
/// Probability that double talk follows single talk, instead of mutual silence.
const TO_DOUBLE: f64 = 0.4;

/// Chain of the four states of ITU-T P.59: either party alone, both, neither.
#[derive(Clone, Copy, Debug)]
pub(crate) struct P59 {
    /// Shares of time.
    pub(crate) shares: [f64; 4],
    /// Rates from each state to the others per second, with its own in the diagonal.
    pub(crate) rates: [[f64; 4]; 4],
}

impl P59 {
    pub(crate) fn new() -> P59 {
        let [single, double, silence] = p59_shares();
        let [one, both, none] = [SINGLE_TALK_S, DOUBLE_TALK_S, MUTUAL_SILENCE_S].map(f64::recip);
        let alone = |party: usize| {
            let mut row = [0.0, 0.0, TO_DOUBLE * one, (1.0 - TO_DOUBLE) * one];
            row[party] = -one;
            row
        };
        let rates =
            [alone(0), alone(1), [both / 2.0, both / 2.0, -both, 0.0], [none / 2.0, none / 2.0, 0.0, -none]];
        P59 { shares: [single / 2.0, single / 2.0, double, silence], rates }
    }
}

/// Parameters of a generator of turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Parameters {
    /// Probability that double talk follows single talk, instead of mutual silence.
    pub(crate) to_double: f64,
    means_s: [f64; 3],
}

impl Parameters {
    /// Parameters of ITU-T P.59.
    pub(crate) const P59: Parameters =
        Parameters { to_double: TO_DOUBLE, means_s: [MUTUAL_SILENCE_S, SINGLE_TALK_S, DOUBLE_TALK_S] };

    /// Returns the mean length in seconds of a state with `speakers` speakers, at most two.
    pub(crate) fn mean_s(&self, speakers: usize) -> f64 {
        self.means_s[speakers]
    }

    /// Returns the shares of time of single talk, double talk and mutual silence.
    pub(crate) fn shares(&self) -> [f64; 3] {
        p59_shares()
    }
}

/// Speech of both parties of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Speech {
    /// Four states of ITU-T P.59: either party, both or neither speaks.
    #[default]
    P59,
    /// Spurts and pauses of each party alone, with exponential lengths.
    OnOff {
        /// Mean length of a spurt, a day at most. Default: 1 s (Brady).
        #[serde(default = "brady_on")]
        on: Span,
        /// Mean length of a pause, a day at most. Default: 1.35 s (Brady).
        #[serde(default = "brady_off")]
        off: Span,
    },
    /// Speech without pauses.
    Continuous,
}

const fn brady_on() -> Span {
    Span::from_millis(1000)
}

const fn brady_off() -> Span {
    Span::from_millis(1350)
}

impl Speech {
    /// Checks the configuration.
    ///
    /// # Errors
    /// Returns an error if spurts or pauses have no length, or are longer than a day.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let Speech::OnOff { on, off } = self else { return Ok(()) };
        let is_possible = |span: &Span| (Span::from_millis(1)..=Span::from_secs(86_400)).contains(span);
        let expected = "`on` and `off` from \"1 ms\" to \"1 d\"";
        InvalidConfig::ensure(is_possible(on) && is_possible(off), "speech", expected)
    }

    /// Returns the share of time for which a party speaks.
    pub fn activity(&self) -> f64 {
        match self {
            Speech::P59 => {
                let [single, double, _] = p59_shares();
                single / 2.0 + double
            }
            Speech::OnOff { on, off } => on.as_secs_f64() / (*on + *off).as_secs_f64(),
            Speech::Continuous => 1.0,
        }
    }

    /// Returns the mean time from spurt to spurt of a party, if it pauses.
    pub fn cycle(&self) -> Option<Span> {
        match self {
            // A party begins to speak after silence (half of the time) and at the start of the other's double talk.
            Speech::P59 => Some(Span::from_secs_f64(
                (SINGLE_TALK_S + TO_DOUBLE * DOUBLE_TALK_S + (1.0 - TO_DOUBLE) * MUTUAL_SILENCE_S)
                    / ((1.0 - TO_DOUBLE) / 2.0 + TO_DOUBLE / 2.0),
            )),
            Speech::OnOff { on, off } => Some(*on + *off),
            Speech::Continuous => None,
        }
    }
}

/// Returns the shares of time of single talk, double talk and mutual silence.
fn p59_shares() -> [f64; 3] {
    let weights = [SINGLE_TALK_S, TO_DOUBLE * DOUBLE_TALK_S, (1.0 - TO_DOUBLE) * MUTUAL_SILENCE_S];
    let sum: f64 = weights.iter().sum();
    weights.map(|weight| weight / sum)
}

/// Party of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// Caller.
    A,
    /// Called party.
    B,
}

/// Speaking parties for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Phase {
    speaks: [bool; 2],
    until: Time,
}

/// Conversation in progress: a function of its random stream alone.
#[derive(Clone, Debug)]
pub struct Conversation {
    speech: Speech,
    stream: RandomStream,
    /// Present states: one of both parties, or one of each.
    phases: [Phase; 2],
}

impl Conversation {
    /// Creates a conversation that begins at `start` in its steady state.
    pub fn new(speech: Speech, stream: RandomStream, start: Time) -> Conversation {
        let never = Phase { speaks: [true; 2], until: Time::NEVER };
        let mut conversation = Conversation { speech, stream, phases: [never; 2] };
        conversation.begin(start);
        conversation
    }

    fn begin(&mut self, start: Time) {
        match self.speech {
            Speech::Continuous => {}
            Speech::P59 => {
                let [single, double, _] = p59_shares();
                let draw = self.stream.unit();
                let speaks = if draw < single {
                    if draw < single / 2.0 { [true, false] } else { [false, true] }
                } else {
                    [draw < single + double; 2]
                };
                self.phases[0] = self.p59_phase(speaks, start);
            }
            Speech::OnOff { .. } => {
                let share = self.speech.activity();
                for party in 0..2 {
                    let is_on = self.stream.chance(share);
                    self.phases[party] = self.own_phase(is_on, start);
                }
            }
        }
    }

    fn p59_phase(&mut self, speaks: [bool; 2], from: Time) -> Phase {
        let mean = match speaks {
            [true, true] => DOUBLE_TALK_S,
            [false, false] => MUTUAL_SILENCE_S,
            _ => SINGLE_TALK_S,
        };
        Phase { speaks, until: from + Span::from_secs_f64(self.stream.exponential(mean)) }
    }

    fn own_phase(&mut self, is_on: bool, from: Time) -> Phase {
        let Speech::OnOff { on, off } = self.speech else { unreachable!("only spurts and pauses have it") };
        let mean = if is_on { on } else { off };
        let length = Span::from_secs_f64(self.stream.exponential(mean.as_secs_f64()));
        Phase { speaks: [is_on; 2], until: from + length }
    }

    /// Returns the state after the first one.
    fn next_p59(&mut self) -> Phase {
        let Phase { speaks: [a, b], until } = self.phases[0];
        let speaks = if a == b {
            let is_a = self.stream.chance(0.5);
            [is_a, !is_a]
        } else {
            [self.stream.chance(TO_DOUBLE); 2]
        };
        self.p59_phase(speaks, until)
    }

    /// Returns the end of the state of a party at the last time asked for.
    pub fn state_end(&self, party: Party) -> Time {
        match self.speech {
            Speech::OnOff { .. } => self.phases[party as usize].until,
            Speech::P59 | Speech::Continuous => self.phases[0].until,
        }
    }

    /// Returns `true` if a party speaks at `at`. Calls go forward in time.
    pub fn speaks(&mut self, party: Party, at: Time) -> bool {
        let one = party as usize;
        match self.speech {
            Speech::Continuous => return true,
            Speech::P59 => {
                while self.phases[0].until <= at {
                    self.phases[0] = self.next_p59();
                }
                return self.phases[0].speaks[one];
            }
            Speech::OnOff { .. } => {}
        }
        // Both parties draw from one stream, so their states change in the order of time at either end.
        while let Some(first) = (0..2).min_by_key(|n| self.phases[*n].until) {
            let Phase { speaks, until } = self.phases[first];
            if until > at {
                break;
            }
            self.phases[first] = self.own_phase(!speaks[0], until);
        }
        self.phases[one].speaks[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shares of single talk, double talk and silence, and mean spurts and pauses of party A.
    struct Measured {
        single: f64,
        double: f64,
        silence: f64,
        spurt: f64,
        pause: f64,
    }

    fn measure(speech: Speech) -> Measured {
        const STEP: Span = Span::from_millis(1);
        let mut talk = Conversation::new(speech, RandomStream::new(3, "talk"), Time::ZERO);
        let (mut counts, mut spurts, mut spoke, mut at) = ([0_u64; 3], 0_u64, false, Time::ZERO);
        let steps = 20_000_000;
        for _ in 0..steps {
            let (a, b) = (talk.speaks(Party::A, at), talk.speaks(Party::B, at));
            counts[usize::from(a) + usize::from(b)] += 1;
            spurts += u64::from(a && !spoke);
            (spoke, at) = (a, at + STEP);
        }
        let [silence, single, double] = counts.map(|count| count as f64 / steps as f64);
        let seconds = steps as f64 * STEP.as_secs_f64() / spurts as f64;
        let activity = single / 2.0 + double;
        Measured { single, double, silence, spurt: seconds * activity, pause: seconds * (1.0 - activity) }
    }

    fn close(found: f64, expected: f64, tolerance: f64, what: &str) {
        assert!((found / expected - 1.0).abs() < tolerance, "{what}: {found} instead of {expected}");
    }

    /// The generator meets the Recommendation's spurts, double talk and silence, but not its pauses and activity: no
    /// choice of its parameters meets all of them.
    #[test]
    fn four_states_meet_the_means_of_p59() {
        let found = measure(Speech::P59);
        let [single, double, silence] = p59_shares();
        close(found.single, single, 0.01, "single talk");
        close(found.double, double, 0.03, "double talk");
        close(found.silence, silence, 0.02, "mutual silence");
        close(found.silence, 0.2248, 0.02, "mutual silence of P.59");
        close(found.double, 0.0659, 0.15, "double talk of P.59");
        close(found.spurt, 1.004, 0.05, "spurt of P.59");
        close(found.pause, 1.587, 0.13, "pause of P.59");
        close(found.single / 2.0 + found.double, 0.425, 0.01, "activity");
        close(Speech::P59.activity(), 0.425, 0.002, "computed activity");
        let cycle = Speech::P59.cycle().expect("pauses").as_secs_f64();
        close(cycle, found.spurt + found.pause, 0.02, "cycle");
    }

    #[test]
    fn parties_with_exponential_spurts_are_independent() {
        let brady = Speech::OnOff { on: brady_on(), off: brady_off() };
        let found = measure(brady);
        close(found.spurt, 1.0, 0.02, "spurt");
        close(found.pause, 1.35, 0.02, "pause");
        close(found.double, 0.4255 * 0.4255, 0.03, "double talk");
        close(brady.activity(), 0.4255, 0.001, "activity");
    }

    #[test]
    fn both_ends_see_the_same_conversation() {
        for speech in [Speech::P59, Speech::OnOff { on: brady_on(), off: brady_off() }] {
            let talk = || Conversation::new(speech, RandomStream::new(1, "call/7"), Time::ZERO);
            let (mut at_a, mut at_b) = (talk(), talk());
            let mut seen = Vec::new();
            // One end asks each 20 ms for A, the other each 30 ms for B and A.
            for n in 0..50_000 {
                seen.push(at_a.speaks(Party::A, Time::from_nanos(n * 20_000_000)));
            }
            for n in 0..30_000_u64 {
                let at = Time::from_nanos(n * 30_000_000);
                at_b.speaks(Party::B, at);
                if n % 2 == 0 {
                    assert_eq!(at_b.speaks(Party::A, at), seen[(n * 3 / 2) as usize], "{speech:?} at {at}");
                }
            }
        }
    }

    #[test]
    fn endless_spurts_and_no_spurts() {
        let mut talk = Conversation::new(Speech::Continuous, RandomStream::new(1, ""), Time::ZERO);
        assert!(talk.speaks(Party::B, Time::from_nanos(u64::MAX / 2)));
        assert!(Speech::OnOff { on: Span::ZERO, off: brady_off() }.check().is_err());
        let day = Span::from_secs(86_400);
        assert!(Speech::OnOff { on: day, off: day }.check().is_ok());
        assert!(Speech::OnOff { on: brady_on(), off: day + Span::from_nanos(1) }.check().is_err());
        assert!(Speech::P59.check().is_ok() && Speech::Continuous.cycle().is_none());
    }
}
