//! Rights to single objects, after the level of the operation.

use axum::http::StatusCode;

use crate::problem::{Problem, Result};
use crate::store::people::User;

/// Level from which objects of other users may be changed.
pub(crate) const CONFIGURES: u8 = 2;

/// Permits changes of an object by its owner and by users of level 2.
pub(crate) fn may_change(user: &User, owner: i64) -> Result<()> {
    match user.id == owner || user.level >= CONFIGURES {
        true => Ok(()),
        false => {
            Err(Problem::new(StatusCode::FORBIDDEN, "this belongs to another user: launch it, or copy it"))
        }
    }
}

/// Permits sharing by users of level 2.
pub(crate) fn may_share(user: &User, shared: bool) -> Result<()> {
    match !shared || user.level >= CONFIGURES {
        true => Ok(()),
        false => Err(Problem::forbidden("sharing needs level 2")),
    }
}
