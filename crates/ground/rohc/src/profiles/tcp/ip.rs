//! The items of IPv4 and IPv6 headers (RFC 6846 8.2, encoding methods `ipv4` and `ipv6`).

use alloc::vec::Vec;

use super::kind::{Kind, Next};
use crate::framework::error::DecompressError;
use crate::framework::octets::{Reader, Writer};

const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const DF: u8 = 0x40;
const RESERVED: DecompressError = DecompressError::Malformed("reserved bits of an IP item");

/// Fields of the base header on which the irregular chain depends.
#[derive(Clone, Copy, Debug)]
pub(in crate::profiles) struct Irregular {
    /// Behaviour of the IP-ID of the innermost header.
    pub(in crate::profiles) inner_ip_id: IpId,
    pub(in crate::profiles) ecn_used: bool,
    pub(in crate::profiles) outer_ttl: bool,
    /// The sequence numbers of AH and GRE need 31 bits.
    pub(in crate::profiles) long_sequence: bool,
}

/// Behaviour of an IPv4 Identification, with its number in headers (RFC 6846 6.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::profiles) enum IpId {
    /// Counts up, in network byte order.
    Sequential = 0,
    /// Counts up, its octets swapped.
    Swapped = 1,
    Random = 2,
    /// Always zero.
    Zero = 3,
}

impl IpId {
    pub(in crate::profiles) const fn from_bits(bits: u32) -> Self {
        match bits & 3 {
            0 => IpId::Sequential,
            1 => IpId::Swapped,
            2 => IpId::Random,
            _ => IpId::Zero,
        }
    }

    /// Returns `true` if it takes the sequential set of header formats.
    pub(in crate::profiles) const fn is_sequential(self) -> bool {
        matches!(self, IpId::Sequential | IpId::Swapped)
    }

    /// The counter behind the field `ip_id`, or the field from the counter.
    pub(in crate::profiles) const fn counter(self, ip_id: u16) -> u16 {
        match self {
            IpId::Swapped => ip_id.swap_bytes(),
            _ => ip_id,
        }
    }
}

#[inline]
pub(in crate::profiles) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    // One check of the bounds, where indexing octet by octet has as many as octets.
    bytes[at..at + 2].try_into().map_or(0, u16::from_be_bytes)
}

#[inline]
pub(in crate::profiles) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].try_into().map_or(0, u32::from_be_bytes)
}

pub(in crate::profiles) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

pub(in crate::profiles) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// The ones' complement sum of `bytes`, folded; 0xffff when they hold their own checksum.
#[inline]
pub(in crate::profiles) fn folded_sum(bytes: &[u8], start: u32) -> u16 {
    let mut sum = u64::from(start);
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        sum += u64::from(u32_at(word, 0));
    }
    let mut tail = [0; 4];
    tail[..words.remainder().len()].copy_from_slice(words.remainder());
    sum += u64::from(u32::from_be_bytes(tail));
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Returns the length of the header at the start of `octets`, and the next header. `len` octets of packet start there.
pub(in crate::profiles) fn parse(kind: Kind, octets: &[u8], len: usize) -> Option<(usize, Next)> {
    match kind {
        Kind::Ipv4 => parse_v4(octets, len),
        _ => parse_v6(octets, len),
    }
}

fn parse_v4(octets: &[u8], len: usize) -> Option<(usize, Next)> {
    let header = octets.first_chunk::<IPV4_LEN>()?;
    let is_whole = u16_at(header, 6) & !(u16::from(DF) << 8) == 0;
    let is_inferable = usize::from(u16_at(header, 2)) == len && u16_at(header, 10) == v4_checksum(header);
    (header[0] == 0x45 && is_whole && is_inferable).then_some((IPV4_LEN, Next::Protocol(header[9])))
}

/// Returns the checksum that a decompressor infers, with its choice of the two zeros.
fn v4_checksum(header: &[u8]) -> u16 {
    let sum = folded_sum(&header[..10], 0);
    !folded_sum(&header[12..IPV4_LEN], u32::from(sum))
}

fn parse_v6(octets: &[u8], len: usize) -> Option<(usize, Next)> {
    let header = octets.first_chunk::<IPV6_LEN>()?;
    let is_inferable = header[0] >> 4 == 6 && usize::from(u16_at(header, 4)) + IPV6_LEN == len;
    is_inferable.then_some((IPV6_LEN, Next::Protocol(header[6])))
}

fn is_v4(header: &[u8]) -> bool {
    header.len() == IPV4_LEN
}

/// Type of Service or Traffic Class.
pub(in crate::profiles) fn tos(header: &[u8]) -> u8 {
    if is_v4(header) { header[1] } else { header[0] << 4 | header[1] >> 4 }
}

pub(in crate::profiles) fn set_tos(header: &mut [u8], tos: u8) {
    if is_v4(header) {
        header[1] = tos;
    } else {
        header[0] = 0x60 | tos >> 4;
        header[1] = tos << 4 | header[1] & 0x0f;
    }
}

const fn ttl_at(len: usize) -> usize {
    if len == IPV4_LEN { 8 } else { 7 }
}

/// Time to Live or Hop Limit.
pub(in crate::profiles) fn ttl(header: &[u8]) -> u8 {
    header[ttl_at(header.len())]
}

pub(in crate::profiles) fn set_ttl(header: &mut [u8], ttl: u8) {
    header[ttl_at(header.len())] = ttl;
}

/// Returns `true` if the "don't fragment" bit is set. IPv6 has none.
pub(in crate::profiles) fn df(header: &[u8]) -> bool {
    is_v4(header) && header[6] & DF != 0
}

pub(in crate::profiles) fn set_df(header: &mut [u8], df: bool) {
    if is_v4(header) {
        header[6] = if df { DF } else { 0 };
    }
}

/// The Identification; zero in IPv6.
pub(in crate::profiles) fn ip_id(header: &[u8]) -> u16 {
    if is_v4(header) { u16_at(header, 4) } else { 0 }
}

pub(in crate::profiles) fn set_ip_id(header: &mut [u8], ip_id: u16) {
    if is_v4(header) {
        put_u16(header, 4, ip_id);
    }
}

/// Returns `true` if two headers of one kind agree in what the static chain carries.
pub(in crate::profiles) fn same_static(a: &[u8], b: &[u8]) -> bool {
    match (a.first_chunk::<IPV6_LEN>(), b.first_chunk::<IPV6_LEN>()) {
        (Some(a), Some(b)) => {
            let flow_label = |header: &[u8]| u32_at(header, 0) & 0x000f_ffff;
            flow_label(a) == flow_label(b) && a[6] == b[6] && a[8..] == b[8..]
        }
        _ => a[9] == b[9] && u32_at(a, 12) == u32_at(b, 12) && u32_at(a, 16) == u32_at(b, 16),
    }
}

pub(in crate::profiles) fn write_static(header: &[u8], out: &mut Writer<'_>) {
    if is_v4(header) {
        out.bytes(&[0, header[9]]);
        out.bytes(&header[12..IPV4_LEN]);
    } else {
        write_flow_label(0x80, header, out);
        out.u8(header[6]);
        out.bytes(&header[8..IPV6_LEN]);
    }
}

/// Writes the flow label after `high`, in five bits if zero, else in 21.
fn write_flow_label(high: u8, header: &[u8], out: &mut Writer<'_>) {
    match u32_at(header, 0) & 0x000f_ffff {
        0 => out.u8(high),
        label => out.bytes(&(u32::from(high) << 16 | 0x10_0000 | label).to_be_bytes()[1..]),
    }
}

fn read_flow_label(high: u8, input: &mut Reader<'_>) -> Result<[u8; 3], DecompressError> {
    let first = input.u8()?;
    if first & 0xe0 != high || (first & 0x10 == 0 && first & 0x0f != 0) {
        return Err(RESERVED);
    }
    if first & 0x10 == 0 {
        return Ok([0; 3]);
    }
    let [middle, low] = input.array()?;
    Ok([first & 0x0f, middle, low])
}

pub(in crate::profiles) fn read_static(
    kind: Kind,
    input: &mut Reader<'_>,
    headers: &mut Vec<u8>,
) -> Result<Next, DecompressError> {
    let protocol = match kind {
        Kind::Ipv4 => read_static_v4(input, headers)?,
        _ => read_static_v6(input, headers)?,
    };
    Ok(Next::Protocol(protocol))
}

fn read_static_v4(input: &mut Reader<'_>, headers: &mut Vec<u8>) -> Result<u8, DecompressError> {
    if input.u8()? != 0 {
        return Err(RESERVED);
    }
    let protocol = input.u8()?;
    headers.extend_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, 0, protocol, 0, 0]);
    headers.extend_from_slice(&input.array::<8>()?);
    Ok(protocol)
}

fn read_static_v6(input: &mut Reader<'_>, headers: &mut Vec<u8>) -> Result<u8, DecompressError> {
    let [high, middle, low] = read_flow_label(0x80, input)?;
    let next = input.u8()?;
    headers.extend_from_slice(&[0x60, high, middle, low, 0, 0, next, 0]);
    headers.extend_from_slice(&input.array::<32>()?);
    Ok(next)
}

pub(in crate::profiles) fn write_dynamic(behavior: IpId, header: &[u8], out: &mut Writer<'_>) {
    if !is_v4(header) {
        out.bytes(&[tos(header), ttl(header)]);
        return;
    }
    out.bytes(&[u8::from(df(header)) << 2 | behavior as u8, tos(header), ttl(header)]);
    if behavior != IpId::Zero {
        out.u16(ip_id(header));
    }
}

pub(in crate::profiles) fn read_dynamic(
    input: &mut Reader<'_>,
    header: &mut [u8],
) -> Result<IpId, DecompressError> {
    if !is_v4(header) {
        set_tos(header, input.u8()?);
        set_ttl(header, input.u8()?);
        return Ok(IpId::Random);
    }
    let first = input.u8()?;
    if first & 0xf8 != 0 {
        return Err(RESERVED);
    }
    let behavior = IpId::from_bits(u32::from(first));
    set_df(header, first & 4 != 0);
    set_tos(header, input.u8()?);
    set_ttl(header, input.u8()?);
    read_whole_ip_id(behavior, input, header)?;
    Ok(behavior)
}

fn read_whole_ip_id(
    behavior: IpId,
    input: &mut Reader<'_>,
    header: &mut [u8],
) -> Result<(), DecompressError> {
    let ip_id = if behavior == IpId::Zero { 0 } else { input.u16()? };
    set_ip_id(header, ip_id);
    Ok(())
}

/// Returns `true` if the replicate item can derive `header` from `base`. It has no Hop Limit of IPv6.
pub(in crate::profiles) fn is_replicable(header: &[u8], base: &[u8]) -> bool {
    if is_v4(header) {
        same_static(header, base)
    } else {
        header[6] == base[6] && ttl(header) == ttl(base) && header[8..IPV6_LEN] == base[8..IPV6_LEN]
    }
}

pub(in crate::profiles) fn write_replicate(behavior: IpId, header: &[u8], base: &[u8], out: &mut Writer<'_>) {
    if !is_v4(header) {
        out.u8(tos(header));
        write_flow_label(0, header, out);
        return;
    }
    let ttl_changed = ttl(header) != ttl(base);
    out.u8((behavior as u8) << 2 | u8::from(ttl_changed) << 1 | u8::from(df(header)));
    out.u8(tos(header));
    if behavior != IpId::Zero {
        out.u16(ip_id(header));
    }
    if ttl_changed {
        out.u8(ttl(header));
    }
}

pub(in crate::profiles) fn read_replicate(
    base: IpId,
    input: &mut Reader<'_>,
    header: &mut [u8],
) -> Result<IpId, DecompressError> {
    if !is_v4(header) {
        set_tos(header, input.u8()?);
        let [high, middle, low] = read_flow_label(0, input)?;
        header[1] = header[1] & 0xf0 | high;
        header[2..4].copy_from_slice(&[middle, low]);
        return Ok(base);
    }
    let first = input.u8()?;
    if first & 0xf0 != 0 {
        return Err(RESERVED);
    }
    let behavior = IpId::from_bits(u32::from(first >> 2));
    set_df(header, first & 1 != 0);
    set_tos(header, input.u8()?);
    read_whole_ip_id(behavior, input, header)?;
    if first & 2 != 0 {
        set_ttl(header, input.u8()?);
    }
    Ok(behavior)
}

pub(in crate::profiles) fn write_inner_irregular(behavior: IpId, header: &[u8], out: &mut Writer<'_>) {
    if is_v4(header) && behavior == IpId::Random {
        out.u16(ip_id(header));
    }
}

pub(in crate::profiles) fn read_inner_irregular(
    behavior: IpId,
    input: &mut Reader<'_>,
    header: &mut [u8],
) -> Result<(), DecompressError> {
    match behavior {
        IpId::Random if is_v4(header) => set_ip_id(header, input.u16()?),
        IpId::Zero => set_ip_id(header, 0),
        _ => {}
    }
    Ok(())
}

pub(in crate::profiles) fn write_outer_irregular(
    behavior: IpId,
    header: &[u8],
    flags: Irregular,
    out: &mut Writer<'_>,
) {
    write_inner_irregular(behavior, header, out);
    if flags.ecn_used {
        out.u8(tos(header));
    }
    if flags.outer_ttl {
        out.u8(ttl(header));
    }
}

pub(in crate::profiles) fn read_outer_irregular(
    behavior: IpId,
    input: &mut Reader<'_>,
    header: &mut [u8],
    flags: Irregular,
) -> Result<(), DecompressError> {
    read_inner_irregular(behavior, input, header)?;
    if flags.ecn_used {
        set_tos(header, input.u8()?);
    }
    if flags.outer_ttl {
        set_ttl(header, input.u8()?);
    }
    Ok(())
}

/// Sets length and checksum; `rest_len` octets of the packet start with this header.
#[inline]
pub(in crate::profiles) fn infer(header: &mut [u8], rest_len: usize) -> Result<(), DecompressError> {
    let v4 = is_v4(header);
    let len = if v4 { rest_len } else { rest_len - IPV6_LEN };
    let len = u16::try_from(len).map_err(|_| DecompressError::TooLarge)?;
    if v4 {
        put_u16(header, 2, len);
        let checksum = v4_checksum(header);
        put_u16(header, 10, checksum);
    } else {
        put_u16(header, 4, len);
    }
    Ok(())
}
