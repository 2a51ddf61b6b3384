//! Items of headers between IP and TCP that are not IP. They are IPv6 extension headers, AH, GRE and minimal
//! encapsulation (RFC 6846 8.2, encoding methods `ip_hop_opt`, `ip_dest_opt`, `ip_rout_opt`, `ah`, `gre` and `mine`).

use alloc::vec::Vec;

use super::ip::{Irregular, folded_sum, put_u16, put_u32, u16_at, u32_at};
use super::kind::{Kind, Next};
use crate::framework::error::DecompressError;
use crate::framework::lsb;
use crate::framework::octets::{Reader, Writer};

const REPLICATE_SAME: u8 = 0x00;
const REPLICATE_CHANGED: u8 = 0x80;

const MALFORMED: DecompressError = DecompressError::Malformed("item of an extension header");

const AH_FIXED_LEN: usize = 12;
const GRE_FIXED_LEN: usize = 4;
const GRE_CHECKSUM: u8 = 0x80;
const GRE_KEY: u8 = 0x20;
const GRE_SEQUENCE: u8 = 0x10;
const MINE_SOURCE: u8 = 0x80;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;

const SHORT_BITS: u32 = 7;
const SHORT_P: u32 = 8;
const LONG_BITS: u32 = 31;
const LONG_P: u32 = 256;

/// The length of the header at the start of `octets`, and what follows it.
pub(in crate::profiles) fn parse(kind: Kind, octets: &[u8]) -> Option<(usize, Next)> {
    let [first, second] = *octets.first_chunk::<2>()?;
    let len = match kind {
        Kind::Ah => (usize::from(second) + 2) * 4,
        Kind::Gre => gre_len(first),
        Kind::MinimalEncapsulation => mine_len(second),
        _ => (usize::from(second) + 1) * 8,
    };
    let header = octets.get(..len)?;
    let is_inferable = match kind {
        Kind::Ah => len >= AH_FIXED_LEN,
        Kind::Gre => is_plain_gre(header),
        Kind::MinimalEncapsulation => folded_sum(header, 0) == 0xffff && u16_at(header, 2) != 0xffff,
        _ => true,
    };
    let next = if kind == Kind::Gre { Next::Ip } else { Next::Protocol(first) };
    is_inferable.then_some((len, next))
}

const fn gre_len(flags: u8) -> usize {
    let optional = (flags & GRE_CHECKSUM != 0) as usize
        + (flags & GRE_KEY != 0) as usize
        + (flags & GRE_SEQUENCE != 0) as usize;
    GRE_FIXED_LEN + 4 * optional
}

const fn mine_len(flags: u8) -> usize {
    if flags & MINE_SOURCE != 0 { 12 } else { 8 }
}

fn is_plain_gre(header: &[u8]) -> bool {
    let reserved_flags = u16_at(header, 0) & !(u16::from(GRE_CHECKSUM | GRE_KEY | GRE_SEQUENCE) << 8);
    let has_reserved1 = header[0] & GRE_CHECKSUM != 0 && u16_at(header, 6) != 0;
    let is_ip = matches!(u16_at(header, 2), ETHERTYPE_IPV4 | ETHERTYPE_IPV6);
    reserved_flags == 0 && !has_reserved1 && is_ip
}

/// Position of the key in a GRE header.
fn gre_key(header: &[u8]) -> Option<usize> {
    let at = GRE_FIXED_LEN + if header[0] & GRE_CHECKSUM != 0 { 4 } else { 0 };
    (header[0] & GRE_KEY != 0).then_some(at)
}

/// Position of the packet sequence number in AH and GRE.
pub(in crate::profiles) fn sequence_at(kind: Kind, header: &[u8]) -> Option<usize> {
    match kind {
        Kind::Ah => Some(8),
        Kind::Gre if header[0] & GRE_SEQUENCE != 0 => Some(header.len() - 4),
        _ => None,
    }
}

/// Returns `true` if two headers of one kind agree in what the static chain carries.
pub(in crate::profiles) fn same_static(kind: Kind, a: &[u8], b: &[u8]) -> bool {
    match kind {
        Kind::Routing | Kind::MinimalEncapsulation => a == b,
        Kind::Ah => a[..2] == b[..2] && a[4..8] == b[4..8],
        Kind::Gre => a[..4] == b[..4] && gre_key(a).is_none_or(|at| a[at..at + 4] == b[at..at + 4]),
        _ => a[..2] == b[..2],
    }
}

/// Returns `true` if two headers agree in what only the dynamic chain carries.
pub(in crate::profiles) fn same_dynamic(kind: Kind, a: &[u8], b: &[u8]) -> bool {
    match kind {
        Kind::HopByHop | Kind::Destination => a == b,
        Kind::Ah => a[2..4] == b[2..4],
        _ => true,
    }
}

pub(in crate::profiles) fn write_static(kind: Kind, header: &[u8], out: &mut Writer<'_>) {
    match kind {
        Kind::Routing => out.bytes(header),
        Kind::Ah => {
            out.bytes(&header[..2]);
            out.bytes(&header[4..8]);
        }
        Kind::Gre => write_static_gre(header, out),
        Kind::MinimalEncapsulation => {
            out.bytes(&header[..2]);
            out.bytes(&header[4..]);
        }
        _ => out.bytes(&header[..2]),
    }
}

fn write_static_gre(header: &[u8], out: &mut Writer<'_>) {
    let is_v6 = u8::from(u16_at(header, 2) == ETHERTYPE_IPV6);
    let flag = |mask: u8| u8::from(header[0] & mask != 0);
    let flags = flag(GRE_CHECKSUM) << 6 | flag(GRE_KEY) << 5 | flag(GRE_SEQUENCE) << 4;
    out.u8(is_v6 << 7 | flags);
    if let Some(at) = gre_key(header) {
        out.bytes(&header[at..at + 4]);
    }
}

pub(in crate::profiles) fn read_static(
    kind: Kind,
    input: &mut Reader<'_>,
    headers: &mut Vec<u8>,
) -> Result<Next, DecompressError> {
    match kind {
        Kind::Ah => read_static_ah(input, headers),
        Kind::Gre => read_static_gre(input, headers),
        Kind::MinimalEncapsulation => read_static_mine(input, headers),
        _ => read_static_options(kind, input, headers),
    }
}

fn read_static_options(
    kind: Kind,
    input: &mut Reader<'_>,
    headers: &mut Vec<u8>,
) -> Result<Next, DecompressError> {
    let [next, length] = input.array()?;
    let value_len = usize::from(length) * 8 + 6;
    headers.extend_from_slice(&[next, length]);
    if kind == Kind::Routing {
        headers.extend_from_slice(input.take(value_len)?);
    } else {
        headers.resize(headers.len() + value_len, 0);
    }
    Ok(Next::Protocol(next))
}

fn read_static_ah(input: &mut Reader<'_>, headers: &mut Vec<u8>) -> Result<Next, DecompressError> {
    let [next, length] = input.array()?;
    let len = (usize::from(length) + 2) * 4;
    if len < AH_FIXED_LEN {
        return Err(MALFORMED);
    }
    headers.extend_from_slice(&[next, length, 0, 0]);
    headers.extend_from_slice(&input.array::<4>()?);
    headers.resize(headers.len() + len - 8, 0);
    Ok(Next::Protocol(next))
}

fn read_static_gre(input: &mut Reader<'_>, headers: &mut Vec<u8>) -> Result<Next, DecompressError> {
    let first = input.u8()?;
    if first & 0x0f != 0 {
        return Err(MALFORMED);
    }
    let flag = |mask: u8, to: u8| if first & mask != 0 { to } else { 0 };
    let flags = flag(0x40, GRE_CHECKSUM) | flag(0x20, GRE_KEY) | flag(0x10, GRE_SEQUENCE);
    let at = headers.len();
    headers.resize(at + gre_len(flags), 0);
    let header = &mut headers[at..];
    header[0] = flags;
    put_u16(header, 2, if first & 0x80 != 0 { ETHERTYPE_IPV6 } else { ETHERTYPE_IPV4 });
    if let Some(key) = gre_key(header) {
        put_u32(header, key, input.u32()?);
    }
    Ok(Next::Ip)
}

fn read_static_mine(input: &mut Reader<'_>, headers: &mut Vec<u8>) -> Result<Next, DecompressError> {
    let [next, flags] = input.array()?;
    headers.extend_from_slice(&[next, flags, 0, 0]);
    headers.extend_from_slice(input.take(mine_len(flags) - 4)?);
    Ok(Next::Protocol(next))
}

pub(in crate::profiles) fn write_dynamic(kind: Kind, header: &[u8], out: &mut Writer<'_>) {
    match kind {
        Kind::HopByHop | Kind::Destination => out.bytes(&header[2..]),
        Kind::Ah => {
            out.bytes(&header[2..4]);
            out.bytes(&header[8..]);
        }
        Kind::Gre => write_whole_gre(header, out),
        _ => {}
    }
}

fn write_whole_gre(header: &[u8], out: &mut Writer<'_>) {
    write_gre_checksum(header, out);
    if let Some(at) = sequence_at(Kind::Gre, header) {
        out.bytes(&header[at..]);
    }
}

fn write_gre_checksum(header: &[u8], out: &mut Writer<'_>) {
    if header[0] & GRE_CHECKSUM != 0 {
        out.bytes(&header[4..6]);
    }
}

fn read_gre_checksum(input: &mut Reader<'_>, header: &mut [u8]) -> Result<(), DecompressError> {
    if header[0] & GRE_CHECKSUM != 0 {
        put_u16(header, 4, input.u16()?);
    }
    Ok(())
}

fn read_whole_gre(input: &mut Reader<'_>, header: &mut [u8]) -> Result<(), DecompressError> {
    read_gre_checksum(input, header)?;
    if let Some(at) = sequence_at(Kind::Gre, header) {
        put_u32(header, at, input.u32()?);
    }
    Ok(())
}

fn fill(input: &mut Reader<'_>, field: &mut [u8]) -> Result<(), DecompressError> {
    field.copy_from_slice(input.take(field.len())?);
    Ok(())
}

pub(in crate::profiles) fn read_dynamic(
    kind: Kind,
    input: &mut Reader<'_>,
    header: &mut [u8],
) -> Result<(), DecompressError> {
    match kind {
        Kind::HopByHop | Kind::Destination => fill(input, &mut header[2..]),
        Kind::Ah => {
            fill(input, &mut header[2..4])?;
            fill(input, &mut header[8..])
        }
        Kind::Gre => read_whole_gre(input, header),
        _ => Ok(()),
    }
}

/// Returns `true` if the replicate item can make `header` of `base`.
///
/// Only what leaves the lengths as they are is replicated: a context with other headers is better set up from scratch.
pub(in crate::profiles) fn is_replicable(kind: Kind, header: &[u8], base: &[u8]) -> bool {
    header.len() == base.len()
        && match kind {
            Kind::Gre => header[..4] == base[..4],
            _ => header[0] == base[0],
        }
}

pub(in crate::profiles) fn write_replicate(kind: Kind, header: &[u8], base: &[u8], out: &mut Writer<'_>) {
    match kind {
        Kind::Ah => write_replicate_ah(header, base, out),
        Kind::Gre => write_replicate_gre(header, base, out),
        _ if header == base => out.u8(REPLICATE_SAME),
        Kind::MinimalEncapsulation => {
            out.bytes(&[REPLICATE_CHANGED, header[1]]);
            out.bytes(&header[4..]);
        }
        _ => {
            out.u8(REPLICATE_CHANGED);
            out.bytes(&header[1..]);
        }
    }
}

fn write_replicate_ah(header: &[u8], base: &[u8], out: &mut Writer<'_>) {
    if header[1..8] == base[1..8] {
        out.u8(REPLICATE_SAME);
    } else {
        out.u8(REPLICATE_CHANGED);
        out.bytes(&header[1..8]);
    }
    out.bytes(&header[8..]);
}

fn write_replicate_gre(header: &[u8], base: &[u8], out: &mut Writer<'_>) {
    if same_static(Kind::Gre, header, base) {
        out.u8(REPLICATE_SAME);
        write_whole_gre(header, out);
        return;
    }
    let flag = |mask: u8| u8::from(header[0] & mask != 0);
    out.u8(REPLICATE_CHANGED | flag(GRE_CHECKSUM) << 2 | flag(GRE_KEY) << 1 | flag(GRE_SEQUENCE));
    write_gre_checksum(header, out);
    if let Some(at) = gre_key(header) {
        out.bytes(&header[at..at + 4]);
    }
    if let Some(at) = sequence_at(Kind::Gre, header) {
        out.bytes(&header[at..]);
    }
}

pub(in crate::profiles) fn read_replicate(
    kind: Kind,
    input: &mut Reader<'_>,
    header: &mut [u8],
) -> Result<(), DecompressError> {
    let first = input.u8()?;
    match (kind, first) {
        (Kind::Ah, REPLICATE_SAME) => fill(input, &mut header[8..]),
        (Kind::Gre, REPLICATE_SAME) => read_whole_gre(input, header),
        (_, REPLICATE_SAME) => Ok(()),
        (Kind::Gre, _) => read_replicate_gre(first, input, header),
        (Kind::MinimalEncapsulation, REPLICATE_CHANGED) => {
            header[1] = input.u8()?;
            require(mine_len(header[1]) == header.len())?;
            fill(input, &mut header[4..])
        }
        (_, REPLICATE_CHANGED) => {
            require(input.u8()? == header[1])?;
            fill(input, &mut header[2..])
        }
        _ => Err(MALFORMED),
    }
}

fn require(condition: bool) -> Result<(), DecompressError> {
    if condition { Ok(()) } else { Err(MALFORMED) }
}

fn read_replicate_gre(first: u8, input: &mut Reader<'_>, header: &mut [u8]) -> Result<(), DecompressError> {
    let flag = |mask: u8, to: u8| if first & mask != 0 { to } else { 0 };
    let flags = flag(4, GRE_CHECKSUM) | flag(2, GRE_KEY) | flag(1, GRE_SEQUENCE);
    if first & 0xf8 != REPLICATE_CHANGED || gre_len(flags) != header.len() {
        return Err(MALFORMED);
    }
    header[0] = flags;
    header[4..].fill(0);
    read_gre_checksum(input, header)?;
    if let Some(at) = gre_key(header) {
        put_u32(header, at, input.u32()?);
    }
    if let Some(at) = sequence_at(Kind::Gre, header) {
        put_u32(header, at, input.u32()?);
    }
    Ok(())
}

pub(in crate::profiles) fn write_irregular(
    kind: Kind,
    header: &[u8],
    flags: Irregular,
    out: &mut Writer<'_>,
) {
    if kind == Kind::Gre {
        write_gre_checksum(header, out);
    }
    if let Some(at) = sequence_at(kind, header) {
        write_sequence(u32_at(header, at), flags.long_sequence, out);
    }
    if kind == Kind::Ah {
        out.bytes(&header[AH_FIXED_LEN..]);
    }
}

fn write_sequence(value: u32, long: bool, out: &mut Writer<'_>) {
    if long {
        out.u32(value | 1 << 31);
    } else {
        out.u8((value & 0x7f) as u8);
    }
}

/// Returns `Some(true)` if the sequence number needs 31 bits after `reference`, `None` if more.
pub(in crate::profiles) fn sequence_is_long(reference: u32, value: u32) -> Option<bool> {
    if lsb::fits(reference, value, SHORT_BITS, SHORT_P, u32::MAX) {
        Some(false)
    } else {
        lsb::fits(reference, value, LONG_BITS, LONG_P, u32::MAX).then_some(true)
    }
}

pub(in crate::profiles) fn read_irregular(
    kind: Kind,
    input: &mut Reader<'_>,
    header: &mut [u8],
) -> Result<(), DecompressError> {
    if kind == Kind::Gre {
        read_gre_checksum(input, header)?;
    }
    if let Some(at) = sequence_at(kind, header) {
        let value = read_sequence(u32_at(header, at), input)?;
        put_u32(header, at, value);
    }
    if kind == Kind::Ah {
        fill(input, &mut header[AH_FIXED_LEN..])?;
    }
    Ok(())
}

fn read_sequence(reference: u32, input: &mut Reader<'_>) -> Result<u32, DecompressError> {
    if input.peek()? & 0x80 == 0 {
        Ok(lsb::decode(reference, u32::from(input.u8()?), SHORT_BITS, SHORT_P))
    } else {
        Ok(lsb::decode(reference, input.u32()? & !(1 << 31), LONG_BITS, LONG_P))
    }
}

/// Sets the checksum of a minimal encapsulation header.
pub(in crate::profiles) fn infer_mine(header: &mut [u8]) {
    put_u16(header, 2, 0);
    let checksum = !folded_sum(header, 0);
    put_u16(header, 2, checksum);
}
