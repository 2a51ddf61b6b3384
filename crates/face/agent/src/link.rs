//! Connection to the controller: HTTP/1.1 over TLS 1.3, one request at a time.
//!
//! It is written out because a site needs two things that HTTP clients hide: the certificate, to pin it, and the exporter value
//! of the session, to sign it.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::protocol::{MAX_MESSAGE, MAX_WAIT_MS};
use crate::{Error, clock, regular};

/// Time to reach the controller, and for a part of a request.
const REACH: Duration = Duration::from_secs(10);
/// Time for an answer, longer than the controller holds one.
const ANSWER: Duration = Duration::from_millis(MAX_WAIT_MS as u64 + 10_000);
/// Bytes that earn another second.
///
/// A controller that sends or takes a byte now and then keeps no site waiting.
const RATE: i64 = 4 << 10;
/// Most bytes of the head of an answer.
const MAX_HEAD: usize = 16 << 10;
/// Largest file of authorities.
const MAX_AUTHORITIES: u64 = 16 << 20;
/// Label of the exporter value of a TLS session (RFC 9266).
const BINDING: &[u8] = b"EXPORTER-Channel-Binding";

/// Proof of the controller's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Hash of its certificate.
    Pin([u8; 32]),
    /// Signature of authorities in a file, and the name.
    Authorities(PathBuf),
}

/// Connection to the controller.
pub(crate) struct Link {
    stream: StreamOwned<ClientConnection, Timed>,
    host: String,
    /// Exporter value of the TLS session.
    pub(crate) binding: [u8; 32],
}

/// Connection with a time at which it ends, unless bytes pass.
struct Timed {
    tcp: TcpStream,
    /// Microseconds of the monotonic clock.
    end_us: i64,
}

impl Timed {
    fn new(tcp: TcpStream, time: Duration) -> Timed {
        let mut timed = Timed { tcp, end_us: 0 };
        timed.begin(time);
        timed
    }

    /// Sets the time from now on.
    fn begin(&mut self, time: Duration) {
        self.end_us = clock::monotonic_us().saturating_add(time.as_micros() as i64);
    }

    /// Returns the time that is left.
    fn left(&self) -> std::io::Result<Duration> {
        match u64::try_from(self.end_us.saturating_sub(clock::monotonic_us())) {
            Ok(left) if left > 0 => Ok(Duration::from_micros(left)),
            _ => Err(std::io::ErrorKind::TimedOut.into()),
        }
    }

    fn earn(&mut self, bytes: usize) -> usize {
        self.end_us += bytes as i64 * 1_000_000 / RATE;
        bytes
    }
}

impl Read for Timed {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        self.tcp.set_read_timeout(Some(self.left()?))?;
        self.tcp.read(bytes).map(|read| self.earn(read))
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.tcp.set_write_timeout(Some(self.left()?.min(REACH)))?;
        self.tcp.write(bytes).map(|written| self.earn(written))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.tcp.flush()
    }
}

/// Verifier of one certificate.
#[derive(Debug)]
struct Pinned {
    hash: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match Sha256::digest(certificate)[..] == self.hash {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 is needed".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn config(trust: &Trust) -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let wrong = |error: &dyn std::fmt::Display| Error::Settings(format!("TLS: {error}"));
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| wrong(&error))?;
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Pin(hash) => Arc::new(Pinned { hash: *hash, provider }),
        Trust::Authorities(file) => {
            let bytes = regular::read(file, MAX_AUTHORITIES).map_err(|error| Error::file(file, error))?;
            let mut roots = RootCertStore::empty();
            let found = CertificateDer::pem_slice_iter(&bytes).filter_map(Result::ok);
            let (added, _) = roots.add_parsable_certificates(found);
            if added == 0 {
                return Err(Error::settings(file, "expected certificates in PEM"));
            }
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| wrong(&error))?
        }
    };
    let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Answer of the controller.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Link {
    /// Connects to a host with its port.
    pub(crate) fn open(host: &str, trust: &Trust) -> Result<Link, Error> {
        let lost = |error: &dyn std::fmt::Display| Error::Connection(format!("{host}: {error}"));
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name).trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(name).map_err(|error| lost(&error))?;
        let tcp = connect(host)?;
        tcp.set_nodelay(true).map_err(|error| lost(&error))?;
        let mut tcp = Timed::new(tcp, REACH);
        let mut tls = ClientConnection::new(Arc::new(config(trust)?), name).map_err(|error| lost(&error))?;
        while tls.is_handshaking() {
            tls.complete_io(&mut tcp).map_err(|error| match error.to_string() {
                why if why.contains("ApplicationVerificationFailure") => {
                    Error::Refused(format!("{host}: its certificate is not the one of the enrolment"))
                }
                why => lost(&why),
            })?;
        }
        let binding =
            tls.export_keying_material([0; 32], BINDING, Some(&[])).map_err(|error| lost(&error))?;
        Ok(Link { stream: StreamOwned::new(tls, tcp), host: host.to_owned(), binding })
    }

    /// Returns the controller's name and port.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Sends a message, and returns the body of the answer.
    pub(crate) fn send_json(&mut self, what: &str, message: &impl Serialize) -> Result<Vec<u8>, Error> {
        let body = serde_json::to_vec(message).map_err(|error| Error::Connection(error.to_string()))?;
        let answer = self.post(what, "application/json", &body)?;
        match answer.status {
            200..=299 => Ok(answer.body),
            status => Err(refusal(&self.host, status, &answer.body)),
        }
    }

    /// Sends a request below `/site/`.
    pub(crate) fn post(&mut self, what: &str, kind: &str, body: &[u8]) -> Result<Answer, Error> {
        let head = format!(
            "POST /site/{what} HTTP/1.1\r\nhost: {}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            self.host.strip_suffix(":443").unwrap_or(&self.host),
            body.len()
        );
        let lost = |error: std::io::Error| Error::Connection(format!("{}: {error}", self.host));
        let stream = &mut self.stream;
        stream.sock.begin(ANSWER);
        let sent = stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.write_all(body))
            .and_then(|()| stream.flush());
        sent.map_err(lost)?;
        read_answer(stream).map_err(lost)
    }
}

fn connect(host: &str) -> Result<TcpStream, Error> {
    let lost = |error: std::io::Error| Error::Connection(format!("{host}: {error}"));
    let mut last = std::io::Error::other("the name has no address");
    for address in host.to_socket_addrs().map_err(lost)? {
        match TcpStream::connect_timeout(&address, REACH) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(lost(last))
}

/// Reads an answer with a length.
fn read_answer(stream: &mut impl Read) -> std::io::Result<Answer> {
    let wrong = |why: &str| std::io::Error::other(format!("the answer {why}"));
    let (mut bytes, mut block) = (Vec::new(), [0; 4096]);
    let end = loop {
        let found = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = found {
            break end;
        }
        if bytes.len() > MAX_HEAD {
            return Err(wrong("has a head that is too long"));
        }
        match stream.read(&mut block)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => bytes.extend_from_slice(&block[..read]),
        }
    };
    let mut body = bytes.split_off(end + 4);
    let head = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status: u16 = status.ok_or_else(|| wrong("has no status"))?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    let length: usize = match length {
        Some(length) => length,
        None if status == 204 => 0,
        None => return Err(wrong("has no length")),
    };
    if length > MAX_MESSAGE || body.len() > length {
        return Err(wrong("is too long"));
    }
    let have = body.len();
    body.resize(length, 0);
    stream.read_exact(&mut body[have..])?;
    Ok(Answer { status, body })
}

/// Returns the explanation of a problem.
pub(crate) fn problem(body: &[u8]) -> String {
    let problem: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    problem["detail"].as_str().unwrap_or_default().chars().take(500).collect()
}

/// Returns a refusal as an error.
pub(crate) fn refusal(host: &str, status: u16, body: &[u8]) -> Error {
    let text = format!("{host}: {} ({status})", problem(body));
    match status {
        // It may be busy, or start again.
        408 | 429 | 500..=599 => Error::Connection(text),
        _ => Error::Refused(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(u16, String)> {
        let answer = read_answer(&mut text.as_bytes()).ok()?;
        Some((answer.status, String::from_utf8_lossy(&answer.body).into_owned()))
    }

    /// A controller sends a byte now and then, which a time for each read would wait for without an end.
    #[test]
    fn an_answer_that_comes_byte_by_byte_is_late() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let tcp = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (mut far, _) = listener.accept().expect("connected");
        let slow = std::thread::spawn(move || {
            let sent = b"HTTP/1.1 200 OK".iter().cycle().take(2000);
            let count = sent.take_while(|byte| {
                clock::sleep(Duration::from_millis(5));
                far.write_all(&[**byte]).is_ok()
            });
            count.count()
        });
        let mut near = Timed::new(tcp, Duration::from_millis(200));
        let error = read_answer(&mut near).err().expect("late");
        assert!(
            matches!(error.kind(), std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock),
            "{error}"
        );
        drop(near);
        assert!(slow.join().expect("no panic") < 2000);
        // Bytes at a good rate have the time that they take.
        let tcp = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let mut timed = Timed::new(tcp, Duration::ZERO);
        assert!(timed.left().is_err());
        timed.earn(1 << 20);
        assert!(timed.left().expect("earned") > Duration::from_secs(200));
    }

    #[test]
    fn answers_have_a_length_and_a_bound() {
        assert_eq!(read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"), Some((200, "{}".to_owned())));
        assert_eq!(read("HTTP/1.1 204 No Content\r\n\r\n"), Some((204, String::new())));
        for bad in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n",
            "HTTP/1.1 x\r\ncontent-length: 0\r\n\r\n",
        ] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
        assert_eq!(read(&"x".repeat(MAX_HEAD * 2)), None);
    }
}
