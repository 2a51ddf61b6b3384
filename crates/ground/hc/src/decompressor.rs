//! Decompressor: packets from frames.

use std::time::Duration;

use super::chain::{Chain, RTP_LEN, Upper, put_u16, put_u32, u16_at, u32_at};
use super::compressor::has_checksum;
use super::delta::{self, NUMBER_OR_OPTIONS};
use super::tcp::Tcp;
use super::{Config, Error, Kind};

/// Minimum time between reports of lost contexts (RFC 2507 10.2, RFC 2508 3.3.5).
pub const REQUEST_INTERVAL: Duration = Duration::from_millis(100);
/// Longest headers that are kept (MAX_HEADER of RFC 2507), in bytes.
const MAX_HEADER: usize = 168;
/// Maximum number of times that a difference is applied (RFC 2507 10.1).
const TIMES: usize = 3;

/// Context of another flow.
#[derive(Clone, Debug, Default)]
struct Session {
    header: Vec<u8>,
    generation: u8,
    id_step: u16,
    timestamp_step: u32,
    sequence: u8,
    is_valid: bool,
}

/// Decompressor of one direction of a link.
#[derive(Clone, Debug)]
pub struct Decompressor {
    config: Config,
    tcp: Vec<Tcp>,
    sessions: Vec<Session>,
    last: Option<u8>,
    /// Contexts to report: of TCP, and of others.
    lost_tcp: Vec<u8>,
    lost: Vec<u16>,
    repaired: u64,
    /// Earliest time of further reports.
    next_request: Duration,
    /// Number of zeros in the place of bytes that a capture left out.
    missing: usize,
}

/// Lengths of the headers of a frame that was decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Length of the frame's headers in bytes.
    pub header_in: usize,
    /// Length of the packet's headers in bytes, as far as they can be compressed.
    pub header_out: usize,
}

impl Decompressor {
    /// Creates a decompressor without contexts.
    pub fn new(config: Config) -> Decompressor {
        let config = config.limited();
        Decompressor {
            config,
            tcp: vec![Tcp::default(); config.tcp_contexts.into()],
            sessions: Vec::new(),
            last: None,
            lost_tcp: Vec::new(),
            lost: Vec::new(),
            repaired: 0,
            next_request: Duration::ZERO,
            missing: 0,
        }
    }

    /// Writes the packet of a frame to `out`, which is cleared.
    ///
    /// # Errors
    /// Returns an error if the frame gives no packet.
    pub fn decompress(&mut self, kind: Kind, frame: &[u8], out: &mut Vec<u8>) -> Result<Restored, Error> {
        out.clear();
        let data = self.restore(kind, frame, out)?;
        Ok(Restored { header_in: frame.len().saturating_sub(data), header_out: out.len() - data })
    }

    /// Writes the packet of a frame of `len` bytes that a capture cut.
    ///
    /// It is written as far as it is known, and checksums of TCP are not compared.
    ///
    /// # Errors
    /// Returns an error if the frame gives no packet, or is cut within its headers.
    pub fn decompress_cut(
        &mut self,
        kind: Kind,
        frame: &[u8],
        len: usize,
        out: &mut Vec<u8>,
    ) -> Result<Restored, Error> {
        let missing = len.saturating_sub(frame.len());
        if missing == 0 {
            return self.decompress(kind, frame, out);
        }
        if len > usize::from(u16::MAX) {
            out.clear();
            return Err(Error::Malformed);
        }
        let mut whole = frame.to_vec();
        whole.resize(len, 0);
        self.missing = missing;
        let restored = self.decompress(kind, &whole, out);
        self.missing = 0;
        let restored = restored.and_then(|restored| {
            if restored.header_in > frame.len() { Err(Error::Truncated) } else { Ok(restored) }
        });
        let known = restored.map_or(0, |_| out.len().saturating_sub(missing));
        out.truncate(known);
        restored
    }

    /// Writes the packet of a frame, and returns the number of bytes behind its headers.
    fn restore(&mut self, kind: Kind, frame: &[u8], out: &mut Vec<u8>) -> Result<usize, Error> {
        match kind {
            Kind::Ipv4 | Kind::Ipv6 => {
                out.extend_from_slice(frame);
                Ok(Chain::of(self.known(out)).map_or(out.len(), |chain| out.len() - chain.len))
            }
            Kind::VjUncompressed => self.vj_uncompressed(frame, out),
            Kind::VjCompressed => self.vj_compressed(frame, out),
            Kind::FullHeader => self.full_header(frame, out),
            Kind::CompressedTcp => self.compressed_tcp(frame, out),
            Kind::CompressedTcpNodelta => self.whole_tcp(frame, out),
            Kind::CompressedNonTcp => self.compressed_non_tcp(frame, out),
            Kind::CompressedUdp { long } => self.compressed_udp(frame, long, false, out),
            Kind::CompressedRtp { long } => self.compressed_udp(frame, long, true, out),
            Kind::ContextState => Err(Error::Malformed),
        }
    }

    /// Reports a frame that the link lost. Connections of RFC 1144 are then known by their number only.
    pub fn frame_lost(&mut self) {
        self.last = None;
    }

    /// Writes the contexts that need full headers as frames of [`Kind::ContextState`], for [`Compressor::context_state`].
    ///
    /// The list is empty within [`REQUEST_INTERVAL`] of the last ones. Contexts that have been restored are left out.
    ///
    /// [`Compressor::context_state`]: super::Compressor::context_state
    pub fn take_context_states(&mut self, now: Duration) -> Vec<Vec<u8>> {
        if self.lost_tcp.is_empty() && self.lost.is_empty() || now < self.next_request {
            return Vec::new();
        }
        let mut frames = Vec::new();
        let mut tcp = std::mem::take(&mut self.lost_tcp);
        tcp.retain(|number| !self.tcp[usize::from(*number)].is_valid);
        frames.extend((!tcp.is_empty()).then(|| [vec![3, tcp.len().min(255) as u8], tcp].concat()));
        let mut others = std::mem::take(&mut self.lost);
        others.retain(|id| self.sessions.get(usize::from(*id)).is_none_or(|session| !session.is_valid));
        for some in others.chunks(255) {
            let is_long = self.config.has_long_ids();
            let mut frame = vec![if is_long { 2 } else { 1 }, some.len() as u8];
            for id in some {
                let session = self.sessions.get(usize::from(*id));
                let [sequence, generation] =
                    session.map_or([0; 2], |session| [session.sequence, session.generation]);
                frame.extend(is_long.then_some((id >> 8) as u8));
                frame.extend([*id as u8, 0x80 | sequence, generation]);
            }
            frames.push(frame);
        }
        if !frames.is_empty() {
            self.next_request = now + REQUEST_INTERVAL;
        }
        frames
    }

    /// Returns the number of TCP headers that were right after a difference was applied again.
    pub fn repaired(&self) -> u64 {
        self.repaired
    }

    fn vj_uncompressed(&mut self, frame: &[u8], out: &mut Vec<u8>) -> Result<usize, Error> {
        const TCP: u8 = 6;
        self.last = None;
        let number = *frame.get(9).ok_or(Error::Truncated)?;
        out.extend_from_slice(frame);
        out[9] = TCP;
        let chain = Chain::of(out).filter(|chain| chain.is_v4).ok_or(Error::Malformed)?;
        let context = self.tcp.get_mut(usize::from(number)).ok_or(Error::Malformed)?;
        let data = out.len() - chain.len;
        *context = Tcp { header: out[..chain.len].to_vec(), data, is_valid: true };
        self.last = Some(number);
        Ok(data)
    }

    fn vj_compressed(&mut self, frame: &[u8], out: &mut Vec<u8>) -> Result<usize, Error> {
        let (mask, mut rest) = frame.split_first().ok_or(Error::Truncated)?;
        if mask & NUMBER_OR_OPTIONS != 0 {
            let (number, after) = rest.split_first().ok_or(Error::Truncated)?;
            (self.last, rest) = (Some(*number), after);
        }
        let number = self.last.ok_or(Error::NoContext)?;
        let context = self.tcp.get_mut(usize::from(number)).filter(|context| context.is_valid);
        let Some(context) = context else {
            self.last = None;
            return Err(Error::NoContext);
        };
        let chain = Chain::of(&context.header).ok_or(Error::NoContext)?;
        let (checksum, rest) = rest.split_first_chunk::<2>().ok_or(Error::Truncated)?;
        let mut header = context.header.clone();
        let used = delta::apply(&chain, &mut header, context.data, *mask, rest).ok_or(Error::Truncated)?;
        header[chain.ip_len + 16..chain.ip_len + 18].copy_from_slice(checksum);
        let data = &rest[used..];
        chain.restore(&mut header, data.len())?;
        *context = Tcp { header, data: data.len(), is_valid: true };
        out.extend_from_slice(&context.header);
        out.extend_from_slice(data);
        Ok(data.len())
    }

    fn full_header(&mut self, frame: &[u8], out: &mut Vec<u8>) -> Result<usize, Error> {
        let chain = Chain::of(frame).ok_or(Error::Malformed)?;
        let first = u16_at(frame, chain.first_length());
        let second = chain.second_length().map(|at| u16_at(frame, at));
        out.extend_from_slice(frame);
        restore_whole(&chain, out)?;
        if chain.upper == Upper::Tcp {
            let context = self.tcp.get_mut(usize::from(first & 0xff)).ok_or(Error::Malformed)?;
            let data = out.len() - chain.len;
            *context = Tcp { header: out[..chain.len].to_vec(), data, is_valid: true };
            return Ok(data);
        }
        let (is_long, has_data) = (first & 0x8000 != 0, first & 0x4000 != 0);
        let generation = (first >> 8) as u8 & 0x3f;
        let (id, data) = match second {
            Some(second) if is_long => (second, first as u8),
            None if is_long => return Err(Error::Malformed),
            second => (first & 0xff, second.unwrap_or(0) as u8),
        };
        let headers = chain.len + if has_data { rtp_room(&chain, self.known(out)) } else { 0 };
        let session = Session {
            header: out[..headers].to_vec(),
            generation,
            id_step: 1,
            timestamp_step: 0,
            sequence: data & 0xf,
            is_valid: true,
        };
        self.keep(id, session)?;
        Ok(out.len() - headers)
    }

    /// Returns the bytes of a packet that the capture kept.
    fn known<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        &packet[..packet.len().saturating_sub(self.missing)]
    }

    /// Keeps the context of a number within the limit.
    fn keep(&mut self, id: u16, session: Session) -> Result<(), Error> {
        if id >= self.config.contexts {
            return Err(Error::Malformed);
        }
        let id = usize::from(id);
        if self.sessions.len() <= id {
            self.sessions.resize(id + 1, Session::default());
        }
        self.sessions[id] = session;
        Ok(())
    }

    fn compressed_tcp(&mut self, frame: &[u8], out: &mut Vec<u8>) -> Result<usize, Error> {
        let (number, rest) = frame.split_first().ok_or(Error::Truncated)?;
        let context = self.tcp.get_mut(usize::from(*number)).ok_or(Error::Malformed)?;
        if !context.is_valid {
            report(&mut self.lost_tcp, *number);
            return Err(Error::NoContext);
        }
        let chain = Chain::of(&context.header).ok_or(Error::NoContext)?;
        let mut tried = context.clone();
        for times in 1..=TIMES {
            tried.apply(&chain, rest, out)?;
            if self.missing > 0 || chain.has_right_tcp_checksum(out) {
                *context = tried;
                self.repaired += u64::from(times > 1);
                return Ok(context.data);
            }
        }
        context.is_valid = false;
        out.clear();
        report(&mut self.lost_tcp, *number);
        Err(Error::Checksum)
    }

    fn whole_tcp(&mut self, frame: &[u8], out: &mut Vec<u8>) -> Result<usize, Error> {
        const PORTS: usize = 4;
        let (number, rest) = frame.split_first().ok_or(Error::Truncated)?;
        let context = self.tcp.get(usize::from(*number)).ok_or(Error::Malformed)?;
        let chain = Chain::of(&context.header).ok_or(Error::NoContext)?;
        out.extend_from_slice(&context.header[..chain.ip_len + PORTS]);
        let rest = match (chain.is_v4, rest) {
            (true, [high, low, after @ ..]) => {
                out[4..6].copy_from_slice(&[*high, *low]);
                after
            }
            (true, _) => return Err(Error::Truncated),
            (false, rest) => rest,
        };
        out.extend_from_slice(rest);
        let chain = Chain::of(out).filter(|chain| chain.upper == Upper::Tcp).ok_or(Error::Truncated)?;
        restore_whole(&chain, out)?;
        let data = out.len() - chain.len;
        self.tcp[usize::from(*number)] = Tcp { header: out[..chain.len].to_vec(), data, is_valid: true };
        Ok(data)
    }

    fn compressed_non_tcp(&mut self, frame: &[u8], out: &mut Vec<u8>) -> Result<usize, Error> {
        let [first, state, rest @ ..] = frame else { return Err(Error::Truncated) };
        let (id, mut rest) = match (state & 0x80 != 0, rest) {
            (true, [low, rest @ ..]) => (u16::from_be_bytes([*first, *low]), rest),
            (true, []) => return Err(Error::Truncated),
            (false, rest) => (u16::from(*first), rest),
        };
        if state & 0x40 != 0 {
            rest = rest.get(1..).ok_or(Error::Truncated)?;
        }
        let session = self.sessions.get_mut(usize::from(id)).filter(|session| session.is_valid);
        let session = session.ok_or(Error::NoContext)?;
        if session.generation != state & 0x3f {
            return Err(Error::Generation);
        }
        let chain = Chain::of(&session.header).ok_or(Error::NoContext)?;
        let mut header = session.header[..chain.len].to_vec();
        if chain.is_v4 {
            let (field, after) = rest.split_first_chunk::<2>().ok_or(Error::Truncated)?;
            header[4..6].copy_from_slice(field);
            rest = after;
        }
        if chain.upper == Upper::Udp && has_checksum(&chain, &header) {
            let (checksum, after) = rest.split_first_chunk::<2>().ok_or(Error::Truncated)?;
            header[chain.ip_len + 6..chain.len].copy_from_slice(checksum);
            rest = after;
        }
        chain.restore(&mut header, rest.len())?;
        out.extend_from_slice(&header);
        out.extend_from_slice(rest);
        Ok(rest.len())
    }

    fn compressed_udp(
        &mut self,
        frame: &[u8],
        is_long: bool,
        is_rtp: bool,
        out: &mut Vec<u8>,
    ) -> Result<usize, Error> {
        let (id, rest) = match (is_long, frame) {
            (true, [high, low, rest @ ..]) => (u16::from_be_bytes([*high, *low]), rest),
            (false, [low, rest @ ..]) => (u16::from(*low), rest),
            _ => return Err(Error::Truncated),
        };
        let missing = self.missing;
        let session = self.sessions.get_mut(usize::from(id)).filter(|session| session.is_valid);
        let Some(session) = session else {
            report(&mut self.lost, id);
            return Err(Error::NoContext);
        };
        let (first, rest) = rest.split_first().ok_or(Error::Truncated)?;
        if first & 0xf != (session.sequence + 1) & 0xf {
            session.is_valid = false;
            report(&mut self.lost, id);
            return Err(Error::Gap);
        }
        let chain = Chain::of(&session.header).filter(|chain| chain.upper == Upper::Udp);
        let chain = chain.ok_or(Error::NoContext)?;
        let mut next = session.clone();
        next.sequence = first & 0xf;
        let data = if is_rtp { next.rtp(&chain, *first, rest)? } else { next.udp(&chain, *first, rest)? };
        chain.restore(&mut next.header, data.len())?;
        out.extend_from_slice(&next.header);
        out.extend_from_slice(data);
        if !is_rtp {
            // An RTP header behind UDP is as it was, and is kept.
            let known = &out[..out.len().saturating_sub(missing)];
            next.header = out[..chain.len + rtp_room(&chain, known)].to_vec();
            next.timestamp_step = 0;
        }
        *session = next;
        Ok(out.len() - session.header.len())
    }
}

impl Session {
    /// Reads the UDP checksum, and returns what follows it.
    fn checksum<'a>(&mut self, chain: &Chain, rest: &'a [u8]) -> Result<&'a [u8], Error> {
        if !has_checksum(chain, &self.header) {
            return Ok(rest);
        }
        let (checksum, rest) = rest.split_first_chunk::<2>().ok_or(Error::Truncated)?;
        self.header[chain.ip_len + 6..chain.len].copy_from_slice(checksum);
        Ok(rest)
    }

    /// Reads the step of IPv4's identification, and adds it.
    fn id(&mut self, chain: &Chain, is_given: bool, rest: &mut &[u8]) -> Result<(), Error> {
        if is_given {
            self.id_step = delta::decode_number(rest).ok_or(Error::Truncated)? as u16;
        }
        if chain.is_v4 {
            let id = u16_at(&self.header, 4).wrapping_add(self.id_step);
            put_u16(&mut self.header, 4, id);
        }
        Ok(())
    }

    /// Reads a compressed UDP header, and returns what follows it.
    fn udp<'a>(&mut self, chain: &Chain, first: u8, rest: &'a [u8]) -> Result<&'a [u8], Error> {
        let mut rest = self.checksum(chain, rest)?;
        self.header.truncate(chain.len);
        self.id(chain, first & 0x10 != 0, &mut rest)?;
        Ok(rest)
    }

    /// Reads a compressed RTP header, and returns what follows it.
    fn rtp<'a>(&mut self, chain: &Chain, first: u8, rest: &'a [u8]) -> Result<&'a [u8], Error> {
        let start = chain.len;
        if self.header.len() < start + RTP_LEN {
            return Err(Error::NoContext);
        }
        let mut rest = self.checksum(chain, rest)?;
        let is_extended = first & 0xf0 == 0xf0;
        let mut mask = first;
        if is_extended {
            let (octet, after) = rest.split_first().ok_or(Error::Truncated)?;
            (mask, rest) = (*octet, after);
        }
        self.id(chain, mask & 0x10 != 0, &mut rest)?;
        let number = |rest: &mut &[u8]| delta::decode_number(rest).ok_or(Error::Truncated);
        let step = if mask & 0x40 != 0 { number(&mut rest)? as u16 } else { 1 };
        let sequence = u16_at(&self.header, start + 2).wrapping_add(step);
        put_u16(&mut self.header, start + 2, sequence);
        if mask & 0x20 != 0 {
            self.timestamp_step = number(&mut rest)?.cast_unsigned();
        }
        let timestamp = u32_at(&self.header, start + 4).wrapping_add(self.timestamp_step);
        put_u32(&mut self.header, start + 4, timestamp);
        self.header[start + 1] = self.header[start + 1] & 0x7f | mask & 0x80;
        if is_extended {
            let count = mask & 0xf;
            let (list, after) = rest.split_at_checked(4 * usize::from(count)).ok_or(Error::Truncated)?;
            self.header[start] = self.header[start] & 0xf0 | count;
            self.header.truncate(start + RTP_LEN);
            self.header.extend_from_slice(list);
            rest = after;
        }
        Ok(rest)
    }
}

/// Writes lengths and checksum of a whole packet.
fn restore_whole(chain: &Chain, packet: &mut [u8]) -> Result<(), Error> {
    if chain.len > MAX_HEADER {
        return Err(Error::Malformed);
    }
    chain.restore(packet, 0)
}

/// Returns the length of an RTP header behind UDP, none if there cannot be one.
fn rtp_room(chain: &Chain, packet: &[u8]) -> usize {
    let Some(rtp) = packet.get(chain.len..).filter(|rtp| rtp.len() >= RTP_LEN) else { return 0 };
    let len = RTP_LEN + 4 * usize::from(rtp[0] & 0xf);
    if rtp[0] >> 6 == 2 && rtp.len() >= len { len } else { 0 }
}

/// Adds a context to those that are reported, once.
fn report<T: PartialEq>(list: &mut Vec<T>, id: T) {
    const MOST: usize = 1024;
    if list.len() < MOST && !list.contains(&id) {
        list.push(id);
    }
}
