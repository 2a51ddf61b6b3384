//! Content of files that flows have in common.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bentpipe_scenario::Access;
use bentpipe_scenario::files::Resolver;

use super::*;

/// Access to a folder that counts what is opened.
#[derive(Debug)]
struct Counting(PathBuf, Arc<AtomicUsize>);

impl Resolver for Counting {
    fn open(&self, name: &Path) -> io::Result<File> {
        self.1.fetch_add(1, Ordering::Relaxed);
        File::open(self.0.join(name))
    }
}

#[test]
fn flows_that_replay_one_capture_read_it_once() {
    let flow = |n: usize, more: &str| {
        format!(
            "[flow.r{n}]\nfrom = \"client\"\nto = \"server\"\ntraffic = {{ kind = \"replay\", file = \"call.pcap\"{more} }}\n"
        )
    };
    let many: String = (0..50).map(|n| flow(n, "")).collect();
    let other: String = (50..60).map(|n| flow(n, ", times = 2")).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
    for (flows, reads) in [(&many, 1), (&format!("{many}{other}"), 2)] {
        let opened = Arc::new(AtomicUsize::new(0));
        let access = Access::new(Counting(folder.clone(), Arc::clone(&opened)));
        let text = geo(flows);
        let document = Document::parse("file.toml", text.as_bytes()).expect("TOML").with_access(access);
        let scenario = checked(&document).unwrap_or_else(|refusal| panic!("{refusal}"));
        opened.store(0, Ordering::Relaxed);
        Built::new(&scenario, 1, document.access()).unwrap_or_else(|problem| panic!("{problem}"));
        assert_eq!(opened.load(Ordering::Relaxed), reads);
    }
}
