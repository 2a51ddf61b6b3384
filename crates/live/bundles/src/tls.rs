//! TLS of TCPCLv4 sessions (RFC 9174, section 4.4): credentials, policies, names.
//!
//! *Models* TLS 1.3 with certificates of both sides, whose path leads to a trusted authority. Their names are NODE-ID, DNS-ID and IPADDR-ID.
//! A peer whose NODE-ID is not the node of its SESS_INIT is refused, as is one that offers no TLS where it is required.
//!
//! *Does not model* OCSP, lists of revoked certificates, and resumption: each session verifies both certificates.

mod connection;
mod make;
mod names;
mod verify;

use std::fs::{self, File};
use std::io::Read;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bentpipe_dtn::session::Tls;
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, KeyLogFile, RootCertStore, ServerConfig};
use serde::Deserialize;

pub(crate) use connection::Secure;
pub use make::{Made, Making, make};
pub use names::{Findings, Names};
use verify::Verifier;

/// Largest file of certificates or of a key.
const MAX_FILE: u64 = 1 << 20;
/// Maximum number of certificates in a file.
const MAX_CERTIFICATES: usize = 100;

/// Use of TLS by a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// No TLS is offered.
    Off,
    /// TLS is used with peers that offer it. An attacker in the path can prevent it.
    Offered,
    /// Peers without TLS are refused.
    #[default]
    Required,
}

impl From<Policy> for Tls {
    fn from(policy: Policy) -> Tls {
        match policy {
            Policy::Off => Tls::Off,
            Policy::Offered => Tls::Offered,
            Policy::Required => Tls::Required,
        }
    }
}

/// Treatment of a kind of names in a peer's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamePolicy {
    /// Names are not compared.
    Ignored,
    /// Names are compared if the certificate has some.
    IfPresent,
    /// The certificate must have a name that matches.
    Required,
}

/// Settings of TLS: the table `[tls]` of a node file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Use of TLS. Default: required.
    #[serde(default)]
    pub policy: Policy,
    /// PEM file: certificate of this node, and those between it and the authority.
    pub certificate: PathBuf,
    /// PEM file: private key, which no other user may read.
    pub key: PathBuf,
    /// PEM file: certificates of the trusted authorities.
    pub trust: PathBuf,
    /// Node identifier (NODE-ID) in a peer's certificate. Default: required.
    ///
    /// A certificate that names other nodes than the peer says it is, or endpoints other than nodes, ends the session in any case. One that names none proves no node.
    #[serde(default = "required")]
    pub node_id: NamePolicy,
    /// Host name and address (DNS-ID, IPADDR-ID) in a peer's certificate. Default: ignored.
    #[serde(default = "ignored")]
    pub network_id: NamePolicy,
}

fn required() -> NamePolicy {
    NamePolicy::Required
}

fn ignored() -> NamePolicy {
    NamePolicy::Ignored
}

impl Settings {
    /// Creates settings of three files, with defaults elsewhere.
    pub fn new(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        trust: impl Into<PathBuf>,
    ) -> Settings {
        Settings {
            policy: Policy::Required,
            certificate: certificate.into(),
            key: key.into(),
            trust: trust.into(),
            node_id: required(),
            network_id: ignored(),
        }
    }

    /// Prefixes relative paths with the folder.
    pub(crate) fn place(&mut self, folder: &Path) {
        for path in [&mut self.certificate, &mut self.key, &mut self.trust] {
            *path = folder.join(&*path);
        }
    }
}

/// Policy and credentials of a program's sessions. The default is without TLS.
#[derive(Clone, Debug)]
pub struct Security {
    policy: Policy,
    credentials: Option<Arc<Credentials>>,
}

impl Default for Security {
    fn default() -> Security {
        Security { policy: Policy::Off, credentials: None }
    }
}

impl Security {
    /// Reads the files of the settings.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read, or key and certificate do not belong together.
    pub fn open(settings: &Settings) -> Result<Security, String> {
        let credentials = Some(Arc::new(Credentials::open(settings)?));
        Ok(Security { policy: settings.policy, credentials })
    }

    /// Returns the same credentials with another policy.
    #[must_use]
    pub fn with_policy(&self, policy: Option<Policy>) -> Security {
        let policy = policy.unwrap_or(self.policy);
        let credentials = self.credentials.clone();
        Security { policy: if credentials.is_some() { policy } else { Policy::Off }, credentials }
    }

    /// Returns the use of TLS.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Returns `true` if a peer's certificate must name its node.
    pub(crate) fn requires_nodes(&self) -> bool {
        self.credentials.as_ref().is_some_and(|credentials| credentials.node_id == NamePolicy::Required)
    }

    /// Creates the TLS side of a connection from this program to `name` at an address.
    pub(crate) fn active(&self, name: Option<&str>, address: IpAddr) -> Option<Secure> {
        let name = name.and_then(|name| ServerName::try_from(name.to_owned()).ok());
        self.credentials.as_ref().map(|credentials| Secure::new(Arc::clone(credentials), true, name, address))
    }

    /// Creates the TLS side of a connection that a peer has made.
    pub(crate) fn passive(&self, address: IpAddr) -> Option<Secure> {
        self.credentials
            .as_ref()
            .map(|credentials| Secure::new(Arc::clone(credentials), false, None, address))
    }
}

/// Certificate, key and trusted authorities in use.
#[derive(Debug)]
pub(crate) struct Credentials {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    node_id: NamePolicy,
    network_id: NamePolicy,
    /// Reason for which a certificate was refused, which is not sent to the peer.
    refusal: Arc<Mutex<Option<String>>>,
}

impl Credentials {
    fn open(settings: &Settings) -> Result<Credentials, String> {
        let chain = certificates(&settings.certificate)?;
        let key = private_key(&settings.key)?;
        let mut roots = RootCertStore::empty();
        for root in certificates(&settings.trust)? {
            roots.add(root).map_err(|error| wrong(&settings.trust, error))?;
        }
        let provider = Arc::new(ring::default_provider());
        let refusal = Arc::default();
        let verifier = Arc::new(Verifier::new(roots, Arc::clone(&refusal), &provider));
        let mismatch = |error: rustls::Error| match error {
            rustls::Error::InconsistentKeys(_) => wrong(
                &settings.key,
                format!("expected the key of the first certificate in {}", settings.certificate.display()),
            ),
            other => wrong(&settings.certificate, other),
        };
        let version = |error: rustls::Error| error.to_string();
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(version)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&verifier) as Arc<_>)
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(mismatch)?;
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(version)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(mismatch)?;
        // A resumed session would not look at certificates again, which may have expired.
        client.resumption = Resumption::disabled();
        server.send_tls13_tickets = 0;
        // Keys are written only if SSLKEYLOGFILE is set, for captures that are to be read.
        client.key_log = Arc::new(KeyLogFile::new());
        server.key_log = Arc::new(KeyLogFile::new());
        let Settings { node_id, network_id, .. } = *settings;
        Ok(Credentials { client: client.into(), server: server.into(), node_id, network_id, refusal })
    }
}

fn wrong(path: &Path, why: impl std::fmt::Display) -> String {
    format!("{}: {why}", path.display())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes));
    read.map_err(|error| wrong(path, error))?;
    Ok(bytes)
}

/// Reads certificates in PEM: at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(&read(path)?)
        .take(MAX_CERTIFICATES)
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(path, format!("expected certificates in PEM: {error}")))?;
    match found.is_empty() {
        true => Err(wrong(path, "expected certificates in PEM, found none")),
        false => Ok(found),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = read(path)?;
    let mode = fs::metadata(path).map_err(|error| wrong(path, error))?.permissions().mode();
    if mode & 0o007 != 0 {
        return Err(wrong(path, "other users can read this key: `chmod o-rwx` it"));
    }
    PrivateKeyDer::from_pem_slice(&bytes)
        .map_err(|error| wrong(path, format!("expected a private key in PEM, not encrypted: {error}")))
}
