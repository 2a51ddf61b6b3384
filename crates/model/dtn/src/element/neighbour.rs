//! Contacts with one neighbour.

use std::net::{IpAddr, SocketAddr};

use bentpipe_transport::app::Endpoints;
use bentpipe_units::{Bytes, Rate, Span, Time};
use bentpipe_wire::dtn::{BUNDLE_PORT, LTP_PORT};

use crate::plan::{Contact, Plan};

/// Bytes of UDP and IPv4 headers, which contacts carry too.
const HEADERS: u64 = 28;

/// Neighbour of a node, with the contacts of both directions.
#[derive(Clone, Debug)]
pub struct Neighbour {
    /// Number of the other node.
    pub(super) number: u64,
    /// Address of the other node.
    pub(super) address: IpAddr,
    pub(super) bundle_ends: Endpoints,
    pub(super) ltp_ends: Endpoints,
    /// Contacts from this node.
    own: Vec<Contact>,
    /// Contacts to this node.
    back: Vec<Contact>,
    /// Instant at which the transmitter is free.
    free: Time,
    /// Instant at which the next block of LTP may begin.
    ///
    /// It is found when the transmitter is free, and zero before.
    pub(super) block_at: Time,
    /// Beginnings and ends of contacts as this node sees them, in reverse order.
    changes: Vec<Time>,
}

impl Neighbour {
    /// Creates the neighbour `number` of the node `own` with both addresses.
    pub fn new(own: u64, number: u64, addresses: [IpAddr; 2], plan: &Plan) -> Neighbour {
        let (to, back): (Vec<_>, Vec<_>) =
            (plan.between(own, number).copied().collect(), plan.between(number, own).copied().collect());
        let late = |contact: &Contact| contact.light_time.unwrap_or(Span::ZERO);
        let mut changes: Vec<Time> = to.iter().flat_map(|contact| [contact.start, contact.end]).collect();
        changes.extend(
            back.iter().flat_map(|contact| [contact.start + late(contact), contact.end + late(contact)]),
        );
        changes.sort_by(|one, other| other.cmp(one));
        Neighbour {
            number,
            address: addresses[1],
            bundle_ends: ends(addresses, BUNDLE_PORT),
            ltp_ends: ends(addresses, LTP_PORT),
            own: to,
            back,
            free: Time::ZERO,
            block_at: Time::ZERO,
            changes,
        }
    }

    /// Returns the light time to the neighbour, of the first contact that has one.
    pub(super) fn light_time(&self) -> Span {
        self.own.iter().chain(&self.back).find_map(|contact| contact.light_time).unwrap_or(Span::ZERO)
    }

    /// Returns the bytes that a round trip and a margin hold, in both directions.
    ///
    /// They are those of the highest rates, to the neighbour first.
    pub(super) fn in_flight(&self, margin: Span) -> [u64; 2] {
        let time = (self.light_time() * 2 + margin).as_secs_f64();
        [&self.own, &self.back].map(|contacts| {
            let rates = contacts.iter().map(|contact| contact.rate.as_bytes_per_sec());
            (rates.fold(0.0, f64::max) * time) as u64
        })
    }

    /// Returns the rate of the open contact, if there is one.
    pub(super) fn open(&self, now: Time) -> Option<Rate> {
        self.contact(now).map(|contact| contact.rate)
    }

    /// Returns the open contact, if there is one.
    pub(super) fn contact(&self, now: Time) -> Option<&Contact> {
        let open = self.own.partition_point(|contact| contact.end <= now);
        self.own.get(open).filter(|contact| contact.start <= now)
    }

    /// Returns `true` if both directions can be used, as this node sees them.
    pub(super) fn is_reachable(&self, now: Time) -> bool {
        let arrives = |contact: &Contact| {
            let late = contact.light_time.unwrap_or(Span::ZERO);
            contact.start + late <= now && now < contact.end + late
        };
        self.open(now).is_some() && self.back.iter().any(arrives)
    }

    /// Returns `true` if the transmitter is free.
    pub(super) fn is_free(&self, now: Time) -> bool {
        self.free <= now
    }

    /// Occupies the transmitter with a datagram.
    pub(super) fn occupy(&mut self, payload: usize, rate: Rate, now: Time) {
        self.free = self.free.max(now) + rate.span_of(Bytes::new(payload as u64 + HEADERS));
        self.block_at = Time::ZERO;
    }

    /// Returns the instant at which something can be sent, given that something waits.
    pub(super) fn next_free(&self, now: Time) -> Time {
        match self.open(now) {
            Some(_) => self.free.max(now),
            None => Time::NEVER,
        }
    }

    /// Returns the next beginning or end of a contact.
    pub(super) fn next_change(&self) -> Time {
        self.changes.last().copied().unwrap_or(Time::NEVER)
    }

    /// Returns `true` if a contact began or ended up to `now`, and removes the change.
    pub(super) fn pop_changes(&mut self, now: Time) -> bool {
        let before = self.changes.len();
        while self.changes.last().is_some_and(|change| *change <= now) {
            self.changes.pop();
        }
        self.changes.len() < before
    }
}

/// Returns the addresses of datagrams from a node to another, both at one port number.
fn ends([own, other]: [IpAddr; 2], port: u16) -> Endpoints {
    Endpoints { source: SocketAddr::new(own, port), destination: SocketAddr::new(other, port) }
}
