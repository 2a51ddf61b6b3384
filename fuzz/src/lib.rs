//! What the fuzz targets check, one module a crate.

pub mod emu;
pub mod lab;
pub mod net;
pub mod rohc;
pub mod wire;
