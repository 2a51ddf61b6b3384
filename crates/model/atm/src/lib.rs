//! ATM: cells, host interfaces, switches, faults of cells.
//!
//! A cell in the engine is one word and a time ([`Cell`]). The packet of an AAL5 PDU travels with its last
//! cell, and 53 bytes are built only for a corrupted cell. Cells travel between elements in [`Train`]s: one
//! packet of the engine for all cells that left a line while the first one was in flight. A train has the
//! arrival time of each cell, and its receiver processes each at its own instant, in order with those of
//! other inputs. So trains change no result, and a line costs one event per delay in place of two per cell.

mod aal5;
pub mod abr;
mod cell;
pub mod erica;
pub mod fault;
pub mod interface;
pub mod kind;
pub mod line;
pub mod metrics;
mod order;
mod places;
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
