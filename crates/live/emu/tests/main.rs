//! Integration tests, one program: each module is built and linked once.

mod equivalence;
mod fuzz;
mod impairments;
mod live;
