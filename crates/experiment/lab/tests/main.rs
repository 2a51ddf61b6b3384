//! Integration tests, one program: each module is built and linked once.

mod accounts;
mod books;
mod bounds;
mod bursts;
mod captures;
mod cells;
mod classes;
mod common;
mod completions;
mod copies;
mod costs;
mod dvb;
mod figures;
mod forecast;
mod fragments;
mod fuzz;
mod kept;
mod losses;
mod media;
mod promises;
mod refusals;
mod replays;
mod scenarios;
mod transfers;
mod wifi;
mod wimax;
