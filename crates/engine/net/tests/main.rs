//! Integration tests, one program: each module is built and linked once.

mod config;
mod fuzz;
