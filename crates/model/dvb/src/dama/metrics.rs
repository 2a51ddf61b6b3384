//! Metrics of shared return links, apart from those of any link.

bentpipe_net::metrics! {
    Counter PLANS = "plans", Count, "Burst time plans";
    Counter REQUESTS = "requests", Count, "Capacity requests";
    Counter UNITS_CONSTANT = "units-constant", Count, "Units assigned continuously (CRA)";
    Counter UNITS_RATE = "units-rate", Count, "Units assigned by rate (RBDC)";
    Counter UNITS_VOLUME = "units-volume", Count, "Units assigned by volume (VBDC)";
    Counter UNITS_FREE = "units-free", Count, "Units assigned freely (FCA)";
    Gauge UNITS_ASKED = "units-asked", Count, "Units requested in the last superframe";
    Gauge UNITS_ASSIGNED = "units-assigned", Count, "Units assigned in the last superframe";
    Gauge SHARE_ASSIGNED = "share-assigned", Ratio, "Share of the units assigned";
    Counter BURSTS = "bursts", Count, "Bursts";
    Counter DAMAGED_HEADS = "damaged-heads", Count, "Bursts with a damaged header";
    Counter DAMAGES = "damages", Count, "Reassembly errors";
    Counter SLOTS_ASSIGNED = "slots-assigned", Count, "Slots assigned";
    Counter CELLS = "cells", Cells, "TS packets or cells with data";
    Counter CELLS_NULL = "cells-null", Cells, "Null TS packets or idle cells";
    Gauge RATE_ASKED = "rate-asked", BitsPerSecond, "Rate requested";
    Gauge RATE_ASSIGNED = "rate-assigned", BitsPerSecond, "Rate assigned";
}
