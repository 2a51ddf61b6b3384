//! Wireless media: 802.11 cells, and 802.16 cells (fixed WiMAX).

pub mod wifi;
pub mod wimax;

pub use wifi::Wifi;
pub use wimax::Wimax;
