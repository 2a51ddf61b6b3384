//! From a scenario to a wired network.
