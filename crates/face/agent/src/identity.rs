//! Identity of a site: its key, its controller, and its enrolment there.

use std::path::{Path, PathBuf};

use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use crate::digits::{from_hex, hex};
use crate::link::{Link, Trust};
use crate::protocol::{Enrol, Enrolled, VERSION, name_refusal, parse};
use crate::{Error, folder, regular};

/// Start of invitations, by which a leaked one is found.
const PREFIX: &str = "bpe_";
/// Bytes of an invitation's secret.
const SECRET: usize = 16;
/// File of the enrolment, and of the key, in the folder of a site.
const ENROLMENT: &str = "site.json";
const KEY: &str = "key";
/// Largest file of a key.
const MAX_KEY: u64 = 4096;

/// Invitation of a site: a one-time secret, and the hash of the controller's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// Secret in hexadecimal digits.
    pub secret: String,
    /// SHA-256 of the certificate.
    pub certificate: [u8; 32],
}

impl Invitation {
    /// Creates an invitation for a controller with this certificate.
    ///
    /// # Panics
    /// Panics if the operating system has no random numbers.
    pub fn new(certificate: [u8; 32]) -> Invitation {
        let mut bytes = [0; SECRET];
        getrandom::fill(&mut bytes).expect("the operating system has random numbers");
        Invitation { secret: hex(&bytes), certificate }
    }

    /// Reads an invitation, as it is shown.
    ///
    /// # Errors
    /// Returns what was expected.
    pub fn parse(text: &str) -> Result<Invitation, String> {
        let parts = text.trim().strip_prefix(PREFIX).and_then(|rest| rest.split_once('_'));
        let read = parts.and_then(|(secret, certificate)| {
            let certificate = from_hex(certificate)?.try_into().ok()?;
            (from_hex(secret)?.len() == SECRET)
                .then(|| Invitation { secret: secret.to_lowercase(), certificate })
        });
        read.ok_or_else(|| {
            format!("expected the code of an invitation: {PREFIX}, and 32 and 64 hexadecimal digits")
        })
    }
}

impl std::fmt::Display for Invitation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{PREFIX}{}_{}", self.secret, hex(&self.certificate))
    }
}

/// Enrolment of a site with its controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enrolment {
    /// Name of the site.
    pub name: String,
    /// Host and port of the controller.
    pub controller: String,
    /// SHA-256 of the controller's certificate in hexadecimal digits, if it is pinned.
    pub certificate: Option<String>,
    /// File of the authorities that sign the controller's certificate, if it is not.
    pub authorities: Option<PathBuf>,
}

impl Enrolment {
    /// Reads the enrolment in the folder of a site.
    ///
    /// # Errors
    /// Returns an error if there is none.
    pub fn read(folder: &Path) -> Result<Enrolment, Error> {
        let path = folder.join(ENROLMENT);
        folder::read_json(&path)?.ok_or_else(|| {
            Error::Settings(format!(
                "{}: this machine is not enrolled: `bentpipe site enrol --controller https://HOST CODE`",
                folder.display()
            ))
        })
    }

    pub(crate) fn trust(&self) -> Result<Trust, Error> {
        let pin = self.certificate.as_deref().and_then(from_hex).and_then(|hash| hash.try_into().ok());
        match (pin, &self.authorities) {
            (_, Some(file)) => Ok(Trust::Authorities(file.clone())),
            (Some(hash), None) => Ok(Trust::Pin(hash)),
            (None, None) => Err(Error::Settings("the enrolment has no certificate: enrol again".to_owned())),
        }
    }
}

/// Key of a site.
pub(crate) struct Key(Ed25519KeyPair);

impl Key {
    pub(crate) fn read(folder: &Path) -> Result<Key, Error> {
        let path = folder.join(KEY);
        let bytes = regular::read(&path, MAX_KEY).map_err(|error| Error::file(&path, error))?;
        Ed25519KeyPair::from_pkcs8(&bytes).map(Key).map_err(|error| Error::settings(&path, error))
    }

    fn make(folder: &Path) -> Result<Key, Error> {
        let path = folder.join(KEY);
        let bytes = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
            .map_err(|error| Error::settings(&path, error))?;
        folder::write(&path, bytes.as_ref())?;
        Key::read(folder)
    }

    /// Returns the signature of a login in hexadecimal digits.
    pub(crate) fn sign(&self, binding: &[u8; 32], name: &str) -> String {
        hex(self.0.sign(&to_be_signed(binding, name)).as_ref())
    }
}

/// Returns the message that a site signs to log in.
///
/// It has the exporter value of the TLS session (RFC 9266), and the name.
pub fn to_be_signed(binding: &[u8; 32], name: &str) -> Vec<u8> {
    [&b"bentpipe site login 1\0"[..], binding, name.as_bytes()].concat()
}

/// Returns `true` if a signature of a login is that of a key.
pub fn is_signature(key: &[u8], binding: &[u8; 32], name: &str, signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, key).verify(&to_be_signed(binding, name), signature).is_ok()
}

/// Enrols this machine: makes a key, and sends its public half with the invitation.
///
/// `controller` is the address of the controller. Its certificate is pinned by the invitation, or verified by `authorities`.
///
/// # Errors
/// Returns an error if the controller cannot be reached or refuses, or the machine is enrolled already.
pub fn enrol(
    folder: &Path,
    controller: &str,
    invitation: &Invitation,
    authorities: Option<&Path>,
) -> Result<Enrolment, Error> {
    folder::make(folder)?;
    if folder.join(ENROLMENT).exists() {
        let why = "this machine is enrolled already: remove the folder to enrol it again";
        return Err(Error::settings(folder, why));
    }
    let controller = host_of(controller)?;
    let trust = match authorities {
        Some(file) => Trust::Authorities(file.to_owned()),
        None => Trust::Pin(invitation.certificate),
    };
    let key = Key::make(folder)?;
    let mut link = Link::open(&controller, &trust)?;
    let public = hex(key.0.public_key().as_ref());
    let request = Enrol { version: VERSION, secret: invitation.secret.clone(), key: public };
    let answer = link.send_json("enrol", &request)?;
    let Enrolled { name } = parse(&answer).map_err(Error::Connection)?;
    if let Some(why) = name_refusal(&name) {
        return Err(Error::Refused(format!("the controller gives the name {name:?}: {why}")));
    }
    let enrolment = Enrolment {
        name,
        controller,
        certificate: authorities.is_none().then(|| hex(&invitation.certificate)),
        authorities: authorities.map(|file| std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned())),
    };
    folder::write_json(&folder.join(ENROLMENT), &enrolment)?;
    Ok(enrolment)
}

/// Returns host and port of an address.
fn host_of(address: &str) -> Result<String, Error> {
    let wrong =
        || Error::Settings(format!("{address:?}: expected an address such as https://lab.example.org:8443"));
    let host = address.strip_prefix("https://").ok_or_else(wrong)?.trim_end_matches('/');
    let is_host = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    if host.is_empty() || !host.chars().all(is_host) {
        return Err(wrong());
    }
    let after = host.rsplit(']').next().unwrap_or_default();
    Ok(if after.contains(':') { host.to_owned() } else { format!("{host}:443") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invitations_are_read_as_they_are_shown() {
        let made = Invitation::new([7; 32]);
        assert_eq!(Invitation::parse(&format!(" {made}\n")), Ok(made.clone()));
        let text = made.to_string();
        for bad in ["", "bpe_", &text[1..], &text[..text.len() - 1], &text.replace('_', "-"), "bpe_ä_ä"] {
            assert!(Invitation::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_signature_is_of_one_session_and_one_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = Key::make(folder.path()).expect("made");
        let (public, signature) = (key.0.public_key().as_ref().to_vec(), key.sign(&[1; 32], "east"));
        let bytes = from_hex(&signature).expect("digits");
        assert!(is_signature(&public, &[1; 32], "east", &bytes));
        assert!(!is_signature(&public, &[2; 32], "east", &bytes), "another session");
        assert!(!is_signature(&public, &[1; 32], "west", &bytes), "another name");
        assert!(!is_signature(&[0; 32], &[1; 32], "east", &bytes), "another key");
        let again = Key::read(folder.path()).expect("read");
        assert_eq!(again.sign(&[1; 32], "east"), signature);
    }

    #[test]
    fn addresses_have_a_port() {
        let host = |text: &str| host_of(text).ok();
        assert_eq!(host("https://lab.example.org"), Some("lab.example.org:443".to_owned()));
        assert_eq!(host("https://lab:8443/"), Some("lab:8443".to_owned()));
        assert_eq!(host("https://[2001:db8::1]"), Some("[2001:db8::1]:443".to_owned()));
        for bad in ["http://lab", "lab", "https://", "https://a/b", "https://a b", "https://a\r\nx"] {
            assert_eq!(host(bad), None, "{bad}");
        }
    }
}
