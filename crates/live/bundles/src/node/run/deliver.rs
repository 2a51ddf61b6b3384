//! Bundles for endpoints of this node: applications, echo and discard.

use bentpipe_dtn::node::{Share, priority};
use bentpipe_units::Time;
use bentpipe_wire::dtn::bundle::{Bundle, BundleFlags, Content};
use bentpipe_wire::dtn::eid::Eid;

use super::super::echo::{ADMINISTRATIVE, DISCARD, is_echo};
use super::super::identity::expiry;
use super::super::journal::Slot;
use super::super::local::service;
use super::Daemon;
use crate::clock::dtn_time;

impl Daemon {
    /// Delivers the bundles for this node that have arrived to their services.
    ///
    /// Answers that the node makes of them have the next turn, so that signals and links have theirs.
    pub(super) fn deliver(&mut self, now: Time) {
        for _ in 0..self.node.deliveries() {
            let Some((bundle, share)) = self.node.poll_delivery_of() else { return };
            match service(&bundle.primary.destination) {
                // Status reports on what the node itself has sent.
                ADMINISTRATIVE => self.node.note_delivery_for((&bundle, share), now),
                DISCARD => {
                    self.node.note_delivery_for((&bundle, share), now);
                    self.counters.discarded += 1;
                }
                service if is_echo(service) => {
                    self.node.note_delivery_for((&bundle, share), now);
                    self.echo_back(bundle, share, now);
                }
                _ => self.wait_for_application(bundle, share, now),
            }
        }
    }

    /// Sends a bundle back, on the account of its sender.
    fn echo_back(&mut self, bundle: Bundle, share: Share, now: Time) {
        let node = &mut self.node;
        let Some(answer) = self.echo.answer(bundle, || node.timestamp(now), now) else {
            self.counters.echo_refused += 1;
            return;
        };
        let len = answer.encoded_len();
        let is_local = answer.primary.destination.is_at(&self.file.eid);
        let newcomer = (share, priority(&answer));
        if !self.journal.has_room(len) || is_local && !self.make_mailbox_room(len, newcomer, now) {
            self.counters.no_room += 1;
            return;
        }
        self.counters.echoed += u64::from(self.node.originate_for(answer, share, now));
    }

    /// Keeps a bundle for an application.
    ///
    /// The block of the previous node says if a guest has brought it.
    fn wait_for_application(&mut self, mut bundle: Bundle, share: Share, now: Time) {
        let from = if share.is_guest() { Eid::None } else { self.file.eid.clone() };
        bundle.set(Content::PreviousNode(from));
        let (id, len, today) = (self.next_local, bundle.encoded_len(), dtn_time());
        // There was room for what others sent; reports of this node were not asked for.
        let is_report =
            bundle.primary.flags.has(BundleFlags::ADMIN) && bundle.primary.source == self.file.eid;
        let newcomer = (share, priority(&bundle));
        if is_report && !self.make_mailbox_room(len, newcomer, now) {
            self.counters.no_room += 1;
            return;
        }
        self.next_local += 1;
        let sender = self.sender_of(None, share);
        self.journal.store_bundle(Slot::Local(id), sender, today, &bundle);
        self.fresh.slots.push(Slot::Local(id));
        let expiry = expiry(&bundle, today);
        self.mailboxes.keep(id, bundle, len, expiry, share);
    }
}
