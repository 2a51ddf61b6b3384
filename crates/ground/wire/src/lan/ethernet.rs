//! Ethernet II and IEEE 802.3 frames without preamble and FCS. Up to two VLAN tags (IEEE 802.1Q).

use std::fmt;
use std::net::IpAddr;

use crate::bytes::{array, be16, put16};
use crate::{Error, Layer};

/// Length in bytes of an untagged header.
pub const HEADER_LEN: usize = 14;
/// Length in bytes of a VLAN tag.
pub const TAG_LEN: usize = 4;
/// Shortest frame in bytes, FCS not counted.
pub const MIN_LEN: usize = 60;
/// Length in bytes of the frame check sequence.
pub const FCS_LEN: usize = 4;
/// Preamble, start delimiter and minimum gap between frames, in bytes of time on the wire.
pub const PREAMBLE_AND_GAP_LEN: usize = 20;

/// Returns the wire time of a frame of `frame_len` bytes, in bytes. Includes padding to the minimum, FCS,
/// preamble and gap.
#[inline]
pub const fn wire_len(frame_len: usize) -> usize {
    let padded = if frame_len < MIN_LEN { MIN_LEN } else { frame_len };
    padded + FCS_LEN + PREAMBLE_AND_GAP_LEN
}

/// A MAC address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// Broadcast address.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// Returns the MAC address of an IP group or broadcast; `None` for a single station. RFC 1112, section
    /// 6.4; RFC 2464, section 7.
    pub const fn of_group(address: IpAddr) -> Option<MacAddr> {
        match address {
            IpAddr::V4(address) if address.is_broadcast() => Some(MacAddr::BROADCAST),
            IpAddr::V4(address) if address.is_multicast() => {
                let [_, b, c, d] = address.octets();
                Some(MacAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d]))
            }
            IpAddr::V6(address) if address.is_multicast() => {
                let [.., a, b, c, d] = address.octets();
                Some(MacAddr([0x33, 0x33, a, b, c, d]))
            }
            _ => None,
        }
    }

    /// Returns `true` if it names a group, broadcast included.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Destination addresses that a receiver on a shared link accepts. Frames without an address are always
/// accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// Any address.
    #[default]
    All,
    /// Broadcast and these: its own, and those of the groups it is in.
    Only(Vec<MacAddr>),
}

impl Filter {
    /// Returns `true` if a frame to this address is for the receiver.
    pub fn accepts(&self, dst: Option<MacAddr>) -> bool {
        match (self, dst) {
            (Filter::Only(wanted), Some(dst)) => dst == MacAddr::BROADCAST || wanted.contains(&dst),
            _ => true,
        }
    }
}

/// Protocol in a frame, by IEEE's number. Under 0x0600 the field is an IEEE 802.3 length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(pub u16);

#[allow(missing_docs, reason = "the names are the registry's")]
impl EtherType {
    pub const IPV4: EtherType = EtherType(0x0800);
    pub const ARP: EtherType = EtherType(0x0806);
    pub const ROHC: EtherType = EtherType(0x22f1);
    /// Ethernet frame, behind GRE (RFC 1701).
    pub const BRIDGED: EtherType = EtherType(0x6558);
    pub const VLAN: EtherType = EtherType(0x8100);
    /// EtherType of VLAN tags of switches before IEEE 802.1ad.
    pub const OLD_SERVICE_VLAN: EtherType = EtherType(0x9100);
    pub const IPV6: EtherType = EtherType(0x86dd);
    pub const SERVICE_VLAN: EtherType = EtherType(0x88a8);
}

impl EtherType {
    /// Returns `true` if the field is a length: an LLC header follows.
    #[inline]
    pub const fn is_length(self) -> bool {
        self.0 < 0x0600
    }

    pub(crate) const fn is_tag(self) -> bool {
        matches!(self, EtherType::VLAN | EtherType::SERVICE_VLAN | EtherType::OLD_SERVICE_VLAN)
    }
}

impl fmt::Debug for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

/// A VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    /// Tag protocol: [`EtherType::VLAN`] or [`EtherType::SERVICE_VLAN`].
    pub protocol: EtherType,
    /// Tag control information: priority, drop eligibility, VLAN id.
    pub control: u16,
}

impl Tag {
    /// Returns the priority code point, 0 to 7.
    pub const fn priority(self) -> u8 {
        (self.control >> 13) as u8
    }

    /// Returns `true` if the frame may be dropped first.
    pub const fn drop_eligible(self) -> bool {
        self.control & 0x1000 != 0
    }

    /// Returns the VLAN identifier, 12 bits.
    pub const fn vlan(self) -> u16 {
        self.control & 0x0fff
    }
}

/// A view of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<T: AsRef<[u8]>> {
    buffer: T,
    elided: usize,
    tags: usize,
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// The most VLAN tags a frame may have.
    pub const MAX_TAGS: usize = 2;

    /// Returns a view of a frame that is all of `buffer`.
    ///
    /// # Errors
    /// Returns an error if the header, or what an IEEE 802.3 length promises, is truncated; `Unsupported`
    /// with more than two VLAN tags.
    pub fn new_checked(buffer: T) -> Result<Frame<T>, Error> {
        Frame::new_elided(buffer, 0)
    }

    /// Creates a view of a frame that ends with `elided` zero bytes, not in `buffer`.
    ///
    /// # Errors
    /// Returns the errors of [`Frame::new_checked`].
    pub fn new_elided(buffer: T, elided: usize) -> Result<Frame<T>, Error> {
        let mut frame = Frame { buffer, elided, tags: 0 };
        frame.check_header()?;
        while frame.ethertype().is_tag() {
            frame.tags += 1;
            if frame.tags > Self::MAX_TAGS {
                return Err(Error::unsupported(Layer::Ethernet, 20, "more than two VLAN tags"));
            }
            frame.check_header()?;
        }
        frame.check_length()?;
        Ok(frame)
    }

    fn check_header(&self) -> Result<(), Error> {
        let have = self.bytes().len();
        if have < self.header_len() {
            return Err(Error::truncated(
                Layer::Ethernet,
                self.header_len() - HEADER_LEN,
                self.header_len(),
                have,
            ));
        }
        Ok(())
    }

    fn check_length(&self) -> Result<(), Error> {
        let (needed, have) =
            (self.header_len() + self.payload_len(), self.bytes().len().saturating_add(self.elided));
        if needed > have {
            return Err(Error::truncated(Layer::Ethernet, self.header_len() - 2, needed, have));
        }
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    /// Returns the header's length in bytes, tags included.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + TAG_LEN * self.tags
    }

    /// Returns the destination address.
    pub fn dst(&self) -> MacAddr {
        MacAddr(array(self.bytes(), 0))
    }

    /// Returns the source address.
    pub fn src(&self) -> MacAddr {
        MacAddr(array(self.bytes(), 6))
    }

    /// Returns the EtherType, or the IEEE 802.3 length, after all tags.
    pub fn ethertype(&self) -> EtherType {
        EtherType(be16(self.bytes(), self.header_len() - 2))
    }

    /// Returns the VLAN tags, outermost first.
    pub fn tags(&self) -> impl Iterator<Item = Tag> {
        (0..self.tags).map(|index| {
            let at = 12 + TAG_LEN * index;
            Tag { protocol: EtherType(be16(self.bytes(), at)), control: be16(self.bytes(), at + 2) }
        })
    }

    /// Returns the payload's bytes that are there. Padding to the minimum length is part of it, except after
    /// an IEEE 802.3 length.
    pub fn payload(&self) -> &[u8] {
        let end = (self.header_len() + self.payload_len()).min(self.bytes().len());
        &self.bytes()[self.header_len()..end]
    }

    /// Returns the payload's length in bytes, elided ones included.
    pub fn payload_len(&self) -> usize {
        let ethertype = self.ethertype();
        if ethertype.is_length() {
            ethertype.0.into()
        } else {
            self.bytes().len().saturating_add(self.elided) - self.header_len()
        }
    }
}

/// A frame header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Destination address.
    pub dst: MacAddr,
    /// Source address.
    pub src: MacAddr,
    /// VLAN tags, outermost first; the second one only after the first.
    pub tags: [Option<Tag>; 2],
    /// EtherType, or IEEE 802.3 length.
    pub ethertype: EtherType,
}

impl Repr {
    /// Creates an untagged header.
    pub const fn new(src: MacAddr, dst: MacAddr, ethertype: EtherType) -> Repr {
        Repr { dst, src, tags: [None, None], ethertype }
    }

    /// Reads the header of a checked frame.
    pub fn parse<T: AsRef<[u8]>>(frame: &Frame<T>) -> Repr {
        let mut tags = frame.tags();
        let tags = [tags.next(), tags.next()];
        Repr { dst: frame.dst(), src: frame.src(), tags, ethertype: frame.ethertype() }
    }

    /// Returns the header's length in bytes.
    pub fn buffer_len(&self) -> usize {
        HEADER_LEN + TAG_LEN * self.tags.iter().flatten().count()
    }

    /// Writes the header at the start of `buffer`.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Repr::buffer_len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        buffer[..6].copy_from_slice(&self.dst.0);
        buffer[6..12].copy_from_slice(&self.src.0);
        let mut at = 12;
        for tag in self.tags.iter().flatten() {
            put16(buffer, at, tag.protocol.0);
            put16(buffer, at + 2, tag.control);
            at += TAG_LEN;
        }
        put16(buffer, at, self.ethertype.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use proptest::prelude::*;

    const TAGGED: [u8; 18] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x81, 0x00, 0xb0, 0x64, 0x08, 0x00];

    #[test]
    fn a_tagged_frame() {
        let frame = Frame::new_elided(&TAGGED[..], 46).unwrap();
        let tag = frame.tags().next().unwrap();
        assert_eq!((tag.priority(), tag.drop_eligible(), tag.vlan()), (5, true, 100));
        assert_eq!((frame.ethertype(), frame.header_len(), frame.payload_len()), (EtherType::IPV4, 18, 46));
        assert_eq!(frame.src().to_string(), "07:08:09:0a:0b:0c");
        assert!(frame.dst().is_multicast());
        let mut out = [0; 18];
        Repr::parse(&frame).emit(&mut out);
        assert_eq!(out, TAGGED);
    }

    #[test]
    fn groups_have_their_addresses() {
        let of = |text: &str| MacAddr::of_group(text.parse().unwrap()).map(|mac| mac.to_string());
        assert_eq!(of("239.129.2.3").as_deref(), Some("01:00:5e:01:02:03"));
        assert_eq!(of("ff0e::1:2").as_deref(), Some("33:33:00:01:00:02"));
        assert_eq!(of("255.255.255.255").as_deref(), Some("ff:ff:ff:ff:ff:ff"));
        assert_eq!((of("10.0.0.1"), of("fd00::1")), (None, None));
    }

    #[test]
    fn a_length_field_takes_the_padding_off() {
        let mut bytes = [0; 60];
        bytes[13] = 3;
        bytes[14..17].copy_from_slice(&[0x42, 0x42, 3]);
        let frame = Frame::new_checked(&bytes[..]).unwrap();
        assert!(frame.ethertype().is_length());
        assert_eq!(frame.payload(), [0x42, 0x42, 3]);
        bytes[13] = 47;
        assert_eq!(
            Frame::new_checked(&bytes[..]).unwrap_err().kind,
            Kind::Truncated { needed: 61, have: 60 }
        );
    }

    #[test]
    fn truncation_and_too_many_tags() {
        assert_eq!(
            Frame::new_checked(&TAGGED[..13]).unwrap_err().kind,
            Kind::Truncated { needed: 14, have: 13 }
        );
        assert_eq!(
            Frame::new_checked(&TAGGED[..17]).unwrap_err().kind,
            Kind::Truncated { needed: 18, have: 17 }
        );
        let deep = [&TAGGED[..16], &TAGGED[12..16], &TAGGED[12..18]].concat();
        assert!(matches!(Frame::new_checked(&deep[..]).unwrap_err().kind, Kind::Unsupported(_)));
    }

    #[test]
    fn time_on_the_wire() {
        assert_eq!((wire_len(54), wire_len(1514)), (84, 1538));
    }

    proptest! {
        #[test]
        fn round_trip(src: [u8; 6], dst: [u8; 6], controls in proptest::collection::vec(any::<u16>(), 0..=2), kind in 0x0600u16..0x8100) {
            let mut tags = controls.into_iter().map(|control| Tag { protocol: EtherType::VLAN, control });
            let tags = [tags.next(), tags.next()];
            let repr = Repr { tags, ..Repr::new(MacAddr(src), MacAddr(dst), EtherType(kind)) };
            let mut bytes = vec![0xff; repr.buffer_len()];
            repr.emit(&mut bytes);
            let frame = Frame::new_checked(&bytes[..]).unwrap();
            prop_assert_eq!(frame.payload_len(), 0);
            prop_assert_eq!(Repr::parse(&frame), repr);
        }

        #[test]
        fn never_panics(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0x81), Just(0)], 0..60), elided in 0usize..3000) {
            if let Ok(frame) = Frame::new_elided(&bytes[..], elided) {
                let _ = (Repr::parse(&frame), frame.payload());
            }
        }
    }
}
