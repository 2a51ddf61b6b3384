//! Published values and how ours compare.
