//! Metrics of streams on DVB carriers, apart from those of any link.

use bentpipe_net::metric::{Draw, How, Sum};

bentpipe_net::metrics! {
    Counter DROPPED_BY_FILTER = "dropped-by-filter", Packets, "Packets dropped by the filter" => .drops();
    Counter DROPPED_REFUSED = "dropped-refused", Packets, "Packets that cannot be carried" => .drops();
    Counter UNITS_SENT = "units-sent", Count, "TS packets or BBFRAMEs with data"
        => .summed(&[Sum::new("units-sent", "TS packets or BBFRAMEs with data", How::Grown)]);
    Counter UNITS_SENT_BYTES = "units-sent-bytes", Bytes, "Bytes of TS packets or BBFRAMEs, padding included";
    Counter UNITS_FLUSHED = "units-flushed", Count, "TS packets or BBFRAMEs padded after the packing threshold";
    Counter UNITS_FADED = "units-faded", Count, "BBFRAMEs below the threshold of their MODCOD"
        => .summed(&[Sum::new("units-faded", "BBFRAMEs below the threshold", How::Grown)]);
    Counter PACKETS_FADED = "packets-faded", Packets, "Packets lost with a BBFRAME below the threshold"
        => .summed(&[Sum::new("packets-faded", "Packets lost to fades", How::Grown)]).losses();
    Counter SNDUS = "sndus", Count, "SNDUs, sections or GSE packets"
        => .summed(&[Sum::new("sndus", "SNDUs", How::Grown)]);
    Counter SNDU_BYTES = "sndu-bytes", Bytes, "Bytes of SNDUs, sections or GSE packets";
    Counter PACKETS_IN = "packets-in", Packets, "Packets encapsulated";
    Counter PACKETS_IN_BYTES = "packets-in-bytes", Bytes, "Bytes of packets encapsulated"
        => .summed(&[Sum::new("efficiency", "Efficiency", How::Over(&UNITS_SENT_BYTES))]);
    Counter COMPRESSED = "compressed", Packets, "Packets compressed"
        => .summed(&[Sum::new("compressed", "Packets compressed", How::Grown).given(&COMPRESSED)]);
    Counter COMPRESSED_RTP = "compressed-rtp", Packets, "Packets compressed as RTP"
        => .summed(&[Sum::new("compressed-rtp", "Packets compressed as RTP", How::Grown).given(&COMPRESSED)]);
    Counter HEADERS_IN_BYTES = "headers-in-bytes", Bytes, "Bytes of headers before compression" => .summed(&[
        Sum::new("header-before", "Mean header before compression", How::Over(&COMPRESSED)).given(&COMPRESSED),
    ]);
    Counter HEADERS_OUT_BYTES = "headers-out-bytes", Bytes, "Bytes of headers after compression" => .summed(&[
        Sum::new("header-after", "Mean header after compression", How::Over(&COMPRESSED)).given(&COMPRESSED),
    ]);
    Counter ROHC_IRS = "rohc-irs", Count, "IR packets of ROHC"
        => .summed(&[Sum::new("rohc-irs", "IR packets of ROHC", How::Grown).given(&COMPRESSED)]);
    Counter ROHC_FEEDBACK_SENT = "rohc-feedback-sent", Count, "SNDUs of ROHC feedback";
    Gauge ROHC_HEADER = "rohc-header", Bytes, "Mean compressed header";
    Gauge ROHC_CONTEXTS = "rohc-contexts", Count, "Contexts of the compressor";
    Gauge EFFICIENCY = "efficiency", Ratio, "Efficiency since the start: bytes of IP packets over bytes sent";
    Gauge FILLING = "filling", Ratio, "Mean filling of data fields since the start";
    Gauge MODCOD = "modcod", Count, "Number of the MODCOD (EN 302 307-1, table 12)" => .drawn(Draw::Line("MODCOD"));
    Gauge ES_N0 = "es-n0", Decibels, "Es/N0 of the receivers" => .drawn(Draw::Line("Es/N0"));
    Gauge LINE_RATE = "line-rate", BitsPerSecond, "Rate of data fields with the present MODCOD" => .drawn(Draw::Line("Line rate"))
        .summed(&[Sum::new("line-rate", "Mean line rate", How::Mean)]);
    Gauge IN_FLIGHT = "in-flight", Count, "TS packets or BBFRAMEs in flight";
    Counter NULLS = "nulls", Count, "Null TS packets or dummy frames";
    Gauge RATE = "rate", BitsPerSecond, "Rate of the carrier";
    Counter UNITS = "units", Count, "TS packets or BBFRAMEs received";
    Counter SNDUS_RECEIVED = "sndus", Count, "SNDUs, sections or GSE packets received";
    Counter DELIVERED = "delivered", Packets, "Packets decapsulated";
    Counter DELIVERED_BYTES = "delivered-bytes", Bytes, "Bytes of packets decapsulated";
    Counter DAMAGED_UNITS = "damaged-units", Count, "TS packets or BBFRAMEs received with errors"
        => .summed(&[Sum::new("damaged-units", "Units received with errors", How::Grown)]);
    Counter CONTINUITY_BREAKS = "continuity-breaks", Count, "Continuity errors"
        => .summed(&[Sum::new("continuity-breaks", "Continuity errors", How::Grown)]);
    Counter CRC_ERRORS = "crc-errors", Count, "CRC errors"
        => .summed(&[Sum::new("crc-errors", "CRC errors", How::Grown)]).losses();
    Counter FORMAT_ERRORS = "format-errors", Count, "Invalid lengths, pointers, types and labels"
        => .summed(&[Sum::new("format-errors", "Format errors", How::Grown)]);
    Counter RESYNCHRONISED = "resynchronised", Count, "Times that the start of an SNDU was found again";
    Counter ALTERED = "altered", Packets, "Packets delivered with undetected errors"
        => .summed(&[Sum::new("altered", "Packets with undetected errors", How::Grown)]);
    Counter NOT_RESTORED = "not-restored", Packets, "Packets of flows that could not be restored from what arrived"
        => .summed(&[Sum::new("not-restored", "Packets not restored", How::Grown)]);
    Counter ROHC_REFUSED = "rohc-refused", Packets, "Packets refused by the decompressor"
        => .summed(&[Sum::new("rohc-refused", "Packets refused by the decompressor", How::Grown).given(&COMPRESSED)]);
    Counter ROHC_CRC_FAILURES = "rohc-crc-failures", Packets, "Headers whose ROHC CRC failed";
    Counter ROHC_CHECKSUM_FAILURES = "rohc-checksum-failures", Packets, "Packets whose transport checksum failed";
}
