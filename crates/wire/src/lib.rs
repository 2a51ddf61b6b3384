//! Byte-exact wire formats.
