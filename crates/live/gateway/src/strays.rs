//! TS packets and BBFRAMEs that no remote site sends.

use bentpipe_wire::psi::Pat;
use bentpipe_wire::ts::{PACKET_LEN, Pid};

use super::statistics::StrayCounts;

/// First PID that is not of tables (ISO/IEC 13818-1, EN 300 468 5.1.3).
const FIRST_FREE: u16 = 0x20;
/// PID of the programme association table.
const PAT: u16 = 0;
/// Maximum number of PIDs that are remembered: of programme maps, and without a receiver.
const MOST: usize = 256;
/// Length of the header of a TS packet.
const HEADER_LEN: usize = 4;

/// Packets without a receiver, and what they are.
#[derive(Debug, Default)]
pub(crate) struct Strays {
    pub(crate) counts: StrayCounts,
    /// PIDs of programme maps, as the PAT names them.
    maps: Vec<u16>,
    /// PIDs or input streams without a receiver, in the order in which they came.
    unexpected: Vec<u16>,
}

impl Strays {
    /// Counts a TS packet of a PID without a receiver. Tables are apart.
    pub(crate) fn note_packet(&mut self, pid: u16, packet: &[u8; PACKET_LEN]) {
        if pid == PAT {
            self.learn_maps(packet);
        }
        if pid < FIRST_FREE || self.maps.contains(&pid) {
            self.counts.tables += 1;
        } else {
            self.note(pid);
        }
    }

    /// Counts a packet of an unexpected PID or input stream.
    pub(crate) fn note(&mut self, pid: u16) {
        self.counts.unknown += 1;
        if self.unexpected.len() < MOST && !self.unexpected.contains(&pid) {
            self.unexpected.push(pid);
        }
    }

    /// Returns the PIDs or input streams without a receiver since the start.
    pub(crate) fn unexpected(&self) -> &[u16] {
        &self.unexpected
    }

    fn learn_maps(&mut self, packet: &[u8; PACKET_LEN]) {
        let begins = packet[1] & 0x40 != 0 && packet[3] & 0x30 == 0x10;
        let section = packet.get(HEADER_LEN + 1 + usize::from(packet[HEADER_LEN])..).filter(|_| begins);
        let Some([_, high, low, ..]) = section else { return };
        let len = 3 + (usize::from(high & 0x0f) << 8 | usize::from(*low));
        let part = section.and_then(|section| section.get(..len)).map(Pat::parse_part);
        let Some(Ok((pat, _))) = part else { return };
        let maps = pat.programmes.iter().map(|programme| programme.map).chain(pat.network);
        for map in maps.map(Pid::number) {
            if self.maps.len() < MOST && !self.maps.contains(&map) {
                self.maps.push(map);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_wire::psi::Programme;

    use super::*;

    /// Returns a TS packet that begins a section.
    fn packet(pid: u16, section: &[u8]) -> [u8; PACKET_LEN] {
        let mut packet = [0xff; PACKET_LEN];
        packet[..5].copy_from_slice(&[0x47, 0x40 | (pid >> 8) as u8, pid as u8, 0x10, 0]);
        packet[5..5 + section.len()].copy_from_slice(section);
        packet
    }

    #[test]
    fn tables_are_not_unexpected() {
        let (mut strays, map) = (Strays::default(), Pid::new(0x140).expect("a PID"));
        let mut note = |pid: u16, section: &[u8]| strays.note_packet(pid, &packet(pid, section));
        note(0x140, &[2]);
        let pat = Pat { programmes: vec![Programme { number: 1, map }], ..Pat::default() };
        note(PAT, &pat.to_section());
        note(0x140, &[2]);
        note(0x11, &[0x42]);
        note(0x105, &[]);
        note(0x105, &[]);
        assert_eq!((strays.counts.tables, strays.counts.unknown), (3, 3));
        assert_eq!(strays.unexpected(), [0x140, 0x105]);
        // What cannot be read leaves all as it is.
        strays.note_packet(PAT, &[0xff; PACKET_LEN]);
        assert_eq!(strays.counts.tables, 4);
    }
}
