//! Compressor: frames from packets.

use std::time::Duration;

use super::chain::{Chain, RTP_LEN, Upper, put_u16, u16_at, u32_at};
use super::contexts::{Contexts, Key};
use super::delta::{self, NUMBER_OR_OPTIONS};
use super::tcp::Tcp;
use super::{Config, Kind, Scheme};

/// Generations of a context may not come again within this time (RFC 2507 14).
const MIN_WRAP: Duration = Duration::from_secs(3);
/// Number of changes within that time that do not use a generation twice.
const MOST_CHANGES: u32 = 62;

/// Frame that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Kind.
    pub kind: Kind,
    /// Length of the packet's headers in bytes, as far as they can be compressed.
    pub header_in: usize,
    /// Length of the frame's headers in bytes.
    pub header_out: usize,
}

/// Context of another flow.
#[derive(Clone, Debug, Default)]
struct Session {
    /// Headers of the last packet, with RTP's.
    header: Vec<u8>,
    has_rtp: bool,
    generation: u8,
    /// Compressed headers since the last full one, and how many may be.
    count: u16,
    period: u16,
    full_at: Duration,
    /// Changes of generation since `changed_at`.
    changes: u32,
    changed_at: Duration,
    id_step: u16,
    timestamp_step: u32,
    sequence: u8,
    is_valid: bool,
}

/// Compressor of one direction of a link.
#[derive(Clone, Debug)]
pub struct Compressor {
    config: Config,
    tcp: Contexts<Tcp>,
    sessions: Contexts<Session>,
    /// Connection number of the last frame of RFC 1144.
    last: Option<u8>,
    /// Set if the last packet was sent whole as its context had changed too often.
    has_wrapped: bool,
}

impl Compressor {
    /// Creates a compressor without contexts.
    pub fn new(config: Config) -> Compressor {
        let config = config.limited();
        Compressor {
            config,
            tcp: Contexts::new(config.tcp_contexts.into()),
            sessions: Contexts::new(config.contexts.into()),
            last: None,
            has_wrapped: false,
        }
    }

    /// Returns `true` if the context of the last packet had changed too often.
    ///
    /// A generation does not come again within 3 s (RFC 2507, section 3.3). So the packet is sent whole, as where more flows than contexts alternate.
    pub fn has_wrapped(&self) -> bool {
        self.has_wrapped
    }

    /// Writes the frame of a packet to `out`, which is cleared.
    pub fn compress(&mut self, now: Duration, packet: &[u8], out: &mut Vec<u8>) -> Sent {
        self.compress_cut(now, packet, packet.len(), out)
    }

    /// Writes the frame of a packet of `len` bytes that a capture may have cut.
    pub fn compress_cut(&mut self, now: Duration, packet: &[u8], len: usize, out: &mut Vec<u8>) -> Sent {
        out.clear();
        self.has_wrapped = false;
        let chain = Chain::of(packet).filter(|chain| chain.is_restorable(packet, len));
        let sent = chain.and_then(|chain| match (self.config.scheme, chain.upper) {
            (Scheme::VanJacobson, Upper::Tcp) if chain.is_v4 => self.van_jacobson(&chain, packet, len, out),
            (Scheme::VanJacobson, _) => None,
            (_, Upper::Tcp) => self.tcp(&chain, packet, len, out),
            (Scheme::Iphc, _) => self.non_tcp(now, &chain, packet, out),
            (Scheme::Crtp, Upper::Udp) => self.udp(now, &chain, packet, out),
            (Scheme::Crtp, _) => None,
        });
        let sent = sent.unwrap_or_else(|| {
            out.clear();
            let header = chain.map_or(0, |chain| chain.len);
            out.extend_from_slice(&packet[..header]);
            let kind =
                if packet.first().is_some_and(|first| first >> 4 == 6) { Kind::Ipv6 } else { Kind::Ipv4 };
            Sent { kind, header_in: header, header_out: header }
        });
        out.extend_from_slice(&packet[sent.header_in..]);
        sent
    }

    /// Marks the contexts of a decompressor's list as lost. Their next packets have full headers.
    pub fn context_state(&mut self, list: &[u8]) {
        match list {
            [3, _, numbers @ ..] => numbers.iter().for_each(|number| {
                if let Some(context) = self.tcp.get_mut((*number).into()) {
                    context.is_valid = false;
                }
            }),
            [1, _, blocks @ ..] => {
                blocks.as_chunks::<3>().0.iter().for_each(|[id, state, _]| self.lost((*id).into(), *state));
            }
            [2, _, blocks @ ..] => blocks.as_chunks::<4>().0.iter().for_each(|[high, low, state, _]| {
                self.lost(u16::from_be_bytes([*high, *low]), *state);
            }),
            _ => {}
        }
    }

    fn lost(&mut self, id: u16, state: u8) {
        if let Some(session) = self.sessions.get_mut(id.into()).filter(|_| state & 0x80 != 0) {
            session.is_valid = false;
        }
    }

    /// RFC 1144.
    fn van_jacobson(&mut self, chain: &Chain, packet: &[u8], len: usize, out: &mut Vec<u8>) -> Option<Sent> {
        if !delta::is_established(chain, packet) {
            return None;
        }
        let header = &packet[..chain.len];
        let data = len - chain.len;
        let number = self.tcp_number(Key::of(chain, packet, None));
        let context = self.tcp.get_mut(number.into())?;
        let changes = context.vj_changes(chain, header, data);
        *context = Tcp { header: header.to_vec(), data, is_valid: true };
        let kind = match changes {
            None => {
                out.extend_from_slice(header);
                out[9] = number;
                Kind::VjUncompressed
            }
            Some(changes) => {
                let is_other = self.last != Some(number);
                out.push(changes.mask | if is_other { NUMBER_OR_OPTIONS } else { 0 });
                out.extend(is_other.then_some(number));
                out.extend_from_slice(&header[chain.ip_len + 16..chain.ip_len + 18]);
                out.extend_from_slice(&changes.bytes);
                Kind::VjCompressed
            }
        };
        self.last = Some(number);
        Some(Sent { kind, header_in: chain.len, header_out: out.len() })
    }

    /// TCP by RFC 2507. A decompressor would refuse a segment with a wrong checksum.
    fn tcp(&mut self, chain: &Chain, packet: &[u8], len: usize, out: &mut Vec<u8>) -> Option<Sent> {
        let is_wrong = packet.len() == len && !chain.has_right_tcp_checksum(packet);
        if is_wrong || !delta::is_established(chain, packet) {
            return None;
        }
        let header = &packet[..chain.len];
        let data = len - chain.len;
        let number = self.tcp_number(Key::of(chain, packet, None));
        let context = self.tcp.get_mut(number.into())?;
        let kind = match context.iphc_changes(chain, header, data) {
            None => {
                out.extend_from_slice(header);
                put_u16(out, chain.first_length(), number.into());
                *context = Tcp { header: header.to_vec(), data, is_valid: true };
                Kind::FullHeader
            }
            Some(changes) => {
                out.push(number);
                context.put(chain, header, &changes, out);
                context.keep(chain, header, data);
                Kind::CompressedTcp
            }
        };
        Some(Sent { kind, header_in: chain.len, header_out: out.len() })
    }

    /// Other headers by RFC 2507.
    fn non_tcp(&mut self, now: Duration, chain: &Chain, packet: &[u8], out: &mut Vec<u8>) -> Option<Sent> {
        let is_long = self.config.has_long_ids();
        if is_long && chain.upper != Upper::Udp {
            // A full header has no room for 16 bits.
            return None;
        }
        let header = &packet[..chain.len];
        let (max_period, max_time) = (self.config.max_period, self.config.max_time);
        let (id, session) = self.session(Key::of(chain, packet, None), now)?;
        let kind = if session.is_same_non_tcp(chain, header) && session.may_compress(now, max_time) {
            session.count += 1;
            put_id(id, is_long, session.generation, out);
            if chain.is_v4 {
                out.extend_from_slice(&header[4..6]);
            }
            if chain.upper == Upper::Udp && has_checksum(chain, header) {
                out.extend_from_slice(&header[chain.ip_len + 6..chain.len]);
            }
            Kind::CompressedNonTcp
        } else {
            if session.send_full(chain, header, now, max_period).is_none() {
                self.has_wrapped = true;
                return None;
            }
            put_full(chain, header, id, is_long, session.generation, None, out);
            Kind::FullHeader
        };
        Some(Sent { kind, header_in: chain.len, header_out: out.len() })
    }

    /// UDP and RTP by RFC 2508.
    fn udp(&mut self, now: Duration, chain: &Chain, packet: &[u8], out: &mut Vec<u8>) -> Option<Sent> {
        let is_long = self.config.has_long_ids();
        let rtp = rtp_len(chain, packet);
        let ssrc = rtp.map(|_| u32_at(packet, chain.len + 8));
        let header = &packet[..chain.len + rtp.unwrap_or(0)];
        let (max_period, max_time) = (self.config.max_period, self.config.max_time);
        let (id, session) = self.session(Key::of(chain, packet, ssrc), now)?;
        session.sequence = (session.sequence + 1) & 0xf;
        let is_due = session.count >= max_period || now.saturating_sub(session.full_at) > max_time;
        let is_same = session.is_valid && session.has_same_udp(chain, header) && !is_due;
        let sequence = session.sequence;
        let kind = if !is_same {
            put_full(chain, header, id, is_long, session.generation, Some(sequence), out);
            (session.count, session.full_at) = (0, now);
            (session.id_step, session.timestamp_step, session.is_valid) = (1, 0, true);
            Kind::FullHeader
        } else {
            session.count += 1;
            let compressed = session.rtp(chain, header, rtp, id, is_long, out);
            if !compressed {
                out.clear();
                session.uncompressed_rtp(chain, header, id, is_long, out);
            }
            if compressed {
                Kind::CompressedRtp { long: is_long }
            } else {
                Kind::CompressedUdp { long: is_long }
            }
        };
        // An RTP header that is sent as it is belongs to the headers all the same.
        (session.header, session.has_rtp) = (header.to_vec(), rtp.is_some());
        Some(Sent { kind, header_in: header.len(), header_out: out.len() })
    }

    /// Returns the number of a TCP connection's context, a new one if it has none. There are 256 at most.
    fn tcp_number(&mut self, key: Key) -> u8 {
        let number = self.tcp.find(&key);
        number.unwrap_or_else(|| self.tcp.claim(key, Tcp::default()).0) as u8
    }

    /// Returns number and context of a flow, a new one if it has none.
    fn session(&mut self, key: Key, now: Duration) -> Option<(u16, &mut Session)> {
        let place = match self.sessions.find(&key) {
            Some(place) => place,
            None => {
                let (place, before) = self.sessions.claim(key, Session::default());
                // The number goes on with its generations, and with its sequence.
                let session = self.sessions.get_mut(place)?;
                session.changed_at = now;
                if let Some(Session { generation, changes, changed_at, sequence, .. }) = before {
                    *session = Session { generation, changes, changed_at, sequence, ..Session::default() };
                }
                place
            }
        };
        Some((place as u16, self.sessions.get_mut(place)?))
    }
}

impl Session {
    /// Returns `true` if the fields that do not change with IPHC are the same.
    fn is_same_non_tcp(&self, chain: &Chain, header: &[u8]) -> bool {
        self.is_valid && self.header.len() == header.len() && self.has_same_udp(chain, header)
    }

    /// Returns `true` if IP and UDP have the same fields that do not change. The IP version and ports are the key's.
    fn has_same_udp(&self, chain: &Chain, header: &[u8]) -> bool {
        let before = &self.header;
        before.len() >= chain.len
            && chain.has_same_ip(before, header, 0xff)
            && (chain.upper != Upper::Udp || has_checksum(chain, before) == has_checksum(chain, header))
    }

    /// Returns `true` if neither count nor time of compressed headers is at its end.
    fn may_compress(&self, now: Duration, max_time: Duration) -> bool {
        self.count < self.period && now.saturating_sub(self.full_at) <= max_time
    }

    /// Counts a full header of IPHC, and keeps it. `None`: its generation came within too short a time.
    fn send_full(&mut self, chain: &Chain, header: &[u8], now: Duration, max_period: u16) -> Option<()> {
        if self.is_same_non_tcp(chain, header) {
            if self.count >= self.period {
                self.period = self.period.saturating_mul(2).min(max_period);
            }
        } else {
            if now.saturating_sub(self.changed_at) > MIN_WRAP {
                (self.changed_at, self.changes) = (now, 0);
            }
            if self.changes > MOST_CHANGES {
                return None;
            }
            self.changes += 1;
            self.generation = (self.generation + 1) & 0x3f;
            self.period = 1;
        }
        (self.count, self.full_at, self.is_valid) = (0, now, true);
        self.header = header.to_vec();
        Some(())
    }

    /// Returns `true` if it wrote a compressed RTP header. Some packets cannot have one.
    fn rtp(
        &mut self,
        chain: &Chain,
        header: &[u8],
        rtp: Option<usize>,
        id: u16,
        is_long: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        let (before, start) = (&self.header, chain.len);
        let Some(_) = rtp.filter(|_| self.has_rtp) else { return false };
        let (old, new) = (&before[start..], &header[start..]);
        // Version, padding and extension; payload type; synchronisation source.
        if old[0] & 0xf0 != new[0] & 0xf0 || (old[1] ^ new[1]) & 0x7f != 0 || old[8..12] != new[8..12] {
            return false;
        }
        let (mut mask, mut numbers) = (new[1] & 0x80, Vec::new());
        self.id_change(chain, header, &mut mask, &mut numbers);
        let sequence = u16_at(new, 2).wrapping_sub(u16_at(old, 2));
        if sequence != 1 {
            mask |= 0x40;
            delta::encode_number(sequence.into(), &mut numbers);
        }
        let step = u32_at(new, 4).wrapping_sub(u32_at(old, 4));
        if step != self.timestamp_step {
            mask |= 0x20;
            if !delta::encode_number(step.cast_signed(), &mut numbers) {
                return false;
            }
        }
        let has_list = old[0] & 0xf != new[0] & 0xf || old[RTP_LEN..] != new[RTP_LEN..];
        let is_extended = has_list || mask == 0xf0;
        let first = if is_extended { 0xf0 } else { mask };
        self.put_start(chain, header, id, is_long, first, out);
        if is_extended {
            out.push(mask | new[0] & 0xf);
        }
        out.extend_from_slice(&numbers);
        if is_extended {
            out.extend_from_slice(&new[RTP_LEN..]);
        }
        self.timestamp_step = step;
        self.keep_id_step(chain, header);
        true
    }

    /// Writes compressed IP and UDP headers, with RTP's as it is.
    fn uncompressed_rtp(&mut self, chain: &Chain, header: &[u8], id: u16, is_long: bool, out: &mut Vec<u8>) {
        let (mut mask, mut numbers) = (0, Vec::new());
        self.id_change(chain, header, &mut mask, &mut numbers);
        self.put_start(chain, header, id, is_long, mask, out);
        out.extend_from_slice(&numbers);
        out.extend_from_slice(&header[chain.len..]);
        self.timestamp_step = 0;
        self.keep_id_step(chain, header);
    }

    /// Adds the step of IPv4's identification, if it is another.
    fn id_change(&self, chain: &Chain, header: &[u8], mask: &mut u8, numbers: &mut Vec<u8>) {
        let step = self.id_step_to(chain, header);
        if step != self.id_step {
            *mask |= 0x10;
            delta::encode_number(step.into(), numbers);
        }
    }

    fn id_step_to(&self, chain: &Chain, header: &[u8]) -> u16 {
        if chain.is_v4 { u16_at(header, 4).wrapping_sub(u16_at(&self.header, 4)) } else { self.id_step }
    }

    fn keep_id_step(&mut self, chain: &Chain, header: &[u8]) {
        self.id_step = self.id_step_to(chain, header);
    }

    /// Writes identifier, mask with link sequence, and UDP checksum.
    fn put_start(&self, chain: &Chain, header: &[u8], id: u16, is_long: bool, mask: u8, out: &mut Vec<u8>) {
        if is_long {
            out.push((id >> 8) as u8);
        }
        out.extend([id as u8, mask | self.sequence]);
        if has_checksum(chain, header) {
            out.extend_from_slice(&header[chain.ip_len + 6..chain.len]);
        }
    }
}

/// Returns `true` if a UDP header has a checksum.
pub(super) fn has_checksum(chain: &Chain, header: &[u8]) -> bool {
    u16_at(header, chain.ip_len + 6) != 0
}

/// Writes identifier and generation of a compressed header of RFC 2507.
fn put_id(id: u16, is_long: bool, generation: u8, out: &mut Vec<u8>) {
    if is_long {
        out.extend([(id >> 8) as u8, 0x80 | generation, id as u8]);
    } else {
        out.extend([id as u8, generation]);
    }
}

/// Writes a full header. Its length fields have identifier, generation and perhaps a link sequence.
fn put_full(
    chain: &Chain,
    header: &[u8],
    id: u16,
    is_long: bool,
    generation: u8,
    sequence: Option<u8>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(header);
    let data = sequence.unwrap_or(0);
    let has_data = u16::from(sequence.is_some()) << 14;
    let high = u16::from(is_long) << 15 | has_data | u16::from(generation) << 8;
    let (first, second) = if is_long { (high | u16::from(data), id) } else { (high | id, u16::from(data)) };
    put_u16(out, chain.first_length(), first);
    if let Some(at) = chain.second_length() {
        put_u16(out, at, second);
    }
}

/// Returns the length of an RTP header with its CSRC list.
///
/// The rule is: version 2, even ports that are not reserved, and no packet type of RTCP.
fn rtp_len(chain: &Chain, packet: &[u8]) -> Option<usize> {
    let is_port = |at: usize| {
        let port = u16_at(packet, chain.ip_len + at);
        port >= 1024 && port.is_multiple_of(2)
    };
    let rtp = packet.get(chain.len..)?;
    let is_rtp = rtp.len() >= RTP_LEN && rtp[0] >> 6 == 2 && !(72..=76).contains(&(rtp[1] & 0x7f));
    let len = RTP_LEN + 4 * usize::from(rtp.first()? & 0xf);
    (is_rtp && is_port(0) && is_port(2) && rtp.len() >= len).then_some(len)
}
