//! Metrics of a bridge.

bentpipe_net::metrics! {
    Gauge MEMBERS = "members", Count, "Members of the conference";
    Counter MIXES = "mixes", Packets, "Mixes, one for each member and packet";
    Counter ENCODED = "encoded", Packets, "Mixes encoded: members with the same mix share one";
    Counter MIXED = "mixed", Packets, "Frames added to the mixes of others";
    Counter CONCEALED = "concealed", Packets, "Frames concealed as none was there";
    Counter LEFT_OUT = "left-out", Packets, "Frames of speech left out, as others were louder";
    Gauge TALKERS = "talkers", Count, "Mean number of members who speak";
    Gauge WAITING = "mix-wait", Seconds, "Mean time from a frame's playout to its mix";
}
