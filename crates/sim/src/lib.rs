//! Wiring and engine.
