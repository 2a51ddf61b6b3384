//! Settings of a proxy.

use std::net::SocketAddr;

use bentpipe_units::{Bytes, Rate, Span};

/// Side of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Terrestrial network.
    Ground,
    /// Satellite.
    Satellite,
}

impl Side {
    /// Returns the opposite side.
    pub fn other(self) -> Side {
        match self {
            Side::Ground => Side::Satellite,
            Side::Satellite => Side::Ground,
        }
    }
}

/// Settings of a proxy.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Interfaces of the ground.
    pub ground: Vec<String>,
    /// Interfaces of the satellite.
    pub satellite: Vec<String>,
    /// Port of connections from the ground; those from the satellite have the next one. Mark and routing table have this number too.
    pub port: u16,
    /// Congestion controller of the kernel on the satellite side. Default: that of the system.
    pub controller: Option<String>,
    /// Maximum rate of each connection towards the satellite, with headers.
    pub rate: Option<Rate>,
    /// Send and receive buffer of each connection over the satellite. Default: adapted by the kernel.
    pub satellite_buffer: Option<Bytes>,
    /// Send and receive buffer of each connection on the ground. Default: adapted by the kernel.
    pub ground_buffer: Option<Bytes>,
    /// Maximum number of split connections; more are forwarded as they are.
    pub connections: usize,
    /// Time without data after which a connection is reset.
    pub idle: Span,
    /// Time for which connections may end after a request to stop. The rest is reset.
    pub drain: Span,
    /// Set if rules and routes are set up, and removed at the end.
    pub sets_rules: bool,
    /// Address of the metrics for Prometheus, on loopback.
    pub prometheus: Option<SocketAddr>,
}

impl Config {
    /// Checks the settings.
    ///
    /// # Errors
    /// Returns an error that names the first invalid option.
    pub fn check(&self) -> Result<(), String> {
        for (option, names) in [("--ground", &self.ground), ("--satellite", &self.satellite)] {
            if names.is_empty() {
                return Err(format!("{option}: expected an interface"));
            }
            names.iter().try_for_each(|name| check_interface(option, name))?;
        }
        if let Some(both) = self.ground.iter().find(|name| self.satellite.contains(name)) {
            return Err(format!("interface \"{both}\": conflicts with `--satellite`: expected one side"));
        }
        if !(1..=65_534).contains(&self.port) {
            return Err(format!("--port: expected 1 to 65534, got {}", self.port));
        }
        let buffers = [("--buffer", self.satellite_buffer), ("--ground-buffer", self.ground_buffer)];
        for (option, buffer) in buffers {
            if buffer.is_some_and(|buffer| !(4096..=1 << 30).contains(&buffer.get())) {
                return Err(format!("{option}: expected 4096 B to 1 GiB"));
            }
        }
        Ok(())
    }

    /// Returns the buffer of connections on a side.
    pub(crate) fn buffer(&self, side: Side) -> Option<usize> {
        let buffer = match side {
            Side::Ground => self.ground_buffer,
            Side::Satellite => self.satellite_buffer,
        };
        buffer.map(|bytes| bytes.get() as usize)
    }
}

/// Checks the name of an interface, which is part of the rules.
fn check_interface(option: &str, name: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@:".contains(&byte);
    if (1..=15).contains(&name.len()) && name.bytes().all(is_plain) && !name.starts_with('-') {
        return Ok(());
    }
    Err(format!("{option}: \"{name}\" is not the name of an interface; help: `ip link` lists them"))
}
