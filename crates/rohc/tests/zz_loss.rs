#![allow(warnings, clippy::all, clippy::print_stdout)]
mod corpus;
use bentpipe_rohc::*;
use std::path::{Path, PathBuf};
use std::time::Duration;
struct Lcg(u64);
impl Lcg {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as f64) / (1u64 << 31) as f64
    }
}
fn captures() -> Vec<PathBuf> {
    let Some(folder) = corpus::folder() else { return Vec::new() };
    let all = [folder.join("ip"), folder.join("synthetic/inputs")];
    let all = all.iter().flat_map(|folder| corpus::files(folder, ".pcap"));
    let has_tcp = |name: &str| name.contains("tcp") || name.contains("flows_300");
    all.filter(|path| path.file_stem().is_some_and(|name| has_tcp(&name.to_string_lossy()))).collect()
}
#[test]
fn loss() {
    for verify in [false, true] {
        for mode in [Mode::Unidirectional, Mode::Optimistic] {
            for (loss, burst) in
                [(0.0, 1.0), (0.05, 1.0), (0.1, 1.0), (0.2, 1.0), (0.02, 4.0), (0.02, 8.0), (0.01, 15.0)]
            {
                let (mut sent, mut lost, mut delivered, mut wrong, mut refused, mut chk) = (0, 0, 0, 0, 0, 0);
                let mut worst = std::collections::BTreeMap::new();
                for path in captures() {
                    for seed in 1..=3u64 {
                        let mut rng = Lcg(seed * 7919);
                        for _ in 0..5 {
                            rng.next();
                        }
                        let channel = Channel::default();
                        let mut c =
                            Compressor::new(CompressorConfig { channel, ..CompressorConfig::default() });
                        let mut d = Decompressor::new(DecompressorConfig {
                            channel,
                            mode,
                            verify,
                            ..DecompressorConfig::default()
                        });
                        let mut in_burst = 0.0;
                        for p in corpus::pcap(&path) {
                            let (mut r, mut o, mut f) = (vec![], vec![], vec![]);
                            let Ok(done) = c.compress(Duration::ZERO, &p, &mut r) else { continue };
                            if done.profile != Profile::Tcp {
                                continue;
                            }
                            sent += 1;
                            if in_burst > 0.0 {
                                in_burst -= 1.0;
                                lost += 1;
                                continue;
                            }
                            if rng.next() < loss {
                                in_burst = burst - 1.0;
                                lost += 1;
                                continue;
                            }
                            match d.decompress(Duration::ZERO, &r, &mut o) {
                                Ok(Some(_)) if o == p => delivered += 1,
                                Ok(Some(x)) => {
                                    wrong += 1;
                                    *worst
                                        .entry(path.file_stem().unwrap().to_string_lossy().into_owned())
                                        .or_insert(0) += 1;
                                    if std::env::var("DIFF").is_ok() && loss > 0.0 {
                                        let diffs: Vec<_> = o
                                            .iter()
                                            .zip(&p)
                                            .enumerate()
                                            .filter(|(_, (a, b))| a != b)
                                            .map(|(i, (a, b))| format!("{i}:{a:02x}!{b:02x}"))
                                            .take(12)
                                            .collect();
                                        println!(
                                            "{} {} {:?}",
                                            path.file_stem().unwrap().to_string_lossy(),
                                            x.packet_type,
                                            diffs
                                        );
                                    }
                                }
                                Ok(None) => {}
                                Err(DecompressError::ChecksumMismatch) => chk += 1,
                                Err(_) => refused += 1,
                            }
                            if d.take_feedback(&mut f) {
                                c.feedback(&f);
                            }
                        }
                    }
                }
                println!(
                    "verify {verify} {mode:?} loss {loss} burst {burst}: sent {sent} lost {lost} delivered {delivered} refused {refused} chk {chk} WRONG {wrong} {worst:?}"
                );
            }
        }
    }
}
#[test]
fn damage() {
    for verify in [false, true] {
        let (mut damaged, mut wrong, mut good) = (0, 0, 0);
        let mut by = std::collections::BTreeMap::new();
        for path in captures() {
            let channel = Channel::default();
            let mut c = Compressor::new(CompressorConfig { channel, ..CompressorConfig::default() });
            let mut d =
                Decompressor::new(DecompressorConfig { channel, verify, ..DecompressorConfig::default() });
            let mut rng = Lcg(99);
            for p in corpus::pcap(&path) {
                let (mut r, mut o) = (vec![], vec![]);
                let Ok(done) = c.compress(Duration::ZERO, &p, &mut r) else { continue };
                if done.profile != Profile::Tcp {
                    continue;
                }
                if rng.next() < 0.1 {
                    let bit = (rng.next() * (done.header_out * 8) as f64) as usize;
                    r[bit / 8] ^= 0x80 >> (bit % 8);
                    if rng.next() < 0.5 {
                        let bit = (rng.next() * (done.header_out * 8) as f64) as usize;
                        r[bit / 8] ^= 0x80 >> (bit % 8);
                    }
                    damaged += 1;
                }
                match d.decompress(Duration::ZERO, &r, &mut o) {
                    Ok(Some(x)) if o != p => {
                        wrong += 1;
                        *by.entry(x.packet_type).or_insert(0) += 1;
                        if std::env::var("DIFF").is_ok() {
                            let diffs: Vec<_> = o
                                .iter()
                                .zip(&p)
                                .enumerate()
                                .filter(|(_, (a, b))| a != b)
                                .map(|(i, (a, b))| format!("{i}:{a:02x}!{b:02x}"))
                                .take(12)
                                .collect();
                            println!(
                                "{verify} {} {} {:?}",
                                path.file_stem().unwrap().to_string_lossy(),
                                x.packet_type,
                                diffs
                            );
                        }
                    }
                    Ok(_) => good += 1,
                    _ => {}
                }
            }
        }
        println!("verify {verify} damaged {damaged} good {good} wrong {wrong} {by:?}");
    }
}
