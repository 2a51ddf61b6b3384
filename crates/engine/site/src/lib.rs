//! The contract of kinds, and the site that they are installed into.
//!
//! A [`Site`] records elements and wires while a network is put together, and numbers the elements afterwards by their
//! [`Order`]: results do not depend on the order of calls. [`Topology`] is the graph of nodes, links and tunnels; a
//! [`Router`] finds paths through it, and [`Nodes`] gives the nodes addresses, ports and routes. A medium is a type that
//! implements [`MediumKind`]; the macro [`media`] makes the enum of all of them, and their shared tables. So do
//! [`TrafficKind`] and [`traffic`] for what flows send: it makes [`FlowEnds`] on the [`FlowGround`] of nodes, routes and files.
//!
//! Does no I/O and knows no scenario file, nor any technology: kinds are in the rooms above, the plain [`line`] apart.

pub mod application;
mod call;
mod capture;
mod change;
mod channel;
mod cost;
mod files;
mod flow;
mod ground;
mod handle;
mod install;
mod judge;
pub mod line;
mod line_keys;
pub mod marker;
mod medium;
mod member;
pub mod nat;
mod nodes;
mod problem;
mod real;
mod review;
mod role;
mod role_table;
pub mod route;
mod routes;
mod sample;
mod shared;
pub mod stage;
mod stage_table;
mod table;
mod topology;
mod traffic;

pub use call::{CallDetail, CallEnd, CallQuality, CallReader, CallRecord, KeepsCalls};
pub use capture::{Artefact, CaptureFormat, CapturePoint, Input, RawIp, Records, Tap, WriteArtefact};
pub use change::{Change, Changes, Changing, UNCHANGEABLE, set_all};
pub use channel::Channel;
pub use cost::{Airtime, Compressed, Cost, LineUnits, OwnRate, Passed, ShareBudget, SharingCopies};
pub use files::{FileContent, Files, Opened, jitter_table};
pub use flow::{
    Attach, Datagrams, End, FlowAt, FlowEnds, FlowGround, Form, NativeChannel, Opener, Pair, Peers, Switch,
    Switchable,
};
pub use ground::{Behind, Ground};
pub use handle::{LinkHandle, StageHandle};
pub use install::{At, Installed, Order, Part, Site, Slot};
pub use judge::{Growth, Judge, Judged};
pub use medium::{Assembly, MediumKind, NativeEnds, SharedParts, TunnelEnds, TunnelService, Wired};
pub use member::{Common, Facts, MAX_DELAY, Member, Place, Scope, Takes, numbered};
pub use nodes::{NodeHandle, Nodes, PortNumbers};
pub use problem::Problem;
pub use real::{RealAt, RealProgram, RealTraffic};
pub use review::Review;
pub use role::{Client, RoleAt, RoleHandle, RoleKind, RolePlans, Roles};
pub use routes::{Hop, Router, Steps, Unreachable, header_len, path_mtu};
pub use sample::Sample;
pub use shared::SharedTable;
pub use stage::{Ahead, ByRow, Limit, Stage, StageElements, StageRow};
pub use table::{Assemblies, Native, Row, is_default, numbered_parts};
pub use topology::{IpVersion, IpVersions, LinkAt, Named, NodeAt, Passage, Topology, Way};
pub use traffic::{Ascent, Climbed, Copies, FlowTakes, PathFacts, Recorded, TrafficKind, Window};

/// Names that the expansion of [`media`] needs.
#[doc(hidden)]
pub mod expansion {
    pub use bentpipe_sim::ElementId;
}
