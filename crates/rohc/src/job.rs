//! What a profile is given to do, and what it gives back: all that compressor, decompressor and profiles know of each other.

use alloc::vec::Vec;
use core::any::Any;
use core::cell::RefCell;
use core::time::Duration;

use crate::config::{CompressorConfig, DecompressorConfig};
use crate::confirm::Peer;
use crate::feedback::Queue;
use crate::frame::{Cid, Frame};
use crate::packet::Packet;
use crate::profile::{PacketType, Profile};
use crate::rfc3095::{List, Spare};

/// The other contexts of the channel (that of this packet is taken out): bases for context replication.
pub(crate) trait Others {
    /// CIDs in use are 0 to this, exclusive.
    fn count(&self) -> u16;
    /// The context at `cid`: a profile knows its own by their type.
    fn context(&self, cid: u16) -> Option<&dyn Any>;
}

/// A profile cannot carry this packet; the next one is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unfit;

/// What a profile needs to compress one packet.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) packet: &'a Packet<'a>,
    pub(crate) profile: Profile,
    pub(crate) cid: Cid,
    pub(crate) now: Duration,
    pub(crate) config: &'a CompressorConfig,
    pub(crate) others: &'a dyn Others,
    /// A list to be written anew.
    pub(crate) scratch: &'a RefCell<List>,
    /// The decompressor's clock resolution in milliseconds, once it has announced one (CLOCK option).
    pub(crate) clock_ms: Option<u8>,
}

/// What a profile wrote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Built {
    pub(crate) kind: PacketType,
    /// Octets of the packet that the written header stands for; the rest follows it as it is.
    pub(crate) header_in: usize,
}

/// What feedback to one context means for the channel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heard {
    /// The decompressor's clock resolution in milliseconds; 0: it cannot do timer-based timestamps.
    pub(crate) clock_ms: Option<u8>,
    /// The decompressor refuses the flow.
    pub(crate) rejected: bool,
}

/// What a profile needs to decompress one packet.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) frame: &'a Frame<'a>,
    pub(crate) now: Duration,
    pub(crate) config: &'a DecompressorConfig,
    pub(crate) others: &'a dyn Others,
    pub(crate) spare: &'a Spare,
    pub(crate) peer: &'a Peer,
}

impl Input<'_> {
    /// To write the CID of this packet in feedback.
    pub(crate) fn cid(&self) -> Cid {
        Cid { cids: self.config.channel.cids, cid: self.frame.cid }
    }
}

/// Where a profile writes to.
pub(crate) struct Output<'a> {
    /// The header is appended here.
    pub(crate) out: &'a mut Vec<u8>,
    pub(crate) feedback: &'a mut Queue,
}

/// What a profile made of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restored {
    pub(crate) kind: PacketType,
    /// Octets of the frame's body that were header; the rest is payload.
    pub(crate) header_in: usize,
    /// Whether there is a packet to deliver: an IR without dynamic chain or payload brings none.
    pub(crate) delivered: bool,
}
