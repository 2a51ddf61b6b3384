//! Privileges of a running site. Root opens devices and sockets, and the loop runs without it.

use std::io;
use std::path::{Path, PathBuf};

use bentpipe_emu::CapabilitySet;
use bentpipe_emu::privileges::{Calls, Confinement, Files, OVERFLOW_USER, User};

use crate::administrator::{Administrator, Office};
use crate::control;
use crate::settings::SiteSettings;
use crate::{Config, InputConfig, OutputConfig};

/// Privileges of a gateway that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Privileges {
    /// Absence of privileges, as this user if it was started as root. Default: user 65534.
    Dropped(Option<String>),
    /// Privileges that it was started with.
    Kept,
}

/// Confinement that is prepared, and the helper of a confined gateway.
pub(crate) struct Restraint(Option<(Administrator, Confinement)>);

impl Restraint {
    /// Finds the user, and starts the helper. Nothing may be open, and no thread run.
    pub(crate) fn prepare(
        path: &Path,
        (settings, config): &(SiteSettings, Config),
        privileges: &Privileges,
    ) -> io::Result<Restraint> {
        let Privileges::Dropped(name) = privileges else { return Ok(Restraint(None)) };
        let user = user(name.as_deref())?;
        // The helper's own files are to be there; a missing folder is reported when the socket is opened.
        let _ = control::make_folder();
        let site = path.canonicalize()?;
        let office = Office { device: config.lan.device.clone(), site, socket: control::socket_of(path) };
        let has_programs = has_programs(config);
        let confinement = Confinement {
            user,
            capabilities: CapabilitySet::empty(),
            // Programs that are started again need files which are not known here.
            files: (!has_programs).then(|| files(settings.folder(), config)),
            calls: if has_programs { Calls::OfPrograms } else { Calls::OfPackets },
        };
        Ok(Restraint(Some((office.start()?, confinement))))
    }

    /// Returns the user to change to.
    pub(crate) fn user(&self) -> Option<&User> {
        self.0.as_ref()?.1.user.as_ref()
    }

    /// Drops privileges. Returns the administrator, and the privileges that are left, in words.
    pub(crate) fn apply(self) -> io::Result<(Administrator, String)> {
        let Some((administrator, confinement)) = self.0 else {
            return Ok((Administrator::Own, "privileges are kept".to_owned()));
        };
        let confined = confinement.apply()?;
        let helper = match &administrator {
            Administrator::Helper(helper) => helper.pid().to_string(),
            Administrator::Own => "none".to_owned(),
        };
        let text =
            format!("privileges dropped: {confined}; CAP_NET_ADMIN only in the helper, process {helper}");
        Ok((administrator, text))
    }
}

/// Returns the user to change to. Only root can change it.
fn user(name: Option<&str>) -> io::Result<Option<User>> {
    let is_root = rustix::process::geteuid().is_root();
    match (is_root, name) {
        (true, name) => User::find(name.unwrap_or(OVERFLOW_USER)).map(Some),
        (false, None) => Ok(None),
        (false, Some(_)) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "only root can change the user: expected no --user",
        )),
    }
}

fn has_programs(config: &Config) -> bool {
    config.outputs.iter().any(|output| matches!(output, OutputConfig::Program(_)))
        || config.inputs.iter().any(|input| matches!(input, InputConfig::Program(_)))
}

/// Returns the files of a reload: those of inputs and outputs, and the site's folder.
fn files(folder: &Path, config: &Config) -> Files {
    let of_input = |input: &InputConfig| match input {
        InputConfig::File(path, _) => Some(path.clone()),
        _ => None,
    };
    let of_output = |output: &OutputConfig| match output {
        OutputConfig::File(path) => Some(path.clone()),
        _ => None,
    };
    let inputs: Vec<PathBuf> = config.inputs.iter().filter_map(of_input).collect();
    let fifos = inputs.iter().cloned();
    Files {
        readable: [folder.to_owned()].into_iter().chain(inputs.iter().cloned()).collect(),
        // A FIFO is opened for reading and writing, whichever it is for.
        writable: config.outputs.iter().filter_map(of_output).chain(fifos).collect(),
        has_tcp: false,
    }
}
