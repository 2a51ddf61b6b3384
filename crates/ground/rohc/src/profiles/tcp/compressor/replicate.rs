//! Context replication from another flow (RFC 6846 5.2.3 and 7.2, RFC 4164).
//!
//! A base is a context of the same headers and addresses that the decompressor has acknowledged and of which nothing is
//! due: what an IR-CR leaves out, the decompressor has. The IR-CR is repeated as an IR would be, until it is
//! acknowledged, each time against the base as it then is; where the base has gone, an IR is sent instead.

use alloc::vec::Vec;

use super::super::groups::Set;
use super::super::kind::Kind;
use super::super::refs::Spreads;
use super::super::table::Plan;
use super::super::{extension, header, ip};
use super::{Compressor, View, begin_ir};
use crate::framework::crc::CRC7;
use crate::framework::frame::{self, IR};
use crate::framework::octets::Writer;
use crate::profiles::tcp::Job;

/// Contexts that are looked at for a base, those of the nearest CIDs.
const MAX_CANDIDATES: u16 = 64;

impl Compressor {
    /// The CID of the best base for the first packet of this flow.
    pub(super) fn find_base(&self, job: &Job<'_>, view: &View<'_>) -> Option<u16> {
        // librohc's decompressor misreads the flow label of an IPv6 header that an IR-CR leaves out.
        let has_ipv6 = || self.chain.links.iter().any(|link| link.kind == Kind::Ipv6);
        if !job.config.replication || job.config.is_for_librohc() && has_ipv6() {
            return None;
        }
        let contexts = job.cids_in_use;
        let own = job.cid.cid;
        let near = (1..=MAX_CANDIDATES.min(contexts)).map(|step| (own + contexts - step) % contexts);
        let bases = near.filter_map(|cid| Some((cid, self.base_at(job, cid, view)?)));
        bases
            .min_by_key(|(_, base)| header::replicate_len(view.tcp, base.tcp(), base.stability()))
            .map(|(cid, _)| cid)
    }

    /// The context at `cid` if it can be the base of the packet.
    pub(super) fn base_at<'a>(&self, job: &Job<'a>, cid: u16, view: &View<'_>) -> Option<&'a Compressor> {
        let base = job.shared.get(cid)?;
        let settled = base.is_confirmed && base.groups.due() == Set::NONE;
        (settled && base.can_make(self, view)).then_some(base)
    }

    /// Returns `true` if an IR-CR can derive the flow `new` from this context.
    fn can_make(&self, new: &Compressor, view: &View<'_>) -> bool {
        let links = self.chain.links.iter().zip(&new.chain.links);
        let spreads = self.refs.spreads(&self.reference());
        self.chain.links.len() == new.chain.links.len()
            && links.clone().all(|(base, link)| (base.kind, base.len) == (link.kind, link.len))
            && links.clone().all(|(link, _)| {
                let (header, base) = (&view.chain[link.range()], &self.headers[link.range()]);
                match link.kind {
                    Kind::Ipv4 | Kind::Ipv6 => ip::is_replicable(header, base),
                    kind => extension::is_replicable(kind, header, base),
                }
            })
            && spreads.ttl.is_still()
            && header::is_replicable(view.tcp)
    }

    /// Returns the changing fields of the base that the decompressor holds for certain.
    fn stability(&self) -> header::Stability {
        let Spreads { window, ack, .. } = self.refs.spreads(&self.reference());
        header::Stability { window: window.is_still(), ack: ack.is_still() }
    }

    /// Writes an IR-CR with `base`, which is at `base_cid`.
    pub(super) fn write_ir_cr(
        &self,
        job: &Job<'_>,
        view: &View<'_>,
        plan: &Plan<'_>,
        (base_cid, base): (u16, &Compressor),
        out: &mut Vec<u8>,
    ) {
        let (start, crc_at) = begin_ir(job, IR, out);
        let mut writer = Writer::new(out);
        writer.u8(0x80 | CRC7.of(view.headers()));
        if job.cid.cids.is_large() && base_cid >= 0x80 {
            writer.u16(0x8000 | base_cid);
        } else {
            writer.u8(base_cid as u8);
        }
        self.chain.write_replicate(view.chain, &base.headers, &mut writer);
        header::write_replicate(view.tcp, base.tcp(), self.control, base.stability(), &mut writer);
        self.table.write_list(plan, true, header::ack(view.tcp), &mut writer);
        frame::seal_ir(out, start, crc_at);
    }
}
