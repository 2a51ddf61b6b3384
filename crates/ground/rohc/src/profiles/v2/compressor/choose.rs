//! The smallest header that carries what is due.

use super::{Compressor, Group, Next, Ref, Set, View};
use crate::framework::config::CompressorConfig;
use crate::framework::lsb;
use crate::profiles::v2::common::{IdCode, TsCode};
use crate::profiles::v2::control::{Bits, SDVL_BITS, mask, value_p};
use crate::profiles::v2::formats::{self, Format};
use crate::profiles::v2::transport;

impl Compressor {
    /// Returns the shortest format that carries the packet; `None` if it needs `co_common`.
    pub(super) fn choose(
        &self,
        config: &CompressorConfig,
        view: &View<'_>,
        next: &Next,
    ) -> Option<&'static Format> {
        let current = &next.current;
        let sequential = self.chain.inner().ip_id.is_sequential();
        let marker = self.profile.has_rtp() && view.rtp()[1] & transport::MARKER != 0;
        let scaled = self.scaled(current);
        let fits = |format: &&Format| {
            (format.has_crc7 || !next.is_strong_due)
                && (format.has_marker || !marker)
                && self.number_fits(config, next, format.msn_bits)
                && (!sequential || self.id_fits(current, format.id_bits))
                && (!self.profile.has_rtp() || self.ts_fits(scaled, format.ts_bits))
        };
        formats::formats(self.profile.has_rtp(), sequential).iter().find(fits)
    }

    /// Returns `true` if `bits` bits of the sequence number are enough after every likely reference.
    pub(super) fn number_fits(&self, config: &CompressorConfig, next: &Next, bits: u32) -> bool {
        let p = self.control.reorder.depth(bits);
        let number = next.current.number;
        let fits = |reference: u32| lsb::fits(reference, number, bits, p, mask(self.profile));
        let mut recent = self.window.iter().rev().take(usize::from(config.repeats.max(1)));
        next.before.ends().into_iter().all(fits) && recent.all(|reference| fits(reference.number))
    }

    /// Returns `true` if `bits` bits of the IP-ID's offset are enough; 0: none.
    fn id_fits(&self, current: &Ref, bits: u32) -> bool {
        if bits == 0 {
            return usize::from(self.id_run) >= self.window.len();
        }
        let fits = |reference: &Ref| {
            lsb::fits(u32::from(reference.offset), u32::from(current.offset), bits, value_p(bits), 0xffff)
        };
        self.window.iter().all(fits)
    }

    /// Returns the scaled timestamp, if all packets of the window have its residue.
    pub(super) fn scaled(&self, current: &Ref) -> Option<u32> {
        let stride = self.control.ts_stride;
        if !self.profile.has_rtp() || stride == 0 || self.groups.due().has(Group::TsStride) {
            return None;
        }
        let residue = current.ts % stride;
        self.window.iter().all(|reference| reference.ts % stride == residue).then_some(current.ts / stride)
    }

    /// Returns `true` if `bits` bits of the scaled timestamp are enough; 0: none.
    fn ts_fits(&self, scaled: Option<u32>, bits: u32) -> bool {
        if bits == 0 {
            return usize::from(self.ts_run) >= self.window.len() && !self.groups.due().has(Group::TsStride);
        }
        scaled.is_some_and(|scaled| self.scaled_fits(scaled, bits))
    }

    fn scaled_fits(&self, scaled: u32, bits: u32) -> bool {
        let stride = self.control.ts_stride;
        let fits = |reference: &Ref| lsb::fits(reference.ts / stride, scaled, bits, value_p(bits), u32::MAX);
        self.window.iter().all(fits)
    }

    /// Returns the sequence number of `co_common`.
    pub(super) fn common_number(&self, config: &CompressorConfig, next: &Next) -> Bits {
        let fits = |&bits: &u32| self.number_fits(config, next, bits);
        let bits = SDVL_BITS.into_iter().find(fits).unwrap_or(32);
        Bits { value: next.current.number, bits }
    }

    /// Returns the IP-ID of `co_common`.
    pub(super) fn common_id(&self, current: &Ref, id: u16) -> IdCode {
        if !self.chain.inner().ip_id.is_sequential() {
            return IdCode::Inferred;
        }
        if !self.groups.due().has(Group::Flags) && self.id_fits(current, 8) {
            IdCode::Offset(Bits { value: u32::from(current.offset), bits: 8 })
        } else {
            IdCode::Whole(id)
        }
    }

    /// Returns the timestamp of `co_common`, in the fewest octets.
    pub(super) fn common_ts(&self, current: &Ref) -> TsCode {
        if !self.profile.has_rtp() {
            return TsCode::Inferred;
        }
        let unscaled = |bits: u32| {
            let fits = |reference: &Ref| lsb::fits(reference.ts, current.ts, bits, value_p(bits), u32::MAX);
            self.window.iter().all(fits)
        };
        let bits = SDVL_BITS.into_iter().find(|&bits| unscaled(bits)).unwrap_or(32);
        let scaled = self.scaled(current).and_then(|scaled| {
            let fits = |&bits: &u32| self.scaled_fits(scaled, bits);
            Some(Bits { value: scaled, bits: SDVL_BITS.into_iter().find(fits)? })
        });
        match scaled {
            Some(scaled) if scaled.bits <= bits => TsCode::Scaled(scaled),
            _ => TsCode::Unscaled(Bits { value: current.ts, bits }),
        }
    }

    /// Returns `true` if a short header may do.
    pub(super) fn has_nothing_due(&self) -> bool {
        self.groups.due() == Set::NONE
    }
}
