//! Metrics of sensor fields, and of the consoles that query them.

use bentpipe_net::metric::{Draw, End, How, Sum};

const ROW_DELAY: &[Sum] = &[
    Sum::new("row-delay-mean", "Mean time from sample to row", How::DistributionMean).at(End::Sender),
    Sum::new("row-delay-p95", "95th-percentile time from sample to row", How::Quantile(95)).at(End::Sender),
];

bentpipe_net::metrics! {
    Gauge MOTES = "motes", Count, "Motes with a route to the base station";
    Gauge DEPTH = "depth", Count, "Levels of the tree";
    Counter QUERIES = "queries", Count, "Queries run";
    Counter MESSAGES = "messages", Count, "Messages with results, one per hop" => .drawn(Draw::Rate("Messages of the field"));
    Counter MESSAGES_LOST = "messages-lost", Count, "Messages with results given up";
    Counter LATE = "late", Count, "Results that arrived after their epoch";
    Counter FIELD_ROWS = "field-rows", Count, "Rows at the base station";
    Counter SAMPLES = "samples", Count, "Samples taken";
    Counter FRAMES = "frames", Count, "Data frames on the air";
    Counter FRAME_BYTES = "frame-bytes", Bytes, "Bytes of data frames on the air";
    Counter ACKS = "acks", Count, "Acknowledgements on the air";
    Counter COLLIDED = "frames-collided", Count, "Receptions lost to collisions";
    Counter CORRUPTED = "frames-corrupted", Count, "Receptions lost to bit errors";
    Counter BUSY = "channel-busy", Count, "Assessments that found the channel busy";
    Counter ACCESS_FAILURES = "access-failures", Count, "Frames given up on a busy channel";
    Counter UNACKNOWLEDGED = "unacknowledged", Count, "Frames given up without acknowledgement";
    Gauge ENERGY = "energy", Joules, "Energy of all motes" => .drawn(Draw::Line("Energy of the field"));
    Gauge ENERGY_MOST = "energy-most", Joules, "Energy of the mote that used most";
    Gauge SAMPLING = "sampling-energy", Joules, "Energy of all samples";
    Gauge LIFETIME = "lifetime", Seconds, "Lifetime of that mote's battery at its mean power";
    Counter ROWS = "rows", Count, "Rows received"
        => .summed(&[Sum::new("rows", "Rows received", How::Grown).at(End::Sender)]);
    Counter ROW_BUNDLES = "row-bundles", Count, "Bundles with rows";
    Counter RESULT_BYTES = "result-bytes", Bytes, "Bytes of results received"
        => .summed(&[Sum::new("result-bytes", "Bytes of results received", How::Grown).at(End::Sender)]);
    Counter QUERIES_REFUSED = "queries-refused", Count, "Queries refused by the field"
        => .summed(&[Sum::new("queries-refused", "Queries refused by the field", How::Grown).at(End::Sender)]);
    Gauge RESPONSE = "response", Seconds, "Time from the query to its first row"
        => .summed(&[Sum::new("response", "Time from the query to its first row", How::Last).at(End::Sender)]);
    Gauge VALUE = "value", Count, "First value of the latest row" => .drawn(Draw::Line("First value of the latest row"));
    Histogram ROW_DELAYS = "row-delays", Seconds, "Time from sample to row" => .summed(ROW_DELAY);
}
