//! Confinement of a process that reads the scenario of another user.
//!
//! The scenario's files are opened by name in one folder anyway. A process that was taken over in spite of that, or a
//! program that it starts, such as ffmpeg, finds no other file.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use bentpipe_emu::CapabilitySet;
use bentpipe_emu::privileges::{Calls, Confinement, Files, User, is_root};

/// Files of the system that programs need: libraries, fonts, time zones, facts of the kernel.
const SYSTEM: [&str; 17] = [
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/sbin",
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/dev/urandom",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/self/cgroup",
    "/proc/sys/kernel/hostname",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
];

/// Reach of a confined process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Work of the process alone.
    Work,
    /// That of a study, which may start a controller.
    ///
    /// Its children confine themselves, and it is asked by TCP.
    #[cfg(feature = "tools")]
    Study,
}

/// Confines this process to its working folder, temporary files, and `inputs`, to be read.
///
/// Root becomes the owner of the working folder. It can still look at the inputs, which are below folders of root.
///
/// # Errors
/// Returns an error if the kernel refuses. A kernel without Landlock limits system calls alone.
pub(crate) fn confine(inputs: &[PathBuf], reach: Reach) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| format!("this program's file: {error}"))?;
    let system = SYSTEM.iter().map(PathBuf::from);
    let is_study = reach != Reach::Work;
    // A process that confines itself counts its threads there. The kernel protects the memory of others all the same.
    let processes = is_study.then(|| PathBuf::from("/proc"));
    let files = Files {
        readable: system.chain([program]).chain(processes).chain(inputs.iter().cloned()).collect(),
        writable: vec![".".into(), std::env::temp_dir(), "/dev/null".into()],
        has_tcp: is_study,
    };
    let user = owner_of_folder().map_err(|error| format!("the working folder: {error}"))?;
    // The data folder may be another user's. Landlock holds all the same.
    let capabilities = match &user {
        Some(_) => CapabilitySet::DAC_READ_SEARCH,
        None => CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH,
    };
    let confinement = Confinement { user, capabilities, files: Some(files), calls: Calls::OfPrograms };
    confinement.apply().map(drop).map_err(|error| format!("--confine: {error}"))
}

/// Returns the owner of the working folder for a process of root.
///
/// `None` if it is root, or the process is not.
fn owner_of_folder() -> io::Result<Option<User>> {
    let folder = std::fs::metadata(".")?;
    let (uid, gid) = (folder.uid(), folder.gid());
    let is_other = uid != 0 && is_root();
    Ok(is_other.then(|| User { name: uid.to_string(), uid, gid }))
}
