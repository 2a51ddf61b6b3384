//! Figures of one received stream.

use bentpipe_wire::rtp::{Numbers, Packet, Place};

/// A packet that came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival<'a> {
    pub(crate) rtp: Packet<&'a [u8]>,
    pub(crate) len: usize,
    pub(crate) at_ns: u64,
    /// Time of sending, where this machine sent it.
    pub(crate) sent_ns: Option<u64>,
}

/// Running mean, deviation and range (Welford's recurrence, which loses no digits).
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    count: u64,
    mean: f64,
    /// Sum of the squares of the distances from the mean.
    squares: f64,
    min: f64,
    max: f64,
}

impl Default for Moments {
    fn default() -> Moments {
        Moments { count: 0, mean: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Moments {
    /// Adds a number.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let off = value - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (value - self.mean);
        (self.min, self.max) = (self.min.min(value), self.max.max(value));
    }

    /// Returns the count of numbers.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the mean.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// Returns the population standard deviation.
    pub fn deviation(&self) -> Option<f64> {
        (self.count > 0).then(|| (self.squares / self.count as f64).sqrt())
    }

    /// The smallest and the largest.
    pub fn range(&self) -> Option<(f64, f64)> {
        (self.count > 0).then_some((self.min, self.max))
    }
}

/// Figures of one stream. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Packets that came, duplicates among them.
    pub packets: u64,
    /// Bytes of RTP, headers and payloads, that came.
    pub bytes: u64,
    /// Packets with a number that was there before.
    pub duplicates: u64,
    /// Packets with a number below one that came before (RFC 4737, section 3).
    pub reordered: u64,
    /// Packets with the marker bit.
    pub markers: u64,
    /// The payload type of the last packet.
    pub payload_type: u8,
    /// Times between arrivals. Ang, Sarwar and Wan have their mean as equation 4, their deviation as 5.
    pub intervals: Moments,
    /// Delays, one way, of packets sent by this machine.
    pub delay: Moments,
    /// Arrival of the first and last packet, since 1970.
    pub span_ns: (u64, u64),
    numbers: Numbers,
    jitter_ns: f64,
    /// The last packet's time stamp and arrival.
    last: (u32, u64),
}

impl Figures {
    /// A stream of which the first packet came.
    pub(crate) fn begin(arrival: &Arrival<'_>) -> Figures {
        let rtp = arrival.rtp;
        let mut figures = Figures {
            packets: 0,
            bytes: 0,
            duplicates: 0,
            reordered: 0,
            markers: 0,
            payload_type: rtp.payload_type(),
            intervals: Moments::default(),
            delay: Moments::default(),
            span_ns: (arrival.at_ns, arrival.at_ns),
            numbers: Numbers::begin_at(rtp.seq(), rtp.timestamp()),
            jitter_ns: 0.0,
            last: (rtp.timestamp(), arrival.at_ns),
        };
        figures.count(arrival);
        figures
    }

    /// Another packet came. `clock_hz` is the rate of its timestamps, if that is known.
    pub(crate) fn take(&mut self, arrival: &Arrival<'_>, clock_hz: Option<u32>) {
        match self.numbers.take_at(arrival.rtp.seq(), arrival.rtp.timestamp()) {
            Place::Ahead(_) | Place::Restart | Place::Outage(_) => {}
            Place::Late(_) => self.reordered += 1,
            Place::Duplicate => self.duplicates += 1,
            // Where its source means to be is not known yet.
            Place::Jump => return self.count(arrival),
        }
        let interval = difference(arrival.at_ns, self.last.1);
        self.intervals.add(interval);
        if let Some(clock_hz) = clock_hz {
            let stamped = f64::from(arrival.rtp.timestamp().wrapping_sub(self.last.0) as i32);
            let transit = interval - stamped * 1e9 / f64::from(clock_hz);
            // RFC 3550, section 6.4.1 (equations 1 to 3 of Ang, Sarwar and Wan).
            self.jitter_ns += (transit.abs() - self.jitter_ns) / 16.0;
        }
        self.last = (arrival.rtp.timestamp(), arrival.at_ns);
        self.span_ns.1 = arrival.at_ns;
        self.count(arrival);
    }

    fn count(&mut self, arrival: &Arrival<'_>) {
        self.packets += 1;
        self.bytes += arrival.len as u64;
        self.markers += u64::from(arrival.rtp.marker());
        self.payload_type = arrival.rtp.payload_type();
        if let Some(sent_ns) = arrival.sent_ns {
            self.delay.add(difference(arrival.at_ns, sent_ns));
        }
    }

    /// Returns the number of packets sent from the first to the last received.
    pub fn expected(&self) -> u64 {
        self.numbers.expected()
    }

    /// Returns the number of those that were not received.
    pub fn lost(&self) -> u64 {
        self.numbers.lost()
    }

    /// Returns the number of packets with isolated sequence numbers.
    pub fn strays(&self) -> u64 {
        self.numbers.strays()
    }

    /// Returns the number of restarts of the source.
    pub fn restarts(&self) -> u64 {
        self.numbers.restarts()
    }

    /// Returns the mean time between arrivals (equation 4 of Ang, Sarwar and Wan).
    pub fn mean_interval_ns(&self) -> Option<f64> {
        self.intervals.mean()
    }

    /// Returns the deviation of the time between arrivals (their equation 5).
    pub fn interval_deviation_ns(&self) -> Option<f64> {
        self.intervals.deviation()
    }

    /// Returns the interarrival jitter after the last packet (RFC 3550, 6.4.1). `None` without a known clock rate.
    pub fn jitter_ns(&self, clock_hz: Option<u32>) -> Option<f64> {
        clock_hz.filter(|_| self.intervals.count() > 0).map(|_| self.jitter_ns)
    }
}

/// Later less earlier, which a clock that was set back makes negative.
fn difference(later: u64, earlier: u64) -> f64 {
    (later as i64).wrapping_sub(earlier as i64) as f64
}
