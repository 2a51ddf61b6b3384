//! TCP header: fields, and items in each chain (RFC 6846 8.2, encoding method `tcp`).

use super::ip::{put_u16, put_u32, u16_at, u32_at};
use crate::framework::error::DecompressError;
use crate::framework::lsb;
use crate::framework::octets::{Reader, Writer};

/// Octets of the header without options.
pub(super) const FIXED_LEN: usize = 20;

pub(super) const URG: u8 = 0x20;
pub(super) const ACK: u8 = 0x10;
pub(super) const PSH: u8 = 0x08;
/// RST, SYN and FIN.
pub(super) const RSF: u8 = 0x07;
/// CWR and ECE.
pub(super) const ECN: u8 = 0xc0;

const RESERVED: DecompressError = DecompressError::Malformed("TCP: reserved bits of a TCP item");

/// Control fields of a header, which none of its octets carries (RFC 6846 6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Control {
    /// Master sequence number.
    pub(super) msn: u16,
    pub(super) ack_stride: u16,
    pub(super) ecn_used: bool,
}

/// Returns `true` if formats other than `co_common` can carry the flags.
pub(super) const fn is_ordinary(flags: u8) -> bool {
    flags & (URG | ACK) == ACK
}

/// The flags of RST, SYN and FIN that two bits can say.
pub(super) const fn rsf_index(flags: u8) -> Option<u32> {
    match flags & RSF {
        0 => Some(0),
        4 => Some(1),
        2 => Some(2),
        1 => Some(3),
        _ => None,
    }
}

pub(super) const fn rsf_flags(index: u32) -> u8 {
    match index {
        1 => 4,
        2 => 2,
        3 => 1,
        _ => 0,
    }
}

pub(super) fn seq(tcp: &[u8]) -> u32 {
    u32_at(tcp, 4)
}

pub(super) fn set_seq(tcp: &mut [u8], seq: u32) {
    put_u32(tcp, 4, seq);
}

pub(super) fn ack(tcp: &[u8]) -> u32 {
    u32_at(tcp, 8)
}

pub(super) fn set_ack(tcp: &mut [u8], ack: u32) {
    put_u32(tcp, 8, ack);
}

pub(super) fn reserved(tcp: &[u8]) -> u8 {
    tcp[12] & 0x0f
}

pub(super) fn set_reserved(tcp: &mut [u8], reserved: u8) {
    tcp[12] = tcp[12] & 0xf0 | reserved & 0x0f;
}

pub(super) fn set_offset(tcp: &mut [u8], options_len: usize) {
    tcp[12] = ((FIXED_LEN + options_len) * 4) as u8 | reserved(tcp);
}

pub(super) fn flags(tcp: &[u8]) -> u8 {
    tcp[13]
}

pub(super) fn set_flags(tcp: &mut [u8], flags: u8) {
    tcp[13] = flags;
}

pub(super) fn window(tcp: &[u8]) -> u16 {
    u16_at(tcp, 14)
}

pub(super) fn set_window(tcp: &mut [u8], window: u16) {
    put_u16(tcp, 14, window);
}

fn set_checksum(tcp: &mut [u8], checksum: u16) {
    put_u16(tcp, 16, checksum);
}

pub(super) fn urgent(tcp: &[u8]) -> u16 {
    u16_at(tcp, 18)
}

pub(super) fn set_urgent(tcp: &mut [u8], urgent: u16) {
    put_u16(tcp, 18, urgent);
}

/// Writes the dynamic item but for the options.
pub(super) fn write_dynamic(tcp: &[u8], control: Control, out: &mut Writer<'_>) {
    let (ack_zero, urgent_zero) = (ack(tcp) == 0, urgent(tcp) == 0);
    let flags = [control.ecn_used, control.ack_stride != 0, ack_zero, urgent_zero];
    let flags = flags.iter().fold(0, |bits, &flag| bits << 1 | u8::from(flag));
    out.bytes(&[flags << 4 | reserved(tcp), tcp[13]]);
    out.u16(control.msn);
    out.bytes(&tcp[4..8]);
    if !ack_zero {
        out.bytes(&tcp[8..12]);
    }
    out.bytes(&tcp[14..18]);
    if !urgent_zero {
        out.bytes(&tcp[18..20]);
    }
    if control.ack_stride != 0 {
        out.u16(control.ack_stride);
    }
}

/// Reads the dynamic item but for the options. `control` is the context's, or zero in a new one.
pub(super) fn read_dynamic(
    input: &mut Reader<'_>,
    tcp: &mut [u8],
    mut control: Control,
) -> Result<Control, DecompressError> {
    let [first, flags] = input.array()?;
    set_reserved(tcp, first);
    set_flags(tcp, flags);
    control.ecn_used = first & 0x80 != 0;
    control.msn = input.u16()?;
    set_seq(tcp, input.u32()?);
    set_ack(tcp, if first & 0x20 != 0 { 0 } else { input.u32()? });
    set_window(tcp, input.u16()?);
    set_checksum(tcp, input.u16()?);
    set_urgent(tcp, if first & 0x10 != 0 { 0 } else { input.u16()? });
    if first & 0x40 != 0 {
        control.ack_stride = input.u16()?;
    }
    Ok(control)
}

const PORT_LSB_P: u32 = 64;

/// Encoding of a port relative to that of the base context.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PortForm {
    Same = 0,
    Lsb = 1,
    Whole = 2,
}

fn port_form(port: u16, base: u16) -> PortForm {
    if port == base {
        PortForm::Same
    } else if lsb::fits(u32::from(base), u32::from(port), 8, PORT_LSB_P, 0xffff) {
        PortForm::Lsb
    } else {
        PortForm::Whole
    }
}

fn write_port(port: u16, form: PortForm, out: &mut Writer<'_>) {
    match form {
        PortForm::Same => {}
        PortForm::Lsb => out.u8(port as u8),
        PortForm::Whole => out.u16(port),
    }
}

fn read_port(base: u16, form: u8, input: &mut Reader<'_>) -> Result<u16, DecompressError> {
    match form {
        0 => Ok(base),
        1 => Ok(lsb::decode(u32::from(base), u32::from(input.u8()?), 8, PORT_LSB_P) as u16),
        2 => Ok(input.u16()?),
        _ => Err(RESERVED),
    }
}

/// Returns `true` if the replicate item can make `tcp`.
pub(super) const fn is_replicable(tcp: &[u8]) -> bool {
    rsf_index(tcp[13]).is_some()
}

/// Returns `true` if the replicate item can make `tcp` of `base` without ECN in it.
pub(super) fn same_ecn(tcp: &[u8], base: &[u8]) -> bool {
    reserved(tcp) == reserved(base) && flags(tcp) & ECN == flags(base) & ECN
}

/// Changing fields of a base that both ends are known to agree on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stability {
    pub(super) window: bool,
    pub(super) ack: bool,
}

/// Presence of the fields of a replicate item.
struct Replicate {
    source: PortForm,
    destination: PortForm,
    window: bool,
    urgent: bool,
    ack: bool,
}

impl Replicate {
    fn new(tcp: &[u8], base: &[u8], stable: Stability) -> Self {
        Self {
            source: port_form(u16_at(tcp, 0), u16_at(base, 0)),
            destination: port_form(u16_at(tcp, 2), u16_at(base, 2)),
            window: window(tcp) != window(base) || !stable.window,
            urgent: urgent(tcp) != urgent(base),
            ack: ack(tcp) != ack(base) || !stable.ack,
        }
    }
}

/// Octets of the replicate item that depend on the base.
pub(super) fn replicate_len(tcp: &[u8], base: &[u8], stable: Stability) -> usize {
    let item = Replicate::new(tcp, base, stable);
    let ecn = usize::from(!same_ecn(tcp, base));
    item.source as usize
        + item.destination as usize
        + 2 * usize::from(item.window)
        + 2 * usize::from(item.urgent)
        + 4 * usize::from(item.ack)
        + ecn
}

/// Writes the replicate item, before its list of options, which is present. The acknowledgement stride is not sent.
pub(super) fn write_replicate(
    tcp: &[u8],
    base: &[u8],
    control: Control,
    stable: Stability,
    out: &mut Writer<'_>,
) {
    let item = Replicate::new(tcp, base, stable);
    let presence = u8::from(item.window) << 6 | 1 << 5;
    out.u8(presence | (item.source as u8) << 3 | (item.destination as u8) << 1);
    let rsf = rsf_index(flags(tcp)).unwrap_or_default() as u8;
    let flag_bits = (flags(tcp) >> 3 & 7) << 3 | rsf << 1 | u8::from(control.ecn_used);
    out.u8(u8::from(item.ack) << 7 | u8::from(item.urgent) << 6 | flag_bits);
    out.u16(control.msn);
    out.bytes(&tcp[4..8]);
    write_port(u16_at(tcp, 0), item.source, out);
    write_port(u16_at(tcp, 2), item.destination, out);
    for (present, range) in [(item.window, 14..16), (item.urgent, 18..20), (item.ack, 8..12)] {
        if present {
            out.bytes(&tcp[range]);
        }
    }
    if control.ecn_used {
        out.u8(reserved(tcp) << 2 | flags(tcp) >> 6);
    }
    out.bytes(&tcp[16..18]);
}

/// Reads the replicate item over the base's header. Returns `true` if a list follows.
pub(super) fn read_replicate(
    input: &mut Reader<'_>,
    tcp: &mut [u8],
    control: &mut Control,
) -> Result<bool, DecompressError> {
    let [first, second] = input.array()?;
    if first & 0x80 != 0 {
        return Err(RESERVED);
    }
    control.ecn_used = second & 1 != 0;
    control.msn = input.u16()?;
    set_flags(tcp, flags(tcp) & ECN | (second >> 3 & 7) << 3 | rsf_flags(u32::from(second >> 1 & 3)));
    set_seq(tcp, input.u32()?);
    let source = read_port(u16_at(tcp, 0), first >> 3 & 3, input)?;
    put_u16(tcp, 0, source);
    let destination = read_port(u16_at(tcp, 2), first >> 1 & 3, input)?;
    put_u16(tcp, 2, destination);
    if first & 0x40 != 0 {
        set_window(tcp, input.u16()?);
    }
    if second & 0x40 != 0 {
        set_urgent(tcp, input.u16()?);
    }
    if second & 0x80 != 0 {
        set_ack(tcp, input.u32()?);
    }
    if control.ecn_used {
        let octet = input.u8()?;
        set_reserved(tcp, octet >> 2);
        set_flags(tcp, flags(tcp) & !ECN | octet << 6);
    }
    set_checksum(tcp, input.u16()?);
    if first & 1 != 0 {
        control.ack_stride = input.u16()?;
    }
    Ok(first & 0x20 != 0)
}

/// Writes the irregular item; `inner_ecn` is the innermost IP header's.
#[inline]
pub(super) fn write_irregular(tcp: &[u8], ecn_used: bool, inner_ecn: u8, out: &mut Writer<'_>) {
    if ecn_used {
        out.u8(inner_ecn << 6 | reserved(tcp) << 2 | flags(tcp) >> 6);
    }
    out.bytes(&tcp[16..18]);
}

/// Reads the irregular item and returns the innermost ECN bits if it has them.
#[inline]
pub(super) fn read_irregular(
    input: &mut Reader<'_>,
    tcp: &mut [u8],
    ecn_used: bool,
) -> Result<Option<u8>, DecompressError> {
    let mut inner_ecn = None;
    if ecn_used {
        let octet = input.u8()?;
        inner_ecn = Some(octet >> 6);
        set_reserved(tcp, octet >> 2);
        set_flags(tcp, flags(tcp) & !ECN | octet << 6);
    }
    set_checksum(tcp, input.u16()?);
    Ok(inner_ecn)
}
