//! Packets with a CRC of 7 bits where one of 3 bits would do: when a compressor sends them
//! ([`CompressorConfig::confirm`]), and what a decompressor knows of that.
//!
//! After losses that may hide a change a CRC of 3 bits proves little, and a decompressor waits for a longer one. What is in
//! doubt besides, and which packet shows that the compressor confirms, differs with the profiles
//! ([`rfc3095`](crate::rfc3095), [`tcp`](crate::tcp)).

use core::cell::Cell;

use crate::config::CompressorConfig;
use crate::profile::Mode;

/// The most packets from one to the next.
const MOST: u8 = 32;
/// Packets from the first one of a flow to the second; from there to the next twice as many, up to the configuration's.
const FIRST_GAP: u8 = 4;
/// So many at most in O-mode, where a NACK brings one when it is missed.
const OPTIMISTIC_GAP: u8 = 128;
/// Never due.
const NEVER: u8 = u8::MAX;

/// Packets behind what changed, besides those that say so, that have a CRC of 7 bits in U-mode: one of 3 bits says that there
/// was no change before it for longer.
pub(crate) const BEHIND_CHANGES: u8 = 4;

/// Whether a compressor confirms.
pub(crate) const fn is_on(config: &CompressorConfig) -> bool {
    config.confirm > 0 && !config.only_ir_and_so
}

/// When the next packet with a CRC of 7 bits is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Packets until one is due.
    left: u8,
    /// From the next one to the one after it; 0: none was sent yet.
    gap: u8,
}

impl Default for Pace {
    /// Never.
    fn default() -> Self {
        Self { left: NEVER, gap: 0 }
    }
}

impl Pace {
    /// A flow begins.
    pub(crate) const fn starting(config: &CompressorConfig) -> Self {
        Self { left: if is_on(config) { 0 } else { NEVER }, gap: 0 }
    }

    /// Whether the next packet is to have a CRC of 7 bits.
    #[inline]
    pub(crate) const fn is_due(&self) -> bool {
        self.left == 0
    }

    /// Whether the first one was sent.
    #[inline]
    pub(crate) const fn is_begun(&self) -> bool {
        self.gap > 0
    }

    /// A packet was sent the short way.
    #[inline]
    pub(crate) const fn stepped(&mut self) {
        self.left -= (self.left != NEVER) as u8;
    }

    /// A packet was sent the general way, with a CRC of 7 or 8 bits (`is_strong`) or not.
    #[inline]
    pub(crate) fn sent(&mut self, is_strong: bool) {
        if self.is_begun() {
            self.left = if is_strong { self.gap } else { self.left.saturating_sub(1) };
        }
    }

    /// The next packet is to have a CRC of 7 bits, if the first one was sent.
    #[inline]
    pub(crate) fn hurry(&mut self) {
        if self.is_begun() {
            self.left = 0;
        }
    }

    /// One that is due is sent.
    pub(crate) fn plan(&mut self, config: &CompressorConfig, mode: Mode) {
        let most = if mode == Mode::Optimistic { OPTIMISTIC_GAP } else { config.confirm.min(MOST) };
        self.gap = if self.gap == 0 { FIRST_GAP } else { self.gap.saturating_mul(2) }.min(most);
    }
}

/// Packets in doubt with CRCs of 3 bits, all right, after which the compressor is not one that confirms: one that does sends
/// at most 32 in a row.
const PATIENCE: u8 = 80;

/// What is known of the compressor at the other end of a channel: whether it confirms.
#[derive(Debug, Default)]
pub(crate) struct Peer(Cell<bool>);

impl Peer {
    #[inline]
    pub(crate) fn confirms(&self) -> bool {
        self.0.get()
    }

    /// It was seen to.
    pub(crate) fn was_seen(&self) {
        self.0.set(true);
    }

    /// One more packet waits, and `waited` did before; whether it was worth it. Otherwise it is forgotten that it was seen.
    pub(crate) fn is_worth_waiting_for(&self, waited: &mut u8) -> bool {
        *waited = waited.saturating_add(1);
        let is_worth = *waited <= PATIENCE;
        if !is_worth {
            self.0.set(false);
        }
        is_worth
    }
}
