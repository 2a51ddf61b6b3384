//! Conversations of several parties: who speaks when, and how loud.
//!
//! *Models*: ITU-T P.59's single talk, double talk and mutual silence with turns among any number of parties; spurts and
//! pauses of each party alone; continuous speech. Two parties have exactly the statistics of P.59. The activity of all
//! together does not depend on their number, so that one of many speaks seldom.
//! *Turns*: after mutual silence the last speaker goes on with probability 1/2, else one of the others begins, all with
//! equal chances; an equally chosen party joins double talk, and either of the two goes on alone after it.
//! *References*: ITU-T P.59, P.56 (active speech level).

use bentpipe_units::{RandomStream, Span, Time};

use crate::conversation::{Conversation, Parameters, Party, Speech};

/// Mean active speech level in decibels below the overload point (P.56).
const NOMINAL_LEVEL: f64 = 26.0;
/// Standard deviation of the level among parties in decibels.
const LEVEL_SPREAD: f64 = 4.0;
/// Probability that the last speaker goes on after mutual silence.
const GOES_ON: f64 = 0.5;

/// Party of a conference, whose speech is a function of the random stream alone.
#[derive(Clone, Debug)]
pub struct Member {
    number: u32,
    level: u8,
    talk: Talk,
}

#[derive(Clone, Debug)]
enum Talk {
    Turns(Turns),
    Alone(Conversation),
}

impl Member {
    /// Creates party `number` of `all`, in the conversation of a seed and path.
    pub fn new(speech: Speech, (seed, path): (u64, &str), (number, all): (u32, u32)) -> Member {
        let own = RandomStream::new(seed, &format!("{path}/member/{number}"));
        let talk = match speech {
            Speech::P59 => Talk::Turns(Turns::new(RandomStream::new(seed, path), all)),
            Speech::OnOff { .. } | Speech::Continuous => {
                Talk::Alone(Conversation::new(speech, own, Time::ZERO))
            }
        };
        let mut level = RandomStream::new(seed, &format!("{path}/level/{number}"));
        let level = NOMINAL_LEVEL + LEVEL_SPREAD * level.normal_pair().0;
        Member { number, level: level.round().clamp(10.0, 45.0) as u8, talk }
    }

    /// Returns `true` if the party speaks at `at`. Calls go forward in time.
    pub fn speaks(&mut self, at: Time) -> bool {
        match &mut self.talk {
            Talk::Turns(turns) => turns.at(at).contains(&Some(self.number)),
            Talk::Alone(conversation) => conversation.speaks(Party::A, at),
        }
    }

    /// Returns the end of the state at the last time asked for.
    pub fn state_end(&self) -> Time {
        match &self.talk {
            Talk::Turns(turns) => turns.until,
            Talk::Alone(conversation) => conversation.state_end(Party::A),
        }
    }

    /// Returns the level of the party's speech in decibels below the overload point.
    pub fn level(&self) -> u8 {
        self.level
    }
}

/// Turns of all parties.
#[derive(Clone, Debug)]
struct Turns {
    stream: RandomStream,
    all: u32,
    speakers: [Option<u32>; 2],
    last: u32,
    until: Time,
}

impl Turns {
    fn new(stream: RandomStream, all: u32) -> Turns {
        let mut turns = Turns { stream, all: all.max(1), speakers: [None; 2], last: 0, until: Time::ZERO };
        turns.last = turns.any();
        let [single, double, _] = Parameters::P59.shares();
        let draw = turns.stream.unit();
        turns.speakers = match draw {
            _ if draw < single => [Some(turns.last), None],
            _ if draw < single + double => [Some(turns.last), turns.other(turns.last)],
            _ => [None; 2],
        };
        turns.extend();
        turns
    }

    fn at(&mut self, at: Time) -> [Option<u32>; 2] {
        while self.until <= at {
            self.turn();
        }
        self.speakers
    }

    fn turn(&mut self) {
        self.speakers = match self.speakers {
            [Some(speaker), None] | [None, Some(speaker)] => {
                self.last = speaker;
                let other =
                    self.stream.chance(Parameters::P59.to_double).then(|| self.other(speaker)).flatten();
                [other.map(|_| speaker), other]
            }
            both @ [Some(_), Some(_)] => [both[usize::from(self.stream.chance(0.5))], None],
            [None, None] => {
                let goes_on = self.stream.chance(GOES_ON);
                let next = if goes_on { None } else { self.other(self.last) };
                [Some(next.unwrap_or(self.last)), None]
            }
        };
        self.extend();
    }

    /// Draws the length of the state.
    fn extend(&mut self) {
        let talkers = self.speakers.iter().flatten().count();
        let mean = Parameters::P59.mean_s(talkers);
        self.until += Span::from_secs_f64(self.stream.exponential(mean));
    }

    fn any(&mut self) -> u32 {
        ((self.stream.unit() * f64::from(self.all)) as u32).min(self.all - 1)
    }

    /// Returns one of the parties but `one`, if there are others.
    fn other(&mut self, one: u32) -> Option<u32> {
        let others = self.all - 1;
        let chosen = ((self.stream.unit() * f64::from(others)) as u32).min(others.saturating_sub(1));
        (others > 0).then_some(if chosen < one { chosen } else { chosen + 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shares of time with none, one and two speakers, and with the first as one of them.
    fn shares(speech: Speech, all: u32) -> ([f64; 4], f64) {
        let mut members: Vec<Member> = (0..all).map(|n| Member::new(speech, (5, "room"), (n, all))).collect();
        let (mut counts, mut first, steps) = ([0_u64; 4], 0_u64, 400_000_u64);
        for step in 0..steps {
            let at = Time::from_nanos(step * 50_000_000);
            let speaking: Vec<bool> = members.iter_mut().map(|member| member.speaks(at)).collect();
            counts[speaking.iter().filter(|speaks| **speaks).count().min(3)] += 1;
            first += u64::from(speaking[0]);
        }
        (counts.map(|count| count as f64 / steps as f64), first as f64 / steps as f64)
    }

    fn close(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() < tolerance, "{found} instead of {expected}");
    }

    /// Two have the shares of P.59; with more, each has its part of the same.
    #[test]
    fn turns_of_any_number_have_the_shares_of_p59() {
        let [single, double, silence] = Parameters::P59.shares();
        for all in [2, 3, 8] {
            let ([none, one, two, more], first) = shares(Speech::P59, all);
            close(none, silence, 0.008);
            close(one, single, 0.008);
            close(two, double, 0.005);
            close(more, 0.0, 1e-9);
            close(first, (single + 2.0 * double) / f64::from(all), 0.025);
        }
    }

    #[test]
    fn parties_with_spurts_of_their_own_are_independent() {
        let speech = Speech::OnOff { on: Span::from_secs(1), off: Span::from_secs(1) };
        let ([none, one, two, _], first) = shares(speech, 3);
        close(first, 0.5, 0.02);
        close(none, 0.125, 0.02);
        close(one, 0.375, 0.02);
        close(two, 0.375, 0.02);
    }

    #[test]
    fn one_alone_and_levels() {
        let ([none, one, ..], _) = shares(Speech::P59, 1);
        let [single, _, silence] = [Parameters::P59.mean_s(1), 0.0, Parameters::P59.mean_s(0)];
        close(one, single / (single + silence), 0.01);
        close(none + one, 1.0, 1e-9);
        let levels: Vec<f64> = (0..400)
            .map(|n| f64::from(Member::new(Speech::Continuous, (1, "a"), (n, 400)).level()))
            .collect();
        let mean = levels.iter().sum::<f64>() / 400.0;
        let spread = (levels.iter().map(|level| (level - mean).powi(2)).sum::<f64>() / 400.0).sqrt();
        close(mean, NOMINAL_LEVEL, 0.7);
        close(spread, LEVEL_SPREAD, 0.5);
    }
}
