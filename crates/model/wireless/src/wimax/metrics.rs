//! Metrics of an 802.16 cell, apart from those of any link.

use bentpipe_net::metric::Draw;

bentpipe_net::metrics! {
    Counter FRAMES = "wimax-frames", Count, "Frames in which anything was sent or granted";
    Gauge DOWNLINK_USE = "downlink-use", Ratio, "Symbols of the downlink in use, of all frames until now";
    Gauge UPLINK_USE = "uplink-use", Ratio, "Symbols of the uplink in use, of all frames until now";
    Gauge DOWNLINK_BUSY = "downlink-busy", Seconds, "Downlink in use" => .drawn(Draw::Rate("Use of the cell"));
    Gauge UPLINK_BUSY = "uplink-busy", Seconds, "Uplink in use" => .drawn(Draw::Rate("Use of the cell"));
    Gauge MAP_SHARE = "map-share", Ratio, "Symbols of preamble, FCH and maps among those in use";
    Counter PDUS_SENT = "mac-pdus", Count, "MAC PDUs sent";
    Counter PDUS_LOST = "mac-pdus-lost", Count, "MAC PDUs lost on the channel";
    Counter FRAGMENTS = "mac-fragments", Count, "Fragments sent";
    Counter DROPPED_ERRORS = "dropped-errors", Packets, "Packets lost with a PDU" => .drops();
    Counter DROPPED_REQUESTS = "dropped-requests", Packets, "Packets dropped, attempts to request exhausted" => .drops();
    Counter DROPPED_RING = "dropped-ring", Packets, "Packets dropped in front of the station's processor" => .drops();
    Counter REQUESTS = "bandwidth-requests", Count, "Bandwidth requests by contention";
    Counter REQUESTS_COLLIDED = "bandwidth-requests-collided", Count, "Bandwidth requests that collided";
    Counter PIGGYBACKS = "piggyback-requests", Count, "Piggyback requests";
    Counter POLLS = "unicast-polls", Count, "Unicast polls";
    Counter GRANTED = "granted-bytes", Bytes, "Bytes granted or scheduled";
    Counter SLIP_GRANTS = "slip-grants", Count, "Grants of UGS beyond its interval, for the slip indicator";
    Counter PHS_SAVED = "phs-saved-bytes", Bytes, "Bytes of headers suppressed";
    Counter PHS_UNMATCHED = "phs-unmatched", Packets, "Packets sent whole, without a rule of header suppression";
    Counter ROHC_BEFORE = "rohc-bytes-in", Bytes, "Bytes of packets before header compression";
    Counter ROHC_AFTER = "rohc-bytes-out", Bytes, "Bytes of packets after header compression";
    Counter ROHC_FEEDBACK = "rohc-feedback", Packets, "Packets of feedback of header compression";
    Counter NOT_DECOMPRESSED = "not-decompressed", Packets, "Packets that header compression did not restore" => .drops();
    Counter ARQ_BLOCKS = "arq-blocks", Count, "Blocks sent with ARQ";
    Counter ARQ_AGAIN = "arq-retransmitted-blocks", Count, "Blocks sent again";
    Counter ARQ_FEEDBACK = "arq-feedback-bytes", Bytes, "Bytes of ARQ feedback elements";
    Counter DROPPED_LIFETIME = "dropped-lifetime", Packets, "Packets given up after the lifetime of their blocks" => .drops();
    Gauge PROFILE = "burst-profile", Count, "Burst profile, 0 for BPSK 1/2 to 6 for 64-QAM 3/4";
}
