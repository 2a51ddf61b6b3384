//! Datagrams within records.

use std::net::SocketAddr;

use bentpipe_wire::ethernet::EtherType;
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::pcap::Record;
use bentpipe_wire::{Kind, link, udp};

use crate::offload::with_length;
use crate::packets::packet_in;
use crate::refusal::{Refusal, ethertype};
use crate::rohc::Restoration;
use crate::{Link, Reason, StreamId};

/// Datagram within a record.
pub(crate) enum Content<'a> {
    Datagram(StreamId, &'a [u8]),
    /// IP packet that is a fragment.
    Fragment(&'a [u8]),
}

/// Returns the datagram or fragment in a record.
pub(crate) fn content<'a>(record: &Record<'a>, on: Link) -> Result<Content<'a>, Refusal> {
    let network = link::network(record.link_type, record.bytes).map_err(|error| match error.kind {
        Kind::Unsupported("link type") => {
            (Reason::LinkType, format!("of link type {}", record.link_type.0).into())
        }
        Kind::Unsupported(_) => (Reason::Protocol, format!("without IP: {error}").into()),
        _ => broken(record, "frames"),
    })?;
    if !matches!(network.ethertype, EtherType::IPV4 | EtherType::IPV6) {
        return Err((Reason::Protocol, ethertype(network.ethertype).into()));
    }
    let packet = ip::Packet::new_checked(network.bytes).map_err(|_| broken(record, "IP packets"))?;
    let upper = packet.upper().map_err(|_| broken(record, "IP packets"))?;
    if upper.is_fragment {
        return Ok(Content::Fragment(network.bytes));
    }
    if upper.protocol != Protocol::UDP {
        return Err((Reason::Protocol, format!("of {}", name_of(upper.protocol)).into()));
    }
    let datagram = &network.bytes[upper.offset..upper.offset + upper.bytes.len()];
    let [a, b, c, d, high, low, _, _, payload @ ..] = datagram else {
        return Err(broken(record, "UDP datagrams"));
    };
    // Offload leaves 0 in datagrams that are cut into several behind the capture.
    let payload = match usize::from(u16::from_be_bytes([*high, *low])) {
        0 => payload,
        len => len
            .checked_sub(udp::HEADER_LEN)
            .and_then(|len| payload.get(..len))
            .ok_or_else(|| broken(record, "UDP datagrams"))?,
    };
    let port = |high: &u8, low: &u8| u16::from_be_bytes([*high, *low]);
    let from = SocketAddr::new(packet.src(), port(a, b));
    let to = SocketAddr::new(packet.dst(), port(c, d));
    let id = StreamId { link: on, ends: Some((from, to)), ..StreamId::default() };
    Ok(Content::Datagram(id, payload))
}

/// Restores the IP packet of a record with a ROHC packet, and returns its length.
pub(crate) fn restored(rohc: &mut Restoration, record: &Record<'_>, number: u64) -> Result<usize, Refusal> {
    rohc.restore_any(&packet_in(record, rohc.wanted(), number)?)
}

/// Returns the IP packet of a record without a length in its header, with it.
pub(crate) fn repaired(record: &Record<'_>) -> Option<Vec<u8>> {
    let network = link::network(record.link_type, record.bytes).ok()?;
    with_length(network.bytes, record.original_len - network.offset)
}

/// Returns the reason of a record whose header cannot be read.
fn broken(record: &Record<'_>, what: &str) -> Refusal {
    match record.is_cut() {
        true => (Reason::Cut, format!("of {what} that the capture cut").into()),
        false => (Reason::Malformed, format!("of malformed {what}").into()),
    }
}

fn name_of(protocol: Protocol) -> String {
    match protocol.0 {
        1 => "ICMP".to_owned(),
        2 => "IGMP".to_owned(),
        6 => "TCP".to_owned(),
        58 => "ICMPv6".to_owned(),
        other => format!("IP protocol {other}"),
    }
}
