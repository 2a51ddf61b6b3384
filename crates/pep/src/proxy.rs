//! Proxy of either mode.

use std::sync::atomic::AtomicBool;

use crate::config::{Config, Mode};
use crate::figures::Figures;
use crate::run::SocketProxy;
use crate::tun::TunProxy;

/// TCP-splitting proxy.
pub struct Proxy {
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
        let mut limit = config.connections;
        let inner = match config.mode {
            Mode::Tun => Inner::Tun(Box::new(TunProxy::open(config)?)),
            Mode::Tproxy => {
                let proxy = SocketProxy::open(config)?;
                limit = proxy.limit();
                Inner::Sockets(Box::new(proxy))
            }
        };
        Ok(Proxy { limit, inner })
    }

    /// Splits connections until `stop` is set, and returns the figures.
    ///
    /// # Errors
    /// Returns an error if the system refuses to wait for events.
    pub fn run(self, stop: &AtomicBool) -> Result<Figures, String> {
        match self.inner {
            Inner::Tun(proxy) => Ok(proxy.run(stop)),
            Inner::Sockets(proxy) => proxy.run(stop),
        }
    }

    /// Returns the limit of connections. By TPROXY the limit of open files may lower it.
    pub fn limit(&self) -> usize {
        self.limit
    }
}
