//! Accounts of the storage: applications, configured neighbours, and hosts that are not known.

use std::net::SocketAddr;

use bentpipe_dtn::node::Share;
use bentpipe_units::Time;

use super::super::journal::Slot;
use super::super::peers::{Peer, Role};
use super::Daemon;
use super::claims::{is_proven, is_there};
use crate::host::host_key;

impl Daemon {
    /// Returns the account of what a peer sends.
    ///
    /// A neighbour is known by the connection that the node began, by its address, or by a certificate that names it. Its name alone is a claim, and
    /// suffices where the node file has no address.
    pub(super) fn share_of(&self, peer: &Peer) -> Share {
        let is_known = match peer.role {
            Role::Application(_) => peer.address.ip().is_loopback(),
            Role::Neighbour(number) => self.file.neighbour(number).is_some_and(|neighbour| {
                peer.dialled == Some(number)
                    || is_proven(peer, neighbour)
                    || neighbour.at.is_none_or(|at| is_there(peer, at))
            }),
            Role::Guest(number) => {
                let at = self.file.neighbour(number).and_then(|neighbour| neighbour.at);
                at.is_some_and(|at| is_there(peer, at))
            }
            Role::Unknown => false,
        };
        if is_known { Share::Known } else { Share::Host(host_key(peer.address.ip())) }
    }

    /// Returns the account of what a connection without names brings, such as MTCP.
    pub(super) fn share_at(&self, address: SocketAddr) -> Share {
        let host = address.ip().to_canonical();
        let mut places = self.file.neighbour.iter().filter_map(|neighbour| neighbour.at);
        match places.any(|at| at.ip().to_canonical() == host) {
            true => Share::Known,
            false => Share::Host(host_key(host)),
        }
    }

    /// Returns the account of a bundle in the store, by its sender there.
    pub(super) fn share_of_kept(&self, from: u64) -> Share {
        match from {
            0 => Share::Unproven,
            from if from == self.own || self.file.neighbour(from).is_some() => Share::Known,
            from => Share::Node(from),
        }
    }

    /// Returns the number of a sender for the store.
    pub(super) fn sender_of(&self, from: Option<u64>, share: Share) -> u64 {
        match (from, share.is_guest()) {
            (from, false) => from.filter(|from| *from != 0).unwrap_or(self.own),
            // A claim to be a neighbour is not to become the truth at the next start.
            (from, true) => from.filter(|from| self.file.neighbour(*from).is_none()).unwrap_or(0),
        }
    }

    /// Returns `true` if there is room for a bundle for an application. Others may give way to it.
    pub(super) fn make_mailbox_room(&mut self, len: u64, newcomer: (Share, usize), now: Time) -> bool {
        let Some(displaced) = self.mailboxes.make_room(len, newcomer) else { return false };
        for (id, bundle, share) in displaced {
            self.journal.remove(Slot::Local(id));
            self.node.note_displaced((&bundle, share), now);
        }
        true
    }
}
