//! The decompressor's context of one flow (RFC 5225 5.2).
//!
//! It keeps the last header octet for octet; a compressed header is what is to be patched in a copy of it. Packets may
//! come late: [`history`] has what the last packets and the last states were, so that a late one is read against the
//! packet sent before it, and changes nothing.

mod history;
mod rebuild;
mod steady;
mod trust;

use alloc::vec::Vec;

use self::history::{History, Point};
use self::steady::Steady;
use self::trust::Trust;
use super::chain::Chain;
use super::control::{self, Control};
use super::list::Table;
use super::{Input, transport};
use crate::framework::checksum;
use crate::framework::context::{Output, Restored};
use crate::framework::error::DecompressError;
use crate::framework::frame::Kind;
use crate::framework::octets::Reader;
use crate::framework::profile::{PacketType, Profile};
use crate::profiles::tcp::ip::{IpId, ip_id};
use crate::profiles::tcp::kind::Kind as HeaderKind;

/// Type octet of IR packets.
const IR: u8 = 0xfd;
/// Profile and CRC of an IR packet.
const IR_PREFIX_LEN: usize = 2;

/// Last headers of a flow, and its control fields.
#[derive(Debug, Default)]
pub(super) struct State {
    chain: Chain,
    headers: Vec<u8>,
    control: Control,
    table: Table,
    /// Number of the first packet in this state that arrived.
    since: u32,
}

impl State {
    /// Copies `other` into the memory of this one.
    fn copy(&mut self, other: &Self) {
        self.chain.clone_from(&other.chain);
        self.headers.clone_from(&other.headers);
        (self.control, self.table, self.since) = (other.control, other.table, other.since);
    }
}

/// Contents of a header about to be adopted. Its octets are in the scratch memory of the family.
#[derive(Clone, Debug)]
struct Draft {
    kind: PacketType,
    has_crc7: bool,
    control: Control,
    inner: IpId,
    /// Chain with other behaviours, of `co_repair`.
    chain: Option<Chain>,
    table: Option<Table>,
    /// Octets of the frame's body that were header.
    header_in: usize,
    /// Distance from the newest packet; not positive: late.
    distance: i32,
}

/// The decompressor's context.
#[derive(Debug)]
pub(super) struct Decompressor {
    profile: Profile,
    state: State,
    history: History,
    trust: Trust,
    steady: Steady,
}

impl Decompressor {
    pub(super) fn new(profile: Profile) -> Self {
        Self {
            profile,
            state: State::default(),
            history: History::default(),
            trust: Trust::default(),
            steady: Steady::default(),
        }
    }

    pub(super) const fn profile(&self) -> Profile {
        self.profile
    }

    /// Decompresses an IR packet of `profile`.
    pub(super) fn refresh(
        &mut self,
        profile: Profile,
        input: &Input<'_>,
        output: &mut Output<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<Restored, DecompressError> {
        self.steady.forget();
        let restored = self.initialize(profile, input, scratch);
        match &restored {
            Ok(_) => {
                output.out.extend_from_slice(scratch);
                self.trust.refreshed(self.state.control, input, output);
            }
            Err(_) => self.trust.failed(false, self.newest_msn(), input, output),
        }
        restored
    }

    fn initialize(
        &mut self,
        profile: Profile,
        input: &Input<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<Restored, DecompressError> {
        if input.frame.kind != Kind::Ir || input.frame.first != IR {
            return Err(DecompressError::Malformed("IR type octet of version 1"));
        }
        let (mut state, header_in) = match read_ir(profile, false, input) {
            // librohc's compressor leaves these headers to the payload, which no field says; the CRC does.
            Err(_) if profile.headers() == Profile::Ip => read_ir(profile, true, input)?,
            read => read?,
        };
        let payload = &input.frame.body[header_in..];
        state.infer(profile, payload.len() + input.frame.elided_bytes)?;
        self.check_transport(profile, &state.chain, &state.headers, payload, input)?;
        scratch.clone_from(&state.headers);
        self.adopt_state(profile, state, input);
        Ok(Restored { kind: PacketType::Ir, header_in, delivered: true })
    }

    /// Adopts what an IR packet says, unless it is one that comes late.
    fn adopt_state(&mut self, profile: Profile, mut state: State, input: &Input<'_>) {
        let is_same_flow = profile == self.profile && self.trust.is_full();
        let distance = control::distance(profile, self.state.control.number, state.control.number);
        if is_same_flow && self.history.is_late_refresh(profile, &self.state, &state, distance) {
            self.history.arrived(distance);
            return;
        }
        if profile != self.profile || !self.state.is_like(&state) {
            self.history.forget();
        }
        state.since = state.control.number;
        if is_same_flow && self.state.is_like(&state) {
            state.table.complete(&self.state.table);
            if state.has_same_slow_fields(profile, &self.state) {
                state.since = self.state.since;
            } else {
                self.history.keep(&self.state);
            }
        }
        self.profile = profile;
        self.state = state;
        self.history.push(distance, self.point(input));
    }

    /// Decompresses any other packet.
    pub(super) fn decompress(
        &mut self,
        input: &Input<'_>,
        output: &mut Output<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<Restored, DecompressError> {
        let draft = self.attempt(input, scratch).and_then(|draft| {
            let payload = &input.frame.body[draft.header_in..];
            let chain = draft.chain.as_ref().unwrap_or(&self.state.chain);
            self.check_transport(self.profile, chain, scratch, payload, input)?;
            Ok(draft)
        });
        let draft = match draft {
            Ok(draft) => draft,
            Err(error) => {
                self.steady.forget();
                let is_strong = matches!(error, DecompressError::CrcMismatch) && self.is_strong(input);
                self.trust.failed(is_strong, self.newest_msn(), input, output);
                return Err(error);
            }
        };
        let is_known = draft.distance <= 0 && self.history.has_arrived(draft.distance);
        let numbers_are_own = !self.has_own_numbers();
        if let Err(error) = self.trust.weigh(&draft, is_known, numbers_are_own, input) {
            self.trust.failed(false, self.newest_msn(), input, output);
            return Err(error);
        }
        let restored = Restored { kind: draft.kind, header_in: draft.header_in, delivered: true };
        output.out.extend_from_slice(scratch);
        let (msn, is_late) = (draft.control.msn(), draft.distance <= 0);
        self.adopt(draft, input, scratch);
        self.trust.succeeded(restored.kind, msn, is_late, self.state.control, input, output)?;
        self.set_template(is_late);
        Ok(restored)
    }

    /// Returns `true` if the profile takes its numbers from the packets.
    const fn has_own_numbers(&self) -> bool {
        self.profile.has_rtp() || matches!(self.profile, Profile::EspV2)
    }

    /// Adopts a header, unless it comes late.
    fn adopt(&mut self, draft: Draft, input: &Input<'_>, scratch: &mut Vec<u8>) {
        // Where it has arrived already, numbers have begun again.
        let is_late = draft.distance <= 0 && !self.history.has_arrived(draft.distance);
        if is_late && self.trust.is_full() {
            self.history.arrived(draft.distance);
            return;
        }
        if matches!(draft.kind, PacketType::CoCommon | PacketType::CoRepair) {
            self.history.keep_candidate(&self.state);
        }
        core::mem::swap(&mut self.state.headers, scratch);
        self.state.control = draft.control;
        if let Some(chain) = draft.chain {
            self.state.chain = chain;
        }
        self.state.chain.inner_mut().ip_id = draft.inner;
        self.state.table = draft.table.unwrap_or(self.state.table);
        if matches!(draft.kind, PacketType::CoCommon | PacketType::CoRepair)
            && self.history.confirm_candidate(self.profile, &self.state)
        {
            self.state.since = draft.control.number;
        }
        self.history.push(draft.distance, self.point(input));
    }

    /// Returns what later packets may be relative to.
    fn point(&self, input: &Input<'_>) -> Point {
        let State { chain, headers, control, .. } = &self.state;
        let ts = if self.profile.has_rtp() {
            transport::timestamp(&headers[chain.len() + transport::RTP..])
        } else {
            0
        };
        let link = chain.inner();
        let offset = match link.kind {
            HeaderKind::Ipv4 => link.ip_id.counter(ip_id(&headers[link.range()])).wrapping_sub(control.msn()),
            _ => 0,
        };
        Point { number: control.number, ts, offset, arrival_ms: input.now.as_millis() as u64 }
    }

    fn newest_msn(&self) -> Option<u16> {
        (!self.state.chain.is_empty()).then_some(self.state.control.msn())
    }

    fn check_transport(
        &self,
        profile: Profile,
        chain: &Chain,
        headers: &[u8],
        payload: &[u8],
        input: &Input<'_>,
    ) -> Result<(), DecompressError> {
        let payload_len = payload.len() + input.frame.elided_bytes;
        let is_wrong = || {
            let level = [chain.level(headers)];
            !checksum::transport_is_right(headers, payload, payload_len, &level, profile)
        };
        if input.config.verify && is_wrong() { Err(DecompressError::ChecksumMismatch) } else { Ok(()) }
    }
}

/// Reads an IR packet; returns its state and its octets in the body.
fn read_ir(profile: Profile, is_bare: bool, input: &Input<'_>) -> Result<(State, usize), DecompressError> {
    let mut state = State::default();
    state.chain.set_bare(is_bare);
    let mut reader =
        input.frame.body.get(IR_PREFIX_LEN..).map(Reader::new).ok_or(DecompressError::Truncated)?;
    state.read(profile, &mut reader)?;
    let header_in = IR_PREFIX_LEN + reader.consumed();
    if input.frame.ir_crc_matches(header_in) {
        Ok((state, header_in))
    } else {
        Err(DecompressError::CrcMismatch)
    }
}

impl State {
    /// Reads static and dynamic chain.
    fn read(&mut self, profile: Profile, reader: &mut Reader<'_>) -> Result<(), DecompressError> {
        self.chain.read_static(reader, &mut self.headers)?;
        if transport::protocol_of(profile).is_some_and(|protocol| protocol != self.chain.next()) {
            return Err(DecompressError::Malformed("static chain of another profile"));
        }
        transport::read_static(profile, reader, &mut self.headers)?;
        self.read_dynamic(profile, reader)
    }

    /// Reads the dynamic chain.
    fn read_dynamic(&mut self, profile: Profile, reader: &mut Reader<'_>) -> Result<(), DecompressError> {
        let at = self.chain.len();
        let control = &mut self.control;
        let endpoint = (profile.headers() == Profile::Ip).then_some(&mut *control);
        self.chain.read_dynamic(reader, &mut self.headers[..at], endpoint)?;
        transport::read_dynamic(profile, reader, &mut self.headers, at, control, &mut self.table)
    }

    /// Sets what is inferred of the length of the packet.
    fn infer(&mut self, profile: Profile, payload_len: usize) -> Result<(), DecompressError> {
        infer(profile, &self.chain, &mut self.headers, self.control, payload_len)
    }

    /// Returns `true` if the other state is of the same headers.
    fn is_like(&self, other: &Self) -> bool {
        self.chain.links.len() == other.chain.links.len()
            && self.chain.len() == other.chain.len()
            && self.chain.next() == other.chain.next()
    }
}

/// Sets what is inferred of the length of the packet in `headers`.
#[inline]
fn infer(
    profile: Profile,
    chain: &Chain,
    headers: &mut [u8],
    control: Control,
    payload_len: usize,
) -> Result<(), DecompressError> {
    let left = headers.len() - chain.len() + payload_len;
    transport::infer(profile, &mut headers[chain.len()..], left, control.coverage)?;
    chain.infer(headers, payload_len)
}
