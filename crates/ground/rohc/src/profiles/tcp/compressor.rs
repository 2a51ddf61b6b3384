//! The compressor's context of one TCP flow (RFC 6846 5.2).

mod choice;
mod confirm;
mod replicate;
mod schedule;
mod steady;

use alloc::vec::Vec;

use self::confirm::Confirm;
use self::schedule::Schedule;
pub(crate) use self::steady::Plain;
use super::Job;
use super::behaviour::{EcnWatch, IpIdWatch, StrideWatch};
use super::chain::{Chain, Link};
use super::extension;
use super::feedback;
use super::groups::{Group, Groups, Set};
use super::header::{self, Control, FIXED_LEN};
use super::ip::{self, IpId};
use super::kind::{Kind, PROTO_TCP};
use super::refs::{Ref, Refs, Sequences};
use super::table::{Plan, Table};
use crate::framework::context::{self, ArrivedFeedback, Built, FeedbackOutcome, Unfit};
use crate::framework::earlier::{Earlier, SentNumbers};
use crate::framework::feedback::Acknowledgement;
use crate::framework::frame::{self, IR, IR_DYN};
use crate::framework::octets::Writer;
use crate::framework::packet::Packet;
use crate::framework::profile::{CompressorState, Mode, PacketType, Profile};

/// The compressor's context.
#[derive(Debug, Default)]
pub(crate) struct Compressor {
    pub(super) chain: Chain,
    /// The last packet's chain and the fixed part of its TCP header.
    pub(super) headers: Vec<u8>,
    pub(super) control: Control,
    pub(super) refs: Refs,
    pub(super) table: Table,
    pub(super) groups: Groups,
    ip_id: IpIdWatch,
    stride: StrideWatch,
    ecn: EcnWatch,
    /// Feedback came: there is a way back, refreshes are not needed.
    is_bidirectional: bool,
    /// The context that this flow is replicated from while it begins.
    base: Option<u16>,
    /// Set if a packet of this flow was acknowledged. It can then be a base.
    pub(super) is_confirmed: bool,
    /// Set while the decompressor may have another flow's static part. The CID was used before, and nothing of this
    /// flow was acknowledged. IR then takes the place of IR-DYN, whose CRC does not cover the static part.
    is_static_unsure: bool,
    /// Set if this flow has sent a packet.
    is_begun: bool,
    /// Packets sent since this flow began, or its headers changed.
    packets: u32,
    pub(super) sequences: Sequences,
    pub(super) repeats: u8,
    schedule: Schedule,
    confirm: Confirm,
}

/// A packet to be compressed.
pub(super) struct View<'a> {
    pub(super) octets: &'a [u8],
    pub(super) chain: &'a [u8],
    /// The TCP header with its options.
    pub(super) tcp: &'a [u8],
    pub(super) payload_len: u32,
}

impl<'a> View<'a> {
    fn new(octets: &'a [u8], tcp_at: usize, len: usize) -> Option<Self> {
        let (chain, rest) = octets.split_at_checked(tcp_at)?;
        let tcp_len = usize::from(rest.get(12)? >> 4) * 4;
        let tcp = rest.get(..tcp_len).filter(|tcp| tcp.len() >= FIXED_LEN)?;
        let payload_len = (len - tcp_at - tcp_len) as u32;
        Some(Self { octets, chain, tcp, payload_len })
    }

    /// Returns all headers.
    pub(super) fn headers(&self) -> &'a [u8] {
        &self.octets[..self.chain.len() + self.tcp.len()]
    }

    pub(super) fn options(&self) -> &'a [u8] {
        &self.tcp[FIXED_LEN..]
    }
}

impl Compressor {
    /// Returns `true` if a new context could carry `packet`.
    pub(crate) fn carries(packet: &Packet<'_>) -> bool {
        let options = parse(packet.bytes, packet.len)
            .ok()
            .and_then(|chain| View::new(packet.bytes, chain.tcp_at(), packet.len).map(|view| view.options()));
        options.is_some_and(|options| Table::default().plan(options, 1).is_some())
    }

    pub(crate) const fn mode(&self) -> Mode {
        if self.is_bidirectional { Mode::Optimistic } else { Mode::Unidirectional }
    }

    pub(crate) fn state(&self) -> CompressorState {
        let due = self.groups.due();
        CompressorState::of(due.has(Group::Static), due != Set::NONE)
    }

    /// Creates a context without a flow.
    pub(crate) fn new(job: &context::Job<'_>) -> Self {
        let table = Table::new(!job.config.is_for_librohc());
        Self { is_static_unsure: job.is_reused, table, ..Self::default() }
    }

    /// Another flow takes this context; the master sequence number goes on (RFC 6846 6.1.1).
    pub(crate) fn renew(&mut self, job: &context::Job<'_>) {
        let msn = self.control.msn;
        let is_bidirectional = self.is_bidirectional;
        *self = Self { is_bidirectional, ..Self::new(job) };
        self.control.msn = msn;
    }

    pub(crate) fn compress(&mut self, job: &Job<'_>, out: &mut Vec<u8>) -> Result<Built, Unfit> {
        let (octets, len) = (job.packet.bytes, job.packet.len);
        self.repeats = job.config.repeats.clamp(1, MAX_REPEATS);
        let known =
            self.is_begun && (self.is_plain(job) || self.chain.describes(octets, len).ok_or(Unfit)?);
        let other = if known { None } else { Some(parse(octets, len)?) };
        let tcp_at = other.as_ref().unwrap_or(&self.chain).tcp_at();
        let view = View::new(octets, tcp_at, len).ok_or(Unfit)?;
        let plan = self.table.plan(view.options(), self.repeats).ok_or(Unfit)?;
        // From here on the packet will be sent.
        if let Some(chain) = other {
            self.begin(job, chain, &view);
        }
        self.control.msn = self.control.msn.wrapping_add(1);
        self.packets = self.packets.saturating_add(1);
        self.refresh(job);
        self.observe(&view, &plan);
        Ok(self.write(job, &view, &plan, out))
    }

    /// Returns `true` if the packet, as this flow, has one plain IP header before TCP. [`crate::framework::packet`]
    /// has found that it can be inferred.
    fn is_plain(&self, job: &Job<'_>) -> bool {
        let ([link], [level]) = (self.chain.links.as_slice(), job.packet.levels()) else { return false };
        let kind = if level.version == 4 { Kind::Ipv4 } else { Kind::Ipv6 };
        // Of the two zeros that a checksum can be, a decompressor infers the other.
        let negative_zero = kind == Kind::Ipv4 && job.packet.bytes[10..12] == [0xff, 0xff];
        kind == link.kind && level.extensions_len == 0 && level.next == PROTO_TCP && !negative_zero
    }

    /// Another chain of headers: all is new.
    fn begin(&mut self, job: &Job<'_>, mut chain: Chain, view: &View<'_>) {
        for index in 0..chain.links.len() {
            let is_inner = chain.is_inner(index);
            let link = &mut chain.links[index];
            if link.kind == Kind::Ipv4 {
                link.ip_id = match ip::ip_id(&view.chain[link.range()]) {
                    0 => IpId::Zero,
                    _ if is_inner => IpId::Sequential,
                    _ => IpId::Random,
                };
            }
        }
        if !self.is_begun {
            // There is no randomness here; the initial sequence number is as good.
            let msn = header::seq(view.tcp);
            self.control.msn =
                if self.control.msn == 0 { (msn ^ msn >> 16) as u16 } else { self.control.msn };
        }
        self.chain = chain;
        self.headers.clear();
        self.headers.extend_from_slice(view.chain);
        self.headers.extend_from_slice(&view.tcp[..FIXED_LEN]);
        self.is_begun = true;
        self.packets = 0;
        self.refs.clear();
        self.sequences = Sequences::default();
        self.repair(Set::ALL);
        let irs = self.schedule.begin(job.config, self.repeats);
        self.groups.changed(Set::ALL, self.control.msn.wrapping_add(1), irs);
        self.base = self.find_base(job, view);
        self.confirm = Confirm::starting(job.config, self.is_bidirectional);
    }

    /// The values of the last packet.
    pub(super) fn reference(&self) -> Ref {
        let tcp_at = self.chain.tcp_at();
        self.values(self.control.msn, &self.headers[..tcp_at], &self.headers[tcp_at..], 0)
    }

    pub(super) fn tcp(&self) -> &[u8] {
        &self.headers[self.chain.tcp_at()..]
    }

    /// Refreshes in unidirectional operation (RFC 6846 5.2.1.2).
    fn refresh(&mut self, job: &Job<'_>) {
        if self.is_bidirectional {
            return;
        }
        let is_due = self.schedule.due(job).and_not(self.groups.due());
        self.groups.changed(is_due, self.control.msn, self.schedule.times(job.config));
    }
}

/// Maximum number of repeats: four bits of MSN reach back to the oldest reference.
pub(super) const MAX_REPEATS: u8 = 11;

fn parse(octets: &[u8], len: usize) -> Result<Chain, Unfit> {
    let mut chain = Chain::default();
    chain.parse(octets, len).ok_or(Unfit)?;
    Ok(chain)
}

/// Changes since the packet before.
impl Compressor {
    fn observe(&mut self, view: &View<'_>, plan: &Plan<'_>) {
        let changed = self.chain_changes(view).and(self.tcp_changes(view));
        let changed = changed.with_if(Group::List, plan.list != self.table.list);
        self.mark(changed);
        if !self.refs.is_empty() {
            self.observe_ip_id(view);
            self.observe_stride(view);
        }
        let due = self.groups.due();
        // An IR or IR-DYN carries the bits in any case.
        let is_needed = due.has(Group::Ecn) && !due.meets(Set::IR_DYN);
        let flags = header::flags(view.tcp) & (header::RSF | header::URG | header::ACK);
        let is_free = flags != header::ACK || due.meets(Set::COMMON.with(Group::List));
        let ecn_used = self.ecn.judge(self.control.ecn_used, is_needed, is_free);
        if ecn_used != self.control.ecn_used {
            self.control.ecn_used = ecn_used;
            self.mark(Set::NONE.with(Group::EcnUsed));
        }
    }

    fn mark(&mut self, changed: Set) {
        self.groups.changed(changed, self.control.msn, self.repeats);
        self.confirm.changed(changed, self.repeats);
    }

    fn chain_changes(&mut self, view: &View<'_>) -> Set {
        let mut changed = Set::NONE;
        for index in 0..self.chain.links.len() {
            let is_inner = self.chain.is_inner(index);
            let link = &mut self.chain.links[index];
            let (old, new) = (&self.headers[link.range()], &view.chain[link.range()]);
            changed = changed.and(match link.kind {
                Kind::Ipv4 | Kind::Ipv6 if is_inner => inner_changes(old, new),
                Kind::Ipv4 | Kind::Ipv6 => outer_changes(link, old, new),
                kind => Set::NONE
                    .with_if(Group::Static, !extension::same_static(kind, old, new))
                    .with_if(Group::Dynamic, !extension::same_dynamic(kind, old, new)),
            });
        }
        changed
    }

    fn tcp_changes(&self, view: &View<'_>) -> Set {
        let (old, new) = (&self.headers[self.chain.tcp_at()..], view.tcp);
        let ecn = |tcp: &[u8]| (header::reserved(tcp), header::flags(tcp) & header::ECN);
        Set::NONE
            .with_if(Group::Static, old[..4] != new[..4])
            .with_if(Group::Ecn, ecn(old) != ecn(new))
            .with_if(Group::Urgent, header::urgent(old) != header::urgent(new))
    }

    fn observe_ip_id(&mut self, view: &View<'_>) {
        let link = *self.chain.inner();
        if link.kind != Kind::Ipv4 {
            return;
        }
        let (old, new) = (ip::ip_id(&self.headers[link.range()]), ip::ip_id(&view.chain[link.range()]));
        let is_free = self.groups.due().meets(Set::IR_DYN.with(Group::IpIdBehavior));
        let is_said = !header::is_ordinary(header::flags(view.tcp));
        let behavior = self.ip_id.judge(link.ip_id, old, new, is_free, is_said);
        if behavior != link.ip_id {
            self.chain.inner_mut().ip_id = behavior;
            self.mark(Set::NONE.with(Group::IpIdBehavior));
        }
    }

    fn observe_stride(&mut self, view: &View<'_>) {
        if view.payload_len > 0 {
            return;
        }
        let old = header::ack(&self.headers[self.chain.tcp_at()..]);
        let step = header::ack(view.tcp).wrapping_sub(old);
        if let Some(stride) = self.stride.judge(self.control.ack_stride, step) {
            self.control.ack_stride = stride;
            self.mark(Set::NONE.with(Group::AckStride));
        }
    }
}

fn inner_changes(old: &[u8], new: &[u8]) -> Set {
    let tos = ip::tos(old) ^ ip::tos(new);
    Set::NONE
        .with_if(Group::Static, !ip::same_static(old, new))
        .with_if(Group::Df, ip::df(old) != ip::df(new))
        .with_if(Group::Dscp, tos & !3 != 0)
        .with_if(Group::Ecn, tos & 3 != 0)
}

/// The IP-ID of an outer header is either random or zero; it never goes back.
fn outer_changes(link: &mut Link, old: &[u8], new: &[u8]) -> Set {
    let begins_to_vary = link.ip_id == IpId::Zero && ip::ip_id(new) != 0;
    if begins_to_vary {
        link.ip_id = IpId::Random;
    }
    Set::NONE
        .with_if(Group::Static, !ip::same_static(old, new))
        .with_if(Group::Dynamic, ip::df(old) != ip::df(new) || begins_to_vary)
        .with_if(Group::Ecn, ip::tos(old) != ip::tos(new))
        .with_if(Group::OuterTtl, ip::ttl(old) != ip::ttl(new))
}

/// Writing a packet.
impl Compressor {
    /// Returns the values to which later packets may be relative.
    #[inline]
    fn values(&self, msn: u16, chain: &[u8], tcp: &[u8], payload_len: u32) -> Ref {
        let inner = &chain[self.chain.inner().range()];
        Ref {
            msn,
            ip_id_offset: self.chain.inner().ip_id.counter(ip::ip_id(inner)).wrapping_sub(msn),
            window: header::window(tcp),
            ttl: ip::ttl(inner),
            seq: header::seq(tcp),
            ack: header::ack(tcp),
            payload_len,
            items_sent: 0,
        }
    }

    fn write(&mut self, job: &Job<'_>, view: &View<'_>, plan: &Plan<'_>, out: &mut Vec<u8>) -> Built {
        let current = self.values(self.control.msn, view.chain, view.tcp, view.payload_len);
        let is_strong = self.must_confirm(job, view);
        let (kind, carried, list) = self.write_best(job, view, plan, &current, is_strong, out);
        self.confirm.sent(kind, job.config);
        self.groups.sent(carried);
        let items_sent = self.table.sent(plan, list, self.control.msn, self.repeats);
        self.refs.push(Ref { items_sent, ..current }, usize::from(self.repeats));
        self.sequences.push(&self.chain, view.chain, self.refs.len());
        self.headers.clear();
        self.headers.extend_from_slice(view.chain);
        self.headers.extend_from_slice(&view.tcp[..FIXED_LEN]);
        self.schedule.sent(job, carried);
        Built { kind, header_in: view.headers().len() }
    }

    /// Writes the smallest header that signals what is due, and returns its contents. They are its type, its groups,
    /// and the kind of list if one was sent: with all options, or with those that had to be.
    fn write_best(
        &self,
        job: &Job<'_>,
        view: &View<'_>,
        plan: &Plan<'_>,
        current: &Ref,
        is_strong: bool,
        out: &mut Vec<u8>,
    ) -> (PacketType, Set, Option<bool>) {
        let due = self.groups.due();
        if due.has(Group::Static) {
            let base = self.base.and_then(|cid| Some((cid, self.base_at(job, cid, view)?)));
            return match base {
                Some(base) if self.control.ecn_used || header::same_ecn(view.tcp, base.1.tcp()) => {
                    self.write_ir_cr(job, view, plan, base, out);
                    (PacketType::IrCr, Set::ALL, Some(true))
                }
                _ => {
                    self.write_ir(job, view, plan, out);
                    (PacketType::Ir, Set::ALL, Some(true))
                }
            };
        }
        let compressed =
            if due.has(Group::Dynamic) { None } else { self.choose(view, plan, current, is_strong) };
        match compressed {
            Some(choice) if !job.config.only_ir_and_so || choice.is_short() => {
                let carried = self.write_compressed(job, view, plan, current, &choice, out);
                (choice.packet_type(), carried, choice.list.then_some(false))
            }
            None if !job.config.only_ir_and_so && !self.is_static_unsure => {
                self.write_ir_dyn(job, view, plan, out);
                (PacketType::IrDyn, Set::ALL.without(Group::Static), Some(true))
            }
            _ => {
                self.write_ir(job, view, plan, out);
                (PacketType::Ir, Set::ALL, Some(true))
            }
        }
    }

    fn write_ir(&self, job: &Job<'_>, view: &View<'_>, plan: &Plan<'_>, out: &mut Vec<u8>) {
        let (start, crc_at) = begin_ir(job, IR | 1, out);
        let mut writer = Writer::new(out);
        self.chain.write_static(view.chain, &mut writer);
        writer.bytes(&view.tcp[..4]);
        self.write_dynamic(view, plan, &mut writer);
        frame::seal_ir(out, start, crc_at);
    }

    fn write_ir_dyn(&self, job: &Job<'_>, view: &View<'_>, plan: &Plan<'_>, out: &mut Vec<u8>) {
        let (start, crc_at) = begin_ir(job, IR_DYN, out);
        self.write_dynamic(view, plan, &mut Writer::new(out));
        frame::seal_ir(out, start, crc_at);
    }

    fn write_dynamic(&self, view: &View<'_>, plan: &Plan<'_>, out: &mut Writer<'_>) {
        self.chain.write_dynamic(view.chain, out);
        header::write_dynamic(view.tcp, self.control, out);
        self.table.write_list(plan, true, header::ack(view.tcp), out);
    }
}

/// Writes the start of an IR or IR-DYN. Returns the offsets of it and its CRC.
pub(super) fn begin_ir(job: &Job<'_>, first: u8, out: &mut Vec<u8>) -> (usize, usize) {
    let start = out.len();
    job.cid.write(out, first);
    out.extend_from_slice(&[Profile::Tcp as u8, 0]);
    (start, out.len() - 1)
}

/// Feedback of the decompressor (RFC 6846 5.2.2).
impl Compressor {
    pub(crate) fn feedback(&mut self, arrived: &ArrivedFeedback<'_>) -> FeedbackOutcome {
        let Some(feedback) = feedback::parse(arrived.data, arrived.field) else {
            return FeedbackOutcome::default();
        };
        let outcome = FeedbackOutcome {
            rejected: feedback.reject || feedback.context_memory,
            ..FeedbackOutcome::default()
        };
        let packet = feedback.number.map(|(msn, bits)| self.sent_packet(msn, bits, arrived.earlier));
        // Feedback that may be of an earlier use of the CID confirms nothing, but a NACK still asks for an IR.
        if !self.is_begun || (packet == Some(None) && feedback.kind == Acknowledgement::Ack) {
            return outcome;
        }
        self.is_bidirectional = true;
        self.confirm = Confirm::default();
        if let Some(Some(msn)) = packet {
            self.acknowledged(msn);
        }
        match (feedback.kind, packet) {
            (Acknowledgement::Ack, _) => {}
            (Acknowledgement::Nack, Some(Some(_))) => self.repair(Set::ALL.without(Group::Static)),
            _ => self.repair(Set::ALL),
        }
        outcome
    }

    /// Returns the packet of this flow that the low bits of `msn` name. `None` if it may be of another flow.
    fn sent_packet(&self, msn: u16, bits: u32, earlier: Earlier<'_>) -> Option<u16> {
        let mask = ((1u32 << bits) - 1) as u16;
        let age = self.control.msn.wrapping_sub(msn) & mask;
        let is_of_this_flow = u32::from(age) < self.packets && !earlier.may_have_sent(u32::from(msn), bits);
        is_of_this_flow.then(|| self.control.msn.wrapping_sub(age))
    }

    /// Returns the master sequence numbers of the flow's packets.
    pub(crate) fn sent_numbers(&self) -> SentNumbers {
        SentNumbers::new(u32::from(self.control.msn), self.packets)
    }

    fn acknowledged(&mut self, msn: u16) {
        (self.is_confirmed, self.is_static_unsure) = (true, false);
        self.groups.acknowledge(msn);
        if let Some(sent) = self.refs.acknowledge(msn) {
            self.table.acknowledge(msn, sent.items_sent);
            self.sequences.keep(&self.chain, &self.headers, self.refs.len());
        }
    }

    /// The decompressor may have lost `groups`, and every option.
    fn repair(&mut self, groups: Set) {
        self.is_confirmed = false;
        self.base = None;
        self.table.forget();
        self.groups.changed(groups, self.control.msn.wrapping_add(1), self.repeats);
    }
}
