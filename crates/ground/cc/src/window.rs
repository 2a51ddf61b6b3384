//! The two numbers every law moves, in bytes, within their bounds.

use crate::Connection;

/// Congestion window and slow start threshold of one connection.
///
/// Kept in fractions of a byte, so that no increment is lost; the window never leaves one segment to
/// [`Connection::max_window`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    cwnd: f64,
    ssthresh: f64,
    smss: f64,
    max: f64,
}

impl Window {
    /// Returns the initial window of `connection`.
    pub fn new(connection: &Connection) -> Window {
        let smss = f64::from(connection.smss.max(1));
        let ssthresh = match connection.initial_ssthresh {
            u64::MAX => f64::INFINITY,
            bytes => bytes as f64,
        };
        let mut window = Window { cwnd: smss, ssthresh, smss, max: connection.max_window as f64 };
        window.set(f64::from(connection.initial_window_segments) * smss);
        window
    }

    /// Returns the window in bytes.
    #[inline]
    pub fn cwnd(&self) -> f64 {
        self.cwnd
    }

    /// Returns the window in segments.
    #[inline]
    pub fn segments(&self) -> f64 {
        self.cwnd / self.smss
    }

    /// Returns the threshold in bytes; infinite before it is set.
    #[inline]
    pub fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    /// Returns a segment in bytes.
    #[inline]
    pub fn smss(&self) -> f64 {
        self.smss
    }

    /// Returns `true` if slow start applies: the window is below the threshold. RFC 5681 3.1; at equality
    /// either may be used.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Sets the window, within its bounds. NaN gives one segment.
    #[inline]
    pub fn set(&mut self, bytes: f64) {
        self.cwnd = if bytes > self.smss { bytes.min(self.max.max(self.smss)) } else { self.smss };
    }

    /// Adds to the window.
    #[inline]
    pub fn grow(&mut self, bytes: f64) {
        self.set(self.cwnd + bytes);
    }

    /// Adds to the window, but not beyond the threshold.
    #[inline]
    pub fn grow_to_ssthresh(&mut self, bytes: f64) {
        self.set((self.cwnd + bytes).min(self.ssthresh));
    }

    /// Sets the threshold, at least two segments (RFC 5681 eq. 4).
    pub fn set_ssthresh(&mut self, bytes: f64) {
        self.ssthresh = bytes.max(2.0 * self.smss);
    }

    /// Returns the window in whole bytes.
    #[inline]
    pub fn cwnd_bytes(&self) -> u64 {
        self.cwnd as u64
    }

    /// Returns the threshold in whole bytes, `u64::MAX` while infinite.
    pub fn ssthresh_bytes(&self) -> u64 {
        self.ssthresh as u64
    }
}
