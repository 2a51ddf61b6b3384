//! IEEE 802.15.4 at 2.4 GHz without beacons: devices that share a channel by unslotted CSMA-CA.
//!
//! *Models*: backoff in units of 20 symbols without a freeze, one clear channel assessment at its end, turnaround,
//! acknowledgements and their wait, retransmissions, interframe spacing; devices that do not sense each other; collisions of any
//! overlap at a receiver; bit errors by distance and shadowing; the time of each device's radio per state. *Does not model*:
//! beacons and slots, guaranteed time slots, association, capture, energy of the turnaround apart from listening.
//!
//! *References*: IEEE 802.15.4-2006, clauses 6.5 and 7.5.1.4, whose text was not available. The constants agree with
//! published analyses of the standard.

mod cell;
mod config;
mod links;
pub mod phy;
#[cfg(test)]
mod tests;

pub use cell::{Cell, Counts, Event, Outcome, Sending, Usage};
pub use config::{Mac, Radio};
pub use links::Links;
