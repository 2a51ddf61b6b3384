//! Profile 0x0006 against streams that librohc made: every packet must come out byte for byte.

mod corpus;

use std::path::Path;
use std::time::Duration;

use bentpipe_rohc::{Channel, CidSpace, Decompressor, DecompressorConfig, Mode};

const TCP: u16 = 6;

fn cids(name: &str) -> CidSpace {
    if name.contains("large16383") || name.contains("largecid") {
        CidSpace::Large { max_cid: 16_383 }
    } else {
        CidSpace::Small { max_cid: 15 }
    }
}

/// Decompresses the TCP packets of a reference stream; what went wrong, one line each.
fn failures_of(csv: &Path) -> (usize, Vec<String>) {
    let name = csv.to_string_lossy().into_owned();
    let rows = corpus::rows(csv);
    let records = corpus::pcap(Path::new(&name.replace(".csv", ".rohc.pcap")));
    let channel = Channel { cids: cids(&name), ..Channel::default() };
    let mut decompressor = Decompressor::new(DecompressorConfig { channel, ..DecompressorConfig::default() });
    let (mut count, mut failures) = (0, Vec::new());
    for row in &rows {
        let Some(record) = row.record else { continue };
        let mut restored = Vec::new();
        let result = decompressor.decompress(Duration::ZERO, &records[record], &mut restored);
        if row.profile != TCP {
            continue;
        }
        count += 1;
        if result.is_err() || corpus::crc32(&restored) != row.crc32 {
            failures.push(format!("{name} record {} {}: {result:?}", record + 1, row.packet_type));
        }
    }
    (count, failures)
}

#[test]
fn every_packet_of_librohc_is_restored() {
    let Some(folder) = corpus::folder() else { return };
    let (mut total, mut failures) = (0, Vec::new());
    for folder in [folder.join("librohc"), folder.join("synthetic/librohc")] {
        for csv in corpus::files(&folder, ".csv") {
            let (count, failed) = failures_of(&csv);
            total += count;
            failures.extend(failed);
        }
    }
    assert!(total > 10_000, "only {total} TCP packets");
    assert!(
        failures.is_empty(),
        "{} of {total} failed:\n{}",
        failures.len(),
        failures[..failures.len().min(40)].join("\n")
    );
}

/// LTE test equipment of another vendor.
#[test]
fn the_stream_of_another_vendor_is_restored() {
    let Some(folder) = corpus::folder() else { return };
    let records = corpus::pcap(&folder.join("interop/Aeroflex-TM500-2.rohc.pcap"));
    let packets = corpus::pcap(&folder.join("interop/Aeroflex-TM500-2.ip.pcap"));
    assert_eq!((records.len(), packets.len()), (15, 15));
    let mut decompressor = Decompressor::new(DecompressorConfig::default());
    for (record, packet) in records.iter().zip(&packets) {
        let mut restored = Vec::new();
        let result = decompressor.decompress(Duration::ZERO, record, &mut restored);
        assert!(restored == *packet, "{result:?}");
    }
}

/// Broken streams, through decompressors of every kind: no panic, and nothing delivered that is not an IP packet.
#[test]
fn broken_streams_are_survived() {
    let Some(folder) = corpus::folder() else { return };
    for path in corpus::files(&folder.join("malformed"), ".rohc.pcap") {
        let channel = Channel { cids: cids(&path.to_string_lossy()), ..Channel::default() };
        for (mode, verify) in [(Mode::Unidirectional, false), (Mode::Optimistic, true)] {
            let config = DecompressorConfig { channel, mode, verify, ..DecompressorConfig::default() };
            let mut decompressor = Decompressor::new(config);
            for record in corpus::pcap(&path) {
                let mut restored = Vec::new();
                if decompressor
                    .decompress(Duration::ZERO, &record, &mut restored)
                    .is_ok_and(|done| done.is_some())
                {
                    assert!(matches!(restored[0] >> 4, 4 | 6), "{}", path.display());
                }
                assert!(restored.len() <= 65_575);
            }
        }
    }
}
