//! Files that a confined process can open (Landlock).

use std::io;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

/// Latest interface of the kernel that is asked for. Older kernels restrict less.
const INTERFACE: ABI = ABI::V6;

/// Returns `true` if the kernel can restrict a process to files.
pub fn has_landlock() -> bool {
    let required = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    required.handle_access(AccessFs::from_all(ABI::V1)).and_then(Ruleset::create).is_ok()
}

/// Files and folders, with all below, that can be opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Files and folders to read and execute.
    pub readable: Vec<PathBuf>,
    /// Files to write, and folders to make and remove files in.
    pub writable: Vec<PathBuf>,
    /// Set if TCP connections may be made and awaited at new ports.
    pub has_tcp: bool,
}

impl Files {
    /// Returns `true` if the kernel restricts the process to the files. Files that do not exist are left out.
    pub(super) fn restrict(&self) -> io::Result<bool> {
        self.enforce().map_err(io::Error::other)
    }

    fn enforce(&self) -> Result<bool, RulesetError> {
        let mut rules = Ruleset::default().handle_access(AccessFs::from_all(INTERFACE))?;
        if !self.has_tcp {
            rules = rules.handle_access(AccessNet::from_all(INTERFACE))?;
        }
        let mut rules = rules.scope(Scope::from_all(INTERFACE))?.create()?;
        let rights = [
            (&self.readable, AccessFs::from_read(INTERFACE)),
            (&self.writable, AccessFs::from_all(INTERFACE)),
        ];
        for (paths, access) in rights {
            for path in paths {
                let Ok(file) = PathFd::new(path) else { continue };
                let access = if path.is_dir() { access } else { access & AccessFs::from_file(INTERFACE) };
                rules = rules.add_rule(PathBeneath::new(file, access))?;
            }
        }
        Ok(rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
    }
}
