//! TCP context, which both ends keep alike.

use super::Error;
use super::chain::{Chain, TCP_LEN};
use super::delta::{self, Changes, NUMBER_OR_OPTIONS, RESERVED};

/// Headers of the last packet of a connection, and the length of its data.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tcp {
    pub(crate) header: Vec<u8>,
    pub(crate) data: usize,
    pub(crate) is_valid: bool,
}

impl Tcp {
    /// Returns the differences of RFC 1144. `None`: the segment goes as it is.
    pub(crate) fn vj_changes(&self, chain: &Chain, header: &[u8], data: usize) -> Option<Changes> {
        let before = &self.header;
        let tcp = chain.ip_len;
        let is_same = self.is_valid
            && before.len() == header.len()
            && chain.has_same_ip(before, header, 0xff)
            && delta::reserved(chain, before) == delta::reserved(chain, header)
            && before[tcp + 12] == header[tcp + 12]
            && before[tcp + 20..] == header[tcp + 20..];
        is_same.then(|| delta::changes(chain, before, self.data, header, data))?
    }

    /// Returns the differences of RFC 2507. `None`: the segment needs a full header.
    pub(crate) fn iphc_changes(&self, chain: &Chain, header: &[u8], data: usize) -> Option<Changes> {
        let before = &self.header;
        let is_same = self.is_valid && before.len() == header.len() && chain.has_same_ip(before, header, !3);
        is_same.then(|| delta::changes(chain, before, self.data, header, data))?
    }

    /// Writes a compressed header behind its number.
    pub(crate) fn put(&self, chain: &Chain, header: &[u8], changes: &Changes, out: &mut Vec<u8>) {
        let tcp = chain.ip_len;
        let bits = |header: &[u8]| delta::reserved(chain, header) << 2 | chain.ecn(header);
        let has_bits = bits(&self.header) != bits(header);
        let has_options = self.header[tcp + 20..] != header[tcp + 20..];
        let mask = changes.mask
            | if has_bits { RESERVED } else { 0 }
            | if has_options { NUMBER_OR_OPTIONS } else { 0 };
        out.push(mask);
        out.extend_from_slice(&header[tcp + 16..tcp + 18]);
        out.extend(has_bits.then(|| bits(header)));
        out.extend_from_slice(&changes.bytes);
        if has_options {
            out.extend_from_slice(&header[tcp + 20..]);
        }
    }

    /// Keeps a header, but for the bits that do not update the context.
    pub(crate) fn keep(&mut self, chain: &Chain, header: &[u8], data: usize) {
        let (reserved, ecn) = (delta::reserved(chain, &self.header), chain.ecn(&self.header));
        self.header.copy_from_slice(header);
        delta::set_reserved(chain, &mut self.header, reserved);
        chain.set_ecn(&mut self.header, ecn);
        self.data = data;
    }

    /// Applies the differences of a frame to the context, and writes the packet.
    pub(crate) fn apply(&mut self, chain: &Chain, rest: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let (mask, rest) = rest.split_first().ok_or(Error::Truncated)?;
        let (checksum, mut rest) = rest.split_first_chunk::<2>().ok_or(Error::Truncated)?;
        let mut bits = None;
        if mask & RESERVED != 0 {
            let (octet, after) = rest.split_first().ok_or(Error::Truncated)?;
            (bits, rest) = (Some(*octet), after);
        }
        let used = delta::apply(chain, &mut self.header, self.data, *mask, rest).ok_or(Error::Truncated)?;
        rest = &rest[used..];
        if mask & NUMBER_OR_OPTIONS != 0 {
            let options = chain.ip_len + TCP_LEN..chain.len;
            let (given, after) = rest.split_at_checked(options.len()).ok_or(Error::Truncated)?;
            self.header[options].copy_from_slice(given);
            rest = after;
        }
        self.header[chain.ip_len + 16..chain.ip_len + 18].copy_from_slice(checksum);
        self.data = rest.len();
        let mut header = self.header.clone();
        if let Some(bits) = bits {
            delta::set_reserved(chain, &mut header, bits >> 2);
            chain.set_ecn(&mut header, bits);
        }
        chain.restore(&mut header, rest.len())?;
        out.clear();
        out.extend_from_slice(&header);
        out.extend_from_slice(rest);
        Ok(())
    }
}
