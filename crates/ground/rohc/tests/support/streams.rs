//! Streams of librohc's, each beside a table of the packets that it holds.

use std::collections::BTreeMap;
use std::path::Path;

use bentpipe_rohc::{Decompressor, DecompressorConfig};

use super::{corpus, crc32, files, name, read_pcap, read_rows};

/// Packets that came back and packets that did not.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) right: usize,
    /// Number of packets by profile, type and what went wrong.
    pub(crate) wrong: BTreeMap<String, usize>,
    pub(crate) examples: Vec<String>,
}

impl Tally {
    /// Decompresses a stream and compares its packets with its table.
    pub(crate) fn decompress(&mut self, stream: &Path, config: DecompressorConfig) {
        let table = stream.with_file_name(name(stream).replace(".rohc.pcap", ".csv"));
        let records = read_pcap(stream);
        let mut decompressor = Decompressor::new(config);
        let mut ip = Vec::new();
        for row in read_rows(&table) {
            let Some(record) = row.record else { continue };
            let record = &records[record - 1];
            ip.clear();
            let result = decompressor.decompress(record.at, &record.bytes, &mut ip);
            if matches!(result, Ok(Some(_))) && ip.len() == row.ip_len && crc32(&ip) == row.ip_crc32 {
                self.right += 1;
                continue;
            }
            let what = match result {
                Ok(Some(_)) => "wrong packet".to_owned(),
                Ok(None) => "no packet".to_owned(),
                Err(error) => error.to_string(),
            };
            *self.wrong.entry(format!("{} {}: {what}", row.profile, row.packet_type)).or_default() += 1;
            if std::env::var_os("ROHC_VERBOSE").is_some() || self.examples.len() < 20 {
                let (record, kind) = (row.record, row.packet_type);
                self.examples.push(format!("{} record {record:?} {kind}: {what}", name(stream)));
            }
        }
    }
}

/// Checks that all packets of the corpus's streams of `set` come back, with the `config` for each name.
pub(crate) fn decompress_all(set: &str, config: fn(&str) -> DecompressorConfig) {
    let Some(corpus) = corpus() else { return };
    let (mut tally, mut streams) = (Tally::default(), 0);
    for folder in ["librohc", "synthetic/librohc"] {
        for stream in files(&corpus.join(folder), ".rohc.pcap") {
            if name(&stream).contains(&format!(".{set}.")) {
                tally.decompress(&stream, config(&name(&stream)));
                streams += 1;
            }
        }
    }
    println!("{set}: {} packets of {streams} streams byte-exact", tally.right);
    assert!(streams > 0, "no stream of set {set}");
    assert!(tally.wrong.is_empty(), "{set}: {tally:#?}");
}
