//! Metrics of space data links, apart from those of any link.

use bentpipe_net::metric::{How, Sum};

bentpipe_net::metrics! {
    Counter FRAMES_SENT = "frames-sent", Count, "Transfer frames with data"
        => .summed(&[Sum::new("frames-sent", "Transfer frames with data", How::Grown)]);
    Counter FRAMES_SENT_BYTES = "frames-sent-bytes", Bytes, "Bytes of transfer frames with data, before coding";
    Counter FRAMES_IDLE = "frames-idle", Count, "Slots without data";
    Counter FILL_BYTES = "fill-bytes", Bytes, "Bytes of fill in frames with data";
    Counter PACKETS_IN = "packets-in", Packets, "Packets encapsulated";
    Counter PACKETS_IN_BYTES = "packets-in-bytes", Bytes, "Bytes of packets encapsulated, without headers that are left out"
        => .summed(&[Sum::new("efficiency", "Efficiency", How::Over(&FRAMES_SENT_BYTES))]);
    Counter DROPPED_CUT = "dropped-cut", Packets, "Packets cut by a change of frames" => .drops();
    Counter FRAMES = "frames", Count, "Transfer frames that arrived";
    Counter FRAMES_UNCORRECTABLE = "frames-uncorrectable", Count, "Frames that the decoder could not correct"
        => .summed(&[Sum::new("frames-uncorrectable", "Frames uncorrectable", How::Over(&FRAMES))]).losses();
    Counter CRC_ERRORS = "crc-errors", Count, "Frames with a wrong CRC"
        => .summed(&[Sum::new("crc-errors", "Frames with a wrong CRC", How::Over(&FRAMES))]).losses();
    Counter HEADER_ERRORS = "header-errors", Count, "Frames with an impossible header";
    Counter SEQUENCE_GAPS = "sequence-gaps", Count, "Gaps in the frame count";
    Counter SYMBOLS_CORRECTED = "symbols-corrected", Count, "Reed-Solomon symbols corrected"
        => .summed(&[Sum::new("symbols-corrected", "Reed-Solomon symbols corrected", How::Grown)]);
    Counter CHANNEL_SYMBOLS = "channel-symbols", Count, "Symbols of the channel";
    Counter CHANNEL_ERRORS = "channel-errors", Count, "Wrong symbols of the channel, by hard decisions"
        => .summed(&[Sum::new("channel-errors", "Symbol error ratio", How::Over(&CHANNEL_SYMBOLS))]);
    Counter DECAPSULATED = "decapsulated", Packets, "Packets decapsulated";
    Counter DECAPSULATED_BYTES = "decapsulated-bytes", Bytes, "Bytes of packets decapsulated";
    Counter FORMAT_ERRORS = "format-errors", Count, "Impossible encapsulation packets";
    Counter PACKETS_BROKEN = "packets-broken", Packets, "Packets with a missing frame";
    Counter ALTERED = "altered", Packets, "Packets delivered with undetected errors";
}
