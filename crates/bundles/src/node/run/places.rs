//! Places of connections, of which no host takes all.

use std::net::IpAddr;

use bentpipe_emu::shares;
use bentpipe_units::Time;

use super::super::peers::Role;
use super::Daemon;

/// Place of a connection that others began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Session(u64),
    Input(usize),
}

impl Daemon {
    /// Returns `true` if a connection of another host gave way.
    ///
    /// It is of the host that began the most: one without a session, or the oldest.
    pub(super) fn make_room(&mut self, host: IpAddr, now: Time) -> bool {
        let accepted = self.peers.iter().filter(|(_, peer)| peer.dialled.is_none());
        let peers =
            accepted.map(|(id, peer)| (peer.address.ip(), (peer.role != Role::Unknown, Place::Session(*id))));
        let inputs = self.inputs.iter().enumerate();
        let inputs = inputs.map(|(n, input)| (input.address.ip(), (true, Place::Input(n))));
        match shares::gives_way(peers.chain(inputs), host) {
            None => return false,
            Some((_, Place::Input(n))) => drop(self.inputs.remove(n)),
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
}
