//! Browsers in which a user has logged in before.
//!
//! They have attempts of their own to log in again. A signed cookie proves it (OWASP, "Slow Down Online Guessing Attacks with Device Cookies"). It gives no right: its holder is asked
//! for password and code like any client. But guesses of others, from the same address or any, do not use its attempts.
//! A new password ends the cookies of the account: who had the old one has no attempts left over.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use bentpipe_agent::regular;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::clock::{hex, secret};
use crate::log;

/// Name of the cookie. Over TLS it has the prefix `__Host-`.
pub(crate) const COOKIE: &str = "bentpipe-device";
/// Validity of an entry in seconds: browsers keep no cookie much longer.
pub(crate) const LIFE_S: i64 = 365 * 86_400;
/// File of the key in the data folder.
const KEY: &str = "devices.key";
/// Hexadecimal digits of the key, of a number, of a stamp, and of a signature.
const KEY_DIGITS: usize = 64;
const NUMBER_DIGITS: usize = 32;
const STAMP_DIGITS: usize = 16;
/// Most accounts of a browser that a cookie has. A head has room for more, but not for any number.
const MAX_ENTRIES: usize = 5;
/// Longest entry.
const MAX_ENTRY: usize = 160;

/// Maker and reader of the cookies.
#[derive(Debug)]
pub(crate) struct Devices {
    key: Vec<u8>,
}

/// Device of an account, by a cookie whose signature is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// Number, by which attempts are counted.
    pub(crate) number: String,
    /// Sign of the password at the log-in.
    stamp: String,
}

impl Devices {
    /// Reads the key in a data folder, or makes one.
    ///
    /// Without room for one, devices are known until the server ends.
    pub(crate) fn of(folder: &Path) -> Devices {
        let path = folder.join(KEY);
        let is_key = |text: &String| text.len() == KEY_DIGITS;
        let known = regular::text(&path, KEY_DIGITS as u64).ok().filter(is_key);
        let key = known.unwrap_or_else(|| {
            let key = secret();
            let noted = |error| log::line(&format!("note: {}: {error}", path.display()));
            keep(&path, &key).unwrap_or_else(noted);
            key
        });
        Devices { key: key.into_bytes() }
    }

    /// Returns the device of an account that a cookie proves.
    pub(crate) fn find(&self, cookie: &str, name: &str, now_s: i64) -> Option<Device> {
        entries(cookie).find_map(|entry| self.read(entry, name, now_s))
    }

    /// Returns `true` if an account has the same password as when the device logged in.
    pub(crate) fn is_current(&self, device: &Device, hash: &str) -> bool {
        device.stamp == self.stamp(hash)
    }

    /// Returns the cookie of a device on which an account has logged in.
    ///
    /// It has its other accounts from `before`.
    pub(crate) fn cookie(&self, before: &str, (name, hash): (&str, &str), now_s: i64) -> String {
        let number = &secret()[..NUMBER_DIGITS];
        let text = format!("{now_s}.{number}.{}", self.stamp(hash));
        let own = format!("{text}.{}", hex(&self.signature(&text, name).finalize().into_bytes()));
        let others = entries(before).filter(|entry| self.read(entry, name, now_s).is_none());
        let all: Vec<&str> = [&own[..]].into_iter().chain(others).take(MAX_ENTRIES).collect();
        all.join("~")
    }

    fn read(&self, entry: &str, name: &str, now_s: i64) -> Option<Device> {
        let (text, signature) = entry.rsplit_once('.')?;
        self.signature(text, name).verify_slice(&unhex(signature)?).ok()?;
        let [issued, number, stamp] = text.split('.').collect::<Vec<_>>().try_into().ok()?;
        let is_valid = issued.parse().is_ok_and(|issued: i64| now_s - issued < LIFE_S);
        is_valid.then(|| Device { number: number.to_owned(), stamp: stamp.to_owned() })
    }

    fn signature(&self, text: &str, name: &str) -> Hmac<Sha256> {
        self.hash(&["device", &name.to_lowercase(), text])
    }

    /// Returns the sign of a password's hash, which reveals nothing of it.
    fn stamp(&self, hash: &str) -> String {
        hex(&self.hash(&["password", hash]).finalize().into_bytes())[..STAMP_DIGITS].to_owned()
    }

    fn hash(&self, parts: &[&str]) -> Hmac<Sha256> {
        let mut hash = Hmac::new_from_slice(&self.key).expect("keys of any length are valid");
        for part in parts {
            hash.update(&(part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        hash
    }
}

/// Writes a key, for the owner alone.
fn keep(path: &Path, key: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path)?;
    file.write_all(key.as_bytes())?;
    file.sync_all()
}

/// Returns the entries of a cookie that could be some. Anything else that a client sends is left out.
fn entries(cookie: &str) -> impl Iterator<Item = &str> {
    let is_plain = |entry: &&str| {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'.');
        !entry.is_empty() && entry.len() <= MAX_ENTRY && entry.bytes().all(is_digit)
    };
    cookie.split('~').take(MAX_ENTRIES).filter(is_plain)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pair = |at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_S: i64 = 86_400;

    fn devices() -> Devices {
        Devices { key: secret().into_bytes() }
    }

    #[test]
    fn a_cookie_proves_its_account_for_a_year_while_the_password_lasts() {
        let devices = devices();
        let cookie = devices.cookie("", ("Ann", "hash 1"), 1000);
        let ann = devices.find(&cookie, "ann", 1000 + 364 * DAY_S).expect("the same account");
        assert!(devices.is_current(&ann, "hash 1") && !devices.is_current(&ann, "hash 2"));
        assert_eq!(devices.find(&cookie, "bob", 1000), None);
        assert_eq!(devices.find(&cookie, "ann", 1000 + 365 * DAY_S), None);
        assert_eq!(self::devices().find(&cookie, "ann", 1000), None, "of another server");
    }

    #[test]
    fn a_browser_has_several_accounts_and_each_once() {
        let devices = devices();
        let names = ["ann", "bob", "cid", "dan", "eve", "ann", "fay"];
        let cookie =
            names.iter().fold(String::new(), |before, name| devices.cookie(&before, (name, "hash"), 5));
        let is_known = |name: &&&str| devices.find(&cookie, name, 5).is_some();
        let known: Vec<_> = ["ann", "bob", "cid", "dan", "eve", "fay"].iter().filter(is_known).collect();
        assert_eq!(known, [&"ann", &"cid", &"dan", &"eve", &"fay"].map(|name| name));
        assert!(cookie.len() < 5 * MAX_ENTRY);
    }

    #[test]
    fn what_a_client_made_up_is_no_device_and_is_not_sent_back() {
        let devices = devices();
        let cookie = devices.cookie("", ("ann", "hash"), 5);
        let (text, signature) = cookie.rsplit_once('.').expect("a signature");
        let later = text.replacen('5', "6", 1);
        let all = [
            String::new(),
            "~~~".to_owned(),
            format!("{later}.{signature}"),
            format!("{text}.{}", &signature[..62]),
            format!("{text}."),
            text.to_owned(),
            format!("{text}.{}", "0".repeat(64)),
            "a".repeat(100_000),
        ];
        for made_up in &all {
            assert_eq!(devices.find(made_up, "ann", 5), None, "{made_up}");
        }
        let again = devices.cookie("x\r\nset-cookie: y~; Path=/~é", ("ann", "hash"), 5);
        assert_eq!(again.matches('~').count(), 0, "{again}");
    }

    #[test]
    fn the_key_outlives_the_server_and_is_for_its_owner() {
        use std::fs;
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let cookie = Devices::of(folder.path()).cookie("", ("ann", "hash"), 5);
        assert!(Devices::of(folder.path()).find(&cookie, "ann", 5).is_some());
        let file = folder.path().join(KEY);
        assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
        // One that was cut by a full disk is made again.
        fs::write(&file, "12").expect("written");
        assert!(Devices::of(folder.path()).find(&cookie, "ann", 5).is_none());
        assert_eq!(fs::read(&file).expect("there").len(), KEY_DIGITS);
        let nowhere = Devices::of(&folder.path().join("no/such"));
        assert!(nowhere.find(&nowhere.cookie("", ("ann", "hash"), 5), "ann", 5).is_some());
    }
}
