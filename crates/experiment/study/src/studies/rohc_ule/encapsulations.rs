//! Share of a carrier that is UDP payload, by ULE, MPE and GSE.
//!
//! The publication has ULE alone.

use std::time::Duration;

use bentpipe_rohc::{Compressor, Profile};
use bentpipe_wire::bbframe::{FrameSize, Framer, HEADER_LEN, Modcod, Repr};
use bentpipe_wire::ethernet::{EtherType, MacAddr};
use bentpipe_wire::ts::{Method, Pid};
use bentpipe_wire::{gse, mpe, ule};

use super::headers::{self, INTERVAL, IRS};
use super::traffic::{Ip, Traffic};

/// Encapsulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carriage {
    Ule,
    Mpe,
    Gse,
    /// ULE in a transport stream in BBFRAMEs.
    UleInFrames,
    /// MPE in a transport stream in BBFRAMEs.
    MpeInFrames,
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
        Carriage::Ule => ule(&packets)?.len(),
        Carriage::Mpe => mpe(&packets)?.len(),
        Carriage::Gse => gse_len(&packets)?,
        Carriage::UleInFrames => framed_len(&ule(&packets)?)?,
        Carriage::MpeInFrames => framed_len(&mpe(&packets)?)?,
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

/// Returns the TS packets of ULE.
fn ule(packets: &[(EtherType, Vec<u8>)]) -> Result<Vec<u8>, String> {
    let mut encapsulator = ule::Encapsulator::new(pid(), Method::Packing);
    let mut out = Vec::new();
    for (kind, packet) in packets {
        let repr = ule::Repr::new(ule::Type(kind.0)).to(RECEIVER);
        encapsulator.push(&repr, packet, &mut out).map_err(|error| error.to_string())?;
    }
    encapsulator.flush(&mut out);
    Ok(out)
}

/// Returns the TS packets of MPE. Only IPv4 has no LLC/SNAP header (EN 301 192, 7.1).
fn mpe(packets: &[(EtherType, Vec<u8>)]) -> Result<Vec<u8>, String> {
    let mut encapsulator = mpe::Encapsulator::new(pid(), Method::Packing);
    let mut out = Vec::new();
    for (kind, packet) in packets {
        let ethertype = Some(*kind).filter(|kind| *kind != EtherType::IPV4);
        let repr = mpe::Repr { dst: RECEIVER, ethertype };
        encapsulator.push(&repr, packet, &mut out).map_err(|error| error.to_string())?;
    }
    encapsulator.flush(&mut out);
    Ok(out)
}

/// Returns the length of BBFRAMEs with their headers, without free space in the last one.
fn gse_len(packets: &[(EtherType, Vec<u8>)]) -> Result<usize, String> {
    let field_len = field_len()?;
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

/// Returns the length of the BBFRAMEs of a transport stream, headers included.
///
/// Free space in the last one is left out.
fn framed_len(stream: &[u8]) -> Result<usize, String> {
    Ok(frames(stream, field_len()?).iter().map(|(_, field)| HEADER_LEN + field.len()).sum())
}

/// Returns the headers and data fields of a transport stream.
fn frames(stream: &[u8], field_len: usize) -> Vec<(Repr, Vec<u8>)> {
    let (mut framer, mut frames) = (Framer::new(), Vec::new());
    stream.as_chunks().0.iter().for_each(|packet| framer.push(packet));
    while framer.waiting_len() > 0 {
        let (len, mut field) = (field_len.min(framer.waiting_len()), Vec::new());
        frames.push((framer.fill(len, &mut field), field));
    }
    frames
}

fn field_len() -> Result<usize, String> {
    let modcod: Modcod = MODCOD.parse().map_err(|_| format!("no MODCOD {MODCOD}"))?;
    Ok(modcod.data_field_len(FrameSize::Normal).ok_or("no such frame")?)
}

/// Returns the greatest ratio of a carriage's share to that of GSE over the payloads.
pub(super) fn over_gse(carriage: Carriage, ip: Ip, payloads: &[usize]) -> Result<f64, String> {
    let mut greatest = 0.0_f64;
    for payload in payloads {
        let traffic = Traffic::udp(ip, *payload);
        let [own, gse] = [carriage, Carriage::Gse].map(|carriage| efficiency(carriage, &traffic, false));
        greatest = greatest.max(own? / gse?);
    }
    Ok(greatest)
}

fn pid() -> Pid {
    Pid::new(0x100).expect("a PID for data")
}

#[cfg(test)]
mod tests {
    use bentpipe_wire::bbframe::Deframer;

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

    /// The same TS packets come out of the frames, and each frame costs its header.
    #[test]
    fn transport_streams_pass_through_frames_unchanged() {
        let packets = packets(&Traffic::udp(Ip::V6, 100), true);
        for stream in [ule(&packets).expect("fits"), mpe(&packets).expect("fits")] {
            let (mut deframer, mut out) = (Deframer::new(), Vec::new());
            for (repr, field) in frames(&stream, 6041 - HEADER_LEN) {
                deframer.push(&repr, &field, |packet| out.extend_from_slice(packet));
            }
            assert!(out == stream, "{} bytes of {}", out.len(), stream.len());
            let len = framed_len(&stream).expect("a MODCOD");
            assert_eq!(
                len,
                stream.len() + HEADER_LEN * stream.len().div_ceil(field_len().expect("a MODCOD"))
            );
        }
    }
}
