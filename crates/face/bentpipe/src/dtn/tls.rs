//! TLS options of programs, and `bentpipe dtn certificate`.

use std::net::IpAddr;
use std::path::PathBuf;

use bentpipe_bundles::client::Access;
use bentpipe_bundles::tls::{Making, NamePolicy, Policy, Security, Settings, make};
use bentpipe_wire::dtn::eid::Eid;
use clap::{Args, ValueEnum};

use crate::show::out;

/// Use of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TlsPolicy {
    /// Never
    Off,
    /// Only where the peer offers it
    Offered,
    /// Peers without it are refused
    Required,
}

/// Treatment of names in the peer's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum NameCheck {
    /// Not compared
    Ignored,
    /// Compared where there are some
    IfPresent,
    /// Must match
    Required,
}

impl From<NameCheck> for NamePolicy {
    fn from(check: NameCheck) -> NamePolicy {
        match check {
            NameCheck::Ignored => NamePolicy::Ignored,
            NameCheck::IfPresent => NamePolicy::IfPresent,
            NameCheck::Required => NamePolicy::Required,
        }
    }
}

/// TLS of TCPCL sessions.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS on TCPCL")]
pub(crate) struct TlsArgs {
    /// PEM file: certificate of this program's node
    #[arg(long, value_name = "FILE", requires_all = ["key", "trust"])]
    certificate: Option<PathBuf>,
    /// PEM file: private key of the certificate
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// PEM file: certificates of the trusted authorities
    #[arg(long, value_name = "FILE", requires = "certificate")]
    trust: Option<PathBuf>,
    /// Use of TLS
    #[arg(long, value_enum, default_value_t = TlsPolicy::Required, requires = "certificate")]
    tls: TlsPolicy,
    /// Node identifier in the peer's certificate
    #[arg(long, value_enum, default_value_t = NameCheck::Required, requires = "certificate")]
    node_id: NameCheck,
    /// Host name and address in the peer's certificate
    #[arg(long, value_enum, default_value_t = NameCheck::Ignored, requires = "certificate")]
    network_id: NameCheck,
}

impl TlsArgs {
    /// Reads the files. Without a certificate sessions are not encrypted.
    pub(super) fn security(&self) -> Result<Security, String> {
        let (Some(certificate), Some(key), Some(trust)) = (&self.certificate, &self.key, &self.trust) else {
            return Ok(Security::default());
        };
        let policy = match self.tls {
            TlsPolicy::Off => Policy::Off,
            TlsPolicy::Offered => Policy::Offered,
            TlsPolicy::Required => Policy::Required,
        };
        let (node_id, network_id) = (self.node_id.into(), self.network_id.into());
        Security::open(&Settings { policy, node_id, network_id, ..Settings::new(certificate, key, trust) })
    }

    /// Returns the address of a node with its TLS.
    pub(super) fn access(&self, place: &str) -> Result<Access, String> {
        Ok(Access { place: place.to_owned(), security: self.security()? })
    }
}

#[derive(Debug, Args)]
pub(crate) struct CertificateArgs {
    /// Folder of the authority, which is made if it is not there
    folder: PathBuf,
    /// Node of the certificate: ipn:1.0; without one the authority alone is made
    node: Option<Eid>,
    /// Host name of the node; may be repeated
    #[arg(long, value_name = "NAME", requires = "node")]
    host: Vec<String>,
    /// Address of the node; may be repeated
    #[arg(long, value_name = "ADDRESS", requires = "node")]
    address: Vec<IpAddr>,
    /// Days for which it is valid
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=3650))]
    days: u16,
}

/// Creates a certificate and prints its files.
pub(super) fn run(args: &CertificateArgs) -> Result<u8, String> {
    let making = Making {
        folder: args.folder.clone(),
        node: args.node.clone(),
        hosts: args.host.clone(),
        addresses: args.address.clone(),
        days: args.days.into(),
    };
    let made = make(&making)?;
    out(&format!("trust = {:?}\n", made.trust));
    if let Some((certificate, key)) = made.node {
        out(&format!("certificate = {certificate:?}\nkey = {key:?}\n"));
    }
    Ok(0)
}
