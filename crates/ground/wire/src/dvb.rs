//! DVB formats: transport stream, sections, encapsulations of packets, baseband frames.

pub mod bbframe;
pub mod gse;
pub mod mpe;
pub mod pes;
pub mod psi;
pub mod rle;
pub mod section;
pub mod si;
mod text;
pub mod ts;
pub mod ule;
