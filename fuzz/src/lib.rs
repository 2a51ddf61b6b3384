//! What the fuzz targets check, one module a crate.

pub mod lab;
pub mod rohc;
pub mod wire;
