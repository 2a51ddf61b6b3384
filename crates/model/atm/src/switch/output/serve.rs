//! Departures of an output: one transmission after the other, categories in strict order.

use std::collections::VecDeque;

use bentpipe_net::Packet;
use bentpipe_units::Time;

use super::{Attached, Channels, Output};
use crate::cell::{Cell, Word, reload};
use crate::switch::waiting::Waiting;

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

    /// Sends cells of one category until another event comes first.
    ///
    /// Stops at the first cell preceded by an arrival that matters. All cells start before `before`, when a
    /// cell of a category served earlier, or another event, is next; and arrive no later than the line is
    /// free and `behind`, when a cell of a category served later arrives.
    fn send_one(&mut self, class: usize, before: Time, behind: Time) {
        let Output { waiting, attached, channels, line, .. } = self;
        let (waiting, attached) = (&mut waiting[class], &mut attached[class]);
        let (row, news, mut next) = (waiting.row(), waiting.news(), waiting.gone());
        // Where others are waited for, or each that comes is looked at, rows are short, and room for more would be made in vain.
        let is_short = waiting.looks_at_each() || !behind.is_never();
        let most = if is_short { FEW } else { row.len() };
        line.send_row(most.min(row.len() - next), before, |line, cargo| {
            // One that comes while the line is free finds none waiting.
            let is_spared = behind.is_never() && waiting.can_skip_first();
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
                    attached.take_along(word, waiting.is_seen(next), channels, cargo)
                };
                next += 1;
                line.send(word, start);
            }
        });
        waiting.send_up_to(next);
    }

    /// Sends cells of the only two non-empty categories, up to `until`.
    ///
    /// Stops as well at the end of a row, and at arrivals that matter.
    fn send_two(&mut self, first: usize, second: usize, until: Time) {
        let Output { waiting, attached, channels, line, .. } = self;
        let rows = [waiting[first].row(), waiting[second].row()];
        let news = [waiting[first].news(), waiting[second].news()];
        let mut next = [waiting[first].gone(), waiting[second].gone()];
        let most = rows[0].len() - next[0] + rows[1].len() - next[1];
        line.send_row(most, until, |line, cargo| {
            let mut later_news = Time::ZERO;
            while let (Some(one), Some(other)) = (rows[0].get(next[0]), rows[1].get(next[1])) {
                let start = line.free_at().max(one.at.min(other.at));
                // Computed without a branch, as it would be unpredictable.
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
                    attached[class].take_along(word, waiting[class].is_seen(place), channels, cargo)
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

impl Attached {
    /// Moves the packets of a departing cell into `cargo` and returns the cell as sent.
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
