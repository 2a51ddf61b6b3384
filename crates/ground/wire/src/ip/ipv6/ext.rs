//! IPv6 extension headers (RFC 8200, section 4; AH: RFC 4302), with bounded parsing.

use std::net::Ipv6Addr;

use crate::bytes::{array, be16, be32, put16, put32};
use crate::ip::fields::Protocol;
use crate::{Error, Layer};

/// Number of extension headers a packet may have before it is refused. RFC 8200 asks for at most seven.
pub const MAX_HEADERS: usize = 16;

/// Length in bytes of a fragment header.
pub const FRAGMENT_LEN: usize = 8;

const MORE_FRAGMENTS: u16 = 1;

/// Returns `true` if `protocol` is a supported extension header. Hop-by-hop options, routing, fragment,
/// destination options and AH; not ESP, since nothing after it can be read.
#[inline]
pub const fn is_ext_header(protocol: Protocol) -> bool {
    matches!(
        protocol,
        Protocol::HOP_BY_HOP
            | Protocol::ROUTING
            | Protocol::FRAGMENT
            | Protocol::DESTINATION_OPTIONS
            | Protocol::AH
    )
}

/// IPv6 extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Protocol number of the header.
    pub protocol: Protocol,
    /// Protocol after it.
    pub next: Protocol,
    /// Offset in bytes from the end of the fixed header.
    pub offset: usize,
    /// Bytes of the header, next-header octet first.
    pub bytes: &'a [u8],
}

/// Iterator over extension headers. Stops at the first header that is not one, after a fragment header other
/// than the first fragment's, or after an error.
#[derive(Clone, Debug)]
pub struct Headers<'a> {
    payload: &'a [u8],
    next: Option<Protocol>,
    at: usize,
    seen: usize,
}

impl<'a> Headers<'a> {
    /// Starts at the beginning of an IPv6 payload, which `next_header` names.
    #[inline]
    pub const fn new(next_header: Protocol, payload: &'a [u8]) -> Headers<'a> {
        Headers { payload, next: Some(next_header), at: 0, seen: 0 }
    }

    fn read(&self, protocol: Protocol) -> Result<Header<'a>, Error> {
        if self.seen == MAX_HEADERS {
            return Err(Error::unsupported(Layer::Ipv6Ext, self.at, "more than 16 extension headers"));
        }
        if protocol == Protocol::HOP_BY_HOP && self.seen > 0 {
            return Err(Error::malformed(Layer::Ipv6Ext, self.at, "hop-by-hop options not first"));
        }
        let rest = &self.payload[self.at..];
        let truncated = |needed| Error::truncated(Layer::Ipv6Ext, self.at, needed, rest.len());
        let len = header_len(protocol, rest).ok_or(truncated(8))?;
        let bytes = rest.get(..len).ok_or(truncated(len))?;
        Ok(Header { protocol, next: Protocol(bytes[0]), offset: self.at, bytes })
    }
}

/// Returns the length in bytes of the header at the start of `bytes`. `None` without its length octet.
fn header_len(protocol: Protocol, bytes: &[u8]) -> Option<usize> {
    let len = usize::from(*bytes.get(1)?);
    Some(match protocol {
        Protocol::FRAGMENT => FRAGMENT_LEN,
        // RFC 4302, section 2.2: in words of 4 bytes, minus 2. The fixed part is 12 bytes.
        Protocol::AH => ((len + 2) * 4).max(12),
        _ => (len + 1) * 8,
    })
}

impl<'a> Iterator for Headers<'a> {
    type Item = Result<Header<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let protocol = self.next.take().filter(|&next| is_ext_header(next))?;
        let header = match self.read(protocol) {
            Ok(header) => header,
            Err(error) => return Some(Err(error)),
        };
        self.at += header.bytes.len();
        self.seen += 1;
        let is_later_fragment = protocol == Protocol::FRAGMENT && Fragment::read(header.bytes).offset != 0;
        self.next = (!is_later_fragment).then_some(header.next);
        Some(Ok(header))
    }
}

/// Result of parsing all extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Protocol after the headers.
    pub protocol: Protocol,
    /// The length in bytes of all of them.
    pub len: usize,
    /// Number of headers.
    pub count: usize,
    /// The fragment header, if there is one.
    pub fragment: Option<Fragment>,
    /// Last address of a routing header with segments left, for the pseudo-header. RFC 8200, section 8.1.
    pub final_destination: Option<Ipv6Addr>,
}

impl Default for Chain {
    /// Returns a chain without extension headers and payload.
    #[inline]
    fn default() -> Chain {
        Chain {
            protocol: Protocol::NO_NEXT_HEADER,
            len: 0,
            count: 0,
            fragment: None,
            final_destination: None,
        }
    }
}

/// Walks all extension headers at the start of an IPv6 payload.
///
/// # Errors
/// Returns an error if one is truncated or malformed, or there are more than [`MAX_HEADERS`].
pub fn walk(next_header: Protocol, payload: &[u8]) -> Result<Chain, Error> {
    let mut chain = Chain { protocol: next_header, ..Chain::default() };
    for header in Headers::new(next_header, payload) {
        let header = header?;
        chain.protocol = header.next;
        chain.len += header.bytes.len();
        chain.count += 1;
        match header.protocol {
            Protocol::FRAGMENT => chain.fragment = Some(Fragment::read(header.bytes)),
            Protocol::ROUTING => chain.final_destination = final_destination(header)?,
            _ => {}
        }
    }
    Ok(chain)
}

/// Returns the last address of a routing header with segments left. None for an unknown type.
fn final_destination(header: Header<'_>) -> Result<Option<Ipv6Addr>, Error> {
    let bytes = header.bytes;
    let (kind, left) = (bytes[2], usize::from(bytes[3]));
    let addresses = (bytes.len() - 8) / 16;
    let at = match kind {
        _ if left == 0 => return Ok(None),
        // RFC 2460, section 4.4, and RFC 6275, section 6.4: in order. RFC 8754, section 2: last segment first.
        0 | 2 => addresses.checked_sub(1),
        4 => (addresses > 0).then_some(0),
        _ => return Ok(None),
    };
    match at {
        Some(at) if left <= addresses => Ok(Some(array::<16>(bytes, 8 + 16 * at).into())),
        _ => Err(Error::malformed(Layer::Ipv6Ext, header.offset + 3, "more segments left than addresses")),
    }
}

/// A fragment header's fields (RFC 8200, section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Offset of this fragment in bytes; the field counts units of 8.
    pub offset: usize,
    /// Set if more follow.
    pub more: bool,
    /// Identification of the fragmented packet.
    pub ident: u32,
}

impl Fragment {
    /// Reads the 8 bytes of a fragment header.
    pub(crate) fn read(bytes: &[u8]) -> Fragment {
        let word = be16(bytes, 2);
        Fragment { offset: (word & !7).into(), more: word & MORE_FRAGMENTS != 0, ident: be32(bytes, 4) }
    }

    /// Returns `true` if it is a whole packet with a fragment header (RFC 6946).
    #[inline]
    pub const fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }

    /// Writes the 8 bytes of a fragment header.
    ///
    /// # Panics
    /// If `buffer` is shorter than that, or the offset is over 65,528 or not a multiple of 8.
    pub fn emit(&self, next: Protocol, buffer: &mut [u8]) {
        assert!(self.offset.is_multiple_of(8), "a fragment starts at a multiple of 8 bytes");
        let offset = u16::try_from(self.offset).expect("a fragment offset is at most 65528 bytes");
        buffer[0] = next.0;
        buffer[1] = 0;
        put16(buffer, 2, offset | if self.more { MORE_FRAGMENTS } else { 0 });
        put32(buffer, 4, self.ident);
    }
}

/// The options of a hop-by-hop or destination options header to be written.
///
/// ```
/// use bentpipe_wire::ip::Protocol;
/// use bentpipe_wire::ipv6::ext::OptionsRepr;
/// // Router alert (RFC 2711), padded to 8 bytes.
/// let options = OptionsRepr { next: Protocol::TCP, options: &[(5, &[0, 0])] };
/// let mut header = vec![0; options.buffer_len()];
/// options.emit(&mut header);
/// assert_eq!(header, [6, 0, 5, 2, 0, 0, 1, 0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionsRepr<'a> {
    /// Protocol after the header.
    pub next: Protocol,
    /// Option types and data, without padding.
    pub options: &'a [(u8, &'a [u8])],
}

const PAD1: u8 = 0;
const PADN: u8 = 1;

impl OptionsRepr<'_> {
    fn content_len(&self) -> usize {
        2 + self.options.iter().map(|(_, data)| 2 + data.len()).sum::<usize>()
    }

    /// Returns the header's length in bytes, padding to a multiple of 8 included.
    pub fn buffer_len(&self) -> usize {
        self.content_len().next_multiple_of(8)
    }

    /// Writes the header, padded with Pad1 or PadN.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`OptionsRepr::buffer_len`], an option has more than 255 bytes of data, or the
    /// header would be longer than 2,048 bytes.
    pub fn emit(&self, buffer: &mut [u8]) {
        let buffer = &mut buffer[..self.buffer_len()];
        buffer[0] = self.next.0;
        buffer[1] = u8::try_from(buffer.len() / 8 - 1).expect("an options header has at most 2048 bytes");
        let mut at = 2;
        for (kind, data) in self.options {
            buffer[at] = *kind;
            buffer[at + 1] = u8::try_from(data.len()).expect("an option has at most 255 bytes");
            buffer[at + 2..at + 2 + data.len()].copy_from_slice(data);
            at += 2 + data.len();
        }
        pad(&mut buffer[at..]);
    }
}

fn pad(buffer: &mut [u8]) {
    match buffer {
        [] => {}
        [one] => *one = PAD1,
        [kind, len, rest @ ..] => {
            *kind = PADN;
            *len = rest.len() as u8;
            rest.fill(0);
        }
    }
}
