//! Rates and times of 802.11b and 802.11g.
//!
//! Times of the physical layers are those of IEEE 802.11-2007, clauses 18.3.4 (TXTIME of HR/DSSS) and 19.8 (ERP).

use bentpipe_units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Overhead of a data frame in bytes: MAC header 24, LLC/SNAP 8, FCS 4.
pub const OVERHEAD: usize = 36;
/// Overhead in bytes without LLC/SNAP: MAC header and FCS.
pub(super) const MAC: usize = 28;
/// The lengths of an ACK or CTS, and of an RTS frame, in bytes.
const ACK: usize = 14;
const RTS: usize = 20;

/// PHY standard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Standard {
    /// 802.11b: 1, 2, 5.5, 11 Mbit/s.
    #[default]
    B,
    /// 802.11g where no 802.11b station is: 6 to 54 Mbit/s, slots of 9 us.
    G,
    /// 802.11g together with 802.11b stations: slots of 20 us, CTS-to-self before each frame.
    GMixed,
}

/// The preamble of 802.11b frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preamble {
    /// 192 us with the header.
    #[default]
    Long,
    /// Short preamble: 96 us with the header. Frames of 1 Mbit/s have the long one.
    Short,
}

const B: [Rate; 4] = [
    Rate::from_bps(1_000_000),
    Rate::from_bps(2_000_000),
    Rate::from_bps(5_500_000),
    Rate::from_bps(11_000_000),
];

/// OFDM rates. Each carries four times its Mbit/s in data bits per symbol of 4 us.
const G: [Rate; 8] = [
    Rate::from_bps(6_000_000),
    Rate::from_bps(9_000_000),
    Rate::from_bps(12_000_000),
    Rate::from_bps(18_000_000),
    Rate::from_bps(24_000_000),
    Rate::from_bps(36_000_000),
    Rate::from_bps(48_000_000),
    Rate::from_bps(54_000_000),
];

impl Standard {
    /// Returns the rates, from the lowest.
    pub const fn rates(self) -> &'static [Rate] {
        match self {
            Standard::B => &B,
            Standard::G | Standard::GMixed => &G,
        }
    }

    /// Returns the rate of control frames: the highest basic rate not above `rate`.
    ///
    /// Basic rates are 2 Mbit/s, or 6, 12 and 24.
    fn control(self, rate: Rate) -> Rate {
        let basic: &[Rate] = match self {
            Standard::B => &B[..2],
            Standard::G | Standard::GMixed => &[G[0], G[2], G[4]],
        };
        basic.iter().rev().copied().find(|basic| *basic <= rate).unwrap_or(basic[0])
    }

    /// Returns the duration of a frame of `bytes`, FCS included.
    fn frame(self, preamble: Preamble, rate: Rate, bytes: usize) -> Span {
        match self {
            Standard::B => dsss(preamble, rate, bytes),
            // Preamble and signal field 20, then symbols with 16 bits of service and 6 of tail, then 6 of extension.
            Standard::G | Standard::GMixed => {
                let bits_a_symbol = (rate.as_bps() / 1_000_000 * 4).max(1);
                Span::from_micros(20 + 4 * (22 + 8 * bytes as u64).div_ceil(bits_a_symbol) + 6)
            }
        }
    }
}

/// Returns the duration of a frame of 802.11b: whole microseconds.
fn dsss(preamble: Preamble, rate: Rate, bytes: usize) -> Span {
    let header = if preamble == Preamble::Short && rate > B[0] { 96 } else { 192 };
    Span::from_micros(header + (8_000_000 * bytes as u64).div_ceil(rate.as_bps().max(1)))
}

/// The times of the distributed coordination function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timing {
    pub(super) slot: Span,
    pub(super) sifs: Span,
    /// SIFS and two slots.
    pub(super) difs: Span,
    /// Replacement of DIFS after a corrupted frame: SIFS, an ACK at the lowest rate, DIFS.
    pub(super) eifs: Span,
    /// Time until a missing ACK is detected: SIFS, a slot, a preamble's detection.
    pub(super) ack_timeout: Span,
    pub(super) cw_min: u32,
    pub(super) cw_max: u32,
}

impl Timing {
    pub(super) fn of(standard: Standard) -> Timing {
        let us = Span::from_micros;
        let (slot, sifs, cw_min, lowest_ack, found) = match standard {
            Standard::B => (us(20), us(10), 31, dsss(Preamble::Long, B[0], ACK), us(192)),
            Standard::G => (us(9), us(10), 15, standard.frame(Preamble::Long, G[0], ACK), us(25)),
            Standard::GMixed => (us(20), us(10), 15, dsss(Preamble::Long, B[0], ACK), us(192)),
        };
        let difs = sifs + slot * 2;
        let (eifs, ack_timeout) = (sifs + lowest_ack + difs, sifs + slot + found);
        Timing { slot, sifs, difs, eifs, ack_timeout, cw_min, cw_max: 1023 }
    }
}

/// The parts of an exchange of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Time before the data frame: RTS, CTS and the gaps after them, or CTS-to-self.
    pub lead: Span,
    /// The first frame on the air, which is all that a collision takes.
    pub first: Span,
    /// The data frame.
    pub data: Span,
    /// SIFS and the ACK.
    pub ack: Span,
}

impl Exchange {
    /// Returns the exchange that carries an IP packet of `packet_len` bytes at `rate`. `rts` enables RTS and
    /// CTS.
    pub fn of(standard: Standard, preamble: Preamble, rate: Rate, packet_len: usize, rts: bool) -> Exchange {
        let sifs = Timing::of(standard).sifs;
        let (control, data) = (standard.control(rate), standard.frame(preamble, rate, packet_len + OVERHEAD));
        let short = |bytes| standard.frame(preamble, control, bytes);
        // With 802.11b around, what reserves the medium has to be understood there.
        let reserving = |bytes| match standard {
            Standard::GMixed => dsss(preamble, B[1], bytes),
            _ => short(bytes),
        };
        let (lead, first) = match (rts, standard) {
            (true, _) => (reserving(RTS) + sifs + reserving(ACK) + sifs, reserving(RTS)),
            (false, Standard::GMixed) => (reserving(ACK) + sifs, reserving(ACK) + sifs + data),
            (false, _) => (Span::ZERO, data),
        };
        Exchange { lead, first, data, ack: sifs + short(ACK) }
    }

    /// Returns the time from the first bit to the end of the ACK.
    pub fn total(&self) -> Span {
        self.lead + self.data + self.ack
    }

    /// Returns the exchange for a packet to a group.
    ///
    /// It is at the lowest rate, without protection or an answer.
    pub(super) fn to_group(standard: Standard, preamble: Preamble, packet_len: usize) -> Exchange {
        let exchange = Exchange::of(standard, preamble, standard.rates()[0], packet_len, false);
        Exchange { ack: Span::ZERO, ..exchange }
    }

    /// Returns the mean time of a lone sender's packet, with backoff and gaps, without losses.
    pub fn with_access(&self, standard: Standard) -> Span {
        self.total() + Timing::of(standard).difs + self.backoff(standard)
    }

    /// Returns the mean backoff of a lone sender.
    pub fn backoff(&self, standard: Standard) -> Span {
        let timing = Timing::of(standard);
        timing.slot.mul_f64(f64::from(timing.cw_min) / 2.0)
    }
}
