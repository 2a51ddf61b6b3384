//! Integration tests, one program: each module is built and linked once.

mod accounts;
mod books;
mod bounds;
mod bursts;
mod cells;
mod common;
mod copies;
mod dvb;
mod figures;
mod forecast;
mod fragments;

mod kept;
mod losses;
mod promises;
mod refusals;

mod transfers;
mod wifi;
mod wimax;
