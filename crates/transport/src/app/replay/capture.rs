//! Packets of a capture file.

use std::collections::BTreeSet;
use std::io::BufReader;
use std::net::IpAddr;

use bentpipe_site::{Opened, Recorded};
use bentpipe_units::{Bytes, Span};
use bentpipe_wire::{ip, link, pcap};

/// The most bytes of packets that a replay holds, repetitions counted.
const MAX_BYTES: usize = 256 << 20;

/// IP packets of a capture with their times after the first, and their destinations.
pub(super) struct Captured {
    pub(super) packets: Vec<(Span, Vec<u8>)>,
    pub(super) destinations: BTreeSet<IpAddr>,
}

/// Reads a capture, whose packets are to be sent `times` times.
///
/// # Errors
/// Returns an error that begins with the path if the file is not a capture, or has no IP packets or too many.
pub(super) fn read(file: Opened, times: u32) -> Result<Captured, String> {
    let Opened { shown, bytes } = file;
    let once = packets(BufReader::new(bytes)).map_err(|problem| format!("{shown}: {problem}"))?;
    let bytes: usize = once.iter().map(|(_, packet)| packet.len()).sum();
    if once.is_empty() {
        return Err(format!("{shown}: no IP packet in it"));
    }
    if bytes.saturating_mul(times as usize) > MAX_BYTES {
        return Err(format!("{shown}: more than {MAX_BYTES} bytes of packets, repetitions counted"));
    }
    let destinations = once.iter().filter_map(|(_, packet)| destination(packet)).collect();
    Ok(Captured { packets: repeat(once, times), destinations })
}

/// Returns number, bytes and length of what a replay of a capture sends.
///
/// # Errors
/// Returns an error as [`read`] does.
pub(super) fn recorded(file: Opened, times: u32) -> Result<Recorded, String> {
    let Opened { shown, bytes } = file;
    let (mut packets, mut sum, mut lasts) = (0, 0, Span::ZERO);
    let count = |at, packet: Vec<u8>| {
        (packets, sum, lasts) = (packets + 1, sum + packet.len() as u64, at);
    };
    each(BufReader::new(bytes), count).map_err(|problem| format!("{shown}: {problem}"))?;
    let (times, spacing) = (u64::from(times), spacing(lasts, packets));
    let bytes = Bytes::new(sum * times);
    Ok(Recorded { packets: packets * times, bytes, lasts: (lasts + spacing) * times - spacing })
}

fn packets(file: impl std::io::Read) -> Result<Vec<(Span, Vec<u8>)>, String> {
    let mut packets = Vec::new();
    each(file, |at, packet| packets.push((at, packet)))?;
    Ok(packets)
}

/// Calls `visit` with each IP packet and its time after the first.
fn each(file: impl std::io::Read, mut visit: impl FnMut(Span, Vec<u8>)) -> Result<(), String> {
    let mut reader = pcap::Reader::new(file).map_err(|error| error.to_string())?;
    let (mut first, mut last, mut bytes) = (None, 0, 0);
    while let Some(record) = reader.next_record().map_err(|error| error.to_string())? {
        // Captures of several interfaces may be a little out of order; none is sent before the one in front of it.
        let time_ns = record.time_ns.unwrap_or(last).max(last);
        let Some(packet) = whole(&record) else { continue };
        last = time_ns;
        let start = *first.get_or_insert(time_ns);
        bytes += packet.len();
        if bytes > MAX_BYTES {
            return Err(format!("more than {MAX_BYTES} bytes of packets"));
        }
        visit(Span::from_nanos(time_ns - start), packet);
    }
    Ok(())
}

/// Returns the IP packet of a record, with zeros for truncated bytes. `None` if it is not IP.
fn whole(record: &pcap::Record<'_>) -> Option<Vec<u8>> {
    let network = link::network(record.link_type, record.bytes).ok()?;
    let packet = ip::Packet::new_elided(network.bytes, usize::from(u16::MAX)).ok()?;
    let len = packet.total_len();
    let mut bytes = network.bytes[..network.bytes.len().min(len)].to_vec();
    bytes.resize(len, 0);
    Some(bytes)
}

fn destination(packet: &[u8]) -> Option<IpAddr> {
    Some(ip::Packet::new_checked(packet).ok()?.dst())
}

/// The packets `times` times, each time one mean spacing after the last.
fn repeat(once: Vec<(Span, Vec<u8>)>, times: u32) -> Vec<(Span, Vec<u8>)> {
    let length = once.last().map_or(Span::ZERO, |(at, _)| *at);
    let spacing = spacing(length, once.len() as u64);
    let shifted =
        |n: u64| once.iter().map(move |(at, packet)| ((length + spacing) * n + *at, packet.clone()));
    (0..u64::from(times)).flat_map(shifted).collect()
}

/// Returns the mean time between packets of which the last is `length` after the first.
fn spacing(length: Span, packets: u64) -> Span {
    length / packets.saturating_sub(1).max(1)
}
