//! Trains of copies that devices with low-power listening send and receive.

use bentpipe_units::{RandomStream, Time};

use super::super::listening::Train;
use super::super::phy;
use super::{Burst, Cell, Outcome, Step};

impl Cell {
    /// Starts to repeat the front frame of a device.
    pub(super) fn start_train(&mut self, number: u16, now: Time) {
        let Some(listen) = self.mac.listen else { return };
        let copy = phy::airtime(self.frame_len(number));
        let to = self.front(number).and_then(|frame| frame.to);
        let gap = if to.is_some() { phy::ACK_WAIT } else { phy::TURNAROUND };
        let period = copy + gap;
        self.trains = self.trains.wrapping_add(1);
        let train = Train { number: self.trains, start: now, copy, period, count: listen.copies(period) };
        self.devices[usize::from(number)].train = Some(train);
        let end = train.end_of(train.count - 1);
        self.air.push_back(Burst { from: number, start: now, end, train: Some(train) });
        self.schedule(end + gap, number, Step::TrainEnd(train.number));
        match to {
            Some(to) => self.listen_for(number, to, train, now),
            None => {
                for n in 0..self.neighbours[usize::from(number)].len() {
                    let to = self.neighbours[usize::from(number)][n];
                    self.listen_for(number, to, train, now);
                }
            }
        }
    }

    /// Schedules the first copy that a device can receive from an instant on.
    pub(super) fn listen_for(&mut self, from: u16, to: u16, train: Train, now: Time) {
        let at = self.on_from(to, now);
        if let Some(copy) = train.copy_from(at) {
            self.schedule(train.end_of(copy), from, Step::Copy(train.number, to));
        }
    }

    /// Returns the instant from which a device listens to a busy channel.
    fn on_from(&self, number: u16, now: Time) -> Time {
        match (self.devices[usize::from(number)].awake, self.mac.listen) {
            (None, Some(listen)) => listen.wake_up(number, now).max(now),
            _ => now,
        }
    }

    /// Handles the end of a copy at a device that listens. If it is lost, the device listens for the next one.
    pub(super) fn end_copy(
        &mut self,
        number: u16,
        to: u16,
        train: u32,
        now: Time,
        stream: &mut RandomStream,
    ) {
        let device = &self.devices[usize::from(number)];
        let Some(train) = device.train.filter(|other| other.number == train) else { return };
        let Some(frame) = device.queue.front().cloned() else { return };
        let is_duplicate = device.is_delivered;
        let copy = train.copy_until(now);
        let interval = (train.start_of(copy), now);
        if !self.is_received((number, to), interval, self.frame_len(number), stream) {
            if copy + 1 < train.count {
                self.schedule(train.end_of(copy + 1), number, Step::Copy(train.number, to));
            }
            return;
        }
        if frame.to.is_none() {
            return self.deliver(to, number, &frame);
        }
        let device = &mut self.devices[usize::from(number)];
        (device.is_delivered, device.ended) = (true, now);
        if !is_duplicate {
            self.deliver(to, number, &frame);
        }
        self.send_ack(to, number, now);
    }

    /// Ends a train whose last copy has left.
    pub(super) fn end_train(&mut self, number: u16, train: u32, now: Time, stream: &mut RandomStream) {
        let device = &self.devices[usize::from(number)];
        let Some(train) = device.train.filter(|other| other.number == train) else { return };
        let is_acknowledged = device.queue.front().is_some_and(|frame| frame.to.is_some());
        let len = self.frame_len(number);
        self.close_train(number, train, train.count, now);
        if is_acknowledged {
            return self.time_out(number, now, stream);
        }
        self.finish(number, Outcome::Sent, now, now + phy::spacing(len), stream);
    }

    /// Counts the copies of a train that is over, and the time awake for it.
    pub(super) fn close_train(&mut self, number: u16, train: Train, copies: u32, now: Time) {
        let Some(listen) = self.mac.listen else { return };
        let len = self.frame_len(number) + phy::HEADER_LEN;
        self.counts.frames += u64::from(copies);
        self.counts.bytes += len as u64 * u64::from(copies);
        let end = train.end_of(copies - 1);
        if let Some(burst) = self.air.iter_mut().rev().find(|burst| burst.train == Some(train)) {
            burst.end = end;
        }
        (0..copies).for_each(|copy| self.note_frame(number, train.start_of(copy)));
        let to = self.front(number).and_then(|frame| frame.to);
        let device = &mut self.devices[usize::from(number)];
        device.train = None;
        device.sending += train.copy * u64::from(copies);
        if device.awake.is_none() {
            let began = Time::from_nanos(
                train.start.as_nanos().saturating_sub((listen.check + phy::TURNAROUND).as_nanos()),
            );
            let looks = listen.looks_until(number, now) - listen.looks_until(number, began);
            device.roused += (now - began) - looks;
        }
        for n in 0..self.neighbours[usize::from(number)].len() {
            let other = self.neighbours[usize::from(number)][n];
            if self.devices[usize::from(other)].awake.is_some() {
                continue;
            }
            let mut wake = listen.wake_up(other, train.start);
            while wake < end {
                let whole = train.copy_from(wake.max(train.start)).filter(|copy| *copy < copies);
                let until = match whole {
                    _ if to == Some(other) => now,
                    Some(copy) => train.end_of(copy),
                    None => end,
                };
                self.devices[usize::from(other)].roused += (until - wake) - listen.check;
                wake += listen.interval;
            }
        }
    }
}
