//! Settings of a proxy.

use std::net::SocketAddr;

use bentpipe_cc::{ControllerConfig, fixed};
use bentpipe_transport::tcp::{self, ReceiveBuffer};
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

/// TCP of a proxy, and the path of packets to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Project's own TCP, on packets of a TUN device.
    #[default]
    Tun,
    /// TCP of the kernel, on connections that the packet filter diverts.
    Tproxy,
}

/// Settings of the project's own TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OwnTcp {
    /// Initial window over the satellite in segments. Default: 10.
    pub initial_window: Option<u32>,
    /// Number of segments per ACK over the satellite. Default: 2.
    pub ack_every: Option<u32>,
    /// Set if a client is answered after the server has answered.
    pub answers_after_server: bool,
}

/// Settings of a proxy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// TCP of the proxy.
    pub mode: Mode,
    /// Interfaces of the ground.
    pub ground: Vec<String>,
    /// Interfaces of the satellite.
    pub satellite: Vec<String>,
    /// Number of the routing table. By TPROXY also the mark and the port of connections from the ground; the next port is for those
    /// from the satellite.
    pub port: u16,
    /// Congestion controller on the satellite side. Default: Hybla, and by TPROXY that of the system.
    pub controller: Option<String>,
    /// Rate of each connection towards the satellite: fixed, without headers. By TPROXY the maximum, with headers.
    pub rate: Option<Rate>,
    /// Send and receive buffer of each connection over the satellite. Default: 4 MB, and by TPROXY adapted by the kernel.
    pub satellite_buffer: Option<Bytes>,
    /// Send and receive buffer of each connection on the ground. Default: 1 MB, and by TPROXY adapted by the kernel.
    pub ground_buffer: Option<Bytes>,
    /// Settings of the project's own TCP.
    pub own: OwnTcp,
    /// Memory for data of all connections. By TPROXY it is the kernel's. Default: 1 GB.
    pub memory: Option<Bytes>,
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
        if self.memory.is_some_and(|memory| memory.get() < 1_000_000) {
            return Err("--memory: expected 1 MB or more".to_owned());
        }
        match self.mode {
            Mode::Tun => self.check_own(),
            Mode::Tproxy => self.check_kernel(),
        }
    }

    fn check_own(&self) -> Result<(), String> {
        if self.rate.is_some() && self.controller.is_some() {
            return Err("--rate: conflicts with `--controller`: the rate is fixed, and nothing controls it"
                .to_owned());
        }
        let options = [
            ("--initial-window", 1..=1000, self.own.initial_window),
            ("--ack-every", 1..=64, self.own.ack_every),
        ];
        for (option, range, value) in options {
            if let Some(value) = value.filter(|value| !range.contains(value)) {
                return Err(format!(
                    "{option}: expected {} to {} segments, got {value}",
                    range.start(),
                    range.end()
                ));
            }
        }
        let [satellite, ground] = [self.satellite_tcp()?, self.ground_tcp()];
        satellite.check().and_then(|()| ground.check()).map_err(|error| error.to_string())
    }

    fn check_kernel(&self) -> Result<(), String> {
        let OwnTcp { initial_window, ack_every, answers_after_server } = self.own;
        let given = [
            ("--initial-window", initial_window.is_some()),
            ("--ack-every", ack_every.is_some()),
            ("--answer", answers_after_server),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => {
                Err(format!("{option}: the kernel's TCP has no such setting; help: use `--mode tun`"))
            }
            None => Ok(()),
        }
    }

    /// Returns the settings of the project's own TCP over the satellite.
    ///
    /// # Errors
    /// Returns an error if the controller is unknown.
    pub(crate) fn satellite_tcp(&self) -> Result<tcp::Config, String> {
        let name = self.controller.as_deref().unwrap_or("hybla");
        let controller = match self.rate {
            Some(rate) => ControllerConfig::Fixed(fixed::Params { rate }),
            None if name == "fixed" => {
                return Err("--controller: expected `--rate` for a fixed rate".to_owned());
            }
            None => name.parse().map_err(|error| format!("--controller: {error}"))?,
        };
        let mut config = own_tcp(self.satellite_buffer.unwrap_or(SATELLITE_BUFFER));
        config.controller = controller;
        config.initial_window = self.own.initial_window.unwrap_or(config.initial_window);
        config.ack_every = self.own.ack_every.unwrap_or(config.ack_every);
        Ok(config)
    }

    /// Returns the settings of the project's own TCP on the ground.
    pub(crate) fn ground_tcp(&self) -> tcp::Config {
        own_tcp(self.ground_buffer.unwrap_or(GROUND_BUFFER))
    }

    /// Returns the memory for data of all connections.
    pub(crate) fn memory(&self) -> Bytes {
        self.memory.unwrap_or(MEMORY)
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

/// Memory for data of all connections.
const MEMORY: Bytes = Bytes::new(1_000_000_000);

/// Send and receive buffer over the satellite: 600 ms at 50 Mbit/s.
const SATELLITE_BUFFER: Bytes = Bytes::new(4_000_000);

/// Send and receive buffer on the ground.
const GROUND_BUFFER: Bytes = Bytes::new(1_000_000);

/// Returns TCP for real hosts: the methods of recovery that current kernels have.
fn own_tcp(buffer: Bytes) -> tcp::Config {
    tcp::Config {
        // Segments are bounded by the MTU of the interface.
        mss: Bytes::new(65_495),
        send_buffer: buffer,
        receive_buffer: ReceiveBuffer::Exact(buffer),
        dsack: true,
        prr: true,
        quick_acks: true,
        detect_lost_retransmissions: true,
        frto: true,
        // The relay writes what arrives: a part of a segment would wait for the acknowledgement of the other.
        nagle: false,
        ack_delay: Span::from_millis(40),
        ..tcp::Config::default()
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
