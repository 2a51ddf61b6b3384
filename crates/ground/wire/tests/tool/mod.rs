//! Other people's decoders, called from tests.

use std::path::{Path, PathBuf};

use bentpipe_testkit::{Folder, Tshark};
use bentpipe_wire::pcap::{LinkType, Writer};

/// Writes frames as a capture, a millisecond apart.
pub(crate) fn capture(folder: &Folder, name: &str, link_type: LinkType, frames: &[&[u8]]) -> PathBuf {
    let mut writer = Writer::new(Vec::new(), link_type).unwrap();
    for (index, frame) in frames.iter().enumerate() {
        writer.write(1_000_000_000 + 1_000_000 * index as u64, frame, 0).unwrap();
    }
    folder.write(name, writer.into_inner())
}

/// Returns tshark's values of some fields, a row for each frame.
pub(crate) fn fields(
    path: &Path,
    preferences: &[&str],
    options: &[&str],
    names: &[&str],
) -> Vec<Vec<String>> {
    let tshark = Tshark::on(path).expect("asked for before");
    tshark.preferences(preferences).options(options).fields(names)
}
