//! Confinement of a process that reads the scenario of another user.
//!
//! The scenario's files are opened by name in one folder anyway. A process that was taken over in spite of that, or a
//! program that it starts, such as ffmpeg, finds no other file.

use std::path::{Path, PathBuf};

use bentpipe_emu::CapabilitySet;
use bentpipe_emu::privileges::{Calls, Confinement, Files};

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

/// Confines this process to its working folder, temporary files, and the inputs, to be read.
///
/// # Errors
/// Returns an error if the kernel refuses. A kernel without Landlock limits system calls alone.
pub(crate) fn confine(inputs: &Path) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| format!("this program's file: {error}"))?;
    let system = SYSTEM.iter().map(PathBuf::from);
    let files = Files {
        readable: system.chain([program, inputs.to_owned()]).collect(),
        writable: vec![".".into(), std::env::temp_dir(), "/dev/null".into()],
    };
    let confinement = Confinement {
        user: None,
        // The data folder may be another user's. Landlock holds all the same.
        capabilities: CapabilitySet::DAC_OVERRIDE,
        files: Some(files),
        calls: Calls::OfPrograms,
    };
    confinement.apply().map(drop).map_err(|error| format!("--confine: {error}"))
}
