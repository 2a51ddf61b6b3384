//! The items of IPv4 and IPv6 headers (RFC 5225 6.8.2.4, encoding methods `ipv4` and `ipv6`).

use alloc::vec::Vec;

use super::control::Control;
use crate::framework::config::ReorderRatio;
use crate::framework::error::DecompressError;
use crate::framework::octets::{Reader, Writer};
use crate::profiles::tcp::ip::{IpId, df, ip_id, set_df, set_ip_id, set_tos, set_ttl, tos, ttl, u32_at};
use crate::profiles::tcp::kind::{Kind, Next};

const IPV4_LEN: usize = 20;
const VERSION_6: u8 = 0x80;
const INNERMOST: u8 = 0x40;
const RESERVED: u8 = 0x20;
const FLOW_LABEL: u8 = 0x10;
const RESERVED_BITS: DecompressError = DecompressError::Malformed("reserved bits of an IP item");

fn is_v4(header: &[u8]) -> bool {
    header.len() == IPV4_LEN
}

pub(super) fn write_static(header: &[u8], innermost: bool, out: &mut Writer<'_>) {
    let innermost = if innermost { INNERMOST } else { 0 };
    if is_v4(header) {
        out.bytes(&[innermost, header[9]]);
        out.bytes(&header[12..]);
        return;
    }
    match u32_at(header, 0) & 0x000f_ffff {
        0 => out.u8(VERSION_6 | innermost),
        label => {
            let head = u32::from(VERSION_6 | innermost | FLOW_LABEL) << 16;
            out.bytes(&(head | label).to_be_bytes()[1..]);
        }
    }
    out.u8(header[6]);
    out.bytes(&header[8..]);
}

/// Reads an item; returns what follows the header, and whether it is the innermost one.
pub(super) fn read_static(
    kind: Kind,
    input: &mut Reader<'_>,
    headers: &mut Vec<u8>,
) -> Result<(Next, bool), DecompressError> {
    let first = input.u8()?;
    let innermost = first & INNERMOST != 0;
    if kind == Kind::Ipv4 {
        if first & !INNERMOST != 0 {
            return Err(RESERVED_BITS);
        }
        let protocol = input.u8()?;
        headers.extend_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, 0, protocol, 0, 0]);
        headers.extend_from_slice(&input.array::<8>()?);
        return Ok((Next::Protocol(protocol), innermost));
    }
    if first & RESERVED != 0 || (first & FLOW_LABEL == 0 && first & 0x0f != 0) {
        return Err(RESERVED_BITS);
    }
    let label = if first & FLOW_LABEL == 0 { [0, 0] } else { input.array()? };
    let next = input.u8()?;
    headers.extend_from_slice(&[0x60, first & 0x0f, label[0], label[1], 0, 0, next, 0]);
    headers.extend_from_slice(&input.array::<32>()?);
    Ok((Next::Protocol(next), innermost))
}

pub(super) fn write_dynamic(behavior: IpId, header: &[u8], endpoint: Option<&Control>, out: &mut Writer<'_>) {
    let reorder = endpoint.map_or(0, |control| control.reorder as u8);
    if is_v4(header) {
        out.bytes(&[reorder << 3 | u8::from(df(header)) << 2 | behavior as u8, tos(header), ttl(header)]);
        if behavior != IpId::Zero {
            out.u16(ip_id(header));
        }
    } else {
        out.bytes(&[tos(header), ttl(header)]);
        if endpoint.is_some() {
            out.u8(reorder);
        }
    }
    if let Some(control) = endpoint {
        out.u16(control.msn());
    }
}

pub(super) fn read_dynamic(
    input: &mut Reader<'_>,
    header: &mut [u8],
    endpoint: Option<&mut Control>,
) -> Result<IpId, DecompressError> {
    let (mut behavior, mut reorder) = (IpId::Random, 0);
    if is_v4(header) {
        let first = input.u8()?;
        let reserved = if endpoint.is_some() { 0xe0 } else { 0xf8 };
        if first & reserved != 0 {
            return Err(RESERVED_BITS);
        }
        (behavior, reorder) = (IpId::from_bits(u32::from(first)), first >> 3);
        set_df(header, first & 4 != 0);
    }
    set_tos(header, input.u8()?);
    set_ttl(header, input.u8()?);
    if is_v4(header) {
        set_ip_id(header, if behavior == IpId::Zero { 0 } else { input.u16()? });
    } else if endpoint.is_some() {
        reorder = input.u8()?;
        if reorder & 0xfc != 0 {
            return Err(RESERVED_BITS);
        }
    }
    if let Some(control) = endpoint {
        control.reorder = ReorderRatio::from_bits(reorder);
        control.number = u32::from(input.u16()?);
    }
    Ok(behavior)
}

#[inline]
pub(super) fn write_irregular(behavior: IpId, header: &[u8], with_tos: bool, out: &mut Writer<'_>) {
    if is_v4(header) && behavior == IpId::Random {
        out.u16(ip_id(header));
    }
    if with_tos {
        out.bytes(&[tos(header), ttl(header)]);
    }
}

#[inline]
pub(super) fn read_irregular(
    behavior: IpId,
    input: &mut Reader<'_>,
    header: &mut [u8],
    with_tos: bool,
) -> Result<(), DecompressError> {
    match behavior {
        IpId::Random if is_v4(header) => set_ip_id(header, input.u16()?),
        IpId::Zero => set_ip_id(header, 0),
        _ => {}
    }
    if with_tos {
        set_tos(header, input.u8()?);
        set_ttl(header, input.u8()?);
    }
    Ok(())
}
