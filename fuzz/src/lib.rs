//! What the fuzz targets check, one module a crate.

pub mod agent;
pub mod bundles;
pub mod dtn;
pub mod dvb;
pub mod emu;
pub mod gateway;
pub mod hc;
pub mod intake;
pub mod lab;
pub mod net;
pub mod offline;
pub mod phone;
pub mod rohc;
pub mod rtp;
pub mod sensor;
pub mod serve;
pub mod signalling;
pub mod transport;
pub mod voice;
pub mod wire;
