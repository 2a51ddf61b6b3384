//! Checks on `bentpipe-intake`: what is read is used or left out, whatever comes, and in bounded memory.

use bentpipe_intake::{LeftOut, MAX_STREAMS, Select, Sink, Streams, Unit};
use bentpipe_wire::pcap::Reader;
use bentpipe_wire::ts::SYNC;

/// Decoder or machine under test.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[("streams", fuzz_streams)];

/// Counts of what came out.
#[derive(Default)]
struct Counts {
    units: u64,
    records: u64,
}

impl Sink for Counts {
    fn unit(&mut self, stream: usize, _: Option<u64>, unit: Unit<'_>) {
        assert!(stream < MAX_STREAMS);
        self.units += 1;
        if let Unit::Ts(packet) = unit {
            assert_eq!(packet[0], SYNC);
        }
    }

    fn left_out(&mut self, left_out: &LeftOut<'_>) {
        assert!(left_out.number > 0 && !left_out.detail.is_empty());
        self.records += 1;
    }
}

/// Passes a capture, or with an odd first byte a file in pieces of the length of the second, to the intake of streams.
pub fn fuzz_streams(data: &[u8]) {
    let [kind, len, rest @ ..] = data else { return };
    let (mut counts, mut streams) = (Counts::default(), Streams::new(Select::default()));
    if kind & 1 == 1 {
        let len = usize::from(*len) + 1;
        rest.chunks(len).for_each(|piece| streams.bytes(piece, &mut counts));
    } else if let Ok(mut reader) = Reader::new(rest) {
        streams.learn(rest);
        while let Ok(Some(record)) = reader.next_record() {
            streams.record(&record, &mut counts);
        }
    }
    streams.finish(&mut counts);
    let (account, left_out) = (streams.account(), streams.account().left_out_sum());
    assert_eq!(account.used.records + left_out.records, account.read.records, "{account}");
    assert_eq!(account.used.bytes + left_out.bytes, account.read.bytes, "{account}");
    assert_eq!(counts.records, left_out.records);
    assert!(counts.units * 188 <= account.read.bytes + 10 * account.read.records * 188);
    assert!(!account.to_string().is_empty() && account.json("x").is_object());
}
