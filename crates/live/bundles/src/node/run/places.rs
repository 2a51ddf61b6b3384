//! Places of connections, of which no host takes all.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use bentpipe_dtn::node::Share;
use bentpipe_emu::shares;
use bentpipe_units::Time;

use super::super::peers::{MtcpInput, Role};
use super::{Daemon, LONGEST_WAIT};

/// Place of a connection that others began, or of the datagrams of all guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Session(u64),
    Input(u64),
    Datagrams,
}

impl Daemon {
    /// Ends a connection after another one found no descriptor. The next turn accepts that.
    pub(super) fn miss_descriptor(&mut self, error: &io::Error, now: Time) {
        let made = if self.make_room(Ipv4Addr::UNSPECIFIED.into(), now) {
            "one of the host with the most ends"
        } else {
            self.accept_at = now + LONGEST_WAIT;
            "it waits"
        };
        self.rare.say("descriptors", format!("a connection finds no descriptor ({error}); {made}"), now);
    }

    /// Returns `true` if a connection of another host gave way.
    ///
    /// It is of the host that began the most: one without a session, or the oldest.
    pub(super) fn make_room(&mut self, host: IpAddr, now: Time) -> bool {
        let accepted = self.peers.iter().filter(|(_, peer)| peer.dialled.is_none());
        let peers =
            accepted.map(|(id, peer)| (peer.address.ip(), (peer.role != Role::Unknown, Place::Session(*id))));
        let inputs = self.inputs.iter();
        let inputs = inputs.map(|(id, input)| (input.address.ip(), (true, Place::Input(*id))));
        match shares::gives_way(peers.chain(inputs), host) {
            None | Some((_, Place::Datagrams)) => return false,
            Some((_, Place::Input(id))) => drop(self.inputs.remove(&id)),
            Some((_, Place::Session(id))) => {
                if let Some(peer) = self.peers.get_mut(&id) {
                    peer.failure = Some("its host had the most of all connections".to_owned());
                    peer.connection.session.disconnect();
                }
                self.handle_events(id, now);
            }
        }
        true
    }

    /// Ends a connection with incomplete bundles if all of them exceed the storage.
    ///
    /// It is the one with most of the host that has most. Known neighbours and applications stay while others have some.
    pub(super) fn bound_incomplete(&mut self) {
        let of_peers: usize = self.peers.values().map(|peer| peer.connection.session.buffered()).sum();
        let of_inputs: usize = self.inputs.values().map(MtcpInput::buffered).sum();
        if (of_peers + of_inputs) as u64 <= self.file.storage.get() {
            return;
        }
        let peers = self.peers.iter();
        let peers = peers
            .map(|(id, peer)| (self.share_of(peer), peer.connection.session.buffered(), Place::Session(*id)));
        let inputs = self.inputs.iter();
        let inputs =
            inputs.map(|(id, input)| (self.share_at(input.address), input.buffered(), Place::Input(*id)));
        let mut by_share: BTreeMap<Share, (usize, (usize, Place))> = BTreeMap::new();
        for (share, size, place) in peers.chain(inputs).filter(|(_, size, _)| *size > 0) {
            let (sum, most) = by_share.entry(share).or_insert((0, (size, place)));
            *sum += size;
            *most = (*most).max((size, place));
        }
        let worst = by_share.into_iter().max_by_key(|(share, (sum, _))| (share.is_guest(), *sum));
        match worst.map(|(_, (_, (_, place)))| place) {
            Some(Place::Input(id)) => drop(self.inputs.remove(&id)),
            Some(Place::Session(id)) => {
                if let Some(peer) = self.peers.get_mut(&id) {
                    peer.failure = Some("incomplete bundles exceed the storage".to_owned());
                    peer.connection.session.disconnect();
                }
            }
            None | Some(Place::Datagrams) => {}
        }
    }
}
