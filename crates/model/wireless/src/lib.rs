//! Wireless media: 802.11 cells, 802.16 cells (fixed WiMAX), and devices of 802.15.4.

pub mod wifi;
pub mod wimax;
pub mod wpan;

pub use wifi::Wifi;
pub use wimax::Wimax;
