//! Headers as they are written.

use alloc::vec::Vec;

use super::{Compressor, Group, Next, Ref, View};
use crate::framework::crc::{CRC7, crc3};
use crate::framework::frame::seal_ir;
use crate::framework::octets::Writer;
use crate::framework::profile::{PacketType, Profile};
use crate::profiles::tcp::ip::{df, ip_id, tos, ttl};
use crate::profiles::tcp::kind::Kind;
use crate::profiles::v2::chain::Irregular;
use crate::profiles::v2::common::{CO_COMMON, CO_REPAIR, Common, Updates};
use crate::profiles::v2::formats::{Field, Format};
use crate::profiles::v2::list::Plan;
use crate::profiles::v2::{Job, transport};

/// Type octet of IR packets.
const IR: u8 = 0xfd;

impl Compressor {
    /// Writes the smallest header that carries what is due; returns its type.
    pub(super) fn emit(
        &self,
        job: &Job<'_>,
        view: &View<'_>,
        next: &Next,
        plan: Option<&Plan>,
        out: &mut Vec<u8>,
    ) -> PacketType {
        let due = self.groups.due();
        if due.has(Group::Static) || due.has(Group::Dynamic) {
            return self.emit_whole(job, view, plan, out);
        }
        let format = if self.has_nothing_due() { self.choose(job.config, view, next) } else { None };
        let is_type_0 =
            |format: &Format| matches!(format.packet_type, PacketType::Pt0Crc3 | PacketType::Pt0Crc7);
        match format {
            Some(format) if !job.config.only_ir_and_so || is_type_0(format) => {
                self.write_short(format, job, view, &next.current, out);
                format.packet_type
            }
            _ if job.config.only_ir_and_so => self.write_ir(job, view, plan, out),
            _ => self.write_common(job, view, next, plan, out),
        }
    }

    /// Writes the dynamic part whole, and the static part where due; returns the type.
    pub(super) fn emit_whole(
        &self,
        job: &Job<'_>,
        view: &View<'_>,
        plan: Option<&Plan>,
        out: &mut Vec<u8>,
    ) -> PacketType {
        if self.groups.due().has(Group::Static) || job.config.only_ir_and_so {
            self.write_ir(job, view, plan, out)
        } else {
            self.write_repair(job, view, plan, out)
        }
    }

    fn write_ir(&self, job: &Job<'_>, view: &View<'_>, plan: Option<&Plan>, out: &mut Vec<u8>) -> PacketType {
        let start = out.len();
        job.cid.write(out, IR);
        let crc_at = out.len() + 1;
        let mut writer = Writer::new(out);
        writer.u8(self.profile.id() as u8);
        writer.u8(0);
        self.chain.write_static(view.headers, &mut writer);
        transport::write_static(self.profile, view.transport(), &mut writer);
        self.write_dynamic(view, plan, &mut writer);
        seal_ir(out, start, crc_at);
        PacketType::Ir
    }

    fn write_dynamic(&self, view: &View<'_>, plan: Option<&Plan>, writer: &mut Writer<'_>) {
        let endpoint = (self.profile.headers() == Profile::Ip).then_some(&self.control);
        self.chain.write_dynamic(view.headers, endpoint, writer);
        let csrcs = |writer: &mut Writer<'_>| {
            if let (Some(csrcs), Some(plan)) = (&self.csrcs, plan) {
                csrcs.write(plan, true, 0, writer);
            }
        };
        transport::write_dynamic(self.profile, view.transport(), &self.control, csrcs, writer);
    }

    fn control_crc(&self) -> u8 {
        self.chain.control_crc3(&self.control, self.profile, self.chain.inner().ip_id)
    }

    fn write_repair(
        &self,
        job: &Job<'_>,
        view: &View<'_>,
        plan: Option<&Plan>,
        out: &mut Vec<u8>,
    ) -> PacketType {
        job.cid.write(out, CO_REPAIR);
        let mut writer = Writer::new(out);
        writer.u8(CRC7.of(view.headers));
        writer.u8(self.control_crc());
        self.write_dynamic(view, plan, &mut writer);
        PacketType::CoRepair
    }

    fn write_common(
        &self,
        job: &Job<'_>,
        view: &View<'_>,
        next: &Next,
        plan: Option<&Plan>,
        out: &mut Vec<u8>,
    ) -> PacketType {
        let current = &next.current;
        let inner = self.chain.inner();
        let header = &view.headers[inner.range()];
        let updates = self.updates(view);
        let common = Common {
            updates,
            number: self.common_number(job.config, next),
            id: self.common_id(current, ip_id(header)),
            ts: self.common_ts(current),
            marker: self.profile.has_rtp() && view.rtp()[1] & transport::MARKER != 0,
            crc7: CRC7.of(view.headers),
            crc3: self.control_crc(),
        };
        job.cid.write(out, CO_COMMON);
        let mut writer = Writer::new(out);
        common.write(self.profile, inner.kind == Kind::Ipv4, &self.control, &mut writer);
        if let (true, Some(csrcs), Some(plan)) = (updates.has_list, &self.csrcs, plan) {
            csrcs.write(plan, false, Self::width(job.config), &mut writer);
        }
        self.write_irregular(view, updates.outer, out);
        PacketType::CoCommon
    }

    /// Returns the fields that are due, and those in the same octets.
    fn updates(&self, view: &View<'_>) -> Updates {
        let due = self.groups.due();
        let inner = self.chain.inner();
        let header = &view.headers[inner.range()];
        let rtp = self.profile.has_rtp();
        let lite = self.profile.has_udp_lite();
        let has_ip_flags = due.has(Group::Outer)
            || due.has(Group::Flags)
            || !rtp && lite && due.has(Group::Coverage)
            || rtp && (due.has(Group::Tos) || due.has(Group::Ttl) || due.has(Group::Reorder));
        let has_rtp_flags = rtp
            && [Group::List, Group::PayloadType, Group::RtpBits, Group::Coverage]
                .into_iter()
                .any(|group| due.has(group));
        Updates {
            outer: due.has(Group::Outer),
            tos: due.has(Group::Tos).then(|| tos(header)),
            ttl: due.has(Group::Ttl).then(|| ttl(header)),
            flags: has_ip_flags.then(|| (df(header), inner.ip_id)),
            reorder: (!rtp || has_ip_flags).then_some(self.control.reorder),
            coverage: (lite && due.has(Group::Coverage)).then_some(self.control.coverage),
            payload_type: (rtp && due.has(Group::PayloadType)).then(|| view.rtp()[1] & 0x7f),
            rtp_bits: has_rtp_flags.then(|| transport::padding_and_extension(view.rtp())),
            ts_stride: (rtp && due.has(Group::TsStride)).then_some(self.control.ts_stride),
            time_stride: None,
            has_list: rtp && due.has(Group::List),
        }
    }

    fn write_irregular(&self, view: &View<'_>, outer: bool, out: &mut Vec<u8>) {
        let long_sequence = self.sequences.are_long(&self.chain, view.headers).unwrap_or(true);
        let mut writer = Writer::new(out);
        self.chain.write_irregular(view.headers, Irregular { outer, long_sequence }, &mut writer);
        transport::write_irregular(self.profile, view.transport(), self.control.coverage, &mut writer);
    }

    fn write_short(&self, format: &Format, job: &Job<'_>, view: &View<'_>, current: &Ref, out: &mut Vec<u8>) {
        let crc = if format.has_crc7 { CRC7.of(view.headers) } else { crc3(view.headers) };
        let scaled = self.scaled(current).unwrap_or_default();
        let word = format.pack(|field| match field {
            Field::Msn => current.number,
            Field::IdOffset => u32::from(current.offset),
            Field::TsScaled => scaled,
            Field::Marker => u32::from(view.rtp()[1] >> 7),
            Field::Crc => u32::from(crc),
        });
        let octets = word.to_be_bytes();
        job.cid.write(out, octets[0]);
        out.extend_from_slice(&octets[1..format.len]);
        self.write_irregular(view, false, out);
    }
}
