//! Integration tests, one program: each module is built and linked once.

mod any_events;
mod bbr;
mod laws;
mod path;
mod random_loss;
