//! Flag of a request that is given up, for the thread that works for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Flag that a thread looks at while it works.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gone(Arc<AtomicBool>);

/// Request until it is answered or given up.
#[derive(Debug, Default)]
pub(crate) struct Open(Gone);

impl Open {
    /// Returns the flag that is set when it is dropped.
    pub(crate) fn gone(&self) -> Gone {
        self.0.clone()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

impl Gone {
    /// Returns `true` once no answer is awaited.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns an error once no answer is awaited.
    pub(crate) fn check(&self) -> std::io::Result<()> {
        match self.is_set() {
            true => Err(std::io::Error::other("the request was given up")),
            false => Ok(()),
        }
    }
}
