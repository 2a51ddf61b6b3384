//! Time that a packet takes of the resources of a direction.

use bentpipe_scenario::Way;
use bentpipe_site::Compressed;
use bentpipe_units::Rate;

use super::medium::Media;
use super::states::Part;

/// Rate in bit/s for which packets count at a ceiling. Ceilings change, and may be none at first.
pub(super) const OF_CEILINGS: f64 = 1.0;

/// Seconds of a resource that packets take which never pass it.
const NEVER_PASSES: f64 = 1e6;

/// Packet on a direction of a link.
pub(super) struct Sent {
    pub(super) len: usize,
    pub(super) compressed: Option<Compressed>,
    /// DSCP, if it is known.
    pub(super) dscp: Option<u8>,
}

impl Sent {
    /// Returns the seconds that it takes of each resource of a direction.
    ///
    /// The length is there if they depend on it.
    pub(super) fn takes(
        &self,
        media: &Media<'_>,
        (link, way): (usize, Way),
    ) -> Vec<(Part, f64, Option<usize>)> {
        let (cost, bits) = (media.cost(link, way), 8.0 * self.len as f64);
        let (line, len) = match self.compressed {
            Some(compressed) => (8.0 * compressed.on_line_bytes / at_least_one(cost.usable()), None),
            None => (bits / at_least_one(cost.capacity(self.len)), Some(self.len)),
        };
        // In the order in which a packet comes to them.
        let mut all = Vec::with_capacity(4);
        all.extend(media.limit(link, way).map(|limit| {
            let passes = self.len as u64 <= limit.longest.get();
            (Part::Stage, if passes { bits / at_least_one(limit.rate) } else { NEVER_PASSES }, None)
        }));
        let classes = media.ceilings.numbers((link, way), self.dscp).into_iter();
        all.extend(classes.map(|class| (Part::Class(class), bits / OF_CEILINGS, None)));
        all.push((Part::Line, line, len));
        let on_line = 8.0 * cost.mean_len(self.len);
        let passed = cost.passed().iter().enumerate();
        all.extend(passed.map(|(n, passed)| (Part::Passed(n), on_line / at_least_one(passed.rate), None)));
        all.extend(cost.packet_rate().map(|rate| (Part::Packets, 1.0 / rate, None)));
        all
    }
}

pub(super) fn at_least_one(rate: Rate) -> f64 {
    rate.as_bps().max(1) as f64
}
