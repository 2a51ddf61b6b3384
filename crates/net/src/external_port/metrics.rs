//! Metrics of the ports through which real packets enter and leave.

crate::metrics! {
    Counter PACKETS_ENTERED = "entered", Packets, "Packets that entered" => .once(&["packets_entered"]);
    Counter BYTES_ENTERED = "entered-bytes", Bytes, "Bytes that entered" => .once(&["bytes_entered"]);
    Counter PACKETS_LEFT = "left", Packets, "Packets that left" => .once(&["packets_left"]);
    Counter BYTES_LEFT = "left-bytes", Bytes, "Bytes that left" => .once(&["bytes_left"]);
    Counter PACKETS_REFUSED = "refused", Packets, "Packets refused" => .once(&["packets_refused"]);
}
