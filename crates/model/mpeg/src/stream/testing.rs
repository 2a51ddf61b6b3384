//! Streams for tests, made without ffmpeg.

use bentpipe_wire::psi::{Elementary, Pat, Pmt, Programme};
use bentpipe_wire::section::Encapsulator;
use bentpipe_wire::ts::{self, Adaptation as Field, Method, Pcr, Pid, Repr};

use super::transport::{Bytes, TransportStream};

/// Ticks of one packet: 188 bytes at 5.076 Mbit/s.
pub const TICKS: u64 = 8000;

/// Returns a programme of `count` packets: tables, clock references, NULL packets, payload that counts.
pub fn stream(count: usize, base: u64) -> TransportStream {
    let pid = |number| Pid::new(number).expect("13 bits");
    let (video, map) = (pid(0x100), pid(0x1000));
    let programmes = vec![Programme { number: 1, map }];
    let pat = Pat { stream_id: 1, programmes, ..Pat::default() };
    let elementary = Elementary { kind: 2, pid: video, descriptors: Vec::new() };
    let pmt = Pmt { number: 1, version: 0, clock: video, descriptors: Vec::new(), streams: vec![elementary] };
    let mut bytes = Vec::new();
    Encapsulator::new(Pid::PAT, Method::Padding).push(&pat.to_section(), &mut bytes);
    Encapsulator::new(map, Method::Padding).push(&pmt.to_section(), &mut bytes);
    let mut packets: Vec<Bytes> = bytes.as_chunks().0.to_vec();
    let mut continuity = 0;
    while packets.len() < count {
        let n = packets.len();
        if n % 7 == 6 && !n.is_multiple_of(10) {
            packets.push(ts::NULL_PACKET);
            continue;
        }
        let pcr = n.is_multiple_of(10).then(|| Pcr::new(base + n as u64 * TICKS));
        let adaptation = pcr.map(|pcr| Field { len_bytes: 7, pcr: Some(pcr), ..Field::default() });
        let repr = Repr { adaptation, ..Repr::new(video, continuity) };
        continuity = (continuity + 1) % 16;
        let mut packet: Bytes = std::array::from_fn(|i| (i * n) as u8);
        repr.emit(&mut packet);
        packets.push(packet);
    }
    TransportStream::read(&packets.concat()).expect("a stream")
}
