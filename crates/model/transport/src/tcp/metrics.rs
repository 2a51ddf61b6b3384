//! Metrics of an end of a TCP connection.

use bentpipe_net::metric::{Draw, End, How, Sum, UnitColumn, UnitEntry, UnitRest};

/// Measures that are made of a smoothed round-trip time at the sender.
pub(crate) const RTT: &[Sum] = &[
    Sum::new("rtt", "Mean round-trip time", How::Mean).at(End::Sender),
    Sum::new("rtt-p50", "Median round-trip time", How::Median).at(End::Sender),
];

/// Measure that is made of the time at which a flow's data had been delivered.
pub(crate) const COMPLETION: &[Sum] =
    &[Sum::new("completion", "Completion time", How::SinceStart).at(End::Receiver)];

/// Measures that are made of the completion times of bursts.
const BURST: &[Sum] = &[
    Sum::new("burst-completion-mean", "Mean completion time of bursts", How::DistributionMean)
        .at(End::Sender),
    Sum::new("burst-completion-p50", "Median completion time of bursts", How::Quantile(50)).at(End::Sender),
    Sum::new("burst-completion-p95", "95th-percentile completion time of bursts", How::Quantile(95))
        .at(End::Sender),
];

/// Measures that are made of the distribution of one-way delays. The wait at the sender is not among them.
pub(crate) const NETWORK_DELAY: &[Sum] = &[
    Sum::new("delay-mean", "Mean one-way delay", How::DistributionMean).at(End::Receiver).since(2),
    Sum::new("delay-p50", "Median one-way delay", How::Quantile(50)).at(End::Receiver).since(2),
    Sum::new("delay-p95", "95th-percentile one-way delay", How::Quantile(95)).at(End::Receiver).since(2),
    Sum::new("delay-p99", "99th-percentile one-way delay", How::Quantile(99)).at(End::Receiver).since(2),
];

/// Measures that are made of the waits of written data at the sender.
pub(crate) const WAIT: &[Sum] = &[
    Sum::new("wait-mean", "Mean wait at the sender", How::DistributionMean).at(End::Sender),
    Sum::new("wait-p50", "Median wait at the sender", How::Quantile(50)).at(End::Sender),
    Sum::new("wait-p95", "95th-percentile wait at the sender", How::Quantile(95)).at(End::Sender),
];

/// Reason of bytes between the ends of a connection that failed.
///
/// It was reset, or given up after its last retry.
const GIVEN_UP: &str = "connection-given-up";

bentpipe_net::metrics! {
    Counter SEGMENTS_SENT = "segments-sent", Packets, "Segments sent" => .once(&["segments_sent"]);
    Counter SEGMENTS_RECEIVED = "segments-received", Packets, "Segments received" => .once(&["segments_received"]);
    Counter DATA_SEGMENTS_SENT = "data-segments-sent", Packets, "Data segments sent"
        => .drawn_at(End::Sender, Draw::Line("Segments sent"))
        .once(&["data_segments_sent"]);
    Counter DATA_SEGMENTS_RECEIVED = "data-segments-received", Packets, "Data segments received" => .once(&["data_segments_received"]);
    Counter RETRANSMITS = "retransmits", Packets, "Segments retransmitted"
        => .drawn_at(End::Sender, Draw::Line("Retransmissions")).summed(&[
            Sum::new("retransmitted", "Retransmitted segments", How::Over(&DATA_SEGMENTS_SENT)).at(End::Sender),
        ]);
    Counter TIMEOUTS = "timeouts", Count, "Retransmission timeouts"
        => .summed(&[Sum::new("timeouts", "Retransmission timeouts", How::Grown).at(End::Sender)]);
    Counter FAST_RECOVERIES = "fast-recoveries", Count, "Fast recoveries" => .once(&["fast_recoveries"]);
    Counter SPURIOUS_RECOVERIES = "spurious-recoveries", Count, "Spurious recoveries" => .once(&["spurious_recoveries"]);
    Counter ECN_REDUCTIONS = "ecn-reductions", Count, "Window reductions after ECN marks" => .once(&["ecn_reductions"]);
    Counter RENEGINGS = "renegings", Count, "Times that the receiver reneged on SACKed data";
    Counter WINDOW_PROBES = "window-probes", Packets, "Window probes" => .once(&["window_probes"]);
    Counter DUPLICATE_ACKS = "duplicate-acks", Packets, "Duplicate ACKs" => .once(&["duplicate_acks"]);
    Counter OUT_OF_ORDER = "out-of-order", Packets, "Segments out of order" => .once(&["out_of_order"]);
    Counter DUPLICATES = "duplicates", Packets, "Duplicate segments";
    Counter OUTDATED = "outdated", Packets, "Segments with an outdated timestamp (PAWS)";
    Counter MALFORMED = "malformed", Packets, "Malformed segments";
    Counter SYNS = "syns", Packets, "SYN segments sent";
    Counter FAILURES = "failures", Count, "Failed connections" => .units(
        "B",
        &[UnitEntry::sender(UnitColumn::Dropped, GIVEN_UP), UnitEntry::receiver(UnitColumn::Dropped, GIVEN_UP)],
        UnitRest::Lost(GIVEN_UP),
    );
    Counter QUICK_STARTS = "quick-starts", Count, "Quick-Start requests approved" => .once(&["quick_starts"]);
    Counter QUICK_STARTS_REFUSED = "quick-starts-refused", Count, "Quick-Start requests refused" => .once(&["quick_starts_refused"]);
    Counter BYTES_ACKED = "bytes-acked", Bytes, "Bytes acknowledged" => .once(&["bytes_acked"]);
    Counter DELIVERED_BYTES = "delivered-bytes", Bytes, "Bytes delivered" => .once(&["bytes_delivered"])
        .units("B", &[UnitEntry::receiver(UnitColumn::Delivered, "")], UnitRest::InFlight);
    Gauge OFFERED_BYTES = "offered-bytes", Bytes, "Bytes that the application wrote"
        => .units("B", &[UnitEntry::sender(UnitColumn::Offered, "")], UnitRest::InFlight);
    Gauge UNSENT_BYTES = "unsent-bytes", Bytes, "Bytes written and never sent"
        => .units("B", &[UnitEntry::sender(UnitColumn::Remaining, "unsent")], UnitRest::InFlight);
    Gauge BYTES_BEHIND_HOLE = "bytes-behind-a-hole", Bytes, "Bytes that arrived behind a hole"
        => .units("B", &[UnitEntry::receiver(UnitColumn::Remaining, "behind-a-hole")], UnitRest::InFlight);
    // What waits behind a hole counts in the interval of its arrival, not in that of the segment which fills the hole.
    Counter ARRIVED_BYTES = "arrived-bytes", Bytes, "Payload bytes that arrived for the first time"
        => .drawn_at(End::Receiver, Draw::Rate("Goodput")).summed(&[
            Sum::new("goodput", "Goodput", How::PerSecond).at(End::Receiver).since(2),
            Sum::new("goodput-p50", "Median goodput", How::MedianPerSecond).at(End::Receiver).since(2),
        ]);
    Gauge CWND = "cwnd", Bytes, "Congestion window" => .drawn_at(End::Sender, Draw::Line("Congestion window")).summed(&[
        Sum::new("cwnd", "Mean congestion window", How::Mean).at(End::Sender),
        Sum::new("cwnd-p50", "Median congestion window", How::Median).at(End::Sender),
    ]);
    Gauge SSTHRESH = "ssthresh", Bytes, "Slow-start threshold" => .drawn_at(End::Sender, Draw::Limit("Congestion window"));
    Gauge FLIGHT = "flight", Bytes, "Bytes in flight";
    Gauge PIPE = "pipe", Bytes, "Estimate of bytes in the network (RFC 6675)";
    Gauge PEER_WINDOW = "peer-window", Bytes, "Receive window of the peer" => .once(&["peer_window"]);
    Gauge WINDOW = "window", Bytes, "Receive window";
    Gauge SEQUENCE = "sequence", Bytes, "Highest sequence number sent";
    Gauge ACKNOWLEDGED = "acknowledged", Bytes, "Highest sequence number acknowledged";
    Gauge EXPECTED = "expected", Bytes, "Next sequence number expected";
    Gauge BANDWIDTH_ESTIMATE = "bandwidth-estimate", BitsPerSecond, "Bandwidth estimate of the controller" => .once(&["bandwidth_estimate"]);
    Gauge IS_UP = "is-up", Count, "Established connections" => .once(&["is_up"]);
    Gauge SRTT = "srtt", Seconds, "Smoothed round-trip time" => .drawn_at(End::Sender, Draw::Line("Round-trip time")).summed(RTT);
    Gauge RTTVAR = "rttvar", Seconds, "Round-trip time variation";
    Gauge RTO = "rto", Seconds, "Retransmission timeout";
    Gauge RTT_LATEST = "rtt", Seconds, "Latest round-trip time";
    Gauge MIN_RTT = "min-rtt", Seconds, "Minimum round-trip time" => .once(&["min_rtt"]);
    Gauge ONE_WAY_DELAY = "delay", Seconds, "One-way delay" => .drawn_at(End::Receiver, Draw::Line("One-way delay"))
        .once(&["one_way_delay"]);
    Gauge COMPLETED = "completed", Seconds, "Time at which all data had been delivered" => .summed(COMPLETION);
    Histogram BURSTS = "burst-completions", Seconds, "Distribution of the completion time of bursts" => .summed(BURST);
    Histogram DELAYS = "delays", Seconds, "Distribution of the one-way delay" => .summed(NETWORK_DELAY);
    Histogram WAITS = "waits", Seconds, "Distribution of the time from writing to the first transmission" => .summed(WAIT);
}
