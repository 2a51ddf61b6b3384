//! Contact plan of a network of bundles, to be drawn.

/// Contact plan with names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContactPlan {
    /// Name of the network of bundles; empty for a plan alone.
    pub name: String,
    /// Contacts.
    pub contacts: Vec<PlannedContact>,
}

/// Period in which a node can send to another one.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedContact {
    /// Node that sends.
    pub from: String,
    /// Node that receives.
    pub to: String,
    /// Start in seconds.
    pub start_s: f64,
    /// End in seconds.
    pub end_s: f64,
    /// Rate in bit/s.
    pub bps: f64,
    /// Light time in seconds, one way. Without it the contact is never used.
    pub light_s: Option<f64>,
}
