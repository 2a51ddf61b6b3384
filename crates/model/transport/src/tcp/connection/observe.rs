//! Observed state of a connection.

use bentpipe_net::Observer;
use bentpipe_units::Span;

use super::{Connection, State};
use crate::tcp::metrics;

impl Connection {
    /// Returns the payload bytes that arrived for the first time, behind a gap or not.
    #[inline]
    pub(in crate::tcp) fn bytes_arrived(&self) -> u64 {
        self.tally.bytes_delivered + self.receiver.waiting()
    }

    /// Reports counters and gauges.
    pub fn observe(&self, observer: &mut dyn Observer) {
        observer.histogram(&metrics::WAITS, &self.waits);
        self.observe_totals(observer);
        self.observe_window(observer);
        self.observe_rtt(observer);
        if observer.counts_units() {
            observer.gauge(&metrics::OFFERED_BYTES, self.sender.written() as f64);
            observer.gauge(&metrics::UNSENT_BYTES, self.sender.unsent() as f64);
            observer.gauge(&metrics::BYTES_BEHIND_HOLE, self.receiver.waiting() as f64);
        }
    }

    fn observe_totals(&self, observer: &mut dyn Observer) {
        let (tally, sender) = (&self.tally, &self.sender.tally);
        let failed = u64::from(self.failure.is_some());
        let counters = [
            (&metrics::SEGMENTS_SENT, tally.segments_sent),
            (&metrics::SEGMENTS_RECEIVED, tally.segments_received),
            (&metrics::DATA_SEGMENTS_SENT, tally.data_segments_sent),
            (&metrics::DATA_SEGMENTS_RECEIVED, tally.data_segments_received),
            (&metrics::RETRANSMITS, sender.retransmits),
            (&metrics::TIMEOUTS, sender.timeouts),
            (&metrics::FAST_RECOVERIES, sender.fast_recoveries),
            (&metrics::SPURIOUS_RECOVERIES, sender.spurious),
            (&metrics::ECN_REDUCTIONS, sender.ecn_reductions),
            (&metrics::RENEGINGS, sender.renegings),
            (&metrics::WINDOW_PROBES, sender.probes),
            (&metrics::DUPLICATE_ACKS, sender.duplicate_acks),
            (&metrics::OUT_OF_ORDER, tally.out_of_order),
            (&metrics::DUPLICATES, tally.duplicates),
            (&metrics::OUTDATED, tally.outdated),
            (&metrics::MALFORMED, tally.malformed),
            (&metrics::SYNS, tally.syns),
            (&metrics::FAILURES, failed),
            (&metrics::QUICK_STARTS, self.quick_start.used),
            (&metrics::QUICK_STARTS_REFUSED, self.quick_start.refused),
            (&metrics::BYTES_ACKED, self.sender.bytes_acked()),
            (&metrics::DELIVERED_BYTES, tally.bytes_delivered),
            (&metrics::ARRIVED_BYTES, self.bytes_arrived()),
        ];
        counters.into_iter().for_each(|(metric, total)| observer.counter(metric, total));
    }

    fn observe_window(&self, observer: &mut dyn Observer) {
        let state = self.sender.controller().state();
        let ssthresh = if state.ssthresh == u64::MAX { f64::NAN } else { state.ssthresh as f64 };
        let board = &self.sender.board;
        let bytes = [
            (&metrics::CWND, state.cwnd as f64),
            (&metrics::SSTHRESH, ssthresh),
            (&metrics::FLIGHT, board.flight() as f64),
            (&metrics::PIPE, board.pipe() as f64),
            (&metrics::PEER_WINDOW, self.sender.window() as f64),
            (&metrics::WINDOW, self.receiver.window() as f64),
            (&metrics::SEQUENCE, board.high() as f64),
            (&metrics::ACKNOWLEDGED, board.una() as f64),
            (&metrics::EXPECTED, self.receiver.next() as f64),
        ];
        bytes.into_iter().for_each(|(metric, value)| observer.gauge(metric, value));
        let bandwidth = state.bandwidth.map_or(f64::NAN, |rate| rate.as_bps() as f64);
        observer.gauge(&metrics::BANDWIDTH_ESTIMATE, bandwidth);
        let is_up = !matches!(self.state, State::Closed | State::Listen | State::SynSent);
        observer.gauge(&metrics::IS_UP, f64::from(u8::from(is_up)));
    }

    fn observe_rtt(&self, observer: &mut dyn Observer) {
        let rtt = &self.sender.rtt;
        let times = [
            (&metrics::SRTT, rtt.srtt()),
            (&metrics::RTTVAR, rtt.rttvar()),
            (&metrics::RTO, Some(rtt.rto())),
            (&metrics::RTT_LATEST, rtt.latest()),
            (&metrics::MIN_RTT, rtt.min_rtt()),
        ];
        for (metric, value) in times {
            observer.gauge(metric, value.map_or(f64::NAN, Span::as_secs_f64));
        }
    }
}
