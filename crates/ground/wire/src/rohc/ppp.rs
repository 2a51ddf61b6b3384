//! Negotiation of ROHC over PPP (RFC 3241 2).
//!
//! Packets of IPCP and IPV6CP (RFC 1332, RFC 5072), and their option for ROHC.
//!
//! *Models* the codes that carry options, any option, and that for ROHC with its suboptions. *Does not model* the automaton
//! of RFC 1661 4, and LCP. Frames and their protocol numbers are in [`link`](crate::link::Ppp).

use crate::bytes::{be16, put16};
use crate::{Error, Layer};

/// PPP protocol number of IPCP.
pub const IPCP: u16 = 0x8021;
/// PPP protocol number of IPV6CP.
pub const IPV6CP: u16 = 0x8057;

/// Option type of an IP compression protocol, in IPCP and IPV6CP.
const IP_COMPRESSION: u8 = 2;
/// IP-Compression-Protocol of ROHC.
const ROHC: u16 = 0x0003;
/// Length of the option without suboptions.
const FIXED_LEN: usize = 10;
/// Suboption of the profiles.
const PROFILES: u8 = 1;
/// Length of code, identifier and length.
const HEADER_LEN: usize = 4;
/// Highest CID that MAX_CID may announce.
const MAX_CID: u16 = 16_383;

/// Kind of a packet that carries options (RFC 1661 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Options that the sender wants.
    Request,
    /// Acceptance of the options.
    Ack,
    /// Options with values that would be accepted.
    Nak,
    /// Options that are not understood or not negotiable.
    Reject,
}

impl Code {
    const ALL: [Self; 4] = [Self::Request, Self::Ack, Self::Nak, Self::Reject];

    /// Returns the name, as in RFC 1661.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "Configure-Request",
            Self::Ack => "Configure-Ack",
            Self::Nak => "Configure-Nak",
            Self::Reject => "Configure-Reject",
        }
    }
}

/// Packet of a network control protocol as values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Kind.
    pub code: Code,
    /// Number that ties an answer to its request.
    pub identifier: u8,
    /// Options in order.
    pub options: Vec<Opt>,
}

/// Option of IPCP or IPV6CP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opt {
    /// Parameters of header compression that the sender's decompressor has.
    Rohc(Rohc),
    /// Any other.
    Other {
        /// Type.
        kind: u8,
        /// Content.
        data: Vec<u8>,
    },
}

/// Parameters of a ROHC channel (RFC 3241 2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rohc {
    /// Highest CID, up to 16,383.
    pub max_cid: u16,
    /// Largest reconstructed unit in bytes; 0: no segmentation.
    pub mrru: u16,
    /// Largest header in bytes. No profile uses it.
    pub max_header: u16,
    /// Profiles in ascending order. An option without them is malformed.
    pub profiles: Vec<u16>,
    /// Other suboptions as they are, each with type and length.
    pub others: Vec<u8>,
}

impl Default for Rohc {
    /// The suggested values of RFC 3241 2.1, without profiles.
    fn default() -> Self {
        Self { max_cid: 15, mrru: 0, max_header: 168, profiles: Vec::new(), others: Vec::new() }
    }
}

impl Rohc {
    /// Returns the channel of a link that negotiated both (RFC 3241 3).
    ///
    /// It has the larger values, and all profiles.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut profiles = [&self.profiles[..], &other.profiles].concat();
        profiles.sort_unstable();
        profiles.dedup();
        Self {
            max_cid: self.max_cid.max(other.max_cid),
            mrru: self.mrru.max(other.mrru),
            max_header: self.max_header.max(other.max_header),
            profiles,
            others: Vec::new(),
        }
    }

    /// Reads the content of an option behind its type and length.
    fn parse(data: &[u8]) -> Result<Self, Error> {
        if data.len() + 2 < FIXED_LEN {
            return Err(Error::truncated(Layer::Ncp, 0, FIXED_LEN, data.len() + 2));
        }
        let [max_cid, mrru, max_header] = [2, 4, 6].map(|at| be16(data, at));
        if max_cid > MAX_CID {
            return Err(Error::malformed(Layer::Ncp, 2, "MAX_CID above 16383"));
        }
        let mut found = Self { max_cid, mrru, max_header, ..Self::default() };
        let mut has_profiles = false;
        for element in elements(&data[FIXED_LEN - 2..]) {
            let (kind, value) = element?;
            if kind != PROFILES {
                found.others.extend_from_slice(&[kind, value.len() as u8 + 2]);
                found.others.extend_from_slice(value);
                continue;
            }
            let is_even = value.len().is_multiple_of(2);
            let profiles: Vec<u16> = value.chunks_exact(2).map(|pair| be16(pair, 0)).collect();
            if has_profiles || !is_even || !profiles.is_sorted_by(|one, two| one < two) {
                return Err(Error::malformed(Layer::Ncp, FIXED_LEN, "suboption of profiles"));
            }
            (has_profiles, found.profiles) = (true, profiles);
        }
        if has_profiles { Ok(found) } else { Err(Error::malformed(Layer::Ncp, FIXED_LEN, "no profiles")) }
    }

    /// Appends the option, with type and length.
    fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[IP_COMPRESSION, 0]);
        for field in [ROHC, self.max_cid, self.mrru, self.max_header] {
            out.extend_from_slice(&field.to_be_bytes());
        }
        out.extend_from_slice(&[PROFILES, 2 + 2 * self.profiles.len() as u8]);
        self.profiles.iter().for_each(|profile| out.extend_from_slice(&profile.to_be_bytes()));
        out.extend_from_slice(&self.others);
        out[start + 1] = u8::try_from(out.len() - start).expect("an option of up to 255 bytes");
    }
}

/// Iterates over elements of type, length with both, and content.
fn elements(mut bytes: &[u8]) -> impl Iterator<Item = Result<(u8, &[u8]), Error>> {
    core::iter::from_fn(move || {
        let (&kind, rest) = bytes.split_first()?;
        let len = usize::from(*rest.first().unwrap_or(&0));
        match bytes.get(2..len) {
            Some(value) => {
                bytes = &bytes[len..];
                Some(Ok((kind, value)))
            }
            None => {
                bytes = &[];
                Some(Err(Error::malformed(Layer::Ncp, 1, "length of an option")))
            }
        }
    })
}

impl Repr {
    /// Reads a packet, padding behind it left out.
    ///
    /// # Errors
    /// Returns an error if it is truncated or malformed; `Unsupported` for codes without options.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let Some(&[code, identifier, high, low]) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(Error::truncated(Layer::Ncp, 0, HEADER_LEN, bytes.len()));
        };
        let code = usize::from(code).checked_sub(1).and_then(|at| Code::ALL.get(at));
        let code = *code.ok_or(Error::unsupported(Layer::Ncp, 0, "code without options"))?;
        let len = usize::from(u16::from_be_bytes([high, low]));
        let content = bytes.get(HEADER_LEN..len).ok_or(Error::truncated(
            Layer::Ncp,
            2,
            len.max(HEADER_LEN),
            bytes.len(),
        ))?;
        let options = elements(content).map(|element| element.and_then(|(kind, data)| option(kind, data)));
        Ok(Self { code, identifier, options: options.collect::<Result<_, _>>()? })
    }

    /// Appends the packet.
    ///
    /// # Panics
    /// Panics if an option takes more than 255 bytes or the packet more than 65,535.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[self.code as u8 + 1, self.identifier, 0, 0]);
        for option in &self.options {
            match option {
                Opt::Rohc(rohc) => rohc.emit(out),
                Opt::Other { kind, data } => {
                    let len = u8::try_from(data.len() + 2).expect("an option of up to 255 bytes");
                    out.extend_from_slice(&[*kind, len]);
                    out.extend_from_slice(data);
                }
            }
        }
        let len = u16::try_from(out.len() - start).expect("a packet of up to 65535 bytes");
        put16(&mut out[start..], 2, len);
    }

    /// Returns the parameters of header compression, of the first such option.
    pub fn rohc(&self) -> Option<&Rohc> {
        self.options.iter().find_map(|option| match option {
            Opt::Rohc(rohc) => Some(rohc),
            Opt::Other { .. } => None,
        })
    }
}

fn option(kind: u8, data: &[u8]) -> Result<Opt, Error> {
    let is_rohc = kind == IP_COMPRESSION && data.len() >= 2 && be16(data, 0) == ROHC;
    if is_rohc { Rohc::parse(data).map(Opt::Rohc) } else { Ok(Opt::Other { kind, data: data.to_vec() }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    /// A Configure-Request with an address and ROHC: MAX_CID 15, profiles RTP and UDP.
    const REQUEST: [u8; 28] =
        [1, 7, 0, 28, 3, 6, 10, 0, 0, 1, 2, 18, 0, 3, 0, 15, 0, 0, 0, 168, 1, 8, 0, 0, 0, 1, 0, 2];

    #[test]
    fn the_figures_of_rfc_3241() {
        let found = Repr::parse(&REQUEST).expect("parses");
        assert_eq!((found.code, found.identifier), (Code::Request, 7));
        let expected = Rohc { profiles: vec![0, 1, 2], ..Rohc::default() };
        assert_eq!(found.rohc(), Some(&expected));
        let mut out = Vec::new();
        found.emit(&mut out);
        assert_eq!(out, REQUEST);
        let padded = [&REQUEST[..], &[0; 4]].concat();
        assert_eq!(Repr::parse(&padded), Ok(found));
    }

    #[test]
    fn what_the_rfc_forbids_is_refused() {
        let refused = |at: usize, value: u8| {
            let mut packet = REQUEST;
            packet[at] = value;
            Repr::parse(&packet).unwrap_err().kind
        };
        assert_eq!(refused(14, 0x40), Kind::Malformed("MAX_CID above 16383"));
        assert_eq!(refused(25, 0), Kind::Malformed("suboption of profiles"));
        assert_eq!(refused(20, 9), Kind::Malformed("no profiles"));
        assert_eq!(refused(11, 1), Kind::Malformed("length of an option"));
        assert!(matches!(refused(3, 29), Kind::Truncated { .. }));
        assert_eq!(refused(0, 5), Kind::Unsupported("code without options"));
    }

    #[test]
    fn a_channel_is_the_union_of_both_protocols() {
        let four = Rohc { max_cid: 15, mrru: 1500, profiles: vec![0, 1, 2], ..Rohc::default() };
        let six = Rohc { max_cid: 100, profiles: vec![0, 2, 6], ..Rohc::default() };
        let both = four.union(&six);
        assert_eq!((both.max_cid, both.mrru, both.profiles), (100, 1500, vec![0, 1, 2, 6]));
    }
}
