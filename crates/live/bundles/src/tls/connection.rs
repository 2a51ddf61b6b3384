//! TLS side of one connection.

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};

use bentpipe_dtn::session::Session;
use bentpipe_units::Time;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConnection};

use super::{Credentials, NamePolicy, Names};

/// TLS of one connection, begun once both sides have agreed on it.
pub(crate) struct Secure {
    credentials: Arc<Credentials>,
    is_active: bool,
    /// Host name that was resolved.
    name: Option<ServerName<'static>>,
    /// Address of the other side.
    address: IpAddr,
    connection: Option<Connection>,
    is_checked: bool,
    /// Names in the peer's certificate. The session compares its nodes with what the peer says it is.
    names: Names,
    is_closed: bool,
}

impl Secure {
    pub(super) fn new(
        credentials: Arc<Credentials>,
        is_active: bool,
        name: Option<ServerName<'static>>,
        address: IpAddr,
    ) -> Secure {
        Secure {
            credentials,
            is_active,
            name,
            address,
            connection: None,
            is_checked: false,
            names: Names::default(),
            is_closed: false,
        }
    }

    /// Returns `true` if bytes of the connection are those of TLS.
    pub(crate) fn is_begun(&self) -> bool {
        self.connection.is_some()
    }

    /// Returns `true` if an established session is with a node that the peer's certificate names.
    pub(crate) fn proves_node(&self) -> bool {
        self.is_begun() && !self.names.nodes.is_empty()
    }

    /// Returns `true` if the peer's certificate has a host and no node.
    pub(crate) fn proves_host(&self, name: Option<&str>, address: Option<IpAddr>) -> bool {
        self.is_begun() && !self.names.has_node_form() && self.names.is_of(name, address)
    }

    /// Begins the handshake. The side that has connected is the client.
    pub(crate) fn begin(&mut self) -> Result<(), String> {
        let wrong = |error: rustls::Error| format!("TLS: {error}");
        let mut connection: Connection = if self.is_active {
            let name = self.name.clone().unwrap_or(ServerName::IpAddress(self.address.into()));
            ClientConnection::new(Arc::clone(&self.credentials.client), name).map_err(wrong)?.into()
        } else {
            ServerConnection::new(Arc::clone(&self.credentials.server)).map_err(wrong)?.into()
        };
        // The session makes no more than what the link takes.
        connection.set_buffer_limit(None);
        self.connection = Some(connection);
        Ok(())
    }

    /// Handles bytes of the connection.
    pub(crate) fn receive(
        &mut self,
        mut bytes: &[u8],
        session: &mut Session,
        now: Time,
    ) -> Result<(), String> {
        while !bytes.is_empty() {
            let Some(connection) = &mut self.connection else { return Ok(()) };
            let len = connection.read_tls(&mut bytes).map_err(|error| format!("TLS: {error}"))?;
            if len == 0 {
                // The peer has sent its closure alert.
                return Ok(());
            }
            if let Err(error) = connection.process_new_packets() {
                let refusal = self.credentials.refusal.lock().unwrap_or_else(PoisonError::into_inner).take();
                return Err(refusal.unwrap_or_else(|| format!("TLS: {error}")));
            }
            if !connection.is_handshaking() && !self.is_checked {
                self.check(session)?;
            }
            self.read(session, now)?;
        }
        Ok(())
    }

    fn read(&mut self, session: &mut Session, now: Time) -> Result<(), String> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let mut buffer = [0; 1 << 14];
        loop {
            match connection.reader().read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(len) => session.handle_bytes(&buffer[..len], now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(format!("TLS: {error}")),
            }
        }
    }

    /// Compares the names of the peer's certificate, and lets the session begin.
    fn check(&mut self, session: &mut Session) -> Result<(), String> {
        self.is_checked = true;
        let certificate =
            self.connection.as_ref().and_then(|connection| connection.peer_certificates()?.first());
        let names = Names::parse(certificate.ok_or("TLS: the peer has no certificate")?);
        let Credentials { node_id, network_id, .. } = *self.credentials;
        let host = match &self.name {
            Some(ServerName::DnsName(name)) => Some(name.as_ref()),
            _ => None,
        };
        let refused = match &names {
            Err(problem) => Some(problem.clone()),
            Ok(names) => {
                let found = names.network(host, self.address);
                (!found.satisfies(network_id))
                    .then(|| format!("certificate of the peer names {names}, not {}", self.address))
            }
        };
        if let Some(problem) = refused {
            session.refuse_in_tls();
            return Err(problem);
        }
        self.names = names.unwrap_or_default();
        let nodes = self.names.nodes.clone();
        // A certificate of another node ends the session with any policy (RFC 9174, section 4.4.4.3). So does one whose
        // identifiers belong to other things: it was made for something else than the peer.
        let is_compared = self.names.has_node_form() || node_id == NamePolicy::Required;
        session.start_in_tls(is_compared.then_some(nodes));
        Ok(())
    }

    /// Encrypts the session's output.
    pub(crate) fn send(&mut self, output: &[u8]) -> Result<(), String> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        connection.writer().write_all(output).map_err(|error| format!("TLS: {error}"))
    }

    /// Sends the closure alert.
    pub(crate) fn close(&mut self) {
        if let Some(connection) = &mut self.connection
            && !std::mem::replace(&mut self.is_closed, true)
        {
            connection.send_close_notify();
        }
    }

    /// Returns `true` if encrypted bytes were moved to `out`.
    pub(crate) fn transmit(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(connection) = &mut self.connection else { return false };
        let before = out.len();
        while connection.wants_write() {
            // A vector takes all.
            if connection.write_tls(out).is_err() {
                break;
            }
        }
        out.len() > before
    }
}
