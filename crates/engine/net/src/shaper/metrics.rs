//! Metrics of shapers.

use crate::metric::{Draw, How, Sum};

crate::metrics! {
    Counter DELIVERED = "delivered", Packets, "Packets passed on";
    Counter DELIVERED_BYTES = "delivered-bytes", Bytes, "Bytes passed on";
    Counter DROPPED_QUEUE = "dropped-queue", Packets, "Packets dropped, queue full" => .drops()
        .summed(&[Sum::new("shaper-dropped", "Packets dropped by the shaper", How::Grown)]);
    Counter DROPPED_TOO_BIG = "dropped-too-big", Packets, "Packets dropped, longer than the bucket" => .drops();
    Gauge QUEUE = "queue", Packets, "Packets waiting for tokens";
    Gauge QUEUE_BYTES = "queue-bytes", Bytes, "Bytes waiting for tokens" => .drawn(Draw::Line("Queue"));
    Gauge QUEUE_MEAN_BYTES = "queue-mean-bytes", Bytes, "Mean queue in bytes, over time"
        => .summed(&[Sum::new("shaper-queue-mean-bytes", "Mean queue of the shaper", How::Last).since(2)]);
    Gauge QUEUE_MAX = "queue-max", Packets, "Peak queue in packets";
    Gauge QUEUE_MAX_BYTES = "queue-max-bytes", Bytes, "Peak queue in bytes"
        => .summed(&[Sum::new("shaper-queue-max-bytes", "Peak queue of the shaper", How::Last).since(2)]);
}
