//! Byte-exact wire formats.
//!
//! Each protocol is a module with a checked view over bytes (`Packet`, `Datagram`, `Segment`, `Frame`: the field's own
//! word) and a `Repr`, the header as values, with `parse`, `emit` and `buffer_len`. A view made by `new_checked` has had
//! its lengths checked, so its accessors do not panic.
//!
//! A simulated packet is its real header bytes and a count of payload bytes left out, which are zeros. Views of such a
//! packet are made by `new_elided(bytes, elided)`, and checksums count the zeros without touching them.
//!
//! All input is hostile: decoding returns an [`Error`] that says layer, offset and kind, never panics and holds no
//! unbounded state. Misuse of the API (a buffer too short to emit into, a value that does not fit its field) panics, and
//! each such function says so.
//!
//! Nothing here knows time or the simulator.
//!
//! Folders sort the formats by family; each protocol is also at the root, so a path is `bentpipe_wire::tcp`.

pub mod atm;
mod bytes;
mod capture;
pub mod crc32;
pub mod dtn;
mod dvb;
mod error;
pub mod ip;
mod lan;
mod media;
pub mod rohc;
pub mod space;
pub mod wman;
pub mod wpan;

pub use atm::{aal1, aal5};
pub use capture::{erf, link, outline, pcap};
pub use dvb::{bbframe, gse, mpe, pes, psi, rle, section, si, ts, ule};
pub use error::{Error, Kind, Layer};
pub use ip::{
    checksum, dccp, dtcp, gre, icmp, ipv4, ipv6, membership, quick_start, sixin4, tcp, udp, udplite,
};
pub use lan::{arp, ethernet, llc};
pub use media::{ogg, rtcp, rtp, wav};
