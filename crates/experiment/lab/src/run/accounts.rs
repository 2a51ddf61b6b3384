//! Accounts of packets of a network, and flows that have none of their own.

use std::collections::HashSet;

use bentpipe_net::Port;
use bentpipe_net::metric::End;
use bentpipe_record::{FlowFact, FlowNote, LedgerRow, Reported, Subject, UnitRow};
use bentpipe_sim::{ElementId, Network};

/// Accounts of a network's packets.
pub(super) struct Accounts {
    /// Rows, by sender.
    pub(super) ledger: Vec<LedgerRow>,
    /// Rows of units, by flow.
    pub(super) units: Vec<UnitRow>,
    /// Flows that send no packets of their own, with what carries their data.
    pub(super) carriage: Vec<FlowNote>,
}

impl Accounts {
    /// Returns those of a network that has come to its end.
    pub(super) fn of_ended(mut network: Network) -> Accounts {
        let (flows, reported) = (carried(&network), Reported::of(&mut network));
        Accounts::of(LedgerRow::of(&network.close()), &reported, flows)
    }

    /// Returns those of a network that goes on.
    pub(super) fn of_running(network: &mut Network) -> Accounts {
        let reported = Reported::of(network);
        Accounts::of(LedgerRow::of_running(&network.statements()), &reported, carried(network))
    }

    fn of(ledger: Vec<LedgerRow>, reported: &Reported, mut carriage: Vec<FlowNote>) -> Accounts {
        let senders: HashSet<&str> = ledger.iter().map(|row| &row.sender[..]).collect();
        carriage.retain(|note| !senders.contains(&format!("{}.sender", note.flow)[..]));
        let units = UnitRow::of(reported, &ledger);
        Accounts { ledger, units, carriage }
    }
}

/// Returns the flows whose sender is not connected with a node.
fn carried(network: &Network) -> Vec<FlowNote> {
    let note = |sender: ElementId| {
        let (flow, end) = Subject::end_of_flow(network.path(sender))?;
        let to = network.leads_to(sender, Port(0)).filter(|_| end == End::Sender)?.0;
        Some(FlowNote { flow: Subject::Flow(flow).to_string(), fact: carriage(network.path(to))? })
    };
    network.ids().filter_map(note).collect()
}

/// Returns what carries the data of a flow whose sender leads to an element. `None` at a node.
fn carriage(path: &str) -> Option<FlowFact> {
    match Subject::of_element(path) {
        Some((Subject::Node(_), "")) => None,
        Some((Subject::Node(_), _)) => Some(FlowFact::CarriedBy { sender: path.replace('/', ".") }),
        _ => Some(FlowFact::Cells),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_of_nodes_have_accounts_and_others_what_carries_them() {
        assert_eq!(carriage("node/a"), None);
        let sender = "node.a.dtn".to_owned();
        assert_eq!(carriage("node/a/dtn"), Some(FlowFact::CarriedBy { sender }));
        assert_eq!(carriage("vc/cells/near"), Some(FlowFact::Cells));
    }
}
