//! Sensor fields: motes on 802.15.4, queries that run in their tree, results as bundles.
//!
//! *Models*: synthetic phenomena, a query language with selection, projection, joins with tables and of motes, aggregation and
//! grouping; a collection tree by expected transmissions; slots of the levels of the tree; energy of radio and samples.
//! *Does not model*: clocks of the motes that drift, the time that processors take, 6LoWPAN and RPL, and joins of motes over
//! several epochs.
//!
//! *References*: Madden et al., TAG (OSDI 2002) and acquisitional query processing (SIGMOD 2003); Amato et al., MaD-WiSe.

pub mod aggregate;
pub mod element;
pub mod field;
pub mod kind;
pub mod message;
pub mod metrics;
mod network;
pub mod query;
pub mod samples;
pub mod world;
