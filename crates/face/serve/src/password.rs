//! Rules and hashes of passwords.

use std::io::{self, BufRead, BufReader};
use std::path::Path;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use bentpipe_agent::regular;

use crate::clock::hex;

/// Fewest characters of a password.
const MIN_CHARS: usize = 12;
/// Most bytes of a password.
const MAX_BYTES: usize = 1024;
/// Passwords that are long enough and still among the first guesses, by their start.
const COMMON: &str = include_str!("common_passwords.txt");

/// File of the operator with passwords that are refused, one a line.
const LIST: &str = "refused-passwords.txt";

/// Hash of a password that no user has, compared for unknown names.
pub(crate) struct Dummy(pub(crate) String);

/// Returns the reason for which a password is refused.
pub(crate) fn refusal(name: &str, password: &str) -> Option<String> {
    let lower = password.to_lowercase();
    if password.chars().count() < MIN_CHARS {
        return Some(format!("password too short: expected at least {MIN_CHARS} characters"));
    }
    if password.len() > MAX_BYTES {
        return Some(format!("password too long: expected at most {MAX_BYTES} bytes"));
    }
    if has_name(&lower, &name.to_lowercase()) {
        return Some("password contains the user's name".to_owned());
    }
    let mut letters: Vec<char> = lower.chars().collect();
    letters.sort_unstable();
    letters.dedup();
    if letters.len() < 5 || COMMON.lines().any(|common| lower == common) {
        return Some("password is among the first that are guessed".to_owned());
    }
    None
}

/// Returns `true` if a password is in the operator's list, in letters of either case.
///
/// The list may be long, such as one of leaked passwords: it is read for each password that is set.
///
/// # Errors
/// Returns an error if there is a list that cannot be read.
pub(crate) fn is_listed(data: &Path, password: &str) -> io::Result<bool> {
    let file = match regular::open(&data.join(LIST)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    let (mut lines, mut line) = (BufReader::with_capacity(1 << 16, file), Vec::new());
    let wanted = password.to_lowercase();
    while lines.read_until(b'\n', &mut line)? > 0 {
        let known = line.trim_ascii_end();
        if String::from_utf8_lossy(known).to_lowercase() == wanted {
            return Ok(true);
        }
        line.clear();
    }
    Ok(false)
}

/// Returns `true` if a password has the user's name.
///
/// A short name is part of many words: it counts as a word of its own, and up to two characters not at all.
fn has_name(password: &str, name: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let is_word = |at: usize| {
        let (before, after) = (&password[..at], &password[at + name.len()..]);
        !is_letter(before.chars().next_back()) && !is_letter(after.chars().next())
    };
    match name.chars().count() {
        0..=2 => false,
        3 | 4 => password.match_indices(name).any(|(at, _)| is_word(at)),
        _ => password.contains(name),
    }
}

/// Cost of a hash, OWASP's minimum for Argon2id: 19 MiB, two passes, one lane.
const COST: Cost = Cost { memory_kib: 19_456, passes: 2 };

/// Blocks of 1 KiB that are reserved for a hash. Allocations of over 32 MiB go back to the system when they are freed, and
/// untouched ones take no memory.
const RESERVED: usize = 33 << 10;

/// Bytes of salt and hash.
const SALT: usize = 16;
const HASH: usize = 32;

#[derive(Clone, Copy)]
struct Cost {
    memory_kib: u32,
    passes: u32,
}

fn computed(password: &str, salt: &[u8], cost: Cost) -> Option<[u8; HASH]> {
    let params = Params::new(cost.memory_kib, cost.passes, 1, Some(HASH)).ok()?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let mut memory = Vec::with_capacity(RESERVED.max(cost.memory_kib as usize));
    memory.resize(cost.memory_kib as usize, Block::default());
    let mut hash = [0; HASH];
    argon2.hash_password_into_with_memory(password.as_bytes(), salt, &mut hash, &mut memory[..]).ok()?;
    Some(hash)
}

/// Returns the hash of a password with a salt of its own, and its cost. Takes some 60 ms.
///
/// # Panics
/// Panics if the operating system has no random numbers.
pub(crate) fn hash(password: &str) -> String {
    let mut salt = [0; SALT];
    getrandom::fill(&mut salt).expect("the operating system has random numbers");
    let hash = computed(password, &salt, COST).expect("the parameters are valid");
    format!("argon2id {} {} {} {}", COST.memory_kib, COST.passes, hex(&salt), hex(&hash))
}

/// Returns `true` if `password` is the one of `hash`. Takes some 60 ms.
pub(crate) fn is_right(password: &str, hash: &str) -> bool {
    let known = || {
        let ["argon2id", memory, passes, salt, hash] = hash.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        let cost = Cost { memory_kib: memory.parse().ok()?, passes: passes.parse().ok()? };
        let salt = from_hex(salt)?;
        (cost.memory_kib <= 1 << 18 && password.len() <= MAX_BYTES).then_some(())?;
        Some((computed(password, &salt, cost)?, from_hex(hash)?))
    };
    known().is_some_and(|(computed, known)| {
        // In the same time wherever they differ.
        let differ = computed.iter().zip(&known).fold(0, |all, (a, b)| all | (a ^ b));
        known.len() == HASH && differ == 0
    })
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some((digit(pair[0])? * 16 + digit(*pair.get(1)?)?) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_passwords_are_refused() {
        for weak in [
            "short",
            "aaaaaaaaaaaaaaaa",
            "abababababab",
            "i-am-Ann-of-green",
            "Password1234",
            "qwertyuiop123",
        ] {
            assert!(refusal("ann", weak).is_some(), "{weak}");
        }
        assert!(refusal("ann", &"long-enough-1".repeat(100)).is_some());
        for fine in ["correct horse battery", "über-mut tut gut", "x7!kd93,wl2#", "two channels planned"] {
            assert_eq!(refusal("ann", fine), None, "{fine}");
        }
        for name in ["a", "bo", "tt"] {
            assert_eq!(refusal(name, "correct horse battery bo"), None, "{name}");
        }
        assert!(refusal("hannah", "shannah-like-it").is_some());
    }

    #[test]
    fn passwords_of_the_operators_list_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let is_listed = |password: &str| is_listed(folder.path(), password).expect("read");
        assert!(!is_listed("correct horse battery"), "no list");
        std::fs::write(
            folder.path().join(LIST),
            b"\xff\xfe\nCorrect Horse Battery\r\n\xc3\xbcber-mut-tut-gut",
        )
        .expect("written");
        assert!(is_listed("correct horse batterY") && is_listed("\u{dc}ber-mut-tut-gut"));
        assert!(!is_listed("correct horse") && !is_listed("") && !is_listed("another correct horse"));
    }

    #[test]
    fn a_hash_has_a_salt_and_fits_its_password_alone() {
        let hashes = [hash("correct horse battery"), hash("correct horse battery")];
        assert_ne!(hashes[0], hashes[1]);
        assert!(is_right("correct horse battery", &hashes[0]));
        assert!(!is_right("correct horse batterz", &hashes[0]) && !is_right("x", "no hash"));
        assert!(!is_right("", "argon2id 19456 2  ") && !is_right("", "argon2id 4000000000 2 00 00"));
    }

    #[test]
    fn a_hash_is_that_of_the_reference_implementation() {
        // argon2-cffi: hash_secret_raw(b"password", b"somesalt12345678", 2, 19456, 1, 32, Type.ID).hex()
        let hash = computed("password", b"somesalt12345678", COST).expect("valid");
        assert_eq!(hex(&hash), "0c4c0b6db219194b6006e078818a24eabea136f7af619a31930310e7f2d749a5");
    }
}
