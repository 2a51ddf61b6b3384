//! Cost of packets on a medium, for budgets.

use std::any::Any;

use bentpipe_units::{Bytes, Rate, Span};
use serde::Serialize;

use crate::sample::Sample;

/// Copies of a link that share a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharingCopies {
    /// Only the copy itself, in both directions.
    One,
    /// Copies from one node.
    OfNode,
    /// Every copy, also those from different nodes.
    All,
}

/// Line that members of a medium pass, and share where it is the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Name, of which there is one.
    pub name: String,
    /// Rate that is left on it.
    pub rate: Rate,
    /// Ends, of which nodes may have copies. Each then has a line of its own.
    pub between: [String; 2],
}

/// Rate that a medium has by itself from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnRate {
    /// Start, or the event that it follows.
    pub from: Span,
    /// Rate at which it sends.
    pub rate: Rate,
    /// Set unless all that it sends is lost, as below the threshold of a modulation.
    pub is_received: bool,
}

/// Cost of packets on a direction of a link.
pub trait Cost {
    /// Returns the rate of frames or cells.
    fn rate(&self) -> Rate;

    /// Returns the usable part of the rate. Default: all of it.
    fn usable(&self) -> Rate {
        self.rate()
    }

    /// Returns the rates that it has by itself from their times on. Default: it stays.
    ///
    /// The first is from the start, or from the event that it follows. Events are not among them: a state after one has a cost of its own.
    fn rates(&self) -> Vec<OwnRate> {
        Vec::new()
    }

    /// Follows an event at a time, before which another cost held. Default: the past does not matter.
    fn follow(&mut self, _before: &dyn Cost, _at: Span) {}

    /// Returns the cost, for the one that follows it. Default: none asks for it.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// Returns the lines that its packets pass with those of other members. Default: none.
    ///
    /// Each has the bytes on the line of its packets: [`Cost::wire_len`].
    fn passed(&self) -> &[Passed] {
        &[]
    }

    /// Returns the probability that the medium itself loses one of `count` packets in succession.
    ///
    /// Default: it loses none.
    fn mean_loss(&self, _len: usize, _count: u64) -> f64 {
        0.0
    }

    /// Returns the part of a packet's time while another sender waits too. Default: all of it.
    fn contended(&self, _len: usize) -> f64 {
        1.0
    }

    /// Returns the greatest number of packets per second. Default: their length alone limits them.
    fn packet_rate(&self) -> Option<f64> {
        None
    }

    /// Returns the cells of a packet of `len` bytes, and the padding. `None` without cells.
    fn cells(&self, _len: usize) -> Option<(u64, Bytes)> {
        None
    }

    /// Returns the bytes that a packet takes, in whole ones.
    fn wire_len(&self, len: usize) -> Bytes;

    /// Returns the mean bytes that a packet takes of many in succession. Default: the whole ones.
    fn mean_len(&self, len: usize) -> f64 {
        self.wire_len(len).get() as f64
    }

    /// Returns the rate of IP packets of this length. Default: usable rate times packet over mean wire size.
    fn capacity(&self, len: usize) -> Rate {
        let (wire, mean) = (self.wire_len(len).get().max(1), self.mean_len(len));
        if mean != wire as f64 {
            return Rate::from_bps((self.usable().as_bps() as f64 * len as f64 / mean.max(1.0)) as u64);
        }
        let bits = u128::from(self.usable().as_bps()) * len as u128 / u128::from(wire);
        Rate::from_bps(bits as u64)
    }

    /// Returns the part of a packet's time that is drawn, in the mean. A lucky one has none of it. Default: nothing is drawn.
    fn drawn(&self, _len: usize) -> Span {
        Span::ZERO
    }

    /// Returns the mean time that a packet waits for the medium, which no delay counts. Default: none.
    ///
    /// A packet alone may wait less. It is for what a sender has on its way in the mean, as a queue's size.
    fn waits(&self, _len: usize) -> Span {
        Span::ZERO
    }

    /// Returns the transmission time of a packet. Default: wire size over usable rate.
    fn time(&self, len: usize) -> Span {
        self.usable().span_of(self.wire_len(len))
    }

    /// Returns the name of the resource whose rate all members with the same name share. Default: none.
    fn shared(&self) -> Option<&str> {
        None
    }

    /// Returns the copies of a link that share that resource. Default: those from one node.
    fn sharing_copies(&self) -> SharingCopies {
        SharingCopies::OfNode
    }

    /// Returns what the capacity for packets of `len` bytes is made of, a line each. Default: nothing.
    fn notes(&self, _len: usize) -> Vec<String> {
        Vec::new()
    }

    /// Returns the mean lengths of packets of `flows` flows behind header compression.
    ///
    /// `sample` returns packets of a number of them. `None` without compression, which is the default.
    fn compressed(&self, _flows: u64, _sample: &dyn Fn(u16) -> Option<Sample>) -> Option<Compressed> {
        None
    }

    /// Returns the time of a packet to a group as a multiple of another's. Default: 1.
    fn to_group(&self, _len: usize) -> f64 {
        1.0
    }

    /// Returns the part of a flow's packets that its filter drops.
    ///
    /// `None` stands for a part that is not known.
    /// `sample` returns packets of the flow, if they are known. Default: none are dropped.
    fn dropped(&self, _sample: &dyn Fn() -> Option<Sample>) -> Option<f64> {
        Some(0.0)
    }

    /// Returns the time that a packet takes on a medium which both directions share.
    fn airtime(&self, _len: usize) -> Option<Airtime> {
        None
    }

    /// Returns the length of the record that a capture has of a packet. Default: the packet's.
    fn record_len(&self, len: usize) -> usize {
        len
    }

    /// Returns the units of the line that are captured in a file of their own. Default: it has none.
    ///
    /// `nulls` enables fill units.
    fn line_units(&self, _nulls: bool) -> Option<LineUnits> {
        None
    }
}

/// Units of a line in a capture of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineUnits {
    /// Suffix of the file's name: "ts".
    pub suffix: &'static str,
    /// Bytes of the line in one unit.
    pub line_len: u64,
    /// Length of its record in bytes.
    pub record_len: u64,
    /// Set if the line is filled with units that carry nothing, which are captured too.
    pub is_filled: bool,
    /// Set if units of all members that share the resource are captured.
    pub is_whole: bool,
}

/// Mean lengths of a flow's packets behind header compression, over whole cycles of refreshes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Compressed {
    /// IP packet before compression, in bytes.
    pub packet_bytes: f64,
    /// Packet after compression, in bytes.
    pub compressed_bytes: f64,
    /// Bytes that it takes on the line.
    pub on_line_bytes: f64,
}

/// Time that a packet takes on a shared medium, of which the capacity is made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Airtime {
    /// Reservation in front of the frame: RTS and CTS, or a CTS to itself.
    pub before: Span,
    /// Frame.
    pub data: Span,
    /// Gap and ACK after it.
    pub ack: Span,
    /// DIFS and the mean backoff of a lone sender.
    pub access: Span,
    /// Maximum number of transmissions.
    pub attempts: u32,
}

/// Share that a direction of a link has of common capacity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShareBudget {
    /// The link.
    pub name: String,
    /// `forward` or `return`.
    pub direction: &'static str,
    /// Number of copies.
    pub copies: u32,
    /// Name of its carriers.
    pub carrier: String,
    /// The least that can be assigned: a slot in each multiframe.
    pub granularity: Rate,
    /// Guaranteed rate: its constant assignment in whole slots.
    pub least: Rate,
    /// Maximum rate, without requests of others.
    pub most: Rate,
    /// Fair share of the rate beyond constant assignments, if all terminals of a carrier request.
    pub share: Rate,
    /// Delay from data to requested slots: minimum, mean and maximum. `None` where requests ride on bursts.
    pub request_to_grant: Option<[Span; 3]>,
}
