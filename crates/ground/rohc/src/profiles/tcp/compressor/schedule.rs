//! Periodic IR and IR-DYN packets in unidirectional operation (RFC 6846 5.2.1.2).

use core::time::Duration;

use super::super::groups::{Group, Set};
use super::MAX_REPEATS;
use crate::framework::config::CompressorConfig;
use crate::framework::refresh::{self, RefreshClock};
use crate::profiles::tcp::Job;

/// The refreshes of one context.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    ir: RefreshClock,
    ir_dyn: RefreshClock,
    /// Packets to the next IR while a flow starts slowly; 0 when it does not.
    slow_start_gap: u32,
    /// Set while the first period is to get the context's own phase.
    is_spread: bool,
}

impl Schedule {
    /// A flow begins; gives how often its first IR is repeated.
    pub(super) fn begin(&mut self, config: &CompressorConfig, repeats: u8) -> u8 {
        self.slow_start_gap = u32::from(config.slow_start);
        self.is_spread = config.spread_refreshes;
        if config.slow_start { 1 } else { repeats }
    }

    /// Returns the groups due with this packet.
    #[inline]
    pub(super) fn due(&mut self, job: &Job<'_>) -> Set {
        let period = job.config.ir_refresh.packets;
        let ir = self.ir.is_due(job.config.ir_refresh, job.now);
        let slow = self.slow_start_gap > 0 && self.ir.packets > self.slow_start_gap;
        if ir {
            (self.is_spread, self.slow_start_gap) = (false, 0);
        } else if slow {
            self.slow_start_gap = self.slow_start_gap.saturating_mul(2);
            if period != 0 && self.slow_start_gap >= period {
                self.slow_start_gap = 0;
            }
        }
        let ir_dyn = self.ir_dyn.is_due(job.config.fo_refresh, job.now);
        Set::NONE.with_if(Group::Static, ir || slow).with_if(Group::Dynamic, ir_dyn)
    }

    /// Returns `true` and counts the next packet if no refresh is due with it.
    #[inline]
    pub(super) fn passes(&mut self, config: &CompressorConfig, now: Duration) -> bool {
        if self.ir.is_next_beyond(self.slow_start_gap)
            || self.ir.is_next_due(config.ir_refresh, now)
            || self.ir_dyn.is_next_due(config.fo_refresh, now)
        {
            return false;
        }
        self.ir.tick();
        self.ir_dyn.tick();
        true
    }

    /// Returns the number of packets of a refresh: nothing changed, so one may be enough.
    #[inline]
    pub(super) fn times(&self, config: &CompressorConfig) -> u8 {
        if self.slow_start_gap > 0 { 1 } else { config.refresh_repeats.clamp(1, MAX_REPEATS) }
    }

    /// A packet carried `carried`: the periods of what was in it restart.
    #[inline]
    pub(super) fn sent(&mut self, job: &Job<'_>, carried: Set) {
        if carried.has(Group::Static) {
            let is_spread = self.is_spread && self.slow_start_gap == 0;
            let phase = if is_spread { refresh::phase(job.cid.cid) } else { 0 };
            self.ir.restart_at(phase, job.config.ir_refresh, job.now);
            self.ir_dyn.restart_at(phase, job.config.fo_refresh, job.now);
        } else if carried.has(Group::Dynamic) {
            self.ir_dyn.restart(job.now);
        }
    }
}
