//! Backups that the server makes by itself, one a day.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use crate::clock::{now_ms, shown};
use crate::log;
use crate::store::{Result, Store};

/// Number of backups that are kept.
const KEPT: usize = 7;

/// Backs up once a day, and removes the oldest backups.
pub(crate) fn back_up(store: &Store, data: &Path) {
    if let Err(error) = back_up_at(store, &data.join("backups"), now_ms()) {
        log::line(&format!("error: backup: {error}"));
    }
}

fn back_up_at(store: &Store, folder: &Path, now: i64) -> Result<()> {
    let name = format!("{}.sqlite", &shown(now)[..10]);
    let path = folder.join(&name);
    if path.exists() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Under another name until it is verified, so that a crash leaves no half of one.
    let unfinished = folder.join("unfinished");
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    store.back_up(&unfinished)?;
    fs::set_permissions(&unfinished, Permissions::from_mode(0o600))?;
    fs::rename(&unfinished, &path)?;
    let mut all: Vec<_> = fs::read_dir(folder)?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "sqlite"))
        .collect();
    all.sort();
    let surplus = all.len().saturating_sub(KEPT);
    all[..surplus].iter().try_for_each(fs::remove_file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{StoreError, audit, people};

    #[test]
    fn a_backup_a_day_is_kept_for_a_week_and_can_be_restored() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(&folder.path().join("data.sqlite")).expect("opens");
        let backups = folder.path().join("backups");
        for day in 0..9_i64 {
            store.write(|db| people::add(db, &format!("user{day}"), "x", 1)).expect("added");
            for hour in [1, 5] {
                back_up_at(&store, &backups, (day * 24 + hour) * 3_600_000).expect("backed up");
            }
        }
        let mut names: Vec<_> =
            fs::read_dir(&backups).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        assert_eq!(names.len(), KEPT);
        assert_eq!((&names[0], &names[6]), (&"1970-01-03.sqlite".into(), &"1970-01-09.sqlite".into()));
        let restored = Store::open(&backups.join("1970-01-03.sqlite")).expect("opens");
        assert_eq!(restored.read(people::count).expect("counted"), 3);
        let broken = restored.read(|db| audit::broken_at(db).map_err(|error: StoreError| error));
        assert_eq!(broken.expect("read"), None);
    }
}
