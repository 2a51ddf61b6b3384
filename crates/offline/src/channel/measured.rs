//! Loss traces from files and captures.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;

use bentpipe_assemble::traces;
use bentpipe_net::channel::Trace;
use bentpipe_net::channel::loss::{Sequence, SequenceField};
use bentpipe_record::write_whole;
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::{link, pcap, udp};

/// Reads a trace file; a capture is refused with the option that reads it.
pub(crate) fn trace(path: &Path) -> Result<Trace, String> {
    let magic = {
        use std::io::Read;
        let mut first = [0; 4];
        let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let _ = file.take(4).read(&mut first);
        u32::from_be_bytes(first)
    };
    if matches!(magic, 0xa1b2_c3d4 | 0xd4c3_b2a1 | 0xa1b2_3c4d | 0x4d3c_b2a1 | 0x0a0d_0d0a) {
        let shown = path.display();
        return Err(format!(
            "{shown}: a capture: expected a trace, or --sequence to say where its numbers are"
        ));
    }
    traces::read(path)
}

/// Finds the packets missing in a capture, and describes the capture.
pub(crate) fn of_capture(
    path: &Path,
    numbers: SequenceField,
    port: Option<u16>,
) -> Result<(Trace, String), String> {
    let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(|error| said(&error))?;
    let mut reader = pcap::Reader::new(BufReader::new(file)).map_err(|error| said(&error))?;
    let mut sequence = Sequence::new(numbers.bits());
    let (mut records, mut packets) = (0_u64, 0_u64);
    while let Some(record) = reader.next_record().map_err(|error| said(&error))? {
        records += 1;
        let Some(number) = number(&record, numbers, port) else { continue };
        packets += 1;
        sequence.note(number).map_err(|problem| said(&format!("record {records}: {problem}")))?;
    }
    let nothing = || said(&format!("none of {records} records is a packet of the stream"));
    let trace = sequence.trace().ok_or_else(nothing)?;
    let about = format!(
        "{}: {packets} packets of {records} records, {} of them late, {} twice",
        path.display(),
        sequence.late,
        sequence.duplicates
    );
    Ok((trace, about))
}

/// Returns the sequence number of a record of the stream.
fn number(record: &pcap::Record<'_>, numbers: SequenceField, port: Option<u16>) -> Option<u64> {
    let network = link::network(record.link_type, record.bytes).ok()?;
    let packet = ip::Packet::new_elided(network.bytes, usize::from(u16::MAX)).ok()?;
    let upper = packet.upper().ok()?;
    if upper.is_later_fragment {
        return None;
    }
    let is_udp = upper.protocol == Protocol::UDP;
    let datagram =
        is_udp.then(|| udp::Datagram::new_elided(upper.bytes, usize::from(u16::MAX)).ok()).flatten();
    if port.is_some() && datagram.as_ref().map(udp::Datagram::dst_port) != port {
        return None;
    }
    let Some((offset, bytes)) = numbers.place() else {
        let ip::Packet::V4(packet) = &packet else { return None };
        return Some(u64::from(packet.ident()));
    };
    let payload = upper.bytes.get(udp::HEADER_LEN..).filter(|_| datagram.is_some())?;
    let field = payload.get(offset..offset + bytes)?;
    Some(field.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Writes a file.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    write_whole(path, |file| file.write_all(text.as_bytes())).map_err(|error| error.to_string())
}
