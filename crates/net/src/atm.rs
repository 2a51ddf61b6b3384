//! ATM: cells, the interfaces of hosts, switches, and what goes wrong with cells on the way.
//!
//! A cell in the engine is one word and a time ([`Cell`]); the packet of an AAL5 PDU travels with its last cell, and 53
//! bytes are made only of a cell that is damaged. Cells go from element to element in [`Train`]s, one packet of the
//! engine for all that left a line while its first cell was on the way. A train says when each of its cells arrives, and
//! whoever takes it handles each at its own instant, in order with those of other inputs. So a train changes no result,
//! and a line costs one event in its delay instead of two a cell.

mod aal5;
pub mod abr;
mod cell;
pub mod erica;
pub mod fault;
pub mod interface;
pub mod line;
mod order;
pub mod receive;
pub mod service;
mod sort;
mod stream;
pub mod switch;
pub mod vsvd;

pub use cell::{Cell, Kind, Train, Vc, Word};
pub use fault::Faults;
pub use interface::{Channel, Interface};
pub use service::{Class, Content, Encapsulation, Rates, Service};
pub use switch::Switch;
pub use vsvd::Coupling;
