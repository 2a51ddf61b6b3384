//! Certificates for nodes, of an authority in a folder.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bentpipe_wire::dtn::eid::Eid;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType, string::Ia5String,
};
use time::{Duration, OffsetDateTime};
use yasna::Tag;

use super::{read, wrong};

/// Object identifiers: subjectAltName, id-on-bundleEID, id-kp-bundleSecurity.
const ALT_NAME: [u64; 4] = [2, 5, 29, 17];
const BUNDLE_EID: [u64; 9] = [1, 3, 6, 1, 5, 5, 7, 8, 11];
const BUNDLE_SECURITY: [u64; 9] = [1, 3, 6, 1, 5, 5, 7, 3, 35];
/// Days for which an authority is valid.
const AUTHORITY_DAYS: i64 = 3650;

/// Certificate to make.
#[derive(Clone, Debug)]
pub struct Making {
    /// Folder of the authority, which is made first if it is not there.
    pub folder: PathBuf,
    /// Node of the certificate; `None` for the authority alone.
    pub node: Option<Eid>,
    /// Host names of the node.
    pub hosts: Vec<String>,
    /// Addresses of the node.
    pub addresses: Vec<IpAddr>,
    /// Days for which it is valid, from today; negative for one that has expired.
    pub days: i64,
}

/// Files that were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Certificate of the authority: the file to trust.
    pub trust: PathBuf,
    /// Certificate and key of the node.
    pub node: Option<(PathBuf, PathBuf)>,
}

/// Creates the certificate of a node, and its authority if the folder has none.
///
/// Files of the authority are `authority.pem` and `authority-key.pem`; those of ipn:1.0 are `ipn-1.0.pem` and `ipn-1.0-key.pem`.
///
/// # Errors
/// Returns an error if a name is not possible, or a file cannot be read or written.
pub fn make(making: &Making) -> Result<Made, String> {
    let folder = &making.folder;
    std::fs::create_dir_all(folder).map_err(|error| wrong(folder, error))?;
    let (trust, key) = (folder.join("authority.pem"), folder.join("authority-key.pem"));
    if !trust.is_file() {
        make_authority(&trust, &key).map_err(|error| wrong(&trust, error))?;
    }
    let Some(node) = &making.node else { return Ok(Made { trust, node: None }) };
    let text = |path: &Path| {
        read(path).and_then(|bytes| String::from_utf8(bytes).map_err(|error| wrong(path, error)))
    };
    let key_pair = KeyPair::from_pem(&text(&key)?).map_err(|error| wrong(&key, error))?;
    let issuer = Issuer::from_ca_cert_pem(&text(&trust)?, key_pair).map_err(|error| wrong(&trust, error))?;
    let name = node.to_string().replace([':', '/'], "-").replace("---", "-");
    let name = name.trim_end_matches('-');
    let files = (folder.join(format!("{name}.pem")), folder.join(format!("{name}-key.pem")));
    let key = KeyPair::generate().map_err(|error| wrong(&files.1, error))?;
    let params = node_params(making, node)?;
    let certificate = params.signed_by(&key, &issuer).map_err(|error| wrong(&files.0, error))?;
    write(&files.1, &key.serialize_pem()).map_err(|error| wrong(&files.1, error))?;
    write(&files.0, &certificate.pem()).map_err(|error| wrong(&files.0, error))?;
    Ok(Made { trust, node: Some(files) })
}

fn make_authority(trust: &Path, key_file: &Path) -> Result<(), String> {
    let text = |error: rcgen::Error| error.to_string();
    let key = KeyPair::generate().map_err(text)?;
    let mut params = params("bentpipe authority", AUTHORITY_DAYS);
    // Only nodes are signed by it, and no other authorities.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key).map_err(text)?;
    write(key_file, &key.serialize_pem()).map_err(|error| error.to_string())?;
    write(trust, &certificate.pem()).map_err(|error| error.to_string())
}

fn params(name: &str, days: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let now = OffsetDateTime::now_utc();
    // Clocks of nodes differ.
    params.not_before = (now - Duration::DAY).min(now + Duration::days(days - 1));
    params.not_after = now + Duration::days(days);
    params
}

fn node_params(making: &Making, node: &Eid) -> Result<CertificateParams, String> {
    if *node != node.node() || node.is_null() || node.is_local() {
        return Err(format!("{node}: expected a node, as ipn:1.0 or dtn://name/"));
    }
    let hosts = making.hosts.iter().map(|host| {
        Ia5String::try_from(host.as_str()).map_err(|_| format!("{host}: expected a host name in ASCII"))
    });
    let hosts: Vec<SanType> = hosts.map(|host| host.map(SanType::DnsName)).collect::<Result<_, _>>()?;
    let mut params = params(&node.to_string(), making.days);
    params.use_authority_key_identifier_extension = true;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::Other(BUNDLE_SECURITY.to_vec()),
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let names = alt_names(&node.to_string(), &hosts, &making.addresses);
    params.custom_extensions = vec![CustomExtension::from_oid_content(&ALT_NAME, names)];
    Ok(params)
}

/// Encodes the names of a node. The library has other names as UTF-8 only, where the standard wants an IA5String.
fn alt_names(node: &str, hosts: &[SanType], addresses: &[IpAddr]) -> Vec<u8> {
    yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_tagged_implicit(Tag::context(0), |writer| {
                writer.write_sequence(|writer| {
                    writer.next().write_oid(&yasna::models::ObjectIdentifier::from_slice(&BUNDLE_EID));
                    writer.next().write_tagged(Tag::context(0), |writer| writer.write_ia5_string(node));
                });
            });
            for host in hosts {
                if let SanType::DnsName(host) = host {
                    writer.next().write_tagged_implicit(Tag::context(2), |writer| {
                        writer.write_ia5_string(host.as_ref())
                    });
                }
            }
            for address in addresses {
                let bytes = match address {
                    IpAddr::V4(address) => address.octets().to_vec(),
                    IpAddr::V6(address) => address.octets().to_vec(),
                };
                writer.next().write_tagged_implicit(Tag::context(7), |writer| writer.write_bytes(&bytes));
            }
        });
    })
}

/// Replaces a file, for its owner alone.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let _ = std::fs::remove_file(&new);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(new, path)
}
