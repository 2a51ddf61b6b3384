//! Groups of rarely changing fields, and how often each change is still to be sent.

/// Fields that change, and are confirmed, together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Fields of the static chain only.
    Static,
    /// Fields of the dynamic chain only.
    Dynamic,
    /// The structure of the list of options.
    List,
    EcnUsed,
    /// ECN bits of IP and TCP, TCP's reserved bits, and the outer headers' TOS.
    Ecn,
    IpIdBehavior,
    Df,
    Dscp,
    Urgent,
    AckStride,
    OuterTtl,
}

const GROUPS: usize = Group::OuterTtl as usize + 1;

/// A set of groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Set(u16);

impl Set {
    pub(super) const NONE: Set = Set(0);
    pub(super) const ALL: Set = Set((1 << GROUPS) - 1);
    /// Groups that only `co_common` carries among CO packets.
    pub(super) const COMMON: Set = Set::NONE
        .with(Group::IpIdBehavior)
        .with(Group::Df)
        .with(Group::Dscp)
        .with(Group::Urgent)
        .with(Group::AckStride)
        .with(Group::OuterTtl);

    /// Groups that need an IR or IR-DYN.
    pub(super) const IR_DYN: Set = Set::NONE.with(Group::Static).with(Group::Dynamic);

    pub(super) const fn with(self, group: Group) -> Set {
        Set(self.0 | 1 << group as u16)
    }

    pub(super) const fn with_if(self, group: Group, condition: bool) -> Set {
        if condition { self.with(group) } else { self }
    }

    pub(super) const fn and(self, other: Set) -> Set {
        Set(self.0 | other.0)
    }

    pub(super) const fn and_not(self, other: Set) -> Set {
        Set(self.0 & !other.0)
    }

    pub(super) const fn without(self, group: Group) -> Set {
        Set(self.0 & !(1 << group as u16))
    }

    pub(super) const fn has(self, group: Group) -> bool {
        self.0 & 1 << group as u16 != 0
    }

    pub(super) const fn meets(self, other: Set) -> bool {
        self.0 & other.0 != 0
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Repeat {
    /// Packets that must still carry the group.
    left: u8,
    /// The packet that brought the last change.
    since: u16,
}

/// The groups of one context.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    repeats: [Repeat; GROUPS],
    due: Set,
}

impl Groups {
    /// The groups `changed` with the packet `msn`: `times` packets must carry them.
    #[inline]
    pub(super) fn changed(&mut self, changed: Set, msn: u16, times: u8) {
        if changed == Set::NONE {
            return;
        }
        for (index, repeat) in self.repeats.iter_mut().enumerate() {
            if changed.meets(Set(1 << index)) {
                *repeat = Repeat { left: times, since: msn };
            }
        }
        self.due = self.due.and(changed);
    }

    /// The groups that the next packet must carry.
    pub(super) const fn due(&self) -> Set {
        self.due
    }

    /// A packet carried `carried`.
    #[inline]
    pub(super) fn sent(&mut self, carried: Set) {
        if !self.due.meets(carried) {
            return;
        }
        for (index, repeat) in self.repeats.iter_mut().enumerate() {
            if Set(1 << index).meets(carried) {
                repeat.left = repeat.left.saturating_sub(1);
                if repeat.left == 0 {
                    self.due.0 &= !(1 << index);
                }
            }
        }
    }

    /// Acknowledges the packet `msn`, and so every group that changed no later.
    pub(super) fn acknowledge(&mut self, msn: u16) {
        for (index, repeat) in self.repeats.iter_mut().enumerate() {
            if msn.wrapping_sub(repeat.since) < 1 << 15 {
                repeat.left = 0;
                self.due.0 &= !(1 << index);
            }
        }
    }
}
