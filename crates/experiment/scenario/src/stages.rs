//! Table of stages in front of media: one row a kind.
//!
//! Rows are appended, never sorted: packets meet the last row first, and the place of a row is a part of results.

use bentpipe_net::{custom, quick_start, shaper};

bentpipe_site::stages! {
    /// Token bucket in front of the queue. Default: none.
    #[schemars(extend("x-change" = true))]
    shaper "shaper" shaper::Config;

    /// Quick-Start approval (RFC 4782): the sending node answers requests for a rate. Default: requests pass unchanged, and
    /// so without the node's consent.
    quick_start "quick-start" quick_start::Config;

    /// Aggregation of small packets, with its partner behind the medium. Default: none.
    aggregate "aggregate" bentpipe_voice::aggregate::Config;

    /// An element that is a class in Python, for trying ideas. Each call of it takes some 2 µs. Default: none.
    custom "custom" custom::Config;
}
