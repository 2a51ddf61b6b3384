//! The corpus of captures and of librohc's streams. A part of it is enough here; `BENTPIPE_WHOLE_CORPUS` takes all.

use std::collections::HashMap;
use std::path::PathBuf;

use super::*;

/// The corpus, in a folder `shared` beside the repository or above it, or where `BENTPIPE_SHARED` says. In CI it must
/// be there.
fn corpus() -> Option<PathBuf> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("shared"));
    let told = std::env::var_os("BENTPIPE_SHARED").map(PathBuf::from);
    let found =
        told.into_iter().chain(above).map(|shared| shared.join("corpus/rohc")).find(|path| path.is_dir());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "the ROHC corpus must be there in CI");
        println!("skipped: no folder shared/corpus/rohc beside or above the repository");
    }
    found
}

/// Files of `folder` with this end, sorted.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("can be read").path());
    let mut found: Vec<_> = paths.filter(|path| path.to_string_lossy().ends_with(end)).collect();
    found.sort();
    found
}

/// One of so many, all of them if that is asked for.
fn part(files: Vec<PathBuf>, of: usize) -> Vec<PathBuf> {
    let of = if std::env::var_os("BENTPIPE_WHOLE_CORPUS").is_some() { 1 } else { of };
    files.into_iter().step_by(of).collect()
}

fn captures(corpus: &Path, of: usize) -> Vec<PathBuf> {
    let mut captures = part(files(&corpus.join("ip"), ".pcap"), of);
    captures.extend(part(files(&corpus.join("synthetic/inputs"), ".pcap"), of.div_ceil(4)));
    captures
}

/// The start of a stream's name: "NAME.SET.CID".
fn stem(path: &Path, end: &str) -> String {
    let name = path.file_name().expect("a name").to_string_lossy();
    name.strip_suffix(end).expect("a file with that end").to_owned()
}

#[test]
fn captures_come_back_byte_for_byte() {
    let Some(corpus) = corpus() else { return };
    let folder = Folder::new();
    let [stream, back] = ["rohc", "back"].map(|name| folder.file(name));
    for capture in captures(&corpus, 16) {
        for options in ["--mode u", "--mode o --cid large", "--mode r"] {
            said(&rohc(&words(&format!("compress -q {options}")), &[&capture, &stream]), 0);
            said(&rohc(&words(&format!("decompress -q {options}")), &[&stream, &back]), 0);
            assert!(packets(&back).1 == packets(&capture).1, "{} {options}", capture.display());
        }
    }
}

#[test]
fn every_link_layer_leads_to_the_same_packets() {
    let Some(corpus) = corpus() else { return };
    let folder = Folder::new();
    let [from_link, from_ip] = ["link", "ip"].map(|name| folder.file(name));
    let mut inputs = part(files(&corpus.join("inputs"), "pcap"), 16);
    inputs.extend(files(&corpus.join("inputs"), "pcapng"));
    inputs.extend(files(&corpus.join("inputs"), "pcap").into_iter().filter(|path| link(path) != 1));
    // Fuzzed link headers, versions and lengths: librohc was given frames whose EtherType says that they are not IP, and
    // what is behind the end of the packet.
    let fuzzed = ["__afl", "rfc3095__ipvx", "bad-ipv4-chksum", "rb_lost_packet__nominal_rtp"];
    inputs.retain(|path| !fuzzed.iter().any(|name| path.to_string_lossy().contains(name)));
    assert!(inputs.len() > 10);
    for input in inputs {
        let name = stem(&input, "");
        let [raw] = [corpus.join("ip").join(name.replace(".pcapng", ".pcap"))];
        said(&rohc(&["compress", "-q"], &[&input, &from_link]), 0);
        said(&rohc(&["compress", "-q"], &[&raw, &from_ip]), 0);
        assert!(packets(&from_link).1 == packets(&from_ip).1, "{name}");
    }
}

fn link(path: &Path) -> u16 {
    packets(path).0.map_or(1, |link_type| link_type.0)
}

#[test]
fn nothing_wrong_is_delivered_under_loss() {
    let Some(corpus) = corpus() else { return };
    for (index, capture) in captures(&corpus, 24).iter().enumerate() {
        for mode in ["u", "o", "r"] {
            for weather in ["", "--loss 0.05", "--loss 0.1", "--loss 0.2", "--loss 0.1 --burst 6"] {
                // Some captures have wrong checksums from the start.
                let verify = if weather.is_empty() { "" } else { "--verify" };
                let options = format!("roundtrip -q {verify} --mode {mode} {weather} --seed {index}");
                let output = rohc(&words(&options), &[capture]);
                assert_eq!(output.status.code(), Some(0), "{} {options}: {output:?}", capture.display());
            }
        }
    }
}

/// Bytes of librohc's streams, by name.
fn sizes(corpus: &Path) -> HashMap<String, u64> {
    let mut sizes = HashMap::new();
    for table in ["SIZES.tsv", "synthetic/SIZES.tsv"] {
        let text = fs::read_to_string(corpus.join(table)).expect("a table");
        for line in text.lines().skip(1) {
            let cells: Vec<&str> = line.split('\t').collect();
            sizes.insert(cells[0].to_owned(), cells[6].parse().expect("a number"));
        }
    }
    sizes
}

/// With the profiles and parameters that librohc had, which confirms nothing. For the one exception see `tests/sizes.rs` of the library.
#[test]
fn streams_are_no_larger_than_librohcs() {
    let Some(corpus) = corpus() else { return };
    let folder = Folder::new();
    let stream = folder.file("rohc");
    let (librohc, mut larger, mut total) = (sizes(&corpus), Vec::new(), (0, 0));
    for capture in captures(&corpus, 8) {
        for (options, cids) in [("--cid small", "small15"), ("--cid large", "large16383")] {
            let name = format!("{}.v1.{cids}", stem(&capture, ".pcap"));
            let Some(&theirs) = librohc.get(&name) else { continue };
            let options = format!("compress -q --confirm 0 --profiles rtp,udp,esp,ip,tcp {options}");
            said(&rohc(&words(&options), &[&capture, &stream]), 0);
            let ours = packets(&stream).1.iter().map(|packet| packet.len() as u64).sum::<u64>();
            total = (total.0 + ours, total.1 + theirs);
            if ours > theirs && !name.contains("afl35-rtp-version-changing") {
                larger.push(format!("{name}: {ours} against {theirs}"));
            }
        }
    }
    println!("{} bytes, librohc {}", total.0, total.1);
    assert!(total.0 < total.1 && total.1 > 100_000, "{total:?}");
    assert!(larger.is_empty(), "{larger:?}");
}

#[test]
fn librohcs_streams_are_decompressed_byte_for_byte() {
    let Some(corpus) = corpus() else { return };
    let folder = Folder::new();
    let [back, table] = ["back", "rows"].map(|name| folder.file(name));
    let mut streams = Vec::new();
    for (set, of) in [(".v1.", 40), (".v1-omode.", 40), (".v1lite-2.2.0.", 4)] {
        for librohc in ["librohc", "synthetic/librohc"] {
            let all = files(&corpus.join(librohc), ".rohc.pcap");
            streams.extend(part(all.into_iter().filter(|path| stem(path, "").contains(set)).collect(), of));
        }
    }
    assert!(streams.len() > 20, "{} streams", streams.len());
    for stream in streams {
        let cid = if stream.to_string_lossy().contains(".large16383") { "large" } else { "small" };
        let options = ["decompress", "-q", "--cid", cid, "--csv"];
        said(&rohc(&options, &[&table, &stream, &back]), 0);
        let expected = rows(&stream.with_file_name(stem(&stream, ".rohc.pcap") + ".csv"));
        let expected: Vec<_> = expected.into_iter().filter(|row| !row[0].is_empty()).collect();
        let ours = rows(&table);
        assert_eq!(ours.len(), expected.len(), "{}", stream.display());
        for (ours, theirs) in ours.iter().zip(&expected) {
            // Status, length, CRC-32, length of the ROHC packet; CID, profile.
            assert_eq!((&ours[2..6], &ours[8..10]), (&theirs[2..6], &theirs[8..10]), "{}", stream.display());
        }
    }
}

#[test]
fn other_vendors_streams_are_decompressed_byte_for_byte() {
    let Some(corpus) = corpus() else { return };
    let folder = Folder::new();
    let back = folder.file("back");
    for stream in files(&corpus.join("interop"), ".rohc.pcap") {
        said(&rohc(&["decompress", "-q"], &[&stream, &back]), 0);
        let expected = stream.with_file_name(stem(&stream, ".rohc.pcap") + ".ip.pcap");
        assert!(packets(&back).1 == packets(&expected).1, "{}", stream.display());
    }
}

#[test]
fn malformed_streams_are_refused_without_a_crash() {
    let Some(corpus) = corpus() else { return };
    let folder = Folder::new();
    let back = folder.file("back");
    let streams = files(&corpus.join("malformed"), ".rohc.pcap");
    assert!(streams.len() > 60, "{}", streams.len());
    for stream in part(streams, 3) {
        let cid = if stream.to_string_lossy().contains("largecid") { "large" } else { "small" };
        let options = ["decompress", "-q", "--verify", "--mode", "o", "--cid", cid];
        let output = rohc(&options, &[&stream, &back]);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}: {output:?}", stream.display());
    }
}
