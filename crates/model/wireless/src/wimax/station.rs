//! Subscriber station: radio with fading and profiles, and the processor that forwards packets.

use std::collections::VecDeque;

use bentpipe_net::{Packet, Why};
use bentpipe_units::{RandomStream, Span, Time};

use super::config::{Fading, Radio};
use super::phy::Profile;

/// Direction of a station's radio.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direction {
    /// Mean SNR in dB.
    pub(super) mean: f64,
    /// Burst profile.
    pub(super) profile: Profile,
    /// Probability that a block of the profile is lost in this frame.
    pub(super) loss: f64,
    /// Averaged SNR, by which profiles are chosen.
    average: f64,
    fixed: bool,
}

impl Direction {
    fn new(mean: f64, profile: Option<Profile>, margins: [f64; 2]) -> Direction {
        let chosen = profile.unwrap_or_else(|| Profile::fastest(mean, margins[0]));
        let loss = chosen.block_error(mean);
        Direction { mean, profile: chosen, loss, average: mean, fixed: profile.is_some() }
    }

    /// Follows the SNR of a frame.
    fn follow(&mut self, fade: f64, margins: [f64; 2]) {
        /// Weight of a frame in the average.
        const WEIGHT: f64 = 0.1;
        let snr = self.mean + fade;
        self.average += WEIGHT * (snr - self.average);
        if !self.fixed {
            self.profile = self.profile.follow(self.average, margins);
        }
        self.loss = self.profile.block_error(snr);
    }
}

/// Scattered part of a fading channel: complex, in steps of a frame.
#[derive(Clone, Copy, Debug)]
struct Scatter {
    k: f64,
    memory: f64,
    state: Option<(f64, f64)>,
}

impl Scatter {
    fn new(config: &Fading, frame: Span) -> Scatter {
        // First order, with a correlation of a half at the lag of 1.52 / (2 pi f) of Jakes' J0.
        let lag = std::f64::consts::TAU * config.doppler * frame.as_secs_f64();
        let memory = libm::exp(-std::f64::consts::LN_2 * lag / 1.52);
        Scatter { k: config.k, memory, state: None }
    }

    /// Returns the gain of the next frame in dB; its mean power is 1.
    fn next(&mut self, stream: &mut RandomStream) -> f64 {
        let (a, b) = stream.normal_pair();
        let keep = self.memory;
        let fresh = libm::sqrt(1.0 - keep * keep);
        let (x, y) = self.state.map_or((a, b), |(x, y)| (keep * x + fresh * a, keep * y + fresh * b));
        self.state = Some((x, y));
        let scattered = libm::sqrt(0.5 / (self.k + 1.0));
        let re = libm::sqrt(self.k / (self.k + 1.0)) + scattered * x;
        let im = scattered * y;
        10.0 * libm::log10((re * re + im * im).max(1e-9))
    }
}

/// Processor that takes a constant time per packet, and a ring in front of it.
#[derive(Debug)]
pub(super) struct Processor {
    service: Span,
    ring: usize,
    free_at: Time,
    /// Packets in service or waiting, by their time. Downlink packets are not kept.
    waiting: VecDeque<(Time, Option<(usize, Packet)>)>,
    /// Packets dropped because the ring was full.
    pub(super) dropped: u64,
}

impl Processor {
    fn new(rate: u32, ring: u32) -> Processor {
        let service = Span::from_nanos(1_000_000_000 / u64::from(rate.max(1)));
        Processor { service, ring: ring as usize, free_at: Time::ZERO, waiting: VecDeque::new(), dropped: 0 }
    }

    fn finish(&mut self, at: Time) -> Time {
        self.free_at = at.max(self.free_at) + self.service;
        self.free_at
    }

    /// Accepts a packet for a connection, unless the ring is full.
    pub(super) fn take(&mut self, conn: usize, packet: Packet, now: Time) {
        if self.waiting.len() > self.ring {
            self.dropped += 1;
            return packet.lose(Why::Queue);
        }
        let done = self.finish(now);
        self.waiting.push_back((done, Some((conn, packet))));
    }

    /// Returns the next packet that is done.
    pub(super) fn done(&mut self, now: Time) -> Option<(Time, usize, Packet)> {
        let (at, _) = self.waiting.front().filter(|(at, _)| *at <= now)?;
        let at = *at;
        let (conn, packet) = self.waiting.pop_front()?.1?;
        Some((at, conn, packet))
    }

    /// Returns the time at which a received packet is done, unless the ring is full. Times do not decrease.
    pub(super) fn pass(&mut self, at: Time) -> Option<Time> {
        while self.waiting.front().is_some_and(|(done, _)| *done <= at) {
            self.waiting.pop_front();
        }
        if self.waiting.len() > self.ring {
            self.dropped += 1;
            return None;
        }
        let done = self.finish(at);
        self.waiting.push_back((done, None));
        Some(done)
    }

    /// Returns `true` if no packet waits.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Subscriber station.
#[derive(Debug)]
pub(super) struct Station {
    /// Downlink.
    pub(super) down: Direction,
    /// Uplink.
    pub(super) up: Direction,
    scatter: Option<Scatter>,
    margins: [f64; 2],
    /// Processor for packets from the station's hosts.
    pub(super) sending: Option<Processor>,
    /// Processor for packets to the station's hosts.
    pub(super) receiving: Option<Processor>,
}

impl Station {
    /// Creates a station.
    pub(super) fn new(radio: &Radio, margins: [f64; 2], frame: Span) -> Station {
        let processor = || radio.packet_rate.map(|rate| Processor::new(rate, radio.ring));
        let [down, up] =
            [0, 1].map(|n| Direction::new(radio.snr[n], radio.profile.map(|profiles| profiles[n]), margins));
        let scatter = radio.fading.as_ref().map(|fading| Scatter::new(fading, frame));
        Station { down, up, scatter, margins, sending: processor(), receiving: processor() }
    }

    /// Begins a frame: the channel fades, and profiles follow.
    pub(super) fn begin_frame(&mut self, stream: &mut RandomStream) {
        let fade = self.scatter.as_mut().map_or(0.0, |scatter| scatter.next(stream));
        if self.is_changing() {
            self.down.follow(fade, self.margins);
            self.up.follow(fade, self.margins);
        }
    }

    /// Returns `true` if the channel fades, or profiles have not followed its SNR yet.
    pub(super) fn is_changing(&self) -> bool {
        self.scatter.is_some() || self.down.average != self.down.mean || self.up.average != self.up.mean
    }

    /// Sets the mean SNR of both directions in dB.
    pub(super) fn set_snr(&mut self, snr: [f64; 2]) {
        for (direction, mean) in [&mut self.down, &mut self.up].into_iter().zip(snr) {
            direction.mean = mean;
            direction.loss = direction.profile.block_error(mean);
        }
    }

    /// Returns `true` if packets wait for its processor.
    pub(super) fn is_busy(&self) -> bool {
        self.sending.as_ref().is_some_and(|processor| !processor.is_idle())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fading_has_mean_power_one_and_correlates() {
        let fading = Fading { k: 1.0, doppler: 1.0 };
        let mut scatter = Scatter::new(&fading, Span::from_millis(5));
        let mut stream = RandomStream::new(3, "fading");
        let gains: Vec<f64> =
            (0..400_000).map(|_| libm::pow(10.0, scatter.next(&mut stream) / 10.0)).collect();
        let mean = gains.iter().sum::<f64>() / gains.len() as f64;
        assert!((mean - 1.0).abs() < 0.05, "{mean}");
        let steps = gains.windows(2).map(|pair| (pair[1] - pair[0]).abs()).sum::<f64>() / gains.len() as f64;
        assert!(steps < 0.2, "{steps}");
        // Rician power of K = 1 has the variance (2K + 1) / (K + 1)^2.
        let variance =
            gains.iter().map(|gain| (gain - mean) * (gain - mean)).sum::<f64>() / gains.len() as f64;
        assert!((variance - 0.75).abs() < 0.1, "{variance}");
    }

    #[test]
    fn a_processor_holds_a_ring_of_packets() {
        let radio = Radio { packet_rate: Some(1000), ring: 3, ..Radio::default() };
        let mut station = Station::new(&radio, [2.0, 1.0], Span::from_millis(5));
        let processor = station.receiving.as_mut().expect("a limit");
        let passed: Vec<Option<u64>> =
            (0..6).map(|_| processor.pass(Time::ZERO).map(|at| at.as_nanos() / 1_000_000)).collect();
        assert_eq!(passed, [Some(1), Some(2), Some(3), Some(4), None, None]);
        assert_eq!(processor.dropped, 2);
        assert_eq!(processor.pass(Time::from_nanos(2_000_000)), Some(Time::from_nanos(5_000_000)));
    }

    #[test]
    fn a_lower_snr_lowers_the_profile_over_some_frames() {
        let mut station = Station::new(&Radio::default(), [2.0, 1.0], Span::from_millis(5));
        assert_eq!(station.down.profile, Profile::Qam64R34);
        station.set_snr([10.0, 30.0]);
        let mut stream = RandomStream::new(3, "rain");
        let frames = (0..200).position(|_| {
            station.begin_frame(&mut stream);
            station.down.profile == Profile::Qpsk34
        });
        assert!(frames.is_some_and(|frames| (5..60).contains(&frames)), "{frames:?}");
        assert_eq!(station.up.profile, Profile::Qam64R34);
    }
}
