//! Bundle node on sockets, with a store that survives a crash.
//!
//! A [`Daemon`] drives [`bentpipe_dtn::node::Node`] in turns of one thread: it receives, writes what is to be kept to the
//! [`journal`], sends, and acknowledges what is on disk. Another thread waits for the disk. So what was acknowledged is not lost
//! when the program is killed or power fails, and is delivered once: a bundle that a neighbour sends again is recognised by source,
//! creation, fragment, neighbour and hop count.
//!
//! *Models* TCPCLv4 (both directions of a session), MTCP, UDP and LTP over UDP; static routes, contact plans, to whose contacts
//! transmission keeps, and copies to all neighbours; applications of this machine as TCPCL sessions whose node identifier is an endpoint of this node; echo
//! (services 7 and 2047) and discard (service 9); operation while it runs, by the socket of [`control`].
//!
//! *Does not model* discovery, endpoints of scheme dtn at this node, and storage beyond memory: waiting bundles are in both.

pub mod control;
mod counters;
mod echo;
mod file;
mod identity;
pub mod journal;
mod local;
mod names;
mod peers;
mod radio;
mod rare;
mod run;
mod schedule;
mod spans;
mod sync;
mod waiting;

pub use counters::Counters;
pub use file::{Copies, Listen, Neighbour, NodeFile, NodeId, NodeLayer};
pub use run::Daemon;
