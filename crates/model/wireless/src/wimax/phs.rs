//! Payload header suppression of a service flow.

use bentpipe_net::Packet;
use bentpipe_wire::wman::phs::{INDEX_LEN, Rule, suppress};

use super::config::{Convergence, Phs};

/// Rules of a connection, set up by the SDUs that need them.
#[derive(Clone, Debug)]
pub(super) struct Suppressor {
    config: Phs,
    convergence: Convergence,
    rules: Vec<Rule>,
    /// Bytes that were not sent, without those of the indices.
    pub(super) saved: u64,
    /// SDUs that were sent whole.
    pub(super) unmatched: u64,
}

impl Suppressor {
    /// Creates the rules of a connection.
    pub(super) fn new(config: &Phs, convergence: Convergence) -> Suppressor {
        Suppressor { config: config.clone(), convergence, rules: Vec::new(), saved: 0, unmatched: 0 }
    }

    /// Sets up a rule for a packet that none matches, if there may be more.
    pub(super) fn learn(&mut self, packet: &Packet) {
        let sdu = self.convergence.sdu(&packet.to_vec());
        let size = self.config.size();
        let is_full = self.rules.len() >= usize::from(self.config.rules);
        if is_full || sdu.len() < size || self.rules.iter().any(|rule| rule.matches(&sdu)) {
            return;
        }
        let ranges = self.config.bytes.iter();
        let suppressed = ranges.flat_map(|[first, last]| usize::from(*first)..=usize::from(*last));
        self.rules.push(Rule::new(self.rules.len() as u8 + 1, &sdu[..size], suppressed));
    }

    /// Returns index and SDU of a packet, without what a rule suppresses.
    pub(super) fn sent(&self, packet: &Packet) -> Vec<u8> {
        suppress(&self.rules, &self.convergence.sdu(&packet.to_vec()))
    }

    /// Returns the length in bytes of a packet on the air.
    pub(super) fn sent_len(&self, packet: &Packet) -> usize {
        self.sent(packet).len()
    }

    /// Counts a packet whose last byte is sent.
    pub(super) fn count(&mut self, packet: &Packet, sent: usize) {
        let sdu = INDEX_LEN + self.convergence.sdu_len(packet.len());
        self.saved += (sdu - sent) as u64;
        self.unmatched += u64::from(sdu == sent);
    }

    /// Returns the rules, as the receiver has them too.
    #[cfg(test)]
    pub(super) fn rules(&self) -> &[Rule] {
        &self.rules
    }
}
