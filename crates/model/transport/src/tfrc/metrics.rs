//! Metrics of TFRC's sender and receiver, apart from those of any source and sink.

use bentpipe_net::metric::{Draw, UnitColumn, UnitEntry, UnitRest};

use crate::tcp::metrics::{NETWORK_DELAY, WAIT};

bentpipe_net::metrics! {
    Counter REPORTS = "reports", Packets, "Receiver reports";
    Counter DROPPED_BACKLOG = "dropped-backlog", Packets, "Packets dropped at the sender, backlog full" => .drops().units(
        "packets",
        &[UnitEntry::sender(UnitColumn::Offered, ""), UnitEntry::sender(UnitColumn::Refused, "backlog-full")],
        UnitRest::Packets,
    );
    Counter QUICK_START_USED = "quick-start-used", Count, "Quick-Start requests approved";
    Counter QUICK_START_REFUSED = "quick-start-refused", Count, "Quick-Start requests refused";
    Gauge ALLOWED_RATE = "allowed-rate", BitsPerSecond, "Allowed rate" => .drawn(Draw::Line("Allowed rate"));
    Gauge LOSS_EVENT_RATE = "loss-event-rate", Ratio, "Loss event rate";
    Gauge SRTT = "srtt", Seconds, "Smoothed round-trip time" => .drawn(Draw::Line("Round-trip time"))
        .summed(crate::tcp::metrics::RTT);
    Histogram DELAYS = "delays", Seconds, "Distribution of the one-way delay" => .summed(NETWORK_DELAY);
    Histogram WAITS = "waits", Seconds, "Distribution of the time from generation to transmission" => .summed(WAIT);
    Gauge DELAY_WITH_WAIT = "delay-with-wait", Seconds, "One-way delay and wait at the sender, of the last packet";
    Gauge BACKLOG = "backlog", Packets, "Packets waiting at the sender" => .units(
        "packets",
        &[UnitEntry::sender(UnitColumn::Offered, ""), UnitEntry::sender(UnitColumn::Remaining, "waiting-at-the-sender")],
        UnitRest::Packets,
    );
}
