//! Metrics of bundle nodes in the simulator.

use bentpipe_net::metric::{Draw, End, How, Sum, UnitColumn, UnitEntry, UnitRest};

bentpipe_net::metrics! {
    // Not the metric of datagrams: bundles may wait for contacts for any time, so those that have not arrived are not lost.
    Counter SENT = "sent", Packets, "Bundles sent"
        => .units("bundles", &[UnitEntry::sender(UnitColumn::Offered, "")], UnitRest::None);
    Counter ARRIVED = "bundles-arrived", Packets, "Bundles that an application took"
        => .units("bundles", &[UnitEntry::receiver(UnitColumn::Delivered, "")], UnitRest::None);
    Gauge BUNDLES_WAITING = "bundles-waiting", Count, "Bundles of the flow that nodes store"
        => .summed(&[Sum::new("bundles-waiting", "Bundles in storage at the end", How::Last).at(End::Receiver)]);
    Gauge BUNDLES_STORED = "bundles-stored", Count, "Bundles of the flow that a node stores, and none got later"
        => .units("bundles", &[UnitEntry::receiver(UnitColumn::Remaining, "waiting")], UnitRest::None);
    Gauge BUNDLES_IN_FLIGHT = "bundles-in-flight", Count, "Bundles of the flow on their way between two nodes"
        => .units("bundles", &[UnitEntry::receiver(UnitColumn::Remaining, "in-flight")], UnitRest::None);
    Gauge BUNDLES_LOST = "bundles-lost", Count, "Bundles of the flow lost or deleted"
        => .summed(&[Sum::new("loss", "Loss", How::OfAllWith(&ARRIVED)).at(End::Receiver).since(2)]);
    Gauge BUNDLES_LOST_ON_THE_WAY = "bundles-lost-on-the-way", Count, "Bundles of the flow lost between two nodes"
        => .units("bundles", &[UnitEntry::receiver(UnitColumn::Dropped, "on-the-way")], UnitRest::None);
    Gauge BUNDLES_EXPIRED = "bundles-expired", Count, "Bundles of the flow whose lifetime ended"
        => .units("bundles", &[UnitEntry::receiver(UnitColumn::Dropped, "expired")], UnitRest::None);
    Gauge BUNDLES_WITHOUT_ROOM = "bundles-without-room", Count, "Bundles of the flow that storages had no room for"
        => .units("bundles", &[UnitEntry::receiver(UnitColumn::Dropped, "no-room")], UnitRest::None);
    Gauge BUNDLES_DELETED = "bundles-deleted", Count, "Bundles of the flow deleted for other reasons"
        => .units("bundles", &[UnitEntry::receiver(UnitColumn::Dropped, "deleted")], UnitRest::None);
    Gauge STORED = "stored", Count, "Bundles stored" => .drawn(Draw::Line("Bundles stored"));
    Gauge STORED_BYTES = "stored-bytes", Bytes, "Bytes stored" => .drawn(Draw::Line("Bytes stored"))
        .summed(&[Sum::new("stored-mean", "Mean of stored bytes", How::Mean)]);
    Counter ORIGINATED = "originated", Count, "Bundles from applications";
    Counter RECEIVED = "received", Count, "Bundles from other nodes";
    Counter FORWARDED = "forwarded", Count, "Bundles forwarded";
    Counter DELIVERED = "delivered", Count, "Bundles delivered";
    Counter EXPIRED = "expired", Count, "Bundles expired";
    Counter EVICTED = "evicted", Count, "Bundles displaced by others of higher priority";
    Counter REFUSED = "refused", Count, "Bundles that did not fit the storage";
    Counter MALFORMED = "malformed", Count, "Bundles and datagrams not accepted";
    Counter HOP_LIMIT = "hop-limit", Count, "Bundles beyond their hop limit";
    Counter TOO_LONG = "too-long", Count, "Bundles that no convergence layer takes";
    Counter REROUTED = "rerouted", Count, "Bundles routed again";
    Counter FRAGMENTS = "bundle-fragments", Count, "Fragments of bundles made";
    Counter REPORTS = "reports", Count, "Status reports sent";
    Counter DUPLICATES = "bundle-duplicates", Count, "Copies of bundles that a node has had";
    Gauge WAITING = "measures-waiting", Count, "Measures that wait for the connection to the proxy"
        => .units("bundles", &[UnitEntry::sender(UnitColumn::Remaining, "waiting-for-the-proxy")], UnitRest::InFlight);
    Counter SESSIONS = "tcpcl-sessions", Count, "TCPCL sessions established";
    Counter UNFINISHED = "tcpcl-unfinished", Count, "Bundles in transfer at the end of a TCPCL session";
    Counter PARTS = "bundle-parts", Count, "Parts kept of bundles whose transfer was cut";
    Counter RESUMED = "bundle-resumed", Count, "Bundles of which only the rest was sent after a cut";
    Counter SPARED = "bundle-spared", Bytes, "Payload not sent again after a cut";
    Counter TCP_REPEATED = "tcp-repeated", Packets, "TCP segments of sessions sent again";
    Counter LTP_SENT = "ltp-sent", Packets, "LTP data segments sent";
    Counter LTP_REPEATED = "ltp-repeated", Packets, "LTP data segments sent again";
    Counter LTP_REPORTS = "ltp-reports", Packets, "LTP reports sent";
    Counter LTP_TIMEOUTS = "ltp-timeouts", Count, "LTP timers expired";
    Counter LTP_FAILED = "ltp-failed", Count, "LTP sessions failed or cancelled";
}
