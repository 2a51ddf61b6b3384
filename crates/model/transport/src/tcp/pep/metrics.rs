//! Metrics of a TCP-splitting proxy.

use bentpipe_net::metric::{Draw, How, Sum};

bentpipe_net::metrics! {
    Counter OPENED = "connections-split", Count, "Connections split"
        => .summed(&[Sum::new("connections-split", "Connections split", How::Grown)]);
    Counter OVER_LIMIT = "connections-over-limit", Count, "Connections not split because of the limit";
    Counter PASSED = "packets-passed", Packets, "Packets forwarded as they are";
    Counter ENDED = "segments-ended", Packets, "Segments that ended at the proxy";
    Counter MADE = "segments-made", Packets, "Segments that the proxy sent";
    Counter BROKEN = "connections-broken", Count, "Split connections of which one side failed";
    Counter LOST = "lost-bytes", Bytes, "Bytes acknowledged and lost when a connection broke"
        => .summed(&[Sum::new("lost-bytes", "Bytes acknowledged and lost", How::Grown)]);
    Counter RELAYED = "relayed-bytes", Bytes, "Bytes delivered by split connections" => .drawn(Draw::Rate("Relayed rate"));
    Gauge SPLIT = "connections-present", Count, "Split connections" => .drawn(Draw::Line("Split connections"));
    Gauge HELD = "held-bytes", Bytes, "Bytes acknowledged and not delivered" => .drawn(Draw::Line("Bytes held"))
        .summed(&[Sum::new("held-mean", "Mean of bytes held", How::Mean)]);
}
