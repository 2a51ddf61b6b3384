//! Profile 0x0006, compressor against decompressor: every packet of every TCP capture comes back byte for byte.

mod corpus;

use std::path::{Path, PathBuf};
use std::time::Duration;

use bentpipe_rohc::{
    Channel, CidSpace, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode,
};

const SMALL: CidSpace = CidSpace::Small { max_cid: 15 };
const LARGE: CidSpace = CidSpace::Large { max_cid: 16_383 };

/// Captures with TCP in them.
fn captures() -> Vec<PathBuf> {
    let Some(folder) = corpus::folder() else { return Vec::new() };
    let all = [folder.join("ip"), folder.join("synthetic/inputs")];
    let all = all.iter().flat_map(|folder| corpus::files(folder, ".pcap"));
    let has_tcp = |name: &str| name.contains("tcp") || name.contains("flows_300");
    all.filter(|path| path.file_stem().is_some_and(|name| has_tcp(&name.to_string_lossy()))).collect()
}

fn pair(cids: CidSpace, mode: Mode) -> (Compressor, Decompressor) {
    let channel = Channel { cids, ..Channel::default() };
    let compressor = Compressor::new(CompressorConfig { channel, ..CompressorConfig::default() });
    (compressor, Decompressor::new(DecompressorConfig { channel, mode, ..DecompressorConfig::default() }))
}

#[test]
fn every_capture_round_trips() {
    for path in captures() {
        for (cids, mode) in
            [(SMALL, Mode::Unidirectional), (SMALL, Mode::Optimistic), (LARGE, Mode::Optimistic)]
        {
            round_trip(&path, cids, mode);
        }
    }
}

fn round_trip(path: &Path, cids: CidSpace, mode: Mode) {
    let (mut compressor, mut decompressor) = pair(cids, mode);
    for (number, packet) in corpus::pcap(path).iter().enumerate() {
        let (mut rohc, mut restored, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
        let Ok(compressed) = compressor.compress(Duration::ZERO, packet, &mut rohc) else { continue };
        let result = decompressor.decompress(Duration::ZERO, &rohc, &mut restored);
        assert!(restored == *packet, "{} {}: {compressed:?} {result:?}", path.display(), number + 1);
        decompressor.take_feedback(&mut feedback);
        compressor.feedback(&feedback);
    }
}
