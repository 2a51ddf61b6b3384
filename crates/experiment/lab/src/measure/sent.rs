//! Packets of accounts that were sent in the window, and the losses among them.

use std::collections::HashMap;

use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_record::{LedgerColumn, LedgerRow};

/// Packets of an account that were sent in the window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    sent: f64,
    copied: f64,
    delivered: f64,
    dropped: f64,
    /// Packets delivered of which another copy had been delivered, as their receivers say.
    duplicates: f64,
    remaining: f64,
    /// Packets that arrived, each once, at one or more of a group.
    arrived: f64,
    /// Packets lost with all their copies.
    lost: f64,
    /// Packets sent in the warm-up that remain.
    waiting: f64,
}

impl Sent {
    /// Returns the packets of each sender.
    pub(super) fn by_sender(ledger: &[LedgerRow]) -> HashMap<&str, Sent> {
        let mut senders: HashMap<&str, Sent> = HashMap::new();
        for row in ledger.iter().filter(|row| row.is_of_flow()) {
            senders.entry(&row.sender).or_default().add(row);
        }
        senders
    }

    fn add(&mut self, row: &LedgerRow) {
        self.arrived += row.arrived.unwrap_or(0) as f64;
        self.lost += row.lost.unwrap_or(0) as f64;
        let column = match row.column {
            LedgerColumn::Sent => &mut self.sent,
            LedgerColumn::Copied => &mut self.copied,
            LedgerColumn::Delivered => &mut self.delivered,
            LedgerColumn::TakenOver => return,
            LedgerColumn::Dropped => &mut self.dropped,
            LedgerColumn::Remaining => &mut self.remaining,
        };
        if row.column == LedgerColumn::Remaining {
            self.waiting += row.in_warm_up as f64;
        }
        self.duplicates += row.duplicates as f64;
        *column += row.packets.saturating_sub(row.in_warm_up) as f64;
    }

    /// Returns requests and answers as one.
    ///
    /// A request that was delivered goes on as its answer, and is lost with it.
    pub(super) fn and_back(self, answers: Sent) -> Sent {
        Sent { arrived: answers.arrived, lost: self.lost + answers.lost, ..self }
    }

    /// Returns the packets lost, and those lost or arrived, whose copies are one.
    pub(super) fn lost(self) -> (f64, f64) {
        (self.lost, self.lost + self.arrived)
    }

    /// Returns `true` if packets are on their way, of which no copy has arrived.
    ///
    /// Of packets of the warm-up, which have no measures, it is not known whether a copy has.
    pub(super) fn is_under_way(self, is_group: bool) -> bool {
        self.waiting > 0.0 || self.remaining > 0.0 && (is_group || self.sent > self.lost + self.arrived)
    }

    /// Returns the packets lost to members of a group, and those lost or arrived.
    ///
    /// `behind` are those that were sent after the last arrivals: what is in flight is among them.
    pub(super) fn lost_to(self, members: f64, behind: f64) -> (f64, f64) {
        let arrived = (self.delivered - self.duplicates).max(0.0);
        let undivided = (self.sent - self.copied / (members - 1.0)).clamp(0.0, self.remaining);
        let in_flight = behind.min(undivided * members + self.remaining - undivided);
        let lost = (self.sent * members - arrived - in_flight).max(0.0);
        let lost = if self.dropped > 0.0 { lost } else { 0.0 };
        (lost, lost + arrived)
    }
}

/// Counters that a loss is declared with.
#[derive(Clone, Copy)]
pub(super) struct Loss {
    /// Packets up to the latest that arrived.
    pub(super) expected: &'static Of<Counter>,
    /// Packets sent.
    pub(super) sent: &'static Of<Counter>,
    /// Packets that arrived too late.
    pub(super) late: Option<&'static Of<Gauge>>,
}
