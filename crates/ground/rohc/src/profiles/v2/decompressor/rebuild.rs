//! Headers rebuilt from compressed ones.

use alloc::vec::Vec;

use super::history::Point;
use super::{Decompressor, Draft, State, infer};
use crate::framework::crc::{CRC7, crc3};
use crate::framework::error::DecompressError;
use crate::framework::lsb;
use crate::framework::octets::Reader;
use crate::framework::profile::{PacketType, Profile};
use crate::profiles::tcp::ip::{put_u16, put_u32, set_df, set_ip_id, set_tos, set_ttl};
use crate::profiles::tcp::kind::Kind;
use crate::profiles::v2::common::{CO_COMMON, CO_REPAIR, Common, IdCode, TsCode, Updates};
use crate::profiles::v2::control::{Bits, mask, value_p};
use crate::profiles::v2::formats::{self, Format};
use crate::profiles::v2::{Input, control, list, transport};

const NOT_ALLOWED: DecompressError = DecompressError::NotAllowedInState;

/// A compressed base header.
#[derive(Clone, Copy, Debug)]
struct Base {
    kind: PacketType,
    number: Bits,
    id: IdCode,
    ts: TsCode,
    marker: bool,
    crc: u8,
    has_crc7: bool,
    /// CRC-3 over the control fields, and what else `co_common` updates.
    updates: Option<(u8, Updates)>,
}

impl Base {
    fn short(format: &Format, first: u8, input: &mut Reader<'_>) -> Result<Self, DecompressError> {
        let mut octets = [first, 0, 0, 0];
        octets[1..format.len].copy_from_slice(input.take(format.len - 1)?);
        let fields = format.unpack(u32::from_be_bytes(octets));
        let (id, ts) = (format.id_bits, format.ts_bits);
        Ok(Self {
            kind: format.packet_type,
            number: Bits { value: fields.msn, bits: format.msn_bits },
            id: if id > 0 { IdCode::Offset(Bits { value: fields.id, bits: id }) } else { IdCode::Inferred },
            ts: if ts > 0 { TsCode::Scaled(Bits { value: fields.ts, bits: ts }) } else { TsCode::Inferred },
            marker: fields.marker,
            crc: fields.crc,
            has_crc7: format.has_crc7,
            updates: None,
        })
    }

    fn common(common: Common) -> Self {
        Self {
            kind: PacketType::CoCommon,
            number: common.number,
            id: common.id,
            ts: common.ts,
            marker: common.marker,
            crc: common.crc7,
            has_crc7: true,
            updates: Some((common.crc3, common.updates)),
        }
    }
}

impl Decompressor {
    /// Returns `true` if the packet has a CRC-7.
    pub(super) fn is_strong(&self, input: &Input<'_>) -> bool {
        let first = input.frame.first;
        let format = || {
            let sequential = self.state.chain.inner().ip_id.is_sequential();
            formats::format_of(first, self.profile.has_rtp(), sequential)
        };
        first >= CO_COMMON || format().is_some_and(|format| format.has_crc7)
    }

    /// Rebuilds the header of a packet in `scratch`.
    pub(super) fn attempt(&self, input: &Input<'_>, scratch: &mut Vec<u8>) -> Result<Draft, DecompressError> {
        if self.state.chain.is_empty() || !self.trust.has_context() {
            return Err(NOT_ALLOWED);
        }
        let mut reader = Reader::new(input.frame.body);
        if input.frame.first == CO_REPAIR {
            return self.repair(&mut reader, input, scratch);
        }
        if self.trust.awaits_repair() {
            return Err(NOT_ALLOWED);
        }
        let base = self.base(input.frame.first, &mut reader)?;
        if !base.has_crc7 && !self.trust.is_full() {
            return Err(NOT_ALLOWED);
        }
        self.rebuild(&base, &mut reader, input, scratch)
    }

    fn base(&self, first: u8, reader: &mut Reader<'_>) -> Result<Base, DecompressError> {
        let inner = self.state.chain.inner();
        if first == CO_COMMON {
            return Common::read(self.profile, inner.kind == Kind::Ipv4, inner.ip_id, reader)
                .map(Base::common);
        }
        let format = formats::format_of(first, self.profile.has_rtp(), inner.ip_id.is_sequential());
        Base::short(format.ok_or(DecompressError::Malformed("type octet"))?, first, reader)
    }

    /// Rebuilds the header of `co_repair`.
    fn repair(
        &self,
        reader: &mut Reader<'_>,
        input: &Input<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<Draft, DecompressError> {
        let [crc7, crc3] = reader.array()?;
        if crc7 & 0x80 != 0 || crc3 & 0xf8 != 0 {
            return Err(DecompressError::Malformed("reserved bits of co_repair"));
        }
        let mut state = State::default();
        state.copy(&self.state);
        state.read_dynamic(self.profile, reader)?;
        let header_in = reader.consumed();
        state.infer(self.profile, reader.rest().len() + input.frame.elided_bytes)?;
        let is_right = CRC7.of(&state.headers) == crc7
            && state.chain.control_crc3(&state.control, self.profile, state.chain.inner().ip_id) == crc3;
        if !is_right {
            return Err(DecompressError::CrcMismatch);
        }
        scratch.clone_from(&state.headers);
        Ok(Draft {
            kind: PacketType::CoRepair,
            has_crc7: true,
            control: state.control,
            inner: state.chain.inner().ip_id,
            distance: control::distance(self.profile, self.state.control.number, state.control.number),
            chain: Some(state.chain),
            table: Some(state.table),
            header_in,
        })
    }

    /// Rebuilds the header with base header `base`, whose irregular chain `reader` is before.
    fn rebuild(
        &self,
        base: &Base,
        reader: &mut Reader<'_>,
        input: &Input<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<Draft, DecompressError> {
        let newest = self.history.newest().ok_or(NOT_ALLOWED)?;
        let reorder = base.updates.and_then(|(_, updates)| updates.reorder);
        let reorder = reorder.unwrap_or(self.state.control.reorder);
        let Bits { value, bits } = base.number;
        let number = lsb::decode(newest.number, value, bits, reorder.depth(bits)) & mask(self.profile);
        let distance = control::distance(self.profile, newest.number, number);
        let (state, point) = self.reference(number, distance, newest);
        scratch.clone_from(&state.headers);
        let mut draft = Draft {
            kind: base.kind,
            has_crc7: base.has_crc7,
            control: control::Control { number, ..state.control },
            inner: state.chain.inner().ip_id,
            chain: None,
            table: None,
            header_in: 0,
            distance,
        };
        draft.patch(self, state, base, scratch);
        draft.move_numbers(self, state, base, point, input, scratch)?;
        let outer = draft.update_late_fields(self, state, base, reader, scratch)?;
        state.chain.read_irregular(reader, scratch, draft.inner, outer)?;
        let at = state.chain.len();
        transport::read_irregular(self.profile, reader, &mut scratch[at..], draft.control.coverage)?;
        draft.header_in = reader.consumed();
        let payload_len = reader.rest().len() + input.frame.elided_bytes;
        infer(self.profile, &state.chain, scratch, draft.control, payload_len)?;
        self.check(base, &draft, state, scratch)?;
        Ok(draft)
    }

    /// Returns state and packet that a packet `distance` from the newest one is relative to.
    fn reference<'a>(&'a self, number: u32, distance: i32, newest: &'a Point) -> (&'a State, &'a Point) {
        if distance > 0 || !self.trust.is_full() {
            return (&self.state, newest);
        }
        let state = self.history.state_of(self.profile, &self.state, number).unwrap_or(&self.state);
        // The compressor may have sent an early packet first.
        (state, self.history.before(self.profile, number).unwrap_or(newest))
    }

    fn check(
        &self,
        base: &Base,
        draft: &Draft,
        state: &State,
        headers: &[u8],
    ) -> Result<(), DecompressError> {
        let crc = if base.has_crc7 { CRC7.of(headers) } else { crc3(headers) };
        let control_is_right = base.updates.is_none_or(|(crc, _)| {
            state.chain.control_crc3(&draft.control, self.profile, draft.inner) == crc
        });
        if crc == base.crc && control_is_right { Ok(()) } else { Err(DecompressError::CrcMismatch) }
    }
}

impl Draft {
    /// Patches what the base header says of IP header and RTP flags.
    fn patch(&mut self, context: &Decompressor, state: &State, base: &Base, headers: &mut [u8]) {
        if context.profile.has_rtp() {
            let rtp = &mut headers[state.chain.len() + transport::RTP..];
            rtp[1] = rtp[1] & !transport::MARKER | u8::from(base.marker) << 7;
        }
        let Some((_, updates)) = &base.updates else { return };
        let header = &mut headers[state.chain.inner().range()];
        updates.tos.into_iter().for_each(|tos| set_tos(header, tos));
        updates.ttl.into_iter().for_each(|ttl| set_ttl(header, ttl));
        if let Some((df, behavior)) = updates.flags {
            set_df(header, df);
            self.inner = behavior;
        }
        self.control.reorder = updates.reorder.unwrap_or(self.control.reorder);
        self.control.coverage = updates.coverage.unwrap_or(self.control.coverage);
        self.control.ts_stride = updates.ts_stride.unwrap_or(self.control.ts_stride);
        self.control.time_stride = updates.time_stride.unwrap_or(self.control.time_stride);
    }

    /// Sets what goes with the sequence number: itself, timestamp and IP-ID.
    fn move_numbers(
        &self,
        context: &Decompressor,
        state: &State,
        base: &Base,
        point: &Point,
        input: &Input<'_>,
        headers: &mut [u8],
    ) -> Result<(), DecompressError> {
        let (profile, control) = (context.profile, &self.control);
        let at = state.chain.len();
        if profile.has_rtp() {
            let ts = self.timestamp(context, base, point, input)?;
            let rtp = &mut headers[at + transport::RTP..];
            put_u16(rtp, 2, control.msn());
            put_u32(rtp, 4, ts);
        } else if profile == Profile::EspV2 {
            put_u32(headers, at + 4, control.number);
        }
        let inner = state.chain.inner();
        if inner.kind != Kind::Ipv4 || !self.inner.is_sequential() {
            return Ok(());
        }
        let counter = |offset: u16| self.inner.counter(offset.wrapping_add(control.msn()));
        let id = match base.id {
            IdCode::Inferred => counter(point.offset),
            IdCode::Offset(Bits { value, bits }) => {
                counter(lsb::decode(u32::from(point.offset), value, bits, value_p(bits)) as u16)
            }
            IdCode::Whole(id) => id,
        };
        set_ip_id(&mut headers[inner.range()], id);
        Ok(())
    }

    fn timestamp(
        &self,
        context: &Decompressor,
        base: &Base,
        point: &Point,
        input: &Input<'_>,
    ) -> Result<u32, DecompressError> {
        let stride = self.control.ts_stride;
        match base.ts {
            TsCode::Inferred => {
                let delta = control::distance(context.profile, point.number, self.control.number);
                Ok(point.ts.wrapping_add((delta as u32).wrapping_mul(stride)))
            }
            TsCode::Unscaled(Bits { value, bits }) if bits < 32 => {
                Ok(lsb::decode(point.ts, value, bits, value_p(bits)))
            }
            TsCode::Unscaled(Bits { value, .. }) => Ok(value),
            TsCode::Scaled(_) if stride == 0 => Err(DecompressError::CrcMismatch),
            TsCode::Scaled(coded) => {
                let scaled = self.scaled(coded, point, input);
                Ok(scaled.wrapping_mul(stride).wrapping_add(point.ts % stride))
            }
        }
    }

    /// Returns the scaled timestamp.
    fn scaled(&self, coded: Bits, point: &Point, input: &Input<'_>) -> u32 {
        let reference = point.ts / self.control.ts_stride;
        let Bits { value, bits } = coded;
        match (bits, u64::from(self.control.time_stride)) {
            (32, _) => value,
            (_, 0) => lsb::decode(reference, value, bits, value_p(bits)),
            (_, time_stride) => {
                let passed = (input.now.as_millis() as u64).saturating_sub(point.arrival_ms) / time_stride;
                lsb::decode(reference.wrapping_add(passed as u32), value, bits, (1 << bits) / 2 - 1)
            }
        }
    }

    /// Patches payload type, RTP bits and list; returns whether outer headers bring their fields.
    fn update_late_fields(
        &mut self,
        context: &Decompressor,
        state: &State,
        base: &Base,
        reader: &mut Reader<'_>,
        headers: &mut Vec<u8>,
    ) -> Result<bool, DecompressError> {
        let Some((_, updates)) = &base.updates else { return Ok(false) };
        if context.profile.has_rtp() {
            let at = state.chain.len() + transport::RTP;
            let rtp = &mut headers[at..];
            updates.payload_type.into_iter().for_each(|kind| rtp[1] = rtp[1] & transport::MARKER | kind);
            updates.rtp_bits.into_iter().for_each(|bits| transport::set_padding_and_extension(rtp, bits));
            if updates.has_list {
                let mut table = state.table;
                list::read(reader, headers, at, &mut table, false)?;
                self.table = Some(table);
            }
        }
        Ok(updates.outer)
    }
}
