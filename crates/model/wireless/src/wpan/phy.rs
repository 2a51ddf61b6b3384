//! O-QPSK PHY at 2.4 GHz: 250 kbit/s, its times and its bit errors.

use bentpipe_units::Span;

/// Symbol of four bits.
pub const SYMBOL: Span = Span::from_micros(16);
/// Byte on the air.
pub const OCTET: Span = Span::from_micros(32);
/// Unit of backoffs (aUnitBackoffPeriod, 20 symbols).
pub const BACKOFF: Span = Span::from_micros(320);
/// Clear channel assessment (8 symbols).
pub const CCA: Span = Span::from_micros(128);
/// Change between reception and transmission (aTurnaroundTime, 12 symbols).
pub const TURNAROUND: Span = Span::from_micros(192);
/// Wait for an acknowledgement after a frame (macAckWaitDuration, 54 symbols).
pub const ACK_WAIT: Span = Span::from_micros(864);
/// Spacing after a short frame (macMinSIFSPeriod, 12 symbols).
pub const SIFS: Span = Span::from_micros(192);
/// Spacing after a long frame (macMinLIFSPeriod, 40 symbols).
pub const LIFS: Span = Span::from_micros(640);
/// Maximum length of a short frame in bytes (aMaxSIFSFrameSize).
pub const MAX_SHORT_FRAME: usize = 18;
/// Preamble, start-of-frame delimiter and length in bytes.
pub const HEADER_LEN: usize = 6;
/// Length of an acknowledgement with its FCS in bytes.
pub const ACK_LEN: usize = 5;

/// Returns the time on the air of a MAC frame with its FCS.
///
/// ```
/// use bentpipe_wireless::wpan::phy;
/// assert_eq!(phy::airtime(36).as_nanos(), 1_344_000);
/// assert_eq!(phy::airtime(phy::ACK_LEN).as_nanos(), 352_000);
/// ```
pub fn airtime(frame: usize) -> Span {
    OCTET * (HEADER_LEN + frame) as u64
}

/// Returns the spacing after a frame.
pub fn spacing(frame: usize) -> Span {
    if frame > MAX_SHORT_FRAME { LIFS } else { SIFS }
}

/// Returns the bit error ratio at a ratio of signal to noise.
///
/// IEEE 802.15.4, annex E.
pub fn bit_error_ratio(snr: f64) -> f64 {
    let mut choose = 16.0;
    let mut sum = 0.0;
    for k in 2..=16_u32 {
        choose *= f64::from(17 - k) / f64::from(k);
        let sign = if k % 2 == 0 { 1.0 } else { -1.0 };
        sum += sign * choose * libm::exp(20.0 * snr * (1.0 / f64::from(k) - 1.0));
    }
    (8.0 / 15.0 / 16.0 * sum).clamp(0.0, 0.5)
}
