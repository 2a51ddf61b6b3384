//! Directions of links: settings, keys as written, and keys used by a medium.

use bentpipe_net::{queue, quick_start};
use bentpipe_units::{Bytes, Rate, Span};

use crate::channel::Channel;
use crate::line_keys::LineKeys;
use crate::topology::Way;

/// Longest propagation delay: Pluto is 5 h away.
pub const MAX_DELAY: Span = Span::from_secs(86_400);

/// Place where a medium may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Link, or one direction of it.
    Direction,
    /// Link alone: both directions share it.
    Link,
}

/// Settings of a link that a medium takes. `None`, or else the reason for rejecting one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Takes {
    /// Queue in front of the line.
    pub queue: Option<&'static str>,
    /// Faults after the line.
    pub channel: Option<&'static str>,
    /// Stages in front of it.
    pub stages: Option<&'static str>,
    /// Real hosts at its ends.
    pub real_ends: Option<&'static str>,
}

/// Settings of a direction that do not depend on its medium.
#[derive(Clone, Debug, PartialEq)]
pub struct Common {
    /// Propagation delay, one way.
    pub delay: Span,
    /// Queue in front of the line.
    pub queue: Option<queue::Discipline>,
    /// Faults after the line.
    pub channel: Option<Channel>,
    /// Quick-Start approval, of which terminals make requests for capacity.
    pub quick_start: Option<quick_start::Config>,
    /// Longest IP packet.
    pub mtu: Bytes,
}

/// Keys of a direction as the file has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place {
    link: String,
    way: &'static str,
    own: Vec<&'static str>,
    shared: Vec<&'static str>,
}

impl Place {
    /// Creates the place of a direction with the keys of direction and link.
    ///
    /// `own` are the keys of the direction itself, `shared` those of its link.
    pub fn new(link: &str, way: Way, own: Vec<&'static str>, shared: Vec<&'static str>) -> Place {
        Place { link: format!("link.{link}"), way: way.name(), own, shared }
    }

    /// Returns a key as written: the direction's if it has one, or else the link's.
    pub fn key(&self, key: &str) -> String {
        let first = key.split('.').next().unwrap_or(key);
        if self.own.contains(&first) { self.own_key(key) } else { format!("{}.{key}", self.link) }
    }

    /// Returns a key of the direction.
    pub fn own_key(&self, key: &str) -> String {
        format!("{}.{}.{key}", self.link, self.way)
    }

    /// Returns the key of the link.
    pub fn link_key(&self) -> &str {
        &self.link
    }

    /// Returns `true` if the direction has this key itself.
    pub fn is_own(&self, key: &str) -> bool {
        self.own.contains(&key)
    }

    /// Returns `true` if the link has this key.
    pub fn is_shared(&self, key: &str) -> bool {
        self.shared.contains(&key)
    }

    /// Returns `true` if a key is given where the medium is, or closer.
    ///
    /// Closer means at the direction.
    pub fn is_with_medium(&self, key: &str) -> bool {
        self.is_own(key) || (self.is_shared(key) && !self.is_own("medium"))
    }
}

/// Direction of a link with its medium `M`.
#[derive(Debug)]
pub struct Member<'s, M> {
    /// Number of the link.
    pub link: usize,
    /// Name of the link.
    pub name: &'s str,
    /// Direction.
    pub way: Way,
    /// Name of the node that sends.
    pub from: &'s str,
    /// Name of the node that receives.
    pub to: &'s str,
    /// Set if the sending node forwards packets of others.
    pub from_router: bool,
    /// Number of copies, before copies of nodes are expanded.
    pub copies: u32,
    /// Settings that do not depend on the medium.
    pub common: &'s Common,
    /// Settings of a line, which other media have not.
    pub line: &'s LineKeys,
    /// Keys as written.
    pub place: &'s Place,
    /// Medium.
    pub medium: &'s M,
}

impl<M> Clone for Member<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Member<'_, M> {}

impl<'s, M> Member<'s, M> {
    /// Returns the same direction with its medium as another type.
    pub fn with<N>(self, medium: &'s N) -> Member<'s, N> {
        let Member { link, name, way, from, to, from_router, copies, common, line, place, .. } = self;
        Member { link, name, way, from, to, from_router, copies, common, line, place, medium }
    }

    /// Returns the path of the direction's elements: "link/satellite/forward".
    pub fn path(&self) -> String {
        format!("link/{}/{}", self.name, self.way.name())
    }
}

/// Nominal rate and delay of a direction, for routes and budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Line rate.
    pub rate: Rate,
    /// Delay, one way.
    pub delay: Span,
}

/// Returns a name with the number of a copy: "home.2".
pub fn numbered(name: &str, n: u32) -> String {
    format!("{name}.{}", n + 1)
}
