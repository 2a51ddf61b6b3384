//! Integration tests, one program: each module is built and linked once.

mod fuzz;
mod prompeg;
