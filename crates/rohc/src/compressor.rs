//! The compressor: finds a packet's profile and context, lets the profile write the header, and takes feedback.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::RefCell;
use core::time::Duration;

use crate::config::{CompressorConfig, RtpRule};
use crate::error::CompressError;
use crate::feedback::{self, Queue};
use crate::flow::{Key, set_key};
use crate::frame::{self, Cid, Front};
use crate::job::{Built, Heard, Job, Others, Unfit};
use crate::packet::{Packet, Transport};
use crate::profile::{CompressorState, Mode, PacketType, Profile, Profiles};
use crate::rfc3095::{Chain, List};
use crate::table::{Found, Table};
use crate::{rfc3095, tcp, uncompressed};

/// The longest IP packet there can be: an IPv6 header and 65535 octets.
const MAX_PACKET_BYTES: usize = 40 + 65_535;

/// After a REJECT the next so many packets bring no new context (RFC 3095 5.7.6.4: "for some time").
const REFRAIN_PACKETS: u16 = 256;

/// A context of one of the profiles. A profile is added here, in [`Context::new`], `compress` and `feedback`.
#[derive(Debug, Default)]
pub(crate) enum Context {
    #[default]
    Vacant,
    Uncompressed(uncompressed::Compressor),
    Rfc3095(Box<rfc3095::Compressor>),
    Tcp(Box<tcp::Compressor>),
}

impl Context {
    /// A context for a new flow of `job.profile`, in place of `self`, from which the mode may be inherited.
    fn renew(&mut self, job: &Job<'_>) {
        match (job.profile, &mut *self) {
            (Profile::Uncompressed, _) => {
                *self = Self::Uncompressed(uncompressed::Compressor::new(job.config))
            }
            (Profile::Tcp, Self::Tcp(context)) => context.renew(job),
            (Profile::Tcp, _) => *self = Self::Tcp(Box::new(tcp::Compressor::new(job))),
            (_, Self::Rfc3095(context)) => context.renew(job),
            _ => *self = Self::Rfc3095(Box::new(rfc3095::Compressor::new(job))),
        }
    }

    #[inline]
    fn expects(&self, chain: &Chain<'_>) -> bool {
        matches!(self, Self::Rfc3095(context) if context.expects(chain))
    }

    #[inline]
    fn compress(&mut self, job: &Job<'_>, out: &mut Vec<u8>) -> Result<Built, Unfit> {
        match self {
            Self::Vacant => Err(Unfit),
            Self::Uncompressed(context) => context.compress(job, out),
            Self::Rfc3095(context) => context.compress(job, out),
            Self::Tcp(context) => context.compress(job, out),
        }
    }

    /// `data` is CID and feedback, `field` the feedback.
    fn feedback(&mut self, data: &[u8], field: &[u8], config: &CompressorConfig) -> Heard {
        match self {
            Self::Vacant => Heard::default(),
            Self::Uncompressed(context) => {
                context.feedback();
                Heard::default()
            }
            Self::Rfc3095(context) => context.feedback(data, field, config),
            Self::Tcp(context) => context.feedback(data, field),
        }
    }
}

impl Others for Table<Context> {
    fn count(&self) -> u16 {
        self.len() as u16
    }

    fn context(&self, cid: u16) -> Option<&dyn Any> {
        match self.value(cid)? {
            Context::Vacant => None,
            Context::Uncompressed(context) => Some(context),
            Context::Rfc3095(context) => Some(&**context),
            Context::Tcp(context) => Some(&**context),
        }
    }
}

/// What was compressed, of one context or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowStats {
    /// Packets.
    pub packets: u64,
    /// Octets of the packets.
    pub bytes_in: u64,
    /// Octets of the ROHC packets, without feedback.
    pub bytes_out: u64,
    /// Octets of the headers that were compressed.
    pub header_in: u64,
    /// Octets of the compressed headers.
    pub header_out: u64,
    /// Packets that were IR.
    pub irs: u64,
}

impl FlowStats {
    fn count(&mut self, compressed: &Compressed, len: usize) {
        self.packets += 1;
        self.bytes_in += len as u64;
        self.bytes_out += (len - compressed.header_in + compressed.header_out) as u64;
        self.header_in += compressed.header_in as u64;
        self.header_out += compressed.header_out as u64;
        self.irs += u64::from(compressed.packet_type == PacketType::Ir);
    }

    fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.header_in += other.header_in;
        self.header_out += other.header_out;
        self.irs += other.irs;
    }
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compressed {
    /// Its context.
    pub cid: u16,
    /// Its profile.
    pub profile: Profile,
    /// The type of the ROHC packet.
    pub packet_type: PacketType,
    /// Octets at the start of the packet that the ROHC header stands for; the others follow it unchanged. For
    /// Uncompressed 1 or 0: at most the first octet is moved.
    pub header_in: usize,
    /// Octets of the ROHC header, CID included, feedback in front of it not.
    pub header_out: usize,
}

/// A ROHC compressor for one channel.
///
/// It has no clock: the caller says what time it is, from any fixed origin. Where no policy depends on time
/// ([`Refresh::interval`](crate::Refresh::interval), [`CompressorConfig::timer_jitter`]) `Duration::ZERO` always will do.
///
/// ```
/// use bentpipe_rohc::{Compressor, CompressorConfig, Decompressor, DecompressorConfig};
/// use std::time::Duration;
///
/// // An IPv4 packet with an unknown protocol and 4 octets of payload.
/// let ip = [0x45, 0, 0, 24, 0, 1, 0, 0, 64, 253, 0xf9, 0xeb, 10, 0, 0, 1, 10, 0, 0, 2, b'd', b'a', b't', b'a'];
/// let mut compressor = Compressor::new(CompressorConfig::default());
/// let mut rohc = Vec::new();
/// compressor.compress(Duration::ZERO, &ip, &mut rohc)?;
///
/// let mut decompressor = Decompressor::new(DecompressorConfig::default());
/// let mut restored = Vec::new();
/// decompressor.decompress(Duration::ZERO, &rohc, &mut restored)?;
/// assert_eq!(restored, ip);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Compressor {
    config: CompressorConfig,
    /// The profiles that the channel has. Those in `config` may be fewer.
    profiles: Profiles,
    flows: Table<Context>,
    counters: Vec<Counters>,
    /// What was compressed for flows that have no context any more.
    gone: FlowStats,
    clock_ms: Option<u8>,
    /// Packets to come during which no new flow is compressed: the decompressor has no room.
    refrain: u16,
    piggyback: Queue,
    key: Key,
    /// A list to be written anew.
    scratch: List,
    /// For the comparison of both ways.
    #[cfg(test)]
    pub(crate) general_only: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    stats: FlowStats,
    rejected: bool,
}

impl Compressor {
    /// A compressor without contexts.
    pub fn new(config: CompressorConfig) -> Self {
        let flows = Table::new(config.channel.cids.max_cid());
        let profiles = config.channel.profiles;
        Self {
            config,
            profiles,
            flows,
            counters: Vec::new(),
            gone: FlowStats::default(),
            clock_ms: None,
            refrain: 0,
            piggyback: Queue::default(),
            key: Key::default(),
            scratch: List::default(),
            #[cfg(test)]
            general_only: false,
        }
    }

    /// Compresses the packet `packet` (IP, or anything: what is not IP goes Uncompressed) and appends the ROHC packet to `out`.
    ///
    /// # Errors
    /// [`CompressError`], with nothing appended.
    pub fn compress(
        &mut self,
        now: Duration,
        packet: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Compressed, CompressError> {
        let compressed = self.compress_header(now, packet, packet.len(), out)?;
        out.extend_from_slice(&packet[compressed.header_in..]);
        Ok(compressed)
    }

    /// Compresses the header of a packet of `len_bytes` octets of which `bytes` is the start, with all headers in it,
    /// and appends the ROHC header to `out`. What follows it on the channel is the packet from octet
    /// [`Compressed::header_in`] on; the caller adds or elides it.
    ///
    /// # Errors
    /// [`CompressError`], with nothing appended.
    pub fn compress_header(
        &mut self,
        now: Duration,
        bytes: &[u8],
        len_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Compressed, CompressError> {
        if len_bytes < bytes.len() || len_bytes > MAX_PACKET_BYTES {
            return Err(CompressError::BadLength);
        }
        if bytes.is_empty() {
            return Err(CompressError::Empty);
        }
        self.piggyback.drain_into(out);
        if let Some(compressed) = self.step(now, bytes, len_bytes, out) {
            self.counters[usize::from(compressed.cid)].stats.count(&compressed, len_bytes);
            return Ok(compressed);
        }
        self.refrain = self.refrain.saturating_sub(1);
        let packet = Packet::parse(bytes, len_bytes, self.rule());
        let start = out.len();
        let (cid, profile, built) = self.first_that_fits(&packet, now, out);
        let compressed = Compressed {
            cid,
            profile,
            packet_type: built.kind,
            header_in: built.header_in,
            header_out: out.len() - start,
        };
        self.counters[usize::from(cid)].stats.count(&compressed, len_bytes);
        Ok(compressed)
    }

    fn rule(&self) -> &RtpRule {
        &self.config.rtp
    }

    /// The short way, for packets that follow from the last one of their flow.
    #[inline]
    pub(crate) fn step(
        &mut self,
        now: Duration,
        bytes: &[u8],
        len_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Option<Compressed> {
        #[cfg(test)]
        if self.general_only {
            return None;
        }
        let Some(chain) = Chain::of(bytes, len_bytes, &self.config) else {
            return self.step_tcp(now, bytes, len_bytes, out);
        };
        let cid = self.flows.find_if(chain.hash, |context| context.expects(&chain))?;
        let Context::Rfc3095(context) = self.flows.value_mut(cid)? else { return None };
        let start = out.len();
        let cid_writer = Cid { cids: self.config.channel.cids, cid };
        let header_in = context.step(&chain, now, &self.config, cid_writer, out)?;
        self.flows.used(cid);
        let (profile, packet_type) = (chain.profile, PacketType::Uo0);
        Some(Compressed { cid, profile, packet_type, header_in, header_out: out.len() - start })
    }

    #[inline]
    fn step_tcp(
        &mut self,
        now: Duration,
        bytes: &[u8],
        len_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Option<Compressed> {
        let plain = tcp::Plain::of(bytes, len_bytes, &self.config)?;
        let expects = |context: &Context| matches!(context, Context::Tcp(context) if context.expects(&plain));
        let cid = self.flows.find_if(plain.hash, expects)?;
        let is_rejected = self.counters.get(usize::from(cid))?.rejected;
        let Context::Tcp(context) = self.flows.value_mut(cid).filter(|_| !is_rejected)? else { return None };
        let start = out.len();
        let cid_writer = Cid { cids: self.config.channel.cids, cid };
        let (packet_type, header_in) = context.step(&plain, now, &self.config, cid_writer, out)?;
        self.flows.used(cid);
        Some(Compressed { cid, profile: Profile::Tcp, packet_type, header_in, header_out: out.len() - start })
    }

    /// Tries the profiles from the one that compresses most to Uncompressed.
    #[inline]
    fn first_that_fits(
        &mut self,
        packet: &Packet<'_>,
        now: Duration,
        out: &mut Vec<u8>,
    ) -> (u16, Profile, Built) {
        let start = out.len();
        for profile in self.candidates(packet) {
            if let Some((cid, built)) = self.try_profile(packet, profile, now, out) {
                return (cid, profile, built);
            }
            out.truncate(start);
        }
        self.last_resort(packet, out)
    }

    /// Every CID is reserved for another flow, Uncompressed has none: IR of Uncompressed at the highest CID, every
    /// time. It takes that context away, so that its flow starts anew.
    fn last_resort(&mut self, packet: &Packet<'_>, out: &mut Vec<u8>) -> (u16, Profile, Built) {
        let cid = self.config.channel.cids.max_cid();
        if let Some(context) = self.flows.value_mut(cid) {
            *context = Context::Vacant;
        }
        let cid_writer = Cid { cids: self.config.channel.cids, cid };
        let built = uncompressed::write_ir(cid_writer, out);
        debug_assert!(!packet.bytes.is_empty());
        self.counters.resize(self.counters.len().max(usize::from(cid) + 1), Counters::default());
        (cid, Profile::Uncompressed, built)
    }

    #[inline]
    fn try_profile(
        &mut self,
        packet: &Packet<'_>,
        profile: Profile,
        now: Duration,
        out: &mut Vec<u8>,
    ) -> Option<(u16, Built)> {
        set_key(packet, profile, &mut self.key);
        // A packet that TCP cannot carry must not take a CID for it.
        let admitted = || match profile {
            Profile::Uncompressed => true,
            Profile::Tcp => self.refrain == 0 && tcp::Compressor::carries(packet),
            _ => self.refrain == 0,
        };
        let found = self.flows.find_or_assign(&self.key, admitted)?;
        let (Found::Known(cid) | Found::Assigned(cid)) = found;
        if self.counters.len() <= usize::from(cid) {
            self.counters.resize(usize::from(cid) + 1, Counters::default());
        }
        // Taken out, so that the profile can look at the other contexts.
        let mut context = core::mem::take(self.flows.value_mut(cid)?);
        let scratch = RefCell::new(core::mem::take(&mut self.scratch));
        let job = Job {
            packet,
            profile,
            cid: Cid { cids: self.config.channel.cids, cid },
            now,
            config: &self.config,
            others: &self.flows,
            scratch: &scratch,
            clock_ms: self.clock_ms,
        };
        if matches!(found, Found::Assigned(_)) || matches!(context, Context::Vacant) {
            context.renew(&job);
            let counters = core::mem::take(&mut self.counters[usize::from(cid)]);
            self.gone.add(&counters.stats);
        }
        let refused = self.counters[usize::from(cid)].rejected && profile != Profile::Uncompressed;
        let built = if refused { Err(Unfit) } else { context.compress(&job, out) };
        self.scratch = scratch.into_inner();
        *self.flows.value_mut(cid)? = context;
        Some((cid, built.ok()?))
    }

    /// The profiles that could carry `packet`, best first.
    #[inline]
    fn candidates(&self, packet: &Packet<'_>) -> impl Iterator<Item = Profile> + use<> {
        let allowed = self.config.channel.profiles;
        let limit = self.config.max_packet_bytes as usize;
        let small = limit == 0 || packet.len <= limit;
        let depth = packet.levels().len();
        let rtp = packet.rtp;
        let best = match packet.transport {
            Transport::Udp if depth <= 2 => [rtp.then_some(Profile::Rtp), Some(Profile::Udp)],
            Transport::UdpLite => [rtp.then_some(Profile::RtpUdpLite), Some(Profile::UdpLite)],
            Transport::Esp if depth <= 2 => [Some(Profile::Esp), None],
            Transport::Tcp if packet.versions_are_announced() => [Some(Profile::Tcp), None],
            Transport::Udp | Transport::Esp | Transport::Tcp | Transport::Other => [None, None],
        };
        let ip = (depth > 0).then_some(Profile::Ip);
        let compressing =
            best.into_iter().chain([ip]).flatten().filter(move |&profile| small && allowed.contains(profile));
        compressing.chain([Profile::Uncompressed])
    }

    /// Gives `cid` to the flow of `packet` for good: it is never replaced by another flow.
    ///
    /// # Errors
    /// [`CompressError::CidOutOfRange`], [`CompressError::Empty`].
    pub fn reserve_cid(&mut self, cid: u16, packet: &[u8]) -> Result<(), CompressError> {
        let parsed = Packet::parse(packet, packet.len(), self.rule());
        if cid > self.config.channel.cids.max_cid() {
            return Err(CompressError::CidOutOfRange(cid));
        }
        let best =
            self.candidates(&parsed).next().filter(|_| !packet.is_empty()).ok_or(CompressError::Empty)?;
        set_key(&parsed, best, &mut self.key);
        self.flows.assign(cid, &self.key);
        self.flows.reserve(cid);
        if let Some(context) = self.flows.value_mut(cid) {
            *context = Context::Vacant;
        }
        Ok(())
    }

    /// Lets packets from now on be compressed by those of the channel's profiles that are in `profiles` too. Contexts of
    /// others stay.
    pub fn restrict(&mut self, profiles: Profiles) {
        self.config.channel.profiles = self.profiles.and(profiles);
    }

    /// Takes feedback from the decompressor of this channel: one or more feedback elements (type octet, size, data),
    /// as [`Decompressor::take_feedback`](crate::Decompressor::take_feedback) makes them or a feedback channel brings
    /// them, padding allowed. What is malformed or fails its CRC is ignored.
    pub fn feedback(&mut self, mut elements: &[u8]) {
        while let Ok(Front::Feedback { data, rest }) = frame::front(elements) {
            self.feedback_data(data);
            elements = rest;
        }
    }

    /// Takes the data of one feedback element: CID and feedback (RFC 3095 5.2.2).
    pub fn feedback_data(&mut self, data: &[u8]) {
        let Some((cid, field)) = feedback::split(data, self.config.channel.cids) else { return };
        let Some(context) = self.flows.value_mut(cid) else { return };
        let heard = context.feedback(data, field, &self.config);
        self.clock_ms = heard.clock_ms.or(self.clock_ms).filter(|&clock| clock != 0);
        if let Some(counters) = self.counters.get_mut(usize::from(cid)) {
            counters.rejected |= heard.rejected;
        }
        if heard.rejected {
            self.refrain = REFRAIN_PACKETS;
        }
    }

    /// Puts complete feedback elements (of the decompressor at this end, for the other direction) in front of the next
    /// ROHC packet. At most 4 kB wait.
    pub fn piggyback(&mut self, elements: &[u8]) {
        self.piggyback.extend(elements);
    }

    /// What was compressed so far.
    pub fn stats(&self) -> FlowStats {
        let mut total = self.gone;
        self.counters.iter().for_each(|counters| total.add(&counters.stats));
        total
    }

    /// What was compressed for the flow that has `cid` now.
    pub fn flow_stats(&self, cid: u16) -> Option<FlowStats> {
        self.counters.get(usize::from(cid)).map(|counters| counters.stats)
    }

    /// Mode and state of the context of `cid`, after its last packet and feedback.
    pub fn flow_state(&self, cid: u16) -> Option<(Mode, CompressorState)> {
        match self.flows.value(cid)? {
            Context::Vacant => None,
            Context::Uncompressed(context) => Some((context.mode(), context.state())),
            Context::Rfc3095(context) => Some((context.mode(), context.state())),
            Context::Tcp(context) => Some((context.mode(), context.state())),
        }
    }

    /// Contexts in existence.
    pub fn contexts(&self) -> usize {
        self.flows.len()
    }

    /// How often a context was given up as another flow needed its CID.
    pub const fn reassigned_cids(&self) -> u64 {
        self.flows.reassigned()
    }

    /// Lets every context start anew with IR packets: the decompressor was replaced (CONTEXT_REINITIALIZATION,
    /// RFC 3095 6.3.1).
    pub fn reinitialize(&mut self) {
        for cid in 0..self.flows.len() as u16 {
            if let Some(context) = self.flows.value_mut(cid) {
                *context = Context::Vacant;
            }
        }
    }
}
