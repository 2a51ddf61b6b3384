//! Formats of types 0, 1 and 2 with extensions 0 to 2, and their capacities.

use crate::framework::profile::PacketType::{
    self, R0, R0Crc, R1, R1Id, R1Ts, Uo0, Uo1, Uo1Id, Uo1Ts, Uor2, Uor2Id, Uor2Ts,
};

/// A format and the bits that it has for each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) kind: PacketType,
    /// Extension 0, 1 or 2.
    pub(super) extension: Option<u8>,
    pub(super) sn: u32,
    pub(super) ts: u32,
    pub(super) id: u32,
    /// Bits of the outer identification (extension 2 without RTP).
    pub(super) outer_id: u32,
    /// Set if the marker bit can be set.
    pub(super) marker: bool,
}

const fn format(kind: PacketType, extension: i8, sn: u32, ts: u32, id: u32, marker: bool) -> Format {
    let extension = if extension < 0 { None } else { Some(extension as u8) };
    Format { kind, extension, sn, ts, id, outer_id: 0, marker }
}

const fn plain(kind: PacketType, extension: i8, sn: u32, id: u32) -> Format {
    let outer_id = if extension == 2 { 11 } else { 0 };
    Format { outer_id, ..format(kind, extension, sn, 0, id, false) }
}

/// RTP with an identification that is compressed (a T bit), U- and O-mode, shortest first.
static OPTIMISTIC_T: [Format; 13] = [
    format(Uo0, -1, 4, 0, 0, false),
    format(Uo1Ts, -1, 4, 5, 0, true),
    format(Uo1Id, -1, 4, 0, 5, false),
    format(Uo1Id, 0, 7, 0, 8, false),
    format(Uor2Ts, -1, 6, 5, 0, true),
    format(Uor2Id, -1, 6, 0, 5, true),
    format(Uor2Id, 0, 9, 0, 8, true),
    format(Uor2Ts, 0, 9, 8, 0, true),
    format(Uo1Id, 1, 7, 8, 8, false),
    format(Uo1Id, 2, 7, 8, 16, false),
    format(Uor2Id, 1, 9, 8, 8, true),
    format(Uor2Ts, 2, 9, 16, 8, true),
    format(Uor2Id, 2, 9, 8, 16, true),
];

/// RTP without such an identification, U- and O-mode.
static OPTIMISTIC: [Format; 6] = [
    format(Uo0, -1, 4, 0, 0, false),
    format(Uo1, -1, 4, 6, 0, true),
    format(Uor2, -1, 6, 6, 0, true),
    format(Uor2, 0, 9, 9, 0, true),
    format(Uor2, 1, 9, 17, 0, true),
    format(Uor2, 2, 9, 25, 0, true),
];

/// Formats without RTP, U- and O-mode.
static OPTIMISTIC_PLAIN: [Format; 6] = [
    plain(Uo0, -1, 4, 0),
    plain(Uo1, -1, 5, 6),
    plain(Uor2, -1, 5, 0),
    plain(Uor2, 0, 8, 3),
    plain(Uor2, 1, 8, 11),
    plain(Uor2, 2, 8, 8),
];

/// R-mode, not updating: the context need not be updated by this packet.
static RELIABLE_T: [Format; 8] = [
    format(R0, -1, 6, 0, 0, false),
    format(R1Ts, -1, 6, 5, 0, true),
    format(R1Id, -1, 6, 0, 5, true),
    format(R1Ts, 0, 9, 8, 0, true),
    format(R1Id, 0, 9, 0, 8, true),
    format(R1Id, 1, 9, 8, 8, true),
    format(R1Ts, 2, 9, 16, 8, true),
    format(R1Id, 2, 9, 8, 16, true),
];
static RELIABLE: [Format; 5] = [
    format(R0, -1, 6, 0, 0, false),
    format(R1, -1, 6, 6, 0, true),
    format(R1, 0, 9, 9, 0, true),
    format(R1, 1, 9, 17, 0, true),
    format(R1, 2, 9, 25, 0, true),
];
static RELIABLE_PLAIN: [Format; 5] =
    [plain(R0, -1, 6, 0), plain(R1, -1, 6, 7), plain(R1, 0, 9, 10), plain(R1, 1, 9, 18), plain(R1, 2, 9, 15)];

/// Updating formats, in any mode but for R-0-CRC.
static UPDATING_T: [Format; 7] = [
    format(R0Crc, -1, 7, 0, 0, false),
    format(Uor2Ts, -1, 6, 5, 0, true),
    format(Uor2Id, -1, 6, 0, 5, true),
    format(Uor2Id, 0, 9, 0, 8, true),
    format(Uor2Ts, 0, 9, 8, 0, true),
    format(Uor2Id, 1, 9, 8, 8, true),
    format(Uor2Ts, 2, 9, 16, 8, true),
];
static UPDATING: [Format; 5] = [
    format(R0Crc, -1, 7, 0, 0, false),
    format(Uor2, -1, 6, 6, 0, true),
    format(Uor2, 0, 9, 9, 0, true),
    format(Uor2, 1, 9, 17, 0, true),
    format(Uor2, 2, 9, 25, 0, true),
];
static UPDATING_PLAIN: [Format; 5] = [
    plain(R0Crc, -1, 7, 0),
    plain(Uor2, -1, 5, 0),
    plain(Uor2, 0, 8, 3),
    plain(Uor2, 1, 8, 11),
    plain(Uor2, 2, 8, 8),
];

/// Set of formats of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// RTP, with a T bit.
    RtpT,
    Rtp,
    /// No RTP.
    Plain,
}

/// Required format of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// U- and O-mode.
    Optimistic,
    /// R-mode, may leave the context as it is.
    Reliable,
    /// R-mode, must update the context.
    ReliableUpdate,
}

/// The formats to choose from, the shortest first.
#[inline]
pub(super) fn formats(family: Family, need: Need) -> &'static [Format] {
    match (need, family) {
        (Need::Optimistic, Family::RtpT) => &OPTIMISTIC_T,
        (Need::Optimistic, Family::Rtp) => &OPTIMISTIC,
        (Need::Optimistic, Family::Plain) => &OPTIMISTIC_PLAIN,
        (Need::Reliable, Family::RtpT) => &RELIABLE_T,
        (Need::Reliable, Family::Rtp) => &RELIABLE,
        (Need::Reliable, Family::Plain) => &RELIABLE_PLAIN,
        (Need::ReliableUpdate, Family::RtpT) => &UPDATING_T,
        (Need::ReliableUpdate, Family::Rtp) => &UPDATING,
        (Need::ReliableUpdate, Family::Plain) => &UPDATING_PLAIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn octets(format: &Format) -> usize {
        let base = match format.kind {
            Uo0 | R0 => 1,
            Uo1 | Uo1Id | Uo1Ts | R1 | R1Id | R1Ts | R0Crc => 2,
            Uor2 if format.ts == 0 => 2,
            _ => 3,
        };
        base + format.extension.map_or(0, |extension| 1 + usize::from(extension))
    }

    #[test]
    fn the_shortest_come_first() {
        for family in [Family::RtpT, Family::Rtp, Family::Plain] {
            for need in [Need::Optimistic, Need::Reliable, Need::ReliableUpdate] {
                let sizes: std::vec::Vec<usize> = formats(family, need).iter().map(octets).collect();
                assert!(sizes.is_sorted(), "{family:?} {need:?} {sizes:?}");
            }
        }
    }
}
