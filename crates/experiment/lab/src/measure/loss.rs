//! Loss ratio of flows of packets.
//!
//! It is of the accounts of their packets: dropped, of those dropped and delivered, that were sent in the window. What waits or is in
//! flight at the end counts as neither. A packet of which a duplicate arrived is not lost. Each member of a group has packets of its own.
//!
//! Flows whose data others carry, such as cells, have no account. There a packet is lost if a later one arrived and it did not. Packets after the last one that arrived are lost if they were
//! sent so long before the end of the run that they cannot be in flight: more than [`Run::waiting`], as RFC 7680, section 2.4, has a
//! waiting time.

use bentpipe_net::metric::{Counter, End, Gauge, Of};
use bentpipe_record::{Total, Totals};
use bentpipe_transport::ping::metrics::REQUESTS;
use bentpipe_units::Span;

use super::run::Run;
use super::sent::{Loss, Sent};
use super::subjects::Subject;
use super::unloaded::{Unloaded, longest, longest_round_trip};

/// Factor by which a packet in flight may take longer than any that arrived.
const MARGIN: u64 = 2;

impl Run<'_> {
    /// Returns the packets lost on the way to a receiver, and those expected there.
    ///
    /// The warm-up is left out. The members of a group are counted with the first.
    pub(super) fn lost(&self, flow: &Subject<'_>, missing: &Total, loss: Loss) -> (f64, f64) {
        let Some(account) = self.account(flow, loss) else {
            return self.missing(flow, missing, [loss.expected, loss.sent]);
        };
        let is_round_trip = loss.sent.is(&REQUESTS);
        let receiving = Some(if is_round_trip { End::Sender } else { End::Receiver });
        let reports = |part: &u32| self.end.of(*part).iter().any(|total| total.metric.is(missing.metric));
        let parts = flow.parts.iter().filter(|(_, end)| *end == receiving).map(|(part, _)| *part);
        let mut parts = parts.filter(reports).peekable();
        if parts.peek() != Some(&missing.part) {
            return (0.0, 0.0);
        }
        let parts: Vec<u32> = parts.collect();
        let late: f64 = parts.iter().map(|part| self.late(*part, loss.late)).sum();
        let (lost, all) = match parts.len() {
            1 => account.lost(),
            members => {
                let behind = parts.iter().map(|part| self.behind(flow, *part, loss)).sum();
                account.lost_to(members as f64, behind)
            }
        };
        (lost + late, all)
    }

    /// Returns `true` if packets of a flow's sender are on their way at the end.
    pub(super) fn is_under_way(&self, flow: &Subject<'_>) -> bool {
        let receivers = flow.parts.iter().filter(|(_, end)| *end == Some(End::Receiver));
        let is_group = receivers.count() > 1;
        self.account_at(flow, End::Sender).is_some_and(|sent| sent.is_under_way(is_group))
    }

    /// Returns the account of an end of a flow.
    fn account_at(&self, flow: &Subject<'_>, wanted: End) -> Option<Sent> {
        let mut ends = flow.parts.iter().filter(|(_, end)| *end == Some(wanted));
        ends.find_map(|(part, _)| {
            let path = self.end.parts.get(*part as usize)?.replace('/', ".");
            self.accounts.get(&path[..]).copied()
        })
    }

    /// Returns the account of the packets that a flow's loss is of.
    fn account(&self, flow: &Subject<'_>, loss: Loss) -> Option<Sent> {
        let sent = self.account_at(flow, End::Sender)?;
        if !loss.sent.is(&REQUESTS) {
            return Some(sent);
        }
        // An answering node is not a part of its flow.
        let answers = format!("{}.receiver", flow.path.replace('/', "."));
        Some(sent.and_back(self.accounts.get(&answers[..]).copied().unwrap_or_default()))
    }

    /// Returns the packets sent in the window that came too late to a part.
    ///
    /// A receiver counts them from zero where the window begins.
    fn late(&self, part: u32, late: Option<&Of<Gauge>>) -> f64 {
        let is_meant = |total: &&Total| late.is_some_and(|late| total.metric.is(late));
        self.end.of(part).iter().filter(is_meant).map(|total| total.value().as_f64()).sum()
    }

    /// Returns the packets that were sent behind the last that arrived at a part.
    fn behind(&self, flow: &Subject<'_>, part: u32, loss: Loss) -> f64 {
        let senders = flow.parts.iter().filter(|(_, end)| *end == Some(End::Sender));
        let sent: f64 = senders.filter_map(|(sender, _)| reported(self.end, *sender, loss.sent)).sum();
        (sent - reported(self.end, part, loss.expected).unwrap_or(0.0)).max(0.0)
    }

    /// Returns the packets that are missing by their numbers, and those expected.
    fn missing(
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
