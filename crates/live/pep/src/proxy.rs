//! Proxy of either mode.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::AtomicBool;

use crate::config::{Config, Mode};
use crate::figures::{Figures, Notice};
use crate::run::SocketProxy;
use crate::tun::TunProxy;

/// TCP-splitting proxy.
pub struct Proxy {
    /// Claim on the port, which ends with the process.
    _claim: UnixListener,
    limit: usize,
    inner: Inner,
}

enum Inner {
    Tun(Box<TunProxy>),
    Sockets(Box<SocketProxy>),
}

impl Proxy {
    /// Opens a proxy. Connections are diverted to it from here on, if it sets up the rules.
    ///
    /// # Errors
    /// Returns an error that says which option or right is wrong, or which command failed.
    pub fn open(config: Config) -> Result<Proxy, String> {
        config.check()?;
        let claim = claim(config.port)?;
        let mut limit = config.connections;
        let inner = match config.mode {
            Mode::Tun => Inner::Tun(Box::new(TunProxy::open(config)?)),
            Mode::Tproxy => {
                let proxy = SocketProxy::open(config)?;
                limit = proxy.limit();
                Inner::Sockets(Box::new(proxy))
            }
        };
        Ok(Proxy { _claim: claim, limit, inner })
    }

    /// Splits connections until `stop` is set, and returns the figures. A connection that gives way is passed to `notice` as a line of text.
    ///
    /// # Errors
    /// Returns an error if the system refuses to wait for events.
    pub fn run(self, stop: &AtomicBool, notice: Notice<'_>) -> Result<Figures, String> {
        match self.inner {
            Inner::Tun(proxy) => Ok(proxy.run(stop, notice)),
            Inner::Sockets(proxy) => proxy.run(stop, notice),
        }
    }

    /// Returns the limit of connections. By TPROXY the limit of open files may lower it.
    pub fn limit(&self) -> usize {
        self.limit
    }
}

/// Claims a port, and with it the rules of both modes, in this network namespace.
///
/// The address is abstract (unix(7)): it belongs to the namespace, as the rules do, and no file is left.
fn claim(port: u16) -> Result<UnixListener, String> {
    let bound = SocketAddr::from_abstract_name(format!("bentpipe-pep-{port}"))
        .and_then(|at| UnixListener::bind_addr(&at));
    bound.map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => {
            format!("--port {port}: another proxy has this port; help: choose another --port")
        }
        _ => format!("--port {port}: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_belongs_to_one_proxy_at_a_time() {
        let first = claim(65_534).expect("a free port");
        let refused = claim(65_534).expect_err("it is claimed");
        assert!(refused.ends_with("help: choose another --port"), "{refused}");
        drop(first);
        claim(65_534).expect("it is free again");
    }
}
