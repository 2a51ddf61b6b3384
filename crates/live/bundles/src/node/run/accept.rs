//! Bundles that arrive: recognised, kept, or refused.

use bentpipe_dtn::node::{Arrival, Change, Share, Source, priority};
use bentpipe_units::Time;
use bentpipe_wire::dtn::bundle::Bundle;
use bentpipe_wire::dtn::tcpcl::refusal;

use super::super::identity::{Sender, expiry, identity, whole_identity};
use super::super::journal::Slot;
use super::super::local::place;
use super::Daemon;
use crate::clock::dtn_time;

/// Sender of a bundle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// Number of the neighbour; 0 if unknown.
    pub(super) from: u64,
    /// Set if it is an application of this node.
    pub(super) is_own: bool,
    /// Account of the storage that it counts to.
    pub(super) share: Share,
    /// Arrival, by the keeper of what is not stored.
    pub(super) arrival: Arrival,
}

/// Reason for which bytes were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Bytes without a readable primary block.
    Unreadable,
    /// Reason code of TCPCL.
    For(u8),
}

impl Daemon {
    /// Accepts a bundle, or returns the reason for which it is refused.
    pub(super) fn take(&mut self, bytes: &[u8], origin: Origin, now: Time) -> Result<(), u8> {
        self.take_any(bytes, origin, now).map_err(|refused| match refused {
            Refused::Unreadable => refusal::NOT_ACCEPTABLE,
            Refused::For(reason) => reason,
        })
    }

    /// Accepts bytes that are to be a bundle.
    pub(super) fn take_any(&mut self, bytes: &[u8], origin: Origin, now: Time) -> Result<(), Refused> {
        match Bundle::receive(bytes) {
            Ok(bundle) => self.accept(bundle, bytes, origin, now).map_err(Refused::For),
            Err(malformed) => {
                let from = self.name_of(origin.from);
                self.rare.say(
                    &format!("malformed {from}"),
                    format!("{from}: bundle refused: {}", malformed.flaw),
                    now,
                );
                match origin.is_own {
                    true => self.counters.malformed += 1,
                    false => self.node.reject_for(&malformed, origin.share, now),
                }
                match malformed.primary {
                    None => Err(Refused::Unreadable),
                    Some(_) => Err(Refused::For(refusal::NOT_ACCEPTABLE)),
                }
            }
        }
    }

    /// Accepts a bundle that follows the rules; `bytes` are its encoding.
    pub(super) fn accept(
        &mut self,
        mut bundle: Bundle,
        bytes: &[u8],
        origin: Origin,
        now: Time,
    ) -> Result<(), u8> {
        let from = match (origin.from, bundle.previous_node()) {
            (0, Some(node)) => self.node.number(&node).unwrap_or(0),
            (from, _) => from,
        };
        let origin = Origin { from, ..origin };
        let is_local = bundle.primary.destination.is_at(&self.file.eid);
        let senders = self.senders((from, origin.share), is_local);
        // Bundles of the null source have no identity (RFC 9171, section 4.2.3): two of them may be alike in all that names them.
        let has_identity = !bundle.primary.source.is_null();
        let hashes: Vec<u128> = match has_identity {
            true => senders.iter().map(|sender| identity(&bundle, *sender)).collect(),
            false => Vec::new(),
        };
        if self.is_repetition(&bundle, &senders, &hashes) {
            self.counters.duplicates += 1;
            return Ok(());
        }
        let expiry = expiry(&bundle, dtn_time());
        bundle.payload.elide();
        let (len, newcomer) = (bytes.len() as u64, (origin.share, priority(&bundle)));
        let is_promised = origin.arrival == Arrival::Promised;
        if !is_promised
            && (!self.has_disk_for(len)
                || is_local && !self.mailboxes.takes(&bundle)
                || is_local && !self.make_mailbox_room(len, newcomer, now))
        {
            self.counters.no_room += 1;
            return Err(refusal::NO_RESOURCES);
        }
        if is_local && bundle.primary.fragment.is_some() {
            self.collect(bundle, origin, expiry, now);
        } else {
            self.pass(bundle, origin, now)?;
        }
        if origin.arrival != Arrival::Promised {
            self.fresh.hashes.extend(&hashes);
        }
        let source = Source::of(origin.share, from);
        hashes.into_iter().for_each(|hash| self.journal.note_seen(hash, expiry, source));
        Ok(())
    }

    /// Returns `true` if one of the senders has sent the bundle before.
    fn is_repetition(&self, bundle: &Bundle, senders: &[Sender], hashes: &[u128]) -> bool {
        // Of a bundle that came whole, a fragment may follow whose sender did not know it.
        let wholes = senders.iter().filter_map(|sender| whole_identity(bundle, *sender));
        // A guest's copy of what known senders have brought is one too. The other way round anyone could keep a bundle away.
        let is_any_guest = senders.contains(&Sender::ANY_GUEST);
        let known = is_any_guest.then_some(Sender::ANY_KNOWN);
        let has_identity = !hashes.is_empty();
        let known = known.into_iter().filter(|_| has_identity).flat_map(|sender| {
            std::iter::once(identity(bundle, sender)).chain(whole_identity(bundle, sender))
        });
        hashes.iter().copied().chain(wholes).chain(known).any(|hash| self.journal.has_seen(hash))
    }

    /// Returns the senders from which a bundle of an account is a repetition.
    ///
    /// Copies for this node come by several neighbours, also after it started again.
    fn senders(&self, (from, share): (u64, Share), is_local: bool) -> Vec<Sender> {
        let any = if share.is_guest() { Sender::ANY_GUEST } else { Sender::ANY_KNOWN };
        let any = (is_local && self.node.makes_copies()).then_some(any);
        std::iter::once(Sender::of(share, from)).chain(any).collect()
    }

    fn pass(&mut self, bundle: Bundle, origin: Origin, now: Time) -> Result<(), u8> {
        let (refused, before) = (self.node.counts().refused, self.node.changes().len());
        let is_kept = match origin {
            Origin { is_own: true, share, .. } => self.node.originate_for(bundle, share, now),
            Origin { from, share, arrival, .. } => self.node.receive_for(bundle, (from, share), arrival, now),
        };
        if origin.arrival != Arrival::Promised {
            let stored = |change: &Change| match change {
                Change::Stored(id) => Some(Slot::Waiting(*id)),
                Change::Removed(_) => None,
            };
            self.fresh.slots.extend(self.node.changes()[before..].iter().filter_map(stored));
        }
        match is_kept {
            true => Ok(()),
            false if self.node.counts().refused > refused => Err(refusal::NO_RESOURCES),
            false => Err(refusal::NOT_ACCEPTABLE),
        }
    }

    /// Keeps a fragment for this node until the others are there.
    fn collect(&mut self, bundle: Bundle, Origin { from, share, .. }: Origin, expiry: u64, now: Time) {
        let Some(bundle) = self.node.admit((bundle, share), now) else { return };
        let Some((key, _)) = place(&bundle) else { return };
        let (id, len) = (self.next_local, bundle.encoded_len());
        self.next_local += 1;
        let sender = self.sender_of(Some(from), share);
        self.journal.store_bundle(Slot::Local(id), sender, dtn_time(), &bundle);
        self.fresh.slots.push(Slot::Local(id));
        self.mailboxes.keep(id, bundle, len, expiry, share);
        if let Some((whole, parts, share)) = self.mailboxes.reassemble(&key) {
            for part in parts {
                self.mailboxes.remove(part);
                self.journal.remove(Slot::Local(part));
            }
            // The whole bundle may follow, from a sender that does not know what has arrived.
            let (senders, source) = (self.senders((from, share), true), Source::of(share, from));
            let wholes = senders.into_iter().map(|sender| identity(&whole, sender));
            wholes.for_each(|hash| self.journal.note_seen(hash, expiry, source));
            self.node.deliver_whole(whole, share, now);
        }
    }
}
