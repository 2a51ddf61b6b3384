//! Integration tests, one program: each module is built and linked once.

mod bursts;
mod cells;
mod common;
mod dvb;
mod fuzz;
mod losses;
mod refusals;
mod scenarios;
mod wifi;
mod wimax;
