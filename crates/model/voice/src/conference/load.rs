//! Mixes that members get, by arithmetic alone, for budgets.
//!
//! *Does not model*: playout and concealment at the bridge; hangover; comfort noise.

use bentpipe_wire::rtp;

use super::config::Role;
use crate::conversation::{Parameters, Speech};

/// Members of a conference with the same kind of speech.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Voices {
    /// Kind of speech.
    pub speech: Speech,
    /// Set if they send nothing in pauses.
    pub pauses: bool,
    /// Mean number of them.
    pub count: f64,
}

impl Voices {
    /// Returns the share of intervals in which each sends, in a conversation of `all`.
    pub fn share(&self, all: f64) -> f64 {
        let [single, double, _] = Parameters::P59.shares();
        let [silence_s, talk_s] = [0, 1].map(|speakers| Parameters::P59.mean_s(speakers));
        match self.speech {
            _ if !self.pauses => 1.0,
            Speech::P59 if all < 2.0 => talk_s / (talk_s + silence_s),
            Speech::P59 => (single + 2.0 * double) / all,
            speech => speech.activity(),
        }
    }
}

/// Mixes that a bridge sends to a member.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeanMix {
    /// Share of intervals in which it sends one.
    pub share: f64,
    /// Mean number of contributing sources in its header.
    pub sources: f64,
}

/// Maximum number of sources with a probability each.
const MOST: usize = rtp::MAX_CSRCS;

/// Probabilities by the number of sources, and by whether one of them speaks. The last number stands for more.
#[derive(Clone, Debug)]
struct Odds([[f64; 2]; MOST + 1]);

impl Odds {
    const NOBODY: Odds = {
        let mut odds = [[0.0; 2]; MOST + 1];
        odds[0][0] = 1.0;
        Odds(odds)
    };

    /// Adds sources, and a voice among them or not, with a probability. Otherwise nothing is added.
    fn add(&mut self, from: &Odds, chance: f64, (sources, speaks): (usize, bool)) {
        for (count, of_count) in from.0.iter().enumerate() {
            for (spoke, probability) in of_count.iter().enumerate() {
                let to = (count + sources).min(MOST);
                self.0[to][spoke | usize::from(speaks)] += chance * probability;
            }
        }
    }

    /// Returns the sum over outcomes, each with sources and voice.
    fn with(&self, outcomes: &[(f64, usize, bool)]) -> Odds {
        let mut sum = Odds([[0.0; 2]; MOST + 1]);
        outcomes.iter().for_each(|(chance, sources, speaks)| sum.add(self, *chance, (*sources, *speaks)));
        sum
    }

    /// Adds members who speak alone for a share of the time. `silent` is 1 if they are sources in pauses too.
    fn alone(mut self, count: f64, speaks: f64, silent: usize) -> Odds {
        let (whole, part) = (count.max(0.0).floor(), count.max(0.0).fract());
        for _ in 0..whole as u64 {
            // More change nothing.
            if self.0[MOST][1] > 1.0 - 1e-12 {
                return self;
            }
            self = self.with(&[(speaks, 1, true), (1.0 - speaks, silent, false)]);
        }
        let (spoken, rest) = (part * speaks, part * (1.0 - speaks));
        self.with(&[(spoken, 1, true), (rest, silent, false), (1.0 - part, 0, false)])
    }

    /// Returns the odds of members who take turns with others, in a conversation of `all`.
    ///
    /// Of those who pause there are `paused`, of the others `steady`.
    fn turns(all: f64, [paused, steady]: [f64; 2]) -> Odds {
        // Who sends in pauses too is always a source.
        let sources = Odds::NOBODY.alone(steady, 1.0, 0);
        let quiet = Odds(sources.0.map(|[silent, spoken]| [silent + spoken, 0.0]));
        let [single, double, silence] = Parameters::P59.shares();
        let counts = [paused, steady, (all - paused - steady).max(0.0)];
        let of_kind = [(1, true), (0, true), (0, false)];
        let mut outcomes = vec![(silence, 0, false)];
        for (n, (count, (one, speaks))) in counts.into_iter().zip(of_kind).enumerate() {
            let first = count / all.max(1.0);
            outcomes.push((single * first, one, speaks));
            for (m, (other, (two, also))) in counts.into_iter().zip(of_kind).enumerate() {
                let left = if n == m { (other - 1.0).max(0.0) } else { other };
                outcomes.push((double * first * left / (all - 1.0).max(1.0), one + two, speaks | also));
            }
        }
        // One alone has no double talk.
        let sum: f64 = outcomes.iter().map(|(chance, ..)| chance).sum();
        outcomes.push((1.0 - sum, 0, false));
        quiet.with(&outcomes)
    }
}

impl Role {
    /// Returns the mixes that a member gets of `others`, in a conversation of `all`.
    ///
    /// `pauses` is set if the bridge sends it nothing while none of the others speaks.
    pub fn mean_mix(&self, pauses: bool, all: f64, others: &[Voices]) -> MeanMix {
        let takes_turns = |voices: &&Voices| voices.speech == Speech::P59;
        let in_turns = |pauses: bool| -> f64 {
            let counts = others.iter().filter(takes_turns).filter(|of| of.pauses == pauses);
            counts.map(|of| of.count.max(0.0)).sum()
        };
        let mut odds = Odds::turns(all, [in_turns(true), in_turns(false)]);
        for voices in others.iter().filter(|of| !takes_turns(of)) {
            odds = odds.alone(voices.count, voices.speech.activity(), usize::from(!voices.pauses));
        }
        self.mix_of_odds(&odds, pauses)
    }

    /// Returns the mixes of members with these odds.
    fn mix_of_odds(&self, odds: &Odds, pauses: bool) -> MeanMix {
        let most = if self.contributors { self.mixing.most().min(MOST) } else { 0 };
        let (mut share, mut sources) = (0.0, 0.0);
        for (count, [silent, spoken]) in odds.0.iter().copied().enumerate() {
            let sent = if pauses { spoken } else { silent + spoken };
            share += sent;
            sources += sent * count.min(most) as f64;
        }
        MeanMix { share, sources: if share > 0.0 { sources / share } else { 0.0 } }
    }

    /// Returns the mean number of sources of mixes that have no pauses.
    ///
    /// They are of others who send for a share of the time, each alone.
    pub fn mean_sources(&self, others: f64, sends: f64) -> f64 {
        self.mix_of_odds(&Odds::NOBODY.alone(others, sends, 0), false).sources
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::Mixing;
    use super::*;
    use crate::turns::Member;
    use bentpipe_units::{Span, Time};

    fn role(mixing: Mixing) -> Role {
        Role { mixing, contributors: true }
    }

    fn of(speech: Speech, pauses: bool, count: f64) -> Voices {
        Voices { speech, pauses, count }
    }

    #[test]
    fn mixes_of_steady_voices_list_them_up_to_the_loudest() {
        for (mixing, others, listed) in [
            (Mixing::Linear, 9.0, 9.0),
            (Mixing::Loudest, 9.0, 3.0),
            (Mixing::Linear, 20.0, 15.0),
            (Mixing::Loudest, 2.5, 2.5),
            (Mixing::Loudest, 0.0, 0.0),
        ] {
            let found = role(mixing).mean_sources(others, 1.0);
            assert!((found - listed).abs() < 1e-9, "{mixing:?}, {others}: {found}");
        }
        let silent = Role { contributors: false, ..role(Mixing::Linear) };
        assert_eq!(silent.mean_sources(9.0, 1.0), 0.0);
        // Of four who speak for half of the time one in 16 is the fourth.
        let found = role(Mixing::Loudest).mean_sources(4.0, 0.5);
        assert!((found - (2.0 - 1.0 / 16.0)).abs() < 1e-9, "{found}");
    }

    /// Single talk of P.59 among n, n - 1 of them others, and double talk, in which one of two is another.
    #[test]
    fn turns_are_heard_for_their_share() {
        let [single, double, _] = Parameters::P59.shares();
        for all in [1.0, 2.0, 3.0, 5.0, 40.0] {
            let others = [of(Speech::P59, true, all - 1.0)];
            let mix = role(Mixing::Loudest).mean_mix(true, all, &others);
            let double = if all > 1.0 { double } else { 0.0 };
            let expected = single * (all - 1.0) / all + double;
            assert!((mix.share - expected).abs() < 1e-9, "{all}: {}", mix.share);
            let share = others[0].share(all);
            let alone = 0.854 / (0.854 + 0.456);
            let part = if all > 1.0 { (single + 2.0 * double) / all } else { alone };
            assert!((share - part).abs() < 1e-9, "{all}: {share}");
            // All together one hears each other's talk.
            let spoken = (all - 1.0) / all * (single + 2.0 * double);
            assert!((mix.share * mix.sources - spoken).abs() < 1e-9, "{all}: {}", mix.sources);
        }
    }

    /// Members of three kinds by sampling their speech.
    #[test]
    fn kinds_of_speech_together() {
        let on_off = Speech::OnOff { on: Span::from_secs(1), off: Span::from_secs(2) };
        let others = [of(Speech::P59, true, 2.0), of(Speech::P59, false, 1.0), of(on_off, true, 2.0)];
        let speeches =
            [(Speech::P59, true), (Speech::P59, true), (Speech::P59, false), (on_off, true), (on_off, true)];
        let mut members: Vec<(Member, bool)> = speeches
            .into_iter()
            .enumerate()
            .map(|(n, (speech, pauses))| (Member::new(speech, (5, "room"), (n as u32 + 1, 6)), pauses))
            .collect();
        let (mut sent, mut listed, steps) = (0.0, 0.0, 400_000_u64);
        for step in 0..steps {
            let at = Time::from_nanos(step * 50_000_000);
            let (mut sources, mut is_spoken) = (0, false);
            for (member, pauses) in &mut members {
                let speaks = member.speaks(at);
                sources += usize::from(speaks || !*pauses);
                is_spoken |= speaks;
            }
            if is_spoken {
                sent += 1.0;
                listed += sources.min(3) as f64;
            }
        }
        let mix = role(Mixing::Loudest).mean_mix(true, 6.0, &others);
        assert!((mix.share - sent / steps as f64).abs() < 0.01, "{} {}", mix.share, sent / steps as f64);
        assert!((mix.sources - listed / sent).abs() < 0.02, "{} {}", mix.sources, listed / sent);
        let steady = role(Mixing::Loudest).mean_mix(false, 6.0, &others);
        assert!((steady.share - 1.0).abs() < 1e-9 && steady.sources < mix.sources);
    }
}
