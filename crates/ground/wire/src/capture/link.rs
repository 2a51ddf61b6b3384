//! Location of the IP packet in a captured frame, for the link types of captures.

use crate::atm::aal5;
use crate::bytes::{array, be16};
use crate::capture::erf::{self, Content};
use crate::capture::pcap::LinkType;
use crate::lan::ethernet::{self, EtherType, Frame};
use crate::lan::llc;
use crate::{Error, Layer};

/// Length in bytes of a Linux cooked header.
const SLL_LEN: usize = 16;
/// Length in bytes of a Linux cooked header, version 2.
const SLL2_LEN: usize = 20;
/// Length in bytes of BSD loopback's address family.
const NULL_LEN: usize = 4;
/// Length in bytes of a header of Cisco's HDLC: address, control, EtherType.
const C_HDLC_LEN: usize = 4;
/// Length in bytes of a PPPoE header.
const PPPOE_LEN: usize = 6;
/// PPPoE's session stage (RFC 2516 5).
const PPPOE_SESSION: EtherType = EtherType(0x8864);

/// Network-layer content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network<'a> {
    /// Protocol.
    pub ethertype: EtherType,
    /// Offset in the frame in bytes.
    pub offset: usize,
    /// Captured bytes, with any padding of the link.
    pub bytes: &'a [u8],
}

/// Strips the link layer of a captured frame. Ethernet and Linux cooked captures with VLAN tags and PPPoE,
/// LLC/SNAP, raw IP, BSD loopback, PPP, Cisco's HDLC, and ERF with Ethernet, PPP, HDLC, raw IP
/// or an AAL5 PDU.
///
/// # Errors
/// Returns an error if a header is truncated or malformed; `Unsupported` for other link types and for frames
/// that are not SNAP.
pub fn network(link_type: LinkType, bytes: &[u8]) -> Result<Network<'_>, Error> {
    let network = match link_type {
        LinkType::ETHERNET => ethernet(bytes),
        LinkType::PPP => of_ppp(ppp_frame(bytes, 0)?),
        LinkType::PPP_PPPD => of_ppp(directed_frame(bytes)?),
        LinkType::PPP_WITH_DIR => of_ppp(ppp_frame(bytes, 1)?),
        LinkType::PPP_HDLC | LinkType::C_HDLC => hdlc(bytes),
        LinkType::PPP_ETHER => of_ppp(pppoe_frame(bytes, 0)?),
        LinkType::RAW => raw(bytes, 0),
        LinkType::LINUX_SLL => cooked(bytes, SLL_LEN, 14),
        LinkType::LINUX_SLL2 => cooked(bytes, SLL2_LEN, 0),
        LinkType::NULL => loopback(bytes),
        LinkType::ERF => from_erf(bytes),
        _ => Err(Error::unsupported(Layer::Link, 0, "link type")),
    }?;
    match network.ethertype {
        PPPOE_SESSION => of_ppp(pppoe_frame(bytes, network.offset)?),
        _ => Ok(network),
    }
}

/// Content of a PPP frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ppp<'a> {
    /// Protocol (RFC 1661 2).
    pub protocol: u16,
    /// Offset in the frame in bytes.
    pub offset: usize,
    /// Captured bytes, with any padding of the link.
    pub bytes: &'a [u8],
}

impl Ppp<'_> {
    /// Protocol number of ROHC with small CIDs (RFC 3241 2.1).
    pub const ROHC_SMALL_CIDS: u16 = 0x0003;
    /// Protocol number of ROHC with large CIDs (RFC 3241 2.1).
    pub const ROHC_LARGE_CIDS: u16 = 0x0005;
}

/// Strips PPP, and HDLC's address and control or PPPoE before it.
///
/// # Errors
/// Returns an error if a header is truncated or malformed, `Unsupported` for frames of other links.
pub fn ppp(link_type: LinkType, bytes: &[u8]) -> Result<Ppp<'_>, Error> {
    match link_type {
        LinkType::PPP | LinkType::PPP_HDLC => ppp_frame(bytes, 0),
        LinkType::PPP_PPPD => directed_frame(bytes),
        LinkType::PPP_WITH_DIR => ppp_frame(bytes, 1),
        LinkType::PPP_ETHER => pppoe_frame(bytes, 0),
        LinkType::ETHERNET => match ethernet(bytes)? {
            Network { ethertype: PPPOE_SESSION, offset, .. } => pppoe_frame(bytes, offset),
            _ => Err(Error::unsupported(Layer::Link, 0, "frame without PPP")),
        },
        _ => Err(Error::unsupported(Layer::Link, 0, "link type")),
    }
}

fn at(ethertype: EtherType, offset: usize, bytes: &[u8]) -> Network<'_> {
    Network { ethertype, offset, bytes: &bytes[offset..] }
}

fn shift(network: Network<'_>, by: usize) -> Network<'_> {
    Network { offset: network.offset + by, ..network }
}

fn ethernet(bytes: &[u8]) -> Result<Network<'_>, Error> {
    // A snapshot may have cut the frame, so an IEEE 802.3 length is not compared with the captured length.
    let frame = Frame::new_elided(bytes, usize::from(u16::MAX))?;
    let header_len = frame.header_len();
    if !frame.ethertype().is_length() {
        return Ok(at(frame.ethertype(), header_len, bytes));
    }
    snap(&bytes[header_len..header_len + frame.payload().len()]).map(|network| shift(network, header_len))
}

fn snap(bytes: &[u8]) -> Result<Network<'_>, Error> {
    let header = llc::Repr::parse(bytes)?;
    let len = header.buffer_len();
    match header {
        llc::Repr::Routed(ethertype) => Ok(at(ethertype, len, bytes)),
        llc::Repr::BridgedEthernet { .. } => bridged(&bytes[len..]).map(|network| shift(network, len)),
        llc::Repr::Other { .. } => Err(Error::unsupported(Layer::Llc, 3, "organisation's own protocol")),
    }
}

/// Returns a bridged frame. One more LLC header may follow its addresses, but not another bridged frame: that
/// ends recursion.
fn bridged(bytes: &[u8]) -> Result<Network<'_>, Error> {
    let frame = Frame::new_checked(bytes)?;
    if frame.ethertype().is_length() {
        return Err(Error::unsupported(Layer::Ethernet, ethernet::HEADER_LEN - 2, "LLC in a bridged frame"));
    }
    Ok(at(frame.ethertype(), frame.header_len(), bytes))
}

fn raw(bytes: &[u8], offset: usize) -> Result<Network<'_>, Error> {
    let first = bytes.get(offset).ok_or(Error::truncated(Layer::Link, offset, offset + 1, bytes.len()))?;
    match first >> 4 {
        4 => Ok(at(EtherType::IPV4, offset, bytes)),
        6 => Ok(at(EtherType::IPV6, offset, bytes)),
        _ => Err(Error::unsupported(Layer::Link, offset, "IP version other than 4 and 6")),
    }
}

/// Strips a cooked header, and the VLAN tags after it in captures of tagged frames.
fn cooked(bytes: &[u8], mut len: usize, mut ethertype_at: usize) -> Result<Network<'_>, Error> {
    for _ in 0..=Frame::<&[u8]>::MAX_TAGS {
        if bytes.len() < len {
            return Err(Error::truncated(Layer::Link, 0, len, bytes.len()));
        }
        match EtherType(be16(bytes, ethertype_at)) {
            ethertype if ethertype.is_length() => {
                return Err(Error::unsupported(Layer::Link, ethertype_at, "cooked frame without EtherType"));
            }
            ethertype if ethertype.is_tag() => {
                len += ethernet::TAG_LEN;
                ethertype_at = len - 2;
            }
            ethertype => return Ok(at(ethertype, len, bytes)),
        }
    }
    Err(Error::unsupported(Layer::Link, ethertype_at, "more VLAN tags"))
}

/// Strips a loopback header. The address family is in the capturing host's order, and for IPv6 each BSD has
/// its own; only IPv4's is checked, and the packet's version must agree.
fn loopback(bytes: &[u8]) -> Result<Network<'_>, Error> {
    const AF_INET: u32 = 2;
    let network = raw(bytes, NULL_LEN)?;
    let family: [u8; 4] = array(bytes, 0);
    let is_inet = AF_INET == u32::from_be_bytes(family) || AF_INET == u32::from_le_bytes(family);
    if is_inet != (network.ethertype == EtherType::IPV4) {
        return Err(Error::malformed(Layer::Link, 0, "address family is not the packet's"));
    }
    Ok(network)
}

/// Strips PPP, or Cisco's HDLC with an EtherType. HDLC has other addresses: 0x0f for one station, 0x8f for
/// all.
fn hdlc(bytes: &[u8]) -> Result<Network<'_>, Error> {
    match bytes.first_chunk::<C_HDLC_LEN>() {
        Some(&[0x0f | 0x8f, 0, a, b]) => Ok(at(EtherType(u16::from_be_bytes([a, b])), C_HDLC_LEN, bytes)),
        _ => of_ppp(ppp_frame(bytes, 0)?),
    }
}

/// Strips a PPPoE session header, and padding behind the session (RFC 2516 4).
fn pppoe_frame(bytes: &[u8], offset: usize) -> Result<Ppp<'_>, Error> {
    const VERSION_1_TYPE_1: u8 = 0x11;
    const SESSION_DATA: u8 = 0;
    match bytes.get(offset..offset + PPPOE_LEN) {
        None => Err(Error::truncated(Layer::Link, offset, offset + PPPOE_LEN, bytes.len())),
        Some([VERSION_1_TYPE_1, SESSION_DATA, _, _, high, low]) => {
            let end = offset + PPPOE_LEN + usize::from(u16::from_be_bytes([*high, *low]));
            ppp_frame(&bytes[..end.min(bytes.len())], offset + PPPOE_LEN)
        }
        Some(_) => Err(Error::malformed(Layer::Link, offset, "PPPoE header")),
    }
}

/// Strips PPP with a direction in the place of the address.
fn directed_frame(bytes: &[u8]) -> Result<Ppp<'_>, Error> {
    match bytes {
        [0 | 1, 3, ..] => ppp_frame(bytes, 2),
        _ => Err(Error::malformed(Layer::Link, 0, "direction and control of PPP")),
    }
}

/// Strips PPP, with or without address, control and a compressed protocol field. RFC 1661 6.5, 6.6.
fn ppp_frame(bytes: &[u8], start: usize) -> Result<Ppp<'_>, Error> {
    let framed = bytes.get(start..).is_some_and(|rest| rest.starts_with(&[0xff, 3]));
    let start = if framed { start + 2 } else { start };
    let (protocol, len) = match bytes.get(start..).unwrap_or_default() {
        [compressed, ..] if compressed & 1 == 1 => (u16::from(*compressed), 1),
        [high, low, ..] => (u16::from_be_bytes([*high, *low]), 2),
        _ => return Err(Error::truncated(Layer::Link, start, start + 2, bytes.len())),
    };
    let offset = start + len;
    Ok(Ppp { protocol, offset, bytes: &bytes[offset..] })
}

fn of_ppp(ppp: Ppp<'_>) -> Result<Network<'_>, Error> {
    const IPV4: u16 = 0x21;
    const IPV6: u16 = 0x57;
    let Ppp { protocol, offset, bytes } = ppp;
    match protocol {
        IPV4 => Ok(Network { ethertype: EtherType::IPV4, offset, bytes }),
        IPV6 => Ok(Network { ethertype: EtherType::IPV6, offset, bytes }),
        _ => Err(Error::unsupported(Layer::Link, offset, "PPP protocol other than IP")),
    }
}

fn from_erf(bytes: &[u8]) -> Result<Network<'_>, Error> {
    let (header, len) = erf::Repr::parse(bytes)?;
    let rest = &bytes[len..];
    let network = match header.content {
        Content::Ethernet => ethernet(rest),
        Content::Hdlc => hdlc(rest),
        Content::Ipv4 => Ok(at(EtherType::IPV4, 0, rest)),
        Content::Ipv6 => Ok(at(EtherType::IPV6, 0, rest)),
        // A record is padded to a multiple of 8 bytes, so the PDU ends where the header says.
        Content::Aal5(_) => {
            snap(aal5::Pdu::new_checked(rest.get(..header.payload_len).unwrap_or(rest))?.into_payload())
        }
    };
    network.map(|network| shift(network, len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use proptest::prelude::*;

    fn found(link_type: LinkType, header: &[u8], packet: u8) -> Result<(EtherType, usize), Kind> {
        let bytes = [header, &[packet, 1, 2, 3]].concat();
        network(link_type, &bytes)
            .map(|network| (network.ethertype, network.offset))
            .map_err(|error| error.kind)
    }

    #[test]
    fn each_link_type_leads_to_its_packet() {
        let (v4, v6) = (EtherType::IPV4, EtherType::IPV6);
        assert_eq!(found(LinkType::RAW, &[], 0x45), Ok((v4, 0)));
        assert_eq!(found(LinkType::NULL, &[2, 0, 0, 0], 0x45), Ok((v4, 4)));
        assert_eq!(found(LinkType::NULL, &[0, 0, 0, 30], 0x60), Ok((v6, 4)));
        assert_eq!(found(LinkType::PPP_PPPD, &[1, 3, 0, 0x57], 0x60), Ok((v6, 4)));
        assert_eq!(found(LinkType::PPP_WITH_DIR, &[1, 0xff, 3, 0, 0x57], 0x60), Ok((v6, 5)));
        assert!(found(LinkType::PPP_PPPD, &[2, 3, 0, 0x57], 0x60).is_err());
        let sll = [0, 4, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 8, 0];
        assert_eq!(found(LinkType::LINUX_SLL, &sll, 0x45), Ok((v4, 16)));
        let mut sll2 = [0; 20];
        sll2[..2].copy_from_slice(&[0x86, 0xdd]);
        assert_eq!(found(LinkType::LINUX_SLL2, &sll2, 0x60), Ok((v6, 20)));
        let tagged = [0, 4, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 0x88, 0xa8, 0, 9, 0x81, 0, 0, 5, 8, 0];
        assert_eq!(found(LinkType::LINUX_SLL, &tagged, 0x45), Ok((v4, 24)));
        assert!(matches!(
            network(LinkType::LINUX_SLL, &tagged[..23]).unwrap_err().kind,
            Kind::Truncated { .. }
        ));
        let vlan = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x81, 0, 0, 5, 0x86, 0xdd];
        assert_eq!(found(LinkType::ETHERNET, &vlan, 0x60), Ok((v6, 18)));
        let twice = [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0x91, 0, 0, 5, 0x81, 0, 0, 7, 8, 0];
        assert_eq!(found(LinkType::ETHERNET, &twice, 0x45), Ok((v4, 22)));
        let snap = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 12, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
        assert_eq!(found(LinkType::ETHERNET, &snap, 0x45), Ok((v4, 22)));
    }

    #[test]
    fn ppp_in_all_its_frames() {
        let (v4, v6) = (EtherType::IPV4, EtherType::IPV6);
        assert_eq!(found(LinkType::PPP, &[0, 0x21], 0x45), Ok((v4, 2)));
        assert_eq!(found(LinkType::PPP, &[0xff, 3, 0x57], 0x60), Ok((v6, 3)));
        assert_eq!(found(LinkType::PPP_HDLC, &[0xff, 3, 0, 0x21], 0x45), Ok((v4, 4)));
        assert_eq!(found(LinkType::PPP_HDLC, &[0x8f, 0, 0x86, 0xdd], 0x60), Ok((v6, 4)));
        assert_eq!(found(LinkType::C_HDLC, &[0x0f, 0, 8, 0], 0x45), Ok((v4, 4)));
        let session = [0x11, 0, 0, 7, 0, 6, 0, 0x21];
        assert_eq!(found(LinkType::PPP_ETHER, &session, 0x45), Ok((v4, 8)));
        let ethernet = [&[2; 12][..], &[0x81, 0, 0, 7, 0x88, 0x64], &session].concat();
        assert_eq!(found(LinkType::ETHERNET, &ethernet, 0x45), Ok((v4, 26)));
        let lcp = found(LinkType::PPP, &[0xc0, 0x21], 1);
        assert_eq!(lcp, Err(Kind::Unsupported("PPP protocol other than IP")));
        let discovery = found(LinkType::PPP_ETHER, &[0x11, 9, 0, 0, 0, 4, 1, 1], 0);
        assert_eq!(discovery, Err(Kind::Malformed("PPPoE header")));
        for cut in 0..8 {
            let kind = network(LinkType::PPP_ETHER, &session[..cut]).unwrap_err().kind;
            assert!(matches!(kind, Kind::Truncated { .. }), "{cut}: {kind:?}");
        }
    }

    #[test]
    fn rohc_in_ppp() {
        let content = |link_type, frame: &[u8]| {
            let found =
                ppp(link_type, frame).map(|found| (found.protocol, found.offset, found.bytes.to_vec()));
            found.map_err(|error| error.kind)
        };
        let rohc = [0xfd, 1, 2];
        let with = |header: &[u8]| [header, &rohc].concat();
        let (small, large) = (Ppp::ROHC_SMALL_CIDS, Ppp::ROHC_LARGE_CIDS);
        assert_eq!(content(LinkType::PPP, &with(&[0, 3])), Ok((small, 2, rohc.to_vec())));
        assert_eq!(content(LinkType::PPP, &with(&[5])), Ok((large, 1, rohc.to_vec())));
        assert_eq!(content(LinkType::PPP_HDLC, &with(&[0xff, 3, 0, 5])), Ok((large, 4, rohc.to_vec())));
        let session = [0x11, 0, 0, 7, 0, 5, 0, 3];
        let padded = [&[2; 12][..], &[0x88, 0x64], &with(&session), &[0; 30]].concat();
        assert_eq!(content(LinkType::ETHERNET, &padded), Ok((small, 22, rohc.to_vec())));
        assert_eq!(content(LinkType::PPP_ETHER, &with(&session)), Ok((small, 8, rohc.to_vec())));
        let ip = [&[2; 12][..], &[8, 0, 0x45]].concat();
        assert_eq!(content(LinkType::ETHERNET, &ip), Err(Kind::Unsupported("frame without PPP")));
        assert!(content(LinkType::RAW, &[0, 3]).is_err() && content(LinkType::PPP, &[0]).is_err());
    }

    #[test]
    fn an_aal5_pdu_in_erf() {
        let mut pdu = vec![0; 48];
        llc::Repr::Routed(EtherType::IPV4).emit(&mut pdu);
        pdu[8] = 0x45;
        aal5::Repr::new(28).emit(&mut pdu);
        let header = erf::Repr::new(0, Content::Aal5(erf::AtmHeader { vpi: 0, vci: 100 }), 48);
        let mut bytes = vec![0; header.buffer_len()];
        header.emit(&mut bytes);
        bytes.extend(pdu);
        let found = network(LinkType::ERF, &bytes).unwrap();
        assert_eq!(
            (found.ethertype, found.offset, found.bytes[0], found.bytes.len()),
            (EtherType::IPV4, 28, 0x45, 20)
        );
    }

    #[test]
    fn what_has_no_packet_is_said_to() {
        assert_eq!(found(LinkType::USER0, &[], 0x45), Err(Kind::Unsupported("link type")));
        assert_eq!(found(LinkType::RAW, &[], 0x55), Err(Kind::Unsupported("IP version other than 4 and 6")));
        assert!(matches!(found(LinkType::NULL, &[0, 0, 0, 2], 0x60), Err(Kind::Malformed(_))));
        assert!(matches!(network(LinkType::LINUX_SLL, &[0; 15]).unwrap_err().kind, Kind::Truncated { .. }));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            for link_type in [0, 1, 9, 50, 51, 101, 104, 113, 147, 197, 276] {
                if let Ok(network) = network(LinkType(link_type), &bytes) {
                    prop_assert!(network.offset + network.bytes.len() <= bytes.len());
                }
            }
        }
    }
}
