//! Streams for groups: one PID that the receivers of several streams get.

use bentpipe_net::Packet;
use bentpipe_wire::{ipv4, ipv6};

use super::PathConfig;

/// First bits of IPv4's multicast addresses: 224.0.0.0/4.
const CLASS_D: u8 = 0xe;

/// Places of the streams for groups behind the others.
#[derive(Debug)]
pub(super) struct Common {
    /// The stream for groups of each of the others.
    of: Vec<Option<usize>>,
    /// Streams that have each stream for groups.
    receivers: Vec<Vec<usize>>,
}

impl Common {
    pub(super) fn new(paths: &[PathConfig]) -> Common {
        let (mut of, mut receivers): (Vec<_>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
        for (n, path) in paths.iter().enumerate() {
            let pid = |path: &PathConfig| path.common.as_ref().map(|common| common.pid);
            let is_its = |group: &Vec<usize>| pid(&paths[group[0]]) == pid(path);
            of.push(pid(path).map(|_| {
                let at = receivers.iter().position(is_its).unwrap_or(receivers.len());
                receivers.resize(receivers.len().max(at + 1), Vec::new());
                receivers[at].push(n);
                paths.len() + at
            }));
        }
        Common { of, receivers }
    }

    /// Returns all streams: those of one receiver, then those for groups.
    ///
    /// The latter have the queue of their first.
    pub(super) fn all(&self, paths: &[PathConfig]) -> Vec<PathConfig> {
        let common = self.receivers.iter().filter_map(|group| {
            let first = &paths[group[0]];
            let name = format!("{}/multicast", first.name);
            Some(PathConfig { name, dvb: first.common.clone()?, ..first.clone() })
        });
        paths.iter().cloned().chain(common).collect()
    }

    /// Returns the number of streams of one receiver.
    pub(super) fn streams(&self) -> usize {
        self.of.len()
    }

    /// Returns the streams whose receivers get stream `number`.
    pub(super) fn receivers(&self, number: usize) -> Vec<usize> {
        match number.checked_sub(self.of.len()).and_then(|at| self.receivers.get(at)) {
            Some(group) => group.clone(),
            None => vec![number],
        }
    }

    /// Returns the receivers of each stream for groups, and at last all receivers.
    pub(super) fn lists(&self) -> impl Iterator<Item = Vec<usize>> {
        self.receivers.iter().cloned().chain([(0..self.of.len()).collect()])
    }

    /// Returns the stream for a packet that came for stream `number`.
    pub(super) fn path_of(&self, number: usize, packet: &Packet) -> usize {
        let common = self.of.get(number).copied().flatten();
        common.filter(|_| is_multicast(packet)).unwrap_or(number)
    }

    /// Returns `true` if packets for a stream may reach the receiver of another.
    pub(super) fn are_joined(&self, from: usize, to: usize) -> bool {
        let of = |number: usize| self.of.get(number).copied().flatten();
        from == to || (of(from).is_some() && of(from) == of(to))
    }
}

/// Returns `true` if an IP packet goes to a group.
fn is_multicast(packet: &Packet) -> bool {
    let header = packet.header();
    match header.first().map(|first| first >> 4) {
        Some(4) => header.len() >= ipv4::HEADER_LEN && header[16] >> 4 == CLASS_D,
        Some(6) => header.len() >= ipv6::HEADER_LEN && header[24] == 0xff,
        _ => false,
    }
}
