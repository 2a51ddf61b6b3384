//! Payload header suppression of a service flow.

use bentpipe_net::{InvalidConfig, Packet};
use bentpipe_wire::wman::phs::{INDEX_LEN, MAX_SIZE, Rule, suppress};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::Convergence;

/// Payload header suppression: bytes that are not sent, as the other end knows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Phs {
    /// Ranges of suppressed bytes of the SDU, each by its first and last byte, in order.
    pub bytes: Vec<[u8; 2]>,
    /// Maximum number of rules, each for one value of those bytes. Default: 16.
    #[serde(default = "rules")]
    #[schemars(range(min = 1))]
    pub rules: u8,
}

const fn rules() -> u8 {
    16
}

impl Phs {
    /// Checks the values.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let mut next = 0;
        let ordered = self.bytes.iter().all(|[first, last]| {
            let fits = usize::from(*first) >= next && last >= first && usize::from(*last) < MAX_SIZE;
            next = usize::from(*last) + 1;
            fits
        });
        let expected = "ranges like [12, 19], in order, without overlap and below byte 255";
        InvalidConfig::ensure(ordered && !self.bytes.is_empty(), "bytes", expected)?;
        InvalidConfig::ensure(self.rules > 0, "rules", "at least 1 rule")
    }

    /// Returns the length in bytes of the header that rules describe.
    fn size(&self) -> usize {
        self.bytes.last().map_or(0, |[_, last]| usize::from(*last) + 1)
    }

    /// Returns the number of bytes that a rule suppresses.
    fn saved(&self) -> usize {
        self.bytes.iter().map(|[first, last]| usize::from(last.saturating_sub(*first)) + 1).sum()
    }

    /// Returns the length in bytes of index and SDU. A rule matches if the header is whole.
    pub(super) fn sent_len(&self, sdu: usize) -> usize {
        let saved = if sdu < self.size() { 0 } else { self.saved() };
        INDEX_LEN + sdu.saturating_sub(saved)
    }
}

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

    /// Sets up a rule for a packet that none matches, if the number of rules allows.
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
