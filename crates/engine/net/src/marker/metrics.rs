//! Metrics of markers.

crate::metrics! {
    Counter MATCHED = "matched", Packets, "Packets that a rule matched";
    Counter CHANGED = "changed", Packets, "Packets that came with another DSCP";
}
