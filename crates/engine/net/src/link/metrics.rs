//! Metrics of an element in a link's place: line, terminal, stream on a carrier, station.

use crate::metric::{Draw, How, Sum};

crate::metrics! {
    Counter DELIVERED = "delivered", Packets, "Packets delivered" => .summed(&[
        Sum::new("dropped", "Packets dropped", How::Dropped),
        Sum::new("drop-ratio", "Drop ratio", How::DropRatio),
    ]);
    Counter DELIVERED_BYTES = "delivered-bytes", Bytes, "Bytes delivered"
        => .summed(&[Sum::new("rate", "Rate", How::PerSecond)]);
    Counter DROPPED_TOO_BIG = "dropped-too-big", Packets, "Packets dropped, longer than the MTU" => .drops();
    Gauge IN_FLIGHT = "in-flight", Packets, "Packets in flight";
    Gauge BUSY = "busy", Seconds, "Time spent sending" => .drawn(Draw::Rate("Link utilisation"))
        .summed(&[Sum::new("utilisation", "Link utilisation", How::PerSecond)]);
    Gauge UTILISATION = "utilisation", Ratio, "Utilisation since the start";
}
