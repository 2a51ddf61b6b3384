//! A run's results as a page to read.
