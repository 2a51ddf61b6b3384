//! Delay-tolerant networks: bundle node, convergence layers, contact plans and their routing.
//!
//! The protocols are state machines without I/O, so that the simulator and programs on sockets run the same code.

pub mod blocks;
pub mod carry;
pub mod cfdp;
mod credit;
pub mod element;
pub mod kind;
pub mod ltp;
pub mod metrics;
pub mod network;
pub mod node;
mod outages;
pub mod plan;
pub mod route;
pub mod session;

pub use outages::outages;
