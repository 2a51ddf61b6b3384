//! Metrics of queue disciplines.

use crate::metric::{Draw, How, Sum};

/// Measures that are made of the distribution of delays in the L4S queue.
const L4S_DELAY: &[Sum] = &[
    Sum::new("l4s-delay-mean", "Mean delay in the L4S queue", How::DistributionMean),
    Sum::new("l4s-delay-p99", "99th-percentile delay in the L4S queue", How::Quantile(99)),
];

/// Measures that are made of the distribution of delays in the classic queue.
const CLASSIC_DELAY: &[Sum] = &[
    Sum::new("classic-delay-mean", "Mean delay in the classic queue", How::DistributionMean),
    Sum::new("classic-delay-p99", "99th-percentile delay in the classic queue", How::Quantile(99)),
];

crate::metrics! {
    Counter DROPPED_QUEUE = "dropped-queue", Packets, "Packets dropped by the queue" => .drops();
    Gauge QUEUE = "queue", Packets, "Packets queued";
    Gauge QUEUE_BYTES = "queue-bytes", Bytes, "Bytes queued" => .drawn(Draw::Line("Queue"));
    Gauge QUEUE_MEAN = "queue-mean", Packets, "Mean queue in packets, over time"
        => .summed(&[Sum::new("queue-mean", "Mean queue", How::Last).since(2)]);
    Gauge QUEUE_MEAN_BYTES = "queue-mean-bytes", Bytes, "Mean queue in bytes, over time"
        => .summed(&[Sum::new("queue-mean-bytes", "Mean queue", How::Last).since(2)]);
    Gauge QUEUE_MAX = "queue-max", Packets, "Peak queue in packets"
        => .summed(&[Sum::new("queue-max", "Peak queue", How::Last).since(2)]);
    Gauge QUEUE_MAX_BYTES = "queue-max-bytes", Bytes, "Peak queue in bytes"
        => .summed(&[Sum::new("queue-max-bytes", "Peak queue", How::Last).since(2)]);
    Counter AQM_DROPPED_QUEUE = "dropped-queue", Packets, "Packets dropped for any of these causes";
    Counter DROPPED_LIMIT = "dropped-limit", Packets, "Packets dropped, queue full" => .drops();
    Counter DROPPED_EARLY = "dropped-early", Packets, "Packets dropped early at random" => .drops();
    Counter DROPPED_FORCED = "dropped-forced", Packets, "Packets dropped, average above the threshold" => .drops();
    Counter DROPPED_AQM = "dropped-aqm", Packets, "Packets dropped to keep the delay low" => .drops();
    Counter MARKED = "marked", Packets, "Packets marked (ECN)";
    Counter DROPPED_EXPEDITED = "dropped-expedited", Packets, "Expedited packets among those dropped by the queue";
    Gauge EXPEDITED_BYTES = "queue-expedited-bytes", Bytes, "Bytes of expedited packets queued";
    Gauge EXPEDITED_MAX_BYTES = "queue-expedited-max-bytes", Bytes, "Peak queue of expedited packets";
    Gauge QUEUE_AVERAGE_BYTES = "queue-average-bytes", Bytes, "Average queue of RED";
    Gauge DROP_PROBABILITY = "drop-probability", Ratio, "Drop probability of PIE";
    Gauge BASE_PROBABILITY = "base-probability", Ratio, "Base probability of DualPI2, before it is squared or coupled";
    Counter DROPPED_L4S = "dropped-l4s", Packets, "L4S packets among those dropped by the queue";
    Counter MARKED_L4S = "marked-l4s", Packets, "L4S packets among those marked";
    Gauge L4S_BYTES = "queue-l4s-bytes", Bytes, "Bytes of L4S packets queued";
    Gauge L4S_MAX_BYTES = "queue-l4s-max-bytes", Bytes, "Peak queue of L4S packets";
    Histogram L4S_DELAYS = "l4s-delays", Seconds, "Distribution of the delay in the L4S queue" => .summed(L4S_DELAY);
    Histogram CLASSIC_DELAYS = "classic-delays", Seconds, "Distribution of the delay in the classic queue" => .summed(CLASSIC_DELAY);
    Counter SENT = "sent", Packets, "Packets of the class sent";
    Counter SENT_BYTES = "sent-bytes", Bytes, "Bytes of the class sent" => .drawn(Draw::Rate("Rates of classes")).summed(&[
        Sum::new("rate", "Rate", How::PerSecond),
    ]);
}
