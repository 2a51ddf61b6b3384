//! Sending times of packets.

use bentpipe_transport::app::Refresh;
use bentpipe_units::Span;

use super::Format;

/// Phase relation of the streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phases {
    /// Evenly over the interval: packets leave one at a time.
    #[default]
    Staggered,
    /// Together: all streams' packets leave at the same instants.
    Aligned,
}

/// Streams of one format on a grid of absolute times, which no lateness moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    format: Format,
    streams: u32,
    phases: Phases,
    packets_a_stream: u64,
    refresh: Option<Refresh>,
}

/// Error returned for an impossible plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// There is nothing to send.
    #[error("expected at least one stream")]
    NoStreams,
    /// Packets would have no times of their own.
    #[error("expected an interval between packets, of 1 us to 1 hour")]
    Interval,
    /// A packet would be longer than UDP's.
    #[error("expected a payload of at most {} bytes", Plan::MAX_PAYLOAD)]
    Payload,
    /// Refreshes have no distance.
    #[error("expected refreshes 1 to 1000000 packets apart")]
    Refresh,
}

/// Packet of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Due time from the start.
    pub at: Span,
    /// The stream's number, from 0.
    pub stream: u32,
    /// Number of the packet in its stream, from 0.
    pub index: u64,
}

impl Plan {
    /// The longest payload in bytes that IPv4 and UDP carry behind an RTP header.
    pub const MAX_PAYLOAD: usize = 65_535 - 20 - 8 - 12;

    /// Creates a plan of the given number of streams and of packets per stream.
    ///
    /// # Errors
    /// If there is no stream, no interval, or the payload is too long.
    pub fn new(
        format: Format,
        streams: u32,
        phases: Phases,
        packets_a_stream: u64,
    ) -> Result<Plan, PlanError> {
        if streams == 0 {
            return Err(PlanError::NoStreams);
        }
        if format.interval < Span::from_micros(1) || format.interval > Span::from_secs(3600) {
            return Err(PlanError::Interval);
        }
        if format.payload_len > Plan::MAX_PAYLOAD {
            return Err(PlanError::Payload);
        }
        Ok(Plan { format, streams, phases, packets_a_stream, refresh: None })
    }

    /// Returns the plan with larger packets in place of some of each stream.
    ///
    /// A header compressor in unidirectional mode sends such refreshes.
    ///
    /// # Errors
    /// Returns an error if the payload of refreshes is too long, or their distance impossible.
    pub fn with_refreshes(self, refresh: Refresh) -> Result<Plan, PlanError> {
        if refresh.payload.get() > Plan::MAX_PAYLOAD as u64 {
            return Err(PlanError::Payload);
        }
        refresh.check().map_err(|_| PlanError::Refresh)?;
        Ok(Plan { refresh: Some(refresh), ..self })
    }

    /// Returns the payload of packet `index` of a stream in bytes.
    pub fn payload_len(&self, index: u64) -> usize {
        match self.refresh.filter(|refresh| refresh.is_due(index)) {
            Some(refresh) => refresh.payload.get() as usize,
            None => self.format.payload_len,
        }
    }

    /// Returns the larger packets, if it has some.
    pub fn refresh(&self) -> Option<Refresh> {
        self.refresh
    }

    /// Returns the format of the packets.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the number of streams.
    pub fn streams(&self) -> u32 {
        self.streams
    }

    /// Returns the number of packets of all streams.
    pub fn packets(&self) -> u64 {
        self.packets_a_stream.saturating_mul(self.streams.into())
    }

    /// The time from the first packet to one interval after the last stream's last.
    pub fn duration(&self) -> Span {
        Span::from_nanos(self.format.interval.as_nanos().saturating_mul(self.packets_a_stream))
    }

    /// The shortest time between packets that are not due together.
    pub fn spacing(&self) -> Span {
        match self.phases {
            Phases::Staggered => Span::from_nanos(self.format.interval.as_nanos() / u64::from(self.streams)),
            Phases::Aligned => self.format.interval,
        }
    }

    /// Returns packet `number` in order of time, from 0, or `None` after the last.
    pub fn departure(&self, number: u64) -> Option<Departure> {
        let (index, stream) = (number / u64::from(self.streams), number % u64::from(self.streams));
        let interval = self.format.interval.as_nanos();
        let phase = match self.phases {
            Phases::Staggered => interval * stream / u64::from(self.streams),
            Phases::Aligned => 0,
        };
        let at = Span::from_nanos(interval.checked_mul(index)?.checked_add(phase)?);
        (index < self.packets_a_stream).then_some(Departure { at, stream: stream as u32, index })
    }

    /// Returns the offset of the RTP timestamp after `index` packets of a stream, modulo 2^32.
    pub fn timestamp(&self, index: u64) -> u32 {
        let nanos = u128::from(index) * u128::from(self.format.interval.as_nanos());
        (nanos * u128::from(self.format.clock_hz) / 1_000_000_000) as u32
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_units::Bytes;

    use super::*;
    use crate::Codec;

    fn plan(streams: u32, phases: Phases) -> Plan {
        let format = Codec::Gsm.format(None, None).expect("a format");
        Plan::new(format, streams, phases, 100).expect("a plan")
    }

    #[test]
    fn every_stream_keeps_its_own_grid() {
        for (streams, phases) in [(1, Phases::Staggered), (311, Phases::Staggered), (314, Phases::Aligned)] {
            let plan = plan(streams, phases);
            let all: Vec<Departure> = (0..plan.packets()).filter_map(|n| plan.departure(n)).collect();
            assert_eq!(all.len(), 100 * streams as usize);
            assert!(all.is_sorted_by_key(|departure| departure.at));
            let first = |stream| all.iter().find(|it| it.stream == stream).expect("it sends").at;
            let on_grid = |it: &Departure| it.at - first(it.stream) == Span::from_millis(20 * it.index);
            assert!(all.iter().all(on_grid));
            assert_eq!(plan.departure(plan.packets()), None);
            assert_eq!(plan.duration(), Span::from_secs(2));
        }
    }

    #[test]
    fn phases_are_spread_or_the_same() {
        let at = |phases, number| plan(4, phases).departure(number).expect("a packet").at;
        assert_eq!(
            [0, 1, 2, 3, 4].map(|n| at(Phases::Staggered, n).as_nanos() / 1_000_000),
            [0, 5, 10, 15, 20]
        );
        assert_eq!([0, 1, 2, 3, 4].map(|n| at(Phases::Aligned, n).as_nanos() / 1_000_000), [0, 0, 0, 0, 20]);
        assert_eq!(plan(4, Phases::Staggered).spacing(), Span::from_millis(5));
    }

    #[test]
    fn timestamps_do_not_drift_either() {
        assert_eq!(plan(1, Phases::Staggered).timestamp(3), 480);
        // A third of a sample a packet.
        let format = Format::sized(10, Span::from_nanos(41_666), 8000);
        let odd = Plan::new(format, 1, Phases::Staggered, 10).expect("a plan");
        assert_eq!((odd.timestamp(3), odd.timestamp(3_000_000)), (0, 999_984));
        assert_eq!(plan(1, Phases::Staggered).timestamp(1 << 32), 0);
    }

    #[test]
    fn refreshes_have_their_own_length() {
        let refresh = |payload, every| Refresh { payload: Bytes::new(payload), every };
        let plan = Plan::new(Format::sized(4, Span::from_millis(20), 8000), 2, Phases::Staggered, 20)
            .and_then(|plan| plan.with_refreshes(refresh(40, 4)))
            .expect("a plan");
        let long: Vec<u64> = (0..20).filter(|index| plan.payload_len(*index) == 40).collect();
        assert_eq!(long, [0, 1, 3, 6, 10, 14, 18]);
        assert_eq!(plan.payload_len(2), 4);
        assert_eq!(plan.with_refreshes(refresh(40, 0)), Err(PlanError::Refresh));
        assert_eq!(plan.with_refreshes(refresh(65_496, 4)), Err(PlanError::Payload));
    }

    #[test]
    fn what_is_no_plan_is_refused() {
        let format = Format::sized(10, Span::from_millis(20), 8000);
        assert_eq!(Plan::new(format, 0, Phases::Staggered, 1), Err(PlanError::NoStreams));
        let long = Format { payload_len: Plan::MAX_PAYLOAD + 1, ..format };
        assert_eq!(Plan::new(long, 1, Phases::Staggered, 1), Err(PlanError::Payload));
        let fast = Format { interval: Span::ZERO, ..format };
        assert_eq!(Plan::new(fast, 1, Phases::Staggered, 1), Err(PlanError::Interval));
        let text = Plan::new(long, 1, Phases::Staggered, 1).expect_err("too long").to_string();
        assert_eq!(text, "expected a payload of at most 65495 bytes");
    }
}
