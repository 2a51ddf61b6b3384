//! Seldom changing fields, and the packets still to carry each change.

use crate::framework::profile::PacketType;

/// Fields that change together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Static chain: IR only.
    Static,
    /// Fields that only dynamic chains carry.
    Dynamic,
    /// Type of service and hop limit of outer IP headers.
    Outer,
    Tos,
    Ttl,
    /// Don't-fragment bit, and behaviour of the IP-ID.
    Flags,
    Reorder,
    Coverage,
    PayloadType,
    /// Padding and extension bit of RTP.
    RtpBits,
    List,
    TsStride,
}

const GROUPS: usize = Group::TsStride as usize + 1;

/// A set of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Set(u16);

impl Set {
    pub(super) const NONE: Self = Self(0);
    pub(super) const ALL: Self = Self((1 << GROUPS) - 1);

    #[inline]
    pub(super) const fn has(self, group: Group) -> bool {
        self.0 >> group as u16 & 1 == 1
    }

    pub(super) const fn with_if(self, group: Group, condition: bool) -> Self {
        Self(self.0 | (condition as u16) << group as u16)
    }

    pub(super) const fn without(self, group: Group) -> Self {
        Self(self.0 & !(1 << group as u16))
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Packets still to carry each group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Groups {
    left: [u8; GROUPS],
    /// Master sequence number of the first packet with the change.
    since: [u16; GROUPS],
    due: u16,
}

impl Groups {
    /// Returns the groups that the next packet must carry.
    #[inline]
    pub(super) const fn due(&self) -> Set {
        Set(self.due)
    }

    /// Schedules the groups of `changed` for `times` packets, from `msn` on.
    pub(super) fn changed(&mut self, changed: Set, msn: u16, times: u8) {
        for group in (0..GROUPS).filter(|group| changed.0 >> group & 1 == 1) {
            (self.left[group], self.since[group]) = (times.max(1), msn);
        }
        self.due |= changed.0;
    }

    /// Counts a packet of this kind, which carried what was due of it.
    pub(super) fn sent(&mut self, kind: PacketType) {
        let carried = match kind {
            PacketType::Ir => Set::ALL,
            PacketType::CoRepair => Set::ALL.without(Group::Static),
            PacketType::CoCommon => Set::ALL.without(Group::Static).without(Group::Dynamic),
            _ => Set::NONE,
        };
        let carried = carried.0 & self.due;
        self.clear_if(|group, left| {
            *left -= u8::from(carried >> group & 1 == 1);
            *left == 0
        });
    }

    /// Notes that the packet with `msn` arrived. Changes of it or before need not be sent again.
    pub(super) fn acknowledged(&mut self, msn: u16) {
        let since = self.since;
        self.clear_if(|group, _| msn.wrapping_sub(since[group]).cast_signed() >= 0);
    }

    fn clear_if(&mut self, mut is_done: impl FnMut(usize, &mut u8) -> bool) {
        for group in 0..GROUPS {
            if self.due >> group & 1 == 1 && is_done(group, &mut self.left[group]) {
                self.due &= !(1 << group);
                self.left[group] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_repeated_until_they_were_sent_often_enough_or_acknowledged() {
        let mut groups = Groups::default();
        groups.changed(Set::NONE.with_if(Group::Ttl, true), 7, 2);
        groups.changed(Set::NONE.with_if(Group::Static, true), 8, 3);
        groups.sent(PacketType::CoCommon);
        assert!(groups.due().has(Group::Ttl) && groups.due().has(Group::Static));
        groups.sent(PacketType::Ir);
        assert!(!groups.due().has(Group::Ttl) && groups.due().has(Group::Static));
        groups.acknowledged(7);
        assert!(groups.due().has(Group::Static));
        groups.acknowledged(9);
        assert_eq!(groups.due(), Set::NONE);
    }
}
