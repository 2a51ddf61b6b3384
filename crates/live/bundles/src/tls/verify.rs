//! Path and purpose of a peer's certificate (RFC 9174, section 4.4.4.1).

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible, RootCertStore,
    SignatureScheme,
};
use webpki::{EndEntityCert, KeyUsage};

/// Key purpose id-kp-bundleSecurity (1.3.6.1.5.5.7.3.35), as DER without its head.
const BUNDLE_SECURITY: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 35];

/// Verifier of both sides' certificates. Names are compared after the handshake.
#[derive(Debug)]
pub(super) struct Verifier {
    roots: RootCertStore,
    hints: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
    refusal: Arc<Mutex<Option<String>>>,
}

impl Verifier {
    pub(super) fn new(
        roots: RootCertStore,
        refusal: Arc<Mutex<Option<String>>>,
        provider: &CryptoProvider,
    ) -> Verifier {
        let hints = roots.subjects();
        Verifier { roots, hints, algorithms: provider.signature_verification_algorithms, refusal }
    }

    /// Validates the path to a trusted authority, and the purpose if the certificate has one.
    fn verify(
        &self,
        end: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let usage = KeyUsage::required_if_present(BUNDLE_SECURITY);
        let path = EndEntityCert::try_from(end).and_then(|certificate| {
            let (algorithms, roots) = (self.algorithms.all, &self.roots.roots);
            certificate.verify_for_usage(algorithms, roots, others, now, usage, None, None).map(|_| ())
        });
        path.map_err(|error| {
            let text = format!("certificate of the peer refused: {}", reason(&error));
            *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
            // The alert for this error is bad_certificate, which the standard demands for any reason.
            Error::InvalidCertificate(CertificateError::BadEncoding)
        })
    }

    fn signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }
}

/// Returns the words for an error of a path.
fn reason(error: &webpki::Error) -> String {
    match error {
        webpki::Error::CertExpired { .. } => "it has expired".into(),
        webpki::Error::CertNotValidYet { .. } => "it is not valid yet".into(),
        // An authority of the same name is another one if its key is.
        webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
            "no trusted authority has issued it".into()
        }
        webpki::Error::CaUsedAsEndEntity => "it is that of an authority, not of a node".into(),
        webpki::Error::RequiredEkuNotFoundContext(_) => {
            "its extended key usage lacks id-kp-bundleSecurity".into()
        }
        other => format!("{other:?}"),
    }
}

/// Error for a version that is never negotiated.
fn no_tls12() -> Error {
    Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered)
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verify(end_entity, intermediates, now).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verify(end_entity, intermediates, now).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
