//! Integration tests, one program: each module is built and linked once.

mod answers;
mod fuzz;
mod guard;
mod node;
mod operation;
mod receive;
mod tls;
