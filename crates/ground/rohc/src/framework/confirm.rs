//! Schedule of confirmations: packets with CRC-7 where CRC-3 would do ([`CompressorConfig::confirm`]).
//!
//! After losses that may hide a change a CRC-3 proves little. A decompressor that was configured to expect confirmations
//! ([`DecompressorConfig::peer_confirms`](crate::DecompressorConfig::peer_confirms)) waits for one. Packets never show
//! whether a compressor confirms: others send CRC-7 in the same places for reasons of their own.

use crate::framework::config::CompressorConfig;

/// Maximum number of packets between confirmations.
const MOST: u8 = 32;
/// Packets between the first two CRC-7 of a flow. The gap doubles up to the configured one.
const FIRST_GAP: u8 = 4;
/// Maximum number of packets between confirmations in O-mode, where a NACK brings one sooner.
const OPTIMISTIC_GAP: u8 = 128;
/// Never due.
const NEVER: u8 = u8::MAX;

/// Packets with CRC-7 after those that signal a change in U-mode. A CRC-3 then shows that nothing changed for longer.
pub(crate) const BEHIND_CHANGES: u8 = 4;

/// Schedule of packets with CRC-7.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConfirmSchedule {
    /// Packets until one is due.
    left: u8,
    /// Packets from the next one to the one after it. 0 if none was sent yet.
    gap: u8,
}

impl Default for ConfirmSchedule {
    /// Never.
    fn default() -> Self {
        Self { left: NEVER, gap: 0 }
    }
}

impl ConfirmSchedule {
    /// Creates the schedule of a new flow.
    pub(crate) const fn starting(config: &CompressorConfig) -> Self {
        Self { left: if config.confirms() { 0 } else { NEVER }, gap: 0 }
    }

    /// Returns `true` if the next packet is to have a CRC-7.
    #[inline]
    pub(crate) const fn is_due(&self) -> bool {
        self.left == 0
    }

    /// Returns `true` if the first one was sent.
    #[inline]
    pub(crate) const fn is_begun(&self) -> bool {
        self.gap > 0
    }

    /// Counts a packet sent on the fast path.
    #[inline]
    pub(crate) const fn stepped(&mut self) {
        self.left -= (self.left != NEVER) as u8;
    }

    /// Counts a packet sent on the general path, with CRC-7 or CRC-8 (`is_strong`) or not.
    #[inline]
    pub(crate) fn sent(&mut self, is_strong: bool) {
        if self.is_begun() {
            self.left = if is_strong { self.gap } else { self.left.saturating_sub(1) };
        }
    }

    /// Schedules a CRC-7 for the next packet, if the first one was sent.
    #[inline]
    pub(crate) fn expedite(&mut self) {
        if self.is_begun() {
            self.left = 0;
        }
    }

    /// Restarts with small gaps in another mode. What has begun goes on.
    pub(crate) fn restart(&mut self) {
        if self.is_begun() {
            (self.left, self.gap) = (0, FIRST_GAP / 2);
        }
    }

    /// Plans the next CRC-7 after the present one. `is_prompt` is set if a NACK would bring one sooner.
    pub(crate) fn plan(&mut self, config: &CompressorConfig, is_prompt: bool) {
        let most = if is_prompt { OPTIMISTIC_GAP } else { config.confirm.min(MOST) };
        self.gap = if self.gap == 0 { FIRST_GAP } else { self.gap.saturating_mul(2) }.min(most);
    }
}
