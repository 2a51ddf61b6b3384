//! The points of a sweep, times the seeds.
