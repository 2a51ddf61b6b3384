//! The scenario file: its schema, reading it, and saying what is wrong with it.
