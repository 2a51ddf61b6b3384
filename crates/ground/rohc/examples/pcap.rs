//! Compresses and restores the packets of a capture, and says what that saves.
//!
//! `cargo run -p bentpipe-rohc --example pcap -- IN.pcap`: a classic pcap file of raw IP (link type 101), either byte order.

#![allow(clippy::print_stdout, reason = "a program")]

use std::error::Error;
use std::time::Duration;

use bentpipe_rohc::{
    Channel, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode, Profiles,
};

/// Lengths of the file header, and of the header of each record.
const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
const RAW_IP: u32 = 101;

/// Reads 32-bit words in the byte order of the file.
type Word = fn([u8; 4]) -> u32;

fn word(bytes: &[u8], at: usize, read: Word) -> Option<u32> {
    Some(read(*bytes.get(at..)?.first_chunk()?))
}

/// Returns the byte order of a capture of raw IP.
fn byte_order(file: &[u8]) -> Result<Word, Box<dyn Error>> {
    let orders: [Word; 2] = [u32::from_le_bytes, u32::from_be_bytes];
    let order = orders.into_iter().find(|&read| word(file, 0, read) == Some(0xa1b2_c3d4));
    let order = order.ok_or("not a pcap file with microseconds")?;
    match word(file, 20, order) {
        Some(RAW_IP) => Ok(order),
        link_type => Err(format!("link type {link_type:?} is not {RAW_IP}, raw IP").into()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: pcap IN.pcap")?;
    let file = std::fs::read(path)?;
    let order = byte_order(&file)?;
    let channel = Channel { profiles: Profiles::V2, ..Channel::default() };
    let mut compressor = Compressor::new(CompressorConfig { channel, ..CompressorConfig::default() });
    let config = DecompressorConfig { channel, mode: Mode::Optimistic, ..DecompressorConfig::default() };
    let mut decompressor = Decompressor::new(config);
    let mut rest = file.get(FILE_HEADER..).unwrap_or_default();
    while let (Some(seconds), Some(micros), Some(len)) =
        (word(rest, 0, order), word(rest, 4, order), word(rest, 8, order))
    {
        let Some(packet) = rest.get(RECORD_HEADER..).and_then(|rest| rest.get(..len as usize)) else { break };
        let now = Duration::new(seconds.into(), micros % 1_000_000 * 1000);
        let (mut rohc, mut restored, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
        compressor.compress(now, packet, &mut rohc)?;
        decompressor.decompress(now, &rohc, &mut restored)?;
        if restored != packet {
            return Err("a packet came out otherwise than it went in".into());
        }
        if decompressor.take_feedback(&mut feedback) {
            compressor.feedback(&feedback);
        }
        rest = &rest[RECORD_HEADER + packet.len()..];
    }
    let stats = compressor.stats();
    println!("{} packets with {}", stats.packets, channel.profiles);
    println!("headers: {} octets become {}", stats.header_in, stats.header_out);
    println!("packets: {} octets become {}", stats.bytes_in, stats.bytes_out);
    Ok(())
}
