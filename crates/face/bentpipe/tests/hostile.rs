//! What is wrong on the command line or in a file is said in a sentence, with exit status 2, in bounded memory, and leaves no file.

use std::fs;
use std::path::Path;

use bentpipe_testkit::{Folder, run};

/// What the program says in a folder, and that it says it with exit status 2 and without a trace of its inside.
fn refusal(folder: &Path, words: &[&str]) -> String {
    let said = bentpipe_testkit::said(&run(env!("CARGO_BIN_EXE_bentpipe"), folder, words), 2);
    assert!(!said.contains("panicked") && !said.contains("backtrace"), "{words:?}: {said}");
    said
}

/// A folder with a capture of IP packets and what is made of it.
fn folder() -> Folder {
    let folder = Folder::new();
    let call = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/call.pcap");
    fs::copy(call, folder.path().join("call.pcap")).expect("copied");
    folder
}

#[test]
fn what_failed_leaves_nothing_and_what_was_there_as_it_was() {
    let folder = folder();
    let said = refusal(folder.path(), &["rohc", "decompress", "call.pcap", "out.pcap"]);
    assert!(
        said.contains("call.pcap: no ROHC packets: 250 records, none used, 250 left out: of link type 101"),
        "{said}"
    );
    assert_eq!(folder.names(), ["call.pcap"]);
    fs::write(folder.path().join("out.pcap"), "old").expect("written");
    refusal(folder.path(), &["rohc", "decompress", "call.pcap", "out.pcap"]);
    assert_eq!(fs::read(folder.path().join("out.pcap")).expect("there"), b"old");
    assert_eq!(folder.names(), ["call.pcap", "out.pcap"]);
}

/// What stands before a damaged record is used, and the program says that it is not all with exit status 1.
#[test]
fn what_comes_before_a_damaged_record_is_kept() {
    let folder = folder();
    let mut capture = fs::read(folder.path().join("call.pcap")).expect("there");
    let at = capture.len() / 76 / 2 * 76 + 24 + 8;
    capture[at..at + 8].fill(0xff);
    fs::write(folder.path().join("damaged.pcap"), capture).expect("written");
    for words in [["rohc", "compress", "damaged.pcap", "new.pcap"], ["ts", "encap", "damaged.pcap", "new.ts"]]
    {
        let made = run(env!("CARGO_BIN_EXE_bentpipe"), folder.path(), &words);
        let said = bentpipe_testkit::said(&made, 1);
        assert!(
            said.contains("damaged.pcap: 125 records, all used, not read on from record 126: pcap at byte"),
            "{said}"
        );
    }
    assert_eq!(folder.names(), ["call.pcap", "damaged.pcap", "new.pcap", "new.ts"]);
    let back =
        run(env!("CARGO_BIN_EXE_bentpipe"), folder.path(), &["rohc", "decompress", "new.pcap", "back.pcap"]);
    let said = bentpipe_testkit::said(&back, 0);
    assert!(said.contains("125 packets"), "{said}");
}

#[test]
fn amounts_beyond_reason_are_refused() {
    let folder = folder();
    let made = run(env!("CARGO_BIN_EXE_bentpipe"), &folder, &["ts", "encap", "call.pcap", "call.ts"]);
    bentpipe_testkit::said(&made, 0);
    for (words, expected) in [
        (&["ts", "mux", "--rate", "1 bit/s", "call.ts", "out.ts"][..], "expected a higher --rate"),
        (&["ts", "encap", "--pid", "0x200", "call.pcap", "out.ts"], "--pid 0x0200: the PMT is there"),
        (&["rtp", "send", "127.0.0.1:0", "--packets", "1"], "port 0 cannot be a destination"),
        (
            &["rtp", "send", "127.0.0.1:9", "--packets", "1", "--streams", "4294967295"],
            "is not in 1..=1000000",
        ),
        (&["run", "none.toml", "--jobs", "99999999"], "is not in 0..=1024"),
        (&["video", "carry", "call.ts", "out.ts", "--loss", "nan"], "expected a number from 0 to 1"),
        (&["check", "/dev/zero"], "longer than 4194304 bytes"),
    ] {
        let said = refusal(folder.path(), words);
        assert!(said.contains(expected), "{words:?}: {said}");
    }
    assert_eq!(folder.names(), ["call.pcap", "call.ts"]);
}
