//! Share of a carrier that is UDP payload, by ULE, MPE and GSE.
//!
//! The publication has ULE alone.

use std::time::Duration;

use bentpipe_rohc::{Compressor, Profile};
use bentpipe_wire::bbframe::{FrameSize, HEADER_LEN, Modcod};
use bentpipe_wire::ethernet::{EtherType, MacAddr};
use bentpipe_wire::ts::{Method, Pid};
use bentpipe_wire::{gse, mpe, ule};

use super::headers::{self, INTERVAL, IRS};
use super::traffic::Traffic;

/// Encapsulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carriage {
    Ule,
    Mpe,
    Gse,
}

/// The receiver: each of the three names it, in as many bytes.
const RECEIVER: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// DVB-S2's QPSK 3/4, whose frames carry about as much as DVB-S at that code rate.
const MODCOD: &str = "QPSK 3/4";
/// Packets that are carried: two refreshes.
const PACKETS: usize = 2 * (INTERVAL as usize + IRS as usize);

/// The share of the carrier's bytes that is UDP payload, everything packed. Headers of TS packets and of baseband frames
/// count, what is below them does not.
///
/// # Errors
/// If a packet is too long for MPE.
pub(super) fn efficiency(carriage: Carriage, traffic: &Traffic, compressed: bool) -> Result<f64, String> {
    let packets = packets(traffic, compressed);
    let on_carrier = match carriage {
        Carriage::Ule => ule_len(&packets)?,
        Carriage::Mpe => mpe_len(&packets)?,
        Carriage::Gse => gse_len(&packets)?,
    };
    Ok((traffic.payload_len * packets.len()) as f64 / on_carrier as f64)
}

/// EtherTypes and packets, as they are or compressed by the profile for UDP.
fn packets(traffic: &Traffic, compressed: bool) -> Vec<(EtherType, Vec<u8>)> {
    let mut compressor = Compressor::new(headers::config(Profile::Udp, INTERVAL, IRS));
    let own = if traffic.ip.header_len() == 20 { EtherType::IPV4 } else { EtherType::IPV6 };
    let one = |index| {
        let packet = traffic.packet(index);
        if !compressed {
            return (own, packet);
        }
        let mut out = Vec::new();
        compressor.compress(Duration::ZERO, &packet, &mut out).expect("neither empty nor too long");
        (EtherType::ROHC, out)
    };
    (0..PACKETS).map(one).collect()
}

fn ule_len(packets: &[(EtherType, Vec<u8>)]) -> Result<usize, String> {
    let mut encapsulator = ule::Encapsulator::new(pid(), Method::Packing);
    let mut out = Vec::new();
    for (kind, packet) in packets {
        let repr = ule::Repr::new(ule::Type(kind.0)).to(RECEIVER);
        encapsulator.push(&repr, packet, &mut out).map_err(|error| error.to_string())?;
    }
    encapsulator.flush(&mut out);
    Ok(out.len())
}

/// Returns the length of MPE sections. Only IPv4 has no LLC/SNAP header (EN 301 192, 7.1).
fn mpe_len(packets: &[(EtherType, Vec<u8>)]) -> Result<usize, String> {
    let mut encapsulator = mpe::Encapsulator::new(pid(), Method::Packing);
    let mut out = Vec::new();
    for (kind, packet) in packets {
        let ethertype = Some(*kind).filter(|kind| *kind != EtherType::IPV4);
        let repr = mpe::Repr { dst: RECEIVER, ethertype };
        encapsulator.push(&repr, packet, &mut out).map_err(|error| error.to_string())?;
    }
    encapsulator.flush(&mut out);
    Ok(out.len())
}

/// Returns the length of BBFRAMEs with their headers, without free space in the last one.
fn gse_len(packets: &[(EtherType, Vec<u8>)]) -> Result<usize, String> {
    let modcod: Modcod = MODCOD.parse().map_err(|_| format!("no MODCOD {MODCOD}"))?;
    let field_len = modcod.data_field_len(FrameSize::Normal).ok_or("no such frame")?;
    let mut encapsulator = gse::Encapsulator::new();
    for (kind, packet) in packets {
        let repr = gse::Repr::new(ule::Type(kind.0), gse::Label::Six(RECEIVER));
        encapsulator.push(&repr, packet).map_err(|error| error.to_string())?;
    }
    let (mut len, mut out) = (0, Vec::new());
    while !encapsulator.is_empty() {
        out.clear();
        let filled = encapsulator.fill(field_len, &mut out);
        len += HEADER_LEN + if encapsulator.is_empty() { filled } else { field_len };
    }
    Ok(len)
}

fn pid() -> Pid {
    Pid::new(0x100).expect("a PID for data")
}

#[cfg(test)]
mod tests {
    use super::super::traffic::Ip;
    use super::*;

    /// Against the sums of header lengths: SNDU 14, section 24 with LLC/SNAP, GSE packet 10 bytes, and a pointer for each
    /// TS packet in which a unit starts.
    #[test]
    fn shares_are_those_of_the_headers() {
        let traffic = Traffic::udp(Ip::V6, 100);
        let share = |carriage| efficiency(carriage, &traffic, false).expect("fits");
        let packed = |unit: f64| 100.0 / (unit * 188.0 / 183.0);
        assert!((share(Carriage::Ule) - packed(148.0 + 14.0)).abs() < 0.002, "{}", share(Carriage::Ule));
        assert!((share(Carriage::Mpe) - packed(148.0 + 24.0)).abs() < 0.002, "{}", share(Carriage::Mpe));
        let gse = 100.0 / ((148.0 + 10.0) * 6051.0 / 6041.0);
        assert!((share(Carriage::Gse) - gse).abs() < 0.005, "{} not {gse}", share(Carriage::Gse));
    }
}
