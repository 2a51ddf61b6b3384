//! What a scenario file may contain, listed and described.
