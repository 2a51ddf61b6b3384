//! Checks on `bentpipe-intake`: what is read is used or left out, whatever comes, and in bounded memory.

use bentpipe_intake::{LeftOut, MAX_STREAMS, Packets, Select, Sink, Streams, Unit, Wanted};
use bentpipe_rohc::DecompressorConfig;
use bentpipe_wire::pcap::Reader;
use bentpipe_wire::rohc::pdcp::SnLen;
use bentpipe_wire::ts::SYNC;

/// Decoder or machine under test.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[("packets", fuzz_packets), ("streams", fuzz_streams)];

/// Counts of what came out.
#[derive(Default)]
struct Counts {
    units: u64,
    records: u64,
}

impl Sink for Counts {
    fn unit(&mut self, stream: usize, _: Option<u64>, unit: Unit<'_>) {
        assert!(stream < MAX_STREAMS);
        self.units += u64::from(!matches!(unit, Unit::Missing(_)));
        if let Unit::Ts(packet) = unit {
            assert_eq!(packet[0], SYNC);
        }
    }

    fn left_out(&mut self, left_out: &LeftOut<'_>) {
        assert!(left_out.number > 0 && !left_out.detail.is_empty());
        self.records += 1;
    }
}

/// Returns the intake of streams that the bits of a byte choose.
fn intake(kind: u8) -> Streams {
    let streams = match kind & 4 {
        0 => Streams::new(Select::default()),
        _ => Streams::restoring(DecompressorConfig::default(), Select::default()),
    };
    if kind & 2 > 0 { streams.hitless() } else { streams }
}

/// Passes a capture to the intake of packets, of a kind and a choice by the first two bytes.
pub fn fuzz_packets(data: &[u8]) {
    let [kind, choice, rest @ ..] = data else { return };
    let select = Select {
        port: (choice & 1 > 0).then_some(5004),
        vlan: (choice & 2 > 0).then_some(7),
        source: (choice & 4 > 0).then_some([10, 0, 0, 1].into()),
        ..Select::default()
    };
    let rohc = |pdcp| Wanted::Rohc { has_large_cids: choice & 8 > 0, pdcp };
    let all = [
        Wanted::Ip,
        Wanted::Datagrams,
        Wanted::Network,
        Wanted::Distinct,
        rohc(None),
        rohc(Some(SnLen::Twelve)),
        Wanted::Schemes,
        Wanted::Ethernet,
    ];
    let mut packets = match all.get(usize::from(*kind) % (all.len() + 1)) {
        Some(wanted) => Packets::new(*wanted, select),
        None => Packets::restoring(DecompressorConfig::default(), select),
    };
    let Ok(mut reader) = Reader::new(rest) else { return };
    if !matches!(packets.wanted(), Wanted::Rohc { .. }) {
        packets.learn(rest);
    }
    let (mut used, mut records) = (0, 0);
    while let Ok(Some(record)) = reader.next_record() {
        let taken = packets.take(&record, &mut |_| records += 1);
        used += taken.map_or(0, |packet| {
            assert!(packet.bytes.len() <= packet.len);
            1
        });
    }
    packets.damaged(reader.damaged());
    packets.finish(&mut |_| records += 1);
    let (account, left_out) = (packets.account(), packets.account().left_out_sum());
    assert_eq!(account.used.records + left_out.records, account.read.records, "{account}");
    assert!(left_out.records == records && used <= account.used.records, "{account}");
    assert!(!account.to_string().is_empty() && account.json("x").is_object());
}

/// Passes a capture, or with an odd first byte a file in pieces of the length of the second, to the intake of streams.
///
/// Further bits of the first byte merge legs, and restore ROHC.
pub fn fuzz_streams(data: &[u8]) {
    let [kind, len, rest @ ..] = data else { return };
    let (mut counts, mut streams) = (Counts::default(), intake(*kind));
    if kind & 1 == 1 {
        let len = usize::from(*len) + 1;
        rest.chunks(len).for_each(|piece| streams.bytes(piece, &mut counts));
    } else if let Ok(mut reader) = Reader::new(rest) {
        streams.learn(rest);
        while let Ok(Some(record)) = reader.next_record() {
            streams.record(&record, &mut counts);
        }
        streams.damaged(reader.damaged());
    }
    streams.finish(&mut counts);
    let (account, left_out) = (streams.account(), streams.account().left_out_sum());
    assert_eq!(account.used.records + left_out.records, account.read.records, "{account}");
    assert_eq!(account.used.bytes + left_out.bytes, account.read.bytes, "{account}");
    assert_eq!(counts.records, left_out.records);
    assert!(counts.units * 188 <= account.read.bytes + 10 * account.read.records * 188);
    assert!(!account.to_string().is_empty() && account.json("x").is_object());
}
