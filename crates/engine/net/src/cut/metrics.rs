//! Metrics of a cut.

crate::metrics! {
    Counter SENT = "cut-sent", Packets, "Packets sent to the other machine";
    Counter RECEIVED = "cut-received", Packets, "Packets received from the other machine";
    Counter LATE = "cut-late", Packets, "Packets of the other machine that came too late";
    Counter DROPPED = "cut-dropped", Packets, "Packets between machines dropped for lack of room";
    Gauge MAX_LATENESS = "cut-max-lateness", Seconds, "Most that a packet of the other machine came too late";
    Gauge WAITING = "cut-waiting", Packets, "Packets of the other machine that wait for their instant";
}
