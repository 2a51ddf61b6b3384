//! Metrics of aggregation.

use bentpipe_net::metric::{How, Sum};

bentpipe_net::metrics! {
    Counter AGGREGATED = "aggregated", Packets, "Packets aggregated";
    Counter AGGREGATES = "aggregates", Packets, "Aggregates sent";
    Counter PASSED = "passed-alone", Packets, "Packets too long to be aggregated";
    Counter FEEDBACK = "feedback-frames", Packets, "Feedback of header compression sent";
    Counter BYTES_IN = "aggregate-bytes-in", Bytes, "Bytes of packets before aggregation";
    Counter BYTES_OUT = "aggregate-bytes-out", Bytes, "Bytes of aggregates";
    Gauge WAIT = "aggregate-wait", Seconds, "Mean wait for other packets"
        => .summed(&[Sum::new("aggregate-wait", "Mean wait for aggregation", How::Last).since(2)]);
    Gauge SAVED = "aggregate-saved", Ratio, "Share of bytes saved"
        => .summed(&[Sum::new("aggregate-saved", "Share of bytes saved", How::Last).since(2)]);
    Counter SEPARATED = "separated", Packets, "Packets taken out of aggregates";
    Counter MALFORMED = "malformed-subframes", Packets, "Aggregates with a malformed subframe" => .drops();
    Counter NOT_DECOMPRESSED = "not-decompressed", Packets, "Packets whose headers could not be decompressed" => .drops();
}
