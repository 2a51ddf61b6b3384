//! The items of UDP, UDP-Lite, ESP and RTP headers (RFC 5225 6.8.2.4).

use alloc::vec::Vec;

use super::control::{
    Control, Coverage, DEFAULT_TIME_STRIDE, DEFAULT_TS_STRIDE, read_sdvl, write_whole_sdvl,
};
use super::list::{self, Table};
use crate::framework::config::ReorderRatio;
use crate::framework::error::DecompressError;
use crate::framework::octets::{Reader, Writer};
use crate::framework::packet::protocol;
use crate::framework::profile::Profile;
use crate::profiles::tcp::ip::{put_u16, put_u32, u16_at, u32_at};

/// Octets of UDP, UDP-Lite and ESP headers.
const BASE_LEN: usize = 8;
/// Octets of UDP and RTP headers without CSRCs.
pub(super) const RTP_LEN: usize = 20;
/// Position of RTP behind UDP.
pub(super) const RTP: usize = 8;
const EXTENSION: u8 = 0x10;
const PADDING: u8 = 0x20;
const PADDING_AND_EXTENSION: u8 = PADDING | EXTENSION;
pub(super) const MARKER: u8 = 0x80;

const RESERVED: DecompressError = DecompressError::Malformed("reserved bits of a dynamic chain");

/// Protocol number of the transport of a profile; `None` for IP.
pub(super) const fn protocol_of(profile: Profile) -> Option<u8> {
    match profile.headers() {
        Profile::Rtp | Profile::Udp => Some(protocol::UDP),
        Profile::RtpUdpLite | Profile::UdpLite => Some(protocol::UDP_LITE),
        Profile::Esp => Some(protocol::ESP),
        _ => None,
    }
}

/// Returns the length of the transport headers at the start of `octets`.
pub(super) fn len(profile: Profile, octets: &[u8]) -> Option<usize> {
    let len = match profile.headers() {
        Profile::Rtp | Profile::RtpUdpLite => RTP_LEN + 4 * usize::from(octets.get(RTP)? & 0x0f),
        Profile::Ip => 0,
        _ => BASE_LEN,
    };
    (octets.len() >= len).then_some(len)
}

/// Returns `true` if all that is not sent can be inferred. `left` octets of packet start here.
pub(super) fn is_inferable(profile: Profile, transport: &[u8], left: usize) -> bool {
    match profile.headers() {
        Profile::Rtp | Profile::Udp => usize::from(u16_at(transport, 4)) == left,
        _ => true,
    }
}

/// Appends the static chain's items.
pub(super) fn write_static(profile: Profile, transport: &[u8], out: &mut Writer<'_>) {
    if profile.headers() != Profile::Ip {
        out.bytes(&transport[..4]);
    }
    if profile.has_rtp() {
        out.bytes(&transport[RTP + 8..RTP_LEN]);
    }
}

/// Reads the static chain's items; adds headers whose other fields are zero to `headers`.
pub(super) fn read_static(
    profile: Profile,
    input: &mut Reader<'_>,
    headers: &mut Vec<u8>,
) -> Result<(), DecompressError> {
    if profile.headers() == Profile::Ip {
        return Ok(());
    }
    headers.extend_from_slice(&input.array::<4>()?);
    headers.extend_from_slice(&[0; 4]);
    if profile.has_rtp() {
        headers.extend_from_slice(&[0x80, 0, 0, 0, 0, 0, 0, 0]);
        headers.extend_from_slice(&input.array::<4>()?);
    }
    Ok(())
}

/// Appends the dynamic chain's items; `csrcs` writes the list of RTP.
pub(super) fn write_dynamic(
    profile: Profile,
    transport: &[u8],
    control: &Control,
    csrcs: impl FnOnce(&mut Writer<'_>),
    out: &mut Writer<'_>,
) {
    let reorder = control.reorder as u8;
    match profile.headers() {
        Profile::Udp => {
            out.bytes(&transport[6..8]);
            out.u16(control.msn());
            out.u8(reorder);
        }
        Profile::UdpLite => {
            out.u8((control.coverage as u8) << 2 | reorder);
            write_coverage(control.coverage, transport, out);
            out.bytes(&transport[6..8]);
            out.u16(control.msn());
        }
        Profile::Esp => {
            out.bytes(&transport[4..8]);
            out.u8(reorder);
        }
        Profile::Rtp => {
            out.bytes(&transport[6..8]);
            write_dynamic_rtp(&transport[RTP..], control, csrcs, out);
        }
        Profile::RtpUdpLite => {
            out.u8((control.coverage as u8) << 6);
            write_coverage(control.coverage, transport, out);
            out.bytes(&transport[6..8]);
            write_dynamic_rtp(&transport[RTP..], control, csrcs, out);
        }
        _ => {}
    }
}

fn write_coverage(coverage: Coverage, transport: &[u8], out: &mut Writer<'_>) {
    if coverage != Coverage::Inferred {
        out.bytes(&transport[4..6]);
    }
}

fn write_dynamic_rtp(
    rtp: &[u8],
    control: &Control,
    csrcs: impl FnOnce(&mut Writer<'_>),
    out: &mut Writer<'_>,
) {
    let has_list = rtp[0] & 0x0f != 0;
    let (ts_stride, time_stride) = (control.ts_stride, control.time_stride);
    let (has_ts_stride, has_time_stride) =
        (ts_stride != DEFAULT_TS_STRIDE, time_stride != DEFAULT_TIME_STRIDE);
    let flags = u8::from(has_list) << 4 | u8::from(has_ts_stride) << 3 | u8::from(has_time_stride) << 2;
    out.u8((control.reorder as u8) << 5 | flags | (rtp[0] & PADDING_AND_EXTENSION) >> 4);
    out.bytes(&rtp[1..8]);
    if has_ts_stride {
        write_whole_sdvl(out, ts_stride);
    }
    if has_time_stride {
        write_whole_sdvl(out, time_stride);
    }
    if has_list {
        csrcs(out);
    }
}

/// Reads the dynamic chain's items. `headers` end with the transport, which is given its CSRCs.
pub(super) fn read_dynamic(
    profile: Profile,
    input: &mut Reader<'_>,
    headers: &mut Vec<u8>,
    at: usize,
    control: &mut Control,
    table: &mut Table,
) -> Result<(), DecompressError> {
    let transport = &mut headers[at..];
    match profile.headers() {
        Profile::Udp => {
            put_u16(transport, 6, input.u16()?);
            control.number = u32::from(input.u16()?);
            control.reorder = read_reorder(input)?;
        }
        Profile::UdpLite => {
            let first = input.u8()?;
            if first & 0xf0 != 0 {
                return Err(RESERVED);
            }
            control.reorder = ReorderRatio::from_bits(first);
            control.coverage = Coverage::from_bits(first >> 2)?;
            read_coverage(control.coverage, input, transport)?;
            put_u16(transport, 6, input.u16()?);
            control.number = u32::from(input.u16()?);
        }
        Profile::Esp => {
            control.number = input.u32()?;
            put_u32(transport, 4, control.number);
            control.reorder = read_reorder(input)?;
        }
        Profile::Rtp => {
            put_u16(transport, 6, input.u16()?);
            read_dynamic_rtp(input, headers, at + RTP, control, table)?;
        }
        Profile::RtpUdpLite => {
            let first = input.u8()?;
            if first & 0x3f != 0 {
                return Err(RESERVED);
            }
            control.coverage = Coverage::from_bits(first >> 6)?;
            read_coverage(control.coverage, input, transport)?;
            put_u16(transport, 6, input.u16()?);
            read_dynamic_rtp(input, headers, at + RTP, control, table)?;
        }
        _ => {}
    }
    Ok(())
}

fn read_reorder(input: &mut Reader<'_>) -> Result<ReorderRatio, DecompressError> {
    let octet = input.u8()?;
    if octet & 0xfc == 0 { Ok(ReorderRatio::from_bits(octet)) } else { Err(RESERVED) }
}

fn read_coverage(
    coverage: Coverage,
    input: &mut Reader<'_>,
    transport: &mut [u8],
) -> Result<(), DecompressError> {
    if coverage != Coverage::Inferred {
        put_u16(transport, 4, input.u16()?);
    }
    Ok(())
}

fn read_dynamic_rtp(
    input: &mut Reader<'_>,
    headers: &mut Vec<u8>,
    at: usize,
    control: &mut Control,
    table: &mut Table,
) -> Result<(), DecompressError> {
    let flags = input.u8()?;
    if flags & 0x80 != 0 {
        return Err(RESERVED);
    }
    control.reorder = ReorderRatio::from_bits(flags >> 5);
    headers.truncate(at + 12);
    let rtp = &mut headers[at..];
    rtp[0] = 0x80 | (flags & 3) << 4;
    rtp[1..8].copy_from_slice(&input.array::<7>()?);
    control.number = u32::from(u16_at(rtp, 2));
    control.ts_stride = if flags & 8 != 0 { read_sdvl(input, 32)?.value } else { DEFAULT_TS_STRIDE };
    control.time_stride = if flags & 4 != 0 { read_sdvl(input, 32)?.value } else { DEFAULT_TIME_STRIDE };
    if flags & 0x10 != 0 {
        list::read(input, headers, at, table, true)?;
    }
    Ok(())
}

/// Appends the irregular chain's items.
#[inline]
pub(super) fn write_irregular(profile: Profile, transport: &[u8], coverage: Coverage, out: &mut Writer<'_>) {
    match profile.headers() {
        Profile::Rtp | Profile::Udp if transport[6..8] != [0, 0] => out.bytes(&transport[6..8]),
        Profile::RtpUdpLite | Profile::UdpLite => {
            if coverage == Coverage::Irregular {
                out.bytes(&transport[4..6]);
            }
            out.bytes(&transport[6..8]);
        }
        _ => {}
    }
}

/// Reads the irregular chain's items over the last headers. A UDP checksum that was zero stays so.
#[inline]
pub(super) fn read_irregular(
    profile: Profile,
    input: &mut Reader<'_>,
    transport: &mut [u8],
    coverage: Coverage,
) -> Result<(), DecompressError> {
    match profile.headers() {
        Profile::Rtp | Profile::Udp if transport[6..8] != [0, 0] => put_u16(transport, 6, input.u16()?),
        Profile::RtpUdpLite | Profile::UdpLite => {
            if coverage == Coverage::Irregular {
                put_u16(transport, 4, input.u16()?);
            }
            put_u16(transport, 6, input.u16()?);
        }
        _ => {}
    }
    Ok(())
}

/// Sets the inferred length; `left` octets of packet start with the transport.
#[inline]
pub(super) fn infer(
    profile: Profile,
    transport: &mut [u8],
    left: usize,
    coverage: Coverage,
) -> Result<(), DecompressError> {
    let has_length = match profile.headers() {
        Profile::Rtp | Profile::Udp => true,
        Profile::RtpUdpLite | Profile::UdpLite => coverage == Coverage::Inferred,
        _ => false,
    };
    if has_length {
        put_u16(transport, 4, u16::try_from(left).map_err(|_| DecompressError::TooLarge)?);
    }
    Ok(())
}

/// Returns padding and extension bit of RTP.
pub(super) const fn padding_and_extension(rtp: &[u8]) -> u8 {
    (rtp[0] & PADDING_AND_EXTENSION) >> 4
}

pub(super) const fn set_padding_and_extension(rtp: &mut [u8], bits: u8) {
    rtp[0] = rtp[0] & !PADDING_AND_EXTENSION | (bits & 3) << 4;
}

/// Returns the timestamp of RTP.
#[inline]
pub(super) fn timestamp(rtp: &[u8]) -> u32 {
    u32_at(rtp, 4)
}
