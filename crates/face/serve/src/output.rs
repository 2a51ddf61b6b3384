//! Output of running jobs, which counts in their owners' quotas.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most files and folders of a job while it runs.
const MAX_ENTRIES: usize = 200_000;
/// Bytes of a block of `stat` (stat(3type)).
const BLOCK: u64 = 512;

/// Output of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) job: i64,
    /// Number of its owner.
    pub(crate) owner: i64,
    pub(crate) bytes: u64,
}

/// Output of all running jobs, as it was seen last.
#[derive(Debug, Default)]
pub(crate) struct Outputs(Mutex<HashMap<i64, Output>>);

impl Outputs {
    /// Returns the bytes that running jobs of a user have written.
    pub(crate) fn of(&self, user: i64) -> u64 {
        let all = self.lock();
        all.values().filter(|one| one.owner == user).fold(0, |sum, one| sum.saturating_add(one.bytes))
    }

    /// Replaces what is known.
    pub(crate) fn set(&self, all: &[Output]) {
        *self.lock() = all.iter().map(|one| (one.job, *one)).collect();
    }

    /// Forgets a job, whose results are listed.
    pub(crate) fn forget(&self, job: i64) {
        self.lock().remove(&job);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, Output>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the bytes below a job's folder but its inputs.
///
/// `None` if too many files are to be counted. A file counts with its length or its room on the disk, whichever is more. No link is followed.
pub(crate) fn size(folder: &Path, inputs: &str) -> Option<u64> {
    let (mut open, mut entries, mut bytes) = (vec![folder.to_owned()], 0, 0_u64);
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            entries += 1;
            if entries > MAX_ENTRIES {
                return None;
            }
            // What the job removes meanwhile has no size.
            let Ok(found) = entry.metadata() else { continue };
            let path: PathBuf = entry.path();
            match found.is_dir() {
                true if path != folder.join(inputs) => open.push(path),
                true => {}
                false => bytes = bytes.saturating_add(found.len().max(found.blocks() * BLOCK)),
            }
        }
    }
    Some(bytes)
}

/// Returns the job with the largest output, which is ended next.
///
/// While one ends nothing else does.
pub(crate) fn largest<'a>(
    all: impl Iterator<Item = &'a Output> + Clone,
    is_ending: impl Fn(i64) -> bool,
) -> Option<i64> {
    match all.clone().any(|one| is_ending(one.job)) {
        true => None,
        false => all.max_by_key(|one| (one.bytes, one.job)).map(|one| one.job),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_counted_without_inputs_and_links() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        fs::create_dir_all(path.join("results/run/input")).expect("made");
        fs::create_dir(path.join("input")).expect("made");
        fs::write(path.join("input/large"), vec![1; 100_000]).expect("written");
        assert_eq!(size(path, "input"), Some(0));
        fs::write(path.join("results/run/a"), vec![1; 10_000]).expect("written");
        let sparse = fs::File::create(path.join("results/sparse")).expect("made");
        sparse.set_len(1 << 30).expect("set");
        std::os::unix::fs::symlink("/", path.join("results/root")).expect("linked");
        let found = size(path, "input").expect("few");
        assert!(((1 << 30) + 10_000..(1 << 30) + 30_000).contains(&found), "{found}");
        assert_eq!(size(&path.join("none"), "input"), Some(0));
    }

    #[test]
    fn the_largest_output_ends_first_and_one_after_the_other() {
        let all =
            [(1, 7, 10), (2, 7, 500), (3, 8, 50)].map(|(job, owner, bytes)| Output { job, owner, bytes });
        let outputs = Outputs::default();
        outputs.set(&all);
        assert_eq!([7, 8, 9].map(|user| outputs.of(user)), [510, 50, 0]);
        outputs.forget(2);
        assert_eq!(outputs.of(7), 10);
        assert_eq!(largest(all.iter(), |_| false), Some(2));
        assert_eq!(largest(all.iter(), |job| job == 1), None);
        assert_eq!(largest(all.iter().filter(|one| one.owner == 8), |job| job == 1), Some(3));
    }
}
