//! The changing items of headers between IP and transport (RFC 5225 6.8.2.4).
//!
//! Their static items are those of RFC 6846; routing headers and minimal encapsulation have no others.

use super::control::value_p;
use crate::framework::error::DecompressError;
use crate::framework::lsb;
use crate::framework::octets::{Reader, Writer};
use crate::profiles::tcp::extension::sequence_at;
use crate::profiles::tcp::ip::{put_u32, u32_at};
use crate::profiles::tcp::kind::Kind;

const AH_FIXED_LEN: usize = 12;
const GRE_CHECKSUM: u8 = 0x80;
const SHORT_BITS: u32 = 7;
const LONG_BITS: u32 = 31;
const LONG: u8 = 0x80;

/// Returns the checksum field of a GRE header.
fn gre_checksum(kind: Kind, header: &[u8]) -> Option<core::ops::Range<usize>> {
    (kind == Kind::Gre && header[0] & GRE_CHECKSUM != 0).then_some(4..6)
}

fn fill(input: &mut Reader<'_>, field: &mut [u8]) -> Result<(), DecompressError> {
    field.copy_from_slice(input.take(field.len())?);
    Ok(())
}

pub(super) fn write_dynamic(kind: Kind, header: &[u8], out: &mut Writer<'_>) {
    match kind {
        Kind::HopByHop | Kind::Destination => out.bytes(&header[2..]),
        Kind::Ah => out.bytes(&header[8..]),
        _ => {
            gre_checksum(kind, header).into_iter().for_each(|field| out.bytes(&header[field]));
            sequence_at(kind, header).into_iter().for_each(|at| out.bytes(&header[at..]));
        }
    }
}

pub(super) fn read_dynamic(
    kind: Kind,
    input: &mut Reader<'_>,
    header: &mut [u8],
) -> Result<(), DecompressError> {
    match kind {
        Kind::HopByHop | Kind::Destination => fill(input, &mut header[2..]),
        Kind::Ah => fill(input, &mut header[8..]),
        _ => {
            gre_checksum(kind, header).into_iter().try_for_each(|field| fill(input, &mut header[field]))?;
            sequence_at(kind, header).into_iter().try_for_each(|at| fill(input, &mut header[at..]))
        }
    }
}

pub(super) fn write_irregular(kind: Kind, header: &[u8], long: bool, out: &mut Writer<'_>) {
    gre_checksum(kind, header).into_iter().for_each(|field| out.bytes(&header[field]));
    if let Some(at) = sequence_at(kind, header) {
        let value = u32_at(header, at);
        if long {
            out.u32(value | u32::from(LONG) << 24);
        } else {
            out.u8(value as u8 & !LONG);
        }
    }
    if kind == Kind::Ah {
        out.bytes(&header[AH_FIXED_LEN..]);
    }
}

pub(super) fn read_irregular(
    kind: Kind,
    input: &mut Reader<'_>,
    header: &mut [u8],
) -> Result<(), DecompressError> {
    gre_checksum(kind, header).into_iter().try_for_each(|field| fill(input, &mut header[field]))?;
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
    let (value, bits) = if input.peek()? & LONG == 0 {
        (u32::from(input.u8()?), SHORT_BITS)
    } else {
        (input.u32()? & u32::MAX >> 1, LONG_BITS)
    };
    Ok(lsb::decode(reference, value, bits, value_p(bits)))
}

/// Returns `Some(true)` if a sequence number needs 31 bits after `reference`, `None` if more.
pub(super) fn sequence_is_long(reference: u32, value: u32) -> Option<bool> {
    let fits = |bits| lsb::fits(reference, value, bits, value_p(bits), u32::MAX);
    if fits(SHORT_BITS) { Some(false) } else { fits(LONG_BITS).then_some(true) }
}
