//! The format `co_common` (RFC 5225 6.8.2.4), which can update most changing fields.

use super::control::{Bits, Control, Coverage, read_sdvl, write_sdvl, write_whole_sdvl};
use crate::framework::config::ReorderRatio;
use crate::framework::error::DecompressError;
use crate::framework::octets::{Reader, Writer};
use crate::framework::profile::Profile;
use crate::profiles::tcp::ip::IpId;

/// Type octet of `co_common`.
pub(super) const CO_COMMON: u8 = 0xfa;
/// Type octet of `co_repair`.
pub(super) const CO_REPAIR: u8 = 0xfb;

const RESERVED: DecompressError = DecompressError::Malformed("reserved bits of co_common");

/// IP-ID of the innermost header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum IdCode {
    /// Inferred from the sequence number, or in the irregular chain.
    #[default]
    Inferred,
    /// Low bits of its offset from the master sequence number.
    Offset(Bits),
    /// Whole field of the header.
    Whole(u16),
}

/// Timestamp of RTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TsCode {
    /// Inferred from the sequence number.
    #[default]
    Inferred,
    Scaled(Bits),
    Unscaled(Bits),
}

/// Fields of `co_common` that it need not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Updates {
    pub(super) outer: bool,
    pub(super) tos: Option<u8>,
    pub(super) ttl: Option<u8>,
    /// Don't-fragment bit and behaviour of the IP-ID of the innermost header.
    pub(super) flags: Option<(bool, IpId)>,
    pub(super) reorder: Option<ReorderRatio>,
    pub(super) coverage: Option<Coverage>,
    pub(super) payload_type: Option<u8>,
    /// Padding and extension bit of RTP.
    pub(super) rtp_bits: Option<u8>,
    pub(super) ts_stride: Option<u32>,
    pub(super) time_stride: Option<u32>,
    pub(super) has_list: bool,
}

/// Contents of `co_common` up to the list of CSRCs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Common {
    pub(super) updates: Updates,
    pub(super) number: Bits,
    pub(super) id: IdCode,
    pub(super) ts: TsCode,
    pub(super) marker: bool,
    pub(super) crc7: u8,
    pub(super) crc3: u8,
}

impl Common {
    /// Writes everything behind type octet and CID, but for the list.
    pub(super) fn write(&self, profile: Profile, ipv4: bool, control: &Control, out: &mut Writer<'_>) {
        if profile.has_rtp() {
            self.write_rtp(profile, ipv4, control, out);
        } else {
            self.write_other(profile, ipv4, control, out);
        }
    }

    const fn is_whole_id(&self) -> u8 {
        matches!(self.id, IdCode::Whole(_)) as u8
    }

    fn write_other(&self, profile: Profile, ipv4: bool, control: &Control, out: &mut Writer<'_>) {
        let updates = &self.updates;
        out.u8(self.is_whole_id() << 7 | self.crc7);
        let is_flagged = updates.outer || updates.flags.is_some() || updates.coverage.is_some();
        let reorder = updates.reorder.unwrap_or(control.reorder) as u8;
        let head = u8::from(is_flagged) << 7 | flag(updates.ttl, 6) | flag(updates.tos, 5);
        out.u8(head | reorder << 3 | self.crc3);
        if is_flagged {
            let (df, behavior) = updates.flags.unwrap_or_default_flags();
            let df = u8::from(df && ipv4);
            let outer = u8::from(updates.outer);
            let coverage = updates.coverage.unwrap_or(control.coverage) as u8;
            out.u8(match profile.headers() {
                Profile::UdpLite => outer << 5 | df << 4 | behavior << 2 | coverage,
                _ => outer << 7 | df << 6 | behavior << 4,
            });
        }
        self.write_ip_fields(out);
        if profile.headers() == Profile::Esp {
            write_sdvl(out, self.number.value, self.number.bits, 32);
        } else {
            out.u8(self.number.value as u8);
        }
        self.write_id(out);
    }

    fn write_rtp(&self, profile: Profile, ipv4: bool, control: &Control, out: &mut Writer<'_>) {
        let updates = &self.updates;
        let has_flags1 = self.has_flags1();
        let has_flags2 = self.has_flags2();
        out.u8(u8::from(self.marker) << 7 | self.crc7);
        let is_scaled = matches!(self.ts, TsCode::Scaled(_));
        let head = u8::from(has_flags1) << 7 | u8::from(has_flags2) << 6 | u8::from(is_scaled) << 5;
        out.u8(head | flag(updates.ts_stride, 4) | self.is_whole_id() << 3 | self.crc3);
        if has_flags1 {
            let (df, behavior) = updates.flags.unwrap_or_default_flags();
            let reorder = updates.reorder.unwrap_or(control.reorder) as u8;
            let head = u8::from(updates.outer) << 7 | flag(updates.ttl, 6) | flag(updates.tos, 5);
            out.u8(head | u8::from(df && ipv4) << 4 | behavior << 2 | reorder);
        }
        if has_flags2 {
            out.u8(self.flags2(profile, control));
        }
        self.write_ip_fields(out);
        updates.payload_type.into_iter().for_each(|payload_type| out.u8(payload_type & 0x7f));
        write_sdvl(out, self.number.value, self.number.bits, 16);
        self.write_id(out);
        match self.ts {
            TsCode::Scaled(ts) | TsCode::Unscaled(ts) => write_sdvl(out, ts.value, ts.bits, 32),
            TsCode::Inferred => {}
        }
        updates.ts_stride.into_iter().for_each(|stride| write_whole_sdvl(out, stride));
        updates.time_stride.into_iter().for_each(|stride| write_whole_sdvl(out, stride));
    }

    const fn has_flags1(&self) -> bool {
        let updates = &self.updates;
        updates.outer
            || updates.flags.is_some()
            || updates.ttl.is_some()
            || updates.tos.is_some()
            || updates.reorder.is_some()
    }

    const fn has_flags2(&self) -> bool {
        let updates = &self.updates;
        updates.has_list
            || updates.payload_type.is_some()
            || updates.time_stride.is_some()
            || updates.rtp_bits.is_some()
            || updates.coverage.is_some()
    }

    fn flags2(&self, profile: Profile, control: &Control) -> u8 {
        let updates = &self.updates;
        let rtp_bits = updates.rtp_bits.unwrap_or_default();
        let indicators = u8::from(updates.has_list) << 4
            | u8::from(updates.payload_type.is_some()) << 3
            | u8::from(updates.time_stride.is_some()) << 2
            | rtp_bits;
        if profile.has_udp_lite() {
            indicators << 2 | updates.coverage.unwrap_or(control.coverage) as u8
        } else {
            indicators << 3
        }
    }

    fn write_ip_fields(&self, out: &mut Writer<'_>) {
        self.updates.tos.into_iter().for_each(|tos| out.u8(tos));
        self.updates.ttl.into_iter().for_each(|ttl| out.u8(ttl));
    }

    fn write_id(&self, out: &mut Writer<'_>) {
        match self.id {
            IdCode::Inferred => {}
            IdCode::Offset(offset) => out.u8(offset.value as u8),
            IdCode::Whole(id) => out.u16(id),
        }
    }

    /// Reads everything behind type octet and CID, but for the list. `behavior` is that of the context.
    pub(super) fn read(
        profile: Profile,
        ipv4: bool,
        behavior: IpId,
        input: &mut Reader<'_>,
    ) -> Result<Self, DecompressError> {
        let [first, second] = input.array()?;
        let mut common = Self { crc7: first & 0x7f, crc3: second & 7, ..Self::default() };
        if profile.has_rtp() {
            common.marker = first & 0x80 != 0;
            common.read_rtp(profile, ipv4, behavior, second, input)?;
        } else {
            common.read_other(profile, ipv4, behavior, first & 0x80 != 0, second, input)?;
        }
        Ok(common)
    }

    fn read_other(
        &mut self,
        profile: Profile,
        ipv4: bool,
        behavior: IpId,
        whole_id: bool,
        head: u8,
        input: &mut Reader<'_>,
    ) -> Result<(), DecompressError> {
        self.updates.reorder = Some(ReorderRatio::from_bits(head >> 3));
        if head & 0x80 != 0 {
            let flags = input.u8()?;
            let has_coverage = profile.headers() == Profile::UdpLite;
            let (reserved, shift) = if has_coverage { (0xc0, 2) } else { (0x0f, 4) };
            if flags & reserved != 0 {
                return Err(RESERVED);
            }
            self.updates.outer = flags >> shift & 8 != 0;
            self.read_ip_flags(ipv4, flags >> shift)?;
            if has_coverage {
                self.updates.coverage = Some(Coverage::from_bits(flags)?);
            }
        }
        self.read_ip_fields(head & 0x20 != 0, head & 0x40 != 0, input)?;
        self.number = match profile.headers() {
            Profile::Esp => read_sdvl(input, 32)?,
            _ => Bits { value: u32::from(input.u8()?), bits: 8 },
        };
        self.read_id(behavior, whole_id, input)
    }

    fn read_rtp(
        &mut self,
        profile: Profile,
        ipv4: bool,
        behavior: IpId,
        head: u8,
        input: &mut Reader<'_>,
    ) -> Result<(), DecompressError> {
        let (mut with_tos, mut with_ttl) = (false, false);
        if head & 0x80 != 0 {
            let flags = input.u8()?;
            self.updates.outer = flags & 0x80 != 0;
            (with_ttl, with_tos) = (flags & 0x40 != 0, flags & 0x20 != 0);
            self.read_ip_flags(ipv4, flags >> 2)?;
            self.updates.reorder = Some(ReorderRatio::from_bits(flags));
        }
        let (mut with_type, mut with_time_stride) = (false, false);
        if head & 0x40 != 0 {
            let flags = input.u8()?;
            let lite = profile.has_udp_lite();
            let (reserved, shift) = if lite { (0x80, 2) } else { (0x07, 3) };
            if flags & reserved != 0 {
                return Err(RESERVED);
            }
            if lite {
                self.updates.coverage = Some(Coverage::from_bits(flags)?);
            }
            let flags = flags >> shift;
            self.updates.has_list = flags & 0x10 != 0;
            (with_type, with_time_stride) = (flags & 8 != 0, flags & 4 != 0);
            self.updates.rtp_bits = Some(flags & 3);
        }
        self.read_ip_fields(with_tos, with_ttl, input)?;
        if with_type {
            let octet = input.u8()?;
            if octet & 0x80 != 0 {
                return Err(RESERVED);
            }
            self.updates.payload_type = Some(octet);
        }
        self.number = read_sdvl(input, 16)?;
        self.read_id(behavior, head & 8 != 0, input)?;
        let (is_scaled, with_stride) = (head & 0x20 != 0, head & 0x10 != 0);
        self.ts = match (is_scaled, with_stride) {
            (true, true) => return Err(DecompressError::Malformed("a scaled timestamp with a new stride")),
            (true, false) => TsCode::Scaled(read_sdvl(input, 32)?),
            (false, _) => TsCode::Unscaled(read_sdvl(input, 32)?),
        };
        if with_stride {
            self.updates.ts_stride = Some(read_sdvl(input, 32)?.value);
        }
        if with_time_stride {
            self.updates.time_stride = Some(read_sdvl(input, 32)?.value);
        }
        Ok(())
    }

    /// Reads don't-fragment bit and behaviour of the IP-ID, the low three bits of `flags`.
    fn read_ip_flags(&mut self, ipv4: bool, flags: u8) -> Result<(), DecompressError> {
        let (df, behavior) = (flags & 4 != 0, IpId::from_bits(u32::from(flags)));
        if !ipv4 && (df || behavior != IpId::Random) {
            return Err(DecompressError::Malformed("IP-ID of IPv6"));
        }
        self.updates.flags = Some((df, behavior));
        Ok(())
    }

    fn read_ip_fields(
        &mut self,
        tos: bool,
        ttl: bool,
        input: &mut Reader<'_>,
    ) -> Result<(), DecompressError> {
        self.updates.tos = tos.then(|| input.u8()).transpose()?;
        self.updates.ttl = ttl.then(|| input.u8()).transpose()?;
        Ok(())
    }

    fn read_id(
        &mut self,
        behavior: IpId,
        whole: bool,
        input: &mut Reader<'_>,
    ) -> Result<(), DecompressError> {
        let behavior = self.updates.flags.map_or(behavior, |(_, behavior)| behavior);
        if behavior.is_sequential() {
            self.id = if whole {
                IdCode::Whole(input.u16()?)
            } else {
                IdCode::Offset(Bits { value: u32::from(input.u8()?), bits: 8 })
            };
        }
        Ok(())
    }
}

const fn flag<T: Copy>(field: Option<T>, shift: u32) -> u8 {
    (field.is_some() as u8) << shift
}

/// Flags of the innermost IP header in the form of an octet.
trait Flags {
    fn unwrap_or_default_flags(self) -> (bool, u8);
}

impl Flags for Option<(bool, IpId)> {
    fn unwrap_or_default_flags(self) -> (bool, u8) {
        self.map_or((false, IpId::Random as u8), |(df, behavior)| (df, behavior as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Every field round-trips in every profile.
    #[test]
    fn common_headers_come_back() {
        let control = Control::default();
        let number = |profile: Profile| match profile.headers() {
            Profile::Rtp | Profile::RtpUdpLite => Bits { value: 0x1234, bits: 14 },
            Profile::Esp => Bits { value: 0x12_3456, bits: 28 },
            _ => Bits { value: 0x99, bits: 8 },
        };
        for profile in Profile::ALL.into_iter().filter(|profile| profile.version() == 2) {
            let rtp = profile.has_rtp();
            let updates = Updates {
                outer: true,
                tos: Some(3),
                ttl: Some(200),
                flags: Some((true, IpId::Swapped)),
                reorder: Some(ReorderRatio::Half),
                coverage: profile.has_udp_lite().then_some(Coverage::Irregular),
                payload_type: rtp.then_some(77),
                rtp_bits: rtp.then_some(2),
                ts_stride: rtp.then_some(0x1_2345),
                time_stride: rtp.then_some(20),
                has_list: rtp,
            };
            let common = Common {
                updates,
                number: number(profile),
                id: IdCode::Whole(0x4455),
                ts: if rtp { TsCode::Unscaled(Bits { value: 5, bits: 7 }) } else { TsCode::Inferred },
                marker: rtp,
                crc7: 0x55,
                crc3: 5,
            };
            let mut out = Vec::new();
            common.write(profile, true, &control, &mut Writer::new(&mut out));
            let mut reader = Reader::new(&out);
            assert_eq!(Common::read(profile, true, IpId::Random, &mut reader), Ok(common), "{profile}");
            assert!(reader.rest().is_empty());
            for len in 0..out.len() {
                assert!(Common::read(profile, true, IpId::Random, &mut Reader::new(&out[..len])).is_err());
            }
        }
    }
}
