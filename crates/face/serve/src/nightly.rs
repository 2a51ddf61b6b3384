//! Backups that the server makes by itself, one a day.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::backup;
use crate::clock::{now_ms, shown};
use crate::log;
use crate::store::Result;

/// Number of backups that are kept.
const KEPT: usize = 7;

/// Backs up once a day, and removes the oldest backups.
pub(crate) fn back_up(data: &Path) {
    if let Err(error) = back_up_at(data, now_ms()) {
        log::line(&format!("error: backup: {error}"));
    }
}

fn back_up_at(data: &Path, now: i64) -> Result<()> {
    let folder = &data.join("backups");
    let name = format!("{}.sqlite", &shown(now)[..10]);
    let path = folder.join(&name);
    if path.exists() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    backup::make(&data.join("data.sqlite"), &path)?;
    let all = backup::list(folder);
    let surplus = all.len().saturating_sub(KEPT);
    all[..surplus].iter().try_for_each(|path| backup::remove(path))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::setup;
    use crate::store::{Store, StoreError, audit, people};

    #[test]
    fn a_backup_a_day_is_kept_for_a_week_and_can_be_restored() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(&folder.path().join("data.sqlite")).expect("opens");
        let backups = folder.path().join("backups");
        for day in 0..9_i64 {
            store.write(|db| people::add(db, &format!("user{day}"), "x", 1)).expect("added");
            for hour in [1, 5] {
                back_up_at(folder.path(), (day * 24 + hour) * 3_600_000).expect("backed up");
            }
        }
        let mut names: Vec<_> =
            fs::read_dir(&backups).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        assert_eq!(names.len(), 2 * KEPT, "each with its hash");
        assert_eq!((&names[0], &names[12]), (&"1970-01-03.sqlite".into(), &"1970-01-09.sqlite".into()));
        assert_eq!(names[1], "1970-01-03.sqlite.sha256");
        for path in backup::list(&backups) {
            backup::check(&path, backup::Proof::Required).expect("whole");
        }
        // The key of the audit log is not in a backup.
        let elsewhere = tempfile::tempdir().expect("a folder");
        fs::copy(folder.path().join("audit.key"), elsewhere.path().join("audit.key")).expect("copied");
        setup::restore(
            elsewhere.path(),
            &backups.join("1970-01-03.sqlite"),
            backup::Proof::Required,
            setup::Logins::Keep,
        )
        .expect("restored");
        let restored = Store::open(&elsewhere.path().join("data.sqlite")).expect("opens");
        assert_eq!(restored.read(people::count).expect("counted"), 3);
        let broken = restored.read(|db| audit::broken_at(db).map_err(|error: StoreError| error));
        assert_eq!(broken.expect("read"), None);
    }
}
