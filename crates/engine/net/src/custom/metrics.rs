//! Metrics of registered elements.

use crate::metric::{Draw, How, Sum};

crate::metrics! {
    Counter RECEIVED = "received", Packets, "Packets received";
    Counter DELIVERED = "delivered", Packets, "Packets passed on";
    Counter DELIVERED_BYTES = "delivered-bytes", Bytes, "Bytes passed on";
    Counter DROPPED = "dropped-by-element", Packets, "Packets dropped by the element" => .drops()
        .summed(&[Sum::new("custom-dropped", "Packets dropped by the custom element", How::Grown)]);
    Gauge VALUE = "value", Count, "Value that the element reports" => .drawn(Draw::Line("Value"))
        .summed(&[Sum::new("custom-value-mean", "Mean value of the custom element", How::Mean)]);
}
