//! Metrics of tunnelled returns of unidirectional links.

bentpipe_net::metrics! {
    Counter TUNNELLED = "tunnelled", Packets, "Packets into the tunnel";
    Counter TUNNELLED_BYTES = "tunnelled-bytes", Bytes, "Bytes of packets into the tunnel, outer headers not counted";
    Counter DROPPED_NO_TUNNEL = "dropped-no-tunnel", Packets, "Packets dropped while no tunnel is known" => .drops();
    Counter DROPPED_MALFORMED = "dropped-malformed", Packets, "Packets dropped that cannot be tunnelled" => .drops();
    Counter DROPPED_NO_CARRIER = "dropped-no-carrier", Packets, "Packets dropped in the direction of a one-way link that has no carrier" => .drops();
    Counter HELLOS = "hellos", Count, "HELLOs received from the feed";
    Counter HELLOS_REFUSED = "hellos-refused", Count, "HELLOs of other feeds, versions or tunnels";
    Counter TUNNELS_LOST = "tunnels-lost", Count, "Times that HELLOs stayed away and the tunnel was forgotten";
    Gauge TUNNEL = "tunnel", Count, "Known tunnels";
    Counter HELLOS_SENT = "hellos-sent", Count, "HELLOs sent";
    Counter UNTUNNELLED = "untunnelled", Packets, "Packets out of the tunnel";
    Counter DROPPED_UNTUNNELLED = "dropped-untunnelled", Packets, "Packets of the tunnel that are malformed or for another station" => .drops();
}
