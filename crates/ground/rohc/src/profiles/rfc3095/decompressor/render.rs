//! Rendering the header that a candidate describes.

use alloc::vec::Vec;

use super::{Candidate, Decompressor};
use crate::framework::error::DecompressError;
use crate::framework::packet::{Level, MAX_LEVELS};
use crate::framework::profile::Profile;
use crate::profiles::rfc3095::changes::Changes;
use crate::profiles::rfc3095::header::{IpChanging, IpStatic};
use crate::profiles::rfc3095::list::{List, NO_LISTS};

impl Decompressor {
    /// Appends the header, fills in `levels`, and returns how many there are.
    #[inline]
    pub(in crate::profiles::rfc3095) fn render(
        &self,
        candidate: &Candidate,
        payload_len: usize,
        out: &mut Vec<u8>,
        levels: &mut [Level; MAX_LEVELS],
    ) -> Result<usize, DecompressError> {
        let start = out.len();
        let changes = candidate.changes.as_deref();
        let csrcs = self.csrcs(changes);
        let transport_len = self.transport_len(csrcs.bytes().len());
        let total = self.chain_len(changes) + transport_len + payload_len;
        let mut count = 0;
        for position in 0..self.depth + self.deeper.len() {
            let (fixed, changing, list) = self.at(position, candidate);
            let next = match changes.and_then(|changes| changes.protocol) {
                Some(next) if position + 1 == self.depth => next,
                _ => fixed.next,
            };
            let at = out.len() - start;
            let rest_len = total - at;
            let limit = if fixed.is_ipv4() { 0xffff } else { 0xffff + 40 };
            if rest_len > limit {
                return Err(DecompressError::TooLarge);
            }
            let first = if list.is_empty() { next } else { list.item(0)[0] };
            fixed.render(out, changing, first, rest_len);
            let extensions_at = out.len() - start;
            list.render(out, next)?;
            let extensions_len = out.len() - start - extensions_at;
            levels[count] = Level { at, version: fixed.version, extensions_at, extensions_len, first, next };
            count += 1;
        }
        self.render_transport(candidate, csrcs, transport_len + payload_len, out);
        Ok(count)
    }

    /// Static, changing and list part of the IP header at `position`, outermost first.
    pub(super) fn at<'a>(
        &'a self,
        position: usize,
        candidate: &'a Candidate,
    ) -> (&'a IpStatic, &'a IpChanging, &'a List) {
        let changes = candidate.changes.as_deref();
        if position < self.depth {
            let index = position + 2 - self.depth;
            let sent =
                changes.and_then(|changes| changes.extensions[index].as_ref()).map(|received| &received.list);
            let list = sent.unwrap_or(&self.extension_lists(index).current);
            return (&self.ip[index], &candidate.values.ip[index], list);
        }
        let deeper = &self.deeper[position - self.depth];
        match changes.and_then(|changes| changes.deeper.get(position - self.depth)) {
            Some((changing, received)) => (&deeper.fixed, changing, &received.list),
            None => (&deeper.fixed, &deeper.changing, &deeper.lists().current),
        }
    }

    pub(super) fn csrcs<'a>(&'a self, changes: Option<&'a Changes>) -> &'a List {
        if !self.has_rtp() {
            return &NO_LISTS.current;
        }
        let sent = changes.and_then(|changes| changes.csrcs.as_ref()).map(|received| &received.list);
        sent.unwrap_or(&self.csrc_lists().current)
    }

    pub(super) fn chain_len(&self, changes: Option<&Changes>) -> usize {
        let fixed: usize = self.used().map(|index| self.ip[index].len()).sum();
        if self.lists.is_none() && self.deeper.is_empty() && changes.is_none() {
            return fixed;
        }
        let lists: usize = self.used().map(|index| self.extension_len(index, changes)).sum();
        let deeper: usize = (0..self.deeper.len())
            .map(|index| {
                let list = match changes.and_then(|changes| changes.deeper.get(index)) {
                    Some((_, received)) => &received.list,
                    None => &self.deeper[index].lists().current,
                };
                self.deeper[index].fixed.len() + list.raw_len()
            })
            .sum();
        fixed + lists + deeper
    }

    pub(super) fn extension_len(&self, index: usize, changes: Option<&Changes>) -> usize {
        match changes.and_then(|changes| changes.extensions[index].as_ref()) {
            Some(received) => received.list.raw_len(),
            None => self.extension_lists(index).current.raw_len(),
        }
    }

    pub(super) fn transport_len(&self, csrc_len: usize) -> usize {
        match self.profile {
            Profile::Rtp | Profile::RtpUdpLite => 20 + csrc_len,
            Profile::Udp | Profile::UdpLite | Profile::Esp => 8,
            _ => 0,
        }
    }

    #[inline]
    pub(super) fn render_transport(
        &self,
        candidate: &Candidate,
        csrcs: &List,
        rest_len: usize,
        out: &mut Vec<u8>,
    ) {
        let values = &candidate.values;
        if self.profile == Profile::Ip {
            return;
        }
        out.extend_from_slice(&self.transport);
        if self.profile == Profile::Esp {
            out.extend_from_slice(&values.sn.to_be_bytes());
            return;
        }
        let inferred = !self.profile.has_udp_lite() || values.coverage.inferred;
        let length = if inferred { rest_len as u16 } else { values.coverage.value };
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&candidate.checksum.to_be_bytes());
        if self.has_rtp() {
            let count = csrcs.len() as u8;
            let rtp = &values.rtp;
            let first = rtp.version << 6 | u8::from(rtp.padding) << 5 | u8::from(rtp.extension) << 4 | count;
            out.extend_from_slice(&[first, u8::from(candidate.marker) << 7 | rtp.payload_type]);
            out.extend_from_slice(&(values.sn as u16).to_be_bytes());
            out.extend_from_slice(&rtp.ts.to_be_bytes());
            out.extend_from_slice(&self.ssrc);
            out.extend_from_slice(csrcs.bytes());
        }
    }
}
