//! TLS of the server itself: a certificate from files, or one that it makes.
//!
//! Files are read again when they change, so that a renewed certificate needs no restart. A certificate of its own is signed
//! by itself: browsers warn of it once, and programs trust it by its file.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bentpipe_agent::regular;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};
use tokio_rustls::TlsAcceptor;

use crate::setup::Error;
use crate::{clock, log};

/// Time between two looks for a renewed certificate.
const LOOK: Duration = Duration::from_secs(60);
/// Largest file of a certificate or key.
const MAX_FILE: u64 = 1 << 20;
/// Most certificates of a chain.
const MAX_CHAIN: usize = 16;
/// Years for which an own certificate holds.
const YEARS: i32 = 10;
/// Files of an own certificate in the data folder.
const OWN: [&str; 2] = ["certificate.pem", "certificate-key.pem"];
/// Start of the line, before an own certificate, that has its names.
const NAMES: &str = "bentpipe serve: ";

/// Origin of the server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// PEM files: the chain, the server's certificate first, and its key.
    Files {
        /// Chain.
        chain: PathBuf,
        /// Key.
        key: PathBuf,
    },
    /// Made at the first start, and kept in the data folder.
    SelfSigned,
}

/// TLS of a server.
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// SHA-256 of the certificate, as browsers show it.
    pub(crate) fingerprint: String,
    /// File to trust for programs, of an own certificate.
    pub(crate) trust: Option<PathBuf>,
    files: [PathBuf; 2],
    current: Arc<Current>,
}

/// Certificate in use.
#[derive(Debug)]
struct Current(Mutex<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Tls {
    /// Reads or generates the certificate. An own one has `names` and is kept in `folder`.
    pub(crate) fn new(certificate: &Certificate, folder: &Path, names: &[String]) -> Result<Tls, Error> {
        let (files, trust) = match certificate {
            Certificate::Files { chain, key } => ([chain.clone(), key.clone()], None),
            Certificate::SelfSigned => {
                let files = OWN.map(|name| folder.join(name));
                make_if_needed(&files, names)?;
                let trust = files[0].clone();
                (files, Some(trust))
            }
        };
        let provider = Arc::new(ring::default_provider());
        let loaded = load(&files, &provider)?;
        let fingerprint = fingerprint(&loaded);
        let current = Arc::new(Current(Mutex::new(Arc::new(loaded))));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Address(error.to_string()))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), fingerprint, trust, files, current })
    }

    /// Reads the files again whenever they change. Files that are wrong leave the certificate as it is.
    pub(crate) async fn renew(self: Arc<Tls>) {
        let mut seen = stamps(&self.files);
        loop {
            tokio::time::sleep(LOOK).await;
            let now = stamps(&self.files);
            if now == seen {
                continue;
            }
            seen = now;
            log::line(&self.reload());
        }
    }

    /// Returns the SHA-256 of the certificate in use.
    pub(crate) fn hash(&self) -> [u8; 32] {
        let key = Arc::clone(&self.current.0.lock().unwrap_or_else(PoisonError::into_inner));
        Sha256::digest(key.cert.first().map(|certificate| certificate.as_ref()).unwrap_or_default()).into()
    }

    fn reload(&self) -> String {
        match load(&self.files, &Arc::new(ring::default_provider())) {
            Ok(loaded) => {
                let text = format!("certificate read again: SHA-256 {}", fingerprint(&loaded));
                *self.current.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
                text
            }
            Err(error) => format!("error: {error}; the certificate before stays"),
        }
    }
}

/// Returns what shows that a file was changed or replaced.
fn stamps(files: &[PathBuf; 2]) -> [Option<(u64, i64, i64)>; 2] {
    files
        .each_ref()
        .map(|file| fs::metadata(file).ok().map(|meta| (meta.ino(), meta.mtime(), meta.mtime_nsec())))
}

fn wrong(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::Certificate(format!("{}: {why}", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    regular::read(path, MAX_FILE).map_err(|error| wrong(path, error))
}

/// Reads a chain and its key, which must belong together.
fn load(
    [chain_file, key_file]: &[PathBuf; 2],
    provider: &Arc<CryptoProvider>,
) -> Result<CertifiedKey, Error> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&read(chain_file)?)
        .take(MAX_CHAIN)
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(chain_file, format!("not a certificate in PEM: {error}")))?;
    if chain.is_empty() {
        return Err(wrong(chain_file, "expected certificates in PEM, the server's first"));
    }
    let key_bytes = read(key_file)?;
    let mode = fs::metadata(key_file).map_err(|error| wrong(key_file, error))?.permissions().mode();
    if mode & 0o007 != 0 {
        return Err(wrong(key_file, "other users can read this key: `chmod o-rwx` it"));
    }
    let key = PrivateKeyDer::from_pem_slice(&key_bytes)
        .map_err(|error| wrong(key_file, format!("expected a private key in PEM, not encrypted: {error}")))?;
    CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => wrong(
            key_file,
            format!("this is not the key of the first certificate in {}", chain_file.display()),
        ),
        other => wrong(key_file, other),
    })
}

fn fingerprint(key: &CertifiedKey) -> String {
    let der = key.cert.first().map(|certificate| certificate.as_ref()).unwrap_or_default();
    Sha256::digest(der).iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
}

/// Generates an own certificate, unless there is one with the same names.
fn make_if_needed([chain_file, key_file]: &[PathBuf; 2], names: &[String]) -> Result<(), Error> {
    let first_line = format!("{NAMES}{}", names.join(" "));
    let is_same = fs::read_to_string(chain_file).is_ok_and(|text| text.lines().next() == Some(&first_line));
    if is_same && key_file.is_file() {
        return Ok(());
    }
    let refused = |error: rcgen::Error| wrong(chain_file, format!("names {}: {error}", names.join(", ")));
    let mut params = rcgen::CertificateParams::new(names.to_vec()).map_err(refused)?;
    let common = names.first().cloned().unwrap_or_default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, common);
    let year = clock::year();
    params.not_before = rcgen::date_time_ymd(year - 1, 1, 1);
    params.not_after = rcgen::date_time_ymd(year + YEARS, 1, 1);
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let key = rcgen::KeyPair::generate().map_err(refused)?;
    let certificate = params.self_signed(&key).map_err(refused)?;
    // The certificate goes last: with it, both are there.
    write(key_file, &key.serialize_pem()).map_err(|error| wrong(key_file, error))?;
    let text = format!("{first_line}\n{}", certificate.pem());
    write(chain_file, &text).map_err(|error| wrong(chain_file, error))
}

/// Replaces a file, for its owner alone.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(new, path)
}

/// Returns the names of an own certificate: the server's without ports, and this machine's.
pub(crate) fn names(hosts: &[String], listen: IpAddr) -> Vec<String> {
    let mut all: Vec<String> = hosts.iter().map(|host| without_port(host).to_owned()).collect();
    all.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    if !listen.is_unspecified() {
        all.push(listen.to_string());
    }
    let mut seen = std::collections::HashSet::new();
    all.retain(|name| seen.insert(name.clone()));
    all
}

/// Returns a host without port and brackets.
pub(crate) fn without_port(host: &str) -> &str {
    if let Some((address, _)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address;
    }
    match host.rsplit_once(':') {
        // More colons are of an IPv6 address.
        Some((name, port)) if !name.contains(':') && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(folder: &Path, names: &[&str]) -> Result<Tls, Error> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Tls::new(&Certificate::SelfSigned, folder, &names)
    }

    #[test]
    fn an_own_certificate_is_kept_until_its_names_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = made(folder.path(), &["localhost"]).expect("made");
        assert_eq!(first.fingerprint.len(), 95);
        for name in OWN {
            let mode = fs::metadata(folder.path().join(name)).expect("exists").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        let second = made(folder.path(), &["localhost"]).expect("read");
        assert_eq!(first.fingerprint, second.fingerprint);
        let third = made(folder.path(), &["localhost", "lab.example.org"]).expect("made");
        assert_ne!(first.fingerprint, third.fingerprint);
    }

    #[test]
    fn wrong_files_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        for sub in [&one, &two] {
            fs::create_dir(sub).expect("made");
            made(sub, &["localhost"]).expect("made");
        }
        let refusal = |chain: PathBuf, key: PathBuf| {
            let tls = Tls::new(&Certificate::Files { chain, key }, folder.path(), &[]);
            tls.err().expect("refused").to_string()
        };
        let [chain, key] = OWN.map(|name| one.join(name));
        assert!(refusal(chain.clone(), two.join(OWN[1])).contains("not the key of the first certificate"));
        assert!(refusal(key.clone(), key.clone()).contains("expected certificates in PEM"));
        assert!(refusal(chain.clone(), chain.clone()).contains("expected a private key in PEM"));
        assert!(refusal(folder.path().join("none"), key.clone()).contains("none: No such file"));
        let open = folder.path().join("open.pem");
        fs::copy(&key, &open).expect("copied");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).expect("set");
        assert!(refusal(chain, open).contains("other users can read this key"));
    }

    #[test]
    fn files_that_change_are_read_again_and_wrong_ones_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let other = tempfile::tempdir().expect("a folder");
        made(folder.path(), &["localhost"]).expect("made");
        let renewed = made(other.path(), &["localhost"]).expect("made");
        let [chain, key] = OWN.map(|name| folder.path().join(name));
        let files = Certificate::Files { chain: chain.clone(), key: key.clone() };
        let tls = Tls::new(&files, folder.path(), &[]).expect("read");
        let in_use = || fingerprint(&tls.current.0.lock().expect("not poisoned"));
        let before = stamps(&tls.files);
        fs::copy(other.path().join(OWN[0]), &chain).expect("copied");
        assert_ne!(stamps(&tls.files), before);
        assert!(tls.reload().starts_with("error: "), "the key is still the old one");
        assert_eq!(in_use(), tls.fingerprint);
        fs::copy(other.path().join(OWN[1]), &key).expect("copied");
        assert!(tls.reload().starts_with("certificate read again"));
        assert_eq!(in_use(), renewed.fingerprint);
    }

    #[test]
    fn names_of_hosts_have_no_ports() {
        let hosts =
            ["lab.example.org:8443", "[2001:db8::1]:8443", "2001:db8::2", "10.0.0.1"].map(str::to_owned);
        let listen = IpAddr::from([10, 0, 0, 1]);
        let wanted =
            ["lab.example.org", "2001:db8::1", "2001:db8::2", "10.0.0.1", "localhost", "127.0.0.1", "::1"];
        assert_eq!(names(&hosts, listen), wanted);
    }
}
