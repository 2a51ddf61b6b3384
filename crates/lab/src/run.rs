//! Running the points of a plan.
