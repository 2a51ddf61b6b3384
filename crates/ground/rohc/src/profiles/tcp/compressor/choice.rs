//! Choice of the smallest compressed header that carries what is due. See RFC 6846 7.3 and 8.2.

use alloc::vec::Vec;

use super::super::formats::{self, Field, Format};
use super::super::groups::{Group, Set};
use super::super::ip::Irregular;
use super::super::refs::{Ref, Spread, Spreads};
use super::super::table::Plan;
use super::super::{header, ip};
use super::{Compressor, View};
use crate::framework::crc::{CRC7, crc3};
use crate::framework::frame::Cid;
use crate::framework::octets::Writer;
use crate::framework::profile::PacketType;
use crate::profiles::tcp::Job;

/// A compressed header, decided.
pub(super) struct Choice {
    /// Short format, or `co_common`.
    form: Form,
    /// Set if a list of options is sent.
    pub(super) list: bool,
    long_sequence: bool,
}

enum Form {
    Short(&'static Format),
    Common(Common),
}

impl Choice {
    pub(super) const fn packet_type(&self) -> PacketType {
        match self.form {
            Form::Short(format) => format.packet_type,
            Form::Common(_) => PacketType::CoCommon,
        }
    }

    /// Returns `true` if it has a three-bit CRC and changes nothing that lasts.
    pub(super) const fn is_short(&self) -> bool {
        matches!(self.form, Form::Short(format) if !format.has_crc7())
    }
}

/// The optional parts of `co_common`.
#[derive(Clone, Copy)]
pub(super) struct Common {
    seq: VariableLength,
    ack: VariableLength,
    stride: bool,
    window: bool,
    ip_id: OptionalIpId,
    urgent: bool,
    dscp: bool,
    ttl: bool,
    outer_ttl: bool,
}

/// `variable_length_32_enc` of RFC 6846 8.2, with the number that says so.
#[derive(Clone, Copy)]
enum VariableLength {
    Absent = 0,
    Octet = 1,
    Two = 2,
    Whole = 3,
}

impl VariableLength {
    const fn of(spread: Spread) -> Self {
        if spread.is_still() {
            Self::Absent
        } else if spread.fits(8, 63) {
            Self::Octet
        } else if spread.fits(16, 16_383) {
            Self::Two
        } else {
            Self::Whole
        }
    }

    const fn len(self) -> usize {
        match self {
            Self::Absent => 0,
            Self::Octet => 1,
            Self::Two => 2,
            Self::Whole => 4,
        }
    }

    fn write(self, value: u32, out: &mut Writer<'_>) {
        out.bytes(&value.to_be_bytes()[4 - self.len()..]);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OptionalIpId {
    Absent,
    Offset,
    Whole,
}

impl Common {
    pub(super) const FIXED_LEN: usize = 5;

    pub(super) const fn len(&self) -> usize {
        let ip_id = match self.ip_id {
            OptionalIpId::Absent => 0,
            OptionalIpId::Offset => 1,
            OptionalIpId::Whole => 2,
        };
        let two = self.stride as usize + self.window as usize + self.urgent as usize;
        Self::FIXED_LEN
            + self.seq.len()
            + self.ack.len()
            + ip_id
            + 2 * two
            + self.dscp as usize
            + self.ttl as usize
    }
}

impl Compressor {
    /// The smallest header for the packet; `None` if only an IR-DYN can carry it.
    pub(super) fn choose(
        &self,
        view: &View<'_>,
        plan: &Plan<'_>,
        current: &Ref,
        is_strong: bool,
    ) -> Option<Choice> {
        let flags = header::flags(view.tcp);
        header::rsf_index(flags)?;
        let spreads = self.refs.spreads(current);
        if !spreads.msn_fits() {
            return None;
        }
        let long_sequence = self.sequences.are_long(&self.chain, view.chain)?;
        let list = self.groups.due().has(Group::List) || plan.needs_list();
        let common = self.common(&spreads);
        let short =
            self.short(flags, list, &spreads, current, is_strong).filter(|format| format.len <= common.len());
        let form = short.map_or(Form::Common(common), Form::Short);
        Some(Choice { form, list, long_sequence })
    }

    #[inline]
    pub(super) fn common(&self, spreads: &Spreads) -> Common {
        let due = self.groups.due();
        let ip_id = if !self.chain.inner().ip_id.is_sequential() {
            OptionalIpId::Absent
        } else if spreads.ip_id.fits(8, 3) && !due.has(Group::IpIdBehavior) {
            OptionalIpId::Offset
        } else {
            OptionalIpId::Whole
        };
        Common {
            seq: VariableLength::of(spreads.seq),
            ack: VariableLength::of(spreads.ack),
            stride: due.has(Group::AckStride),
            window: !spreads.window.is_still(),
            ip_id,
            urgent: due.has(Group::Urgent),
            dscp: due.has(Group::Dscp),
            ttl: !spreads.ttl.is_still(),
            outer_ttl: due.has(Group::OuterTtl),
        }
    }

    /// The shortest of the short formats that carries everything; the master sequence number fits.
    #[inline]
    pub(super) fn short(
        &self,
        flags: u8,
        list: bool,
        spreads: &Spreads,
        current: &Ref,
        is_strong: bool,
    ) -> Option<&'static Format> {
        let due = self.groups.due();
        if !header::is_ordinary(flags) || due.meets(Set::COMMON) {
            return None;
        }
        let need = |field: Field, need: bool| u32::from(need) << field as u32;
        let needed = need(Field::Seq, !spreads.seq.is_still())
            | need(Field::Ack, !spreads.ack.is_still())
            | need(Field::Window, !spreads.window.is_still())
            | need(Field::Ttl, !spreads.ttl.is_still())
            | need(Field::Rsf, flags & header::RSF != 0)
            | need(Field::EcnUsed, due.has(Group::EcnUsed))
            | need(Field::ListPresent, list);
        let set =
            if self.chain.inner().ip_id.is_sequential() { &formats::SEQUENTIAL } else { &formats::RANDOM };
        let stride = if due.has(Group::AckStride) { 0 } else { self.control.ack_stride };
        // The last one has the CRC-7.
        let first = if is_strong { set.len() - 1 } else { 0 };
        set[first..].iter().find(|format| {
            needed & !format.covers == 0
                && format.relative().iter().all(|part| spreads.fits(part, current, &self.refs, stride))
        })
    }

    /// Writes a header as it was chosen; gives the groups that it carried.
    pub(super) fn write_compressed(
        &self,
        job: &Job<'_>,
        view: &View<'_>,
        plan: &Plan<'_>,
        current: &Ref,
        choice: &Choice,
        out: &mut Vec<u8>,
    ) -> Set {
        let (carried, outer_ttl) = match &choice.form {
            Form::Short(format) => {
                self.write_short(job.cid, view, current, format, choice.list, out);
                (Set::NONE.with_if(Group::EcnUsed, format.has_crc7()), false)
            }
            Form::Common(common) => {
                self.write_common(job, view, current, common, choice.list, out);
                (common_set(common), common.outer_ttl)
            }
        };
        let ecn_used = self.control.ecn_used;
        let mut writer = Writer::new(out);
        if choice.list {
            self.table.write_list(plan, false, current.ack, &mut writer);
        }
        let inner_ip_id = self.chain.inner().ip_id;
        let flags = Irregular { inner_ip_id, ecn_used, outer_ttl, long_sequence: choice.long_sequence };
        self.chain.write_irregular(view.chain, flags, &mut writer);
        let inner_ecn = ip::tos(&view.chain[self.chain.inner().range()]) & 3;
        header::write_irregular(view.tcp, ecn_used, inner_ecn, &mut writer);
        self.table.write_irregular(plan, choice.list, current.ack, self.repeats, &mut writer);
        carried.with_if(Group::List, choice.list).with_if(Group::Ecn, ecn_used)
    }

    fn write_short(
        &self,
        cid: Cid,
        view: &View<'_>,
        current: &Ref,
        format: &Format,
        list: bool,
        out: &mut Vec<u8>,
    ) {
        let crc = if format.has_crc7() { CRC7.of(view.headers()) } else { crc3(view.headers()) };
        let word = self.pack(view, current, format, list, crc);
        cid.write(out, (word >> 56) as u8);
        format.write_rest(word, &mut Writer::new(out));
    }

    /// The header in `format`, its octets at the top of a word.
    #[inline]
    pub(super) fn pack(&self, view: &View<'_>, current: &Ref, format: &Format, list: bool, crc: u8) -> u64 {
        let flags = header::flags(view.tcp);
        format.pack(|field| match field {
            Field::Seq => current.seq,
            Field::Ack => current.ack,
            Field::SeqScaled => current.seq / current.payload_len.max(1),
            Field::AckScaled => current.ack / u32::from(self.control.ack_stride.max(1)),
            Field::Window => u32::from(current.window),
            Field::IpId => u32::from(current.ip_id_offset),
            Field::Ttl => u32::from(current.ttl),
            Field::Msn => u32::from(current.msn),
            Field::Psh => u32::from(flags & header::PSH != 0),
            Field::Rsf => header::rsf_index(flags).unwrap_or_default(),
            Field::EcnUsed => u32::from(self.control.ecn_used),
            Field::ListPresent => u32::from(list),
            Field::Crc => u32::from(crc),
        })
    }

    fn write_common(
        &self,
        job: &Job<'_>,
        view: &View<'_>,
        current: &Ref,
        common: &Common,
        list: bool,
        out: &mut Vec<u8>,
    ) {
        let flags = header::flags(view.tcp);
        let inner = &view.chain[self.chain.inner().range()];
        let bit = |flag: bool, at: u8| u8::from(flag) << at;
        job.cid.write(out, formats::COMMON | bit(common.outer_ttl, 0));
        let mut out = Writer::new(out);
        let rsf = header::rsf_index(flags).unwrap_or_default() as u8;
        let ack_psh = bit(flags & header::ACK != 0, 7) | bit(flags & header::PSH != 0, 6);
        out.u8(ack_psh | rsf << 4 | (current.msn & 0x0f) as u8);
        let ip_id_whole = common.ip_id == OptionalIpId::Whole;
        let numbers = (common.seq as u8) << 6 | (common.ack as u8) << 4;
        let present =
            bit(common.stride, 3) | bit(common.window, 2) | bit(ip_id_whole, 1) | bit(common.urgent, 0);
        out.u8(numbers | present);
        let present = bit(self.control.ecn_used, 6) | bit(common.dscp, 5) | bit(common.ttl, 4) | bit(list, 3);
        let behavior = self.chain.inner().ip_id as u8;
        out.u8(present | behavior << 1 | bit(flags & header::URG != 0, 0));
        out.u8(bit(ip::df(inner), 7) | CRC7.of(view.headers()));
        common.seq.write(current.seq, &mut out);
        common.ack.write(current.ack, &mut out);
        self.write_common_rest(view, current, common, &mut out);
    }

    fn write_common_rest(&self, view: &View<'_>, current: &Ref, common: &Common, out: &mut Writer<'_>) {
        let inner = &view.chain[self.chain.inner().range()];
        if common.stride {
            out.u16(self.control.ack_stride);
        }
        if common.window {
            out.u16(current.window);
        }
        match common.ip_id {
            OptionalIpId::Absent => {}
            OptionalIpId::Offset => out.u8(current.ip_id_offset as u8),
            OptionalIpId::Whole => out.u16(ip::ip_id(inner)),
        }
        if common.urgent {
            out.u16(header::urgent(view.tcp));
        }
        if common.dscp {
            out.u8(ip::tos(inner) & !3);
        }
        if common.ttl {
            out.u8(current.ttl);
        }
    }
}

const fn common_set(common: &Common) -> Set {
    Set::NONE
        .with(Group::EcnUsed)
        .with(Group::IpIdBehavior)
        .with(Group::Df)
        .with_if(Group::Dscp, common.dscp)
        .with_if(Group::Urgent, common.urgent)
        .with_if(Group::AckStride, common.stride)
        .with_if(Group::OuterTtl, common.outer_ttl)
}
