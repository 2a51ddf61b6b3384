//! What to expect of a scenario before running it.
