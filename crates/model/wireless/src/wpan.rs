//! IEEE 802.15.4 at 2.4 GHz: devices on a channel with CSMA-CA, with or without slots.
//!
//! *Models*: backoff in units of 20 symbols without a freeze, one clear channel assessment at its end, turnaround,
//! acknowledgements and their wait, retransmissions, interframe spacing; devices that do not sense each other; collisions of any
//! overlap at a receiver; bit errors by distance and shadowing; the time of each device's radio per state. With superframes:
//! backoffs on slot boundaries, two assessments, contention access periods, an inactive part. With low-power listening: looks at
//! the channel, whose time is calculated, and trains of copies. *Does not model*: guaranteed time slots, beacons that are lost,
//! association, capture, energy of the turnaround apart from listening.
//!
//! *References*: IEEE 802.15.4-2006, clauses 6.5 and 7.5.1.4, whose text was not available. The constants agree with
//! published analyses of the standard.

mod air;
mod cell;
mod config;
mod links;
mod listening;
pub mod phy;
mod superframe;
#[cfg(test)]
mod tests;

pub use air::AirLog;
pub use cell::{Cell, Counts, Event, Outcome, Sending, Usage};
pub use config::{Mac, Radio};
pub use links::Links;
pub use listening::Listen;
pub use superframe::Superframe;
