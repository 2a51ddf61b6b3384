//! Metrics of echo requests.

use bentpipe_net::metric::{Draw, End, How, Sum, UnitColumn, UnitEntry, UnitRest};

/// Measures that are made of the distribution of round-trip times.
const ROUND_TRIP: &[Sum] = &[
    Sum::new("rtt-mean", "Mean round-trip time", How::DistributionMean).at(End::Sender),
    Sum::new("rtt-p50", "Median round-trip time", How::Quantile(50)).at(End::Sender),
    Sum::new("rtt-p95", "95th-percentile round-trip time", How::Quantile(95)).at(End::Sender),
    Sum::new("rtt-p99", "99th-percentile round-trip time", How::Quantile(99)).at(End::Sender),
];

bentpipe_net::metrics! {
    Counter REQUESTS = "requests", Packets, "Echo requests sent"
        => .units("requests", &[UnitEntry::sender(UnitColumn::Offered, "")], UnitRest::RoundTrips);
    Counter REPLIES = "replies", Packets, "Echo replies received"
        => .units("requests", &[UnitEntry::sender(UnitColumn::Delivered, "")], UnitRest::RoundTrips);
    Counter SETTLED = "requests-settled", Packets, "Echo requests up to the latest that was answered";
    Gauge UNANSWERED = "unanswered", Packets, "Echo requests without a reply, though a later one has one" => .summed(&[
        Sum::new("unanswered", "Requests without a reply", How::Loss { expected: &SETTLED, sent: &REQUESTS, late: None }).at(End::Sender).since(2),
    ]);
    Gauge OUTSTANDING = "outstanding", Packets, "Echo requests after the latest that was answered";
    Counter DUPLICATES = "duplicates", Packets, "Duplicate echo replies"
        => .units("requests", &[UnitEntry::sender(UnitColumn::Duplicates, "")], UnitRest::RoundTrips);
    Counter DROPPED_BAD_CHECKSUM = "dropped-bad-checksum", Packets, "Packets with a wrong checksum" => .drops();
    Counter DROPPED_UNEXPECTED = "dropped-unexpected", Packets, "Packets of other flows, and duplicates" => .drops();
    Gauge RTT = "rtt", Seconds, "Round-trip time" => .drawn_at(End::Sender, Draw::Line("Round-trip time"));
    Gauge RTT_MIN = "rtt-min", Seconds, "Minimum round-trip time"
        => .summed(&[Sum::new("rtt-min", "Minimum round-trip time", How::Last).at(End::Sender).since(2)]);
    Gauge RTT_MAX = "rtt-max", Seconds, "Maximum round-trip time"
        => .summed(&[Sum::new("rtt-max", "Maximum round-trip time", How::Last).at(End::Sender).since(2)]);
    Gauge RTT_DEVIATION = "rtt-deviation", Seconds, "Standard deviation of the round-trip time"
        => .summed(&[Sum::new("rtt-deviation", "Deviation of round-trip time", How::Last).at(End::Sender).since(2)]);
    Histogram RTTS = "rtts", Seconds, "Distribution of the round-trip time" => .summed(ROUND_TRIP);
}
