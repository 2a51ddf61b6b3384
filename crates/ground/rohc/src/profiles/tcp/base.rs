//! Base headers in decompression (RFC 6846 7.3 and 8.2, encoding method `co_baseheader`).

use super::chain::Chain;
use super::formats::{self, Field, Part};
use super::header::{self, Control};
use super::ip::{self, IpId};
use crate::framework::error::DecompressError;
use crate::framework::lsb;
use crate::framework::octets::Reader;
use crate::framework::profile::PacketType;

/// The values that a compressed header is relative to: those of the last header restored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Previous {
    pub(super) control: Control,
    pub(super) inner_ip_id: IpId,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) window: u16,
    /// The IP-ID's distance from the master sequence number.
    pub(super) ip_id_offset: u16,
    pub(super) ttl: u8,
    pub(super) payload_len: u32,
}

impl Previous {
    #[inline]
    pub(super) fn new(chain: &Chain, headers: &[u8], control: Control, payload_len: u32) -> Self {
        let (inner, tcp) = (&headers[chain.inner().range()], &headers[chain.tcp_at()..]);
        let inner_ip_id = chain.inner().ip_id;
        Self {
            control,
            inner_ip_id,
            seq: header::seq(tcp),
            ack: header::ack(tcp),
            window: header::window(tcp),
            ip_id_offset: inner_ip_id.counter(ip::ip_id(inner)).wrapping_sub(control.msn),
            ttl: ip::ttl(inner),
            payload_len,
        }
    }
}

/// A TCP Sequence Number, which may wait for the length of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seq {
    Known(u32),
    /// Bits of the number divided by the payload's length.
    Scaled {
        bits: u32,
        p: u32,
        value: u32,
    },
}

impl Seq {
    /// The number in a packet with `payload_len` octets of payload (RFC 6846 6.4.8.1).
    pub(super) fn resolve(self, previous: &Previous, payload_len: u32) -> Result<u32, DecompressError> {
        match self {
            Seq::Known(seq) => Ok(seq),
            Seq::Scaled { .. } if payload_len == 0 => {
                Err(DecompressError::Malformed("TCP: scaled number, no payload"))
            }
            Seq::Scaled { bits, p, value } => {
                let (scaled, residue) = scale(previous.seq, previous.payload_len);
                Ok(lsb::decode(scaled, value, bits, p).wrapping_mul(payload_len).wrapping_add(residue))
            }
        }
    }
}

/// A number in units of `stride`, and the rest (RFC 6846 8.2, `field_scaling`).
pub(super) const fn scale(value: u32, stride: u32) -> (u32, u32) {
    match value.checked_div(stride) {
        Some(scaled) => (scaled, value % stride),
        None => (0, value),
    }
}

/// A base header, decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Base {
    pub(super) packet_type: PacketType,
    pub(super) control: Control,
    pub(super) inner_ip_id: IpId,
    pub(super) seq: Seq,
    pub(super) ack: u32,
    pub(super) window: u16,
    pub(super) ip_id_offset: u16,
    pub(super) ttl: u8,
    /// The whole octet of flags but for CWR and ECE.
    pub(super) flags: u8,
    /// Only in `co_common`.
    pub(super) rare: Rare,
    pub(super) list_present: bool,
    pub(super) crc: u8,
    pub(super) has_crc7: bool,
}

/// Fields that only `co_common` can change.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rare {
    pub(super) df: Option<bool>,
    pub(super) dscp: Option<u8>,
    pub(super) urgent: Option<u16>,
    pub(super) outer_ttl: bool,
}

impl Base {
    /// Returns the defaults of `co_baseheader` (RFC 6846 8.2).
    fn unchanged(previous: &Previous) -> Self {
        Self {
            packet_type: PacketType::CoCommon,
            control: previous.control,
            inner_ip_id: previous.inner_ip_id,
            seq: Seq::Known(previous.seq),
            ack: previous.ack,
            window: previous.window,
            ip_id_offset: previous.ip_id_offset,
            ttl: previous.ttl,
            flags: header::ACK,
            rare: Rare::default(),
            list_present: false,
            crc: 0,
            has_crc7: false,
        }
    }

    /// Reads a base header whose first octet is `first`, and what follows from `input`.
    #[inline]
    pub(super) fn read(
        first: u8,
        input: &mut Reader<'_>,
        previous: &Previous,
    ) -> Result<Self, DecompressError> {
        if first & !1 == formats::COMMON {
            return Self::read_common(first, input, previous);
        }
        let format = formats::by_first_octet(previous.inner_ip_id.is_sequential(), first)
            .ok_or(DecompressError::Malformed("TCP: unknown packet type"))?;
        let mut base = Self::unchanged(previous);
        base.packet_type = format.packet_type;
        base.has_crc7 = format.has_crc7();
        format.read(first, input, |part, value| base.take(part, value, previous))?;
        Ok(base)
    }

    #[inline]
    fn take(&mut self, part: &Part, value: u32, previous: &Previous) -> Result<(), DecompressError> {
        let decode = |reference: u32| lsb::decode(reference, value, part.bits, part.p);
        match part.field {
            Field::Seq => self.seq = Seq::Known(decode(previous.seq)),
            Field::Ack => self.ack = decode(previous.ack),
            Field::SeqScaled => self.seq = Seq::Scaled { bits: part.bits, p: part.p, value },
            Field::AckScaled => self.ack = unscale_ack(previous, decode)?,
            Field::Window => self.window = decode(u32::from(previous.window)) as u16,
            Field::IpId => self.ip_id_offset = decode(u32::from(previous.ip_id_offset)) as u16,
            Field::Ttl => self.ttl = decode(u32::from(previous.ttl)) as u8,
            Field::Msn => self.control.msn = decode(u32::from(previous.control.msn)) as u16,
            Field::Psh => self.flags |= (value as u8) * header::PSH,
            Field::Rsf => self.flags |= header::rsf_flags(value),
            Field::EcnUsed => self.control.ecn_used = value != 0,
            Field::ListPresent => self.list_present = value != 0,
            Field::Crc => self.crc = value as u8,
        }
        Ok(())
    }

    fn read_common(first: u8, input: &mut Reader<'_>, previous: &Previous) -> Result<Self, DecompressError> {
        let [second, third, fourth, fifth] = input.array()?;
        let mut base = Self::unchanged(previous);
        base.has_crc7 = true;
        base.rare.outer_ttl = first & 1 != 0;
        let flag = |octet: u8, bit: u8, flag: u8| if octet >> bit & 1 != 0 { flag } else { 0 };
        base.flags =
            flag(second, 7, header::ACK) | flag(second, 6, header::PSH) | flag(fourth, 0, header::URG);
        base.flags |= header::rsf_flags(u32::from(second >> 4 & 3));
        let msn = lsb::decode(u32::from(previous.control.msn), u32::from(second & 0x0f), 4, 4);
        base.control.msn = msn as u16;
        if fourth & 0x80 != 0 {
            return Err(DecompressError::Malformed("TCP: reserved bit of co_common"));
        }
        base.control.ecn_used = fourth & 0x40 != 0;
        base.list_present = fourth & 0x08 != 0;
        base.inner_ip_id = IpId::from_bits(u32::from(fourth >> 1));
        base.rare.df = Some(fifth & 0x80 != 0);
        base.crc = fifth & 0x7f;
        base.seq = Seq::Known(read_variable(third >> 6, previous.seq, input)?);
        base.ack = read_variable(third >> 4 & 3, previous.ack, input)?;
        if third & 0x08 != 0 {
            base.control.ack_stride = input.u16()?;
        }
        if third & 0x04 != 0 {
            base.window = input.u16()?;
        }
        base.read_common_ip_id(third & 0x02 != 0, input, previous)?;
        base.read_common_rest(third, fourth, input)?;
        Ok(base)
    }

    fn read_common_ip_id(
        &mut self,
        whole: bool,
        input: &mut Reader<'_>,
        previous: &Previous,
    ) -> Result<(), DecompressError> {
        if self.inner_ip_id.is_sequential() {
            self.ip_id_offset = if whole {
                self.inner_ip_id.counter(input.u16()?).wrapping_sub(self.control.msn)
            } else {
                lsb::decode(u32::from(previous.ip_id_offset), u32::from(input.u8()?), 8, 3) as u16
            };
        }
        Ok(())
    }

    fn read_common_rest(
        &mut self,
        third: u8,
        fourth: u8,
        input: &mut Reader<'_>,
    ) -> Result<(), DecompressError> {
        if third & 0x01 != 0 {
            self.rare.urgent = Some(input.u16()?);
        }
        if fourth & 0x20 != 0 {
            let octet = input.u8()?;
            if octet & 3 != 0 {
                return Err(DecompressError::Malformed("TCP: padding of the DSCP"));
            }
            self.rare.dscp = Some(octet >> 2);
        }
        if fourth & 0x10 != 0 {
            self.ttl = input.u8()?;
        }
        Ok(())
    }

    /// Writes the base header's fields over the previous headers of IP and TCP.
    #[inline]
    pub(super) fn apply(&self, inner: &mut [u8], tcp: &mut [u8]) {
        if self.inner_ip_id.is_sequential() {
            let counter = self.ip_id_offset.wrapping_add(self.control.msn);
            ip::set_ip_id(inner, self.inner_ip_id.counter(counter));
        }
        ip::set_ttl(inner, self.ttl);
        if let Some(df) = self.rare.df {
            ip::set_df(inner, df);
        }
        if let Some(dscp) = self.rare.dscp {
            ip::set_tos(inner, dscp << 2 | ip::tos(inner) & 3);
        }
        header::set_ack(tcp, self.ack);
        header::set_flags(tcp, header::flags(tcp) & header::ECN | self.flags);
        header::set_window(tcp, self.window);
        if let Some(urgent) = self.rare.urgent {
            header::set_urgent(tcp, urgent);
        }
    }
}

fn unscale_ack(previous: &Previous, decode: impl Fn(u32) -> u32) -> Result<u32, DecompressError> {
    let stride = u32::from(previous.control.ack_stride);
    if stride == 0 {
        return Err(DecompressError::Malformed("TCP: scaled acknowledgement without stride"));
    }
    let (scaled, residue) = scale(previous.ack, stride);
    Ok(decode(scaled).wrapping_mul(stride).wrapping_add(residue))
}

/// `variable_length_32_enc` of RFC 6846 8.2.
fn read_variable(form: u8, reference: u32, input: &mut Reader<'_>) -> Result<u32, DecompressError> {
    match form {
        0 => Ok(reference),
        1 => Ok(lsb::decode(reference, u32::from(input.u8()?), 8, 63)),
        2 => Ok(lsb::decode(reference, u32::from(input.u16()?), 16, 16_383)),
        _ => Ok(input.u32()?),
    }
}
