//! Random numbers of the operating system.

use std::io;

/// Returns random bits that peers cannot guess.
///
/// # Errors
/// Returns an error if the system has none.
pub fn random_bits() -> io::Result<u64> {
    Ok(getrandom::u64()?)
}
