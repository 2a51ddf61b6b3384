//! Metrics of nodes.

use crate::metric::{Counter, Of, Unit};

crate::metrics! {
    Counter DELIVERED = "delivered", Packets, "Packets delivered to endpoints";
    Counter FORWARDED = "forwarded", Packets, "Packets forwarded";
    Counter DIVERTED = "diverted", Packets, "Packets diverted to roles";
    Counter FRAGMENTS = "fragments", Packets, "Fragments made of packets longer than the MTU";
    Counter REASSEMBLED = "reassembled", Packets, "Packets reassembled from fragments";
    Counter ICMP_SENT = "icmp-sent", Packets, "ICMP messages sent";
    Counter ICMP_RECEIVED = "icmp-received", Packets, "ICMP messages received";
    Counter MEMBERSHIP_RECEIVED = "membership-received", Packets, "IGMP and MLD messages received";
    Counter MEMBERSHIP_SENT = "membership-sent", Packets, "IGMP and MLD messages sent";
    Counter JOINS_REFUSED = "joins-refused", Count, "Memberships refused for their number";
    Gauge MEMBERSHIPS = "memberships", Count, "Memberships of multicast groups at interfaces";
    Counter ICMP_SUPPRESSED = "icmp-suppressed", Packets, "ICMP messages not sent for the limit of their rate";
}

/// Drops by cause, in the order of [`super::Drop::ALL`].
pub static DROPPED: [Of<Counter>; super::Drop::ALL.len()] = [
    Of::<Counter>::new("dropped-no-route", Unit::Packets, "Packets without a route").drops(),
    Of::<Counter>::new("dropped-hop-limit", Unit::Packets, "Packets whose hop limit was used up").drops(),
    Of::<Counter>::new("dropped-bad-checksum", Unit::Packets, "Packets with a wrong header checksum").drops(),
    Of::<Counter>::new("dropped-bad-header", Unit::Packets, "Packets with a malformed header").drops(),
    Of::<Counter>::new("dropped-too-big", Unit::Packets, "Packets longer than the MTU").drops(),
    Of::<Counter>::new("dropped-no-listener", Unit::Packets, "Packets for a port without a listener").drops(),
    Of::<Counter>::new("dropped-reassembly", Unit::Packets, "Fragments of packets never complete").drops(),
    Of::<Counter>::new("dropped-no-member", Unit::Packets, "Packets to multicast groups without members")
        .drops(),
];
