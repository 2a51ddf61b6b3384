//! Settings and errors of a joint.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use super::Skew;
use super::frame::Key;

/// Settings of a joint.
#[derive(Clone, Copy, Debug)]
pub struct Joining {
    /// Own address.
    pub bind: SocketAddr,
    /// Address of the other machine.
    pub peer: SocketAddr,
    /// Number of the part: the end of the cut link, from zero.
    pub side: u8,
    /// Fingerprint of the scenario, which both machines have.
    pub fingerprint: [u8; 32],
    /// Time to wait for the other machine.
    pub max_wait: Duration,
    /// Error of this machine's clock, made for tests.
    pub skew: Skew,
}

/// Error returned when two machines cannot be joined.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The socket cannot be used.
    #[error("{0}: {1}")]
    Socket(SocketAddr, io::Error),
    /// The system has no randomness.
    #[error("the system gives no random numbers")]
    NoRandomness,
    /// The other machine does not answer.
    #[error("{0} does not answer: expected `bentpipe emulate` with the other part there")]
    NoAnswer(SocketAddr),
    /// The other machine has another key.
    #[error(
        "{0} does not answer, and {1} datagrams from there have another key: expected the same key file at both machines"
    )]
    OtherKey(SocketAddr, u64),
    /// The other machine has fallen silent.
    #[error("{0} has fallen silent before the start")]
    Silent(SocketAddr),
    /// The other machine emulates another scenario.
    #[error(
        "{0} emulates another scenario, cut, seed or version: expected the same files, --set, --seed and --cut at both machines"
    )]
    OtherScenario(SocketAddr),
    /// The other machine emulates the same part.
    #[error("{0} emulates the same part: expected a node of the other part after --part there")]
    SamePart(SocketAddr),
    /// The wait was stopped.
    #[error("stopped while waiting for the other machine")]
    Stopped,
    /// The key file is wrong.
    #[error("{0}")]
    KeyFile(String),
}

/// Reads a key file: 64 hexadecimal digits.
///
/// # Errors
/// Returns an error if the file cannot be read, others may read it, or it has something else.
pub fn read_key(path: &Path) -> Result<Key, JoinError> {
    let shown = path.display();
    let wrong = |problem: String| JoinError::KeyFile(format!("{shown}: {problem}"));
    let metadata = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(wrong(format!("others may read it: expected `chmod 600 {shown}`")));
    }
    if metadata.len() > 1024 {
        return Err(wrong("expected 64 hexadecimal digits, got a longer file".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    parse_key(text.trim())
        .map(|bytes| Key::new(&bytes))
        .ok_or_else(|| wrong("expected 64 hexadecimal digits".to_owned()))
}

fn parse_key(text: &str) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_64_hexadecimal_digits() {
        let key = parse_key(&"0f".repeat(32)).expect("a key");
        assert_eq!(key, [0x0f; 32]);
        for wrong in ["", "0f", &"0g".repeat(32), &"0f".repeat(33), &"+f".repeat(32), &"é".repeat(32)] {
            assert_eq!(parse_key(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_key_file_is_for_its_owner_only() {
        let folder = bentpipe_testkit::Folder::new();
        let path = folder.write("join.key", "0f".repeat(32));
        let permit =
            |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
        permit(0o644);
        assert!(read_key(&path).is_err_and(|error| error.to_string().contains("chmod 600")));
        permit(0o600);
        assert!(read_key(&path).is_ok());
        folder.write("join.key", "0f");
        assert!(read_key(&path).is_err_and(|error| error.to_string().contains("64 hexadecimal digits")));
        assert!(read_key(&folder.file("none")).is_err());
    }
}
