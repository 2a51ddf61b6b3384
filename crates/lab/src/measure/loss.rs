//! Loss ratio of flows of numbered packets.
//!
//! A packet is lost if a later one of its flow arrived and it did not. Packets after the last one that arrived are lost if they were
//! sent so long before the end of the run that they cannot be in flight: more than [`Run::waiting`], as RFC 7680, section 2.4, has a
//! waiting time. Packets in flight count neither as sent nor as lost.

use bentpipe_net::metric::{Counter, End, Of};
use bentpipe_record::{Total, Totals};
use bentpipe_transport::ping::metrics::REQUESTS;
use bentpipe_units::Span;

use super::run::Run;
use super::subjects::Subject;
use super::unloaded::{Unloaded, longest, longest_round_trip};

/// Factor by which a packet in flight may take longer than any that arrived.
const MARGIN: u64 = 2;

impl Run<'_> {
    /// Returns the packets lost on the way to a receiver, and those expected there.
    ///
    /// The warm-up is left out.
    pub(super) fn lost(
        &self,
        flow: &Subject<'_>,
        missing: &Total,
        [expected, sent]: [&'static Of<Counter>; 2],
    ) -> (f64, f64) {
        let part = missing.part;
        let at_end = reported(self.end, part, expected).unwrap_or(0.0);
        let is_round_trip = sent.is(&REQUESTS);
        let waiting = self.waiting(flow, (part, at_end > 0.0), is_round_trip);
        let tail =
            self.sent_by(flow, sent, waiting).map_or(0.0, |[by, in_warm_up]| by - at_end.max(in_warm_up));
        let arrived_or_missing = at_end - reported(self.warm, part, expected).unwrap_or(0.0);
        let tail = tail.max(0.0);
        (self.grown(missing) + tail, arrived_or_missing + tail)
    }

    /// Returns the packets sent until the waiting time before the end, and in the warm-up.
    fn sent_by(&self, flow: &Subject<'_>, sent: &Of<Counter>, waiting: Span) -> Option<[f64; 2]> {
        let sender = flow.parts.iter().find(|(_, end)| *end == Some(End::Sender))?.0;
        let column = self.series.of(sender).iter().find(|column| column.metric.is(sent))?;
        let by = self.duration_s - waiting.as_secs_f64();
        let row = self.seconds.partition_point(|at| *at <= by).checked_sub(1)?;
        Some([column.data.at(row).as_f64(), reported(self.warm, sender, sent).unwrap_or(0.0)])
    }

    /// Returns the time after which a packet that has not arrived counts as lost.
    ///
    /// That is twice the longest delay of a packet that arrived. Of a flow from which nothing arrived it is twice the delay of
    /// its empty path, or twice the longest delay of any flow, whichever is longer. Of requests it is round trips that count.
    fn waiting(&self, flow: &Subject<'_>, (part, has_arrivals): (u32, bool), is_round_trip: bool) -> Span {
        let histograms = self.end.histograms_of(part);
        let known = if is_round_trip { longest_round_trip(histograms) } else { longest(histograms) };
        if let Some(longest) = known.filter(|_| has_arrivals) {
            return longest * MARGIN;
        }
        let unloaded = self.unloaded.get_or_init(|| Unloaded::of(self.scenario, self.end));
        unloaded.delay(self.scenario, flow.path) * (if is_round_trip { 2 * MARGIN } else { MARGIN })
    }
}

/// Returns what a part reported.
fn reported(totals: &Totals, part: u32, metric: &Of<Counter>) -> Option<f64> {
    totals.of(part).iter().find(|total| total.metric.is(metric)).map(|total| total.value().as_f64())
}
