//! Configuration of network interfaces by the `ip` command and `/proc`.

use std::fs;
use std::io::ErrorKind;
use std::process::Command;

use crate::setup::SetupError;

/// Transmit queue of a device in packets. It covers 13 ms at 300,000 packets/s, a common pause of a shared processor.
/// The kernel's default is 500.
pub const TX_QUEUE_PACKETS: u32 = 4096;

/// Runs `ip` with arguments.
///
/// # Errors
/// Returns the command and its standard error if it fails or does not start.
pub fn ip(args: &[&str]) -> Result<(), SetupError> {
    ip_output(args).map(|_| ())
}

/// Runs `ip` with arguments and returns its output.
///
/// # Errors
/// Returns the command and its standard error if it fails or does not start.
pub fn ip_output(args: &[&str]) -> Result<String, SetupError> {
    let failed = |why: String| SetupError::Command { command: format!("ip {}", args.join(" ")), why };
    let output = Command::new("ip").args(args).output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => SetupError::Missing { program: "ip", package: "iproute2" },
        _ => failed(error.to_string()),
    })?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// Keeps the kernel's neighbour of a TUN device while the device is up.
///
/// All IPv4 packets to the device have it. The entry (0.0.0.0, no address of a link) is one of a table that a scan of a LAN fills. The kernel removes it first, and drops all packets
/// to the device until there is room again (neighbour(7): `gc_thresh3`).
///
/// # Errors
/// Returns an error if `ip` refuses it.
pub fn keep_neighbour(device: &str) -> Result<(), SetupError> {
    ip(&keeping_neighbour(device))
}

/// Returns the arguments of `ip` for [`keep_neighbour`].
pub(crate) fn keeping_neighbour(device: &str) -> [&str; 7] {
    ["neigh", "replace", "0.0.0.0", "dev", device, "nud", "permanent"]
}

/// Suppresses IPv6 traffic that the kernel would send by itself. There is no link-local address (hence there are no
/// multicast listener reports), no router solicitation, no duplicate address detection.
pub fn suppress_autoconfiguration(device: &str) {
    let settings =
        [("addr_gen_mode", "1"), ("router_solicitations", "0"), ("accept_ra", "0"), ("accept_dad", "0")];
    for (name, value) in settings {
        // A kernel without IPv6 has no such file and sends nothing.
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{device}/{name}"), value);
    }
}
