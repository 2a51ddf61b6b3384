//! Properties of a flow in addition to its headers: arrival times and transport checksums.

use core::time::Duration;

/// The last arrival and the usual time between two.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ArrivalTiming {
    /// Arrival of the last packet in nanoseconds.
    arrival: u64,
    /// Moving average of the time between packets, in nanoseconds; 0: not known.
    gap: u64,
}

/// Longest gap in nanoseconds (three days), so that multiples of it fit 64 bits.
const LONGEST_GAP: u64 = 1 << 48;

/// Number of mean inter-arrival gaps after which a flow counts as paused.
const PAUSE_GAPS: u64 = 8;

/// Number of mean inter-arrival gaps below which a packet counts as prompt.
const PROMPT_GAPS: u64 = 4;

/// Number of mean inter-arrival gaps that jitter may turn into a pause.
const SEEMING_PAUSE_GAPS: u64 = 6;

/// Number of mean inter-arrival gaps after which a flow counts as silent.
const SILENCE_GAPS: u64 = 80;

/// Number of mean inter-arrival gaps that is a silence at the other end too.
const SEEMING_SILENCE_GAPS: u64 = 100;

impl ArrivalTiming {
    /// Creates the timing of a flow whose first packet came `now`.
    pub(crate) fn starting(now: Duration) -> Self {
        Self { arrival: clock_ns(now), gap: 0 }
    }

    /// Records the arrival of a packet.
    #[inline]
    pub(crate) fn note(&mut self, now: Duration) {
        let passed = self.passed_ns(now).min(LONGEST_GAP);
        // A silence or a burst of losses must not pass for the timing of the flow.
        let usual = passed.min(self.gap * 4);
        self.gap = if self.gap == 0 { passed } else { (self.gap * 7 + usual) / 8 };
        self.arrival = clock_ns(now);
    }

    /// Returns the timing after a packet that comes `now`. `None` where that [`may seem late`](Self::may_seem_late), or
    /// after a silence.
    #[inline]
    pub(crate) fn next(&self, now: Duration) -> Option<Self> {
        let passed = self.passed_ns(now);
        let arrival = clock_ns(now);
        if self.gap == 0 {
            return Some(Self { arrival, gap: passed.min(LONGEST_GAP) });
        }
        let gap = (self.gap * 7 + passed.min(self.gap * 4)) / 8;
        (passed < self.gap * SEEMING_PAUSE_GAPS).then_some(Self { arrival, gap })
    }

    /// Returns the nanoseconds since the last packet.
    #[inline]
    pub(crate) fn passed_ns(&self, now: Duration) -> u64 {
        clock_ns(now).saturating_sub(self.arrival)
    }

    /// Returns `true` if `gaps` mean gaps have passed since the last packet.
    #[inline]
    pub(crate) fn has_passed(&self, gaps: u64, now: Duration) -> bool {
        self.gap > 0 && self.passed_ns(now) >= self.gap.saturating_mul(gaps)
    }

    /// Returns `true` if the time since the last packet fits a distance of `packets`.
    pub(crate) fn explains(&self, packets: u32, now: Duration) -> bool {
        self.gap > 0 && !self.has_passed(u64::from(packets) + PAUSE_GAPS / 2, now)
    }

    /// Returns the wraps of `period` that the time since the last packet suggests. They are at most four. The packet that comes
    /// `now` seems `distance` ahead.
    pub(crate) fn wraps(&self, distance: i32, period: u32, now: Duration) -> u32 {
        let Some(gaps) = self.passed_ns(now).checked_div(self.gap) else { return 0 };
        let beyond = gaps.saturating_sub(u64::from(distance.max(0).unsigned_abs()));
        let wraps = (beyond + u64::from(period / 2)) / u64::from(period);
        if wraps > 4 { 0 } else { wraps as u32 }
    }

    /// Returns `true` if the pause is longer than losses in a row explain.
    #[inline]
    pub(crate) fn was_silent(&self, now: Duration) -> bool {
        self.has_passed(SILENCE_GAPS, now)
    }

    /// Returns `true` if the packet may seem late to the other end, without a silence.
    #[inline]
    pub(crate) fn may_seem_late(&self, now: Duration) -> bool {
        self.has_passed(SEEMING_PAUSE_GAPS, now) && !self.has_passed(SEEMING_SILENCE_GAPS, now)
    }

    /// Returns `true` if the packet comes too soon for many losses before it.
    #[inline]
    pub(crate) fn is_prompt(&self, now: Duration) -> bool {
        self.gap > 0 && !self.has_passed(PROMPT_GAPS, now)
    }

    /// Returns `true` if the packet comes so late that sequence numbers may have wrapped.
    #[inline]
    pub(crate) fn is_late(&self, now: Duration) -> bool {
        self.has_passed(PAUSE_GAPS, now)
    }
}

/// Evidence of a flow's transport checksum: it was right in the first packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ChecksumEvidence {
    /// No checksum, one that was wrong before the compressor, or none wanted.
    #[default]
    None,
    /// Number of times it was right.
    Tried(u8),
}

/// Number of right checksums that count as evidence, from the last IR packet on. An edited capture has some right ones too.
const ENOUGH: u8 = 4;

impl ChecksumEvidence {
    /// Creates the evidence of a context's first packet.
    pub(crate) const fn first(is_right: bool) -> Self {
        if is_right { Self::Tried(1) } else { Self::None }
    }

    /// Returns `true` if more checksums are to be tried.
    pub(crate) const fn is_open(self) -> bool {
        matches!(self, Self::Tried(times) if times < ENOUGH)
    }

    /// Returns `true` if what it says counts.
    pub(crate) const fn is_trusted(self) -> bool {
        matches!(self, Self::Tried(ENOUGH))
    }

    /// Returns the evidence after one more packet.
    pub(crate) const fn and(self, is_right: bool) -> Self {
        match self {
            Self::Tried(times) if is_right && times < ENOUGH => Self::Tried(times + 1),
            Self::Tried(_) if is_right => self,
            _ => Self::None,
        }
    }

    /// Returns the evidence after one more IR packet, which keeps earlier evidence.
    pub(crate) const fn renewed(self, is_right: bool) -> Self {
        match self {
            Self::None => Self::first(is_right),
            Self::Tried(_) => self.and(is_right),
        }
    }
}

/// Nanoseconds, up to 584 years.
#[inline]
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(time.subsec_nanos()))
}

/// Nanoseconds modulo 584 years, a little quicker.
#[inline]
const fn clock_ns(now: Duration) -> u64 {
    now.as_secs().wrapping_mul(1_000_000_000).wrapping_add(now.subsec_nanos() as u64)
}
