//! Links that records of one capture came over.

use std::fmt;

use bentpipe_wire::ethernet::Frame;
use bentpipe_wire::pcap::{LinkType, Record};

/// Length in bytes of a Linux cooked header, and of version 2.
const COOKED_LEN: [usize; 2] = [16, 20];

/// Link of a record: interface and VLAN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Link {
    /// Interface of the capture.
    pub interface: u32,
    /// Index of the interface on the capturing host, in Linux cooked captures of version 2.
    pub index: Option<u32>,
    /// Identifiers of the VLAN tags, the outer one first.
    pub vlans: [Option<u16>; 2],
}

impl Link {
    /// Returns the link of a record.
    pub(crate) fn of(record: &Record<'_>) -> Link {
        let (mut index, mut vlans) = (None, [None; 2]);
        match record.link_type {
            LinkType::ETHERNET if is_tag(record.bytes, 12) => {
                let frame = Frame::new_elided(record.bytes, usize::from(u16::MAX));
                for (vlan, tag) in vlans.iter_mut().zip(frame.iter().flat_map(Frame::tags)) {
                    *vlan = Some(tag.vlan());
                }
            }
            LinkType::LINUX_SLL => vlans = cooked(record.bytes, COOKED_LEN[0], 14),
            LinkType::LINUX_SLL2 => {
                index = record.bytes.get(4..8).map(|of| u32::from_be_bytes([of[0], of[1], of[2], of[3]]));
                vlans = cooked(record.bytes, COOKED_LEN[1], 0);
            }
            _ => {}
        }
        Link { interface: record.interface, index, vlans }
    }

    /// Returns `true` if one of the tags is of this VLAN.
    pub(crate) fn has(&self, vlan: u16) -> bool {
        self.vlans.contains(&Some(vlan))
    }
}

impl fmt::Display for Link {
    /// Writes VLAN and interface, each behind a comma.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.vlans {
            [Some(outer), Some(inner)] => write!(f, ", VLAN {inner} in {outer}")?,
            [Some(vlan), None] => write!(f, ", VLAN {vlan}")?,
            [None, _] => {}
        }
        self.index.iter().try_for_each(|index| write!(f, ", interface of index {index}"))?;
        if self.interface > 0 { write!(f, ", interface {}", self.interface) } else { Ok(()) }
    }
}

/// Returns `true` if there is the EtherType of a VLAN tag.
fn is_tag(bytes: &[u8], at: usize) -> bool {
    matches!(bytes.get(at..at + 2), Some([0x81, 0] | [0x88, 0xa8] | [0x91, 0]))
}

/// Returns the tags behind a cooked header of `len` bytes.
///
/// It announces the first one at `at`.
fn cooked(bytes: &[u8], len: usize, at: usize) -> [Option<u16>; 2] {
    let (mut vlans, mut at, mut tag) = ([None; 2], at, len);
    for vlan in &mut vlans {
        let Some(&[high, low]) = bytes.get(tag..tag + 2).filter(|_| is_tag(bytes, at)) else { break };
        *vlan = Some(u16::from_be_bytes([high, low]) & 0x0fff);
        (at, tag) = (tag + 2, tag + 4);
    }
    vlans
}
