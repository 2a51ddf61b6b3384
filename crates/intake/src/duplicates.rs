//! Packets that a capture has twice, of mirrored ports or several interfaces.
//!
//! A copy has the addresses, identification and content of a packet shortly before; its TTL, checksum and link may differ.
//! A packet without an identification, of IPv6 or atomic with 0 in IPv4, has copies if its content is not sent twice: data of TCP, and of UDP
//! other than NULL packets and constant bytes.

use bentpipe_wire::ip::{self, Packet, Protocol};
use bentpipe_wire::tcp::Segment;
use bentpipe_wire::ts::PACKET_LEN;
use bentpipe_wire::udp;

/// Longest time from a packet to its copy, nanoseconds.
const WINDOW_NS: u64 = 500_000;
/// Longest time from a fragment to its copy without another one in between, nanoseconds.
const FRAGMENT_WINDOW_NS: u64 = 1_000_000_000;
/// Number of packets that are remembered; those of a window at 2 million packets/s.
const REMEMBERED: usize = 1 << 10;

/// Sync byte and PID of a NULL packet.
const NULL_PACKET: [u8; 3] = [0x47, 0x1f, 0xff];

/// Trace of a packet.
#[derive(Clone, Copy, Debug, Default)]
struct Trace {
    sum: u64,
    time_ns: u64,
}

/// Memory of the last packets, in a place by their content.
#[derive(Clone, Debug, Default)]
pub(crate) struct Duplicates {
    traces: Vec<Trace>,
    /// Sum of the last fragment.
    fragment: u64,
}

impl Duplicates {
    /// Returns `true` if an IP packet is a copy of one that came shortly before.
    ///
    /// Packets without a time have none.
    pub(crate) fn is_copy(&mut self, bytes: &[u8], len: usize, time_ns: Option<u64>) -> bool {
        let (Some(time_ns), Some((sum, is_fragment))) = (time_ns, content(bytes, len)) else { return false };
        let mut window_ns = WINDOW_NS;
        if is_fragment {
            // Another fragment in between may begin another packet of the same identification.
            window_ns = if self.fragment == sum { FRAGMENT_WINDOW_NS } else { WINDOW_NS };
            self.fragment = sum;
        }
        self.traces.resize(REMEMBERED, Trace::default());
        let trace = &mut self.traces[(sum >> 32) as usize % REMEMBERED];
        let is_copy = trace.sum == sum && time_ns.abs_diff(trace.time_ns) <= window_ns;
        *trace = Trace { sum, time_ns };
        is_copy
    }
}

/// Returns a sum of what copies share, and `true` for a fragment.
fn content(bytes: &[u8], len: usize) -> Option<(u64, bool)> {
    let packet = Packet::new_elided(bytes, len.saturating_sub(bytes.len())).ok()?;
    let mut sum = Sum(len as u64 + 1);
    let (is_fragment, start) = match &packet {
        // Without fragments the identification may be 0 (RFC 6864, section 4.1).
        Packet::V4(ip) if ip.dont_fragment() && ip.ident() == 0 => {
            (is_sent_once(&packet).then_some(false)?, ip.header_len())
        }
        Packet::V4(ip) => {
            let is_fragment = ip.more_fragments() || ip.fragment_offset() > 0;
            sum.add(
                u64::from(ip.ident()) << 32
                    | (ip.fragment_offset() as u64) << 1
                    | u64::from(ip.more_fragments()),
            );
            (is_fragment, ip.header_len())
        }
        Packet::V6(_) => {
            let is_fragment = packet.upper().ok()?.is_fragment;
            ((is_fragment || is_sent_once(&packet)).then_some(is_fragment)?, ip::ipv6::HEADER_LEN)
        }
    };
    let addresses = if bytes[0] >> 4 == 4 { bytes.get(12..20) } else { bytes.get(8..40) };
    sum.bytes(addresses?);
    sum.bytes(bytes.get(start..)?);
    Some((sum.0, is_fragment))
}

/// Returns `true` if a sender has no reason to send the content again at once.
fn is_sent_once(packet: &Packet<&[u8]>) -> bool {
    let Ok(upper) = packet.upper() else { return false };
    match upper.protocol {
        Protocol::TCP => {
            Segment::new_elided(upper.bytes, upper.elided).is_ok_and(|segment| segment.segment_len() > 0)
        }
        Protocol::UDP => {
            let payload = upper.bytes.get(udp::HEADER_LEN..).unwrap_or_default();
            let (packets, rest) = payload.as_chunks::<PACKET_LEN>();
            let is_null = |packet: &[u8; PACKET_LEN]| packet.starts_with(&NULL_PACKET);
            let is_constant = payload.windows(2).all(|pair| pair[0] == pair[1]);
            !(is_constant || rest.is_empty() && packets.iter().all(is_null))
        }
        _ => false,
    }
}

/// Sum of 64 bits over a packet.
///
/// It takes a multiplication and a rotation for each 8 bytes.
struct Sum(u64);

impl Sum {
    fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.add(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.add(u64::from_le_bytes(last));
    }
}
