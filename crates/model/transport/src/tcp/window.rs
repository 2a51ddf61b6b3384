//! The receive buffer, and the window that is offered for it.

use super::config::{LinuxBuffer, ReceiveBuffer};

/// Receive buffer: number of bytes that may be in flight to this end.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    /// Most that is ever offered.
    clamp: u64,
    /// Window advertised with nothing waiting to be read: Linux's `rcv_ssthresh`.
    open: u64,
    growth: Option<Growth>,
}

/// Growth of a Linux window.
#[derive(Clone, Debug)]
struct Growth {
    /// Bytes of memory in all.
    memory: u64,
    scale: u32,
    segment_memory: Option<u64>,
}

impl Growth {
    /// Returns the advertised part of `memory` (`tcp_win_from_space`).
    fn offered(&self, memory: u64) -> u64 {
        memory - memory.checked_shr(self.scale).unwrap_or(0)
    }

    /// Returns the limit of the window for segments of `payload` bytes each.
    ///
    /// The window may open fully while a segment fills at least the advertised part of its memory. Otherwise
    /// the limit is a half, a quarter and so on, by the factor that the memory would have to be smaller for
    /// the same use.
    fn limit(&self, payload: u64) -> u64 {
        let mut memory = self.offered(self.segment_memory.unwrap_or(payload));
        let mut limit = self.offered(self.memory);
        while memory > payload && limit > 0 {
            memory /= 2;
            limit /= 2;
        }
        limit
    }
}

impl Buffer {
    /// Creates the buffer of a connection whose peer's segments carry up to `mss` bytes.
    ///
    /// The window field cannot express more than `sayable`.
    pub(super) fn new(config: &ReceiveBuffer, mss: u64, sayable: u64) -> Buffer {
        let buffer = match config {
            ReceiveBuffer::Exact(bytes) => Buffer { clamp: bytes.get(), open: bytes.get(), growth: None },
            ReceiveBuffer::Linux(linux) => Buffer::linux(linux, mss),
        };
        Buffer { clamp: buffer.clamp.min(sayable), open: buffer.open.min(sayable), ..buffer }
    }

    /// Returns the window scale to announce (RFC 7323 2.3).
    ///
    /// It is the smallest with which the maximum window can be expressed.
    pub(super) fn shift_for(config: &ReceiveBuffer) -> u8 {
        let most = Buffer::new(config, 1460, u64::MAX).clamp;
        (0..14).find(|shift| most >> shift <= 0xffff).unwrap_or(14)
    }

    fn linux(config: &LinuxBuffer, mss: u64) -> Buffer {
        let memory = config.rcvbuf.get().saturating_mul(2);
        let segment_memory = config.segment_memory.map(|bytes| bytes.get());
        let growth = Growth { memory, scale: config.adv_win_scale.into(), segment_memory };
        let clamp = growth.offered(memory);
        // The first offer is a few segments: 4, 3 or 2 by their size.
        let segments = match mss {
            0..=1460 => 4,
            1461..=4380 => 3,
            _ => 2,
        };
        Buffer { clamp, open: clamp.min(segments * mss), growth: Some(growth) }
    }

    /// Returns the maximum of the advertised window.
    pub(super) fn clamp(&self) -> u64 {
        self.clamp
    }

    /// Returns the window with `unread` bytes waiting for the application.
    #[inline]
    pub(super) fn space(&self, unread: u64) -> u64 {
        self.open.min(self.clamp.saturating_sub(unread))
    }

    /// Returns `true` if the window opened by a segment in order with `payload` bytes.
    #[inline]
    pub(super) fn on_segment(&mut self, payload: u64, mss: u64) -> bool {
        self.open < self.clamp && self.grow(payload, mss)
    }

    fn grow(&mut self, payload: u64, mss: u64) -> bool {
        let Some(growth) = &self.growth else { return false };
        let limit = growth.limit(payload);
        if self.open > limit || payload < 128 {
            return false;
        }
        self.open = (self.open + 2 * mss).min(self.clamp);
        true
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_units::Bytes;

    use super::*;

    fn opened(buffer: &LinuxBuffer, payload: u64) -> u64 {
        let mut buffer = Buffer::new(&ReceiveBuffer::Linux(*buffer), payload, u64::MAX);
        for _ in 0..100_000 {
            buffer.on_segment(payload, payload);
        }
        buffer.space(0)
    }

    #[test]
    fn six_megabytes_of_socket_buffer_are_nine_of_window() {
        let linux = LinuxBuffer { rcvbuf: Bytes::new(6_000_000), ..LinuxBuffer::default() };
        assert_eq!(opened(&linux, 9128), 9_000_000);
        assert_eq!(opened(&LinuxBuffer { adv_win_scale: 1, ..linux }, 9128), 6_000_000);
    }

    #[test]
    fn badly_used_memory_opens_half_the_window() {
        let segment_memory = Some(Bytes::new(2048 + 256));
        let linux = LinuxBuffer { rcvbuf: Bytes::new(6_000_000), segment_memory, adv_win_scale: 2 };
        let window = opened(&linux, 1448);
        assert!((4_500_000..4_503_000).contains(&window), "{window}");
    }

    #[test]
    fn a_linux_window_starts_with_few_segments() {
        let linux =
            ReceiveBuffer::Linux(LinuxBuffer { rcvbuf: Bytes::new(1_000_000), ..LinuxBuffer::default() });
        assert_eq!(Buffer::new(&linux, 1460, u64::MAX).space(0), 4 * 1460);
        assert_eq!(Buffer::new(&linux, 9140, u64::MAX).space(0), 2 * 9140);
    }
}
