//! Devices on a channel, and the events of their frames.

mod train;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use bentpipe_units::{RandomStream, Span, Time};

use super::listening::Train;
use super::{AirLog, Links, Mac, Radio, phy, superframe};

/// Maximum number of frames that wait at a device.
const QUEUE: usize = 128;
/// Time for which transmissions are kept: longer than any frame with its acknowledgement.
const KEPT: Span = Span::from_millis(6);
/// Assessments that find the channel idle before a frame, with slots (CW).
const WINDOW: u8 = 2;
/// Bytes of a data frame without payload: header with short addresses, FCS.
pub(super) const OVERHEAD: usize = 11;

/// Frame that a device sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sending {
    /// Receiver; `None` for all devices, without acknowledgement.
    pub to: Option<u16>,
    /// Payload of the MAC frame, at most 116 B.
    pub payload: Arc<[u8]>,
    /// Number of the sender's choice, returned with the outcome.
    pub token: u32,
    /// Set if the receivers may be asleep.
    ///
    /// With low-power listening the frame is repeated until they are awake.
    pub wakes: bool,
}

/// End of a frame at its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged, or sent to all.
    Sent,
    /// No acknowledgement after all retransmissions.
    Unacknowledged,
    /// Channel busy at all attempts.
    AccessFailure,
    /// Queue full.
    Refused,
}

/// Event for the layer above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A device received a frame.
    Received {
        /// Receiver.
        at: u16,
        /// Sender.
        from: u16,
        /// Payload.
        payload: Arc<[u8]>,
    },
    /// A device is done with a frame.
    Done {
        /// Sender.
        at: u16,
        /// Number of the frame.
        token: u32,
        /// Result.
        outcome: Outcome,
    },
}

/// Event counts of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Data frames on the air, with retransmissions and the copies of low-power listening.
    pub frames: u64,
    /// Bytes of data frames on the air, with PHY headers.
    pub bytes: u64,
    /// Acknowledgements on the air.
    pub acks: u64,
    /// Frames delivered to a receiver that they were addressed to.
    pub delivered: u64,
    /// Receptions destroyed by another transmission.
    pub collided: u64,
    /// Receptions with bit errors.
    pub corrupted: u64,
    /// Assessments that found the channel busy.
    pub busy: u64,
    /// Frames given up because the channel was busy at all attempts.
    pub access_failures: u64,
    /// Frames given up without acknowledgement.
    pub unacknowledged: u64,
    /// Frames refused by a full queue.
    pub refused: u64,
}

/// Time of a device's radio in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time sending.
    pub sending: Span,
    /// Time listening or receiving.
    pub listening: Span,
    /// Time asleep.
    pub asleep: Span,
}

impl Usage {
    /// Returns the energy in joules.
    pub fn joules(&self, radio: &Radio) -> f64 {
        let of = |span: Span, milliamperes: f64| span.as_secs_f64() * milliamperes / 1000.0 * radio.volts;
        of(self.sending, radio.sending) + of(self.listening, radio.listening) + of(self.asleep, radio.asleep)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// A device ends its assessment of the channel.
    Assess,
    /// A device starts to send.
    Start,
    /// A frame has left.
    End,
    /// A copy of a train has arrived: number of the train, and receiver.
    Copy(u32, u16),
    /// The last copy of a train has left, and would have been acknowledged.
    TrainEnd(u32),
    /// The acknowledgement of a device's frame has arrived.
    Acknowledge,
    /// A device has waited for an acknowledgement in vain.
    Timeout,
    /// A device is free for its next frame.
    Free,
}

/// Transmission on the air.
#[derive(Clone, Copy, Debug)]
struct Burst {
    from: u16,
    start: Time,
    end: Time,
    /// Copies of the frame, if it is repeated.
    train: Option<Train>,
}

impl Burst {
    /// Returns `true` if something is on the air in an interval.
    fn overlaps(&self, from: Time, to: Time) -> bool {
        let is_near = self.start < to && self.end > from;
        is_near
            && self.train.is_none_or(|train| {
                let since = from.since(self.start + train.copy);
                let copy = if from < self.start + train.copy {
                    0
                } else {
                    since.as_nanos() / train.period.as_nanos() + 1
                };
                let start = self.start + train.period * copy;
                start < to && start < self.end
            })
    }
}

#[derive(Clone, Debug)]
struct Device {
    queue: VecDeque<Sending>,
    /// Set while a frame is being sent.
    is_active: bool,
    backoffs: u8,
    exponent: u8,
    /// Assessments that are still to find the channel idle, with slots.
    window: u8,
    tries: u8,
    /// Sequence number of the frame.
    sequence: u8,
    /// Set once the receiver has the frame, so that copies of it are duplicates.
    is_delivered: bool,
    started: Time,
    ended: Time,
    /// Interval from the reception of a frame to the end of its acknowledgement.
    acking: (Time, Time),
    awake: Option<Time>,
    awake_before: Span,
    /// Time of looks at the channel before the device was last switched off.
    looked_before: Span,
    sending: Span,
    /// Copies that are being sent.
    train: Option<Train>,
    /// Time awake for frames, in addition to looks at the channel.
    roused: Span,
}

/// Devices that share a channel.
#[derive(Debug)]
pub struct Cell {
    mac: Mac,
    links: Links,
    neighbours: Vec<Vec<u16>>,
    devices: Vec<Device>,
    agenda: BinaryHeap<Reverse<(Time, u64, u16, Step)>>,
    steps: u64,
    trains: u32,
    air: VecDeque<Burst>,
    events: VecDeque<Event>,
    counts: Counts,
    log: Option<AirLog>,
}

impl Cell {
    /// Creates devices that are all awake.
    pub fn new(mac: Mac, links: Links) -> Cell {
        let count = links.devices();
        let of =
            |from: usize| (0..count).filter(|to| links.is_audible(from, *to)).map(|to| to as u16).collect();
        let device = Device {
            queue: VecDeque::new(),
            is_active: false,
            backoffs: 0,
            exponent: 0,
            window: 0,
            tries: 0,
            sequence: 0,
            is_delivered: false,
            started: Time::ZERO,
            ended: Time::ZERO,
            acking: (Time::ZERO, Time::ZERO),
            awake: Some(Time::ZERO),
            awake_before: Span::ZERO,
            looked_before: Span::ZERO,
            sending: Span::ZERO,
            train: None,
            roused: Span::ZERO,
        };
        Cell {
            mac,
            neighbours: (0..count).map(of).collect(),
            links,
            devices: vec![device; count],
            agenda: BinaryHeap::new(),
            steps: 0,
            trains: 0,
            air: VecDeque::new(),
            events: VecDeque::new(),
            counts: Counts::default(),
            log: None,
        }
    }

    /// Notes frames from here on in a log.
    pub fn record(&mut self, log: AirLog) {
        self.log = Some(log);
    }

    /// Returns the event counts.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the links.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Returns the devices that sense a device.
    pub fn neighbours(&self, device: u16) -> &[u16] {
        &self.neighbours[usize::from(device)]
    }

    /// Returns the number of frames that a device has not ended.
    pub fn waiting(&self, device: u16) -> usize {
        self.devices[usize::from(device)].queue.len()
    }

    /// Returns the time of a device's radio in each state.
    pub fn usage(&self, number: u16, now: Time) -> Usage {
        let device = &self.devices[usize::from(number)];
        let mut awake = device.awake_before + device.roused;
        match (device.awake, self.mac.listen) {
            (Some(since), _) => awake += self.on_time(since, now),
            (None, Some(listen)) => awake += listen.looks_until(number, now) - device.looked_before,
            (None, None) => {}
        }
        let beacons = self.mac.superframe.filter(|_| number == 0).map_or(Span::ZERO, |it| it.beacons(now));
        let whole = now.since(Time::ZERO);
        let awake = awake.min(whole);
        let sending = (device.sending + beacons).min(awake);
        Usage { sending, listening: awake - sending, asleep: whole - awake }
    }

    /// Returns the time for which a radio that is awake is on.
    fn on_time(&self, from: Time, to: Time) -> Span {
        match self.mac.superframe {
            Some(superframe) => superframe.active_until(to) - superframe.active_until(from),
            None => to - from,
        }
    }

    /// Switches a device's radio on or off.
    ///
    /// A device that is off receives nothing; it is on to send. With low-power listening it still looks at the channel, and
    /// receives frames of senders that know it.
    pub fn set_awake(&mut self, number: u16, is_awake: bool, now: Time) {
        let looks = self.mac.listen.map_or(Span::ZERO, |listen| listen.looks_until(number, now));
        let device = &self.devices[usize::from(number)];
        let on = device.awake.map_or(Span::ZERO, |since| self.on_time(since, now));
        let device = &mut self.devices[usize::from(number)];
        match (device.awake, is_awake) {
            (None, true) => {
                device.awake_before += looks - device.looked_before;
                device.awake = Some(now);
            }
            (Some(_), false) => {
                device.awake_before += on;
                device.looked_before = looks;
                device.awake = None;
            }
            _ => {}
        }
    }

    /// Queues a frame at a device.
    pub fn send(&mut self, from: u16, frame: Sending, now: Time, stream: &mut RandomStream) {
        let device = &mut self.devices[usize::from(from)];
        if device.queue.len() >= QUEUE {
            self.counts.refused += 1;
            self.events.push_back(Event::Done { at: from, token: frame.token, outcome: Outcome::Refused });
            return;
        }
        device.queue.push_back(frame);
        if !device.is_active {
            self.next_frame(from, now, stream);
        }
    }

    /// Returns the instant of the next step.
    pub fn next_step(&self) -> Time {
        self.agenda.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at)
    }

    /// Removes and returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Handles the next step, if there is one, and returns its instant.
    pub fn step(&mut self, stream: &mut RandomStream) -> Option<Time> {
        let Reverse((now, _, device, step)) = self.agenda.pop()?;
        while self.air.front().is_some_and(|burst| burst.end + KEPT < now) {
            self.air.pop_front();
        }
        match step {
            Step::Assess => self.assess(device, now, stream),
            Step::Start => self.start(device, now),
            Step::End => self.end(device, now, stream),
            Step::Copy(train, to) => self.end_copy(device, to, train, now, stream),
            Step::TrainEnd(train) => self.end_train(device, train, now, stream),
            Step::Acknowledge => self.acknowledge(device, now, stream),
            Step::Timeout => self.time_out(device, now, stream),
            Step::Free => self.next_frame(device, now, stream),
        }
        Some(now)
    }

    fn schedule(&mut self, at: Time, device: u16, step: Step) {
        self.steps += 1;
        self.agenda.push(Reverse((at, self.steps, device, step)));
    }

    fn next_frame(&mut self, number: u16, now: Time, stream: &mut RandomStream) {
        let device = &mut self.devices[usize::from(number)];
        device.is_active = !device.queue.is_empty();
        (device.tries, device.is_delivered) = (0, false);
        device.sequence = device.sequence.wrapping_add(1);
        if device.is_active {
            self.contend(number, now, stream);
        }
    }

    /// Starts CSMA-CA.
    fn contend(&mut self, number: u16, now: Time, stream: &mut RandomStream) {
        let device = &mut self.devices[usize::from(number)];
        (device.backoffs, device.exponent) = (0, self.mac.min_exponent);
        self.back_off(number, now, stream);
    }

    fn back_off(&mut self, number: u16, now: Time, stream: &mut RandomStream) {
        let exponent = self.devices[usize::from(number)].exponent;
        let mut units = || (stream.unit() * f64::from(1_u32 << exponent)) as u64;
        let Some(superframe) = self.mac.superframe else {
            let at = now + phy::BACKOFF * units() + self.assessment(number);
            return self.schedule(at, number, Step::Assess);
        };
        let transaction = self.transaction(number);
        let mut at = superframe.back_off(now, units());
        while let Some(next) = superframe.postponed(at, transaction) {
            at = superframe.back_off(next, units());
        }
        self.devices[usize::from(number)].window = WINDOW;
        self.schedule(at + phy::CCA, number, Step::Assess);
    }

    /// Returns the time of a transaction in slots: assessments, frame, acknowledgement and spacing.
    fn transaction(&self, number: u16) -> Span {
        let len = self.frame_len(number);
        let is_acknowledged = self.front(number).is_some_and(|frame| frame.to.is_some());
        let ack = phy::TURNAROUND + phy::BACKOFF + phy::airtime(phy::ACK_LEN);
        let ack = if is_acknowledged { ack } else { Span::ZERO };
        phy::BACKOFF * u64::from(WINDOW) + phy::airtime(len) + ack + phy::spacing(len)
    }

    fn front(&self, number: u16) -> Option<&Sending> {
        self.devices[usize::from(number)].queue.front()
    }

    /// Returns the time for which a device looks at the channel before its frame.
    ///
    /// A look that is longer than the gaps of trains finds them.
    fn assessment(&self, number: u16) -> Span {
        let wakes = self.front(number).is_some_and(|frame| frame.wakes);
        self.mac.listen.filter(|_| wakes).map_or(phy::CCA, |listen| listen.check)
    }

    fn assess(&mut self, number: u16, now: Time, stream: &mut RandomStream) {
        let look = self.assessment(number).as_nanos();
        let from = Time::from_nanos(now.as_nanos().saturating_sub(look));
        if !self.is_busy(number, from, now) {
            let device = &mut self.devices[usize::from(number)];
            device.window = device.window.saturating_sub(1);
            return match device.window {
                0 => self.schedule(now + phy::TURNAROUND, number, Step::Start),
                _ => self.schedule(now + phy::BACKOFF, number, Step::Assess),
            };
        }
        self.counts.busy += 1;
        let device = &mut self.devices[usize::from(number)];
        device.backoffs += 1;
        device.exponent = (device.exponent + 1).min(self.mac.max_exponent);
        if device.backoffs > self.mac.backoffs {
            self.counts.access_failures += 1;
            return self.finish(number, Outcome::AccessFailure, now, now, stream);
        }
        self.back_off(number, now, stream);
    }

    /// Returns `true` if a device senses a transmission or sends an acknowledgement in an interval.
    fn is_busy(&self, number: u16, from: Time, to: Time) -> bool {
        let (start, end) = self.devices[usize::from(number)].acking;
        let is_sensed = |burst: &Burst| {
            burst.overlaps(from, to) && self.links.is_audible(usize::from(burst.from), usize::from(number))
        };
        (start < to && end > from) || self.air.iter().any(is_sensed)
    }

    fn start(&mut self, number: u16, now: Time) {
        if self.mac.listen.is_some() && self.front(number).is_some_and(|frame| frame.wakes) {
            return self.start_train(number, now);
        }
        let frame = self.frame_len(number);
        let end = now + phy::airtime(frame);
        let device = &mut self.devices[usize::from(number)];
        (device.started, device.ended) = (now, end);
        device.sending += end - now;
        self.counts.frames += 1;
        self.counts.bytes += (frame + phy::HEADER_LEN) as u64;
        self.air.push_back(Burst { from: number, start: now, end, train: None });
        self.schedule(end, number, Step::End);
        self.note_frame(number, now);
    }

    /// Notes the front frame of a device in the log, if there is one.
    fn note_frame(&self, number: u16, at: Time) {
        if let (Some(log), Some(frame)) = (&self.log, self.front(number)) {
            let sequence = self.devices[usize::from(number)].sequence;
            log.add_data(at, (number, frame.to), sequence, &frame.payload);
        }
    }

    fn frame_len(&self, number: u16) -> usize {
        self.devices[usize::from(number)].queue.front().map_or(0, |frame| frame.payload.len() + OVERHEAD)
    }

    fn end(&mut self, number: u16, now: Time, stream: &mut RandomStream) {
        let device = &self.devices[usize::from(number)];
        let Some(frame) = device.queue.front().cloned() else { return };
        let (start, is_duplicate) = (device.started, device.is_delivered);
        let len = self.frame_len(number);
        let Some(to) = frame.to else {
            for n in 0..self.neighbours[usize::from(number)].len() {
                let to = self.neighbours[usize::from(number)][n];
                if self.is_on(to, start) && self.is_received((number, to), (start, now), len, stream) {
                    self.deliver(to, number, &frame);
                }
            }
            return self.finish(number, Outcome::Sent, now, now + phy::spacing(len), stream);
        };
        if !self.is_on(to, start) || !self.is_received((number, to), (start, now), len, stream) {
            return self.schedule(now + phy::ACK_WAIT, number, Step::Timeout);
        }
        if !is_duplicate {
            self.devices[usize::from(number)].is_delivered = true;
            self.deliver(to, number, &frame);
        }
        self.send_ack(to, number, now);
    }

    /// Sends the acknowledgement of a frame that has just arrived.
    fn send_ack(&mut self, from: u16, to: u16, now: Time) {
        let (start, end) = self.ack_interval(now);
        let receiver = &mut self.devices[usize::from(from)];
        receiver.acking = (now, end);
        receiver.sending += end - start;
        self.counts.acks += 1;
        self.air.push_back(Burst { from, start, end, train: None });
        self.schedule(end, to, Step::Acknowledge);
        if let Some(log) = &self.log {
            log.add_ack(start, self.devices[usize::from(to)].sequence);
        }
    }

    /// Returns the interval of the acknowledgement of a frame that ended at `end`. With slots it starts on a boundary.
    fn ack_interval(&self, end: Time) -> (Time, Time) {
        let start = end + phy::TURNAROUND;
        let start = if self.mac.superframe.is_some() { superframe::boundary(start) } else { start };
        (start, start + phy::airtime(phy::ACK_LEN))
    }

    fn deliver(&mut self, at: u16, from: u16, frame: &Sending) {
        self.counts.delivered += 1;
        self.events.push_back(Event::Received { at, from, payload: frame.payload.clone() });
    }

    /// Returns `true` if a device has been awake since an instant.
    fn is_on(&self, number: u16, since: Time) -> bool {
        self.devices[usize::from(number)].awake.is_some_and(|start| start <= since)
    }

    /// Returns `true` if a transmission arrives at a device that listens.
    ///
    /// The receiver is silent, nothing else overlaps, and no bit is wrong.
    fn is_received(
        &mut self,
        (from, to): (u16, u16),
        (start, end): (Time, Time),
        len: usize,
        stream: &mut RandomStream,
    ) -> bool {
        let collides = |burst: &Burst| {
            burst.from != from
                && burst.overlaps(start, end)
                && (burst.from == to || self.links.is_audible(usize::from(burst.from), usize::from(to)))
        };
        if self.air.iter().any(collides) {
            self.counts.collided += 1;
            return false;
        }
        let is_whole = stream.chance(self.links.success(usize::from(from), usize::from(to), len));
        self.counts.corrupted += u64::from(!is_whole);
        is_whole
    }

    fn acknowledge(&mut self, number: u16, now: Time, stream: &mut RandomStream) {
        let device = &self.devices[usize::from(number)];
        let (ended, to) = (device.ended, device.queue.front().and_then(|frame| frame.to));
        let Some(to) = to else { return };
        let (start, end) = self.ack_interval(ended);
        let train = device.train;
        let is_on = train.is_some() || self.is_on(number, start);
        if is_on && self.is_received((to, number), (start, end), phy::ACK_LEN, stream) {
            let spacing = phy::spacing(self.frame_len(number));
            if let Some(train) = train {
                self.close_train(number, train, train.copy_until(ended) + 1, now);
            }
            return self.finish(number, Outcome::Sent, now, now + spacing, stream);
        }
        if let Some(train) = train {
            return self.listen_for(number, to, train, now);
        }
        self.schedule(ended + phy::ACK_WAIT, number, Step::Timeout);
    }

    fn time_out(&mut self, number: u16, now: Time, stream: &mut RandomStream) {
        let device = &mut self.devices[usize::from(number)];
        device.tries += 1;
        if device.tries > self.mac.retries {
            self.counts.unacknowledged += 1;
            return self.finish(number, Outcome::Unacknowledged, now, now, stream);
        }
        self.contend(number, now, stream);
    }

    /// Removes the frame of a device, which is free for the next one at `free`.
    fn finish(&mut self, number: u16, outcome: Outcome, now: Time, free: Time, stream: &mut RandomStream) {
        let device = &mut self.devices[usize::from(number)];
        let Some(frame) = device.queue.pop_front() else { return };
        self.events.push_back(Event::Done { at: number, token: frame.token, outcome });
        if free > now {
            self.schedule(free, number, Step::Free);
        } else {
            self.next_frame(number, now, stream);
        }
    }
}
