//! Robust Header Compression (ROHC): compressor and decompressor for all profiles of both versions. These are RFC 3095
//! (RTP, UDP, ESP, Uncompressed), RFC 3843 (IP), RFC 4019 (UDP-Lite) and RFC 6846 (TCP), with the corrections of RFC
//! 4815; and RFC 5225 (RTP, UDP, ESP, IP and UDP-Lite of version 2). A channel has one version of each profile
//! ([`Profiles::negotiated`]), by default the first.
//!
//! Both are state machines without clock or I/O: octets and times go in, octets come out. Every error leaves the state
//! sound; every input, however hostile, is answered in bounded time and memory. In steady state nothing is allocated.
//!
//! * [`Compressor`] and [`Decompressor`] are one direction of one channel; [`Channel`] is what both ends agree on.
//! * Feedback goes from [`Decompressor::take_feedback`] to [`Compressor::feedback`] of the other end, on a channel of
//!   its own, or piggybacked on ROHC packets in the other direction ([`Compressor::piggyback`],
//!   [`Decompressor::take_received_feedback`]).
//! * The payload need not be there: [`Compressor::compress_header`] and [`Decompressor::decompress_header`] work on
//!   headers and lengths.
//! * [`segment`] cuts a ROHC packet for a link that cannot take it whole.
//! * [`Compressor::compress_into`] and [`Decompressor::decompress_into`] write to a buffer of the caller's.
//! * `examples/pcap.rs` compresses a capture file; `examples/rohc.rs` of crate `bentpipe-emu` is a link of two TUN devices.
//!
//! `README.md` of this crate says how it is built inside and how a profile is added.
//!
//! ```
//! use bentpipe_rohc::*;
//! use std::time::Duration;
//!
//! // Bidirectional: the decompressor asks for optimistic mode, and acknowledges.
//! let mut compressor = Compressor::new(CompressorConfig::default());
//! let config = DecompressorConfig { mode: Mode::Optimistic, ..DecompressorConfig::default() };
//! let mut decompressor = Decompressor::new(config);
//! let ip = [0x45, 0, 0, 24, 0, 1, 0, 0, 64, 253, 0xf9, 0xeb, 10, 0, 0, 1, 10, 0, 0, 2, b'd', b'a', b't', b'a'];
//! for now_ms in [0, 20, 40] {
//!     let (mut rohc, mut restored, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
//!     compressor.compress(Duration::from_millis(now_ms), &ip, &mut rohc)?;
//!     decompressor.decompress(Duration::from_millis(now_ms), &rohc, &mut restored)?;
//!     assert_eq!(restored, ip);
//!     if decompressor.take_feedback(&mut feedback) {
//!         compressor.feedback(&feedback);
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![no_std]
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

extern crate alloc;
#[cfg(test)]
extern crate std;

mod compressor;
mod decompressor;
mod framework;
mod profiles;

pub use compressor::Compressor;
pub use decompressor::Decompressor;
pub use framework::config::{
    Channel, CidSpace, Compatibility, CompressorConfig, DecompressorConfig, Lookup, Refresh, ReorderRatio,
    RtpCandidate, RtpMatch, RtpRule,
};
pub use framework::error::{CompressError, DecompressError};
pub use framework::profile::{CompressorState, Mode, PacketType, Profile, Profiles};
pub use framework::segment::segment;
pub use framework::stats::{Compressed, Decompressed, DecompressorStats, FlowStats};
