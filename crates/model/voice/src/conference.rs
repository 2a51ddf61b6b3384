//! Conferences: a bridge that mixes the voice of its members.
//!
//! *Models*: a playout buffer and a decoder at the bridge for each leg, concealment of missing frames, a mix for each
//! member without its own voice each packet interval, by all or by the loudest three, contributing sources in RTP (RFC
//! 3550, section 7.1), an encoder with its look-ahead, silence suppression of mixes, and turns of the members.
//! *Does not model*: the sound itself; transcoding without mixing; bridges in a tree; members who mute themselves. Members of a
//! [`Room`] come and go; who lets them in is not its business.

mod config;
mod kind;
mod load;
pub mod metrics;
mod mixer;
mod room;

pub use config::{Legs, Mixing, Role};
pub use load::{MeanMix, Voices};
pub use mixer::Mixer;
pub use room::{Room, RoomCounts};
