//! Bundles from other nodes (RFC 9171, section 5.6).
//!
//! A malformed bundle is deleted with reason "block unintelligible". A primary block that cannot be read, or whose CRC is wrong, is
//! nothing to report on: it names the endpoint that asks for the report. A block that the node does not know has the
//! effects of its flags, in the order of the blocks.

use bentpipe_units::Time;
use bentpipe_wire::dtn::admin::reason;
use bentpipe_wire::dtn::bundle::{BlockFlags, Bundle, Content, Malformed, Payload};

use super::{Arrival, COPIES_BLOCK, Node, PRIORITY_BLOCK, Share, priority};

/// Effect of the blocks of a bundle that the node does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Unsupported {
    /// Reports asked for by their flags.
    reports: usize,
    /// Set if one of them demands the deletion of the bundle.
    is_deleted: bool,
}

/// Origin of a bundle from another node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    from: u64,
    arrival: Arrival,
    /// Reports on blocks that the node does not know.
    reports: usize,
}

impl Node {
    /// Returns `true` if a bundle from a neighbour is accepted.
    pub fn receive(&mut self, bundle: Bundle, from: u64, arrival: Arrival, now: Time) -> bool {
        self.receive_for(bundle, (from, Share::Known), arrival, now)
    }

    /// Returns `true` if a bundle is accepted that counts to an account of the storage.
    pub fn receive_for(
        &mut self,
        bundle: Bundle,
        (from, share): (u64, Share),
        arrival: Arrival,
        now: Time,
    ) -> bool {
        self.note_share(share);
        match self.examine(bundle, now) {
            Ok((bundle, reports)) => self.accept(bundle, Some(Origin { from, arrival, reports }), share, now),
            Err(is_accepted) => is_accepted,
        }
    }

    /// Returns a fragment for this node, which the caller keeps until all are there.
    ///
    /// `None` if it is deleted.
    pub fn admit(&mut self, fragment: Bundle, now: Time) -> Option<Bundle> {
        let (fragment, reports) = self.examine(fragment, now).ok()?;
        self.report_arrival(&fragment, reports, now);
        if self.expiry(&fragment, now) <= now {
            self.counts.expired += 1;
            self.report_deletion(&fragment, reason::EXPIRED, now);
            return None;
        }
        Some(fragment)
    }

    /// Queues a bundle for an application whose fragments the caller has put together.
    pub fn deliver_whole(&mut self, bundle: Bundle, share: Share, now: Time) {
        self.accept(bundle, None, share, now);
    }

    /// Returns a bundle that goes on, and the reports on its unknown blocks.
    ///
    /// # Errors
    /// Returns an error if the bundle is deleted: `true` if its neighbour need not know.
    fn examine(&mut self, mut bundle: Bundle, now: Time) -> Result<(Bundle, usize), bool> {
        if let Err(breach) = bundle.check_received() {
            let (len, primary) = (bundle.payload.len(), Some(Box::new(bundle.primary)));
            self.reject(&Malformed { primary, len, flaw: breach.into() }, now);
            return Err(false);
        }
        self.counts.received += 1;
        bundle.payload.elide();
        let Unsupported { reports, is_deleted } = self.process_unknown(&mut bundle);
        let reason = match (is_deleted, self.is_beyond(&bundle)) {
            (true, _) => reason::UNSUPPORTED,
            (false, true) => reason::HOP_LIMIT,
            (false, false) => return Ok((bundle, reports)),
        };
        self.counts.unsupported += u64::from(is_deleted);
        self.counts.hop_limit += u64::from(!is_deleted);
        self.report_arrival(&bundle, reports, now);
        self.report_deletion(&bundle, reason, now);
        Err(!is_deleted)
    }

    /// Returns `true` if the hop count exceeds its limit.
    ///
    /// The hop that is to come counts, unless the bundle is for this node: it is deleted before it is forwarded once too often.
    pub(super) fn is_beyond(&self, bundle: &Bundle) -> bool {
        let hop = u64::from(!bundle.primary.destination.is_at(&self.config.eid));
        bundle.hop_count().is_some_and(|hops| hops.count.saturating_add(hop) > u64::from(hops.limit))
    }

    /// Deletes a bundle from another node of which a block is malformed, and reports it.
    pub fn reject(&mut self, malformed: &Malformed, now: Time) {
        self.counts.received += 1;
        self.counts.malformed += 1;
        let Some(primary) = &malformed.primary else { return };
        let payload = Payload::elided(malformed.len);
        let bundle = Bundle { primary: (**primary).clone(), blocks: vec![], payload };
        self.report_reception(&bundle, now);
        self.report_deletion(&bundle, reason::UNINTELLIGIBLE, now);
    }

    /// Returns `true` if the node processes blocks of this content. It carries security blocks, and verifies none.
    fn knows(&self, content: &Content) -> bool {
        match content {
            Content::PreviousNode(_) | Content::Age(_) | Content::HopCount(_) => true,
            Content::Integrity(_) | Content::Confidentiality(_) => false,
            Content::Other { code: PRIORITY_BLOCK, .. } => true,
            Content::Other { code: COPIES_BLOCK, .. } => self.makes_copies(),
            Content::Other { .. } => false,
        }
    }

    /// Follows the flags of unknown blocks (step 4), and removes those to be discarded.
    fn process_unknown(&self, bundle: &mut Bundle) -> Unsupported {
        let mut found = Unsupported::default();
        bundle.blocks.retain(|block| {
            if found.is_deleted || self.knows(&block.content) {
                return true;
            }
            found.reports += usize::from(block.flags.has(BlockFlags::REPORT));
            found.is_deleted = block.flags.has(BlockFlags::DELETE_BUNDLE);
            found.is_deleted || !block.flags.has(BlockFlags::DISCARD)
        });
        found
    }

    /// Reports that a bundle has arrived, and each unknown block that asks for it.
    fn report_arrival(&mut self, bundle: &Bundle, unsupported: usize, now: Time) {
        self.report_reception(bundle, now);
        (0..unsupported).for_each(|_| self.report_unsupported(bundle, now));
    }

    /// Returns `true` if a bundle is accepted. Without an origin it is this node's.
    pub(super) fn accept(&mut self, bundle: Bundle, origin: Option<Origin>, share: Share, now: Time) -> bool {
        let (from, arrival) = origin.map(|origin| (origin.from, origin.arrival)).unzip();
        let expiry = self.expiry(&bundle, now);
        self.meeting.expire(now);
        let is_copy = self.is_copy(&bundle, from);
        let is_local = bundle.primary.destination.is_at(&self.config.eid);
        let is_kept = !is_copy && !is_local && expiry > now;
        // A neighbour that is refused a bundle keeps it, so that there is nothing to report.
        let is_refusable = arrival == Some(Arrival::Refusable);
        if is_kept && is_refusable && !self.store.fits(bundle.encoded_len(), (share, priority(&bundle))) {
            self.counts.refused += 1;
            return false;
        }
        origin.iter().for_each(|origin| self.report_arrival(&bundle, origin.reports, now));
        if is_kept {
            let spread = self.spread(&bundle, from);
            // The report may have taken the room that there was.
            let is_promised = is_refusable || arrival == Some(Arrival::Promised);
            return self.keep(bundle, (from, share, expiry), spread, is_promised, now);
        }
        if is_copy {
            return true;
        }
        if expiry <= now {
            self.counts.expired += 1;
            self.report_deletion(&bundle, reason::EXPIRED, now);
            return true;
        }
        self.know(&bundle, expiry);
        self.deliver(bundle, share, now);
        true
    }
}
