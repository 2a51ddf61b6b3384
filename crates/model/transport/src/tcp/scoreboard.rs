//! Scoreboard of unacknowledged data: SACKed, lost, retransmitted (RFC 6675 sections 3 and 4).
//!
//! Loss is monotone: a number below a lost one is lost too, and retransmissions go upwards. So two cursors,
//! `lost_below` and `high_rxt`, decide for each number that is not SACKed whether it is lost and whether it
//! was retransmitted, and the pipe is kept by counting. An ACK costs a binary search among the SACKed ranges,
//! independent of the window.

use std::collections::VecDeque;

use super::ranges::Ranges;

/// The sender's outstanding data. Positions are 64 bit, counted from the SYN.
#[derive(Debug)]
pub(super) struct Scoreboard {
    una: u64,
    high: u64,
    sacked: Ranges,
    /// Position below which all data that is not SACKed is lost (`IsLost`); at least `una`.
    lost_below: u64,
    /// Position below which all data that is not SACKed was retransmitted (`HighRxt`); at least `una`.
    high_rxt: u64,
    /// SACKed numbers at or above `lost_below`.
    sacked_above_lost: u64,
    /// SACKed numbers below `high_rxt`.
    sacked_below_rxt: u64,
    /// Repairs, when they are watched for their own loss.
    repairs: Option<VecDeque<Repair>>,
    /// Repairs that were lost, to be made again.
    again: Ranges,
}

/// A range sent again when `high` had been sent.
#[derive(Clone, Copy, Debug)]
struct Repair {
    start: u64,
    end: u64,
    high: u64,
}

/// Rule for the loss of un-SACKed data below SACKed data.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossRule {
    /// `DupThresh`.
    pub(super) threshold: u32,
    pub(super) smss: u32,
    /// Count everything below the highest SACK, SACKed or not.
    pub(super) fack: bool,
}

impl Scoreboard {
    /// Creates a scoreboard with nothing outstanding at position `start`.
    pub(super) fn new(start: u64, watch_repairs: bool) -> Scoreboard {
        Scoreboard {
            una: start,
            high: start,
            sacked: Ranges::default(),
            lost_below: start,
            high_rxt: start,
            sacked_above_lost: 0,
            sacked_below_rxt: 0,
            repairs: watch_repairs.then(VecDeque::new),
            again: Ranges::default(),
        }
    }

    /// Returns the first position not acknowledged (SND.UNA).
    #[inline]
    pub(super) fn una(&self) -> u64 {
        self.una
    }

    /// Returns the first position never sent (`HighData` + 1).
    #[inline]
    pub(super) fn high(&self) -> u64 {
        self.high
    }

    /// Returns the number of bytes not acknowledged cumulatively (RFC 5681 FlightSize).
    #[inline]
    pub(super) fn flight(&self) -> u64 {
        self.high - self.una
    }

    /// Returns the estimate of bytes in the network (RFC 6675 `SetPipe`).
    #[inline]
    pub(super) fn pipe(&self) -> u64 {
        let unlost = self.high - self.lost_below - self.sacked_above_lost;
        let repaired = self.high_rxt - self.una - self.sacked_below_rxt;
        (unlost + repaired).saturating_sub(self.again.total())
    }

    #[inline]
    pub(super) fn has_sacked(&self) -> bool {
        !self.sacked.is_empty()
    }

    /// Returns the end of the highest SACKed range.
    #[inline]
    pub(super) fn highest_sacked(&self) -> Option<u64> {
        self.sacked.last().map(|(_, end)| end)
    }

    /// Returns `true` if the lowest outstanding data is lost (`IsLost(HighACK + 1)`).
    #[inline]
    pub(super) fn first_is_lost(&self) -> bool {
        self.lost_below > self.una
    }

    /// Returns `true` if the receiver has discarded SACKed data (RFC 2018 section 8).
    ///
    /// The evidence is a SACK directly above the cumulative acknowledgement.
    pub(super) fn reneged(&self) -> bool {
        self.sacked.first().is_some_and(|(start, _)| start <= self.una)
    }

    /// Records `len` newly sent bytes.
    #[inline]
    pub(super) fn extend(&mut self, len: u64) {
        self.high += len;
    }

    /// Records a cumulative acknowledgement of outstanding data. Returns the part that was not SACKed before.
    #[inline]
    pub(super) fn acknowledge(&mut self, ack: u64) -> u64 {
        let acked = ack - self.una;
        if self.sacked.is_empty() && self.high_rxt == self.una {
            // Nothing went wrong lately.
            (self.una, self.high_rxt) = (ack, ack);
            self.lost_below = self.lost_below.max(ack);
            return acked;
        }
        self.acknowledge_repaired(ack)
    }

    fn acknowledge_repaired(&mut self, ack: u64) -> u64 {
        let acked = ack - self.una;
        if self.lost_below < ack {
            self.sacked_above_lost -= self.sacked.covered(self.lost_below, ack);
            self.lost_below = ack;
        }
        let sacked = self.sacked.trim_below(ack);
        self.again.trim_below(ack);
        self.una = ack;
        if self.high_rxt <= ack {
            self.restart_repairs();
        } else {
            self.sacked_below_rxt -= sacked;
        }
        acked - sacked
    }

    /// Records a SACK block, with any values. Returns the newly SACKed part.
    pub(super) fn sack(&mut self, start: u64, end: u64) -> u64 {
        let (start, end) = (start.max(self.una), end.min(self.high));
        if start >= end {
            return 0;
        }
        let below_rxt = self.sacked.covered(start, end.min(self.high_rxt));
        let below_lost = self.sacked.covered(start, end.min(self.lost_below));
        let new = self.sacked.insert(start, end);
        if new == 0 {
            return 0;
        }
        self.again.remove(start, end);
        self.sacked_below_rxt += self.high_rxt.min(end).saturating_sub(start) - below_rxt;
        let new_below_lost = self.lost_below.min(end).saturating_sub(start) - below_lost;
        self.sacked_above_lost += new - new_below_lost;
        new
    }

    /// Marks data as lost after new SACKs (RFC 6675 `IsLost`).
    pub(super) fn update_lost(&mut self, rule: LossRule) {
        let below = if rule.fack { self.lost_by_fack(rule) } else { self.lost_by_count(rule) };
        if let Some(below) = below {
            self.raise_lost(below);
        }
        self.find_lost_repairs(rule);
    }

    /// Returns the end of lost data, by `threshold` SACKed ranges or bytes above.
    ///
    /// The bytes are more than `threshold - 1` segments'.
    fn lost_by_count(&self, rule: LossRule) -> Option<u64> {
        let enough_bytes = u64::from(rule.threshold.saturating_sub(1)) * u64::from(rule.smss);
        let mut bytes = 0;
        let mut above = 0;
        self.sacked.top_down().find_map(|(start, end)| {
            bytes += end - start;
            above += 1;
            (above >= rule.threshold || bytes > enough_bytes).then_some(start)
        })
    }

    fn lost_by_fack(&self, rule: LossRule) -> Option<u64> {
        let distance = u64::from(rule.threshold) * u64::from(rule.smss);
        let below = self.highest_sacked()?.checked_sub(distance)?;
        // The cursor rests on SACKed data or on a hole's edge between two segments.
        Some(self.sacked.around(below).map_or(below, |(start, _)| start))
    }

    fn raise_lost(&mut self, below: u64) {
        if below > self.lost_below {
            self.sacked_above_lost -= self.sacked.covered(self.lost_below, below);
            self.lost_below = below;
        }
    }

    /// Marks lost retransmissions: not SACKed, though enough data sent later is.
    fn find_lost_repairs(&mut self, rule: LossRule) {
        let Some(highest) = self.highest_sacked() else { return };
        let Some(repairs) = self.repairs.as_mut() else { return };
        let distance = u64::from(rule.threshold) * u64::from(rule.smss);
        while let Some(repair) = repairs.front().copied().filter(|repair| repair.high + distance <= highest) {
            repairs.pop_front();
            let mut from = repair.start.max(self.una);
            while from < repair.end {
                let (start, end) = self.sacked.gap(from);
                let end = end.unwrap_or(repair.end).min(repair.end);
                self.again.insert(start, end);
                from = end.max(start);
            }
        }
    }

    /// Returns the first range that is lost and not retransmitted: RFC 6675 `NextSeg` rule 1.
    pub(super) fn next_lost(&self) -> Option<(u64, u64)> {
        if self.high_rxt >= self.lost_below && self.again.is_empty() {
            return None;
        }
        self.again.first().or_else(|| {
            let (start, end) = self.sacked.gap(self.high_rxt);
            let end = end.unwrap_or(self.lost_below).min(self.lost_below);
            (start < end).then_some((start, end))
        })
    }

    /// Returns the first range below the highest SACK not yet retransmitted: `NextSeg` rule 3.
    pub(super) fn next_unsacked(&self) -> Option<(u64, u64)> {
        let (start, end) = self.sacked.gap(self.high_rxt);
        Some((start, end?))
    }

    /// Returns the lowest range that is outstanding and not SACKed.
    pub(super) fn first_hole(&self) -> Option<(u64, u64)> {
        let (start, end) = self.sacked.gap(self.una);
        let end = end.unwrap_or(self.high);
        (start < end).then_some((start, end))
    }

    /// Records the retransmission of `start..end`.
    pub(super) fn on_repair(&mut self, start: u64, end: u64) {
        self.again.remove(start, end);
        if end > self.high_rxt {
            self.sacked_below_rxt += self.sacked.covered(self.high_rxt, end);
            self.high_rxt = end;
        }
        let high = self.high;
        let Some(repairs) = self.repairs.as_mut() else { return };
        match repairs.back_mut() {
            Some(last) if last.high == high && last.end == start => last.end = end,
            _ => repairs.push_back(Repair { start, end, high }),
        }
    }

    /// Returns the last outstanding bytes for `NextSeg` rule 4. Their retransmission is not counted.
    pub(super) fn last_hole(&self, smss: u64) -> Option<(u64, u64)> {
        let floor = self.highest_sacked().unwrap_or(self.una).max(self.una);
        (floor < self.high).then(|| (self.high.saturating_sub(smss).max(floor), self.high))
    }

    /// Marks all un-SACKed data as lost after a timeout; no retransmission counts any more.
    pub(super) fn lose_all(&mut self) {
        self.raise_lost(self.high);
        self.restart_repairs();
    }

    /// Clears all SACKs, as the receiver may discard SACKed data (RFC 2018 section 8).
    pub(super) fn forget_sacked(&mut self) {
        self.sacked.clear();
        self.sacked_above_lost = 0;
        self.sacked_below_rxt = 0;
    }

    /// Clears all marks of loss after a spurious loss. Retransmissions stay: they are in the network, and their data is not
    /// sent again for the same SACKs.
    pub(super) fn clear_lost_marks(&mut self) {
        self.lost_below = self.una;
        self.sacked_above_lost = self.sacked.total();
        self.again.clear();
    }

    fn restart_repairs(&mut self) {
        self.high_rxt = self.una;
        self.sacked_below_rxt = 0;
        self.again.clear();
        if let Some(repairs) = self.repairs.as_mut() {
            repairs.clear();
        }
    }
}

#[cfg(test)]
mod tests;
