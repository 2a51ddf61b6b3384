//! What the fuzz targets check, one module a crate.

pub mod wire;
