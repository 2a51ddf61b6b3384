//! Programs of real hosts in the place of their roles, such as nodes of bundles.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use bentpipe_emu::Namespace;
use bentpipe_scenario::{Document, RealAt, RealProgram, Scenario};

use super::{Process, TIME_TO_LISTEN, file_name};
use crate::Error;
use crate::hosts::Hosts;
use crate::programs::CHECK_INTERVAL;

/// Program of a role, not yet started.
pub(super) struct RolePlan {
    host: String,
    command: Command,
    program: RealProgram,
}

/// Program of a role that listens. It ends with the value, and what it stored is removed.
pub(super) struct RoleRuns {
    process: Process,
    scratch: PathBuf,
}

/// Plans the programs of roles at real hosts.
///
/// Copies of the scenario's nodes are spread.
///
/// # Errors
/// Returns an error if a program cannot follow a role, or this program's file is not known.
pub(super) fn plan(
    (document, scenario): (&Document, &Scenario),
    hosts: &Hosts,
    address: &dyn Fn(&str) -> Option<IpAddr>,
) -> Result<Vec<RolePlan>, Error> {
    let nodes: Vec<String> = scenario.node.keys().cloned().collect();
    let mut all = Vec::new();
    for (at, role) in scenario.roles() {
        let Some(host) = hosts.host(at.node) else { continue };
        let place = RealAt { node: at.node, key: at.key.clone(), nodes: &nodes, address };
        let program = role
            .program(&scenario.role_tables, &place)
            .map_err(|problem| document.refusal(&problem.key, problem.problem))?;
        let mut command = this_program(host.namespace)?;
        command.args(&program.arguments);
        all.push(RolePlan { host: at.node.to_owned(), command, program });
    }
    Ok(all)
}

/// Returns this program as a command at a host.
///
/// # Errors
/// Returns an error if its file is not known.
pub(super) fn this_program(namespace: &Namespace) -> Result<Command, Error> {
    let own =
        std::env::current_exe().map_err(|error| Error::other(format!("this program's file: {error}")))?;
    Ok(namespace.command(&own.to_string_lossy()))
}

impl RolePlan {
    /// Returns the port on loopback at which the program listens, if it is the host's.
    pub(super) fn port_at(&self, host: &str) -> Option<u16> {
        (self.host == host).then_some(self.program.port)
    }

    /// Starts the program in a folder of its own and waits until it listens.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written, or the program does not listen.
    pub(super) fn start(mut self, folder: &Path, hosts: &Hosts) -> Result<RoleRuns, String> {
        let folder = folder.join(format!("node-{}", file_name(&self.host)));
        let wrong = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(&folder).map_err(|error| wrong(&folder, error))?;
        for (name, text) in &self.program.files {
            let path = folder.join(name);
            fs::write(&path, text).map_err(|error| wrong(&path, error))?;
        }
        let log = folder.join("log.txt");
        let written = File::create(&log).map_err(|error| wrong(&log, error))?;
        self.command.current_dir(&folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(written);
        let child = self.command.spawn().map_err(|error| format!("{}: {error}", self.host))?;
        let mut runs = RoleRuns { process: Process(child), scratch: folder.join(self.program.scratch) };
        let namespace = hosts.host(&self.host).map(|host| host.namespace);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.program.port));
        let listens = || {
            namespace.is_some_and(|namespace| {
                namespace.within(|| TcpStream::connect(address).is_ok()).is_ok_and(|listens| listens)
            })
        };
        let end = Instant::now() + TIME_TO_LISTEN;
        while !listens() {
            if runs.process.has_ended() || Instant::now() > end {
                let said = fs::read_to_string(&log).unwrap_or_default();
                let words = self.program.arguments.join(" ");
                return Err(format!("node {}: `{words}` does not listen: {}", self.host, said.trim()));
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        Ok(runs)
    }
}

impl Drop for RoleRuns {
    fn drop(&mut self) {
        self.process.end();
        let _ = fs::remove_dir_all(&self.scratch);
    }
}
