//! What a recorder sees of a connection.

use bentpipe_units::Span;

use super::{Connection, State};
use crate::{Observer, Unit};

impl Connection {
    /// Reports counters and gauges.
    pub fn observe(&self, observer: &mut dyn Observer) {
        self.observe_totals(observer);
        self.observe_window(observer);
        self.observe_rtt(observer);
    }

    fn observe_totals(&self, observer: &mut dyn Observer) {
        let (tally, sender) = (&self.tally, &self.sender.tally);
        let failed = u64::from(self.failure.is_some());
        let counters = [
            ("segments_sent", Unit::Packets, tally.segments_sent),
            ("segments_received", Unit::Packets, tally.segments_received),
            ("data_segments_sent", Unit::Packets, tally.data_segments_sent),
            ("data_segments_received", Unit::Packets, tally.data_segments_received),
            ("retransmits", Unit::Packets, sender.retransmits),
            ("timeouts", Unit::Count, sender.timeouts),
            ("fast_recoveries", Unit::Count, sender.fast_recoveries),
            ("spurious_recoveries", Unit::Count, sender.spurious),
            ("ecn_reductions", Unit::Count, sender.ecn_reductions),
            ("renegings", Unit::Count, sender.renegings),
            ("window_probes", Unit::Packets, sender.probes),
            ("duplicate_acks", Unit::Packets, sender.duplicate_acks),
            ("out_of_order", Unit::Packets, tally.out_of_order),
            ("duplicates", Unit::Packets, tally.duplicates),
            ("outdated", Unit::Packets, tally.outdated),
            ("malformed", Unit::Packets, tally.malformed),
            ("syns", Unit::Packets, tally.syns),
            ("failures", Unit::Count, failed),
            ("quick_starts", Unit::Count, self.quick_start.used),
            ("quick_starts_refused", Unit::Count, self.quick_start.refused),
            ("bytes_acked", Unit::Bytes, self.sender.bytes_acked()),
            ("bytes_delivered", Unit::Bytes, tally.bytes_delivered),
        ];
        counters.into_iter().for_each(|(name, unit, total)| observer.counter(name, unit, total));
    }

    fn observe_window(&self, observer: &mut dyn Observer) {
        let state = self.sender.controller().state();
        let ssthresh = if state.ssthresh == u64::MAX { f64::NAN } else { state.ssthresh as f64 };
        let board = &self.sender.board;
        let bytes = [
            ("cwnd", state.cwnd as f64),
            ("ssthresh", ssthresh),
            ("flight", board.flight() as f64),
            ("pipe", board.pipe() as f64),
            ("peer_window", self.sender.window() as f64),
            ("window", self.receiver.window() as f64),
            ("sequence", board.high() as f64),
            ("acknowledged", board.una() as f64),
            ("expected", self.receiver.next() as f64),
        ];
        bytes.into_iter().for_each(|(name, value)| observer.gauge(name, Unit::Bytes, value));
        let bandwidth = state.bandwidth.map_or(f64::NAN, |rate| rate.as_bps() as f64);
        observer.gauge("bandwidth_estimate", Unit::BitsPerSecond, bandwidth);
        let is_up = !matches!(self.state, State::Closed | State::Listen | State::SynSent);
        observer.gauge("is_up", Unit::Count, f64::from(u8::from(is_up)));
    }

    fn observe_rtt(&self, observer: &mut dyn Observer) {
        let rtt = &self.sender.rtt;
        let times = [
            ("srtt", rtt.srtt()),
            ("rttvar", rtt.rttvar()),
            ("rto", Some(rtt.rto())),
            ("rtt", rtt.latest()),
            ("min_rtt", rtt.min_rtt()),
        ];
        for (name, value) in times {
            observer.gauge(name, Unit::Seconds, value.map_or(f64::NAN, Span::as_secs_f64));
        }
    }
}
