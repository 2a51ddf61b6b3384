//! Contract of a medium: the kind of a direction of a link.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use bentpipe_units::{Bytes, Rate};

use crate::capture::{Artefact, CaptureFormat, CapturePoint, RawIp};
use crate::change::{Changes, Changing, UNCHANGEABLE};
use crate::cost::{Cost, ShareBudget};
use crate::flow::NativeChannel;
use crate::install::{At, Part, Site};
use crate::member::{Facts, Member, Scope, Takes};
use crate::problem::Problem;
use crate::review::Review;
use crate::shared::SharedTable;
use crate::topology::{Passage, Way};

/// Elements of a wired direction.
#[derive(Clone, Debug)]
pub struct Wired {
    /// Input for packets.
    pub input: At,
    /// Output of packets.
    pub output: At,
    /// Line, or the sending end, with the port of the direction.
    pub line: At,
    /// Set if `line` reports counters under the direction's path.
    pub is_observed: bool,
    /// Faults, in the order that packets meet them.
    pub channels: Vec<Part>,
    /// Receiving end.
    pub receiver: Option<Part>,
    /// Line rate.
    pub rate: Rate,
}

impl Wired {
    /// Creates a direction of one input and output.
    pub fn new(line: At, rate: Rate) -> Wired {
        let (channels, receiver) = (Vec::new(), None);
        Wired { input: line, output: line, line, is_observed: true, channels, receiver, rate }
    }
}

/// Addresses of a direction whose packets pass in a tunnel over other links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelEnds {
    /// Address of the node that sends.
    pub from: Ipv4Addr,
    /// Address of the node that receives.
    pub to: Ipv4Addr,
    /// Address of the tunnel's end at the node that receives.
    ///
    /// Routes to it never take the link itself.
    pub end: Ipv4Addr,
}

/// Elements affected by a change of shared objects: a path and its elements, in order.
pub type SharedParts<E> = BTreeMap<String, Vec<E>>;

/// Input of a native channel, and its outputs, one for each receiver.
pub type NativeEnds = (At, Vec<At>);

/// Links of one kind while they are wired.
pub trait Assembly {
    /// Records the links' shared objects: control centres, cells, multiplexes.
    ///
    /// # Errors
    /// Returns an error if a configuration is invalid.
    fn begin(&mut self, _: &mut Site<'_>) -> Result<(), Problem> {
        Ok(())
    }

    /// Records the elements of a member, by its number. Called once each, in the order of the file.
    ///
    /// # Errors
    /// Returns an error if a configuration is impossible.
    fn wire(&mut self, member: usize, site: &mut Site<'_>) -> Result<Wired, Problem>;

    /// Connects what needs all members.
    fn end(&mut self, _: &mut Site<'_>) {}

    /// Sets the addresses of a member whose packets pass in a tunnel. Called before [`Assembly::begin`].
    fn tunnel(&mut self, _member: usize, _ends: TunnelEnds) {}

    /// Adds a channel for what a flow sends without IP, and returns its number. Default: refused.
    ///
    /// Called before [`Assembly::begin`].
    fn add_native(&mut self, _member: usize, _channel: &NativeChannel) -> Option<usize> {
        None
    }

    /// Returns the input of a native channel and its outputs, once all members are wired.
    fn native(&self, _number: usize) -> Option<NativeEnds> {
        None
    }

    /// Returns the format of packets that enter or leave a member. Default: raw IP.
    fn packets(&self, _member: usize) -> Box<dyn CaptureFormat> {
        Box::new(RawIp)
    }

    /// Returns the capture of a member's line, if it has other units than packets. `nulls` enables fill
    /// units.
    fn on_line(&self, _member: usize, _nulls: bool) -> Option<CapturePoint<At>> {
        None
    }

    /// Returns the files that a run leaves of these links.
    fn artefacts(&self) -> Vec<Artefact<At>> {
        Vec::new()
    }

    /// Returns elements of shared objects that may change while the network runs.
    fn shared_parts(&self) -> SharedParts<Part> {
        SharedParts::new()
    }
}

/// Announcement of a tunnel's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelService {
    /// Address of the tunnel's end, if the file gives one.
    pub end: Option<Ipv4Addr>,
    /// Group that announcements go to.
    pub group: Ipv4Addr,
    /// UDP port of announcements.
    pub port: u16,
}

/// Medium: the kind of a direction of a link.
///
/// All functions get all members of the kind, so that those which share something are found together.
pub trait MediumKind: Sized + Clone + PartialEq + 'static {
    /// Objects that links of this kind share by name; `()` if there are none.
    type Shared: SharedTable;

    /// Places where it may be given.
    const SCOPE: Scope = Scope::Direction;
    /// Settings that it takes.
    const TAKES: Takes = Takes { queue: None, channel: None, stages: None, real_ends: None };
    /// Set if [`MediumKind::check`] and [`MediumKind::facts`] look at each member by itself. Default: they compare members.
    const IS_ALONE: bool = false;

    /// Reports the errors of members.
    fn check(all: &[Member<'_, Self>], shared: &Self::Shared, review: &mut Review<'_>);

    /// Returns the longest IP packet where the link does not say one.
    fn mtu(&self) -> Bytes {
        Bytes::new(1500)
    }

    /// Returns rate and delay of each member.
    ///
    /// # Errors
    /// Returns an error if they cannot be found.
    fn facts(all: &[Member<'_, Self>], shared: &Self::Shared) -> Result<Vec<Facts>, Problem>;

    /// Returns the cost of packets on each member.
    ///
    /// # Errors
    /// Returns an error if a shared object is impossible.
    fn costs(all: &[Member<'_, Self>], shared: &Self::Shared) -> Result<Vec<Box<dyn Cost>>, Problem>;

    /// Returns the shares that members have of common capacity.
    ///
    /// # Errors
    /// Returns an error if a shared object is impossible.
    fn shares(_: &[Member<'_, Self>], _: &Self::Shared) -> Result<Vec<ShareBudget>, Problem> {
        Ok(Vec::new())
    }

    /// Creates the assembly of all members. `row` is the number of the kind.
    fn assembly<'s>(
        row: usize,
        all: Vec<Member<'s, Self>>,
        shared: &'s Self::Shared,
    ) -> Box<dyn Assembly + 's>;

    /// Lists what changes at a member while it runs.
    ///
    /// # Errors
    /// Returns an error if something differs that cannot be changed.
    fn change(at: &Changing<'_, Self>, to: &mut Changes) -> Result<(), Problem>;

    /// Lists what changes at shared objects; the default refuses all changes.
    ///
    /// # Errors
    /// Returns an error if something differs that cannot be changed.
    fn change_shared(
        before: &Self::Shared,
        after: &Self::Shared,
        _: &SharedParts<bentpipe_sim::ElementId>,
        _: &mut Changes,
    ) -> Result<(), Problem> {
        if before == after { Ok(()) } else { Err(Problem::new("", UNCHANGEABLE)) }
    }

    /// Returns the passage of packets in a direction. Default: over the medium itself.
    ///
    /// Of a direction in a tunnel, [`Wired::line`] is the sending end: its input 1 gets what comes to the node at
    /// [`MediumKind::service`]. [`Wired::receiver`] is the receiving end: its input 0 gets GRE packets, and its
    /// output 1 leads into the other direction of the link.
    fn passage(&self, _way: Way) -> Passage {
        Passage::Own
    }

    /// Returns the announcement of a tunnel's end. Default: none.
    fn service(&self) -> Option<TunnelService> {
        None
    }

    /// Checks that a direction can be emulated apart from its receiving node.
    ///
    /// All that a packet passes before its delay has to be at the sending node. Default: it is not.
    ///
    /// # Errors
    /// Returns an error if the other machine would have a part of it.
    fn cut(member: &Member<'_, Self>) -> Result<(), Problem> {
        let problem = "cannot be cut: its other machine has half of what its medium shares: expected a link with a `rate`, or \
                       streams on DVB carriers";
        Err(Problem::new(member.place.key("medium"), problem))
    }

    /// Returns the name of the stream that links have in common for groups. Default: none.
    ///
    /// A node sends such packets once into all of its links with the same name.
    fn multicast(&self) -> Option<String> {
        None
    }

    /// Converts it to the medium of copy `n` of its link.
    fn copy(&mut self, _n: u32) {}

    /// Sets the limits that an emulation needs and reports them.
    fn bound(&mut self, _link: &str, _notices: &mut Vec<String>) {}
}
