//! Identity of the build: version and commit.

use std::fs::File;
use std::io;

use sha2::{Digest, Sha256};

/// Commit of the sources, with "-modified" if they differed from it. `None` if the build knew none.
pub(crate) const COMMIT: Option<&str> = option_env!("BENTPIPE_COMMIT");

/// Twelve digits that change with the program: a hash of its file. A finished run counts only for the program that made
/// it, as another may give another result.
pub(crate) fn identity() -> String {
    let mut hasher = Sha256::new();
    let read =
        std::env::current_exe().and_then(File::open).and_then(|mut file| io::copy(&mut file, &mut hasher));
    match read {
        Ok(_) => hasher.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect(),
        Err(_) => format!("version-{}", env!("CARGO_PKG_VERSION")),
    }
}
