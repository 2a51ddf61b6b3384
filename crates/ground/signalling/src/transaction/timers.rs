//! Timer values (RFC 3261 table 4).

use bentpipe_units::Span;

/// Base values of the timers of SIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Estimate of the round-trip time (T1). Default: 500 ms.
    pub t1: Span,
    /// Longest retransmission interval of responses and of requests other than INVITE (T2). Default: 4 s.
    pub t2: Span,
    /// Longest time that a message stays in the network (T4). Default: 5 s.
    pub t4: Span,
    /// Longest wait of a proxy for a final response (Timer C). Default: 181 s.
    pub c: Span,
    /// Time after which a server sends 100 Trying by itself (17.2.1). Default: 200 ms.
    pub trying: Span,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers {
            t1: Span::from_millis(500),
            t2: Span::from_secs(4),
            t4: Span::from_secs(5),
            c: Span::from_secs(181),
            trying: Span::from_millis(200),
        }
    }
}

impl Timers {
    /// Returns 64 T1: the value of Timers B, F, H, J, L and M.
    pub fn give_up(&self) -> Span {
        self.t1 * 64
    }

    /// Returns the time for which a client acknowledges repeated failures (Timer D).
    pub fn d(&self) -> Span {
        self.give_up().max(Span::from_secs(32))
    }
}
