//! Next hop of a bundle.

use std::sync::Arc;

use crate::route::Route;

/// Next hop of a bundle, and the route behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) neighbour: u64,
    /// Route of the contact plan.
    pub(crate) route: Option<Arc<Route>>,
}
