//! Device on the LAN side, with its addresses and routes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use super::administrator::{Administrator, Change};
use super::config::{Lan as Config, LanKind};
use super::routes::Prefix;
use bentpipe_emu::interface::{TX_QUEUE_PACKETS, ip, keep_neighbour, suppress_autoconfiguration};
use bentpipe_emu::{Port, SetupError, Tun, open_tap};

/// Device.
#[derive(Debug)]
pub(crate) struct Lan {
    device: Device,
    config: Config,
    routes: Vec<Prefix>,
    administrator: Administrator,
}

#[derive(Debug)]
enum Device {
    Router(Box<Tun>),
    Bridge(File),
}

impl Lan {
    /// Creates the device, with routes for `networks`.
    pub(crate) fn open(config: &Config, networks: &[Prefix]) -> Result<Lan, SetupError> {
        let device = match config.kind {
            LanKind::Router => Tun::create(&config.device).map(|tun| Device::Router(Box::new(tun))),
            LanKind::Bridge { .. } => open_tap(&config.device).map(Device::Bridge),
        };
        let device = device.map_err(SetupError::Tun)?;
        let mut lan = Lan {
            device,
            config: Config { addresses: Vec::new(), ..config.clone() },
            routes: Vec::new(),
            administrator: Administrator::Own,
        };
        lan.configure(config)?;
        lan.set_routes(networks)?;
        Ok(lan)
    }

    fn configure(&mut self, config: &Config) -> Result<(), SetupError> {
        let device = config.device.as_str();
        suppress_autoconfiguration(device);
        let (mtu, queue) = (config.mtu_bytes.to_string(), TX_QUEUE_PACKETS.to_string());
        ip(&["link", "set", "dev", device, "mtu", &mtu, "txqueuelen", &queue])?;
        if let LanKind::Bridge { master: Some(master), .. } = &config.kind {
            ip(&["link", "set", "dev", device, "master", master])?;
        }
        self.set_addresses(&config.addresses)?;
        ip(&["link", "set", "dev", device, "up"])?;
        if config.kind == LanKind::Router { keep_neighbour(device) } else { Ok(()) }
    }

    /// Returns `true` if the device itself is as `config` requires.
    pub(crate) fn is(&self, config: &Config) -> bool {
        (&self.config.device, &self.config.kind, self.config.mtu_bytes)
            == (&config.device, &config.kind, config.mtu_bytes)
    }

    /// Sets the addresses, and removes others.
    pub(crate) fn set_addresses(&mut self, addresses: &[(IpAddr, u8)]) -> Result<(), SetupError> {
        let change = |is_new, &(address, len): &(IpAddr, u8)| {
            self.administrator.apply(&self.config.device, &Change::Address { is_new, address, len })
        };
        let gone = self.config.addresses.iter().filter(|address| !addresses.contains(address));
        gone.into_iter().try_for_each(|address| change(false, address))?;
        let new = addresses.iter().filter(|address| !self.config.addresses.contains(address));
        new.into_iter().try_for_each(|address| change(true, address))?;
        self.config.addresses = addresses.to_vec();
        Ok(())
    }

    /// Sets the routes to the device, and removes others.
    ///
    /// A multicast group of IPv6 needs no route: its senders name the interface.
    pub(crate) fn set_routes(&mut self, networks: &[Prefix]) -> Result<(), SetupError> {
        let wanted = |prefix: &&Prefix| !(prefix.is_multicast() && prefix.address().is_ipv6());
        let mut networks: Vec<Prefix> = networks.iter().filter(wanted).copied().collect();
        networks.dedup();
        let change = |is_new, &network: &Prefix| {
            self.administrator.apply(&self.config.device, &Change::Route { is_new, network })
        };
        let gone = self.routes.iter().filter(|route| !networks.contains(route));
        gone.into_iter().try_for_each(|route| change(false, route))?;
        let new = networks.iter().filter(|network| !self.routes.contains(network));
        new.into_iter().try_for_each(|network| change(true, network))?;
        self.routes = networks;
        Ok(())
    }

    /// Leaves later changes of addresses and routes to an administrator.
    pub(crate) fn delegate(&mut self, administrator: Administrator) {
        self.administrator = administrator;
    }

    /// Returns `true` if it carries frames, not packets.
    pub(crate) fn is_bridge(&self) -> bool {
        matches!(self.device, Device::Bridge(_))
    }

    /// Reads the next packet or frame, if one waits.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match &mut self.device {
            Device::Router(tun) => tun.read(buffer),
            Device::Bridge(file) => match file.read(buffer) {
                Ok(len) => Ok(Some(len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                Err(error) => Err(error),
            },
        }
    }

    /// Writes a packet or frame to the kernel, which may drop it.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.device {
            Device::Router(tun) => tun.write(bytes),
            Device::Bridge(file) => file.write(bytes).map(|_| ()),
        }
    }

    /// Writes the packets held back for a train.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match &mut self.device {
            Device::Router(tun) => tun.flush(),
            Device::Bridge(_) => Ok(()),
        }
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.device {
            Device::Router(tun) => tun.fd(),
            Device::Bridge(file) => Some(file.as_fd()),
        }
    }
}
