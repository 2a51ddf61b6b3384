//! Valid beginnings of captures whose writing was cut, as on a full disk.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};

/// Length of the header of a capture.
pub const HEADER_LEN: usize = 24;
/// Length of the header of a record.
pub const RECORD_HEADER_LEN: usize = 16;

/// Returns the bytes of a record that follow its header.
fn kept(header: &[u8; RECORD_HEADER_LEN]) -> u64 {
    u32::from_be_bytes([header[8], header[9], header[10], header[11]]).into()
}

/// Returns the length of the whole records in the first `len` bytes.
pub(crate) fn whole_records(records: &[u8], len: usize) -> usize {
    let mut at = 0;
    while let Some(header) = records[at..].first_chunk() {
        let end = at + RECORD_HEADER_LEN + kept(header) as usize;
        if end > len {
            break;
        }
        at = end;
    }
    at
}

/// Bytes at the end of a capture that give way to its run's results.
pub(crate) const ROOM: u64 = 4 << 20;

/// Returns the length of a capture's header and whole records, without `room` or half.
///
/// It is 0 if the header is not whole.
pub(crate) fn whole_capture(file: &File, room: u64) -> io::Result<u64> {
    let len = file.metadata()?.len();
    let len = len - room.min(len / 2);
    let mut reader = BufReader::new(file);
    reader.rewind()?;
    let mut at = HEADER_LEN as u64;
    if len < at {
        return Ok(0);
    }
    reader.seek_relative(at as i64)?;
    while at + RECORD_HEADER_LEN as u64 <= len {
        let mut header = [0; RECORD_HEADER_LEN];
        reader.read_exact(&mut header)?;
        let end = at + RECORD_HEADER_LEN as u64 + kept(&header);
        if end > len {
            break;
        }
        reader.seek_relative(kept(&header) as i64)?;
        at = end;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use bentpipe_wire::pcap::{LinkType, Writer};

    use super::*;
    use crate::WholeFile;

    #[test]
    fn a_cut_capture_keeps_its_whole_packets() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut writer = Writer::with_snap_len(Vec::new(), LinkType::RAW, 1500).expect("a header");
        for n in 0..5 {
            writer.write(n, &[0x45; 100], 20).expect("memory");
        }
        let bytes = writer.into_inner();
        let record = RECORD_HEADER_LEN + 120;
        assert_eq!(bytes.len(), HEADER_LEN + 5 * record);
        for len in 0..=bytes.len() {
            let path = folder.path().join("x.pcap");
            let mut file = WholeFile::create(&path).expect("created");
            file.write_all(&bytes[..len]).and_then(|()| file.flush()).expect("written");
            // Of a failed write the rest waits in the buffer.
            file.write_all(b"rest").expect("buffered");
            file.salvage(|file| whole_capture(file, 0)).expect("kept");
            let records = len.saturating_sub(HEADER_LEN) / record;
            let expected = if len < HEADER_LEN { 0 } else { HEADER_LEN + records * record };
            assert_eq!(std::fs::read(&path).expect("there"), bytes[..expected], "cut at {len}");
            let body = &bytes[HEADER_LEN..];
            assert_eq!(whole_records(body, len.min(body.len())), len.min(body.len()) / record * record);
        }
    }
}
