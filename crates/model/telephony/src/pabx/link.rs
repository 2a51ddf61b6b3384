//! Links of conferences to those of other exchanges.

use bentpipe_site::CallEnd;
use bentpipe_units::{Span, Time};

use super::element::{Bridge, Pabx, State};
use super::leg::{Leg, Link};

/// Time between attempts to link a conference.
const RELINK: Span = Span::from_secs(10);

impl Pabx {
    /// Links conferences with members, and ends the links of those without.
    pub(super) fn link(&mut self, now: Time) {
        for conference in 0..self.exchange.conferences.len() {
            let of = &self.exchange.conferences[conference];
            let Some(number) = of.linked.clone() else { continue };
            let caller = of.number.clone();
            let Some(State { relay, .. }) = &self.state else { return };
            let (members, link) = (relay.members(conference), self.links.get(&conference).copied());
            let call = match link {
                Some(Link::Call(call)) => self.calls.get(&call).copied(),
                Some(Link::Wait(_)) | None => None,
            };
            match (call, link) {
                (Some(bridge), _) => {
                    // The other bridge is a member, once it has answered.
                    if members <= usize::from(relay.is_member(bridge.caller)) {
                        self.unlink(now, conference, bridge);
                    }
                }
                (None, _) if members == 0 => {
                    self.links.remove(&conference);
                }
                (None, Some(Link::Call(_))) => {
                    self.links.insert(conference, Link::Wait(now + RELINK));
                }
                (None, Some(Link::Wait(at))) if at > now => {}
                (None, _) => {
                    let leg = Leg::Room { conference, member: self.next as u32 };
                    self.place(now, leg, (&caller, &number));
                    let link = self.legs.get(&leg).map_or(Link::Wait(now + RELINK), |call| Link::Call(*call));
                    self.links.insert(conference, link);
                }
            }
        }
    }

    fn unlink(&mut self, now: Time, conference: usize, bridge: Bridge) {
        self.links.remove(&conference);
        self.over(now, bridge.caller, bridge);
        self.hang_up(now, bridge.callee);
        self.counts.ended += 1;
        self.close(now, bridge, (CallEnd::Ended, "normal, no member left".to_owned()));
    }
}
