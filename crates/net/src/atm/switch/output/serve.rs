//! What goes out at an output: of the cells that have come the first category's, one transmission after the other.

use std::collections::VecDeque;

use bentpipe_units::Time;

use super::{Beside, Channels, Output};
use crate::Packet;
use crate::atm::cell::{Cell, Word, reload};
use crate::atm::switch::waiting::Waiting;

/// Cells of a short row.
const FEW: usize = 4;

impl Output {
    /// Starts all transmissions due before `until`, where all that comes before then is in order.
    pub(super) fn serve(&mut self, until: Time) {
        loop {
            let heads = self.waiting.each_ref().map(Waiting::head);
            let first = heads.into_iter().min().unwrap_or(Time::NEVER);
            let start = self.line.free_at().max(first);
            if start >= until {
                return;
            }
            let Some(class) = heads.iter().position(|head| *head <= start) else { return };
            let mut some = (0..4).filter(|class| !heads[*class].is_never());
            if self.waiting[class].next_news() <= start {
                self.look(class, |cell| cell.at <= start);
            } else if let [Some(first), Some(second), None] = [some.next(), some.next(), some.next()]
                && !self.waiting[first].looks_at_each()
                && !self.waiting[second].looks_at_each()
            {
                self.send_two(first, second, until);
            } else {
                let before = heads[..class].iter().fold(until, |before, head| before.min(*head));
                let behind = heads[class + 1..].iter().fold(Time::NEVER, |behind, head| behind.min(*head));
                self.send_one(class, before, behind);
            }
        }
    }

    /// Sends cells of one category up to the first that there is news by, and that start before `before`, when one of a category
    /// that is served before this one or something else is next; and none that comes later than the line is free and than
    /// `behind`, when one of a category served after it comes.
    fn send_one(&mut self, class: usize, before: Time, behind: Time) {
        let Output { waiting, beside, channels, line, .. } = self;
        let (waiting, beside) = (&mut waiting[class], &mut beside[class]);
        let (row, news, mut next) = (waiting.row(), waiting.news(), waiting.gone());
        // Where others are waited for, or each that comes is looked at, rows are short, and room for more would be made in vain.
        let is_short = waiting.looks_at_each() || !behind.is_never();
        let most = if is_short { FEW } else { row.len() };
        line.send_row(most.min(row.len() - next), before, |line, cargo| {
            // One that comes while the line is free finds none waiting.
            let is_spared = behind.is_never() && waiting.spares_first();
            let mut end = Time::ZERO;
            while let Some(&Cell { at, word }) = row.get(next) {
                let start = line.free_at().max(at);
                if is_spared && start == at {
                    if start >= before {
                        break;
                    }
                } else if start >= end {
                    let first = before.min(news.next(next));
                    if start >= first || at > line.free_at().max(behind) {
                        break;
                    }
                    end = first.min(behind);
                }
                if line.is_full() {
                    break;
                }
                let word = if word.is_middle() {
                    word
                } else {
                    beside.take_along(word, waiting.is_seen(next), channels, cargo)
                };
                next += 1;
                line.send(word, start);
            }
        });
        waiting.send_up_to(next);
    }

    /// Sends cells of the only two categories that there are any of, up to `until`, to news, or to the end of a row.
    fn send_two(&mut self, first: usize, second: usize, until: Time) {
        let Output { waiting, beside, channels, line, .. } = self;
        let rows = [waiting[first].row(), waiting[second].row()];
        let news = [waiting[first].news(), waiting[second].news()];
        let mut next = [waiting[first].gone(), waiting[second].gone()];
        let most = rows[0].len() - next[0] + rows[1].len() - next[1];
        line.send_row(most, until, |line, cargo| {
            let mut later_news = Time::ZERO;
            while let (Some(one), Some(other)) = (rows[0].get(next[0]), rows[1].get(next[1])) {
                let start = line.free_at().max(one.at.min(other.at));
                // Reckoned without a branch, as no predictor could foresee which is next.
                let is_first = one.at <= start;
                // Of the first category few wait, so that there is often no telling when the next one is news.
                let soon_news = news[0].next(next[0]);
                if start >= until.min(if is_first { soon_news } else { later_news }) {
                    later_news = news[1].next(next[1]);
                    if start >= until.min(if is_first { soon_news } else { later_news }) {
                        break;
                    }
                }
                if line.is_full() {
                    break;
                }
                let word = if is_first { one.word } else { other.word };
                let word = if word.is_middle() {
                    word
                } else {
                    let (class, place) = if is_first { (first, next[0]) } else { (second, next[1]) };
                    beside[class].take_along(word, waiting[class].is_seen(place), channels, cargo)
                };
                next[0] += usize::from(is_first);
                next[1] += usize::from(!is_first);
                line.send(word, start);
            }
        });
        waiting[first].send_up_to(next[0]);
        waiting[second].send_up_to(next[1]);
    }
}

impl Beside {
    /// Puts what travels with a cell that goes out into `cargo`; gives what the cell says.
    #[inline(never)]
    fn take_along(
        &mut self,
        mut word: Word,
        is_seen: bool,
        channels: &mut Channels,
        cargo: &mut VecDeque<Packet>,
    ) -> Word {
        if is_seen {
            reload(&mut self.cargo, cargo, word);
        } else if word.is_backward_rm() {
            word = self.answers.pop_front().unwrap_or(word);
        } else if word.has_cargo() {
            reload(&mut channels.of(word).cargo, cargo, word);
        }
        word
    }
}
