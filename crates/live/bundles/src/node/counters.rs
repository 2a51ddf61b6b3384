//! Counters of a daemon.

use bentpipe_dtn::ltp;
use bentpipe_dtn::node::Counts;

/// Counters of a daemon, with those of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Counters of the node.
    pub node: Counts,
    /// Bundles that were received before.
    pub duplicates: u64,
    /// Parts kept of bundles whose transfer was cut.
    pub parts: u64,
    /// Bundles that could not be read or break a rule.
    pub malformed: u64,
    /// Bundles that applications have acknowledged.
    pub delivered: u64,
    /// Bundles echoed.
    pub echoed: u64,
    /// Bundles for the echo service that are answers themselves, or came too often.
    pub echo_refused: u64,
    /// Bundles dropped by the discard service.
    pub discarded: u64,
    /// Datagrams of unknown neighbours, or that the kernel did not take.
    pub datagrams_refused: u64,
    /// Bundles that are too long, or for applications without room for them.
    pub no_room: u64,
    /// Counters of LTP.
    pub ltp: ltp::Counts,
    /// Blocks of LTP that neighbours have cancelled.
    pub ltp_cancelled: u64,
    /// Bundles waiting for neighbours and their bytes.
    pub stored: (u64, u64),
    /// Bundles waiting for applications.
    pub waiting: u64,
    /// Bundles found in the store at the start.
    pub restored: u64,
    /// Bytes of the store that were damaged at the start: their bundles are lost.
    pub damaged_bytes: u64,
    /// Bytes at the ends of segments of the store that were incomplete at the start.
    pub incomplete_bytes: u64,
}

impl Counters {
    /// Returns the counters as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        let Counters { node, stored, ltp, .. } = self;
        serde_json::json!({
            "originated": node.originated,
            "received": node.received,
            "forwarded": node.forwarded,
            "delivered": self.delivered,
            "duplicates": self.duplicates + node.duplicates,
            "malformed": self.malformed + node.malformed,
            "unsupported": node.unsupported,
            "too_long": node.too_long,
            "expired": node.expired,
            "evicted": node.evicted,
            "refused": node.refused + self.no_room,
            "hop_limit": node.hop_limit,
            "no_route": node.no_route,
            "cancelled": node.cancelled,
            "rerouted": node.rerouted,
            "fragments": node.fragments,
            "parts": self.parts,
            "resumed": node.resumed,
            "spared_bytes": node.spared,
            "reports": node.reports,
            "reports_left_out": node.reports_left_out,
            "echoed": self.echoed,
            "echo_refused": self.echo_refused,
            "discarded": self.discarded,
            "datagrams_refused": self.datagrams_refused,
            "ltp_sent": ltp.data_sent,
            "ltp_repeated": ltp.data_repeated,
            "ltp_timeouts": ltp.timeouts,
            "ltp_failed": ltp.failed,
            "ltp_cancelled": self.ltp_cancelled,
            "ltp_refused": ltp.refused,
            "stored": stored.0,
            "stored_bytes": stored.1,
            "waiting": self.waiting,
            "restored": self.restored,
            "damaged_bytes": self.damaged_bytes,
            "incomplete_bytes": self.incomplete_bytes,
        })
    }
}

/// Figures in Prometheus' format: name in JSON, meaning, and whether it only grows.
const FIGURES: [(&str, &str, bool); 37] = [
    ("originated", "Bundles from applications and of the node", true),
    ("received", "Bundles from other nodes", true),
    ("forwarded", "Bundles sent to neighbours", true),
    ("delivered", "Bundles that applications have acknowledged", true),
    ("duplicates", "Bundles that had come before", true),
    ("malformed", "Bundles deleted as they break a rule", true),
    ("unsupported", "Bundles deleted as a block is not supported", true),
    ("too_long", "Bundles that no convergence layer takes", true),
    ("expired", "Bundles whose lifetime ended", true),
    ("evicted", "Bundles displaced by others", true),
    ("refused", "Bundles that had no room", true),
    ("hop_limit", "Bundles beyond their hop limit", true),
    ("no_route", "Bundles deleted as no route led to their destination", true),
    ("cancelled", "Bundles deleted by the operator", true),
    ("rerouted", "Bundles queued again", true),
    ("fragments", "Fragments made", true),
    ("parts", "Parts kept of cut transfers", true),
    ("resumed", "Bundles of which only the rest was sent", true),
    ("spared_bytes", "Bytes not sent again", true),
    ("reports", "Status reports sent", true),
    ("reports_left_out", "Status reports not sent, as an unknown sender caused too many", true),
    ("echoed", "Bundles echoed", true),
    ("echo_refused", "Bundles for the echo service without an answer", true),
    ("discarded", "Bundles dropped by the discard service", true),
    ("datagrams_refused", "Datagrams of unknown neighbours, or not sent", true),
    ("ltp_sent", "LTP data segments sent", true),
    ("ltp_repeated", "LTP data segments sent again", true),
    ("ltp_timeouts", "LTP timers expired", true),
    ("ltp_failed", "LTP sessions failed or cancelled", true),
    ("ltp_cancelled", "LTP blocks that neighbours cancelled", true),
    ("ltp_refused", "LTP segments refused", true),
    ("stored", "Bundles waiting for neighbours", false),
    ("stored_bytes", "Bytes waiting for neighbours", false),
    ("waiting", "Bundles waiting for applications", false),
    ("restored", "Bundles found in the store at the start", true),
    ("damaged_bytes", "Bytes of the store found damaged at the start, whose bundles are lost", true),
    ("incomplete_bytes", "Bytes at the ends of the store's segments found incomplete at the start", true),
];

/// Neighbour in the figures: its name, bytes that wait, and if it is connected.
pub(super) type NeighbourRow = (String, u64, bool);

/// Returns the counters in Prometheus' text format (version 0.0.4).
pub(super) fn prometheus(eid: &str, counters: &Counters, neighbours: &[NeighbourRow]) -> String {
    let values = counters.to_json();
    let mut text = String::new();
    for (name, help, is_counter) in FIGURES {
        let (kind, end) = if is_counter { ("counter", "_total") } else { ("gauge", "") };
        let full = format!("bentpipe_dtn_{name}{end}");
        text += &format!(
            "# HELP {full} {help}\n# TYPE {full} {kind}\n{full}{{node=\"{eid}\"}} {}\n",
            values[name]
        );
    }
    let mut gauge = |name: &str, help: &str, value: &dyn Fn(&NeighbourRow) -> u64| {
        text += &format!("# HELP bentpipe_dtn_{name} {help}\n# TYPE bentpipe_dtn_{name} gauge\n");
        for row in neighbours {
            // Names of nodes are visible ASCII; a quote or a backslash would end the label.
            let neighbour = row.0.replace('\\', "\\\\").replace('"', "\\\"");
            text +=
                &format!("bentpipe_dtn_{name}{{node=\"{eid}\",neighbour=\"{neighbour}\"}} {}\n", value(row));
        }
    };
    if !neighbours.is_empty() {
        gauge("neighbour_waiting_bytes", "Bytes waiting for a neighbour", &|row| row.1);
        let connected = "1 if a TCPCL session with a neighbour is there";
        gauge("neighbour_connected", connected, &|row| u64::from(row.2));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_has_every_counter_once() {
        let counters = Counters { duplicates: 7, ..Counters::default() };
        let text = prometheus("ipn:1.0", &counters, &[("dtn://two/".to_owned(), 5, true)]);
        assert!(text.contains("bentpipe_dtn_duplicates_total{node=\"ipn:1.0\"} 7\n"), "{text}");
        assert!(
            text.contains(
                "bentpipe_dtn_neighbour_waiting_bytes{node=\"ipn:1.0\",neighbour=\"dtn://two/\"} 5\n"
            )
        );
        let names: Vec<&str> = FIGURES.iter().map(|(name, ..)| *name).collect();
        let values = counters.to_json();
        let keys = values.as_object().expect("an object");
        assert!(keys.keys().all(|key| names.contains(&key.as_str())), "{keys:?}");
        assert_eq!(keys.len(), names.len());
    }
}
