//! Paths in messages: a user sees those below the own job alone.
//!
//! Libraries name the files that they were given. Their messages pass here on the way to a user: those of work on requests at the end of a
//! child, those of jobs when they are stored.

use std::path::PathBuf;

/// Returns a text in which paths begin below these folders.
pub(crate) fn without(text: &str, folders: &[PathBuf]) -> String {
    let mut folders: Vec<&PathBuf> =
        folders.iter().filter(|folder| folder.is_absolute() && folder.components().count() > 1).collect();
    // What is below another one comes first.
    folders.sort_by_key(|folder| std::cmp::Reverse(folder.as_os_str().len()));
    folders.iter().fold(text.to_owned(), |text, folder| {
        let path = folder.to_string_lossy();
        let text = text.replace(&format!("{path}/"), "");
        match folder.file_name() {
            Some(name) => text.replace(&path[..], &name.to_string_lossy()),
            None => text,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_below_the_folders() {
        let folders = ["/srv/data", "/srv/data/jobs/7/results/run", "/", "data"].map(PathBuf::from);
        for (text, shown) in [
            ("/srv/data/jobs/7/results/run/series.parquet: damaged", "series.parquet: damaged"),
            ("/srv/data/jobs/8/x and /srv/data: no", "jobs/8/x and data: no"),
            ("/etc/passwd, a/b", "/etc/passwd, a/b"),
        ] {
            assert_eq!(without(text, &folders), shown);
        }
    }
}
