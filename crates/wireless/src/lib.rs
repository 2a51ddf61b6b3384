//! Wireless local media: 802.11 cells.

pub mod wifi;

pub use wifi::Wifi;
