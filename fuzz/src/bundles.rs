//! Checks on `bentpipe-bundles`: any node file, any segment of a store, any certificate.

use bentpipe_bundles::node::NodeFile;
use bentpipe_bundles::node::journal::{Journal, Slot};
use bentpipe_bundles::tls::{Findings, Names};

/// A reader under test.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] =
    &[("file", fuzz_file), ("journal", fuzz_journal), ("certificate", fuzz_certificate)];

/// Certificates: names of nodes are nodes, and each matches itself.
pub fn fuzz_certificate(data: &[u8]) {
    let Ok(names) = Names::parse(data) else { return };
    assert!(names.nodes.iter().all(|node| *node == node.node() && names.node(node) == Findings::Success));
    assert!(names.addresses.iter().all(|address| names.network(None, *address) == Findings::Success));
}

/// Node files: what is accepted has neighbours behind all routes.
pub fn fuzz_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(file) = NodeFile::parse(text) else { return };
    assert!(file.routes.values().all(|via| file.neighbour.iter().any(|neighbour| neighbour.node == *via)));
    assert!(file.max_bundle <= file.storage);
}

/// Segments of a store: what is found in any bytes is found again, and a bundle stored after them too.
pub fn fuzz_journal(data: &[u8]) {
    let folder = std::env::temp_dir().join(format!("bentpipe-fuzz-journal-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("000000000001.log"), data).expect("a file");
    let (mut journal, found) = Journal::open(&folder, false, 0).expect("a store");
    if let Some(free) = found.next.checked_add(1).filter(|free| *free < u64::MAX) {
        journal.store(Slot::Waiting(free), 0, 0, b"bundle");
        journal.commit().expect("a disk");
        drop(journal);
        let (_, again) = Journal::open(&folder, false, 0).expect("a store");
        assert_eq!(again.kept.len(), found.kept.len() + 1);
    }
    let _ = std::fs::remove_dir_all(&folder);
}
