//! Settings of a host's interface, and errors of setting it up.

use std::io;
use std::net::IpAddr;

/// Error returned when a host cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A capability is missing.
    #[error(
        "making network namespaces needs {0}, which this process does not have; run it as root or give it that capability"
    )]
    Capability(&'static str),
    /// The root of a chroot is a plain folder.
    #[error(
        "making network namespaces needs a root folder that is a mount point, which / is not here; help: `mount --bind FOLDER FOLDER` before `chroot FOLDER`"
    )]
    RootNotMounted,
    /// No TUN device can be created.
    #[error("no TUN device can be made: {0}; help: {help}", help = tun_help(.0))]
    Tun(io::Error),
    /// An interface to be attached is not there.
    #[error(
        "no network interface is called \"{0}\"; help: `ip link` lists them, and PARENT.NUMBER makes a VLAN of one"
    )]
    NoInterface(String),
    /// An interface is not fit to be attached.
    #[error("cannot attach the interface \"{0}\": {1}")]
    Unfit(String, String),
    /// An interface cannot be attached.
    #[error("cannot attach \"{host}\" to {to}: {why}")]
    Attach {
        /// Host.
        host: String,
        /// Interface.
        to: String,
        /// Cause.
        why: String,
    },
    /// A network namespace to be attached is not there.
    #[error("no network namespace \"{0}\"; help: expected the number of a process, or a name of `ip netns`")]
    NoNamespace(String),
    /// A program that sets up hosts is not installed.
    #[error("`{program}` is not installed; help: install the package `{package}`")]
    Missing {
        /// Program.
        program: &'static str,
        /// Debian package that has it.
        package: &'static str,
    },
    /// A command failed.
    #[error("`{command}` failed: {why}")]
    Command {
        /// Command as it could be typed.
        command: String,
        /// Standard error of the command.
        why: String,
    },
    /// The namespace cannot be entered.
    #[error("cannot enter the network namespace {name}: {error}")]
    Enter {
        /// Name of the namespace.
        name: String,
        /// Error of the system.
        error: io::Error,
    },
}

/// Returns what to do if a TUN device cannot be made.
pub fn tun_help(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "it needs CAP_NET_ADMIN, which this process does not have: run it as root"
        }
        io::ErrorKind::ResourceBusy => "another process has a device of this name",
        io::ErrorKind::InvalidInput => "expected a name of 1 to 15 bytes",
        _ => "is the `tun` kernel module there (/dev/net/tun)?",
    }
}

/// Settings of a host's interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Addresses with their prefix lengths. What is outside is reached through the device.
    pub addresses: Vec<(IpAddr, u8)>,
    /// MTU of the interface in bytes.
    pub mtu_bytes: u32,
}
