//! Child processes that work on users' input.
//!
//! - `limits` has the limits by level, and the file that sets them.
//! - `pool` bounds what works on requests, of each user and in all, and gives turns fairly.
//! - `process` starts one, and says which limit ended it.
//! - `cgroup` gives each child and each job a control group, where the server may make some.

mod cgroup;
mod limits;
mod pool;
mod process;

pub use cgroup::may_make_groups;
pub(crate) use cgroup::{Group, Groups, JOB};
pub(crate) use limits::{DAY_MS, MAX_AHEAD, Places, Reserving};
pub use limits::{Limits, LimitsError, LimitsFile};
pub(crate) use pool::{Pool, Turn};
pub(crate) use process::{Child, Excess, Failure, limit};
