//! The dissector for Wireshark, `contrib/wireshark/rohc.lua`, on streams of this compressor, next to this decompressor.

#![allow(clippy::print_stdout, reason = "says what was skipped and measured")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Record, files, name, read_pcap};
use bentpipe_rohc::{
    Channel, CidSpace, Compressor, CompressorConfig, DecompressError, Decompressor, DecompressorConfig, Mode,
    Profile, Profiles, RtpRule,
};

/// Every so many packets one arrives damaged before it arrives.
const DAMAGED: usize = 20;

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// Restored; the header in hexadecimal, but for Uncompressed.
    Restored(String),
    CrcFailure,
    /// Not decoded, or without a CRC.
    Unverified,
}

/// Packet as a receiver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    cid: u16,
    profile: Option<u16>,
    kind: String,
    fate: Fate,
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Compresses `records`; now and then a packet goes out with a bit of its header flipped first.
fn stream(records: &[Record], channel: Channel, mode: Mode) -> (Vec<Record>, Vec<Option<Row>>) {
    let config = CompressorConfig { channel, rtp: RtpRule::Likely, ..CompressorConfig::default() };
    let peer_confirms = config.confirms();
    let mut compressor = Compressor::new(config);
    let config = DecompressorConfig { channel, mode, peer_confirms, ..DecompressorConfig::default() };
    let mut decompressor = Decompressor::new(config);
    let (mut sent, mut rows) = (Vec::new(), Vec::new());
    for (number, record) in records.iter().enumerate() {
        let mut rohc = Vec::new();
        let compressed = compressor.compress(record.at, &record.bytes, &mut rohc).expect("compresses");
        let is_guarded = compressed.profile != Profile::Uncompressed;
        let copies = usize::from(number % DAMAGED == DAMAGED - 1 && is_guarded) + 1;
        for copy in (0..copies).rev() {
            let mut arriving = rohc.clone();
            // The last octet of the header, or the first where a large CID is last.
            let cid_len = match channel.cids {
                CidSpace::Large { .. } => 1 + usize::from(compressed.cid > 127),
                CidSpace::Small { .. } => 0,
            };
            let at = if compressed.header_out == 1 + cid_len { 0 } else { compressed.header_out - 1 };
            arriving[at] ^= u8::from(copy > 0);
            let mut ip = Vec::new();
            let result = decompressor.decompress(record.at, &arriving, &mut ip);
            let fate = match result {
                Ok(Some(found)) if found.profile == Profile::Uncompressed => Some(Fate::Unverified),
                Ok(Some(found)) => Some(Fate::Restored(hex(&ip[..found.header_out]))),
                Err(DecompressError::CrcMismatch) => Some(Fate::CrcFailure),
                // This decompressor waits after a failure.
                Err(DecompressError::RepairPending | DecompressError::NotAllowedInState) => None,
                other => panic!("packet {number}: {other:?}"),
            };
            rows.push(fate.map(|fate| Row {
                cid: compressed.cid,
                profile: Some(compressed.profile.id()),
                kind: compressed.packet_type.to_string(),
                fate,
            }));
            sent.push(Record { at: record.at, bytes: arriving });
        }
        let mut feedback = Vec::new();
        if decompressor.take_feedback(&mut feedback) {
            compressor.feedback(&feedback);
        }
    }
    (sent, rows)
}

/// Has tshark read a stream with the dissector; `None` where there is no tshark.
fn dissect(path: &Path, channel: Channel) -> Option<Vec<Row>> {
    let script = concat!("lua_script:", env!("CARGO_MANIFEST_DIR"), "/../../../contrib/wireshark/rohc.lua");
    let large = format!("rohcx.large_cids:{}", matches!(channel.cids, CidSpace::Large { .. }));
    let version =
        format!("rohcx.version:{}", if channel.profiles == Profiles::V2 { "Version 2" } else { "Version 1" });
    let fields = ["cid", "profile", "type", "crc.status", "control_crc.status", "restored"];
    let mut command = Command::new("tshark");
    command
        .args([
            "-X",
            script,
            "-o",
            &large,
            "-o",
            &version,
            "-o",
            "rohcx.show_packet:FALSE",
            "-T",
            "fields",
            "-r",
        ])
        .arg(path);
    command.args(fields.iter().flat_map(|field| ["-e".to_owned(), format!("rohcx.{field}")]));
    let output = match command.args(["-e", "_ws.lua.error"]).output() {
        Ok(output) => output,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "tshark must be there in CI");
            println!("skipped: no tshark: {error}");
            return None;
        }
    };
    let text = String::from_utf8(output.stdout).expect("text");
    Some(text.lines().map(row).collect())
}

fn row(line: &str) -> Row {
    let columns: Vec<&str> = line.split('\t').collect();
    let [cid, profile, kind, crc, control, restored, error] = columns[..] else { panic!("{line:?}") };
    assert_eq!(error, "", "error of the script");
    let fate = match (crc, control) {
        ("0", _) | (_, "0") => Fate::CrcFailure,
        ("1", _) => Fate::Restored(restored.to_owned()),
        // A packet of R-mode without a CRC.
        _ if !restored.is_empty() => Fate::Restored(restored.to_owned()),
        _ => Fate::Unverified,
    };
    let profile = profile.strip_prefix("0x").and_then(|hex| u16::from_str_radix(hex, 16).ok());
    Row { cid: cid.parse().expect("a CID"), profile, kind: kind.to_owned(), fate }
}

fn write_pcap(path: &Path, records: &[Record]) {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 0xffff, 147] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for Record { at, bytes } in records {
        let len = bytes.len() as u32;
        for word in [at.as_secs() as u32, at.subsec_micros(), len, len] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(bytes);
    }
    fs::write(path, file).expect("writes");
}

fn captures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    files(&folder, ".pcap").into_iter().filter(|path| !name(path).contains(".rohc.")).collect()
}

/// Packets compared, and those of them with a bad CRC.
fn compare(profiles: Profiles, cids: CidSpace, mode: Mode) -> Option<(usize, usize)> {
    let channel = Channel { cids, profiles, mrru_bytes: 0 };
    let label = format!("{:?}-{mode:?}-{}", matches!(cids, CidSpace::Large { .. }), profiles == Profiles::V2);
    let file = std::env::temp_dir().join(format!("bentpipe-rohcx-{}-{label}.pcap", std::process::id()));
    let (mut compared, mut damaged, mut undecoded) = (0, 0, 0);
    for capture in captures() {
        let (sent, rows) = stream(&read_pcap(&capture), channel, mode);
        write_pcap(&file, &sent);
        let found = dissect(&file, channel)?;
        assert_eq!(found.len(), rows.len(), "{}", name(&capture));
        for (number, (found, row)) in found.iter().zip(&rows).enumerate() {
            let Some(row) = row else { continue };
            let row = normalised(row.clone());
            if found.fate == Fate::Unverified && row.fate != Fate::Unverified {
                undecoded += 1;
                continue;
            }
            assert_eq!(normalised(found.clone()), row, "{} record {}", name(&capture), number + 1);
            compared += 1;
            damaged += usize::from(row.fate == Fate::CrcFailure);
        }
    }
    fs::remove_file(file).expect("removes");
    println!(
        "{label}: {compared} packets as this decompressor restores them, {damaged} of them CRC failures; {undecoded} not decoded"
    );
    assert!(undecoded * 20 < compared, "{undecoded} of {compared} not decoded");
    Some((compared, damaged))
}

/// Leaves out what a receiver cannot know of a damaged packet, and the CRC-8 of IR packets of Uncompressed.
fn normalised(mut row: Row) -> Row {
    if row.fate == Fate::CrcFailure {
        row.kind.clear();
    }
    if row.profile == Some(0) {
        row.fate = Fate::Unverified;
    }
    row
}

fn all_agree(profiles: Profiles, channels: &[(Mode, CidSpace)]) {
    for &(mode, cids) in channels {
        let Some((compared, damaged)) = compare(profiles, cids, mode) else { return };
        // Most packets of R-mode have no CRC.
        let least = if mode == Mode::Reliable { 30 } else { 150 };
        assert!(compared > 4000 && damaged > least, "{compared} {damaged}");
    }
}

#[test]
fn the_dissector_restores_headers_of_version_1() {
    let channels = [(Mode::Unidirectional, CidSpace::SMALL), (Mode::Optimistic, CidSpace::LARGE)];
    all_agree(Profiles::V1, &channels);
}

#[test]
fn the_dissector_restores_headers_of_r_mode() {
    all_agree(Profiles::V1, &[(Mode::Reliable, CidSpace::SMALL)]);
}

#[test]
fn the_dissector_restores_headers_of_version_2() {
    let channels = [(Mode::Unidirectional, CidSpace::SMALL), (Mode::Optimistic, CidSpace::LARGE)];
    all_agree(Profiles::V2, &channels);
}
