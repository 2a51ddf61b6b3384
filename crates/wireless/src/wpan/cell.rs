//! Devices on a channel, and the events of their frames.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use bentpipe_units::{RandomStream, Span, Time};

use super::{Links, Mac, Radio, phy};

/// Maximum number of frames that wait at a device.
const QUEUE: usize = 128;
/// Time for which transmissions are kept: longer than any frame with its acknowledgement.
const KEPT: Span = Span::from_millis(6);
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
    /// Data frames on the air, with retransmissions.
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
}

#[derive(Clone, Debug)]
struct Device {
    queue: VecDeque<Sending>,
    /// Set while a frame is being sent.
    is_active: bool,
    backoffs: u8,
    exponent: u8,
    tries: u8,
    /// Set once the receiver has the frame, so that copies of it are duplicates.
    is_delivered: bool,
    started: Time,
    ended: Time,
    /// Interval from the reception of a frame to the end of its acknowledgement.
    acking: (Time, Time),
    awake: Option<Time>,
    awake_before: Span,
    sending: Span,
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
    air: VecDeque<Burst>,
    events: VecDeque<Event>,
    counts: Counts,
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
            tries: 0,
            is_delivered: false,
            started: Time::ZERO,
            ended: Time::ZERO,
            acking: (Time::ZERO, Time::ZERO),
            awake: Some(Time::ZERO),
            awake_before: Span::ZERO,
            sending: Span::ZERO,
        };
        Cell {
            mac,
            neighbours: (0..count).map(of).collect(),
            links,
            devices: vec![device; count],
            agenda: BinaryHeap::new(),
            steps: 0,
            air: VecDeque::new(),
            events: VecDeque::new(),
            counts: Counts::default(),
        }
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
    pub fn usage(&self, device: u16, now: Time) -> Usage {
        let device = &self.devices[usize::from(device)];
        let awake = device.awake_before + device.awake.map_or(Span::ZERO, |since| now - since);
        let sending = device.sending.min(awake);
        Usage { sending, listening: awake - sending, asleep: now.since(Time::ZERO) - awake }
    }

    /// Switches a device's radio on or off. A device that is off receives nothing; it is on to send.
    pub fn set_awake(&mut self, device: u16, is_awake: bool, now: Time) {
        let device = &mut self.devices[usize::from(device)];
        match (device.awake, is_awake) {
            (None, true) => device.awake = Some(now),
            (Some(since), false) => {
                device.awake_before += now - since;
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
        let units = (stream.unit() * f64::from(1_u32 << exponent)) as u64;
        self.schedule(now + phy::BACKOFF * units + phy::CCA, number, Step::Assess);
    }

    fn assess(&mut self, number: u16, now: Time, stream: &mut RandomStream) {
        let from = Time::from_nanos(now.as_nanos().saturating_sub(phy::CCA.as_nanos()));
        if !self.is_busy(number, from, now) {
            return self.schedule(now + phy::TURNAROUND, number, Step::Start);
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
            burst.start < to
                && burst.end > from
                && self.links.is_audible(usize::from(burst.from), usize::from(number))
        };
        (start < to && end > from) || self.air.iter().any(is_sensed)
    }

    fn start(&mut self, number: u16, now: Time) {
        let frame = self.frame_len(number);
        let end = now + phy::airtime(frame);
        let device = &mut self.devices[usize::from(number)];
        (device.started, device.ended) = (now, end);
        device.sending += end - now;
        self.counts.frames += 1;
        self.counts.bytes += (frame + phy::HEADER_LEN) as u64;
        self.air.push_back(Burst { from: number, start: now, end });
        self.schedule(end, number, Step::End);
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
                if self.is_received((number, to), (start, now), len, stream) {
                    self.deliver(to, number, &frame);
                }
            }
            return self.finish(number, Outcome::Sent, now, now + phy::spacing(len), stream);
        };
        if !self.is_received((number, to), (start, now), len, stream) {
            return self.schedule(now + phy::ACK_WAIT, number, Step::Timeout);
        }
        if !is_duplicate {
            self.devices[usize::from(number)].is_delivered = true;
            self.deliver(to, number, &frame);
        }
        let (start, end) = ack_interval(now);
        let receiver = &mut self.devices[usize::from(to)];
        receiver.acking = (now, end);
        receiver.sending += end - start;
        self.counts.acks += 1;
        self.air.push_back(Burst { from: to, start, end });
        self.schedule(end, number, Step::Acknowledge);
    }

    fn deliver(&mut self, at: u16, from: u16, frame: &Sending) {
        self.counts.delivered += 1;
        self.events.push_back(Event::Received { at, from, payload: frame.payload.clone() });
    }

    /// Returns `true` if a transmission arrives.
    ///
    /// Its receiver is awake and silent, nothing else overlaps, and no bit is wrong.
    fn is_received(
        &mut self,
        (from, to): (u16, u16),
        (start, end): (Time, Time),
        len: usize,
        stream: &mut RandomStream,
    ) -> bool {
        if self.devices[usize::from(to)].awake.is_none_or(|since| since > start) {
            return false;
        }
        let collides = |burst: &Burst| {
            burst.start < end
                && burst.end > start
                && burst.from != from
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
        if self.is_received((to, number), ack_interval(ended), phy::ACK_LEN, stream) {
            let spacing = phy::spacing(self.frame_len(number));
            return self.finish(number, Outcome::Sent, now, now + spacing, stream);
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

/// Returns the interval of the acknowledgement of a frame that ended at `end`.
fn ack_interval(end: Time) -> (Time, Time) {
    let start = end + phy::TURNAROUND;
    (start, start + phy::airtime(phy::ACK_LEN))
}
