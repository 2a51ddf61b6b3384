//! Tasks that need root while a gateway runs: its device's addresses, routes, and files.
//!
//! A gateway without privileges leaves them to its [`Helper`]. The helper takes no names and no commands, only the values of
//! [`Order`], for the device and the files that were fixed when it started.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use bentpipe_emu::interface::ip;
use bentpipe_emu::privileges::{Calls, Confinement, Files};
use bentpipe_emu::{CapabilitySet, Helper, SetupError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::routes::Prefix;

/// Maximum length of a site file.
const MAX_SITE_BYTES: u64 = 1 << 20;

/// Change of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Address with its prefix length.
    Address { is_new: bool, address: IpAddr, len: u8 },
    /// Route of a network to the device.
    Route { is_new: bool, network: Prefix },
}

/// Request to a helper.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Order {
    Address { is_new: bool, address: IpAddr, len: u8 },
    Route { is_new: bool, network: String },
    ReadSite,
    RemoveSocket,
}

/// Process that changes the device.
#[derive(Clone, Debug)]
pub(crate) enum Administrator {
    /// Process of the gateway.
    Own,
    /// Helper with the privileges for it.
    Helper(Helper),
}

impl Administrator {
    /// Changes a device.
    pub(crate) fn apply(&self, device: &str, change: &Change) -> Result<(), SetupError> {
        let Administrator::Helper(helper) = self else { return apply(device, change) };
        let order = match *change {
            Change::Address { is_new, address, len } => Order::Address { is_new, address, len },
            Change::Route { is_new, network } => Order::Route { is_new, network: network.to_string() },
        };
        let failed = |why: String| SetupError::Command { command: format!("{order:?}"), why };
        let answer = ask(helper, &order).map_err(|error| failed(error.to_string()))?;
        let text = |key: &str| answer.get(key).and_then(Value::as_str).map(str::to_owned);
        match (text("command"), text("error")) {
            (Some(command), Some(why)) => Err(SetupError::Command { command, why }),
            (None, Some(why)) => Err(failed(why)),
            _ => Ok(()),
        }
    }

    /// Reads the site file.
    pub(crate) fn read_site(&self, path: &Path) -> io::Result<Vec<u8>> {
        let Administrator::Helper(helper) = self else { return read_site(path) };
        let answer = ask(helper, &Order::ReadSite)?;
        match (answer["text"].as_str(), answer["error"].as_str()) {
            (Some(text), _) => Ok(text.as_bytes().to_vec()),
            (None, why) => Err(io::Error::other(why.unwrap_or("no answer of the helper").to_owned())),
        }
    }

    /// Removes the control socket.
    pub(crate) fn remove_socket(&self, path: &Path) {
        // It may be gone.
        let _ = match self {
            Administrator::Own => std::fs::remove_file(path),
            Administrator::Helper(helper) => ask(helper, &Order::RemoveSocket).map(|_| ()),
        };
    }
}

fn ask(helper: &Helper, order: &Order) -> io::Result<Value> {
    let request = serde_json::to_string(order).map_err(io::Error::other)?;
    serde_json::from_str(&helper.ask(&request)?).map_err(io::Error::other)
}

fn apply(device: &str, change: &Change) -> Result<(), SetupError> {
    match *change {
        Change::Address { is_new, address, len } => {
            let (verb, text) = (if is_new { "replace" } else { "delete" }, format!("{address}/{len}"));
            let mut words = vec!["address", verb, text.as_str(), "dev", device];
            // Duplicate address detection would keep an IPv6 address unusable for a second.
            words.extend((is_new && address.is_ipv6()).then_some("nodad"));
            ip(&words)
        }
        Change::Route { is_new, network } => {
            let family = if network.address().is_ipv4() { "-4" } else { "-6" };
            let verb = if is_new { "replace" } else { "delete" };
            ip(&[family, "route", verb, &network.to_string(), "dev", device])
        }
    }
}

fn read_site(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    io::Read::read_to_end(&mut io::Read::take(file, MAX_SITE_BYTES + 1), &mut bytes)?;
    Ok(bytes)
}

/// Files and device of a helper.
#[derive(Clone, Debug)]
pub(crate) struct Office {
    /// Device whose addresses and routes it changes.
    pub(crate) device: String,
    /// Site file, which it reads.
    pub(crate) site: PathBuf,
    /// Control socket, which it removes.
    pub(crate) socket: PathBuf,
}

impl Office {
    /// Starts a helper that has no capability but `CAP_NET_ADMIN`. It can write only to the socket's folder.
    pub(crate) fn start(self) -> io::Result<Administrator> {
        let writable = self.socket.parent().map(Path::to_owned).into_iter().collect();
        let files = Files { readable: vec!["/".into()], writable, has_tcp: false };
        let confinement = Confinement {
            user: None,
            capabilities: CapabilitySet::NET_ADMIN,
            files: Some(files),
            calls: Calls::OfPrograms,
        };
        let prepare = move || confinement.apply().map(|_| ());
        Helper::start(prepare, move |request| self.serve(request).to_string()).map(Administrator::Helper)
    }

    fn serve(&self, request: &str) -> Value {
        let order = match serde_json::from_str(request) {
            Ok(order) => order,
            Err(error) => return json!({ "error": error.to_string() }),
        };
        let change = match order {
            Order::ReadSite => return self.read_site(),
            Order::RemoveSocket => {
                let removed = std::fs::remove_file(&self.socket);
                return removed.map_or_else(|error| json!({ "error": error.to_string() }), |()| json!({}));
            }
            Order::Address { is_new, address, len } => Change::Address { is_new, address, len },
            Order::Route { is_new, network } => match network.parse() {
                Ok(network) => Change::Route { is_new, network },
                Err(error) => return json!({ "error": format!("{network}: {error}") }),
            },
        };
        match apply(&self.device, &change) {
            Ok(()) => json!({}),
            Err(SetupError::Command { command, why }) => json!({ "command": command, "error": why }),
            Err(error) => json!({ "error": error.to_string() }),
        }
    }

    fn read_site(&self) -> Value {
        let text = read_site(&self.site).and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
        match text {
            Ok(text) => json!({ "text": text }),
            Err(error) => json!({ "error": error.to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn office() -> Office {
        Office { device: "bent0".to_owned(), site: "/no/site.toml".into(), socket: "/no/socket".into() }
    }

    #[test]
    fn a_helper_takes_only_addresses_and_networks() {
        for request in [
            "",
            "rm -rf /",
            "{\"address\":{\"is_new\":true,\"address\":\"10.0.0.1 dev lo\",\"len\":8}}",
            "{\"route\":{\"is_new\":true,\"network\":\"default\"}}",
            "{\"route\":{\"is_new\":true,\"network\":\"10.0.0.0/8\",\"device\":\"eth0\"}}",
            "{\"read-site\":\"/etc/shadow\"}",
            "\"read-site\"",
            "\"remove-socket\"",
        ] {
            let answer = office().serve(request);
            assert!(answer["error"].is_string() && answer.get("command").is_none(), "{request}: {answer}");
        }
    }
}
