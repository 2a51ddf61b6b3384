//! Means and confidence intervals over seeds.
