//! Interface between the framework and the profiles.
//!
//! A family of profiles implements [`CompressorFamily`] and [`DecompressorFamily`]; the framework calls nothing else of it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::time::Duration;

use crate::framework::config::{CompressorConfig, DecompressorConfig};
use crate::framework::earlier::{Earlier, SentNumbers};
use crate::framework::error::DecompressError;
use crate::framework::feedback::{self, Queue};
use crate::framework::frame::{Cid, Frame};
use crate::framework::packet::Packet;
use crate::framework::profile::{CompressorState, Mode, PacketType, Profile};
use crate::framework::table::Table;

/// Compressor contexts of one family of profiles on one channel.
pub(crate) trait CompressorFamily: Debug + Send {
    /// Returns the profiles of the family that could carry `packet`.
    fn suitable(&self, packet: &Packet<'_>) -> Suitable;

    /// Returns `true` if a new context of `profile` could carry `packet`.
    fn accepts(&self, _packet: &Packet<'_>, _profile: Profile) -> bool {
        true
    }

    /// Begins a flow of `job.profile` at `job.cid`. A context of an earlier flow may be there.
    fn begin(&mut self, job: &Job<'_>);

    /// Appends the ROHC header of `job.packet`, whose flow has begun, to `out`.
    fn compress(&mut self, job: &Job<'_>, out: &mut Vec<u8>) -> Result<Built, Unfit>;

    /// Processes feedback for the context at `feedback.cid`.
    fn feedback(&mut self, feedback: &ArrivedFeedback<'_>) -> FeedbackOutcome;

    /// Returns the sequence numbers that feedback to packets of the context at `cid` may name.
    fn sent_numbers(&self, cid: u16) -> SentNumbers;

    /// Returns mode and state of the context at `cid`.
    fn status(&self, cid: u16) -> Option<(Mode, CompressorState)>;

    /// Removes the context at `cid`, if there is one.
    fn remove(&mut self, cid: u16);
}

/// Decompressor contexts of one family of profiles on one channel.
pub(crate) trait DecompressorFamily: Debug + Send {
    /// Returns `true` if `profile` is one of this family.
    fn serves(&self, profile: Profile) -> bool;

    /// Returns `true` if contexts take memory worth a limit.
    fn is_limited(&self) -> bool {
        true
    }

    /// Decompresses an IR or IR-DYN packet of `profile`, which may set up a context.
    fn refresh(
        &mut self,
        profile: Profile,
        input: &Input<'_>,
        output: &mut Output<'_>,
    ) -> Result<Restored, DecompressError>;

    /// Decompresses any other packet of an existing context.
    fn decompress(&mut self, input: &Input<'_>, output: &mut Output<'_>)
    -> Result<Restored, DecompressError>;

    /// Returns the profile of the context at `cid`.
    fn profile(&self, cid: u16) -> Option<Profile>;

    /// Removes the context at `cid`, if there is one.
    fn remove(&mut self, cid: u16);

    /// Appends the refusal of a flow for lack of room to `feedback`.
    ///
    /// By default in the format of the RFC 3095 family.
    fn reject(&self, cid: Cid, mode: Mode, feedback: &mut Queue) {
        feedback::push_reject(cid, mode, feedback);
    }
}

/// Families of a compressor, by index. The last one carries any packet.
///
/// The fast path is a static call, as it is some 900 instructions long; all else goes by [`CompressorFamily`].
pub(crate) trait CompressorFamilies: Debug {
    /// Number of families, at most eight.
    const COUNT: usize;

    /// Compresses a packet on the fast path, or returns `None` with nothing changed.
    fn step(&mut self, flows: &Flows, step: &Step<'_>, out: &mut Vec<u8>) -> Option<Stepped>;

    /// Returns the family at `index`.
    fn get(&self, index: usize) -> &dyn CompressorFamily;

    /// Returns the family at `index`.
    fn get_mut(&mut self, index: usize) -> &mut dyn CompressorFamily;
}

/// Families of a decompressor, by index.
pub(crate) trait DecompressorFamilies: Debug {
    /// Number of families.
    const COUNT: usize;

    /// Decompresses a packet on the fast path, or returns `None` with nothing changed.
    fn step(
        &mut self,
        index: usize,
        cid: u16,
        incoming: &Incoming<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Restepped>;

    /// Returns the family at `index`.
    fn get(&self, index: usize) -> &dyn DecompressorFamily;

    /// Returns the family at `index`.
    fn get_mut(&mut self, index: usize) -> &mut dyn DecompressorFamily;
}

/// Profiles of a family that could carry a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Suitable {
    /// Profiles for the packet's transport, best first.
    pub(crate) specific: [Option<Profile>; 2],
    /// Profile for packets of any transport, after the specific ones of all families.
    pub(crate) general: Option<Profile>,
}

/// Flows by CID, with the family that holds each one's context.
pub(crate) type Flows = Table<Holder>;

/// Holder of a flow's context: a family, and whether the decompressor has rejected the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder(u16);

impl Default for Holder {
    fn default() -> Self {
        Self(Self::NONE)
    }
}

impl Holder {
    const NONE: u16 = 0xff;
    const REJECTED: u16 = 0x100;

    /// Creates the entry of a context of the family at `index`.
    pub(crate) const fn new(index: usize) -> Self {
        Self(index as u16)
    }

    /// Returns the index of the family, if there is a context.
    #[inline]
    pub(crate) fn family(self) -> Option<usize> {
        let family = self.0 & 0xff;
        (family != Self::NONE).then_some(usize::from(family))
    }

    /// Returns `true` if the decompressor has rejected the flow.
    pub(crate) const fn is_rejected(self) -> bool {
        self.0 & Self::REJECTED != 0
    }

    /// Notes that the decompressor has rejected the flow.
    pub(crate) fn reject(&mut self) {
        self.0 |= Self::REJECTED;
    }
}

/// Contexts of one family by CID.
#[derive(Debug)]
pub(crate) struct Contexts<C>(Vec<Option<Box<C>>>);

impl<C> Default for Contexts<C> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<C> Contexts<C> {
    #[inline]
    pub(crate) fn get(&self, cid: u16) -> Option<&C> {
        self.0.get(usize::from(cid))?.as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, cid: u16) -> Option<&mut C> {
        self.0.get_mut(usize::from(cid))?.as_deref_mut()
    }

    /// Removes and returns the context at `cid`.
    #[inline]
    pub(crate) fn take(&mut self, cid: u16) -> Option<Box<C>> {
        self.0.get_mut(usize::from(cid))?.take()
    }

    /// Stores `context` at `cid`.
    #[inline]
    pub(crate) fn put(&mut self, cid: u16, context: Box<C>) {
        let at = usize::from(cid);
        if at >= self.0.len() {
            self.0.resize_with(at + 1, || None);
        }
        self.0[at] = Some(context);
    }
}

/// Error returned when a profile cannot carry a packet; the next one is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unfit;

/// Packet to compress on the fast path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'a> {
    /// Start of the packet, with all headers in it.
    pub(crate) bytes: &'a [u8],
    /// Length of the packet in octets.
    pub(crate) len: usize,
    pub(crate) now: Duration,
    pub(crate) config: &'a CompressorConfig,
}

impl Step<'_> {
    /// Returns the writer of the CID `cid`.
    #[inline]
    pub(crate) const fn cid(&self, cid: u16) -> Cid {
        Cid { cids: self.config.channel.cids, cid }
    }
}

/// Result of the compressor's fast path, small enough for a register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stepped {
    pub(crate) cid: u16,
    pub(crate) profile: Profile,
    pub(crate) kind: PacketType,
    /// Octets of the packet that the header stands for.
    pub(crate) header_in: u16,
}

/// Packet to compress, with all that a profile needs to know.
///
/// `shared` is what the contexts of a family share; the framework shares nothing.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a, S = ()> {
    pub(crate) packet: &'a Packet<'a>,
    pub(crate) profile: Profile,
    pub(crate) cid: Cid,
    pub(crate) now: Duration,
    pub(crate) config: &'a CompressorConfig,
    /// Number of CIDs in use, from 0 on.
    pub(crate) cids_in_use: u16,
    /// Set if the CID had another use before: the decompressor may have that one's context.
    pub(crate) is_reused: bool,
    /// Clock resolution of the decompressor in milliseconds, once announced (CLOCK option).
    pub(crate) clock_ms: Option<u8>,
    pub(crate) shared: &'a S,
}

impl<'a> Job<'a> {
    /// Returns the job with what the contexts of a family share.
    #[inline]
    pub(crate) const fn sharing<S>(&self, shared: &'a S) -> Job<'a, S> {
        let Self { packet, profile, cid, now, config, cids_in_use, is_reused, clock_ms, .. } = *self;
        Job { packet, profile, cid, now, config, cids_in_use, is_reused, clock_ms, shared }
    }
}

/// Packet type and length of a header that a profile wrote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Built {
    pub(crate) kind: PacketType,
    /// Octets of the packet that the header stands for; the rest follows it unchanged.
    pub(crate) header_in: usize,
}

/// Feedback for a compressor context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrivedFeedback<'a> {
    pub(crate) cid: u16,
    /// CID and feedback.
    pub(crate) data: &'a [u8],
    /// Feedback, the end of `data`.
    pub(crate) field: &'a [u8],
    pub(crate) config: &'a CompressorConfig,
    /// Earlier uses of the CID that the feedback may be of.
    pub(crate) earlier: Earlier<'a>,
}

/// Consequences of feedback for the channel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FeedbackOutcome {
    /// Clock resolution of the decompressor in milliseconds; 0: no timer-based timestamps.
    pub(crate) clock_ms: Option<u8>,
    /// Set if the decompressor rejects the flow.
    pub(crate) rejected: bool,
}

/// Packet to decompress on the fast path. Its first octet is the profile's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    /// Type octet.
    pub(crate) first: u8,
    /// Octets after type octet and large CID.
    pub(crate) body: &'a [u8],
    pub(crate) elided_bytes: usize,
    pub(crate) now: Duration,
    pub(crate) config: &'a DecompressorConfig,
}

/// Result of the decompressor's fast path, small enough for a register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restepped {
    pub(crate) profile: Profile,
    pub(crate) kind: PacketType,
    /// Octets of the body that were header.
    pub(crate) header_in: u16,
}

/// Packet to decompress, with all that a profile needs to know.
///
/// `shared` is what the contexts of a family share; the framework shares nothing.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a, S = ()> {
    pub(crate) frame: &'a Frame<'a>,
    pub(crate) now: Duration,
    pub(crate) config: &'a DecompressorConfig,
    pub(crate) shared: &'a S,
}

impl<'a> Input<'a> {
    /// Returns the input with what the contexts of a family share.
    #[inline]
    pub(crate) const fn sharing<S>(&self, shared: &'a S) -> Input<'a, S> {
        let Self { frame, now, config, .. } = *self;
        Input { frame, now, config, shared }
    }
}

impl<S> Input<'_, S> {
    /// Returns the writer of this packet's CID, for feedback.
    pub(crate) const fn cid(&self) -> Cid {
        Cid { cids: self.config.channel.cids, cid: self.frame.cid }
    }
}

/// Destinations of a profile's output.
pub(crate) struct Output<'a> {
    /// Buffer to which the header is appended.
    pub(crate) out: &'a mut Vec<u8>,
    pub(crate) feedback: &'a mut Queue,
}

/// Packet type and length of a header that a profile restored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restored {
    pub(crate) kind: PacketType,
    /// Octets of the frame's body that were header; the rest is payload.
    pub(crate) header_in: usize,
    /// Set if there is a packet to deliver. An IR without dynamic chain or payload brings none.
    pub(crate) delivered: bool,
}
