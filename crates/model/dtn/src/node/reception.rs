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
    /// Set if one of them asks for a report. Reports on several would be alike.
    is_reported: bool,
    /// Set if one of them demands the deletion of the bundle.
    is_deleted: bool,
}

/// Origin of a bundle from another node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    from: u64,
    arrival: Arrival,
    /// Set if a block that the node does not know asks for a report.
    is_reported: bool,
}

/// Returns what is known of a malformed bundle.
fn readable(malformed: &Malformed) -> Option<Bundle> {
    let primary = malformed.primary.as_ref()?;
    Some(Bundle { primary: (**primary).clone(), blocks: vec![], payload: Payload::elided(malformed.len) })
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
        match self.examine((bundle, share), now) {
            Ok((bundle, is_reported)) => {
                self.accept(bundle, Some(Origin { from, arrival, is_reported }), share, now)
            }
            Err(is_accepted) => is_accepted,
        }
    }

    /// Returns a fragment for this node, which the caller keeps until all are there.
    ///
    /// `None` if it is deleted.
    pub fn admit(&mut self, (fragment, share): (Bundle, Share), now: Time) -> Option<Bundle> {
        let (fragment, is_reported) = self.examine((fragment, share), now).ok()?;
        self.report_arrival((&fragment, share), is_reported, now);
        if self.expiry(&fragment, now) <= now {
            self.counts.expired += 1;
            self.report_deletion((&fragment, share), reason::EXPIRED, now);
            return None;
        }
        Some(fragment)
    }

    /// Queues a bundle for an application whose fragments the caller has put together.
    pub fn deliver_whole(&mut self, bundle: Bundle, share: Share, now: Time) {
        self.accept(bundle, None, share, now);
    }

    /// Returns a bundle that goes on, and if its unknown blocks ask for a report.
    ///
    /// # Errors
    /// Returns an error if the bundle is deleted: `true` if its neighbour need not know.
    fn examine(&mut self, (mut bundle, share): (Bundle, Share), now: Time) -> Result<(Bundle, bool), bool> {
        if share.is_guest() {
            self.rations.earn(share, bundle.encoded_len(), now);
        }
        if let Err(breach) = bundle.check_received() {
            let (len, primary) = (bundle.payload.len(), Some(Box::new(bundle.primary)));
            self.report_malformed(&Malformed { primary, len, flaw: breach.into() }, share, now);
            return Err(false);
        }
        self.counts.received += 1;
        bundle.payload.elide();
        let Unsupported { is_reported, is_deleted } = self.process_unknown(&mut bundle);
        let reason = match (is_deleted, self.is_beyond(&bundle)) {
            (true, _) => reason::UNSUPPORTED,
            (false, true) => reason::HOP_LIMIT,
            (false, false) => return Ok((bundle, is_reported)),
        };
        self.counts.unsupported += u64::from(is_deleted);
        self.counts.hop_limit += u64::from(!is_deleted);
        self.report_arrival((&bundle, share), is_reported, now);
        self.report_deletion((&bundle, share), reason, now);
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
        self.reject_for(malformed, Share::Known, now);
    }

    /// Deletes a malformed bundle from another node, and reports it, on an account.
    pub fn reject_for(&mut self, malformed: &Malformed, share: Share, now: Time) {
        if let Some(bundle) = readable(malformed).filter(|_| share.is_guest()) {
            self.rations.earn(share, bundle.encoded_len(), now);
        }
        self.report_malformed(malformed, share, now);
    }

    fn report_malformed(&mut self, malformed: &Malformed, share: Share, now: Time) {
        self.counts.received += 1;
        self.counts.malformed += 1;
        let Some(bundle) = readable(malformed) else { return };
        self.report_reception((&bundle, share), now);
        self.report_deletion((&bundle, share), reason::UNINTELLIGIBLE, now);
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
            found.is_reported |= block.flags.has(BlockFlags::REPORT);
            found.is_deleted = block.flags.has(BlockFlags::DELETE_BUNDLE);
            found.is_deleted || !block.flags.has(BlockFlags::DISCARD)
        });
        found
    }

    /// Reports that a bundle has arrived, and once that it has unknown blocks.
    ///
    /// The flag of one of them has to ask for that.
    fn report_arrival(&mut self, of: (&Bundle, Share), is_reported: bool, now: Time) {
        self.report_reception(of, now);
        if is_reported {
            self.report_unsupported(of, now);
        }
    }

    /// Returns `true` if a bundle is accepted. Without an origin it is this node's.
    pub(super) fn accept(&mut self, bundle: Bundle, origin: Option<Origin>, share: Share, now: Time) -> bool {
        let (from, arrival) = origin.map(|origin| (origin.from, origin.arrival)).unzip();
        let expiry = self.expiry(&bundle, now);
        self.meeting.expire(now);
        let is_copy = self.is_copy((&bundle, share), from);
        let is_local = bundle.primary.destination.is_at(&self.config.eid);
        let is_kept = !is_copy && !is_local && expiry > now;
        // A neighbour that is refused a bundle keeps it, so that there is nothing to report.
        let is_refusable = arrival == Some(Arrival::Refusable);
        if is_kept && is_refusable && !self.store.fits(bundle.encoded_len(), (share, priority(&bundle))) {
            self.counts.refused += 1;
            return false;
        }
        let is_reported = origin.map(|origin| origin.is_reported);
        is_reported.into_iter().for_each(|asked| self.report_arrival((&bundle, share), asked, now));
        if is_kept {
            if !share.is_guest() {
                self.replace_stated(&bundle, now);
            }
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
            self.report_deletion((&bundle, share), reason::EXPIRED, now);
            return true;
        }
        self.know((&bundle, share), expiry);
        self.deliver(bundle, share, now);
        true
    }
}
