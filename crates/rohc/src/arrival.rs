//! What is known of a flow beside its headers: when its packets come, by the caller's times, and whether their transport
//! checksums are right.

use core::time::Duration;

/// The last arrival and the usual time between two.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rhythm {
    /// When the last packet came, in nanoseconds.
    arrival: u64,
    /// Moving average of the time between packets, in nanoseconds; 0: not known.
    gap: u64,
}

/// No gap is longer, in nanoseconds (three days), so that multiples of one stay far from the end of 64 bits.
const LONGEST_GAP: u64 = 1 << 48;

/// So many usual gaps are a pause.
const PAUSE_GAPS: u64 = 8;

/// To the other end, where jitter may have lengthened it, what are so many here may be one.
const SEEMING_PAUSE_GAPS: u64 = 6;

/// And so many are a silence.
const SILENCE_GAPS: u64 = 80;

/// What is a silence at the other end too.
const SEEMING_SILENCE_GAPS: u64 = 100;

impl Rhythm {
    /// A flow of which one packet came `now`.
    pub(crate) fn starting(now: Duration) -> Self {
        Self { arrival: clock_ns(now), gap: 0 }
    }

    /// A packet came.
    #[inline]
    pub(crate) fn note(&mut self, now: Duration) {
        let passed = self.passed_ns(now).min(LONGEST_GAP);
        // A silence or a burst of losses must not pass for the rhythm of the flow.
        let usual = passed.min(self.gap * 4);
        self.gap = if self.gap == 0 { passed } else { (self.gap * 7 + usual) / 8 };
        self.arrival = clock_ns(now);
    }

    /// The rhythm after a packet that comes `now`; `None` where that [`may seem late`](Self::may_seem_late), or after a silence.
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

    /// Nanoseconds since the last packet.
    #[inline]
    pub(crate) fn passed_ns(&self, now: Duration) -> u64 {
        clock_ns(now).saturating_sub(self.arrival)
    }

    /// Whether so many usual gaps have passed since the last packet.
    #[inline]
    pub(crate) fn has_passed(&self, gaps: u64, now: Duration) -> bool {
        self.gap > 0 && self.passed_ns(now) >= self.gap.saturating_mul(gaps)
    }

    /// Whether it is not too long since the last packet for the one that comes `now` to be `packets` behind it.
    pub(crate) fn explains(&self, packets: u32, now: Duration) -> bool {
        self.gap > 0 && !self.has_passed(u64::from(packets) + PAUSE_GAPS / 2, now)
    }

    /// How often numbers of `period` must have wrapped since the last packet, of which the one that comes `now` seems
    /// `distance` ahead, if packets came as usual; at most four times.
    pub(crate) fn wraps(&self, distance: i32, period: u32, now: Duration) -> u32 {
        let Some(gaps) = self.passed_ns(now).checked_div(self.gap) else { return 0 };
        let beyond = gaps.saturating_sub(u64::from(distance.max(0).unsigned_abs()));
        let wraps = (beyond + u64::from(period / 2)) / u64::from(period);
        if wraps > 4 { 0 } else { wraps as u32 }
    }

    /// Whether the time since the last packet is more than losses in a row explain.
    #[inline]
    pub(crate) fn was_silent(&self, now: Duration) -> bool {
        self.has_passed(SILENCE_GAPS, now)
    }

    /// Whether the other end may find that the packet comes late, and not after a silence.
    #[inline]
    pub(crate) fn may_seem_late(&self, now: Duration) -> bool {
        self.has_passed(SEEMING_PAUSE_GAPS, now) && !self.has_passed(SEEMING_SILENCE_GAPS, now)
    }

    /// Whether the packet comes so late that sequence numbers may have wrapped.
    #[inline]
    pub(crate) fn is_late(&self, now: Duration) -> bool {
        self.has_passed(PAUSE_GAPS, now)
    }
}

/// Whether the transport checksum is a witness for a flow's headers: it was right in the first packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Witness {
    /// There is none, it was wrong before the compressor already, or nobody wants to know.
    #[default]
    None,
    /// It was right so often.
    Tried(u8),
}

/// So many right checksums make a witness, from the last IR packet's on: a capture that was edited has some right ones too.
const ENOUGH: u8 = 4;

impl Witness {
    /// Of a context that begins with a packet whose checksum is there and right, or not.
    pub(crate) const fn first(is_right: bool) -> Self {
        if is_right { Self::Tried(1) } else { Self::None }
    }

    /// Whether more checksums are to be tried.
    pub(crate) const fn is_open(self) -> bool {
        matches!(self, Self::Tried(times) if times < ENOUGH)
    }

    /// Whether what it says counts.
    pub(crate) const fn is_trusted(self) -> bool {
        matches!(self, Self::Tried(ENOUGH))
    }

    /// After one more packet.
    pub(crate) const fn and(self, is_right: bool) -> Self {
        match self {
            Self::Tried(times) if is_right && times < ENOUGH => Self::Tried(times + 1),
            Self::Tried(_) if is_right => self,
            _ => Self::None,
        }
    }

    /// After one more IR packet: what it knew before still counts.
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
