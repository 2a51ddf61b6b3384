//! Metrics of the ports through which real packets enter and leave.

use crate::metric::Draw;

crate::metrics! {
    Counter PACKETS_ENTERED = "entered", Packets, "Packets that entered" => .once(&["packets_entered"]);
    Counter BYTES_ENTERED = "entered-bytes", Bytes, "Bytes that entered" => .once(&["bytes_entered"]);
    Counter PACKETS_LEFT = "left", Packets, "Packets that left" => .once(&["packets_left"]);
    Counter BYTES_LEFT = "left-bytes", Bytes, "Bytes that left" => .once(&["bytes_left"]);
    Counter PACKETS_REFUSED = "refused", Packets, "Packets refused" => .once(&["packets_refused"]);
    Gauge HOST_CWND = "cwnd", Bytes, "Congestion window of a real host" => .drawn(Draw::Line("Congestion windows of real hosts"));
    Gauge HOST_SSTHRESH = "ssthresh", Bytes, "Slow-start threshold of a real host"
        => .drawn(Draw::Limit("Congestion windows of real hosts"));
    Gauge HOST_RTO = "rto", Seconds, "Retransmission timeout of a real host"
        => .drawn(Draw::Limit("Round-trip times of real hosts"));
    Gauge HOST_RTT = "rtt", Seconds, "Smoothed round-trip time of a real host"
        => .drawn(Draw::Line("Round-trip times of real hosts"));
    Gauge HOST_RETRANSMITTED = "retransmitted", Packets, "Segments that a real host sent again";
}
