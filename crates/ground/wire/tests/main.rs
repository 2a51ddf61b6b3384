//! Integration tests, one program: each module is built and linked once.

mod bundles;
mod dtn;
mod dvb;
mod frames;
mod fuzz;
mod space;
mod tool;
mod tshark;
mod wman;
mod wpan;
