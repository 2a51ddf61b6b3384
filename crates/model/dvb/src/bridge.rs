//! Ethernet headers of packets that a gateway bridges.

use bentpipe_net::Packet;
use bentpipe_wire::ethernet::{EtherType, MacAddr};

/// Locally administered addresses of the stations behind the receiver and behind the sender.
const STATIONS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 2]), MacAddr([2, 0, 0, 0, 0, 1])];

/// Writes the header of the Ethernet frame that carries an IP packet.
pub(crate) fn write_header(packet: &Packet, out: &mut Vec<u8>) {
    let is_v6 = packet.header().first().is_some_and(|first| first >> 4 == 6);
    let ethertype = if is_v6 { EtherType::IPV6 } else { EtherType::IPV4 };
    STATIONS.iter().for_each(|station| out.extend_from_slice(&station.0));
    out.extend_from_slice(&ethertype.0.to_be_bytes());
}
