//! Metrics of address translators.

crate::metrics! {
    Counter OUTWARDS = "outwards", Packets, "Packets translated on their way out";
    Counter INWARDS = "inwards", Packets, "Packets translated on their way in";
    Gauge MAPPINGS = "mappings", Count, "Mappings in use";
    Counter DROPPED_EXHAUSTED = "dropped-exhausted", Packets, "Packets dropped without a free port number" => .drops();
    Counter DROPPED_UNMAPPED = "dropped-unmapped", Packets, "Packets dropped without a mapping" => .drops();
    Counter DROPPED_FILTERED = "dropped-filtered", Packets, "Packets dropped from an address that was not sent to" => .drops();
    Counter DROPPED_UNTRANSLATABLE = "dropped-untranslatable", Packets, "Packets dropped that cannot be translated" => .drops();
}
