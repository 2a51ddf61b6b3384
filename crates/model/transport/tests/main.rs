//! Integration tests, one program: each module is built and linked once.

mod config;
mod fuzz;
mod metrics;
mod pep;
mod queueing;
mod repeatability;
mod tcp_any_network;
mod tcp_diagram;
mod tcp_diagrams;
mod tcp_path;
mod tcp_quick_start;
mod tcp_theory;
mod tcp_tshark;
mod tfrc;
mod tunnel_and_group;
