//! Surroundings of the tests: what is inherited from the caller and would fail them is put right.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, bail};

use crate::{output_of, root, sh};

/// SIGINT and SIGQUIT as bits of `SigIgn`, which a shell sets for programs in its background.
const INTERRUPTS: u64 = 1 << 1 | 1 << 2;

/// Starts this command again without inherited deaf ears: programs of tests end by SIGINT. Returns if there are none.
///
/// # Errors
/// Returns an error if that fails.
pub(crate) fn hear_interrupts(words: &[String]) -> Result<()> {
    if !ignores_interrupts(&fs::read_to_string("/proc/self/status").unwrap_or_default()) {
        return Ok(());
    }
    let own = std::env::current_exe()?;
    Err(Command::new("env").arg("--default-signal=INT,QUIT").arg(own).args(words).exec()).context("env")
}

fn ignores_interrupts(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & INTERRUPTS != 0)
}

/// Runs this command again below a root that is a mount point, and returns its status. Returns `None` if it is one, or nobody may change it.
///
/// In a chroot whose root is a plain folder no mount can be made private, so that network namespaces fail.
///
/// # Errors
/// Returns an error if the root cannot be mounted.
pub(crate) fn mount_root(words: &[String]) -> Result<Option<ExitStatus>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if has_mounted_root(&mounts) || !is_root() {
        return Ok(None);
    }
    println!("/ is not a mount point, which network namespaces need: the tests run below a mount of it");
    let own = std::env::current_exe()?;
    let script =
        "folder=$(mktemp -d) && mount --rbind / \"$folder\" && mount --make-rprivate \"$folder\" || exit 2
        chroot \"$folder\" env -C \"$0\" \"$@\"; code=$?
        umount --recursive --lazy \"$folder\" && rmdir \"$folder\"; exit $code";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(std::env::current_dir()?).arg(own).args(words);
    Ok(Some(shell.status().context("sh")?))
}

/// Returns `true` if / is among mount points as of `/proc/PID/mountinfo` (proc(5)), or these are not known.
fn has_mounted_root(mounts: &str) -> bool {
    mounts.is_empty() || mounts.lines().any(|line| line.split(' ').nth(4) == Some("/"))
}

fn is_root() -> bool {
    output_of("id", &["-u"]).is_some_and(|id| id.trim() == "0")
}

/// Debian release of a new root.
const RELEASE: &str = "bookworm";

/// Makes a new Debian with a C compiler alone, and runs a command of Cargo in it with this machine's Rust and what is built here.
///
/// # Errors
/// Returns an error if it cannot be made, or the command fails in it.
pub(crate) fn new_debian(words: &[&str]) -> Result<()> {
    if !is_root() || output_of("debootstrap", &["--version"]).is_none() {
        bail!("a new Debian needs root and debootstrap");
    }
    let folder = std::env::temp_dir().join(format!("bentpipe-debian-{}", std::process::id()));
    let shown = folder.display().to_string();
    let result =
        sh("debootstrap", &["--variant=minbase", "--include=ca-certificates,gcc,libc6-dev", RELEASE, &shown])
            .and_then(|()| visit(&folder, words));
    // Nothing of the machine below it is to be removed with it.
    let _ = Command::new("umount").args(["--recursive", "--quiet", &shown]).status();
    let left = fs::read_to_string("/proc/self/mountinfo")?.contains(&format!(" {shown}"));
    if left {
        bail!("{shown} has mounts that are in use: unmount and remove it by hand");
    }
    fs::remove_dir_all(&folder).context(shown)?;
    result
}

/// Runs a command of Cargo in a root, with the repository and Rust where they are outside.
fn visit(folder: &Path, words: &[&str]) -> Result<()> {
    let home = std::env::var("HOME").context("HOME")?;
    let place =
        |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| format!("{home}/{default}"));
    let (cargo, rustup) = (place("CARGO_HOME", ".cargo"), place("RUSTUP_HOME", ".rustup"));
    let shown = root().canonicalize()?.display().to_string();
    let below = |path: &str| format!("{}{path}", folder.display());
    for path in [&cargo[..], &rustup, &shown, "/dev"] {
        fs::create_dir_all(below(path))?;
        sh("mount", &["--rbind", path, &below(path)])?;
        sh("mount", &["--make-rslave", &below(path)])?;
    }
    sh("mount", &["-t", "proc", "proc", &below("/proc")])?;
    sh("mount", &["-t", "sysfs", "sysfs", &below("/sys")])?;
    reach_network(folder)?;
    let path = format!("PATH={cargo}/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    let homes = [format!("CARGO_HOME={cargo}"), format!("RUSTUP_HOME={rustup}"), format!("HOME={home}")];
    let mut command = vec![below(""), "env".to_owned(), "-C".to_owned(), shown, path];
    command.extend(homes);
    command.push("cargo".to_owned());
    command.extend(words.iter().map(|&word| word.to_owned()));
    sh("chroot", &command.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Gives a root this machine's name servers and its own certificate authorities, which a proxy may need.
fn reach_network(folder: &Path) -> Result<()> {
    let own = "/usr/local/share/ca-certificates";
    fs::copy("/etc/resolv.conf", folder.join("etc/resolv.conf"))?;
    for authority in fs::read_dir(own).into_iter().flatten().flatten() {
        fs::copy(authority.path(), folder.join(&own[1..]).join(authority.file_name()))?;
    }
    sh("chroot", &[&folder.display().to_string(), "update-ca-certificates"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_interrupts_are_seen() {
        assert!(ignores_interrupts("Name:\tx\nSigIgn:\t0000000000001006\n"));
        assert!(!ignores_interrupts("Name:\tx\nSigIgn:\t0000000000001000\n"));
    }

    #[test]
    fn a_plain_folder_as_root_is_seen() {
        let proc = "30 22 0:5 / /proc rw - proc proc rw\n";
        assert!(!has_mounted_root(proc));
        assert!(has_mounted_root(&format!("{proc}22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n")));
    }
}
