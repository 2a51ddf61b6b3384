//! Arrivals on the line of an interface.
//!
//! All cells of a train are certain to arrive (see [`Train`]), so PDUs are reassembled when it is announced,
//! and each is delivered when its last cell arrives. Only cells that affect sending, or a receive buffer,
//! wait for their own instant.

use std::collections::VecDeque;

use bentpipe_net::{Packet, Why};
use bentpipe_units::Time;

use super::{End, Wrong};
use crate::cell::{Cell, Kind, Train, unload};
use crate::places::Places;

/// A PDU whose last cell is known to come.
#[derive(Debug)]
pub(super) struct Done {
    /// Time of the last cell.
    pub(super) at: Time,
    /// The place of its channel's end.
    pub(super) place: u16,
    /// Result of the reassembly.
    pub(super) outcome: Result<Packet, Wrong>,
}

/// Numbers of arrived cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) received: u64,
    pub(super) unknown: u64,
    pub(super) oam: u64,
}

/// Announced arrivals.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Trains that are still coming, without their packets.
    trains: VecDeque<Box<Train>>,
    /// Cells that are examined at their arrival, with their packets.
    pub(super) events: VecDeque<Cell>,
    pub(super) cargo: VecDeque<Packet>,
    /// PDUs that are complete when their last cell comes.
    pub(super) done: VecDeque<Done>,
    /// Counts over all trains, including cells still in flight.
    counts: Counts,
}

impl Arrivals {
    /// Returns the time of the next cell that is examined at its arrival.
    #[inline]
    pub(super) fn next_event(&self) -> Time {
        self.events.front().map_or(Time::NEVER, |cell| cell.at)
    }

    /// Returns the time of the next cell whose packets enter a receive buffer.
    pub(super) fn next_cargo(&self) -> Time {
        let with_cargo = self.events.iter().find(|cell| cell.word.has_cargo());
        with_cargo.map_or(Time::NEVER, |cell| cell.at)
    }

    /// Returns the time of the next complete PDU.
    #[inline]
    pub(super) fn next_done(&self) -> Time {
        self.done.front().map_or(Time::NEVER, |done| done.at)
    }

    /// Returns the next PDU that is complete by `now`.
    #[inline]
    pub(super) fn pop_done(&mut self, now: Time) -> Option<Done> {
        if self.next_done() <= now { self.done.pop_front() } else { None }
    }

    /// Processes the cells of a train announced at `now`.
    ///
    /// All cells to be sent before `settled` have been sent. `places` has the index among `ends` for each VCI.
    pub(super) fn announce(
        &mut self,
        mut train: Box<Train>,
        now: Time,
        settled: Time,
        places: &Places,
        ends: &mut [End],
    ) {
        debug_assert!(train.cells.is_sorted_by_key(|cell| cell.at));
        let is_over = |train: &Train| train.cells.last().is_none_or(|last| last.at < now);
        while self.trains.front().is_some_and(|train| is_over(train))
            && let Some(over) = self.trains.pop_front()
        {
            over.recycle();
        }
        train.fetch();
        let Train { cells, cargo } = &mut *train;
        self.counts.received += cells.len() as u64;
        let mut rest = &cells[..];
        while let [cell, behind @ ..] = rest {
            let Cell { at, word } = *cell;
            rest = behind;
            let place = places.of(word.vc());
            let Some((place, end)) = place.and_then(|place| Some((place, ends.get_mut(usize::from(place))?)))
            else {
                self.counts.unknown += 1;
                unload(cargo, word, Why::NoRoute);
                continue;
            };
            end.received += 1;
            match word.kind() {
                Kind::Oam => self.counts.oam += 1,
                Kind::Rm => self.events.push_back(*cell),
                Kind::Data | Kind::Whole if end.buffer.is_some() => {
                    self.events.push_back(*cell);
                    self.cargo.extend(cargo.drain(..word.cargo().min(cargo.len())));
                }
                Kind::Data if word.is_middle() => {
                    let row = row(behind, *cell);
                    let (cells, behind) = behind.split_at(row);
                    rest = behind;
                    end.received += row as u64;
                    end.on_middles(settled, *cell, cells);
                }
                Kind::Data | Kind::Whole => {
                    end.on_mark(settled, *cell);
                    if let Some(outcome) = end.on_data(word, cargo) {
                        self.done.push_back(Done { at, place, outcome });
                    }
                }
            }
        }
        self.trains.push_back(train);
    }

    /// Returns the number of cells before `now`, and those in flight per channel.
    ///
    /// `places` has the index among `ends` for each VCI.
    pub(super) fn counts(&self, now: Time, places: &Places, ends: &[End]) -> (Counts, Vec<u64>) {
        let (mut counts, mut coming) = (self.counts, vec![0; ends.len()]);
        for Cell { word, .. } in self.coming(now) {
            counts.received -= 1;
            match places.of(word.vc()) {
                None => counts.unknown -= 1,
                Some(place) => {
                    coming[usize::from(place)] += 1;
                    counts.oam -= u64::from(word.kind() == Kind::Oam);
                }
            }
        }
        (counts, coming)
    }

    fn coming(&self, now: Time) -> impl Iterator<Item = &Cell> {
        self.trains
            .iter()
            .flat_map(move |train| &train.cells[train.cells.partition_point(|cell| cell.at < now)..])
    }
}

/// Returns the number of cells that continue the PDU of `before`.
#[inline]
fn row(cells: &[Cell], mut before: Cell) -> usize {
    let follows = |cell: &&Cell| cell.word.follows(std::mem::replace(&mut before, **cell).word);
    cells.iter().take_while(follows).count()
}

#[cfg(test)]
mod tests {
    use bentpipe_units::Rate;
    use bentpipe_wire::atm::rm;
    use proptest::prelude::*;

    use super::*;
    use crate::cell::{Vc, Word};
    use crate::{Channel, Content, Interface, Service, line, receive};

    /// Returns a host with three channels: packets, payloads, and packets for a slow host.
    fn interface() -> Interface {
        let rate = Rate::from_bps(155_520_000);
        let mut interface =
            Interface::new("line", &line::Config { rate, delay: Default::default() }).unwrap();
        let slow = receive::Config { rate, limit: 5, congested: None, explicit_rate: false };
        let packets = || Content::Packets(Default::default());
        for (n, (content, receive)) in
            [(packets(), None), (Content::Payloads, None), (packets(), Some(slow))].into_iter().enumerate()
        {
            let (path, vc) = (n.to_string(), Vc::new(Vc::FIRST.vci() + n as u16).unwrap());
            let service = Service::Ubr { pcr: None };
            interface.add(Channel { path, vc, service, content, limit: None, receive }).unwrap();
        }
        interface
    }

    /// Returns cells of four channels, one of them unknown, with their packets.
    ///
    /// They are a nanosecond or more apart: cells of PDUs of some length, with losses and errors, payloads,
    /// RM and OAM cells.
    fn cells(steps: &[(u64, u64, u64)]) -> (Vec<Cell>, VecDeque<Packet>) {
        let (mut nanos, mut places) = (0, [0_u64; 4]);
        let mut cargo = VecDeque::new();
        let cell = |&(wait, channel, what): &(u64, u64, u64)| {
            nanos += wait;
            let place = &mut places[channel as usize];
            *place += 1 + u64::from(what == 0);
            let vc = Vc::new(Vc::FIRST.vci() + channel as u16).unwrap();
            let [serial, index] = [*place / 7, *place % 7];
            let data = Word::data(vc, serial as u32, index as u16, index == 6);
            let word = match what {
                1 => Word::oam(vc),
                2 => Word::rm(vc, false, &rm::Repr::default()),
                3 => Word::whole(vc, false),
                4 => data.damaged(),
                5 => data.congested(),
                _ => data,
            };
            (0..word.cargo()).for_each(|_| cargo.push_back(Packet::new(8, 300)));
            Cell { at: Time::from_nanos(nanos), word }
        };
        let cells = steps.iter().map(cell).collect();
        (cells, cargo)
    }

    /// Returns a host after the announcement of these cells, in batches of `many`.
    fn told((cells, mut cargo): (Vec<Cell>, VecDeque<Packet>), many: usize) -> Interface {
        let mut host = interface();
        let Interface { arrivals, places, ends, .. } = &mut host;
        for cells in cells.chunks(many) {
            let count = cells.iter().map(|cell| cell.word.cargo()).sum::<usize>();
            let train = Train { cells: cells.to_vec(), cargo: cargo.drain(..count).collect() };
            arrivals.announce(Box::new(train), cells[0].at, cells[0].at, places, ends);
        }
        host
    }

    proptest! {
        #[test]
        fn it_makes_no_difference_how_many_cells_are_announced_at_a_time(
            steps in prop::collection::vec((1_u64..4, 0_u64..4, 0_u64..20), 0..200),
            many in 1_usize..60,
        ) {
            let seen = |many| {
                let Interface { arrivals, ends, .. } = told(cells(&steps), many);
                let Arrivals { events, cargo, done, counts, .. } = &arrivals;
                let received: Vec<u64> = ends.iter().map(|end| end.received).collect();
                format!("{events:?} {cargo:?} {done:?} {counts:?} {received:?}")
            };
            prop_assert_eq!(seen(1), seen(many));
        }

        #[test]
        fn a_cell_counts_from_when_it_comes(
            steps in prop::collection::vec((1_u64..4, 0_u64..4, 0_u64..20), 1..200),
            until in 0_u64..400,
        ) {
            let (until, all) = (Time::from_nanos(until), cells(&steps));
            let host = told(all.clone(), 200);
            let come: Vec<Word> = all.0.iter().filter(|cell| cell.at < until).map(|cell| cell.word).collect();
            let on = |vci: u16| come.iter().filter(move |word| word.vc().vci() == vci);
            let known = |vci: u16| vci < Vc::FIRST.vci() + 3;
            let expected = Counts {
                received: come.len() as u64,
                unknown: come.iter().filter(|word| !known(word.vc().vci())).count() as u64,
                oam: come.iter().filter(|word| known(word.vc().vci()) && word.kind() == Kind::Oam).count() as u64,
            };
            let (counts, coming) = host.arrivals.counts(until, &host.places, &host.ends);
            prop_assert_eq!(counts, expected);
            for (end, coming) in host.ends.iter().zip(coming) {
                prop_assert_eq!(end.received - coming, on(end.vc.vci()).count() as u64);
            }
        }
    }
}
